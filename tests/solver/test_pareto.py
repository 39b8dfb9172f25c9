"""The energy-latency front: against enumeration, against single searches, and when stopped."""

from dataclasses import replace
from fractions import Fraction
from functools import cache
from itertools import count

import pytest
from hypothesis import given, settings

from model.architecture import StorageLevel
from model.cost import evaluate
from model.mapspace import Mapspace
from solver.pareto import Front, FrontPoint, pareto_front, undominated
from solver.result import Options, Status, Termination
from solver.search.goal import Caps
from solver.search.mapper import SharedSearch
from solver.stages import map_einsum
from tests.bruteforce import valid_mappings
from tests.rules import allows
from tests.slow import few
from tests.solver.examples import EVALUATION, FEASIBLE, MAPPING, MAPSPACE
from tests.strategies import mapspaces, random_mapspaces, random_mapspaces_with_remainders

Costs = tuple[int, int]


def narrow(mapspace: Mapspace, words_per_cycle: int = 4) -> Mapspace:
    """The mapspace with an outermost level so slow that tiles trade energy against cycles."""
    first, *others = mapspace.architecture.nodes
    assert isinstance(first, StorageLevel)
    slow = replace(first, shared_bandwidth=Fraction(1, words_per_cycle))
    return replace(mapspace, architecture=replace(mapspace.architecture, nodes=(slow, *others)))


def all_costs(mapspace: Mapspace) -> set[Costs]:
    """Cycles and energy of every valid mapping."""
    return {(own.cycles, own.energy) for own in valid_mappings(mapspace, innermost_orders=False)}


def on_front(costs: set[Costs]) -> list[Costs]:
    """Those that no other one beats, straight from the definition, by rising cycles."""
    return sorted(own for own in costs if not any(other != own and dominates(other, own) for other in costs))


def dominates(one: Costs, other: Costs) -> bool:
    return one[0] <= other[0] and one[1] <= other[1]


def costs_of(front: Front) -> list[Costs]:
    return [(point.evaluation.cycles, point.evaluation.energy) for point in front.points]


def assert_complete(mapspace: Mapspace, front: Front, expected: list[Costs]) -> None:
    assert costs_of(front) == expected
    assert front.status is (Status.OPTIMAL if expected else Status.INFEASIBLE)
    assert front.termination is Termination.PROVEN
    assert front.open_ranges == ()
    for point in front.points:
        assert point.proven
        assert point.evaluation == evaluate(mapspace.problem, mapspace.architecture, point.mapping)
        assert allows(mapspace, point.mapping)


@pytest.mark.parametrize("seed", few(range(2)))
def test_the_front_is_that_of_all_mappings(seed: int):
    sizes = []
    for mapspace in random_mapspaces(seed, 20, 400):
        expected = on_front(all_costs(mapspace))
        assert_complete(mapspace, pareto_front(mapspace), expected)
        sizes.append(len(expected))
    assert 0 in sizes
    assert max(sizes) > 1


@settings(max_examples=25, derandomize=True)
@given(mapspaces(max_mappings=300))
def test_fronts_under_a_narrow_bandwidth(mapspace: Mapspace):
    mapspace = narrow(mapspace)
    assert_complete(mapspace, pareto_front(mapspace), on_front(all_costs(mapspace)))


def test_fronts_with_remainders():
    sizes = []
    for mapspace in random_mapspaces_with_remainders(1, 6, 120):
        slow = narrow(mapspace)
        expected = on_front(all_costs(slow))
        assert_complete(slow, pareto_front(slow), expected)
        sizes.append(len(expected))
    assert max(sizes) > 1


@cache
def long_front() -> Mapspace:
    """A mapspace whose front has several points."""
    found = (own for seed in count(100) for own in random_mapspaces(seed, 20, 400))
    return next(own for own in found if len(on_front(all_costs(own))) >= 4)


@pytest.mark.parametrize("name", ["long", "row", "narrow"])
def test_every_single_optimum_is_on_the_front(name: str):
    mapspace = {"long": long_front, "row": lambda: MAPSPACE, "narrow": lambda: narrow(MAPSPACE)}[name]()
    front = pareto_front(mapspace)
    for objectives in (("energy", "latency"), ("latency", "energy"), ("edp",)):
        result = map_einsum(mapspace, Options(objectives=objectives))
        assert result.status is Status.OPTIMAL
        on_it = [(own.evaluation.cycles, own.evaluation.energy) for own in front.points]
        best = (result.evaluation.cycles, result.evaluation.energy)
        if objectives == ("edp",):
            assert min(cycles * energy for cycles, energy in on_it) == result.value
        assert best in on_it


