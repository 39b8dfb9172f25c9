"""The cost model for many mappings at once, vectorised."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from fractions import Fraction
from operator import mul

import numpy as np

from model.architecture import Architecture, StorageLevel
from model.cost.batch.counts import dataspace_traffic, index_space, kept_levels, most_words
from model.cost.batch.mappings import BatchNest, Booleans, Doubles, Integers, MappingBatch, unroll
from model.cost.counting import tile_words
from model.cost.prices import network_latency
from model.mapspace import COUNTINGS, EXACT, Counting
from model.problem import Problem

CHUNK = 4096
"""Mappings that are priced together: their arrays stay in the processor's cache."""


@dataclass(frozen=True, eq=False)
class BatchEvaluation:
    """Costs of many mappings; figures as in `model.cost.report`.

    Parameters
    ----------
    valid, energy, cycles, compute_cycles
        Shape ``(mappings,)``. ``energy`` is in the architecture's unit, a double: exact below
        ``2**53`` units, and off by rounding above.
    instances, level_cycles
        Shape ``(mappings, storage levels)``.
    tile_words, reads, fills, updates
        Shape ``(mappings, storage levels, dataspaces)``, words per instance; 0 where bypassed.
    """

    valid: Booleans
    energy: Doubles
    cycles: Integers
    compute_cycles: Integers
    instances: Integers
    level_cycles: Integers
    tile_words: Integers
    reads: Integers
    fills: Integers
    updates: Integers

    @property
    def edp(self) -> Doubles:
        """Energy units times cycles, shape ``(mappings,)``; doubles as ``energy`` is."""
        return self.energy * self.cycles


class BatchEvaluator:
    """Prices mappings of one problem on one architecture as `model.cost.evaluate` does.

    Link transfers are not modelled here.

    Raises
    ------
    ValueError
        If `counting` is none of `model.mapspace.COUNTINGS`.
    OverflowError
        If the problem or the architecture is so large that the counts might not be exact in 64 bits;
        use `model.cost.evaluate` then.
    """

    def __init__(self, problem: Problem, architecture: Architecture, counting: Counting = EXACT) -> None:
        if counting not in COUNTINGS:
            raise ValueError(f"batches are not counted by the rule {counting!r}")
        self.counting = counting
        self.problem = problem
        self.architecture = architecture
        self._indices = [index_space(problem, space) for space in problem.dataspaces]
        self._names = [space.name for space in problem.dataspaces]
        self._sizes = _sizes(problem, architecture)
        _check_instances(architecture)
        _check_cycles(problem, architecture)

    def evaluate(self, batch: MappingBatch) -> BatchEvaluation:
        """Price all mappings of `batch`.

        Mappings that break a limit or keep a dataspace nowhere are not valid; the latter count no
        accesses to it.

        Parameters
        ----------
        batch
            Of any length, 0 included; chunks of `CHUNK` mappings are priced together.

        Returns
        -------
        BatchEvaluation
            In the order of `batch`.

        Raises
        ------
        ValueError
            If the arrays do not describe mappings of the problem on the architecture.
        """
        starts = range(0, max(1, len(batch)), CHUNK)
        parts = [self._chunk(batch.part(slice(start, start + CHUNK))) for start in starts]
        return BatchEvaluation(
            **{
                field.name: np.concatenate([getattr(part, field.name) for part in parts])
                for field in fields(BatchEvaluation)
            }
        )

    def _chunk(self, batch: MappingBatch) -> BatchEvaluation:
        nest = unroll(self.problem, self.architecture, batch)
        kept = [
            kept_levels(self.architecture, space, batch.keep[:, :, number].T)
            for number, space in enumerate(self.problem.dataspaces)
        ]
        traffic = [
            dataspace_traffic(nest, index, space, levels, self.counting)
            for index, space, levels in zip(self._indices, self.problem.dataspaces, kept, strict=True)
        ]
        tiles, reads, fills, updates = (np.stack(words, axis=2) for words in zip(*traffic, strict=True))
        names = self._names
        level_cycles = exact_cycles if self.counting == EXACT else timeloop_cycles
        needed = np.stack(
            [
                level_cycles(level, names, nest.steps, reads[number], fills[number] + updates[number])
                for number, level in enumerate(self.architecture.levels)
            ]
        )
        busy = needed.max(axis=0)
        sizes = tiles if (self._sizes == 1).all() else tiles * self._sizes[:, None, :]
        valid = fits(self.architecture, nest, sizes.sum(axis=2), batch.columns)
        for levels in kept:
            valid &= levels.any(axis=0)
        return BatchEvaluation(
            valid=valid,
            energy=self._energy(nest, reads, fills, updates, busy),
            cycles=busy + network_latency(self.architecture),
            compute_cycles=nest.steps,
            instances=np.stack([nest.instances(at) for at in self.architecture.storage_indices], axis=1),
            level_cycles=needed.T,
            tile_words=tiles.transpose(1, 0, 2),
            reads=reads.transpose(1, 0, 2),
            fills=fills.transpose(1, 0, 2),
            updates=updates.transpose(1, 0, 2),
        )

    def _energy(
        self, nest: BatchNest, reads: Integers, fills: Integers, updates: Integers, busy: Integers
    ) -> Doubles:
        """Energy of arithmetic, accesses and leakage, in the architecture's unit."""
        energy = np.full(len(busy), float(self.problem.computes * self.architecture.compute.energy))
        levels = zip(self.architecture.storage_indices, self.architecture.levels, strict=True)
        for number, (position, level) in enumerate(levels):
            paying = paying_instances(
                level, self.architecture.instances_above(position), nest.instances(position)
            )
            words = (reads[number], fills[number], updates[number])
            energy += level_energy(level, self._names, *words) * paying
            leaking = leaking_instances(self.architecture, nest, position, level)
            energy += float(level.energy.leak_per_cycle) * busy * leaking
        return energy


