"""README's commands and links name things that exist."""

import re

from solver.cli.arguments import parse_arguments
from solver.cli.main import main
from tests.conftest import REPOSITORY

TEXT = (REPOSITORY / "README.md").read_text(encoding="utf-8")
ONE_LINERS = re.findall(r"^python3 -m venv \.venv && .*$", TEXT, flags=re.MULTILINE)


def test_there_are_two_commands_to_start_with():
    first, second = ONE_LINERS
    assert first.split(" && ")[1] == ".venv/bin/pip install -q ."
    assert second.split(" && ")[1:] == [".venv/bin/pip install -q '.[test]'", ".venv/bin/python -m pytest"]


def test_the_first_command_maps_files_that_exist():
    arguments = parse_arguments(ONE_LINERS[0].partition(" -m solver ")[2].split())
    assert arguments.command == "map"
    assert all((REPOSITORY / spec).is_file() for spec in arguments.specs)


def test_links_lead_somewhere():
    for target in re.findall(r"\]\(([^)]+)\)", TEXT):
        assert (REPOSITORY / target).exists()


def test_the_first_command_prints_what_is_shown(capsys, monkeypatch):
    monkeypatch.chdir(REPOSITORY)
    assert main(ONE_LINERS[0].partition(" -m solver ")[2].split()) == 0
    printed = re.sub(r"[\d,]+ states, .*", "...", capsys.readouterr().out)
    assert printed in re.sub(r"[\d,]+ states, .*", "...", TEXT)
