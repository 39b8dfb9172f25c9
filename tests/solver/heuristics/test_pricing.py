"""The price service: exact values, budgets, refusals."""

from dataclasses import replace
from itertools import count, islice
from random import Random

import numpy as np
import pytest

import solver.heuristics.pricing
from model.cost import evaluate, evaluate_in
from model.cost.batch import BatchEvaluator, encode
from model.cost.nest import build_nest
from model.extents import ANY
from model.mapping import FanoutMapping, Loop, Mapping, StorageMapping
from solver.heuristics.interface import Budget, BudgetSpent
from solver.heuristics.pricing import Pricing
from solver.heuristics.sampling import Sampler
from tests.bruteforce import enumerate_mappings, objective_value
from tests.model.cost.random_mappings import random_mapping
from tests.random_rules import SPATIAL, TILE, WIDE, random_rule
from tests.slow import slow
from tests.solver.examples import EVALUATION, MAPPING, MAPSPACE
from tests.strategies import random_mapspaces

ENDLESS = Budget(None)
OBJECTIVES = (("edp",), ("latency", "energy"))
OTHER_EVALUATORS = {
    "rounded": lambda mapspace: BatchEvaluator(mapspace.problem, mapspace.architecture, rounded=True),
    "one by one": lambda mapspace: None,
}


@pytest.mark.parametrize("objectives", [OBJECTIVES[0], *map(slow, OBJECTIVES[1:])])
@pytest.mark.parametrize("how", ["batched", "rounded", "one by one"])
def test_incumbents_are_exact_and_the_best(objectives, how, monkeypatch):
    if how != "batched":
        monkeypatch.setattr(solver.heuristics.pricing, "_evaluator", OTHER_EVALUATORS[how])
    for mapspace in random_mapspaces(41, 15, 400):
        mappings = list(enumerate_mappings(mapspace))
        pricing = Pricing(mapspace, objectives, ENDLESS)
        prices = pricing.price(mappings)
        costs = [evaluate(mapspace.problem, mapspace.architecture, mapping) for mapping in mappings]
        assert prices.allowed.tolist() == [cost.valid for cost in costs]
        valid = [objective_value(objectives, cost.energy, cost.cycles) for cost in costs if cost.valid]
        assert [tuple(row) for row in prices.values[prices.allowed]] == [tuple(map(float, v)) for v in valid]
        assert (pricing.evaluations, pricing.valid) == (len(mappings), len(valid))
        assert (pricing.best.values if pricing.best else None) == min(valid, default=None)


@pytest.mark.parametrize("how", ["batched", "rounded", "one by one"])
def test_mappings_that_break_rules_are_rejected(how, monkeypatch):
    if how != "batched":
        monkeypatch.setattr(solver.heuristics.pricing, "_evaluator", OTHER_EVALUATORS[how])
    random, rejected = Random(9), 0
    for mapspace in random_mapspaces(45, 8, 200):
        ruled = mapspace.where(random_rule(random, mapspace, (TILE, SPATIAL, WIDE)))
        mappings = list(enumerate_mappings(mapspace))
        pricing = Pricing(ruled, ("edp",), ENDLESS)
        costs = [evaluate_in(ruled, mapping) for mapping in mappings]
        assert pricing.price(mappings).allowed.tolist() == [cost.valid for cost in costs]
        for mapping, cost in list(zip(mappings, costs, strict=True))[:5]:
            if cost.broken_rules and not cost.violations:
                rejected += 1
                assert pricing.offer(mapping) == f"the rule {cost.broken_rules[0].rule}"
    assert rejected


def test_values_that_doubles_cannot_tell_apart_are_told_apart():
    energy = replace(MAPSPACE.architecture.levels[0].energy, read=10**15 + 1)
    dram = replace(MAPSPACE.architecture.levels[0], energy=energy)
    architecture = replace(MAPSPACE.architecture, nodes=(dram, *MAPSPACE.architecture.nodes[1:]))
    mapspace = replace(MAPSPACE, architecture=architecture)
    mappings = list(islice(enumerate_mappings(mapspace), 0, 60_000, 200))
    exact = [evaluate(mapspace.problem, architecture, mapping) for mapping in mappings]
    pricing = Pricing(mapspace, ("edp",), ENDLESS)
    pricing.price(mappings)
    assert pricing.best.values == (min(cost.edp for cost in exact if cost.valid),)


def test_the_number_of_evaluations_is_held():
    pricing = Pricing(MAPSPACE, ("edp",), Budget(None, 5000))
    batch = encode(MAPSPACE.problem, MAPSPACE.architecture, [MAPPING] * 3000)
    assert len(pricing.price_batch(batch).allowed) == 3000
    with pytest.raises(BudgetSpent):
        pricing.price_batch(batch)
    assert pricing.evaluations == 5000
    with pytest.raises(BudgetSpent):
        pricing.check_budget()


