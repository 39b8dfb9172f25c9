"""Trips of the loops that bodies may have: all together first, then in an order, with places between them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations, product

from model.extents import ANY, PERFECT, Extents, tiles_of
from model.fused.visits import Visits
from model.numbers import divisors
from solver.fusion.remembered import remembered, remembered_by
from solver.fusion.space import Frame, Frames, FusionSpace, Segment, TileKind, Trips
from solver.fusion.unrolling import UnrolledVisits
from solver.search.stopping import Stop, heed, heeding, never

Total = tuple[int, ...]
"""Trips of all loops of a body together, by class: what they cut, they cut into tiles of these extents."""


@dataclass(frozen=True)
class BodyLoops:
    """Which loops a body may have under others.

    Where loops may have remainders, as many trips as one loop needs for the innermost tiles stand for all
    lists of loops that come to them.
    """

    space: FusionSpace
    stop: Stop = never

    def totals(self, frames: Frames, start: int, end: int) -> Iterator[Total]:
        """Yield trips for each class, all loops of the body together, not all 1."""
        space = self.space
        is_plain = not space.slides(frames) and not space.sliding(start, end)
        measure = self._extents if space.remainders else self.parts_left
        left = [measure(frames, place) for place in range(start, end)]
        found = self._chosen(space.classes(start, end), left, (), self.leaders(start, end))
        for chosen in found:
            heed(self.stop)
            if not is_plain:
                is_allowed = self._is_known(frames, start, end, chosen)
            else:
                is_allowed = space.remainders or self._may_unroll(left, start, end, chosen)
            if is_allowed:
                yield chosen

    def _may_unroll(self, left: Sequence[Trips], start: int, end: int, chosen: Total) -> bool:
        """Whether visits are large enough for what rules ask of fanouts."""
        pairs = list(zip(self.space.classes(start, end), chosen, strict=True))
        for place, own in zip(range(start, end), left, strict=True):
            extents = dict(own)
            for dims, count in pairs:
                extents[dims[place - start]] //= count
            if not self.unrolling.may_be(place, extents):
                return False
        return True

    @cached_property
    def unrolling(self) -> UnrolledVisits:
        """What rules ask of fanouts."""
        return UnrolledVisits(self.space.cascade)

    @remembered
    def orders(self, start: int, end: int) -> tuple[tuple[frozenset[int], ...], ...]:
        """The segments that a body may have with one loop of each class at most, few ones first."""
        whole = [self.parts_left((), place) for place in range(start, end)]
        sizes = (
            math.gcd(*(own[dim] for own, dim in zip(whole, dims, strict=True)))
            for dims in self.space.classes(start, end)
        )
        able = frozenset(number for number, size in enumerate(sizes) if size > 1)
        kinds, alone = self.space.tile_kinds(start, end), self.space.overlapping(start, end)
        return tuple(sorted(self._orders(kinds, alone, (), able), key=len))

    def _orders(
        self,
        kinds: frozenset[TileKind],
        alone: frozenset[int],
        before: tuple[frozenset[int], ...],
        left: frozenset[int],
    ) -> Iterator[tuple[frozenset[int], ...]]:
        """Yield some segments with each way to put the other classes below them."""
        heed(self.stop)
        if not left:
            yield before
            return
        for own in _subsets(left):
            if own & alone and len(own) > 1:
                continue
            is_next = not before or own <= alone
            if is_next or _is_parted(before[-1], own, kinds, bool(self.space.stores.least)):
                yield from self._orders(kinds, alone, (*before, own), left - own)

    def longer(self, frames: Frames, frame: Frame, left: Total) -> Iterator[tuple[Frame, Total]]:
        """Yield a body with each further segment, and the trips that are left then; none of it if all 1.

        Two segments follow each other only if tiles may be held between them so that no loop is better moved
        to the other one (docs/fusion.md, "Few orders of loops"), or tensors that keep what overlaps stored;
        or if the second one cuts on with loops that leave remainders. Where tiles have to be large, loops
        right below a place need not bring them anew. Loops below which tiles keep what overlaps are segments
        by themselves, after any other one.
        """
        kinds = self.space.tile_kinds(frame.start, frame.end)
        for pairs in heeding(self.stop, product(*self._steps(frames, frame, left))):
            segment = _segment([own for own, _ in pairs])
            if not segment or not self._may_follow(frame, segment, kinds):
                continue
            longer, rest = replace(frame, segments=(*frame.segments, segment)), tuple(own for _, own in pairs)
            if self._may_end(frame, rest, kinds) and self.is_within_limits((*frames, longer)):
                yield longer, rest

    def _steps(self, frames: Frames, frame: Frame, left: Total) -> Iterator[list[tuple[int, int]]]:
        """Yield, for each class, the trips that its next loop may have, with those that are left then."""
        if not self.space.remainders:
            yield from ([(own, total // own) for own in divisors(total)] for total in left)
            return
        leaders = self.leaders(frame.start, frame.end)
        extents = [self._extents((*frames, frame), place) for place in range(frame.start, frame.end)]
        for total, dims, own in zip(left, self.space.classes(frame.start, frame.end), leaders, strict=True):
            sizes = {extents[place][dims[place]] for place in own}
            if len(sizes) > 1:
                yield [(count, total // count) for count in divisors(total)]
            else:
                yield list(_steps_to(sizes.pop(), total))

    def _may_end(self, frame: Frame, left: Total, kinds: frozenset[TileKind]) -> bool:
        """Whether the loops that are left may lie below a place: they bring words again there."""
        if self.space.remainders or self.space.stores.least or self.space.sliding(frame.start, frame.end):
            return True
        again = frozenset[int]().union(*(own for _, own in kinds))
        return all(number in again for number, trips in enumerate(left) if trips > 1)

    def _may_follow(self, frame: Frame, segment: Segment, kinds: frozenset[TileKind]) -> bool:
        """Whether a segment may be the next one of a body."""
        below, alone = _classes(segment), self.space.overlapping(frame.start, frame.end)
        if below & alone:
            return len(below) == 1 and self._may_slide(frame, below)
        if not frame.segments or self._keeps_between(frame, segment):
            return True
        if self.space.remainders and below <= _classes(frame.segments[-1]):
            return True
        # Without a place between them, segments that only cut on belong together.
        classes = [_classes(own) for own in frame.segments]
        above, number = classes[-1], len(classes) - 1
        while not _is_parted(above, below, kinds, bool(self.space.stores.least)):
            if not self.space.remainders or not number or not classes[number] <= classes[number - 1]:
                # In one segment with the first of these, it would slide windows that the others drop.
                return number < len(classes) - 1 and bool(below & self.space.sliding(frame.start, frame.end))
            number -= 1
            above |= classes[number]
        return True

    def _may_slide(self, frame: Frame, below: frozenset[int]) -> bool:
        """Whether a loop may be next that slides tiles: one instead of two keeps as much in less room."""
        two_help = below & self.space.sliding(frame.start, frame.end) or self.space.stores.least
        return bool(two_help) or not frame.segments or below != _classes(frame.segments[-1])

    def _keeps_between(self, frame: Frame, segment: Segment) -> bool:
        """Whether a tensor may have to lie above further loops, which would drop what overlaps."""
        sliding = self.space.sliding(frame.start, frame.end)
        above = {number for own in frame.segments for number, _ in own} & sliding
        below = {number for number, _ in segment}
        return len(below & sliding) > 1 or len(above) > 1 or bool(above and below - above)

    def is_within_limits(self, frames: Frames) -> bool:
        """Whether a path has no more loops than are allowed, and none that windows leave without work."""
        space, limits = self.space, self.space.limits
        if limits.max_loops is None and limits.max_loops_per_rank is None and not space.remainders:
            return True
        loops = [space.loops(frame) for frame in frames]
        if limits.max_loops is not None and sum(map(len, loops)) > limits.max_loops:
            return False
        inner = range(frames[-1].start, frames[-1].end)
        if space.remainders and space.slides(frames) and not all(self._has_work(frames, p) for p in inner):
            return False
        most = limits.max_loops_per_rank
        if most is None:
            return True
        for place in inner:
            name = space.einsums[place].name
            dims = [loop.dim(name) for own in loops for loop in own]
            if any(dims.count(dim) > most for dim in dims):
                return False
        return True

    def _has_work(self, frames: Frames, place: int) -> bool:
        """Whether no loop over an Einsum has more trips than there are indices in what is left to it."""
        einsum = self.space.einsums[place]
        left = dict(einsum.problem.bound)
        for loop in (loop for frame in frames for loop in self.space.loops(frame)):
            dim = loop.dim(einsum.name)
            if loop.trips > left[dim]:
                return False
            left[dim] = tiles_of(left[dim], loop.trips)
        return True

    def parts_left(self, frames: Frames, place: int) -> Trips:
        """What divides all parts of each dimension."""
        cut = self.space.cuts(frames, place)[-1]
        return {
            dim: math.gcd(*(size for size, _ in cut.parts[dim]))
            if dim in cut.parts
            else bound // cut.trips.get(dim, 1)
            for dim, bound in self.space.einsums[place].problem.bound.items()
        }

    def _extents(self, frames: Frames, place: int) -> Trips:
        """Extents of the largest part of each dimension."""
        cut = self.space.cuts(frames, place)[-1]
        return {dim: cut.largest(dim, size) for dim, size in self.space.einsums[place].problem.bound.items()}

    def leaders(self, start: int, end: int) -> list[list[int]]:
        """Per class of loops, the Einsums of a body, counted from its first, that follow no reader."""
        space = self.space
        readers = [
            any(start <= r < end for t in einsum.written for r in space.cascade.readers(t))
            for einsum in space.einsums[start:end]
        ]
        last = [place for place, has_reader in enumerate(readers) if not has_reader]
        plain, sliding = list(range(end - start)), space.sliding(start, end)
        return [last if number in sliding else plain for number in range(len(space.classes(start, end)))]

    def _chosen(
        self,
        classes: Sequence[tuple[str, ...]],
        left: list[Trips],
        chosen: Total,
        leaders: Sequence[Sequence[int]],
    ) -> Iterator[Total]:
        """Yield trips that divide, or that leave no tile empty where remainders are allowed."""
        if len(chosen) == len(classes):
            if max(chosen) > 1:
                yield chosen
            return
        dims, own = classes[len(chosen)], leaders[len(chosen)]
        sizes = {left[place][dims[place]] for place in own}
        kind = ANY if self.space.remainders and len(sizes) == 1 else PERFECT
        for count in Extents(math.gcd(*sizes), kind).least_factors(1):
            below = list(left)
            for place in own if count > 1 else ():
                below[place] = {**left[place], dims[place]: tiles_of(left[place][dims[place]], count)}
            yield from self._chosen(classes, below, (*chosen, count), leaders)

    def _is_known(self, frames: Frames, start: int, end: int, counts: Total) -> bool:
        """Whether no two loops move one window, and there are no remainders where none are allowed."""
        space, segment = self.space, _segment(counts)
        sliding = space.sliding(start, end)
        if not space.slides(frames) and not any(number in sliding for number, _ in segment):
            return True
        own = (*frames, Frame(start, end, (segment,)))
        if self._moves_twice(own):
            return False  # which visits do not know
        return space.remainders or all(self.is_whole(frames, start, end, loop) for loop in segment)

    @remembered
    def is_whole(self, frames: Frames, start: int, end: int, loop: tuple[int, int]) -> bool:
        """Whether one loop of a body cuts what follows no reader into equal parts, and nothing too often."""
        own = (*frames, Frame(start, end, ((loop,),)))
        visits, depth = self.space.visits(own), sum(len(s) for f in own for s in f.segments)
        dims = self.space.classes(start, end)[loop[0]]
        return all(
            _is_divided(visits, place - own[0].start, dim, depth, loop[1])
            for place, dim in zip(range(start, end), dims, strict=True)
        )

    @remembered_by(lambda _, frames: tuple((f.start, f.end, _all_classes(f)) for f in frames))
    def _moves_twice(self, frames: Frames) -> bool:
        """Whether loops move some window of the innermost body's Einsums twice, whatever their trips are."""
        return any(self.is_moved_twice(frames, place) for place in range(frames[-1].start, frames[-1].end))

    def is_moved_twice(self, frames: Frames, place: int) -> bool:
        """Whether two loops that a reader shares with a writer move one window of it."""
        space = self.space
        einsum = space.einsums[place]
        for access in einsum.accesses:
            writer = space.cascade.writers.get(access.tensor, place)
            shared = tuple(f for f in frames if f.start <= writer < f.end) if writer != place else ()
            looped = space.raw_trips(shared, place)
            ranks = einsum.space(access.dataspace).ranks
            if any(sum(term.dim in looped for term in terms) > 1 for terms in ranks):
                return True
        return False


