"""Least costs of many bodies at a time, in floating point: which loops are worth a closer look."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations, product
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from model.extents import ANY, PERFECT, Extents
from solver.fusion.bounds import Deeper
from solver.fusion.least import EdgePricer
from solver.fusion.remembered import remembered
from solver.fusion.space import WHOLE, Cut, Frame, Frames, FusionSpace, Tile, Trips

FloatArray = npt.NDArray[np.float64]

BoolArray = npt.NDArray[np.bool_]

IntArray = npt.NDArray[np.int64]

Counts = npt.NDArray[np.int64]
"""Trips of loops, shape (bodies, classes)."""


ROOM_STEPS = 16
"""Amounts of room that bounds distinguish."""

SHARES = 8
"""Parts of the on-chip memory in which bounds count what all Einsums of a body hold together."""

MOST_KNOWN_BYTES = 1 << 28
"""Memory of the ways to keep tiles that are remembered."""

MOST_CELLS = 1 << 21
"""Numbers of parts of which a floor knows the least cost of each; there is none where there are more."""

CELLS_TOGETHER = 1 << 13
"""How many of them, and how many bodies, are bounded at a time."""

DECIDED_OUTSIDE = -1
"""In place of words: a tensor goes through the outermost memory."""


class Given(NamedTuple):
    """What is decided for an Einsum.

    Parameters
    ----------
    stored
        Room of the tensors that it reads, in words; without room they may be in any memory.
    taken_words
        Room of the outermost on-chip memory that all else takes.
    levels
        Of those that are stored in memories farther in.
    """

    stored: tuple[tuple[str, int], ...]
    taken_words: int
    levels: tuple[tuple[str, int], ...] = ()

    @property
    def outside(self) -> frozenset[str]:
        """Tensors that go through the outermost memory."""
        return frozenset(name for name, words in self.stored if words == DECIDED_OUTSIDE)

    @property
    def places(self) -> dict[str, tuple[int, int]]:
        """Room and level by tensor."""
        levels = dict(self.levels)
        return {name: (words, levels.get(name, 1)) for name, words in self.stored}

    def among(self, choices: Sequence[Deeper], tiles: Sequence[Tile]) -> list[Deeper]:
        """Those ways to store tensors in memories farther in that agree with what is decided."""
        levels = {name: level for name, (words, level) in self.places.items() if words > 0}
        wanted = [(tile.space.name, levels[tile.tensor]) for tile in tiles if tile.tensor in levels]
        return [own for own in choices if all(dict(own).get(name, 1) == level for name, level in wanted)]


class _Option(NamedTuple):
    """One way to keep a tile in each body: room, energy, and words read and written outside.

    `above` says whether it is stored or held above the nests, `lasting` whether it takes room while all
    Einsums of the body run; `stored` is the tensor, if it is decided here that it is stored. With a `level`
    above 1 it is stored in that memory, and takes its room.
    """

    words: FloatArray
    energy: FloatArray
    reads: FloatArray
    writes: FloatArray
    above: bool = True
    lasting: bool = False
    stored: str = ""
    level: int = 1

    def helps(self, other: _Option) -> bool:
        """Whether less is exchanged than by another one, in any body."""
        pairs = ((self.energy, other.energy), (self.reads, other.reads), (self.writes, other.writes))
        return any(bool(np.any(own < theirs)) for own, theirs in pairs)


class _Inside(NamedTuple):
    """What an Einsum costs inside of the outermost memory, by body: energy free or paid for words, cycles."""

    free: float
    paid: FloatArray | float
    cycles: FloatArray | float


class Way(NamedTuple):
    """One way to keep all tiles of an Einsum: room in all, room that lasts, energy and cycles, by body."""

    words: FloatArray
    lasting: FloatArray
    energy: FloatArray
    cycles: FloatArray
    stored: frozenset[str] = frozenset()  # tensors, as far as this decides about them

    @property
    def nbytes(self) -> int:
        """Memory that it takes."""
        return self.words.nbytes + self.lasting.nbytes + self.energy.nbytes + self.cycles.nbytes


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
        """Least costs of one Einsum, as of `costs`."""
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
        for held_parts in range(self.shares + 1):
            if np.isfinite(own[:, held_parts]).any():
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

    def least(self) -> FloatArray:
        """Least energy and cycles of all Einsums."""
        return self.fitting(self.costs)

    def fitting(self, costs: FloatArray) -> FloatArray:
        """The least of costs where all Einsums hold what they do together."""
        parts = range(self.shares + 1)
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
        found = self.energy[index], self.cycles[index]
        energy, cycles = (
            math.floor(float(own) * (1 - 1e-9)) if np.isfinite(own) else 1 << 200 for own in found
        )
        return energy, cycles

    def among(self, trips: dict[str, FloatArray]) -> tuple[FloatArray, FloatArray]:
        """Energy and cycles of many bodies at a time."""
        index = tuple(
            np.searchsorted(own, trips[dim], side="right") - 1
            for dim, own in zip(self.dims, self.parts, strict=True)
        )
        shape = next(iter(trips.values())).shape
        energy, cycles = (np.broadcast_to(own[index], shape) for own in (self.energy, self.cycles))
        return energy, cycles


@dataclass(frozen=True)
class DraftBounds:
    """Bounds on bodies that begin alike.

    Parameters
    ----------
    usable_words
        Room of the outermost on-chip memory.
    are_estimates
        Where loops may cut dimensions into unequal parts: then they are no bounds, and closer.
    """

    space: FusionSpace
    pricer: EdgePricer
    usable_words: int
    are_estimates: bool = False

    def least(
        self, frames: Frames, frame: Frame, following: Counts, left: Counts, given: Sequence[Given]
    ) -> tuple[FloatArray, FloatArray]:
        """Least energy and cycles of the Einsums of each body, all instances, rounded by less than 1e-9.

        Parameters
        ----------
        frames
            The bodies outside.
        frame
            What all bodies have in common: their Einsums, and the outermost of their segments.
        following, left
            Trips of the next segment of each, and those that are left for further ones.
        given
            What is decided for each Einsum.
        """
        joint = JointBound(len(left), self.usable_words)
        for place, known in zip(range(frame.start, frame.end), given, strict=True):
            ways = self.ways_in(frames, frame, place, following, left, known)
            joint.add(ways, known.taken_words, self.space.einsums[place].times)
        energies, cycles = joint.least()
        return energies, cycles

    def leaves(
        self, frames: Frames, frame: Frame, following: Counts, left: Counts, given: Sequence[Given]
    ) -> list[list[Way]]:
        """The ways to keep the tiles of each Einsum that is in no further body, as of `least`."""
        flat = replace(frame, flat=True)
        places = zip(range(frame.start, frame.end), given, strict=True)
        return [self.ways_in(frames, flat, place, following, left, own) for place, own in places]

    def ways_in(
        self, frames: Frames, frame: Frame, place: int, following: Counts, left: Counts, given: Given
    ) -> list[Way]:
        """The ways to keep the tiles of an Einsum in each body, whatever room others take."""
        taken = self.room_steps(given.taken_words) if not frame.flat else 0  # for floors
        key = frames, frame, place, following.tobytes(), left.tobytes(), given.stored, given.levels, taken
        known = self._known.get(key)
        if known is None:
            known = list(self._ways_in(frames, frame, place, following, left, given))
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

    def _ways_in(
        self, frames: Frames, frame: Frame, place: int, following: Counts, left: Counts, given: Given
    ) -> Iterator[Way]:
        """Yield the ways to keep the tiles of an Einsum in each body."""
        if self.space.einsums[place].is_copy:
            yield _nothing(len(left))
            return
        cuts = self.space.cuts((*frames, frame), place)
        raw = self._constant(self.space.raw_trips((*frames, frame), place), place, len(left))
        within = self._grown(frame, place, raw, following)
        last = self._grown(frame, place, within, left)
        decided = self._decided(frame, left.shape[1])
        if slides := bool(self.space.sliding(frame.start, frame.end)) or self.space.slides(frames):
            within = self._counted(frames, frame, place, within, decided * following)
            last = self._counted(frames, frame, place, last, decided * following * left)
        elif self.space.remainders:
            within, last = self._in_fewest(place, within), self._in_fewest(place, last)
        tiles, deepest = self.space.tiles[place], self._deepest(frame, place)
        follows = bool(deepest) and self.pricer.follows(place)
        parts = None
        if (slides or follows or self.space.remainders) and not self.are_estimates:
            totals = decided * following * left
            parts = {} if self.space.remainders else self._largest(frames, frame, place, totals)
        stored = given.places
        floor = (
            self.floor(place, given.outside, given.taken_words).among(last)
            if deepest and not follows
            else (0.0, 0.0)
        )
        inners: dict[Deeper, _Inside] = {}
        for deeper in deepest or (None,):
            options = [
                self._options((*frames, frame), tile, cuts, within, last, following, left, stored, deeper)
                for tile in tiles
            ]
            for way in self._ways(place, options, last, inners, parts):
                yield way._replace(
                    energy=np.maximum(way.energy, floor[0]), cycles=np.maximum(way.cycles, floor[1])
                )

    def _deepest(self, frame: Frame, place: int) -> tuple[frozenset[str], ...]:
        """The sets of tensors that bodies around an Einsum, inside of another one, may store.

        Empty where it is in none. A set that is part of another one is left out.
        """
        if frame.flat:
            return ()
        key = frame.start, frame.end, place
        if key not in self._inside:
            users = self.space.cascade.users
            found = {
                frozenset(
                    tile.tensor
                    for tile in self.space.tiles[place]
                    if tile.tensor in self.space.storable
                    and start <= users[tile.tensor][0]
                    and users[tile.tensor][-1] < end
                )
                for start in range(frame.start, place + 1)
                for end in self.space.ends(start)
                if place < end <= frame.end and (start, end) != (frame.start, frame.end)
            }
            most = [own for own in found if not any(own < other for other in found)]
            self._inside[key] = tuple(sorted(most, key=sorted))
        return self._inside[key]

    @cached_property
    def _inside(self) -> dict[tuple[int, int, int], tuple[frozenset[str], ...]]:
        return {}

    def _inner(
        self,
        place: int,
        last: dict[str, FloatArray],
        deeper: Deeper = (),
        parts: dict[str, FloatArray] | None = None,
    ) -> _Inside:
        """Least costs of all but what crosses to the on-chip memory.

        Where loops may cut dimensions into unequal `parts`, these are their largest extents.
        """
        if parts is not None and self.space.remainders:
            return _Inside(*self.pricer.in_any_parts(place, deeper))
        if parts is not None:
            return self._in_parts(place, deeper, parts)
        tiles = self.space.tiles[place]
        always = frozenset(
            t.space.name for t in tiles if not t.bypassed and t.tensor not in self.space.storable
        )
        free, paid, cycles = self.pricer.inner(place, always, deeper)
        latency = self.pricer.latency(place)
        energies, busy = np.zeros_like(last[next(iter(last))]) + paid, np.zeros(1) + cycles
        for dim in self.space.looped(place):
            counts, index = np.unique(last[dim], return_inverse=True)
            least = np.array(
                [self.pricer.in_visits(place, ((dim, int(count)),), deeper) for count in counts], np.float64
            )
            energies = np.maximum(energies, least[:, 0][index])
            busy = np.maximum(busy, (least[:, 1] - (counts - 1) * latency)[index])
        return _Inside(free, energies, busy)

    def _in_parts(self, place: int, deeper: Deeper, parts: dict[str, FloatArray]) -> _Inside:
        """Least costs as of `_inner` in parts of up to some extents."""
        free, paid, cycles = self.pricer.arithmetic(place)
        dims = self.pricer.unlike(place)
        if deeper or not dims or self.pricer.is_unknown(place):
            return _Inside(free, paid, cycles)
        sizes, index = np.unique(np.stack([parts[dim] for dim in dims]), axis=1, return_inverse=True)
        chosen = (tuple(zip(dims, map(int, own), strict=True)) for own in sizes.T)
        iterations = math.prod(self.space.einsums[place].problem.bound[dim] for dim in dims)
        rates = np.array([tuple(map(float, self.pricer.rate(place, own))) for own in chosen])
        energies, busy = (rates[index.ravel()] * iterations).T
        return _Inside(
            free, np.maximum(energies, paid), np.maximum(busy, cycles) + self.pricer.latency(place)
        )

    def _ways(
        self,
        place: int,
        options: Sequence[Sequence[_Option]],
        last: dict[str, FloatArray],
        inners: dict[Deeper, _Inside],
        parts: dict[str, FloatArray] | None = None,
        is_rough: bool = False,
    ) -> Iterator[Way]:
        """Yield all ways to keep an Einsum's tiles; roughly, what visits bring again is left out.

        `inners` keeps what ways have in common; `parts` are as of `_inner`.
        """
        tiles = self.space.tiles[place]
        visits = np.prod(list(last.values()), axis=0)
        waiting = (visits - 1) * self.pricer.latency(place)
        for chosen in product(*options):
            self.pricer.heed()
            pairs = list(zip(chosen, tiles, strict=True))
            deeper = tuple(sorted((t.space.name, o.level) for o, t in pairs if o.level > 1))
            if deeper not in inners:
                inners[deeper] = self._inner_of(place, last, deeper, parts, is_rough)
            inner = inners[deeper]
            passing = sum(o.energy for o, t in pairs if not t.bypassed)
            every = passing + sum(o.energy for o, t in pairs if t.bypassed)
            energy = np.maximum(inner.paid + passing, inner.free + every)
            reads, writes = (np.sum(column, axis=0) for column in zip(*(o[2:4] for o in chosen), strict=True))
            busy = np.maximum(inner.cycles, self._ported(place, reads, writes))
            if parts is None:
                above = frozenset(t.space.name for o, t in pairs if o.above and o.level == 1)
                core = self.pricer.core(place, above, (), deeper)
                energy = np.maximum(energy, float(core[0]) + sum(o.energy for o in chosen if o.above))
                busy = np.maximum(busy, float(core[1]))
            words = np.sum([option.words for option in chosen if option.level == 1], axis=0)
            words = self._fitting(chosen, words + np.zeros_like(energy))
            lasting = sum((o.words for o in chosen if o.lasting), start=np.zeros_like(words))
            stored = frozenset(o.stored for o in chosen if o.stored)
            yield Way(words, lasting, energy, busy + waiting, stored)

    def _inner_of(
        self,
        place: int,
        last: dict[str, FloatArray],
        deeper: Deeper,
        parts: dict[str, FloatArray] | None,
        is_rough: bool,
    ) -> _Inside:
        if not is_rough or parts is not None:
            return self._inner(place, last, deeper, parts)
        tiles = self.space.tiles[place]
        always = (t for t in tiles if not t.bypassed and t.tensor not in self.space.storable)
        return _Inside(*self.pricer.inner(place, frozenset(t.space.name for t in always), deeper))

    def _fitting(self, chosen: Sequence[_Option], words: FloatArray) -> FloatArray:
        """Room of the outermost on-chip memory; without limit where memories farther in have too little."""
        for level in {own.level for own in chosen if own.level > 1} & self.space.rooms.keys():
            taken = np.sum([own.words for own in chosen if own.level == level], axis=0)
            words = np.where(taken > self.space.rooms[level], np.inf, words)
        return words

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
        bound = self.space.einsums[place].problem.bound
        dims = tuple(self.space.looped(place))
        remainders = self.space.remainders
        counts = (Extents(bound[dim], ANY if remainders else PERFECT).least_factors(1) for dim in dims)
        parts = [np.array(own, np.float64) for own in counts]
        shape = tuple(map(len, parts))
        size = math.prod(shape)
        if size > MOST_CELLS or self.pricer.in_closed_form:
            return Floor((), (), np.zeros(()), np.zeros(()))
        costs = np.empty((2, size))
        for first in range(0, size, CELLS_TOGETHER):
            cells = slice(first, min(size, first + CELLS_TOGETHER))
            numbers = np.unravel_index(np.arange(cells.start, cells.stop), shape) if dims else ()
            last = {dim: np.ones(cells.stop - first) for dim in bound}
            last |= {dim: own[number] for dim, own, number in zip(dims, parts, numbers, strict=True)}
            ways = self.ways_anywhere(place, last, outside)
            least = self.cheapest(ways, self.least_taken(steps), cells.stop - first)
            costs[:, cells] = np.where(self._apart(place, last), np.inf, least)
        over = over_more if remainders else over_multiples
        energy, cycles = (over(own.reshape(shape), parts) for own in costs)
        return Floor(dims, tuple(parts), energy, cycles)

    def room_steps(self, taken_words: int) -> int:
        """Room that others take, in steps that tables distinguish."""
        return taken_words * ROOM_STEPS // self.usable_words

    def least_taken(self, steps: int) -> int:
        """Words of so many steps."""
        return steps * self.usable_words // ROOM_STEPS

    def cheapest(self, ways: Iterable[Way], taken_words: FloatArray | int, size: int) -> FloatArray:
        """Least energy and cycles of an Einsum that has so much less room, shape (2, size)."""
        costs = np.full((2, size), np.inf)
        for way in ways:
            fits = way.words <= self.usable_words - taken_words
            for least, own in zip(costs, (way.energy, way.cycles), strict=True):
                np.minimum(least, own, out=least, where=fits)
        return costs

    def ways_anywhere(
        self,
        place: int,
        last: dict[str, FloatArray],
        outside: frozenset[str],
        span: tuple[int, int] | None = None,
    ) -> Iterator[Way]:
        """Yield the ways to keep an Einsum's tiles below so many trips, wherever these are stored or held.

        All trips may be those of a body over a `span`: then what others access takes no room.
        """
        if self.space.einsums[place].is_copy:
            return iter([_nothing(len(next(iter(last.values()))))])
        tiles = self.space.tiles[place]
        options = [list(self._anywhere(tile, last, outside, span)) for tile in tiles]
        parts: dict[str, FloatArray] | None = None
        if self.space.remainders and not self.are_estimates:
            parts = {}  # any
        return self._ways(place, options, last, {}, parts, is_rough=True)

    def _anywhere(
        self,
        tile: Tile,
        last: dict[str, FloatArray],
        outside: frozenset[str],
        span: tuple[int, int] | None,
    ) -> Iterator[_Option]:
        """Yield ways to keep a tile: fetched in each visit, held so that it comes once, and stored."""
        zero = np.zeros(len(next(iter(last.values()))))
        yield self._fetched(tile, last)
        if not tile.bypassed and self.space.looped(tile.place):
            words = self._held_words(tile, last)
            once = {dim: np.ones_like(zero) for dim in last}
            yield self._option(self.space.dense[tile], words, once)._replace(lasting=True)
        if tile.tensor in self.space.storable - outside:
            users = self.space.cascade.users[tile.tensor]
            crosses = span is not None and not span[0] <= users[0] <= users[-1] < span[1]
            is_free = crosses or self.space.is_repeated(tile)
            for level in self.space.homes[tile.tensor]:
                words = zero if is_free else self.stored_anywhere(tile, last, level)
                yield _Option(words, zero, zero, zero, stored=tile.tensor, level=level)

    def stored_anywhere(self, tile: Tile, last: dict[str, FloatArray], level: int = 1) -> FloatArray:
        """Room of a stored tensor at the least, below some of the loops above one of its Einsums."""
        users = self.space.cascade.users[tile.tensor]
        dividing = (
            last[dim]
            for dim, bodies in self.space.looped(tile.place).items()
            if dim in tile.dims and any(users[0] in body and users[-1] in body for body in bodies)
        )
        one = np.ones(len(next(iter(last.values()))))
        return np.floor(self.space.stored_words(tile.tensor, {}, level) / math.prod(dividing, start=one))

    def _apart(self, place: int, last: dict[str, FloatArray]) -> BoolArray:
        """Where loops over two dimensions meet whose bodies never lie in each other."""
        apart = np.zeros(len(next(iter(last.values()))), np.bool_)
        for (one, bodies), (other, others) in combinations(self.space.looped(place).items(), 2):
            if not any(_is_inside(a, b) or _is_inside(b, a) for a, b in product(bodies, others)):
                apart |= (last[one] > 1) & (last[other] > 1)
        return apart

    def _ported(self, place: int, reads: FloatArray, writes: FloatArray) -> FloatArray:
        level = self.space.einsums[place].mapspace.architecture.levels[0]
        busy = np.zeros_like(reads)
        for words, rate in (
            (reads, level.read_bandwidth),
            (writes, level.write_bandwidth),
            (reads + writes, level.shared_bandwidth),
        ):
            busy = busy if rate is None else np.maximum(busy, words / float(rate))
        return busy

    def _constant(self, trips: Trips, place: int, size: int) -> dict[str, FloatArray]:
        dims = self.space.einsums[place].problem.dims
        return {dim: np.full(size, float(trips.get(dim, 1))) for dim in dims}

    def _grown(
        self, frame: Frame, place: int, trips: dict[str, FloatArray], counts: Counts
    ) -> dict[str, FloatArray]:
        """Trips over each dimension with further loops of the body."""
        grown = dict(trips)
        for number, dims in enumerate(self.space.classes(frame.start, frame.end)):
            dim = dims[place - frame.start]
            grown[dim] = grown[dim] * counts[:, number]
        return grown

    def _decided(self, frame: Frame, classes: int) -> Counts:
        """Trips of the segments that a body has, by class."""
        trips = np.ones(classes, np.int64)
        for number, count in (loop for segment in frame.segments for loop in segment):
            trips[number] *= count
        return trips

    def _counted(
        self, frames: Frames, frame: Frame, place: int, trips: dict[str, FloatArray], totals: Counts
    ) -> dict[str, FloatArray]:
        """Trips that are not empty, where a loop moves a window: by class, as if it were alone."""
        found = dict(trips)
        for number, dims in enumerate(self.space.classes(frame.start, frame.end)):
            dim = dims[place - frame.start]
            values, index = np.unique(totals[:, number], return_inverse=True)
            cuts = [self._alone(frames, frame, place, (number, int(value))) for value in values]
            led = self.space.remainders and place in self.space.followers
            counts = [1 if led else cut.trips.get(dim, 1) for cut in cuts]
            found[dim] = np.minimum(found[dim], np.array(counts, np.float64)[index])
        return found

    def _in_fewest(self, place: int, trips: dict[str, FloatArray]) -> dict[str, FloatArray]:
        """The number of parts of each dimension that one loop makes with tiles of these extents."""
        bound = self.space.einsums[place].problem.bound
        return {dim: np.ceil(bound[dim] / np.ceil(bound[dim] / own)) for dim, own in trips.items()}

    def _largest(self, frames: Frames, frame: Frame, place: int, totals: Counts) -> dict[str, FloatArray]:
        """Largest extents of parts: by class, as if its loop were alone."""
        bound = self.space.einsums[place].problem.bound
        found = {dim: np.full(len(totals), float(size)) for dim, size in bound.items()}
        for number, dims in enumerate(self.space.classes(frame.start, frame.end)):
            dim = dims[place - frame.start]
            values, index = np.unique(totals[:, number], return_inverse=True)
            cuts = [self._alone(frames, frame, place, (number, int(value))) for value in values]
            sizes = [cut.largest(dim, bound[dim]) for cut in cuts]
            found[dim] = np.minimum(found[dim], np.array(sizes, np.float64)[index])
        return found

    def _alone(self, frames: Frames, frame: Frame, place: int, loop: tuple[int, int]) -> Cut:
        """How one loop of a body cuts an Einsum, and those outside."""
        own = Frame(frame.start, frame.end, ((loop,),) if loop[1] > 1 else ())
        return self.space.cuts((*frames, own), place)[-1]

    def _options(
        self,
        frames: Frames,
        tile: Tile,
        cuts: Sequence[Cut],
        within: dict[str, FloatArray],
        last: dict[str, FloatArray],
        following: Counts,
        left: Counts,
        stored: dict[str, tuple[int, int]],
        deeper: frozenset[str] | None,
    ) -> list[_Option]:
        """Ways to keep a tile, but those that are dearer than to fetch it in each visit.

        What further bodies hold, and the tensors that they may store, `deeper`, take no room; without such
        bodies it is None.
        """
        size = len(left)
        zero = np.zeros(size)
        again = self.space.is_repeated(tile)  # then it takes room once
        known, home = stored.get(tile.tensor, (DECIDED_OUTSIDE, 0))
        if known > 0:
            words = np.full(size, 0.0 if again else float(known))
            return [_Option(words, zero, zero, zero, level=home)]
        found = [self._fetched(tile, last)]
        for level in self.space.homes.get(tile.tensor, ()) if tile.tensor not in stored or not known else ():
            if not known:
                found.append(_Option(zero, zero, zero, zero, level=level))
                continue
            is_free = again or tile.tensor in (deeper or ())
            words = zero if is_free else self._stored(frames, tile.tensor, following, left, level)
            lasting = level == 1 and stays(self.space, tile, frames[-1])
            found.append(_Option(words, zero, zero, zero, lasting=lasting, stored=tile.tensor, level=level))
        if tile.bypassed:
            return found
        is_handed = self._is_handed(frames[-1], tile)
        least = len(cuts) if is_handed else self.space.least_depth(frames, tile)
        for cut in cuts[least:]:
            at = self._constant(cut.trips, tile.place, size)
            words = self._held_words(tile, at)
            found.append(self._option(tile, words, at)._replace(lasting=True))
        # Below loops to come, smaller tiles have fewer holes between strides.
        dense = self.space.dense[tile]
        if deeper is not None:
            found.append(self._option(dense, zero, last))
        if not is_handed:
            smallest = self._held_words(tile, last)
            some = left.max(axis=1) > 1
            further = self._option(dense, np.where(some, smallest, np.inf), within)
            found.append(further._replace(lasting=True))
        large = 1 in self.space.stores.least
        return [found[0], *(o for o in found[1:] if large or o.level > 1 or o.helps(found[0]))]

    def _is_handed(self, frame: Frame, tile: Tile) -> bool:
        """Whether one Einsum of a body writes a tile's tensor and another one reads it."""
        users = [user for user in self.space.cascade.users[tile.tensor] if frame.start <= user < frame.end]
        return len(users) > 1 and self.space.cascade.writers.get(tile.tensor) == users[0]

    def _words(self, tile: Tile, trips: dict[str, FloatArray]) -> FloatArray:
        bound = self.space.einsums[tile.place].problem.bound
        words = np.ones(len(next(iter(trips.values()))))
        for terms in tile.space.ranks:
            words *= 1 + sum(abs(t.coefficient) * (bound[t.dim] / trips[t.dim] - 1) for t in terms)
        return words

    def _held_words(self, tile: Tile, trips: dict[str, FloatArray]) -> FloatArray:
        """Room of a held tile in one instance, at the least."""
        return self._words(tile, trips) * (tile.size_per_value / self.space.stores.instances(1))

    def _fetched(self, tile: Tile, last: dict[str, FloatArray]) -> _Option:
        """A tile that is neither stored nor held."""
        words = np.full(len(next(iter(last.values()))), float(tile.least_words))
        return self._option(self.space.dense[tile], words, last)._replace(above=False)

    def _option(self, tile: Tile, words: FloatArray, trips: dict[str, FloatArray]) -> _Option:
        moved = self._words(tile, trips) * np.prod(list(trips.values()), axis=0)
        prices = self.pricer.prices(tile)
        first = np.zeros_like(moved)
        if tile.space.read_write:
            whole = self.space.tile_words(tile, WHOLE)
            first = moved if tile.windowed else np.full_like(moved, float(whole))
        fetched, written = moved - first, moved if tile.space.read_write else np.zeros_like(moved)
        energies = [fetched * read + written * update for read, update in prices]
        energy = np.maximum(np.minimum.reduce(energies), 0.0)
        scale = self.pricer.scale(tile)
        return _Option(words, energy, fetched * scale, written * scale)

    def _stored(self, frames: Frames, tensor: str, following: Counts, left: Counts, level: int) -> FloatArray:
        """Room of a tensor where it is stored; 0 if it was stored before."""
        users = self.space.cascade.users[tensor]
        around = tuple(f for f in frames if f.start <= users[0] and users[-1] < f.end)
        trips = self.space.raw_trips(around, users[0])
        if around != frames:
            return np.full(len(left), float(self.space.stored_words(tensor, trips, level)))
        last = self._constant(trips, users[0], len(left))
        last = self._grown(frames[-1], users[0], self._grown(frames[-1], users[0], last, following), left)
        einsum = self.space.einsums[users[0]]
        (access,) = einsum.accesses_of(tensor)
        space = einsum.space(access.dataspace)
        divided = np.prod([last[t.dim] for terms in space.ranks for t in terms], axis=0)
        whole = self.space.stored_words(tensor, {}, level)
        return np.floor(whole / divided) if space.ranks else np.ones(len(left))


def _nothing(size: int) -> Way:
    """What a copy takes of its own, in each body: no tiles, and what it moves is paid on the path."""
    zero = np.zeros(size)
    return Way(zero, zero, zero, zero)


def stays(space: FusionSpace, tile: Tile, frame: Frame) -> bool:
    """Whether a tile, once stored, takes room while any Einsum of a body runs.

    If others than those of the body access its tensor, it lies above the loops of the body. So that it counts
    once, this holds where one Einsum of the body alone accesses it, and none a tensor that shares its room.
    """
    users = space.cascade.users
    inside = {
        own for t in space.copies.relatives(tile.tensor) for own in users[t] if frame.start <= own < frame.end
    }
    return len(users[tile.tensor]) > 1 and inside == {tile.place}


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


def worth(values: FloatArray) -> list[int]:
    """Whole numbers that no exact value is above."""
    return [math.floor(v * (1 - 1e-9)) if math.isfinite(v) else -1 for v in values.tolist()]
