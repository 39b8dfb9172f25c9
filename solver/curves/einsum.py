"""The curve of one Einsum: the least traffic for every capacity at once.

Every mapping onto a memory and a buffer is a tile, an order of the loops around it, and the dataspaces that
the buffer keeps. What stays when a loop advances depends on which loops lie inside of it, and not on their
order. So the best order for a tile is a shortest path: nodes are the sets of loops that lie inside already,
a step adds one loop and saves the words that stay. All tiles go through it together, as arrays.

Where windows slide, it may matter which of several extents a tile has that make as many tiles. Then all of
these are bounded together, and those that the bound leaves below the best so far are tried one by one.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, product

import numpy as np

from model.cost import evaluate_in
from model.cost.batch.counts import most_words
from model.mapping import Loop, Mapping, StorageMapping
from model.problem import Problem
from solver.curves.design import BUFFER, MEMORY, Design
from solver.curves.steps import LARGEST, Grid, Kind, Rate, Steps, Sums, kinds_of, least_costs, sums_apart
from solver.result import ContradictionError, TooLargeError
from solver.search.arrays import IntArray
from solver.search.path.charges import Charges
from solver.search.path.words import DimLoops, ExecutedWords, Lines
from solver.search.space.dataspaces import box_words
from solver.search.space.keep_masks import KeepMask
from solver.search.space.search_space import SearchSpace
from solver.search.stopping import Stop, Stopped, never

CHUNK = 1 << 13
"""Tiles that go through the orders together."""

PROMISING = 256
"""Tiles of about a size that go through the orders before it is seen which others may be better."""

MOST_TILES = 1 << 25
"""Tiles that are looked at, at most."""


@dataclass(frozen=True)
class Point:
    """A capacity from which on less traffic is possible, and a mapping that shows it.

    Parameters
    ----------
    capacity, traffic
        Words of the buffer that the tiles take, and words between the memory and the buffer.
    mapping
        Onto the design.
    """

    capacity: int
    traffic: int
    mapping: Mapping


@dataclass(frozen=True)
class Curve:
    """The least traffic by capacity: every point is proven.

    Parameters
    ----------
    design
        What it is about.
    points
        By rising capacities and falling traffic; the first one needs no capacity, as nothing is kept.
    """

    design: Design
    points: tuple[Point, ...]

    def at(self, capacity: int) -> Point:
        """Return the point that holds for a buffer of so many words, 0 at least."""
        return self.points[bisect_right(self.points, capacity, key=lambda point: point.capacity) - 1]

    def within(self, traffic: int) -> Point | None:
        """Return the point with the least capacity that needs at most so much traffic; None if none does."""
        return next((point for point in self.points if point.traffic <= traffic), None)


def traffic_curve(design: Design, should_stop: Stop = never) -> Curve:
    """Find the least traffic between the memory and the buffer for every capacity.

    Parameters
    ----------
    design
        The Einsum, sizes of its values, and what factors loops may have.
    should_stop
        Asked often; once it answers True, the curve is given up.

    Returns
    -------
    Curve
        All points at which the traffic falls. Each is the optimum of all tiles, loop orders and choices of
        what the buffer keeps, and its mapping was priced by the cost model.

    Raises
    ------
    TooLargeError
        Words do not fit 64 bits, or there are more than `MOST_TILES` tiles.
    solver.search.stopping.Stopped
        `should_stop` answered True.
    ContradictionError
        The cost model counts otherwise: a defect.
    """
    return _Search(design, should_stop).curve()


class _Front:
    """The best tiles so far: by rising capacities, of falling traffic."""

    def __init__(self) -> None:
        self.rows = np.empty((0, 4), dtype=np.int64)

    def add(self, rooms: IntArray, traffic: IntArray, mask: int, tiles: IntArray) -> None:
        """Add tiles under the keep mask with a number."""
        new = np.stack([rooms, traffic, np.full(len(rooms), mask), tiles], axis=1)
        rows = np.concatenate([self.rows, new])
        rows = rows[np.lexsort((rows[:, 1], rows[:, 0]))]
        falls = np.ones(len(rows), dtype=np.bool_)
        falls[1:] = rows[1:, 1] < np.minimum.accumulate(rows[:, 1])[:-1]
        self.rows = rows[falls]

    def least(self, rooms: IntArray) -> IntArray:
        """Return the least traffic so far with so much room."""
        places = np.searchsorted(self.rows[:, 0], rooms, side="right") - 1
        return np.where(places < 0, LARGEST, np.append(self.rows[:, 1], LARGEST)[places])

    def most_room(self, traffic: int) -> int:
        """Return the least capacity that needs no more than so much traffic."""
        better = np.flatnonzero(self.rows[:, 1] <= traffic)
        return int(self.rows[better[0], 0]) if len(better) else LARGEST


class _Search:
    def __init__(self, design: Design, stop: Stop) -> None:
        self._design, self._stop = design, stop
        self._space = SearchSpace(design.mapspace)
        self._lines, self._words = Lines(self._space), ExecutedWords(self._space)
        problem = design.problem
        sizes = [design.bits[own.name] // design.unit_bits for own in problem.dataspaces]
        words = [most_words(problem, own) * size for own, size in zip(problem.dataspaces, sizes, strict=True)]
        if 4 * sum(words) > LARGEST:
            raise TooLargeError(f"{problem.name} moves more words than 64 bits can count")
        self._sizes = sizes
        tiles = math.prod(map(len, self._starts))
        if tiles > MOST_TILES:
            raise TooLargeError(f"{problem.name} has {tiles:,} tiles; at most {MOST_TILES:,} are tried")

    @cached_property
    def _bounds(self) -> IntArray:
        return np.array([self._design.problem.bound[dim] for dim in self._space.active], dtype=np.int64)

    @cached_property
    def _sides(self) -> tuple[IntArray, ...]:
        """By dimension, the extents of tiles that are tried, ascending."""
        return tuple(map(self._sides_along, self._space.active))

    def _sides_along(self, dim: str) -> IntArray:
        """The least of all extents that have as many tiles, or every one where it may matter which.

        Along a rank of its own tiles never meet, and have all words of it together.
        """
        allowed = self._design.mapspace.extents(dim)
        alone = _is_alone(self._design.problem, dim)
        return np.array(allowed.least_factors(1) if alone else allowed.values, dtype=np.int64)

    @cached_property
    def _numbers(self) -> tuple[IntArray, ...]:
        """Of tiles along each dimension, by their extents."""
        return tuple(-(-bound // side) for bound, side in zip(self._bounds, self._sides, strict=True))

    @cached_property
    def _starts(self) -> tuple[IntArray, ...]:
        """Where extents begin that have another number of tiles, by dimension."""
        return tuple(np.flatnonzero(np.diff(own, prepend=0)) for own in self._numbers)

    @cached_property
    def _single(self) -> Grid:
        """All tiles."""
        every = range(len(self._space.views))
        sums = [
            [self._sums_of(v, number) for number in range(len(self._words.dims_by_group(v)))] for v in every
        ]
        return Grid(self._sides, self._numbers, sums)

    @cached_property
    def _together(self) -> Grid:
        """Tiles that are equally many along each dimension as one, with the least of each of them."""
        if all(len(own) == len(starts) for own, starts in zip(self._sides, self._starts, strict=True)):
            return self._single
        sides, numbers = (
            tuple(own[starts] for own, starts in zip(by, self._starts, strict=True))
            for by in (self._sides, self._numbers)
        )
        return Grid(
            sides, numbers, [[own.together(self._starts) for own in sums] for sums in self._single.sums]
        )

    def curve(self) -> Curve:
        """The curve, of all keep masks."""
        masks = sorted(self._space.keep_masks, key=lambda mask: -len(mask[BUFFER]))
        front = _Front()
        for number, mask in enumerate(masks):
            self._add(front, number, mask)
        return Curve(self._design, tuple(chain.from_iterable(self._points(masks, front))))

    def _add(self, front: _Front, number: int, mask: KeepMask) -> None:
        """Add the tiles under a keep mask."""
        grid, passing = self._together, self._passing(mask)
        size, most = math.prod(grid.shape), front.most_room(passing)
        rooms, floors = np.empty(size, dtype=np.int64), np.empty(size, dtype=np.int64)
        for chunk in self._chunks(np.arange(size)):
            places = grid.places(chunk)
            rooms[chunk] = self._rooms(grid, mask, places)
            floors[chunk] = self._steps(grid, mask, places).floors + passing
        left = self._by_floors(np.flatnonzero(rooms < most), rooms, floors)
        found = [np.empty((2, 0), dtype=np.int64)]
        while len(left):
            # The most promising tiles of every size first: they leave little of the others.
            octaves = _octaves(rooms[left])
            ranks = np.arange(len(left)) - np.searchsorted(octaves, octaves)
            for chunk in self._chunks(left[ranks < PROMISING]):
                bounds = self._traffic(grid, mask, grid.places(chunk)) + passing
                below = bounds < front.least(rooms[chunk])
                found.append(np.stack([chunk[below], bounds[below]]))
                self._try(front, number, mask, self._smallest(chunk[below]), passing)
            left = left[ranks >= PROMISING]
            left = left[floors[left] < front.least(rooms[left])]
        cells, bounds = np.concatenate(found, axis=1)
        for tiles in self._others(cells[bounds < front.least(rooms[cells])]):
            self._try(front, number, mask, tiles, passing)

    def _by_floors(self, tiles: IntArray, rooms: IntArray, floors: IntArray) -> IntArray:
        """Sort tiles by size, then by the least that each may move."""
        sizes = _octaves(rooms[tiles]).astype(np.int16)
        tiles, ends = tiles[np.argsort(sizes, kind="stable")], np.cumsum(np.bincount(sizes))[:-1]
        ordered = [tiles[:0]]
        for own in np.split(tiles, ends):
            if self._stop():
                raise Stopped
            ordered.append(own[np.argsort(floors[own], kind="stable")])
        return np.concatenate(ordered)

    def _try(self, front: _Front, number: int, mask: KeepMask, places: IntArray, passing: int) -> None:
        """Add some of all tiles under the keep mask with a number."""
        grid = self._single
        rooms = self._rooms(grid, mask, places)
        open_ = self._steps(grid, mask, places).floors + passing < front.least(rooms)
        places, rooms = places[open_], rooms[open_]
        if len(places):
            traffic = self._traffic(grid, mask, places) + passing
            tiles = np.ravel_multi_index(tuple(places.T), grid.shape) if grid.shape else np.zeros_like(rooms)
            front.add(rooms, traffic, number, tiles)

    def _smallest(self, cells: IntArray) -> IntArray:
        """The places of the smallest tiles of those that are equally many."""
        places = self._together.places(cells)
        columns = [own[places[:, d]] for d, own in enumerate(self._starts)]
        return np.stack(columns, axis=1) if columns else places

    def _others(self, cells: IntArray) -> Iterator[IntArray]:
        """Yield the places of all but the smallest of tiles that are equally many, so many at a time."""
        smallest, places = self._smallest(cells), self._together.places(cells)
        ends = [np.append(own[1:], len(side)) for own, side in zip(self._starts, self._sides, strict=True)]
        alike = [end[places[:, d]] - smallest[:, d] for d, end in enumerate(ends)]
        number = np.cumsum(_product(alike, len(cells)) - 1)
        for chunk in self._chunks(np.arange(int(number[-1]) if len(cells) else 0)):
            own = np.searchsorted(number, chunk, side="right")
            rest, tiles = chunk - np.append(0, number)[own] + 1, smallest[own]
            for d, many in enumerate(alike):
                rest, step = np.divmod(rest, many[own])
                tiles[:, d] += step
            yield tiles

    def _chunks(self, tiles: IntArray) -> Iterator[IntArray]:
        """Yield so many tiles at a time."""
        for first in range(0, len(tiles), CHUNK):
            if self._stop():
                raise Stopped
            yield tiles[first : first + CHUNK]

    def _rooms(self, grid: Grid, mask: KeepMask, places: IntArray) -> IntArray:
        """Words that tiles take of the buffer."""
        extents, views = grid.extents(places), self._space.views
        none = np.zeros(len(places), dtype=np.int64)
        return sum((self._sizes[v] * box_words(views[v], extents) for v in mask[BUFFER]), none)

    def _steps(self, grid: Grid, mask: KeepMask, places: IntArray) -> Steps:
        return Steps(grid, {v: self._rates[v] for v in sorted(mask[BUFFER])}, places)

    def _traffic(self, grid: Grid, mask: KeepMask, places: IntArray) -> IntArray:
        """Traffic of what the buffer keeps, in the best order of the loops around each tile."""
        *_, (traffic, _) = least_costs(self._steps(grid, mask, places), len(grid.shape), self._stop)
        return traffic

    @cached_property
    def _rates(self) -> list[Rate]:
        """What words between the memory and the buffer cost, by dataspace."""
        everything = frozenset(range(len(self._space.views)))
        charges = Charges(self._space, (everything, everything))
        found = []
        for view in self._space.views:
            own = [c for c in charges.of(view.place) if (c.boundary, c.level) == (BUFFER, MEMORY)]
            found.append(Rate(int(sum(c.exact for c in own)), int(sum(c.exact * int(c.free) for c in own))))
        return found

    def _sums_of(self, place: int, number: int) -> Sums:
        dims = self._words.dims_by_group(place)[number]
        coefficient = self._coefficient_alone(place, dims)
        if coefficient is not None:
            return sums_apart(dims[0], coefficient, int(self._bounds[dims[0]]), self._sides[dims[0]])
        sides, kinds = [self._sides[d] for d in dims], list(kinds_of(dims))
        rows: list[list[int]] = []
        for extents in product(*(side.tolist() for side in sides)):
            if self._stop():
                raise Stopped
            rows.append(self._row(place, number, dict(zip(dims, extents, strict=True)), kinds))
        shape = tuple(map(len, sides))
        visits, touched, *others = np.array(rows, dtype=np.int64).T.reshape(-1, *shape)
        staying = dict(zip(kinds, others[: len(kinds)], strict=True))
        fresh = dict(zip(dims, others[len(kinds) :], strict=True))
        is_indexed = dims[0] in self._space.views[place].relevant
        return Sums(dims, is_indexed, visits, touched, touched, staying, fresh)

    def _coefficient_alone(self, place: int, dims: Sequence[int]) -> int | None:
        """The coefficient of a dimension in its only rank, 0 without one; None where others share it."""
        if len(dims) > 1:
            return None
        name = self._space.active[dims[0]]
        ranks = self._design.problem.dataspaces[place].ranks
        own = [term.coefficient for rank in ranks for term in rank if term.dim == name]
        return abs(sum(own)) if len(own) <= 1 else None

    def _row(self, place: int, number: int, extents: dict[int, int], kinds: Sequence[Kind]) -> list[int]:
        """Sums of one group with tiles of these extents along its dimensions."""
        lines = [self._line(d, extents.get(d, int(bound))) for d, bound in enumerate(self._bounds)]
        profile = self._words.profiles(place, MEMORY, BUFFER, lines)[number]
        several = [lines[d].temporal[MEMORY] > 1 for d in profile.dims]
        staying, fresh = list[int](), dict[int, int]()
        for inside, dim in kinds:
            counts = tuple(int(own and loops) for own, loops in zip(inside, several, strict=True))
            advances = dim is None or lines[dim].temporal[MEMORY] > 1
            words, kept = profile.sums((counts, dim)) if advances else (0, 0)
            staying.append(kept)
            if dim is not None and not any(inside):
                fresh[dim] = words - kept
        return [profile.sums(None)[0], profile.touched(), *staying, *(fresh[d] for d in profile.dims)]

    def _line(self, dim: int, extent: int) -> DimLoops:
        return self._lines.line(dim, (-(-int(self._bounds[dim]) // extent), extent), ())

    def _passing(self, mask: KeepMask) -> int:
        """Traffic of what the buffer does not keep: the cost model says how much."""
        whole = np.array([self._single.shape], dtype=np.int64) - 1
        cost = evaluate_in(self._space.mapspace, self._mapping(mask, whole[0], ())).energy
        return cost - int(self._steps(self._single, mask, whole).visits[0])

    def _points(self, masks: Sequence[KeepMask], front: _Front) -> Iterator[list[Point]]:
        """Yield the points of a front, of which those under one keep mask follow each other."""
        changes = np.flatnonzero(np.diff(front.rows[:, 2])) + 1
        for rows in np.split(front.rows, changes):
            mask, places = masks[int(rows[0, 2])], self._single.places(rows[:, 3])
            costs_to = least_costs(
                self._steps(self._single, mask, places), len(self._single.shape), self._stop
            )
            outermost = np.stack([own for _, own in costs_to])
            found = enumerate(rows[:, :2].tolist())
            yield [self._point(mask, places[n], outermost[:, n], *costs) for n, costs in found]

    def _point(self, mask: KeepMask, places: IntArray, outermost: IntArray, room: int, traffic: int) -> Point:
        """A point whose loops follow from the outermost one of each set; the cost model must agree."""
        if self._stop():
            raise Stopped
        order, left = [], len(outermost) - 1
        while left:
            order.append(int(outermost[left]))
            left ^= 1 << order[-1]
        mapping = self._mapping(mask, places, order[::-1])
        found = evaluate_in(self._space.mapspace, mapping)
        if found.energy != traffic:
            raise ContradictionError(f"the cost model counts {found.energy:,} words, the curve {traffic:,}")
        return Point(room, traffic, mapping)

    def _mapping(self, mask: KeepMask, places: IntArray, order: Sequence[int]) -> Mapping:
        """The mapping with these tiles and this order of loops around them, innermost first."""
        names = [space.name for space in self._design.problem.dataspaces]
        rows = places[np.newaxis]
        numbers, extents = self._single.counts(rows)[0], self._single.extents(rows)[0]
        dims = self._space.active
        outer = tuple(Loop(dims[d], int(numbers[d])) for d in order if numbers[d] > 1)
        inner = tuple(Loop(dims[d], int(extents[d])) for d in range(len(dims)))
        return Mapping(
            tuple(
                StorageMapping(loops, frozenset(names[v] for v in kept))
                for loops, kept in zip((outer, inner), mask, strict=True)
            )
        )


def _is_alone(problem: Problem, dim: str) -> bool:
    """Whether a dimension has ranks of its own only, one of a dataspace at most."""
    for space in problem.dataspaces:
        ranks = [rank for rank in space.ranks if any(term.dim == dim for term in rank)]
        others = (term.dim for rank in ranks for term in rank if term.dim != dim)
        if len(ranks) > 1 or any(problem.bound[other] > 1 for other in others):
            return False
    return True


def _octaves(rooms: IntArray) -> IntArray:
    """Sizes of tiles, by factors of the square root of two."""
    octaves: IntArray = np.floor(2 * np.log2(np.maximum(rooms, 1))).astype(np.int64)
    return octaves


def _product(factors: Sequence[IntArray], rows: int) -> IntArray:
    """Return the product of arrays of so many rows."""
    return math.prod(factors, start=np.ones(rows, dtype=np.int64))
