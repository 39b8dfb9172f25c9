"""What a mapping leaves unused, against the definition of each limit."""

from dataclasses import replace
from fractions import Fraction

import pytest

from model.architecture import BANDWIDTHS
from model.cost import evaluate
from model.cost.slack import CAPACITY, slacks
from tests.solver.examples import ARCHITECTURE, EVALUATION, MAPPING, PROBLEM


def level_with(name, **changes):
    nodes = [replace(node, **changes) if node.name == name else node for node in ARCHITECTURE.nodes]
    return replace(ARCHITECTURE, nodes=tuple(nodes))


def slack_of(architecture, level, resource):
    evaluation = evaluate(PROBLEM, architecture, MAPPING)
    found = [s for s in slacks(architecture, evaluation) if (s.level, s.resource) == (level, resource)]
    return found[0], evaluation


def test_every_limit_has_one_entry_and_nothing_else_has():
    found = [(slack.level, slack.resource) for slack in slacks(ARCHITECTURE, EVALUATION)]
    assert found == [
        ("buffer", "capacity"),
        ("buffer", "read_bandwidth"),
        ("weight_spad", "capacity"),
        ("output_spad", "capacity"),
    ]


def test_a_capacity_is_what_multiple_buffering_leaves():
    slack, evaluation = slack_of(level_with("buffer", multiple_buffering=Fraction(3, 2)), "buffer", CAPACITY)
    assert slack.limit == 170
    assert slack.used == evaluation.level("buffer").size_words
    assert slack.unused == 170 - slack.used


@pytest.mark.parametrize("resource", BANDWIDTHS)
def test_an_ample_bandwidth_carries_the_words_of_the_run(resource):
    changes = dict.fromkeys(BANDWIDTHS) | {resource: Fraction(10**6)}
    scale = (("Inputs", Fraction(1, 3)), ("Outputs", Fraction(2)))
    architecture = level_with("buffer", bandwidth_scale=scale, network_fill_latency=7, **changes)
    slack, evaluation = slack_of(architecture, "buffer", resource)
    level = evaluation.level("buffer")
    words = Fraction(0)
    for name, factor in scale:
        space = level.dataspace(name)
        words += factor * space.reads if resource != "write_bandwidth" else 0
        words += factor * (space.fills + space.updates) if resource != "read_bandwidth" else 0
    assert evaluation.cycles == evaluation.compute_cycles + 7
    assert slack.used == words / evaluation.compute_cycles


@pytest.mark.parametrize("resource", BANDWIDTHS)
@pytest.mark.parametrize("bandwidth", [Fraction(1, 7), Fraction(1, 100)])
def test_the_bandwidth_that_decides_the_latency_is_used_up(resource, bandwidth):
    changes = dict.fromkeys(BANDWIDTHS) | {resource: bandwidth}
    slack, evaluation = slack_of(level_with("buffer", **changes), "buffer", resource)
    assert evaluation.cycles > evaluation.compute_cycles
    assert 0 <= slack.unused < bandwidth * Fraction(2, evaluation.cycles)
