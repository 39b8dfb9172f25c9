"""Tables of the least costs outside a boundary, by numbers of tiles there, for any unrolling inside."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property, reduce
from typing import Any

import numpy as np

from solver.search.arrays import BoolArray, FloatArray
from solver.search.path.axes import running_minimum
from solver.search.path.charges import ENERGY, SUMS_CLOSE, Charge, Charges, Price
from solver.search.path.counting import LeftInPlace
from solver.search.path.deliveries import Delivered
from solver.search.path.frame import TileFrame
from solver.search.path.rooms import PlaceRooms

DOUBLES = 2.0**53
"""Whole numbers up to which doubles are exact."""


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
        parts = [c.exact * c.block * self.charges.words_step(c.place, c.level) for c in own]
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
