"""docs/tiling.md: its keys are those of the JSON, its examples run."""

import json
import re

import pytest

from model.formats.backends import load_backend
from solver.__main__ import main
from tests.conftest import REPOSITORY

TEXT = (REPOSITORY / "docs" / "tiling.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^tilewright (tile --operator [^#\n]+)", TEXT, flags=re.MULTILINE)


def _block(language: str) -> str:
    (text,) = re.findall(rf"```{language}\n(.*?)```", TEXT, flags=re.DOTALL)
    return text


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_run_and_all_keys_are_documented(command, capsys):
    assert main([*command.split(), "--json", "-"]) == 0
    document = json.loads(capsys.readouterr().out)
    keys = TEXT.split("## JSON")[1]
    for key in (*document, *document["tiles"]["inputs"], *document["tiles"]):
        assert f"`{key}`" in keys


def test_there_are_commands():
    assert len(COMMANDS) == 5


def test_the_python_example_runs():
    exec(_block("python"), {})


def test_the_backend_is_one(tmp_path):
    path = tmp_path / "backend.yaml"
    path.write_text(_block("yaml"), encoding="utf-8")
    assert load_backend(str(path)).name == "smv"
