"""Copies of a workload whose tensors an architecture stores at different levels."""

from collections.abc import Callable
from pathlib import Path

import pytest

from model.cascade import Network
from model.formats.cascade import load_network
from model.text.source import SpecError
from tests.model.formats.cascade.architecture import ARCHITECTURE
from tests.small_network import write_specs

Load = Callable[..., Network]

WORKLOAD = """
workload:
  rank_sizes: {M: 8, K: 6, N: 4}
  bits_per_value: {BITS, Other: 8}
  einsums:
  - {einsum: "A[m, k] = A_in[m, k]", is_copy_operation: True, n_instances: 3}
  - {einsum: "Z[m, n] = A[m, k] * W[k, n]", renames: {input: A}}
"""


@pytest.fixture
def load(working_directory: Path) -> Load:
    def loaded(bypass: str, inner: str = "[]", depth: int = 64, bits: str = "A_in: 8") -> Network:
        outer = f"block_size: 8}}\n    constraints: {{dataspace: {{bypass: {bypass}}}"
        text = ARCHITECTURE.replace("DRAM_ATTRIBUTES", outer).replace("SPATIAL", "{}")
        text = text.replace("CONSTRAINTS", f"{{dataspace: {{bypass: {inner}}}}}")
        text = text.replace("depth: 64", f"depth: {depth}, write_bandwidth: 4")
        return load_network(write_specs(WORKLOAD.replace("BITS", bits), text))

    return loaded


def test_a_copy_into_a_buffer(load: Load):
    copy, product = load("[Intermediates]").layers
    assert copy.is_copy
    assert copy.transfer is not None
    assert (copy.transfer.source, copy.transfer.targets) == ("DRAM", ("buffer",))
    # 48 values are 6 rows of 8; the buffer takes 4 a cycle.
    assert copy.transfer.energy == (6 * 512 + 6 * 14) * copy.mapspace.architecture.units_per_pj
    assert copy.transfer.cycles == 12
    assert product.transfer is None
    assert product.mapspace.keep[0].bypass == {"A"}


@pytest.mark.parametrize("bypass", ["[]", "[All]", "[A, A_in]", "[Z]"])
def test_a_copy_within_a_level_is_free(load: Load, bypass: str):
    copy, _ = load(bypass).layers
    assert copy.is_copy
    assert copy.transfer is None


def test_values_of_several_sizes_take_their_own_rows(load: Load):
    copy, _ = load("[Intermediates]", bits="A: 16").layers
    assert copy.transfer is not None
    assert copy.transfer.energy == (6 * 512 + 12 * 14) * copy.mapspace.architecture.units_per_pj
    assert copy.transfer.cycles == 24


def test_a_buffer_that_is_too_small(load: Load):
    copy, _ = load("[Intermediates]", depth=5).layers
    assert copy.transfer is not None
    (violation,) = copy.transfer.violations
    assert (violation.node, violation.kind, violation.demand, violation.limit) == (
        "buffer",
        "capacity",
        48,
        40,
    )


def test_a_copy_into_several_instances_is_refused(load: Load):
    with pytest.raises(SpecError, match="`A` is stored at `register`, which exists 8 times") as caught:
        load("[A]", "[A]")
    assert "w.yaml:6" in caught.value.render()
    assert "one instance" in (caught.value.hint or "")


def test_tensors_that_are_stored_elsewhere_are_noted(load: Load):
    notes = [*map(str, load("[input]").notes)]
    assert not any("for the copy" in note for note in notes)
    notes = [*map(str, load("[A_in]").notes)]
    assert not any("for the copy" in note for note in notes)
    Path("w.yaml").write_text(
        WORKLOAD.replace("BITS", "A_in: 8").replace("n_instances: 3", "renames: {input: A_in}"),
        encoding="utf-8",
    )
    Path("a.yaml").write_text(Path("a.yaml").read_text(encoding="utf-8").replace("[A_in]", "[input]"))
    (note,) = (note for note in map(str, load_network(["w.yaml", "a.yaml"]).notes) if "for the copy" in note)
    assert "`A` is stored at `DRAM`, but at `buffer` for Einsum `Z`" in note
