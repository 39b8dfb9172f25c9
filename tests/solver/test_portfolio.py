"""Bounds and CP-SAT side by side: what each tells the other, and how CP-SAT's process ends."""

import math
import time
from contextlib import closing
from dataclasses import replace
from types import SimpleNamespace

import pytest

from model.architecture import AccessEnergy, Fanout, StorageLevel
from model.cost import evaluate_in
from model.mapspace import Mapspace
from solver import portfolio
from solver.portfolio import Companion, map_by_cp_sat
from solver.result import ContradictionError, Options, Result, Status, Termination
from solver.search.goal import Goal
from solver.search.priced import Priced
from solver.stages import map_einsum
from tests.mapspaces import free_mapspace, matmul

BESIDE = Options(("energy",), jobs=2, memory_limit_mib=1 << 14, engine="auto")
"""CP-SAT has what this process leaves, and other tests may have taken much."""


def levels(size: int) -> Mapspace:
    """A matrix product on three levels with an array."""
    nodes = (
        StorageLevel("DRAM", energy=AccessEnergy(200, 200, 200)),
        StorageLevel("buffer", size_words=500, energy=AccessEnergy(6, 6, 6)),
        Fanout("PE", 4, 4),
        StorageLevel("registers", size_words=16, energy=AccessEnergy(1, 1, 1)),
    )
    return free_mapspace(matmul(size, size, size), *nodes)


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(portfolio, "PATIENCE_S", 0.0)


def priced(result: Result) -> Priced:
    assert result.mapping is not None
    assert result.evaluation is not None
    return Priced(result.mapping, result.evaluation)


def waited(companion: Companion, goal: Goal, best: Priced | None) -> Priced | None:
    """Exchange until CP-SAT has settled the goal; return the best mapping."""
    while True:
        better = companion.exchange(goal, best)
        if companion.has_settled():
            return best
        if better is not None:
            best = better
            goal.incumbent = goal.value(best.evaluation.energy, best.evaluation.cycles)
        time.sleep(0.01)


def test_cp_sat_settles_a_goal_and_another_one():
    mapspace = levels(4)
    with closing(Companion(mapspace, BESIDE)) as companion:
        best = waited(companion, Goal("energy"), None)
        assert best is not None
        optimum = map_einsum(mapspace, Options(("energy",)))
        assert (best.evaluation.energy, companion.bound) == (optimum.value, optimum.value)
        assert not companion.is_empty
        goal = Goal("latency", (("energy", optimum.value - 1),))
        assert waited(companion, goal, None) is None
        assert companion.is_empty
        assert companion.remark == "in parallel with bounds"
    assert companion.seconds > 0


def test_both_together_find_what_bounds_find():
    mapspace = levels(16)
    together, alone = map_einsum(mapspace, BESIDE), map_einsum(mapspace, Options(("energy",)))
    assert (together.status, together.value, together.bound) == (alone.status, alone.value, alone.bound)
    assert together.statistics.settled_by in {("bounds",), ("cp-sat",)}
    assert together.statistics.cp_sat == "in parallel with bounds"


def test_a_heuristic_beside_bounds_has_its_mappings_taken(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(portfolio, "PATIENCE_S", math.inf)
    monkeypatch.setattr(portfolio, "DESCEND_AFTER_S", 0.0)
    goal, better = Goal("energy"), None
    with closing(Companion(levels(24), BESIDE)) as companion:
        while better is None:
            better = companion.exchange(goal, None)
            time.sleep(0.01)
        assert better.evaluation.valid
        goal.incumbent = 0  # what is no better is not taken
        time.sleep(0.2)
        assert companion.exchange(goal, better) is None
        assert companion.exchange(Goal("latency", (("energy", better.evaluation.energy),)), None) is None
        assert companion._descents is None
        assert not companion.has_settled()


def test_a_lost_process_leaves_the_search_to_bounds():
    goal = Goal("energy")
    with closing(Companion(levels(12), BESIDE)) as companion:
        companion.exchange(goal, None)
        process = companion._process
        assert process is not None
        process._workers.end(wait=True)
        while companion.remark != "its process was lost":
            companion.exchange(goal, None)
        assert not companion.has_settled()
    assert companion.remark == "its process was lost"


@pytest.mark.parametrize(
    ("change", "options", "remark"),
    [
        ({"counting": "timeloop"}, BESIDE, "refused: the formulation counts exactly"),
        ({}, replace(BESIDE, jobs=1), "not used: it needs a second worker"),
        ({}, replace(BESIDE, time_limit_s=2.0), "not used: too little time was left"),
        ({}, replace(BESIDE, memory_limit_mib=8), "not used: too little memory was left"),
    ],
)
def test_cp_sat_is_not_always_asked(change: dict[str, str], options: Options, remark: str):
    mapspace = replace(levels(8), **change)
    with closing(Companion(mapspace, options)) as companion:
        companion.exchange(Goal("energy"), None)
        assert companion.remark.startswith(remark)
        assert not companion.has_settled()
        assert companion.bound is None


def test_a_bound_above_a_mapping_is_a_defect():
    best = priced(map_einsum(levels(8), Options(("energy",))))
    goal = Goal("energy", incumbent=best.evaluation.energy)
    line = SimpleNamespace(
        refusal="", better=lambda: None, bound=best.evaluation.energy + 1, is_empty=False, found=print
    )
    with closing(Companion(levels(8), BESIDE)) as companion:
        companion.exchange(goal, best)
        process = companion._process
        assert process is not None
        line.close = process.line.close
        process.line = line
        with pytest.raises(ContradictionError, match="bound"):
            companion.exchange(goal, best)


def test_cp_sat_alone_keeps_to_its_time():
    mapspace = levels(27720)
    known = map_einsum(mapspace, Options(("energy",), time_limit_s=0.5))
    result = map_by_cp_sat(mapspace, Options(("energy",), time_limit_s=1.5))
    assert result.status in (Status.FEASIBLE, Status.UNKNOWN)
    assert result.termination is Termination.TIME_LIMIT
    assert (result.bound or 0) <= (known.value or 0)


def test_cp_sat_goes_on_where_bounds_do_not_know_a_limit():
    nodes = levels(8).architecture.nodes
    free = free_mapspace(matmul(12, 8, 8), nodes[0], replace(nodes[1], size_words=60), Fanout("PE", 4))
    most = priced(map_einsum(free, Options(("energy",)))).mapping.temporal_loops - 1
    mapspace = replace(free, max_temporal_loops=most)
    result = map_einsum(mapspace, BESIDE)
    assert result.status is Status.OPTIMAL
    assert result.mapping is not None
    assert result.mapping.temporal_loops <= most
    assert evaluate_in(mapspace, result.mapping).energy == result.value
    assert result.statistics.cp_sat == "after bounds"


def test_from_python_rules_of_all_kinds_are_searched_in_this_process():
    ruled = levels(8).where("tile(buffer, M) == 2 * tile(registers, M)")
    result = map_einsum(ruled, Options(("energy",)))
    assert result.status is Status.OPTIMAL
    assert (result.value or 0) >= (map_einsum(levels(8), Options(("energy",))).value or 0)
    assert evaluate_in(ruled, priced(result).mapping).valid
