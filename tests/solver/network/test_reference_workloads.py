"""The workload files of AccelForge's users on a small architecture."""

from pathlib import Path

import pytest

from model.formats.cascade import load_network
from solver.network import map_network
from solver.result import Options, Status
from tests.mapspaces import PERFECT_ONLY
from tests.reference import EINSUMS, FED_FROM_OUTSIDE, workload_file
from tests.small_network import ARCHITECTURE

SMALL = {
    "BATCH_SIZE": 1,
    "DECODE": False,
    "N_NEW_TOKENS": 8,
    "N_HEADS": 2,
    "N_Q_HEADS_PER_KV_HEAD": 2,
    "N_EMB_PER_HEAD": 4,
    "N_HIDDEN_DIMS": 8,
    "N_FF_DIMS": 8,
    "N_SHARED_FF_DIMS": 4,
    "CHUNK_SIZE": 4,
    "N_V_DIMS": 4,
    "N_Q_LATENT": 4,
    "N_KV_LATENT": 4,
    "N_EXPERTS": 4,
    "N_EXPERTS_PER_TOKEN": 2,
    "N_EINSUMS": 3,
}
WITHOUT_RENAMES = "basic/matvecs.yaml"


@pytest.fixture
def architecture(tmp_path: Path) -> Path:
    path = tmp_path / "a.yaml"
    path.write_text(ARCHITECTURE.replace("depth: 12", "depth: 4096"), encoding="utf-8")
    return path


@pytest.mark.parametrize("name", sorted(EINSUMS.keys() - {WITHOUT_RENAMES}))
def test_each_file_makes_a_network(name: str, architecture: Path):
    network = load_network([workload_file(name), architecture], SMALL)
    assert len(network.layers) == EINSUMS[name]
    for layer in network.layers:
        assert layer.is_copy or layer.mapspace.keep[1].keep, "the buffer keeps the input"


@pytest.mark.parametrize("name", FED_FROM_OUTSIDE)
def test_a_fragment_is_mapped(name: str, architecture: Path):
    path = workload_file(f"transformers/_feedforward_types/{name}")
    network = load_network([path, architecture], SMALL, PERFECT_ONLY)
    first = network.layers[0].mapspace
    assert (first.keep[1].keep, len(first.keep[1].bypass)) == ({"Z"}, 1)
    result = map_network(network, Options(objectives=("energy",)))
    assert result.status is Status.OPTIMAL
