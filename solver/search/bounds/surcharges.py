"""What boundaries cost beyond their least, pair by pair of the tiles inside and outside of a slot."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from solver.search.arrays import BoolArray, IntArray
from solver.search.bounds.boundary import Boundaries, Boundary, Led
from solver.search.bounds.leads import SlotPairs
from solver.search.bounds.led import LedPairs, led_twice
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

    def waits_here(self, waiting: Waiting) -> bool:
        """Whether the loops of this slot tell what a boundary costs that waits."""
        return self.boundaries.inward(self.level + 1, self.boundaries.of(waiting)) is not None

    def tiles_of(self, boundary: Boundary) -> IntArray:
        """Per pair, the tile of a boundary inside of the slot, as far as its windows are concerned.

        Returns
        -------
        IntArray
            Lattice indices, shape (pairs,).
        """
        return self.pairs.tiles - self.inward(boundary)

    def inward(self, boundary: Boundary) -> int:
        """What leads from the tiles of this slot to those of a boundary inside that it tells about."""
        inward = self.boundaries.inward(self.level + 1, boundary)
        assert inward is not None  # this slot tells what it costs
        return inward

    def moved(self, place: int) -> BoolArray:
        """Pairs with a loop that moves a dataspace, shape (pairs,)."""
        return self.pairs.moving(sorted(self.boundaries.sub.space.views[place].relevant))

    def charges(self, ended: Iterable[Boundary]) -> IntArray:
        """What boundaries cost if their reuse ends at the tiles outside.

        Returns
        -------
        IntArray
            In quanta, shape (pairs,).
        """
        return charges(ended, self.level, self.outside)[self.rows]

    def waiting(self, waiting: Waiting, members: frozenset[int]) -> IntArray:
        """What a boundary that waits costs beyond its least, as the loops of this slot have it.

        The innermost one is one of those that leave `members` in place.

        Returns
        -------
        IntArray
            In quanta, shape (pairs,), 0 or more. `INFINITY` for pairs with loops that do not move the tile
            though the innermost one would.
        """
        key = waiting, members if waiting.lead is None else None
        if key not in self._waiting:
            self._waiting[key] = self._of_waiting(waiting, members)
        return self._waiting[key]

    def _of_waiting(self, waiting: Waiting, members: frozenset[int]) -> IntArray:
        boundary = self.boundaries.of(waiting)
        if not self.waits_here(waiting):
            return np.zeros(len(self.pairs.tiles), dtype=np.int64)
        if waiting.lead is None:
            return self._led_here(boundary, members)
        # A loop inside leads, and those of this slot may return to its tiles.
        led = self.led(waiting)
        surcharge = self.led_surcharge(boundary, led.lead, led.returns)
        return np.where(self.left_open(waiting), 0, surcharge)

    def still_open(self, waiting: Waiting) -> BoolArray:
        """Pairs whose loops leave it to those farther out what a boundary costs that waits."""
        if waiting.lead is None:
            return ~self.moved(waiting.place)
        # Fanouts widen the tiles of an empty slot, which may rule returns out.
        return self.pairs.only_over(()) & (np.asarray(self.led(waiting).returns.farther) > 1)

    def left_open(self, waiting: Waiting) -> BoolArray:
        """The same, and those whose loops go on past the tiles of a lead inside."""
        open_pairs = self.still_open(waiting)
        for _, _, pairs in self.onward(waiting):
            open_pairs = open_pairs | pairs
        return open_pairs

    def onward(self, waiting: Waiting) -> list[tuple[int, int, BoolArray]]:
        """The same as of `LedPairs.onward`; outside of the outermost slot nothing is left to."""
        if waiting not in self._known_onward:
            self._known_onward[waiting] = list(self.led(waiting).onward()) if self.level else []
        return self._known_onward[waiting]

    @cached_property
    def _known_onward(self) -> dict[Waiting, list[tuple[int, int, BoolArray]]]:
        return {}

    def led(self, waiting: Waiting) -> LedPairs:
        """The pairs with the lead inside of the slot that a boundary waits with."""
        if waiting not in self._known_led:
            led = self.boundaries.led(waiting, self.level + 1, self.pairs.tiles)
            self._known_led[waiting] = LedPairs(self.pairs, waiting.place, led)
        return self._known_led[waiting]

    @cached_property
    def _known_led(self) -> dict[Waiting, LedPairs]:
        return {}

    def led_surcharge(self, boundary: Boundary, led: Led, returns: Returns) -> IntArray:
        """What a boundary costs beyond its least if a loop inside of the slot leads.

        Returns
        -------
        IntArray
            In quanta, shape (pairs,), 0 or more.
        """
        return led_surcharge(boundary, self.level + 1, self.pairs.tiles, led, returns)

    def _led_here(self, boundary: Boundary, members: frozenset[int]) -> IntArray:
        """The surcharge if the innermost loop of this slot, if there is one, moves the tile.

        That loop is one of those that leave `members` in place, and it leads.
        """
        leading = self.boundaries.sub.space.leading(members)
        words = self.pairs.words(boundary.place, boundary.unrolling, self.inward(boundary), leading)
        # If no loop moves the tile the slot is empty, for its innermost loop would.
        unmoved = np.where(self.pairs.only_over(()), 0, INFINITY)
        return np.where(self.moved(boundary.place), self.beyond_least(boundary, words), unmoved)

    def beyond_least(self, boundary: Boundary, words: IntArray) -> IntArray:
        """What a boundary that slides costs beyond its least, if a tile's dataspace takes so many words.

        Parameters
        ----------
        words
            That deliver the dataspace once, in all instances; shape (pairs,).

        Returns
        -------
        IntArray
            In quanta, shape (pairs,), 0 or more.
        """
        inside, level = self.inside - self.inward(boundary), self.level + 1
        least = boundary.extra(boundary.unreused_words(inside, level=level))[self.columns]
        exact = boundary.extra(boundary.unreused_words(self.tiles_of(boundary), words, level))
        surcharge: IntArray = np.maximum(exact - least, 0)
        return surcharge

    def ending(self, boundary: Boundary) -> IntArray:
        """What a reused boundary costs, beyond its surplus, if its reuse ends in this slot.

        Returns
        -------
        IntArray
            In quanta, shape (pairs,), no less than `charges`.
        """
        key = boundary.place, boundary.level
        if key not in self._ending:
            inward = self.inward(boundary)
            words = self.pairs.words(boundary.place, boundary.unrolling, inward)
            # Where no loop moves the tile, the first one of a slot farther out does.
            unmoved = boundary.relevant_words[self.pairs.tiles - inward]
            words = np.where(self.moved(boundary.place), words, unmoved)
            exact = boundary.reused(self.level, self.pairs.targets, words=words)
            beyond = exact - boundary.surplus(self.inside - inward)[self.columns]
            self._ending[key] = np.maximum(beyond, self.charges((boundary,)))
        return self._ending[key]


def charges(ended: Iterable[Boundary], level: int, tiles: IntArray) -> IntArray:
    """What boundaries cost if their reuse ends at `tiles` of a level.

    Returns
    -------
    IntArray
        In quanta, shape (len(tiles),).
    """
    return sum((boundary.reused(level, tiles) for boundary in ended), np.zeros(len(tiles), dtype=np.int64))


def led_surcharge(boundary: Boundary, level: int, tiles: IntArray, led: Led, returns: Returns) -> IntArray:
    """What a boundary costs beyond its least if a loop leads inside of `tiles` of `level`.

    Returns
    -------
    IntArray
        In quanta, shape (len(tiles),), 0 or more.
    """
    words = led_twice(boundary.sub.space, boundary.place, led, boundary.unrolling, returns)
    least, exact = (boundary.extra(boundary.unreused_words(tiles, each, level)) for each in words)
    surcharge: IntArray = np.maximum(exact - least, 0)
    return surcharge
