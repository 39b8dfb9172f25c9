"""Paths by all counting rules, with ports, tolls and several places of a memory, against enumerations."""

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from random import Random

import numpy as np
import pytest

from model.architecture import Port, StorageLevel
from model.counting import TIMELOOP
from model.extents import ANY, PERFECT, Factors
from model.mapspace import Mapspace
from solver.search.path.rooms import MOST_STEPS, PlaceRooms
from solver.search.space.search_space import SearchSpace
from tests import strategies
from tests.bruteforce import optima
from tests.slow import few
from tests.solver.search.path.alone import searched
from tests.strategies import (
    CONVOLUTIONS,
    counted_as_accelforge,
    random_mapspaces,
    random_mapspaces_with_places,
    random_mapspaces_with_remainders,
    with_tolls,
)

OBJECTIVES = ("energy", "edp")


def check(mapspace: Mapspace) -> None:
    """Bound and value are the optimum of the enumeration, or there is none."""
    for objective, best in zip(OBJECTIVES, optima(mapspace, OBJECTIVES), strict=True):
        value = None if best is None else best[0]
        assert searched(mapspace, objective) == (value, value)


def is_searchable(mapspace: Mapspace) -> bool:
    try:
        mapspace.check_searchable(by_bounds=True)
    except ValueError:
        return False
    return True


def ported(mapspace: Mapspace, random: Random) -> Mapspace:
    """Add ports at which reads and writes take different times."""
    nodes = (
        replace(node, ports=(Port(Fraction(random.randint(0, 3), 2), Fraction(random.randint(0, 5), 3)),))
        if isinstance(node, StorageLevel) and random.random() < 0.6
        else node
        for node in mapspace.architecture.nodes
    )
    return replace(mapspace, architecture=replace(mapspace.architecture, nodes=tuple(nodes)))


def by_timeloop(mapspace: Mapspace, random: Random) -> Mapspace:
    return replace(mapspace, counting=TIMELOOP)


def tolled(mapspace: Mapspace, random: Random) -> Mapspace:
    return with_tolls(random, mapspace)


def tolled_by_place(mapspace: Mapspace, random: Random) -> Mapspace:
    return counted_as_accelforge(with_tolls(random, mapspace), random)


Change = Callable[[Mapspace, Random], Mapspace]
CHANGES = (by_timeloop, counted_as_accelforge, tolled_by_place, ported, tolled)


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("windows", few([True, False]))
def test_optimum_with_perfect_factors(change: Change, windows: bool, monkeypatch: pytest.MonkeyPatch):
    if windows:
        monkeypatch.setattr(strategies, "EINSUMS", CONVOLUTIONS)
    every = (change(own, Random(n)) for n, own in enumerate(random_mapspaces(1000, 12, 150)))
    found = list(filter(is_searchable, every))
    assert len(found) > 5
    for mapspace in found:
        check(mapspace)


@pytest.mark.parametrize("change", [ported, tolled])
def test_optimum_with_remainders(change: Change):
    for number, mapspace in enumerate(random_mapspaces_with_remainders(1017, 6, 150)):
        check(change(mapspace, Random(number)))


@pytest.mark.parametrize("change", few([counted_as_accelforge, by_timeloop, ported]))
def test_optimum_with_places(change: Change):
    for number, mapspace in enumerate(random_mapspaces_with_places(1020, 4, 150)):
        changed = change(mapspace, Random(number))
        assert changed.joint
        if is_searchable(changed):
            check(changed)


@pytest.mark.parametrize("seed", [107, 123])
def test_places_inside_of_fanouts_hold_what_the_mask_says(seed: int, monkeypatch: pytest.MonkeyPatch):
    """Masks that keep the same outside of the fanouts share tables; inside, each has room of its own."""
    monkeypatch.setattr(strategies, "EINSUMS", CONVOLUTIONS)
    check(counted_as_accelforge(random_mapspaces_with_places(seed, 1, 150)[0], Random(seed)))


def test_leakage_is_not_rounded_up_by_place():
    """A bandwidth takes a part of a cycle more than the arithmetic, and instances leak meanwhile."""
    check(counted_as_accelforge(random_mapspaces(150, 1, 150)[0], Random(150)))


def test_rules_on_orders_may_leave_no_loop_that_leads():
    check(replace(random_mapspaces(127, 1, 150)[0], counting=TIMELOOP))


@pytest.mark.parametrize("factors", [PERFECT, ANY])
def test_steps_of_room(factors: Factors):
    """The cheapest tile outside of all that have room, or where there are few steps, of some more."""
    told_apart = 0
    for mapspace in random_mapspaces_with_places(1040, 12, 200):
        space = SearchSpace(replace(mapspace, factors=factors))
        for mask in space.keep_masks:
            rooms = PlaceRooms(space, mask, tuple(space.lattice.counts))
            inner = (own for own in range(2, len(space.levels)) if rooms.outer(own) == {own - 1})
            for level in filter(rooms.is_shared, inner):
                told_apart += _steps_are_right(rooms, level)
    assert told_apart > 1


def _steps_are_right(rooms: PlaceRooms, level: int) -> bool:
    """Check the two outermost places of a memory; whether room mattered."""
    costs = np.random.default_rng(level).random(rooms.space.lattice.size).reshape(rooms.shape)
    by_step = rooms.within(level - 1, costs[..., None]).min(axis=tuple(range(len(rooms.shape))))
    found = rooms.within(level, np.broadcast_to(by_step, (*rooms.shape, len(by_step))))[..., -1]
    own, other, usable = rooms.words(level), rooms.words(level - 1), rooms.steps(level)[-1]
    assert len(by_step) == len(rooms.steps(level - 1)) <= MOST_STEPS
    for words in np.unique(own):
        least = costs[other <= usable - words].min(initial=np.inf) if words <= usable else np.inf
        assert (found[own == words] <= least).all()
        if len(np.unique(other)) < MOST_STEPS - 1 or words > usable:
            assert (found[own == words] == least).all()
    return len(np.unique(found[np.isfinite(found)])) > 1
