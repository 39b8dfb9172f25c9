"""The cost model equals the executable statement of the counting rules on random mappings."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from model.architecture import Architecture, Fanout, StorageLevel
from model.cost import Evaluation, evaluate
from model.counting import TIMELOOP
from model.problem import Problem
from tests.model.cost.oracle import ORACLE, ask
from tests.model.cost.random_mappings import random_case


@pytest.mark.parametrize("links", [False, True])
@given(random=st.randoms(use_true_random=False))
@settings(max_examples=60)
def test_equals_oracle(links: bool, random: Random) -> None:
    if not ORACLE.is_file():
        pytest.skip(f"{ORACLE} is absent")
    problem, architecture, mapping = random_case(random, 5 if links else 6)
    architecture = _known_to_oracle(random, problem, architecture)
    expected = ask(problem, architecture, mapping, links)
    assume(not _loses_a_word(expected) and not _counts_less_than_nothing(expected))
    _assert_equal(evaluate(problem, architecture, mapping, TIMELOOP, links), expected, architecture)


def _loses_a_word(expected: dict[str, Any]) -> bool:
    """Whether shares that add up to a whole number of fills come out a hair less, and are truncated.

    The oracle adds them up in doubles, the cost model exactly.
    """
    shares = [counts["pas"] + counts["pf"] for level in expected["levels"] for counts in level["ds"].values()]
    return any(share != round(share) and abs(share - round(share)) < 1e-9 for share in shares)


def _counts_less_than_nothing(expected: dict[str, Any]) -> bool:
    """Whether an output's first touches outnumber its accesses, as the holes of its tiles count too.

    The rules then give negative counts, which mean nothing; the cost model stops at zero.
    """
    counts = [counts for level in expected["levels"] for counts in level["ds"].values()]
    return any(count["reads"] < 0 or count["fills"] < 0 for count in counts)


def _known_to_oracle(random: Random, problem: Problem, architecture: Architecture) -> Architecture:
    """Drop what the oracle does not know, and add restrictions of links."""
    names = [space.name for space in problem.dataspaces]
    nodes = []
    for node in architecture.nodes:
        if isinstance(node, Fanout):
            restricted = frozenset(name for name in names if random.random() < 0.1)
            nodes.append(replace(node, no_link_transfer=restricted))
        else:
            nodes.append(replace(node, gating_fanouts=None, network_fill_latency=0, network_drain_latency=0))
    return replace(architecture, nodes=tuple(nodes))


def _assert_equal(evaluation: Evaluation, expected: dict[str, Any], architecture: Architecture) -> None:
    assert evaluation.cycles == expected["cycles"]
    assert evaluation.computes == expected["computes"]
    assert evaluation.energy == pytest.approx(expected["energy_pj"], rel=1e-9)
    assert evaluation.utilization == pytest.approx(expected["util"], rel=1e-12)
    for level, figures in zip(evaluation.levels, expected["levels"], strict=True):
        assert level.cycles == figures["cycles"]
        for name, counts in figures["ds"].items():
            if not counts["keep"] or not counts["size"]:
                with pytest.raises(KeyError):
                    level.dataspace(name)
                continue
            space = level.dataspace(name)
            assert (space.reads, space.fills, space.updates) == (
                counts["reads"],
                counts["fills"],
                counts["updates"],
            )
            assert (space.tile_words, space.partition_words) == (counts["size"], counts["part"])
            assert space.energy == pytest.approx(counts["energy"], rel=1e-9)
    broken = {(v.node, "min_util" if v.kind == "min_utilization" else v.kind) for v in evaluation.violations}
    storage = {node.name for node in architecture.nodes if isinstance(node, StorageLevel)}
    assert {v for v in broken if v[0] in storage} == {
        failure for failure in expected["fail"] if failure[0] in storage and failure[1] != "fanout"
    }