def _sizes(problem: Problem, architecture: Architecture) -> Integers:
    """Words that a value takes, shape ``(storage levels, dataspaces)``."""
    sizes = [
        [level.packing_of(space.name).size_per_value for space in problem.dataspaces]
        for level in architecture.levels
    ]
    whole = [tile_words(space, problem.bound) for space in problem.dataspaces]
    if any(sum(map(mul, row, whole)) >= 2**63 for row in sizes):
        raise OverflowError("the tiles are too large for the batched cost model")
    return np.array(sizes, dtype=np.int64)


def _check_instances(architecture: Architecture) -> None:
    """Check that the instances of every level, all of which may leak, fit 64 bits."""
    for position, level in zip(architecture.storage_indices, architecture.levels, strict=True):
        if architecture.instances_above(position) >= 2**63:
            raise OverflowError(f"{level.name!r} has too many instances for the batched cost model")


def _check_cycles(problem: Problem, architecture: Architecture) -> None:
    """Check that the cycles that any bandwidth needs fit 64 bits, with all words in its smallest share."""
    names = [space.name for space in problem.dataspaces]
    # Words are read, filled and updated.
    most = [3 * most_words(problem, space) for space in problem.dataspaces]
    for level, rate in _limited_rates(architecture):
        shares, scale = _shares(level, names, rate)
        if sum(map(mul, shares, most)) + scale * network_latency(architecture) >= 2**63:
            raise OverflowError(f"{level.name!r} takes too many cycles for the batched cost model")


def _limited_rates(architecture: Architecture) -> Iterator[tuple[StorageLevel, Fraction]]:
    for level in architecture.levels:
        rates = (level.read_bandwidth, level.write_bandwidth, level.shared_bandwidth)
        yield from ((level, rate) for rate in rates if rate is not None)


def level_energy(
    level: StorageLevel, names: Sequence[str], reads: Integers, fills: Integers, updates: Integers
) -> Doubles:
    """Energy of one instance's accesses to all dataspaces."""
    price, packings = level.energy, [level.packing_of(name) for name in names]
    rows = np.array([float(packing.accesses_per_block) for packing in packings])
    energy = np.zeros(len(reads))
    for words, per_row in ((reads, price.read), (fills, price.fill), (updates, price.update)):
        vectors = _vectors(words, [packing.block_size for packing in packings])
        accesses = vectors.sum(axis=1) if (rows == 1).all() else vectors @ rows
        energy += accesses * float(per_row)
    return energy


