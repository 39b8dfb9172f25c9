"""What accesses cost at one level: energy of vector accesses, leakage."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fractions import Fraction
from operator import itemgetter
from typing import TYPE_CHECKING, TypeVar

from model.architecture import Architecture, Packing, StorageLevel

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def access_energy(level: StorageLevel, packing: Packing, reads: int, fills: int, updates: int) -> int:
    """Energy of one instance's accesses to one dataspace.

    Whole vectors are paid, and each of their rows.
    """
    price = level.energy
    actions = ((reads, price.read), (fills, price.fill), (updates, price.update))
    blocks = (-(-words // packing.block_size) * per_row for words, per_row in actions)
    return sum(blocks) * packing.accesses_per_block


Energy = TypeVar("Energy", int, Fraction)
Instances = TypeVar("Instances", int, "NDArray[np.int64]")
"""Instances of one mapping, or of each of a batch: shape ``(mappings,)``."""


def paying_instances(level: StorageLevel, instances: int, used: int) -> int:
    """Instances whose accesses cost energy: the used ones, at most one per cluster.

    Instances of a cluster share their vector accesses; the used ones count as spread over all
    clusters.

    Parameters
    ----------
    level
        Its cluster size.
    instances, used
        Those of the hardware, and those in use.
    """
    return min(used, most_paying_instances(level, instances))


def most_paying_instances(level: StorageLevel, instances: int) -> int:
    """Most instances whose accesses cost energy, of so many in the hardware: one per cluster."""
    return max(1, instances // level.cluster_size)


def paid_energy(energies: Iterable[tuple[int, Energy]], paying: int) -> Energy | int:
    """Energy of the instances that pay for their accesses: the busiest ones.

    Parameters
    ----------
    energies
        Pairs of a number of instances in use, and the energy of one of them.
    paying
        How many pay, see `paying_instances`.
    """
    total: Energy | int = 0
    for instances, energy in sorted(energies, key=itemgetter(1), reverse=True):
        own = min(instances, paying)
        total, paying = total + own * energy, paying - own
    return total


def network_latency(architecture: Architecture) -> int:
    """Cycles that filling and draining the networks of all levels add to the run."""
    return sum(level.network_fill_latency + level.network_drain_latency for level in architecture.levels)


def leaking_instances(
    architecture: Architecture, position: int, used: Callable[[int], Instances]
) -> Instances:
    """Instances of a level that leak.

    Those in use; where a node farther out gates the power, every instance under a used gate.

    Parameters
    ----------
    architecture
        Its fanouts.
    position
        Of the level in ``architecture.nodes``.
    used
        Instances in use of the node at a position.
    """
    gate = architecture.level_at(position).gating_fanouts
    if gate is None:
        return used(position)
    above = architecture.fanout_indices[: architecture.fanouts_above(position)]
    gated_at = above[gate] if gate < len(above) else position
    under_gate = architecture.instances_above(position) // architecture.instances_above(gated_at)
    return used(gated_at) * under_gate
