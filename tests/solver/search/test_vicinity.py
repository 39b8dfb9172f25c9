"""Neighbours of the incumbent and hints of a heuristic: better mappings sooner, and the same optima."""

import math
from random import Random

import pytest

from model.architecture import AccessEnergy, Fanout, StorageLevel
from model.cost import evaluate
from model.mapping import StorageMapping
from model.mapspace import Mapspace
from solver.result import Options, Status
from solver.search import agenda, engine, map_einsum
from solver.search.goal import Goal
from solver.search.space.search_space import SearchSpace
from solver.search.survey.prospects import SurveyBounds
from solver.search.survey.survey import Survey
from solver.search.vicinity import Vicinity
from tests.mapspaces import free_mapspace, matmul
from tests.slow import few
from tests.solver.search.holding import few_cells, hold_search
from tests.solver.search.unusual import unusual_mapspaces
from tests.strategies import random_mapspaces


def deep() -> Mapspace:
    """A product of matrices on three levels that keep what they like, with two fanouts."""
    levels = (
        StorageLevel("DRAM", block_size=8, energy=AccessEnergy(512, 512, 512)),
        StorageLevel("buffer", size_words=64, block_size=4, energy=AccessEnergy(9, 9, 9)),
        Fanout("rows", 2),
        StorageLevel("registers", size_words=4, energy=AccessEnergy(1, 1, 1)),
        Fanout("columns", 3),
    )
    return free_mapspace(matmul(6, 6, 6), *levels, keep=False)


def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look around, and take hints, from the first round on."""
    monkeypatch.setattr(engine, "ROUND", 2)
    monkeypatch.setattr(engine, "FIRST_AROUND", 0)
    monkeypatch.setattr(engine, "FIRST_HINT", 1)
    monkeypatch.setattr(engine, "FIRST_HINTED", 64)


@pytest.mark.parametrize("seed", few((0, 3, 1, 2, 4, 5), 2))
def test_the_optimum_stays_what_it_is(seed, monkeypatch):
    at_once(monkeypatch)
    if seed % 2:
        few_cells(monkeypatch)
    if seed % 3 == 0:
        monkeypatch.setattr(agenda, "FIRST_ALONE", 1)
    found = unusual_mapspaces(monkeypatch, seed, 8, 800) if seed < 3 else random_mapspaces(seed, 8, 1500)
    for mapspace in found:
        hold_search(mapspace, monkeypatch)


def test_no_subproblem_has_two_turns(monkeypatch):
    at_once(monkeypatch)
    looked_at: list[tuple[object, int]] = []
    refine = engine.Search._refine

    def noted(search, candidates):
        looked_at.extend((own.sub.mask, int(own.numbers[0])) for own in candidates if len(own.numbers) == 1)
        refine(search, candidates)

    monkeypatch.setattr(engine.Search, "_refine", noted)
    assert map_einsum(deep(), Options(objectives=("energy",))).status is Status.OPTIMAL
    assert len(looked_at) > 10
    assert len(set(looked_at)) == len(looked_at)


def test_neighbours_differ_in_what_is_kept_or_in_one_stage():
    space = SearchSpace(deep())
    survey, goal = Survey(space), Goal("energy")
    survey_bounds = SurveyBounds(survey, goal)
    survey_bounds.open()
    result = map_einsum(space.mapspace, Options(objectives=("energy",)))
    assert result.mapping
    (home, own), *others = Vicinity(survey, survey_bounds).around(result.mapping)
    kept = [node.keep for node in result.mapping.nodes if isinstance(node, StorageMapping)]
    for names, places in zip(kept, space.keep_masks[home], strict=True):
        assert {space.views[place].name for place in places} == set(names)
    units = [math.prod(loop.bound for loop in node.spatial) for node in result.mapping.nodes[2::2]]
    assert [stage.units for stage in survey.grid.spatial(own)] == [1, *units]
    chains = [space.chains(own) for own in space.keep_masks]
    for place, number in others:
        levels = zip(chains[place], chains[home], strict=True)
        changes = sum(len(set(one) ^ set(other)) for one, other in levels)
        stages = sum(int(choices[number] != choices[own]) for choices in survey.grid.choices)
        assert (changes, stages) in {(1, 0), (2, 0), (0, 1)}
    assert len(set(others)) == len(others) > 3


@pytest.mark.parametrize("objective", ["energy", "latency", "edp"])
def test_hints_are_mappings_that_the_rules_allow(objective):
    mapspace = deep()
    (found,) = engine.hint(mapspace, objective, 2000, 0, lambda: False)
    again = evaluate(mapspace.problem, mapspace.architecture, found.mapping)
    assert again.valid
    assert again.value(objective) == found.evaluation.value(objective)
    best = map_einsum(mapspace, Options(objectives=(objective,)))
    assert best.value is not None
    assert best.value <= again.value(objective) <= 2 * best.value
    assert engine.hint(mapspace, objective, 2000, 0, lambda: False) == [found]


def test_no_hint_where_nothing_fits_or_time_is_up():
    tight = free_mapspace(matmul(4, 4, 4), StorageLevel("DRAM"), StorageLevel("buffer", size_words=2))
    assert engine.hint(tight, "energy", 2000, 0, lambda: False) == []
    assert engine.hint(deep(), "energy", 2000, 0, lambda: True) == []


@pytest.mark.parametrize("seed", range(3))
def test_small_products_in_blocks_are_settled_at_once(seed):
    """Where a level's tiles are smaller than its blocks, the survey knows that whole blocks are paid for."""
    bounds = [Random(seed).choice((2, 3)) for _ in range(3)]
    levels = (
        StorageLevel("DRAM", block_size=8, energy=AccessEnergy(512, 512, 512)),
        StorageLevel("L2", size_words=1 << 20, block_size=32, energy=AccessEnergy(60, 66, 66)),
        Fanout("cluster", 16),
        StorageLevel("L1", size_words=1 << 14, block_size=8, energy=AccessEnergy(6, 6, 6)),
        Fanout("PE", 64),
        StorageLevel("registers", size_words=64, energy=AccessEnergy(1, 1, 1)),
    )
    result = map_einsum(free_mapspace(matmul(*bounds), *levels, keep=False), Options(objectives=("energy",)))
    assert result.status is Status.OPTIMAL
    assert result.statistics.subproblems < 100
