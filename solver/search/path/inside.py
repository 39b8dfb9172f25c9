"""Costs inside the fanouts, for lists of tiles and spatial choices."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np

from solver.search.arrays import BoolArray, FloatArray, IntArray
from solver.search.path.axes import TileAxis
from solver.search.path.charges import ENERGY, NOTHING, Charge, Charges, Price, StackedPrices, gates
from solver.search.path.counting import LeftInPlace
from solver.search.path.deliveries import Delivered
from solver.search.path.frame import TileFrame
from solver.search.path.listed import Due, Listed, MayStay, Pending, RowCosts, Tiles, some_values
from solver.search.path.split import UNSPLIT, Split, dealt, evenly
from solver.search.path.unrolled import Loosest, Unrolled
from solver.search.space.windows import Unrolling


class Leaking(NamedTuple):
    """A level that leaks.

    In each cycle the instances in use have work for the arithmetic inside of them; so where few are, they
    take longer.

    Parameters
    ----------
    level
        Its number.
    per_cycle
        Energy units that an instance leaks per cycle, with all that it powers.
    used
        Instances that ever have something to do, at least; by row.
    busy
        Cycles of instances that have work for the arithmetic, at least; by row.
    """

    level: int
    per_cycle: int
    used: IntArray
    busy: IntArray


@dataclass(frozen=True)
class Inside:
    """The levels and fanouts inside the meeting boundary, under one keep mask."""

    frame: TileFrame
    charges: Charges

    @cached_property
    def first(self) -> int:
        """The boundary right inside of the fanouts of the meeting stage."""
        return self.frame.meeting + 1

    @property
    def edge(self) -> int:
        """The slot up to which deliveries are followed outwards."""
        return self.frame.meeting

    @cached_property
    def depth(self) -> int:
        """The boundary of the arithmetic."""
        return len(self.frame.space.levels)

    def relation(self, boundary: int, dim: int) -> str:
        """How tiles at a boundary inside relate to those at the first one: "same", "single" or "any"."""
        if not self.frame.parts(range(self.first, boundary), dim):
            return "same"
        return "single" if self.are_single(boundary, dim) else "any"

    def are_single(self, boundary: int, dim: int) -> bool:
        """Whether tiles at a boundary inside are single iterations along a dimension."""
        return int(self._able[boundary][dim][0]) == self.frame.axes[dim].bound

    @cached_property
    def _able(self) -> dict[int, tuple[IntArray, ...]]:
        """By boundary and dimension, the numbers of tiles that fit and that loops lead to; they rise."""
        return {boundary: self._able_at(boundary) for boundary in range(self.first, self.depth)}

    def _able_at(self, boundary: int) -> tuple[IntArray, ...]:
        frame, dims = self.frame, range(len(self.frame.axes))
        fits = frame.fits(boundary, frame.space.tenants(self.charges.mask, boundary))
        able = []
        for d, axis in enumerate(frame.axes):
            own = fits.any(axis=tuple(e for e in dims if e != d)) & frame.possible[boundary][d]
            able.append(np.sort(axis.numbers[own]) if own.any() else np.array([axis.bound]))
        return tuple(able)

    def fewest(self, tiles: IntArray, unrolled: Unrolled, boundary: int) -> IntArray:
        """The fewest possible tiles at a boundary, given those at the next outer one."""
        result, outside = tiles.copy(), boundary - 1
        between = unrolled.copies(outside, boundary)
        for d, axis in enumerate(self.frame.axes):
            able, least = self._able[boundary][d], tiles[:, d]
            if self.frame.parts([outside], d):
                # A perfect factor leaves as many again.
                least = least * between[:, d] if axis.divides else (least - 1) * between[:, d] + 1
            result[:, d] = able[np.minimum(np.searchsorted(able, least), len(able) - 1)]
        return result

    def steps(self, tiles: IntArray, unrolled: Unrolled) -> FloatArray:
        """Least compute cycles."""
        outside, inside = unrolled.factors[self.frame.meeting], unrolled.product(self.first, self.depth)
        steps = np.ones(len(tiles))
        for d in range(len(self.frame.axes)):
            steps = steps * self.rounds(d, tiles[:, d], outside[:, d], inside[:, d])
        return self.charges.steps(steps, unrolled, tiles)

    def larger_steps(self, listed: Listed, steps: FloatArray) -> FloatArray:
        """Cycles of the arithmetic if tiles along `Listed.larger` are not the least; all rows can be so."""
        d, unrolled, tiles = listed.larger, listed.unrolled, listed.tiles[self.first]
        if d is None:
            return steps
        inside = unrolled.product(self.first, self.depth)[:, d]
        fewest = self.rounds(d, tiles[:, d], unrolled.factors[self.frame.meeting][:, d], inside)
        each = -(-self._extents(d, listed) // inside)
        rounds = -(-tiles[:, d] // unrolled.factors[self.frame.meeting][:, d])
        # The last tile is the first child's if it is alone in the last round.
        alone = (tiles[:, d] % unrolled.factors[self.frame.meeting][:, d] == 1) & (tiles[:, d] > 1)
        longer = np.where(alone, (rounds - 1) * each + 1, rounds * each)
        return steps * (np.maximum(longer, fewest) / fewest)

    def _extents(self, dim: int, listed: Listed) -> IntArray:
        """Of tiles at the first boundary along a dimension, at least."""
        inner = listed.unrolled.copies(self.first, self.depth)[:, dim]
        least = self.frame.axes[dim].extents(listed.tiles[self.first][:, dim], inner)
        return least + inner if listed.larger == dim else least

    def rounds(self, dim: int, tiles: IntArray, outside: IntArray, inside: IntArray) -> FloatArray:
        """Least number of iterations that no two children execute at the same time."""
        axis = self.frame.axes[dim]
        if axis.divides:
            fewest: FloatArray = (-(-axis.bound // (outside * inside))).astype(np.float64)
            return fewest
        if len(outside) == len(inside) == 1 < len(tiles):
            # One entry for each number of tiles.
            return _rounds(axis, axis.numbers, outside, inside)[axis.place(tiles)]
        return _rounds(axis, tiles, outside, inside)

    def leaking(self, unrolled: Unrolled, tiles: IntArray | None = None) -> Iterator[Leaking]:
        """Yield the levels that leak, with those of their instances that do."""
        computes = self.frame.space.problem.computes
        for place, stage, leak in self._leaks:
            used = unrolled.at_once(stage, tiles).prod(axis=1)
            busy = computes // unrolled.product(stage, self.depth).prod(axis=1)
            yield Leaking(place, leak, used, busy)

    @cached_property
    def _leaks(self) -> list[tuple[int, int, int]]:
        """Levels that leak, the stages from which on gates power them, and what leaks per cycle there."""
        pairs = enumerate(zip(self.frame.space.levels, gates(self.frame.space), strict=True))
        every = [(n, stage, level.energy.leak_per_cycle * behind) for n, (level, (stage, behind)) in pairs]
        return [own for own in every if own[2]]

    def are_whole(self, unrolled: Unrolled) -> BoolArray:
        """Whether words are whole numbers: no neighbours share a part of them on the average."""
        views, whole = self.frame.space.views, np.ones(len(unrolled), dtype=np.bool_)
        for view in views:
            whole = whole & (unrolled.share(view, 0, self.depth) == 1)
        return whole

    def cost(self, listed: Listed, price: Price | StackedPrices = ENERGY) -> RowCosts:
        """Least cost of everything inside."""
        return listed.once(("node", price), lambda: self._cost(listed, price), RowCosts.at)

    def _cost(self, listed: Listed, price: Price | StackedPrices) -> RowCosts:
        reached = listed.once("reached", lambda: self._are_reached(listed), lambda own, rows: own[rows])
        spent = np.empty((*price.shape, len(listed)), price.dtype)
        spent[...] = np.where(reached, 0.0, np.inf)
        node, unrolled = RowCosts(spent, []), listed.unrolled
        self.frame.heed()
        for charge, whole, divided in self._paid(price):
            due = listed.once(("due", charge.ends), partial(self._due, charge, listed), Due.at)
            free = listed.once(
                ("free", charge.ends, charge.free), partial(self.free, charge, unrolled), some_values
            )
            split = self._split(charge, price, listed)
            each = whole if divided is None else whole + divided * self._busiest(charge, listed)
            each = each * self._share(charge, price, listed) if self.charges.are_sparse else each
            if due.closed is not None:
                spent += each * price.paid(charge, due.closed, free, split)
            if due.part is not None:
                moved = tuple(each * price.paid(charge, own, free, split) for own in due.moved)
                part = due.part._replace(charge=charge, currency=price, price=each, free=free, split=split)
                node.waiting.append(MayStay(part, moved, due.which, due.times, due.open))
        return node

    def _paid(self, price: Price | StackedPrices) -> list[tuple[Charge, FloatArray, FloatArray | None]]:
        """Accesses that cost anything: what a word costs, and one that the busiest instance has."""
        if price not in self._known_paid:
            paid = [
                own for own in self.charges.every if own.boundary > self.frame.meeting and price.pays(own)
            ]
            self._known_paid[price] = [(own, *_rates(own, price)) for own in paid]
        return self._known_paid[price]

    @cached_property
    def _known_paid(self) -> dict[Price | StackedPrices, list[tuple[Charge, FloatArray, FloatArray | None]]]:
        return {}

    def _busiest(self, charge: Charge, listed: Listed) -> FloatArray:
        """Share of the words of an access that the busiest instance of a level has, at least, by row."""
        return listed.once(
            ("busiest", charge.place, charge.level), partial(self._most, charge, listed), some_values
        )

    def _most(self, charge: Charge, listed: Listed) -> FloatArray:
        """Share of the words of an access that the busiest instance has, at least, not yet remembered."""
        unrolled = listed.unrolled
        share: FloatArray = 1 / unrolled.product(0, charge.level).prod(axis=1)
        if charge.level <= self.frame.meeting or self.first not in listed.tiles:
            return share
        if isinstance(unrolled, Loosest):
            return share
        tiles, factors = listed.tiles[self.first], unrolled.factors[self.frame.meeting]
        view = self.frame.space.views[charge.place]
        for d in sorted(view.relevant - view.window_dims):
            axis, own = self.frame.axes[d], factors[:, d]
            if not axis.divides and (own > 1).any():
                share = share * (axis.busiest(tiles[:, d], own, self._extents(d, listed)) * own / axis.bound)
        return share

    def _split(self, charge: Charge, price: Price | StackedPrices, listed: Listed) -> Split:
        """How words of an access split up among the instances of its level, where prices are exact."""
        is_known = price.grain and charge.block > 1 and self.first in listed.tiles
        if not is_known or charge.level <= self.frame.meeting or isinstance(listed.unrolled, Loosest):
            return UNSPLIT
        key = "split", charge.place, charge.level, charge.boundary
        return listed.once(key, lambda: self._dealt(charge, listed))

    def _dealt(self, charge: Charge, listed: Listed) -> Split:
        """How words split up where it is known what the children of the meeting stage have."""
        known = (listed.unrolled.product(self.first, charge.level) == 1).all(axis=1)
        split = UNSPLIT
        for d in range(len(self.frame.axes)):
            children = listed.unrolled.factors[self.frame.meeting][:, d]
            if (children > 1).any():
                own, is_known = self._dealt_along(d, charge, listed)
                split, known = split.by(own), known & (is_known | (children == 1))
        return split.where(known)

    def _dealt_along(self, dim: int, charge: Charge, listed: Listed) -> tuple[Split, BoolArray]:
        """How words split up along one dimension, and where that is known."""
        axis, unrolled, view = self.frame.axes[dim], listed.unrolled, self.frame.space.views[charge.place]
        tiles, children = listed.tiles[self.first][:, dim], unrolled.factors[self.frame.meeting][:, dim]
        if axis.divides:
            return evenly(children), np.ones(1, dtype=np.bool_)
        inner, least = unrolled.copies(self.first, self.depth)[:, dim], self._extents(dim, listed)
        last = axis.bound - (tiles - 1) * least
        whole = tiles % children == 0
        known = ~self.may_be_larger(dim, listed)
        if listed.smallest is not None:
            known = known | listed.smallest[:, dim]
        if dim in view.relevant:
            known = known & ((dim not in view.window_dims) | (whole & (last == least)))
            return dealt(tiles, children, least, last, frees=True), known
        if charge.boundary < self.depth:
            # All have as many tiles, of whatever extents.
            same = self.relation(charge.boundary, dim) == "same"
            return evenly(children), whole & (same | (known & (last == least)))
        steps, end = least // inner, -(-last // inner)
        shared = unrolled.unshared_factors(view, charge.level, self.depth)[:, dim] == 1
        known = known & shared & (self._ends_evenly(dim) | (steps == end))
        return dealt(tiles, children, steps, end, frees=False), known

    def may_be_larger(self, dim: int, listed: Listed) -> BoolArray:
        """Whether there may be as many tiles that are larger than the least ones."""
        axis, inner = self.frame.axes[dim], listed.unrolled.copies(self.first, self.depth)[:, dim]
        tiles = listed.tiles[self.first][:, dim]
        larger: BoolArray = self._extents(dim, listed) + inner <= axis.longest[axis.place(tiles)]
        return larger

    def _ends_evenly(self, dim: int) -> bool:
        """Whether children inside take all steps together: no loops lie inside of any of them."""
        stages = self.frame.space.stages
        unrolling = (k for k in range(self.first, self.depth) if max(stages[k].unrolled[dim]) > 1)
        outer = next(unrolling, self.depth)
        return all(dim not in self.frame.loops[slot].live for slot in range(outer + 1, self.depth))

    def _tiles(self, listed: Listed) -> Tiles:
        """Numbers of tiles at all boundaries inside."""
        return listed.once("tiles", lambda: self._every(listed), _some_tiles)

    def _every(self, listed: Listed) -> Tiles:
        """Count the tiles at all boundaries inside."""
        every: dict[int, IntArray] = {}
        for b in range(self.first, self.depth):
            known = listed.tiles.get(b)
            every[b] = self.fewest(every[b - 1], listed.unrolled, b) if known is None else known
        bounds = np.array([axis.bound for axis in self.frame.axes], dtype=np.int64)
        every[self.depth] = np.broadcast_to(bounds, (len(listed), len(bounds)))
        for slot in reversed(range(self.first, self.depth)):
            if slot not in listed.tiles and slot < self.depth - 1 and None in listed.labels.of(slot):
                without = self._without_loops(slot, every, listed.unrolled)
                every[slot] = np.where(listed.labels.have(slot, {None})[:, np.newaxis], without, every[slot])
        return every

    def _without_loops(self, slot: int, every: Tiles, unrolled: Unrolled) -> IntArray:
        """Numbers of tiles outside of a slot that has no loops, at least."""
        tiles, rounds = every[slot].copy(), -(-every[slot + 1] // unrolled.factors[slot])
        for d in self._free_dims[slot]:
            tiles[:, d] = np.maximum(tiles[:, d], self.frame.axes[d].at_least(rounds[:, d]))
        return tiles

    @cached_property
    def _free_dims(self) -> dict[int, frozenset[int]]:
        """By boundary, dimensions along which tiles may be smaller than those at the first one."""
        dims = range(len(self.frame.axes))
        return {
            boundary: frozenset(d for d in dims if self.relation(boundary, d) == "any")
            for boundary in range(self.first, self.depth)
        }

    def _are_reached(self, listed: Listed) -> BoolArray:
        """Where loops of the slots inside, with their leads, may lead from tiles to tiles."""
        tiles, unrolled = self._tiles(listed), listed.unrolled
        most = tiles[self.depth]
        reached = np.ones(len(unrolled), dtype=np.bool_)
        for slot in reversed(range(self.first, self.depth)):
            most = -(-most // unrolled.copies(slot, slot + 1))
            reached &= (tiles[slot] <= most).all(axis=1)
            fewest = -(-tiles[slot + 1] // unrolled.factors[slot])
            for lead in listed.labels.of(slot) if slot < self.depth - 1 else ():
                led = self._is_led(slot, lead, tiles[slot], fewest, most)
                reached &= led | ~listed.labels.have(slot, {lead})
            most = listed.tiles.get(slot, most)
        return reached

    def _is_led(
        self, slot: int, lead: LeftInPlace, outside: IntArray, fewest: IntArray, most: IntArray
    ) -> BoolArray:
        """Where a slot may have a lead: no loops for None, else one that leaves just that in place.

        Parameters
        ----------
        slot, lead
            Its loops lead from numbers of tiles `outside`, shape (rows, dimensions)...
        fewest, most
            ... to so many inside.
        """
        if lead is None:
            return np.asarray((outside >= fewest).all(axis=1))
        if not self.frame.counted.leads_are_loops or lead == self.frame.everything:
            return np.ones(len(outside), dtype=np.bool_)
        leading = sorted(self.frame.leading(lead) & self.frame.loops[slot].live)
        return np.asarray((outside[:, leading] < most[:, leading]).any(axis=1))

    def _operands(self, charge: Charge, tiles: Tiles, unrolled: Unrolled) -> FloatArray:
        """Words of an access that serves the arithmetic, at least, given the tiles that it works on."""
        frame, view, meeting = self.frame, self.frame.space.views[charge.place], self.frame.meeting
        fewest = self.fewest_operands(charge, unrolled)
        alone = unrolled.unshared_factors(view, charge.level, self.depth)
        if charge.level > meeting or self.first == self.depth or (alone > 1).any():
            return np.broadcast_to(fewest, len(unrolled))
        words = np.full(len(unrolled), float(math.prod(frame.axes[d].bound for d in view.relevant)))
        outside, inside = unrolled.factors[meeting], unrolled.product(self.first, self.depth)
        for d in sorted(view.irrelevant):
            words = words * self.rounds(d, tiles[self.first][:, d], outside[:, d], inside[:, d])
        asked: FloatArray = np.maximum(words * unrolled.share(view, charge.level, self.depth), fewest)
        return asked

    def fewest_operands(self, charge: Charge, unrolled: Unrolled) -> FloatArray:
        """Least words of an operand's access for any tiles: children share as much as they may."""
        frame, view = self.frame, self.frame.space.views[charge.place]
        children = unrolled.product(charge.level, self.depth)
        together = children // unrolled.unshared_factors(view, charge.level, self.depth)
        words: FloatArray = np.full(1, float(math.prod(frame.axes[d].bound for d in view.relevant)))
        for d in sorted(view.irrelevant):
            words = words * -(-frame.axes[d].bound // together[:, d])
        return words * unrolled.share(view, charge.level, self.depth)

    def free(self, charge: Charge, unrolled: Unrolled) -> FloatArray:
        """Upper bound on the words of first touches, which are free."""
        if not charge.free:
            return np.zeros(1)
        frame, view = self.frame, self.frame.space.views[charge.place]
        above = unrolled.product(0, charge.level)
        dims = sorted(view.irrelevant) if view.simple else list(range(len(self.frame.axes)))
        words = charge.free * self.charges.first_words(charge.place)
        alone = unrolled.apart(view, charge.level, charge.boundary)
        apart = frame.counted.touched_apart(alone, sorted(view.irrelevant))
        free: FloatArray = words * above[:, dims].prod(axis=1) * apart
        return free

    def _due(self, charge: Charge, listed: Listed) -> Due:
        """Words of an access to one boundary: known, or pending."""
        tiles, unrolled = self._tiles(listed), listed.unrolled
        if charge.boundary == self.depth:
            return Due(self._operands(charge, tiles, unrolled))
        closed: FloatArray | None = None
        still = np.ones(len(listed), dtype=np.bool_)
        direct = np.ones((1, 1), dtype=np.bool_)
        for slot in range(charge.boundary - 1, self.frame.meeting, -1):
            if listed.labels.of(slot) == {None} and self.frame.space.reuses(charge.place, charge.boundary):
                continue
            site = -(-tiles[slot + 1] // unrolled.factors[slot])
            passing, moving = self._met(charge, listed, slot)
            closing = still & (moving | (self._led_away(charge, listed, slot, site) & ~passing))
            if closing.any():
                part, outside = self._pending(charge, listed, slot), moving[:, np.newaxis]
                site = np.where(outside, site, tiles[slot])
                asked = part.asked(self._times(charge, listed, site, slot, direct & outside))
                closed = np.where(closing, asked, 0.0 if closed is None else closed)
                still &= ~closing
            if not still.any():
                return Due(closed)
            direct = direct & passing[:, np.newaxis]
        slot = self.frame.meeting
        times = self._times(charge, listed, -(-tiles[slot + 1] // unrolled.factors[slot]), slot, direct)
        if not self.frame.space.reuses(charge.place, charge.boundary):
            asked = self._pending(charge, listed, slot).asked(times)
            return Due(asked if closed is None else np.where(still, asked, closed))
        return self._waiting(charge, listed, Due(closed, times=times, open=still))

    def _met(self, charge: Charge, listed: Listed, slot: int) -> tuple[BoolArray, BoolArray]:
        """Rows in which a slot has no loops, and those in which its innermost loop moves a dataspace."""
        if not self.frame.space.reuses(charge.place, charge.boundary):
            return np.zeros(1, dtype=np.bool_), np.ones(1, dtype=np.bool_)
        every = listed.labels.of(slot)
        moving = {lead for lead in every if lead is not None and charge.place not in lead}
        return listed.labels.have(slot, {None}), listed.labels.have(slot, moving)

    def _led_away(self, charge: Charge, listed: Listed, slot: int, rounds: IntArray) -> BoolArray:
        """Rows in which loops of a slot surely move a dataspace, though not the innermost one."""
        if isinstance(listed.unrolled, Loosest) or listed.labels.of(slot) <= {None, self.frame.everything}:
            return np.zeros(1, dtype=np.bool_)
        relevant = sorted(self.frame.space.views[charge.place].relevant)
        differ = (self._tiles(listed)[slot][:, relevant] != rounds[:, relevant]).any(axis=1)
        found: BoolArray = differ & ~listed.labels.have(slot, {self.frame.everything})
        return found

    def _waiting(self, charge: Charge, listed: Listed, due: Due) -> Due:
        """Add what stays in place up to the meeting slot to what rows cost."""
        frame, slot, view = self.frame, self.frame.meeting, self.frame.space.views[charge.place]
        part, which = self._pending(charge, listed, slot).only(due.open), dict[LeftInPlace, int]()
        part = part._replace(fewest=self._fewest_rounds(charge.place, listed))
        moved: dict[frozenset[int], FloatArray] = {}
        leads = frame.leads(slot) + frame.first_leads(slot - 1 if slot else 0)
        for lead in (own for own in leads if own is not None and charge.place not in own):
            along = view.window_dims and frame.leading(lead) & view.relevant
            if along not in moved:
                words = self.words(charge, listed, self._tiles(listed), frame.leading(lead))
                moved[along] = part._replace(words=words).only(due.open).asked(due.times)
            which[lead] = list(moved).index(along)
        once = part.asked(part.times(sorted(view.irrelevant), part.fewest))
        return due._replace(part=part, moved=(*moved.values(), once), which=which)

    def _fewest_rounds(self, place: int, listed: Listed) -> FloatArray:
        """Rounds outside of the meeting slot in which a dataspace in place is brought, at least."""
        slot, unrolled = self.frame.meeting, listed.unrolled
        rounds = -(-self._tiles(listed)[slot + 1] // unrolled.factors[slot])
        again = self.frame.rounds_again(place, slot, list(rounds.T))
        fewest = np.ones((len(listed) if again else 1, len(self.frame.axes)))
        for d, own in again.items():
            fewest[:, d] = own
        return fewest

    def _times(
        self, charge: Charge, listed: Listed, site: IntArray, slot: int, direct: BoolArray
    ) -> FloatArray:
        """How often all tiles are delivered or asked for, with so many rounds where something moves them.

        In rows that are `direct` nothing leaves them in place farther in.
        """
        view, boundary, level = self.frame.space.views[charge.place], charge.boundary, charge.level
        unrolled, own = listed.unrolled, self._tiles(listed)[charge.boundary]
        if charge.shared and level <= slot:
            between = unrolled.product(level, slot) // unrolled.unshared_factors(view, level, slot)
            groups = (-(-site // between) - 1) * unrolled.unshared_factors(view, slot, boundary) + 1
            return _product_of_columns(groups, view.irrelevant)
        if charge.shared:
            alone = unrolled.unshared_factors(view, level, boundary)
            copies = unrolled.copies(slot, level) * alone
            own = -(-own // (unrolled.product(level, boundary) // alone))
        else:
            copies = unrolled.copies(slot, boundary)
        if direct.all():
            return _product_of_columns(own, view.irrelevant)
        each = (site - 1) * copies + self._last(charge, listed, slot)
        return _product_of_columns(np.where(direct, own, each) if direct.any() else each, view.irrelevant)

    def _last(self, charge: Charge, listed: Listed, slot: int) -> FloatArray:
        """Instances that the last round outside of a slot serves, at least, by row and dimension."""
        key = "last", charge.place, charge.boundary, charge.level, charge.shared, slot
        return listed.once(key, lambda: self._in_last_round(charge, listed, slot))

    def _in_last_round(self, charge: Charge, listed: Listed, slot: int) -> FloatArray:
        """Instances that have a tile of the last round, where nothing else tells instances apart."""
        unrolled, view = listed.unrolled, self.frame.space.views[charge.place]
        served = max(charge.level, slot + 1)
        if slot + 1 not in listed.tiles or isinstance(unrolled, Loosest):
            return np.ones((1, len(self.frame.axes)))
        children = unrolled.factors[slot]
        if not charge.shared:
            own, inside = children, unrolled.product(slot + 1, charge.boundary)
        else:
            own = children if charge.level > slot else unrolled.unshared_factors(view, slot, slot + 1)
            inside = unrolled.product(slot + 1, served) * unrolled.unshared_factors(
                view, served, charge.boundary
            )
        ending = listed.once(("ending", slot), lambda: self._ending(listed, slot))
        known = (own == children) & (inside == 1)
        return ending if known.all() else np.where(known, ending, 1.0)

    @staticmethod
    def _ending(listed: Listed, slot: int) -> FloatArray:
        """Children of a slot's fanouts that have a tile of the last round, by row and dimension."""
        children, tiles = listed.unrolled.factors[slot], listed.tiles[slot + 1]
        ending = np.ones(tiles.shape)
        for d in np.flatnonzero((children > 1).any(axis=0)):
            ending[:, d] = (tiles[:, d] - 1) % children[:, d] + 1
        return ending

    def _pending(self, charge: Charge, listed: Listed, slot: int) -> Pending:
        """An access with what is known of it where the loops of a slot begin, without a price.

        The innermost loops of the slots inside are known.
        """
        key = "shared", charge.ends, slot
        tiles, unrolled, view = self._tiles(listed), listed.unrolled, self.frame.space.views[charge.place]
        copies, used, share = listed.once(
            key, lambda: self._copies_and_sharers(charge, tiles, unrolled, slot)
        )
        last, words = self._last(charge, listed, slot), self.words(charge, listed, tiles, view.relevant)
        by_lead = slot > self.frame.meeting and self.frame.space.reuses(charge.place, charge.boundary)
        leads = listed.labels.of(slot) if by_lead and view.window_dims else ()
        for lead in (own for own in leads if own is not None and charge.place not in own):
            led = listed.labels.have(slot, {lead})
            other = self.words(charge, listed, tiles, self.frame.leading(lead))
            words = Delivered(*(np.where(led, new, old) for new, old in zip(other, words, strict=True)))
        one = np.ones((1, len(self.frame.axes)))
        return Pending(charge, NOTHING, np.zeros(1), words, copies, last, used, np.zeros(1), share, one)

    def _share(self, charge: Charge, price: Price | StackedPrices, listed: Listed) -> float | FloatArray:
        """Share of its price that a word of an access costs."""
        if isinstance(price, StackedPrices):
            every = [self._share(charge, own, listed) for own in price.each]
            return np.stack([np.broadcast_to(own, len(listed)) for own in every])
        at = charge.boundary
        if at == self.depth > self.first:
            at = max(charge.level, self.first)
        loose = frozenset[int]() if at in listed.tiles or at == self.depth else self._free_dims[at]
        key = "share", charge.ends, charge.action, price.parts(charge)
        tiles, unrolled = self._tiles(listed)[at], listed.unrolled
        return listed.once(key, lambda: self.charges.share(charge, price, tiles, unrolled, loose))

    def _copies_and_sharers(
        self, charge: Charge, tiles: Tiles, unrolled: Unrolled, slot: int
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Copies of an access that pends, instances that are alike, and what they share."""
        view, level = self.frame.space.views[charge.place], charge.level
        own, outer = tiles[charge.boundary], tiles.get(self.first)
        if charge.shared:
            alone = unrolled.unshared_factors(view, max(level, slot), charge.boundary)
            copies = (unrolled.copies(slot, level) if level > slot else 1) * alone
            alike = unrolled.askers(view, level, charge.boundary, outer)
            share = unrolled.share(view, level, charge.boundary)
        else:
            copies, alike = unrolled.copies(slot, charge.boundary), unrolled.at_once(charge.boundary, outer)
            share = np.ones(1)
        used = _product_of_columns(np.minimum(alike, own), view.irrelevant)
        return copies.astype(np.float64), used, share

    def words(self, charge: Charge, listed: Listed, tiles: Tiles, leading: frozenset[int]) -> Delivered:
        """Words of all tiles, by row, where one of `leading` is the innermost loop that moves them."""
        view = self.frame.space.views[charge.place]
        leading = leading.intersection(view.relevant) if view.window_dims else frozenset[int]()
        key = "words", charge.place, charge.boundary, leading
        own, is_loose = tiles[charge.boundary], charge.boundary not in listed.tiles
        loose = self._free_dims[charge.boundary] if is_loose else frozenset[int]()
        return listed.once(key, lambda: self._delivered(charge, own, listed.unrolled, leading, loose))

    def _delivered(
        self,
        charge: Charge,
        own: IntArray,
        unrolled: Unrolled,
        leading: frozenset[int],
        loose: frozenset[int],
    ) -> Delivered:
        """Words of all tiles of given numbers, if one of `leading` is the innermost loop to move them."""
        frame, view = self.frame, self.frame.space.views[charge.place]
        dims = sorted(view.relevant)
        places = [frame.axes[d].place(own[:, d]) for d in dims]
        if not view.window_dims:
            words = frame.words.of(charge.place, frame.space.no_unrolling, leading)
            words = frame.words.at_most(words, loose)
            found = (_gathered(own_table, dims, places) for own_table in words)
            begun, again = (np.broadcast_to(table, len(own)) for table in found)
            return Delivered(begun, again)
        begun, again = np.zeros(len(own)), np.zeros(len(own))
        firsts, kinds = unrolled.kinds
        for kind, first in enumerate(firsts.tolist()):
            rows = slice(None) if len(firsts) == 1 else np.flatnonzero(kinds == kind)
            unrolling = self.unrolling(unrolled, first, charge.boundary)
            words = frame.words.of(charge.place, unrolling, leading)
            words = frame.words.at_most(words, loose)
            some = [p[rows] for p in places]
            begun[rows], again[rows] = (_gathered(table, dims, some) for table in words)
        return Delivered(begun, again)

    def unrolling(self, unrolled: Unrolled, row: int, boundary: int) -> Unrolling:
        """What one row unrolls above a boundary; of several choices it is not known."""
        if isinstance(unrolled, Loosest):
            return self.frame.space.no_unrolling
        factors = [tuple(unrolled.factors[k][row].tolist()) for k in range(boundary)]
        needed = [tuple(unrolled.needed[k][row].tolist()) for k in range(boundary)]
        return self.frame.space.unrolling(factors, needed)


def _product_of_columns(columns: IntArray | FloatArray, dims: Collection[int]) -> FloatArray:
    """By row, the product of some columns."""
    # Rows are many and columns are few: `prod` would take longer.
    found: FloatArray = np.ones(1)
    for d in sorted(dims):
        found = found * columns[:, d]
    return found


def _some_tiles(tiles: Tiles, rows: IntArray) -> Tiles:
    """Some rows of numbers of tiles, by boundary."""
    return {boundary: own[rows] for boundary, own in tiles.items()}


def _rounds(axis: TileAxis, tiles: IntArray, outside: IntArray, inside: IntArray) -> FloatArray:
    """Iterations of a dimension that no two children have at the same time, at least, with remainders."""
    place, rounds = axis.place(tiles), -(-tiles // outside)
    fewest = -(-axis.bound // (outside * inside))
    # All rounds but that of the last tile have a full one.
    fewest = np.maximum(fewest, -(-(axis.bound - (tiles - rounds) * axis.longest[place]) // inside))
    single = np.where(outside > 1, tiles % outside == 1, True) & (tiles > 1)
    whole = np.maximum(fewest, rounds * -(-axis.least[place] // inside))
    found: FloatArray = np.where(single, fewest, whole).astype(np.float64)
    return found


def price_of(charge: Charge, price: Price | StackedPrices, unrolled: Unrolled) -> FloatArray:
    """What a word of an access costs, by row: instances of a level share its load at best."""
    whole, divided = price.of(charge)
    if not np.any(divided):
        return np.reshape(whole, (*price.shape, 1))
    each: FloatArray = whole + divided / unrolled.product(0, charge.level).prod(axis=1)
    return each


def _rates(charge: Charge, price: Price | StackedPrices) -> tuple[FloatArray, FloatArray | None]:
    """What a word of an access costs, and what one costs that the busiest instance has, shape (..., 1)."""
    whole, divided = (np.reshape(own, (*price.shape, 1)) for own in price.of(charge))
    return whole, divided if divided.any() else None


def _gathered(table: FloatArray, dims: Sequence[int], places: Sequence[IntArray]) -> FloatArray:
    """Entries of a table at places along some of its axes, by row; the other axes have one entry."""
    if not places:
        return table.reshape(-1)[:1]
    picked = [np.zeros(1, dtype=np.int64)] * table.ndim
    for d, own in zip(dims, places, strict=True):
        picked[d] = own if table.shape[d] > 1 else picked[d]
    return np.broadcast_to(table[tuple(picked)], (len(places[0]),))
