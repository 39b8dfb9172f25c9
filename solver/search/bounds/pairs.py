"""Pairs of tiles inside and outside of a slot: the loops between them, and what these bring of windows."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from solver.search.arrays import BoolArray, IntArray
from solver.search.bounds.boundary import Boundary
from solver.search.space.dataspaces import Component
from solver.search.space.lattice import INFINITY
from solver.search.space.search_space import Led, SearchSpace
from solver.search.space.windows import (
    NOWHERE,
    Along,
    Lead,
    Words,
    along_component,
    begun_anew,
    least_jumps,
    least_words,
)

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
        self._targets = outer[self.rows]
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
        possible: BoolArray = _any(live, leading) | ~_any(live, range(live.shape[1]))
        open_yet = np.ones(len(live), dtype=np.bool_)
        for dim in self._inner:
            if dim not in leading:
                possible &= ~(open_yet & live[:, dim])
            open_yet &= ~live[:, dim]
        return possible

    def split(
        self, members: frozenset[int], level: int, loose: Sequence[Boundary]
    ) -> tuple[IntArray, Callable[[Sequence[Boundary]], IntArray]]:
        """Cost of boundaries beyond what tiles tell, if the innermost loop is one of a reuse class.

        Either each other loop has one of the class inside that moves a window to where nothing overlaps, and
        begins with a whole tile. Or it lies inside of all such loops of the class; then these do not leave
        the class in place.

        Parameters
        ----------
        members
            The reuse class.
        level
            Of the slot.
        loose
            Boundaries with windows that the class does not leave in place.

        Returns
        -------
        tuple
            The cost in the first case, in quanta of shape (pairs,), and a function that gives the cost in the
            second one for boundaries whose reuse ends in the slot.
        """
        group = [d for d in range(len(self.space.active)) if self.space.left_in_place(d) == members]
        live = self.loops[:, group] > 1
        none = np.zeros(len(self.rows), dtype=np.int64)
        together = sum((self._beyond(b, members, group) for b in loose), none)
        lesser = [d for d in self.space.leading(members) if d not in group]
        inner = live.any(axis=1) & (self.loops[:, lesser] > 1).any(axis=1)
        elsewhere = self._fewest_elsewhere(loose, group)
        splits = (elsewhere > 1) & ((live.sum(axis=1) > 1) | inner) & ~self.only_over(group)
        if not splits.any():
            return together, lambda ended: together
        others = sum((self._beyond(b, members, ()) for b in loose), none)

        def apart(ended: Sequence[Boundary]) -> IntArray:
            cost = others
            for boundary in ended:
                if boundary.place in members and self.space.views[boundary.place].irrelevant <= set(group):
                    cost = cost + self._shortened(boundary, level, np.where(splits, elsewhere, 1))
            return np.where(splits, cost, INFINITY)

        return together, apart

    def _fewest_elsewhere(self, loose: Sequence[Boundary], group: Sequence[int]) -> IntArray:
        """Iterations of the loops of a group that move one of some windows to where nothing overlaps.

        Those of the window with the fewest, but more than one; 1 if there is none.
        """
        fewest = np.full(len(self.rows), NOWHERE, dtype=np.int64)
        for place in {boundary.place for boundary in loose}:
            dims = sorted(self.space.views[place].apart.intersection(group))
            moves: IntArray = self.loops[:, dims].prod(axis=1)
            fewest = np.where(moves > 1, np.minimum(fewest, moves), fewest)
        return np.where(fewest < NOWHERE, fewest, 1)

    def ended(self, boundary: Boundary, level: int, repeats: int) -> IntArray:
        """Cost of a boundary beyond what either tile tells, if reuse of the inner one ends in the slot."""
        space, place = self.space, boundary.place
        irrelevant = space.tables[place].irrelevant_tiles[self._targets]
        outside = irrelevant // boundary.sub.unused_above(place, level)
        words, elsewhere = self._words(boundary, None, ()), self._elsewhere(place)
        inside = np.where(elsewhere, 1, outside)
        delivered = boundary.repeated_words(words, inside, outside // inside)
        known = boundary.surplus(self._tiles) + boundary.begun(self._tiles, repeats)
        known = known + boundary.ended(level, self._targets, repeats)
        return np.maximum(boundary.extra(delivered) - known, 0)

    def _shortened(self, boundary: Boundary, level: int, repeats: IntArray) -> IntArray:
        """What a boundary costs more if its dataspace has to be delivered so many times as often."""
        tiles = self._targets
        return boundary.reused(level, tiles, repeats=repeats) - boundary.reused(level, tiles)

    def _beyond(self, boundary: Boundary, members: frozenset[int], inside: Sequence[int]) -> IntArray:
        """Cost of a boundary beyond what its tile tells, loops over dimensions `inside` being innermost."""
        known = boundary.tile_words(self._tiles, Led(members))
        words, place = self._words(boundary, members, inside), boundary.place
        irrelevant = self.space.tables[place].irrelevant_tiles[self._tiles]
        repeats = irrelevant // boundary.sub.unused_above(place, boundary.level)
        still = math.prod(self.loops[:, d] for d in self.space.views[place].irrelevant)
        within = np.where(self._elsewhere(place), still, repeats)
        led = boundary.repeated_words(words, within, repeats // within)
        more: IntArray = np.maximum(boundary.extra(led) - boundary.extra(known), 0)
        return np.where(self._moved(boundary.place), more, 0)

    def _moved(self, place: int) -> BoolArray:
        """Pairs whose loops move a dataspace."""
        return _any(self.loops > 1, sorted(self.space.views[place].relevant))

    def _elsewhere(self, place: int) -> BoolArray:
        """Pairs whose loops move a dataspace to where nothing overlaps."""
        return _any(self.loops > 1, sorted(self.space.views[place].apart))

    def _words(self, boundary: Boundary, members: frozenset[int] | None, inside: Sequence[int]) -> Words:
        """Least words of deliveries if the slot's innermost loop is one of a reuse class, or any loop.

        Loops over dimensions `inside` lie inside of all others.
        """
        view = self.space.views[boundary.place]
        leading = view.window_dims if members is None else self.space.leading(members)
        none, moved = np.zeros(len(self.rows), dtype=np.bool_), self._moved(boundary.place)
        led_elsewhere = _any(self.loops > 1, sorted(view.apart.intersection(inside)))
        parts = [
            begun_anew(self._along(boundary, n), led_elsewhere)
            for n, c in enumerate(view.components)
            if c.sliding
        ]
        plain = self.space.tables[boundary.place].plain_words[self._tiles]

        def first(lead: Lead) -> BoolArray:
            here = (self.loops[:, lead.dim] > 1) | ~moved
            return lead.live & here if lead.dim in leading else none

        return least_words(plain, parts, first)

    def _along(self, boundary: Boundary, number: int) -> Along:
        """How loops move the tiles inside along a component: those of the slot, or any farther out."""
        space, place = self.space, boundary.place
        component, tiles = space.views[place].components[number], self._tiles
        box = space.tables[place].boxes[number][tiles]
        extents = {d: space.lattice.extents[tiles, d] for d in component.dims}
        counting = space.mapspace.counting
        known = along_component(component, box, extents, space.lattice, boundary.unrolling, counting)
        loops = {d: self.loops[:, d] for d in component.dims}
        every = np.where(self._elsewhere(place), math.prod(loops.values()), known.every)
        moved = _any(self.loops > 1, component.dims)
        elsewhere = self._elsewhere(place)
        farther = [lead._replace(live=lead.live & ~moved & ~elsewhere) for lead in known.leads]
        here = [self._lead(component, loops, lead, every) for lead in known.leads]
        return Along(box, every, (*here, *farther))

    def _lead(
        self, component: Component, loops: Mapping[int, IntArray], known: Lead, every: IntArray
    ) -> Lead:
        """The slot's loop over a dimension as the innermost one that moves a component."""
        dim = known.dim
        if not component.linear:
            return known._replace(live=loops[dim] > 1, bound=loops[dim], move=0, along=0, back=0)
        moves = {d: self._spans[:, d] * component.coefficient(d) for d in component.dims}
        along, back, _ = least_jumps(moves, loops, dim, self.space.mapspace.counting)
        outside = every > math.prod(loops.values())
        # Loops farther out are not known.
        along = np.where(outside, np.minimum(along, known.along), along)
        if component.turns:
            back = np.where(outside, np.minimum(back, known.back), back)
        return Lead(dim, loops[dim] > 1, loops[dim], np.abs(moves[dim]), along, back)


def _any(live: BoolArray, dims: Sequence[int]) -> BoolArray:
    """Pairs with a live loop over one of `dims`."""
    return np.logical_or.reduce(live[:, list(dims)], axis=1)  # type: ignore[no-any-return]
