"""One step of the dynamic program: from the tiles inside of a slot to those outside."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property

import numpy as np

from solver.search.arrays import IntArray
from solver.search.bounds.boundary import Boundaries, Boundary
from solver.search.bounds.pairs import MOST_PAIRS, SlotPairs
from solver.search.bounds.rows import CLOSED, Row
from solver.search.space.lattice import INFINITY, Reach


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
        self._pairwise = pairwise and len(sources) * len(outer) <= MOST_PAIRS

    @cached_property
    def _reach(self) -> Reach:
        return self._slot.reach(self._sources, self.outer)

    @cached_property
    def _pairs(self) -> SlotPairs:
        connected = self._slot.connects(self._sources, self.outer, None)
        return SlotPairs(self.space, self._tiles, self._sources, self.outer, connected, self._inner)

    def outwards(self, row: Row, members: frozenset[int], costs: IntArray) -> Iterator[tuple[Row, IntArray]]:
        """Rows outside of the slot, with their bounds at the tiles outside.

        The innermost loop of the slot leaves `members` in place.

        Yields
        ------
        tuple[Row, IntArray]
            Quanta, shape (outer,), `INFINITY` at the most. A row may come several times: the least counts.
        """
        boundaries = self.boundaries.by_level[self.level + 1]
        here = [b for b in boundaries if b.counts_in(members)]
        due = self.boundaries.due(row, self.level + 1)
        loose = [b for b in boundaries if b.sliding and not b.counts_in(members)]
        if self._pairwise and (self._inner or any(b.sliding for b in boundaries)):
            yield from self._by_pairs(row, members, costs, loose)
            return
        for key, ended in ((CLOSED, [*here, *due]), *self._staying(row, here, due)):
            least = self._reach.least(costs, self._loops(key, members))
            yield key, np.minimum(least + self._charges(ended), INFINITY)

    def _by_pairs(
        self, row: Row, members: frozenset[int], costs: IntArray, loose: Sequence[Boundary]
    ) -> Iterator[tuple[Row, IntArray]]:
        """The same, with what each pair of tiles tells of windows."""
        here = [b for b in self.boundaries.by_level[self.level + 1] if b.counts_in(members)]
        due, pairs = self.boundaries.due(row, self.level + 1), self._pairs
        charged = costs[pairs.columns]
        possible = pairs.led_by(members) & (charged < INFINITY)
        together, apart = pairs.split(members, self.level, loose)
        for key, ended in ((CLOSED, [*here, *due]), *self._staying(row, here, due)):
            going_on = possible
            if key.place is not None:
                going_on = possible & pairs.only_over(sorted(self.space.views[key.place].irrelevant))
            more = np.minimum(together, apart(ended))
            for boundary in (b for b in ended if b.sliding and b in here):
                more = more + pairs.ended(boundary, self.level)
            least = pairs.least(np.minimum(charged + more, INFINITY), going_on)
            yield key, np.minimum(least + self._charges(ended), INFINITY)

    def _charges(self, ended: Iterable[Boundary]) -> IntArray:
        """What boundaries cost whose reuse ends at the tiles outside."""
        none = np.zeros(len(self.outer), dtype=np.int64)
        return sum((boundary.reused(self.level, self.outer) for boundary in ended), none)

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

    def _staying(
        self, row: Row, here: list[Boundary], due: list[Boundary]
    ) -> Iterator[tuple[Row, list[Boundary]]]:
        """Rows outside of the slot, and the boundaries that are charged because they end in it.

        The row may go on, or end in favour of another dataspace of the class that goes on. The rest of
        the class is charged nothing: it might go on too.
        """
        if self.level == 0:
            return
        if row.place is not None:
            yield Row(row.place, row.innermost), []
        ended = [
            boundary for boundary in (*here, *due) if row.place is not None and boundary.place == row.place
        ]
        for boundary in here:
            if boundary.place != row.place:
                yield Row(boundary.place, self.level + 1), ended
