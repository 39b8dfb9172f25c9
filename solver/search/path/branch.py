"""A branch: the complete paths through one row of the lists, by rising costs."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial, reduce
from itertools import chain, count
from operator import methodcaller
from typing import NamedTuple, Protocol

import numpy as np

from solver.search.arrays import TOGETHER, BoolArray, FloatArray, IntArray
from solver.search.path.charges import Charge, StackedPrices
from solver.search.path.counting import LeftInPlace
from solver.search.path.deliveries import Delivered
from solver.search.path.junctions import Junction, Junctions, Reach, walks
from solver.search.path.leaves import TilePath
from solver.search.path.listed import Leads, Listed, Pending
from solver.search.path.masked import Masked
from solver.search.path.outside import Outside
from solver.search.stopping import Stop, Stopped

MOST_TURNS = 64
"""Steps after which a first path is given up."""


class FoundPath(NamedTuple):
    """A complete path, and a bound on the objective of its mappings."""

    value: float
    path: TilePath


class Worth(Protocol):
    """The objective of paths, given the costs of their words by several prices."""

    @property
    def prices(self) -> StackedPrices:
        """Of words."""

    @property
    def limits(self) -> FloatArray:
        """The costs that words of a path must stay below, by price."""

    def values(self, costs: FloatArray) -> FloatArray:
        """Bounds on the objective of words with these costs, shape (prices, rows).

        Infinite where no mapping improves.
        """


class _Open(NamedTuple):
    """A dataspace that is in place where a slot begins.

    Parameters
    ----------
    part
        What is known of it.
    origin
        Where it was delivered, and all that its words depend on there.
    words
        Those of all its tiles, by the dimensions one of which the innermost loop that moves them runs over.
    times
        How often all tiles are delivered if the slot's innermost loop moves them.
    least
        What it costs, at least, shape (prices,).
    anew
        Whether loops that repeat its windows bring whole tiles.
    """

    part: Pending
    origin: object
    words: Callable[[frozenset[int]], Delivered]
    times: float
    least: FloatArray
    anew: bool = False

    @property
    def place(self) -> int:
        """Of the dataspace."""
        return self.part.charge.place

    def by(self, leading: frozenset[int]) -> Pending:
        """What is known of it, given these dimensions."""
        words = self.words(leading)
        return self.part._replace(words=words.anew if self.anew else words)

    def moved(self, leading: frozenset[int]) -> FloatArray:
        """Its cost if such a loop is the slot's innermost one."""
        cost = self.by(leading).of_times(np.array([self.times]))
        moved: FloatArray = np.maximum(self.least, cost[:, 0])
        return moved


class _Ranked(NamedTuple):
    """An item and a bound on its value; of equal bounds, the lower cost by all prices comes first."""

    value: float
    cost: float
    item: Iterator[TilePath] | _Steps

    @property
    def rank(self) -> tuple[float, float]:
        """The sort key: lower values come first."""
        return self[:2]


class _Steps(NamedTuple):
    """Steps that a path may take next, by rising values and costs.

    `follow` says what comes after the one at a place; the first one is that at `place`.
    """

    values: FloatArray
    costs: FloatArray
    follow: Callable[[int], Iterator[_Ranked]]
    place: int = 0

    def ranked(self) -> list[_Ranked]:
        """The first step, if there is one."""
        if self.place == len(self.values):
            return []
        return [_Ranked(float(self.values[self.place]), float(self.costs[self.place]), self)]

    @property
    def rest(self) -> list[_Ranked]:
        """The next one."""
        return self._replace(place=self.place + 1).ranked()


