"""What Timeloop prints for mappings with remainders, where it should agree: see docs/model.md."""

from __future__ import annotations

import math

import pytest

from model.cost import evaluate
from model.mapping import FanoutMapping, StorageMapping
from tests.model.cost.timeloop_cases import IMPERFECT, Case, read_cases


@pytest.fixture(scope="module")
def cases() -> list[Case]:
    if not IMPERFECT.is_dir():
        pytest.skip(f"{IMPERFECT} is absent")
    return read_cases("cases.jsonl", IMPERFECT)


def unrolls(case: Case) -> bool:
    fanouts = (node for node in case.mapping.nodes if isinstance(node, FanoutMapping))
    return any(loop.bound > 1 for node in fanouts for loop in node.spatial)


def test_remainders_and_tiles_are_the_same(cases: list[Case]) -> None:
    assert len(cases) == 40
    for case in cases:
        assert case.mapping.remainders(case.problem.bound) == case.remainders
        for level in evaluate(case.problem, case.architecture, case.mapping).levels:
            printed = case.expected["levels"][level.name]["dataspaces"]
            for space in level.dataspaces:
                assert space.tile_words == printed[space.dataspace]["tile_words"], case.name


def test_without_fanouts_computes_are_the_same_and_no_words_are_missing(cases: list[Case]) -> None:
    serial = [case for case in cases if not unrolls(case)]
    assert len(serial) == 5
    for case in serial:
        found = evaluate(case.problem, case.architecture, case.mapping)
        assert case.expected["computes"] == found.computes
        for level in found.levels:
            printed = case.expected["levels"][level.name]["dataspaces"]
            for space in level.dataspaces:
                for count in ("reads", "fills", "updates"):
                    assert getattr(space, count) <= printed[space.dataspace][count], case.name


def test_the_arithmetic_takes_the_cycles_of_the_padded_problem_there_and_no_more_here(
    cases: list[Case],
) -> None:
    saved = 0
    for case in cases:
        storage = (node for node in case.mapping.nodes if isinstance(node, StorageMapping))
        padded = math.prod(loop.bound for node in storage for loop in node.temporal)
        assert case.expected["mac"]["cycles"] == padded
        steps = evaluate(case.problem, case.architecture, case.mapping).compute_cycles
        assert steps <= padded
        saved += steps < padded
    assert saved > 0
