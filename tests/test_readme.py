"""README's commands, links, picture and example; and the tables of the command line."""

import math
import re

import pytest

from solver import exit_codes, stages
from solver.__main__ import TRACEBACK
from solver.cli.arguments import build_parsers, parse_arguments
from solver.cli.main import main
from solver.result import Status
from tests.conftest import REPOSITORY

TEXT = (REPOSITORY / "README.md").read_text(encoding="utf-8")
COMMANDS = (REPOSITORY / "docs" / "command-line.md").read_text(encoding="utf-8")
PICTURE = "docs/images/mapping.svg"
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


@pytest.fixture
def endless_patience(patience, monkeypatch):
    """On a busy machine, too, the mapping that is shown is the one that bounds find."""
    monkeypatch.setattr(stages, "PATIENCE_S", math.inf)


@pytest.mark.usefixtures("endless_patience")
def test_the_first_command_prints_what_is_shown(capsys, monkeypatch):
    monkeypatch.chdir(REPOSITORY)
    assert main(ONE_LINERS[0].partition(" -m solver ")[2].split()) == 0
    time = r"[\d.]+ s$"
    printed = re.sub(time, "TIME", capsys.readouterr().out, flags=re.MULTILINE)
    assert printed in re.sub(time, "TIME", COMMANDS, flags=re.MULTILINE)


@pytest.mark.usefixtures("patience")
def test_the_fused_cascade_is_proven_as_shown(capsys, monkeypatch):
    monkeypatch.chdir(REPOSITORY)
    command, shown = re.search(
        r"tilewright (network .* --fuse)\n```\n\n```\n(.*?)```", TEXT, flags=re.DOTALL
    ).groups()
    assert main(command.split()) == 0
    assert capsys.readouterr().out.startswith(shown)


@pytest.mark.usefixtures("endless_patience")
def test_the_picture_is_the_one_that_is_drawn(tmp_path, monkeypatch):
    monkeypatch.chdir(REPOSITORY)
    drawn = tmp_path / "mapping.svg"
    words = ONE_LINERS[0].partition(" -m solver ")[2].split()
    assert main([*words, "--quiet", "--plot", str(drawn)]) == 0
    assert f"]({PICTURE})" in TEXT
    assert drawn.read_bytes() == (REPOSITORY / PICTURE).read_bytes()


def rows(head):
    """The first cells of the table of commands, options or exit codes that begins with `head`."""
    table = COMMANDS[COMMANDS.index(f"| {head} |") :].split("\n\n")[0]
    return [line.split(" | ")[0].removeprefix("| ") for line in table.splitlines()[2:]]


@pytest.mark.usefixtures("patience")
def test_the_example_prints_what_is_shown(monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(REPOSITORY)
    ((example, shown),) = re.findall(r"```python\n(.*?)```\n\n```\n(.*?)```", TEXT, flags=re.DOTALL)
    example = example.replace('"product.html"', f'"{tmp_path}/product.html"')
    names = {}
    exec(compile(example, "README.md", "exec"), names)
    assert names["result"].status is Status.OPTIMAL
    assert capsys.readouterr().out == shown
    value = names["result"].value
    architecture = 'arch="output_stationary"'
    assert architecture in example
    divisors = example.replace(architecture, f'{architecture}, factors="perfect"')
    exec(compile(divisors, "README.md", "exec"), names)
    assert f"has a {100 * (1 - value / names['result'].value):.0f} % lower EDP" in " ".join(TEXT.split())


def test_all_commands_are_named():
    _, commands = build_parsers()
    assert {cell.split()[0].strip("`") for cell in rows("`tilewright` ...")} == set(commands)


def test_options_that_are_named_exist():
    _, commands = build_parsers()
    named = re.findall(r"--[a-z-]+", " ".join(rows("option")))
    assert len(named) > 5
    for option in named:
        other = re.search(rf"`{option}[^`]*` \| \(`(\w+)", COMMANDS)
        assert option in commands[other[1] if other else "map"]._option_string_actions


def test_all_exit_codes_are_named():
    codes = sorted(value for name, value in vars(exit_codes).items() if name.startswith("EXIT_"))
    assert [int(cell) for cell in rows("exit code")] == codes
    assert re.findall(r"^ {2}(\d+) ", exit_codes.MEANINGS, flags=re.MULTILINE) == list(map(str, codes))
    assert TRACEBACK in COMMANDS
