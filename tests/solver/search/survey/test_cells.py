"""Cells of spatial choices: parts of them all, bounds below those of all members, nothing lost by them."""

from dataclasses import replace

import numpy as np
import pytest

from model.architecture import AccessEnergy, Fanout, StorageLevel
from model.mapspace import Mapspace
from solver.result import Options, Status, Termination
from solver.search import agenda, map_einsum
from solver.search.arrays import IntArray
from solver.search.goal import Goal
from solver.search.space.search_space import SearchSpace
from solver.search.stopping import Stopped, never
from solver.search.survey.cells import Cells, alone, parted
from solver.search.survey.prospects import SurveyBounds
from solver.search.survey.survey import Survey
from tests import strategies
from tests.mapspaces import free_mapspace, matmul
from tests.reference import OBJECTIVES
from tests.slow import few
from tests.solver.search.holding import few_cells, hold_search, settled, with_several_choices
from tests.solver.search.unusual import unusual_mapspaces, windows_anywhere
from tests.strategies import CONVOLUTIONS, random_mapspaces


def deep_mapspace(*bounds: int, capacity: int = 64) -> Mapspace:
    """Four levels that keep everything, with fanouts between them."""
    energies = [AccessEnergy(own, own, own) for own in (20_000, 900, 150, 20)]
    dram, large, small, registers = (StorageLevel(f"level{n}", energy=own) for n, own in enumerate(energies))
    return free_mapspace(
        matmul(*bounds),
        dram,
        Fanout("clusters", 4, 2),
        replace(large, size_words=capacity**2),
        Fanout("rows", 8),
        replace(small, size_words=8 * capacity),
        Fanout("columns", 4),
        replace(registers, size_words=capacity),
    )


@pytest.mark.parametrize("most", [1, 2, 7, 30])
def test_cells_are_parts_of_similar_size(most: int):
    for mapspace in random_mapspaces(1000, 15, 1500):
        grid = Survey(SearchSpace(mapspace)).grid
        if len(grid) == 0:
            continue
        found = parted(grid, most, never)
        assert len(found) == min(most, len(grid))
        members = [members_of(found, cell) for cell in range(len(found))]
        assert sorted(np.concatenate(members)) == list(range(len(grid)))
        assert [len(own) for own in members] == found.sizes.tolist()
        parts = list(found.parts(4))
        assert sum(len(part.members) for part in parts) == len(grid)
        assert [cell for part in parts for cell in part.places] == list(range(len(found)))


def test_a_cell_may_be_one_combination():
    grid = Survey(SearchSpace(deep_mapspace(12, 12, 12))).grid
    single, several = alone(grid), parted(grid, 2, never)
    assert single.single
    assert not several.single
    np.testing.assert_array_equal(single.numbers, np.arange(len(grid)))


def test_cells_are_not_made_after_a_stop():
    grid = Survey(SearchSpace(deep_mapspace(12, 12, 12))).grid
    with pytest.raises(Stopped):
        parted(grid, 2, lambda: True)


def members_of(several: Cells, cell: int) -> IntArray:
    """The combinations of a cell."""
    start = several.starts[cell]
    return several.numbers[start : start + several.sizes[cell]]


def hold_cells(mapspace: Mapspace, monkeypatch: pytest.MonkeyPatch) -> int:
    """Compare the survey of cells with that of their combinations; return how many cells have several."""
    direct = Survey(SearchSpace(mapspace))
    energies, cycles = direct.overview
    with monkeypatch.context() as patch:
        few_cells(patch)
        coarse = Survey(SearchSpace(mapspace))
        bounds = coarse.overview
        every = np.ones(bounds[0].shape, dtype=np.bool_)
        opened = list(coarse.opened(every))
    for cell in range(len(coarse.cells)):
        members = members_of(coarse.cells, cell)
        for least, whole in zip(bounds, (energies, cycles), strict=True):
            assert np.all(least[:, cell] * (1 - 1e-12) <= whole[:, members].min(axis=1))
    for masks, members, found in opened:
        place = masks, members
        np.testing.assert_allclose(found, (energies[place], cycles[place]), rtol=1e-12)
    assert not opened or sum(members.size for _, members, _ in opened) == energies.size
    return int((coarse.cells.sizes > 1).sum())


@pytest.mark.parametrize("seed", few((1, 0, 2)))
def test_no_combination_is_below_the_bound_of_its_cell(seed: int, monkeypatch: pytest.MonkeyPatch):
    assert sum(hold_cells(own, monkeypatch) for own in random_mapspaces(1010 + seed, 20, 1500)) > 5


