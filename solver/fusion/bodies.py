"""Least costs of Einsums under open bodies, by themselves and together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import NamedTuple

import numpy as np

from solver.fusion.bounds import Exchange
from solver.fusion.drafts import (
    CELLS_TOGETHER,
    DECIDED_OUTSIDE,
    SHARES,
    DraftBounds,
    FloatArray,
    Given,
    IntArray,
    Way,
    stays,
    worth,
)
from solver.fusion.groups import GroupBounds, Inside, Share, least_together, shares_of
from solver.fusion.least import EdgePricer
from solver.fusion.remembered import remembered
from solver.fusion.space import Cut, Frame, Frames, FusionSpace, Tile

UNLIMITED_WORDS = 1 << 200
"""Room of a memory without a limit."""


class _Kept(NamedTuple):
    """A way to keep a dataspace: room, what it exchanges with the outermost memory, whether above nests."""

    name: str
    words: int
    move: Exchange | None
    above: bool
    lasting_words: int = 0  # while all Einsums of the body run
    stored: str = ""  # the tensor, if it is decided here that it is stored
    level: int = 1  # above 1, the memory farther in that stores it, and whose room it takes


class _Fit(NamedTuple):
    """A way to keep all tiles of an Einsum: room in all, room that lasts, energy and cycles."""

    words: int
    lasting_words: int
    energy: int
    cycles: int
    stored: frozenset[str] = frozenset()  # tensors, as far as this decides about them


@dataclass(frozen=True)
class BodyBounds:
    """Bounds on what Einsums cost below open bodies.

    Parameters
    ----------
    is_estimate
        Whether there are no bodies in bodies, and bounds may be estimates where windows slide.
    """

    space: FusionSpace
    pricer: EdgePricer
    is_estimate: bool = False

    @cached_property
    def usable(self) -> int:
        """Words of the outermost on-chip memory."""
        words = self.space.memory.usable_words
        return UNLIMITED_WORDS if words is None else words

    def room_of(self, level: int) -> int:
        """Words of an on-chip memory."""
        return self.usable if level == 1 else self.space.rooms.get(level, UNLIMITED_WORDS)

    @cached_property
    def bounds(self) -> DraftBounds:
        """Bounds on many bodies at a time."""
        return DraftBounds(self.space, self.pricer, self.usable, self.is_estimate)

    @cached_property
    def groups(self) -> GroupBounds:
        """Bounds on Einsums that have bodies inside of a body."""
        return GroupBounds(self.bounds)

    @remembered
    def lower(self, frames: Frames, place: int, given: Given) -> tuple[int, int]:
        """Least energy and cycles of an Einsum under open bodies, all of its instances."""
        return self.lower_by(frames, place, given, self.space.cuts(frames, place))

    def lower_by(
        self,
        frames: Frames,
        place: int,
        given: Given,
        cuts: Sequence[Cut],
        left: Sequence[int] = (),
    ) -> tuple[int, int]:
        """Least energy and cycles given the trips above each place, with further loops `left` innermost."""
        self.pricer.heed()
        einsum = self.space.einsums[place]
        if einsum.is_copy:
            return 0, 0
        if frames and frames[-1].flat:
            energy, cycles = self._fitting(frames, place, given, cuts, left)
        else:
            outside = given.outside
            moves = [self._least_exchange(tile, cuts, outside) for tile in self.space.tiles[place]]
            follows = self.pricer.follows(place)
            is_open = follows or self.space.remainders
            found = [
                self.pricer.together(place, cuts[-1], moves, deeper, is_open, self.is_estimate)
                for deeper in given.among(self.space.deeper_choices(place, outside), self.space.tiles[place])
            ]
            energy, cycles = (min(column) for column in zip(*found, strict=True))
            least = (
                (0, 0)
                if follows
                else self.bounds.floor(place, outside, given.taken_words).least(cuts[-1].trips)
            )
            energy, cycles = max(energy, least[0]), max(cycles, least[1])
        times, of_cycles = einsum.times
        return energy * times, cycles * of_cycles

    def _fitting(
        self, frames: Frames, place: int, given: Given, cuts: Sequence[Cut], left: Sequence[int]
    ) -> tuple[int, int]:
        """Least energy and cycles where no further body is opened: what is stored and held needs room."""
        found = list(self._fits(frames, place, given, cuts, left))
        if not found:
            return UNLIMITED_WORDS, UNLIMITED_WORDS
        return min(own.energy for own in found), min(own.cycles for own in found)

    def _fits(
        self, frames: Frames, place: int, given: Given, cuts: Sequence[Cut], left: Sequence[int]
    ) -> Iterator[_Fit]:
        """Yield the ways to keep an Einsum's tiles that have room; a copy has none of its own."""
        if self.space.einsums[place].is_copy:
            yield _Fit(0, 0, 0, 0)
            return
        options = [self._kept(frames, tile, given.places, cuts, left) for tile in self.space.tiles[place]]
        for chosen in product(*options):
            self.pricer.heed()
            words = sum(own.words for own in chosen if own.level == 1)
            if words + given.taken_words <= self.usable and self._fit_farther_in(chosen):
                lasting = sum(own.lasting_words for own in chosen)
                names = frozenset(own.stored for own in chosen if own.stored)
                costs = self._least_of(
                    place, cuts[-1], chosen, self.space.remainders and max(left, default=1) > 1
                )
                yield _Fit(words, lasting, *costs, names)

    def _fit_farther_in(self, chosen: Sequence[_Kept]) -> bool:
        """Whether memories farther in have room for what they store."""
        taken = Counter[int]()
        for own in chosen:
            taken[own.level] += own.words
        return all(taken[level] <= words for level, words in self.space.rooms.items())

    def _least_of(self, place: int, cut: Cut, chosen: Sequence[_Kept], is_open: bool) -> tuple[int, int]:
        """Least energy and cycles of an Einsum that keeps its tiles so; perhaps in parts that differ yet."""
        moves = [own.move for own in chosen if own.move is not None]
        deeper = tuple(sorted((own.name, own.level) for own in chosen if own.level > 1))
        if not self.space.remainders:
            is_open = bool(cut.parts) and not self.is_estimate
        energy, cycles = self.pricer.together(place, cut, moves, deeper, is_open, self.is_estimate)
        if cut.parts or is_open:
            return energy, cycles
        above = frozenset(own.name for own in chosen if own.above)
        core = self.pricer.core(place, above, (), deeper)
        held = sum(own.move.energy for own in chosen if own.above and own.move is not None)
        return max(energy, core[0] + held), max(cycles, core[1])

    def _kept(
        self,
        frames: Frames,
        tile: Tile,
        stored: dict[str, tuple[int, int]],
        cuts: Sequence[Cut],
        left: Sequence[int],
    ) -> list[_Kept]:
        """Ways to keep a tile."""
        (words, home), name = stored.get(tile.tensor, (DECIDED_OUTSIDE, 0)), tile.space.name
        # A tensor that is read twice takes room once.
        again = self.space.is_repeated(tile)
        if words > 0:
            return [_Kept(name, 0 if again else words, None, above=home == 1, level=home)]
        fetched = self.pricer.exchange(tile, cuts[-1])
        found = [_Kept(name, tile.least_words, fetched, above=False)]
        for level in self.space.homes.get(tile.tensor, ()) if tile.tensor not in stored or not words else ():
            if tile.tensor in stored:
                found.append(_Kept(name, 0, None, above=level == 1, level=level))
                continue
            room = 0 if again else self._stored_words(frames, tile.tensor, left, level)
            is_above = level == 1 and bool(frames) and stays(self.space, tile, frames[-1])
            lasting = room if is_above else 0
            found.append(_Kept(name, room, None, level == 1, lasting, tile.tensor, level))
        if tile.bypassed:
            return found
        for number in range(self.space.least_depth(frames, tile), len(cuts) - 1):
            # Above loops that are not ordered yet there may be places farther in, of smaller tiles.
            is_open = bool(left) and number == len(cuts) - 2
            words = self.space.held_words(tile, cuts[-1] if is_open else cuts[number])
            if words <= self.usable:
                shifted = self.space.dense[tile] if is_open else tile
                move = self.pricer.exchange(tile, cuts[-1], self.pricer.shift(shifted, cuts[number]))
                held = _Kept(name, words, move, above=True, lasting_words=words)
                found += [held] if move.helps(fetched) or 1 in self.space.stores.least else []
        return found

    def _stored_words(self, frames: Frames, tensor: str, left: Sequence[int], level: int) -> int:
        """Room of a tensor where it is stored, if it is written in the open bodies."""
        key = frames, tensor, tuple(left), level
        if key not in self._sizes:
            users = self.space.cascade.users[tensor]
            around = tuple(f for f in frames if f.start <= users[0] and users[-1] < f.end)
            if left and around == frames:
                trips = self.space.raw_trips(frames, users[0])
                trips = self.space.grown(trips, frames[-1], users[0], tuple(enumerate(left)))
                self._sizes[key] = self.space.stored_words(tensor, trips, level)
            else:
                self._sizes[key] = self.space.stored(around, tensor, level)[1]
        return self._sizes[key]

    @cached_property
    def _sizes(self) -> dict[tuple[Frames, str, tuple[int, ...], int], int]:
        return {}

    def _least_exchange(self, tile: Tile, cuts: Sequence[Cut], outside: frozenset[str]) -> Exchange:
        if tile.tensor in self.space.storable and tile.tensor not in outside:
            return Exchange("", 0, 0.0, 0.0)
        options = [self.pricer.exchange(tile, cuts[-1])]
        if not tile.bypassed:
            options += [
                self.pricer.exchange(tile, cuts[-1], self.pricer.shift(tile, cut)) for cut in cuts[:-1]
            ]
        energy, reads, writes = (
            min(getattr(o, name) for o in options) for name in ("energy", "reads", "writes")
        )
        return Exchange(tile.space.name, energy, reads, writes, tile.bypassed)

    def _leaf_ways(self, frames: Frames, place: int, given: Given) -> list[Way]:
        """The ways to keep an Einsum's tiles in no further body."""
        fits = self._fits(frames, place, given, self.space.cuts(frames, place), ())
        one = np.ones(1)
        return [
            Way(one * own.words, one * own.lasting_words, one * own.energy, one * own.cycles, own.stored)
            for own in fits
        ]

    def together(self, frames: Frames, at: int, given: Sequence[Given], peak: int) -> tuple[int, int]:
        """Least energy and cycles of Einsums that share the room of what they hold."""
        most = (self.usable - peak) * SHARES // self.usable
        shares = [self._shares(frames, place, known) for place, known in enumerate(given, at)]
        energy, cycles = (least_together(own, most) for own in zip(*shares, strict=True))
        return UNLIMITED_WORDS if energy is None else energy, UNLIMITED_WORDS if cycles is None else cycles

    @remembered
    def _shares(self, frames: Frames, place: int, given: Given) -> tuple[list[Share], list[Share]]:
        """The ways to keep an Einsum's tiles in a body without bodies inside, by energy and by cycles."""
        (times, of_cycles), free = self.space.einsums[place].times, self.usable - given.taken_words
        fits = list(self._fits(frames, place, given, self.space.cuts(frames, place), ()))
        energies = ((own.words, own.lasting_words, own.energy * times) for own in fits)
        cycles = ((own.words, own.lasting_words, own.cycles * of_cycles) for own in fits)
        return (
            shares_of(energies, free, self.usable),
            shares_of(cycles, free, self.usable),
        )

    def with_bodies(
        self, frames: Frames, at: int, given: Sequence[Given], is_parted: bool
    ) -> tuple[int, int]:
        """Least energy and cycles from an Einsum to the end of a body that has bodies inside."""
        frame = frames[-1]
        counts = self.groups.trips(frames, frame.start, frame.end)
        slides = self.space.slides(frames) or self.space.sliding(frame.start, frame.end)
        if counts is None or slides or self.space.remainders:
            return 0, 0
        trips = tuple(np.array([count], np.float64) for count in counts)
        ways = [self._leaf_ways(frames, place, known) for place, known in enumerate(given, at)]
        inside = Inside((frame.start, frame.end), at, trips, given, ways, np.zeros(1), is_parted)
        energy, cycles = worth(self.groups.least(inside).ravel())
        return UNLIMITED_WORDS if energy < 0 else energy, UNLIMITED_WORDS if cycles < 0 else cycles

    def of_bodies(
        self, frames: Frames, frame: Frame, following: IntArray, left: IntArray, given: Sequence[Given]
    ) -> tuple[FloatArray, FloatArray]:
        """Least energy and cycles of the Einsums of many bodies, some at a time."""
        chunks = (slice(n, n + CELLS_TOGETHER) for n in range(0, len(left), CELLS_TOGETHER))
        found = [self._of_bodies(frames, frame, following[own], left[own], given) for own in chunks]
        energies, cycles = (np.concatenate(own) for own in zip(*found, strict=True))
        return energies, cycles

    def _of_bodies(
        self, frames: Frames, frame: Frame, following: IntArray, left: IntArray, given: Sequence[Given]
    ) -> tuple[FloatArray, FloatArray]:
        energies, cycles = self.bounds.least(frames, frame, following, left, given)
        counts = self.groups.trips((*frames, frame), frame.start, frame.end)
        slides = self.space.slides(frames) or self.space.sliding(frame.start, frame.end)
        if frame.flat or counts is None or slides or self.space.is_intricate or self.space.remainders:
            return energies, cycles
        totals = (following * left).astype(np.float64) * np.array(counts, np.float64)
        trips = tuple(totals.T)
        ways = self.bounds.leaves(frames, frame, following, left, given)
        inside = Inside((frame.start, frame.end), frame.start, trips, given, ways, np.zeros(len(left)))
        least = self.groups.least(inside)
        return np.maximum(energies, least[0]), np.maximum(cycles, least[1])
