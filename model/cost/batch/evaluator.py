"""The cost model for many mappings at once, vectorised."""

from __future__ import annotations

from dataclasses import dataclass, fields
from operator import mul

import numpy as np

from model.architecture import Architecture
from model.cost.batch.encoding import Booleans, Doubles, Integers, MappingBatch
from model.cost.batch.nest import BatchNest, unroll
from model.cost.batch.prices import fits, leaking_instances, level_cycles, level_energy, paying_instances
from model.cost.batch.space import index_space, most_words
from model.cost.batch.traffic import dataspace_traffic, kept_levels
from model.cost.prices import network_latency
from model.cost.tiles import tile_words
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
    OverflowError
        If the problem or the architecture is so large that the counts might not be exact in 64 bits;
        use `model.cost.evaluate` then.
    """

    def __init__(self, problem: Problem, architecture: Architecture) -> None:
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
            dataspace_traffic(nest, index, space, levels)
            for index, space, levels in zip(self._indices, self.problem.dataspaces, kept, strict=True)
        ]
        tiles, reads, fills, updates = (np.stack(words, axis=2) for words in zip(*traffic, strict=True))
        names = self._names
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
    """Check that the cycles that any bandwidth needs fit 64 bits."""
    for level in architecture.levels:
        rates = (level.read_bandwidth, level.write_bandwidth, level.shared_bandwidth)
        slowest = min((rate for rate in rates if rate is not None), default=1)
        # Words are read, filled and updated.
        demand = sum(3 * most_words(problem, s) * level.scale(s.name) for s in problem.dataspaces)
        if demand / slowest + network_latency(architecture) >= 2**63:
            raise OverflowError(f"the bandwidths of {level.name!r} are too low for the batched cost model")
