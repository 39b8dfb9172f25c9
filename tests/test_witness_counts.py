"""Counts of executed loop nests that can be computed by hand."""

from model.architecture import Fanout, StorageLevel
from tests.model.cost.nests import BUFFER, DRAM, MATMUL, across, both, conv1d, problem, run, storage
from tests.witness import AccessCounts


def test_partial_sums_come_back_once_per_outer_iteration():
    task = problem(MATMUL, M=2, N=1, K=3)
    # The 2 sums leave the one-word buffer 3 times each and come back twice: M runs inside K.
    result = run(task, (DRAM, storage("M2 K3", "ABZ")), (BUFFER, storage("", "ABZ")))
    assert result.counts["dram", "Z"] == AccessCounts(4, 0, 6, 2, 1)
    # Within the buffer a sum is read only if it has come back.
    assert result.counts["buffer", "Z"] == AccessCounts(4, 4, 6, 1, 1)
    assert result.counts["dram", "B"] == AccessCounts(3, 0, 0, 3, 1)


def test_rmw_first_update_reads_what_was_never_written():
    task = problem(MATMUL, M=2, N=1, K=3)
    buffer = StorageLevel("buffer", rmw_first_update=frozenset("Z"))
    result = run(task, (DRAM, storage("M2 K3", "ABZ")), (buffer, storage("", "ABZ")))
    assert result.counts["buffer", "Z"] == AccessCounts(6, 6, 6, 1, 1)
    assert result.counts["dram", "Z"] == AccessCounts(4, 0, 6, 2, 1)


def test_no_temporal_reuse_fetches_the_tile_at_every_step():
    task = problem(MATMUL, M=2, N=1, K=3)
    buffer = StorageLevel("buffer", no_temporal_reuse=frozenset("B"))
    result = run(task, (DRAM, storage("M2 K3", "ABZ")), (buffer, storage("", "ABZ")))
    assert result.counts["dram", "B"].reads == 6


def test_multicast_reads_once_and_reduction_updates_once():
    task = problem(MATMUL, M=4, N=1, K=2)
    array = Fanout("array", 8)
    result = run(task, (DRAM, storage("", "ABZ")), (array, across("M4 K2")), (BUFFER, storage("", "ABZ")))
    assert result.counts["dram", "B"].reads == 2
    assert result.counts["buffer", "B"] == AccessCounts(8, 8, 0, 1, 8)
    assert result.counts["dram", "Z"].updates == 4
    alone = Fanout("array", 8, no_multicast=frozenset("BZ"))
    result = run(task, (DRAM, storage("", "ABZ")), (alone, across("M4 K2")), (BUFFER, storage("", "ABZ")))
    assert result.counts["dram", "B"].reads == 8
    # The second of the two partial sums finds a word that was touched before.
    assert result.counts["dram", "Z"] == AccessCounts(4, 0, 8, 4, 1)


def test_children_on_one_diagonal_share_a_read():
    pairs = ((DRAM, storage("", "WIO")), (Fanout("array", 6), across("P3 R2")), (BUFFER, storage("", "WIO")))
    # P + R takes the values 0 to 3 in the 6 children.
    assert both(conv1d(3, 2), "dram", "I", *pairs) == ((4, 4, 0), (4, 4, 0))


def test_bypassed_level_passes_the_inner_requests_on():
    task = problem(MATMUL, M=4, N=1, K=2)
    pairs = (
        (Fanout("outer", 2), across("K2")),
        (BUFFER, storage("", "AZ")),
        (Fanout("inner", 2), across("M2")),
    )
    result = run(task, (DRAM, storage("M2", "ABZ")), *pairs, (StorageLevel("registers"), storage("", "B")))
    # Each register file keeps its word of B, which reaches the two under one buffer by one multicast.
    assert result.counts["dram", "B"].reads == 2
    assert ("buffer", "B") not in result.counts
    result = run(task, (DRAM, storage("M2", "ABZ")), *pairs, (StorageLevel("registers"), storage("", "A")))
    # Without, the arithmetic asks for it in both steps.
    assert result.counts["dram", "B"].reads == 4