class _Site(NamedTuple):
    """The start of a slot's loops, with everything inside known.

    Parameters
    ----------
    slot, lead
        The slot, and what its innermost loop leaves in place.
    rounds
        Places of the numbers of tiles inside of the slot.
    still, moved
        What stays in place there, and what does not.
    spent
        Cost of what does not, shape (prices,).
    junction, tiles
        Where it is, and the numbers of tiles at the boundaries inside of it, of one path that leads here.
    """

    slot: int
    lead: LeftInPlace
    rounds: IntArray
    still: tuple[_Open, ...]
    moved: tuple[_Open, ...]
    spent: FloatArray
    junction: Junction
    tiles: Mapping[int, tuple[int, ...]]


class _Reached(NamedTuple):
    """Numbers of tiles that loops of a slot may lead to, as entries of flat tables.

    Parameters
    ----------
    options, shape
        Their places by dimension, and how many those are.
    able
        Which have the loops that the lead asks for.
    closes, times
        Of each dataspace in place: where loops move it, and how often all its tiles are delivered then...
    later
        ... and how often, at least, where no loop moves it.
    """

    options: Sequence[IntArray]
    shape: tuple[int, ...]
    able: BoolArray
    closes: Sequence[BoolArray]
    times: Sequence[FloatArray]
    later: Sequence[FloatArray]


