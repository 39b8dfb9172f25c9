"""Neighbouring levels bounded together: bounds below all mappings, and searches that lose nothing by them."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from model.architecture import AccessEnergy, Fanout, StorageLevel
from model.mapspace import KeepRules, Mapspace
from solver.result import Options
from solver.search import agenda, map_einsum
from solver.search.agenda import Agenda
from solver.search.bounds.lattice_bounds import LatticeBounds
from solver.search.goal import Goal
from solver.search.space.search_space import SearchSpace
from solver.search.stopping import Stopped
from solver.search.subproblems.groups import together
from solver.search.survey import neighbours, pairs, prospects
from solver.search.survey.neighbours import Neighbours, Subjects
from solver.search.survey.survey import Survey
from tests import strategies
from tests.mapspaces import free_mapspace, matmul
from tests.reference import OBJECTIVES
from tests.slow import few
from tests.solver.search.holding import few_cells, hold_search, least_by_choice, least_energies, settled
from tests.solver.search.unusual import unusual_mapspaces, windows_anywhere
from tests.strategies import CONVOLUTIONS, random_mapspaces

HUGE = 1 << 100


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bound levels together wherever that is possible, and at every turn."""
    monkeypatch.setattr(agenda, "FEWEST_IN_VAIN", 0)
    monkeypatch.setattr(agenda, "MOST_IN_VAIN", 0)
    monkeypatch.setattr(agenda, "JOINED_PER_LATTICE", HUGE)
    monkeypatch.setattr(prospects, "FEWEST_JOINED", 1)
    monkeypatch.setattr(neighbours, "SMALLEST_GROUP", 1)


def tight_mapspace(*bounds: int) -> Mapspace:
    """Three levels below the outermost one that keep what they like, and hold little of it."""
    dram, large, small, registers = (
        StorageLevel(f"level{place}", size_words=size, energy=AccessEnergy(energy, energy, energy))
        for place, (size, energy) in enumerate([(None, 20_000), (36, 900), (48, 150), (6, 20)])
    )
    problem = matmul(*(bounds or (8, 12, 6)))
    mapspace = free_mapspace(problem, dram, large, small, Fanout("columns", 4), registers)
    return replace(mapspace, keep=(mapspace.keep[0], *(KeepRules(frozenset()) for _ in range(3))))


def with_registers_of_one(*bounds: int) -> Mapspace:
    """The same with registers for one dataspace: an eighth of the keep masks."""
    mapspace = tight_mapspace(*bounds)
    return replace(mapspace, keep=(*mapspace.keep[:-1], KeepRules(frozenset("A"), frozenset("BZ"))))


def all_subjects(survey: Survey) -> Subjects:
    """All subproblems that the survey leaves open."""
    masks, numbers = np.nonzero(np.isfinite(survey.overview[0]))
    energies, cycles = (own[masks, numbers] for own in survey.overview)
    return Subjects(masks, numbers, energies, cycles)


def raised_bounds(mapspace: Mapspace) -> int:
    """How many subproblems have a higher bound when levels are bounded together."""
    survey = Survey(SearchSpace(mapspace))
    if len(survey.space.levels) < prospects.FEWEST_LEVELS:
        return 0
    subjects = all_subjects(survey)
    energies = Neighbours(survey, Goal("energy", incumbent=HUGE)).energies(subjects)
    return int((energies > subjects.energies * (1 + 1e-9)).sum())


