"""Words that arrive at a level, for many orders of one slot's loops at once."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from model.cost.counting import Move
from model.cost.rules import rule_of
from model.mapspace import EXACT, Counting
from solver.search.arrays import IntArray

LARGEST = 1 << 62
"""Words up to which 64 bits are enough for every step."""

_Step = tuple[int | IntArray, IntArray]
"""Bounds of loops, and their movements per rank: one per order, or one for all."""


@dataclass(frozen=True)
class Arrivals:
    """The temporal loops above a tile of one dataspace, as it sees them.

    Parameters
    ----------
    counting
        The rule by which words are counted.
    tile
        Extent per rank.
    inner, outer
        Loops inside and outside of a slot, innermost first; those of bound 1 are left out.
    slot
        The slot's loops.
    orders
        Orders of the slot, as places in `slot`, innermost first; shape (orders, loops).
    """

    counting: Counting
    tile: tuple[int, ...]
    inner: tuple[Move, ...]
    slot: tuple[Move, ...]
    outer: tuple[Move, ...]
    orders: IntArray

    def words(self) -> list[int]:
        """Words of one instance for each order, as `model.cost.rules` counts them."""
        steps = math.prod(bound for bound, _ in (*self.inner, *self.slot, *self.outer))
        if math.prod(self.tile) * steps < LARGEST:
            return list(map(int, self._counted(steps)))
        nests = ((*self.inner, *(self.slot[n] for n in own), *self.outer) for own in self.orders.tolist())
        return [rule_of(self.counting).delivered_words(self.tile, nest) for nest in nests]

    def _counted(self, repeats: int | IntArray) -> IntArray:
        """The same in 64 bits: step by step outwards, for all orders together."""
        count, whole = len(self.orders), math.prod(self.tile)
        extents = np.array(self.tile, dtype=np.int64)
        total: IntArray = np.full(count, whole, dtype=np.int64)
        position = np.zeros((count, len(self.tile)), dtype=np.int64)
        lead = np.zeros_like(position)
        for bound, move in self._steps():
            lead = np.where(lead.any(axis=1, keepdims=True), lead, move)
            jump = move - position
            kept = np.maximum(extents - np.abs(jump), 0).prod(axis=1)
            if self.counting == EXACT:
                position = position + move * (np.asarray(bound) - 1)[..., None]
            else:
                # By Timeloop's rule only the lead's own movement, or none at all, keeps anything.
                kept = np.where((jump == lead).all(axis=1) | ~jump.any(axis=1), kept, 0)
                position = position + move
            total += (repeats - repeats // bound) * (whole - kept)
            repeats = repeats // bound
        return total

    def _steps(self) -> Iterator[_Step]:
        yield from self._fixed(self.inner)
        bounds = np.array([bound for bound, _ in self.slot], dtype=np.int64)
        moves = np.array([move for _, move in self.slot], dtype=np.int64).reshape(
            len(self.slot), len(self.tile)
        )
        for column in self.orders.T:
            yield bounds[column], moves[column]
        yield from self._fixed(self.outer)

    @staticmethod
    def _fixed(loops: Sequence[Move]) -> Iterator[_Step]:
        for bound, move in loops:
            yield bound, np.array(move, dtype=np.int64)
