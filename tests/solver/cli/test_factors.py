"""``--factors``: which commands take remainders, and what they say of them."""

import json
from pathlib import Path

import pytest

from model.extents import FACTORS
from solver import stages
from solver.cli import commands
from solver.cli.arguments import parse_arguments
from solver.cli.certificates import reproducing_command
from solver.cli.main import main
from solver.exit_codes import EXIT_FEASIBLE, EXIT_OPTIMAL
from solver.search import mapper
from tests.solver.examples import OPTIMAL
from tests.solver.explain.row import edited

TIGHT = ("P=1]}\n        - !Component", "P=1, C=4, R=3]}\n        - !Component")
ANY = ("--factors", "any")
PROVEN = ("--time-limit", "none")
MAPPING = str(Path(__file__).parent / "data" / "row_mapping.yaml")


@pytest.fixture
def row(working_directory):
    def write(*edits):
        Path("row.yaml").write_text(edited(*edits), encoding="utf-8")
        return "row.yaml"

    return write


def document():
    return json.loads(Path("out.json").read_text(encoding="utf-8"))


ENDS = (
    "stopped by the default limit of 10 s on each search for remainders (--time-limit none: run until proven;"
)
MORE = {"sweep": ("--set-attribute", "PE.meshX=4"), "compare": ("--mappers", "random", "--evaluations", "20")}
BOUNDS = "R: 3, P: 4, C: 4, M: 6"
FEWER, FEWEST = ((BOUNDS, bounds) for bounds in ("R: 3, P: 2, C: 2, M: 3", "R: 1, P: 2, C: 1, M: 3"))
LONG = ("map --pareto", "explain")  # commands that search many times


@pytest.mark.parametrize(
    "command",
    ["map", "map --pareto", "compare", "network", "explain", "sweep"],
)
def test_searches_take_remainders_by_default(command, row):
    bounds = FEWEST if command in LONG else FEWER
    assert main([*command.split(), row(bounds), *MORE.get(command, ()), *PROVEN, "--json", "out.json"]) == 0
    assert command in ("sweep", "network") or document()["factors"] == "any"


@pytest.mark.parametrize(
    "command", ["map", "map --pareto", "map --engine cp-sat", "compare", "network", "sweep"]
)
def test_without_a_time_limit_searches_with_remainders_end(command, row, capsys, monkeypatch):
    for module in (mapper, stages):
        monkeypatch.setattr(module, "REMAINDERS_S", 0.0)
    bounds = FEWEST if command in LONG else FEWER
    words = [*command.split(), row(bounds), *MORE.get(command, ()), "--jobs", "1"]
    assert main([*words, "--json", "out.json"]) == EXIT_FEASIBLE
    assert ENDS in " ".join(capsys.readouterr().out.split())
    if command.startswith("map"):
        assert document()["termination"] == "REMAINDER_LIMIT"
        assert "pareto" in command or document()["perfect_factors"]["status"] == "OPTIMAL"
    if "cp-sat" not in command:  # which takes seconds
        assert main([*words, "--time-limit", "none"]) == EXIT_OPTIMAL


@pytest.mark.parametrize(
    ("words", "what"),
    [(["map", "--sensitivity"], "limits are varied"), (["explain"], "constraint costs are computed")],
)
def test_many_searches_leave_remainders_out_where_one_takes_too_long(words, what, row, capsys, monkeypatch):
    monkeypatch.setattr(mapper, "REMAINDERS_S", 0.0)
    monkeypatch.setattr(commands, "explain_options", commands.search_options)  # without a time limit
    words = [*words, row(FEWER), "--objective", "energy"]
    assert main([*words, "--json", "out.json"]) in (EXIT_FEASIBLE, EXIT_OPTIMAL)
    assert f"{what} over mappings without remainders" in " ".join(capsys.readouterr().out.split())
    found = document()
    searches = found["sensitivity"] if "map" in words else [found]
    assert {search["status"] for search in searches} <= {"OPTIMAL", "INFEASIBLE"}
    assert "map" in words or found["factors"] == "perfect"
    main([*words, "--factors", "any"])
    assert "among mappings without" not in capsys.readouterr().out


@pytest.mark.parametrize("words", [["prove"], ["map", "--certificate", "proof.json"]])
def test_certificates_are_searched_to_the_proof(words, row, capsys, monkeypatch):
    monkeypatch.setattr(mapper, "REMAINDERS_S", 0.0)
    assert main([*words, row(FEWEST), "--objective", "energy"]) == EXIT_OPTIMAL
    assert ("VALID" in capsys.readouterr().out) == ("prove" in words)


def test_under_rules_the_best_mapping_without_remainders_comes_first(row, monkeypatch):
    """Bounds know one part of the rule only, and CP-SAT decides."""
    rule = "tile(buffer, C) == 1 and (temporal(buffer, M) >= 1 or tile(buffer, M) > 0)"
    Path("rule.yaml").write_text(f"mapspace: {{rules: ['{rule}']}}\n", encoding="utf-8")
    spec = row((BOUNDS, "R: 1, P: 1, C: 2, M: 2"))
    words = ["map", spec, "rule.yaml", "--objective", "energy", "--json", "out.json"]
    assert main([*words, *PROVEN]) == EXIT_OPTIMAL
    best = document()
    assert (best["factors"], best["perfect_factors"]["status"]) == ("any", "OPTIMAL")
    monkeypatch.setattr(stages, "REMAINDERS_S", 0.0)
    assert main(words) == EXIT_FEASIBLE
    assert document()["termination"] == "REMAINDER_LIMIT"
    assert document()["value"] == best["perfect_factors"]["value"] >= best["value"]


def test_what_remainders_save_is_said(row, capsys):
    bounds = (BOUNDS, "R: 1, P: 3, C: 1, M: 5")
    assert main(["map", row(bounds), *ANY, *PROVEN, "--objective", "energy", "--json", "out.json"]) == 0
    perfect = document()["perfect_factors"]
    assert perfect["status"] == "OPTIMAL"
    assert perfect["value"] == perfect["bound"] >= document()["value"]
    assert "remainders reduce" in capsys.readouterr().out


@pytest.mark.parametrize("command", ["map", "network", "compare"])
def test_only_the_exact_rule_counts_remainders(command, row, capsys):
    assert main([command, row(FEWER), *ANY, "--counting", "timeloop"]) == 2
    error = capsys.readouterr().err
    assert "the rule `timeloop` does not support remainders" in error
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
