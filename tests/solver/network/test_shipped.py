"""Shipped workloads on shipped architectures: every Einsum proven."""

import math

import pytest

from model.formats.cascade import load_network
from solver.network import map_network
from solver.result import Options, Status
from tests.conftest import REPOSITORY
from tests.mapspaces import PERFECT_ONLY
from tests.slow import slow

SPECS = REPOSITORY / "specs"


GPT3, RESNET18 = ("gpt3_block", 10, 7), ("resnet18", 21, 12)


@pytest.mark.parametrize(
    ("workload", "einsums", "searches", "architecture"),
    [
        (*GPT3, "tpu_like"),
        (*RESNET18, "simba_like"),
        *(slow(*GPT3, other) for other in ("simba_like", "eyeriss_like")),
        *(slow(*RESNET18, other) for other in ("tpu_like", "eyeriss_like")),
    ],
)
def test_every_einsum_is_proven(workload: str, einsums: int, searches: int, architecture: str):
    """GPT-3's softmax over 8192 x 8192 x 32 values has energies that the tables can only just hold."""
    files = [SPECS / "workloads" / f"{workload}.yaml", SPECS / "architectures" / f"{architecture}.yaml"]
    result = map_network(
        load_network(files, options=PERFECT_ONLY), Options(objectives=("edp",), time_limit_s=math.inf)
    )
    assert result.status is Status.OPTIMAL
    assert result.proven == len(result.layers) == einsums
    assert sum(own.origin == "searched" for own in result.layers) == searches
    assert result.edp_units == result.energy_units * result.cycles
