"""Numbers of tiles along an axis against plain loops over extents and factors."""

from dataclasses import replace
from itertools import product
from random import Random

import numpy as np
import pytest

from model.architecture import StorageLevel
from model.extents import ANY, PERFECT
from model.numbers import divisors
from solver.search.path.axes import NOWHERE, SlotLoops, TileAxis, axes_of
from solver.search.space.search_space import SearchSpace
from tests.mapspaces import free_mapspace, matmul

BOUNDS = (2, 3, 7, 12, 13, 24)
RULES = (PERFECT, ANY)
CASES = tuple(product(BOUNDS, RULES))


def axis_of(bound: int, factors: str) -> TileAxis:
    mapspace = free_mapspace(matmul(bound, 2, 2), StorageLevel("DRAM"), StorageLevel("buffer"))
    return axes_of(SearchSpace(replace(mapspace, factors=factors)))[0]


def extents(bound: int, factors: str) -> tuple[int, ...]:
    return tuple(range(1, bound + 1)) if factors == ANY else tuple(divisors(bound))


def after(tiles: int, factor: int, factors: str) -> int | None:
    """Tiles that are left outside of so many iterations or children."""
    if not 1 <= factor <= tiles or (factors == PERFECT and tiles % factor):
        return None
    return -(-tiles // factor)


def some(random: Random, bound: int, factors: str) -> frozenset[int]:
    """Some allowed factors of a loop."""
    every = extents(bound, factors)
    return frozenset(random.sample(every, random.randint(1, len(every))))


@pytest.mark.parametrize(("bound", "factors"), CASES)
def test_numbers_and_extents(bound: int, factors: str):
    axis = axis_of(bound, factors)
    found: dict[int, list[int]] = {}
    for extent in extents(bound, factors):
        found.setdefault(-(-bound // extent), []).append(extent)
    assert axis.numbers[0] == bound
    assert sorted(axis.numbers.tolist()) == sorted(found)
    assert axis.least.tolist() == [min(found[number]) for number in axis.numbers.tolist()]
    assert axis.longest.tolist() == [max(found[number]) for number in axis.numbers.tolist()]


@pytest.mark.parametrize("bound", BOUNDS)
@pytest.mark.parametrize("multiple", [1, 2, 3, 5])
def test_extents_that_are_multiples(bound: int, multiple: int):
    """Tiles are whole numbers of what all children inside take, but for the one that is all there is."""
    axis = axis_of(bound, ANY)
    every = {min(own, bound) for own in range(multiple, bound + multiple, multiple)}
    for number in axis.numbers.tolist():
        fitting = [own for own in every if -(-bound // own) == number]
        found = axis.extents(np.array([number]), np.array([multiple]))
        assert found.tolist() == [min(fitting, default=0)]


def used(bound: int, outer: int, inner: int, sub: int, each: int) -> tuple[int, int]:
    """Tiles of an outer fanout, and children of both that ever work: `each` rounds inside of single tiles."""
    working, tile = set(), sub * inner * each
    for place in range(bound):
        working.add((place // tile % outer, place % tile // sub % inner))
    return -(-bound // tile), len(working)


@pytest.mark.parametrize("bound", [7, 12, 13, 24])
@pytest.mark.parametrize(("outer", "inner"), [(2, 2), (3, 2), (2, 3), (4, 3)])
@pytest.mark.parametrize("single", [True, False])
def test_children_of_nested_stages(bound: int, outer: int, inner: int, single: bool):
    axis, least = axis_of(bound, ANY), outer * inner
    for sub in (1,) if single else range(1, bound + 1):
        for each in range(1, bound + 1):
            tiles, working = used(bound, outer, inner, sub, each)
            if tiles > outer:
                assert working == outer * inner
            if tiles >= outer and -(-bound // sub) >= inner:
                least = min(least, working)
    found = axis.in_use(np.array([outer]), np.array([inner]), np.array([single]))
    assert found.tolist() == [least]


@pytest.mark.parametrize(("bound", "factors"), CASES)
def test_places(bound: int, factors: str):
    axis = axis_of(bound, factors)
    numbers = axis.numbers.tolist()
    every = np.arange(1, bound + 1)
    expected = [numbers.index(n) if n in numbers else NOWHERE for n in every.tolist()]
    assert axis.place(every).tolist() == expected
    assert axis.at_least(every).tolist() == [min(t for t in numbers if t >= n) for n in every.tolist()]


@pytest.mark.parametrize(("bound", "factors"), CASES)
def test_rounds_of_children(bound: int, factors: str):
    axis = axis_of(bound, factors)
    pairs = np.array([(s, t) for s in range(1, bound + 2) for t in axis.numbers.tolist()], dtype=np.int64)
    places = axis.rounds_of(pairs[:, 0], pairs[:, 1]).tolist()
    for (children, tiles), place in zip(pairs.tolist(), places, strict=True):
        rounds = after(tiles, min(children, tiles) if factors == ANY else children, factors)
        assert (None if place == NOWHERE else axis.numbers[place]) == rounds


@pytest.mark.parametrize(("bound", "factors"), CASES)
def test_what_loops_reach(bound: int, factors: str):
    axis, random = axis_of(bound, factors), Random(bound)
    for allowed in (some(random, bound, factors) for _ in range(6)):
        reach = axis.reach(allowed)
        for (o, outer), (i, inner) in product(enumerate(axis.numbers.tolist()), repeat=2):
            reached = any(after(inner, factor, factors) == outer for factor in allowed)
            assert reach[o, i] == reached


def least(loops: SlotLoops, table: np.ndarray, dims: list[int], factors: str) -> np.ndarray:
    """The minimum over what each combination of factors leaves outside."""
    found = np.full_like(table, np.inf)
    still = [d for d in range(len(loops.axes)) if d not in dims]
    if any(1 not in loops.allowed[d] for d in still):
        return found
    options = [sorted(own) if d in dims else [1] for d, own in enumerate(loops.allowed)]
    for places, chosen in product(product(*map(range, table.shape)), product(*options)):
        numbers = [int(axis.numbers[p]) for axis, p in zip(loops.axes, places, strict=True)]
        left = [after(n, factor, factors) for n, factor in zip(numbers, chosen, strict=True)]
        if None not in left:
            at = tuple(axis.numbers.tolist().index(n) for axis, n in zip(loops.axes, left, strict=True))
            found[places] = min(found[places], table[at])
    return found


def table_of(axes: list[TileAxis], random: Random) -> np.ndarray:
    return np.random.default_rng(random.randrange(99)).random([len(axis.numbers) for axis in axes])


@pytest.mark.parametrize("factors", RULES)
@pytest.mark.parametrize("dims", [[0, 1], [0], [1], []])
def test_least_over_some_factors(factors: str, dims: list[int]):
    random = Random(3)
    for bounds in ((6, 4), (7, 12), (13, 2)):
        axes = [axis_of(bound, factors) for bound in bounds]
        # Not all of them: then minima over remainders are exact.
        allowed = [some(random, bound, factors) - {bound} | {1} for bound in bounds]
        loops, table = SlotLoops(axes, allowed), table_of(axes, random)
        assert (loops.least(table, dims) == least(loops, table, dims, factors)).all()


@pytest.mark.parametrize("factors", RULES)
def test_slots_that_need_a_loop(factors: str):
    axes = [axis_of(6, factors), axis_of(4, factors)]
    loops, table = SlotLoops(axes, [frozenset({2, 3}), frozenset({1, 2})]), table_of(axes, Random(5))
    assert not loops.may_be_empty
    assert np.isinf(loops.least(table, [1])).all()
    assert (loops.least(table, [0]) == least(loops, table, [0], factors)).all()


def test_least_over_all_perfect_factors():
    axes = [axis_of(12, PERFECT), axis_of(6, PERFECT)]
    loops, table = (
        SlotLoops(axes, [frozenset(divisors(12)), frozenset(divisors(6))]),
        table_of(axes, Random(1)),
    )
    assert (loops.least(table) == least(loops, table, [0, 1], PERFECT)).all()


@pytest.mark.parametrize("bound", BOUNDS)
def test_running_minima_are_never_above_those_over_all_factors(bound: int):
    axes, random = [axis_of(bound, ANY), axis_of(5, ANY)], Random(bound)
    loops = SlotLoops(axes, [frozenset(range(1, bound + 1)), frozenset(range(1, 6))])
    for _ in range(4):
        table = table_of(axes, random)
        running = loops.least(table)
        assert (running <= least(loops, table, [0, 1], ANY)).all()
        assert (running <= table).all()
        single = loops.least(table, [0])
        numbers = axes[0].numbers
        for place, tiles in enumerate(numbers.tolist()):
            able = (numbers == tiles) | (numbers <= -(-tiles // 2))
            assert (single[place] == table[able].min(axis=0)).all()
