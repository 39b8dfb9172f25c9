"""Other limits, other optima: against enumeration, and properties that hold for any limit."""

from dataclasses import replace
from fractions import Fraction
from functools import partial

import pytest
from hypothesis import given, settings

from model.architecture import StorageLevel
from solver import Options, Status
from solver.sensitivity import Variation, limit_of, sensitivity, variations, varied
from solver.stages import map_einsum
from tests.bruteforce import optima, optimum
from tests.solver.examples import ARCHITECTURE, INFEASIBLE, MAPSPACE, unaided
from tests.solver.explain.enumeration import some_mapspaces
from tests.strategies import mapspaces, random_mapspaces_with_remainders

HALF, DOUBLE = Fraction(1, 2), Fraction(2)
ENERGY = Options(objectives=("energy",))


def never(*_):
    raise AssertionError("no search is needed")


def test_every_limit_is_halved_and_doubled():
    found = list(variations(ARCHITECTURE))
    assert found[:4] == [
        Variation("buffer", "capacity", HALF),
        Variation("buffer", "capacity", DOUBLE),
        Variation("buffer", "read_bandwidth", HALF),
        Variation("buffer", "read_bandwidth", DOUBLE),
    ]
    assert {variation.level for variation in found} == {"buffer", "weight_spad", "output_spad"}


def test_a_capacity_of_one_word_is_not_halved():
    nodes = tuple(
        replace(node, size_words=1) if isinstance(node, StorageLevel) and node.size_words else node
        for node in ARCHITECTURE.nodes
    )
    factors = {v.factor for v in variations(replace(ARCHITECTURE, nodes=nodes)) if v.resource == "capacity"}
    assert factors == {DOUBLE}


@pytest.mark.parametrize("variation", list(variations(ARCHITECTURE)), ids=str)
def test_one_limit_changes_and_no_price(variation):
    changed = varied(ARCHITECTURE, variation)
    (index,) = [i for i, (a, b) in enumerate(zip(ARCHITECTURE.nodes, changed.nodes, strict=True)) if a != b]
    before, after = ARCHITECTURE.nodes[index], changed.nodes[index]
    assert before.name == variation.level
    assert limit_of(after, variation.resource) == limit_of(before, variation.resource) * variation.factor
    field = "size_words" if variation.resource == "capacity" else variation.resource
    assert replace(after, **{field: getattr(before, field)}) == before
    assert replace(changed, nodes=ARCHITECTURE.nodes) == ARCHITECTURE


@settings(max_examples=4, derandomize=True)
@given(mapspaces(max_mappings=150))
def test_every_optimum_is_that_of_the_varied_architecture(mapspace):
    objectives = ("energy", "edp")
    changes = {
        variation: replace(mapspace, architecture=varied(mapspace.architecture, variation))
        for variation in variations(mapspace.architecture)
    }
    bests = {variation: optima(changed, objectives) for variation, changed in changes.items()}
    for place, objective in enumerate(objectives):
        options = Options(objectives=(objective,))
        base = map_einsum(mapspace, options, reasons=False)
        for effect in sensitivity(mapspace, base, options, unaided):
            best = bests[effect.variation][place]
            assert effect.result.value == (best and best[0])
            assert effect.result.status in (Status.OPTIMAL, Status.INFEASIBLE)
            if effect.ratio is not None:
                assert effect.ratio * base.value == effect.result.value


def test_every_optimum_with_remainders_is_that_of_the_varied_architecture():
    changes = 0
    for mapspace in random_mapspaces_with_remainders(1, 3, 60):
        base = map_einsum(mapspace, ENERGY)
        for effect in sensitivity(mapspace, base, ENERGY, unaided):
            best = optimum(
                replace(mapspace, architecture=varied(mapspace.architecture, effect.variation)), "energy"
            )
            assert effect.result.value == (best and best[0])
            changes += effect.result.value != base.value
    assert changes


ORDERED = ("latency", "energy")


@pytest.mark.parametrize("mapspace", some_mapspaces(53, 9))
def test_every_variation_has_the_best_in_order(mapspace):
    options = Options(objectives=ORDERED)
    base = map_einsum(mapspace, options)
    effects = sensitivity(mapspace, base, options, partial(map_einsum, reasons=False))
    for effect in effects if base.mapping else ():
        changed = replace(mapspace, architecture=varied(mapspace.architecture, effect.variation))
        found = optimum(changed, ORDERED)
        assert found is None or values(effect.result) == found[0]
        if found is not None:
            ratios = (effect.ratio, *effect.later_ratios)
            pairs = zip(values(effect.result), values(base), strict=True)
            assert ratios == tuple(Fraction(new, old) for new, old in pairs)
        else:
            assert (effect.ratio, effect.later_ratios) == (None, (None,))


def values(result):
    return tuple(map(result.evaluation.value, result.objectives))


def test_limits_that_are_not_reached_take_no_search():
    nodes = tuple(
        replace(node, size_words=10**6, read_bandwidth=Fraction(10**6))
        if isinstance(node, StorageLevel)
        else node
        for node in ARCHITECTURE.nodes
    )
    mapspace = replace(MAPSPACE, architecture=replace(ARCHITECTURE, nodes=nodes))
    base = map_einsum(mapspace, ENERGY)
    searched = []

    def search(changed, *_):
        searched.append(changed)
        return base

    effects = sensitivity(mapspace, base, ENERGY, search)
    assert [effect.searched for effect in effects] == [
        effect.variation.factor == DOUBLE for effect in effects
    ]
    assert len(searched) == len(effects) / 2
    assert all(effect.ratio == 1 for effect in effects)


def test_a_least_utilization_takes_a_search():
    base = map_einsum(MAPSPACE, ENERGY)
    nodes = tuple(
        replace(node, min_utilization=Fraction(1, 1000), size_words=10**4) if node.name == "buffer" else node
        for node in ARCHITECTURE.nodes
    )
    mapspace = replace(MAPSPACE, architecture=replace(ARCHITECTURE, nodes=nodes))
    effects = sensitivity(mapspace, base, ENERGY, lambda *_: base)
    assert effects[0].variation == Variation("buffer", "capacity", HALF)
    assert effects[0].searched


def test_an_unproven_optimum_takes_searches():
    base = map_einsum(MAPSPACE, ENERGY)
    stopped = replace(base, status=Status.FEASIBLE, termination=type(base.termination).TIME_LIMIT)
    assert all(effect.searched for effect in sensitivity(MAPSPACE, stopped, ENERGY, lambda *_: base))


@pytest.mark.parametrize("objective", ["energy", "latency", "edp"])
def test_an_incumbent_to_begin_with_changes_no_effect(objective):
    options = Options(objectives=(objective,))
    base = map_einsum(MAPSPACE, options)
    alone = sensitivity(MAPSPACE, base, options, unaided)
    helped = sensitivity(MAPSPACE, base, options, map_einsum)
    for one, other in zip(alone, helped, strict=True):
        assert (one.variation, one.limit, one.ratio) == (other.variation, other.limit, other.ratio)
        assert (one.result.status, one.result.value) == (other.result.status, other.result.value)


def test_what_fits_no_more_has_no_ratio():
    base = map_einsum(MAPSPACE, ENERGY)
    effects = sensitivity(MAPSPACE, base, ENERGY, lambda *_: INFEASIBLE)
    assert {effect.ratio for effect in effects if effect.searched} == {None}


def test_it_stops_when_asked():
    base = map_einsum(MAPSPACE, ENERGY)
    assert sensitivity(MAPSPACE, base, ENERGY, never, should_stop=lambda: True) == ()
