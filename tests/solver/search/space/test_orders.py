"""Classes of loop orders against all permutations."""

from collections.abc import Callable
from itertools import permutations
from random import Random

import pytest

from model.cost.counting import delivered_words, displacement, extents
from model.mapspace import TemporalRules
from model.problem import Dataspace, Problem, Term
from solver.search.space import orders
from solver.search.space.dataspaces import view
from solver.search.space.orders import OrderClass, allowed_orders, slot_orders
from tests.bruteforce import temporal_orders
from tests.solver.search.unusual import unusual_einsum, windows_anywhere
from tests.strategies import (
    convolution_1d,
    convolution_2d,
    depthwise,
    gemm,
    grouped_convolution,
    mttkrp,
    two_outputs,
)

Einsum = Callable[[Random], tuple[Dataspace, ...]]


def random_rules(random: Random, dims: tuple[str, ...]) -> TemporalRules:
    drawn = random.sample(dims, random.randint(0, len(dims)))
    cut = random.randint(0, len(drawn))
    return TemporalRules(inner=tuple(drawn[:cut]), outer=tuple(drawn[cut:]))


@pytest.mark.parametrize("seed", range(30))
def test_allowed_orders(seed: int):
    random = Random(seed)
    dims = tuple("ABCDE")
    rules = random_rules(random, dims)
    live = {dim: random.choice((1, 2, 3)) for dim in dims}
    expected = {tuple(loop.dim for loop in order) for order in temporal_orders(rules, live)}
    found = list(allowed_orders(rules, [dim for dim in dims if live[dim] > 1]))
    assert len(found) == len(set(found))
    assert set(found) == expected


def simple_einsum(random: Random) -> tuple[Dataspace, ...]:
    """Dataspaces that are indexed by any dimensions, one per rank."""
    return tuple(
        Dataspace(name, tuple((Term(dim),) for dim in "PQRST" if random.random() < 0.5)) for name in "ABZ"
    )


def delivered(space: Dataspace, order: tuple[str, ...], loops: dict[str, int]) -> int:
    moves = [(loops[dim], displacement(space, dim, 2)) for dim in order]
    return delivered_words(extents(space, dict.fromkeys(loops, 2)), moves)


def words(spaces: tuple[Dataspace, ...], order: tuple[str, ...], loops: dict[str, int]) -> tuple[int, ...]:
    return tuple(delivered(space, order, loops) for space in spaces)


def slide_along_what_all_use(random: Random) -> tuple[Dataspace, ...]:
    """An output that slides along a dimension of all dataspaces; another one leaves an operand in place."""
    window = tuple(random.sample((Term("P"), Term("S")), 2))
    return Dataspace("B", ((Term("S"),),)), Dataspace("Z", ((Term("Q"),), window), read_write=True)


CONVOLUTIONS = (convolution_1d, convolution_2d, depthwise, grouped_convolution)
UNUSUAL = (unusual_einsum, slide_along_what_all_use, windows_anywhere)
EINSUMS = (gemm, mttkrp, two_outputs, simple_einsum, *UNUSUAL, *CONVOLUTIONS)


@pytest.mark.parametrize("einsum", EINSUMS)
@pytest.mark.parametrize("seed", range(25))
def test_classes_cover_every_useful_order(einsum: Einsum, seed: int):
    """Whatever an order delivers, some class has an order that delivers no more of any dataspace."""
    random = Random(seed)
    spaces = einsum(random)
    dims = tuple(sorted({dim for space in spaces for dim in space.dims}))
    rules = random.choice((TemporalRules(), random_rules(random, dims)))
    assert_covered(spaces, rules, {dim: random.choice((2, 3)) for dim in dims})


@pytest.mark.parametrize("seed", range(40))
def test_groups_too_large_to_be_split(seed: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(orders, "MOST_SPLIT", 1)
    test_classes_cover_every_useful_order(windows_anywhere, seed)


def assert_covered(spaces: tuple[Dataspace, ...], rules: TemporalRules, loops: dict[str, int]) -> None:
    dims = tuple(loops)
    problem = Problem("p", dims, (24,) * len(dims), spaces)
    views = [view(space, place, problem, dims) for place, space in enumerate(spaces)]
    classes = slot_orders(rules, dims, views).classes
    reached = {words(spaces, order, loops) for members in classes for order in orders_of(members, dims)}
    for order in allowed_orders(rules, dims):
        wanted = words(spaces, order, loops)
        assert any(all(a <= b for a, b in zip(have, wanted, strict=True)) for have in reached), order


def test_a_loop_may_return_between_two_along_the_same_window():
    """P and R leave A in place, and Z slides along both; the loop over Q may return between them."""
    spaces = (
        Dataspace("A", ((Term("Q"),),)),
        Dataspace("B", ((Term("R"),), (Term("P", 2),))),
        Dataspace("Z", ((Term("R"), Term("P"), Term("Q")),)),
    )
    assert_covered(spaces, TemporalRules(), {"P": 2, "Q": 3, "R": 2})


def test_a_loop_may_return_between_two_that_leave_the_window_in_place():
    """The user has P innermost; Q and S leave B and Z in place, and R may return between them."""
    spaces = (
        Dataspace("A", ((Term("Q"),), (Term("S", 3),))),
        Dataspace("B", ((Term("P"), Term("R")),)),
        Dataspace("Z", ((Term("R", 2),),)),
    )
    assert_covered(spaces, TemporalRules(inner=("P",)), {"P": 2, "Q": 2, "R": 2, "S": 3})


def test_a_loop_that_moves_all_may_return_between_others():
    """Both dataspaces use Q; it lies between R and S, which leave A in place."""
    spaces = (
        Dataspace("A", ((Term("Q", 2),),)),
        Dataspace("Z", ((Term("S", 2), Term("R"), Term("Q")), (Term("P"),))),
    )
    assert_covered(spaces, TemporalRules(), {"P": 3, "Q": 2, "R": 3, "S": 3})


def orders_of(members: OrderClass, dims: tuple[str, ...]) -> list[tuple[str, ...]]:
    """All orders of a class: groups in their order, but for the loops that may lie farther in."""
    number = {d: place for place, group in enumerate(members.groups) for d in group.dims}
    early = {d: place for place, group in reversed(list(enumerate(members.groups))) for d in group.before}
    return [
        tuple(dims[d] for d in order)
        for order in permutations(number)
        if all(
            number[order[i]] <= number[later] or early.get(order[i], number[order[i]]) <= number[later]
            for i in range(len(order))
            for later in order[i + 1 :]
        )
    ]


@pytest.mark.parametrize("seed", range(20))
def test_every_class_holds_every_dimension_once(seed: int):
    random = Random(seed)
    spaces = unusual_einsum(random)
    dims = tuple(sorted({dim for space in spaces for dim in space.dims}))
    views = [
        view(space, place, Problem("p", dims, (4,) * len(dims), spaces), dims)
        for place, space in enumerate(spaces)
    ]
    rules = random_rules(random, dims)
    orders = slot_orders(rules, dims, views)
    for members in orders.classes:
        assert sorted(d for group in members.groups for d in group.dims) == list(range(len(dims)))
        assert [dims[group.dims[0]] for group in members.groups[: orders.fixed]] == list(rules.inner)
