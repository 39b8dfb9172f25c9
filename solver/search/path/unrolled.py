"""Spatial choices of all stages, row by row: factors, and children with work."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, TypeVar

import numpy as np

from solver.search.arrays import FloatArray, IntArray
from solver.search.path.frame import TileFrame, with_full_ones
from solver.search.space.dataspaces import DataspaceView
from solver.search.space.spatial import StageChoice

Known = TypeVar("Known")
Array = TypeVar("Array", IntArray, FloatArray)

CELLS_PER_OCTAVE = 2
"""Cells of choices between a factor and its double."""

EXACT_POWERS = 1e-9
"""More than logarithms of powers of two err."""


@dataclass(frozen=True, eq=False)
class Unrolled:
    """Spatial choices of all stages, one a row, or one for all rows.

    Parameters
    ----------
    frame
        Of the search space.
    members
        By stage, places of the choices, shape (rows,), or (1,) where all rows have the same.
    rows
        How many there are.
    """

    frame: TileFrame
    members: tuple[IntArray, ...]
    rows: int
    _known: dict[object, Any] = field(default_factory=dict)

    def __len__(self) -> int:
        """Rows."""
        return self.rows

    @property
    def listed(self) -> Unrolled:
        """The choices that there are."""
        return self

    @property
    def uniform(self) -> bool:
        """Whether all rows have the same choice."""
        return len(self.members[0]) == 1

    def __getitem__(self, rows: IntArray) -> Unrolled:
        """Some of the rows."""
        members = self.members if self.uniform else tuple(own[rows] for own in self.members)
        return Unrolled(self.frame, members, len(rows))

    def once(self, key: object, make: Callable[[], Known]) -> Known:
        """What `make` returns, remembered by a key."""
        if key not in self._known:
            self._known[key] = make()
        found: Known = self._known[key]
        return found

    def repeated(self, row: int, rows: int) -> Unrolled:
        """The choice of one row for so many."""
        return Unrolled(self.frame, tuple(own[row : row + 1] for own in self.members), rows)

    @cached_property
    def factors(self) -> tuple[IntArray, ...]:
        """By stage, shape (rows, dimensions), or (1, dimensions)."""
        return tuple(
            stage.factors[own] for stage, own in zip(self.frame.space.stages, self.members, strict=True)
        )

    @cached_property
    def needed(self) -> tuple[IntArray, ...]:
        """By stage, tiles without which a child would have nothing to do."""
        return tuple(
            stage.least_used[own] for stage, own in zip(self.frame.space.stages, self.members, strict=True)
        )

    @cached_property
    def _ones(self) -> IntArray:
        return np.ones((1, len(self.frame.axes)), dtype=np.int64)

    @cached_property
    def kinds(self) -> tuple[IntArray, IntArray]:
        """First rows of those that unroll windows alike, and the kind of each row."""
        if self.uniform:
            return np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64)
        codes = np.zeros(self.rows, dtype=np.int64)
        for stage, own in zip(self.frame.space.stages, self.members, strict=True):
            codes = codes * len(stage.places) + own
        _, firsts, places = np.unique(codes, return_index=True, return_inverse=True)
        windows = sorted(self.frame.space.window_dims)
        columns = [own[firsts][:, windows] for own in (*self.factors, *self.needed)]
        _, own_firsts, inverse = np.unique(
            np.concatenate(columns, axis=1), axis=0, return_index=True, return_inverse=True
        )
        return firsts[own_firsts], inverse.reshape(-1)[places]

    def choice(self, row: int) -> tuple[StageChoice, ...]:
        """The choices of one row."""
        pairs = zip(self.frame.space.stages, self.members, strict=True)
        return tuple(stage.member(int(own[row])) for stage, own in pairs)

    def product(self, first: int, last: int) -> IntArray:
        """Factors of the stages from one up to before another, at most, shape (rows, dimensions)."""
        key = "product", first, last
        return self.once(key, lambda: math.prod(self.factors[first:last], start=self._ones))

    def copies(self, first: int, last: int) -> IntArray:
        """Factors of the stages from one up to before another, at least, shape (rows, dimensions)."""
        return self.product(first, last)

    def unshared_factors(self, view: DataspaceView, first: int, last: int) -> IntArray:
        """Factors of the fanouts among these whose children do not share a dataspace."""
        key = "alone", view.place, first, last
        return self.once(
            key, lambda: math.prod(self._unshared_by_stage(view.place, first, last), start=self._ones)
        )

    def _unshared_by_stage(self, place: int, first: int, last: int) -> Iterator[IntArray]:
        """Factors of the fanouts whose children do not share a dataspace, by stage."""
        return (
            self.frame.unshared_factors(place, stage)[self.members[stage]] for stage in range(first, last)
        )

    def apart(self, view: DataspaceView, first: int, last: int) -> IntArray:
        """Factors of the fanouts whose children do not share a dataspace, at most."""
        return self.unshared_factors(view, first, last)

    def at_once(self, last: int, tiles: IntArray | None = None) -> IntArray:
        """Children of the stages up to before one that have something to do at some time, at least.

        All children of a fanout but the last one have as much to do as there can be. What the last one has
        follows from how many tiles there may be.

        Parameters
        ----------
        last
            The first stage that is not looked at.
        tiles
            Right inside of the meeting stage, shape (rows, dimensions), where these are known.
        """
        if self.frame.divides:
            return self.copies(0, last)
        if tiles is None or last <= self.frame.meeting:
            used = self.once(("in use", last), lambda: self._at_once(last, None))
        else:
            used = self._at_once(last, tiles)
        for d in self._nesting(last):
            rows, nested = self._nested(d, last, tiles)
            if len(rows):
                used = np.array(np.broadcast_to(used, (self.rows, used.shape[1])))
                used[rows, d] = np.maximum(used[rows, d], nested)
        return used

    def _nesting(self, last: int) -> Iterator[int]:
        """Dimensions that two stages unroll in some choice, and not all children have as much to do."""
        for d in range(len(self.frame.axes)):
            stages = sum(max(stage.unrolled[d]) > 1 for stage in self.frame.space.stages[:last])
            if stages > 1:
                yield d

    def _nested(self, dim: int, last: int, tiles: IntArray | None) -> tuple[IntArray, IntArray]:
        """Rows in which two stages unroll a dimension, with something to do for all, and what they use."""
        factors, needed = (
            np.stack([np.broadcast_to(of_stage(k)[:, dim], self.rows) for k in range(last)])
            for of_stage in (self.factors.__getitem__, partial(self._busy, tiles))
        )
        unrolling = factors > 1
        rows = np.flatnonzero((unrolling.sum(axis=0) == 2) & ((needed == factors) | ~unrolling).all(axis=0))
        if not len(rows):
            return rows, rows
        outside = unrolling[:, rows].argmax(axis=0)
        inside = last - 1 - unrolling[::-1, rows].argmax(axis=0)
        outer, inner = factors[outside, rows], factors[inside, rows]
        single = np.array([self.frame.are_single(k + 1, dim) for k in range(last)])[inside]
        used = self.frame.axes[dim].in_use(outer, inner, single)
        if tiles is not None:
            # More tiles than children: each of them gets a whole one.
            many = (outside == self.frame.meeting) & (tiles[rows, dim] > outer)
            used = np.where(many, outer * inner, used)
        return rows, used

    def _busy(self, tiles: IntArray | None, stage: int) -> IntArray:
        """Children of one stage that have something to do, at least."""
        if tiles is None or stage != self.frame.meeting:
            return self.needed[stage]
        return np.minimum(tiles, self.factors[stage])

    def _at_once(self, last: int, tiles: IntArray | None) -> IntArray:
        """Children that have something to do, whatever the last one has, unless all have as much."""
        if self.frame.divides:
            return self.copies(0, last)
        used, all_of_them = self._ones, self._ones
        for stage in reversed(range(last)):
            used = with_full_ones(self._busy(tiles, stage), used, all_of_them)
            all_of_them = all_of_them * self.copies(stage, stage + 1)
        return used

    def askers(
        self, view: DataspaceView, level: int, boundary: int, tiles: IntArray | None = None
    ) -> IntArray:
        """Of those of a level, groups of children at a boundary that share a dataspace, likewise."""
        if self.frame.divides:
            return self.copies(0, level) * self.unshared_factors(view, level, boundary)
        used, all_of_them = self._ones, self._ones
        for stage in reversed(range(level, boundary)):
            used = with_full_ones(self._groups(view, stage), used, all_of_them)
            all_of_them = all_of_them * self.unshared_factors(view, stage, stage + 1)
        for stage in reversed(range(level)):
            used = with_full_ones(self._busy(tiles, stage), used, all_of_them)
            all_of_them = all_of_them * self.copies(stage, stage + 1)
        return used

    def _groups(self, view: DataspaceView, stage: int) -> IntArray:
        """Children of one stage that share nothing and have something to do, at least."""
        return self.frame.groups(view.place, stage)[self.members[stage]]

    def share(self, view: DataspaceView, first: int, last: int) -> FloatArray:
        """Words asked for, at least, per word that children get, where neighbours want equal windows."""
        share = np.ones(1)
        for stage in range(first, last) if view.window_dims else ():
            share = share * self.frame.shares(view.place, stage)[self.members[stage]]
        return share


class Loosest(Unrolled):
    """What costs no more than any of several choices: all factors at their most, copies at their least."""

    def __init__(self, every: Unrolled, rows: int) -> None:
        super().__init__(every.frame, tuple(own[:1] for own in every.members), rows)
        self.__dict__["every"] = every

    @property
    def listed(self) -> Unrolled:
        """All of them."""
        every: Unrolled = self.__dict__["every"]
        return every

    def __getitem__(self, rows: IntArray) -> Loosest:
        """Some of the rows."""
        some = Loosest(self.__dict__["every"], len(rows))
        for name in ("factors", "needed", "least"):
            some.__dict__[name] = getattr(self, name)
        return some

    @cached_property
    def factors(self) -> tuple[IntArray, ...]:
        """By stage, the most of every dimension, shape (1, dimensions)."""
        every: Unrolled = self.__dict__["every"]
        return tuple(own.max(axis=0, keepdims=True) for own in every.factors)

    @cached_property
    def least(self) -> tuple[IntArray, ...]:
        """By stage, the least of every dimension, likewise."""
        every: Unrolled = self.__dict__["every"]
        return tuple(own.min(axis=0, keepdims=True) for own in every.factors)

    @cached_property
    def needed(self) -> tuple[IntArray, ...]:
        """By stage, the fewest tiles that any of them needs."""
        every: Unrolled = self.__dict__["every"]
        return tuple(own.min(axis=0, keepdims=True) for own in every.needed)

    def copies(self, first: int, last: int) -> IntArray:
        """The least of any."""
        return math.prod(self.least[first:last], start=self._ones)

    def unshared_factors(self, view: DataspaceView, first: int, last: int) -> IntArray:
        """None."""
        return self._ones

    def apart(self, view: DataspaceView, first: int, last: int) -> IntArray:
        """The most of any."""
        every: Unrolled = self.__dict__["every"]
        most: IntArray = every.unshared_factors(view, first, last).max(axis=0, keepdims=True)
        return most

    def at_once(self, last: int, tiles: IntArray | None = None) -> IntArray:
        """Whatever the last one has."""
        return self._at_once(last, None)

    def _busy(self, tiles: IntArray | None, stage: int) -> IntArray:
        """Of any choice."""
        return self.needed[stage]

    def _groups(self, view: DataspaceView, stage: int) -> IntArray:
        """One."""
        return self._ones

    def share(self, view: DataspaceView, first: int, last: int) -> FloatArray:
        """The least of any."""
        every: Unrolled = self.__dict__["every"]
        return np.array([every.share(view, first, last).min()])


@dataclass(frozen=True, eq=False)
class InCells(Unrolled):
    """Cells of similar spatial choices, one a row, which cost no more than any of their choices.

    Factors are at their most, copies and children with work at their least.

    Parameters
    ----------
    cells
        By stage, the cell of each of its choices.
    """

    cells: tuple[IntArray, ...] = ()

    @classmethod
    def of(cls, frame: TileFrame) -> InCells:
        """Combine the cells of all stages."""
        cells = tuple(_cells(stage.factors) for stage in frame.space.stages)
        numbers = [int(own.max()) + 1 for own in cells]
        grid = np.meshgrid(*map(np.arange, numbers), indexing="ij")
        return cls(frame, tuple(own.ravel() for own in grid), math.prod(numbers), cells=cells)

    def rows_of(self, every: Unrolled) -> IntArray:
        """The row of each of some choices."""
        own = tuple(cells[members] for cells, members in zip(self.cells, every.members, strict=True))
        return np.ravel_multi_index(own, [int(cells.max()) + 1 for cells in self.cells])

    @cached_property
    def factors(self) -> tuple[IntArray, ...]:
        """By stage, the most of each dimension."""
        stages = enumerate(self.frame.space.stages)
        return tuple(self._reduced(np.maximum, stage.factors, number) for number, stage in stages)

    @cached_property
    def needed(self) -> tuple[IntArray, ...]:
        """By stage, the fewest tiles that any choice needs."""
        stages = enumerate(self.frame.space.stages)
        return tuple(self._reduced(np.minimum, stage.least_used, number) for number, stage in stages)

    @cached_property
    def _least(self) -> tuple[IntArray, ...]:
        stages = enumerate(self.frame.space.stages)
        return tuple(self._reduced(np.minimum, stage.factors, number) for number, stage in stages)

    def copies(self, first: int, last: int) -> IntArray:
        """The fewest of any choice."""
        return math.prod(self._least[first:last], start=self._ones)

    def _unshared_by_stage(self, place: int, first: int, last: int) -> Iterator[IntArray]:
        every = (self.frame.unshared_factors(place, stage) for stage in range(first, last))
        return (self._reduced(np.minimum, own, stage) for stage, own in enumerate(every, first))

    def apart(self, view: DataspaceView, first: int, last: int) -> IntArray:
        """The most of any choice."""
        every = (self.frame.unshared_factors(view.place, stage) for stage in range(first, last))
        most = (self._reduced(np.maximum, own, stage) for stage, own in enumerate(every, first))
        return math.prod(most, start=self._ones)

    def _groups(self, view: DataspaceView, stage: int) -> IntArray:
        """Of any choice."""
        return self._reduced(np.minimum, self.frame.groups(view.place, stage), stage)

    def share(self, view: DataspaceView, first: int, last: int) -> FloatArray:
        """The least of any choice."""
        share = np.ones(1)
        for stage in range(first, last) if view.window_dims else ():
            share = share * self._reduced(np.minimum, self.frame.shares(view.place, stage), stage)
        return share

    def _nesting(self, last: int) -> Iterator[int]:
        """None: it depends on the choice."""
        del last
        return iter(())

    def _reduced(self, of_two: np.ufunc, own: Array, stage: int) -> Array:
        """The least or the most that any choice of a stage's cell has, by row."""
        cells = self.cells[stage]
        starts = np.searchsorted(np.sort(cells), np.arange(int(cells.max()) + 1))
        found: Array = of_two.reduceat(own[np.argsort(cells, kind="stable")], starts, axis=0)
        return found[self.members[stage]]


def _cells(factors: IntArray) -> IntArray:
    """Cells of choices whose factors differ by less than some share: a number for each choice."""
    sizes = np.floor(np.log2(factors) * CELLS_PER_OCTAVE + EXACT_POWERS)
    _, cells = np.unique(sizes, axis=0, return_inverse=True)
    return cells.reshape(-1)
