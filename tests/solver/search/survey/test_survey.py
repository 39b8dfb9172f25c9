"""Bounds in order: the survey's, the lattice's, and the least there is in each subproblem."""

from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from random import Random

import numpy as np
import pytest

from model.architecture import AccessEnergy, Fanout, StorageLevel
from model.cost import evaluate
from model.mapspace import KeepRules, Mapspace
from model.problem import Dataspace, Problem, Term
from solver.result import Options, Status, Termination
from solver.search import map_einsum
from solver.search.space.search_space import SearchSpace
from solver.search.stopping import Stopped
from solver.search.subproblems.energies import EnergySubproblem
from solver.search.survey import rates
from solver.search.survey import survey as survey_module
from solver.search.survey.survey import Survey, pareto_front
from tests.bruteforce import enumerate_mappings
from tests.mapspaces import free_mapspace, matmul, perfect_mapspace
from tests.slow import few
from tests.solver.search.holding import belongs, least_by_choice
from tests.solver.search.unusual import unlimited_bounds, unusual_mapspaces
from tests.strategies import random_mapspaces

SPECS = Path(__file__).parents[4] / "specs"

PROVEN = (Status.OPTIMAL, Status.INFEASIBLE)


@pytest.mark.parametrize("seed", range(20))
def test_pareto_front(seed: int):
    random = Random(seed)
    columns = random.randint(1, 4)
    points = [
        tuple(float(random.randint(0, 5)) for _ in range(columns)) for _ in range(random.randint(1, 40))
    ]
    front = {
        p
        for p in points
        if not any(all(a <= b for a, b in zip(q, p, strict=True)) and q != p for q in points)
    }
    found = [tuple(row) for row in pareto_front(np.array(points))]
    assert len(found) == len(set(found))
    assert set(found) == front


def test_cycles_beyond_the_whole_numbers_of_doubles_are_not_rounded_up():
    mapspace = free_mapspace(matmul(94_906_267, 94_906_269, 1), StorageLevel("dram"))
    space = SearchSpace(mapspace)
    _, cycles = Survey(space).overview
    steps = 94_906_267 * 94_906_269
    assert float(steps) > steps > 2**53
    assert steps * (1 - 2e-9) < cycles.item() <= steps


def on_five(*bounds: int) -> Mapspace:
    """A product of matrices on five children that are all used."""
    levels = (
        StorageLevel("dram", energy=AccessEnergy(100, 100, 100)),
        Fanout("array", 5),
        StorageLevel("registers", size_words=1000, energy=AccessEnergy(1, 1, 1)),
    )
    return replace(free_mapspace(matmul(*bounds), *levels), min_parallelism=Fraction(5))


@pytest.mark.parametrize("seed", few(range(4)))
def test_what_blocks_add_does_not_depend_on_what_is_looked_at_together(seed: int, monkeypatch):
    """Bounds on neighbouring levels take it off again, of other combinations together."""
    monkeypatch.setattr(rates, "MANY_BLOCKS", 4)
    told = 0
    for mapspace in random_mapspaces(1300 + seed, 20, 1500):
        survey = Survey(SearchSpace(mapspace))
        numbers = np.arange(len(survey.grid))
        for mask in range(len(survey.space.keep_masks)):
            together = survey.surplus(np.full(len(numbers), mask), numbers)
            alone = [survey.surplus(np.array([mask]), numbers[[number]]).item() for number in numbers]
            assert together.tolist() == alone
            told += len(set(alone)) > 1
    assert told > 1


def test_quotients_of_computes_are_not_rounded_up():
    steps = 94_906_249 * 94_906_169
    assert 5 * steps / 5.0 > steps
    survey = Survey(SearchSpace(on_five(5, 94_906_249, 94_906_169)))
    assert all((survey.grid.above[-1] == 5).tolist())
    assert survey.overview[1].max() <= steps


def test_a_limit_on_cycles_does_not_rule_out_those_that_take_as_many():
    mapspace = on_five(5, 3**13, 4_599_777_611)
    cheapest = map_einsum(mapspace, Options(objectives=("energy",)))
    both = map_einsum(mapspace, Options(objectives=("latency", "energy")))
    assert cheapest.status is both.status is Status.OPTIMAL
    assert cheapest.evaluation and both.evaluation
    assert both.evaluation.cycles == cheapest.evaluation.cycles == 3**13 * 4_599_777_611
    assert both.evaluation.energy == cheapest.evaluation.energy


