"""All tiles of a problem as a grid with an axis per dimension, and the words of its dataspaces in each."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from model.problem import Dataspace, Problem
from solver.search.path.axes import Axis

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

ONE = frozenset((1,))
"""The factors of loops that there are not."""

Vector = tuple[int, ...]
"""A number per active dimension."""


@dataclass(frozen=True)
class TileGrid:
    """Tiles whose extents divide the bounds; arrays over them have shape (size,), the last axis fastest.

    Parameters
    ----------
    problem
        Its tiles.
    axes
        One per active dimension: tiles are in the order of its numbers.
    """

    problem: Problem
    axes: tuple[Axis, ...]

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
        """Extents along each axis."""
        return tuple(tuple((axis.bound // axis.numbers).tolist()) for axis in self.axes)

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

    def places(self, numbers: IntArray) -> IntArray:
        """Places in arrays of numbers of tiles, shape (rows, dimensions)."""
        places = np.zeros(len(numbers), dtype=np.int64)
        for d, (axis, stride) in enumerate(zip(self.axes, self.strides, strict=True)):
            places += axis.place(numbers[:, d]) * stride
        return places

    def place(self, tile: Vector) -> int:
        """Place of a tile in arrays."""
        pairs = zip(self._places, tile, self.strides, strict=True)
        return sum(places[extent] * stride for places, extent, stride in pairs)


def _products(rows: IntArray) -> FloatArray:
    products: FloatArray = rows.astype(np.float64).prod(axis=1)
    return products


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
    def simple(self) -> bool:
        """Whether tiles are a partition: each rank is a dimension of its own, without strides."""
        ranks = [[t for t in rank if self.grid.problem.bound[t.dim] > 1] for rank in self.space.ranks]
        if any(len(rank) > 1 or any(abs(term.coefficient) != 1 for term in rank) for rank in ranks):
            return False
        used = [term.dim for rank in ranks for term in rank]
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


def _shapes(ranks: IntArray) -> tuple[IntArray, IntArray]:
    """All different rows, and which one every row is."""
    shapes, kinds = np.unique(ranks, axis=0, return_inverse=True)
    return shapes, kinds.reshape(-1)


def _figures(shapes: tuple[IntArray, IntArray], figure: Callable[[Vector], float]) -> FloatArray:
    rows, kinds = shapes
    return np.array([figure(tuple(own)) for own in rows.tolist()], dtype=np.float64)[kinds]
