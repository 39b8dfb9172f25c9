"""What constraints cost, against the optima that complete enumeration finds without each."""

from dataclasses import replace
from fractions import Fraction
from itertools import permutations

import pytest

from model.architecture import Packing
from model.counting.words import tile_words
from model.mapspace import TemporalRules
from model.source_ref import SourceRef
from solver.explain import constraint_costs
from solver.explain.constraints import without_parts
from solver.explain.costs import clauses
from solver.explain.wording import clause_text
from solver.formulation.requirements import TileCapacity
from solver.result import ContradictionError, Options, Status, Termination
from solver.stages import map_einsum
from tests.bruteforce import count_mappings, optima, optimum
from tests.slow import few
from tests.solver.examples import unaided
from tests.solver.explain.enumeration import allows_a_mapping, some_mapspaces
from tests.solver.explain.row import mapspace_of

LARGEST = 2_000
FEW = 700
FEASIBLE = [m for m in some_mapspaces(47, 14) if allows_a_mapping(m)]
IN_ORDER = [m for m in some_mapspaces(53, 16) if allows_a_mapping(m)]
ENERGY = Options(objectives=("energy",))


def least_energy(spaces):
    found = [optimum(space, "energy") for space in spaces]
    return min(best[0] for best in found if best is not None)


@pytest.mark.parametrize("mapspace", FEASIBLE)
def test_enumeration_agrees(mapspace):
    report = constraint_costs(mapspace, ENERGY, unaided)
    baseline = least_energy([mapspace])
    assert report.baseline.value == baseline
    costs = {cost.statement.text: cost for cost in report.clauses}
    for clause in clauses(mapspace):
        cost = costs.pop(clause_text(clause, mapspace))
        assert cost.proven
        spaces = without_parts(mapspace, clause)
        if sum(count_mappings(s, LARGEST, innermost_orders=False) for s in spaces) <= LARGEST:
            assert cost.result.value == least_energy(spaces)
    assert not costs


ORDERS = [("latency", "energy"), ("energy", "latency")]


@pytest.mark.parametrize("mapspace", few([*IN_ORDER[:2], *IN_ORDER[3:], IN_ORDER[2]], 3))
def test_every_figure_is_of_the_best_in_order(mapspace):
    reports = [constraint_costs(mapspace, Options(objectives=order), map_einsum) for order in ORDERS]
    assert [values(report.baseline) for report in reports] == least([mapspace])
    for clause in clauses(mapspace):
        text = clause_text(clause, mapspace)
        costs = [next(c for c in report.clauses if c.statement.text == text) for report in reports]
        for cost, report in zip(costs, reports, strict=True):
            assert cost.proven
            assert not cost.unproven
            pairs = list(zip(values(report.baseline), values(cost.result), strict=True))
            place = next((place for place, (today, best) in enumerate(pairs) if best != today), 0)
            today, best = pairs[place]
            assert (cost.objective, cost.share) == (report.baseline.objectives[place], (today - best) / today)
        spaces = without_parts(mapspace, clause)
        if sum(count_mappings(s, FEW, innermost_orders=False) for s in spaces) <= FEW:
            assert [values(cost.result) for cost in costs] == least(spaces)


def least(spaces):
    """The least values of each of `ORDERS`."""
    found = [optima(space, ORDERS) for space in spaces]
    return [min(best[0] for best in own if best is not None) for own in zip(*found, strict=True)]


def values(result):
    return tuple(map(result.evaluation.value, result.objectives))


LATENCY_FIRST = Options(objectives=("latency", "energy"))


def test_what_costs_energy_alone_stands_behind_what_costs_cycles():
    report = constraint_costs(mapspace_of(), LATENCY_FIRST, map_einsum)
    named = [cost.objective for cost in report.clauses if cost.share]
    assert named == sorted(named, key=LATENCY_FIRST.objectives.index)
    assert "energy" in named
    assert [cost.share > 0 for cost in report.clauses] == [
        *[True] * len(named),
        *[False] * (len(report.clauses) - len(named)),
    ]


