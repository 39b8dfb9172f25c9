"""Least costs of what lies outside of a boundary, by numbers of tiles there, whatever is unrolled inside."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property, reduce
from itertools import chain, product, takewhile
from typing import Any

import numpy as np

from solver.search.arrays import BoolArray, FloatArray, IntArray, among, distinct
from solver.search.path.axes import SlotLoops, TileAxis, axes_of, running_minimum
from solver.search.path.charges import ENERGY, SUMS_CLOSE, Charge, Charges, Price
from solver.search.path.counting import ByOrder, LeftInPlace, counted_by
from solver.search.path.deliveries import Delivered, WordTables
from solver.search.path.rooms import PlaceRooms
from solver.search.space.keep_masks import KeepMask
from solver.search.space.orders import put_inside
from solver.search.space.search_space import SearchSpace
from solver.search.stopping import Stopped

TABLES, BESIDE = 34, 22
"""Tables over all numbers of tiles that there are at a time, at least, and those of them that are not held.

As many doubles each, about."""

DOUBLES = 2.0**53
"""Whole numbers up to which doubles are exact."""

MOST_HELD = 1 << 30
"""Bytes up to which tables are held, if nothing else is said."""

ALIKE = (
    "axes",
    "counted",
    "words",
    "anything",
    "held",
    "_known_loops",
    "_known_leads",
    "_leading",
    "_shares",
    "_unshared_factors",
    "_groups",
    "_fits",
    "_frames",
)
"""What frames of a search space have in common."""


def estimated_bytes(space: SearchSpace) -> int:
    """Memory that the tables of a search take, roughly, before any of them is made."""
    return TABLES * 8 * space.lattice.size


def bytes_beside(space: SearchSpace) -> int:
    """Memory that is taken besides tables that are held, roughly: what these are made of, and lists."""
    return BESIDE * 8 * space.lattice.size


@dataclass
class TableCache:
    """Tables that are held: beyond so many bytes those are forgotten that were not used for longest."""

    most_bytes: int = MOST_HELD
    _bytes: int = 0
    _tables: OrderedDict[object, FloatArray] = field(default_factory=OrderedDict)

    def once(self, key: object, make: Callable[[], FloatArray]) -> FloatArray:
        """What `make` returns, remembered by a key."""
        if key in self._tables:
            self._tables.move_to_end(key)
            return self._tables[key]
        self._tables[key] = table = make()
        self._bytes += table.nbytes
        while self._bytes > self.most_bytes:
            self._bytes -= self._tables.popitem(last=False)[1].nbytes
        return table


@dataclass(frozen=True)
class TileFrame:
    """What all tables of a search space share: axes, the loops of each slot, words, and tiles that fit.

    Parameters
    ----------
    space
        What they are about.
    without
        Loops that are left out, as pairs of a slot and a dimension.
    """

    space: SearchSpace
    without: frozenset[tuple[int, int]] = frozenset()

    def under(self, mask: KeepMask) -> TileFrame:
        """The frame for one keep mask: without the loops that no mapping needs."""
        without = frozenset(chain(self._idle(mask), self._needless(mask)))
        if without not in self._frames:
            self._frames[without] = other = TileFrame(self.space, without)
            for name in ALIKE:
                other.__dict__[name] = getattr(self, name)
        return self._frames[without]

    @cached_property
    def _frames(self) -> dict[frozenset[tuple[int, int]], TileFrame]:
        return {self.without: self}

    def _idle(self, mask: KeepMask) -> Iterator[tuple[int, int]]:
        """Yield loops of places of a memory that keep nothing, but for the first place."""
        inner = (level for rules in self.space.mapspace.joint for level in rules.levels[1:])
        return product((level for level in inner if not mask[level]), range(len(self.axes)))

    def _needless(self, mask: KeepMask) -> Iterator[tuple[int, int]]:
        """Yield loops over dimensions that index nothing that is kept farther in.

        As loops of the innermost slot they bring nothing anew. Neither rules nor children may stand between.
        """
        space, last = self.space, len(self.loops) - 1
        if not space.is_unruled:
            return
        if self.counted.merges:
            for d in range(len(self.axes)):
                yield from ((slot, d) for slot in self._left_out(mask, d))
            return
        slots = list(space.loop_factors)
        free = {d for d, own in enumerate(self.anything.allowed) if slots[last][d] == own}
        free -= {d for level, d in self._idle(mask) if level == last}
        for slot in reversed(range(last)):
            indexed = (space.views[place].relevant for place in mask[slot + 1])
            free -= frozenset().union(*indexed)
            free = {d for d in free if max(space.stages[slot].unrolled[d]) == 1}
            yield from ((slot, d) for d in free if 1 in slots[slot][d])

    def _left_out(self, mask: KeepMask, dim: int) -> Iterator[int]:
        """Yield slots without loops over a dimension where these do nothing that others do not do as well.

        What a tile brings depends on its place alone. Below a level that keeps nothing that the dimension
        indexes, loops bring it less often; above one where it indexes all that is kept, tiles are smaller.
        """
        space, last = self.space, len(self.loops) - 1
        indexed = [[dim in space.views[place].relevant for place in own] for own in mask]
        free = [own[dim] == self.anything.allowed[dim] for own in space.loop_factors]
        for level, d in self._idle(mask):
            free[level] &= d != dim
        crossed = [max(stage.unrolled[dim]) == 1 for stage in space.stages]
        for slot in (n for n in range(last + 1) if 1 in space.loop_factors[n][dim]):
            inside = takewhile(lambda n: crossed[n - 1] and not any(indexed[n]), range(slot + 1, last + 1))
            outside = takewhile(
                lambda n: crossed[n - 1] and min(indexed[n], default=False), range(slot, 0, -1)
            )
            if any(free[n] for n in inside) or any(free[n - 1] for n in outside):
                yield slot

    @cached_property
    def held(self) -> TableCache:
        """Tables of least costs outside."""
        return TableCache()

    def heed(self) -> None:
        """Raise `Stopped` if the search must end."""
        if self.space.stop():
            raise Stopped

    @cached_property
    def axes(self) -> tuple[TileAxis, ...]:
        """One per active dimension."""
        return axes_of(self.space)

    @cached_property
    def divides(self) -> bool:
        """Whether loops have divisors only."""
        return any(axis.divides for axis in self.axes)

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """Places along each axis."""
        return tuple(len(axis.numbers) for axis in self.axes)

    @cached_property
    def counted(self) -> ByOrder:
        """The rule by which words are counted."""
        return counted_by(self.space)

    @cached_property
    def words(self) -> WordTables:
        """Words of deliveries."""
        return WordTables(self.space)

    @cached_property
    def loops(self) -> tuple[SlotLoops, ...]:
        """By slot."""
        return tuple(map(self._loops_of, range(len(self.space.loop_factors))))

    def _loops_of(self, slot: int) -> SlotLoops:
        key = slot, frozenset(d for level, d in self.without if level == slot)
        if key not in self._known_loops:
            allowed = enumerate(self.space.loop_factors[slot])
            one = frozenset((1,))
            self._known_loops[key] = SlotLoops(self.axes, [one if d in key[1] else own for d, own in allowed])
        return self._known_loops[key]

    @cached_property
    def _known_loops(self) -> dict[tuple[int, frozenset[int]], SlotLoops]:
        return {}

    def left_out(self, last: int) -> frozenset[tuple[int, int]]:
        """Loops of the slots up to one that are left out."""
        return frozenset(own for own in self.without if own[0] <= last)

    @cached_property
    def possible(self) -> tuple[tuple[BoolArray, ...], ...]:
        """By boundary and dimension, which numbers of tiles any loops of its own lead to, and go on from."""
        dims, last = range(len(self.axes)), len(self.loops)
        outside = [[axis.numbers == 1 for axis in self.axes]]
        for slot in range(last):
            outside.append([self._steps(slot, d)[outside[slot][d]].any(axis=0) for d in dims])
        inside = [[axis.numbers == axis.bound for axis in self.axes]]
        for slot in reversed(range(last)):
            inside.append([self._steps(slot, d)[:, inside[-1][d]].any(axis=1) for d in dims])
        pairs = zip(outside, reversed(inside), strict=True)
        return tuple(tuple(a & b for a, b in zip(*own, strict=True)) for own in pairs)

    def narrowed(self) -> SearchSpace:
        """The search space without numbers of tiles that no loops and children lead to."""
        space = self.space
        if not space.has_remainders or space.grains:
            return space
        numbered = tuple(map(self._numbers_in_use, range(len(self.axes))))
        if numbered == tuple(tuple(axis.numbers.tolist()) for axis in self.axes):
            return space
        narrower = replace(space, numbered=numbered)
        # Spatial choices do not depend on tiles.
        narrower.__dict__["stages"] = space.stages
        return narrower

    def _numbers_in_use(self, dim: int) -> tuple[int, ...]:
        """Numbers of tiles along a dimension that are at a boundary, or outside of its fanouts."""
        axis = self.axes[dim]
        used = np.isin(axis.numbers, (1, axis.bound))
        for slot in range(len(self.loops)):
            used |= self.possible[slot][dim] | self.possible[slot + 1][dim]
            for factor in self._factors(slot, dim):
                used[self._rounds(slot, dim, factor)] = True
        return tuple(axis.numbers[used].tolist())

    def able(self, stage: int) -> BoolArray:
        """By spatial choice of a stage, whether there are tiles for all of its factors."""
        choices = self.space.stages[stage].places
        able = np.ones(len(choices), dtype=np.bool_)
        for d, column in enumerate(self.space.stages[stage].factors.T):
            some = [own for own in self._factors(stage, d) if len(self._rounds(stage, d, own))]
            able &= among(column, np.array(some, dtype=np.int64))
        return able

    def _factors(self, stage: int, dim: int) -> list[int]:
        """Children of a stage along a dimension that there may be."""
        return sorted({1, *self.space.stages[stage].unrolled[dim]})

    def _rounds(self, slot: int, dim: int, factor: int) -> IntArray:
        """Places of the numbers of rounds outside of so many children that loops of a slot lead to."""
        axis, outer, inner = self.axes[dim], self.possible[slot][dim], self.possible[slot + 1][dim]
        tiles = np.flatnonzero(inner)
        rounds = axis.rounds_of(np.full(len(tiles), factor), axis.numbers[tiles])
        rounds = distinct(rounds[rounds >= 0])
        return rounds[self.loops[slot].reach[dim][outer][:, rounds].any(axis=0)]

    def _steps(self, slot: int, dim: int) -> BoolArray:
        """Which numbers at a boundary (rows) a slot and fanouts lead to which at the next one (columns)."""
        axis, reach = self.axes[dim], self.loops[slot].reach[dim]
        found = np.zeros_like(reach)
        for factor in {1, *self.space.stages[slot].unrolled[dim]}:
            rounds = axis.rounds_of(np.full(len(axis.numbers), factor), axis.numbers)
            found |= reach[:, np.maximum(rounds, 0)] & (rounds >= 0)
        return found

    def parts(self, slots: Iterable[int], dim: int) -> bool:
        """Whether loops or children of some slots may part tiles along a dimension."""
        stages = self.space.stages
        return any(dim in self.loops[k].live or max(stages[k].unrolled[dim]) > 1 for k in slots)

    def are_single(self, boundary: int, dim: int) -> bool:
        """Whether tiles at a boundary are single iterations along a dimension."""
        return not self.parts(range(boundary, len(self.space.levels)), dim)

    @cached_property
    def anything(self) -> SlotLoops:
        """Loops over all dimensions with any factors."""
        return SlotLoops(
            self.axes, [frozenset(self.space.lattice.loop_factors(d)) for d in range(len(self.axes))]
        )

    def reach_through(self, slot: int) -> tuple[BoolArray, ...]:
        """By dimension, from which numbers (rows) a slot and any right outside of it lead to which."""
        return self._reach_through[slot]

    @cached_property
    def _reach_through(self) -> list[tuple[BoolArray, ...]]:
        found = [self.loops[0].reach]
        for loops in self.loops[1:]:
            found.append(tuple(own | (far @ own) for far, own in zip(found[-1], loops.reach, strict=True)))
        return found

    @cached_property
    def meeting(self) -> int:
        """The innermost level outside of all fanouts: the tables end at its boundary."""
        used = (level for level, below in enumerate(self.space.fanouts_below) if below)
        return min(used, default=len(self.space.levels) - 1)

    def numbers(self, dim: int) -> FloatArray:
        """Numbers of tiles along a dimension, as a table with an axis per dimension."""
        return self.axes[dim].numbers.astype(np.float64).reshape(self._column(dim))

    def _column(self, dim: int) -> list[int]:
        return [-1 if d == dim else 1 for d in range(len(self.axes))]

    def times(self, place: int) -> FloatArray:
        """How often all tiles of a dataspace are delivered if nothing stays in place."""
        return self.product(self.space.views[place].irrelevant)

    def product(self, dims: Collection[int]) -> FloatArray:
        """Numbers of tiles along some dimensions together."""
        one: FloatArray = np.ones((1,) * len(self.axes))
        return math.prod((self.numbers(d) for d in sorted(dims)), start=one)

    def leads(self, slot: int) -> tuple[LeftInPlace, ...]:
        """What the innermost loop of a slot may leave in place."""
        return self._leads[slot]

    @cached_property
    def _leads(self) -> tuple[tuple[LeftInPlace, ...], ...]:
        return tuple(map(self.counted.leads, self.loops))

    def first_leads(self, slot: int) -> tuple[LeftInPlace, ...]:
        """What the innermost loop of a slot and of those outside of it may leave in place."""
        return self._first_leads[slot]

    def leads_with(self, slot: int, place: int) -> list[frozenset[int]]:
        """Those that are loops, and leave a dataspace in place."""
        return [lead for lead in self._first_leads[slot] if lead is not None and place in lead]

    @cached_property
    def _first_leads(self) -> list[tuple[LeftInPlace, ...]]:
        found: list[tuple[LeftInPlace, ...]] = []
        for own in self._leads:
            farther = found[-1] if found and None in own else ()
            loops = own if not found else tuple(lead for lead in own if lead is not None)
            found.append(tuple(dict.fromkeys((*loops, *farther))))
        return found

    @cached_property
    def put_inside(self) -> tuple[tuple[frozenset[int], ...], ...]:
        """By slot and dimension, those whose loops rules put inside of its own."""
        return tuple(put_inside(own, self.space.active) for own in self.space.mapspace.temporal)

    def leading(self, lead: LeftInPlace) -> frozenset[int]:
        """Dimensions of the innermost loops that leave this in place."""
        return self._leading[lead]

    @cached_property
    def _leading(self) -> dict[LeftInPlace, frozenset[int]]:
        every: list[LeftInPlace] = [None, frozenset(), *self.space.reuse_classes]
        return {own: self.counted.leading(own) for own in every}

    @cached_property
    def everything(self) -> LeftInPlace:
        """All dataspaces: the lead of slots whose loops may be any."""
        return frozenset(self._places)

    def led(self, lead: LeftInPlace, is_outermost: bool) -> BoolArray:
        """Where a slot may have a loop that leaves this in place, by numbers of tiles inside of it.

        The outermost slot has all loops that are left, so that rules say which is the innermost one.
        """
        key = lead, is_outermost
        if key not in self._known_leads:
            self._known_leads[key] = self._find_led(*key)
        return self._known_leads[key]

    @cached_property
    def _known_leads(self) -> dict[tuple[LeftInPlace, bool], BoolArray]:
        return {}

    def _find_led(self, lead: LeftInPlace, is_outermost: bool) -> BoolArray:
        if lead is None or not self.counted.leads_are_loops:
            return np.ones(self.shape, dtype=np.bool_)
        every = [self.numbers(d) for d in range(len(self.axes))]
        led: BoolArray = np.zeros((1,) * len(self.axes), dtype=np.bool_)
        for d in sorted(self.leading(lead)):
            farther_in = self.put_inside[0][d] if is_outermost else frozenset[int]()
            led = led | ((every[d] > 1) & ~_any_several(every, farther_in))
        return np.broadcast_to(led, self.shape)

    def rounds_again(
        self, place: int, last: int, numbers: Sequence[FloatArray] | Sequence[IntArray]
    ) -> dict[int, FloatArray]:
        """Rounds in which loops of the outermost slot bring a dataspace again that leads leave in place.

        Rules put these loops outside of others, which move the dataspace.

        Parameters
        ----------
        place
            Of the dataspace, which no loop of slot `last + 1` or farther in moves.
        last
            A slot; up to it only the outermost one has loops over the dimensions that are looked at.
        numbers
            Of tiles inside of the slot, by dimension.

        Returns
        -------
        dict[int, FloatArray]
            By dimension; one round, at least, along each of the others.
        """
        own = self._outside_of(place, last)
        return {d: np.where(_any_several(numbers, inner), numbers[d], 1.0) for d, inner in own.items()}

    def _outside_of(self, place: int, last: int) -> dict[int, frozenset[int]]:
        """Dimensions whose outermost loops rules put outside of others, which move a dataspace."""
        key = place, last
        if key not in self._known_outside:
            view, slots = self.space.views[place], range(1, last + 1)
            pairs = ((d, self.put_inside[0][d] & view.relevant) for d in sorted(view.irrelevant))
            self._known_outside[key] = {
                d: own for d, own in pairs if own and not any(d in self.loops[slot].live for slot in slots)
            }
        return self._known_outside[key]

    @cached_property
    def _known_outside(self) -> dict[tuple[int, int], dict[int, frozenset[int]]]:
        return {}

    def times_again(self, place: int, last: int) -> FloatArray:
        """How often all tiles of a dataspace are delivered at least, see `rounds_again`, as a table."""
        numbers = [self.numbers(d) for d in range(len(self.axes))]
        one: FloatArray = np.ones((1,) * len(self.axes))
        return math.prod(self.rounds_again(place, last, numbers).values(), start=one)

    def moved_besides(self, place: int, still: Iterable[int]) -> frozenset[int]:
        """Of what is in place, all that any loop moves which leaves a dataspace with windows in place."""
        views = self.space.views
        return frozenset(q for q in still if not views[place].irrelevant & views[q].irrelevant)

    def shares(self, place: int, stage: int) -> FloatArray:
        """Distinct tiles of a dataspace per tile among children that may share them, at least, by choice."""
        return self._shares[place][stage]

    @cached_property
    def _shares(self) -> tuple[tuple[FloatArray, ...], ...]:
        stages = range(len(self.space.stages))
        return tuple(tuple(self._shares_of(place, stage) for stage in stages) for place in self._places)

    @property
    def _places(self) -> range:
        return range(len(self.space.views))

    def _shares_of(self, place: int, stage: int) -> FloatArray:
        view, share = self.space.views[place], np.ones(len(self.space.stages[stage].places))
        for factors in self._fanouts(place, stage, shared=True) if view.window_dims else ():
            share = share * self.counted.shares(view, factors)
        return share

    def unshared_factors(self, place: int, stage: int) -> IntArray:
        """Factors of the fanouts whose children do not share a dataspace, by choice and dimension."""
        return self._unshared_factors[place][stage]

    @cached_property
    def _unshared_factors(self) -> tuple[tuple[IntArray, ...], ...]:
        stages = range(len(self.space.stages))
        return tuple(
            tuple(
                math.prod(self._fanouts(place, stage, shared=False), start=self._no_factors(stage))
                for stage in stages
            )
            for place in self._places
        )

    def groups(self, place: int, stage: int) -> IntArray:
        """Children of those fanouts that have something to do, at least, likewise."""
        return self._groups[place][stage]

    @cached_property
    def _groups(self) -> tuple[tuple[IntArray, ...], ...]:
        stages = range(len(self.space.stages))
        return tuple(tuple(self._groups_of(place, stage) for stage in stages) for place in self._places)

    def _groups_of(self, place: int, stage: int) -> IntArray:
        """All but the last one of the children of a fanout have all that children inside can do."""
        used = all_of_them = self._no_factors(stage)
        for factors in reversed(list(self._fanouts(place, stage, shared=False))):
            used = with_full_ones(factors, used, all_of_them)
            all_of_them = all_of_them * factors
        return used

    def _no_factors(self, stage: int) -> IntArray:
        return np.ones_like(self.space.stages[stage].factors)

    def _fanouts(self, place: int, stage: int, shared: bool) -> Iterator[IntArray]:
        """Factors of the fanouts of a stage whose children share a dataspace, or of those whose do not."""
        own, name = self.space.stages[stage], self.space.views[place].name
        for column, number in enumerate(self.space.fanouts_below[stage]):
            if (name not in self.space.architecture.fanouts[number].no_multicast) == shared:
                yield own.fanouts[column].factors[own.places[:, column]]

    def rooms(self, mask: KeepMask) -> PlaceRooms:
        """Room that places of memories share under a keep mask."""
        if mask not in self._rooms:
            self._rooms[mask] = PlaceRooms(self.space, mask, self.shape)
        return self._rooms[mask]

    @cached_property
    def _rooms(self) -> dict[KeepMask, PlaceRooms]:
        return {}

    def fits(self, level: int, kept: frozenset[int]) -> BoolArray:
        """Which numbers of tiles `level` has room for, shape `shape`; rules of the user's own hold."""
        if (level, kept) not in self._fits:
            self._fits[level, kept] = self.space.allowed(level, kept).reshape(self.shape)
        return self._fits[level, kept]

    def has_room(self, kept: frozenset[int]) -> bool:
        """Whether the outermost level has room for all of some dataspaces; rules of the user's own hold."""
        return bool(self.fits(0, kept)[self.whole])

    @cached_property
    def whole(self) -> tuple[int, ...]:
        """Places of one tile along each axis."""
        return tuple(int(axis.place(np.ones(1, dtype=np.int64))[0]) for axis in self.axes)

    @cached_property
    def _fits(self) -> dict[tuple[int, frozenset[int]], BoolArray]:
        return {}