def test_the_front_does_not_depend_on_the_number_of_workers():
    alone, together = (pareto_front(long_front(), Options(jobs=jobs)) for jobs in (1, 2))
    assert alone.points == together.points


def in_a_range(costs: Costs, front: Front) -> bool:
    cycles, energy = costs
    return any(
        own.least_cycles <= cycles
        and (own.most_cycles is None or cycles <= own.most_cycles)
        and own.least_energy <= energy
        for own in front.open_ranges
    )


@pytest.mark.parametrize("step", few([7, 1]))
def test_when_stopped_what_is_said_of_the_rest_holds(step: int):
    """Stopped after any number of questions: proven points are right, all missing ones are in a range."""
    expected = costs_of(pareto_front(long_front()))
    statuses = []
    for patience in count(step=step):
        questions = count()
        front = pareto_front(
            long_front(), should_stop=lambda asked=questions, most=patience: next(asked) >= most
        )
        statuses.append(front.status)
        found = costs_of(front)
        proven = {costs for costs, point in zip(found, front.points, strict=True) if point.proven}
        assert proven <= set(expected)
        assert found == on_front(set(found))
        assert all(in_a_range(costs, front) for costs in set(expected) - set(found))
        if front.status is Status.OPTIMAL:
            assert found == expected
            break
        assert front.termination is Termination.INTERRUPTED
        assert (front.status is Status.UNKNOWN) == (not front.points)
    assert set(statuses) == {Status.UNKNOWN, Status.FEASIBLE, Status.OPTIMAL}
    assert statuses.count(Status.FEASIBLE) > len(expected)


def test_a_time_limit_of_nothing_finds_nothing_and_says_what_is_open():
    front = pareto_front(MAPSPACE, Options(time_limit_s=0))
    assert (front.status, front.termination) == (Status.UNKNOWN, Termination.TIME_LIMIT)
    assert front.points == ()
    (rest,) = front.open_ranges
    least = costs_of(pareto_front(MAPSPACE))
    assert all(rest.least_cycles <= cycles and rest.least_energy <= energy for cycles, energy in least)
    assert rest.most_cycles is None


def test_only_faster_mappings_are_open_where_the_least_energy_is_proven(monkeypatch):
    """The search was stopped while it looked for the least latency at that energy."""
    stopped = replace(FEASIBLE, bound=FEASIBLE.value)
    monkeypatch.setattr(SharedSearch, "minimise", lambda *_: stopped)
    front = pareto_front(MAPSPACE)
    (faster,) = front.open_ranges
    assert (faster.most_cycles, faster.least_energy) == (EVALUATION.cycles - 1, EVALUATION.energy)
    assert [point.proven for point in front.points] == [False]


def test_what_does_not_fit_into_memory_is_not_called_complete(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("solver.search.mapper.estimated_bytes", lambda space: space.lattice.size << 20)
    front = pareto_front(narrow(MAPSPACE), Options(memory_limit_mib=1))
    assert (front.status, front.termination) == (Status.FEASIBLE, Termination.MEMORY_LIMIT)
    assert not any(point.proven for point in front.points)
    assert front.open_ranges


@pytest.mark.parametrize("seed", few((1, 0)))
def test_caps_are_kept(seed: int):
    for mapspace in random_mapspaces(seed, 15, 300):
        costs = all_costs(mapspace)
        for cycles, energy in on_front(costs):
            cases = (
                (("energy", "latency"), Caps(cycles=cycles - 1), [c for c in costs if c[0] < cycles]),
                (("latency", "energy"), Caps(energy=energy - 1), [c for c in costs if c[1] < energy]),
                (("edp",), Caps(energy, cycles), [(cycles, energy)]),
            )
            for objectives, caps, within in cases:
                result = SharedSearch(mapspace).minimise(objectives, caps)
                values = [
                    tuple({"energy": e, "latency": c, "edp": e * c}[name] for name in objectives)
                    for c, e in within
                ]
                found = (result.bound, *result.later_bounds)
                assert found == min(values, default=(None,))
                assert result.status is (Status.OPTIMAL if within else Status.INFEASIBLE)


def test_of_equal_points_the_first_one_stays():
    proven, found = FrontPoint(MAPPING, EVALUATION), FrontPoint(MAPPING, EVALUATION, proven=False)
    assert undominated([proven, found]) == (proven,)
    dearer = FrontPoint(
        MAPPING, replace(EVALUATION, compute_energy=EVALUATION.compute_energy + 1), proven=False
    )
    slower = FrontPoint(MAPPING, replace(EVALUATION, cycles=EVALUATION.cycles + 1), proven=False)
    assert undominated([dearer, slower, proven]) == (proven,)
