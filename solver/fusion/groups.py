"""Least costs of neighbouring Einsums together, by the loops around them and any further ones inside."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from operator import itemgetter
from typing import NamedTuple

import numpy as np

from model.numbers import divisors
from solver.fusion.drafts import (
    DECIDED_OUTSIDE,
    SHARES,
    DraftBounds,
    FloatArray,
    Given,
    JointBound,
    over_multiples,
)
from solver.fusion.space import Frames

MOST_CELLS = 4096
"""Trips of loops that one table tells apart."""

Costs = FloatArray
"""Energy and cycles of all instances, shape (2, bodies)."""

ClassTrips = tuple[FloatArray, ...]
"""Trips of all loops around some Einsums, by class of their loops; each of shape (bodies,)."""


class Share(NamedTuple):
    """A way to keep an Einsum's tiles: parts of the memory that it holds, most that all may, and cost."""

    parts: int
    most: int
    cost: int


def shares_of(ways: Iterable[tuple[int, int, int]], free_words: int, usable_words: int) -> list[Share]:
    """Return the ways that count, of room in all, room that lasts, and cost each."""
    found = set[Share]()
    for words, lasting, cost in ways:
        if words <= free_words:
            parts = lasting * SHARES // usable_words
            most = min(SHARES, parts + (free_words - words) * SHARES // usable_words)
            found.add(Share(parts, most, cost))
    kept: list[Share] = []
    for own in sorted(found, key=lambda share: (share.cost, share.parts, -share.most)):
        if not any(other.parts <= own.parts and other.most >= own.most for other in kept):
            kept.append(own)
    return kept


def least_together(einsums: Sequence[Sequence[Share]], most_parts: int) -> int | None:
    """Least cost of Einsums that run with what all of them hold; None if there is no room.

    Parameters
    ----------
    most_parts
        Parts of the memory that Einsums before leave for what lasts.
    """
    known = {(0, most_parts): 0}
    for shares in einsums:
        longer = (
            ((parts + own.parts, min(most, own.most)), cost + own.cost)
            for ((parts, most), cost), own in product(known.items(), shares)
        )
        fitting = [own for own in longer if own[0][0] <= own[0][1]]
        known = dict(sorted(fitting, key=itemgetter(1), reverse=True))  # the least one comes last
    return min(known.values(), default=None)


class Known(NamedTuple):
    """What is decided for some Einsums: tensors that go through the outermost memory, and room taken."""

    outside: frozenset[str]
    taken_words: int


@dataclass(frozen=True)
class _Table:
    """Least costs of the Einsums of a body by the trips of the loops around them, and any more.

    Parameters
    ----------
    parts
        Trips, by class of loops: divisors of the bounds.
    costs
        Shape (2, trips of the first class, ...).
    """

    parts: ClassTrips
    costs: FloatArray

    def among(self, trips: ClassTrips) -> Costs:
        """Costs with at least so many trips."""
        index = tuple(np.searchsorted(own, count) for own, count in zip(self.parts, trips, strict=True))
        return np.array(self.costs[(slice(None), *index)])


@dataclass(frozen=True)
class GroupBounds:
    """Bounds on Einsums that have bodies inside of a body, whichever these are.

    They rest on shared loops that divide the bounds of dimensions, and cut them into equal parts.
    """

    bounds: DraftBounds

    def trips(self, frames: Frames, start: int, end: int) -> list[int] | None:
        """Trips of open bodies' loops by class of a body inside; None if it has no such loops."""
        totals = [1] * len(self.bounds.space.classes(start, end))
        for frame in frames:
            numbers = self._inside_of(frame.start, frame.end, start, end)
            if numbers is None:
                return None
            for number, count in (loop for segment in frame.segments for loop in segment):
                totals[numbers[number]] *= count
        return totals

    def least(
        self,
        span: tuple[int, int],
        at: int,
        trips: ClassTrips,
        given: Sequence[Given],
        leaves: Sequence[Costs],
        is_parted: bool = False,
    ) -> Costs:
        """Least costs of the Einsums of a body from one on; at least one body is inside.

        Parameters
        ----------
        at
            The first Einsum; no body inside is open there.
        given, leaves
            Of each Einsum from there on, what is decided, and its cost without further bodies.
        is_parted
            Whether there is a body before.
        """
        end, size = span[1], leaves[0].shape[1]
        # By Einsum, without and with bodies inside from there on.
        whole, parted = {end: np.zeros((2, size))}, {end: np.full((2, size), np.inf)}
        for place in reversed(range(at, end)):
            leaf = leaves[place - at]
            whole[place], parted[place] = leaf + whole[place + 1], leaf + parted[place + 1]
            for last in (e for e in self.bounds.space.ends(place) if e <= end and (place, e) != span):
                body = self._body(span, (place, last), trips, given[place - at : last - at])
                body = body + np.minimum(whole[last], parted[last])
                parted[place] = np.minimum(parted[place], body)
        return np.minimum(whole[at], parted[at]) if is_parted else parted[at]

    def _body(
        self, span: tuple[int, int], inner: tuple[int, int], trips: ClassTrips, given: Sequence[Given]
    ) -> Costs:
        """Least costs of a body inside of another one, with the loops of both.

        What crosses its ends is stored below the loops around it only, if there is room for that at all.
        """
        known = Known(
            frozenset(name for own in given for name, words in own.stored if words == DECIDED_OUTSIDE),
            min(own.taken_words for own in given),
        )
        decided = {name for own in given for name, _ in own.stored}
        room = self.bounds.usable_words - known.taken_words
        sizes = [(name, words) for name, words in self._crossing(span, inner, trips) if name not in decided]
        too_large = np.array([words > room for _, words in sizes], np.bool_).reshape(
            len(sizes), len(trips[0])
        )
        found = np.empty((2, len(trips[0])))
        for pattern in np.unique(too_large, axis=1).T:
            at = (too_large == pattern[:, None]).all(axis=0)
            names = {name for (name, _), is_out in zip(sizes, pattern, strict=True) if is_out}
            own = known._replace(outside=known.outside | names)
            found[:, at] = self._inside(span, inner, tuple(count[at] for count in trips), own)
        return found

    def _crossing(
        self, span: tuple[int, int], inner: tuple[int, int], trips: ClassTrips
    ) -> Iterator[tuple[str, FloatArray]]:
        """Yield the tensors that a body may store and others access, with their room at the least."""
        space, seen = self.bounds.space, set[str]()
        for tile in (tile for place in range(*inner) for tile in space.tiles[place]):
            if tile.tensor not in space.storable or tile.tensor in seen:
                continue
            seen.add(tile.tensor)
            users = space.cascade.users[tile.tensor]
            if not inner[0] <= users[0] <= users[-1] < inner[1]:
                yield tile.tensor, self.bounds.stored_anywhere(tile, self.by_dim(span, tile.place, trips))

    def _inside(
        self, span: tuple[int, int], inner: tuple[int, int], trips: ClassTrips, known: Known
    ) -> Costs:
        """Least costs of a body inside of another one, by what is known."""
        numbers = self._inside_of(*span, *inner)
        table = None if numbers is None else self.table(*inner, known)
        if table is None or numbers is None:
            alone = (self._alone(place, self.by_dim(span, place, trips), known) for place in range(*inner))
            return np.sum(list(alone), axis=0)
        within = [np.ones_like(trips[0]) for _ in table.parts]
        for number, own in zip(numbers, trips, strict=True):
            within[number] = within[number] * own
        return table.among(tuple(within))

    def _alone(self, place: int, trips: dict[str, FloatArray], known: Known) -> Costs:
        """What an Einsum costs by itself with so many trips, and any more."""
        times = self.bounds.space.einsums[place].n_instances
        if place in self.bounds.space.followers:
            least = self.bounds.pricer.arithmetic(place)
            size = len(next(iter(trips.values())))
            return np.full((2, size), [[least.paid * times], [least.cycles * times]], np.float64)
        accessed = {tile.tensor for tile in self.bounds.space.tiles[place]}
        floor = self.bounds.floor(place, known.outside & accessed, known.taken_words)
        return np.array(floor.among(trips)) * times

    @cached_property
    def _numbers(self) -> dict[tuple[int, int, int, int], tuple[int, ...] | None]:
        return {}

    def _inside_of(self, start: int, end: int, first: int, last: int) -> tuple[int, ...] | None:
        """Classes of loops of a body inside, by those of the one around; None if one has none."""
        key = start, end, first, last
        if key not in self._numbers:
            inner = {dims: number for number, dims in enumerate(self.bounds.space.classes(first, last))}
            outer = [dims[first - start : last - start] for dims in self.bounds.space.classes(start, end)]
            known = all(dims in inner for dims in outer)
            self._numbers[key] = tuple(map(inner.__getitem__, outer)) if known else None
        return self._numbers[key]

    @cached_property
    def _tables(self) -> dict[tuple[int, int, frozenset[str], int], _Table | None]:
        return {}

    def table(self, start: int, end: int, known: Known) -> _Table | None:
        """Least costs of the Einsums of a body; None where loops may move windows, or are too many."""
        accessed = {tile.tensor for place in range(start, end) for tile in self.bounds.space.tiles[place]}
        steps = self.bounds.room_steps(known.taken_words)
        key = start, end, known.outside & accessed, steps
        if key not in self._tables:
            self._tables[key] = self._table(*key)
        return self._tables[key]

    def _table(self, start: int, end: int, outside: frozenset[str], steps: int) -> _Table | None:
        space = self.bounds.space
        classes = space.classes(start, end)
        if not classes or space.sliding(start, end):
            return None
        bounds = [
            math.gcd(*(space.einsums[start + n].problem.bound[dim] for n, dim in enumerate(dims)))
            for dims in classes
        ]
        parts = tuple(np.array(divisors(bound), np.float64) for bound in bounds)
        shape = tuple(map(len, parts))
        if math.prod(shape) > MOST_CELLS:
            return None
        trips = tuple(own.ravel() for own in np.meshgrid(*parts, indexing="ij"))
        costs = self._costs((start, end), trips, outside, steps)
        energy, cycles = (over_multiples(own.reshape(shape), parts) for own in costs)
        return _Table(parts, np.array([energy, cycles]))

    def _costs(self, span: tuple[int, int], trips: ClassTrips, outside: frozenset[str], steps: int) -> Costs:
        """Least costs with just these loops around all Einsums: without bodies inside, and with some."""
        places = range(*span)
        by_place = [self.by_dim(span, place, trips) for place in places]
        fits = np.logical_and.reduce([self._divides(*own) for own in zip(places, by_place, strict=True)])
        kept = tuple(own[fits] for own in trips)
        joint = JointBound(len(kept[0]), self.bounds.usable_words)
        leaves, taken = [], self.bounds.least_taken(steps)
        for place, last in zip(places, by_place, strict=True):
            own = {dim: count[fits] for dim, count in last.items()}
            ways = list(self.bounds.ways_anywhere(place, own, outside, span))
            times = self.bounds.space.einsums[place].n_instances
            joint.add(ways, taken, times)
            leaves.append(self.bounds.cheapest(ways, taken, len(kept[0])) * times)
        costs = np.full((2, len(fits)), np.inf)
        costs[:, fits] = np.array(joint.least())
        if any(True for _ in self._inner_bodies(span)):
            decided = tuple((name, DECIDED_OUTSIDE) for name in sorted(outside))
            given = [Given(decided, taken)] * len(places)
            inside = self.least(span, span[0], kept, given, leaves)
            costs[:, fits] = np.minimum(costs[:, fits], inside)
        return costs

    def _inner_bodies(self, span: tuple[int, int]) -> Iterator[tuple[int, int]]:
        for start in range(*span):
            ends: Iterable[int] = self.bounds.space.ends(start)
            yield from ((start, end) for end in ends if end <= span[1] and (start, end) != span)

    def by_dim(self, span: tuple[int, int], place: int, trips: ClassTrips) -> dict[str, FloatArray]:
        """Trips over each dimension of an Einsum."""
        space = self.bounds.space
        found = {dim: np.ones_like(trips[0]) for dim in space.einsums[place].problem.dims}
        for dims, count in zip(space.classes(*span), trips, strict=True):
            dim = dims[place - span[0]]
            found[dim] = found[dim] * count
        return found

    def _divides(self, place: int, last: dict[str, FloatArray]) -> np.ndarray:
        bound = self.bounds.space.einsums[place].problem.bound
        return np.logical_and.reduce([np.mod(bound[dim], count) == 0 for dim, count in last.items()])