def _steps_to(extent: int, total: int) -> Iterator[tuple[int, int]]:
    """Yield the trips of a loop on the way from an extent to what so many trips leave, and of the rest."""
    last = tiles_of(extent, total)
    for count in (own for own in Extents(extent, ANY).least_factors(1) if own <= total):
        tile = tiles_of(extent, count)
        rest = tiles_of(tile, last)
        if tiles_of(tile, rest) == last:
            yield count, rest


def _is_divided(visits: Visits, place: int, dim: str, depth: int, trips: int) -> bool:
    """Whether the innermost of some loops has no remainder, unless it follows a reader."""
    bound = visits.cascade.einsums[place].problem.bound[dim]
    path = visits.mapping.paths[place]
    cut = math.prod(loop.trips for loop in path.loops[:depth] if loop.dim(path.leaf.einsum) == dim)
    led = any(True for _ in visits.needs(place, dim, depth))
    return cut <= bound and (led or all(size % trips == 0 for size in visits.extents(place, dim, depth - 1)))


def _subsets(members: frozenset[int]) -> Iterator[frozenset[int]]:
    """Yield all subsets but the empty one."""
    for size in range(1, len(members) + 1):
        yield from map(frozenset, combinations(sorted(members), size))


def _segment(counts: Sequence[int]) -> Segment:
    return tuple((number, count) for number, count in enumerate(counts) if count > 1)


def _all_classes(frame: Frame) -> frozenset[int]:
    return frozenset[int]().union(*map(_classes, frame.segments))


def _classes(segment: Segment) -> frozenset[int]:
    return frozenset(number for number, _ in segment)


def _is_parted(outer: frozenset[int], inner: frozenset[int], kinds: frozenset[TileKind], large: bool) -> bool:
    """Whether tiles may be held between loops of some classes so that none is better moved to the others.

    With `large`, inner ones may be no better off above, where tiles are smaller.
    """
    using = [(moving, again) for moving, again in kinds if outer & moving and (inner & again or large)]
    moving = frozenset[int]().union(*(kind[0] for kind in using))
    again = frozenset[int]().union(*(kind[1] for kind in using))
    return outer <= moving and (inner <= again or large)
