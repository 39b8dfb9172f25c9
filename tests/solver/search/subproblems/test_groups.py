"""Groups of subproblems: bounds below those of all members, and searches that lose nothing by them."""

from collections import Counter
from random import Random

import numpy as np
import pytest

from model.mapspace import Mapspace
from solver.result import Options
from solver.search import agenda, engine, map_einsum
from solver.search.bounds.lattice_bounds import LatticeBounds
from solver.search.goal import UNLIMITED
from solver.search.space.grid import SpatialGrid
from solver.search.space.search_space import SearchSpace
from solver.search.subproblems.energies import EnergySubproblem
from solver.search.subproblems.groups import SubproblemGroup, together
from solver.search.survey.cells import halves
from solver.search.survey.survey import Survey
from solver.search.workers import Bounder
from tests import strategies
from tests.conftest import REPOSITORY
from tests.mapspaces import perfect_mapspace
from tests.reference import OBJECTIVES
from tests.slow import few
from tests.solver.search.holding import hold_search, least_by_choice, least_energies, with_several_choices
from tests.solver.search.unusual import unlimited_bounds, unusual_mapspaces, windows_anywhere
from tests.strategies import CONVOLUTIONS, random_mapspaces


@pytest.fixture
def layer() -> Mapspace:
    specs = ("architectures/simba_like.yaml", "layers/alexnet/05_conv5.yaml")
    return perfect_mapspace(*(REPOSITORY / "specs" / spec for spec in specs))


def hold_groups(mapspace: Mapspace, random: Random) -> int:
    """Check the group of all subproblems of each keep mask, and some of its parts; return how many."""
    space = SearchSpace(mapspace)
    grid, least, checked = Survey(space).grid, least_by_choice(mapspace, space), 0
    for mask in space.keep_masks:
        energies = least_energies(space, grid, mask, least)
        numbers = np.array(list(energies))
        while len(numbers) > 1:
            members = [EnergySubproblem(space, mask, grid.spatial(number)) for number in numbers]
            group, best = together(grid.chosen(numbers), mask, 1), min(energies[number] for number in numbers)
            assert isinstance(group, SubproblemGroup)
            bounds = unlimited_bounds(group)
            assert bounds.least <= best
            assert not LatticeBounds(group, best + 1).empty
            assert bounds.least_cycles <= min(sub.least_cycles for sub in members)
            checked += 1
            numbers = numbers[random.choice(halves(group.grid))]
    return checked


@pytest.mark.parametrize("seed", few(range(2)))
def test_no_mapping_of_a_group_is_below_its_bound(seed: int):
    random = Random(seed)
    assert (
        sum(hold_groups(own, random) for own in with_several_choices(random_mapspaces(900 + seed, 30, 1000)))
        > 10
    )


@pytest.mark.parametrize("seed", few(range(2)))
def test_groups_of_unusual_einsums(seed: int, monkeypatch: pytest.MonkeyPatch):
    random = Random(seed)
    found = unusual_mapspaces(monkeypatch, 920 + seed, 20, 600)
    assert sum(hold_groups(own, random) for own in found) > 5


