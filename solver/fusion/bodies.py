"""Least costs of Einsums under open bodies, by themselves and together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from solver.fusion.amounts import UNLIMITED, FloatArray, IntArray, exactly, worth
from solver.fusion.bounds import NOTHING, Exchange
from solver.fusion.drafts import CELLS_TOGETHER, SHARES, DraftBounds, JointBound
from solver.fusion.groups import ClassTrips, GroupBounds, Inside
from solver.fusion.least import EdgePricer
from solver.fusion.remembered import remembered
from solver.fusion.space import Cut, Frame, Frames, FusionSpace, Tile
from solver.fusion.ways import FREE, Given, Places, TileWays, Way


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
        return UNLIMITED if words is None else words

    def room_of(self, level: int) -> int:
        """Words of an on-chip memory."""
        return self.usable if level == 1 else self.space.rooms.get(level, UNLIMITED)

    @cached_property
    def bounds(self) -> DraftBounds:
        """Bounds on many bodies at a time."""
        return DraftBounds(self.tiles)

    @cached_property
    def tiles(self) -> TileWays:
        """The ways to keep tiles."""
        return TileWays(self.space, self.pricer, self.usable, self.is_estimate)

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
            return UNLIMITED, UNLIMITED
        return min(own.energy for own in found), min(own.cycles for own in found)

    def _fits(
        self, frames: Frames, place: int, given: Given, cuts: Sequence[Cut], left: Sequence[int]
    ) -> Iterator[Way]:
        """Yield the ways to keep an Einsum's tiles that have room; a copy has none of its own."""
        if self.space.einsums[place].is_copy:
            return iter([FREE])
        last, is_open = cuts[-1], bool(cuts[-1].parts) and not self.is_estimate
        if self.space.remainders:
            is_open = max(left, default=1) > 1
        places = Places(frames, cuts[:-1], last)
        if left:
            places = Places(frames, cuts[:-2], last, (tuple(enumerate(left)),), cuts[-2])
        options = self.tiles.of_places(place, given, places)
        free_words = self.usable - given.taken_words
        above_left = None if self.space.slides(frames) else places.above_left
        return self.tiles.each(place, options, last, is_open, free_words, above_left)

    def _least_exchange(self, tile: Tile, cuts: Sequence[Cut], outside: frozenset[str]) -> Exchange:
        if tile.tensor in self.space.storable and tile.tensor not in outside:
            return NOTHING
        options = [self.pricer.exchange(tile, cuts[-1])]
        if not tile.bypassed:
            options += [
                self.pricer.exchange(tile, cuts[-1], self.pricer.shift(tile, cut)) for cut in cuts[:-1]
            ]
        energy, reads, writes = map(min, zip(*(own[1:4] for own in options), strict=True))
        return Exchange(tile.space.name, energy, reads, writes, tile.bypassed)

    def together(self, frames: Frames, at: int, given: Sequence[Given], peak: int) -> tuple[int, int]:
        """Least energy and cycles of Einsums that share the room of what they hold."""
        joint = JointBound(1, self.usable)
        for place, known in enumerate(given, at):
            joint.costs = joint.joined(joint.costs, self._alone(frames, place, known))
        energy, cycles = exactly(joint.least((self.usable - peak) * SHARES // self.usable))
        return energy, cycles

    @remembered
    def _alone(self, frames: Frames, place: int, given: Given) -> FloatArray:
        """What an Einsum costs in a body without bodies inside, by what it holds."""
        ways, times = self._leaf_ways(frames, place, given), self.space.einsums[place].times
        return JointBound(1, self.usable).alone(ways, given.taken_words, times)

    @remembered
    def _leaf_ways(self, frames: Frames, place: int, given: Given) -> list[Way]:
        """The ways to keep an Einsum's tiles in no further body."""
        fits = self._fits(frames, place, given, self.space.cuts(frames, place), ())
        return [own.over(1) for own in fits]

    def with_bodies(
        self, frames: Frames, at: int, given: Sequence[Given], is_parted: bool
    ) -> tuple[int, int]:
        """Least energy and cycles from an Einsum to the end of a body that has bodies inside."""
        trips = self._trips_of_groups(frames, np.ones((1, 1)))
        if trips is None:
            return 0, 0
        ways = [self._leaf_ways(frames, place, known) for place, known in enumerate(given, at)]
        span = frames[-1].start, frames[-1].end
        inside = Inside(span, at, trips, given, ways, np.zeros(1), is_parted)
        energy, cycles = worth(self.groups.least(inside))
        return energy, cycles

    def _trips_of_groups(self, frames: Frames, further: FloatArray) -> ClassTrips | None:
        """Trips of loops, with further ones of each body, by class; None where groups are not bounded."""
        span = frames[-1].start, frames[-1].end
        counts = self.groups.trips(frames, *span)
        slides = self.space.slides(frames) or self.space.sliding(*span)
        if counts is None or slides or self.space.remainders:
            return None
        return tuple((further * np.array(counts, np.float64)).T)

    def of_bodies(
        self, frames: Frames, frame: Frame, segments: Sequence[IntArray], given: Sequence[Given]
    ) -> tuple[FloatArray, FloatArray]:
        """Least energy and cycles of the Einsums of many bodies, some at a time; see `DraftBounds.least`."""
        chunks = (slice(n, n + CELLS_TOGETHER) for n in range(0, len(segments[-1]), CELLS_TOGETHER))
        found = [self._of_bodies(frames, frame, [s[own] for s in segments], given) for own in chunks]
        energies, cycles = (np.concatenate(own) for own in zip(*found, strict=True))
        return energies, cycles

    def _of_bodies(
        self, frames: Frames, frame: Frame, segments: Sequence[IntArray], given: Sequence[Given]
    ) -> tuple[FloatArray, FloatArray]:
        energies, cycles = self.bounds.least(frames, frame, segments, given)
        if frame.flat or self.space.is_intricate:
            return energies, cycles
        trips = self._trips_of_groups((*frames, frame), np.prod(segments, axis=0).astype(np.float64))
        if trips is None:
            return energies, cycles
        ways = self.bounds.leaves(frames, frame, segments, given)
        inside = Inside((frame.start, frame.end), frame.start, trips, given, ways, np.zeros(len(energies)))
        least = self.groups.least(inside)
        return np.maximum(energies, least[0]), np.maximum(cycles, least[1])
