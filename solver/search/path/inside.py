"""Costs of what lies inside of the fanouts, for lists of tiles and spatial choices."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np

from solver.search.arrays import BoolArray, FloatArray, IntArray
from solver.search.path.axes import Axis
from solver.search.path.charges import ENERGY, Charge, Charges, Price, Prices, gates
from solver.search.path.counting import Lead
from solver.search.path.deliveries import Delivered
from solver.search.path.split import TOGETHER, Split, dealt, evenly
from solver.search.path.tables import Frame
from solver.search.path.unrolled import Known, Loosest, Unrolled
from solver.search.space.windows import Unrolling

Tiles = Mapping[int, IntArray]
"""Numbers of tiles by boundary, each of shape (rows, dimensions)."""

Leads = Mapping[int, Lead]
"""What the innermost loops of slots leave in place, by slot."""


@dataclass(frozen=True, eq=False)
class Listed:
    """Rows of a list; what does not depend on prices is computed once.

    Parameters
    ----------
    tiles
        At the boundaries inside; those that are missing are as few as there may be.
    unrolled
        The spatial choices.
    leads
        Of the slots inside but the innermost one.
    source
        Rows that these are some of, and which.
    larger
        A dimension along which tiles at the first boundary are larger than the least ones; None for any.
    smallest
        Along which dimensions these tiles are the least ones, shape (rows, dimensions); None for any.
    """

    tiles: Tiles
    unrolled: Unrolled
    leads: Leads
    source: tuple[Listed, IntArray] | None = None
    larger: int | None = None
    smallest: BoolArray | None = None
    _known: dict[object, Any] = field(default_factory=dict, init=False)

    def __len__(self) -> int:
        """Rows."""
        return len(self.unrolled)

    def __getitem__(self, rows: IntArray) -> Listed:
        """Some of the rows."""
        if len(rows) == len(self):
            return self
        tiles = {b: own[rows] for b, own in self.tiles.items()}
        smallest = None if self.smallest is None else self.smallest[rows]
        return Listed(tiles, self.unrolled[rows], self.leads, (self, rows), self.larger, smallest)

    def node(self, price: Price | Prices, make: Callable[[], Node]) -> Node:
        """What the rows cost so far, remembered by the price; rows that these are some of may know it."""
        if ("node", price) not in self._known and self.source is not None:
            source, rows = self.source
            known: Node | None = source._known.get(("node", price))
            if known is not None:
                self._known["node", price] = known.at(rows)
        return self.once(("node", price), make)

    def once(self, key: object, make: Callable[[], Known]) -> Known:
        """What `make` returns, remembered by a key."""
        if key not in self._known:
            self._known[key] = make()
        found: Known = self._known[key]
        return found


class Pending(NamedTuple):
    """A dataspace that is in place where a slot begins: what it costs depends on tiles outside.

    Parameters
    ----------
    charge, currency
        An access that its words pay for, and in what.
    price
        Of a word, shape (rows,), or (prices, rows) where there are several; so have costs.
    words
        Of all its tiles, shape (rows,) each.
    copies
        Instances that each round of what lies outside serves, per dimension; shape (rows, dimensions).
    last
        Likewise the last round, at least.
    alike
        Instances at first, shape (rows,).
    free
        Words that cost nothing, shape (rows,).
    share
        Words asked for per word that children get, shape (rows,).
    split
        How words split up among the instances of the level that is accessed.
    """

    charge: Charge
    currency: Price | Prices
    price: FloatArray
    words: Delivered
    copies: FloatArray
    last: FloatArray
    alike: FloatArray
    free: FloatArray
    share: FloatArray
    split: Split = TOGETHER

    def cost(self, irrelevant: Sequence[int], rounds: FloatArray) -> FloatArray:
        """What it costs with so many rounds outside, shape (..., dimensions)."""
        return self.of_times(self.times(irrelevant, rounds))

    def times(self, irrelevant: Sequence[int], rounds: FloatArray) -> FloatArray:
        """How often all tiles are delivered with so many rounds outside."""
        number: FloatArray = np.ones(rounds.shape[:-1])
        for d in irrelevant:
            number = number * ((rounds[..., d] - 1) * self.copies[..., d] + self.last[..., d])
        return number

    def of_times(self, number: FloatArray) -> FloatArray:
        """What it costs if all tiles are delivered so many times."""
        return self.price * self.words_of(number)

    def words_of(self, number: FloatArray) -> FloatArray:
        """Words that are paid for if all tiles are delivered so many times, once at least each."""
        more = np.maximum(number - self.alike, 0)
        total = (self.words.begun * self.alike + self.words.again * more) * self.share
        return self.currency.paid(self.charge, total, self.free, self.split)

    def scaled(self, rows: BoolArray) -> Pending:
        """The same where other rows than these cost nothing."""
        if rows.all():
            return self
        words = Delivered(self.words.begun * rows, self.words.again * rows)
        return self._replace(words=words, free=self.free * rows)

    def at(self, rows: IntArray | BoolArray) -> Pending:
        """Some of the rows."""
        words = Delivered(self.words.begun[rows], self.words.again[rows])
        return Pending(
            self.charge,
            self.currency,
            self.price[..., rows],
            words,
            self.copies[rows],
            self.last[rows],
            self.alike[rows],
            self.free[rows],
            self.share[rows],
            self.split.at(rows),
        )

    def by(self, place: int, price: Price) -> Pending:
        """The same by one of several prices."""
        return self._replace(currency=price, price=self.price[place])


class Waiting(NamedTuple):
    """An access that may stay in place up to the slot outside.

    Parameters
    ----------
    part
        What is known of it.
    moved
        Its cost if the innermost loop of the slot outside moves it, by that lead.
    times, open
        How often all its tiles are delivered then, and which rows it stays in; shape (rows,).
    """

    part: Pending
    moved: dict[Lead, FloatArray]
    times: FloatArray
    open: BoolArray

    def at(self, rows: IntArray) -> Waiting:
        """Some of the rows."""
        moved = {lead: cost[..., rows] for lead, cost in self.moved.items()}
        return Waiting(self.part.at(rows), moved, self.times[rows], self.open[rows])

    def by(self, place: int, price: Price) -> Waiting:
        """The same by one of several prices."""
        moved = {lead: cost[place] for lead, cost in self.moved.items()}
        return self._replace(part=self.part.by(place, price), moved=moved)


class Node(NamedTuple):
    """What rows cost so far: what is known, shape (rows,) or (prices, rows), and accesses that are not."""

    spent: FloatArray
    waiting: list[Waiting]

    def at(self, rows: IntArray) -> Node:
        """Some of the rows."""
        return Node(self.spent[..., rows], [own.at(rows) for own in self.waiting])

    def by(self, place: int, price: Price) -> Node:
        """The same by one of several prices."""
        paid = (own for own in self.waiting if price.pays(own.part.charge))
        return Node(self.spent[place], [own.by(place, price) for own in paid])


class _Bill(NamedTuple):
    """What rows are charged, and how much that is so far.

    Parameters
    ----------
    listed, tiles
        The rows, and their tiles at all boundaries inside.
    price
        Of words.
    node
        Costs are added to it.
    """

    listed: Listed
    tiles: Tiles
    price: Price | Prices
    node: Node


@dataclass(frozen=True)
class Inside:
    """What lies inside of the meeting boundary, under one keep mask."""

    frame: Frame
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
        """The fewest tiles that there may be at a boundary, given those at the one right outside."""
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
        """Cycles of the arithmetic, at least."""
        outside, inside = unrolled.factors[self.frame.meeting], unrolled.product(self.first, self.depth)
        steps = np.ones(len(tiles))
        for d in range(len(self.frame.axes)):
            steps = steps * self.rounds(d, tiles[:, d], outside[:, d], inside[:, d])
        return self.charges.steps(steps, unrolled, tiles)

    def larger_steps(self, listed: Listed, steps: FloatArray) -> FloatArray:
        """The same where tiles are larger than the least ones along `Listed.larger`; all rows can be."""
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
        """Iterations that no two children have at the same time, at least."""
        axis = self.frame.axes[dim]
        if axis.divides:
            fewest: FloatArray = (-(-axis.bound // (outside * inside))).astype(np.float64)
            return fewest
        if len(outside) == len(inside) == 1 < len(tiles):
            # One entry for each number of tiles.
            return _rounds(axis, axis.numbers, outside, inside)[axis.place(tiles)]
        return _rounds(axis, tiles, outside, inside)

    def leaking(
        self, unrolled: Unrolled, cycles: FloatArray, tiles: IntArray | None = None
    ) -> Iterator[tuple[int, FloatArray]]:
        """Yield what levels leak per cycle of an instance, and in how many cycles of instances, at least.

        In each cycle the instances in use have work for the arithmetic inside of them; so where few are, they
        take longer.
        """
        computes = self.frame.space.problem.computes
        for place, stage, leak in self._leaks:
            used = unrolled.at_once(stage, tiles).prod(axis=1)
            busy = computes // unrolled.product(stage, self.depth).prod(axis=1)
            yield leak, self.charges.leaking(place, used * cycles, busy, cycles)

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

    def cost(self, listed: Listed, price: Price | Prices = ENERGY) -> Node:
        """What everything inside costs, at least."""
        return listed.node(price, lambda: self._cost(listed, price))

    def _cost(self, listed: Listed, price: Price | Prices) -> Node:
        unrolled = listed.unrolled
        every = listed.once("tiles", lambda: self._every(listed))
        joined = listed.once("joined", lambda: self._joined(listed, every))
        spent = np.empty((*price.shape, len(listed)), price.dtype)
        spent[...] = np.where(joined, 0.0, np.inf)
        node = Node(spent, [])
        paid = (own for own in self.charges.every if own.boundary > self.frame.meeting and price.pays(own))
        for charge in paid:
            self.frame.heed()
            if charge.boundary == self.depth:
                key = "operands", charge.place, charge.level, charge.free
                asked = listed.once(key, partial(self._operands, charge, every, unrolled))
                at = max(charge.level, self.first) if self.first < self.depth else self.depth
                share = self._share(charge, price, listed, every, at)
                free, split = self.free(charge, unrolled), self._split(charge, price, listed)
                words = price.paid(charge, asked, free, split)
                spent += self._price(charge, price, listed) * share * words
            else:
                self._charge(charge, _Bill(listed, every, price, node))
        return node

    def _price(self, charge: Charge, price: Price | Prices, listed: Listed) -> FloatArray:
        """What a word of an access costs, by row: the busiest instance has its share of all words."""
        whole, divided = price.of(charge)
        if not np.any(divided) or charge.level <= self.frame.meeting or self.first not in listed.tiles:
            return price_of(charge, price, listed.unrolled)
        key = "busiest", charge.place, charge.level
        return whole + divided * listed.once(key, lambda: self._busiest(charge, listed))

    def _busiest(self, charge: Charge, listed: Listed) -> FloatArray:
        """Share of the words of an access that the busiest instance of a level has, at least."""
        unrolled, tiles = listed.unrolled, listed.tiles[self.first]
        view, factors = self.frame.space.views[charge.place], unrolled.factors[self.frame.meeting]
        share: FloatArray = 1 / unrolled.product(0, charge.level).prod(axis=1)
        if isinstance(unrolled, Loosest):
            return share
        for d in sorted(view.relevant - view.window_dims):
            axis, own = self.frame.axes[d], factors[:, d]
            if not axis.divides and (own > 1).any():
                share = share * (axis.busiest(tiles[:, d], own, self._extents(d, listed)) * own / axis.bound)
        return share

    def _split(self, charge: Charge, price: Price | Prices, listed: Listed) -> Split:
        """How words of an access split up among the instances of its level, where prices are exact."""
        is_known = price.grain and charge.block > 1 and self.first in listed.tiles
        if not is_known or charge.level <= self.frame.meeting or isinstance(listed.unrolled, Loosest):
            return TOGETHER
        key = "split", charge.place, charge.level, charge.boundary
        return listed.once(key, lambda: self._dealt(charge, listed))

    def _dealt(self, charge: Charge, listed: Listed) -> Split:
        """The same: what children of the meeting stage have is known."""
        known = (listed.unrolled.product(self.first, charge.level) == 1).all(axis=1)
        split = TOGETHER
        for d in range(len(self.frame.axes)):
            children = listed.unrolled.factors[self.frame.meeting][:, d]
            if (children > 1).any():
                own, is_known = self._dealt_along(d, charge, listed)
                split, known = split.by(own), known & (is_known | (children == 1))
        return split.where(known)

    def _dealt_along(self, dim: int, charge: Charge, listed: Listed) -> tuple[Split, BoolArray]:
        """The same along one dimension, and where it is known."""
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
        shared = unrolled.alone(view, charge.level, self.depth)[:, dim] == 1
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

    def _every(self, listed: Listed) -> Tiles:
        """Numbers of tiles at all boundaries inside."""
        every: dict[int, IntArray] = {}
        for b in range(self.first, self.depth):
            known = listed.tiles.get(b)
            every[b] = self.fewest(every[b - 1], listed.unrolled, b) if known is None else known
        bounds = np.array([axis.bound for axis in self.frame.axes], dtype=np.int64)
        every[self.depth] = np.broadcast_to(bounds, (len(listed), len(bounds)))
        for slot in reversed(range(self.first, self.depth)):
            if slot not in listed.tiles and slot in listed.leads and listed.leads[slot] is None:
                every[slot] = self._without_loops(slot, every, listed.unrolled)
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

    def _joined(self, listed: Listed, tiles: Tiles) -> BoolArray:
        """Where loops of the slots inside, with their leads, may lead from tiles to tiles."""
        unrolled, most = listed.unrolled, tiles[self.depth]
        joined = np.ones(len(unrolled), dtype=np.bool_)
        for slot in reversed(range(self.first, self.depth)):
            most = -(-most // unrolled.copies(slot, slot + 1))
            joined &= (tiles[slot] <= most).all(axis=1)
            if slot in listed.leads:
                fewest = -(-tiles[slot + 1] // unrolled.factors[slot])
                joined &= self._is_led(slot, listed.leads[slot], tiles[slot], fewest, most)
            most = listed.tiles.get(slot, most)
        return joined

    def _is_led(
        self, slot: int, lead: Lead, outside: IntArray, fewest: IntArray, most: IntArray
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
        alone = unrolled.alone(view, charge.level, self.depth)
        if charge.level > meeting or self.first == self.depth or (alone > 1).any():
            return np.broadcast_to(fewest, len(unrolled))
        words = np.full(len(unrolled), float(math.prod(frame.axes[d].bound for d in view.relevant)))
        outside, inside = unrolled.factors[meeting], unrolled.product(self.first, self.depth)
        for d in sorted(view.irrelevant):
            words = words * self.rounds(d, tiles[self.first][:, d], outside[:, d], inside[:, d])
        asked: FloatArray = np.maximum(words * unrolled.share(view, charge.level, self.depth), fewest)
        return asked

    def fewest_operands(self, charge: Charge, unrolled: Unrolled) -> FloatArray:
        """The same for any tiles: children share all they may."""
        frame, view = self.frame, self.frame.space.views[charge.place]
        children = unrolled.product(charge.level, self.depth)
        together = children // unrolled.alone(view, charge.level, self.depth)
        words: FloatArray = np.full(1, float(math.prod(frame.axes[d].bound for d in view.relevant)))
        for d in sorted(view.irrelevant):
            words = words * -(-frame.axes[d].bound // together[:, d])
        return words * unrolled.share(view, charge.level, self.depth)

    def free(self, charge: Charge, unrolled: Unrolled) -> FloatArray:
        """Words of first touches that cost nothing, at most."""
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

    def _charge(self, charge: Charge, bill: _Bill) -> None:
        """Add what the deliveries to one boundary cost: at once, or pending."""
        frame, view, tiles = self.frame, self.frame.space.views[charge.place], bill.tiles
        unrolled, spent, boundary = bill.listed.unrolled, bill.node.spent, charge.boundary
        reuses = frame.space.reuses(charge.place, boundary)
        open_rows = np.ones(len(unrolled), dtype=np.bool_)
        direct = True
        for slot in range(boundary - 1, frame.meeting, -1):
            rounds = -(-tiles[slot + 1] // unrolled.factors[slot])
            lead = bill.listed.leads[slot]
            if reuses and lead is None:
                continue
            if not reuses or charge.place not in (lead or ()):
                part = self._pending(charge, bill, slot, lead if reuses else None)
                cost = part.of_times(self._times(charge, bill, rounds, slot, direct))
                spent[..., open_rows] += cost[..., open_rows]
                return
            direct = False
            if isinstance(unrolled, Loosest) or lead == frame.everything:
                continue
            closes = open_rows & (
                tiles[slot][:, sorted(view.relevant)] != rounds[:, sorted(view.relevant)]
            ).any(axis=1)
            if closes.any():
                part = self._pending(charge, bill, slot, lead)
                number = self._times(charge, bill, tiles[slot], slot, False, "inside")
                spent[..., closes] += part.of_times(number)[..., closes]
                open_rows &= ~closes
        slot = frame.meeting
        number = self._times(charge, bill, -(-tiles[slot + 1] // unrolled.factors[slot]), slot, direct)
        part = self._pending(charge, bill, slot, None).scaled(open_rows)
        if not reuses:
            np.add(spent, part.of_times(number), out=spent)
            return
        leads = frame.leads(slot) + frame.first_leads(slot - 1 if slot else 0)
        moving = (lead for lead in leads if lead is None or charge.place not in lead)
        by_lead = dict.fromkeys(moving, part.of_times(number))
        for lead in by_lead if view.window_dims else ():
            words = self._words(charge, bill, lead)
            by_lead[lead] = part._replace(words=words).scaled(open_rows).of_times(number)
        bill.node.waiting.append(Waiting(part, by_lead, number, open_rows))

    def _times(
        self, charge: Charge, bill: _Bill, site: IntArray, slot: int, direct: bool, where: str = "outside"
    ) -> FloatArray:
        """How often all tiles are delivered or asked for, with so many rounds where something moves them."""
        key = "times", charge.ends, slot, direct, where
        own = bill.tiles[charge.boundary]
        return bill.listed.once(key, lambda: self._counted(charge, own, site, bill.listed, slot, direct))

    def _counted(
        self,
        charge: Charge,
        own: IntArray,
        site: IntArray,
        listed: Listed,
        slot: int,
        direct: bool,
    ) -> FloatArray:
        """The same."""
        view, boundary, level = self.frame.space.views[charge.place], charge.boundary, charge.level
        unrolled, last = listed.unrolled, self._last(charge, listed, slot)
        number, irrelevant = np.ones(len(own)), sorted(view.irrelevant)
        if not charge.shared:
            copies = unrolled.copies(slot, boundary)
            for d in irrelevant:
                each = own[:, d] if direct else (site[:, d] - 1) * copies[:, d] + last[:, d]
                number = number * each
            return number
        alone = unrolled.alone(view, max(level, slot), boundary)
        if level > slot:
            copies = unrolled.copies(slot, level) * alone
            merged = unrolled.product(level, boundary)
            for d in irrelevant:
                each = (
                    -(-own[:, d] // (merged[:, d] // alone[:, d]))
                    if direct
                    else (site[:, d] - 1) * copies[:, d] + last[:, d]
                )
                number = number * each
            return number
        between = unrolled.product(level, slot) // unrolled.alone(view, level, slot)
        for d in irrelevant:
            number = number * ((-(-site[:, d] // between[:, d]) - 1) * alone[:, d] + 1)
        return number

    def _last(self, charge: Charge, listed: Listed, slot: int) -> FloatArray:
        """Instances that the last round outside of a slot serves, at least, by row and dimension."""
        key = "last", charge.place, charge.boundary, charge.level, charge.shared, slot
        return listed.once(key, lambda: self._in_last_round(charge, listed, slot))

    def _in_last_round(self, charge: Charge, listed: Listed, slot: int) -> FloatArray:
        """The same: all that have a tile of the last round, where nothing else tells instances apart."""
        unrolled, view = listed.unrolled, self.frame.space.views[charge.place]
        served = max(charge.level, slot + 1)
        if slot + 1 not in listed.tiles or isinstance(unrolled, Loosest):
            return np.ones((1, len(self.frame.axes)))
        children = unrolled.factors[slot]
        if not charge.shared:
            own, inside = children, unrolled.product(slot + 1, charge.boundary)
        else:
            own = children if charge.level > slot else unrolled.alone(view, slot, slot + 1)
            inside = unrolled.product(slot + 1, served) * unrolled.alone(view, served, charge.boundary)
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

    def _pending(self, charge: Charge, bill: _Bill, slot: int, lead: Lead) -> Pending:
        """An access with what is known of it where the loops of a slot begin."""
        unrolled, rows = bill.listed.unrolled, len(bill.listed)
        share_paid = self._share(charge, bill.price, bill.listed, bill.tiles, charge.boundary)
        price = self._price(charge, bill.price, bill.listed) * share_paid
        copies, used, share = bill.listed.once(
            ("shared", charge.ends, slot),
            lambda: self._shared(charge, bill.tiles, unrolled, slot),
        )
        last = self._last(charge, bill.listed, slot)
        return Pending(
            charge,
            bill.price,
            np.broadcast_to(price, (*bill.price.shape, rows)),
            self._words(charge, bill, lead),
            copies,
            np.broadcast_to(last, copies.shape),
            used,
            np.broadcast_to(self.free(charge, unrolled), rows),
            share,
            self._split(charge, bill.price, bill.listed),
        )

    def _share(
        self, charge: Charge, price: Price | Prices, listed: Listed, tiles: Tiles, boundary: int
    ) -> float | FloatArray:
        """Share of its price that a word of an access costs, given the tiles at a boundary."""
        if not self.charges.are_sparse:
            return 1.0
        if isinstance(price, Prices):
            every = [self._share(charge, own, listed, tiles, boundary) for own in price.each]
            return np.stack([np.broadcast_to(own, len(listed)) for own in every])
        is_known = boundary in listed.tiles or boundary == self.depth
        loose = frozenset[int]() if is_known else self._free_dims[boundary]
        key = "share", charge.ends, charge.action, price.parts(charge)
        unrolled = listed.unrolled
        return listed.once(key, lambda: self.charges.share(charge, price, tiles[boundary], unrolled, loose))

    def _shared(
        self, charge: Charge, tiles: Tiles, unrolled: Unrolled, slot: int
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Copies of an access that pends, instances that are alike, and what they share."""
        view, level = self.frame.space.views[charge.place], charge.level
        own, outer = tiles[charge.boundary], tiles.get(self.first)
        if charge.shared:
            alone = unrolled.alone(view, max(level, slot), charge.boundary)
            copies = (unrolled.copies(slot, level) if level > slot else 1) * alone
            alike = unrolled.askers(view, level, charge.boundary, outer)
            share = unrolled.share(view, level, charge.boundary)
        else:
            copies, alike = unrolled.copies(slot, charge.boundary), unrolled.at_once(charge.boundary, outer)
            share = np.ones(1)
        used = np.minimum(alike, own)[:, sorted(view.irrelevant)].prod(axis=1).astype(np.float64)
        return (
            np.broadcast_to(copies, own.shape).astype(np.float64),
            used,
            np.broadcast_to(share, len(unrolled)),
        )

    def _words(self, charge: Charge, bill: _Bill, lead: Lead) -> Delivered:
        """Words of all tiles, by row, given the lead of the slot that moves them."""
        leading = self.frame.space.views[charge.place].relevant
        if lead is not None and charge.place not in lead:
            leading = self.frame.leading(lead)
        return self.words(charge, bill.listed, bill.tiles, leading)

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
        """The same, of tiles of these numbers."""
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


