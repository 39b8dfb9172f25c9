"""Classes of loop orders against all permutations."""

from collections.abc import Callable
from random import Random

import pytest

from model.mapspace import TemporalRules
from model.problem import Dataspace
from solver.search.path.orders import allowed_orders
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
