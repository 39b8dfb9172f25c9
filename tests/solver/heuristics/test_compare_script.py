"""The script that compares mappers over the benchmark's cases."""

import json
import runpy
import sys

import pytest

from solver.cli.output import OutputError
from solver.heuristics.interface import MapperError
from tests.conftest import REPOSITORY

SCRIPT = runpy.run_path(str(REPOSITORY / "scripts" / "compare.py"))


def run(monkeypatch, *words):
    monkeypatch.setattr(sys, "argv", ["compare.py", *words])
    SCRIPT["main"]()


def test_every_objective_is_compared_and_the_means_come_last(tmp_path, monkeypatch, capsys):
    out = tmp_path / "out.json"
    case = "simba_like/attention/bert_large_qk"
    run(monkeypatch, "--only", case, "--objectives", "energy,edp", "--mappers", "smaug", "--json", str(out))
    comparisons = json.loads(out.read_text())["comparisons"]
    assert [(own["case"], own["objective"]) for own in comparisons] == [(case, "energy"), (case, "edp")]
    assert "Geometric means over 2 comparisons" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("--csv", "/no/such/directory/out.csv"), OutputError),
        (("--mappers", "gredy"), MapperError),
        (("--time-limit", "-1"), SystemExit),
        (("--objectives", "speed"), SystemExit),
    ],
)
def test_what_is_wrong_is_said_before_the_first_case(words, error, monkeypatch, capsys):
    with pytest.raises(error):
        run(monkeypatch, *words)
    assert capsys.readouterr().out == ""
