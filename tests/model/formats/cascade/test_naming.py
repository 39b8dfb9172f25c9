"""What `Inputs` means where the workload has renames for some Einsums only."""

from pathlib import Path

import pytest

from model.cascade import Network
from model.formats.cascade import load_network
from model.text.source import SpecError
from tests.small_network import write_specs

STORAGE = "!Component {name: NAME, class: CLASS, energy: {read: 1, write: 1}, attributes: {width: 64, MORE}"
DRAM = STORAGE.replace("NAME", "DRAM").replace("CLASS", "DRAM").replace("MORE", "datawidth: 8")
SRAM = STORAGE.replace("CLASS", "SRAM").replace("MORE", "datawidth: 8, depth: 64")
SERIAL = f"  - {SRAM.replace('NAME', 'b')}, constraints: {{dataspace: {{keep_only: [Inputs, Weights]}}}}}}"
PARALLEL = f"""
  - !Parallel
    nodes:
    - {SRAM.replace("NAME", "x")}, constraints: {{dataspace: {{keep_only: [Inputs, Outputs]}}}}}}
    - {SRAM.replace("NAME", "y")}, constraints: {{dataspace: {{keep_only: [Weights]}}}}}}
"""
WORKLOAD = """
workload:
  rank_sizes: {M: 4, N: 4, K: 4}
  bits_per_value: {All: 8}
  einsums:
  - {einsum: "Z[m, n] = A[m, k] * W[k, n]", renames: RENAMES}
  - {einsum: "Y[m, n] = Z[m, n]", renames: {weight: Nothing}}
"""


@pytest.fixture
def load(working_directory: Path):
    def loaded(renames: str, nodes: str) -> Network:
        mac = "  - !Component {name: mac, class: intmac, energy: {compute: 1}}"
        architecture = f"architecture:\n  nodes:\n  - {DRAM}}}\n{nodes}\n{mac}\n"
        return load_network(write_specs(WORKLOAD.replace("RENAMES", renames), architecture))

    return loaded


def notes(network: Network) -> list[str]:
    return [note.text for note in network.notes if "all inputs" in note.text]


@pytest.mark.parametrize("renames", ["{weight: W}", "{}"])
def test_all_inputs_are_noted_where_weights_are_told_from_the_input(load, renames: str):
    network = load(renames, SERIAL)
    assert notes(network) == [
        "`Inputs` means all inputs of `Z`, without a rename `input`, and so the weights too"
    ]
    assert network.layers[0].mapspace.keep[1].keep == {"A", "W"}


@pytest.mark.parametrize("nodes", [SERIAL, PARALLEL])
def test_a_rename_settles_it(load, nodes: str):
    assert not notes(load("{weight: W, input: A}", nodes))


def test_the_hint_of_branches_that_keep_the_same(load):
    with pytest.raises(SpecError, match="`W` is kept in two branches") as caught:
        load("{weight: W}", PARALLEL)
    assert (
        caught.value.hint
        == "`Inputs` means all inputs of Einsum `Z`; to exclude weights, give it a rename `input`"
    )


def test_other_errors_keep_their_hints(load):
    with pytest.raises(SpecError) as caught:
        load("{weight: W}", SERIAL.replace("depth: 64", "depht: 64"))
    assert "all inputs" not in (caught.value.hint or "")
