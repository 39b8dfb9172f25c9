"""Simple mappings that take the place of others: what they cost, and whether they are allowed."""

import math
from dataclasses import replace
from itertools import islice
from random import Random

import pytest

from model.architecture import AccessEnergy, Fanout, StorageLevel
from model.cost import evaluate_in
from model.extents import ANY, PERFECT
from model.mapping import FanoutMapping, Loop, Mapping, SpatialLoop, StorageMapping
from model.mapspace import FactorRule, Mapspace, TemporalRules
from solver.result import Options, Result, Status, Termination
from solver.simplest import simplified
from solver.stages import map_einsum
from tests.bruteforce import valid_mappings
from tests.mapspaces import free_mapspace, matmul
from tests.rules import allows
from tests.strategies import (
    counted_as_accelforge,
    random_mapspaces,
    random_mapspaces_with_places,
    random_mapspaces_with_remainders,
)

OBJECTIVES = ("energy", "latency", "edp")
ALL = frozenset({"A", "B", "Z"})


def found(mapspace: Mapspace, mapping: Mapping, objective: str) -> Result:
    evaluation = evaluate_in(mapspace, mapping)
    units, value = mapspace.architecture.units_per_pj, evaluation.value(objective)
    ending = Status.FEASIBLE, Termination.TIME_LIMIT
    return Result(*ending, (objective,), units, value=value, bound=0, mapping=mapping, evaluation=evaluation)


def loops(mapping: Mapping) -> int:
    nodes = (node.temporal if isinstance(node, StorageMapping) else node.spatial for node in mapping.nodes)
    return sum(loop.bound > 1 for own in nodes for loop in own)


def remainders(mapspace: Mapspace, mapping: Mapping) -> int:
    pairs = zip(mapping.nodes, mapping.remainders(mapspace.problem.bound), strict=True)
    return sum(
        loop.bound != cut
        for node, last in pairs
        for loop, cut in zip(
            node.temporal if isinstance(node, StorageMapping) else node.spatial, last, strict=True
        )
    )


def mapspaces_of(kind: str, seed: int) -> list[Mapspace]:
    if kind == "perfect":
        return random_mapspaces(seed, 12, 400)
    if kind == "remainders":
        return random_mapspaces_with_remainders(seed, 6, 400)
    if kind == "accelforge":
        random = Random(seed)
        return [counted_as_accelforge(own, random) for own in random_mapspaces_with_places(seed, 5, 300)]
    return random_mapspaces_with_places(seed, 3, 800, ANY if kind == "uneven remainders" else PERFECT)


@pytest.mark.parametrize("kind", ["perfect", "remainders", "uneven", "uneven remainders", "accelforge"])
def test_simpler_mappings_are_allowed_and_cost_no_more(kind: str):
    simpler = 0
    for seed, mapspace in enumerate(mapspaces_of(kind, 460)):
        objective = OBJECTIVES[seed % 3]
        for priced in islice(valid_mappings(mapspace), seed % 7, None, 11):
            known = found(mapspace, priced.mapping, objective)
            result = simplified(mapspace, known)
            new, old = result.evaluation, known.evaluation
            assert allows(mapspace, result.mapping)
            assert result.evaluation == evaluate_in(mapspace, result.mapping)
            assert new.valid
            assert result.value == new.value(objective) == known.value
            assert new.energy <= old.energy
            assert new.cycles <= old.cycles
            assert loops(result.mapping) <= loops(known.mapping)
            simpler += result.mapping != known.mapping
    assert simpler


def row(*rules: FactorRule) -> Mapspace:
    """A product of 5 x 1 x 4 where all loops of the register could be those of the buffer as well."""
    nodes = (
        StorageLevel("DRAM", energy=AccessEnergy(100, 100, 100)),
        StorageLevel("buffer", size_words=100, energy=AccessEnergy(5, 5, 5)),
        Fanout("PE", 2),
    )
    mapspace = replace(free_mapspace(matmul(5, 1, 4), *nodes), factors=ANY)
    return replace(mapspace, temporal=(TemporalRules(), TemporalRules(rules)))


def nest(outer: tuple[Loop, ...], *inner: Loop) -> Mapping:
    spatial = FanoutMapping((SpatialLoop("K", 2, "x"),))
    return Mapping((StorageMapping(outer, ALL), StorageMapping(inner, ALL), spatial))


POINTLESS = nest((Loop("K", 2),), Loop("M", 4), Loop("M", 2))
"""Five rows as two passes, of four rows and of one."""


def test_a_loop_that_serves_nothing_goes():
    result = simplified(row(), found(row(), POINTLESS, "edp"))
    assert result.mapping == nest((Loop("K", 2),), Loop("M", 5))


def test_rules_on_factors_keep_a_loop():
    rule = FactorRule("M", "=", 8)
    mapspace = row(rule)
    assert simplified(mapspace, found(mapspace, POINTLESS, "edp")).mapping == POINTLESS
    assert not rule.allows(5)


def test_factors_that_divide_take_the_place_of_others():
    """Six rows in two passes are three each, not four and two."""
    mapspace = replace(row(), problem=matmul(6, 1, 4))
    four, three = (nest((Loop("M", 2), Loop("K", 2)), Loop("M", rows)) for rows in (4, 3))
    energy = {rows: evaluate_in(mapspace, own).energy for rows, own in ((4, four), (3, three))}
    assert energy[4] == energy[3]
    result = simplified(mapspace, found(mapspace, four, "energy"))
    assert remainders(mapspace, result.mapping) == 0


def test_what_is_simple_stays():
    simple = nest((), Loop("K", 2), Loop("M", 5))
    assert simplified(row(), found(row(), simple, "edp")).mapping == simple


def test_a_result_without_a_mapping_stays():
    nothing = Result(Status.INFEASIBLE, Termination.PROVEN, ("edp",), 1)
    assert simplified(row(), nothing) is nothing


def test_searches_return_simple_mappings():
    for mapspace in random_mapspaces_with_remainders(461, 6, 300):
        result = map_einsum(mapspace, Options(time_limit_s=math.inf))
        if result.mapping is not None:
            assert simplified(mapspace, result) == result
