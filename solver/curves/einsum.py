"""The curve of one Einsum: the least traffic for every capacity at once.

Every mapping onto a memory and a buffer is a tile, an order of the loops around it, and the dataspaces that
the buffer keeps. What a loop brings when it advances depends on which loops lie inside of it, and not on
their order. So the best order for a tile is a shortest path: nodes are the sets of loops that lie inside
already, a step adds one loop and costs the words that it brings. All tiles go through it together, as arrays.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from itertools import chain, product
from typing import NamedTuple

import numpy as np

from model.cost import evaluate_in
from model.cost.batch.counts import most_words
from model.mapping import Loop, Mapping, StorageMapping
from model.problem import Dataspace
from solver.curves.design import BUFFER, MEMORY, Design
from solver.result import ContradictionError, TooLargeError
from solver.search.arrays import BoolArray, IntArray
from solver.search.path.charges import Charges
from solver.search.path.words import DimLoops, ExecutedWords, Lines
from solver.search.space.dataspaces import bounding_box
from solver.search.space.keep_masks import KeepMask
from solver.search.space.search_space import SearchSpace
from solver.search.stopping import Stop, Stopped, never

CHUNK = 1 << 13
"""Tiles that go through the orders together."""

LARGEST = 1 << 62
"""Words up to which 64 bits hold the traffic."""

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


Kind = tuple[tuple[bool, ...], int | None]
"""When words of a group come: which of its loops lie inside of the one that advances, and which that is."""


class _Sums(NamedTuple):
    """Words of one group of a dataspace's dimensions, by numbers of tiles along these, as flat tables.

    Parameters
    ----------
    dims, is_indexed, shape
        The dimensions, whether they index the dataspace, and the numbers of tiles along each.
    start, visits, touched
        Words of the first tile, of all tiles whenever a loop advances, and distinct ones.
    steps
        By kind: words of the tiles whenever a loop advances, and those of them that are there already.
    """

    dims: tuple[int, ...]
    is_indexed: bool
    shape: tuple[int, ...]
    start: IntArray
    visits: IntArray
    touched: IntArray
    steps: dict[Kind, tuple[IntArray, IntArray]]

    def entries(self, places: IntArray) -> IntArray:
        """Where some tiles are in the tables, given their places along all dimensions."""
        found: IntArray = np.ravel_multi_index(tuple(places[:, d] for d in self.dims), self.shape)
        return found


_Groups = Sequence[tuple[_Sums, IntArray]]
"""The groups of a dataspace, and where some tiles are in their tables."""


class _Rate(NamedTuple):
    """What words of a dataspace cost: each that is brought, less so much for each that is new."""

    brought: int
    first: int


class _Steps:
    """What loops bring under one keep mask, for some tiles.

    Parameters
    ----------
    rates, sums
        Of the dataspaces that the buffer keeps.
    places, several
        Of the tiles, shape (tiles, dimensions), and where there are several along a dimension.
    """

    def __init__(
        self,
        rates: Sequence[_Rate],
        sums: Sequence[Sequence[_Sums]],
        places: IntArray,
        several: BoolArray,
    ) -> None:
        self._rates, self._several, self._rows = rates, several, len(places)
        self._sums = [[(own, own.entries(places)) for own in groups] for groups in sums]

    @property
    def begun(self) -> IntArray:
        """Cost of the first tiles, without what is new."""
        total = np.zeros(self._rows, dtype=np.int64)
        for rate, groups in zip(self._rates, self._sums, strict=True):
            start = _product(own.start[rows] for own, rows in groups)
            touched = _product(own.touched[rows] for own, rows in groups)
            total += rate.brought * start - rate.first * touched
        return total

    @property
    def floors(self) -> IntArray:
        """Cost in any order, at least.

        Of a dataspace that the innermost loop moves, and that has no window along it, all tiles come anew in
        every step; of others what this loop brings, and each word once.
        """
        least = np.full(self._rows, LARGEST)
        least[~self._several.any(axis=1)] = 0
        for dim in range(self._several.shape[1]):
            total = np.zeros(self._rows, dtype=np.int64)
            for rate, groups in zip(self._rates, self._sums, strict=True):
                touched = _product(own.touched[rows] for own, rows in groups)
                total += rate.brought * self._fewest(groups, dim, touched) - rate.first * touched
            least = np.where(self._several[:, dim], np.minimum(least, total), least)
        return least

    def _fewest(self, groups: _Groups, dim: int, touched: IntArray) -> IntArray:
        """Words of a dataspace with this loop innermost, at least."""
        if any(own.dims == (dim,) and own.is_indexed for own, _ in groups):
            return _product(own.visits[rows] for own, rows in groups)
        start = _product(own.start[rows] for own, rows in groups)
        fewest: IntArray = np.maximum(touched, start + self._fresh(groups, frozenset(), dim))
        return fewest

    def brought(self, inside: frozenset[int], dim: int) -> IntArray:
        """Cost of what comes whenever the loop over a dimension advances, with some loops inside of it."""
        total = np.zeros(self._rows, dtype=np.int64)
        for rate, groups in zip(self._rates, self._sums, strict=True):
            total += rate.brought * self._fresh(groups, inside, dim)
        return total * self._several[:, dim]

    @staticmethod
    def _fresh(groups: _Groups, inside: frozenset[int], dim: int) -> IntArray:
        """Words of one dataspace that come then."""
        kinds = (
            (tuple(d in inside for d in own.dims), dim if dim in own.dims else None) for own, _ in groups
        )
        tables = [(own.steps[kind], rows) for (own, rows), kind in zip(groups, kinds, strict=True)]
        words = _product(every[rows] for (every, _), rows in tables)
        return words - _product(kept[rows] for (_, kept), rows in tables)


def _product(factors: Iterable[IntArray]) -> IntArray:
    """Return the product of arrays, of ones if there are none."""
    return reduce(np.multiply, factors, np.ones(1, dtype=np.int64))


def _least(steps: _Steps, dims: int, stop: Stop) -> Iterator[tuple[IntArray, IntArray]]:
    """Yield the least cost with each set of loops inside, and which of them is its outermost one.

    Sets are numbers whose bits are dimensions, in ascending order: the last one has all loops.
    """
    known: list[IntArray] = [steps.begun]
    yield known[0], np.zeros(len(known[0]), dtype=np.int64)
    for chosen in range(1, 1 << dims):
        if stop():
            raise Stopped
        members = [d for d in range(dims) if chosen >> d & 1]
        every = np.stack(
            [known[chosen ^ 1 << d] + steps.brought(frozenset(members) - {d}, d) for d in members]
        )
        outermost = every.argmin(axis=0)
        known.append(np.take_along_axis(every, outermost[np.newaxis], axis=0)[0])
        yield known[-1], np.array(members)[outermost]


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
        if math.prod(self._shape) > MOST_TILES:
            raise TooLargeError(
                f"{problem.name} has {math.prod(self._shape):,} tiles; at most {MOST_TILES:,} are tried"
            )

    @cached_property
    def _sides(self) -> tuple[IntArray, ...]:
        """By dimension, the extents of tiles that are tried, ascending."""
        return tuple(map(self._sides_along, range(len(self._space.active))))

    def _sides_along(self, dim: int) -> IntArray:
        """The least of all extents that have as many tiles, or every one where it may matter which.

        Where tiles have holes, because another dimension moves them by several words, a last tile of a few
        iterations may save words that tiles of equal extents do not.
        """
        name = self._space.active[dim]
        allowed = self._design.mapspace.extents(name)
        matters = any(_meets_holes(space, name) for space in self._design.problem.dataspaces)
        return np.array(allowed.values if matters else allowed.least_factors(1), dtype=np.int64)

    @cached_property
    def _bounds(self) -> IntArray:
        return np.array([self._design.problem.bound[dim] for dim in self._space.active], dtype=np.int64)

    @cached_property
    def _shape(self) -> tuple[int, ...]:
        return tuple(map(len, self._sides))

    def curve(self) -> Curve:
        """The curve, of all keep masks."""
        masks = sorted(self._space.keep_masks, key=lambda mask: -len(mask[BUFFER]))
        front = _Front()
        for number, mask in enumerate(masks):
            self._add(front, number, mask)
        return Curve(self._design, tuple(chain.from_iterable(self._points(masks, front))))

    def _add(self, front: _Front, number: int, mask: KeepMask) -> None:
        """Add the tiles under a keep mask."""
        kept = sorted(mask[BUFFER])
        passing = self._passing(mask)
        size, most = math.prod(self._shape), front.most_room(passing)
        rooms, floors = np.empty(size, dtype=np.int64), np.empty(size, dtype=np.int64)
        for chunk in self._chunks(np.arange(size)):
            places = self._places(chunk)
            rooms[chunk], floors[chunk] = self._rooms(places, kept), self._steps(mask, places).floors
        left = np.flatnonzero(rooms < most)
        left = left[np.lexsort((floors[left], _octaves(rooms[left])))]
        while len(left):
            # The most promising tiles of every size first: they leave little of the others.
            octaves = _octaves(rooms[left])
            ranks = np.arange(len(left)) - np.searchsorted(octaves, octaves)
            for chunk in self._chunks(left[ranks < PROMISING]):
                *_, (traffic, _) = _least(
                    self._steps(mask, self._places(chunk)), len(self._shape), self._stop
                )
                front.add(rooms[chunk], traffic + passing, number, chunk)
            left = left[ranks >= PROMISING]
            left = left[floors[left] + passing < front.least(rooms[left])]

    def _chunks(self, tiles: IntArray) -> Iterator[IntArray]:
        """Yield so many tiles at a time."""
        for first in range(0, len(tiles), CHUNK):
            if self._stop():
                raise Stopped
            yield tiles[first : first + CHUNK]

    def _places(self, tiles: IntArray) -> IntArray:
        """Places of some tiles along all dimensions, shape (tiles, dimensions)."""
        if not self._shape:
            return np.zeros((len(tiles), 0), dtype=np.int64)
        return np.stack(np.unravel_index(tiles, self._shape), axis=1)

    def _extents(self, places: IntArray) -> IntArray:
        """Of some tiles, shape (tiles, dimensions)."""
        columns = [side[places[:, d]] for d, side in enumerate(self._sides)]
        return np.stack(columns, axis=1) if columns else places

    def _numbers(self, places: IntArray) -> IntArray:
        """Of tiles along each dimension."""
        return -(-self._bounds // self._extents(places))

    def _rooms(self, places: IntArray, kept: Sequence[int]) -> IntArray:
        extents, views = self._extents(places), self._space.views
        none = np.zeros(len(places), dtype=np.int64)
        return sum((self._sizes[v] * bounding_box(views[v], extents) for v in kept), none)

    def _steps(self, mask: KeepMask, places: IntArray) -> _Steps:
        kept = sorted(mask[BUFFER])
        rates = [self._rates[v] for v in kept]
        return _Steps(rates, [self._sums[v] for v in kept], places, self._numbers(places) > 1)

    @cached_property
    def _rates(self) -> list[_Rate]:
        """What words between the memory and the buffer cost, by dataspace."""
        everything = frozenset(range(len(self._space.views)))
        charges = Charges(self._space, (everything, everything))
        found = []
        for view in self._space.views:
            own = [c for c in charges.of(view.place) if (c.boundary, c.level) == (BUFFER, MEMORY)]
            found.append(_Rate(int(sum(c.exact for c in own)), int(sum(c.exact * int(c.free) for c in own))))
        return found

    @cached_property
    def _sums(self) -> list[list[_Sums]]:
        """Of all groups, by dataspace."""
        every = range(len(self._space.views))
        return [
            [self._sums_of(v, number) for number in range(len(self._words.dims_by_group(v)))] for v in every
        ]

    def _sums_of(self, place: int, number: int) -> _Sums:
        dims = self._words.dims_by_group(place)[number]
        shape = tuple(self._shape[d] for d in dims)
        kinds = list(_kinds(dims))
        columns: list[list[int]] = []
        for places in product(*map(range, shape)):
            if self._stop():
                raise Stopped
            own = {d: int(self._sides[d][p]) for d, p in zip(dims, places, strict=True)}
            columns.append(self._row(place, number, own, kinds))
        table = np.array(columns, dtype=np.int64).T
        steps = {kind: (table[2 * n + 3], table[2 * n + 4]) for n, kind in enumerate(kinds)}
        is_indexed = dims[0] in self._space.views[place].relevant
        return _Sums(dims, is_indexed, shape, table[0], table[1], table[2], steps)

    def _row(self, place: int, number: int, extents: dict[int, int], kinds: Sequence[Kind]) -> list[int]:
        """Sums of one group with tiles of these extents along its dimensions."""
        lines = [self._line(d, extents.get(d, int(bound))) for d, bound in enumerate(self._bounds)]
        profile = self._words.profiles(place, MEMORY, BUFFER, lines)[number]
        row = [profile.sums("start")[0], profile.sums(None)[0], profile.touched()]
        several = [lines[d].temporal[MEMORY] > 1 for d in profile.dims]
        for inside, dim in kinds:
            if dim is not None and lines[dim].temporal[MEMORY] == 1:
                row += [0, 0]
                continue
            counts = tuple(int(own and loops) for own, loops in zip(inside, several, strict=True))
            row += profile.sums((counts, dim))
        return row

    def _line(self, dim: int, extent: int) -> DimLoops:
        return self._lines.line(dim, (-(-int(self._bounds[dim]) // extent), extent), ())

    def _passing(self, mask: KeepMask) -> int:
        """Traffic of what the buffer does not keep: the cost model says how much."""
        whole = np.array([self._shape], dtype=np.int64) - 1
        cost = evaluate_in(self._space.mapspace, self._mapping(mask, whole[0], ())).energy
        return cost - int(self._steps(mask, whole).begun[0])

    def _points(self, masks: Sequence[KeepMask], front: _Front) -> Iterator[list[Point]]:
        """Yield the points of a front, of which those under one keep mask follow each other."""
        changes = np.flatnonzero(np.diff(front.rows[:, 2])) + 1
        for rows in np.split(front.rows, changes):
            mask, places = masks[int(rows[0, 2])], self._places(rows[:, 3])
            steps = self._steps(mask, places)
            outermost = np.stack([own for _, own in _least(steps, len(self._shape), self._stop)])
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
        numbers, extents = self._numbers(places[np.newaxis])[0], self._extents(places[np.newaxis])[0]
        dims = self._space.active
        outer = tuple(Loop(dims[d], int(numbers[d])) for d in order if numbers[d] > 1)
        inner = tuple(Loop(dims[d], int(extents[d])) for d in range(len(dims)))
        return Mapping(
            tuple(
                StorageMapping(loops, frozenset(names[v] for v in kept))
                for loops, kept in zip((outer, inner), mask, strict=True)
            )
        )


def _meets_holes(space: Dataspace, dim: str) -> bool:
    """Whether another dimension moves a dataspace by several words along a rank of this one."""
    together = (rank for rank in space.ranks if any(term.dim == dim for term in rank))
    others = (term for rank in together for term in rank if term.dim != dim)
    return any(abs(term.coefficient) > 1 for term in others)


def _octaves(rooms: IntArray) -> IntArray:
    """Sizes of tiles, by factors of the square root of two."""
    octaves: IntArray = np.floor(2 * np.log2(np.maximum(rooms, 1))).astype(np.int64)
    return octaves


def _kinds(dims: Sequence[int]) -> Iterator[Kind]:
    """All kinds of a group: the loop that advances is no loop inside of itself."""
    for inside in product((False, True), repeat=len(dims)):
        for dim in (None, *(d for own, d in zip(inside, dims, strict=True) if not own)):
            yield inside, dim
