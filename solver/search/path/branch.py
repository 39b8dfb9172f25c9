"""The complete paths through one row of the lists, by rising costs."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial, reduce
from itertools import count
from typing import NamedTuple

import numpy as np

from solver.search.arrays import BoolArray, FloatArray, IntArray
from solver.search.path.charges import Charge, Price
from solver.search.path.counting import Lead
from solver.search.path.deliveries import Delivered
from solver.search.path.inside import Leads, Listed, Pending
from solver.search.path.leaves import Path
from solver.search.path.masked import Masked
from solver.search.path.tables import Outside
from solver.search.path.unrolled import Unrolled
from solver.search.stopping import Stop, Stopped

MOST_LISTED = 4_096
"""Steps of a path that are sorted at a time."""


MOST_TURNS = 64
"""Steps after which a first path is given up."""


class Found(NamedTuple):
    """A complete path, and what the words of its mappings cost, at least."""

    cost: float
    path: Path


class _Open(NamedTuple):
    """A dataspace that is in place where a slot begins.

    Parameters
    ----------
    part
        What is known of it.
    words
        Those of all its tiles, by the dimensions one of which the innermost loop that moves them runs over.
    times
        How often all tiles are delivered if the slot's innermost loop moves them.
    anew
        Whether loops that repeat its windows bring whole tiles.
    least
        What it costs, at least.
    """

    part: Pending
    words: Callable[[frozenset[int]], Delivered]
    times: float
    anew: bool = False
    least: float = 0.0

    @property
    def place(self) -> int:
        """Of the dataspace."""
        return self.part.charge.place

    def by(self, leading: frozenset[int]) -> Pending:
        """What is known of it, given these dimensions."""
        words = self.words(leading)
        return self.part._replace(words=words.anew if self.anew else words)

    def moved(self, leading: frozenset[int]) -> float:
        """Its cost if such a loop is the slot's innermost one."""
        return max(self.least, float(self.by(leading).of_times(np.array([self.times]))[0]))


class _Steps(NamedTuple):
    """Steps that a path may take next, by rising costs; `follow` says what comes after the one at a place."""

    costs: FloatArray
    follow: Callable[[int], Iterator[_Ranked]]
    place: int = 0


class _Ranked(NamedTuple):
    """What is known to cost at least so much."""

    cost: float
    item: Found | _Steps


class _Site(NamedTuple):
    """Where loops of a slot begin: all that lies inside is known.

    Parameters
    ----------
    slot, lead
        The slot, and what its innermost loop leaves in place.
    rounds
        Places of the numbers of tiles inside of the slot.
    still, moved
        What stays in place there, and what does not.
    spent
        Cost of what does not.
    leads, tiles
        Of the slots from this one inwards, and at the boundaries inside of it.
    """

    slot: int
    lead: Lead
    rounds: IntArray
    still: tuple[_Open, ...]
    moved: tuple[_Open, ...]
    spent: float
    leads: Leads
    tiles: Mapping[int, tuple[int, ...]]


