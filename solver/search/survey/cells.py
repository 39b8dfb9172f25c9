"""Cells of similar combinations of spatial classes, where these are too many to look at one by one."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import count

import numpy as np

from solver.search.arrays import FloatArray, IntArray, ranges
from solver.search.space.grid import SpatialGrid
from solver.search.stopping import Stop, Stopped


@dataclass(frozen=True)
class Cells:
    """Combinations of a grid, cell by cell.

    Parameters
    ----------
    numbers
        Places of the combinations in the grid, those of a cell one after the other.
    starts
        Where the cells begin, shape (cells,).
    """

    grid: SpatialGrid
    numbers: IntArray
    starts: IntArray

    def __len__(self) -> int:
        """Number of cells."""
        return len(self.starts)

    @property
    def single(self) -> bool:
        """Whether each combination is a cell of its own."""
        return len(self.starts) == len(self.numbers)

    @cached_property
    def sizes(self) -> IntArray:
        """Combinations of each cell, shape (cells,)."""
        return np.diff(self.starts, append=len(self.numbers))

    def parts(self, size: int, chosen: IntArray | None = None) -> Iterator[Part]:
        """All cells, or some of them, in parts of about `size` combinations; one part if there are none."""
        cells = np.arange(len(self)) if chosen is None else chosen
        starts = np.cumsum(self.sizes[cells]) - self.sizes[cells]
        for positions in np.split(np.arange(len(cells)), np.flatnonzero(np.diff(starts // size)) + 1):
            part_cells = cells[positions]
            numbers = self.numbers[ranges(self.starts[part_cells], self.sizes[part_cells])[1]]
            yield Part(self.grid, numbers, starts[positions] - starts[positions[:1]], part_cells)


@dataclass(frozen=True)
class Part(Cells):
    """Some of several cells; ``places`` tells which of all.

    Parameters
    ----------
    places
        Shape (cells,).
    """

    places: IntArray

    @cached_property
    def members(self) -> SpatialGrid:
        """The grid of the combinations in them, in order."""
        return self.grid.chosen(self.numbers)


def alone(grid: SpatialGrid) -> Cells:
    """Every combination in a cell of its own."""
    numbers = np.arange(len(grid))
    return Cells(grid, numbers, numbers)


def parted(grid: SpatialGrid, most: int, stop: Stop) -> Cells:
    """The combinations in at most so many cells: the largest one is parted, again and again.

    See Also
    --------
    halves : How one is parted.
    """
    ticket = count()
    heap = [(-len(grid), next(ticket), np.arange(len(grid)))]
    while len(heap) < most and -heap[0][0] > 1:
        if stop():
            raise Stopped
        _, _, largest = heapq.heappop(heap)
        for half in halves(grid.chosen(largest)):
            heapq.heappush(heap, (-len(half), next(ticket), largest[half]))
    members = [part for _, _, part in heap]
    starts = np.cumsum([0, *map(len, members[:-1])])
    return Cells(grid, np.concatenate(members), starts)


def halves(grid: SpatialGrid) -> tuple[IntArray, IntArray]:
    """Places of the combinations in two parts of similar size, the members of which are more alike.

    They are parted by what they differ in most: instances in use, or how often a dataspace is handed out to
    several of them.
    """
    differ, feature, index = max(_features(grid), key=lambda stage: stage[0])
    if differ == 1:
        places = np.arange(len(grid))
        return places[: len(grid) // 2], places[len(grid) // 2 :]
    low = (feature <= _median(feature, np.bincount(index, minlength=len(feature))))[index]
    return np.flatnonzero(low), np.flatnonzero(~low)


def _median(feature: FloatArray, members: IntArray) -> float:
    """The number up to which about half of the members are, and not all of them; both of shape (classes,)."""
    there = members > 0
    numbers, kinds = np.unique(feature[there], return_inverse=True)
    up_to = np.cumsum(np.bincount(kinds, weights=members[there]))
    return float(numbers[np.argmin(np.abs(up_to[:-1] - up_to[-1] / 2))])


def _features(grid: SpatialGrid) -> Iterator[tuple[float, FloatArray, IntArray]]:
    """Numbers that the prices of combinations depend on, above 0, by stages of several classes."""
    for table, index in zip(grid.space.stage_tables, grid.choices, strict=True):
        if len(table.units) == 1:
            continue
        there = np.flatnonzero(np.bincount(index))
        for feature in (table.units, *table.irrelevant, *table.distinct):
            numbers = feature[there]
            yield float(numbers.max() / numbers.min()), feature, index
