"""Counting rules: how the words that a mapping moves, and the cycles that these take, are counted."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import chain

from model.architecture import Architecture, Fanout, StorageLevel
from model.cost.counting import (
    Change,
    Move,
    covered_words,
    distinct_offsets,
    exact_changes,
    extents,
    place_changes,
    tile_words,
    timeloop_changes,
)
from model.cost.nest import Nest
from model.cost.partition import partition_words
from model.cost.prices import Demand, exact_cycles, timeloop_cycles, unrounded_cycles
from model.mapspace import ACCELFORGE, EXACT, TIMELOOP, Counting
from model.problem import Dataspace


@dataclass(frozen=True)
class CountingRule:
    """One way to count; `rule_of` has those that there are.

    Parameters
    ----------
    changes
        What each temporal loop above a tile brings into it, given the tile's extents and the loops,
        innermost first.
    touched
        Given a dataspace: the distinct words of it that the tiles at or inside a node ever take under one
        instance of a node at or outside it; both by position, the node outside first.
    cycles, latency
        Cycles that a level needs, given the steps of the compute and the words of its dataspaces; and
        the same, not rounded where the rule does not round.
    copies
        Accesses above a fanout that serve all of its children, given its spatial loops.
    drains_are_reads
        Whether a level reads what it hands back to the level outside.
    """

    name: Counting
    changes: Callable[[Sequence[int], Iterable[Move]], Iterator[Change]]
    touched: Callable[[Architecture, Nest, Dataspace], Callable[[int, int], int]]
    cycles: Callable[[StorageLevel, int, Iterable[Demand]], int]
    latency: Callable[[StorageLevel, int, Iterable[Demand]], int | Fraction]
    copies: Callable[[Iterable[Move]], int] = distinct_offsets
    drains_are_reads: bool = False

    def delivered_words(self, tile: Sequence[int], moves: Iterable[Move]) -> int:
        """Words that one instance receives while temporal loops above it run.

        Parameters
        ----------
        tile
            Extent per rank.
        moves
            The loops, innermost first.

        Returns
        -------
        int
            The first tile, and what every loop brings whenever it advances.
        """
        return math.prod(tile) + sum(change.repeats * change.words for change in self.changes(tile, moves))


def _covered(architecture: Architecture, nest: Nest, space: Dataspace) -> Callable[[int, int], int]:
    """What the tiles cover while all loops run but the spatial ones outside."""

    def touched(outer: int, inner: int) -> int:
        between = (node for node in architecture.fanout_indices if outer < node < inner)
        spatial = chain.from_iterable(nest.spatial_moves(space, node) for node in between)
        tile = extents(space, nest.bounds[inner])
        return covered_words(tile, chain(nest.moves_above(space, inner), spatial))

    return touched


def _partitions(architecture: Architecture, nest: Nest, space: Dataspace) -> Callable[[int, int], int]:
    """Timeloop's partitions: shares of the whole tensor."""
    parts = partition_words(architecture, [tile_words(space, bounds) for bounds in nest.bounds])
    return lambda outer, inner: parts[outer]


def _placed(architecture: Architecture, nest: Nest, space: Dataspace) -> Callable[[int, int], int]:
    """The inner tile, once for each loop outside that moves it."""

    def touched(outer: int, inner: int) -> int:
        between = (node for node in architecture.fanout_indices if outer < node < inner)
        spatial = chain.from_iterable(_unshared_moves(architecture, nest, space, node) for node in between)
        moving = (bound for bound, move in chain(nest.moves_above(space, inner), spatial) if any(move))
        return tile_words(space, nest.bounds[inner]) * math.prod(moving)

    return touched


def _unshared_moves(
    architecture: Architecture, nest: Nest, space: Dataspace, position: int
) -> Iterator[Move]:
    """Yield the spatial loops of a fanout; without multicast all of them count as moving the tile."""
    fanout = architecture.nodes[position]
    is_unshared = isinstance(fanout, Fanout) and space.name in fanout.no_multicast
    for bound, move in nest.spatial_moves(space, position):
        yield bound, (1,) * max(1, len(move)) if is_unshared else move


def _moving(moves: Iterable[Move]) -> int:
    """Product of the loops that move a tile, even where children meet at one position."""
    return math.prod(bound for bound, move in moves if any(move))


_RULES: dict[Counting, CountingRule] = {
    EXACT: CountingRule(EXACT, exact_changes, _covered, exact_cycles, exact_cycles),
    TIMELOOP: CountingRule(TIMELOOP, timeloop_changes, _partitions, timeloop_cycles, timeloop_cycles),
    ACCELFORGE: CountingRule(
        ACCELFORGE, place_changes, _placed, exact_cycles, unrounded_cycles, _moving, drains_are_reads=True
    ),
}


def rule_of(counting: Counting) -> CountingRule:
    """Return the rule of a name out of `model.mapspace.PRICED_COUNTINGS`."""
    return _RULES[counting]