@dataclass(frozen=True)
class Branch:
    """All paths through one tile at the first boundary inside, one spatial choice, and leads of inner slots.

    Parameters
    ----------
    masked
        The mappings with one keep mask.
    row
        The tile and the spatial choice, with leads of the slots inside.
    worth
        What paths are worth.
    stop
        Asked now and then; once it answers True, `Stopped` is raised.
    """

    masked: Masked
    row: Listed
    worth: Worth
    stop: Stop
    _passed: set[tuple[object, ...]] = field(default_factory=set, init=False)
    _junctions: Junctions = field(default_factory=Junctions, init=False)

    @property
    def _leads(self) -> Leads:
        labels = self.row.labels
        return labels.every[int(labels.own[0])]

    @property
    def _prices(self) -> StackedPrices:
        return self.worth.prices

    @property
    def _nothing(self) -> FloatArray:
        return np.zeros(len(self._prices.each))

    def _values(self, costs: FloatArray) -> FloatArray:
        """The objective, at least, where words cost so much, shape (prices, rows); infinite beyond limits."""
        values = np.full(costs.shape[1], np.inf)
        live = np.flatnonzero((costs < self.worth.limits[:, np.newaxis]).all(axis=0))
        if len(live):
            values[live] = self.worth.values(costs[:, live])
        return values

    def paths(self) -> Iterator[FoundPath]:
        """Yield the paths by rising values, each searched on demand."""
        known = set()
        for found in self._ranked():
            # The same path may come again for more, see `_further`.
            key = found.path.tiles, found.path.leads
            if key not in known:
                known.add(key)
                yield found

    def _ranked(self) -> Iterator[FoundPath]:
        """Yield paths by rising values."""
        # Of what costs as much, the last one comes first: it is closest to a path.
        ticket = count(0, -1)
        heap = [(own.rank, next(ticket), own) for own in self._from_first_boundary()]
        heapq.heapify(heap)
        while heap:
            own = heapq.heappop(heap)[-1]
            if not isinstance(own.item, _Steps):
                yield from (FoundPath(own.value, path) for path in own.item)
                continue
            for after in chain(own.item.rest, self._after_first(own.value, own.item)):
                heapq.heappush(heap, (after.rank, next(ticket), after))

    def first(self) -> TilePath | None:
        """A path found by always continuing with the step that seems best; None if there is none."""
        stack = sorted(self._from_first_boundary(), key=lambda own: own.rank, reverse=True)
        for _ in range(MOST_TURNS):
            if not stack:
                return None
            own = stack.pop()
            if not isinstance(own.item, _Steps):
                return next(own.item)
            stack += own.item.rest
            stack += sorted(self._after_first(own.value, own.item), key=lambda own: own.rank, reverse=True)
        return None

    def _after_first(self, value: float, steps: _Steps) -> Iterator[_Ranked]:
        """What comes after the first of some steps, which is no better."""
        if self.stop():
            raise Stopped
        return (own._replace(value=max(value, own.value)) for own in steps.follow(steps.place))

    def _from_first_boundary(self) -> Iterator[_Ranked]:
        """Begin with the tiles at the first boundary inside."""
        inside = self.masked.inside
        if inside.first == inside.depth:
            return self._outwards(replace(self.row, tiles={}))
        return self._inwards(self.row)

    def _inwards(self, known: Listed) -> Iterator[_Ranked]:
        """Go on with the tiles at the next boundary inside of one row."""
        boundary = max(known.tiles) + 1
        if boundary == self.masked.inside.depth:
            if self._ends(known.tiles[boundary - 1][0]):
                yield from self._outwards(known)
            return
        if self._passes_again(boundary, boundary - 1, _of_one_row(known.tiles)):
            return
        listed = self._farther_in(known, boundary)
        if len(listed) < 2:
            # Nothing to choose from.
            yield from self._inwards(listed) if len(listed) else ()
            return
        limits = np.repeat(self.worth.limits[:, np.newaxis], len(listed), axis=1)
        costs = self.masked.costs(listed, self._prices, limits)
        values, total = self._values(costs), _summed(costs)
        live = np.flatnonzero(np.isfinite(values))
        live = live[np.lexsort((total[live], values[live]))]
        steps = _Steps(
            values[live], total[live], lambda place: self._inwards(listed[live[place : place + 1]])
        )
        yield from steps.ranked()

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
            rounds = int(axis.rounds_of(self.row.unrolled.factors[last][:, d], bound)[0])
            if rounds < 0 or not frame.loops[last].reach[d][axis.place(tiles[d : d + 1])[0], rounds]:
                return False
        return True

    def _farther_in(self, row: Listed, boundary: int) -> Listed:
        """Continue a row with the tiles that there may be at the next boundary inside."""
        masked, slot, known = self.masked, boundary - 1, row.tiles
        frame = masked.frame
        options = []
        for d, axis in enumerate(frame.axes):
            rounds = axis.rounds_of(
                np.full(len(axis.numbers), self.row.unrolled.factors[slot][0, d]), axis.numbers
            )
            place = int(axis.place(known[slot][0, d : d + 1])[0])
            able = (rounds >= 0) & frame.loops[slot].reach[d][place][np.maximum(rounds, 0)]
            if self._leads[slot] is None:
                able = rounds == place
            able &= axis.numbers >= self.row.unrolled.needed[slot][0, d]
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
        return Listed({**tiles, boundary: found}, self.row.unrolled[np.arange(len(found))], self.row.labels)

    def _outwards(self, listed: Listed) -> Iterator[_Ranked]:
        """Go on with the meeting slot: all tiles inside are known."""
        masked, m, known = self.masked, self.masked.frame.meeting, listed.tiles
        tiles = _of_one_row(known)
        if self._passes_again(m, m + 1, tiles):
            return
        node = masked.inside.cost(listed, self._prices)
        places, _ = masked.rounds(self.row.tiles[masked.inside.first], self.row.unrolled)
        spent = node.spent[:, 0]
        if not np.isfinite(spent).all():
            return
        pending = [
            _Open(
                own.part,
                (own.part.charge.place, tuple(tiles.items())),
                partial(masked.inside.words, own.part.charge, listed, known),
                float(own.times[0]),
                self._nothing,
            )
            for own in node.waiting
            if own.open[0]
        ]
        junction = Junction((tiles, self._leads))
        for lead in masked.frame.leads(m):
            yield from self._with_lead(lead, m, places[0], pending, spent, junction, tiles)

    def _with_lead(
        self,
        lead: LeftInPlace,
        slot: int,
        rounds: IntArray,
        pending: Sequence[_Open],
        spent: FloatArray,
        junction: Junction,
        tiles: Mapping[int, tuple[int, ...]],
    ) -> Iterator[_Ranked]:
        """Go on with one lead of a slot."""
        moved = tuple(own for own in pending if lead is not None and own.place not in lead)
        still = tuple(own for own in pending if lead is None or own.place in lead)
        leading = self.masked.frame.leading(lead)
        for slid, kept in self._further(leading, rounds, moved, still):
            cost = sum((own.moved(leading) for own in slid), spent)
            if (cost < self.worth.limits).all():
                site = _Site(slot, lead, rounds, kept, slid, cost, junction, tiles)
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
            return own._replace(least=own.part.cost(dims, vector)[:, 0])

        yield moved, tuple(repeated(own) if own.place in held else own for own in still)

    def _known_better(self, site: _Site, loops: frozenset[int]) -> FloatArray:
        """What the moved accesses of a slot cost more than it seemed, now that all its loops are known."""
        frame = self.masked.frame
        leading = frame.leading(site.lead)
        able = leading & loops if frame.counted.leads_are_loops else leading
        sliding = (own for own in site.moved if frame.space.views[own.place].window_dims)
        if able == leading:
            return self._nothing
        return sum((own.moved(able) - own.moved(leading) for own in sliding), self._nothing)

    def _complete(self, site: _Site) -> Iterator[_Ranked]:
        """A path, if loops of the outermost slot lead to single tiles."""
        frame = self.masked.frame
        ones = (1,) * len(frame.axes)
        whole = np.array(self._places(ones))
        if not all(frame.loops[0].reach[d][own, site.rounds[d]] for d, own in enumerate(whole)):
            return
        loops = _moving_dims(site.rounds, whole)
        able = not loops if site.lead is None else self._may_lead(site, loops)
        if frame.counted.leads_are_loops and not able:
            return
        cost = site.spent + self._known_better(site, loops)
        numbers = [axis.numbers[p : p + 1] for axis, p in zip(frame.axes, site.rounds, strict=True)]
        for own in site.still:
            times = self._times(own.part, frame.rounds_again(own.place, 0, numbers))
            cost = cost + np.maximum(own.least, own.part.of_times(times)[:, 0])
        value = float(self._values(cost[:, np.newaxis])[0])
        if not math.isfinite(value):
            return
        total = float(_summed(cost))
        yield self._ended(self._junctions.complete(site.junction, site.lead, ones, value, total))

    def _may_lead(self, site: _Site, loops: frozenset[int]) -> bool:
        """Whether rules let a loop of the lead be the innermost one."""
        farther_in = self.masked.frame.put_inside[site.slot]
        leading = self.masked.frame.leading(site.lead)
        return any(loops.isdisjoint(farther_in[d]) for d in leading & loops)

    def _ended(self, ways: tuple[Reach, ...]) -> _Ranked:
        """All paths that end with these ways, the last of which completes them."""
        return _Ranked(ways[-1].value, ways[-1].cost, self._along(ways))

    def _along(self, ways: tuple[Reach, ...]) -> Iterator[TilePath]:
        """Yield paths that end with these ways, but none that goes through what is found later."""
        masked, depth = self.masked, self.masked.inside.depth
        latest, choice = max(way.number for way in ways), self.row.unrolled.choice(0)
        for tiles, leads in walks(ways, latest):
            if self.stop():
                raise Stopped
            every = (leads[k] for k in range(depth - 1))
            yield TilePath(
                masked.charges.mask,
                tuple(tiles[b] for b in range(depth)),
                choice,
                tuple(None if lead is None else masked.frame.leading(lead) for lead in every),
            )

    def _through(self, site: _Site, least: float = -np.inf) -> Iterator[_Ranked]:
        """Go on with the tiles that loops of a slot lead to, those whose value is no less than `least`."""
        reached = self._reached(site)
        places, costs = self._live(site, reached)
        values = self._values(costs)
        some = np.flatnonzero(np.isfinite(values) & (values >= least))
        if len(some) > TOGETHER:
            dear = np.partition(values[some], TOGETHER)[TOGETHER]
            if len(cheap := some[values[some] < dear]):
                some = cheap
                rest = _Steps(np.array([dear]), np.zeros(1), lambda _: self._through(site, dear))
                yield from rest.ranked()
        total = _summed(costs)
        some = some[np.lexsort((total[some], values[some]))]

        def follow(number: int) -> Iterator[_Ranked]:
            place = places[some[number]]
            at = np.unravel_index(place, reached.shape)
            tiles = np.array([own[p] for own, p in zip(reached.options, at, strict=True)], dtype=np.int64)
            return self._outside_of_tiles(site, tiles, [bool(own[place]) for own in reached.closes])

        yield from _Steps(values[some], total[some], follow).ranked()

    def _reached(self, site: _Site) -> _Reached:
        """What loops of a slot may lead to."""
        frame, slot, rounds = self.masked.frame, site.slot, site.rounds
        axes, dims = frame.axes, range(len(frame.axes))
        if site.lead is None:
            options = [rounds[d : d + 1] for d in dims]
        else:
            options = [np.flatnonzero(frame.loops[slot].reach[d][:, rounds[d]]) for d in dims]
        columns = [[-1 if e == d else 1 for e in dims] for d in dims]
        numbers = [axes[d].numbers[options[d]].astype(np.float64).reshape(columns[d]) for d in dims]
        loops = [(options[d] != rounds[d]).reshape(columns[d]) for d in dims]
        shape = tuple(map(len, options))

        def moved_by(some: Iterable[int]) -> BoolArray:
            none = np.zeros([1] * len(axes), dtype=np.bool_)
            return np.broadcast_to(reduce(np.logical_or, (loops[d] for d in some), none), shape).reshape(-1)

        able = np.ones(math.prod(shape), dtype=np.bool_)
        if site.lead is not None and frame.counted.leads_are_loops:
            farther_in, none = frame.put_inside[slot], np.zeros(math.prod(shape), dtype=np.bool_)
            innermost = (moved_by([d]) & ~moved_by(farther_in[d]) for d in sorted(frame.leading(site.lead)))
            able = reduce(np.logical_or, innermost, none)

        def delivered(own: _Open, rounds: Mapping[int, FloatArray]) -> FloatArray:
            return np.broadcast_to(self._times(own.part, rounds), shape).reshape(-1)

        closes, times, later = [], [], []
        for own in site.still:
            closes.append(moved_by(sorted(frame.space.views[own.place].relevant)))
            times.append(delivered(own, dict(enumerate(numbers))))
            later.append(delivered(own, frame.rounds_again(own.place, slot - 1, numbers)))
        return _Reached(options, shape, able, closes, times, later)

    def _live(self, site: _Site, reached: _Reached) -> tuple[IntArray, FloatArray]:
        """Entries of such tables that reach no limit, and their costs, shape (prices, entries)."""
        rooms, slot, chosen = self.masked.rooms, site.slot, np.ix_(*reached.options)
        left = rooms.left(slot, {b: self._places(own) for b, own in site.tiles.items()})
        step, able = int(rooms.step(slot, np.array(left))), reached.able
        if rooms.is_shared(slot):
            able = able & (rooms.words(slot)[chosen] <= left).reshape(-1)
        live = np.flatnonzero(able)
        costs = np.empty((len(self._prices.each), len(live)), self._prices.dtype)
        for price in range(len(costs)):  # the first one leaves few entries
            some = slice(price, price + 1)
            prices, parts = StackedPrices(self._prices.each[some]), []
            each = zip(site.still, reached.closes, reached.times, reached.later, strict=True)
            for own, closes, times, later in each:
                part, least = own.part.by(some, prices), own.least[some, np.newaxis]
                closed, passed = part.of_times(times[live]), part.of_times(later[live])
                passed = np.where(closes[live], closed, passed)
                parts.append((own.place, np.maximum(closed, least), np.maximum(passed, least)))
            entries = partial(_table_part, chosen, live)
            every = list(map(self.masked.outside, prices.each))
            cost = self._farther_out(every, slot, step, entries, parts) + site.spent[some, np.newaxis]
            costs[some] = cost
            fewer = (cost < self.worth.limits[some, np.newaxis]).all(axis=0)
            live, costs = live[fewer], costs[:, fewer]
        return live, costs

    def _farther_out(
        self,
        outside: Sequence[Outside],
        slot: int,
        step: int,
        entries: Callable[[FloatArray], FloatArray],
        parts: Sequence[tuple[int, FloatArray, FloatArray]],
    ) -> FloatArray:
        """Least cost outside of a boundary, and of what is in place inside of its slot, by tiles there.

        Parameters
        ----------
        outside
            The tables, by price.
        slot, step
            The boundary, and the step of room that is left there.
        entries
            Those of a table that are looked at.
        parts
            Dataspaces that are in place, with the costs if the slot or the next loop outside moves them, and
            if only the slot may.
        """
        # Prices by which nothing is paid outside share tables.
        distinct = {id(own): own for own in outside}
        number = {own: place for place, own in enumerate(distinct)}
        places = [number[id(own)] for own in outside]

        def of_all(table: Callable[[Outside], FloatArray]) -> FloatArray:
            return np.stack([own.paid(entries(table(own))) for own in distinct.values()])[places]

        if not parts:
            return of_all(methodcaller("least", slot, step))
        every = (
            sum(
                (passed if lead is None or place in lead else closed for place, closed, passed in parts),
                of_all(methodcaller("first", slot, lead, step)),
            )
            for lead in self.masked.frame.first_leads(slot - 1)
        )
        least: FloatArray = reduce(np.minimum, every)
        return least

    def _outside_of_tiles(self, site: _Site, places: IntArray, closes: Sequence[bool]) -> Iterator[_Ranked]:
        """Go on outside of a boundary, given its tiles, and which of what is in place their loops move."""
        frame, slot = self.masked.frame, site.slot
        numbers = tuple(int(axis.numbers[p]) for axis, p in zip(frame.axes, places, strict=True))
        tiles = {**site.tiles, slot: numbers}
        if self._passes_again(slot - 1, slot, tiles):
            return
        vector = np.array([numbers])
        loops = _moving_dims(site.rounds, places)
        pairs = list(zip(site.still, closes, strict=True))
        spent = site.spent + self._known_better(site, loops)
        for own in (own for own, here in pairs if here):
            spent = spent + np.maximum(own.least, _closed(self.masked, own.by(loops), vector))
        pending = [own._replace(times=self._times_at(own.part, vector)) for own, here in pairs if not here]
        for charge in (own for own in self.masked.charges.at(slot) if self._prices.pays(own)):
            new = self._new(charge, places, vector, slot)
            if frame.space.reuses(charge.place, slot):
                pending.append(new)
            else:
                spent = spent + _closed(self.masked, new.part, vector)
        key = self._alike(slot, numbers, pending, spent)
        junction, ended = self._junctions.step(site.junction, slot, site.lead, numbers, key)
        if not junction.is_new:
            yield from map(self._ended, ended)
            return
        for lead in frame.leads(slot - 1):
            yield from self._with_lead(lead, slot - 1, places, pending, spent, junction, tiles)

    def _alike(
        self, slot: int, tiles: tuple[int, ...], pending: Sequence[_Open], spent: FloatArray
    ) -> object:
        """What paths have in common that cost exactly as much so far, and go on alike."""
        if any(map(self.masked.rooms.is_shared, range(slot))):
            # What is left of a memory depends on all tiles inside.
            return object()
        still = ((own.origin, own.times, tuple(own.least.tolist()), own.anew) for own in pending)
        return slot, tiles, tuple(spent.tolist()), tuple(still)

    def _places(self, tiles: Sequence[int]) -> tuple[int, ...]:
        """Where numbers of tiles are in the tables."""
        axes = self.masked.frame.axes
        return tuple(int(axis.place(np.array(own))) for axis, own in zip(axes, tiles, strict=True))

    def _times_at(self, part: Pending, vector: IntArray) -> float:
        """How often all tiles are delivered with these rounds outside, shape (1, dimensions)."""
        return float(self._times(part, dict(enumerate(vector.T)))[0])

    def _times(self, part: Pending, rounds: Mapping[int, FloatArray] | Mapping[int, IntArray]) -> FloatArray:
        """How often all tiles are delivered with these rounds outside, by dimension; else with one."""
        number: FloatArray = np.ones(1)
        for d in sorted(self.masked.frame.space.views[part.charge.place].irrelevant):
            copies, last = part.copies[0, d], part.last[0, d]
            number = number * ((rounds[d] - 1) * copies + last if d in rounds else last)
        return number

    def _new(self, charge: Charge, places: IntArray, vector: IntArray, boundary: int) -> _Open:
        """The deliveries to a boundary outside of all fanouts."""
        masked, frame = self.masked, self.masked.frame
        view = frame.space.views[charge.place]
        free = charge.free * masked.charges.first_words(charge.place)
        shares = (masked.charges.share_outside(charge, price) for price in self._prices.each)
        share = [[own if isinstance(own, float) else float(_entry_at(own, places))] for own in shares]
        price = sum(self._prices.of(charge)) * np.array(share)

        @cache
        def of(leading: frozenset[int]) -> Pending:
            words = frame.words.of(charge.place, frame.space.no_unrolling, leading)
            picked = Delivered(*(np.array([_entry_at(table, places)]) for table in words))
            ones = np.ones((1, len(frame.axes)))
            return Pending(
                charge,
                self._prices,
                price,
                picked,
                ones,
                ones,
                np.ones(1),
                np.array([free]),
                np.ones(1),
                ones,
            )

        part = of(frozenset(view.relevant))
        origin, times = (charge.place, boundary, tuple(places.tolist())), self._times_at(part, vector)
        return _Open(part, origin, lambda leading: of(leading).words, times, self._nothing)


