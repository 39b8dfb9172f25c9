"""The best loop orders of given factors against all orders that the rules allow."""

import math
from itertools import islice, product
from random import Random

import pytest

from model.cost import evaluate
from model.mapping import FanoutMapping, Mapping, StorageMapping
from model.mapspace import Mapspace
from solver.search.goal import Goal
from solver.search.path.completion import Completion
from solver.search.priced import Skeleton
from solver.search.space.search_space import SearchSpace
from solver.search.space.spatial import FanoutChoice, StageChoice
from tests.bruteforce import enumerate_mappings
from tests.solver.search.unusual import unusual_mapspaces
from tests.strategies import random_mapspaces


def never() -> bool:
    return False


def skeleton(space: SearchSpace, mapping: Mapping) -> Skeleton:
    """The factors of a mapping without its orders."""
    storage = [part for part in mapping.nodes if isinstance(part, StorageMapping)]
    spatial = [part for part in mapping.nodes if isinstance(part, FanoutMapping)]
    temporal = tuple(factors(space, part.temporal) for part in storage)
    choices = [FanoutChoice(factors(space, part.spatial), along_x(space, part)) for part in spatial]
    dims = range(len(space.active))
    stages = [tuple(choices[fanout] for fanout in below) for below in space.fanouts_below]
    members = [
        StageChoice(own, tuple(math.prod(choice.factors[d] for choice in own) for d in dims))
        for own in stages
    ]
    mask = tuple(frozenset(v.place for v in space.views if v.name in part.keep) for part in storage)
    return Skeleton(space, mask, temporal, tuple(members))


def along_x(space: SearchSpace, part: FanoutMapping) -> frozenset[int]:
    return frozenset(space.active.index(loop.dim) for loop in part.spatial if loop.axis == "x")


def factors(space: SearchSpace, loops) -> tuple[int, ...]:
    return tuple(math.prod(loop.bound for loop in loops if loop.dim == dim) for dim in space.active)


def check(mapspace: Mapspace, random: Random) -> int:
    """Complete some skeletons of a mapspace and hold the first mapping against all orders."""
    space = SearchSpace(mapspace)
    mappings = list(islice(enumerate_mappings(mapspace), 3000))
    for mapping in random.sample(mappings, min(3, len(mappings))):
        bones = skeleton(space, mapping)
        depth = len(bones.temporal)
        every = [
            evaluate(mapspace.problem, mapspace.architecture, bones.mapping(orders))
            for orders in product(*(list(bones.orders(level)) for level in range(depth)))
        ]
        if not every[0].valid:
            continue
        access = min(e.energy - sum(level.leak_energy for level in e.levels) for e in every)
        first = next(Completion(bones).best(Goal("energy"), never)).evaluation
        assert first.energy - sum(level.leak_energy for level in first.levels) == access
        for objective in ("energy", "latency", "edp"):
            goal = Goal(objective)
            for priced in Completion(bones).best(goal, never):
                value = goal.value(priced.evaluation.energy, priced.evaluation.cycles)
                if goal.incumbent is None or value < goal.incumbent:
                    goal.incumbent = value
            assert goal.incumbent == min(goal.value(e.energy, e.cycles) for e in every)
    return len(mappings)


@pytest.mark.parametrize("seed", range(5))
def test_orders_come_out_best_first(seed: int):
    random = Random(seed)
    assert sum(check(mapspace, random) for mapspace in random_mapspaces(400 + seed, 12, 400)) > 100


@pytest.mark.parametrize("seed", range(3))
def test_orders_of_unusual_einsums(seed: int, monkeypatch: pytest.MonkeyPatch):
    random = Random(seed)
    drawn = unusual_mapspaces(monkeypatch, 410 + seed, 12, 300)
    assert sum(check(mapspace, random) for mapspace in drawn) > 100


def test_nothing_comes_out_that_cannot_improve():
    mapspace = next(m for m in random_mapspaces(420, 20, 300) if any(enumerate_mappings(m)))
    mapping = next(enumerate_mappings(mapspace))
    bones = skeleton(SearchSpace(mapspace), mapping)
    best = min(priced.evaluation.energy for priced in Completion(bones).best(Goal("energy"), never))
    assert [p.evaluation.energy for p in Completion(bones).best(Goal("energy", incumbent=best + 1), never)][
        :1
    ] == [best]
    assert list(Completion(bones).best(Goal("energy", incumbent=best), never)) == []
    assert list(Completion(bones).best(Goal("latency", limits=(("energy", best - 1),)), never)) == []
