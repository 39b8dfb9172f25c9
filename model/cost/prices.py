"""What accesses cost at one level: energy of vector accesses, cycles of a bandwidth, leakage."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from operator import itemgetter
from typing import TypeVar

from model.architecture import Architecture, Packing, StorageLevel

Demand = tuple[str, int, int]
"""A dataspace's name, the words it reads, and the words it writes (fills and updates)."""


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


def exact_cycles(level: StorageLevel, steps: int, demands: Iterable[Demand]) -> int:
    """Cycles that a level needs: those of the compute, or more if a bandwidth does not suffice.

    Parameters
    ----------
    level
        Its bandwidths, in words per cycle and instance.
    steps
        Cycles of the compute, at least 1.
    demands
        Of the dataspaces that the level keeps, per instance.

    Returns
    -------
    int
        At least `steps`; exact quotients, rounded up.
    """
    return math.ceil(unrounded_cycles(level, steps, demands))


def unrounded_cycles(level: StorageLevel, steps: int, demands: Iterable[Demand]) -> Fraction:
    """Cycles that a level needs, not rounded; parameters as of `exact_cycles`."""
    if level.unlimited:
        return Fraction(steps)
    reads: int | Fraction = level.other_reads
    writes: int | Fraction = level.other_writes
    for name, read, written in demands:
        scale = level.scale(name) if level.bandwidth_scale else 1
        reads += read * scale
        writes += written * scale
    return max(Fraction(steps), transfer_time(level, reads, writes))


def timeloop_cycles(level: StorageLevel, steps: int, demands: Iterable[Demand]) -> int:
    """Cycles that a level needs as Timeloop calculates them: quotients of doubles, rounded up.

    Parameters
    ----------
    level, steps
        As in `exact_cycles`.
    demands
        In the problem's order.

    Notes
    -----
    The doubles are taken in Timeloop's order: a quotient that lies a hair above a whole number costs a
    cycle. Beyond ``2**53`` steps they may lie below the steps, which are exact and the least there is.
    """
    if level.unlimited:
        return steps
    reads = writes = 0.0
    for name, read, written in demands:
        scale = float(level.scale(name))
        reads += read / steps * scale
        writes += written / steps * scale
    slowdown = 1.0
    for demand, bandwidth in (
        (reads, level.read_bandwidth),
        (writes, level.write_bandwidth),
        (reads + writes, level.shared_bandwidth),
    ):
        if bandwidth is not None and float(bandwidth) < demand:
            slowdown = min(slowdown, float(bandwidth) / demand)
    ports = (
        math.ceil(steps * (reads * float(port.read_cycles) + writes * float(port.write_cycles)))
        for port in level.ports
    )
    return max(steps, math.ceil(steps / slowdown), *ports)


def transfer_cycles(level: StorageLevel, reads: int | Fraction, writes: int | Fraction) -> int:
    """Cycles that the bandwidths of a level need for words alone.

    Parameters
    ----------
    level
        Its bandwidths, in words per cycle and instance.
    reads, writes
        Words of one instance, times the scales of their dataspaces.

    Returns
    -------
    int
        Rounded up; zero where no bandwidth is limited.
    """
    return math.ceil(transfer_time(level, reads, writes))


def transfer_time(level: StorageLevel, reads: int | Fraction, writes: int | Fraction) -> Fraction:
    """Cycles that words alone need, not rounded; parameters as of `transfer_cycles`."""
    demands = (
        (reads, level.read_bandwidth),
        (writes, level.write_bandwidth),
        (reads + writes, level.shared_bandwidth),
    )
    times = [Fraction(words) / rate for words, rate in demands if rate is not None]
    times += [reads * port.read_cycles + writes * port.write_cycles for port in level.ports]
    return max(times, default=Fraction(0))


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
