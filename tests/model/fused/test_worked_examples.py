"""Fused mappings with figures that were derived by hand."""

from pathlib import Path

import pytest

from model.counting import ACCELFORGE
from model.formats.fused import LoadedFused, load_fused
from model.fused.cost import evaluate_fused
from model.fused.report import FusedEvaluation
from tests.model.fused.agreement import disagreements

DATA = Path(__file__).parent / "data"


def loaded(name: str) -> LoadedFused:
    files = (DATA / f"{name}.workload.yaml", DATA / "arch.yaml")
    return load_fused(files, DATA / f"{name}.fused.yaml")


def priced(name: str, counting: str = "exact") -> FusedEvaluation:
    case = loaded(name)
    return evaluate_fused(case.cascade, case.mapping, counting)


def words(cost: FusedEvaluation, einsum: str, memory: str, dataspace: str) -> tuple[int, int, int]:
    space = cost.einsum(einsum).memory(memory).dataspace(dataspace)
    return space.reads, space.fills, space.updates


def test_two_matrix_products_that_share_the_rows():
    """The loop over m, 2 trips of 4 rows, is shared; T1[4, 8] waits in the buffer.

    In each of the 2 visits, the first product streams 8 columns of T0 (4 values each, 32 in all) and, for
    each, a row of 8 weights. Every value of W0 is used 4 times from the buffer, every value of T0 8 times.
    """
    cost = priced("products")
    assert words(cost, "T1", "Main", "T0") == (64, 0, 0)
    assert words(cost, "T1", "Main", "W0") == (128, 0, 0)
    assert words(cost, "T1", "GLB", "T0") == (512, 64, 0)
    assert words(cost, "T1", "GLB", "W0") == (512, 128, 0)
    # 512 updates; the first of each of the 64 values needs no read.
    assert words(cost, "T1", "GLB", "T1") == (448, 0, 512)
    assert words(cost, "T2", "GLB", "T1") == (512, 0, 0)
    assert words(cost, "T2", "Main", "W1") == (128, 0, 0)
    assert words(cost, "T2", "Main", "T2") == (0, 0, 64)
    assert words(cost, "T2", "GLB", "T2") == (448, 0, 512)
    main, buffer = 64 + 128 + 128 + 64, 2 * (512 + 512 + 448 + 512) + 64 + 2 * 128
    assert cost.energy_pj == main * 128 + buffer * 4 + 2 * 512 == 67_328
    assert [einsum.cycles for einsum in cost.einsums] == [512, 512]
    assert [cost.room(einsum, "GLB").size_words for einsum in ("T1", "T2")] == [32 + 4 + 1] * 2
    assert cost.valid


def test_draining_is_a_read_in_accelforges_counting():
    assert priced("products", ACCELFORGE).energy_pj == 67_328 + 64 * 4 == 67_584
    assert priced("attention", ACCELFORGE).energy_pj == 34_240


def test_attention_with_sums_over_a_shared_loop():
    """The loops over m and p are shared by all three; Q and the sums of AV stay above the one over p."""
    cost = priced("attention")
    assert words(cost, "QK", "Main", "Q") == (32, 0, 0)
    assert words(cost, "QK", "Main", "K") == (64, 0, 0)
    assert words(cost, "AV", "Main", "V") == (64, 0, 0)
    assert words(cost, "AV", "Main", "AV") == (0, 0, 32)
    assert words(cost, "AV", "GLB", "AV") == (256 - 32, 0, 256)
    assert words(cost, "SM", "GLB", "QK") == (64, 0, 0)
    assert [einsum.visits for einsum in cost.einsums] == [16] * 3
    assert [cost.room(einsum, "GLB").size_words for einsum in ("QK", "SM", "AV")] == [37, 40, 37]
    assert cost.energy_pj == 34_240 - 32 * 4  # AccelForge reads what drains


def test_a_window_stays_from_visit_to_visit():
    """4 visits give 2 outputs each: of T, 4 values are new in the first visit, 2 in each later one."""
    cost = priced("windows")
    assert cost.einsum("T").visits == cost.einsum("Z").visits == 4
    assert cost.einsum("T").steps == 3 * (4 + 2 + 2 + 2) == 30  # nothing is computed twice
    assert cost.einsum("Z").steps == 24
    # Inputs are fetched anew in each visit: 6 for 4 values of T, 4 for 2.
    assert words(cost, "T", "Main", "I") == (6 + 3 * 4, 0, 0)
    assert words(cost, "T", "GLB", "W") == (30, 3, 0)
    assert words(cost, "T", "GLB", "T") == (20, 0, 30)
    assert words(cost, "Z", "GLB", "T") == (24, 0, 0)
    # The window of T has 4 values; both kernels stay; and the largest tile of inputs has 6.
    assert cost.room("T", "GLB").size_words == 4 + 3 + 3 + 6
    assert cost.room("Z", "GLB").size_words == 4 + 3 + 3 + 2


@pytest.mark.parametrize("name", ["products", "attention", "windows"])
def test_the_execution_bears_the_figures_out(name: str):
    case = loaded(name)
    assert not disagreements(case.cascade, case.mapping, seed=1)