@dataclass(frozen=True)
class Branch:
    """Paths through one tile at the first boundary inside, one spatial choice, and leads of inner slots.

    Parameters
    ----------
    masked
        The mappings with one keep mask.
    tiles
        Numbers of tiles at the first boundary inside, shape (1, dimensions).
    unrolled
        The spatial choice: one row.
    leads
        Of the slots inside.
    price, limit
        Of words, and what those of a path have to stay below.
    stop
        Asked now and then; once it answers True, `Stopped` is raised.
    """

    masked: Masked
    tiles: IntArray
    unrolled: Unrolled
    leads: Leads
    price: Price
    limit: float
    stop: Stop
    _passed: set[tuple[object, ...]] = field(default_factory=set, init=False)

    @property
    def _outside(self) -> Outside:
        return self.masked.outside(self.price)

    def paths(self) -> Iterator[Found]:
        """Yield them by rising costs; each is looked for when it is asked for."""
        known = set()
        for found in self._ranked():
            # The same path may come again for more, see `_further`.
            key = found.path.tiles, found.path.leads
            if key not in known:
                known.add(key)
                yield found

    def _ranked(self) -> Iterator[Found]:
        """Yield paths by rising costs."""
        # Of what costs as much, the last one comes first: it is closest to a path.
        ticket = count(0, -1)
        heap: list[tuple[float, int, Found | _Steps]] = []

        def push(ranked: _Ranked) -> None:
            if ranked.cost < self.limit:
                heapq.heappush(heap, (ranked.cost, next(ticket), ranked.item))

        for ranked in self._begun():
            push(ranked)
        while heap:
            if self.stop():
                raise Stopped
            cost, _, item = heapq.heappop(heap)
            if isinstance(item, Found):
                yield item._replace(cost=cost)
                continue
            if item.place + 1 < len(item.costs):
                push(_Ranked(item.costs[item.place + 1], item._replace(place=item.place + 1)))
            for ranked in item.follow(item.place):
                push(_Ranked(max(cost, ranked.cost), ranked.item))

    def first(self) -> Found | None:
        """A path that is found by always going on with what seems best; None if that leads nowhere."""
        stack = sorted(self._begun(), key=lambda own: -own.cost)
        for _ in range(MOST_TURNS):
            if self.stop():
                raise Stopped
            if not stack:
                return None
            cost, item = stack.pop()
            if isinstance(item, Found):
                return item._replace(cost=cost)
            if item.place + 1 < len(item.costs):
                stack.append(_Ranked(item.costs[item.place + 1], item._replace(place=item.place + 1)))
            able = (own for own in item.follow(item.place) if own.cost < self.limit)
            stack += sorted(able, key=lambda own: -own.cost)
        return None

    def _begun(self) -> Iterator[_Ranked]:
        """Begin with the tiles at the first boundary inside."""
        inside = self.masked.inside
        known = {} if inside.first == inside.depth else {inside.first: self.tiles}
        listed = Listed(known, self.unrolled, self.leads)
        return self._inwards(listed) if known else self._outwards(listed)

    def _inwards(self, known: Listed) -> Iterator[_Ranked]:
        """Go on with the tiles at the next boundary inside of one row."""
        boundary = max(known.tiles) + 1
        if boundary == self.masked.inside.depth:
            if self._ends(known.tiles[boundary - 1][0]):
                yield from self._outwards(known)
            return
        if self._passes_again(boundary, boundary - 1, _single(known.tiles)):
            return
        listed = self._farther_in(known, boundary)
        if len(listed) < 2:
            # Nothing to choose from.
            yield from self._inwards(listed) if len(listed) else ()
            return
        costs = self.masked.cost(listed, self.price, np.full(len(listed), self.limit))
        live = np.flatnonzero(costs < self.limit)
        live = live[np.argsort(costs[live], kind="stable")]
        if len(live):
            steps = _Steps(costs[live], lambda place: self._inwards(listed[live[place : place + 1]]))
            yield _Ranked(costs[live[0]], steps)

    def _passes_again(self, to: int, at: int, tiles: Mapping[int, tuple[int, ...]]) -> bool:
        """Whether a path was here before that goes on as this one does, and costs exactly as much so far.

        Parameters
        ----------
        to, at
            The boundary whose tiles are next, and the one that the path is at.
        tiles
            By boundary, as far as they are known.
        """
        masked = self.masked
        if not masked.frame.counted.merges:
            return False
        rooms, left = masked.rooms, 0
        if rooms.is_shared(to):
            left = rooms.left(to, {b: self._places(own) for b, own in tiles.items()})
        views, kept_at = masked.frame.space.views, masked.charges.kept_at
        times = (
            (b, place, math.prod(own[d] for d in views[place].irrelevant))
            for b, own in sorted(tiles.items())
            for place in sorted(kept_at[b])
        )
        key = to, left, tiles.get(at), *times
        if key in self._passed:
            return True
        self._passed.add(key)
        return False

    def _ends(self, tiles: IntArray) -> bool:
        """Whether loops of the innermost slot lead from single iterations to these tiles."""
        frame, last = self.masked.frame, self.masked.inside.depth - 1
        for d, axis in enumerate(frame.axes):
            bound = np.array([axis.bound], dtype=np.int64)
            rounds = int(axis.rounds_of(self.unrolled.factors[last][:, d], bound)[0])
            if rounds < 0 or not frame.loops[last].reach[d][axis.place(tiles[d : d + 1])[0], rounds]:
                return False
        return True

    def _farther_in(self, row: Listed, boundary: int) -> Listed:
        """The same with the tiles that there may be at the next boundary inside."""
        masked, slot, known = self.masked, boundary - 1, row.tiles
        frame = masked.frame
        options = []
        for d, axis in enumerate(frame.axes):
            rounds = axis.rounds_of(
                np.full(len(axis.numbers), self.unrolled.factors[slot][0, d]), axis.numbers
            )
            place = int(axis.place(known[slot][0, d : d + 1])[0])
            able = (rounds >= 0) & frame.loops[slot].reach[d][place][np.maximum(rounds, 0)]
            if self.leads[slot] is None:
                able = rounds == place
            able &= axis.numbers >= self.unrolled.needed[slot][0, d]
            options.append(np.flatnonzero(able))
        fits = frame.fits(boundary, frame.space.tenants(masked.charges.mask, boundary))[np.ix_(*options)]
        rooms = self.masked.rooms
        if rooms.is_shared(boundary):
            others = {b: self._places(tiles[0].tolist()) for b, tiles in known.items()}
            fits = fits & (rooms.words(boundary)[np.ix_(*options)] <= rooms.left(boundary, others))
        chosen = np.argwhere(fits)
        found = np.stack(
            [axis.numbers[options[d][chosen[:, d]]] for d, axis in enumerate(frame.axes)], axis=1
        ).reshape(len(chosen), len(frame.axes))
        tiles = {b: np.repeat(own, len(chosen), axis=0) for b, own in known.items()}
        return Listed({**tiles, boundary: found}, self.unrolled[np.arange(len(found))], self.leads)

    def _outwards(self, listed: Listed) -> Iterator[_Ranked]:
        """Go on with the meeting slot: all tiles inside are known."""
        masked, m, known = self.masked, self.masked.frame.meeting, listed.tiles
        tiles = _single(known)
        if self._passes_again(m, m + 1, tiles):
            return
        node = masked.inside.cost(listed, self.price)
        places, _ = masked.rounds(self.tiles, self.unrolled)
        pending = [
            _Open(
                own.part,
                partial(masked.inside.words, own.part.charge, listed, known),
                float(own.times[0]),
            )
            for own in node.waiting
            if own.open[0]
        ]
        spent = node.spent[0]
        left = np.array([self.limit - spent])
        for lead in masked.frame.leads(m):
            if masked.outside_cost(node, places, lead, self.price, left)[0] < left[0]:
                yield from self._led(lead, m, places[0], pending, spent, self.leads, tiles)

    def _led(
        self,
        lead: Lead,
        slot: int,
        rounds: IntArray,
        pending: Sequence[_Open],
        spent: float,
        leads: Leads,
        tiles: Mapping[int, tuple[int, ...]],
    ) -> Iterator[_Ranked]:
        """Go on with one lead of a slot."""
        moved = tuple(own for own in pending if lead is not None and own.place not in lead)
        still = tuple(own for own in pending if lead is None or own.place in lead)
        leading = self.masked.frame.leading(lead)
        for slid, kept in self._further(leading, rounds, moved, still):
            cost = spent + sum(own.moved(leading) for own in slid)
            if cost < self.limit:
                site = _Site(slot, lead, rounds, kept, slid, cost, {**leads, slot: lead}, tiles)
                yield from self._complete(site) if slot == 0 else self._through(site)

    def _further(
        self, leading: frozenset[int], rounds: IntArray, moved: Sequence[_Open], still: Sequence[_Open]
    ) -> Iterator[tuple[tuple[_Open, ...], tuple[_Open, ...]]]:
        """What the innermost of the loops along no window moves: a window or all that stays in place.

        Either loops that repeat the windows bring whole tiles, or they repeat what stays in place.
        """
        views, moved, still = self.masked.frame.space.views, tuple(moved), tuple(still)
        sliding = {own.place for own in moved if views[own.place].window_dims & leading}
        if not self.masked.frame.counted.executed or len(sliding) != 1:
            yield moved, still
            return
        (window,) = sliding
        held = self.masked.frame.moved_besides(window, (own.place for own in still))
        if not held:
            yield moved, still
            return
        yield tuple(own._replace(anew=own.place == window) for own in moved), still
        pairs = zip(self.masked.frame.axes, rounds, strict=True)
        vector = np.array([[float(axis.numbers[place]) for axis, place in pairs]])

        def repeated(own: _Open) -> _Open:
            dims = sorted(views[own.place].irrelevant - views[window].window_dims)
            return own._replace(least=float(own.part.cost(dims, vector)[0]))

        yield moved, tuple(repeated(own) if own.place in held else own for own in still)

    def _known_better(self, site: _Site, loops: frozenset[int]) -> float:
        """What the moved accesses of a slot cost more than it seemed, now that all its loops are known."""
        frame = self.masked.frame
        leading = frame.leading(site.lead)
        able = leading & loops if frame.counted.leads_are_loops else leading
        sliding = (own for own in site.moved if frame.space.views[own.place].window_dims)
        return 0.0 if able == leading else sum(own.moved(able) - own.moved(leading) for own in sliding)

    def _complete(self, site: _Site) -> Iterator[_Ranked]:
        """A path, if loops of the outermost slot lead to single tiles."""
        masked, frame = self.masked, self.masked.frame
        loops, live = frame.loops[0], False
        for d, axis in enumerate(frame.axes):
            whole = int(np.flatnonzero(axis.numbers == 1)[0])
            if not loops.reach[d][whole, site.rounds[d]]:
                return
            live |= bool(site.rounds[d] != whole) and d in frame.leading(site.lead)
        single = all(frame.axes[d].numbers[p] == 1 for d, p in enumerate(site.rounds))
        if frame.counted.leads_are_loops and not (single if site.lead is None else live):
            return
        moving = frozenset(d for d, p in enumerate(site.rounds) if frame.axes[d].numbers[p] > 1)
        cost = site.spent + self._known_better(site, moving)
        cost += sum(max(own.least, masked.once(own.part)[0]) for own in site.still)
        ones, depth = (1,) * len(frame.axes), masked.inside.depth
        path = Path(
            masked.charges.mask,
            (ones, *(site.tiles[b] for b in range(1, depth))),
            self.unrolled.choice(0),
            tuple(None if site.leads[k] is None else frame.leading(site.leads[k]) for k in range(depth - 1)),
        )
        yield _Ranked(cost, Found(cost, path))

    def _through(self, site: _Site, least: float = -np.inf) -> Iterator[_Ranked]:
        """Go on with the tiles that loops of a slot lead to, those that cost no less than `least`."""
        masked, frame, slot = self.masked, self.masked.frame, site.slot
        axes, dims, rounds = frame.axes, range(len(frame.axes)), site.rounds
        if site.lead is None:
            options = [rounds[d : d + 1] for d in dims]
        else:
            options = [np.flatnonzero(frame.loops[slot].reach[d][:, rounds[d]]) for d in dims]
        columns = [[-1 if e == d else 1 for e in dims] for d in dims]
        numbers = [axes[d].numbers[options[d]].astype(np.float64).reshape(columns[d]) for d in dims]
        loops = [(options[d] != rounds[d]).reshape(columns[d]) for d in dims]
        shape = tuple(map(len, options))
        able = np.ones(shape, dtype=np.bool_)
        if site.lead is not None and frame.counted.leads_are_loops:
            able = np.broadcast_to(reduce(np.logical_or, (loops[d] for d in frame.leading(site.lead))), shape)
        rooms, known = self.masked.rooms, {b: self._places(own) for b, own in site.tiles.items()}
        left = rooms.left(slot, known)
        step = int(rooms.step(slot, np.array(left)))
        if rooms.is_shared(slot):
            able = able & (rooms.words(slot)[np.ix_(*options)] <= left)
        closes: list[BoolArray] = []
        parts: list[tuple[int, FloatArray, FloatArray]] = []
        for own in site.still:
            part, view = own.part, frame.space.views[own.place]
            number: FloatArray = np.ones([1] * len(axes))
            for d in sorted(view.irrelevant):
                number = number * ((numbers[d] - 1) * part.copies[0, d] + part.last[0, d])
            moves = reduce(
                np.logical_or,
                (loops[d] for d in sorted(view.relevant)),
                np.zeros([1] * len(axes), dtype=np.bool_),
            )
            closes.append(np.broadcast_to(moves, shape))
            closed = np.maximum(_of_times(part, number), own.least)
            passed = np.where(moves, closed, max(float(masked.once(part)[0]), own.least))
            parts.append((own.place, closed, passed))
        cost = np.where(able, self._farther_out(slot, step, np.ix_(*options), parts) + site.spent, np.inf)
        flat = cost.reshape(-1)
        live = np.flatnonzero((flat < self.limit) & (flat >= least))
        if len(live) > MOST_LISTED:
            dear = np.partition(flat[live], MOST_LISTED)[MOST_LISTED]
            some = live[flat[live] < dear]
            if len(some):
                live = some
                rest = _Steps(np.array([dear]), lambda _: self._through(site, dear))
                yield _Ranked(dear, rest)
        live = live[np.argsort(flat[live], kind="stable")]
        if not len(live):
            return

        def follow(place: int) -> Iterator[_Ranked]:
            at = np.unravel_index(live[place], shape)
            places = np.array([options[d][at[d]] for d in dims], dtype=np.int64)
            return self._at(site, places, [bool(own[at]) for own in closes])

        yield _Ranked(flat[live[0]], _Steps(flat[live], follow))

    def _farther_out(
        self,
        slot: int,
        step: int,
        tiles: tuple[IntArray, ...],
        parts: Sequence[tuple[int, FloatArray, FloatArray]],
    ) -> FloatArray:
        """Least cost outside of a boundary, and of what is in place inside of its slot, by tiles there.

        Parameters
        ----------
        slot, step
            The boundary, and the step of room that is left there.
        tiles
            Places in the tables.
        parts
            Dataspaces that are in place, with the costs if the slot or the next loop outside moves them, and
            if only the slot may.
        """
        outside = self._outside
        if not parts:
            return outside.least(slot, step)[tiles]
        every = (
            sum(
                (passed if lead is None or place in lead else closed for place, closed, passed in parts),
                outside.first(slot, lead, step)[tiles],
            )
            for lead in self.masked.frame.first_leads(slot - 1)
        )
        least: FloatArray = reduce(np.minimum, every)
        return least

    def _at(self, site: _Site, places: IntArray, closes: Sequence[bool]) -> Iterator[_Ranked]:
        """Go on outside of a boundary, given its tiles, and which of what is in place their loops move."""
        frame, slot = self.masked.frame, site.slot
        numbers = tuple(int(axis.numbers[p]) for axis, p in zip(frame.axes, places, strict=True))
        tiles = {**site.tiles, slot: numbers}
        if self._passes_again(slot - 1, slot, tiles):
            return
        vector = np.array([numbers])
        loops = frozenset(d for d, (a, b) in enumerate(zip(site.rounds, places, strict=True)) if a != b)
        pairs = list(zip(site.still, closes, strict=True))
        spent = site.spent + self._known_better(site, loops)
        closed = (max(own.least, _closed(self.masked, own.by(loops), vector)) for own, here in pairs if here)
        spent += sum(closed)
        pending = [own._replace(times=self._times(own.part, vector)) for own, here in pairs if not here]
        for charge in (own for own in self.masked.charges.at(slot) if any(self.price.of(own))):
            new = self._new(charge, places, vector, slot)
            if frame.space.reuses(charge.place, slot):
                pending.append(new)
            else:
                spent += _closed(self.masked, new.part, vector)
        for lead in frame.leads(slot - 1):
            yield from self._led(lead, slot - 1, places, pending, spent, site.leads, tiles)

    def _places(self, tiles: Sequence[int]) -> tuple[int, ...]:
        """Where numbers of tiles are in the tables."""
        axes = self.masked.frame.axes
        return tuple(int(axis.place(np.array(own))) for axis, own in zip(axes, tiles, strict=True))

    def _times(self, part: Pending, vector: IntArray) -> float:
        """How often all tiles are delivered with these rounds outside, shape (1, dimensions)."""
        irrelevant = sorted(self.masked.frame.space.views[part.charge.place].irrelevant)
        return float(part.times(irrelevant, vector.astype(np.float64))[0])

    def _new(self, charge: Charge, places: IntArray, vector: IntArray, boundary: int) -> _Open:
        """The deliveries to a boundary outside of all fanouts."""
        masked, frame = self.masked, self.masked.frame
        view = frame.space.views[charge.place]
        free = charge.free * masked.charges.first_words(charge.place)
        share = masked.charges.share_outside(charge, self.price)
        own_share = share if isinstance(share, float) else float(share[tuple(places)])

        @cache
        def of(leading: frozenset[int]) -> Pending:
            words = frame.words.of(charge.place, frame.space.no_unrolling, leading)
            picked = Delivered(
                *(
                    np.array(
                        [table[tuple(p if s > 1 else 0 for p, s in zip(places, table.shape, strict=True))]]
                    )
                    for table in words
                )
            )
            ones = np.ones((1, len(frame.axes)))
            return Pending(
                charge,
                self.price,
                np.array([sum(self.price.of(charge)) * own_share]),
                picked,
                ones,
                ones,
                np.ones(1),
                np.array([free]),
                np.ones(1),
            )

        part = of(frozenset(view.relevant))
        return _Open(part, lambda leading: of(leading).words, self._times(part, vector))


def _single(known: Mapping[int, IntArray]) -> dict[int, tuple[int, ...]]:
    """Numbers of tiles of one row, by boundary."""
    return {boundary: tuple(tiles[0].tolist()) for boundary, tiles in known.items()}


def _closed(masked: Masked, part: Pending, vector: IntArray) -> float:
    """What a pending access costs with these rounds outside, shape (1, dimensions)."""
    irrelevant = sorted(masked.frame.space.views[part.charge.place].irrelevant)
    cost: float = part.cost(irrelevant, vector.astype(np.float64))[0]
    return cost


def _of_times(part: Pending, number: FloatArray) -> FloatArray:
    """What one row costs if all tiles are delivered so many times; `number` of any shape."""
    begun, again = float(part.words.begun[0]), float(part.words.again[0])
    more = np.maximum(number - float(part.alike[0]), 0)
    total = (begun * float(part.alike[0]) + again * more) * float(part.share[0])
    words = part.currency.paid(part.charge, total, float(part.free[0]), part.split)
    cost: FloatArray = part.price[0] * words
    return cost
