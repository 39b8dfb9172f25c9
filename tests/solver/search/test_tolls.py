"""Tolls in searches: the optima that AccelForge 1.0.467 answers with for the same files."""

from pathlib import Path

import pytest

from model.formats.cascade import load_network
from solver.result import Options, Status
from solver.search import map_by_bounds

pytestmark = pytest.mark.usefixtures("working_directory")

WORKLOAD = """
workload:
  rank_sizes: {M: 8, K: 8, N: 8}
  bits_per_value: {All: 8}
  einsums:
  - {einsum: "Z[m, n] = A[m, k] * W[k, n]", renames: {input: A, weight: W, output: Z}}
"""
MAIN = """
arch:
  nodes:
  - !Memory
    name: Main
    size: inf
    leak_power: 0
    tensors: {keep: All}
    actions: [{name: read, energy: 16, throughput: inf}, {name: write, energy: 20, throughput: inf}]
"""
BUFFER = """
  - !Memory
    name: Buffer
    size: 256
    leak_power: 0
    tensors: {keep: All}
    actions: [{name: read, energy: 1, throughput: inf}, {name: write, energy: 2, throughput: inf}]
"""
ARRAY = "  - !Container\n    name: Array\n    spatial: [{name: X, fanout: 4}]\n"
REDUCING = ARRAY.replace("fanout: 4", "fanout: 4, reuse: output, min_usage: 1")
COMPUTE = """
  - !Compute
    name: MAC
    leak_power: 0
    actions: [{name: compute, energy: 1, throughput: 1}]
"""


def toll(name: str, direction: str, keep: str, energy: str, throughput: str = "inf", leak: str = "0") -> str:
    return f"""
  - !Toll
    name: {name}
    direction: {direction}
    leak_power: {leak}
    tensors: {{keep: {keep}}}
    actions: [{{name: read, energy: {energy}, throughput: {throughput}}}]
"""


PER_TENSOR = "{input: down, weight: down, output: up}"
CONVERTER = toll("ADC", PER_TENSOR, "All", "3", "4", "0.25")


@pytest.mark.parametrize(
    ("nodes", "energy_j", "latency_s", "edp_j_s"),
    [
        (toll("DAC", "up_and_down", "All", "5") + BUFFER, 80_896, 512, 41_418_752),
        (toll("DAC", "up", "All", "50") + BUFFER, 93_696, 512, 47_972_352),
        (
            toll("DAC", "down", "input | output", "50", "0.5", "0.5") + BUFFER,
            *(103_424, 1024, 105_906_176),
        ),
        (BUFFER + ARRAY + CONVERTER, 97_536, 768, 74_907_648),
        (BUFFER + CONVERTER + ARRAY, 84_992, 2048, 174_063_616),
        (
            toll("Row", "down", "input", "9")
            + BUFFER.replace("256", "384")
            + toll("Column", "up_and_down", "output", "7", "0.25")
            + REDUCING
            + toll("Cell", "up", "output", "2"),
            *(73_216, 6144, 449_839_104),
        ),
    ],
)
def test_optima_of_accelforge(nodes: str, energy_j: int, latency_s: int, edp_j_s: int):
    Path("w.yaml").write_text(WORKLOAD, encoding="utf-8")
    Path("a.yaml").write_text(MAIN + nodes + COMPUTE, encoding="utf-8")
    (layer,) = load_network(["w.yaml", "a.yaml"]).layers
    for objective, value in (("energy", energy_j), ("latency", latency_s), ("edp", edp_j_s)):
        result = map_by_bounds(layer.mapspace, Options(objectives=(objective,)))
        assert result.status is Status.OPTIMAL
        assert result.evaluation is not None
        assert result.evaluation.latency_s is not None
        found = {"energy": result.evaluation.energy_j, "latency": float(result.evaluation.latency_s)}
        found["edp"] = found["energy"] * found["latency"]
        assert found[objective] == value
