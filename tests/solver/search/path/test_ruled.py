"""Words by Timeloop's and AccelForge's rules: bounds on orders of loops, and which orders are told apart."""

from dataclasses import replace
from itertools import permutations, product
from random import Random

import pytest

from model.architecture import StorageLevel
from model.counting import ACCELFORGE, TIMELOOP, Counting, rule_of
from model.counting.words import displacement
from model.mapspace import Mapspace
from model.numbers import divisors
from model.problem import Dataspace, Problem, Term
from solver.search.path.orders import Dims, Slot
from solver.search.path.ruled import RuledCosts, RuledOrders
from solver.search.path.words import DimLoops, Lines
from solver.search.space.search_space import SearchSpace
from tests import strategies
from tests.mapspaces import free_mapspace
from tests.solver.search.unusual import unusual_einsum, windows_anywhere
from tests.strategies import random_mapspaces

LEVELS = tuple(StorageLevel(name) for name in ("dram", "buffer", "register"))
INNERMOST = len(LEVELS) - 1


def drawn(seed: int, monkeypatch: pytest.MonkeyPatch, counting: Counting) -> list[SearchSpace]:
    """Random problems on three levels without children or rules."""
    monkeypatch.setattr(strategies, "EINSUMS", (windows_anywhere, unusual_einsum, *strategies.EINSUMS))
    problems = (mapspace.problem for mapspace in random_mapspaces(seed, 12, 1500))
    mapspaces = (free_mapspace(problem, *LEVELS) for problem in problems)
    return [SearchSpace(replace(own, counting=counting)) for own in mapspaces]


def factors(random: Random, bound: int) -> tuple[int, ...]:
    """Temporal factors of the levels."""
    outer = random.choice(divisors(bound))
    middle = random.choice(divisors(bound // outer))
    return outer, middle, bound // outer // middle


def random_lines(random: Random, space: SearchSpace) -> tuple[DimLoops, ...]:
    lines = Lines(space)
    return tuple(
        lines.line(d, factors(random, space.problem.bound[dim]), ()) for d, dim in enumerate(space.active)
    )


def slots_of(lines: tuple[DimLoops, ...], space: SearchSpace) -> list[Slot]:
    """The slots outside of the innermost level."""
    found = []
    for level in range(INNERMOST):
        live = tuple(d for d, line in enumerate(lines) if line.temporal[level] > 1)
        farther_in = range(level + 1, INNERMOST)
        sliding = {d for d in space.window_dims if any(lines[d].temporal[n] > 1 for n in farther_in)}
        views = frozenset(range(len(space.views)))
        found.append(Slot(level, live, frozenset(live), None, views, frozenset(sliding)))
    return found


def delivered(space: SearchSpace, lines: tuple[DimLoops, ...], orders: tuple[Dims, ...], place: int) -> int:
    """Words of a dataspace that come to the innermost level, as the cost model counts them."""
    dataspace, costs = space.problem.dataspaces[place], RuledCosts(space)
    (part,) = (p for p in costs.parts(place, (0, INNERMOST)) if p.level == p.boundary)
    moves = [
        (lines[d].temporal[level], displacement(dataspace, space.active[d], lines[d].strides[level]))
        for level in reversed(range(INNERMOST))
        for d in orders[level]
    ]
    return rule_of(space.mapspace.counting).delivered_words(costs._tile(part, lines), moves)


def bounded(space: SearchSpace, lines: tuple[DimLoops, ...], orders: tuple[Dims, ...], place: int) -> int:
    """What the search thinks of them."""
    costs = RuledCosts(space)
    (part,) = (p for p in costs.parts(place, (0, INNERMOST)) if p.level == p.boundary)
    above = tuple(line.above[INNERMOST] for line in lines)
    words = costs.price(part, lines, above)[1]
    if part.by_order:
        every = enumerate(orders)
        words += sum(costs.of_slot(part, lines, above, level, (own,))[0] for level, own in every)
    return words


@pytest.mark.parametrize("counting", [TIMELOOP, ACCELFORGE])
@pytest.mark.parametrize("seed", range(4))
def test_words_are_bounded_and_without_windows_exact(
    seed: int, counting: Counting, monkeypatch: pytest.MonkeyPatch
):
    random, exact, every = Random(seed), 0, 0
    for space in drawn(1200 + seed, monkeypatch, counting):
        lines = random_lines(random, space)
        slots = slots_of(lines, space)
        orders = tuple(tuple(random.sample(slot.live, len(slot.live))) for slot in slots)
        for view in space.views:
            least, words = (of(space, lines, orders, view.place) for of in (bounded, delivered))
            assert least <= words
            assert least == words or (view.window_dims and counting == TIMELOOP)
            exact, every = exact + (least == words), every + 1
    assert exact > 0.9 * every > 0


@pytest.mark.parametrize("counting", [TIMELOOP, ACCELFORGE])
@pytest.mark.parametrize("seed", range(4))
def test_no_order_is_better_than_those_that_are_looked_at(
    seed: int, counting: Counting, monkeypatch: pytest.MonkeyPatch
):
    random = Random(seed)
    for space in drawn(1250 + seed, monkeypatch, counting):
        lines = random_lines(random, space)
        slots, orders = slots_of(lines, space), RuledOrders(space)
        words = {
            chosen: [delivered(space, lines, chosen, view.place) for view in space.views]
            for chosen in product(*(permutations(slot.live) for slot in slots))
        }
        few = list(product(*map(orders.options, slots)))
        assert {*few} <= words.keys()
        for own in words.values():
            assert any(all(a <= b for a, b in zip(words[one], own, strict=True)) for one in few)


def test_contractions_of_many_indices_have_few_orders_that_differ():
    dims = "ABCDEFGHIJKL"
    tensors = {"left": "ABCDEF", "right": "DEFGHIJ", "out": "ABCGHIJKL"}
    spaces = tuple(
        Dataspace(name, tuple((Term(d),) for d in own), read_write=name == "out")
        for name, own in tensors.items()
    )
    problem = Problem("contraction", tuple(dims), (2,) * len(dims), spaces)
    mapspace: Mapspace = replace(free_mapspace(problem, *LEVELS[:2]), counting=TIMELOOP)
    live = tuple(range(len(dims)))
    slot = Slot(0, live, frozenset(live), None, frozenset(range(3)), frozenset())
    # K and L leave both operands in place, and of the three other groups one may be innermost.
    assert 2 < len(RuledOrders(SearchSpace(mapspace)).options(slot)) < 100
