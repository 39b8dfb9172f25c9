"""Copies between levels in the totals and reports of a network."""

from pathlib import Path

import pytest

from model.cascade import Network
from model.formats.cascade import load_network
from solver.network import NetworkResult, map_network
from solver.report.network import network_document
from solver.result import Options, Status
from tests.small_network import ARCHITECTURE
from tests.solver.golden import reported

BYPASSING = ARCHITECTURE.replace("leak: 0}\n", "leak: 0}\n    constraints: {dataspace: {bypass: [A]}}\n", 1)
TWICE = ("is_copy_operation: true", "is_copy_operation: true, n_instances: 2")


def mapped(spec: list[Path], architecture: str) -> NetworkResult:
    Path("a.yaml").write_text(architecture, encoding="utf-8")
    text = Path("w.yaml").read_text(encoding="utf-8")
    Path("w.yaml").write_text(text.replace(*TWICE), encoding="utf-8")
    return map_network(load_network(spec), Options(objectives=("energy",)))


def shown(result: NetworkResult) -> str:
    return reported(network_document(result))


@pytest.fixture
def result(spec: list[Path]) -> NetworkResult:
    # A waits in the buffer while Z runs: beside its 24 values there is room for as many.
    return mapped(spec, BYPASSING.replace("depth: 12", "depth: 24, shared_bandwidth: 3"))


def test_a_copy_counts_in_the_totals_with_its_instances(result: NetworkResult):
    copy, *others = result.layers
    units = copy.layer.mapspace.architecture.units_per_pj
    assert result.status is Status.OPTIMAL
    # 24 values: 6 rows of 4 at 100 pJ, 12 rows of 2 at 5 pJ; 3 a cycle into the buffer.
    assert copy.energy_units == 2 * (6 * 100 + 12 * 5) * units
    assert copy.cycles == 2 * 8
    assert result.cycles == 16 + sum(own.cycles or 0 for own in others)
    assert result.energy_units == (copy.energy_units + sum(own.energy_units or 0 for own in others)) * (
        result.units_per_pj // units
    )


def test_reports_show_what_a_copy_moves(result: NetworkResult):
    (row,) = (line for line in shown(result).splitlines() if line.startswith("A "))
    assert row.split()[-9:] == ["OPTIMAL", "-", "1.3200", "nJ", "16", "buffer", "-", "-", "copy"]
    document = network_document(result)["layers"][0]
    assert document["transfer"] == {
        "from": "DRAM",
        "to": ["buffer"],
        "energy_pj": 660.0,
        "cycles": 8,
        "violations": [],
    }
    assert (document["limited_by"], document["result"]) == ("buffer", None)


def test_a_copy_that_no_level_holds_makes_the_network_infeasible(spec: list[Path]):
    result = mapped(spec, BYPASSING.replace("depth: 12", "depth: 11"))
    assert result.layers[0].status is Status.INFEASIBLE
    assert result.status is Status.INFEASIBLE
    assert (result.energy_units, result.cycles) == (None, None)
    assert "no mapping of `A`" in shown(result)
    assert network_document(result)["layers"][0]["status"] == "INFEASIBLE"


def test_a_copy_within_a_level_moves_nothing(network: Network):
    result = map_network(network, Options(objectives=("energy",)))
    assert network_document(result)["layers"][0]["transfer"] is None
    assert "nothing moves" in shown(result)


def test_reports_show_which_level_is_too_small_for_a_copy(spec: list[Path]):
    result = mapped(spec, BYPASSING.replace("depth: 12", "depth: 10"))
    assert "No mapping of `A`\n  buffer: tiles take 24 words of 20\n\n" in shown(result)
    (violation,) = network_document(result)["layers"][0]["transfer"]["violations"]
    assert violation == {"node": "buffer", "kind": "capacity", "demand": 24, "limit": 20.0}
