"""The frame that all tables of a search space share: axes, loops of slots, words, and tiles that fit."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from itertools import chain, product, takewhile

import numpy as np

from solver.search.arrays import BoolArray, FloatArray, IntArray, among, distinct
from solver.search.path.axes import SlotLoops, TileAxis, axes_of
from solver.search.path.counting import ByOrder, LeftInPlace, counted_by
from solver.search.path.deliveries import WordTables
from solver.search.path.rooms import PlaceRooms
from solver.search.space.keep_masks import KeepMask
from solver.search.space.orders import put_inside
from solver.search.space.search_space import SearchSpace
from solver.search.stopping import Stopped

TABLES, BESIDE = 34, 22
"""Tables over all numbers of tiles that there are at a time, at least, and those of them that are not held.

As many doubles each, about."""

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
    """Estimated memory of the tables of a search, before any of them is made."""
    return TABLES * 8 * space.lattice.size


def bytes_beside(space: SearchSpace) -> int:
    """Estimated memory besides the cached tables: intermediate tables, and lists."""
    return BESIDE * 8 * space.lattice.size


@dataclass
class TableCache:
    """A cache of tables, which drops the least recently used ones beyond a limit in bytes."""

    most_bytes: int = MOST_HELD
    _bytes: int = 0
    _tables: OrderedDict[object, FloatArray] = field(default_factory=OrderedDict)

    def once(self, key: object, make: Callable[[], FloatArray]) -> FloatArray:
        """The result of `make`, cached under a key."""
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
    """The frame of all tables of a search space: axes, the loops of each slot, words, and tiles that fit.

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
        """Number of places along each axis."""
        return tuple(len(axis.numbers) for axis in self.axes)

    @cached_property
    def counted(self) -> ByOrder:
        """The counting rule."""
        return counted_by(self.space)

    @cached_property
    def words(self) -> WordTables:
        """Tables of the words of deliveries."""
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
        """The omitted loops of the slots up to a given one."""
        return frozenset(own for own in self.without if own[0] <= last)

    @cached_property
    def possible(self) -> tuple[tuple[BoolArray, ...], ...]:
        """By boundary and dimension, the numbers of tiles that loops can reach and continue from."""
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
        """The search space without unreachable numbers of tiles."""
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
        """By spatial choice of a stage, whether tiles exist for all of its factors."""
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
        """Which numbers of tiles `level` has room for, shape `shape`; user-defined rules hold."""
        if (level, kept) not in self._fits:
            self._fits[level, kept] = self.space.allowed(level, kept).reshape(self.shape)
        return self._fits[level, kept]

    def has_room(self, kept: frozenset[int]) -> bool:
        """Whether the outermost level has room for all of some dataspaces; user-defined rules hold."""
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
