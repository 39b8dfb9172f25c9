"""Cycles that the bandwidths and ports of one level need, exactly or as Timeloop calculates them."""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction

from model.architecture import StorageLevel

Demand = tuple[str, int, int]
"""A dataspace's name, the words it reads, and the words it writes (fills and updates)."""


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
    reads, writes = scaled_words(level, demands)
    return max(Fraction(steps), transfer_time(level, level.other_reads + reads, level.other_writes + writes))


def scaled_words(level: StorageLevel, demands: Iterable[Demand]) -> tuple[int | Fraction, int | Fraction]:
    """Words that are read and written, each times the scale of its dataspace."""
    reads: int | Fraction = 0
    writes: int | Fraction = 0
    for name, read, written in demands:
        scale = level.scale(name) if level.bandwidth_scale else 1
        reads += read * scale
        writes += written * scale
    return reads, writes


def timeloop_cycles(level: StorageLevel, steps: int, demands: Iterable[Demand]) -> int:
    """Cycles that a level needs as Timeloop calculates them: quotients of doubles, rounded up.

    Parameters
    ----------
    level, steps
        Bandwidths, and cycles of the compute: see `exact_cycles`.
    demands
        In the problem's order.

    Notes
    -----
    The doubles are computed in Timeloop's order: a quotient slightly above an integer costs a cycle. Beyond
    ``2**53`` steps they may lie below the steps, which are exact and the minimum.
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
