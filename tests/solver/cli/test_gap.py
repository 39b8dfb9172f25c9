"""``--gap``: searches that may end before the proof, and the exit code of what they find."""

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest

from model.extents import ANY
from solver import Options, Termination
from solver.cli.main import main
from solver.exit_codes import EXIT_INVALID, EXIT_OPTIMAL
from solver.pareto import pareto_front
from solver.stages import map_einsum
from tests.solver.explain.row import edited, mapspace_of

SPARSE = str(Path(__file__).parent / "data" / "sparse_gemm.yaml")
BOUNDS = "R: 3, P: 4, C: 4, M: 6"
AWKWARD, FEWEST = ((BOUNDS, bounds) for bounds in ("R: 3, P: 7, C: 5, M: 9", "R: 1, P: 3, C: 1, M: 5"))


@pytest.fixture
def row(working_directory):
    Path("row.yaml").write_text(edited(AWKWARD), encoding="utf-8")
    return "row.yaml"


def document():
    return json.loads(Path("out.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize(("engine", "gap"), [("bounds", "0.9"), ("auto", "90%"), ("cp-sat", "0.9")])
def test_a_wide_gap_ends_a_search_with_success(engine, gap, row, capsys):
    words = ["map", row, "--engine", engine, "--jobs", "1", "--gap", gap, "--json", "out.json"]
    assert main(words) == EXIT_OPTIMAL
    found, printed = document(), " ".join(capsys.readouterr().out.split())
    assert (found["status"], found["termination"]) == ("FEASIBLE", "GAP")
    assert 0 < found["gap"] <= 0.9
    assert printed.startswith("FEASIBLE")
    assert "within the requested gap" in printed


def test_the_exit_code_without_a_requested_gap_says_that_nothing_is_proven(row):
    assert main(["map", row, "--time-limit", "0"]) != EXIT_OPTIMAL
    assert main(["map", row, "--gap", "0", "--time-limit", "none"]) == EXIT_OPTIMAL


def test_networks_and_sweeps_take_a_gap(row, capsys):
    assert main(["network", row, "--jobs", "1", "--gap", "0.9", "--no-cache"]) == EXIT_OPTIMAL
    assert "1 within the requested gap" in " ".join(capsys.readouterr().out.split())
    swept = ["sweep", row, "--set-attribute", "PE.meshX=4", "--jobs", "1", "--no-cache"]
    assert main([*swept, "--gap", "0.9"]) == EXIT_OPTIMAL


def test_sparse_data_take_a_gap(working_directory):
    assert (
        main(["map", SPARSE, "--objective", "energy", "--gap", "0.95", "--json", "out.json"]) == EXIT_OPTIMAL
    )
    assert document()["status"] in ("OPTIMAL", "FEASIBLE")
    assert document()["gap"] <= 0.95


@pytest.mark.parametrize(
    "words", [["map", "--pareto"], ["network", "--fuse"], ["network", "--same", "spatial"]]
)
def test_searches_that_know_no_gap_refuse_it(words, row, capsys):
    assert main([words[0], row, *words[1:], "--gap", "1%"]) == EXIT_INVALID
    assert "--gap" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["-1", "100%", "x", "1.5", "nan"])
def test_gaps_that_are_none(text, row, capsys):
    with pytest.raises(SystemExit) as end:
        main(["map", row, f"--gap={text}"])
    assert end.value.code == EXIT_INVALID
    assert ("must not be negative" if text == "-1" else "is not a share") in capsys.readouterr().err


@pytest.mark.parametrize(
    ("objective", "first"),
    [("energy", Termination.PROVEN), ("latency", Termination.PROVEN), ("edp", Termination.GAP)],
)
def test_what_is_found_is_within_the_gap_of_the_optimum(objective, first):
    mapspace = replace(mapspace_of(FEWEST), factors=ANY)
    best = map_einsum(mapspace, Options((objective,), time_limit_s=math.inf))
    ends = []
    for gap in (0.6, 0.1, 0.01):
        found = map_einsum(mapspace, Options((objective,), time_limit_s=math.inf, gap=gap))
        ends.append(found.termination)
        assert found.gap <= gap
        assert found.bound <= best.value <= found.value
    assert set(ends) <= {Termination.GAP, Termination.PROVEN}
    assert ends[0] is first


def test_a_front_knows_no_gap():
    with pytest.raises(ValueError, match="a front: a gap"):
        pareto_front(mapspace_of(AWKWARD), Options(gap=0.1))


def test_options_refuse_gaps_that_are_none():
    for gap in (-0.1, 1.0):
        with pytest.raises(ValueError, match="gap"):
            Options(gap=gap)
