"""One step of the dynamic program: from the tiles inside of a slot to those outside."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from solver.search.arrays import FloatArray, IntArray
from solver.search.bounds.boundary import Boundaries, Boundary
from solver.search.bounds.pairs import MOST_PAIRS, SlotPairs
from solver.search.bounds.tables import CLOSED, Row
from solver.search.space.counts import CountLattice
from solver.search.space.lattice import EITHER, INFINITY, MOVING, Alone, Mover, Reach
from solver.search.space.search_space import Led


class _Way(NamedTuple):
    """Loops of a slot.

    Parameters
    ----------
    dims
        What they may run over; None for anything.
    special
        Some that are among them.
    still, alone
        What the next loop outside is like, as of `Row`.
    mover
        One of `special` that costs more.
    """

    dims: tuple[int, ...] | None
    special: tuple[Alone, ...] = ()
    still: frozenset[int] = frozenset()
    alone: int | None = None
    mover: Mover | None = None

    @property
    def others(self) -> tuple[Alone, ...]:
        """The special loops, but for the mover."""
        mover = None if self.mover is None else self.mover.alone
        return tuple(own for own in self.special if own != mover)


class _First(NamedTuple):
    """A loop that moves the dataspace of boundaries first, with so many children, where reuse ends."""

    alone: Alone
    children: int
    ended: Sequence[Boundary]


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
    factors
        The spatial choice of each source, shape (sources, dimensions).
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
        factors: IntArray,
        pairwise: bool,
    ) -> None:
        self.boundaries = boundaries
        self.space = boundaries.sub.space
        self.level = level
        self.outer = outer
        self._tiles = tiles
        self._sources = sources
        self._factors = factors
        self._slot = self.space.slots[level]
        few = len(sources) * len(outer) <= MOST_PAIRS
        # With remainders, loops between two tiles are not known by their extents.
        self._pairwise = pairwise and few and not self.space.uneven

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
        if self.space.uneven:
            yield from self._uneven(row, led, costs)
            return
        for key, begun, ended in self._ends(row, led.members):
            least = self._reach.least(self._with(costs, begun), self._loops(key, led.members))
            yield key, np.minimum(least + self._charges(ended), INFINITY)

    def _uneven(self, row: Row, led: Led, costs: IntArray) -> Iterator[tuple[Row, IntArray]]:
        """The same where loops may have remainders: some leave tiles in place in passes of one iteration."""
        for key, _, ended in self._ends(replace(row, alone=None, still=frozenset()), led.members):
            charged = [boundary for boundary, _ in ended]
            for way in self._ways(led, self._loops(key, led.members)):
                yield from self._going(way, key, charged, costs)
            if led.alone is not None and self.level and not charged:
                # No loop here: the next one outside is as `led` has it.
                yield replace(key, alone=led.alone.dim, still=led.still), self._reach.least(costs, ())

    def _ways(self, led: Led, dims: tuple[int, ...] | None) -> Iterator[_Way]:
        """Loops that the slot may have, if the innermost one is as `led` has it."""
        if led.alone is None:
            yield _Way(dims)
            return
        every = tuple(range(len(self.space.active))) if dims is None else dims
        for other in every:
            if other != led.alone.dim and self.space.left_in_place(other) == led.still:
                yield from self._repeating(led, every, (led.alone, Alone(other, MOVING)))
        only = tuple(d for d in every if d == led.alone.dim)
        if not self.level:
            yield _Way(only, (led.alone,))
            return
        # The next loop outside runs over another dimension, or over the same one.
        yield _Way(only, (led.alone,), led.still)
        if led.still != led.members:
            yield _Way(only, (led.alone,), led.members)

    def _repeating(self, led: Led, dims: tuple[int, ...], special: tuple[Alone, ...]) -> Iterator[_Way]:
        """The same if a loop of the slot repeats nothing of what stays by chance.

        Nor do loops farther out, unless another one moves that in between.
        """
        assert led.alone is not None
        staying = [
            b
            for b in self.boundaries.by_level[self.level + 1]
            if b.place in led.still and led.alone in b.alone
        ]
        if not self.level or len(staying) != 1:
            yield _Way(dims, special)
            return
        place, dim = staying[0].place, led.alone.dim
        relevant = sorted(self.space.views[place].relevant)
        only = tuple(d for d in dims if d == dim or d not in relevant)
        yield _Way(only, special, frozenset((place,)))
        for children in self._children(dim):
            first = _First(led.alone, children, staying)
            yield _Way(dims, special, mover=self._mover(first, beside=True))
            for other in (d for d in relevant if d != dim):
                mover = self._mover(first, other, True, beside=True)
                yield _Way(dims, (*special, Alone(other, EITHER)), mover=mover)
            for other in relevant:
                yield _Way(only, special, alone=other, mover=self._mover(first, other, beside=True))

    def _going(
        self, way: _Way, key: Row, ended: Sequence[Boundary], costs: IntArray
    ) -> Iterator[tuple[Row, IntArray]]:
        """Rows outside of such loops, if the reuse of boundaries ends there."""
        outside = replace(key, still=way.still, alone=way.alone)
        if way.mover is not None:
            chosen = self._factors[:, way.mover.alone.dim] == way.mover.children
            costs = np.where(chosen, costs, INFINITY)
        least = self._reach.least(costs, way.dims, way.others, way.mover)
        if not ended:
            yield outside, least
        elif self._same_movers(ended):
            yield outside, self._plus(least, ended)
            if way.alone is None:
                yield from self._moved_alone(way, key, ended, costs)
        else:
            charges = sum((np.minimum(b.ended(self.level, self.outer, 0), INFINITY) for b in ended), least)
            yield outside, np.minimum(charges, INFINITY)

    def _same_movers(self, boundaries: Sequence[Boundary]) -> bool:
        """Whether the same loops move the dataspaces of boundaries, as far as it is known how."""
        return len({boundary.place for boundary in boundaries}) == 1 and bool(boundaries[0].alone)

    def _plus(self, costs: IntArray, ended: Sequence[Boundary]) -> IntArray:
        """Costs with those of boundaries whose reuse ends in the slot, unless tiles stay by chance."""
        whole: IntArray = np.minimum(sum((self._ended(b, b.least_repeated) for b in ended), costs), INFINITY)
        return whole

    def _ended(self, boundary: Boundary, repeated: IntArray | int) -> IntArray:
        cost: IntArray = boundary.delivered(boundary.times(self.level, self.outer, None), repeated)
        return cost

    def _moved_alone(
        self, way: _Way, key: Row, ended: Sequence[Boundary], costs: IntArray
    ) -> Iterator[tuple[Row, IntArray]]:
        """Rows if some tiles stay by chance at boundaries whose reuse ends in the slot.

        The loop that moves the dataspace is one of the slot, or the next one outside of it. Loops farther out
        repeat nothing of what stays, unless another one moves that in between.
        """
        place = ended[0].place
        relevant = sorted(self.space.views[place].relevant)
        for alone in ended[0].alone:
            for children in self._children(alone.dim):
                here = np.where(self._factors[:, alone.dim] == children, costs, INFINITY)
                first = _First(alone, children, ended)
                if not self._stays(first):
                    continue
                for other in (d for d in relevant if d != alone.dim):
                    both, mover = (*way.special, Alone(other, EITHER)), self._mover(first, other, True)
                    yield replace(key, still=way.still), self._reach.least(here, way.dims, both, mover)
                if not self.level:
                    continue
                every = range(len(self.space.active)) if way.dims is None else way.dims
                only = tuple(d for d in every if d == alone.dim or d not in relevant)
                least = self._reach.least(here, only, way.special, self._mover(first))
                yield replace(key, still=way.still | {place}), least
                for other in (d for d in relevant if way.still <= self.space.left_in_place(d)):
                    mover = self._mover(first, other)
                    yield replace(key, alone=other), self._reach.least(here, only, way.special, mover)
        if self.level:
            yield from self._moved_farther(way, key, ended, costs)

    def _moved_farther(
        self, way: _Way, key: Row, ended: Sequence[Boundary], costs: IntArray
    ) -> Iterator[tuple[Row, IntArray]]:
        """The same if the loop that moves the dataspace is the next one outside of the slot."""
        place = ended[0].place
        view = self.space.views[place]
        still = tuple(d for d in sorted(view.irrelevant) if way.dims is None or d in way.dims)
        least, outside = self._reach.least(costs, still, way.others, way.mover), self.space.lattice.places[self.outer]
        loops = [own for own in ended[0].alone if way.still <= self.space.left_in_place(own.dim)]
        for alone in loops:
            farther = (
                self._ended(b, b.repeated_farther(alone, self.level)[outside[:, alone.dim]]) for b in ended
            )
            charged = np.minimum(sum(farther, least), INFINITY)
            yield replace(key, alone=alone.dim, still=frozenset((place,))), charged
            more = np.full_like(least, INFINITY)
            for other in sorted(view.relevant - {alone.dim}):
                both = (
                    self._ended(b, b.repeated_by_both(alone, other, self.level, outside)) for b in ended
                )
                more = np.minimum(more, sum(both, least))
            yield replace(key, alone=alone.dim), more

    def _children(self, dim: int) -> tuple[int, ...]:
        """Spatial factors of a dimension below the level."""
        return tuple(np.unique(self._factors[:, dim]).tolist())

    def _stays(self, first: _First) -> bool:
        """Whether the loop may leave any tiles in place."""
        return any((self._repeated(b, first) < b.least_repeated).any() for b in first.ended)

    def _repeated(self, boundary: Boundary, first: _First) -> IntArray:
        return boundary.repeated(first.alone, self.level + 1, (first.children,))

    def _mover(
        self, first: _First, other: int | None = None, here: bool = False, beside: bool = False
    ) -> Mover:
        """What boundaries cost if such a loop of the slot moves their dataspace.

        Or, `beside` what they cost if all that stays by chance is repeated by no loop, what more they cost if
        loops outside of the slot repeat it.

        With `other`, only tiles stay that a loop over that dimension leaves in place, too: the next one
        outside of the slot, or one that is in it (`here`).
        """
        alone, children, ended = first
        key = alone, children, other, here, beside, *((b.place, b.level) for b in ended)
        if key not in self._known_moved:
            self._known_moved[key] = self._costs_moved(first, other, here, beside)
        inside = self.space.lattice.places[self._tiles, alone.dim]
        return Mover(alone, children, inside, *self._known_moved[key])

    def _costs_moved(
        self, first: _First, other: int | None, here: bool, beside: bool
    ) -> tuple[IntArray, IntArray]:
        alone, _, ended = first
        number = [b.times(self.level, self.outer, None) for b in ended]
        places = self.space.lattice.places[self.outer, other or 0]
        every, kinds = np.unique(np.stack([*number, places * (other is not None)]), axis=1, return_inverse=True)
        costs = np.zeros((self.space.lattice.counts[alone.dim], every.shape[1]), dtype=np.int64)
        more = np.zeros(len(costs), dtype=np.bool_)
        for boundary, own in zip(ended, every, strict=False):
            words, plain = self._repeated(boundary, first), boundary.least_repeated
            every_kept = kept = np.maximum(plain - words, 0)[:, None]
            if other is not None:
                share = self._left_here(other) if here else boundary.left_farther(other, self.level)
                shares = share[every[-1]][None, :]
                both = np.ceil(np.minimum(kept, plain) * shares * (1 + 1e-9)).astype(np.int64)
                most = np.ceil(plain * shares * (1 + 1e-9)).astype(np.int64)
                kept = np.minimum(kept, both if other != alone.dim else most)
            if not beside:
                costs += boundary.delivered(own[None, :], plain - kept)
            elif other is None:
                costs += boundary.repeating(own[None, :], every_kept)
            else:
                costs += boundary.repeating(own[None, :], every_kept - kept)
            more |= (words < plain) | beside
        # Where nothing stays it does not matter which loop moves the dataspace.
        return np.where(more[:, None], np.minimum(costs, INFINITY), INFINITY), kinds

    def _left_here(self, dim: int) -> FloatArray:
        """The largest share of words that a loop of the slot leaves in place, by tiles outside along it.

        Outside of T passes lie more than T - 1 times twice as many tiles as there are children.
        """
        lattice = self.space.lattice
        assert isinstance(lattice, CountLattice)
        shares: FloatArray = 1 / np.maximum(2 * (lattice.numbers[dim] - 1), 1)
        return shares

    @cached_property
    def _known_moved(self) -> dict[tuple[object, ...], tuple[IntArray, IntArray]]:
        return {}

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
            yield key, np.minimum(least + self._charges(ended), INFINITY)

    def _with(self, costs: IntArray, begun: Sequence[_Reuse]) -> IntArray:
        """Costs of the tiles inside with those of deliveries that begin there."""
        for boundary, repeats in begun:
            if repeats > 1:
                costs = np.minimum(costs + boundary.begun(self._tiles, repeats), INFINITY)
        return costs

    def _charges(self, ended: Iterable[_Reuse]) -> IntArray:
        """What boundaries cost whose reuse ends at the tiles outside."""
        none = np.zeros(len(self.outer), dtype=np.int64)
        charges = (boundary.ended(self.level, self.outer, repeats) for boundary, repeats in ended)
        return sum((np.minimum(charge, INFINITY) for charge in charges), none)

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
