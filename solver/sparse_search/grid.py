"""All tiles of a problem as a grid with an axis per dimension, and the words of its dataspaces in each.

Tables over the grid have an axis per dimension, of length 1 along those that do not matter. With remainders a
number of tiles stands for several extents, a cell of the grid: figures of a cell hold for all of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce

import numpy as np

from model.problem import Dataspace, Problem
from solver.search.arrays import FloatArray, IntArray
from solver.search.path.axes import TileAxis

ONE = frozenset((1,))
"""The factors of loops that there are not."""

Vector = tuple[int, ...]
"""A number per active dimension."""

Columns = tuple[IntArray, ...]
"""A number per active dimension, of many tiles: arrays that go together."""


@dataclass(frozen=True, eq=False)
class Cells:
    """Some tiles, known by their numbers: along each dimension they have the least extents, or larger ones.

    Parameters
    ----------
    numbers
        Of tiles along each dimension.
    least, longest
        Their extents.
    """

    numbers: Columns
    least: Columns
    longest: Columns

    @classmethod
    def exactly(cls, numbers: Vector, extents: Vector) -> Cells:
        """One tile whose extents are known."""
        own = tuple(np.array([extent], dtype=np.int64) for extent in extents)
        return cls(tuple(np.array([number], dtype=np.int64) for number in numbers), own, own)

    def at(self, rows: IntArray, axes: Iterable[int]) -> Cells:
        """Some of the tiles, as far as some dimensions go; of others the first ones stand for all."""
        kept = set(axes)

        def only(columns: Columns) -> Columns:
            return tuple(
                own[rows] if d in kept and len(own) > 1 else own[:1] for d, own in enumerate(columns)
            )

        return Cells(only(self.numbers), only(self.least), only(self.longest))


@dataclass(frozen=True)
class TileGrid:
    """Tiles of all numbers along each dimension.

    Parameters
    ----------
    problem
        Its tiles.
    axes
        One per active dimension: tiles are in the order of its numbers.
    """

    problem: Problem
    axes: tuple[TileAxis, ...]

    @cached_property
    def dims(self) -> tuple[str, ...]:
        """Dimensions with a bound above 1, the active ones."""
        return tuple(dim for dim in self.problem.dims if self.problem.bound[dim] > 1)

    @cached_property
    def bounds(self) -> Vector:
        """Their bounds."""
        return tuple(self.problem.bound[dim] for dim in self.dims)

    @cached_property
    def divides(self) -> bool:
        """Whether all extents divide the bounds."""
        return all(axis.divides for axis in self.axes)

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """Number of extents along each axis."""
        return tuple(len(axis.numbers) for axis in self.axes)

    def columns(self, values: Sequence[IntArray]) -> Columns:
        """Values along each axis, as tables."""
        axes = range(len(self.axes))
        return tuple(
            own.reshape([-1 if e == d else 1 for e in axes]) for d, own in zip(axes, values, strict=True)
        )

    @cached_property
    def every(self) -> Cells:
        """All cells, as tables."""
        figures = zip(*((axis.numbers, axis.least, axis.longest) for axis in self.axes), strict=True)
        return Cells(*map(self.columns, figures)) if self.axes else Cells((), (), ())

    def cells(self, numbers: IntArray) -> Cells:
        """Cells of some numbers of tiles, shape (rows, dimensions)."""
        places = self.places(numbers)
        least = tuple(axis.least[own] for axis, own in zip(self.axes, places, strict=True))
        longest = tuple(axis.longest[own] for axis, own in zip(self.axes, places, strict=True))
        return Cells(tuple(numbers.T), least, longest)

    def places(self, numbers: IntArray) -> Columns:
        """Places along each axis of numbers of tiles, shape (rows, dimensions)."""
        return tuple(axis.place(numbers[:, d]) for d, axis in enumerate(self.axes))

    def at(self, table: FloatArray, places: Columns, loose: Iterable[int] = ()) -> FloatArray:
        """Entries of a table by row; those of the cheapest tiles along some dimensions."""
        if not table.ndim:
            return table.reshape(1)
        if loose:
            table = table.min(axis=tuple(sorted(loose)), keepdims=True)
        rows = np.zeros(1, dtype=np.int64)
        return table[tuple(own if size > 1 else rows for own, size in zip(places, table.shape, strict=True))]


@dataclass(frozen=True, eq=False)
class TensorGrid:
    """The tiles of one dataspace in those of a problem, by the least extents of each.

    Parameters
    ----------
    grid
        All tiles.
    space
        The dataspace.
    cells
        The tiles at hand.
    """

    grid: TileGrid
    space: Dataspace
    cells: Cells

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

    def ranks_of(self, iterations: Columns) -> list[IntArray]:
        """Extents per rank of what some iterations touch, given along each active dimension."""
        extents = dict(zip(self.grid.dims, iterations, strict=True))
        one = np.ones((1,) * _axes_of_columns(iterations), dtype=np.int64)
        return [
            one + sum((abs(t.coefficient) * (extents[t.dim] - 1) for t in rank if t.dim in extents), 0 * one)
            for rank in self.space.ranks
        ]

    def words_of(self, iterations: Columns) -> FloatArray:
        """Words of what some iterations touch."""
        one = np.ones((1,) * _axes_of_columns(iterations))
        return reduce(np.multiply, (own.astype(np.float64) for own in self.ranks_of(iterations)), one)

    @cached_property
    def words(self) -> FloatArray:
        """Words of every tile."""
        return self.words_of(self.cells.least)

    @cached_property
    def covered(self) -> FloatArray:
        """Words of all tiles of a kind, overlaps included, per word of the tensor."""
        whole = math.prod(self.whole)
        return self.words_of(self.cells.numbers) * self.words / float(whole)

    @cached_property
    def whole(self) -> Vector:
        """Extents of the tensor per rank."""
        bound = self.grid.problem.bound
        return tuple(
            1 + sum(abs(term.coefficient) * (bound[term.dim] - 1) for term in rank)
            for rank in self.space.ranks
        )

    def table(self, figure: Callable[[Vector], float]) -> FloatArray:
        """A figure of every tile, computed once for each shape of the dataspace's part of it."""
        ranks = np.broadcast_arrays(*self.ranks_of(self.cells.least))
        if not ranks:
            return np.array(figure(()))
        rows = np.stack([own.reshape(-1) for own in ranks], axis=1)
        kinds, places = np.unique(rows, axis=0, return_inverse=True)
        found = np.array([figure(tuple(own)) for own in kinds.tolist()], dtype=np.float64)
        return found[places.reshape(-1)].reshape(ranks[0].shape)

    @cached_property
    def shapes(self) -> IntArray:
        """All different extents per rank of tiles, shape (kinds, ranks)."""
        ranks = np.broadcast_arrays(*self.ranks_of(self.cells.least)) if self.space.ranks else ()
        rows = [own.reshape(-1) for own in ranks]
        return np.unique(np.stack(rows, axis=1), axis=0) if rows else np.empty((1, 0), dtype=np.int64)


def _axes_of_columns(columns: Columns) -> int:
    """Axes of columns."""
    return columns[0].ndim if columns else 0
