"""Verdicts on constraints, against complete enumeration and against the search."""

from fractions import Fraction
from functools import cache
from random import Random

import pytest

from model.architecture import Architecture, StorageLevel
from model.mapspace import FactorRule, Mapspace
from solver.cpsat import ModelError, RangeError
from solver.explain import diagnose
from solver.explain.feasibility import Feasibility, Verdict, holds
from solver.formulation.requirements import Parallelism, TileCapacity, constraints_of
from solver.result import ContradictionError, Options, Status
from solver.search import map_by_bounds
from tests.mapspaces import copies
from tests.solver.explain.enumeration import allows_a_mapping, feasible_without, some_mapspaces
from tests.solver.planted import WRONG, infeasible, plant

VERDICT = {True: Verdict.FEASIBLE, False: Verdict.INFEASIBLE}
MAPSPACES = some_mapspaces(41, 60)


def decide(mapspace, dropped=(), **options):
    asked = [constraint for constraint in constraints_of(mapspace) if constraint not in dropped]
    return Feasibility(mapspace, **options).decide(asked)


def test_the_mapspaces_are_of_both_kinds():
    verdicts = [allows_a_mapping(mapspace) for mapspace in MAPSPACES]
    assert min(verdicts.count(True), verdicts.count(False)) > 10


@pytest.mark.parametrize("mapspace", MAPSPACES)
def test_enumeration_agrees(mapspace):
    assert decide(mapspace).verdict is VERDICT[allows_a_mapping(mapspace)]


@pytest.mark.parametrize("mapspace", MAPSPACES[:40])
def test_enumeration_agrees_on_limits_that_are_left_to_cuts(mapspace):
    assert decide(mapspace, largest_limit=0).verdict is VERDICT[allows_a_mapping(mapspace)]


@cache
def relaxed(seed):
    """A mapspace, some of its constraints, and whether it allows a mapping without them."""
    random = Random(seed)
    mapspace = random.choice(MAPSPACES)
    dropped = [constraint for constraint in constraints_of(mapspace) if random.random() < 0.2]
    return mapspace, dropped, feasible_without(mapspace, dropped)


@pytest.mark.parametrize("seed", range(80))
def test_enumeration_agrees_when_some_constraints_are_dropped(seed):
    mapspace, dropped, truth = relaxed(seed)
    if truth is not None:
        assert decide(mapspace, dropped).verdict is VERDICT[truth]


def test_enumeration_decides_most_of_them():
    truths = [relaxed(seed)[2] for seed in range(80)]
    assert min(truths.count(True), truths.count(False)) > 10
    assert truths.count(None) < 20


@pytest.mark.parametrize("mapspace", MAPSPACES[:40])
def test_the_search_agrees(mapspace):
    infeasible = map_by_bounds(mapspace, Options(objectives=("energy",))).status is Status.INFEASIBLE
    assert (decide(mapspace).verdict is Verdict.INFEASIBLE) == infeasible


@pytest.mark.parametrize("mapspace", MAPSPACES)
def test_a_witness_satisfies_all_constraints(mapspace):
    decision = decide(mapspace)
    witness = decision.witness
    assert (witness is not None) == (decision.verdict is Verdict.FEASIBLE)
    if witness is not None:
        assert witness.evaluation.valid
        assert all(holds(constraint, witness) for constraint in constraints_of(mapspace))


@pytest.mark.parametrize("extent", [2**12, 2**16 * 3])
@pytest.mark.parametrize(("spare", "verdict"), [(0, Verdict.FEASIBLE), (-1, Verdict.INFEASIBLE)])
def test_large_tiles_are_counted_to_the_word(extent, spare, verdict):
    # Above LARGEST_LIMIT words, the larger of the two is left to cuts.
    rules = tuple(FactorRule(dim, "=", 1) for dim in ("D0", "D1"))
    mapspace = copies((extent, extent), 2 * extent**2 + spare, 1, tile_rules=rules)
    (capacity,) = (c for c in constraints_of(mapspace) if isinstance(c, TileCapacity))
    assert decide(mapspace).verdict is verdict
    assert decide(mapspace, [capacity]).verdict is Verdict.FEASIBLE


