"""Energy, cycles and limits of one level in a batch of mappings: array forms of `model.cost.prices`."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from model.architecture import Architecture, StorageLevel
from model.cost.batch.encoding import Booleans, Doubles, Integers
from model.cost.batch.nest import BatchNest


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


def level_cycles(
    level: StorageLevel, names: Sequence[str], steps: Integers, reads: Integers, writes: Integers
) -> Integers:
    """Cycles that `level` needs for the words of all dataspaces.

    The doubles are those of `model.cost.prices.level_cycles`, in the same order.

    Parameters
    ----------
    level
        Its bandwidths.
    names
        Dataspaces, in the order of the last axis of `reads` and `writes`.
    steps
        Cycles of the arithmetic, shape ``(mappings,)``.
    reads, writes
        Words of the dataspaces per instance, fills and updates being writes; shape
        ``(mappings, dataspaces)``.

    Returns
    -------
    array
        Shape ``(mappings,)``; `steps` where the bandwidths suffice.
    """
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
