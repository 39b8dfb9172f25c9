"""``--factors``: which commands take remainders, and what they say of them."""

import json
from pathlib import Path

import pytest

from model.extents import FACTORS
from solver.cli.arguments import parse_arguments
from solver.cli.certify import reproducing_command
from solver.cli.main import main
from tests.solver.examples import OPTIMAL
from tests.solver.explain.row import edited

TIGHT = ("P=1]}\n        - !Component", "P=1, C=4, R=3]}\n        - !Component")
ANY = ("--factors", "any")
MAPPING = str(Path(__file__).parent / "data" / "row_mapping.yaml")


@pytest.fixture
def row(working_directory):
    def write(*edits):
        Path("row.yaml").write_text(edited(*edits), encoding="utf-8")
        return "row.yaml"

    return write


def document():
    return json.loads(Path("out.json").read_text(encoding="utf-8"))


FEWER = ("P: 4, C: 4, M: 6", "P: 2, C: 2, M: 5")


@pytest.mark.parametrize(
    "command",
    ["map", "map --pareto", "compare --mappers random --evaluations 20", "network", "explain", "sweep"],
)
def test_searches_take_remainders(command, row):
    more = ("--set-attribute", "PE.meshX=4") if command == "sweep" else ()
    assert main([*command.split(), row(FEWER), *ANY, *more, "--json", "out.json"]) == 0
    assert command in ("sweep", "network") or document()["factors"] == "any"


def test_an_optimum_with_remainders_is_proven_to_the_checker(row, capsys):
    assert main(["prove", row(FEWER), *ANY, "--objective", "energy"]) == 0
    assert "VALID" in capsys.readouterr().out


def test_what_remainders_save_is_said(row, capsys):
    assert main(["map", row(FEWER), *ANY, "--objective", "energy", "--json", "out.json"]) == 0
    perfect = document()["perfect_factors"]
    assert perfect["status"] == "OPTIMAL"
    assert perfect["value"] == perfect["bound"] >= document()["value"]
    assert "remainders save" in capsys.readouterr().out


@pytest.mark.parametrize("command", ["map", "network", "compare"])
def test_only_the_exact_rule_counts_remainders(command, row, capsys):
    assert main([command, row(FEWER), *ANY, "--counting", "timeloop"]) == 2
    error = capsys.readouterr().err
    assert "the rule `timeloop` does not count remainders" in error
    assert "--counting exact, or --factors perfect" in error


def test_assign_needs_methods(row, capsys):
    assert main(["assign", row(), *ANY]) == 2
    assert "--factors needs --methods" in capsys.readouterr().err


@pytest.mark.parametrize("kind", FACTORS)
def test_conflicts_are_explained(kind, row):
    assert main(["explain", row(TIGHT), "--factors", kind, "--json", "out.json"]) == 4
    found = document()
    (reason,) = found["reasons"]
    assert (found["factors"], found["status"]) == (kind, "INFEASIBLE")
    # 8 words hold 2 x 4 weights, or 3 x 2: M and R are 6 and 3.
    assert "C=2 instead of C=4 in the temporal loops of `weight_spad`" in [
        lever["text"] for lever in reason["levers"]
    ]


def test_an_evaluation_of_refused_constraints_has_the_reasons(row):
    assert main(["evaluate", row(TIGHT), "--mapping", MAPPING, *ANY, "--json", "out.json"]) == 4
    assert (document()["factors"], bool(document()["reasons"])) == ("any", True)


def test_check_counts_more_mappings(row, capsys):
    shown = []
    for kind in FACTORS:
        assert main(["check", row(), "--factors", kind]) == 0
        shown.append("Factorizations with remainders" in capsys.readouterr().out)
    assert shown == [kind == "any" for kind in FACTORS]


def test_a_certificate_names_the_kind():
    words = ["map", "spec.yaml", "--factors", "perfect"]
    assert " ".join(words[2:]) in " ".join(reproducing_command(OPTIMAL, parse_arguments(words)))
