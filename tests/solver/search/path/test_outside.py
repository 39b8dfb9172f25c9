"""Tables of what lies outside of a boundary against mappings that the cost model prices."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import permutations, product

import numpy as np
import pytest

from model.architecture import AccessEnergy, Fanout, StorageLevel
from model.cost import evaluate_in
from model.extents import ANY, PERFECT
from model.mapping import Loop, Mapping, StorageMapping
from model.mapspace import FactorRule, KeepRules, Mapspace, TemporalRules
from model.problem import Dataspace, Problem, Term
from solver.search.path.charges import Charges
from solver.search.path.frame import TileFrame
from solver.search.path.outside import Outside
from solver.search.space.search_space import SearchSpace
from tests.bruteforce import optimum
from tests.mapspaces import free_mapspace, matmul
from tests.solver.search.path.alone import searched
from tests.strategies import random_mapspaces

DRAM = StorageLevel("DRAM", energy=AccessEnergy(read=200, fill=170, update=190))
BUFFER = StorageLevel("buffer", size_words=30, energy=AccessEnergy(fill=3))
"""Only words that are delivered to the buffer cost something: it is read for nothing."""

CASES = [((4, 6, 2), PERFECT), ((3, 4, 9), PERFECT), ((5, 3, 4), ANY), ((7, 2, 5), ANY)]


def mapped(mapspace: Mapspace, outer: tuple[str, ...], tiles: dict[str, int]) -> Mapping:
    """Loops over tiles in this order, innermost first, around loops over the iterations of a tile."""
    problem = mapspace.problem
    every = frozenset(space.name for space in problem.dataspaces)
    inner = tuple(Loop(dim, -(-bound // tiles[dim])) for dim, bound in problem.bound.items())
    loops = tuple(Loop(dim, tiles[dim]) for dim in outer)
    return Mapping((StorageMapping(loops, every), StorageMapping(inner, every)))


def orders(tiles: dict[str, int]) -> Iterator[tuple[str, ...]]:
    yield from permutations(dim for dim, number in tiles.items() if number > 1)


@pytest.mark.parametrize(("bounds", "factors"), CASES)
def test_two_levels_are_exact(bounds: tuple[int, int, int], factors):
    mapspace = replace(free_mapspace(matmul(*bounds), DRAM, BUFFER), factors=factors)
    space = SearchSpace(mapspace)
    frame = TileFrame(space)
    outside = Outside(frame, Charges(space, space.keep_masks[0]))
    assert frame.meeting == 1
    for at in product(*map(range, frame.shape)):
        numbers = (int(axis.numbers[place]) for axis, place in zip(frame.axes, at, strict=True))
        tiles = dict(zip(space.active, numbers, strict=True))
        priced = {order: evaluate_in(mapspace, mapped(mapspace, order, tiles)) for order in orders(tiles)}
        fitting = {order: own.energy for order, own in priced.items() if own.valid}
        assert outside.least(1)[at] == min(fitting.values(), default=np.inf)
        for lead in frame.leads(0):
            leading = {space.active[d] for d in frame.leading(lead)}
            led = [energy for order, energy in fitting.items() if order and order[0] in leading]
            if lead is not None and led:
                assert outside.exact(1, lead)[at] == min(led)


@pytest.mark.parametrize(("bounds", "factors"), [((4, 3, 2), PERFECT), ((3, 2, 3), ANY)])
def test_tables_of_three_levels_are_never_above_the_optimum(bounds: tuple[int, int, int], factors):
    middle = StorageLevel("middle", size_words=14, energy=AccessEnergy(read=20, fill=21, update=25))
    mapspace = free_mapspace(matmul(*bounds), DRAM, middle, replace(BUFFER, size_words=6))
    space = SearchSpace(replace(mapspace, factors=factors))
    outside = Outside(TileFrame(space), Charges(space, space.keep_masks[0]))
    best = optimum(space.mapspace, "energy")
    assert best is not None
    assert 0.9 * best[0] < outside.least(2).min() <= best[0]


SHIFTED = Problem(
    "shifted",
    ("K", "C", "P", "R"),
    (2, 4, 2, 3),
    (
        Dataspace("W", ((Term("K"),), (Term("C"),), (Term("R"),))),
        Dataspace("I", ((Term("C"),), (Term("R"),), (Term("P"),))),
        Dataspace("O", ((Term("K"),), (Term("P"),)), read_write=True),
    ),
)
"""A product per position of a filter: inputs are shifted, and sums go on."""


@pytest.mark.parametrize("factors", [PERFECT, ANY])
@pytest.mark.parametrize(("inner", "outer"), [("", "R"), ("P", "CR"), ("R", ""), ("", "RK"), ("CP", "R")])
def test_an_order_outside_is_exact(inner: str, outer: str, factors):
    """What the innermost loop leaves in place comes again where others are put inside of further loops."""
    mapspace = replace(free_mapspace(SHIFTED, DRAM, BUFFER), factors=factors)
    rules = TemporalRules(inner=tuple(inner), outer=tuple(outer))
    mapspace = replace(mapspace, temporal=(rules, TemporalRules()))
    space = SearchSpace(mapspace)
    frame = TileFrame(space)
    outside = Outside(frame, Charges(space, space.keep_masks[0]))
    for at in product(*map(range, frame.shape)):
        numbers = (int(axis.numbers[place]) for axis, place in zip(frame.axes, at, strict=True))
        tiles = dict(zip(space.active, numbers, strict=True))
        allowed = (order for order in orders(tiles) if keeps(order, inner, outer))
        priced = {order: evaluate_in(mapspace, mapped(mapspace, order, tiles)) for order in allowed}
        fitting = {order: own.energy for order, own in priced.items() if own.valid}
        assert outside.least(1)[at] == min(fitting.values(), default=np.inf)
        for lead in (own for own in frame.leads(0) if own is not None):
            leading = {space.active[d] for d in frame.leading(lead)}
            led = (energy for order, energy in fitting.items() if order and order[0] in leading)
            assert outside.exact(1, lead)[at] == min(led, default=np.inf)


def keeps(order: tuple[str, ...], inner: str, outer: str) -> bool:
    """Whether loops begin with those of `inner` that there are, and end with those of `outer`."""
    first, last = ([dim for dim in own if dim in order] for own in (inner, outer))
    return list(order[: len(first)]) == first and list(order[len(order) - len(last) :]) == last


def convolution() -> Problem:
    spaces = (
        Dataspace("W", ((Term("K"),), (Term("C"),), (Term("R"),))),
        Dataspace("I", ((Term("C"),), (Term("P"), Term("R")))),
        Dataspace("O", ((Term("K"),), (Term("P"),)), read_write=True),
    )
    return Problem("convolution", ("K", "C", "P", "R"), (4, 4, 8, 3), spaces)


@pytest.mark.parametrize("factors", [PERFECT, ANY])
def test_windows_that_are_repeated(factors):
    """A loop over K repeats the inputs, which slide along R: whole tiles, or sums are repeated along C."""
    mapspace = replace(free_mapspace(convolution(), DRAM, replace(BUFFER, size_words=200)), factors=factors)
    space = SearchSpace(mapspace)
    frame = TileFrame(space)
    outside = Outside(frame, Charges(space, space.keep_masks[0]))
    for numbers in product((1, 2, 4), (1, 2, 4), (1, 2), (1, 3)):
        pairs = zip(frame.axes, numbers, strict=True)
        at = tuple(int(axis.place(np.array([number]))[0]) for axis, number in pairs)
        tiles = dict(zip(space.active, numbers, strict=True))
        priced = {order: evaluate_in(mapspace, mapped(mapspace, order, tiles)) for order in orders(tiles)}
        for lead in (own for own in frame.leads(0) if own is not None):
            leading = {space.active[d] for d in frame.leading(lead)}
            led = [own.energy for order, own in priced.items() if own.valid and {*order[:1]} & leading]
            least = outside.exact(1, lead)[at]
            assert least <= min(led, default=np.inf)
            if factors == PERFECT and led and tiles["C"] > 1 and tiles["P"] == 1:
                assert least == min(led)


def outer_loop_fixed(factor: int) -> Mapspace:
    """Mapspace of a product in an array, whose outermost loop over M has so many iterations."""
    mapspace = free_mapspace(matmul(12, 2, 2), DRAM, BUFFER, Fanout("array", 4), StorageLevel("register"))
    fixed = TemporalRules((FactorRule("M", "=", factor),))
    return replace(mapspace, factors=ANY, temporal=(fixed, *mapspace.temporal[1:]))


@pytest.mark.parametrize(
    ("factor", "numbers", "children"),
    [(12, (12, 1), {1}), (5, (12, 1), set()), (4, (12, 4, 1), {1, 3}), (3, (12, 6, 3, 1), {1, 2, 4})],
)
def test_a_fixed_factor_leaves_out_tiles_and_children(
    factor: int, numbers: tuple[int, ...], children: set[int]
):
    frame = TileFrame(SearchSpace(outer_loop_fixed(factor)))
    assert frame.narrowed().lattice.every_number(0) == numbers
    assert set(frame.space.stages[1].factors[frame.able(1), 0].tolist()) == children


@pytest.mark.parametrize(
    ("rows", "rule", "expected"),
    [
        (1, None, {(1, "N"), (2, "N")}),
        (2, None, {(2, "N")}),
        (1, FactorRule("N", "=", 1), set()),
    ],
)
def test_loops_that_can_be_left_to_the_innermost_slot(
    rows: int, rule: FactorRule | None, expected: set[tuple[int, str]]
):
    """The two innermost levels keep A alone, which N does not index; a rule may forbid it, or children."""
    fanout = Fanout("array", rows)
    nodes = (DRAM, BUFFER, fanout, replace(BUFFER, name="near"), StorageLevel("register", size_words=1))
    mapspace = free_mapspace(matmul(2, 2, 3), *nodes, keep=False)
    all_kept = KeepRules(frozenset("ABZ"))
    mapspace = replace(mapspace, keep=(all_kept, all_kept, *mapspace.keep[2:]))
    last = TemporalRules(() if rule is None else (rule,))
    space = SearchSpace(replace(mapspace, temporal=(*mapspace.temporal[:-1], last)))
    a, every = frozenset((0,)), frozenset(range(3))
    without = TileFrame(space).under((every, every, a, a)).without
    assert {(slot, space.active[d]) for slot, d in without} == expected
    assert searched(space.mapspace, "energy") == (optimum(space.mapspace, "energy") or (0,))[:1] * 2


def test_doubles_tell_steps_of_energy_apart():
    compared = 0
    for mapspace in random_mapspaces(31, 25, 300):
        space = SearchSpace(mapspace)
        for mask in space.keep_masks[:4]:
            frame, charges = TileFrame(space), Charges(space, mask)
            finely = Outside(frame, charges).finely
            if frame.meeting and finely is not None:
                exact = Outside(frame, charges, charges.fine).least(frame.meeting)
                assert exact.dtype == np.longdouble
                assert np.array_equal(finely.paid(finely.least(frame.meeting)), exact)
                compared += np.isfinite(exact).any()
    assert compared > 10


def test_entries_of_too_many_steps_are_rounded_down():
    dram = replace(DRAM, energy=AccessEnergy(read=1_000_003, fill=999_983, update=1_000_033))
    space = SearchSpace(free_mapspace(matmul(3**10, 2**14, 5**6), dram, replace(BUFFER, size_words=999)))
    charges = Charges(space, space.keep_masks[0])
    finely = Outside(TileFrame(space), charges).finely
    assert finely is not None
    found, exact = finely.paid(finely.least(1)), Outside(TileFrame(space), charges, charges.fine).least(1)
    many = np.isfinite(exact) & (exact > 2**53)
    assert (found[many] < exact[many]).all()
    assert (found[many] > exact[many] * (1 - 1e-12)).all()
    assert many.any()


def test_fractions_of_words_that_are_free_leave_no_steps():
    half = replace(DRAM, energy=AccessEnergy(read=2, fill=2, update=2))
    space = SearchSpace(free_mapspace(matmul(4, 3, 2), half, BUFFER))
    charges = Charges(space, space.keep_masks[0])
    assert Outside(TileFrame(space), charges).finely is not None
    freed = Charges(space, space.keep_masks[0])
    freed.__dict__["every"] = tuple(own._replace(free=0.5) for own in charges.every)
    assert Outside(TileFrame(space), freed).finely is None
