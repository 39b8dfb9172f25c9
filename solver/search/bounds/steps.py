"""One step of the dynamic program: from the tiles inside of a slot to those outside."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

import numpy as np

from solver.search.arrays import IntArray
from solver.search.bounds.boundary import Boundaries, Boundary
from solver.search.bounds.pairs import MOST_PAIRS, SlotPairs
from solver.search.bounds.tables import CLOSED, Row
from solver.search.space.lattice import INFINITY, Reach
from solver.search.space.search_space import Led


class SlotStep:
    """The step over the loops of level `level`, whose tiles are `outer`.

    Parameters
    ----------
    level
        0 is the outermost one.
    tiles, sources
        Lattice indices of the tiles of the level inside, and the same times a spatial choice.
    outer
        Lattice indices of the tiles outside.
    pairwise
        Whether to look at each pair of tiles, where windows slide and the pairs are few.
    """

    def __init__(
        self,
        boundaries: Boundaries,
        level: int,
        tiles: IntArray,
        sources: IntArray,
        outer: IntArray,
        pairwise: bool,
    ) -> None:
        self.boundaries = boundaries
        self.space = boundaries.sub.space
        self.level = level
        self.outer = outer
        self._tiles = tiles
        self._sources = sources
        self._slot = self.space.slots[level]
        few = len(sources) * len(outer) <= MOST_PAIRS
        self._pairwise = pairwise and few

    @cached_property
    def _reach(self) -> Reach:
        return self._slot.reach(self._sources, self.outer)

    @cached_property
    def _pairs(self) -> SlotPairs:
        connected = self._slot.connects(self._sources, self.outer, None)
        return SlotPairs(self.space, self._tiles, self._sources, self.outer, connected, self._inner)

    def outwards(self, row: Row, led: Led, costs: IntArray) -> Iterator[tuple[Row, IntArray]]:
        """Rows outside of the slot, with their bounds at the tiles outside.

        The innermost loop of the slot is as `led` has it.

        Yields
        ------
        tuple[Row, IntArray]
            Quanta, shape (outer,), `INFINITY` at the most. A row may come several times: the least counts.
        """
        boundaries = self.boundaries.by_level[self.level + 1]
        if self._pairwise and (self._inner or any(b.sliding for b in boundaries)):
            yield from self._by_pairs(row, led.members, costs)
            return
        for key, begun, ended in self._ends(row, led.members):
            least = self._reach.least(self._with(costs, begun), self._loops(key, led.members))
            yield key, self._with_ended(least, ended)

    def _by_pairs(self, row: Row, members: frozenset[int], costs: IntArray) -> Iterator[tuple[Row, IntArray]]:
        """The same, with what each pair of tiles tells of windows."""
        boundaries, pairs = self.boundaries.by_level[self.level + 1], self._pairs
        loose = [b for b in boundaries if b.sliding and not b.counts_in(members)]
        leading = pairs.led_by(members)
        together, apart = pairs.split(members, self.level, loose)
        for key, begun, ended in self._ends(row, members):
            charged = self._with(costs, begun)[pairs.columns]
            going_on = leading & (charged < INFINITY)
            if key.place is not None:
                going_on = going_on & pairs.only_over(sorted(self.space.views[key.place].irrelevant))
            more = np.minimum(together, apart([boundary for boundary, _ in ended]))
            here = ((b, repeats) for b, repeats in ended if b.sliding and b.level == self.level + 1)
            more = sum((pairs.ended(b, self.level, repeats) for b, repeats in here), more)
            least = pairs.least(np.minimum(charged + more, INFINITY), going_on)
            yield key, self._with_ended(least, ended)

    def _with(self, costs: IntArray, begun: Sequence[_Reuse]) -> IntArray:
        """Costs of the tiles inside with those of deliveries that begin there."""
        for boundary, repeats in begun:
            if repeats > 1:
                costs = np.minimum(costs + boundary.begun(self._tiles, repeats), INFINITY)
        return costs

    def _with_ended(self, costs: IntArray, ended: Sequence[_Reuse]) -> IntArray:
        """Costs with those of boundaries whose reuse ends at the tiles outside."""
        charges = (np.minimum(b.ended(self.level, self.outer, repeats), INFINITY) for b, repeats in ended)
        whole: IntArray = np.minimum(sum(charges, costs), INFINITY)
        return whole

    @cached_property
    def _inner(self) -> tuple[int, ...]:
        """Dimensions whose loops are the innermost ones of the slot, in this order, as the user has it."""
        active, rules = self.space.active, self.space.mapspace.temporal[self.level]
        return tuple(active.index(dim) for dim in rules.inner if dim in active)

    def _loops(self, row: Row, members: frozenset[int]) -> tuple[int, ...] | None:
        """Dimensions that may have loops, if a row goes on and the innermost leaves `members` in place.

        None if all may.
        """
        leading = self.space.leading(members)
        first = next((n for n, dim in enumerate(self._inner) if dim in leading), len(self._inner))
        if row.place is None and not first:
            return None
        dims = range(len(self.space.active))
        still = dims if row.place is None else self.space.views[row.place].irrelevant
        return tuple(d for d in dims if d in still and d not in self._inner[:first])

    def _ends(
        self, row: Row, members: frozenset[int]
    ) -> Iterator[tuple[Row, Sequence[_Reuse], Sequence[_Reuse]]]:
        """Rows outside of the slot, with the reuse that begins at its tiles inside, and that ends in it.

        The row may go on, or end in favour of another dataspace of the class that goes on. The rest of
        the class is charged nothing: it might go on too.
        """
        here = [b for b in self.boundaries.by_level[self.level + 1] if b.counts_in(members)]
        joining = [(b, row.repeats) for b in here if row.place is not None and b.place == row.place]
        others = [b for b in here if b.place != row.place]
        due = [(b, row.repeats) for b in self.boundaries.due(row, self.level + 1)]
        # One dataspace at most is looked at so closely; of the others any number of deliveries is possible.
        varied = next((b for b in others if len(b.repeats) > 1), None)
        plain = [(b, 0) for b in others if b is not varied]
        for reuse in [[(varied, number)] for number in varied.repeats] if varied else [[]]:
            yield CLOSED, [*joining, *reuse], [*joining, *reuse, *plain, *due]
        if self.level == 0:
            return
        if row.place is not None:
            yield row, joining, []
        for boundary, number in ((b, number) for b in others for number in b.repeats):
            key = Row(boundary.place, self.level + 1, number)
            yield key, [*joining, (boundary, number)], [*joining, *due]


_Reuse = tuple[Boundary, int]
"""A boundary whose dataspace is reused, and how often it is delivered at least, as of a row."""
