"""Executed loop nests give the right results, and refuse what cannot be executed."""

import numpy as np
import pytest

from model.architecture import Architecture, Compute, Fanout, StorageLevel
from model.mapping import Mapping
from tests.model.cost.nests import (
    BUFFER,
    DRAM,
    MATMUL,
    across,
    conv1d,
    operands_of,
    problem,
    rank,
    run,
    space,
    storage,
)
from tests.witness import execute


def test_matmul_equals_numpy():
    task = problem(MATMUL, M=4, N=6, K=12)
    result = run(
        task,
        (DRAM, storage("K2 M2", "ABZ")),
        (Fanout("rows", 2), across("K2")),
        (BUFFER, storage("N3", "BZ")),
        (Fanout("columns", 4), across("M2 N2")),
        (StorageLevel("registers"), storage("K3 N1 M1", "AZ")),
    )
    operands = operands_of(task)
    want = operands["A"] @ operands["B"]
    assert (result.outputs["Z"] == want).all()
    # K2, M2, N3 and K3; the arithmetic is used eightfold.
    assert result.steps == 2 * 2 * 3 * 3


def test_mttkrp_equals_einsum():
    spaces = (
        space("T", "I", "K", "L"),
        space("B", "K", "J"),
        space("C", "L", "J"),
        space("Z", "I", "J", read_write=True),
    )
    task = problem(spaces, I=2, J=4, K=3, L=2)
    result = run(
        task,
        (DRAM, storage("K3", "TBCZ")),
        (Fanout("array", 4), across("L2 J2")),
        (BUFFER, storage("I2 J2", "TBZ")),
    )
    operands = operands_of(task)
    want = np.einsum("ikl,kj,lj->ij", operands["T"], operands["B"], operands["C"])
    assert (result.outputs["Z"] == want).all()


@pytest.mark.parametrize(("stride", "dilation"), [(1, 1), (2, 1), (1, 2), (3, 2)])
def test_convolution_equals_the_sum_over_windows(stride: int, dilation: int):
    task = conv1d(8, 3, stride, dilation)
    result = run(
        task,
        (DRAM, storage("P2", "WIO")),
        (Fanout("array", 6), across("R3 P2")),
        (BUFFER, storage("P2", "WIO")),
    )
    operands = operands_of(task)
    taps = range(0, 3 * dilation, dilation)
    want = [
        sum(int(operands["I"][stride * p + tap] * operands["W"][r]) for r, tap in enumerate(taps))
        for p in range(8)
    ]
    assert result.outputs["O"].tolist() == want


def test_negative_coefficient_runs_backwards():
    reversed_taps = rank("P", ("R", -1))
    spaces = (space("W", "R"), space("I", reversed_taps), space("O", "P", read_write=True))
    task = problem(spaces, P=4, R=3)
    result = run(task, (DRAM, storage("R3", "WIO")), (BUFFER, storage("P4", "WIO")))
    operands = operands_of(task)
    assert result.outputs["O"].tolist() == np.convolve(operands["I"], operands["W"], "valid").tolist()


def test_refuses_what_it_cannot_execute():
    task = problem(MATMUL, M=2, N=1, K=3)
    inner = (BUFFER, storage("", "ABZ"))
    with pytest.raises(ValueError, match="loops cover"):
        run(task, (DRAM, storage("M2", "ABZ")), inner)
    with pytest.raises(ValueError, match="no level keeps Z"):
        run(task, (DRAM, storage("M2 K3", "AB")), (BUFFER, storage("", "AB")))
    streaming = StorageLevel("buffer", no_coalesce=frozenset("A"))
    with pytest.raises(ValueError, match="buffer keeps A without coalescing"):
        run(task, (DRAM, storage("M2 K3", "ABZ")), (streaming, storage("", "ABZ")))
    with pytest.raises(ValueError, match="not of its node's kind"):
        run(task, (DRAM, storage("M2 K3", "ABZ")), (BUFFER, across("")))
    architecture = Architecture("a", (DRAM,), Compute("mac"))
    whole = storage("M2 K3", "ABZ")
    with pytest.raises(ValueError, match=r"loops over \['Q'\], no dimensions"):
        run(task, (DRAM, storage("M2 K3 Q1", "ABZ")), inner)
    with pytest.raises(ValueError, match="below 1"):
        run(task, (DRAM, storage("M2 K3 N0", "ABZ")), inner)
    with pytest.raises(ValueError, match=r"keeps \['X'\], no dataspaces"):
        run(task, (DRAM, storage("M2 K3", "ABZ")), (BUFFER, storage("", "ABXZ")))
    with pytest.raises(ValueError, match="one entry per node"):
        execute(task, architecture, Mapping((whole, whole)), operands_of(task))
    wrong = operands_of(task) | {"A": np.zeros((3, 2), dtype=np.int64)}
    with pytest.raises(ValueError, match="A has the shape"):
        execute(task, architecture, Mapping((whole,)), wrong)
