"""Orders that dataspaces can tell apart: found without trying all of them."""

from random import Random

import pytest

from model.architecture import StorageLevel
from model.mapspace import TemporalRules
from model.problem import Dataspace, Problem, Term
from solver.search.path import completion
from solver.search.space.orders import allowed_orders
from solver.search.space.search_space import SearchSpace
from tests import strategies
from tests.mapspaces import free_mapspace
from tests.solver.search.unusual import windows_anywhere
from tests.strategies import random_mapspaces


def distinct(
    space: SearchSpace, rules: TemporalRules, factors: dict[str, int]
) -> tuple[completion.Ordered, ...]:
    return completion.distinct_orders(rules, factors, space.active, space.views)


@pytest.mark.parametrize("seed", range(6))
def test_no_imprint_is_missed(seed: int, monkeypatch: pytest.MonkeyPatch):
    random = Random(seed)
    if seed % 2:
        monkeypatch.setattr(strategies, "EINSUMS", (windows_anywhere,))
    for mapspace in random_mapspaces(1100 + seed, 20, 1500):
        space = SearchSpace(mapspace)
        factors = {dim: random.randint(2, 3) for dim in space.active if random.random() < 0.8}
        few = [distinct(space, rules, factors) for rules in mapspace.temporal]
        with monkeypatch.context() as patch:
            patch.setattr(completion, "allowed_orders", lambda rules, dims, _: allowed_orders(rules, dims))
            every = [distinct(space, rules, factors) for rules in mapspace.temporal]
        assert few == every


def test_contractions_of_many_indices_have_few_orders_that_differ():
    dims = "ABCDEFGHIJKL"
    tensors = {"left": "ABCDEF", "right": "DEFGHIJ", "out": "ABCGHIJKL"}
    spaces = tuple(
        Dataspace(name, tuple((Term(d),) for d in own), read_write=name == "out")
        for name, own in tensors.items()
    )
    problem = Problem("contraction", tuple(dims), (2,) * len(dims), spaces)
    space = SearchSpace(free_mapspace(problem, StorageLevel("dram"), StorageLevel("buffer")))
    found = distinct(space, TemporalRules(), dict.fromkeys(dims, 2))
    # K and L leave both operands in place, and of the three other groups one of each size may be innermost.
    assert 10 < len(found) < 100