def _rounds(axis: Axis, tiles: IntArray, outside: IntArray, inside: IntArray) -> FloatArray:
    """Iterations of a dimension that no two children have at the same time, at least, with remainders."""
    place, rounds = axis.place(tiles), -(-tiles // outside)
    fewest = -(-axis.bound // (outside * inside))
    # All rounds but that of the last tile have a full one.
    fewest = np.maximum(fewest, -(-(axis.bound - (tiles - rounds) * axis.longest[place]) // inside))
    single = np.where(outside > 1, tiles % outside == 1, True) & (tiles > 1)
    whole = np.maximum(fewest, rounds * -(-axis.least[place] // inside))
    found: FloatArray = np.where(single, fewest, whole).astype(np.float64)
    return found


def price_of(charge: Charge, price: Price | Prices, unrolled: Unrolled) -> FloatArray:
    """What a word of an access costs, by row: instances of a level share its load at best."""
    whole, divided = price.of(charge)
    if not np.any(divided):
        return np.reshape(whole, (*price.shape, 1))
    each: FloatArray = whole + divided / unrolled.product(0, charge.level).prod(axis=1)
    return each


def _gathered(table: FloatArray, dims: Sequence[int], places: Sequence[IntArray]) -> FloatArray:
    """Entries of a table at places along some of its axes, by row; the other axes have one entry."""
    if not places:
        return table.reshape(-1)[:1]
    picked = [np.zeros(1, dtype=np.int64)] * table.ndim
    for d, own in zip(dims, places, strict=True):
        picked[d] = own if table.shape[d] > 1 else picked[d]
    return np.broadcast_to(table[tuple(picked)], (len(places[0]),))
