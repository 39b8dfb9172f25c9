"""One step of the dynamic program: from the tiles inside of a slot to those outside."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from solver.search.boundary import Boundary
from solver.search.lattice import INFINITY, BoolArray, IntArray
from solver.search.leads import MOST_PAIRS, SlotPairs, component_of, led_twice
from solver.search.rows import CLOSED, Row, Waiting
from solver.search.windows import NEVER, Returns

if TYPE_CHECKING:
    from solver.search.bounds import LatticeBounds


class SlotStep:
    """The step over the loops of level `level`, whose tiles are `outer`.

    ``tiles`` are those of the level inside and ``sources`` the same, times a spatial choice. Where
    windows slide and the pairs of tiles are few, each pair tells which loops may lead; otherwise the
    least words over all loops are charged at the tile inside.
    """

    def __init__(
        self, bounds: LatticeBounds, level: int, tiles: IntArray, sources: IntArray, outer: IntArray
    ) -> None:
        self.bounds = bounds
        self.level = level
        self.tiles = tiles
        self.outer = outer
        self._sources = sources
        self._slot = bounds.space.slots[level]
        self.reach = self._slot.reach(sources, outer)
        self._surcharges: dict[tuple[Waiting, frozenset[int] | None], IntArray] = {}
        self._known: dict[frozenset[Waiting], list[tuple[frozenset[Waiting], BoolArray]]] = {}
        self._ended: dict[tuple[int, int], IntArray] = {}
        self._conflicts: dict[
            tuple[Waiting, frozenset[int] | None, tuple[tuple[int, int], ...]], IntArray
        ] = {}

    @cached_property
    def _inner(self) -> tuple[int, ...]:
        """Dimensions whose loops are the innermost ones of the slot, in this order, as the user has it."""
        active, rules = self.bounds.space.active, self.bounds.space.mapspace.temporal[self.level]
        return tuple(active.index(dim) for dim in rules.inner if dim in active)

    @cached_property
    def _places(self) -> tuple[IntArray, IntArray]:
        """Places among the tiles outside and inside of all pairs that the slot's loops connect."""
        rows, columns = np.nonzero(self._slot.connects(self._sources, self.outer, None))
        return rows, columns

    @cached_property
    def pairs(self) -> SlotPairs:
        """The pairs of tiles that the slot's loops connect, by the tiles outside."""
        rows, columns = self._places
        tiles, sources, targets = self.tiles[columns], self._sources[columns], self.outer[rows]
        return SlotPairs(self.bounds.space, tiles, sources, targets, self._inner)

    def outwards(self, row: Row, members: frozenset[int], costs: IntArray) -> Iterator[tuple[Row, IntArray]]:
        """Rows outside of the slot, with their bounds at the tiles outside.

        Parameters
        ----------
        row
            What is open inside.
        members
            Dataspaces that the slot's innermost loop leaves in place.
        costs
            Energy inside of each of ``sources``, the boundary of the level inside included.
        """
        boundaries = self.bounds.boundaries[self.level + 1]
        here = [b for b in boundaries if b.counts_in(members)]
        due = self.bounds.due(row, self.level + 1)
        loose = [b for b in boundaries if b.sliding and not b.counts_in(members)]
        waiting = row.waiting | {Waiting(b.place, b.level) for b in loose}
        keys = [(CLOSED, [*here, *due]), *self._staying(row, here, due)]
        if not self._pairwise(waiting, (*here, *due)):
            for key, ended in keys:
                least = self.reach.least(costs, self._leaving_in_place(key))
                yield key, np.minimum(least + self._charges(ended), INFINITY)
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
        rows, columns = self._places
        possible = self.pairs.leaving(members) & (costs < INFINITY)[columns]
        if key.place is not None:
            possible &= self.pairs.only_over(self.bounds.space.views[key.place].irrelevant)
        # Most rows are open at few tiles only.
        some = np.flatnonzero(possible)
        charged = costs[columns[some]]
        for own in waiting:
            charged = np.minimum(charged + self._surcharge(own, members)[some], INFINITY)
        slid = [b for b in ended if self._slides(b)]
        steady = [b for b in ended if not self._slides(b)]
        for b in slid:
            charged = charged + self._end(b)[some]
        charged = charged + self._conflict(waiting, members, steady)[some]
        charges = self._charges(steady)
        for left, pairs in self._outcomes(waiting | {Waiting(b.place, b.level) for b in slid}):
            those = pairs[some]
            least = np.full(len(self.outer), INFINITY, dtype=np.int64)
            np.minimum.at(least, rows[some[those]], charged[those])
            yield replace(key, waiting=left), np.minimum(least + charges, INFINITY)

    def _pairwise(self, waiting: Iterable[Waiting], ended: Iterable[Boundary]) -> bool:
        """Whether it is worth while to look at each pair of tiles."""
        if not self.bounds.sharp or len(self._sources) * len(self.outer) > MOST_PAIRS:
            return False
        slides = any(map(self._slides, ended)) or any(self._same_tile(own) for own in waiting)
        return slides or bool(self._inner)

    def _leaving_in_place(self, row: Row) -> tuple[int, ...] | None:
        """Dimensions whose loops leave a row's dataspace in place, None if there is none."""
        return None if row.place is None else tuple(sorted(self.bounds.space.views[row.place].irrelevant))

    def _charges(self, ended: Iterable[Boundary]) -> IntArray:
        """What boundaries cost, at the tiles outside, if their reuse ends here."""
        charges = np.zeros(len(self.outer), dtype=np.int64)
        for b in ended:
            charges = charges + b.reused(self.level, self.outer)
        return charges

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
        ended = [b for b in (*here, *due) if row.place is not None and b.place == row.place]
        for b in here:
            if b.place != row.place:
                yield Row(b.place, self.level + 1), ended

    def _slides(self, boundary: Boundary) -> bool:
        """Whether the loops of this slot tell what a boundary costs."""
        return boundary.sliding and self.bounds.same_tile(self.level + 1, boundary)

    def _same_tile(self, own: Waiting) -> bool:
        return self.bounds.same_tile(self.level + 1, Boundary(self.bounds.sub, own.place, own.level))

    def _outcomes(self, waiting: frozenset[Waiting]) -> list[tuple[frozenset[Waiting], BoolArray]]:
        """The pairs by what is left waiting outside of them."""
        if waiting not in self._known:
            found = [(frozenset[Waiting](), np.ones(len(self.pairs.tiles), dtype=np.bool_))]
            for own in waiting if self.level else ():
                found = [
                    (left | kept, pairs & these)
                    for left, pairs in found
                    for kept, these in self._left(own)
                    if (pairs & these).any()
                ]
            self._known[waiting] = found
        return self._known[waiting]

    def _left(self, own: Waiting) -> Iterator[tuple[frozenset[Waiting], BoolArray]]:
        """What is left of one boundary that waits, and for which pairs."""
        rest = np.ones(len(self.pairs.tiles), dtype=np.bool_)
        if self._same_tile(own):
            still = self.pairs.only_over(()) if own.lead is not None else ~self._moved(own.place)
            yield frozenset((own,)), rest & still
            rest = rest & ~still
            for dim, count, pairs in self.pairs.alone(own.place) if own.lead is None else ():
                yield frozenset((Waiting(own.place, own.level, dim, count),)), pairs
                rest = rest & ~pairs
        yield frozenset(), rest

    def _moved(self, place: int) -> BoolArray:
        """Pairs with a loop that moves a dataspace."""
        return self.pairs.moving(sorted(self.bounds.space.views[place].relevant))

    def _surcharge(self, own: Waiting, members: frozenset[int]) -> IntArray:
        """What a boundary that waits costs beyond its least, as the loops of this slot have it."""
        key = own, members if own.lead is None else None
        if key not in self._surcharges:
            boundary = Boundary(self.bounds.sub, own.place, own.level)
            if not self._same_tile(own):
                cost = np.zeros(len(self.pairs.tiles), dtype=np.int64)
            elif own.lead is None:
                cost = self._slide(boundary, members)
            else:
                cost = self._led(boundary, own.lead, own.times)
            self._surcharges[key] = cost
        return self._surcharges[key]

    def _slide(self, boundary: Boundary, members: frozenset[int]) -> IntArray:
        """The surcharge if the innermost loop of this slot, if there is one, moves the tile.

        That loop is one of those that leave `members` in place, and it leads.
        """
        words = self.pairs.words(boundary.place, boundary.unrolling, self.bounds.space.leading(members))
        moved = self._moved(boundary.place)
        # If no loop moves the tile the slot is empty, for its innermost loop would.
        unmoved = np.where(self.pairs.only_over(()), 0, INFINITY)
        surcharge: IntArray = np.where(moved, self._slid(boundary, words), unmoved)
        return surcharge

    def _conflict(
        self, waiting: Iterable[Waiting], members: frozenset[int], ended: Sequence[Boundary]
    ) -> IntArray:
        """What windows that slide and boundaries whose reuse ends cost more together than apart.

        A loop that returns to a window's tile lies inside of all that move it elsewhere. If it moves
        another dataspace as well, that one stays in place for few of the slot's loops.
        """
        conflict: IntArray = np.zeros(len(self.pairs.tiles), dtype=np.int64)
        for own in waiting:
            if ended and self._same_tile(own):
                conflict = np.maximum(conflict, self._conflicting(own, members, ended))
        return conflict

    def _conflicting(self, own: Waiting, members: frozenset[int], ended: Sequence[Boundary]) -> IntArray:
        key = own, members if own.lead is None else None, tuple((b.place, b.level) for b in ended)
        if key not in self._conflicts:
            if own.lead is None:
                self._conflicts[key] = self._leading_here(own, members, ended)
            else:
                self._conflicts[key] = self._leading_inside(own, own.lead, ended)
        return self._conflicts[key]

    def _leading_here(self, own: Waiting, members: frozenset[int], ended: Sequence[Boundary]) -> IntArray:
        """A conflict where one of the slot's loops leads, one of those that leave `members` in place."""
        boundary = Boundary(self.bounds.sub, own.place, own.level)
        charges = self._charges(ended)[self._places[0]]
        plain = self.bounds.space.tables[own.place].plain_words[self.pairs.tiles]
        together = self._slid(boundary, plain) + charges
        for lead in self.pairs.leads(own.place, boundary.unrolling, self.bounds.space.leading(members)):
            straight = self._slid(boundary, lead.straight) + charges
            short = self._cut_short(lead.partners, lead.apart, ended)
            returning = self._slid(boundary, lead.returning) + short
            together = np.minimum(together, np.where(lead.may_be_straight, straight, INFINITY))
            together = np.minimum(together, np.where(lead.may_return, returning, INFINITY))
        more = np.maximum(together - charges - self._surcharge(own, members), 0)
        conflict: IntArray = np.where(self._moved(own.place), np.minimum(more, INFINITY), 0)
        return conflict

    def _leading_inside(self, own: Waiting, dim: int, ended: Sequence[Boundary]) -> IntArray:
        """A conflict where a loop inside of the slot leads, and only those of the slot may return."""
        view, pairs = self.bounds.space.views[own.place], self.pairs
        boundary = Boundary(self.bounds.sub, own.place, own.level)
        _, component = component_of(view, dim)
        apart, partners = view.apart(component), [d for d in component.dims if d != dim]
        charges, surcharge = self._charges(ended)[self._places[0]], self._surcharge(own, frozenset())
        straight = led_surcharge(boundary, pairs.tiles, dim, own.times, NEVER) + charges
        returning = surcharge + self._cut_short(partners, apart, ended)
        more = np.maximum(np.minimum(straight, returning) - charges - surcharge, 0)
        within = pairs.moving(apart) & (pairs.loops(dim) == 1)
        conflict: IntArray = np.where(within, np.minimum(more, INFINITY), 0)
        return conflict

    def _cut_short(
        self, partners: Sequence[int], apart: Sequence[int], ended: Sequence[Boundary]
    ) -> IntArray:
        """What boundaries cost whose reuse ends in the slot, if a loop over `partners` returns to a tile.

        All loops inside of it leave the window's other ranks, `apart`, alone.
        """
        charges: IntArray = self._charges(ended)[self._places[0]]
        views = self.bounds.space.views
        if not all(set(partners) <= views[b.place].relevant for b in ended):
            return charges
        short = np.zeros(len(self.pairs.tiles), dtype=np.int64)
        for b in ended:
            inside = views[b.place].irrelevant - set(apart)
            short = short + b.reused(self.level, self.pairs.grown(sorted(inside)))
        return np.maximum(short, charges)

    def _slid(self, boundary: Boundary, words: IntArray) -> IntArray:
        """What a boundary that slides costs beyond its least, if a tile's dataspace takes so many words."""
        least = boundary.extra(boundary.unreused_words(self.tiles))[self._places[1]]
        surcharge: IntArray = np.maximum(
            boundary.extra(boundary.unreused_words(self.pairs.tiles, words)) - least, 0
        )
        return surcharge

    def _led(self, boundary: Boundary, dim: int, count: int) -> IntArray:
        """The surcharge if a loop inside leads, for the loops that may return to its tiles."""
        returns = self.pairs.returns_to(boundary.place, dim, count)
        return led_surcharge(boundary, self.pairs.tiles, dim, count, returns)

    def _end(self, boundary: Boundary) -> IntArray:
        """What a reused boundary costs, beyond its surplus, if its reuse ends in this slot."""
        key = boundary.place, boundary.level
        if key not in self._ended:
            words = self.pairs.words(boundary.place, boundary.unrolling)
            # Where no loop moves the tile, the first one of a slot farther out does.
            words = np.where(self._moved(boundary.place), words, boundary.relevant_words[self.pairs.tiles])
            rows, columns = self._places
            least = boundary.reused(self.level, self.outer)[rows]
            exact = boundary.reused(self.level, self.pairs.targets, words=words)
            self._ended[key] = np.maximum(exact - boundary.surplus(self.tiles)[columns], least)
        return self._ended[key]


def led_surcharge(boundary: Boundary, tiles: IntArray, dim: int, count: int, returns: Returns) -> IntArray:
    """What a boundary costs beyond its least if a loop over `dim` leads.

    The loop has `count` iterations and spans `tiles`.
    """
    sub = boundary.sub
    words = led_twice(sub.space, boundary.place, dim, count, tiles, boundary.unrolling, returns)
    least, exact = (boundary.extra(boundary.unreused_words(tiles, each)) for each in words)
    surcharge: IntArray = np.maximum(exact - least, 0)
    return surcharge