def test_the_time_is_held(monkeypatch):
    clock = count(step=0.01)
    monkeypatch.setattr("solver.heuristics.pricing.time.perf_counter", lambda: next(clock))
    batch = encode(MAPSPACE.problem, MAPSPACE.architecture, [MAPPING] * 64)
    pricing = Pricing(MAPSPACE, ("edp",), Budget(0.05))
    with pytest.raises(BudgetSpent):
        while pricing.evaluations < 10_000:
            pricing.price_batch(batch)
    assert 0 < pricing.evaluations <= 5 * 64
    assert pricing.best.evaluations == 64
    assert pricing.seconds_left == 0


def test_a_stop_counts_as_spent():
    pricing = Pricing(MAPSPACE, ("edp",), ENDLESS, should_stop=lambda: True)
    with pytest.raises(BudgetSpent):
        pricing.price([MAPPING])
    assert pricing.best is None


def test_an_answer_is_priced_after_the_budget():
    pricing = Pricing(MAPSPACE, ("edp",), Budget(0.0))
    assert pricing.offer(MAPPING) is None
    assert pricing.best.values == (EVALUATION.edp,)


def test_rules_and_limits_that_an_answer_breaks_are_named():
    keep = (*MAPSPACE.keep[:3], replace(MAPSPACE.keep[3], bypass=frozenset({"Outputs"})))
    ruled = Pricing(replace(MAPSPACE, keep=keep), ("edp",), ENDLESS)
    assert ruled.offer(MAPPING) == "the levels that may keep Outputs"
    dram, buffer, *inner = MAPSPACE.architecture.nodes
    nodes = (dram, replace(buffer, size_words=8), *inner)
    tight = Pricing(
        replace(MAPSPACE, architecture=replace(MAPSPACE.architecture, nodes=nodes)), ("edp",), ENDLESS
    )
    assert tight.offer(MAPPING) == "the capacity of buffer"
    assert ruled.best is tight.best is None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (StorageMapping((Loop("M", 0),), frozenset()), "with the bound 0"),
        (StorageMapping((Loop("Z", 2),), frozenset()), "not a dimension"),
        (StorageMapping((Loop("M", 2),), frozenset({"Biases"})), "unknown dataspaces"),
        (StorageMapping((Loop("M", 2), Loop("M", 1)), frozenset()), "two loops"),
        (FanoutMapping(), "wrong kind"),
    ],
)
def test_what_is_no_mapping_is_refused(change, message):
    pricing = Pricing(MAPSPACE, ("edp",), ENDLESS)
    with pytest.raises(ValueError, match=message):
        pricing.price([Mapping((change, *MAPPING.nodes[1:]))])


@pytest.mark.parametrize(
    ("part", "value", "message"),
    [
        ("factors", 1, "do not multiply"),
        ("factors", -1, "below 1"),
        ("order", 0, "each dimension once"),
    ],
)
def test_arrays_that_are_no_mappings_are_refused(part, value, message):
    batch = encode(MAPSPACE.problem, MAPSPACE.architecture, [MAPPING] * 3)
    getattr(batch, part)[2] = value
    pricing = Pricing(MAPSPACE, ("edp",), ENDLESS)
    with pytest.raises(ValueError, match=message):
        pricing.price_batch(batch)
    assert pricing.evaluations == 0


def test_answers_with_remainders_are_refused_where_factors_are_perfect():
    """Or they could be better than the optimum."""
    problem = MAPSPACE.problem
    random = Random(3)
    while True:
        mapping = random_mapping(random, problem, MAPSPACE.architecture, ANY)
        if build_nest(problem, MAPSPACE.architecture, mapping).remainder_dims:
            break
    with pytest.raises(ValueError, match="do not multiply"):
        Pricing(MAPSPACE, ("edp",), ENDLESS).offer(mapping)


def test_the_best_of_estimates_is_priced_exactly():
    problem = replace(MAPSPACE.problem, bounds=tuple(bound + 1 for bound in MAPSPACE.problem.bounds))
    mapspace = replace(MAPSPACE, problem=problem, factors=ANY)
    pricing = Pricing(mapspace, ("edp",), Budget(None, 3000))
    batch = Sampler(pricing.rules).draw(np.random.default_rng(1), 800)
    estimates = pricing.estimate_batch(batch)
    first = pricing.best
    assert first.evaluation == evaluate_in(mapspace, first.mapping)
    exact = pricing.price_batch(batch)
    assert (exact.allowed == estimates.allowed).all()
    assert pricing.best.values[0] == exact.scores.min() <= first.values[0]
    assert pricing.evaluations == 2 * len(batch)
    pricing.settle(batch, estimates, 5)
    assert pricing.evaluations == 2 * len(batch)
    with pytest.raises(BudgetSpent):
        pricing.estimate_batch(Sampler(pricing.rules).draw(np.random.default_rng(2), 3000))


def test_nothing_priced_is_no_error():
    prices = Pricing(MAPSPACE, ("edp",), ENDLESS).price([])
    assert prices.values.shape == (0, 1)
    assert np.array_equal(prices.allowed, [])
