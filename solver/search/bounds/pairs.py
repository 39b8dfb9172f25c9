"""Pairs of tiles inside and outside of a slot: the loops between them, and what these bring of windows."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from solver.search.arrays import BoolArray, IntArray
from solver.search.bounds.boundary import Boundary
from solver.search.space.lattice import INFINITY
from solver.search.space.search_space import SearchSpace
from solver.search.space.windows import Movement, least_jumps, moved_words

MOST_PAIRS = 1 << 20
"""Combinations of a tile inside and one outside that are looked at at a time."""


class SlotPairs:
    """The pairs that loops of a slot connect.

    Parameters
    ----------
    tiles, sources
        Lattice indices of the tiles inside, and the same times a spatial choice; shape (sources,).
    outer
        Lattice indices of the tiles outside.
    connected
        Which of them loops connect, shape (outer, sources).
    inner
        Dimensions whose loops are the innermost ones, in this order.
    """

    def __init__(
        self,
        space: SearchSpace,
        tiles: IntArray,
        sources: IntArray,
        outer: IntArray,
        connected: BoolArray,
        inner: Sequence[int],
    ) -> None:
        self.space = space
        self.rows, self.columns = np.nonzero(connected)
        self._outer = len(outer)
        self._inner = inner
        self._tiles = tiles[self.columns]
        extents = space.lattice.extents
        self._spans = extents[sources[self.columns]]
        self.loops = extents[outer[self.rows]] // self._spans

    def least(self, costs: IntArray, possible: BoolArray) -> IntArray:
        """Per tile outside, the least cost of its `possible` pairs; `INFINITY` where there are none."""
        least = np.full(self._outer, INFINITY, dtype=np.int64)
        rows, costs = self.rows[possible], costs[possible]
        if len(rows):
            starts = np.flatnonzero(np.diff(rows, prepend=-1))
            least[rows[starts]] = np.minimum.reduceat(costs, starts)
        return least

    def only_over(self, dims: Sequence[int]) -> BoolArray:
        """Pairs whose loops all run over `dims`."""
        others = [d for d in range(len(self.space.active)) if d not in dims]
        only: BoolArray = (self.loops[:, others] == 1).all(axis=1)
        return only

    def led_by(self, members: frozenset[int]) -> BoolArray:
        """Pairs whose innermost loop, if they have any, may be one of a reuse class."""
        leading = list(self.space.leading(members))
        live = self.loops > 1
        possible: BoolArray = live[:, leading].any(axis=1) | ~live.any(axis=1)
        open_yet = np.ones(len(live), dtype=np.bool_)
        for dim in self._inner:
            if dim not in leading:
                possible = possible & ~(open_yet & live[:, dim])
            open_yet = open_yet & ~live[:, dim]
        return possible

    def beyond(self, boundary: Boundary, members: frozenset[int]) -> IntArray:
        """Cost of a boundary beyond what its tile tells, if the innermost loop is one of a reuse class.

        Returns
        -------
        IntArray
            In quanta, shape (pairs,).
        """
        known = boundary.unreused_words(self._tiles, boundary.led_words(members)[self._tiles])
        led = boundary.unreused_words(self._tiles, self._words(boundary, members))
        more: IntArray = np.maximum(boundary.extra(led) - boundary.extra(known), 0)
        return np.where(self._moved(boundary.place), more, 0)

    def _moved(self, place: int) -> BoolArray:
        """Pairs whose loops move a dataspace."""
        moved: BoolArray = (self.loops[:, sorted(self.space.views[place].relevant)] > 1).any(axis=1)
        return moved

    def _words(self, boundary: Boundary, members: frozenset[int]) -> IntArray:
        """Words that deliver all tiles once, in all instances."""
        view, leading = self.space.views[boundary.place], self.space.leading(members)
        words = self.space.tables[boundary.place].plain_words[self._tiles]
        for number, dim in view.windows:
            if dim in leading:
                led = self._led_words(boundary, number, dim)
                words = np.where(self.loops[:, dim] > 1, np.minimum(words, led), words)
        return words

    def _led_words(self, boundary: Boundary, number: int, dim: int) -> IntArray:
        """The same if the loop over `dim` is the innermost one that moves a component."""
        component = self.space.views[boundary.place].components[number]
        tables = self.space.tables[boundary.place]
        if not component.linear:
            return np.zeros(len(self.rows), dtype=np.int64)
        moves = {d: self._spans[:, d] * component.coefficient(d) for d in component.dims}
        loops = {d: self.loops[:, d] for d in component.dims}
        along, back, _ = least_jumps(moves, loops, dim)
        positions = {d: self._positions(boundary, d) for d in component.dims}
        every = math.prod(positions.values())
        farther = every > math.prod(loops.values())
        # Loops farther out are not known: those over the same dimension move the tile on.
        lead = np.abs(moves[dim])
        onward = np.where(positions[dim] == every, lead, 0)
        along = np.where(farther, np.minimum(along, onward), along)
        if component.turns:
            back = np.where(farther & (positions[dim] < every), 0, back)
        box = tables.boxes[number][self._tiles]
        return moved_words(
            tables.plain_words[self._tiles], box, every, Movement(loops[dim], lead, along, back)
        )

    def _positions(self, boundary: Boundary, dim: int) -> IntArray:
        """Positions of a boundary's tile along a dimension, in one instance."""
        lattice = self.space.lattice
        positions: IntArray = lattice.bounds[dim] // lattice.extents[self._tiles, dim]
        return -(-positions // boundary.unrolling.above[dim])