def _of_one_row(known: Mapping[int, IntArray]) -> dict[int, tuple[int, ...]]:
    """Numbers of tiles of one row, by boundary."""
    return {boundary: tuple(tiles[0].tolist()) for boundary, tiles in known.items()}


def _table_part(chosen: tuple[IntArray, ...], live: IntArray, table: FloatArray) -> FloatArray:
    """Entries of the part of a table that some places along each axis make up."""
    return table[chosen].reshape(-1)[live]


def _entry_at(table: FloatArray, places: IntArray) -> FloatArray:
    """One entry of a table with an axis per dimension, some of them of length 1."""
    entry: FloatArray = table[
        tuple(p if size > 1 else 0 for p, size in zip(places, table.shape, strict=True))
    ]
    return entry


def _moving_dims(rounds: IntArray, places: IntArray) -> frozenset[int]:
    """Dimensions of the loops of a slot, given places of the numbers of tiles inside and outside of it."""
    return frozenset(np.flatnonzero(rounds != places).tolist())


def _summed(costs: FloatArray) -> FloatArray:
    """Costs by all prices, shape (prices, ...), rounded so that equal costs are equal doubles."""
    with np.errstate(over="ignore"):
        total: FloatArray = costs.sum(axis=0).astype(np.float32)
    return total


def _closed(masked: Masked, part: Pending, vector: IntArray) -> FloatArray:
    """What a pending access costs with these rounds outside, shape (1, dimensions)."""
    irrelevant = sorted(masked.frame.space.views[part.charge.place].irrelevant)
    return part.cost(irrelevant, vector.astype(np.float64))[:, 0]
