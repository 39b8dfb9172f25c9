"""Classes of loop orders against all permutations."""

from collections.abc import Callable
from random import Random

import pytest

from model.mapspace import TemporalRules
from model.problem import Dataspace
from solver.search.space.orders import allowed_orders, put_inside
from tests.bruteforce import temporal_orders

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


@pytest.mark.parametrize("seed", range(30))
def test_loops_that_may_be_innermost(seed: int):
    random = Random(seed)
    dims = tuple("ABCDE")
    rules, live = random_rules(random, dims), frozenset(random.sample(range(5), random.randint(1, 5)))
    inside = put_inside(rules, dims)
    innermost = {order[0] for order in allowed_orders(rules, [dims[d] for d in sorted(live)])}
    assert innermost == {dims[d] for d in live if live.isdisjoint(inside[d])}
