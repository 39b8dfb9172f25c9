"""One step of the dynamic program: from the tiles inside of a slot to those outside."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np

from solver.search.arrays import BoolArray, IntArray
from solver.search.bounds.boundary import Boundaries, Boundary
from solver.search.bounds.conflicts import Conflicts
from solver.search.bounds.leads import MOST_PAIRS, SlotPairs
from solver.search.bounds.rows import CLOSED, Row, Waiting
from solver.search.bounds.surcharges import Surcharges, charges
from solver.search.space.lattice import INFINITY


class SlotStep:
    """The step over the loops of level `level`, whose tiles are `outer`.

    ``tiles`` are those of the level inside and ``sources`` the same, times a spatial choice. If the step is
    `sharp`, windows slide and the pairs of tiles are few, each pair tells which loops may lead; otherwise the
    least words over all loops are charged at the tile inside.

    Parameters
    ----------
    level
        0 is the outermost one.
    tiles, sources
        Lattice indices, one entry per tile and spatial choice that fit together.
    outer
        Lattice indices of the tiles outside.
    sharp
        Whether pairs are looked at, of which there are `MOST_PAIRS` at most.
    """

    def __init__(
        self,
        boundaries: Boundaries,
        level: int,
        tiles: IntArray,
        sources: IntArray,
        outer: IntArray,
        sharp: bool,
    ) -> None:
        self.boundaries = boundaries
        self.space = boundaries.sub.space
        self.level = level
        self.tiles = tiles
        self.outer = outer
        self.sharp = sharp
        self._sources = sources
        self._slot = self.space.slots[level]
        self.reach = self._slot.reach(sources, outer)
        self._known: dict[frozenset[Waiting], list[tuple[frozenset[Waiting], BoolArray]]] = {}

    @cached_property
    def _inner(self) -> tuple[int, ...]:
        """Dimensions whose loops are the innermost ones of the slot, in this order, as the user has it."""
        active, rules = self.space.active, self.space.mapspace.temporal[self.level]
        return tuple(active.index(dim) for dim in rules.inner if dim in active)

    @cached_property
    def _surcharges(self) -> Surcharges:
        """What all pairs of tiles tell that the slot's loops connect, by the tiles outside."""
        rows, columns = np.nonzero(self._slot.connects(self._sources, self.outer, None))
        tiles, sources, targets = self.tiles[columns], self._sources[columns], self.outer[rows]
        pairs = SlotPairs(self.space, tiles, sources, targets, self._inner)
        return Surcharges(self.boundaries, self.level, self.tiles, self.outer, rows, columns, pairs)

    @cached_property
    def _conflicts(self) -> Conflicts:
        return Conflicts(self._surcharges)

    def outwards(self, row: Row, members: frozenset[int], costs: IntArray) -> Iterator[tuple[Row, IntArray]]:
        """Rows outside of the slot, with their bounds at the tiles outside.

        Yields
        ------
        tuple[Row, IntArray]
            Quanta, shape (outer,), `INFINITY` at the most. A row may come several times: the least counts.
        """
        boundaries = self.boundaries.by_level[self.level + 1]
        here = [b for b in boundaries if b.counts_in(members)]
        due = self.boundaries.due(row, self.level + 1)
        loose = [b for b in boundaries if b.sliding and not b.counts_in(members)]
        waiting = row.waiting | {Waiting(b.place, b.level) for b in loose}
        keys = [(CLOSED, [*here, *due]), *self._staying(row, here, due)]
        if not self._pairwise(waiting, (*here, *due)):
            for key, ended in keys:
                least = self.reach.least(costs, self._leaving_in_place(key))
                yield key, np.minimum(least + charges(ended, self.level, self.outer), INFINITY)
            return
        for key, ended in keys:
            yield from self._by_pairs(key, ended, waiting, members, costs)

    def _by_pairs(
        self,
        key: Row,
        ended: Sequence[Boundary],
        waiting: frozenset[Waiting],
        members: frozenset[int],
        costs: IntArray,
    ) -> Iterator[tuple[Row, IntArray]]:
        """The row `key` outside of the slot, with all that may be left waiting, by pairs of tiles."""
        slot, pairs = self._surcharges, self._surcharges.pairs
        possible = pairs.leaving(members) & (costs < INFINITY)[slot.columns]
        if key.place is not None:
            possible &= pairs.only_over(self.space.views[key.place].irrelevant)
        # Most rows are open at few tiles only.
        some = np.flatnonzero(possible)
        charged = costs[slot.columns[some]]
        for one in waiting:
            charged = np.minimum(charged + slot.waiting(one, members)[some], INFINITY)
        told = [boundary for boundary in ended if self._told_by_pairs(boundary)]
        steady = [boundary for boundary in ended if not self._told_by_pairs(boundary)]
        for boundary in told:
            charged = charged + slot.ending(boundary)[some]
        charged = charged + self._conflicts.of(waiting, members, steady)[some]
        steadily = charges(steady, self.level, self.outer)
        for left, where in self._outcomes(
            waiting | {Waiting(boundary.place, boundary.level) for boundary in told}
        ):
            chosen = where[some]
            least = np.full(len(self.outer), INFINITY, dtype=np.int64)
            np.minimum.at(least, slot.rows[some[chosen]], charged[chosen])
            yield replace(key, waiting=left), np.minimum(least + steadily, INFINITY)

    def _pairwise(self, waiting: Iterable[Waiting], ended: Iterable[Boundary]) -> bool:
        """Whether it is worth while to look at each pair of tiles."""
        if not self.sharp or len(self._sources) * len(self.outer) > MOST_PAIRS:
            return False
        told = any(map(self._told_by_pairs, (*ended, *map(self.boundaries.of, waiting))))
        return told or bool(self._inner)

    def _leaving_in_place(self, row: Row) -> tuple[int, ...] | None:
        """Dimensions whose loops leave a row's dataspace in place, None if there is none."""
        return None if row.place is None else tuple(sorted(self.space.views[row.place].irrelevant))

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

    def _told_by_pairs(self, boundary: Boundary) -> bool:
        """Whether the loops of this slot tell what a boundary costs."""
        return boundary.sliding and self.boundaries.inward(self.level + 1, boundary) is not None

    def _outcomes(self, waiting: frozenset[Waiting]) -> list[tuple[frozenset[Waiting], BoolArray]]:
        """The pairs by what is left waiting outside of them."""
        if waiting not in self._known:
            outcomes = [(frozenset[Waiting](), np.ones(len(self._surcharges.pairs.tiles), dtype=np.bool_))]
            for one in waiting if self.level else ():
                outcomes = [
                    (left | kept, pairs & these)
                    for left, pairs in outcomes
                    for kept, these in self._still_waiting(one)
                    if (pairs & these).any()
                ]
            self._known[waiting] = outcomes
        return self._known[waiting]

    def _still_waiting(self, waiting: Waiting) -> Iterator[tuple[frozenset[Waiting], BoolArray]]:
        """What is left of one boundary that waits, and for which pairs."""
        slot = self._surcharges
        rest = np.ones(len(slot.pairs.tiles), dtype=np.bool_)
        if slot.waits_here(waiting):
            still = slot.still_open(waiting)
            yield frozenset((waiting,)), rest & still
            rest = rest & ~still
            inward = slot.inward(self.boundaries.of(waiting))
            for later, pairs in self._led(waiting, inward) if waiting.lead is None else self._onward(waiting):
                yield frozenset((later,)), pairs
                rest = rest & ~pairs
        yield frozenset(), rest

    def _led(self, waiting: Waiting, inward: int) -> Iterator[tuple[Waiting, BoolArray]]:
        """What waits if a loop of this slot leads."""
        for dim, count, pairs in self._surcharges.pairs.alone(waiting.place, inward):
            yield waiting._replace(lead=dim, times=count, slot=self.level), pairs

    def _onward(self, waiting: Waiting) -> Iterator[tuple[Waiting, BoolArray]]:
        """What waits if the slot's only loop goes on past the tiles of a lead inside."""
        for count, movement, pairs in self._surcharges.onward(waiting):
            yield waiting._replace(onward=waiting.onward * count, passed=waiting.passed + movement), pairs
