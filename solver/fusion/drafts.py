"""Least costs of many bodies at a time, in floating point: which loops are worth a closer look."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from itertools import combinations, product

import numpy as np

from model.extents import ANY, PERFECT, Extents
from solver.fusion.amounts import Amount, FloatArray, IntArray, larger, smaller, unless, worth
from solver.fusion.least import EdgePricer
from solver.fusion.remembered import remembered
from solver.fusion.space import WHOLE, Cut, Cuts, Frame, Frames, FusionSpace, Segment, Tile, Trips
from solver.fusion.ways import FREE, Given, Option, Places, TileWays, Way

Counts = IntArray
"""Trips of loops, shape (bodies, classes)."""

SHARES = 8
"""Parts of the on-chip memory in which bounds count what Einsums hold together, and what others take."""

FEW_SHARES = 4
"""Such parts where estimates are enough."""

MOST_KNOWN_BYTES = 1 << 28
"""Memory of the ways to keep tiles that are remembered."""

MOST_CELLS = 1 << 21
"""Numbers of parts of which a floor knows the least cost of each; there is none where there are more."""

MOST_CELLS_BY_STEPS = 1 << 16
"""Such numbers with which floors are computed at once for all that others may take."""

CELLS_TOGETHER = 1 << 13
"""How many of them, and how many bodies, are bounded at a time."""


class JointBound:
    """Least costs of the Einsums of each body together: what one holds leaves less room to all.

    Room that lasts is counted in parts of the memory, rounded down for each Einsum.

    Parameters
    ----------
    size
        Number of bodies.
    """

    def __init__(self, size: int, usable_words: int, shares: int = SHARES) -> None:
        self.size, self.usable_words, self.shares = size, usable_words, shares
        # By parts of the Einsums so far, and by those of all.
        self.costs = np.full((2, shares + 1, shares + 1, size), np.inf)
        self.costs[:, 0] = 0.0

    def add(self, ways: Iterable[Way], taken_words: FloatArray | int, times: tuple[int, int]) -> None:
        """Add one Einsum, whose energy and cycles count so many times, by the ways to keep its tiles."""
        self.costs = self.joined(self.costs, self.alone(ways, taken_words, times))

    def alone(self, ways: Iterable[Way], taken_words: FloatArray | int, times: tuple[int, int]) -> FloatArray:
        """Least costs of one Einsum, in the shape of `costs`."""
        own = np.full_like(self.costs, np.inf)
        for way in ways:
            at, fits = self._shares(way, self.usable_words - taken_words)
            for costs, value in zip(own, (way.energy, way.cycles), strict=True):
                costs[at] = np.minimum(costs[at], value[fits])
        # What may be held in all may also be less.
        least = np.minimum.accumulate(own[:, :, ::-1], axis=2)[:, :, ::-1]
        return least * np.array(times, np.float64)[:, None, None, None]

    def joined(self, before: FloatArray, own: FloatArray) -> FloatArray:
        """Least costs of some Einsums and of one more, which each hold some parts."""
        total = np.full_like(own, np.inf)
        for held_parts in np.flatnonzero(np.isfinite(own).any(axis=(0, 2, 3))).tolist():
            both = before[:, : self.shares + 1 - held_parts] + own[:, held_parts, None]
            np.minimum(total[:, held_parts:], both, out=total[:, held_parts:])
        return total

    def _shares(
        self, way: Way, free_words: FloatArray | int
    ) -> tuple[tuple[IntArray, IntArray, IntArray], IntArray]:
        """Parts that an Einsum holds and most that all may hold, in the bodies where it has room."""
        (fits,) = (way.words <= free_words).nonzero()
        free = np.broadcast_to(np.asarray(free_words, np.float64), way.words.shape)[fits]
        # Words are whole numbers: what is above one by no more than floating-point errors is that one.
        held, words = (np.ceil(own[fits] - 1e-6) for own in (way.lasting, way.words))
        parts = held * self.shares // self.usable_words
        most = np.minimum(parts + (free - words) * self.shares // self.usable_words, self.shares)
        return (parts.astype(np.int64), most.astype(np.int64), fits), fits

    def beside(self) -> FloatArray:
        """Least costs by the parts of the memory that others hold besides, shape (2, parts, bodies)."""
        found = np.full((2, SHARES + 1, self.size), np.inf)
        for held in range(SHARES + 1):
            left = self.costs[:, held, held:]
            np.minimum(found[:, : SHARES + 1 - held], left, out=found[:, : SHARES + 1 - held])
        return found

    def least(self, most_parts: int | None = None) -> FloatArray:
        """Least energy and cycles of all Einsums; they hold some parts of the memory at most."""
        return self.fitting(self.costs, most_parts)

    def fitting(self, costs: FloatArray, most_parts: int | None = None) -> FloatArray:
        """The least of costs where all Einsums hold what they do together."""
        parts = range((self.shares if most_parts is None else most_parts) + 1)
        return np.array(costs[:, parts, parts].min(axis=1))


@dataclass(frozen=True)
class Floor:
    """Least cost of an Einsum by the loops above it, if there may be further ones: one instance, rounded.

    Parameters
    ----------
    dims, parts
        Dimensions that loops may run over, and the divisors of each.
    energy, cycles
        By the number of each divisor.
    """

    dims: tuple[str, ...]
    parts: tuple[FloatArray, ...]
    energy: FloatArray
    cycles: FloatArray

    def least(self, trips: Trips) -> tuple[int, int]:
        """Energy and cycles, as whole numbers that no exact one is below."""
        index = tuple(
            int(np.searchsorted(own, trips.get(dim, 1), side="right")) - 1
            for dim, own in zip(self.dims, self.parts, strict=True)
        )
        energy, cycles = worth(np.array([self.energy[index], self.cycles[index]]))
        return energy, cycles

    def among(self, trips: Trips) -> tuple[FloatArray, FloatArray]:
        """Energy and cycles of many bodies at a time."""
        index = tuple(
            np.searchsorted(own, trips.get(dim, 1), side="right") - 1
            for dim, own in zip(self.dims, self.parts, strict=True)
        )
        return self.energy[index], self.cycles[index]


@dataclass(frozen=True)
class DraftBounds:
    """Bounds on bodies that begin alike.

    Parameters
    ----------
    tiles
        The ways to keep tiles.
    """

    tiles: TileWays

    @property
    def space(self) -> FusionSpace:
        """Bodies, loops and places."""
        return self.tiles.space

    @property
    def pricer(self) -> EdgePricer:
        """What Einsums cost by themselves."""
        return self.tiles.pricer

    @property
    def usable_words(self) -> int:
        """Room of the outermost on-chip memory."""
        return self.tiles.usable_words

    def least(
        self, frames: Frames, frame: Frame, segments: Sequence[Counts], given: Sequence[Given]
    ) -> tuple[FloatArray, FloatArray]:
        """Least energy and cycles of the Einsums of each body, all instances, rounded by less than 1e-9.

        Parameters
        ----------
        frames
            The bodies outside.
        frame
            What all bodies have in common: their Einsums, and the outermost of their segments.
        segments
            Trips of each one's next segments, and last those that are left for further ones.
        given
            What is decided for each Einsum.
        """
        joint = JointBound(len(segments[-1]), self.usable_words)
        for place, known in zip(range(frame.start, frame.end), given, strict=True):
            ways = self.ways_in(frames, frame, place, segments, known)
            joint.add(ways, known.taken_words, self.space.einsums[place].times)
        energies, cycles = joint.least()
        return energies, cycles

    def ordered(
        self, frames: Frames, frame: Frame, segments: Sequence[Counts], given: Sequence[Given]
    ) -> tuple[FloatArray, FloatArray]:
        """Least energy and cycles of each body like `least`, where trips of all its segments are known."""
        size = len(segments[0])
        joint = JointBound(size, self.usable_words, FEW_SHARES)
        loops = [tuple(enumerate(counts.T)) for counts in segments]
        for place, known in zip(range(frame.start, frame.end), given, strict=True):
            ways = [way.over(size) for way in self._ways_ordered((*frames, frame), place, loops, known)]
            joint.add(ways, known.taken_words, self.space.einsums[place].times)
        energies, cycles = joint.least()
        return energies, cycles

    def _ways_ordered(
        self, frames: Frames, place: int, segments: Sequence[Segment], given: Given
    ) -> Iterator[Way]:
        """Yield the ways to keep the tiles of an Einsum in each body, below segments that are all known."""
        if self.space.einsums[place].is_copy:
            yield FREE
            return
        trips, cuts = self.space.raw_trips(frames, place), list[Cut]()
        for segment in segments:
            trips = self.space.grown(trips, frames[-1], place, segment)
            cuts.append(Cuts(trips))
        above = (*self.space.cuts(frames, place), *cuts[:-1])
        options = self.tiles.of_places(place, given, Places(frames, above, cuts[-1], tuple(segments)))
        yield from self.tiles.each(place, options, cuts[-1], is_open=False)

    def leaves(
        self, frames: Frames, frame: Frame, segments: Sequence[Counts], given: Sequence[Given]
    ) -> list[list[Way]]:
        """The ways to keep the tiles of each Einsum that is in no further body, like `least`."""
        flat = replace(frame, flat=True)
        places = zip(range(frame.start, frame.end), given, strict=True)
        return [self.ways_in(frames, flat, place, segments, own) for place, own in places]

    def ways_in(
        self, frames: Frames, frame: Frame, place: int, segments: Sequence[Counts], given: Given
    ) -> list[Way]:
        """The ways to keep the tiles of an Einsum in each body, whatever room others take."""
        taken = self.room_steps(given.taken_words) if not frame.flat else 0  # for floors
        trips = tuple(counts.tobytes() for counts in segments)
        key = frames, frame, place, trips, given.stored, given.levels, taken
        known = self._known.get(key)
        if known is None:
            ways = self._ways_in((*frames, frame), place, segments, given)
            known = [way.over(len(segments[-1])) for way in ways]
            self._known_bytes.append(sum(way.nbytes for way in known))
            if sum(self._known_bytes) > MOST_KNOWN_BYTES:
                self._known.clear()
                self._known_bytes[:] = self._known_bytes[-1:]
            self._known[key] = known
        return known

    @cached_property
    def _known_bytes(self) -> list[int]:
        return []

    @cached_property
    def _known(self) -> dict[tuple[object, ...], list[Way]]:
        return {}

    def _ways_in(self, frames: Frames, place: int, segments: Sequence[Counts], given: Given) -> Iterator[Way]:
        """Yield the ways to keep the tiles of an Einsum in each body."""
        if self.space.einsums[place].is_copy:
            yield FREE
            return
        space, frame = self.space, frames[-1]
        further = tuple(tuple(enumerate(counts.T)) for counts in segments)
        every, cuts, left = [space.raw_trips(frames, place)], list(space.cuts(frames, place)), segments[-1]
        for segment in further:
            every.append(space.grown(every[-1], frame, place, segment))
        cuts += map(Cuts, every[1:-2])
        within, last = every[-2:]
        decided = self._decided(frame, left.shape[1]) * np.prod(segments[:-1], axis=0)
        if slides := bool(space.sliding(frame.start, frame.end)) or space.slides(frames[:-1]):
            within = self._counted(frames, place, within, decided)
            last = self._counted(frames, place, last, decided * left)
        elif space.remainders:
            within, last = self._in_fewest(place, within), self._in_fewest(place, last)
        deepest = () if frame.flat else self._deepest((frame.start, frame.end), place)
        follows = bool(deepest) and self.pricer.follows(place)
        is_open = (slides or follows or space.remainders) and not self.tiles.are_estimates
        sizes = None
        if is_open and not space.remainders:
            sizes = self._largest(frames, place, decided * left)
        below = Cuts(last, sizes=sizes)
        floor = (
            self.floor(place, given.outside, given.taken_words).among(last)
            if deepest and not follows
            else (0.0, 0.0)
        )
        for deeper in deepest or (None,):
            places = Places(frames, cuts, below, further, Cuts(within), left.max(axis=1) <= 1, deeper)
            options = self.tiles.of_places(place, given, places)
            for way in self.tiles.each(
                place, options, below, is_open, None, None if slides else places.above_left
            ):
                yield way._replace(energy=larger(way.energy, floor[0]), cycles=larger(way.cycles, floor[1]))

    @remembered
    def _deepest(self, span: tuple[int, int], place: int) -> tuple[frozenset[str], ...]:
        """The sets of tensors that bodies around an Einsum, inside of another one, may store.

        None where it is in none. A set that is part of another one is left out.
        """
        users = self.space.cascade.users
        found = {
            frozenset(
                tile.tensor
                for tile in self.space.tiles[place]
                if tile.tensor in self.space.storable
                and start <= users[tile.tensor][0]
                and users[tile.tensor][-1] < end
            )
            for start in range(span[0], place + 1)
            for end in self.space.ends(start)
            if place < end <= span[1] and (start, end) != span
        }
        most = [own for own in found if not any(own < other for other in found)]
        return tuple(sorted(most, key=sorted))

    def floor(self, place: int, outside: frozenset[str], taken_words: int) -> Floor:
        """Least cost of an Einsum under loops that it has and any further ones.

        Parameters
        ----------
        outside
            Tensors that go through the outermost memory.
        taken_words
            Room that others take; a bit less is looked at, so that there are few tables.
        """
        return self._floor(place, outside, self.room_steps(taken_words))

    @remembered
    def _floor(self, place: int, outside: frozenset[str], steps: int) -> Floor:
        dims, parts = tuple(self.space.looped(place)), self._parts(place)
        shape = tuple(map(len, parts))
        if math.prod(shape) > MOST_CELLS or self.pricer.in_closed_form:
            return Floor((), (), np.zeros(()), np.zeros(()))
        all_steps = tuple(range(SHARES + 1)) if math.prod(shape) < MOST_CELLS_BY_STEPS else (steps,)
        every = self._by_stored(place, all_steps)
        least = (costs[all_steps.index(steps)] for own, costs in every.items() if own.isdisjoint(outside))
        over = over_more if self.space.remainders else over_multiples
        energy, cycles = (over(own.reshape(shape), parts) for own in np.minimum.reduce(list(least)))
        return Floor(dims, parts, energy, cycles)

    @remembered
    def _parts(self, place: int) -> tuple[FloatArray, ...]:
        """Numbers of parts of each dimension of an Einsum that shared loops may run over."""
        bound, kind = self.space.einsums[place].problem.bound, ANY if self.space.remainders else PERFECT
        counts = (Extents(bound[dim], kind).least_factors(1) for dim in self.space.looped(place))
        return tuple(np.array(own, np.float64) for own in counts)

    @remembered
    def _by_stored(self, place: int, steps: tuple[int, ...]) -> dict[frozenset[str], FloatArray]:
        """Least costs of an Einsum with just so many loops above it, by the tensors that it stores.

        By the room that others take in steps, energy and cycles, and by cells.
        """
        size = math.prod(map(len, self._parts(place)))
        found = defaultdict[frozenset[str], FloatArray](lambda: np.full((len(steps), 2, size), np.inf))
        for first in range(0, size, CELLS_TOGETHER):
            cells = slice(first, min(size, first + CELLS_TOGETHER))
            self._lower(found, cells, self._in_cells(place, cells), steps)
        return found

    def _in_cells(self, place: int, cells: slice) -> Iterator[Way]:
        """Yield the ways to keep an Einsum's tiles with some numbers of parts."""
        dims, parts = tuple(self.space.looped(place)), self._parts(place)
        shape, every = tuple(map(len, parts)), np.arange(cells.start, cells.stop)
        numbers = np.unravel_index(every, shape) if dims else ()
        last = {dim: own[number] for dim, own, number in zip(dims, parts, numbers, strict=True)}
        apart = self._apart(place, last)
        for way in self.ways_anywhere(place, last, frozenset()):
            yield way._replace(words=unless(apart, way.words)).over(len(every))

    def room_steps(self, taken_words: int) -> int:
        """Room that others take, in steps that tables distinguish."""
        return taken_words * SHARES // self.usable_words

    def least_taken(self, steps: int) -> int:
        """Words of so many steps."""
        return steps * self.usable_words // SHARES

    def _lower(
        self, found: dict[frozenset[str], FloatArray], cells: slice, ways: Iterable[Way], steps: Sequence[int]
    ) -> None:
        """Lower least costs in some cells to those of ways that fit."""
        for way, (number, taken) in product(ways, enumerate(map(self.least_taken, steps))):
            fits = way.words <= self.usable_words - taken
            for least, own in zip(found[way.stored][number, :, cells], (way.energy, way.cycles), strict=True):
                np.minimum(least, own, out=least, where=fits)

    def ways_anywhere(
        self, place: int, last: Trips, outside: frozenset[str], span: tuple[int, int] | None = None
    ) -> Iterator[Way]:
        """Yield the ways to keep an Einsum's tiles below so many trips, wherever these are stored or held.

        All trips may be those of a body over a `span`: then what others access takes no room.
        """
        if self.space.einsums[place].is_copy:
            return iter([FREE])
        below = Cuts(last, is_rough=True)
        options = [list(self._anywhere(tile, below, outside, span)) for tile in self.space.tiles[place]]
        is_open = self.space.remainders and not self.tiles.are_estimates
        return self.tiles.each(place, options, below, is_open, None, WHOLE)

    def _anywhere(
        self, tile: Tile, last: Cuts, outside: frozenset[str], span: tuple[int, int] | None
    ) -> Iterator[Option]:
        """Yield ways to keep a tile: fetched in each visit, held so that it comes once, and stored."""
        yield self.tiles.fetched(tile, last)
        if not tile.bypassed and self.space.looped(tile.place):
            move = self.pricer.exchange(tile, last, self.pricer.shift(self.space.dense[tile], WHOLE))
            words = self.space.held_words(tile, last)
            yield Option(tile.space.name, words, move, lasting=True, between=tile)
            if dims := self.space.kept_dims(tile):
                # Below all loops, it waits for no other Einsum: one of those that slide it is the last.
                cuts = (replace(last, trips={**last.trips, dim: 1}) for dim in dims & last.trips.keys())
                moved = [self.space.moved_words(self.space.dense[tile], cut) for cut in (last, *cuts)]
                shift = replace(self.pricer.shift(self.space.dense[tile], last), moved=reduce(smaller, moved))
                yield Option(tile.space.name, words, self.pricer.exchange(tile, last, shift))
        if tile.tensor in self.space.storable - outside:
            users = self.space.cascade.users[tile.tensor]
            crosses = span is not None and not span[0] <= users[0] <= users[-1] < span[1]
            is_free = crosses or self.space.is_repeated(tile)
            for level in self.space.homes[tile.tensor]:
                words = 0 if is_free else self.stored_anywhere(tile, last.trips, level)
                yield Option(tile.space.name, words, stored=tile.tensor, level=level)

    def stored_anywhere(self, tile: Tile, last: Trips, level: int = 1) -> Amount:
        """Room of a stored tensor at the least, below some of the loops above one of its Einsums."""
        users = self.space.cascade.users[tile.tensor]
        dividing = (
            last.get(dim, 1)
            for dim, bodies in self.space.looped(tile.place).items()
            if dim in tile.dims and any(users[0] in body and users[-1] in body for body in bodies)
        )
        return self.space.stored_words(tile.tensor, {}, level) // math.prod(dividing)

    def _apart(self, place: int, last: Trips) -> Amount:
        """Where loops over two dimensions meet whose bodies never lie in each other."""
        apart: Amount = False
        for (one, bodies), (other, others) in combinations(self.space.looped(place).items(), 2):
            if not any(_is_inside(a, b) or _is_inside(b, a) for a, b in product(bodies, others)):
                apart = apart | ((last[one] > 1) & (last[other] > 1))
        return apart

    def _decided(self, frame: Frame, classes: int) -> Counts:
        """Trips of the segments that a body has, by class."""
        trips = np.ones(classes, np.int64)
        for number, count in (loop for segment in frame.segments for loop in segment):
            trips[number] *= count
        return trips

    def _counted(self, frames: Frames, place: int, trips: Trips, totals: Counts) -> Trips:
        """Trips that are not empty, where a loop moves a window: by class, as if it were alone."""
        led = self.space.remainders and place in self.space.followers

        def count(cut: Cut, dim: str) -> float:
            return 1 if led else cut.trips.get(dim, 1)

        return self._at_most(frames, place, trips, totals, count)

    def _at_most(
        self,
        frames: Frames,
        place: int,
        found: Trips,
        totals: Counts,
        value: Callable[[Cut, str], float],
    ) -> Trips:
        """Amounts by dimension, no more than each class of loops says by its cut alone."""
        found, frame = dict(found), frames[-1]
        for number, dims in enumerate(self.space.classes(frame.start, frame.end)):
            dim = dims[place - frame.start]
            counts, index = np.unique(totals[:, number], return_inverse=True)
            cuts = (self._alone(frames[:-1], frame, place, (number, int(own))) for own in counts)
            values = np.array([value(cut, dim) for cut in cuts], np.float64)
            found[dim] = np.minimum(found[dim], values[index])
        return found

    def _in_fewest(self, place: int, trips: Trips) -> Trips:
        """The number of parts of each dimension that one loop makes with tiles of these extents."""
        bound = self.space.einsums[place].problem.bound
        return {dim: np.ceil(bound[dim] / np.ceil(bound[dim] / own)) for dim, own in trips.items()}

    def _largest(self, frames: Frames, place: int, totals: Counts) -> dict[str, FloatArray]:
        """Largest extents of parts: by class, as if its loop were alone."""
        bound = self.space.einsums[place].problem.bound
        whole: Trips = {dim: np.full(len(totals), float(size)) for dim, size in bound.items()}
        return self._at_most(frames, place, whole, totals, lambda cut, dim: cut.largest(dim, bound[dim]))

    def _alone(self, frames: Frames, frame: Frame, place: int, loop: tuple[int, int]) -> Cut:
        """How one loop of a body cuts an Einsum, and those outside."""
        own = Frame(frame.start, frame.end, ((loop,),) if loop[1] > 1 else ())
        return self.space.cuts((*frames, own), place)[-1]


def _is_inside(inner: range, outer: range) -> bool:
    return outer.start <= inner.start and inner.stop <= outer.stop


def over_multiples(costs: FloatArray, parts: Sequence[FloatArray]) -> FloatArray:
    """The least over all multiples of each divisor, axis by axis: the last ones."""
    for axis, own in enumerate(parts, costs.ndim - len(parts)):
        moved = np.moveaxis(costs, axis, 0)
        least = [moved[[own[j] % each == 0 for j in range(len(own))]].min(axis=0) for each in own]
        costs = np.moveaxis(np.array(least), 0, axis)
    return costs


def over_more(costs: FloatArray, parts: Sequence[FloatArray]) -> FloatArray:
    """The least over all higher numbers of parts, axis by axis: the last ones, which rise."""
    for axis in range(costs.ndim - len(parts), costs.ndim):
        costs = np.flip(np.minimum.accumulate(np.flip(costs, axis), axis), axis)
    return costs
