"""Parts of unequal extents, where loops slide windows: which there may be, and what all of them cost."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

from model.fused.visits import Span
from model.numbers import divisors
from solver.fusion.remembered import remembered
from solver.fusion.space import Frame, Frames, FusionSpace
from solver.fusion.trips import BodyLoops
from solver.search.stopping import Stop, Stopped, never

Extents = dict[tuple[int, str], set[int]]
"""Extents of parts, by Einsum and dimension."""

MOST_LOOPS = 4000
"""Loops in each other by which parts are found."""


@dataclass(frozen=True)
class PartSizes:
    """Extents of the parts that shared loops may cut dimensions into.

    What loops over other dimensions do does not matter: those over one are looked at alone, in bodies in
    each other.

    Parameters
    ----------
    stop
        Whether the search has to end: then extents are not known that were not found yet.
    """

    space: FusionSpace
    stop: Stop = never

    @cached_property
    def loops(self) -> BodyLoops:
        """Which loops bodies may have."""
        return BodyLoops(self.space)

    def unlike(self, place: int) -> tuple[str, ...] | None:
        """Dimensions of an Einsum whose parts need not have equal extents; None if that is not known."""
        if self._found() is None:
            return None
        bound = self.space.einsums[place].problem.bound
        return tuple(dim for dim in bound if self.largest(place, dim, bound[dim]) != (bound[dim],))

    def largest(self, place: int, dim: str, most: int) -> tuple[int, ...] | None:
        """Extents of up to `most` that no other one is a multiple of; None if they are not known."""
        return None if self._found() is None else self._largest(place, dim, most)

    @remembered
    def _largest(self, place: int, dim: str, most: int) -> tuple[int, ...]:
        found = self._found() or {}
        own = {most, *(size for size in found.get((place, dim), ()) if size <= most)}
        return tuple(sorted(one for one in own if not any(n > one and n % one == 0 for n in own)))

    def _found(self) -> Extents | None:
        """The extents; None where they are not known."""
        if not self._finished:
            with suppress(Stopped):
                self._finished.append(self._gathered())
        return self._finished[0] if self._finished else None

    @cached_property
    def _finished(self) -> list[Extents | None]:
        return []

    def _gathered(self) -> Extents | None:
        """The extents, from all loops; None where there are many, or some of two kinds."""
        self._check()
        self._seen.clear()
        found: Extents = {}
        bodies = [*self.space.bodies()]
        if any(self._is_twofold(*body) for body in bodies):
            return None
        loops = (
            own for body in bodies for number in self._numbers(*body) for own in self._loops((), body, number)
        )
        for looked_at, frames in enumerate(loops):
            self._check()
            if looked_at == MOST_LOOPS:
                return None
            for (place, dim), spans in self._spans(frames).items():
                found.setdefault((place, dim), set()).update(high - low for low, high in spans)
        return found

    def _check(self) -> None:
        if self.stop():
            raise Stopped

    def _numbers(self, start: int, end: int) -> Iterator[int]:
        """Yield the classes of a body that run over what windows slide along, in some body."""
        for number, dims in enumerate(self.space.classes(start, end)):
            if not self._slid.isdisjoint(enumerate(dims, start)):
                yield number

    @cached_property
    def _slid(self) -> frozenset[tuple[int, str]]:
        """Einsums with dimensions over which loops may run that slide windows."""
        return frozenset(
            own
            for start, end in self.space.bodies()
            for number in self.space.sliding(start, end)
            for own in enumerate(self.space.classes(start, end)[number], start)
        )

    def _is_twofold(self, start: int, end: int) -> bool:
        """Whether a body may have loops of two classes over one dimension, one of which moves a window."""
        classes, sliding = self.space.classes(start, end), self.space.sliding(start, end)
        for one, other in combinations(self._numbers(start, end), 2):
            shares = any(a == b for a, b in zip(classes[one], classes[other], strict=True))
            if not shares or sliding.isdisjoint((one, other)):
                continue
            both = Frame(start, end, (((one, 2), (other, 2)),))
            if not any(self.loops.is_moved_twice((both,), place) for place in range(start, end)):
                return True
        return False

    def _spans(self, frames: Frames) -> dict[tuple[int, str], frozenset[Span]]:
        """By Einsum and dimension, the parts that the loop of the innermost body and those outside cut."""
        visits, start, depth = self.space.visits(frames), frames[0].start, len(frames)
        spans = ((own, visits.spans(own[0] - start, own[1], depth)) for own in self._looped(frames[-1]))
        return {own: frozenset(part for part in parts if part[0] < part[1]) for own, parts in spans}

    def _looped(self, frame: Frame) -> list[tuple[int, str]]:
        """What the loop of a body runs over, by Einsum."""
        ((number, _),) = frame.segments[-1]
        return list(enumerate(self.space.classes(frame.start, frame.end)[number], frame.start))

    def _loops(self, outside: Frames, body: tuple[int, int], number: int) -> Iterator[Frames]:
        """Yield bodies with a loop of a class in the innermost one, and with bodies inside over the same."""
        dims, leaders = self.space.classes(*body)[number], self.loops.leaders(*body)[number]
        most = math.gcd(*(self.loops.parts_left(outside, body[0] + own)[dims[own]] for own in leaders))
        for count in divisors(most)[1:]:
            frames = (*outside, Frame(*body, (((number, count),),)))
            if any(self.loops.is_moved_twice(frames, place) for place in range(*body)):
                return
            if not self.loops.is_whole(outside, *body, (number, count)):
                continue
            yield frames
            for inside, own in self._inside(frames):
                yield from self._loops(frames, inside, own)

    def _inside(self, frames: Frames) -> Iterator[tuple[tuple[int, int], int]]:
        """Yield the bodies inside of the last one, with classes that run over what its loop does.

        Those are left out that were seen before with the same parts.
        """
        parts = self._spans(frames)
        for start, end, number in self._classes_inside(frames[-1]):
            looped = list(enumerate(self.space.classes(start, end)[number], start))
            key = start, end, number, tuple(parts.get(own) for own in looped)
            if not parts.keys().isdisjoint(looped) and key not in self._seen:
                self._seen.add(key)
                yield (start, end), number

    def _classes_inside(self, frame: Frame) -> Iterator[tuple[int, int, int]]:
        """Yield the bodies inside of one, each with the numbers of its classes."""
        for start in range(frame.start, frame.end):
            ends = (end for end in self.space.ends(start) if end <= frame.end)
            for end in (end for end in ends if (start, end) != (frame.start, frame.end)):
                yield from ((start, end, number) for number in self._numbers(start, end))

    @cached_property
    def _seen(self) -> set[tuple[object, ...]]:
        return set()
