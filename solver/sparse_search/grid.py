"""All tiles of a problem as a grid with an axis per dimension, and the steps that loops make on it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from model.mapspace import FactorRule
from model.numbers import divisors
from model.problem import Dataspace, Problem

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

ONE = frozenset((1,))
"""The factors of loops that there are not."""

Vector = tuple[int, ...]
"""A number per active dimension."""


@dataclass(frozen=True)
class TileGrid:
    """Tiles whose extents divide the bounds; arrays over them have shape (size,), the last axis fastest."""

    problem: Problem

    @cached_property
    def dims(self) -> tuple[str, ...]:
        """Dimensions with a bound above 1, the active ones."""
        return tuple(dim for dim in self.problem.dims if self.problem.bound[dim] > 1)

    @cached_property
    def bounds(self) -> Vector:
        """Their bounds."""
        return tuple(self.problem.bound[dim] for dim in self.dims)

    @cached_property
    def divisors(self) -> tuple[tuple[int, ...], ...]:
        """Extents along each axis, ascending."""
        return tuple(tuple(divisors(bound)) for bound in self.bounds)

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """Number of extents along each axis."""
        return tuple(map(len, self.divisors))

    @property
    def size(self) -> int:
        """Number of tiles."""
        return math.prod(self.shape)

    @cached_property
    def strides(self) -> Vector:
        """By how much the place of a tile grows from one extent to the next, axis by axis."""
        return tuple(math.prod(self.shape[axis + 1 :]) for axis in range(len(self.shape)))

    @cached_property
    def extents(self) -> IntArray:
        """Extents of all tiles, shape (size, dimensions)."""
        axes = [np.array(own, dtype=np.int64) for own in self.divisors]
        if not axes:
            return np.empty((1, 0), dtype=np.int64)
        return np.stack([axis.ravel() for axis in np.meshgrid(*axes, indexing="ij")], axis=1)

    @cached_property
    def _places(self) -> tuple[dict[int, int], ...]:
        return tuple({extent: place for place, extent in enumerate(own)} for own in self.divisors)

    def place(self, tile: Vector) -> int:
        """Place of a tile in arrays."""
        pairs = zip(self._places, tile, self.strides, strict=True)
        return sum(places[extent] * stride for places, extent, stride in pairs)

    def tile(self, place: int) -> Vector:
        """Tile at a place in arrays."""
        return tuple(self.extents[place].tolist())

    def allowed(self, rules: Sequence[FactorRule]) -> tuple[frozenset[int], ...]:
        """Factors that rules leave to each active dimension."""
        return tuple(
            frozenset(
                factor for factor in own if all(rule.allows(factor) for rule in rules if rule.dim == dim)
            )
            for dim, own in zip(self.dims, self.divisors, strict=True)
        )

    def outwards(self, values: FloatArray, unrolled: Vector, allowed: Sequence[frozenset[int]]) -> FloatArray:
        """Least value inside of each tile: over the tiles that spatial and temporal loops make it of.

        Parameters
        ----------
        values
            Of the tiles inside, infinite where there is none.
        unrolled
            Spatial factors.
        allowed
            Temporal factors, by dimension.
        """
        return self._moved(values, unrolled, allowed, self._steps)

    def inwards(self, values: FloatArray, unrolled: Vector, allowed: Sequence[frozenset[int]]) -> FloatArray:
        """Least value outside of each tile: over the tiles that loops make of it; parameters as above."""
        return self._moved(values, unrolled, allowed, self._steps_back)

    def _moved(
        self,
        values: FloatArray,
        unrolled: Vector,
        allowed: Sequence[frozenset[int]],
        steps: Callable[[int, int, frozenset[int]], tuple[list[int], ...]],
    ) -> FloatArray:
        """Least value over the places that each one is reached from, axis by axis."""
        table = values.reshape(self.shape)
        kept = _live(np.isfinite(table))
        if not all(kept):
            return np.full(self.size, np.inf)
        table = table[np.ix_(*kept)]
        for axis, (factor, temporal) in enumerate(zip(unrolled, allowed, strict=True)):
            if factor == 1 and temporal == ONE:
                continue
            places = {place: n for n, place in enumerate(kept[axis])}
            rows = [
                [places[place] for place in row if place in places] for row in steps(axis, factor, temporal)
            ]
            reached = [place for place, row in enumerate(rows) if row]
            moved = np.moveaxis(table, axis, 0)
            stacked = np.full((len(reached), *moved.shape[1:]), np.inf)
            for n, place in enumerate(reached):
                row = rows[place]
                stacked[n] = moved[row[0]] if len(row) == 1 else moved[row].min(axis=0)
            table, kept[axis] = np.moveaxis(stacked, 0, axis), reached
        found = np.full(self.shape, np.inf)
        found[np.ix_(*kept)] = table
        return found.reshape(-1)

    def _steps_back(self, axis: int, unrolled: int, allowed: frozenset[int]) -> tuple[list[int], ...]:
        """Per extent along an axis, places of those that loops make of it."""
        key = axis, unrolled, allowed
        if key not in self._known_steps_back:
            back: tuple[list[int], ...] = tuple([] for _ in self.divisors[axis])
            steps = enumerate(self._steps(axis, unrolled, allowed))
            for outer, inner in ((outer, inner) for outer, row in steps for inner in row):
                back[inner].append(outer)
            self._known_steps_back[key] = back
        return self._known_steps_back[key]

    @cached_property
    def _known_steps_back(self) -> dict[tuple[int, int, frozenset[int]], tuple[list[int], ...]]:
        return {}

    def _steps(self, axis: int, unrolled: int, allowed: frozenset[int]) -> tuple[list[int], ...]:
        """Per extent along an axis, places of those that loops make it of."""
        key = axis, unrolled, allowed
        if key not in self._known_steps:
            self._known_steps[key] = tuple(
                [
                    place
                    for place, inner in enumerate(self.divisors[axis])
                    if extent % (inner * unrolled) == 0 and extent // (inner * unrolled) in allowed
                ]
                for extent in self.divisors[axis]
            )
        return self._known_steps[key]

    @cached_property
    def _known_steps(self) -> dict[tuple[int, int, frozenset[int]], tuple[list[int], ...]]:
        return {}

    def inside(self, tile: Vector, unrolled: Vector, allowed: Sequence[frozenset[int]]) -> IntArray:
        """Places of all tiles that loops make `tile` of."""
        places = np.zeros(1, dtype=np.int64)
        for axis, extent in enumerate(tile):
            steps = self._steps(axis, unrolled[axis], allowed[axis])
            own = steps[self._places[axis][extent]]
            along = np.array(own, dtype=np.int64) * self.strides[axis]
            places = (places[:, None] + along[None, :]).ravel()
        return places


def _products(rows: IntArray) -> FloatArray:
    products: FloatArray = rows.astype(np.float64).prod(axis=1)
    return products


def _live(finite: BoolArray) -> list[list[int]]:
    """Per axis, the places at which anything is."""
    axes = range(finite.ndim)
    along = (finite.any(axis=tuple(a for a in axes if a != axis)) for axis in axes)
    return [np.flatnonzero(own).tolist() for own in along]


@dataclass(frozen=True)
class TensorGrid:
    """The tiles of one dataspace, each of which stands for many tiles of the problem.

    Parameters
    ----------
    grid
        All tiles.
    space
        The dataspace.
    """

    grid: TileGrid
    space: Dataspace

    @cached_property
    def axes(self) -> tuple[int, ...]:
        """Active dimensions that index it."""
        return tuple(axis for axis, dim in enumerate(self.grid.dims) if dim in self.space.dims)

    @cached_property
    def others(self) -> tuple[int, ...]:
        """Active dimensions that do not."""
        return tuple(axis for axis in range(len(self.grid.dims)) if axis not in self.axes)

    @cached_property
    def simple(self) -> bool:
        """Whether tiles are a partition: each rank is a dimension of its own, without strides."""
        ranks = [[t for t in rank if self.grid.problem.bound[t.dim] > 1] for rank in self.space.ranks]
        if any(len(rank) > 1 or any(abs(term.coefficient) != 1 for term in rank) for rank in ranks):
            return False
        used = [term.dim for rank in ranks for term in rank]
        return len(used) == len(set(used))

    @cached_property
    def separate(self) -> bool:
        """Whether no dimension indexes two ranks."""
        used = [term.dim for rank in self.space.ranks for term in rank]
        return len(used) == len(set(used))

    @cached_property
    def ranks(self) -> IntArray:
        """Extents per rank of every tile, shape (size, ranks)."""
        return self.ranks_of(self.grid.extents)

    def ranks_of(self, iterations: IntArray) -> IntArray:
        """Extents per rank of what some iterations touch, each row a number per active dimension."""
        extents = dict(zip(self.grid.dims, iterations.T, strict=True))
        one = np.ones(len(iterations), dtype=np.int64)
        columns = [
            one + sum((abs(t.coefficient) * (extents[t.dim] - 1) for t in rank if t.dim in extents), 0 * one)
            for rank in self.space.ranks
        ]
        return np.stack(columns, axis=1) if columns else np.empty((len(one), 0), dtype=np.int64)

    @cached_property
    def moving(self) -> FloatArray:
        """Iterations of every tile over the dimensions that index the dataspace."""
        return _products(self.grid.extents[:, list(self.axes)])

    @cached_property
    def still(self) -> FloatArray:
        """Iterations of every tile over the others."""
        return _products(self.grid.extents[:, list(self.others)])

    @cached_property
    def words(self) -> FloatArray:
        """Words of every tile."""
        return _products(self.ranks)

    @cached_property
    def covered(self) -> FloatArray:
        """Words of all tiles of a kind, overlaps included, per word of the tensor."""
        times = np.array(self.grid.bounds, dtype=np.int64) // self.grid.extents
        return _products(self.ranks_of(times)) * self.words / float(self.words[-1])

    def table(self, figure: Callable[[Vector], float]) -> FloatArray:
        """A figure of every tile, computed once for each shape of the dataspace's part of it."""
        return _figures(self._different, figure)

    @cached_property
    def _different(self) -> tuple[IntArray, IntArray]:
        return _shapes(self.ranks)

    def table_around(
        self, figure: Callable[[Vector], float], factors: Vector, single: Sequence[int]
    ) -> FloatArray:
        """The figure of what the iterations of every tile touch, times some factors, within the problem.

        Along the axes of `single` tiles count as one iteration.
        """
        iterations = self.grid.extents.copy()
        iterations[:, list(single)] = 1
        most = np.array(self.grid.bounds, dtype=np.int64)
        iterations = np.minimum(iterations * np.array(factors, dtype=np.int64), most)
        return _figures(_shapes(self.ranks_of(iterations)), figure)


def _shapes(ranks: IntArray) -> tuple[IntArray, IntArray]:
    """All different rows, and which one every row is."""
    shapes, kinds = np.unique(ranks, axis=0, return_inverse=True)
    return shapes, kinds.reshape(-1)


def _figures(shapes: tuple[IntArray, IntArray], figure: Callable[[Vector], float]) -> FloatArray:
    rows, kinds = shapes
    return np.array([figure(tuple(own)) for own in rows.tolist()], dtype=np.float64)[kinds]
