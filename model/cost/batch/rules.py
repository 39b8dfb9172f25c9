"""The general counting rules in array form: deliveries of tiles that slide, first touches, cycles."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from model.architecture import BANDWIDTHS, Bandwidth, StorageLevel
from model.cost.batch.counts import BatchRule, SpaceIndex, Touches, fresh_by_dim
from model.cost.batch.mappings import BatchNest, Integers
from model.counting import EXACT, TIMELOOP, Counting
from model.counting.partition import partition_words
from model.counting.words import covered_words


def _delivered_exactly(nest: BatchNest, index: SpaceIndex, extents: Integers, level: int) -> Integers:
    """Words delivered as `model.counting.words.exact_changes` counts them."""
    tile: Integers = np.prod(extents, axis=0)
    total, position = tile.astype(nest.repeats.dtype), np.zeros_like(extents)
    for outer in reversed(range(level)):
        node = nest.architecture.storage_indices[outer]
        order = nest.order[outer]
        strides = np.take_along_axis(nest.bounds[node + 1], order, axis=0)
        bounds = np.take_along_axis(nest.factors[node], order, axis=0)
        for loop, dims in enumerate(order):
            step = index.coefficients[:, dims] * strides[loop]
            overlap = np.prod(np.maximum(extents - np.abs(step - position), 0), axis=0)
            total += nest.repeats[outer, loop] * (tile - overlap)
            position += step * (bounds[loop] - 1)
    return total


def _delivered_by_timeloop(nest: BatchNest, index: SpaceIndex, extents: Integers, level: int) -> Integers:
    """Words delivered as `model.counting.words.timeloop_changes` counts them."""
    tile: Integers = np.prod(extents, axis=0)
    total = tile.copy()
    innermost, position, fresh = np.zeros_like(tile), np.zeros_like(tile), np.zeros_like(tile)
    for outer in reversed(range(level)):
        node = nest.architecture.storage_indices[outer]
        strides = nest.bounds[node + 1]
        moves = np.where(nest.factors[node] > 1, index.keys[:, None] * strides, 0)
        moves = np.take_along_axis(moves, nest.order[outer], axis=0)
        renewed = np.take_along_axis(fresh_by_dim(index, extents, strides), nest.order[outer], axis=0)
        for loop, move in enumerate(moves):
            fresh = np.where(innermost == 0, renewed[loop], fresh)
            innermost = np.where(innermost == 0, move, innermost)
            jump = move - position
            change = np.where(jump == innermost, fresh, tile)
            total += nest.repeats[outer, loop] * np.where(jump == 0, 0, change)
            position += move
    return total


def _covered_by_tiles(nest: BatchNest, index: SpaceIndex, tiles: Sequence[Integers]) -> Touches:
    """What tiles cover; where they partition the tensor, Timeloop's shares of it are that."""
    if index.partitions:
        return _partitions(nest, index, tiles)
    return lambda outer, inner: _covered_by_row(nest, index, outer, inner)


def _partitions(nest: BatchNest, index: SpaceIndex, tiles: Sequence[Integers]) -> Touches:
    parts = partition_words(nest.architecture, tiles)
    return lambda outer, inner: parts[outer]


def _covered_by_row(nest: BatchNest, index: SpaceIndex, outer: int, inner: Integers) -> Integers:
    """Words that tiles cover, counted once for equal loops."""
    nodes, size = len(nest.factors), len(index.relevant)
    loops = nest.factors[:, list(index.relevant)].reshape(nodes * size, -1)
    rows, inverse = np.unique(np.concatenate([inner[None, :], loops]), axis=1, return_inverse=True)
    ranks = [[int(c) for c in rank] for rank in index.coefficients[:, list(index.relevant)]]
    counted = {node for node in range(nodes) if node in nest.architecture.storage_indices or node > outer}
    found = []
    for innermost, *factors in rows.T.tolist():
        by_node = [factors[node * size : (node + 1) * size] for node in range(nodes)]
        strides = [
            [math.prod(column) for column in zip(*by_node[n + 1 :], strict=True)] or [1] * size
            for n in range(nodes)
        ]
        inside = [math.prod(column) for column in zip(*by_node[innermost:], strict=True)] or [1] * size
        moves = [
            (bound, tuple(rank[d] * strides[node][d] for rank in ranks))
            for node in counted
            if node < innermost
            for d, bound in enumerate(by_node[node])
        ]
        found.append(covered_words(_touched_box(ranks, inside), moves))
    covered: Integers = np.array(found, dtype=np.int64)[inverse.reshape(-1)]
    return covered


def _touched_box(ranks: Sequence[Sequence[int]], bounds: Sequence[int]) -> list[int]:
    """Extents of the box that a block of iterations touches."""
    return [1 + sum(abs(c) * (b - 1) for c, b in zip(rank, bounds, strict=True)) for rank in ranks]


def _exact_cycles(
    level: StorageLevel, names: Sequence[str], steps: Integers, reads: Integers, writes: Integers
) -> Integers:
    """Cycles that `level` needs for the words of all dataspaces, as `model.counting.cycles.exact_cycles`.

    Reads and writes are words per instance, fills and updates being writes; shape ``(mappings, dataspaces)``.
    """
    cycles, words = steps, {"read_bandwidth": reads, "write_bandwidth": writes}
    for kind in BANDWIDTHS:
        if level.bandwidth(kind) is not None:
            own = words.get(kind, reads + writes)
            *shares, others, scale = (np.array(n, dtype=own.dtype) for n in cycle_shares(level, names, kind))
            cycles = np.maximum(cycles, -(-(own @ np.array(shares) + others) // scale))
    return cycles


def cycle_shares(level: StorageLevel, names: Sequence[str], kind: Bandwidth) -> list[int]:
    """Cycles of a limited bandwidth as integers over a common denominator, which is the last one.

    Those that a word of each dataspace takes, and those of all words besides the problem's.
    """
    rate = level.bandwidth(kind)
    assert rate is not None
    others = {"read_bandwidth": level.other_reads, "write_bandwidth": level.other_writes}
    words = (*map(level.scale, names), others.get(kind, level.other_reads + level.other_writes), rate)
    shares = [Fraction(own) / rate for own in words]
    scale = math.lcm(*(share.denominator for share in shares))
    return [int(share * scale) for share in shares]


def _timeloop_cycles(
    level: StorageLevel, names: Sequence[str], steps: Integers, reads: Integers, writes: Integers
) -> Integers:
    """Cycles as Timeloop calculates them: the doubles of `model.counting.cycles`, in their order."""
    read_demand, write_demand = np.zeros(len(steps)), np.zeros(len(steps))
    for number, name in enumerate(names):
        scale = float(level.scale(name))
        read_demand += reads[:, number] / steps * scale
        write_demand += writes[:, number] / steps * scale
    slowdown = np.ones(len(steps))
    for demand, bandwidth in (
        (read_demand, level.read_bandwidth),
        (write_demand, level.write_bandwidth),
        (read_demand + write_demand, level.shared_bandwidth),
    ):
        if bandwidth is None:
            continue
        share = np.divide(float(bandwidth), demand, out=np.ones_like(demand), where=demand > float(bandwidth))
        slowdown = np.minimum(slowdown, share)
    return np.ceil(steps / slowdown).astype(np.int64)


BATCH_RULES: dict[Counting, BatchRule] = {
    EXACT: BatchRule(_delivered_exactly, _covered_by_tiles, _exact_cycles),
    TIMELOOP: BatchRule(_delivered_by_timeloop, _partitions, _timeloop_cycles),
}
"""By the name of a rule out of `model.counting.COUNTINGS`."""