@pytest.mark.parametrize("seed", few(range(2)))
def test_groups_with_windows_anywhere(seed: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(strategies, "EINSUMS", (windows_anywhere,))
    random = Random(seed)
    assert (
        sum(hold_groups(own, random) for own in with_several_choices(random_mapspaces(930 + seed, 15, 1000)))
        > 5
    )


def test_halves_are_parts_of_similar_size():
    for mapspace in random_mapspaces(940, 15, 1500):
        grid = Survey(SearchSpace(mapspace)).grid
        if len(grid) < 2:
            continue
        first, second = halves(grid)
        assert sorted([*first, *second]) == list(range(len(grid)))
        assert min(len(first), len(second)) > 0


def test_subproblems_that_nothing_tells_apart_are_halved():
    grid = Survey(SearchSpace(random_mapspaces(941, 1, 600)[0])).grid
    same = grid.chosen(np.zeros(5, dtype=np.int64))
    assert [len(own) for own in halves(same)] == [2, 3]


def group_all(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Let searches bound subproblems together wherever there are two; count the groups."""
    monkeypatch.setattr(agenda, "FIRST_ALONE", 0)
    monkeypatch.setattr(agenda, "SMALLEST_GROUP", 2)
    monkeypatch.setattr(agenda, "LARGEST_GROUP", 20)
    made: Counter[str] = Counter()

    def counted(grid: SpatialGrid, *given: object) -> EnergySubproblem | SubproblemGroup:
        made["groups" if len(grid) > 1 else "alone"] += 1
        return together(grid, *given)

    monkeypatch.setattr(agenda, "together", counted)
    return made


@pytest.mark.parametrize("seed", few([1, 2, 3]))
def test_no_group_rules_out_the_best_mapping(seed: int, monkeypatch: pytest.MonkeyPatch):
    made = group_all(monkeypatch)
    if seed % 2:
        monkeypatch.setattr(strategies, "EINSUMS", (*CONVOLUTIONS, windows_anywhere))
    for mapspace in with_several_choices(random_mapspaces(950 + seed, 24, 2000)):
        hold_search(mapspace, monkeypatch)
    assert made["groups"] > 10


def test_groups_save_states(layer: Mapspace, monkeypatch: pytest.MonkeyPatch):
    grouped = map_einsum(layer, Options(objectives=("energy",)))
    monkeypatch.setattr(agenda, "SMALLEST_GROUP", 1 << 30)
    alone = map_einsum(layer, Options(objectives=("energy",)))
    assert (grouped.status, grouped.value) == (alone.status, alone.value)
    assert grouped.statistics.states < alone.statistics.states * 3 / 4
    for one, other in zip(grouped.evidence[0].masks, alone.evidence[0].masks, strict=True):
        settled = (own.by_survey + own.by_lattice + own.by_branching for own in (one, other))
        assert len(set(settled)) == 1


def test_groups_that_settle_nothing_are_given_up(layer: Mapspace, monkeypatch: pytest.MonkeyPatch):
    expected = map_einsum(layer, Options(objectives=("energy",)))
    made = group_all(monkeypatch)
    monkeypatch.setattr(agenda, "FIRST_ALONE", 8)
    monkeypatch.setattr(SubproblemGroup, "constant", 0)
    counts = []
    for credit in (1 << 30, 8):
        monkeypatch.setattr(agenda, "CREDIT", credit)
        made.clear()
        found = map_einsum(layer, Options(objectives=("energy",)))
        assert (found.status, found.value) == (expected.status, expected.value)
        counts.append(made["groups"])
    assert 0 < 3 * counts[1] < 2 * counts[0]


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_the_answer_does_not_depend_on_groups(objective: str, monkeypatch: pytest.MonkeyPatch):
    mapspaces = random_mapspaces(960, 8, 1500)
    found = [map_einsum(own, Options(objectives=(objective,))) for own in mapspaces]
    group_all(monkeypatch)
    monkeypatch.setattr(agenda, "FIRST_ALONE", 1)
    monkeypatch.setattr(engine, "ROUND", 3)
    again = [map_einsum(own, Options(objectives=(objective,))) for own in mapspaces]
    assert [(own.status, own.value) for own in again] == [(own.status, own.value) for own in found]


def test_workers_bound_groups_alike(layer: Mapspace, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("solver.search.workers.START_AFTER_S", 0)
    monkeypatch.setattr("solver.search.workers.MIN_TASKS", 2)
    space = SearchSpace(layer)
    grid, mask = Survey(space).grid, space.keep_masks[0]
    subs = [together(grid.chosen(own), mask, 1) for own in (np.arange(5), np.arange(3, 40), np.array([7]))]
    with Bounder(space, 2) as several:
        found = [own.least for own in several.bound(subs, [UNLIMITED] * 3)]
    assert found == [unlimited_bounds(sub).least for sub in subs]
