"""Least costs of many bodies at a time, in floating point: which loops are worth a closer look."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, product
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from model.numbers import divisors
from solver.fusion.pricing import EdgePricer, Inner
from solver.fusion.space import WHOLE, Cut, Frame, Frames, FusionSpace, Tile, Trips

FloatArray = npt.NDArray[np.float64]

BoolArray = npt.NDArray[np.bool_]

Counts = npt.NDArray[np.int64]
"""Trips of loops, shape (bodies, classes)."""


ROOM_STEPS = 16
"""Amounts of room that bounds distinguish."""

DECIDED_OUTSIDE = -1
"""In place of words: a tensor goes through the outermost memory."""


class Given(NamedTuple):
    """What is decided for an Einsum: room of the tensors that it reads, and of all else, in words."""

    stored: tuple[tuple[str, int], ...]
    taken_words: int


class _Option(NamedTuple):
    """One way to keep a tile in each body: room, energy, and words read and written outside.

    `above` says whether it is stored or held above the nests.
    """

    words: FloatArray
    energy: FloatArray
    reads: FloatArray
    writes: FloatArray
    above: bool = True

    def helps(self, other: _Option) -> bool:
        """Whether less is exchanged than by another one, in any body."""
        pairs = ((self.energy, other.energy), (self.reads, other.reads), (self.writes, other.writes))
        return any(bool(np.any(own < theirs)) for own, theirs in pairs)


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
            int(np.searchsorted(own, trips.get(dim, 1)))
            for dim, own in zip(self.dims, self.parts, strict=True)
        )
        found = self.energy[index], self.cycles[index]
        energy, cycles = (
            math.floor(float(own) * (1 - 1e-9)) if np.isfinite(own) else 1 << 200 for own in found
        )
        return energy, cycles

    def among(self, trips: dict[str, FloatArray]) -> tuple[FloatArray, FloatArray]:
        """The same for many bodies at a time."""
        index = tuple(
            np.searchsorted(own, trips[dim]) for dim, own in zip(self.dims, self.parts, strict=True)
        )
        return self.energy[index], self.cycles[index]


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
        energies, cycles = np.zeros(len(left)), np.zeros(len(left))
        for place, known in zip(range(frame.start, frame.end), given, strict=True):
            energy, own = self._einsum(frames, frame, place, following, left, known)
            times = self.space.einsums[place].n_instances
            energies, cycles = energies + energy * times, cycles + own * times
        return energies, cycles

    def _einsum(
        self, frames: Frames, frame: Frame, place: int, following: Counts, left: Counts, given: Given
    ) -> tuple[FloatArray, FloatArray]:
        cuts = self.space.cuts((*frames, frame), place)
        raw = self._constant(self.space.raw_trips((*frames, frame), place), place, len(left))
        within = self._grown(frame, place, raw, following)
        last = self._grown(frame, place, within, left)
        if slides := bool(self.space.sliding(frame.start, frame.end)) or self.space.slides(frames):
            decided = self._decided(frame, left.shape[1])
            within = self._counted(frames, frame, place, within, decided * following)
            last = self._counted(frames, frame, place, last, decided * following * left)
        tiles, flat = self.space.tiles[place], frame.flat
        options = [
            self._options((*frames, frame), tile, cuts, within, last, following, left, dict(given.stored))
            for tile in tiles
        ]
        always = frozenset(
            t.space.name for t in tiles if not t.bypassed and t.tensor not in self.space.storable
        )
        follows = not flat and place in self.space.followers
        is_open = (slides or follows) and not self.are_estimates
        inner = self.pricer.arithmetic(place) if is_open else self.pricer.inner(place, always)
        energy, cycles = self._cheapest(place, options, inner, last, given.taken_words, is_open)
        if flat or follows:
            return energy, cycles
        outside = frozenset(name for name, words in given.stored if words == DECIDED_OUTSIDE)
        floor = self.floor(place, outside, given.taken_words).among(last)
        return np.maximum(energy, floor[0]), np.maximum(cycles, floor[1])

    def _cheapest(
        self,
        place: int,
        options: Sequence[Sequence[_Option]],
        inner: Inner,
        last: dict[str, FloatArray],
        taken_words: int = 0,
        is_open: bool = False,
    ) -> tuple[FloatArray, FloatArray]:
        """Least energy and cycles of an Einsum by all ways to keep its tiles that have room.

        Where it `is_open`, loops may cut dimensions into unequal parts.
        """
        tiles = self.space.tiles[place]
        visits = np.prod(list(last.values()), axis=0)
        least_energy, least_cycles = np.full(len(visits), np.inf), np.full(len(visits), np.inf)
        for chosen in product(*options):
            fits = sum(option.words for option in chosen) <= self.usable_words - taken_words
            passing = sum(o.energy for o, t in zip(chosen, tiles, strict=True) if not t.bypassed)
            every = passing + sum(o.energy for o, t in zip(chosen, tiles, strict=True) if t.bypassed)
            energy = np.maximum(inner.paid + passing, inner.free + every)
            reads, writes = (np.sum(column, axis=0) for column in zip(*(o[2:4] for o in chosen), strict=True))
            busy = np.maximum(float(inner.cycles), self._ported(place, reads, writes))
            if not is_open:
                above = frozenset(t.space.name for o, t in zip(chosen, tiles, strict=True) if o.above)
                core = self.pricer.core(place, above, ())
                energy = np.maximum(energy, float(core[0]) + sum(o.energy for o in chosen if o.above))
                busy = np.maximum(busy, float(core[1]))
            least_energy = np.minimum(least_energy, np.where(fits, energy, np.inf))
            least_cycles = np.minimum(least_cycles, np.where(fits, busy, np.inf))
        latency = self.pricer.latency(place)
        return least_energy, least_cycles + (visits - 1) * latency

    @cached_property
    def _floors(self) -> dict[tuple[int, frozenset[str], int], Floor]:
        return {}

    def floor(self, place: int, outside: frozenset[str], taken_words: int) -> Floor:
        """Least cost of an Einsum under loops that it has and any further ones.

        Parameters
        ----------
        outside
            Tensors that go through the outermost memory.
        taken_words
            Room that others take; a bit less is looked at, so that there are few tables.
        """
        key = place, outside, taken_words * ROOM_STEPS // self.usable_words
        if key not in self._floors:
            self._floors[key] = self._floor(*key)
        return self._floors[key]

    def _floor(self, place: int, outside: frozenset[str], steps: int) -> Floor:
        bound = self.space.einsums[place].problem.bound
        dims = tuple(self.space.looped(place))
        parts = [np.array(divisors(bound[dim]), np.float64) for dim in dims]
        shape = tuple(map(len, parts))
        last = {dim: np.ones(math.prod(shape)) for dim in bound}
        grid = np.meshgrid(*parts, indexing="ij")
        last.update({dim: own.ravel() for dim, own in zip(dims, grid, strict=True)})
        tiles = self.space.tiles[place]
        options = [list(self._anywhere(tile, last, outside)) for tile in tiles]
        always = frozenset(
            t.space.name for t in tiles if not t.bypassed and t.tensor not in self.space.storable
        )
        taken = steps * self.usable_words // ROOM_STEPS
        costs = self._cheapest(place, options, self.pricer.inner(place, always), last, taken)
        apart = self._apart(place, last)
        energy, cycles = (
            _over_multiples(np.where(apart, np.inf, own).reshape(shape), parts) for own in costs
        )
        return Floor(dims, tuple(parts), energy, cycles)

    def _anywhere(
        self, tile: Tile, last: dict[str, FloatArray], outside: frozenset[str]
    ) -> Iterator[_Option]:
        """Yield ways to keep a tile: fetched in each visit, held so that it comes once, and stored."""
        zero = np.zeros(len(next(iter(last.values()))))
        yield self._option(self.space.dense[tile], zero, last)._replace(above=False)
        if not tile.bypassed and self.space.looped(tile.place):
            words = self._words(tile, last) * tile.size_per_value
            yield self._option(tile, words, {dim: np.ones_like(zero) for dim in last})
        if tile.tensor in self.space.storable - outside:
            users = self.space.cascade.users[tile.tensor]
            dividing = (
                last[dim]
                for dim, bodies in self.space.looped(tile.place).items()
                if dim in tile.dims and any(users[0] in body and users[-1] in body for body in bodies)
            )
            words = np.floor(self.space.stored_words(tile.tensor, {}) / math.prod(dividing, start=zero + 1))
            yield _Option(words, zero, zero, zero)

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
            counts = [self._count(frames, frame, place, dim, (number, int(value))) for value in values]
            found[dim] = np.minimum(found[dim], np.array(counts, np.float64)[index])
        return found

    def _count(self, frames: Frames, frame: Frame, place: int, dim: str, loop: tuple[int, int]) -> int:
        own = Frame(frame.start, frame.end, ((loop,),) if loop[1] > 1 else ())
        return self.space.cuts((*frames, own), place)[-1].trips.get(dim, 1)

    def _options(
        self,
        frames: Frames,
        tile: Tile,
        cuts: Sequence[Cut],
        within: dict[str, FloatArray],
        last: dict[str, FloatArray],
        following: Counts,
        left: Counts,
        stored: dict[str, int],
    ) -> list[_Option]:
        """Ways to keep a tile, but those that are dearer than to fetch it in each visit."""
        size = len(left)
        zero, flat = np.zeros(size), frames[-1].flat
        known = stored.get(tile.tensor, DECIDED_OUTSIDE)
        if known > 0:
            return [_Option(np.full(size, float(known)), zero, zero, zero)]
        found = [self._option(self.space.dense[tile], zero, last)._replace(above=False)]
        if not known:
            found.append(_Option(zero, zero, zero, zero))
        elif tile.tensor in self.space.storable and tile.tensor not in stored:
            words = self._stored(frames, tile.tensor, following, left) if flat else zero
            found.append(_Option(words, zero, zero, zero))
        if tile.bypassed:
            return found
        smallest = self._words(tile, last) * tile.size_per_value if flat else zero
        is_handed = self._is_handed(frames[-1], tile)
        least = len(cuts) if is_handed else self.space.least_depth(frames, tile)
        for number, cut in enumerate(cuts[least:], start=least):
            at = self._constant(cut.trips, tile.place, size)
            words = self._words(tile, at) * tile.size_per_value if flat else zero
            if number < len(cuts) - 1 or following.any():
                found.append(self._option(tile, words, at))
        if not flat or not is_handed:
            deeper = self._option(tile, smallest, within)
            some = left.max(axis=1) > 1
            found.append(deeper._replace(words=np.where(some, smallest, np.inf)))
        return [found[0], *(option for option in found[1:] if option.helps(found[0]))]

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

    def _stored(self, frames: Frames, tensor: str, following: Counts, left: Counts) -> FloatArray:
        """Room of a tensor where it is stored; 0 if it was stored before."""
        users = self.space.cascade.users[tensor]
        around = tuple(f for f in frames if f.start <= users[0] and users[-1] < f.end)
        trips = self.space.raw_trips(around, users[0])
        if around != frames:
            return np.full(len(left), float(self.space.stored_words(tensor, trips)))
        last = self._constant(trips, users[0], len(left))
        last = self._grown(frames[-1], users[0], self._grown(frames[-1], users[0], last, following), left)
        einsum = self.space.einsums[users[0]]
        (access,) = einsum.accesses_of(tensor)
        space = einsum.space(access.dataspace)
        divided = np.prod([last[t.dim] for terms in space.ranks for t in terms], axis=0)
        return np.floor(self.space.stored_words(tensor, {}) / divided) if space.ranks else np.ones(len(left))


def _is_inside(inner: range, outer: range) -> bool:
    return outer.start <= inner.start and inner.stop <= outer.stop


def _over_multiples(costs: FloatArray, parts: Sequence[FloatArray]) -> FloatArray:
    """The least over all multiples of each divisor, axis by axis."""
    for axis, own in enumerate(parts):
        moved = np.moveaxis(costs, axis, 0)
        least = [moved[[own[j] % each == 0 for j in range(len(own))]].min(axis=0) for each in own]
        costs = np.moveaxis(np.array(least), 0, axis)
    return costs


def worth(values: FloatArray) -> list[int]:
    """Whole numbers that no exact value is above."""
    return [math.floor(v * (1 - 1e-9)) if math.isfinite(v) else -1 for v in values.tolist()]
