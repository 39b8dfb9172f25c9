"""What rules mean: for one mapping and for many, against Python's own arithmetic; their texts read back."""

from random import Random

import numpy as np

from model.cost import evaluate_in
from model.cost.batch import BatchEvaluator, encode
from model.cost.batch.judge import rules_hold
from model.extents import ANY, PERFECT
from model.rules import RuleScope, parse_rule
from tests.model.cost.random_mappings import random_mapping
from tests.random_rules import SPATIAL, TILE, WIDE, means, random_rule
from tests.strategies import random_mapspaces


def test_rules_mean_what_python_says():
    random, verdicts = Random(5), []
    for mapspace in random_mapspaces(51, 30):
        rules = [random_rule(random, mapspace, (TILE, SPATIAL, WIDE)) for _ in range(8)]
        for kind in (PERFECT, ANY):
            mapping = random_mapping(random, mapspace.problem, mapspace.architecture, kind)
            broken = evaluate_in(mapspace.where(*rules), mapping).broken_rules
            texts = {found.rule.text for found in broken}
            for rule in rules:
                verdicts.append(means(rule, mapspace, mapping))
                assert (rule not in texts) is verdicts[-1], rule
    assert 0.2 < np.mean(verdicts) < 0.8


def test_many_mappings_are_judged_as_one_is():
    random = Random(6)
    for mapspace in random_mapspaces(52, 15):
        ruled = mapspace.where(*(random_rule(random, mapspace, (TILE, SPATIAL, WIDE)) for _ in range(2)))
        for kind in (PERFECT, ANY):
            mappings = [
                random_mapping(random, mapspace.problem, mapspace.architecture, kind) for _ in range(12)
            ]
            batch = encode(mapspace.problem, mapspace.architecture, mappings)
            costs = BatchEvaluator(mapspace.problem, mapspace.architecture).evaluate(batch)
            found = rules_hold(ruled, batch, costs)
            for mapping, held, valid in zip(mappings, found, costs.valid, strict=True):
                assert not valid or bool(held) is (not evaluate_in(ruled, mapping).broken_rules)


def test_the_text_of_a_condition_reads_back():
    random = Random(7)
    for mapspace in random_mapspaces(53, 40):
        scope = RuleScope(mapspace.problem, mapspace.architecture)
        rule = parse_rule(random_rule(random, mapspace, (TILE, SPATIAL, WIDE)), scope)
        assert parse_rule(str(rule.condition), scope) == rule


def test_parts_hold_together_where_the_rule_does():
    random = Random(8)
    for mapspace in random_mapspaces(54, 40):
        first, second = (random_rule(random, mapspace, (TILE, WIDE)) for _ in range(2))
        (rule,) = mapspace.where(f"({first}) and ({second})").rules
        assert len(rule.parts) >= 2
        mapping = random_mapping(random, mapspace.problem, mapspace.architecture)
        alone = [means(str(part.condition).replace(" pJ", ""), mapspace, mapping) for part in rule.parts]
        if "energy" not in rule.text and " - 1)" not in rule.text:
            assert all(alone) is means(rule.text, mapspace, mapping)
