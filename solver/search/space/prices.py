"""Bandwidths, and the accesses whose words follow from those delivered across each boundary."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

from model.architecture import Architecture, StorageLevel
from model.counting.first_touches import free_share, reads_firsts
from model.problem import Dataspace


@dataclass(frozen=True, slots=True)
class Resource:
    """A port of a memory, which takes its reads, its writes (fills and updates), or both.

    Parameters
    ----------
    levels
        The memory's places, outermost first.
    read_cycles, write_cycles
        Cycles of one instance per word, 0 for what does not use it.
    """

    levels: tuple[int, ...]
    read_cycles: Fraction
    write_cycles: Fraction

    def besides(self, levels: Sequence[StorageLevel]) -> Fraction:
        """Cycles that words take which are none of the problem's."""
        places = (levels[place] for place in self.levels)
        cycles = (own.other_reads * self.read_cycles + own.other_writes * self.write_cycles for own in places)
        return sum(cycles, Fraction(0))


def resources(architecture: Architecture) -> tuple[Resource, ...]:
    """All limited bandwidths."""
    return tuple(
        Resource(places, read_cycles, write_cycles)
        for places in architecture.memories
        for read_cycles, write_cycles in _ports(architecture.levels[places[0]])
    )


def _ports(level: StorageLevel) -> Iterator[tuple[Fraction, Fraction]]:
    """Yield the cycles that a word takes at each port, when it is read and when it is written."""
    for reads, writes, bandwidth in (
        (1, 0, level.read_bandwidth),
        (0, 1, level.write_bandwidth),
        (1, 1, level.shared_bandwidth),
    ):
        if bandwidth is not None:
            yield Fraction(reads) / bandwidth, Fraction(writes) / bandwidth
    yield from ((port.read_cycles, port.write_cycles) for port in level.ports)


class LevelAccess(NamedTuple):
    """An action of a level on a dataspace whose words follow from those delivered to `boundary`.

    Boundary ``len(levels)`` stands for the compute. `per_child`: once for each distinct tile among the
    children; `first_touch_free`: but for the first one of each word, or `free_share` of these.
    """

    level: int
    name: str
    boundary: int
    per_child: bool
    first_touch_free: bool
    free_share: Fraction = Fraction(1)


def level_accesses(
    levels: Sequence[StorageLevel],
    space: Dataspace,
    chain: Sequence[int],
    drains_are_reads: bool = False,
) -> Iterator[LevelAccess]:
    """All level_accesses to a dataspace that the levels of `chain` keep, outermost first.

    They follow the counting rules of `model.cost.traffic`; `drains_are_reads` is one of `model.counting`.
    """
    name, read_write = space.name, space.read_write
    for place, child in zip(chain, (*chain[1:], len(levels)), strict=True):
        level, source = levels[place], _stream_source(levels, name, chain, child)
        free, share = not reads_firsts(level, space), free_share(level, space)
        if level.tolls:
            yield from _in_passing(level, space, LevelAccess(place, "read", source, True, free, share))
            continue
        if drains_are_reads and read_write and place != chain[0]:
            yield LevelAccess(place, "read", place, False, False)
        if read_write and name in level.no_coalesce:
            yield from (
                LevelAccess(place, action, source, True, False) for action in ("read", "fill", "update")
            )
            continue
        yield LevelAccess(place, "read", source, True, free, share)
        if read_write:
            yield LevelAccess(place, "update", source, True, False)
        if place != chain[0]:
            yield LevelAccess(place, "fill", place, False, free, share)


def _in_passing(level: StorageLevel, space: Dataspace, down: LevelAccess) -> Iterator[LevelAccess]:
    if level.charges(space.name, "down"):
        yield down
    if space.read_write and level.charges(space.name, "up"):
        yield down._replace(name="update", first_touch_free=False)


def _stream_source(levels: Sequence[StorageLevel], name: str, chain: Sequence[int], child: int) -> int:
    """The boundary whose stream a parent serves: levels may pass theirs on."""
    while child < len(levels) and (child not in chain or name in levels[child].passing):
        child += 1
    return child


def cycles_per_word(
    levels: Sequence[StorageLevel], resource: Resource, access: LevelAccess, name: str
) -> Fraction:
    """Cycles that one word of an access to dataspace `name` takes up of `resource`, 0 if none."""
    cycles = resource.read_cycles if access.name == "read" else resource.write_cycles
    return levels[access.level].scale(name) * cycles if access.level in resource.levels else Fraction(0)
