"""The bodies that drafts may become, bounded many at a time: that takes little longer than a few."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import count
from typing import NamedTuple

import numpy as np

from solver.fusion.amounts import UNLIMITED, FloatArray, IntArray
from solver.fusion.bodies import BodyBounds
from solver.fusion.labels import Draft
from solver.fusion.remembered import remembered
from solver.fusion.space import Frame, Frames, FusionSpace, Segment
from solver.fusion.trips import BodyLoops, Total
from solver.fusion.ways import Given

MOST_ORDERED = 1 << 14
"""Bodies of some Einsums that are compared for a good path, about."""

TOGETHER = 1 << 10
"""Bodies that are bounded together, at least, if so many promise something."""

Values = Callable[[FloatArray, FloatArray], FloatArray]
"""Values of the objective, by energies and cycles of bodies."""


class Bodies(NamedTuple):
    """Bodies with one segment more than a draft, trips that are left, and least costs of their Einsums."""

    frames: Sequence[Frame]
    left: Sequence[Total]
    energies: FloatArray
    cycles: FloatArray


class _Alike(NamedTuple):
    """What drafts have in common that can be bounded together."""

    outside: Frames
    start: int
    end: int
    flat: bool
    given: tuple[Given, ...]
    before: Sequence[Segment]
    """Segments that all of them have, where loops may move windows."""
    segments: int


@dataclass(frozen=True)
class Extensions:
    """What drafts become: with each next segment, or with all loops at once."""

    space: FusionSpace
    bodies: BodyBounds
    loops: BodyLoops

    def longer(
        self, outside: Frames, draft: Draft, given: tuple[Given, ...], values: Values, limit: int | None
    ) -> Bodies:
        """The bodies that a draft may become, and the least cost of each one's Einsums.

        Parameters
        ----------
        values, limit
            Other drafts are bounded as well that promise values below the limit, the best ones first.
        """
        alike = self._alike(outside, draft, given)
        if (alike, draft) not in self._known:
            most = UNLIMITED if limit is None else limit
            self._bound(alike, self._together(alike, draft, most), values, most)
        return self._known[alike, draft]

    def _alike(self, outside: Frames, draft: Draft, given: tuple[Given, ...]) -> _Alike:
        frame, several = draft.frame, len(draft.frame.segments)
        is_plain = not self.space.remainders and not self.space.slides(outside)
        is_plain = is_plain and not self.space.sliding(frame.start, frame.end)
        before = () if is_plain else frame.segments
        return _Alike(outside, frame.start, frame.end, frame.flat, given, before, several)

    @cached_property
    def _known(self) -> dict[tuple[_Alike, Draft], Bodies]:
        return {}

    @cached_property
    def _waiting(self) -> dict[_Alike, list[tuple[float, int, Draft]]]:
        return {}

    @cached_property
    def _tickets(self) -> Iterator[int]:
        return count()

    def _together(self, alike: _Alike, draft: Draft, most: int) -> dict[Draft, _Longer]:
        """A draft and others that are to be bounded with it, with the bodies that each may become."""
        found = {draft: list(self._each(alike.outside, draft))}
        waiting, size = self._waiting.get(alike, []), len(found[draft])
        while waiting and size < TOGETHER:
            value, _, other = heapq.heappop(waiting)
            if value >= most:
                waiting.clear()
            elif (alike, other) not in self._known:
                found[other] = list(self._each(alike.outside, other))
                size += len(found[other])
        return found

    def _each(self, outside: Frames, draft: Draft) -> Iterator[tuple[Frame, Total]]:
        """Yield the bodies that a draft may become; all trips come first."""
        frame = draft.frame
        if draft.left is not None:
            yield from self.loops.longer(outside, frame, draft.left)
        else:
            yield from ((frame, own) for own in self.loops.totals(outside, frame.start, frame.end))

    def _bound(self, alike: _Alike, drafts: dict[Draft, _Longer], values: Values, most: int) -> None:
        """Bound all bodies that some drafts may become; those that promise something wait for their turn."""
        every = [own for longer in drafts.values() for own in longer]
        energies, cycles = self._least(alike, every)
        at = 0
        for draft, longer in drafts.items():
            own = slice(at, at + len(longer))
            at += len(longer)
            frames, left = [frame for frame, _ in longer], [rest for _, rest in longer]
            self._known[alike, draft] = Bodies(frames, left, energies[own], cycles[own])
        for (frame, total), value in zip(every, values(energies, cycles).tolist(), strict=True):
            if max(total) > 1 and value < most:
                draft = Draft(frame, total)
                waiting = self._waiting.setdefault(self._alike(alike.outside, draft, alike.given), [])
                heapq.heappush(waiting, (value, next(self._tickets), draft))

    def _least(self, alike: _Alike, every: _Longer) -> tuple[FloatArray, FloatArray]:
        if not every:
            return np.zeros(0), np.zeros(0)
        frame = Frame(alike.start, alike.end, tuple(alike.before), alike.flat)
        classes, known = len(every[0][1]), len(alike.before)
        lists = [own.segments[known:] or ((),) for own, _ in every]
        segments = [_trips([own[n] for own in lists], classes) for n in range(len(lists[0]))]
        left = np.array([own for _, own in every])
        return self.bodies.of_bodies(alike.outside, frame, [*segments, left], alike.given)

    @remembered
    def at_once(
        self, outside: Frames, frame: Frame, given: tuple[Given, ...]
    ) -> tuple[list[Frame], FloatArray, FloatArray]:
        """Bodies with all loops in each order, and the least costs of their Einsums."""
        totals = np.array(list(self.loops.totals(outside, frame.start, frame.end)), np.int64)
        frames, costs = list[Frame](), [np.zeros((2, 0))]
        for order in self.loops.orders(frame.start, frame.end) if len(totals) else ():
            self.bodies.pricer.heed()
            masks = [np.isin(np.arange(totals.shape[1]), list(own)) for own in order]
            # With fewer loops it is a body of another order.
            own = totals[np.logical_and.reduce([(totals[:, mask] > 1).any(axis=1) for mask in masks])]
            segments = [np.where(mask, own, 1) for mask in masks]
            if len(own):
                costs.append(np.array(self.bodies.bounds.ordered(outside, frame, segments, given)))
                pairs = zip(*(map(_as_segment, counts.tolist()) for counts in segments), strict=True)
                frames += [replace(frame, segments=loops) for loops in pairs]
            if len(frames) > MOST_ORDERED:
                break
        energies, cycles = np.concatenate(costs, axis=1)
        return frames, energies, cycles


_Longer = list[tuple[Frame, Total]]
"""Bodies with trips that are left."""


def _trips(segments: Sequence[Segment], classes: int) -> IntArray:
    """Trips of segments by class of loops."""
    found = np.ones((len(segments), classes), np.int64)
    for row, segment in zip(found, segments, strict=True):
        for number, trips in segment:
            row[number] = trips
    return found


def _as_segment(counts: Sequence[int]) -> Segment:
    """The loops of a segment, by trips of all classes."""
    return tuple((number, trips) for number, trips in enumerate(counts) if trips > 1)
