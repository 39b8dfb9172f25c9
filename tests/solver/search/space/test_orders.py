"""Classes of loop orders against all permutations."""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from itertools import permutations, product
from random import Random

import numpy as np
import pytest

from model.architecture import AccessEnergy, StorageLevel
from model.cost.counting import displacement, extents
from model.cost.rules import rule_of
from model.mapspace import COUNTINGS, EXACT, Counting, FactorRule, Mapspace, TemporalRules
from model.problem import Dataspace, Problem, Term
from solver.search.branching.branch import Branching
from solver.search.branching.completion import Skeleton
from solver.search.branching.walk import Node, Walk
from solver.search.goal import Goal
from solver.search.space.dataspaces import view
from solver.search.space.orders import OrderClass, allowed_orders, slot_orders
from solver.search.space.search_space import SearchSpace
from tests.bruteforce import temporal_orders
from tests.mapspaces import free_mapspace
from tests.slow import few
from tests.solver.search.unusual import subproblems, unlimited_bounds, unusual_einsum, windows_anywhere
from tests.strategies import CONVOLUTIONS, gemm, mttkrp, two_outputs

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


def slide_along_what_all_use(random: Random) -> tuple[Dataspace, ...]:
    """An output that slides along a dimension of all dataspaces; another one leaves an operand in place."""
    window = tuple(random.sample((Term("P"), Term("S")), 2))
    return Dataspace("B", ((Term("S"),),)), Dataspace("Z", ((Term("Q"),), window), read_write=True)


SIMPLE = (gemm, mttkrp, two_outputs, simple_einsum)
SLIDING = (*CONVOLUTIONS, unusual_einsum, slide_along_what_all_use, windows_anywhere)


@pytest.mark.parametrize("einsum", SIMPLE)
@pytest.mark.parametrize("seed", few(range(25), 10))
def test_classes_cover_every_useful_order(einsum: Einsum, seed: int):
    """Whatever an order delivers, some class has an order that delivers no more of any dataspace."""
    mapspace = one_slot(einsum, Random(seed), EXACT)
    dims, spaces = mapspace.problem.dims, mapspace.problem.dataspaces
    views = [view(space, place, mapspace.problem, dims) for place, space in enumerate(spaces)]
    classes = slot_orders(mapspace.temporal[0], dims, views).classes
    reached = {words(mapspace, order) for members in classes for order in orders_of(members, dims)}
    for order in allowed_orders(mapspace.temporal[0], dims):
        assert no_worse(reached, words(mapspace, order)), order


@pytest.mark.parametrize("counting", COUNTINGS)
@pytest.mark.parametrize("einsum", SLIDING)
@pytest.mark.parametrize("seed", few(range(15), 5))
def test_some_class_is_charged_no_more_than_an_order(einsum: Einsum, seed: int, counting: Counting):
    """Whatever an order delivers, branching charges some class no more for any dataspace."""
    mapspace = one_slot(einsum, Random(seed), counting)
    charged = set(walked(mapspace))
    for order in allowed_orders(mapspace.temporal[0], mapspace.problem.dims):
        assert no_worse(charged, words(mapspace, order)), order


def one_slot(einsum: Einsum, random: Random, counting: Counting) -> Mapspace:
    """Loops of two or three iterations over every dimension, above tiles that two iterations touch."""
    spaces = einsum(random)
    dims = tuple(sorted({dim for space in spaces for dim in space.dims}))
    rules = random.choice((TemporalRules(), random_rules(random, dims)))
    loops = {dim: random.choice((2, 3)) for dim in dims}
    factors = tuple(FactorRule(dim, "=", count) for dim, count in loops.items())
    free = free_mapspace(
        Problem("p", dims, tuple(2 * count for count in loops.values()), spaces),
        StorageLevel("dram", energy=AccessEnergy(1, 1, 1)),
        StorageLevel("buffer"),
    )
    return replace(free, temporal=(replace(rules, factors=factors), TemporalRules()), counting=counting)


def words(mapspace: Mapspace, order: Sequence[str]) -> tuple[int, ...]:
    """What the buffer gets of each dataspace."""
    loops = {rule.dim: rule.value for rule in mapspace.temporal[0].factors}
    rule, tiles = rule_of(mapspace.counting), dict.fromkeys(loops, 2)
    return tuple(
        rule.delivered_words(
            extents(space, tiles), [(loops[dim], displacement(space, dim, 2)) for dim in order]
        )
        for space in mapspace.problem.dataspaces
    )


def no_worse(reached: Collection[tuple[int, ...]], wanted: tuple[int, ...]) -> bool:
    return any(all(a <= b for a, b in zip(have, wanted, strict=True)) for have in reached)


class Root(Branching):
    """Stops at the root."""

    def _visit(self, node: Node) -> Iterator[Skeleton]:
        self.root = node
        yield from ()


def walked(mapspace: Mapspace) -> Iterator[tuple[int, ...]]:
    """Least words of each dataspace that branching charges, for every class, and for both of its cases."""
    space = SearchSpace(mapspace)
    (sub,) = subproblems(space)
    bounds = unlimited_bounds(sub)
    orders = slot_orders(mapspace.temporal[0], space.active, space.views)
    branching = Root(bounds, Goal("energy"), (orders, orders), lambda: False, None)
    list(branching.skeletons())
    (member,) = sub.spatial[0].members
    stage = bounds.stages[0]
    candidates = branching._candidates(branching.root, stage, np.arange(len(stage.tiles)), member)
    assert len(candidates.tiles) == 1
    idle = not orders.useful
    for number, order in enumerate(orders.classes):
        if branching._possible(candidates.loops, order, orders.fixed)[0] or (idle and number == 0):
            for together in (True, False):
                walk = Walk(space, branching.root, candidates, order, together)
                if together or walk.splits[0]:
                    yield tuple(int(walk.delivered(b)[0]) for b in bounds.boundaries.by_level[1])


def orders_of(members: OrderClass, dims: tuple[str, ...]) -> list[tuple[str, ...]]:
    """All orders of a class: groups in their order."""
    inside = [permutations(group.dims) for group in members.groups]
    return [tuple(dims[d] for group in order for d in group) for order in product(*inside)]


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
