"""Bounds on one body, in whole numbers, and on many, in arrays, are the same."""

from collections.abc import Iterator
from itertools import product
from random import Random

import numpy as np
import pytest

from model.numbers import divisors
from solver.fusion import FusionLimits
from solver.fusion.bodies import BodyBounds
from solver.fusion.mapper import _Search
from solver.fusion.space import Cut, Cuts, Frame, Frames, FusionSpace, Tile
from solver.fusion.ways import Given, Places
from solver.result import Options
from tests.solver.fusion.test_optimum import drawn

NAMES = ("products", "attention", "projections", "skip")


def bounds_of(name: str, objective: str) -> BodyBounds:
    """Bounds on a random cascade."""
    run = _Search(drawn(Random(name), name), objective, Options(), FusionLimits(), None, None)
    return BodyBounds(run.space, run.pricer)


def bodies(space: FusionSpace, random: Random) -> Iterator[tuple[Frames, int]]:
    """Yield each Einsum in some bodies with one or two segments."""
    for start, end in space.bodies():
        classes = space.classes(start, end)
        bounds = [
            np.gcd.reduce([space.einsums[start + n].problem.bound[dim] for n, dim in enumerate(dims)])
            for dims in classes
        ]
        choices = [(n, count) for n, bound in enumerate(bounds) for count in divisors(int(bound))[1:]]
        for _ in range(3 if choices else 0):
            segments = tuple((random.choice(choices),) for _ in range(random.choice((1, 2))))
            frames = (Frame(start, end, segments),)
            if all(divides(space, frames, place) for place in range(start, end)):
                yield from ((frames, place) for place in range(start, end))


def divides(space: FusionSpace, frames: Frames, place: int) -> bool:
    """Whether loops divide all dimensions of an Einsum."""
    bound = space.einsums[place].problem.bound
    return all(bound[dim] % count == 0 for dim, count in space.raw_trips(frames, place).items())


@pytest.mark.parametrize("name, objective", list(product(NAMES, ("energy", "latency"))))
def test_a_body_costs_the_same_by_itself_and_among_many(name: str, objective: str) -> None:
    bounds, random, compared = bounds_of(name, objective), Random(f"ways {name}"), 0
    space, tiles = bounds.space, bounds.tiles
    for frames, place in bodies(space, random):
        *above, last = space.cuts(frames, place)
        many = [Cuts({dim: np.array([count]) for dim, count in own.trips.items()}) for own in (*above, last)]
        given = Given(tuple((t.tensor, random.choice((-1, 0, 3))) for t in space.tiles[place]), 0)
        known = given._replace(stored=tuple(own for own in given.stored if own[0] in space.storable))
        found = []
        for cuts in ([*above, last], many):
            places = Places(frames, cuts[:-1], cuts[-1])
            options = tiles.of_places(place, known, places)
            ways = list(tiles.each(place, options, cuts[-1], is_open=False))
            found.append([(way.words, way.lasting, way.stored, way.energy, way.cycles) for way in ways])
        for one, other in zip(*found, strict=True):
            for exact, array in zip(one[:2], other[:2], strict=True):
                assert array == exact
            assert one[2] == other[2]
            # Of many bodies, fewer dataspaces are known to cross.
            assert other[3] <= one[3]
            assert other[4] <= one[4]
            if objective == "energy":
                assert other[3] == one[3]
            compared += 1
    assert compared > 5


@pytest.mark.parametrize("name", NAMES)
def test_what_tiles_take_and_exchange_is_the_same_in_arrays(name: str) -> None:
    bounds, compared = bounds_of(name, "edp"), 0
    space, pricer = bounds.space, bounds.pricer
    for frames, place in bodies(space, Random(f"tiles {name}")):
        for cut, tile in product(space.cuts(frames, place), space.tiles[place]):
            arrays = Cuts({dim: np.array([count]) for dim, count in cut.trips.items()})
            one, other = (amounts(bounds, tile, own) for own in (cut, arrays))
            assert one == tuple(np.ravel(own)[0] for own in other)
            assert pricer.shift(tile, cut).moved == np.ravel(pricer.shift(tile, arrays).moved)[0]
            compared += 1
    assert compared > 5


def amounts(bounds: BodyBounds, tile: Tile, cut: Cut) -> tuple[float, ...]:
    """Room of a held tile, and what it exchanges in each visit or as it is held."""
    fetched = bounds.pricer.exchange(tile, cut)
    held = bounds.pricer.exchange(tile, cut, bounds.pricer.shift(tile, cut))
    return (bounds.space.held_words(tile, cut), *fetched[1:4], *held[1:4])
