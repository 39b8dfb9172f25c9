"""All complete paths through one row of the lists whose bounds are below a limit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import NamedTuple

import numpy as np

from solver.search.arrays import BoolArray, FloatArray, IntArray
from solver.search.path.charges import Charge, Price
from solver.search.path.counting import Lead
from solver.search.path.deliveries import Delivered
from solver.search.path.inside import Pending, Unrolled
from solver.search.path.leaves import Path
from solver.search.path.masked import Masked
from solver.search.path.tables import Outside
from solver.search.stopping import Stop, Stopped

Leads = Mapping[int, Lead]


class Found(NamedTuple):
    """A complete path, and what the words of its mappings cost, at least."""

    cost: float
    path: Path


class _Open(NamedTuple):
    """A dataspace that is in place where a slot begins, and its cost if a lead of the slot moves it first."""

    part: Pending
    moved: Mapping[Lead, float]


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

    @property
    def _outside(self) -> Outside:
        return self.masked.outside(self.price)

    def paths(self) -> Iterator[Found]:
        """All of them, in no order."""
        masked, frame = self.masked, self.masked.frame
        first = masked.inside.first
        if first == masked.inside.depth:
            rows: dict[int, IntArray] = {}
            number = 1
        else:
            rows = self._inner({first: self.tiles})
            number = len(rows[first])
        for row in range(number):
            own = {b: tiles[row : row + 1] for b, tiles in rows.items()}
            node = masked.inside.cost(own, self.unrolled, self.leads, self.price)
            places, _ = masked.rounds(self.tiles, self.unrolled)
            pending = [
                _Open(part, {lead: float(cost[0]) for lead, cost in moved.items()})
                for part, moved in zip(node.pending, node.moved, strict=True)
            ]
            inner = {b: tuple(tiles[0].tolist()) for b, tiles in own.items()}
            spent = float(node.spent[0])
            left = np.array([self.limit - spent])
            leads = [
                lead
                for lead in frame.leads(frame.meeting)
                if masked.outside_cost(node, places, lead, self.price, left)[0] < left[0]
            ]
            yield from self._expand(leads, frame.meeting, places[0], pending, spent, self.leads, inner)

    def _inner(self, known: dict[int, IntArray]) -> dict[int, IntArray]:
        """Tiles at all boundaries inside, by boundary: rows of those that are below the limit."""
        masked = self.masked
        frame, inside = masked.frame, masked.inside
        for boundary in range(inside.first + 1, inside.depth):
            none = {b: tiles[:0] for b, tiles in (*known.items(), (boundary, known[inside.first]))}
            parts: list[dict[int, IntArray]] = [none]
            for row in range(len(known[inside.first])):
                own = {b: tiles[row] for b, tiles in known.items()}
                parts.append(self._farther_in(own, boundary))
            keys = [*known, boundary]
            known = {b: np.concatenate([part[b] for part in parts]) for b in keys}
            known = self._below(known)
        last = inside.depth - 1
        bounds = np.array([axis.bound for axis in frame.axes], dtype=np.int64)
        ends = np.ones(len(known[last]), dtype=np.bool_)
        for d, axis in enumerate(frame.axes):
            rounds = axis.rounds_of(self.unrolled.factors[last][:, d], bounds[d : d + 1])
            ends &= frame.loops[last].reach[d][axis.place(known[last][:, d]), rounds[0]] & (rounds[0] >= 0)
        return {b: tiles[ends] for b, tiles in known.items()}

    def _farther_in(self, own: Mapping[int, IntArray], boundary: int) -> dict[int, IntArray]:
        """The same with the tiles that there may be at the next boundary inside."""
        masked, slot = self.masked, boundary - 1
        frame = masked.frame
        options = []
        for d, axis in enumerate(frame.axes):
            rounds = axis.rounds_of(
                np.full(len(axis.numbers), self.unrolled.factors[slot][0, d]), axis.numbers
            )
            place = int(axis.place(own[slot][d : d + 1])[0])
            able = (rounds >= 0) & frame.loops[slot].reach[d][place][np.maximum(rounds, 0)]
            if self.leads[slot] is None:
                able = rounds == place
            able &= axis.numbers >= self.unrolled.needed[slot][0, d]
            options.append(np.flatnonzero(able))
        fits = frame.fits(boundary, frame.space.tenants(masked.charges.mask, boundary))[np.ix_(*options)]
        rooms = self.masked.rooms
        if rooms.is_shared(boundary):
            known = {b: self._places(tiles.tolist()) for b, tiles in own.items()}
            fits = fits & (rooms.words(boundary)[np.ix_(*options)] <= rooms.left(boundary, known))
        chosen = np.argwhere(fits)
        found = np.stack(
            [axis.numbers[options[d][chosen[:, d]]] for d, axis in enumerate(frame.axes)], axis=1
        ).reshape(len(chosen), len(frame.axes))
        return {
            **{b: np.repeat(tiles[None], len(chosen), axis=0) for b, tiles in own.items()},
            boundary: found,
        }

    def _below(self, known: dict[int, IntArray]) -> dict[int, IntArray]:
        """Those rows that may be below the limit."""
        rows = len(known[self.masked.inside.first])
        unrolled = self.unrolled[np.arange(rows)]
        cost = self.masked.cost(known, unrolled, self.leads, self.price, np.full(rows, self.limit))
        return {b: tiles[cost < self.limit] for b, tiles in known.items()}

    def _expand(
        self,
        able: Sequence[Lead],
        slot: int,
        rounds: IntArray,
        pending: Sequence[_Open],
        spent: float,
        leads: Leads,
        tiles: Mapping[int, tuple[int, ...]],
    ) -> Iterator[Found]:
        """Paths whose tiles at the boundaries inside of a slot are known, by each lead that it may have."""
        for lead in able:
            moved = [own for own in pending if lead is not None and own.part.charge.place not in lead]
            still = [own.part for own in pending if lead is None or own.part.charge.place in lead]
            cost = spent + sum(own.moved[lead] for own in moved)
            if cost >= self.limit:
                continue
            if slot == 0:
                yield from self._complete(rounds, still, cost, {**leads, 0: lead}, tiles)
            else:
                yield from self._through(slot, rounds, still, cost, {**leads, slot: lead}, tiles)

    def _complete(
        self,
        rounds: IntArray,
        still: Sequence[Pending],
        spent: float,
        leads: Leads,
        tiles: Mapping[int, tuple[int, ...]],
    ) -> Iterator[Found]:
        masked, frame = self.masked, self.masked.frame
        loops, live = frame.loops[0], False
        for d, axis in enumerate(frame.axes):
            whole = int(np.flatnonzero(axis.numbers == 1)[0])
            if not loops.reach[d][whole, rounds[d]]:
                return
            live |= rounds[d] != whole and d in frame.leading(leads[0])
        single = all(frame.axes[d].numbers[p] == 1 for d, p in enumerate(rounds))
        if frame.counted.leads_are_loops and not (single if leads[0] is None else live):
            return
        energy = spent + float(sum(masked.once(part)[0] for part in still))
        if energy < self.limit:
            ones = (1,) * len(frame.axes)
            depth = masked.inside.depth
            path = Path(
                masked.charges.mask,
                (ones, *(tiles[b] for b in range(1, depth))),
                self.unrolled.choice(0),
                tuple(None if leads[k] is None else frame.leading(leads[k]) for k in range(depth - 1)),
            )
            yield Found(energy, path)

    def _through(
        self,
        slot: int,
        rounds: IntArray,
        still: Sequence[Pending],
        spent: float,
        leads: Leads,
        tiles: Mapping[int, tuple[int, ...]],
    ) -> Iterator[Found]:
        """Paths through the tiles that loops of a slot lead to."""
        masked, frame, lead = self.masked, self.masked.frame, leads[slot]
        axes, dims = frame.axes, range(len(frame.axes))
        if lead is None:
            options = [rounds[d : d + 1] for d in dims]
        else:
            options = [np.flatnonzero(frame.loops[slot].reach[d][:, rounds[d]]) for d in dims]
        columns = [[-1 if e == d else 1 for e in dims] for d in dims]
        numbers = [axes[d].numbers[options[d]].astype(np.float64).reshape(columns[d]) for d in dims]
        loops = [(options[d] != rounds[d]).reshape(columns[d]) for d in dims]
        shape = tuple(map(len, options))
        able = np.ones(shape, dtype=np.bool_)
        if lead is not None and frame.counted.leads_are_loops:
            able = np.broadcast_to(reduce(np.logical_or, (loops[d] for d in frame.leading(lead))), shape)
        rooms, known = self.masked.rooms, {b: self._places(own) for b, own in tiles.items()}
        left = rooms.left(slot, known)
        outside = self._outside.least(slot, int(rooms.step(slot, np.array(left))))[np.ix_(*options)]
        if rooms.is_shared(slot):
            able = able & (rooms.words(slot)[np.ix_(*options)] <= left)
        cost = np.where(able, outside + spent, np.inf)
        closes: list[BoolArray] = []
        for part in still:
            view = frame.space.views[part.charge.place]
            number: FloatArray = np.ones([1] * len(axes))
            for d in sorted(view.irrelevant):
                number = number * ((numbers[d] - 1) * part.copies[0, d] + 1)
            moves = reduce(
                np.logical_or,
                (loops[d] for d in sorted(view.relevant)),
                np.zeros([1] * len(axes), dtype=np.bool_),
            )
            closes.append(np.broadcast_to(moves, shape))
            closed = _of_times(part, number)
            cost = cost + np.where(moves, closed, masked.once(part)[0])
        for chosen in np.argwhere(cost < self.limit):
            if self.stop():
                raise Stopped
            at = tuple(chosen.tolist())
            places = np.array([options[d][at[d]] for d in dims], dtype=np.int64)
            vector = np.array([[axes[d].numbers[places[d]] for d in dims]], dtype=np.int64)
            paid = spent + sum(
                float(masked.once(part)[0] * 0 + _closed(masked, part, vector))
                for part, own in zip(still, closes, strict=True)
                if own[at]
            )
            going = [part for part, own in zip(still, closes, strict=True) if not own[at]]
            pending = [_Open(part, self._moved(part, vector, slot - 1)) for part in going]
            paid_at = [own for own in masked.charges.at(slot) if any(self.price.of(own))]
            new = [self._new(charge, places, vector, slot) for charge in paid_at]
            pending += [own for own in new if frame.space.reuses(own.part.charge.place, slot)]
            gone = (own for own in new if not frame.space.reuses(own.part.charge.place, slot))
            paid += sum(_closed(masked, own.part, vector) for own in gone)
            yield from self._expand(
                frame.leads(slot - 1),
                slot - 1,
                places,
                pending,
                paid,
                leads,
                {**tiles, slot: tuple(vector[0].tolist())},
            )

    def _places(self, tiles: Sequence[int]) -> tuple[int, ...]:
        """Where numbers of tiles are in the tables."""
        axes = self.masked.frame.axes
        return tuple(int(axis.place(np.array(own))) for axis, own in zip(axes, tiles, strict=True))

    def _moved(self, part: Pending, vector: IntArray, slot: int) -> dict[Lead, float]:
        cost = _closed(self.masked, part, vector)
        leads: tuple[Lead, ...] = self.masked.frame.leads(slot)
        return dict.fromkeys(leads, cost)

    def _new(self, charge: Charge, places: IntArray, vector: IntArray, boundary: int) -> _Open:
        """The deliveries to a boundary outside of all fanouts."""
        masked, frame = self.masked, self.masked.frame
        view = frame.space.views[charge.place]
        free = charge.free * masked.charges.first_words(charge.place)

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
                np.array([sum(self.price.of(charge))]),
                picked,
                ones,
                np.ones(1),
                np.array([free]),
                np.ones(1),
            )

        moved: dict[Lead, float] = {
            lead: _closed(masked, of(frame.leading(lead)), vector)
            for lead in frame.leads(boundary - 1)
            if lead is not None and charge.place not in lead
        }
        return _Open(of(frozenset(view.relevant)), moved)


def _closed(masked: Masked, part: Pending, vector: IntArray) -> float:
    """What a pending access costs with these rounds outside, shape (1, dimensions)."""
    irrelevant = sorted(masked.frame.space.views[part.charge.place].irrelevant)
    return float(part.cost(irrelevant, vector.astype(np.float64))[0])


def _of_times(part: Pending, number: FloatArray) -> FloatArray:
    """What one row costs if all tiles are delivered so many times; `number` of any shape."""
    begun, again = float(part.words.begun[0]), float(part.words.again[0])
    more = np.maximum(number - float(part.alike[0]), 0)
    total = (begun * float(part.alike[0]) + again * more) * float(part.share[0])
    cost: FloatArray = float(part.price[0]) * np.maximum(total - float(part.free[0]), 0)
    return cost
