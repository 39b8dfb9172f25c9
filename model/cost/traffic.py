"""Reads, fills and updates of one dataspace at every level that keeps it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

from model.architecture import Architecture, Fanout, StorageLevel
from model.cost.nest import Nest
from model.counting import CountingRule
from model.counting.first_touches import free_share
from model.counting.words import Move, distinct_offsets, extents, tile_words
from model.mapping import Mapping, StorageMapping
from model.problem import Dataspace

Words = int | Fraction
"""Words per instance; a fraction where the children of a fanout get unequal numbers."""


@dataclass(frozen=True, slots=True)
class Traffic:
    """What one dataspace does at a level that keeps it, in words per instance of the level.

    Parameters
    ----------
    position
        Of the level in ``architecture.nodes``.
    tile_words, partition_words, reads, fills, updates
        See `model.cost.report.DataspaceCost`.
    """

    position: int
    tile_words: int
    partition_words: int
    reads: int
    fills: int
    updates: int


class Delivery(Protocol):
    """How the words of one dataspace get from a level to the next inner one."""

    def received(self, position: int) -> tuple[Words, Words]:
        """Words that one instance gets."""
        ...

    def across(self, position: int, stream: Words, for_themselves: bool) -> Words:
        """Accesses above a fanout that serve its children."""
        ...


@dataclass(frozen=True, slots=True)
class MulticastDelivery:
    """Delivery from the level above alone; children with equal words share one access.

    Parameters
    ----------
    rule
        How words are counted.
    architecture, nest
        The hardware, and the loops of a mapping.
    space
        The dataspace that is delivered.
    """

    rule: CountingRule
    architecture: Architecture
    nest: Nest
    space: Dataspace

    def received(self, position: int) -> tuple[int, int]:
        """Words from above as if every level kept the dataspace, none from neighbours."""
        tile = extents(self.space, self.nest.bounds[position])
        if not reuses(self.architecture, self.space, position):
            return math.prod(tile) * self.nest.steps(position), 0
        return self.rule.delivered_words(tile, self.nest.moves_above(self.space, position)), 0

    def across(self, position: int, stream: Words, for_themselves: bool) -> Words:
        """`stream` for every group of children with different words."""
        return stream * distinct_children(
            self.architecture, self.nest, self.space, position, self.rule.copies
        )


def distinct_children(
    architecture: Architecture,
    nest: Nest,
    space: Dataspace,
    position: int,
    copies: Callable[[Iterable[Move]], int] = distinct_offsets,
) -> int:
    """Accesses above a fanout per word that each used child receives.

    Parameters
    ----------
    architecture, nest
        The hardware, and the loops of a mapping.
    space
        The dataspace; the children of a fanout with `space` under ``no_multicast`` count one by one.
    position
        Of the fanout in ``architecture.nodes``.
    copies
        How many accesses serve the children of a fanout, see `model.counting`.
    """
    fanout = architecture.nodes[position]
    if isinstance(fanout, Fanout) and space.name in fanout.no_multicast:
        return nest.children(position)
    return copies(nest.spatial_moves(space, position))


def reuses(architecture: Architecture, space: Dataspace, position: int) -> bool:
    """Whether a node reuses what it holds of a dataspace from one step to the next."""
    if position == len(architecture.nodes):
        return False
    node = architecture.nodes[position]
    return isinstance(node, Fanout) or space.name not in node.no_temporal_reuse


def sharing_fanouts(architecture: Architecture, space: Dataspace, outer: int, inner: int) -> frozenset[int]:
    """Positions of the fanouts between two nodes whose children share accesses to a dataspace."""
    between = ((place, architecture.nodes[place]) for place in range(outer + 1, inner))
    return frozenset(
        place for place, node in between if isinstance(node, Fanout) and space.name not in node.no_multicast
    )


def kept_positions(architecture: Architecture, mapping: Mapping, space: str) -> tuple[int, ...]:
    """Storage levels that keep a dataspace in effect.

    A level may only pass its own stream on (`StorageLevel.passing`); with nothing kept farther out it
    counts as bypassing.

    Parameters
    ----------
    architecture, mapping
        With one entry of the mapping per node.
    space
        Name of the dataspace.

    Returns
    -------
    tuple of int
        Positions in ``architecture.nodes``, outermost first.
    """
    kept: list[int] = []
    for position, (node, entry) in enumerate(zip(architecture.nodes, mapping.nodes, strict=True)):
        if not isinstance(entry, StorageMapping) or not isinstance(node, StorageLevel):
            continue
        if space in entry.keep and (kept or space not in node.passing):
            kept.append(position)
    return tuple(kept)


def kept_anywhere(architecture: Architecture, mapping: Mapping, space: str) -> tuple[int, ...]:
    """Return `kept_positions`; ValueError if there are none."""
    kept = kept_positions(architecture, mapping, space)
    if not kept:
        raise ValueError(f"no level keeps dataspace {space!r}")
    return kept


def askers(
    architecture: Architecture, kept: Sequence[int], space: Dataspace
) -> Iterator[tuple[int, StorageLevel, int]]:
    """Yield the levels that keep a dataspace, each with the node inside that asks it; inner ones first.

    That is the next inner level, past those that only pass the stream on; or the arithmetic.

    Parameters
    ----------
    architecture
        Its nodes.
    kept
        Positions of the levels, outermost first.
    space
        The dataspace.
    """
    asking = len(architecture.nodes)
    for position in reversed(kept):
        level = architecture.level_at(position)
        yield position, level, asking
        if space.name not in level.passing:
            asking = position


def dataspace_traffic(
    rule: CountingRule,
    architecture: Architecture,
    mapping: Mapping,
    nest: Nest,
    space: Dataspace,
    delivery: Delivery,
) -> tuple[Traffic, ...]:
    """Count the accesses to a dataspace at the levels that keep it.

    The walk goes from the compute outwards with the stream of words that one instance asks from
    above. A fanout multiplies it by the number of distinct words among its children. A level that
    keeps the dataspace serves the stream and asks for what must be delivered into itself instead;
    one of `StorageLevel.passing` serves the stream but passes it on.

    Raises
    ------
    ValueError
        If no level keeps `space`.
    """
    kept = kept_anywhere(architecture, mapping, space.name)
    tiles = [tile_words(space, bounds) for bounds in nest.bounds]
    touched = rule.touched(architecture, nest, space)
    traffic: list[Traffic] = []
    asking = len(architecture.nodes)
    stream: Words = nest.steps()
    for position in range(len(architecture.nodes) - 1, kept[0] - 1, -1):
        node = architecture.nodes[position]
        if isinstance(node, Fanout):
            stream = delivery.across(position, stream, for_themselves=asking == position + 1)
            continue
        if position not in kept:
            continue
        passes = space.name in node.passing
        above, beside = (0, 0) if position == kept[0] else delivery.received(position)
        held = touched(position, position)
        firsts = (touched(position, asking) if space.read_write else held), held
        if node.tolls:
            traffic.append(in_passing(position, node, space, stream, firsts[0]))
            continue
        reads, fills, updates = accesses(node, space, stream, (above, 0 if passes else beside), firsts)
        if rule.drains_are_reads and space.read_write:
            reads += _nearest(above)
        traffic.append(Traffic(position, tiles[position], held, reads, fills, updates))
        if not passes:
            asking, stream = position, above
    return tuple(reversed(traffic))


def in_passing(position: int, level: StorageLevel, space: Dataspace, stream: Words, firsts: int) -> Traffic:
    """Count what pays a toll: words that go down, but for first touches of outputs, and those that go up."""
    free = firsts * free_share(level, space)
    down: Words = stream - free if stream > free else 0
    up = stream if space.read_write else 0
    return Traffic(
        position,
        tile_words=0,
        partition_words=0,
        reads=_nearest(down) if level.charges(space.name, "down") else 0,
        fills=0,
        updates=_nearest(up) if level.charges(space.name, "up") else 0,
    )


def accesses(
    level: StorageLevel,
    space: Dataspace,
    served: Words,
    received: tuple[Words, Words],
    firsts: tuple[int, int],
) -> tuple[int, int, int]:
    """Reads, fills and updates of one instance.

    It serves `served` words to the inside, and passes on to neighbours as many as it receives from
    them. The first touch of a word of a produced tensor writes without reading, unless its first values are
    given or the level reads all the same: it needs no read for the inside, and no fill from above; `firsts`
    counts these touches. Nothing is filled at the
    outermost level, which receives nothing. Timeloop's partitions may count words that are never
    touched, in the holes of an output's tiles: then nothing is left to read or fill.
    """
    above, beside = received
    if not space.read_write:
        return _nearest(served + beside), math.trunc(above + beside), 0
    if space.name in level.no_coalesce:
        return _nearest(served), _nearest(served), _nearest(served)
    free = free_share(level, space)
    served_first, filled_first = (words * free for words in firsts) if free != 1 else firsts
    fills = max(0, above + beside - filled_first) if above else 0
    return _nearest(max(0, served + beside - served_first)), _nearest(fills), _nearest(served)


def _nearest(words: Words) -> int:
    """Round to the nearest whole number, halves away from zero."""
    if isinstance(words, int):
        return words
    whole = math.floor(abs(words) + Fraction(1, 2))
    return whole if words >= 0 else -whole
