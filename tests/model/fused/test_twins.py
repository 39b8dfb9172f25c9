"""Einsums that do the same by other names: counted once, and as if each were counted."""

from dataclasses import replace
from random import Random

import pytest

from model.fused import cost as cost_module
from model.fused.cost import evaluate_fused
from model.fused.mapping import FusedMapping, Leaf
from model.renaming import by_position
from tests.model.fused.random_cascades import random_cascade, random_fused


def twin_cases(seed: int):
    """Random mappings of a cascade with two projections, of which the second does what the first does."""
    random = Random(f"twins {seed}")
    for _ in range(500):
        cascade = random_cascade(random, "projections")
        mapping = random_fused(random, cascade, shared=0)
        if mapping is None or mapping.stored or cascade.alike[:2] != (0, 0):
            continue
        if any(path.loops or path.leaf.held for path in mapping.paths):
            continue
        first, second, *rest = (path.leaf for path in mapping.paths)
        there = by_position(cascade.einsums[0].problem)
        back = by_position(cascade.einsums[1].problem).inverse
        nests = (replace(own, mapping=back.mapping(there.mapping(own.mapping))) for own in first.nests)
        yield cascade, FusedMapping((first, Leaf(second.einsum, tuple(nests)), *rest))


@pytest.mark.parametrize("seed", range(3))
def test_twins_cost_what_each_costs_alone(monkeypatch, seed):
    cases = list(twin_cases(seed))[:5]
    assert cases
    together = [evaluate_fused(*case) for case in cases]
    monkeypatch.setattr(cost_module, "twins_of", lambda cascade, _: tuple(range(len(cascade.einsums))))
    assert together == [evaluate_fused(*case) for case in cases]


def test_twins_are_counted_once(monkeypatch):
    counted = []
    count = cost_module.visit_kinds
    monkeypatch.setattr(
        cost_module, "visit_kinds", lambda visits, place: counted.append(place) or count(visits, place)
    )
    evaluate_fused(*next(twin_cases(0)))
    assert counted == [0, 2]