def hold_bounds(mapspace: Mapspace) -> int:
    """Check both bounds in every subproblem that has mappings; return how many there were."""
    space = SearchSpace(mapspace)
    least = least_by_choice(mapspace, space)
    survey = Survey(space)
    checked = 0
    covered = set()
    for place, mask in enumerate(space.keep_masks):
        energies, cycles = (own[place] for own in survey.overview)
        closer = survey.closer(place, np.arange(len(survey.grid)))
        for number in range(len(survey.grid)):
            classes = survey.grid.spatial(number)
            members = [key for key in least if key[0] == mask and belongs(space, key[1], classes)]
            covered.update(members)
            if not members:
                continue
            sub = EnergySubproblem(space, mask, classes)
            lattice = unlimited_bounds(sub)
            energy = min(least[key][0] for key in members)
            fastest = min(least[key][1] for key in members)
            assert energies[number] <= energy
            assert lattice.least <= energy
            if not sub.leak_per_cycle:
                # Of the cycles, for which instances leak, either may know more.
                assert energies[number] <= lattice.least * (1 + 1e-9)
            assert cycles[number] <= fastest
            assert lattice.least_cycles <= fastest
            assert energies[number] * (1 - 1e-12) <= closer[0][number] <= energy
            assert cycles[number] * (1 - 1e-12) <= closer[1][number] <= fastest
            checked += 1
    assert covered == set(least)
    return checked


@pytest.mark.parametrize("seed", few(range(6), 2))
def test_bounds_are_below_the_least_of_each_subproblem(seed: int):
    assert sum(map(hold_bounds, random_mapspaces(300 + seed, 10, 400))) > 10


@pytest.mark.parametrize("seed", few(range(3)))
def test_bounds_of_unusual_einsums(seed: int, monkeypatch: pytest.MonkeyPatch):
    assert sum(map(hold_bounds, unusual_mapspaces(monkeypatch, 310 + seed, 10, 300))) > 5


def test_a_survey_in_parts_is_the_same(monkeypatch: pytest.MonkeyPatch):
    for mapspace in random_mapspaces(320, 10, 300):
        space = SearchSpace(mapspace)
        whole = Survey(space).overview
        with monkeypatch.context() as patched:
            patched.setattr(survey_module, "PART", 3)
            patched.setattr(survey_module, "AT_ONCE", 7)
            in_parts = Survey(space).overview
        np.testing.assert_allclose(in_parts, whole, rtol=1e-12)


def test_a_survey_hears_that_it_must_stop():
    (mapspace,) = random_mapspaces(321, 1, 300)
    space = SearchSpace(mapspace)
    with pytest.raises(Stopped):
        _ = Survey(space, lambda: True).overview
    asked = iter((False, True))
    with pytest.raises(Stopped):
        _ = Survey(space, lambda: next(asked)).overview


@pytest.mark.parametrize("bypass", [frozenset(), frozenset("A")])
def test_a_search_hears_that_it_must_stop_at_any_time(bypass: frozenset[str]):
    """Also while there is nothing to survey: with A kept nowhere there is no keep mask."""
    mapspace = free_mapspace(matmul(4, 2, 2), StorageLevel("dram"), Fanout("mesh", 2), StorageLevel("buffer"))
    mapspace = replace(mapspace, keep=(KeepRules(bypass=bypass),) * 2)
    for patience in range(12):
        asked = iter([False] * patience)
        result = map_einsum(mapspace, Options(), should_stop=lambda asked=asked: next(asked, True))
        assert result.termination is Termination.INTERRUPTED or result.status in PROVEN
        assert (result.mapping is None) or not bypass


def test_no_boundary_costs_less_than_one_delivery_each():
    """Also where tiles of the front are too large for what is unrolled above."""
    dram = StorageLevel("dram", energy=AccessEnergy(200, 200, 200))
    registers = StorageLevel("registers", size_words=60, energy=AccessEnergy(1, 1, 1))
    space = SearchSpace(free_mapspace(matmul(8, 4, 12), dram, Fanout("mesh", 4, 2), registers))
    survey = Survey(space)
    for mask, energies in zip(space.keep_masks, survey.overview[0], strict=True):
        for number, energy in enumerate(energies):
            bounds = unlimited_bounds(EnergySubproblem(space, mask, survey.grid.spatial(number)))
            assert energy >= bounds.constant * (1 - 1e-6)


