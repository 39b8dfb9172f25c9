"""The command ``compare`` end to end."""

import csv
import json
from pathlib import Path

import pytest

from solver.cli.arguments import parse_arguments
from solver.cli.main import main

SPEC = str(Path(__file__).parent / "data" / "row.yaml")
FAST = ["--jobs", "1", "--evaluations", "500"]


def test_everything_known_runs_and_is_written(tmp_path, capsys):
    out, table = tmp_path / "out.json", tmp_path / "out.csv"
    words = ["compare", SPEC, *FAST, "--seed", "3", "--objective", "energy"]
    assert main([*words, "--json", str(out), "--csv", str(table)]) == 0
    document = json.loads(out.read_text())
    names = [own["name"] for own in document["mappers"]]
    assert names[:2] == ["random", "linear-pruned"]
    assert (document["case"], document["seed"], document["objective"]) == ("row", 3, "energy")
    assert all(own["ratio"] is None or own["ratio"] >= 1 for own in document["mappers"])
    assert len(list(csv.DictReader(table.open()))) == 1 + len(names)
    text = capsys.readouterr().out
    assert all(name in text for name in ("tilewright", *names))
    assert text.splitlines()[0].startswith("OPTIMAL energy")


def test_options_reach_the_mappers(tmp_path):
    out = tmp_path / "out.json"
    words = ["compare", SPEC, "--mappers", "random", "--option", "random.victory_condition=20"]
    assert main([*words, "--jobs", "1", "--json", str(out)]) == 0
    (own,) = json.loads(out.read_text())["mappers"]
    assert 20 <= own["valid"] < 5000


def test_stdout_holds_the_csv_alone(capsys):
    assert main(["compare", SPEC, *FAST, "--mappers", "random", "--csv", "-"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(",")[0] for line in lines] == ["case", "row", "row"]


def test_a_failing_mapper_shows_its_traceback_and_the_others_still_run(tmp_path, monkeypatch, capsys):
    (tmp_path / "failing_mapper.py").write_text(
        "class Failing:\n    def find_mapping(self, m, p):\n        raise KeyError('oops')\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    words = ["compare", SPEC, *FAST, "--mappers", "random", "--mapper", "failing_mapper:Failing"]
    assert main(words) == 0
    captured = capsys.readouterr()
    assert "failing_mapper:Failing: failed: KeyError: 'oops'" in captured.out
    assert "Traceback" in captured.err


def test_a_picture_is_drawn(tmp_path):
    picture = tmp_path / "out.svg"
    assert main(["compare", SPEC, *FAST, "--mappers", "random", "--plot", str(picture)]) == 0
    text = picture.read_text()
    assert text.startswith("<svg ")
    assert "random: " in text and ">optimum<" in text


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--mappers", "rndom"], "did you mean 'random'"),
        (["--mappers", ""], "no mapper is given; known mappers are "),
        (["--mapper", "nothing"], "not of the form module:Class"),
        (["--mappers", "random", "--option", "greedy.descents=2"], "no mapper 'greedy' runs"),
        (["--plot", "out.gif"], ".png, .svg, .pdf"),
        (["--plot", "-"], "cannot be written to stdout"),
        (["--json", "-", "--csv", "-"], "the same path"),
    ],
)
def test_wrong_input_is_one_message_and_exit_code_two(words, message, capsys):
    assert main(["compare", SPEC, *words]) == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert captured.out == ""


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--mappers", "random,,greedy"], "list of distinct names"),
        (["--mappers", "random,random"], "list of distinct names"),
        (["--option", "random=3"], "MAPPER.NAME=VALUE"),
        (["--option", "random.timeout"], "MAPPER.NAME=VALUE"),
        (["--budget", "-1"], "must not be negative"),
        (["--evaluations", "0"], "positive integer"),
    ],
)
def test_wrong_arguments_are_refused(words, message, capsys):
    with pytest.raises(SystemExit) as stop:
        parse_arguments(["compare", SPEC, *words])
    assert stop.value.code == 2
    assert message in capsys.readouterr().err


def test_option_values_are_numbers_where_they_can_be():
    words = ["--option", "a.x=3", "--option", "my.module:C.y=0.5", "--option", "a.z=fast"]
    assert parse_arguments(["compare", SPEC, *words]).mapper_options == [
        ("a", "x", 3),
        ("my.module:C", "y", 0.5),
        ("a", "z", "fast"),
    ]