@pytest.mark.parametrize("units", [2**10 * 3**5, 2**20 * 3**9])
@pytest.mark.parametrize(("more", "verdict"), [(0, Verdict.FEASIBLE), (1, Verdict.INFEASIBLE)])
def test_many_units_are_counted_one_by_one(units, more, verdict):
    # The scale of the logarithms tells the smaller of the two from one more; the larger is left to cuts.
    mapspace = copies((units,), 10**12, 2 * units, units + more)
    assert decide(mapspace).verdict is verdict


def test_a_storage_without_room_keeps_nothing():
    mapspace = copies((4,), 1, 1)
    node = StorageLevel("buffer", size_words=1, multiple_buffering=Fraction(2))
    capacity = TileCapacity(1, node)
    others = [c for c in constraints_of(mapspace) if not isinstance(c, TileCapacity)]
    assert Feasibility(mapspace).decide([*others, capacity]).verdict is Verdict.INFEASIBLE
    assert Feasibility(mapspace).decide([capacity]).verdict is Verdict.FEASIBLE


def test_a_stopped_solve_decides_nothing():
    feasibility = Feasibility(MAPSPACES[0], stop=lambda: True)
    assert feasibility.decide(constraints_of(MAPSPACES[0])).verdict is Verdict.UNKNOWN


def test_a_wrong_answer_of_cp_sat_is_caught(monkeypatch):
    mapspace = copies((4,), 100, 1, tile_rules=(FactorRule("D0", "=", 2),))
    feasibility = Feasibility(mapspace)
    monkeypatch.setattr(feasibility, "_factor", lambda solver, position, dim: 4 if position == 1 else 1)
    with pytest.raises(ModelError, match="breaks a constraint"):
        feasibility.decide(constraints_of(mapspace))


@pytest.mark.parametrize("lie", ["invalid", "outside domains", "no values", "all false"])
def test_wrong_answers_are_errors(lie, monkeypatch):
    mapspace = copies((16,), 100, 4, tile_rules=(FactorRule("D0", ">=", 2),))
    feasibility = Feasibility(mapspace)
    assert feasibility.decide(constraints_of(mapspace)).verdict is Verdict.FEASIBLE
    plant(monkeypatch, WRONG[lie])
    with pytest.raises(ModelError):
        feasibility.decide(constraints_of(mapspace))


def test_answers_are_judged_by_the_mapping_they_stand_for(monkeypatch):
    """All true breaks rows of the model, but to keep everything is a mapping, unless it is too large."""
    plant(monkeypatch, WRONG["all true"])
    roomy, tight = copies((16,), 100, 4), copies((16,), 1, 4)
    answer = Feasibility(roomy).decide(constraints_of(roomy))
    assert answer.verdict is Verdict.FEASIBLE
    assert all(holds(constraint, answer.witness) for constraint in constraints_of(roomy))
    assert not answer.witness.evaluation.violations
    assert Feasibility(tight).decide(constraints_of(tight)).verdict is Verdict.INFEASIBLE


def test_a_wrong_infeasible_without_anything_to_blame_is_caught(monkeypatch):
    mapspace = copies((16,), 100, 4)
    assert diagnose(mapspace).verdict is Verdict.FEASIBLE
    plant(monkeypatch, infeasible)
    with pytest.raises(ContradictionError, match="without constraints"):
        diagnose(mapspace)


def test_row_activities_stay_in_range():
    mapspace = copies((1 << 33,), 100, 1 << 32)
    assert decide(mapspace).verdict is Verdict.FEASIBLE
    with pytest.raises(RangeError):
        Feasibility(mapspace, largest_limit=1 << 40)


def test_parallelism_without_fanouts_is_impossible():
    mapspace = copies((4,), 100, 1)
    assert Feasibility(mapspace).decide([Parallelism(Fraction(2), None)]).verdict is Verdict.FEASIBLE
    single = Architecture("single", mapspace.architecture.nodes[:2], mapspace.architecture.compute)
    alone = Mapspace(mapspace.problem, single, mapspace.temporal, (), mapspace.keep)
    assert Feasibility(alone).decide([Parallelism(Fraction(2), None)]).verdict is Verdict.INFEASIBLE
