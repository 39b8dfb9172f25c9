"""Least costs of neighbouring Einsums together, by the loops around them and any further ones inside."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import NamedTuple

import numpy as np

from model.numbers import divisors
from solver.fusion.amounts import BoolArray, FloatArray, IntArray
from solver.fusion.drafts import SHARES, DraftBounds, JointBound, over_multiples
from solver.fusion.remembered import remembered
from solver.fusion.space import WHOLE, Frame, Frames, Trips
from solver.fusion.ways import DECIDED_OUTSIDE, Given, Way

MOST_TRIPS = 4096
"""Trips of loops that one table tells apart."""

PARTS = 4
"""Parts of the on-chip memory in which it is counted what the parts of a body hold together."""

MOST_WAITING = 6
"""Tensors across a cut, or between the parts of a body, all subsets of which are looked at."""

Costs = FloatArray
"""Energy and cycles of all instances, shape (2, bodies)."""

ClassTrips = tuple[FloatArray, ...]
"""Trips of all loops around some Einsums, by class of their loops; each of shape (bodies,)."""


class Candidate(NamedTuple):
    """A tensor that may be stored between two parts of a body: its Einsums, and its room by body."""

    tensor: str
    users: tuple[int, ...]
    words: FloatArray


@dataclass(frozen=True)
class _Table:
    """Least costs of the Einsums of a body by the trips of the loops around them, and any more.

    Tensors that others access, too, may be stored without room.

    Parameters
    ----------
    parts
        Trips, by class of loops: divisors of the bounds.
    costs
        Shape (2, parts of the memory that others hold, trips of the first class, ...).
    """

    parts: ClassTrips
    costs: FloatArray

    def among(self, taken_parts: IntArray, trips: ClassTrips) -> Costs:
        """Costs with at least so many trips, where others hold so much."""
        index = tuple(np.searchsorted(own, count) for own, count in zip(self.parts, trips, strict=True))
        flat = np.ravel_multi_index((taken_parts, *index), self.costs.shape[1:])
        return np.take(self.costs.reshape(2, -1), flat, axis=1)


@dataclass(frozen=True)
class Inside:
    """Einsums of a body from one on, at least one body inside, which are to be bounded.

    Parameters
    ----------
    span, at
        The body, and the first of the Einsums; no body inside is open there.
    trips
        Of all loops around them.
    given
        What is decided for each Einsum from there on.
    ways
        The ways to keep the tiles of each in no further body.
    others_words
        Room that others hold besides, by body.
    is_parted
        Whether there is a body before.
    """

    span: tuple[int, int]
    at: int
    trips: ClassTrips
    given: Sequence[Given]
    ways: Sequence[Sequence[Way]]
    others_words: FloatArray
    is_parted: bool = False

    @property
    def size(self) -> int:
        """How many bodies."""
        return len(self.others_words)

    def known(self, place: int) -> Given:
        """What is decided for an Einsum."""
        return self.given[place - self.at]


@dataclass(frozen=True)
class GroupBounds:
    """Bounds on Einsums that have bodies inside of a body, whichever these are.

    They rest on shared loops that divide the bounds of dimensions, and cut them into equal parts; and on
    tensors that are stored in the outermost on-chip memory.
    """

    bounds: DraftBounds

    def trips(self, frames: Frames, start: int, end: int) -> list[int] | None:
        """Trips of open bodies' loops by class of a body inside; None if it has no such loops."""
        totals = [1] * len(self.bounds.space.classes(start, end))
        for frame in frames:
            numbers = self.inside_of(frame.start, frame.end, start, end)
            if numbers is None:
                return None
            for number, count in (loop for segment in frame.segments for loop in segment):
                totals[numbers[number]] *= count
        return totals

    def least(self, inside: Inside) -> Costs:
        """Least energy and cycles, all instances, by body.

        What is handed over between the parts of a body, each an Einsum or a body inside, is stored below the
        loops around them all, and takes room meanwhile: so each choice of what is stored there is bounded.
        """
        found = np.full((2, inside.size), np.inf)
        candidates = self._candidates(inside)
        for chosen in product((False, True), repeat=len(candidates)):
            stored = [own for own, is_stored in zip(candidates, chosen, strict=True) if is_stored]
            fits = np.ones(inside.size, np.bool_)
            for own in stored:
                fits &= own.words + inside.others_words <= self.bounds.usable_words
            if fits.any():
                names = {own.tensor for own in candidates} - {own.tensor for own in stored}
                costs = self._in_parts(inside, stored, frozenset(names))
                np.minimum(found, costs, out=found, where=fits)
        return found

    def _candidates(self, inside: Inside) -> list[Candidate]:
        """Return the tensors that may be stored between parts, the largest if there are many."""
        space, found = self.bounds.space, dict[str, Candidate]()
        decided = {name for own in inside.given for name, _ in own.stored}
        # Of a tensor and its copies, which may take one room, one counts: all would be many.
        rooms = set(map(self._room, decided))
        tiles = [tile for place in range(inside.at, inside.span[1]) for tile in space.tiles[place]]
        for tile in tiles:
            room = self._room(tile.tensor)
            if tile.tensor in space.storable and room not in rooms:
                rooms.add(room)
                last = self.by_dim(inside.span, tile.place, inside.trips)
                words = np.broadcast_to(self.bounds.stored_anywhere(tile, last), inside.size)
                found[tile.tensor] = Candidate(tile.tensor, space.cascade.users[tile.tensor], words)
        return sorted(found.values(), key=lambda own: -float(own.words.max(initial=0.0)))[:MOST_WAITING]

    def _in_parts(self, inside: Inside, stored: Sequence[Candidate], outside: frozenset[str]) -> Costs:
        """Least costs where just these tensors are stored between parts."""
        end = inside.span[1]
        joint = JointBound(inside.size, self.bounds.usable_words, PARTS)
        # By Einsum, without and with bodies inside from there on.
        whole, parted = {end: joint.costs}, {end: np.full_like(joint.costs, np.inf)}
        for place in reversed(range(inside.at, end)):
            taken = self._taken(inside, (place, place + 1), stored) + inside.known(place).taken_words
            ways = (way for way in inside.ways[place - inside.at] if way.stored.isdisjoint(outside))
            if self._must_hold(inside, place, outside):
                ways = (way._replace(words=np.where(way.lasting > 0, way.words, np.inf)) for way in ways)
            leaf = joint.alone(ways, taken, self.bounds.space.einsums[place].times)
            whole[place], parted[place] = (joint.joined(own[place + 1], leaf) for own in (whole, parted))
            for last in (e for e in self.bounds.space.ends(place) if e <= end and (place, e) != inside.span):
                body = self._body(inside, (place, last), stored, outside)
                body = body[:, None] + np.minimum(whole[last], parted[last])
                parted[place] = np.minimum(parted[place], body)
            if place > inside.at and self._falls_apart(inside, place, outside):
                whole[place] = parted[place] = np.full_like(joint.costs, np.inf)
        at = inside.at
        return joint.fitting(np.minimum(whole[at], parted[at]) if inside.is_parted else parted[at])

    def _is_joined(self, inside: Inside, cut: int, outside: frozenset[str]) -> bool:
        """Whether a tensor may be stored across a cut between parts, below the loops around them."""
        start, end = inside.span
        space, users = self.bounds.space, self.bounds.space.cascade.users
        decided = {name for own in inside.given for name, words in own.stored if words == DECIDED_OUTSIDE}
        return any(
            start <= users[tensor][0] and users[tensor][-1] < end
            for tensor in space.storable.intersection(space.crossing(cut)) - outside - decided
        )

    def _falls_apart(self, inside: Inside, cut: int, outside: frozenset[str]) -> bool:
        """Whether the body does as well as two, one on each side of a cut between parts."""
        start, end = inside.span
        sides = (start, cut), (cut, end)
        return (
            min(cut - start, end - cut) > 1
            and not self._is_joined(inside, cut, outside)
            and all(self.inside_of(start, end, *side) is not None for side in sides)
        )

    def _must_hold(self, inside: Inside, place: int, outside: frozenset[str]) -> bool:
        """Whether an Einsum at an end of a body belongs there only if it holds tiles above its loops."""
        start, end = inside.span
        is_first, is_last = place == start, place == end - 1 > inside.at
        tiles = self.bounds.space.tiles[place]
        if not (is_first or is_last) or any(self.bounds.space.keeping(tile, start, end) for tile in tiles):
            return False
        cut, side = (start + 1, (start + 1, end)) if is_first else (place, (start, place))
        # With remainders, the private loops of visits are none of the whole.
        pricer = self.bounds.pricer
        return (
            not (pricer.remainders or pricer.is_ruled(place))
            and not self._is_joined(inside, cut, outside)
            and self.inside_of(start, end, *side) is not None
        )

    def _room(self, tensor: str) -> str:
        """What tensors that may take one room have in common."""
        return self.bounds.space.copies.family(tensor) or tensor

    def _taken(self, inside: Inside, part: tuple[int, int], stored: Sequence[Candidate]) -> FloatArray:
        """Room that is taken by what Einsums besides one part access, while it runs, by body."""
        start, end = inside.span
        accessed = {self._room(t.tensor) for place in range(*part) for t in self.bounds.space.tiles[place]}
        taken = inside.others_words
        for own in (own for own in stored if self._room(own.tensor) not in accessed):
            stays = own.users[0] < start or own.users[-1] >= end
            waits = own.users[0] < part[0] and own.users[-1] >= part[1]
            taken = taken + own.words * (stays or waits)
        return taken

    def _crossing(self, inside: Inside, part: tuple[int, int], stored: Sequence[Candidate]) -> FloatArray:
        """Room of what lies above the loops of a body inside, and is accessed there: while all of it runs.

        What may take one room with a tensor of this body alone counts with that.
        """
        users = self.bounds.space.cascade.users
        tensors = {t.tensor for place in range(*part) for t in self.bounds.space.tiles[place]}
        inner = {self._room(t) for t in tensors if part[0] <= users[t][0] <= users[t][-1] < part[1]}
        known = (inside.known(place) for place in range(*part))
        least = min(own.taken_words + self._stored_words(own, inner) for own in known)
        crossing = (
            own.words for own in stored if own.tensor in tensors and self._room(own.tensor) not in inner
        )
        return inside.others_words * 0 + least + sum(crossing)

    def _stored_words(self, given: Given, without: set[str]) -> int:
        """Room of the tensors that an Einsum reads: of one and its copies, the largest."""
        largest: dict[str, int] = {}
        for name, words in given.stored:
            largest[self._room(name)] = max(words, largest.get(self._room(name), 0))
        return sum(words for room, words in largest.items() if room not in without)

    def _body(
        self, inside: Inside, part: tuple[int, int], stored: Sequence[Candidate], outside: frozenset[str]
    ) -> Costs:
        """Least costs of a body inside of another one, with the loops of both.

        By what Einsums besides it hold above its loops, shape (2, parts, bodies).
        """
        users = self.bounds.space.cascade.users
        decided = {
            name
            for place in range(*part)
            for name, words in inside.known(place).stored
            if words == DECIDED_OUTSIDE
        }
        crossing = {name for name in outside if users[name][0] < part[0] or users[name][-1] >= part[1]}
        numbers = self.inside_of(*inside.span, *part)
        table = None if numbers is None else self.table(*part, frozenset(decided | crossing))
        taken = self._taken(inside, part, stored) + self._crossing(inside, part, stored)
        if table is None or numbers is None:
            alone = (self._alone(inside, place, frozenset(decided | crossing)) for place in range(*part))
            return np.broadcast_to(np.sum(list(alone), axis=0)[:, None], (2, PARTS + 1, inside.size))
        within = [np.ones(inside.size) for _ in table.parts]
        for number, own in zip(numbers, inside.trips, strict=True):
            within[number] = within[number] * own
        held = np.arange(PARTS + 1)[:, None] * (SHARES // PARTS)
        parts = (taken * SHARES // self.bounds.usable_words).astype(np.int64) + held
        every = tuple(np.broadcast_to(own, parts.shape) for own in within)
        costs = table.among(np.minimum(parts, SHARES), every)
        return np.where(parts <= SHARES, costs, np.inf)

    def _alone(self, inside: Inside, place: int, outside: frozenset[str]) -> Costs:
        """What an Einsum costs by itself with so many trips, and any more."""
        times, of_cycles = self.bounds.space.einsums[place].times
        if self.bounds.space.einsums[place].is_copy or self.bounds.pricer.follows(place):
            least = self.bounds.pricer.in_open_parts(place, WHOLE)
            return np.full((2, inside.size), [[least.paid * times], [least.cycles * of_cycles]], np.float64)
        accessed = {tile.tensor for tile in self.bounds.space.tiles[place]}
        floor = self.bounds.floor(place, outside & accessed, inside.known(place).taken_words)
        energies, cycles = floor.among(self.by_dim(inside.span, place, inside.trips))
        found = energies * times, cycles * of_cycles
        return np.array([np.broadcast_to(own, inside.size) for own in found])

    @remembered
    def inside_of(self, start: int, end: int, first: int, last: int) -> tuple[int, ...] | None:
        """Classes of loops of a body inside, by those of the one around; None if one has none."""
        inner = {dims: number for number, dims in enumerate(self.bounds.space.classes(first, last))}
        outer = [dims[first - start : last - start] for dims in self.bounds.space.classes(start, end)]
        known = all(dims in inner for dims in outer)
        return tuple(map(inner.__getitem__, outer)) if known else None

    @cached_property
    def _tables(self) -> dict[tuple[int, int, frozenset[str]], _Table | None]:
        return {}

    def table(self, start: int, end: int, outside: frozenset[str]) -> _Table | None:
        """Least costs of the Einsums of a body; None where loops may move windows, or are too many.

        None as well once the search has to stop.
        """
        accessed = {tile.tensor for place in range(start, end) for tile in self.bounds.space.tiles[place]}
        key = start, end, outside & accessed
        if key not in self._tables:
            if self.bounds.pricer.clock.stop():
                return None  # what is left has to be quick
            self._tables[key] = self._table(*key)
        return self._tables[key]

    def _table(self, start: int, end: int, outside: frozenset[str]) -> _Table | None:
        found = self._grid(start, end)
        if found is None:
            return None
        parts, trips, fits = found
        shape = (2, SHARES + 1, *map(len, parts))
        costs = np.full((2, SHARES + 1, len(fits)), np.inf)
        costs[:, :, fits] = self._costs((start, end), trips, outside)
        return _Table(parts, over_multiples(costs.reshape(shape), parts))

    @remembered
    def _grid(self, start: int, end: int) -> tuple[ClassTrips, ClassTrips, BoolArray] | None:
        """Trips by class, those of all combinations that divide all bounds, and which of all do."""
        space = self.bounds.space
        classes = space.classes(start, end)
        if not classes or space.sliding(start, end):
            return None
        problems = [einsum.problem for einsum in space.einsums[start:end]]
        bounds = [
            math.gcd(*(problem.bound[dim] for problem, dim in zip(problems, dims, strict=True)))
            for dims in classes
        ]
        parts = tuple(np.array(divisors(bound), np.float64) for bound in bounds)
        if math.prod(map(len, parts)) > MOST_TRIPS:
            return None
        trips = tuple(own.ravel() for own in np.meshgrid(*parts, indexing="ij"))
        by_place = ((place, self.by_dim((start, end), place, trips)) for place in range(start, end))
        fits = np.logical_and.reduce([self._divides(*own) for own in by_place])
        return parts, tuple(own[fits] for own in trips), fits

    def _costs(self, span: tuple[int, int], trips: ClassTrips, outside: frozenset[str]) -> FloatArray:
        """Least costs with just these loops around all Einsums, by the parts that others hold besides."""
        size, bounds = len(trips[0]), self.bounds
        joint = JointBound(size, bounds.usable_words)
        ways = [[w for w in self._ways(span, p) if w.stored.isdisjoint(outside)] for p in range(*span)]
        for place, own in zip(range(*span), ways, strict=True):
            joint.add(own, 0, bounds.space.einsums[place].times)
        costs = joint.beside()
        if not any(True for _ in self._inner_bodies(span)):
            return costs
        decided = tuple((name, DECIDED_OUTSIDE) for name in sorted(outside))
        words = np.ceil(np.arange(PARTS + 1) * bounds.usable_words / PARTS)
        inside = Inside(
            span,
            span[0],
            tuple(np.tile(own, PARTS + 1) for own in trips),
            [Given(decided, 0)] * (span[1] - span[0]),
            [[_tiled(way) for way in own] for own in ways],
            np.repeat(words, size),
        )
        found = self.least(inside).reshape(2, PARTS + 1, size)
        # Where others hold more than some parts, it costs no less than where they hold just these.
        return np.minimum(costs, found[:, np.arange(SHARES + 1) * PARTS // SHARES])

    @remembered
    def _ways(self, span: tuple[int, int], place: int) -> list[Way]:
        """The ways to keep an Einsum's tiles in a body, by the trips of all loops around."""
        grid = self._grid(*span)
        assert grid is not None
        last = self.by_dim(span, place, grid[1])
        ways = self.bounds.ways_anywhere(place, last, frozenset(), span)
        return [way.over(len(grid[1][0])) for way in ways]

    def _inner_bodies(self, span: tuple[int, int]) -> Iterator[tuple[int, int]]:
        for start in range(*span):
            ends: Iterable[int] = self.bounds.space.ends(start)
            yield from ((start, end) for end in ends if end <= span[1] and (start, end) != span)

    def by_dim(self, span: tuple[int, int], place: int, trips: ClassTrips) -> Trips:
        """Trips over each dimension of an Einsum."""
        return self.bounds.space.grown({}, Frame(*span, ()), place, tuple(enumerate(trips)))

    def _divides(self, place: int, last: Trips) -> BoolArray:
        bound = self.bounds.space.einsums[place].problem.bound
        whole = [np.mod(bound[dim], count) == 0 for dim, count in last.items()]
        return np.array(np.logical_and.reduce(whole))


def _tiled(way: Way) -> Way:
    """A way for each of the parts of the memory that others hold."""
    return way.changed(lambda own: np.tile(own, PARTS + 1))
