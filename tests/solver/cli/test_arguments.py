"""Arguments: what is accepted, and what is refused with exit code 2."""

import sys
from pathlib import Path

import pytest

from solver.cli.arguments import parse_arguments
from tests.conftest import REPOSITORY
from tests.solver.golden import assert_golden

SEEDED = [[*words, "--seed", "1"] for words in (["a"], ["explain", "a"], ["prove", "a"], ["network", "a"])]


def test_map_is_the_default_command():
    assert parse_arguments(["a.yaml", "--jobs", "3"]) == parse_arguments(["map", "a.yaml", "--jobs", "3"])


def test_options_may_stand_between_specs():
    parsed = parse_arguments(["map", "a.yaml", "--set", "x=1", "b.yaml", "--set", "y=p=q", "c.yaml"])
    assert parsed.specs == [Path("a.yaml"), Path("b.yaml"), Path("c.yaml")]
    assert parsed.variables == ["x=1", "y=p=q"]


def test_objectives_are_a_list_in_order():
    assert parse_arguments(["a", "--objective", "latency,energy"]).objective == ("latency", "energy")
    assert parse_arguments(["a"]).objective is None


def test_limits_have_the_type_of_their_default():
    parsed = parse_arguments(["a", "--limit", "nodes=5", "--limit", "seconds=2"])
    assert parsed.limits == [("nodes", 5), ("seconds", 2.0)]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "nothing to do: give SPEC files or a command\nhelp: `python -m solver --help`"),
        (["--jobs", "2", "check", "a.yaml"], "the command 'check' must come first"),
        (["a.yaml", "explain"], "the command 'explain' must come first"),
        (["map"], "SPEC\nhelp: `python -m solver map --help`"),
        (["a", "--objective", "power"], "unknown objective 'power'; choose from energy, latency, edp\nhelp"),
        (
            ["a", "--objective", "energy,delay"],
            "unknown objective 'delay'; choose from energy, latency, edp; did",
        ),
        (["a", "--objective", "delay"], "; did you mean 'latency'?"),
        (["a", "--objective", "EDP"], "; did you mean 'edp'?"),
        (["a", "--objective", "enrgy"], "; did you mean 'energy'?"),
        (["a", "--objective", "last-level-accesses"], "; `accesses` is not an objective"),
        (
            ["assign", "a", "--objective", "delay"],
            "'delay' is not energy or latency; did you mean 'latency'?",
        ),
        (["a", "--objective", "edp,edp"], "once each"),
        (["a", "--time-limit", "nan"], "'nan' is not a number of seconds"),
        (["a", "--time-limit", "soon"], "'soon' is not a number of seconds"),
        (["a", "--jobs", "0"], "'0' is not a positive integer"),
        (["a", "--memory-limit", "-1"], "must not be negative, but is '-1'"),
        (["a", "--jobs", "9" * 5000], f"'{'9' * 60}'... has more than 18 digits"),
        (["compare", "a", "--seed", "9" * 5000], "'... is not an integer from 0 to 2147483647"),
        *((own, "this search draws no random numbers, so a seed has no effect") for own in SEEDED),
        ([""], "argument SPEC: the path is empty"),
        (["a", "--json", ""], "argument --json: the path is empty"),
        (["network", "a", "--cache", ""], "argument --cache: the path is empty"),
        (["sweep", "a", "--architectures", "b", ""], "argument --architectures: the path is empty"),
        (["compare", "a", "--seed", "-5"], "must not be negative, but is '-5'"),
        (["assign", "a", "--seed", "2147483648"], "is not an integer from 0"),
        (["a", "--limit", "node=5"], "there is no limit 'node'"),
        (["a", "--limit", "nodes"], "'' is not a positive integer"),
        (["a", "--limit", "nodes=1e6"], "'1e6' is not a positive integer"),
        (["a", "--limit", "seconds=-1"], "must not be negative, but is '-1'"),
        (["a", "--allow-include", "absent"], "there is no directory 'absent'"),
        (["a", "--allow-include", ""], "there is no directory ''"),
        (["a", "--allow-include", "d" * 5000], "there is no directory"),
        (["network", "a", "--cluster", "host"], "'host' is not an address such as tcp://host:8786"),
        (["network", "a", "--cluster", "tcp://host"], "'tcp://host' is not an address"),
        (["network", "a", "--cluster", ":8786"], "':8786' is not an address"),
        (["sweep", "a", "--cluster", "host:port"], "'host:port' is not an address"),
        (["a", "--bogus"], "error: unrecognized arguments: --bogus\nhelp: `python -m solver map --help`"),
        (["a", "--\x1b[2J"], "error: unrecognized arguments: --\ufffd[2J\nhelp: "),
        (["a", "--obj", "energy"], "help: did you mean '--objective'?"),
        (["a", "--timelimit=3"], "help: did you mean '--time-limit'?"),
        (["a", "--time-limit", "--jobs", "3"], "expected one argument\nhelp: `python"),
        (["check", "a", "--json", "x"], "unrecognized arguments"),
    ],
)
def test_wrong_arguments_end_with_two(words, message, capsys):
    with pytest.raises(SystemExit) as ended:
        parse_arguments(words)
    assert ended.value.code == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert captured.err.startswith("error: ")
    assert captured.out == ""


@pytest.mark.parametrize(
    "command",
    [
        "",
        "map",
        "evaluate",
        "check",
        "compare",
        "tile",
        "assign",
        "prove",
        "explain",
        "network",
        "sweep",
        "bound",
    ],
)
def test_help(command, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    with pytest.raises(SystemExit) as ended:
        parse_arguments([*command.split(), "--help"])
    assert ended.value.code == 0
    text = capsys.readouterr().out
    for code in ("0 ", "2 ", "3 ", "4 ", "5 ", "130 "):
        assert f"\n  {code}" in text
    # Python 3.13 names the value of options with two names once.
    if command != "tile" or sys.version_info < (3, 13):
        assert_golden(f"help_{command or 'all'}.txt", text)


def test_a_misspelt_command_is_not_taken_for_a_file(capsys):
    with pytest.raises(SystemExit) as stopped:
        parse_arguments(["evalute", "spec.yaml"])
    assert stopped.value.code == 2
    assert "did you mean the command 'evaluate'?" in capsys.readouterr().err


def test_help_is_an_option(capsys):
    with pytest.raises(SystemExit) as stopped:
        parse_arguments(["help"])
    assert stopped.value.code == 2
    assert "did you mean --help?" in capsys.readouterr().err


def test_shipped_specs_are_found_from_everywhere(working_directory):
    name = "specs/architectures/eyeriss_like.yaml"
    words = ["sweep", name, "specs/absent.yaml", "--architectures", name, "--workloads", "specs"]
    parsed = parse_arguments(words)
    shipped = REPOSITORY / name
    assert parsed.specs == [shipped, Path("specs/absent.yaml")]
    assert (parsed.architectures, parsed.workloads) == ([shipped], [REPOSITORY / "specs"])
    Path("specs").mkdir()
    assert parse_arguments(["map", "specs"]).specs == [Path("specs")]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["map", "a.yaml", "--objective", "energy", "latency"],
            "objectives by commas: --objective energy,latency",
        ),
        (["tile", "--operator", "conv"], "; did you mean 'convolution'?"),
        (["tile", "--operator", "sofmax"], "; did you mean 'softmax'?"),
        (["tile", "--operator", ""], "'' is not one of convolution, "),
    ],
)
def test_slips_get_a_suggestion(words, message, capsys):
    with pytest.raises(SystemExit):
        parse_arguments(words)
    assert message in capsys.readouterr().err
