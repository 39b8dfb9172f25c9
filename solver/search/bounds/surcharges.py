"""What boundaries cost beyond their least, pair by pair of the tiles inside and outside of a slot."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from solver.search.arrays import BoolArray, IntArray
from solver.search.bounds.boundary import Boundaries, Boundary
from solver.search.bounds.leads import SlotPairs, led_twice
from solver.search.bounds.rows import Waiting
from solver.search.space.lattice import INFINITY
from solver.search.space.windows import Returns


@dataclass(frozen=True)
class Surcharges:
    """The pairs of tiles that the loops of level `level` connect, and what these loops tell of boundaries.

    Parameters
    ----------
    inside, outside
        Lattice indices of the tiles of the level inside, times a spatial choice or not, and of this one.
    rows, columns
        Per pair the places of its tiles outside and inside.
    """

    boundaries: Boundaries
    level: int
    inside: IntArray
    outside: IntArray
    rows: IntArray
    columns: IntArray
    pairs: SlotPairs

    @cached_property
    def _waiting(self) -> dict[tuple[Waiting, frozenset[int] | None], IntArray]:
        return {}

    @cached_property
    def _ending(self) -> dict[tuple[int, int], IntArray]:
        return {}

    def waits_here(self, own: Waiting) -> bool:
        """Whether the loops of this slot tell what a boundary costs that waits."""
        return self.boundaries.same_tile(self.level + 1, self.boundaries.of(own))

    def moved(self, place: int) -> BoolArray:
        """Pairs with a loop that moves a dataspace."""
        return self.pairs.moving(sorted(self.boundaries.sub.space.views[place].relevant))

    def charges(self, ended: Iterable[Boundary]) -> IntArray:
        """What boundaries cost if their reuse ends at the tiles outside."""
        return charges(ended, self.level, self.outside)[self.rows]

    def waiting(self, own: Waiting, members: frozenset[int]) -> IntArray:
        """What a boundary that waits costs beyond its least, as the loops of this slot have it.

        The innermost one is one of those that leave `members` in place.
        """
        key = own, members if own.lead is None else None
        if key not in self._waiting:
            self._waiting[key] = self._of_waiting(own, members)
        return self._waiting[key]

    def _of_waiting(self, own: Waiting, members: frozenset[int]) -> IntArray:
        boundary = self.boundaries.of(own)
        if not self.waits_here(own):
            return np.zeros(len(self.pairs.tiles), dtype=np.int64)
        if own.lead is None:
            return self._led_here(boundary, members)
        # A loop inside leads, and those of this slot may return to its tiles.
        returns = self.pairs.returns_to(boundary.place, own.lead, own.times)
        return led_surcharge(boundary, self.pairs.tiles, own.lead, own.times, returns)

    def _led_here(self, boundary: Boundary, members: frozenset[int]) -> IntArray:
        """The surcharge if the innermost loop of this slot, if there is one, moves the tile.

        That loop is one of those that leave `members` in place, and it leads.
        """
        leading = self.boundaries.sub.space.leading(members)
        words = self.pairs.words(boundary.place, boundary.unrolling, leading)
        # If no loop moves the tile the slot is empty, for its innermost loop would.
        unmoved = np.where(self.pairs.only_over(()), 0, INFINITY)
        return np.where(self.moved(boundary.place), self.beyond_least(boundary, words), unmoved)

    def beyond_least(self, boundary: Boundary, words: IntArray) -> IntArray:
        """What a boundary that slides costs beyond its least, if a tile's dataspace takes so many words."""
        least = boundary.extra(boundary.unreused_words(self.inside))[self.columns]
        exact = boundary.extra(boundary.unreused_words(self.pairs.tiles, words))
        surcharge: IntArray = np.maximum(exact - least, 0)
        return surcharge

    def ending(self, boundary: Boundary) -> IntArray:
        """What a reused boundary costs, beyond its surplus, if its reuse ends in this slot."""
        key = boundary.place, boundary.level
        if key not in self._ending:
            words = self.pairs.words(boundary.place, boundary.unrolling)
            # Where no loop moves the tile, the first one of a slot farther out does.
            words = np.where(self.moved(boundary.place), words, boundary.relevant_words[self.pairs.tiles])
            exact = boundary.reused(self.level, self.pairs.targets, words=words)
            beyond = exact - boundary.surplus(self.inside)[self.columns]
            self._ending[key] = np.maximum(beyond, self.charges((boundary,)))
        return self._ending[key]


def charges(ended: Iterable[Boundary], level: int, tiles: IntArray) -> IntArray:
    """What boundaries cost if their reuse ends at `tiles` of a level."""
    return sum((own.reused(level, tiles) for own in ended), np.zeros(len(tiles), dtype=np.int64))


def led_surcharge(boundary: Boundary, tiles: IntArray, dim: int, count: int, returns: Returns) -> IntArray:
    """What a boundary costs beyond its least if a loop over `dim` leads.

    The loop has `count` iterations and spans `tiles`.
    """
    sub = boundary.sub
    words = led_twice(sub.space, boundary.place, dim, count, tiles, boundary.unrolling, returns)
    least, exact = (boundary.extra(boundary.unreused_words(tiles, each)) for each in words)
    surcharge: IntArray = np.maximum(exact - least, 0)
    return surcharge