def test_closer_bounds_leave_room_for_what_is_unrolled_above():
    """A buffer could hold all of the input, but no child of a mesh that unrolls it along both axes."""
    spaces = (
        Dataspace("W", ((Term("R"),), (Term("S"),))),
        Dataspace("I", ((Term("P"), Term("R")), (Term("Q"), Term("S")))),
        Dataspace("O", ((Term("P"),), (Term("Q"),)), read_write=True),
    )
    dram = StorageLevel("dram", energy=AccessEnergy(200, 200, 200))
    problem = Problem("convolution", ("P", "Q", "R", "S"), (12, 12, 4, 4), spaces)
    space = SearchSpace(free_mapspace(problem, dram, Fanout("mesh", 16), StorageLevel("buffer")))
    survey = Survey(space)
    unrolled = {survey.grid.spatial(n)[0].windows: n for n in range(len(survey.grid))}
    numbers = np.array([unrolled[windows] for windows in ((1, 1, 1, 1), (4, 1, 1, 1), (4, 4, 1, 1))])
    energies, closer = survey.overview[0][0, numbers], survey.closer(0, numbers)[0]
    # Of the 15 words along an axis, each of four children needs 3 + 3 of its own.
    own = 4 * 6
    assert closer - energies == pytest.approx([0, (own * 15 - 15 * 15) * 200, (own * own - 15 * 15) * 200])


def test_spatial_choices_are_mostly_ruled_out_at_once():
    """Nearly all of 38,592 choices are ruled out before their lattices are bounded."""
    files = [SPECS / "architectures/free_three_level.yaml", SPECS / "layers/vgg16/01_conv1_1.yaml"]
    result = map_einsum(perfect_mapspace(*files), Options(objectives=("energy",)))
    assert result.status is Status.OPTIMAL
    assert result.statistics.subproblems < 100


def test_latencies_that_doubles_do_not_hold():
    """Networks that take 2^53 cycles to fill: bounds on cycles and on what leaks are still no higher."""
    energy = AccessEnergy(leak_per_cycle=10**30)
    dram = StorageLevel("dram", network_fill_latency=2**53 + 1, energy=energy)
    space = SearchSpace(free_mapspace(matmul(7, 1, 1), dram, StorageLevel("buffer")))
    (mask,) = space.keep_masks
    survey = Survey(space)
    sub = EnergySubproblem(space, mask, survey.grid.spatial(0))
    energies, cycles = sub.costs(np.array([0]), sub.constant, np.array([7.5]))
    assert int(survey.overview[1][0, 0]) <= 2**53 + 1 + 7
    assert cycles[0] <= float(2**53 + 1 + 8)
    assert energies[0] == pytest.approx(8e30)


def test_steps_that_doubles_do_not_hold():
    """Neither those nor the latency are rounded up by themselves, so that a limit of as many is kept."""
    dram = StorageLevel("dram", network_drain_latency=3)
    space = SearchSpace(free_mapspace(matmul(100_003, 100_003, 1_000_003), dram))
    (mask,) = space.keep_masks
    sub = EnergySubproblem(space, mask, Survey(space).grid.spatial(0))
    assert float(sub.steps) + 3.0 > float(sub.steps + 3)
    _, cycles = sub.costs(np.array([0]), sub.constant, np.array([0.0]))
    assert cycles[0] == float(sub.least_cycles)


def test_bounds_on_the_cycles_are_whole():
    """The cost model rounds cycles up: a bound a hair below a whole number would leave every tie open."""
    dram = StorageLevel("dram", read_bandwidth=Fraction(2, 3))
    mapspace = free_mapspace(matmul(4, 4, 4), dram)
    _, cycles = Survey(SearchSpace(mapspace)).overview
    costs = {
        evaluate(mapspace.problem, mapspace.architecture, own).cycles for own in enumerate_mappings(mapspace)
    }
    assert cycles[0, 0] == min(costs) > 64
