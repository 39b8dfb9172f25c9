"""One step of the dynamic program where loops may have remainders: what stays in place by chance.

A loop that has one iteration only in its last pass leaves the tile in place there, and loops outside of it
repeat nothing of that, until another loop moves the tile. So bounds tell such loops apart, and rows say what
the next loop outside has to be like.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from solver.search.arrays import BoolArray, FloatArray, IntArray
from solver.search.bounds.boundary import LARGEST_COUNT, Boundaries, Boundary
from solver.search.bounds.pairs import MOST_PAIRS
from solver.search.bounds.steps import SlotStep
from solver.search.bounds.tables import Row
from solver.search.space.counts import EITHER, MOVING, Alone, CountLattice, CountReach, CountSlot, Mover
from solver.search.space.lattice import INFINITY
from solver.search.space.search_space import Led, SearchSpace
from solver.search.space.uneven import Passes, begun_beyond
from solver.search.space.windows import Words


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


class UnevenPairs:
    """The pairs of tiles that loops of a slot connect.

    Parameters
    ----------
    reach
        What tells which these are.
    tiles, outer
        Lattice indices of the tiles inside and outside.
    factors
        The spatial choice around each tile inside, shape (tiles, dimensions).
    """

    def __init__(
        self, space: SearchSpace, reach: CountReach, tiles: IntArray, outer: IntArray, factors: IntArray
    ) -> None:
        self.space = space
        self._reach = reach
        self._outer = len(outer)
        self._rows, self.columns = np.nonzero(reach.connected(None, {}))
        lattice = space.lattice
        self._inside = tiles[self.columns]
        self._children = factors[self.columns]
        self._tiles, self._outside = lattice.tiles[self._inside], lattice.tiles[outer[self._rows]]
        self._live = -(-self._tiles // self._children) > self._outside

    def least(
        self,
        costs: IntArray,
        dims: tuple[int, ...] | None,
        alone: tuple[Alone, ...],
        mover: Mover | None,
    ) -> IntArray:
        """As of `CountReach.least`, given the cost of each pair."""
        possible = costs < INFINITY
        if dims is not None:
            others = [d for d in range(len(self.space.active)) if d not in dims]
            possible &= ~self._live[:, others].any(axis=1)
        for own in alone if mover is None else (*alone, mover.alone):
            possible &= self._such(own)
        least = np.full(self._outer, INFINITY, dtype=np.int64)
        rows, columns, costs = self._rows[possible], self.columns[possible], costs[possible]
        if mover is not None:
            costs = np.minimum(costs + mover.costs[mover.inside[columns], mover.kinds[rows]], INFINITY)
        if len(rows):
            starts = np.flatnonzero(np.diff(rows, prepend=-1))
            least[rows[starts]] = np.minimum.reduceat(costs, starts)
        return least

    def _such(self, alone: Alone) -> BoolArray:
        """Pairs with such a loop."""
        if alone not in self._known:
            self._known[alone] = self._reach.steps_of(alone)[self._rows, self.columns]
        return self._known[alone]

    @cached_property
    def _known(self) -> dict[Alone, BoolArray]:
        return {}

    def beyond(self, boundary: Boundary, led: Led) -> IntArray:
        """Cost of a boundary beyond what its tile tells; `INFINITY` if no such loop moves its dataspace."""
        view = self.space.views[boundary.place]
        leading = [d for d in self.space.leading(led.members) if d in view.relevant]
        known = boundary.tile_words(self._inside, led)
        least = np.full(len(self._rows), LARGEST_COUNT, dtype=np.int64)
        for d in leading:
            words = self._led(boundary, led, d)
            if led.alone is None or led.alone.dim != d:
                # Such a loop may leave tiles in place by chance, which `led` says nothing of.
                words = np.where(self._such(Alone(d, EITHER)), np.minimum(words, known), words)
            least = np.where(self._live[:, d], np.minimum(least, words), least)
        # Where the slot has no loop, the next one outside leads.
        least = np.where(self._live.any(axis=1), least, known)
        more = boundary.extra(least) - boundary.extra(known)
        return np.where(least < LARGEST_COUNT, np.maximum(more, 0), INFINITY)

    def _led(self, boundary: Boundary, led: Led, dim: int) -> IntArray:
        """Least words without reuse if a loop over `dim` leads."""
        view = self.space.views[boundary.place]
        words = boundary.words(led, dim)
        repeated, begun = words.repeated[self._inside], words.begun[self._inside]
        number = next(n for n, c in enumerate(view.components) if dim in c.dims)
        component = view.components[number]
        if component.sliding and component.linear and (led.alone is None or led.alone.dim != dim):
            tiles, outer, children = self._tiles[:, dim], self._outside[:, dim], self._children[:, dim]
            rounds = -(-tiles // children)
            factor = -(-rounds // outer)
            lattice = self.space.lattice
            assert isinstance(lattice, CountLattice)
            repeated = repeated + begun_beyond(
                view,
                number,
                lattice,
                boundary.unrolling,
                self._inside,
                Passes(dim, tiles, outer, children, factor),
            )
        return boundary.unreused_words(self._inside, Words(repeated, np.maximum(begun, repeated)))


class PairsBeyond(NamedTuple):
    """Pairs of tiles, and what each costs beyond its tile inside."""

    pairs: UnevenPairs
    beyond: IntArray

    def least(
        self,
        values: IntArray,
        dims: tuple[int, ...] | None = None,
        alone: tuple[Alone, ...] = (),
        mover: Mover | None = None,
    ) -> IntArray:
        """As of `CountReach`."""
        return self.pairs.least(values[self.pairs.columns] + self.beyond, dims, alone, mover)


class UnevenStep(SlotStep):
    """The step over the loops of a level, with remainders.

    Parameters
    ----------
    closely
        Whether to look closely at what stays in place by chance.
    factors
        The spatial choice of each source, shape (sources, dimensions).
    """

    def __init__(
        self,
        boundaries: Boundaries,
        level: int,
        tiles: IntArray,
        sources: IntArray,
        outer: IntArray,
        closely: bool,
        factors: IntArray,
    ) -> None:
        super().__init__(boundaries, level, tiles, sources, outer, pairwise=False)
        self._closely = closely
        self._factors = factors
        self._between: CountReach | PairsBeyond = self._reach

    @cached_property
    def _reach(self) -> CountReach:
        slot = self.space.slots[self.level]
        assert isinstance(slot, CountSlot)
        return slot.reach(self._sources, self.outer, self._factors)

    def outwards(self, row: Row, led: Led, costs: IntArray) -> Iterator[tuple[Row, IntArray]]:
        """As of `SlotStep`."""
        if not self._closely:
            yield from self._roughly(row, led, costs)
            return
        self._between = self._between_led(led)
        for key, _, ended in self._ends(replace(row, alone=None, still=frozenset()), led.members):
            charged = [boundary for boundary, _ in ended]
            for way in self._ways(led, self._loops(key, led.members)):
                yield from self._going(way, key, charged, costs)
            if led.alone is not None and self.level and not charged:
                # No loop here: the next one outside is as `led` has it.
                yield replace(key, alone=led.alone.dim, still=led.still), self._between.least(costs, ())

    def _roughly(self, row: Row, led: Led, costs: IntArray) -> Iterator[tuple[Row, IntArray]]:
        """The same in less time: what stays by chance may do so whatever the loops outside are like."""
        special = () if led.alone is None else (led.alone,)
        for key, _, ended in self._ends(row, led.members):
            least = self._reach.least(costs, self._loops(key, led.members), special)
            if special:
                # Or the next loop outside is of that kind.
                least = np.minimum(least, self._reach.least(costs, ()))
            yield key, self._with_ended(least, ended)

    def _between_led(self, led: Led) -> CountReach | PairsBeyond:
        """What tells which tiles loops connect, if the innermost one is as `led` has it."""
        boundaries = self.boundaries.by_level[self.level + 1]
        loose = [b for b in boundaries if b.sliding and not b.counts_in(led.members)]
        windows = [b for b in loose if self.space.views[b.place].window_dims]
        # Cells stand for several numbers of tiles, so that pairs of them tell nothing of passes.
        many = len(self._sources) * len(self.outer) > MOST_PAIRS
        if not windows or self.space.grains or many:
            return self._reach
        if led not in self._known_beyond:
            pairs = self._pairs_between
            beyond = np.minimum(sum(pairs.beyond(boundary, led) for boundary in windows), INFINITY)
            self._known_beyond[led] = PairsBeyond(pairs, beyond)
        return self._known_beyond[led]

    @cached_property
    def _known_beyond(self) -> dict[Led, PairsBeyond]:
        return {}

    @cached_property
    def _pairs_between(self) -> UnevenPairs:
        return UnevenPairs(self.space, self._reach, self._tiles, self.outer, self._factors)

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
        least = self._between.least(costs, way.dims, way.others, way.mover)
        if not ended:
            yield outside, least
        elif self._same_movers(ended):
            yield outside, self._plus(least, ended)
            if way.alone is None:
                yield from self._moved_alone(way, key, ended, costs)
        else:
            yield outside, self._with_ended(least, [(boundary, 0) for boundary in ended])

    def _same_movers(self, boundaries: Sequence[Boundary]) -> bool:
        """Whether the same loops move the dataspaces of boundaries, as far as it is known how."""
        return len({boundary.place for boundary in boundaries}) == 1 and bool(boundaries[0].alone)

    def _plus(self, costs: IntArray, ended: Sequence[Boundary]) -> IntArray:
        """Costs with those of boundaries whose reuse ends in the slot, unless tiles stay by chance."""
        whole: IntArray = np.minimum(sum((self._ended(b, b.least_repeated) for b in ended), costs), INFINITY)
        return whole

    def _times(self, boundary: Boundary) -> IntArray:
        """How often all words are delivered if reuse ends in the slot."""
        key = boundary.place, boundary.level
        if key not in self._known_times:
            self._known_times[key] = boundary.times(self.level, self.outer, None)
        return self._known_times[key]

    @cached_property
    def _known_times(self) -> dict[tuple[int, int], IntArray]:
        return {}

    def _ended(self, boundary: Boundary, repeated: IntArray | int) -> IntArray:
        cost: IntArray = boundary.delivered(self._times(boundary), repeated)
        return cost

    def _moved_alone(
        self, way: _Way, key: Row, ended: Sequence[Boundary], costs: IntArray
    ) -> Iterator[tuple[Row, IntArray]]:
        """Rows if some tiles stay by chance at boundaries whose reuse ends in the slot.

        The loop that moves the dataspace is one of the slot, or the next one outside of it. Loops farther out
        repeat nothing of what stays, unless another one moves that in between.
        """
        firsts = (
            _First(alone, children, ended)
            for alone in ended[0].alone
            for children in self._children(alone.dim)
        )
        for first in filter(self._stays, firsts):
            yield from self._moved_by(first, way, key, costs)
        if self.level:
            yield from self._moved_farther(way, key, ended, costs)

    def _moved_by(
        self, first: _First, way: _Way, key: Row, costs: IntArray
    ) -> Iterator[tuple[Row, IntArray]]:
        """The same if a loop of the slot moves the dataspace first."""
        place, dim = first.ended[0].place, first.alone.dim
        relevant = sorted(self.space.views[place].relevant)
        here = np.where(self._factors[:, dim] == first.children, costs, INFINITY)
        for other in (d for d in relevant if d != dim):
            both, mover = (*way.special, Alone(other, EITHER)), self._mover(first, other, True)
            yield replace(key, still=way.still), self._between.least(here, way.dims, both, mover)
        if not self.level:
            return
        every = range(len(self.space.active)) if way.dims is None else way.dims
        only = tuple(d for d in every if d == dim or d not in relevant)
        least = self._between.least(here, only, way.special, self._mover(first))
        yield replace(key, still=way.still | {place}), least
        for other in (d for d in relevant if way.still <= self.space.left_in_place(d)):
            mover = self._mover(first, other)
            yield replace(key, alone=other), self._between.least(here, only, way.special, mover)

    def _moved_farther(
        self, way: _Way, key: Row, ended: Sequence[Boundary], costs: IntArray
    ) -> Iterator[tuple[Row, IntArray]]:
        """The same if the loop that moves the dataspace is the next one outside of the slot."""
        place = ended[0].place
        view = self.space.views[place]
        still = tuple(d for d in sorted(view.irrelevant) if way.dims is None or d in way.dims)
        least, outside = (
            self._between.least(costs, still, way.others, way.mover),
            self.space.lattice.places[self.outer],
        )
        loops = [own for own in ended[0].alone if way.still <= self.space.left_in_place(own.dim)]
        for alone in loops:
            farther = (
                self._ended(b, b.repeated_farther(alone, self.level)[outside[:, alone.dim]]) for b in ended
            )
            charged = np.minimum(sum(farther, least), INFINITY)
            yield replace(key, alone=alone.dim, still=frozenset((place,))), charged
            more = np.full_like(least, INFINITY)
            for other in sorted(view.relevant - {alone.dim}):
                both = (self._ended(b, b.repeated_by_both(alone, other, self.level, outside)) for b in ended)
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
        outside, kinds = self._kinds(ended[0].place, other)
        costs = np.zeros((self.space.lattice.counts[alone.dim], len(outside)), dtype=np.int64)
        more = np.zeros(len(costs), dtype=np.bool_)
        for boundary in ended:
            own = boundary.times(self.level, outside, None)
            words, plain = self._repeated(boundary, first), boundary.least_repeated
            every_kept = kept = np.maximum(plain - words, 0)[:, None]
            if other is not None:
                share = self._left_here(other) if here else boundary.left_farther(other, self.level)
                shares = share[self.space.lattice.places[outside, other]][None, :]
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

    def _kinds(self, place: int, other: int | None) -> tuple[IntArray, IntArray]:
        """Tiles outside that differ in how often a dataspace is delivered, and which of them each is like.

        With `other` they also differ in their number along that dimension.
        """
        if (place, other) not in self._known_kinds:
            codes = self.space.repeats_of(place)[self.outer]
            if other is not None:
                codes = (
                    codes * self.space.lattice.counts[other] + self.space.lattice.places[self.outer, other]
                )
            some = np.zeros(int(codes.max(initial=0)) + 1, dtype=np.int64)
            some[codes] = np.arange(1, len(codes) + 1)
            present = np.flatnonzero(some)
            numbers = np.zeros(len(some), dtype=np.int64)
            numbers[present] = np.arange(len(present))
            self._known_kinds[place, other] = self.outer[some[present] - 1], numbers[codes]
        return self._known_kinds[place, other]

    @cached_property
    def _known_kinds(self) -> dict[tuple[int, int | None], tuple[IntArray, IntArray]]:
        return {}

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
