"""The optimizer against complete enumeration, priced by the plain cost model."""

from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings

from model.mapspace import Mapspace
from solver.result import Status
from solver.search.space.search_space import SearchSpace
from tests import strategies
from tests.bruteforce import Objective
from tests.conftest import REPOSITORY
from tests.mapspaces import perfect_mapspace
from tests.reference import NAMES, OBJECTIVES, OPTIMA, load_reference
from tests.slow import few
from tests.solver.search.holding import compare, solve
from tests.solver.search.unusual import (
    alike_mapspaces,
    fixed_mapspaces,
    register_mapspaces,
    unrolled_mapspaces,
    unusual_einsum,
    unusual_mapspaces,
    windows_anywhere,
    with_signs,
)
from tests.strategies import convolution_2d, mapspaces, random_mapspaces

LEXICOGRAPHIC: tuple[Objective, ...] = (("latency", "energy"), ("energy", "latency"), ("edp", "energy"))
EVERY: tuple[Objective, ...] = (*OBJECTIVES, *LEXICOGRAPHIC)


@pytest.mark.parametrize("seed", few((1, 0)))
def test_single_objectives(seed: int):
    results = compare(random_mapspaces(seed, 20, 600), OBJECTIVES)
    assert {result.status for result in results} == {Status.OPTIMAL, Status.INFEASIBLE}


def sliding(seed: int, count: int, most: int) -> list[Mapspace]:
    """Random mapspaces with dataspaces whose tiles overlap."""
    found = random_mapspaces(seed, 3 * count, most)
    return [mapspace for mapspace in found if SearchSpace(mapspace).window_dims][:count]


@pytest.mark.parametrize("seed", few((71, 73, 70, 72), 2))
def test_windows(seed: int):
    results = compare(sliding(seed, 6, 1000), (*OBJECTIVES, ("latency", "energy")))
    assert Status.OPTIMAL in {result.status for result in results}


@pytest.mark.parametrize("seed", few(range(80, 83)))
def test_windows_along_what_other_dataspaces_use(seed: int, monkeypatch: pytest.MonkeyPatch):
    """A loop that leaves nothing in place may lead a window."""
    monkeypatch.setattr(strategies, "EINSUMS", (windows_anywhere,))
    compare(random_mapspaces(seed, 5, 1200), OBJECTIVES)


ATTENTION = """
problem:
  version: 0.4
  shape:
    name: long-attention
    dimensions: [head, query, key, embed]
    data_spaces:
    - {name: Weights, projection: [[[head]], [[key]], [[embed]]]}
    - {name: Inputs, projection: [[[head]], [[query]], [[embed]]]}
    - {name: Outputs, projection: [[[head]], [[query]], [[key]]], read_write: true}
  instance: {head: 32, query: 1024, key: 1024, embed: 128}
"""


def test_mappings_that_only_rounding_makes_better_are_not_priced(tmp_path: Path):
    """Some 18,000 choices of factors cost as much as the best, and a little less by rounded prices."""
    layer = tmp_path / "attention.yaml"
    layer.write_text(ATTENTION, encoding="utf-8")
    mapspace = perfect_mapspace(REPOSITORY / "specs" / "architectures" / "smv_like.yaml", layer)
    result = solve(mapspace, "energy")
    assert result.status is Status.OPTIMAL
    assert result.statistics.mappings_priced < 50


def test_registers_of_one_dataspace():
    compare(register_mapspaces(5, 12, 1200), ("energy", "edp"))


@pytest.mark.parametrize("seed", few(range(61, 64)))
def test_dimensions_that_are_alike(seed: int):
    compare(alike_mapspaces(seed, 6, 1500), OBJECTIVES)


@pytest.mark.parametrize("seed", few([80, 81]))
def test_registers_of_unusual_einsums(seed: int, monkeypatch: pytest.MonkeyPatch):
    """Windows beside dataspaces that stay in place, in several slots."""
    monkeypatch.setattr(strategies, "EINSUMS", (unusual_einsum, convolution_2d))
    compare(register_mapspaces(seed, 7, 1200), ("energy", "edp"))


@pytest.mark.parametrize("seed", [406, 424, 426])
def test_windows_of_several_ranks_and_directions(seed: int, monkeypatch: pytest.MonkeyPatch):
    compare(unusual_mapspaces(monkeypatch, seed, 9, 1200), ("energy", "edp"))


@pytest.mark.parametrize("seed", few([5, 6]))
def test_windows_that_slide_both_ways(seed: int):
    random = Random(seed)
    compare([with_signs(random, mapspace) for mapspace in sliding(seed, 10, 1000)], ("energy", "edp"))


@pytest.mark.parametrize("seed", few(range(20, 23)))
def test_lists_of_objectives(seed: int):
    results = compare(random_mapspaces(seed, 12, 400), (*LEXICOGRAPHIC, ("latency", "edp", "energy")))
    assert any(result.later_bounds for result in results)


def test_larger_mapspaces():
    compare(random_mapspaces(31, 6, 6000), OBJECTIVES)


@pytest.mark.parametrize("seed", few((41, 42, 40), 2))
def test_unusual_einsums(seed: int, monkeypatch: pytest.MonkeyPatch):
    compare(unusual_mapspaces(monkeypatch, seed, 8, 300), OBJECTIVES)


@pytest.mark.slow
@settings(max_examples=15, derandomize=True, suppress_health_check=list(HealthCheck))
@given(mapspaces(max_mappings=300))
def test_any_mapspace(mapspace: Mapspace):
    compare([mapspace], EVERY)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("axes_apart", [False, True])
def test_reference_optima(name: str, axes_apart: bool):
    """Optima that another program found by enumeration are met exactly."""
    if not OPTIMA.exists():
        pytest.skip(f"{OPTIMA} is absent")
    reference = load_reference(OPTIMA / f"{name}.json", axes_apart=axes_apart)
    found = {objective: solve(reference.mapspace, objective) for objective in OBJECTIVES}
    assert {result.status for result in found.values()} == {Status.OPTIMAL}
    if axes_apart:
        assert {objective: result.value for objective, result in found.items()} == reference.optimum
    else:
        # One factor per dimension and fanout is a restriction, so nothing can get better.
        assert all(found[objective].value >= reference.optimum[objective] for objective in OBJECTIVES)


@pytest.mark.parametrize("draw", [fixed_mapspaces, unrolled_mapspaces])
def test_rules_that_demand_loops(draw: Callable[[int, int, int], list[Mapspace]]):
    """Also where the loops around a buffer outside of the fanouts are fixed."""
    compare(draw(3002 if draw is unrolled_mapspaces else 3007, 4, 300), ("energy", "edp"))