def test_a_later_objective_that_a_search_left_open_is_no_proven_cost():
    """The first objective is proven, the bound on the second one is not met, or there is none."""
    mapspace = mapspace_of()
    for later in ((1,), ()):

        def search(space, *rest, later=later):
            result = unaided(space, *rest)
            if space is mapspace:
                return result
            ended = {"status": Status.FEASIBLE, "termination": Termination.TIME_LIMIT}
            return replace(result, later_bounds=later, **ended)

        report = constraint_costs(mapspace, LATENCY_FIRST, search)
        assert all(cost.unproven == ("energy",) for cost in report.clauses)
        for cost in report.clauses:
            if cost.objective == "latency":
                assert cost.proven
                assert cost.share > 0
            else:
                assert not cost.proven
                assert (cost.most is None) == (not later)
        assert any(cost.objective == "energy" for cost in report.clauses)


def test_the_dearest_comes_first():
    report = constraint_costs(mapspace_of(), ENERGY, unaided)
    shares = [cost.share for cost in report.clauses]
    assert shares == sorted(shares, reverse=True)
    assert shares[0] > 0 == shares[-1]


def test_constraints_of_one_place_are_one_clause():
    texts = [cost.statement.text for cost in constraint_costs(mapspace_of(), ENERGY, unaided).clauses]
    assert "`weight_spad` keeps Weights; `output_spad` bypasses Weights" in texts


def test_an_order_of_temporal_loops_has_a_price():
    mapspace = mapspace_of(("depth: 64", "depth: 12"), ("M: 6", "M: 3"))
    place = SourceRef("row.yaml", 1, 1)
    orders = (
        TemporalRules(inner=order, source=place) for order in [*permutations(mapspace.problem.dims)][::11]
    )
    spaces = [replace(mapspace, temporal=(order, order, *mapspace.temporal[2:])) for order in orders]
    worst = max(spaces, key=lambda space: unaided(space, ENERGY).value)
    report = constraint_costs(worst, ENERGY, unaided)
    (cost,) = (c for c in report.clauses if c.statement.sources == (place,))
    assert cost.statement.text == (
        "the order of the temporal loops of `DRAM`; the order of the temporal loops of `buffer`"
    )
    assert cost.result.value == unaided(mapspace, ENERGY).value < report.baseline.value


def test_a_lifted_capacity_has_room_for_all_values_of_their_sizes():
    """What the tiles take at the least stays what it was; what they may take is no less than everything."""
    mapspace = mapspace_of()
    architecture = mapspace.architecture
    level = next(i for i, own in enumerate(architecture.levels) if own.name == "weight_spad")
    wide = replace(
        architecture.levels[level], packing=(Packing("Weights", 1, 1000),), min_utilization=Fraction(1, 2)
    )
    nodes = list(architecture.nodes)
    nodes[architecture.storage_indices[level]] = wide
    changed = replace(mapspace, architecture=replace(architecture, nodes=tuple(nodes)))
    (lifted,) = without_parts(changed, [TileCapacity(level, wide)])
    found = lifted.architecture.levels[level]
    weights = tile_words(mapspace.problem.dataspace("Weights"), mapspace.problem.bound)
    assert found.usable_words >= 1000 * weights
    assert found.usable_words * found.min_utilization == wide.usable_words * wide.min_utilization


def infeasible(result):
    return replace(result, status=Status.INFEASIBLE, value=None, bound=None, mapping=None, evaluation=None)


def dearer(result):
    return replace(result, value=result.value * 100, bound=result.value * 100)


@pytest.mark.parametrize("lie", [infeasible, dearer])
def test_less_cannot_be_allowed_without_a_constraint(lie):
    mapspace = mapspace_of()

    def search(space, *rest):
        result = unaided(space, *rest)
        return result if space is mapspace else lie(result)

    with pytest.raises(ContradictionError, match="without"):
        constraint_costs(mapspace, ENERGY, search)


@pytest.mark.parametrize("objective", ["energy", "latency", "edp"])
def test_an_incumbent_to_begin_with_changes_no_cost(objective):
    mapspace = replace(mapspace_of(), min_parallelism=Fraction(6))
    options = Options(objectives=(objective,))
    alone = constraint_costs(mapspace, options, unaided)
    helped = constraint_costs(mapspace, options, map_einsum)
    assert [cost.statement for cost in helped.clauses] == [cost.statement for cost in alone.clauses]
    for one, other in zip(alone.clauses, helped.clauses, strict=True):
        assert (one.share, one.most, one.result.value) == (other.share, other.most, other.result.value)