def _any_several(numbers: Sequence[FloatArray] | Sequence[IntArray], dims: Iterable[int]) -> BoolArray:
    """Where there are several tiles along any of some dimensions, given their numbers by dimension."""
    several = (numbers[d] > 1 for d in sorted(dims))
    return reduce(np.logical_or, several, np.zeros(1, dtype=np.bool_))


def with_full_ones(children: IntArray, used: IntArray, all_of_them: IntArray) -> IntArray:
    """What is in use inside of some children, of which one may have less to do than the others."""
    return np.where(children > 1, (children - 1) * all_of_them + 1, used)


@dataclass
class Outside:
    """Least costs outside of boundaries 1 to the meeting one, under one keep mask and by one price.

    Parameters
    ----------
    frame, charges
        What the tables are about.
    price
        Of a word.
    paid_in
        In what entries are paid, see `paid`.
    """

    frame: TileFrame
    charges: Charges
    price: Price = ENERGY
    paid_in: Price = ENERGY
    _own: object = field(default_factory=object)

    def _remembered(self, key: object, make: Callable[[], FloatArray]) -> FloatArray:
        def heeding() -> FloatArray:
            self.frame.heed()
            return make()

        return self.frame.held.once((self._own, key), heeding)

    @property
    def finely(self) -> Outside | None:
        """These tables of energies, paid in grains: doubles tell how many steps an entry has.

        None where energies outside have no common divisor.
        """
        return None if self._energy_step is None else replace(self, paid_in=self.charges.fine)

    @cached_property
    def _energy_step(self) -> Fraction | None:
        """Energy units of which all entries are multiples; None where it is not known that they are."""
        own = [c for c in self.charges.every if c.boundary <= self.frame.meeting and c.price]
        whole = all(c.free in (0, 1) and self.charges.first_words(c.place) < DOUBLES / 2 for c in own)
        if self.charges.are_sparse or not whole or not own:
            return None
        parts = [c.exact * c.block for c in own]
        most = math.lcm(*(part.denominator for part in parts))
        return Fraction(math.gcd(*(int(part * most) for part in parts)), most)

    @cached_property
    def _most_steps(self) -> float:
        """Steps of an entry up to which it errs by less than half of one.

        Prices, products, the step itself and the quotient are rounded once each, sums once per access.
        """
        return DOUBLES / (len(self.charges.every) + 6) / 2

    def paid(self, entries: FloatArray) -> FloatArray:
        """Entries of tables as what they are paid in: in whole steps, where doubles tell these apart."""
        step = self._energy_step if self.paid_in.grain else None
        if step is None or self.price.grain:
            return entries
        grains, numbers = step / self.paid_in.unit, entries / float(step)
        wide = np.longdouble(grains.numerator) / np.longdouble(grains.denominator)
        whole: FloatArray = np.where(numbers < self._most_steps, np.rint(numbers), numbers * SUMS_CLOSE)
        return np.multiply(whole, wide)

    def exact(self, boundary: int, lead: LeftInPlace) -> FloatArray:
        """Least cost with these numbers of tiles at a boundary, and this lead of the slot outside."""
        return self._by_room(boundary, lead)[..., -1]

    def _by_room(self, boundary: int, lead: LeftInPlace) -> FloatArray:
        """The costs of `exact` by the room that is left to the level and to places of its memory outside."""
        return self._remembered((boundary, lead), lambda: self._of_lead(boundary, lead))

    def _of_lead(self, boundary: int, lead: LeftInPlace) -> FloatArray:
        if lead is not None or boundary == 1:
            return self._exact(boundary, lead)
        leads = self.frame.first_leads(boundary - 2)
        return reduce(np.minimum, (self._without_loops(boundary, outer) for outer in leads))

    def _without_loops(self, boundary: int, outer: LeftInPlace) -> FloatArray:
        """Least cost if the slot outside has no loops, by the lead of the first one farther out that has."""
        return self._remembered(("none", boundary, outer), lambda: self._exact(boundary, None, (outer,)))

    def first(self, boundary: int, lead: LeftInPlace, step: int = -1) -> FloatArray:
        """Least cost by the lead of the innermost slot outside that has loops, if any has."""
        return self._first_by_room(boundary, lead)[..., step]

    def _first_by_room(self, boundary: int, lead: LeftInPlace) -> FloatArray:
        leads = self.frame.leads(boundary - 1)
        if None not in leads or boundary == 1 or lead not in self.frame.first_leads(boundary - 2):
            return self._by_room(boundary, lead)
        if lead not in leads or lead is None:
            return self._without_loops(boundary, lead)
        key = "first", boundary, lead
        return self._remembered(
            key, lambda: np.minimum(self._by_room(boundary, lead), self._without_loops(boundary, lead))
        )

    def least(self, boundary: int, step: int = -1) -> FloatArray:
        """Least cost with any lead, in one step of room."""
        return self._least_by_room(boundary)[..., step]

    def _least_by_room(self, boundary: int) -> FloatArray:
        return self._remembered(("any", boundary), lambda: self._least(boundary))

    def _least(self, boundary: int) -> FloatArray:
        tables = [self._by_room(boundary, lead) for lead in self.frame.leads(boundary - 1)]
        return reduce(np.minimum, tables) if tables else np.full((*self.frame.shape, 1), np.inf)

    @property
    def rooms(self) -> PlaceRooms:
        """Room that places of memories share."""
        return self.frame.rooms(self.charges.mask)

    def words_cost(
        self,
        place: int,
        boundary: int,
        lead: LeftInPlace,
        times: FloatArray,
        anew: bool = False,
        any_tile: bool = False,
    ) -> FloatArray:
        """Cost of delivering a dataspace to a boundary so many times; nothing is unrolled outside.

        With `anew` the innermost of the loops along no window moves it, too. With `any_tile` tiles at the
        boundary are not those at hand.
        """
        own = [c for c in self.charges.at(boundary) if c.place == place]
        leading = self.frame.leading(lead)
        if lead is not None and place in lead:
            leading = frozenset(self.frame.space.views[place].relevant)
        words = self.frame.words.of(place, self.frame.space.no_unrolling, leading)
        words = words.anew if anew else words
        none: FloatArray = np.zeros((1,) * len(self.frame.axes))
        return sum((self._charge(c, words, times, any_tile) for c in own), none)

    def _charge(
        self, charge: Charge, words: Delivered, times: float | FloatArray, any_tile: bool = False
    ) -> FloatArray:
        charges, price = self.charges, self.price
        share = (charges.least_share_outside if any_tile else charges.share_outside)(charge, price)
        total = words.begun + words.again * (times - 1)
        free = charge.free * charges.first_words(charge.place)
        return sum(price.of(charge)) * share * price.paid(charge, total, free)

    def _more_than_least(self, place: int, boundary: int, lead: LeftInPlace) -> FloatArray:
        """What a first delivery costs beyond that of the cheapest tiles."""
        ends = place, boundary, lead, np.ones((1,) * len(self.frame.axes))
        return self.words_cost(*ends) - self.words_cost(*ends, any_tile=True)

    def _exact(
        self, boundary: int, lead: LeftInPlace, farther_out: Sequence[LeftInPlace] | None = None
    ) -> FloatArray:
        """Least cost, given also what the innermost loop farther out may leave in place."""
        frame, kept = self.frame, self.charges.kept_at[boundary]
        fits = frame.fits(boundary, frame.space.tenants(self.charges.mask, boundary))
        fits = fits & frame.led(lead, boundary == 1)
        still = self._left_in_place(boundary, lead)
        moved = kept - still
        place, others = self._slides(lead, moved, still)
        farther = self.rooms.within(boundary, self._farther(boundary, lead, still, farther_out))
        cost: FloatArray = self._repeated(boundary, lead, moved, anew=place)[..., None] + farther
        if boundary > 1 and self.charges.are_sparse:
            cost = sum((self._more_than_least(p, boundary, lead)[..., None] for p in sorted(still)), cost)
        if place is not None:
            cost = np.minimum(cost, self._to_and_fro(boundary, lead, (moved, still), place, others))
        cost[~fits] = np.inf
        return cost

    def _left_in_place(self, boundary: int, lead: LeftInPlace) -> frozenset[int]:
        """What the innermost loop outside of a boundary leaves in place of what is kept there."""
        kept = self.charges.kept_at[boundary]
        still = kept if lead is None else kept & lead
        return frozenset(p for p in still if self.frame.space.reuses(p, boundary))

    def _repeated(
        self, boundary: int, lead: LeftInPlace, moved: Collection[int], anew: int | None
    ) -> FloatArray:
        """Cost of what the innermost loop outside of a boundary moves."""
        none: FloatArray = np.zeros((1,) * len(self.frame.axes))
        costs = (self.words_cost(p, boundary, lead, self.frame.times(p), p == anew) for p in sorted(moved))
        return sum(costs, none)

    def _slides(
        self, lead: LeftInPlace, moved: Collection[int], still: Collection[int]
    ) -> tuple[int | None, frozenset[int]]:
        """A dataspace whose window the innermost loop moves, and others, of what is in place.

        Any loop moves the one or the others.
        """
        views, frame = self.frame.space.views, self.frame
        sliding = [p for p in moved if lead is not None and views[p].window_dims & frame.leading(lead)]
        if len(sliding) != 1 or not frame.counted.executed:
            return None, frozenset()
        others = frame.moved_besides(sliding[0], still)
        return (sliding[0], others) if others else (None, others)

    def _to_and_fro(
        self,
        boundary: int,
        lead: LeftInPlace,
        kept: tuple[frozenset[int], frozenset[int]],
        place: int,
        others: frozenset[int],
    ) -> FloatArray:
        """Least cost where a window goes back along the same tiles after it has passed them.

        Then the innermost of the loops along no window leaves its dataspace in place and moves the others, so
        that all further loops repeat these.
        """
        moved, still = kept
        cost = self._repeated(boundary, lead, moved, anew=None)
        windows, views = self.frame.space.views[place].window_dims, self.frame.space.views
        for q in sorted(others):
            times = self.frame.product(views[q].irrelevant - windows)
            cost = cost + self.words_cost(q, boundary, lead, times)
        farther = self.rooms.within(boundary, self._farther(boundary, lead, still - others))
        least: FloatArray = cost[..., None] + farther
        return least

    def _farther(
        self,
        boundary: int,
        lead: LeftInPlace,
        still: frozenset[int],
        farther_out: Sequence[LeftInPlace] | None = None,
    ) -> FloatArray:
        """Least cost of what stays in place through the slot outside, and of all boundaries outside of it.

        The last axis is the room that is left outside.
        """
        frame = self.frame
        one = np.ones((1,) * len(frame.axes))
        if boundary == 1:
            times = ((p, frame.times_again(p, 0)) for p in sorted(still))
            once = sum((self.words_cost(p, 1, lead, own) for p, own in times), one * 0)
            allowed = frame.loops[0]
            reached = allowed.least(self._whole) if lead is not None else self._whole
            return np.where(np.isfinite(reached), np.broadcast_to(once, frame.shape), np.inf)[..., None]
        loops, every = frame.loops[boundary - 1], farther_out or frame.first_leads(boundary - 2)
        if lead is None:
            return reduce(np.minimum, (self._through_none(boundary, outer, still) for outer in every))
        options = [loops.least(self._by_any(boundary, still))]
        some = (outer for outer in every if outer is not None and not still.isdisjoint(outer))
        led = {outer: self._led_farther_out(boundary, outer, still) for outer in some}
        for place in sorted(still):
            # What goes on through the slot is not moved there: one of them, whatever the others do.
            tables = [table for outer, table in led.items() if place in outer]
            if tables:
                dims = sorted(frame.space.views[place].irrelevant)
                through = loops.least(reduce(np.minimum, tables), dims)
                options.append(np.maximum(through, self._moved_farther_out(boundary, place, still)))
        return reduce(np.minimum, options)

    def _led_farther_out(self, boundary: int, outer: LeftInPlace, still: frozenset[int]) -> FloatArray:
        """Least cost outside of the slot outside, and of what stays in place up to it, by the first lead."""
        return self._first_by_room(boundary - 1, outer) + self._closed(boundary, outer, still)[..., None]

    def _through_none(self, boundary: int, outer: LeftInPlace, still: frozenset[int]) -> FloatArray:
        """Cost if the slot outside has no loops, by the lead of the first one farther out that has."""
        table = self._led_farther_out(boundary, outer, still)
        passing = sorted(still & outer) if outer is not None else ()
        later = (self._moved_farther_out(boundary, place, still) for place in passing)
        return reduce(np.maximum, later, table)

    def _moved_farther_out(self, boundary: int, place: int, still: frozenset[int]) -> FloatArray | float:
        """Least cost where one dataspace of what stays in place goes on through the slot outside.

        Nothing is known where there is one slot farther out, whose loops the tables know.
        """
        if boundary - 2 <= 0:
            return 0.0
        key = "farther out", boundary, place, still
        return self._remembered(key, lambda: self._farther_out(boundary, place, still))

    def _farther_out(self, boundary: int, place: int, still: frozenset[int]) -> FloatArray:
        moved = self._closed(boundary, frozenset(), frozenset((place,)))
        table = moved + self.later(boundary - 1, place, loosely=False)
        least = self.frame.anything.least(table, sorted(self.frame.space.views[place].irrelevant))
        return (least + self._closed(boundary, None, still - {place}))[..., None]

    def _by_any(self, boundary: int, still: frozenset[int]) -> FloatArray:
        """Least cost of all boundaries outside, and of what stays in place up to the slot outside."""
        least = self._least_by_room(boundary - 1)
        return least + self._closed(boundary, frozenset(), still)[..., None] if still else least

    def _closed(self, boundary: int, outer: LeftInPlace, still: frozenset[int]) -> FloatArray:
        """Cost of what stayed in place so far where the lead outside moves it, and the least of the rest."""
        one = np.ones((1,) * len(self.frame.axes))
        total = one * 0
        for place in sorted(still):
            goes_on = outer is None or place in outer
            last = boundary - (1 if outer is None else 2)
            times = self.frame.times_again(place, last) if goes_on else self.frame.times(place)
            words = self._fewest(place) if self.frame.space.views[place].window_dims else None
            if words is None:
                total = total + self.words_cost(place, boundary, outer, times, any_tile=True)
            else:
                own = [c for c in self.charges.at(boundary) if c.place == place]
                total = sum((self._charge(c, words, times, any_tile=True) for c in own), total)
        return total

    def _fewest(self, place: int) -> Delivered:
        """Words of a dataspace with windows for any tiles."""
        view = self.frame.space.views[place]
        words = self.frame.words.of(place, self.frame.space.no_unrolling, view.relevant)
        one = np.ones((1,) * len(self.frame.axes))
        return Delivered(one * words.begun.min(), one * words.again.min())

    @cached_property
    def _whole(self) -> FloatArray:
        """Zero where there is one tile of everything, else infinite."""
        table = np.full(self.frame.shape, np.inf)
        table[tuple(int(np.flatnonzero(axis.numbers == 1)[0]) for axis in self.frame.axes)] = 0.0
        return table

    def joined(self, boundary: int, lead: LeftInPlace, dims: Sequence[int] | None) -> FloatArray:
        """Per numbers of rounds outside of the fanouts, the least over tiles that loops over `dims` lead to.

        With `lead` of the slot outside of the boundary, or any (an empty set stands for what leaves nothing).
        """
        key = "joined", boundary, lead, None if dims is None else tuple(dims)
        return self._remembered(
            key, lambda: self.frame.loops[boundary].least(self.first(boundary, lead), dims)
        )

    def joined_least(self, boundary: int, dims: Sequence[int] | None) -> FloatArray:
        """Per numbers of rounds, the least over tiles that loops over `dims` lead to, whatever others do."""
        key = "least", boundary, None if dims is None else tuple(dims)
        every = range(len(self.frame.axes)) if dims is None else dims
        return self._remembered(
            key, lambda: self.frame.loops[boundary].least_over(self.least(boundary), every)
        )

    def joined_repeating(self, boundary: int, place: int, dims: Sequence[int]) -> FloatArray:
        """`joined_least` where a window that the level does not keep goes back along its tiles.

        The innermost of the loops along no window leaves its dataspace in place, and moves what is kept here.
        """
        key = "repeating", boundary, place, tuple(dims)
        return self._remembered(
            key, lambda: self.frame.loops[boundary].least_over(self._repeating(boundary, place), dims)
        )

    def _repeating(self, boundary: int, place: int) -> FloatArray:
        frame, kept = self.frame, self.charges.kept_at[boundary]
        least = np.full(frame.shape, np.inf)
        for lead in frame.leads(boundary - 1):
            still, table = self._left_in_place(boundary, lead), self.exact(boundary, lead)
            others = frame.moved_besides(place, still)
            if others:
                repeated = self._to_and_fro(boundary, lead, (kept - still, still), place, others)
                table = np.maximum(table, repeated[..., -1])
            least = np.minimum(least, table)
        return least

    def later(self, boundary: int, place: int, loosely: bool) -> FloatArray:
        """Least cost where a dataspace stays in place through a boundary's slot, and is moved farther out.

        Along dimensions that do not index it by numbers of tiles where it is moved, along the others by those
        inside of the slot; with `loosely` these may be any that are fewer.
        """
        return self._remembered(
            ("later", boundary, place, loosely), lambda: self._later(boundary, place, loosely)
        )

    def _later(self, boundary: int, place: int, loosely: bool) -> FloatArray:
        dims = self.frame.space.views[place].irrelevant
        alone, others = sorted(dims), [d for d in range(len(self.frame.axes)) if d not in dims]
        if loosely:
            return self.frame.anything.least(self.later(boundary, place, loosely=False), others)
        least, between = np.full(self.frame.shape, np.inf), np.zeros(self.frame.shape)
        for outer in range(boundary - 1, -1, -1):
            between = between + self._passed(outer + 1, place, alone)
            least = np.minimum(least, between + self._moved_at(outer, boundary, alone, others))
        return least

    def _passed(self, boundary: int, place: int, alone: Sequence[int]) -> FloatArray:
        """Least cost at one boundary where another dataspace stays in place, given tiles farther out.

        Along `alone` these are known, along the other dimensions tiles are as many.
        """
        kept, least = self.charges.kept_at[boundary], np.full(self.frame.shape, np.inf)
        for lead in self.frame.leads_with(boundary - 1, place):
            still = self._left_in_place(boundary, lead)
            cost = self._repeated(boundary, lead, kept - still, anew=None)
            least = np.minimum(least, cost + self._closed(boundary, None, still))
        fits = self.frame.fits(boundary, self.frame.space.tenants(self.charges.mask, boundary))
        return self._beyond(np.where(fits, least, np.inf), alone)

    def _moved_at(self, boundary: int, inner: int, alone: Sequence[int], others: Sequence[int]) -> FloatArray:
        """Least cost outside of a boundary with tiles that are known along `alone`.

        Loops over the others lead to those of the boundaries up to `inner`, which leave room.
        """
        if boundary == 0:
            return np.where(self._single(alone), 0.0, np.inf)
        table = self.frame.loops[boundary].least_over(self._least_by_room(boundary), others)
        left: Any = self.rooms.steps(boundary)[-1]
        for level in range(boundary + 1, inner + 1):
            if boundary in self.rooms.outer(level):
                left = left - self.rooms.words(level).min(axis=tuple(alone), keepdims=True)
        step = self.rooms.step(boundary, np.maximum(left, 0))[..., None]
        found = np.take_along_axis(table, np.broadcast_to(step, (*self.frame.shape, 1)), axis=-1)[..., 0]
        return np.where(left >= 0, found, np.inf)

    def _single(self, dims: Sequence[int]) -> BoolArray:
        """Where there is one tile along some dimensions."""
        ones = (self.frame.numbers(d) == 1 for d in dims)
        return reduce(np.logical_and, ones, np.ones(self.frame.shape, dtype=np.bool_))

    def beyond(self, boundary: int, lead: LeftInPlace) -> FloatArray:
        """Least cost with tiles at a boundary that are no larger than those at hand along any dimension."""
        return self._remembered(("beyond", boundary, lead), lambda: self._beyond(self.first(boundary, lead)))

    def _beyond(self, table: FloatArray, dims: Sequence[int] | None = None) -> FloatArray:
        for d, axis in enumerate(self.frame.axes):
            if dims is not None and d not in dims:
                continue
            table = running_minimum(table, d, np.argsort(-axis.numbers, kind="stable").tolist())
        return table

    def loosest_through(self, boundary: int, lead: LeftInPlace, place: int) -> FloatArray:
        """`joined` for any spatial choices, where one dataspace is not moved.

        Along dimensions that index the dataspace it is by the fewest tiles inside, else by the most.
        """
        alone = self.frame.space.views[place].irrelevant
        others = [d for d in range(len(self.frame.axes)) if d not in alone]
        return self._remembered(
            ("through", boundary, lead, place),
            lambda: self.frame.anything.least(
                self._beyond(self.first(boundary, lead), others), sorted(alone)
            ),
        )

    def loosest_least(self, boundary: int, dims: Sequence[int] | None) -> FloatArray:
        """`joined_least` per numbers of tiles inside of the fanouts, for any children and loops."""
        key = "loosest", boundary, None if dims is None else tuple(dims)
        return self._remembered(key, lambda: self.frame.anything.least(self.least(boundary), dims))