@pytest.mark.parametrize("seed", few((1, 0)))
def test_cells_of_unusual_einsums(seed: int, monkeypatch: pytest.MonkeyPatch):
    found = unusual_mapspaces(monkeypatch, 1020 + seed, 20, 1000)
    assert sum(hold_cells(own, monkeypatch) for own in found) > 5


def test_cells_of_a_deep_hierarchy(monkeypatch: pytest.MonkeyPatch):
    assert hold_cells(deep_mapspace(24, 36, 20), monkeypatch) == 3


@pytest.mark.parametrize(("seed", "first_alone"), few([(0, 0), (1, 2)]))
def test_no_cell_rules_out_the_best_mapping(seed: int, first_alone: int, monkeypatch: pytest.MonkeyPatch):
    few_cells(monkeypatch)
    monkeypatch.setattr(agenda, "FIRST_ALONE", first_alone)
    if seed % 2:
        monkeypatch.setattr(strategies, "EINSUMS", (*CONVOLUTIONS, windows_anywhere))
    for mapspace in with_several_choices(random_mapspaces(1030 + seed, 20, 1500)):
        hold_search(mapspace, monkeypatch)


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_the_answer_does_not_depend_on_cells(objective: str, monkeypatch: pytest.MonkeyPatch):
    mapspaces = [*random_mapspaces(1040, 15, 2000), deep_mapspace(8, 12, 6)]
    options = Options(objectives=(objective,))
    found = [map_einsum(own, options) for own in mapspaces]
    few_cells(monkeypatch)
    again = [map_einsum(own, options) for own in mapspaces]
    assert [(own.status, own.value) for own in again] == [(own.status, own.value) for own in found]
    for one, other in zip(found, again, strict=True):
        masks = zip(one.evidence[0].masks, other.evidence[0].masks, strict=True)
        assert all(settled(first) == settled(second) for first, second in masks)
        least = [own.survey_bound for own in other.evidence[0].masks if own.survey_bound is not None]
        assert other.value is None or min(least, default=other.value) >= other.value


def test_a_stopped_search_keeps_a_bound(monkeypatch: pytest.MonkeyPatch):
    """Wherever it is stopped: while cells are made, surveyed or opened, or subproblems bounded."""
    mapspace = deep_mapspace(8, 12, 6)
    best = map_einsum(mapspace, Options(objectives=("energy",)))
    few_cells(monkeypatch, 10, 30)
    kinds = set()
    for patience in (*range(30), *range(30, 400, 41)):
        asked = iter([False] * patience)
        options = Options(objectives=("energy",))
        result = map_einsum(mapspace, options, should_stop=lambda asked=asked: next(asked, True))
        kinds.add((result.status, result.termination))
        if result.termination is Termination.INTERRUPTED:
            assert result.bound is not None
            assert result.bound <= best.value <= (result.value or best.value)
    assert (Status.UNKNOWN, Termination.INTERRUPTED) in kinds


def test_cells_are_opened_by_rising_bounds(monkeypatch: pytest.MonkeyPatch):
    few_cells(monkeypatch, number=12, opened=20)
    space = SearchSpace(deep_mapspace(8, 12, 6))
    found, goal = Survey(space), Goal("energy")
    known = SurveyBounds(found, goal)
    least, bounds, seen = known.least, [], 0
    while known.closed < np.inf:
        bounds.append(known.closed)
        seen += sum(len(numbers) for _, (_, numbers) in known.open())
    assert bounds == sorted(bounds)
    assert len(bounds) > 10
    assert seen == np.isfinite(every_bound(space)).sum()
    assert least <= known.least == every_bound(space).min()


def every_bound(space):
    """Bounds on the energy with all keep masks and combinations, none of which are in cells."""
    found = Survey(space)
    found.cells = alone(found.grid)
    return found.overview[0]


def test_what_cannot_improve_is_not_remembered(monkeypatch: pytest.MonkeyPatch):
    few_cells(monkeypatch, number=12, opened=1 << 20)
    space = SearchSpace(deep_mapspace(8, 12, 6))
    bounds, goal = np.sort(every_bound(space), axis=None), Goal("energy")
    goal.incumbent = int(bounds[100])
    known, hopeful = SurveyBounds(Survey(space), goal), 0
    while known.closed < known.limit:
        hopeful += sum(len(numbers) for _, (_, numbers) in known.open())
    assert hopeful == (bounds < goal.incumbent).sum()
    every = np.arange(0)
    left = [known.least_but(mask, every) for mask in range(len(space.keep_masks))]
    assert min(left) == pytest.approx(bounds[0])
