"""The shipped methods, on the architectures that they are named after."""

import pytest

from model.assignment.methods import LOWERINGS
from model.cascade import Network
from model.formats.assignment.methods import load_method_network
from solver.assignment.mapped import assign_mapped, searches_of
from solver.network import map_network
from solver.result import Options, Status
from tests.conftest import REPOSITORY
from tests.mapspaces import PERFECT_ONLY

SPECS = REPOSITORY / "specs"
NAMES = sorted(path.stem for path in (SPECS / "methods").glob("*.yaml"))

SMALL = """
network:
  name: end_of_a_network
  layers:
  - {name: conv, conv: {in_channels: 8, out_channels: 8, height: 2, width: 2, kernel: 3, stride: 2}}
  - {name: fc, conv: {in_channels: 32, out_channels: 10, height: 1, width: 1}}
  edges: chain
"""


def load(name, network):
    specs = [network, SPECS / "architectures" / f"{name}.yaml"]
    return load_method_network(specs, SPECS / "methods" / f"{name}.yaml", options=PERFECT_ONLY)


def test_there_are_methods():
    assert "eyeriss_like" in NAMES
    assert "free_three_level" in NAMES


@pytest.mark.parametrize("name", NAMES)
def test_methods_fit_a_shipped_network(name):
    problem = load(name, SPECS / "networks" / "resnet18.yaml")
    used = list(problem.methods.values())
    assert {own.dataflow for own in used} == set(problem.dataflows)
    assert {own.lowering for own in used} == set(LOWERINGS)
    assert {method for _, method in problem.mapspaces} == set(problem.methods)


@pytest.mark.parametrize("name", NAMES)
def test_methods_carry_out_small_layers(tmp_path, name):
    path = tmp_path / "n.yaml"
    path.write_text(SMALL, encoding="utf-8")
    problem = load(name, path)
    searches = searches_of(problem)
    answers = map_network(Network("", tuple(searches.values())), Options(objectives=("energy",)))
    results = {pair: own.result for pair, own in zip(searches, answers.layers, strict=True)}
    assert {own.status for own in results.values()} == {Status.OPTIMAL}
    mapped = assign_mapped(problem, results, "energy")
    assert mapped.result.status is Status.OPTIMAL
    # The single kinds are assignments themselves.
    assert mapped.method_gain.share >= mapped.dataflow_gain.share >= 0
