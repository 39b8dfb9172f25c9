"""What accesses cost at one level: energy of vector accesses, leakage."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from operator import itemgetter
from typing import TypeVar

from model.architecture import Architecture, Packing, StorageLevel


def access_energy(level: StorageLevel, packing: Packing, reads: int, fills: int, updates: int) -> int:
    """Energy of one instance's accesses to one dataspace.

    Whole vectors are paid, and each of their rows.
    """
    price = level.energy
    actions = ((reads, price.read), (fills, price.fill), (updates, price.update))
    blocks = (-(-words // packing.block_size) * per_row for words, per_row in actions)
    return sum(blocks) * packing.accesses_per_block


Energy = TypeVar("Energy", int, Fraction)


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
    return min(used, max(1, instances // level.cluster_size))


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
    architecture: Architecture, level: StorageLevel, used_children: Sequence[int | Fraction]
) -> int:
    """Instances of a level that leak.

    Those in use; where a node farther out gates the power, every instance under a used gate.

    Parameters
    ----------
    architecture
        Its fanouts.
    level
        One of its levels.
    used_children
        Children in use of each fanout above `level`, outermost first; averages where they differ.
    """
    gate = level.gating_fanouts
    if gate is None:
        return int(math.prod(used_children))
    children = [fanout.size for fanout in architecture.fanouts[gate : len(used_children)]]
    return int(math.prod(used_children[:gate])) * math.prod(children)
