"""Verdicts, conflicts and nearest values where factors may leave remainders, against complete enumeration."""

from dataclasses import replace
from fractions import Fraction
from functools import cache
from random import Random

import pytest

from model.architecture import Fanout
from model.extents import ANY
from model.mapspace import FactorRule
from solver.explain import Verdict, diagnose
from solver.explain.explanation import find_conflict
from solver.explain.feasibility import Feasibility, holds
from solver.explain.levers import nearest_sufficient
from solver.formulation.integers import LARGEST_BOUND, LARGEST_LIMIT
from solver.formulation.requirements import FactorLimit, Parallelism, TileCapacity, constraints_of
from tests.mapspaces import copies
from tests.solver.explain.enumeration import all_but, allows_a_mapping, feasible_without
from tests.strategies import random_mapspaces_with_remainders

VERDICT = {True: Verdict.FEASIBLE, False: Verdict.INFEASIBLE}


@cache
def mapspaces():
    return tuple(random_mapspaces_with_remainders(5, 16, 90))


@cache
def infeasible():
    return [mapspace for mapspace in mapspaces() if allows_a_mapping(mapspace) is False]


def any_copies(*args, **options):
    return replace(copies(*args, **options), factors=ANY)


def test_enumeration_agrees():
    random, seen = Random(1), []
    for number, mapspace in enumerate(mapspaces()):
        largest_limit = LARGEST_LIMIT if number % 3 else 0
        constraints = constraints_of(mapspace)
        dropped = [constraint for constraint in constraints if random.random() < 0.2]
        for without in ([], dropped):
            truth = feasible_without(mapspace, without)
            asked = [constraint for constraint in constraints if constraint not in without]
            decision = Feasibility(mapspace, largest_limit=largest_limit).decide(asked)
            assert truth is None or decision.verdict is VERDICT[truth]
            assert decision.witness is None or all(holds(c, decision.witness) for c in asked)
            seen.append(truth)
    assert min(seen.count(True), seen.count(False)) > 10


def test_conflicts_are_irreducible():
    for mapspace in infeasible()[:6]:
        conflict = find_conflict(Feasibility(mapspace), constraints_of(mapspace))
        assert conflict.irreducible
        rest = all_but(mapspace, conflict.constraints)
        assert feasible_without(mapspace, rest) is not True
        assert all(feasible_without(mapspace, [*rest, one]) is not False for one in conflict.constraints)


def with_factor(mapspace, limit, value):
    """The mapspace with another value in one rule on factors."""
    position, changed = limit.node, replace(limit.rule, value=value)
    architecture = mapspace.architecture
    spatial = isinstance(architecture.nodes[position], Fanout)
    places = architecture.fanout_indices if spatial else architecture.storage_indices
    parts = list(mapspace.spatial if spatial else mapspace.temporal)
    own = parts[places.index(position)]
    rules = tuple(changed if rule == limit.rule else rule for rule in own.factors)
    parts[places.index(position)] = replace(own, factors=rules)
    return replace(mapspace, **{"spatial" if spatial else "temporal": tuple(parts)})


def test_nearest_factors_are_those_of_an_enumeration():
    found = 0
    for mapspace in infeasible():
        constraints, feasibility = constraints_of(mapspace), Feasibility(mapspace)
        for limit in (c for c in constraints if isinstance(c, FactorLimit)):
            value, bound = limit.rule.value, mapspace.problem.bound[limit.rule.dim]
            suffices = nearest_sufficient(feasibility, [c for c in constraints if c != limit], limit)
            if suffices is None or limit.rule.value == 1:
                continue
            assert allows_a_mapping(with_factor(mapspace, limit, suffices.value)) is not False
            away = Fraction(max(suffices.value, value), min(suffices.value, value))
            nearer = [v for v in range(2, bound + 1) if Fraction(max(v, value), min(v, value)) < away]
            assert not any(allows_a_mapping(with_factor(mapspace, limit, v)) for v in nearer)
            found += 1
    assert found > 2


def test_factors_need_only_reach_the_bound():
    """4 times 4 covers 13; tiles of 2 words, which fit, need 7 loops, and 3 loops need tiles of 5."""
    assert (
        diagnose(any_copies((13,), 8, 4, tile_rules=(FactorRule("D0", "=", 4),))).verdict is Verdict.FEASIBLE
    )
    narrow = any_copies((13,), 4, 2, tile_rules=(FactorRule("D0", "<=", 3),))
    (reason,) = diagnose(narrow).reasons
    assert reason.irreducible
    assert {lever.text for lever in reason.levers} == {
        "D0<=7 instead of D0<=3 in the temporal loops of `DRAM`",
        "`buffer` with 10 words instead of 4",
    }


def test_a_product_beyond_the_bound_is_a_conflict():
    rules = (FactorRule("D0", "=", 7), FactorRule("D0", ">=", 8))
    (reason,) = diagnose(any_copies((13,), 100, 1, tile_rules=rules)).reasons
    assert reason.text == "the factors of D0 that these lines allow cover less than its bound 13, or more"


@pytest.mark.parametrize(("units", "verdict"), [(17, Verdict.FEASIBLE), (18, Verdict.INFEASIBLE)])
def test_units_of_a_short_last_tile_are_counted(units, verdict):
    """17 iterations on 16 children of up to 2 instances each need 17 units; 2 x 16 would be 32."""
    mapspace = any_copies((17,), 100, 16)
    nodes = (mapspace.architecture.nodes[0], Fanout("outer", 2), *mapspace.architecture.nodes[1:])
    architecture = replace(mapspace.architecture, nodes=nodes)
    wide = replace(mapspace, architecture=architecture, spatial=mapspace.spatial * 2)
    asked = [*constraints_of(wide), Parallelism(Fraction(units), None)]
    assert Feasibility(wide).decide(asked).verdict is verdict


@pytest.mark.parametrize(("spare", "verdict"), [(0, Verdict.FEASIBLE), (-1, Verdict.INFEASIBLE)])
def test_large_tiles_are_counted_to_the_word(spare, verdict):
    rules = tuple(FactorRule(dim, "<=", 3) for dim in ("D0", "D1"))
    extent = 3 * 2**12 + 1
    mapspace = any_copies((extent, extent), 2 * (2**12 + 1) ** 2 + spare, 1, tile_rules=rules)
    (capacity,) = (c for c in constraints_of(mapspace) if isinstance(c, TileCapacity))
    assert diagnose(mapspace, with_reasons=False).verdict is verdict
    assert Feasibility(mapspace).decide([c for c in constraints_of(mapspace) if c != capacity]).witness


def test_bounds_beyond_what_is_counted_are_left_open():
    assert diagnose(any_copies((LARGEST_BOUND + 1,), 100, 1)).verdict is Verdict.UNKNOWN
