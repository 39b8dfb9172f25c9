"""Assignments priced by the mapper against enumerations of all mappings and all assignments."""

import math
from dataclasses import replace
from fractions import Fraction
from functools import cache
from itertools import product
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from model.assignment.methods import KN2ROW
from model.assignment.network import ConvolutionShape, Tensor
from model.cascade import Network
from model.formats.assignment.methods import load_method_network
from model.mapspace import Mapspace
from solver.assignment import AssignOptions, assign, mapped
from solver.assignment.assigner import CHEAPEST
from solver.assignment.mapped import assign_mapped, searches_of
from solver.network import map_network
from solver.result import Options, Status, Termination
from solver.search.goal import Goal
from solver.search.path.search import EinsumSearch
from solver.search.space.search_space import SearchSpace
from tests.bruteforce import enumerate_mappings, optimum
from tests.conftest import REPOSITORY
from tests.mapspaces import PERFECT_ONLY
from tests.solver.search.path.alone import quiet, stops_after

DATA = REPOSITORY / "tests" / "solver" / "cli" / "data"
UNITS_PER_PJ = 100
FREE = "free_three_level"


@cache
def loaded():
    specs = [DATA / f"mapped_{what}.yaml" for what in ("network", "architecture")]
    return load_method_network(specs, DATA / "mapped_methods.yaml", options=PERFECT_ONLY)


def searched(problem, objective):
    searches = searches_of(problem)
    answers = map_network(
        Network("", tuple(searches.values())), Options(objectives=(objective,), time_limit_s=math.inf)
    )
    return {pair: own.result for pair, own in zip(searches, answers.layers, strict=True)}


def words_between(source, target, layout, method, share):
    """Words read and written between two layers, from the data's own numbers: see mapped_network.yaml."""
    inputs = {"direct": "rows", "unfold": "channels", "shift": "channels"}
    if isinstance(target.shape, Tensor):
        words = target.shape.height * target.shape.width * target.shape.channels
        return (0, 0) if layout == method else (words, words)
    shape = target.shape
    words = shape.height * shape.width * shape.stride**2 * share
    if method == "unfold" and (shape.kernel != (1, 1) or shape.stride > 1):
        unfolded = shape.height * shape.width * shape.kernel[0] * shape.kernel[1] * share
        return min(words, unfolded), unfolded
    return (0, 0) if layout == inputs[method] else (words, words)