def _vectors(words: Integers, blocks: Sequence[int]) -> Integers:
    """Whole blocks that hold words of all dataspaces (the last axis); dividing by one number is faster."""
    divisors: Integers = np.array(blocks if len(set(blocks)) > 1 else blocks[:1])
    return words if (divisors == 1).all() else -(-words // divisors)


def paying_instances(level: StorageLevel, instances: int, used: Integers) -> Integers:
    """Instances whose accesses cost energy (see `model.cost.prices.paying_instances`).

    Parameters
    ----------
    level
        Its cluster size.
    instances
        Those of the hardware.
    used
        Those in use, shape ``(mappings,)``.

    Returns
    -------
    array
        Shape ``(mappings,)``.
    """
    paying: Integers = np.minimum(used, max(1, instances // level.cluster_size))
    return paying


def exact_cycles(
    level: StorageLevel, names: Sequence[str], steps: Integers, reads: Integers, writes: Integers
) -> Integers:
    """Cycles that `level` needs for the words of all dataspaces, as `model.cost.prices.exact_cycles`.

    Reads and writes are words per instance, fills and updates being writes; shape ``(mappings, dataspaces)``.
    """
    cycles = steps
    for words, rate in (
        (reads, level.read_bandwidth),
        (writes, level.write_bandwidth),
        (reads + writes, level.shared_bandwidth),
    ):
        if rate is not None:
            shares, scale = _shares(level, names, rate)
            cycles = np.maximum(cycles, -(-(words @ np.array(shares, dtype=np.int64)) // scale))
    return cycles


def _shares(level: StorageLevel, names: Sequence[str], rate: Fraction) -> tuple[list[int], int]:
    """Cycles that a word of each dataspace takes, as integers over a common denominator."""
    shares = [level.scale(name) / rate for name in names]
    scale = math.lcm(*(share.denominator for share in shares))
    return [int(share * scale) for share in shares], scale


def timeloop_cycles(
    level: StorageLevel, names: Sequence[str], steps: Integers, reads: Integers, writes: Integers
) -> Integers:
    """The same as Timeloop calculates it: the doubles of `model.cost.prices`, in the same order."""
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


def leaking_instances(
    architecture: Architecture, nest: BatchNest, position: int, level: StorageLevel
) -> Integers:
    """Instances of a level that leak (see `model.cost.prices.leaking_instances`).

    Parameters
    ----------
    architecture
        Its fanouts.
    nest
        The loops of the mappings.
    position
        Of the level in ``architecture.nodes``.
    level
        The level there.

    Returns
    -------
    array
        Shape ``(mappings,)``.
    """
    gate = level.gating_fanouts
    if gate is None:
        return nest.instances(position)
    above = [index for index in architecture.fanout_indices if index < position]
    at_gate = above[gate] if gate < len(above) else position
    return nest.instances(at_gate) * (
        architecture.instances_above(position) // architecture.instances_above(at_gate)
    )


def fits(
    architecture: Architecture, nest: BatchNest, size_words: Integers, columns: Integers | None
) -> Booleans:
    """Whether the mappings respect capacities and meshes.

    Parameters
    ----------
    architecture
        The hardware.
    nest
        The loops of the mappings.
    size_words
        What the tiles take of one instance, shape ``(storage levels, mappings)``.
    columns
        Children along X, shape ``(mappings, fanouts)``; None to look at the fanout's size only.

    Returns
    -------
    array
        Shape ``(mappings,)``.
    """
    valid = np.ones(size_words.shape[1], dtype=np.bool_)
    for level, words in zip(architecture.levels, size_words, strict=True):
        if level.usable_words is not None:
            least = math.ceil(level.usable_words * level.min_utilization)
            valid &= (words <= level.usable_words) & (words >= least)
    for number, position in enumerate(architecture.fanout_indices):
        fanout = architecture.fanouts[number]
        children = nest.children(position)
        if columns is None:
            valid &= children <= fanout.size
        else:
            along = columns[:, number]
            valid &= (along <= fanout.mesh_x) & (children // along <= fanout.mesh_y)
    return valid
