"""Energy and bandwidth load as functions of the words delivered across each boundary.

Once it is known which levels keep what and how many children each fanout serves, all that a mapping
still decides is F, the words delivered into one instance of each keeping level. Reads, fills and updates
follow from F, level by level and dataspace by dataspace, and so do energy and load.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from model.architecture import Architecture, StorageLevel
from model.counting.first_touches import free_share, reads_firsts
from model.problem import Dataspace
from solver.search.arrays import FloatArray, IntArray


@dataclass(frozen=True, slots=True)
class PriceTerm:
    """``price * ceil((F * multiplier - minus) / block)``, never below 0.

    Parameters
    ----------
    price
        Quanta per block, of all instances that pay, above 0.
    multiplier, minus
        Of one action, see `Action`.
    block
        Words that one access moves.
    """

    price: int
    multiplier: int
    minus: int
    block: int


@dataclass(frozen=True, slots=True)
class LoadTerm:
    """``(F * multiplier - minus) * share`` cycles of the shared resource `resource`.

    Parameters
    ----------
    resource
        Its place among those of the search space.
    share
        Cycles per word.
    """

    resource: int
    multiplier: int
    minus: int
    share: Fraction


@dataclass(frozen=True)
class BoundaryPrice:
    """What the words F cost that are delivered across one boundary of one dataspace.

    ``loads`` are those of all bandwidths.
    """

    terms: tuple[PriceTerm, ...]
    loads: tuple[LoadTerm, ...]

    def exact(self, delivered: int) -> int:
        """Cost of `delivered` words per instance, in quanta."""
        return sum(t.price * -(-max(0, delivered * t.multiplier - t.minus) // t.block) for t in self.terms)

    def add_loads(self, delivered: IntArray, loads: FloatArray) -> None:
        """Add the load of `delivered` words to `loads`, shape (len(delivered), resources)."""
        for term in self.loads:
            words = delivered.astype(np.float64) * term.multiplier - term.minus
            loads[:, term.resource] += np.maximum(words, 0.0) * float(term.share)


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


Count = int | FloatArray
"""A number of words or instances; an array where many tiles are looked at together."""


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


@dataclass(frozen=True, slots=True)
class Action:
    """`F * multiplier - minus` words of one action of a level, F being delivered to `boundary`.

    Parameters
    ----------
    level
        That acts: 0 is the outermost.
    name
        "read", "fill" or "update".
    boundary
        The level whose deliveries decide; ``len(levels)`` is the compute.
    multiplier
        Distinct tiles among the children of one instance, or 1.
    minus
        Words of first touches, which are free.
    """

    level: int
    name: str
    boundary: int
    multiplier: Count
    minus: Count


@dataclass(frozen=True)
class Spread:
    """How the words of one dataspace spread; tuples run along levels, outermost first.

    ``distinct`` counts the different tiles among the children below each level; ``partition`` bounds
    from above the words of a read-write dataspace that one instance ever holds.
    """

    distinct: tuple[Count, ...]
    partition: tuple[Count, ...]

    def action(self, access: LevelAccess) -> Action:
        """How many words an access comes to."""
        multiplier = math.prod(self.distinct[access.level : access.boundary]) if access.per_child else 1
        minus = _shared(self.partition[access.level], access.free_share) if access.first_touch_free else 0
        return Action(access.level, access.name, access.boundary, multiplier, minus)


def _shared(words: Count, share: Fraction) -> Count:
    """Part of some words, rounded up."""
    if share == 1:
        return words
    return math.ceil(words * share) if isinstance(words, int) else np.ceil(words * float(share))


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
        level, source = levels[place], _source(levels, name, chain, child)
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


def _source(levels: Sequence[StorageLevel], name: str, chain: Sequence[int], child: int) -> int:
    """The boundary whose stream a parent serves: levels may pass theirs on."""
    while child < len(levels) and (child not in chain or name in levels[child].passing):
        child += 1
    return child


def cycles_per_word(
    levels: Sequence[StorageLevel], resource: Resource, action: Action, name: str
) -> Fraction:
    """Cycles that one word of an action on dataspace `name` takes up of `resource`, 0 if none."""
    cycles = resource.read_cycles if action.name == "read" else resource.write_cycles
    return levels[action.level].scale(name) * cycles if action.level in resource.levels else Fraction(0)


@dataclass(frozen=True)
class PriceList:
    """Prices of levels: per level the number of instances that pay for a vector access.

    Parameters
    ----------
    levels
        Outermost first.
    paying
        Per level.
    resources
        That load terms are made for.
    quantum
        Energy units per unit of cost. Prices are rounded down to multiples of it, and left out at 0.
    """

    levels: tuple[StorageLevel, ...]
    paying: tuple[int, ...]
    resources: tuple[Resource, ...]
    quantum: int = 1

    def boundaries(self, name: str, actions: Iterable[Action]) -> dict[int, BoundaryPrice]:
        """Price of each boundary of a dataspace that is accessed so, by the level below it."""
        energy: dict[int, list[PriceTerm]] = {}
        loads: dict[int, list[LoadTerm]] = {}
        for action in actions:
            energy.setdefault(action.boundary, []).extend(self._energy(action, name))
            loads.setdefault(action.boundary, []).extend(self._loads(action, name))
        return {
            boundary: BoundaryPrice(tuple(terms), tuple(loads[boundary]))
            for boundary, terms in energy.items()
        }

    def _energy(self, action: Action, name: str) -> Iterator[PriceTerm]:
        level = self.levels[action.level]
        packing = level.packing_of(name)
        paid = getattr(level.energy, action.name) * packing.accesses_per_block * self.paying[action.level]
        if price := paid // self.quantum:
            yield PriceTerm(price, int(action.multiplier), int(action.minus), packing.block_size)

    def _loads(self, action: Action, name: str) -> Iterator[LoadTerm]:
        for place, resource in enumerate(self.resources):
            share = cycles_per_word(self.levels, resource, action, name)
            if share:
                yield LoadTerm(place, int(action.multiplier), int(action.minus), share)
