"""The search along paths within limits on energy, cycles and EDP, against the enumeration of all mappings."""

from dataclasses import replace
from fractions import Fraction
from random import Random

import pytest

from model.architecture import StorageLevel
from model.extents import ANY
from model.mapspace import Mapspace
from model.objective import OBJECTIVES, objective_value
from solver.result import Options, Status
from solver.search import map_by_bounds
from solver.search.path.search import EinsumSearch
from tests.bruteforce import optima, valid_mappings
from tests.mapspaces import free_mapspace, matmul
from tests.slow import few
from tests.solver.search.path.alone import Limits, searched
from tests.strategies import random_mapspaces, random_mapspaces_with_remainders

DRAWS = [random_mapspaces, random_mapspaces_with_remainders]
Costs = set[tuple[int, int]]


def costs_of(mapspace: Mapspace) -> Costs:
    """Energy and cycles of all mappings."""
    return {(own.energy, own.cycles) for own in valid_mappings(mapspace, innermost_orders=False)}


def random_limits(random: Random, costs: Costs) -> Limits:
    """Limits that some mappings keep, or none does."""
    found = []
    for name in random.sample(list(OBJECTIVES), random.randint(1, 2)):
        values = sorted({objective_value(name, *own) for own in costs})
        least = values[0]
        some = least, least - 1, values[len(values) // 10], random.choice(values)
        found.append((name, random.choice(some)))
    return tuple(found)


def least_within(costs: Costs, objective: str, limits: Limits) -> int | None:
    """The optimum within limits."""
    within = (own for own in costs if all(objective_value(name, *own) <= most for name, most in limits))
    return min((objective_value(objective, *own) for own in within), default=None)


@pytest.mark.parametrize("draw", DRAWS)
@pytest.mark.parametrize("seed", few(range(3)))
def test_optimum_within_limits(draw, seed: int):
    for number, mapspace in enumerate(draw(960 + seed, 4, 200)):
        costs, random = costs_of(mapspace), Random(10 * seed + number)
        for objective in OBJECTIVES if costs else ():
            limits = random_limits(random, costs)
            value = least_within(costs, objective, limits)
            assert searched(mapspace, objective, limits=limits) == (value, value)


def test_a_limit_is_inclusive():
    mapspace = random_mapspaces_with_remainders(964, 1, 250)[0]
    costs = costs_of(mapspace)
    for objective in OBJECTIVES:
        least = least_within(costs, objective, ())
        assert least is not None
        assert searched(mapspace, objective, limits=((objective, least),)) == (least, least)
        assert searched(mapspace, objective, limits=((objective, least - 1),)) == (None, None)


@pytest.mark.parametrize("order", [("edp", "energy"), ("latency", "energy"), ("energy", "latency", "edp")])
def test_later_objectives(order: tuple[str, ...]):
    for mapspace in random_mapspaces_with_remainders(970, 5, 200):
        best = optima(mapspace, [order])[0]
        result = map_by_bounds(mapspace, Options(order))
        assert (result.status is Status.INFEASIBLE) == (best is None)
        if best is not None:
            assert result.evaluation is not None
            assert tuple(map(result.evaluation.value, order)) == best[0]
            assert result.status is Status.OPTIMAL


def test_too_few_units_are_noticed_before_paths_are_listed(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delattr(EinsumSearch, "_open_row")
    mapspaces = random_mapspaces_with_remainders(980, 12, 200)
    mapspace = next(own for own in mapspaces if not own.architecture.fanouts)
    narrowed = replace(mapspace, min_parallelism=Fraction(2))
    assert searched(narrowed, "energy") == (None, None)


def test_an_outermost_memory_without_room_is_noticed_before_paths_are_listed(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delattr(EinsumSearch, "_open_row")
    levels = StorageLevel("dram", size_words=16), StorageLevel("buffer", size_words=9)
    mapspace = replace(free_mapspace(matmul(3, 2, 2), *levels), factors=ANY)  # 6 + 4 + 6 words
    assert searched(mapspace.where("tile(dram, M) < 3"), "energy") == (None, None)
    assert searched(shrunk(mapspace, 15), "energy") == (None, None)
    assert searched(shrunk(mapspace, 16), "energy") != (None, None)


def shrunk(mapspace: Mapspace, words: int) -> Mapspace:
    """Limit the outermost memory to `words`."""
    outermost, *inner = mapspace.architecture.nodes
    assert isinstance(outermost, StorageLevel)
    nodes = (replace(outermost, size_words=words), *inner)
    return replace(mapspace, architecture=replace(mapspace.architecture, nodes=nodes))