def stopped(space, *rest):
    """A search that finds what there is, but proves only half of it."""
    result = unaided(space, *rest)
    return replace(
        result, status=Status.FEASIBLE, termination=Termination.TIME_LIMIT, bound=result.value // 2
    )


@pytest.mark.parametrize("quarters", [0, 2, 4])
@pytest.mark.parametrize("mapspace", FEASIBLE)
def test_without_a_proven_optimum_bounds_hold_the_costs(mapspace, quarters):
    """Bounds are 5 % off with all constraints; without one they are met, or half of that, or nothing."""

    def ends_early(space, *rest):
        result = unaided(space, *rest)
        bound = result.value * 95 // 100 if space is mapspace else result.value * quarters // 4
        ended = {"status": Status.FEASIBLE, "termination": Termination.TIME_LIMIT}
        return replace(result, bound=bound, **ended)

    true = {own.statement: own.share for own in constraint_costs(mapspace, ENERGY, unaided).clauses}
    report = constraint_costs(mapspace, ENERGY, ends_early)
    for cost in report.clauses:
        assert 0 <= cost.least <= true[cost.statement] <= cost.most
        assert cost.least == pytest.approx(max(0, 1 - cost.result.value / report.baseline.bound))
    met = quarters == 4 and not all(true.values())
    assert report.baseline.status is (Status.OPTIMAL if met else Status.FEASIBLE)
    assert not met or all(cost.proven for cost in report.clauses)


def test_where_nothing_is_known_nothing_is_said():
    def knows_nothing(space, *rest):
        return replace(stopped(space, *rest), bound=None)

    report = constraint_costs(mapspace_of(), ENERGY, knows_nothing)
    assert {(cost.least, cost.most) for cost in report.clauses} == {(0.0, None)}
    assert not any(cost.proven for cost in report.clauses)


def test_a_search_that_stopped_gives_a_range():
    mapspace = mapspace_of()

    def proves_the_first_alone(space, *rest):
        return unaided(space, *rest) if space is mapspace else stopped(space, *rest)

    report = constraint_costs(mapspace, ENERGY, proves_the_first_alone)
    for cost in report.clauses:
        assert cost.most == pytest.approx(0.5 + cost.share / 2)


def test_rules_on_dimensions_of_one_are_not_searched():
    mapspace = mapspace_of(("instance: {R: 3, P: 4,", "instance: {R: 3, P: 1,"))
    searched = []

    def counted(space, *rest):
        searched.append(space)
        return unaided(space, *rest)

    report = constraint_costs(mapspace, ENERGY, counted)
    idle = [cost for cost in report.clauses if cost.statement.text.startswith("P=1")]
    assert len(idle) == 3
    assert all(cost.share == 0 and cost.proven for cost in idle)
    assert len(searched) == 1 + len(report.clauses) - len(idle)


def test_an_interrupt_keeps_what_was_found():
    calls = []

    def stop():
        return len(calls) > 2

    def counted(*arguments):
        calls.append(arguments)
        return unaided(*arguments[:2])

    report = constraint_costs(mapspace_of(), ENERGY, counted, should_stop=stop)
    assert report.baseline.status is Status.OPTIMAL
    assert len(report.clauses) == 2
    assert len(report.left_out) == len(clauses(mapspace_of())) - 2
    whole = constraint_costs(mapspace_of(), ENERGY, unaided)
    texts = [*(cost.statement.text for cost in report.clauses), *(own.text for own in report.left_out)]
    assert sorted(texts) == sorted(cost.statement.text for cost in whole.clauses)
    assert whole.left_out == ()


def test_a_least_parallelism_has_a_price():
    mapspace = replace(mapspace_of(), min_parallelism=Fraction(12))
    report = constraint_costs(mapspace, ENERGY, unaided)
    assert any("compute units" in cost.statement.text for cost in report.clauses)
