"""Counting rules: how the words that a mapping moves, and the cycles that these take, are counted."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from model.architecture import Architecture, StorageLevel
from model.cost.counting import (
    Change,
    Move,
    covered_words,
    exact_changes,
    extents,
    tile_words,
    timeloop_changes,
)
from model.cost.nest import Nest
from model.cost.partition import partition_words
from model.cost.prices import Demand, exact_cycles, timeloop_cycles
from model.mapspace import EXACT, TIMELOOP, Counting
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
    cycles
        Cycles that a level needs, given the steps of the compute and the words of its dataspaces.
    """

    name: Counting
    changes: Callable[[Sequence[int], Iterable[Move]], Iterator[Change]]
    touched: Callable[[Architecture, Nest, Dataspace], Callable[[int, int], int]]
    cycles: Callable[[StorageLevel, int, Iterable[Demand]], int]

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


_RULES: dict[Counting, CountingRule] = {
    EXACT: CountingRule(EXACT, exact_changes, _covered, exact_cycles),
    TIMELOOP: CountingRule(TIMELOOP, timeloop_changes, _partitions, timeloop_cycles),
}


def rule_of(counting: Counting) -> CountingRule:
    """Return the rule of a name out of `model.mapspace.COUNTINGS`."""
    return _RULES[counting]