def hold_joined(mapspace: Mapspace) -> tuple[int, int]:
    """Check the bounds of all subproblems; return how many have mappings, and how many bounds are raised.

    Bounds that are not raised are those of the survey, which its own tests hold.
    """
    raised = raised_bounds(mapspace)
    if not raised:
        return 0, 0
    space = SearchSpace(mapspace)
    survey, least = Survey(space), least_by_choice(mapspace, space)
    subjects = all_subjects(survey)
    energies = Neighbours(survey, Goal("energy", incumbent=HUGE)).energies(subjects)
    assert np.all(energies >= subjects.energies)
    best = {
        (place, number): energy
        for place, mask in enumerate(space.keep_masks)
        for number, energy in least_energies(space, survey.grid, mask, least).items()
    }
    middle = sorted(best.values())[len(best) // 2] if best else 1
    cut = Neighbours(survey, Goal("energy", incumbent=middle)).energies(subjects)
    for mask, number, whole, part in zip(subjects.masks, subjects.numbers, energies, cut, strict=True):
        energy = best.get((mask, number))
        if energy is not None:
            assert whole <= energy
            assert min(part, middle) <= energy
        # As far as it goes, each bound is the same.
        assert part == pytest.approx(min(whole, max(part, middle)), rel=1e-8)
    return len(best), raised


def hold_all(mapspaces: list[Mapspace], least: int) -> None:
    """Hold several mapspaces; so many bounds at the least must be raised."""
    checked, raised = map(sum, zip(*map(hold_joined, mapspaces), strict=True))
    assert min(checked, raised) > least


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("seed", few(range(2)))
def test_no_mapping_is_below_the_bound_of_its_subproblem(seed: int):
    hold_all(random_mapspaces(1100 + seed, 40, 1000), 10)


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("seed", few((1, 0)))
def test_bounds_of_unusual_einsums(seed: int, monkeypatch: pytest.MonkeyPatch):
    hold_all(unusual_mapspaces(monkeypatch, 1110 + seed, 80, 600), 5)


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("seed", few((1, 0)))
def test_bounds_with_windows_anywhere(seed: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(strategies, "EINSUMS", (windows_anywhere,))
    hold_all(random_mapspaces(1120 + seed, 50, 1000), 5)


@pytest.mark.usefixtures("eager")
def test_lattices_say_no_less():
    """The program over all levels has the same charges as those of two levels, and more."""
    space = SearchSpace(tight_mapspace())
    survey = Survey(space)
    every = all_subjects(survey)
    subjects = every.chosen(np.arange(0, len(every), len(every) // 200))
    joined = Neighbours(survey, Goal("energy", incumbent=HUGE)).energies(subjects)
    for mask, number, energy in zip(subjects.masks, subjects.numbers, joined, strict=True):
        sub = together(survey.grid.chosen(np.array([number])), space.keep_masks[mask], 1)
        assert energy <= LatticeBounds(sub, HUGE).least
    assert (joined > subjects.energies * 1.01).sum() > 15


@pytest.mark.usefixtures("eager")
def test_bounds_do_not_depend_on_what_is_computed_together(monkeypatch: pytest.MonkeyPatch):
    survey = Survey(SearchSpace(with_registers_of_one()))
    subjects = all_subjects(survey)
    goal = Goal("energy", incumbent=HUGE)
    whole = Neighbours(survey, goal).energies(subjects)
    monkeypatch.setattr(pairs, "CHUNK", 2000)
    np.testing.assert_allclose(Neighbours(survey, goal).energies(subjects), whole, rtol=1e-12)
    some = np.arange(3, len(subjects), 17)
    few = Neighbours(survey, goal).energies(subjects.chosen(some))
    np.testing.assert_allclose(few, whole[some], rtol=1e-12)
    monkeypatch.setattr(pairs, "MOST_CONNECTED", 0)
    np.testing.assert_allclose(Neighbours(survey, goal).energies(subjects), subjects.energies, rtol=1e-12)


def test_no_more_are_bounded_together_than_asked_for():
    survey = Survey(SearchSpace(tight_mapspace()))
    subjects = all_subjects(survey)
    joined = Neighbours(survey, Goal("energy", incumbent=HUGE))
    assert len(joined.alike(subjects, neighbours.SMALLEST_GROUP - 1)) == 0
    few, many = (joined.alike(subjects, most) for most in (neighbours.SMALLEST_GROUP, 400))
    # Of the largest group, which has 88, some from everywhere.
    np.testing.assert_array_equal(few, np.arange(0, 88, 11))
    assert len(np.unique(many)) == len(many) == 400
    assert len(joined.alike(subjects.chosen(np.arange(neighbours.SMALLEST_GROUP - 1)), 1000)) == 0


def test_it_hears_that_it_must_stop():
    space = SearchSpace(tight_mapspace())
    subjects = all_subjects(Survey(space))
    survey = Survey(space)
    assert survey.overview
    survey.stop = lambda: True
    with pytest.raises(Stopped):
        Neighbours(survey, Goal("energy", incumbent=HUGE)).energies(subjects)


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize(("first_alone", "seed"), few([(2, 1), (2, 2), (0, 0), (0, 2), (2, 3)], 2))
def test_no_joined_bound_rules_out_the_best_mapping(
    seed: int, first_alone: int, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(agenda, "FIRST_ALONE", first_alone)
    if seed % 2:
        monkeypatch.setattr(strategies, "EINSUMS", (*CONVOLUTIONS, windows_anywhere))
    if seed > 1:
        few_cells(monkeypatch)
    for mapspace in random_mapspaces(1130 + seed, 12, 1500):
        if raised_bounds(mapspace):
            hold_search(mapspace, monkeypatch)


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_the_answer_does_not_depend_on_joined_bounds(objective: str, request: pytest.FixtureRequest):
    mapspaces = [*random_mapspaces(1140, 10, 2000), tight_mapspace()]
    options = Options(objectives=(objective,))
    found = [map_einsum(own, options) for own in mapspaces]
    request.getfixturevalue("eager")
    again = [map_einsum(own, options) for own in mapspaces]
    assert [(own.status, own.value) for own in again] == [(own.status, own.value) for own in found]
    for one, other in zip(found, again, strict=True):
        masks = zip(one.evidence[0].masks, other.evidence[0].masks, strict=True)
        assert all(settled(first) == settled(second) for first, second in masks)
        least = [own.survey_bound for own in other.evidence[0].masks if own.survey_bound is not None]
        assert other.value is None or min(least, default=other.value) >= other.value


def test_joined_bounds_spare_lattices(monkeypatch: pytest.MonkeyPatch):
    mapspace, options = with_registers_of_one(24, 32, 12), Options(objectives=("energy",))
    monkeypatch.setattr(agenda, "FEWEST_IN_VAIN", 32)
    found = map_einsum(mapspace, options)
    monkeypatch.setattr(prospects, "FEWEST_JOINED", HUGE)
    alone = map_einsum(mapspace, options)
    assert found.value == alone.value
    assert 2 * found.statistics.subproblems < alone.statistics.subproblems


@cache
def least_energy() -> int:
    value = map_einsum(with_registers_of_one(), Options(objectives=("energy",))).value
    assert value is not None
    return value


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize(("first_alone", "largest"), [(0, 2), (2, 128), (1000, 2)])
def test_turns_rise_although_bounds_do(first_alone: int, largest: int, monkeypatch: pytest.MonkeyPatch):
    """Bounds of those that wait are raised while others have their turn."""
    monkeypatch.setattr(agenda, "FIRST_ALONE", first_alone)
    monkeypatch.setattr(agenda, "LARGEST_GROUP", largest)
    monkeypatch.setattr(prospects, "FIRST_JOINED", 50)
    survey = Survey(SearchSpace(with_registers_of_one()))
    own = Agenda(survey, Goal("energy", incumbent=least_energy() * 9 // 8), 1)
    values, joined = [], set()
    for value, _ in own.turns():
        values.append(value)
        joined.add(own.survey_bounds.version)
    assert values == sorted(values)
    assert len(joined) > 1
