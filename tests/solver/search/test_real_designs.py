"""Example designs as their authors wrote them, mapped with proof.

A few layers per design run always; ``TILEWRIGHT_ALL_DESIGNS=1`` runs all of them (some ten minutes).
"""

import math
import os

import pytest

from model.cost import evaluate
from solver.result import Options, Status
from solver.search import map_by_bounds
from tests.reference import DESIGNS, design
from tests.rules import order_allowed
from tests.slow import few

FEW = ("alexnet/7.yaml", "resnet18/07.yaml", "resnet18/17.yaml", "resnet18/20.yaml")
EVERY = sorted(path.relative_to(DESIGNS / "layer_shapes") for path in DESIGNS.glob("layer_shapes/*/*.yaml"))
LAYERS = EVERY if os.environ.get("TILEWRIGHT_ALL_DESIGNS") else FEW


@pytest.mark.parametrize("objective", ["energy", "edp"])
@pytest.mark.parametrize("layer", few([str(layer) for layer in LAYERS], 2))
@pytest.mark.parametrize("name", ["eyeriss_like", "simple_output_stationary"])
def test_proven(name: str, layer: str, objective: str):
    if not DESIGNS.exists():
        pytest.skip("the reference designs in ../shared are absent")
    mapspace = design(name, layer)
    result = map_by_bounds(mapspace, Options(objectives=(objective,), time_limit_s=math.inf))
    assert result.status is Status.OPTIMAL
    evaluation = evaluate(mapspace.problem, mapspace.architecture, result.mapping)
    assert evaluation.valid
    value = evaluation.energy * (evaluation.cycles if objective == "edp" else 1)
    assert value == result.value == result.bound
    levels = mapspace.architecture.storage_indices
    for rules, position in zip(mapspace.temporal, levels, strict=True):
        assert order_allowed(rules, [loop.dim for loop in result.mapping.nodes[position].temporal])