def transition(objective, reads, writes, leakage):
    """Cost of a copy in mapped_architecture.yaml's DRAM: four words an access."""
    cycles = max(-(-reads // 3), -(-writes // 2))
    if objective == "latency":
        return cycles
    return -(-reads // 4) * Fraction("10.5") + -(-writes // 4) * Fraction("12.25") + cycles * leakage


def totals(problem, objective, optima):
    """Yield every allowed assignment with its total."""
    outputs = {"direct": "rows", "unfold": "channels", "shift": "rows"}
    layers = problem.shaped.layers
    for choice in product(*(layer.methods for layer in layers)):
        pairs = [(own.shape, method) for own, method in zip(layers, choice, strict=True)]
        costs = [optima[pair] for pair in pairs if isinstance(pair[0], ConvolutionShape)]
        if None in costs:
            continue
        moved = Fraction(0)
        for edge in problem.shaped.edges:
            source, target = layers[edge.source], layers[edge.target]
            layout, share = outputs.get(choice[edge.source], choice[edge.source]), edge.channels
            if share is None and isinstance(target.shape, ConvolutionShape):
                share = target.shape.in_channels
            words = words_between(source, target, layout, choice[edge.target], share)
            moved += transition(objective, *words, Fraction(problem.copy_leakage, UNITS_PER_PJ))
        yield choice, sum(costs) + moved


@pytest.mark.parametrize(("objective", "leakage"), [("energy", 0), ("energy", 175), ("latency", 175)])
def test_the_assignment_is_the_best_of_all_with_enumerated_optima(objective, leakage):
    problem = replace(loaded(), copy_leakage=leakage)
    optima = {}
    for pair, mapspace in problem.mapspaces.items():
        best = optimum(mapspace, objective)
        units = UNITS_PER_PJ if objective == "energy" else 1
        optima[pair] = None if best is None else Fraction(best[0], units)
    assert None in optima.values()
    results = searched(problem, objective)
    found = assign_mapped(problem, results, objective)
    all_totals = dict(totals(problem, objective, optima))
    least = min(all_totals.values())
    result = found.result
    assert result.status is Status.OPTIMAL
    assert result.in_unit(result.total) == least
    assert all_totals[result.best.methods(result.network)] == least
    assert {pair: own.value for pair, own in found.costs.items()} == optima
    # Of the dataflows, `free` and `weights` carry out every layer, each by its one method.
    singles = {
        name: min(own for choice, own in all_totals.items() if set(choice) <= {name, "rows", "channels"})
        for name in ("direct", "unfold")
    }
    assert found.method_gain.name == min(singles, key=singles.get)
    assert result.in_unit(found.method_gain.total) == min(singles.values())
    assert found.method_gain.share == pytest.approx(float(1 - least / min(singles.values())))
    assert found.dataflow_gain.total == found.method_gain.total


def test_kn2row_is_the_mapspace_with_the_filter_outermost():
    """Of all mappings of the problem, those with R and S at the outermost level, outside of the others."""
    problem = loaded()
    ((shape, mapspace),) = [
        (pair[0], own)
        for pair, own in problem.mapspaces.items()
        if problem.methods[pair[1]].lowering == KN2ROW and own.problem.bound["S"] > 1
    ]
    assert shape.kernel == (2, 2)
    free = free_of_order(mapspace)
    wanted = [mapping for mapping in enumerate_mappings(free) if is_in_turn(mapping.nodes[0].temporal)]
    assert len(wanted) == len(list(enumerate_mappings(mapspace)))
    assert len(wanted) < len(list(enumerate_mappings(free)))


def test_kn2row_of_a_large_layer_is_proven_at_once():
    """Sums come again for each position of the filter, which tables outside know."""
    specs = [REPOSITORY / "specs" / own for own in ("networks/resnet18.yaml", f"architectures/{FREE}.yaml")]
    methods = REPOSITORY / "specs" / "methods" / f"{FREE}.yaml"
    problem = load_method_network(specs, methods, options=PERFECT_ONLY)
    shape = next(own.shape for own in problem.shaped.layers if own.name == "conv2_1_a")
    shared = quiet(stops_after(2000))
    search = EinsumSearch(SearchSpace(problem.mapspaces[shape, "kn2row-ws"]), Goal("energy"), shared)
    assert search.run() == search.goal.incumbent == 1_433_853_952


def free_of_order(mapspace):
    """Take back what the lowering asks for."""
    keep = [rule for rules in mapspace.spatial for rule in rules.factors if rule.dim not in "RS"]
    spatial = tuple(type(rules)(factors=tuple(keep)) for rules in mapspace.spatial)
    temporal = tuple(type(rules)() for rules in mapspace.temporal)
    return Mapspace(mapspace.problem, mapspace.architecture, temporal, spatial, mapspace.keep)


def is_in_turn(loops):
    dims = {loop.dim: loop.bound for loop in loops}
    return dims.get("R") == dims.get("S") == 2 and [loop.dim for loop in loops][-2:] == ["S", "R"]


def answer(value, bound):
    """What an assignment reads of the mapper's result."""
    if value is None and bound is None:
        status = Status.INFEASIBLE
    elif value is None:
        status = Status.UNKNOWN
    else:
        status = Status.OPTIMAL if value == bound else Status.FEASIBLE
    proven = status in (Status.OPTIMAL, Status.INFEASIBLE)
    termination = Termination.PROVEN if proven else Termination.TIME_LIMIT
    return SimpleNamespace(
        status=status, termination=termination, value=value, bound=bound, units_per_pj=UNITS_PER_PJ
    )


@st.composite
def answers(draw):
    found = {}
    for pair in loaded().mapspaces:
        bound = draw(st.integers(0, 40_000))
        excess = draw(st.sampled_from((0, 0, 0, 1, 9_000, None)))
        value = None if excess is None else bound + excess
        kind = draw(st.sampled_from(("known", "known", "known", "none", "missing")))
        if kind == "known":
            found[pair] = answer(value, bound)
        elif kind == "none":
            found[pair] = answer(None, None)
    return found


@settings(max_examples=150)
@given(answers())
def test_unproven_costs_count_with_value_and_bound(results):
    problem = loaded()
    pairs = problem.mapspaces
    values = {pair: by_units(results.get(pair), "value") for pair in pairs}
    bounds = {pair: by_units(results[pair], "bound") if pair in results else 0 for pair in pairs}
    found = assign_mapped(problem, results, "energy").result
    best = min((total for _, total in totals(problem, "energy", values)), default=None)
    least = min((total for _, total in totals(problem, "energy", bounds)), default=None)
    assert found.in_unit(found.total) == best
    if least is None:
        assert found.status is Status.INFEASIBLE
    elif best is None:
        assert found.status is Status.UNKNOWN
    else:
        assert found.status is (Status.OPTIMAL if least == best else Status.FEASIBLE)
    if least is not None:
        assert least - Fraction(1, found.network.steps_per_unit) < found.in_unit(found.bound) <= least
    if values != bounds:
        assert found.margin is None


def test_rules_say_whether_all_costs_are_known_that_they_ask_for():
    problem, known = loaded(), known_answers()
    complete = assign_mapped(problem, known, "energy").result
    assert complete.policies
    assert all(policy.known for policy in complete.policies)
    pair = next(iter(known))
    for missing in (
        {**known, pair: answer(None, 5)},
        {key: own for key, own in known.items() if key != pair},
    ):
        found = assign_mapped(problem, missing, "energy").result
        open_rules = [policy.name for policy in found.policies if not policy.known]
        flow = problem.methods[pair[1]].dataflow
        assert open_rules == [CHEAPEST, f"dataflow {flow} everywhere", f"method {pair[1]} everywhere"]


def by_units(result, name):
    own = None if result is None else getattr(result, name)
    return None if own is None else Fraction(own, UNITS_PER_PJ)


def known_answers():
    return {pair: answer(1000 + place, 1000 + place) for place, pair in enumerate(loaded().mapspaces)}


def test_single_kinds_are_solved_within_the_same_limits(monkeypatch):
    seen = []

    def spy(network, options, should_stop):
        seen.append((options, should_stop))
        return assign(network, options, should_stop)

    monkeypatch.setattr(mapped, "assign", spy)
    problem, own, stop = loaded(), AssignOptions(time_limit_s=60.0, seed=3), lambda: False
    assign_mapped(problem, known_answers(), "energy", own, stop)
    assert seen == [(own, stop)] * (1 + len(problem.dataflows) + len(problem.methods))


def test_single_kinds_without_a_proof_are_not_compared_with(monkeypatch):
    proven = assign_mapped(loaded(), known_answers(), "energy")
    assert proven.dataflow_gain is not None

    def stopped(network, options, should_stop):
        found = assign(network, options, should_stop)
        if found.total is None:
            return found
        ended = Termination.TIME_LIMIT
        return replace(found, status=Status.FEASIBLE, termination=ended, bound=found.total - 1, margin=None)

    monkeypatch.setattr(mapped, "assign", stopped)
    found = assign_mapped(loaded(), known_answers(), "energy")
    assert found.result.total == proven.result.total
    assert len(found.result.policies) < len(proven.result.policies)
    assert found.dataflow_gain is found.method_gain is None


def test_products_do_not_add_up():
    with pytest.raises(ValueError, match="edp does not add up over layers"):
        assign_mapped(loaded(), {}, "edp")
