"""Bounds on lists of tiles and spatial choices: lists inside, tables outside, and a join by lookup."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache, cached_property, partial, reduce
from itertools import product
from typing import NamedTuple

import numpy as np

from solver.search.arrays import TOGETHER, BoolArray, FloatArray, IntArray, alike
from solver.search.path.axes import NOWHERE
from solver.search.path.charges import (
    ENERGY,
    NOTHING,
    SUMS_CLOSE,
    WHOLE_DOUBLES,
    Charge,
    Charges,
    Price,
    StackedPrices,
)
from solver.search.path.counting import LeftInPlace
from solver.search.path.frame import TileFrame
from solver.search.path.inside import Inside, price_of
from solver.search.path.listed import Labels, Listed, Pending, RowCosts
from solver.search.path.outside import Outside
from solver.search.path.rooms import PlaceRooms
from solver.search.path.unrolled import Loosest, Unrolled

FEW_TILES = 1 << 14
"""Numbers of tiles up to which tables cost next to nothing."""

MOST_NUMBERS = 1 << 22
"""Words of windows by tile and by what is unrolled along them, up to which all are known at once."""


@dataclass
class Masked:
    """All mappings with one keep mask.

    Parameters
    ----------
    frame, charges
        Of the search space, and of the mask.
    known
        Tables outside by price, which masks share that keep the same there.
    """

    frame: TileFrame
    charges: Charges
    known: dict[Price, Outside]
    _own: dict[Price, Outside] = field(default_factory=dict)

    def outside(self, price: Price) -> Outside:
        """Tables of what lies outside of the fanouts; prices share them by which nothing is paid there."""
        if price not in self._own:
            paid = (own for own in self.charges.every if own.boundary <= self.frame.meeting)
            own = price if any(map(price.pays, paid)) else NOTHING
            finely = self.outside(ENERGY).finely if own.grain else None
            if finely is None and own not in self.known:
                self.known[own] = Outside(self.frame, self.charges, own)
            self._own[price] = finely or self.known[own]
        return self._own[price]

    @cached_property
    def inside(self) -> Inside:
        """What lies inside of them."""
        return Inside(self.frame, self.charges)

    @property
    def rooms(self) -> PlaceRooms:
        """Room that places of memories share."""
        return self.frame.rooms(self.charges.mask)

    def floors(self, every: Unrolled, price: Price, with_tables: bool) -> FloatArray:
        """What words cost at least, by spatial choice: each moves once, but for operands.

        With tables, what lies outside of the fanouts costs what it takes with the best tiles there.
        """
        frame = self.frame
        total = np.zeros(len(every), price.dtype)
        for view in frame.space.views:
            key = "floor", *self.charges.depend_on(view.place), price, with_tables
            total += every.once(key, partial(self.floor, view.place, every, price, with_tables))
        if with_tables and frame.meeting:
            outside = self.outside(price)
            total += outside.paid(outside.least(frame.meeting).min())
        return total

    def floor(self, place: int, every: Unrolled, price: Price, with_tables: bool) -> FloatArray:
        """What words of one dataspace cost at least, by spatial choice, but for those that a table knows."""
        total = np.zeros(len(every), price.dtype)
        for charge in self.charges.of(place):
            if price.pays(charge) and (charge.boundary > self.frame.meeting or not with_tables):
                asked = charge.boundary == self.inside.depth
                words = (
                    self.inside.fewest_operands(charge, every)
                    if asked
                    else self._words_of_all_tiles(charge, every)
                )
                total += self._least_paid(charge, every, price, words)
        return total

    def _least_paid(self, charge: Charge, every: Unrolled, price: Price, words: FloatArray) -> FloatArray:
        """What so many words cost at least, shape (choices,) or (tiles, choices)."""
        each = price_of(charge, price, every) * self.charges.least_share(charge, price, every)
        paid: FloatArray = each * price.paid(charge, words, self.inside.free(charge, every))
        return paid

    def has_windows(self, every: Unrolled) -> bool:
        """Whether windows are kept right inside of the meeting fanouts, and their words are few numbers."""
        kinds, shape = len(every.kinds[0]), self.frame.shape
        views = [self.frame.space.views[charge.place] for charge in self._windows]
        sizes = [kinds * math.prod(shape[d] for d in view.relevant) for view in views]
        return 0 < max(sizes, default=0) <= MOST_NUMBERS

    @property
    def _windows(self) -> list[Charge]:
        """Accesses for windows whose tiles are those at the first boundary inside."""
        views, inner = self.frame.space.views, self.inside.first < self.inside.depth
        every = self.charges.at(self.inside.first) if inner else ()
        return [charge for charge in every if views[charge.place].window_dims]

    def windows(
        self, tiles: IntArray, every: Unrolled, choices: IntArray, price: Price
    ) -> tuple[FloatArray, IntArray]:
        """What windows cost beyond their floors where tiles at the first boundary inside are these, at least.

        Parameters
        ----------
        tiles
            Shape (tiles, dimensions).
        every, choices
            All spatial choices, and places of those that are looked at.
        price
            Of words.

        Returns
        -------
        tuple[FloatArray, IntArray]
            The costs by tile and class of choices, shape (tiles, classes); the class of each choice.
        """
        some, views = every[choices], self.frame.space.views
        told: list[float | FloatArray] = []
        paid, one = list(filter(price.pays, self._windows)), np.ones(1)
        shares = [
            some.share(views[own.place], own.level, own.boundary) if own.shared else one for own in paid
        ]
        for own, share in zip(paid, shares, strict=True):
            told += share, self.inside.free(own, some), price_of(own, price, some)
            told.append(self.charges.least_share(own, price, some))
        columns = (np.broadcast_to(own, len(some)) for own in (every.kinds[1][choices], *told))
        codes = [np.unique(own, return_inverse=True)[1] for own in columns]
        firsts, classes = alike(np.stack(codes, axis=1))
        total: FloatArray = np.zeros((len(tiles), len(firsts)))
        for charge, share in zip(paid, shares, strict=True):
            each, once = some[firsts], self._words_of_all_tiles(charge, some[firsts])
            words = self._first_words(charge, tiles, every, choices[firsts])
            words = words * np.broadcast_to(share, len(some))[firsts]
            least = self._least_paid(charge, each, price, np.maximum(words, once))
            total += least - self._least_paid(charge, each, price, once)
        return total, classes

    def _first_words(self, charge: Charge, tiles: IntArray, every: Unrolled, choices: IntArray) -> FloatArray:
        """Words that children get where all tiles come once, at least, shape (tiles, choices)."""
        frame, dims = self.frame, sorted(self.frame.space.views[charge.place].relevant)
        places = tuple(frame.axes[d].place(tiles[:, d]) for d in dims)
        entries = np.ravel_multi_index(places, [frame.shape[d] for d in dims])
        kinds, of_choice = np.unique(every.kinds[1][choices], return_inverse=True)
        tables = every.once(("begun", charge.place, charge.boundary), dict[int, FloatArray])
        for kind in kinds.tolist():
            if kind not in tables:
                tables[kind] = self._begun_by_kind(charge, every, int(every.kinds[0][kind]))
        return np.stack([tables[kind][entries] for kind in kinds.tolist()], axis=1)[:, of_choice]

    def _begun_by_kind(self, charge: Charge, every: Unrolled, row: int) -> FloatArray:
        """Words that children get where all tiles come once, with one spatial choice, for all tiles."""
        view = self.frame.space.views[charge.place]
        unrolling = self.inside.unrolling(every, row, charge.boundary)
        begun = self.frame.words.of(charge.place, unrolling, view.relevant).begun
        shape = [size if d in view.relevant else 1 for d, size in enumerate(self.frame.shape)]
        return np.broadcast_to(begun, shape).reshape(-1)

    def _words_of_all_tiles(self, charge: Charge, every: Unrolled) -> FloatArray:
        """Words of a delivery of all tiles, once."""
        view = self.frame.space.views[charge.place]
        words = self.frame.words.of(charge.place, self.frame.space.no_unrolling, view.relevant)
        return np.full(len(every), float(words.begun.min()))

    @cached_property
    def tiles(self) -> IntArray:
        """Numbers of tiles at the first boundary inside, shape (rows, dimensions)."""
        frame, first = self.frame, self.inside.first
        axes = frame.axes
        if first == self.inside.depth:
            return np.array([[axis.bound for axis in axes]], dtype=np.int64)
        allowed = list(map(np.flatnonzero, frame.possible[first]))
        fits: BoolArray = np.ones(tuple(map(len, allowed)), dtype=np.bool_)
        for boundary in range(first, self.inside.depth):
            fits = fits & self._room(boundary, allowed)
        rows = np.argwhere(fits)
        return np.stack(
            [axis.numbers[own[rows[:, d]]] for d, (axis, own) in enumerate(zip(axes, allowed, strict=True))],
            axis=1,
        )

    def _room(self, boundary: int, allowed: Sequence[IntArray]) -> BoolArray:
        """Whether a level inside may have room if tiles at the first boundary are these; as a table."""
        frame = self.frame
        fits = frame.fits(boundary, frame.space.tenants(self.charges.mask, boundary))
        for d, own in enumerate(allowed):
            places = own
            if self.inside.relation(boundary, d) != "same":
                # The smallest tiles: larger ones take more room.
                fits = np.asarray(fits.any(axis=d, keepdims=True))
                places = np.zeros(len(own), dtype=np.int64)
            fits = np.take(fits, places, axis=d)
        return fits

    @cached_property
    def labels(self) -> tuple[dict[int, LeftInPlace], ...]:
        """Leads of the slots inside but the innermost one."""
        slots = range(self.inside.first, self.inside.depth - 1)
        every = product(*(self.frame.leads(slot) for slot in slots))
        return tuple(dict(zip(slots, chosen, strict=True)) for chosen in every)

    def parted(self, rows: int) -> list[IntArray]:
        """Labels, parted into such as are looked at together, for so many tiles with spatial choices."""
        size, number = max(1, TOGETHER // max(1, rows)), len(self.labels)
        return [np.arange(first, min(first + size, number)) for first in range(0, number, size)]

    def listed(self, tiles: IntArray, unrolled: Unrolled, labels: IntArray) -> Listed:
        """Rows of tiles, spatial choices, and labels."""
        return Listed({self.inside.first: tiles}, unrolled, Labels(self.labels, labels))

    def with_any_leads(self, tiles: IntArray, unrolled: Unrolled) -> Listed:
        """Rows of tiles and spatial choices in which all stays in place, whatever the leads are."""
        slots = range(self.inside.first, self.inside.depth - 1)
        anything = Labels.alike(dict.fromkeys(slots, self.frame.everything))
        return Listed({self.inside.first: tiles}, unrolled, anything)

    def rounds(self, tiles: IntArray, unrolled: Unrolled) -> tuple[IntArray, BoolArray]:
        """Places of the rounds outside of the meeting fanouts, and where there are any.

        For the loosest choice those of the most rounds that there may be.
        """
        stage = self.frame.meeting
        factors = unrolled.factors[stage]
        if isinstance(unrolled, Loosest):
            most = -(-tiles // unrolled.least[stage])
            places = np.stack(
                [axis.place(axis.at_least(most[:, d])) for d, axis in enumerate(self.frame.axes)], axis=1
            )
            busy: BoolArray = np.asarray((unrolled.needed[stage] <= tiles).all(axis=1))
            return places, busy
        places = np.stack(
            [axis.rounds_of(factors[:, d], tiles[:, d]) for d, axis in enumerate(self.frame.axes)], axis=1
        )
        valid = np.asarray(((places != NOWHERE) & (unrolled.needed[stage] <= tiles)).all(axis=1))
        smallest = tiles * unrolled.product(self.inside.first, self.inside.depth)
        for d in (d for d, axis in enumerate(self.frame.axes) if axis.divides):
            # Perfect factors of loops make up the rest.
            valid &= self.frame.axes[d].bound % smallest[:, d] == 0
        return places, valid

    def steps(self, tiles: IntArray, unrolled: Unrolled) -> FloatArray:
        """Cycles of the arithmetic, at least; infinite where children have no work, or tiles no room."""
        _, valid = self.rounds(tiles, unrolled)
        if not self.frame.axes[0].divides:
            valid[valid] = self._have_room(tiles[valid], unrolled[np.flatnonzero(valid)])
        return np.where(valid, self.inside.steps(tiles, unrolled), np.inf)

    def _have_room(self, tiles: IntArray, unrolled: Unrolled) -> BoolArray:
        """Whether levels inside have room for tiles in which all children inside have as much to do."""
        space = self.frame.space
        able = np.ones(len(tiles), dtype=np.bool_)
        for boundary in range(self.inside.first, self.inside.depth):
            extents = self._extents(tiles, unrolled, boundary)
            able &= (extents > 0).all(axis=1)
            able &= space.holds(boundary, space.tenants(self.charges.mask, boundary), extents)
        return able

    def _extents(self, tiles: IntArray, unrolled: Unrolled, boundary: int) -> IntArray:
        """Of tiles at a boundary inside, at least; 0 where there are none."""
        inside = np.broadcast_to(unrolled.copies(boundary, self.inside.depth), tiles.shape)
        extents = np.minimum(inside, [axis.bound for axis in self.frame.axes])
        for d, axis in enumerate(self.frame.axes):
            if self.inside.relation(boundary, d) == "same":
                extents[:, d] = axis.extents(tiles[:, d], inside[:, d])
        return extents

    def fixed(self, unrolled: Unrolled, cycles: FloatArray, tiles: IntArray | None = None) -> FloatArray:
        """Energy units besides those of words: arithmetic, and leakage in so many cycles."""
        finite: FloatArray = np.where(np.isfinite(cycles), cycles, 0.0)
        leaked = (
            float(own.per_cycle) * self.charges.leaking(own.level, own.used * finite, own.busy, finite)
            for own in self.inside.leaking(unrolled, tiles)
        )
        return sum(leaked, np.zeros(len(cycles)) + self.charges.arithmetic(unrolled))

    def exactly_fixed(
        self, unrolled: Unrolled, cycles: Sequence[Fraction], tiles: IntArray | None = None
    ) -> list[int]:
        """Energy units besides those of words, by row, as whole numbers."""
        every = list(self.inside.leaking(unrolled, tiles))
        if not every:
            return [self.charges.compute_energy] * len(cycles)
        counts = (np.broadcast_to(n, len(cycles)).tolist() for own in every for n in (own.used, own.busy))
        rows = zip(cycles, *counts, strict=True)

        @cache
        def of(own: Fraction, *counts: int) -> int:
            pairs = zip(every, counts[::2], counts[1::2], strict=True)
            leaked = (round(level.per_cycle * max(used * own, Fraction(busy))) for level, used, busy in pairs)
            return self.charges.compute_energy + sum(leaked)

        return [of(*row) for row in rows]

    def exactly_once(self, unrolled: Unrolled) -> list[int]:
        """Energy units of words where each moves once, but for operands: by row, at least."""
        own = [charge for charge in self.charges.every if charge.price and charge.block == 1]
        words = np.zeros((len(unrolled), len(own)))
        for number, charge in enumerate(own):
            asked = charge.boundary == self.inside.depth
            count = self.inside.fewest_operands if asked else self._words_of_all_tiles
            free = self.inside.free(charge, unrolled)
            words[:, number] = np.maximum(count(charge, unrolled) - np.ceil(free), 0)
        # Those that are not whole are shares on the average, and those that doubles do not tell err.
        words = np.where(words < WHOLE_DOUBLES, np.floor(words * np.where(words % 1, SUMS_CLOSE, 1.0)), 0.0)

        @cache
        def paid(*counts: float) -> int:
            return math.floor(sum(charge.exact * int(n) for charge, n in zip(own, counts, strict=True)))

        return [paid(*row) for row in words.tolist()]

    def cost(self, listed: Listed, price: Price, limits: FloatArray | None = None) -> FloatArray:
        """What words cost in each row, at least.

        Parameters
        ----------
        listed
            The rows.
        price
            Of words.
        limits
            What reaches these is not bounded any closer, nothing is without them.

        Raises
        ------
        Stopped
            When the search must end.
        """
        some = None if limits is None else limits[np.newaxis]
        cost: FloatArray = self.costs(listed, StackedPrices((price,)), some)[0]
        return cost

    def costs(self, listed: Listed, prices: StackedPrices, limits: FloatArray | None = None) -> FloatArray:
        """What words cost by several prices, shape (prices, rows); rows at the limit of one are dropped."""
        cost = np.full((*prices.shape, len(listed)), np.inf, prices.dtype)
        places, valid = listed.once(
            "rounds", lambda: self.rounds(self._first_tiles(listed), listed.unrolled), _some_rounds
        )
        rows = np.flatnonzero(valid)
        if not len(rows):
            return cost
        places, some = places[rows], listed[rows]
        node, live = self.inside.cost(some, prices), np.ones(len(rows), dtype=np.bool_)
        for place, price in enumerate(prices.each):
            within = None if limits is None else np.where(live, limits[place, rows], -np.inf)
            cost[place, rows] = own = self._with_outside(some, places, node.by(place, price), price, within)
            live = live if within is None else live & (own < within)
        return cost

    def _with_outside(
        self, listed: Listed, places: IntArray, node: RowCosts, price: Price, limits: FloatArray | None
    ) -> FloatArray:
        """Least cost of rows with all boundaries outside."""
        fewest = None
        if isinstance(listed.unrolled, Loosest):
            fewest = self._fewest_rounds(self._first_tiles(listed), listed.unrolled)
        best = np.full(len(listed), np.inf, price.dtype)
        finite = np.isfinite(node.spent)
        spent = np.where(finite, node.spent, 0.0)
        for lead in self.frame.leads(self.frame.meeting):
            self.frame.heed()
            within = None if limits is None else np.minimum(limits, best) - spent
            cost = spent + self._outside_cost(node, places, lead, price, within, fewest)
            led = self.frame.led(lead, self.frame.meeting == 0 and fewest is None)[tuple(places.T)]
            best = np.where(led, np.minimum(best, cost), best)
        return np.where(finite, best, np.inf)

    def _first_tiles(self, listed: Listed) -> IntArray:
        """Numbers of tiles at the first boundary inside: single iterations where that is the arithmetic."""
        if self.inside.first < self.inside.depth:
            return listed.tiles[self.inside.first]
        return np.repeat(self.tiles, len(listed), axis=0)

    def _outside_cost(
        self,
        node: RowCosts,
        places: IntArray,
        lead: LeftInPlace,
        price: Price,
        limits: FloatArray | None,
        fewest: IntArray | None,
    ) -> FloatArray:
        """Least cost of what is pending and of all boundaries outside, given the lead of the meeting slot."""
        frame, outside, m = self.frame, self.outside(price), self.frame.meeting
        index, loosely = np.ravel_multi_index(tuple(places.T), frame.shape), fewest is not None
        if m == 0:
            return self._outermost(node, places, lead, loosely)
        if lead is None:
            passed = (
                self._passed(node, places, outer, outside, limits, fewest)
                for outer in frame.first_leads(m - 1)
            )
            none: FloatArray = reduce(np.minimum, passed)
            return none
        still = [own for own in node.waiting if own.part.charge.place in lead]
        spent: FloatArray = np.zeros(len(places))
        for own in (own for own in node.waiting if own.part.charge.place not in lead):
            spent = spent + own.moved_by(lead)
        table = (outside.loosest_least if loosely else outside.joined_least)(m, None)
        least: FloatArray = sum((own.once for own in still), spent + outside.paid(table.reshape(-1)[index]))
        rows = np.flatnonzero(least < limits) if limits is not None and still else np.empty(0, dtype=np.int64)
        if len(rows) and limits is not None:
            parts, left = [own.part.at(rows) for own in still], limits[rows] - spent[rows]
            farther = outside.loosest_least if loosely else outside.joined_least
            close = self._closed(parts, places[rows], outside, partial(farther, m), left, loosely)
            if not loosely:
                close = np.maximum(close, self._closed_apart(parts, places[rows], outside, left))
            for place in sorted({part.charge.place for part in parts}):
                some = None if fewest is None else fewest[rows]
                close = np.minimum(close, self._later(parts, place, places[rows], outside, left, some))
            least[rows] = np.maximum(least[rows], close + spent[rows])
        return least

    def _passed(
        self,
        node: RowCosts,
        places: IntArray,
        outer: LeftInPlace,
        outside: Outside,
        limits: FloatArray | None,
        fewest: IntArray | None,
    ) -> FloatArray:
        """Least cost where the meeting slot has no loops, by the lead of the first slot outside that has."""
        m, loosely = self.frame.meeting, fewest is not None
        at = np.ravel_multi_index(tuple(places.T), self.frame.shape) if fewest is None else fewest
        table = outside.paid((outside.beyond if loosely else outside.first)(m, outer).reshape(-1)[at])
        through = [own for own in node.waiting if outer is None or own.part.charge.place in outer]
        moved = [own for own in node.waiting if outer is not None and own.part.charge.place not in outer]
        closed: FloatArray = sum((own.moved_by(outer) for own in moved), table)
        least: FloatArray = sum((own.once for own in through), closed)
        if m == 1 or limits is None or outer is None:
            return least
        for place in sorted({own.part.charge.place for own in through}):
            rows = np.flatnonzero(least < limits)
            parts = [own.part.at(rows) for own in through]
            besides = closed[rows] - table[rows]
            left = limits[rows] - besides
            found = self._moved_later(parts, place, places[rows], outside, left, table[rows], loosely)
            least[rows] = np.maximum(least[rows], besides + found)
        return least

    def _later(
        self,
        still: Sequence[Pending],
        place: int,
        places: IntArray,
        outside: Outside,
        limits: FloatArray,
        fewest: IntArray | None,
    ) -> FloatArray:
        """Least cost where a dataspace that is in place stays so through the slot outside, too."""
        frame, m, alone = self.frame, self.frame.meeting, self.frame.space.views[place].irrelevant
        every: FloatArray = np.full(len(places), np.inf)
        index = tuple(places.T)
        if fewest is not None:
            pairs = enumerate(np.unravel_index(fewest, frame.shape))
            index = tuple(index[d] if d in alone else own for d, own in pairs)
        for outer in frame.leads_with(m - 1, place):
            if fewest is None:
                table = outside.joined(m, outer, sorted(alone))
            else:
                table = outside.loosest_through(m, outer, place)
            every = np.minimum(every, outside.paid(table[index]))
        if m == 1:
            return sum(map(self.once, still), every)
        return self._moved_later(still, place, places, outside, limits, every, fewest is not None)

    def _moved_later(
        self,
        still: Sequence[Pending],
        place: int,
        places: IntArray,
        outside: Outside,
        limits: FloatArray,
        least_outside: FloatArray,
        loosely: bool,
    ) -> FloatArray:
        """Cost of a dataspace in place through the next slot, given the least cost of all else outside."""
        others = (self.once(part) for part in still if part.charge.place != place)
        besides: FloatArray = sum(others, np.zeros(len(places)))
        own = [part for part in still if part.charge.place == place]
        table = outside.later(self.frame.meeting, place, loosely)
        left = limits - besides
        closed = self._closed(own, places, outside, lambda _: table, left, loosely, least_outside)
        return besides + closed

    def _fewest_rounds(self, tiles: IntArray, unrolled: Loosest) -> IntArray:
        """Places in the tables of the fewest rounds that any of several spatial choices takes."""
        rounds = -(-tiles // unrolled.factors[self.frame.meeting])
        columns = [axis.place(axis.at_least(rounds[:, d])) for d, axis in enumerate(self.frame.axes)]
        return np.ravel_multi_index(tuple(columns), self.frame.shape)

    def _outermost(self, node: RowCosts, places: IntArray, lead: LeftInPlace, loosely: bool) -> FloatArray:
        """Cost of what is pending where the meeting slot is the outermost one."""
        total = np.zeros(len(places))
        for own in node.waiting:
            goes_on = lead is None or own.part.charge.place in lead
            total = total + (own.once if goes_on else own.moved_by(lead))
        if loosely:
            return total
        whole = [int(np.flatnonzero(axis.numbers == 1)[0]) for axis in self.frame.axes]
        loops = self.frame.loops[0]
        for d, place in enumerate(whole):
            reached = loops.reach[d][place][places[:, d]] if lead is not None else places[:, d] == place
            total = np.where(reached, total, np.inf)
        return total

    def once(self, part: Pending) -> FloatArray:
        """What a pending access costs with the fewest rounds outside."""
        return part.cost(sorted(self.frame.space.views[part.charge.place].irrelevant), part.fewest)

    def _closed_apart(
        self, still: Sequence[Pending], places: IntArray, outside: Outside, limits: FloatArray
    ) -> FloatArray:
        """Least cost where windows stay in place: repetitions bring whole tiles, or others are repeated.

        Only one dimension may leave the windows in place: that of the innermost loop of the meeting slot.
        See `Outside.joined_repeating` for what is repeated.
        """
        views, m = self.frame.space.views, self.frame.meeting
        sliding = {part.charge.place for part in still if views[part.charge.place].window_dims}
        least: FloatArray = np.full(len(places), -np.inf)
        if len(sliding) != 1 or not self.frame.counted.executed:
            return least
        (place,) = sliding
        if len(views[place].irrelevant) != 1:
            return least
        anew = [
            part._replace(words=part.words.anew) if part.charge.place == place else part for part in still
        ]
        whole = self._closed(anew, places, outside, partial(outside.joined_least, m), limits, loosely=False)
        repeating = partial(outside.joined_repeating, m, place)
        return np.minimum(whole, self._closed(still, places, outside, repeating, limits, loosely=False))

    def _closed(
        self,
        still: Sequence[Pending],
        places: IntArray,
        outside: Outside,
        table_over: Callable[[Sequence[int]], FloatArray],
        limits: FloatArray,
        loosely: bool,
        least_outside: FloatArray | None = None,
    ) -> FloatArray:
        """Least cost where what is in place is moved by loops of the meeting slot, over all tiles outside.

        Tables outside are taken by the dimensions that move nothing of what is in place.
        With `least_outside`, a bound on what lies outside, it is loops farther out that move it.
        """
        frame, m = self.frame, self.frame.meeting
        dims = sorted(frozenset().union(*(frame.space.views[p.charge.place].irrelevant for p in still)))
        others = [d for d in range(len(frame.axes)) if d not in dims]
        table = table_over(others)
        reach = (frame.anything if loosely else frame.loops[m]).reach
        if least_outside is not None and not loosely:
            reach = frame.reach_through(m)
        parts = [_Closing.of(part, sorted(frame.space.views[part.charge.place].irrelevant)) for part in still]
        if len(places) == 1:
            at = tuple(slice(None) if d in dims else place for d, place in enumerate(places[0].tolist()))
            return self._closed_once(parts, dims, places[0], outside.paid(table[at]), reach, least_outside)
        counts = [frame.shape[d] for d in dims]
        grids = np.meshgrid(*map(np.arange, counts), indexing="ij")
        listed = (
            np.stack([own.ravel() for own in grids], axis=1) if dims else np.zeros((1, 0), dtype=np.int64)
        )
        table = np.moveaxis(table, dims, range(len(dims))).reshape(len(listed), -1)
        inner = np.zeros(len(places), dtype=np.int64)
        if others:
            inner = np.ravel_multi_index(
                tuple(places[:, d] for d in others), [frame.shape[d] for d in others]
            )
        columns, own = places[:, dims].T.copy(), np.arange(len(places))
        least = outside.paid(table.min(axis=1))
        best = np.full(len(places), np.inf, least.dtype)
        found = best.copy()
        for row in np.argsort(least, kind="stable"):
            live = least[row] < np.minimum(best, limits)
            number = np.count_nonzero(live)
            if not number:
                break
            if number < len(own):
                found[own] = best
                own, inner, columns = own[live], inner[live], columns[:, live]
                best, limits, parts = best[live], limits[live], [part.at(live) for part in parts]
                least_outside = None if least_outside is None else least_outside[live]
            self.frame.heed()
            pairs = list(zip(dims, listed[row].tolist(), strict=True))
            rounds = {d: float(frame.axes[d].numbers[place]) for d, place in pairs}
            beyond = outside.paid(table[row][inner])
            beyond = beyond if least_outside is None else np.maximum(beyond, least_outside)
            cost = sum((part.cost(rounds) for part in parts), beyond)
            for (d, place), column in zip(pairs, columns, strict=True):
                cost = np.where(reach[d][place][column], cost, np.inf)
            np.minimum(best, cost, out=best)
        found[own] = best
        return found

    def _closed_once(
        self,
        parts: Sequence[_Closing],
        dims: Sequence[int],
        places: IntArray,
        entries: FloatArray,
        reach: Sequence[BoolArray],
        least_outside: FloatArray | None,
    ) -> FloatArray:
        """Least cost for one row: all tiles outside together, whose entries these are."""
        cost = entries if least_outside is None else np.maximum(entries, least_outside[0])
        columns = {d: [-1 if e == d else 1 for e in dims] for d in dims}
        rounds = {d: self.frame.axes[d].numbers.astype(np.float64).reshape(columns[d]) for d in dims}
        cost = sum((part.cost(rounds) for part in parts), cost)
        for d in dims:
            cost = np.where(reach[d][:, places[d]].reshape(columns[d]), cost, np.inf)
        return np.full(1, cost.min())


def _some_rounds(rounds: tuple[IntArray, BoolArray], rows: IntArray) -> tuple[IntArray, BoolArray]:
    """Rounds of some rows."""
    places, valid = rounds
    return places[rows], valid[rows]


class _Closing(NamedTuple):
    """A pending access, prepared to be priced for many numbers of rounds outside."""

    dims: tuple[int, ...]
    copies: tuple[FloatArray, ...]
    last: tuple[FloatArray, ...]
    begun: FloatArray
    again: FloatArray
    alike: FloatArray
    free: FloatArray

    @classmethod
    def of(cls, part: Pending, irrelevant: Sequence[int]) -> _Closing:
        each = part.price * part.share
        copies, last = (
            tuple(_one_if_same(own[:, d]) for d in irrelevant) for own in (part.copies, part.last)
        )
        return cls(
            tuple(irrelevant),
            copies,
            last,
            _one_if_same(each * part.words.begun),
            _one_if_same(each * part.words.again),
            _one_if_same(part.alike),
            _one_if_same(part.price * part.free),
        )

    def at(self, rows: BoolArray) -> _Closing:
        """Some of the rows."""
        begun, again, alike, free = (
            own if len(own) == 1 else own[rows] for own in (self.begun, self.again, self.alike, self.free)
        )
        copies, last = (
            tuple(own if len(own) == 1 else own[rows] for own in served)
            for served in (self.copies, self.last)
        )
        return _Closing(self.dims, copies, last, begun, again, alike, free)

    def cost(self, rounds: Mapping[int, float] | Mapping[int, FloatArray]) -> FloatArray:
        """What it costs with so many rounds along each dimension."""
        number = np.ones(1)
        for d, copies, last in zip(self.dims, self.copies, self.last, strict=True):
            number = number * ((rounds[d] - 1) * copies + last)
        more = np.maximum(number - self.alike, 0)
        cost: FloatArray = np.maximum(self.begun * self.alike + self.again * more - self.free, 0)
        return cost


def _one_if_same(column: FloatArray) -> FloatArray:
    """One entry for all where all are the same."""
    return column[:1] if len(column) and (column == column[0]).all() else column


def supported_choices(frame: TileFrame) -> Unrolled:
    """All combinations of those choices of the stages for whose factors there are tiles."""
    able = [np.flatnonzero(frame.able(stage)) for stage in range(len(frame.space.stages))]
    grid = np.meshgrid(*able, indexing="ij")
    return Unrolled(frame, tuple(own.ravel() for own in grid), math.prod(map(len, able)))


def fewest_steps(every: Unrolled) -> FloatArray:
    """Cycles of the arithmetic, at least, by spatial choice; infinite for choices that are not allowed."""
    space, axes = every.frame.space, every.frame.axes
    bounds = np.array([axis.bound for axis in axes], dtype=np.int64)
    unrolled = every.product(0, len(space.levels))
    rounds = (-(-bounds // unrolled)).astype(np.float64).prod(axis=1)
    units = unrolled.astype(np.float64).prod(axis=1)
    enough = units >= float(space.mapspace.min_parallelism)
    for d in (d for d, axis in enumerate(axes) if axis.divides):
        # Perfect factors of loops make up the rest.
        enough &= bounds[d] % unrolled[:, d] == 0
    return np.where(enough, rounds, np.inf)
