"""Words that loops bring, for many tiles at a time.

Each step of a mapping brings a tile, less what stays of the one before. What stays when a loop advances
depends on which loops lie inside of it, and not on their order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import product
from typing import NamedTuple

import numpy as np

from solver.search.arrays import IntArray
from solver.search.stopping import Stop, Stopped

LARGEST = 1 << 62
"""Words up to which 64 bits hold the traffic."""

Kind = tuple[tuple[bool, ...], int | None]
"""When words of a group come: which of its loops lie inside of the one that advances, and which that is."""


def kinds_of(dims: Sequence[int]) -> Iterator[Kind]:
    """Yield all kinds of a group: the loop that advances is no loop inside of itself."""
    for inside in product((False, True), repeat=len(dims)):
        for dim in (None, *(d for own, d in zip(inside, dims, strict=True) if not own)):
            yield inside, dim


class Sums(NamedTuple):
    """Words of one group of a dataspace's dimensions, by places of tiles along these.

    Parameters
    ----------
    dims, is_indexed
        The dimensions, and whether they index the dataspace.
    visits
        Words of all tiles in all steps.
    touched, first
        Distinct words, at least and at most.
    staying
        By kind: words that stay whenever a loop advances.
    fresh
        By dimension: words that do not, where its loop is the innermost one.
    """

    dims: tuple[int, ...]
    is_indexed: bool
    visits: IntArray
    touched: IntArray
    first: IntArray
    staying: dict[Kind, IntArray]
    fresh: dict[int, IntArray]

    def together(self, starts: Sequence[IntArray]) -> Sums:
        """The least that comes, and the most that stays, over places from each start to the next one."""

        def ends(by: np.ufunc, table: IntArray) -> IntArray:
            for axis, dim in enumerate(self.dims):
                table = by.reduceat(table, starts[dim], axis=axis)
            return table

        return Sums(
            self.dims,
            self.is_indexed,
            ends(np.minimum, self.visits),
            ends(np.minimum, self.touched),
            ends(np.maximum, self.first),
            {kind: ends(np.maximum, own) for kind, own in self.staying.items()},
            {dim: ends(np.minimum, own) for dim, own in self.fresh.items()},
        )


def sums_apart(dim: int, coefficient: int, bound: int, extents: IntArray) -> Sums:
    """Sums of a group of one dimension and at most one rank, whose tiles never meet.

    Parameters
    ----------
    dim, bound
        The dimension, and its iterations.
    coefficient
        In the rank, positive; 0 if the dimension indexes none.
    extents
        Of tiles.
    """
    number, none = -(-bound // extents), np.zeros_like(extents)
    outside, own, inside = kinds_of((dim,))
    if not coefficient:
        one = np.ones_like(extents)
        staying = {outside: number, own: number - 1, inside: one}
        return Sums((dim,), False, number, one, one, staying, {dim: none})
    words = coefficient * bound - (coefficient - 1) * number
    first = coefficient * extents - (coefficient - 1)
    staying = {outside: words, own: none, inside: np.where(number > 1, none, words)}
    return Sums((dim,), True, words, words, words, staying, {dim: words - first})


class Rate(NamedTuple):
    """What words of a dataspace cost: each that is brought, less so much for each that is new."""

    brought: int
    first: int


@dataclass(frozen=True)
class Grid:
    """Tiles by their places along the dimensions.

    Parameters
    ----------
    sides
        By dimension their extents, ascending; the least where a place stands for several.
    numbers
        Of tiles along each dimension.
    sums
        Of all groups, by dataspace.
    """

    sides: tuple[IntArray, ...]
    numbers: tuple[IntArray, ...]
    sums: Sequence[Sequence[Sums]]

    @property
    def shape(self) -> tuple[int, ...]:
        """How many places there are along each dimension."""
        return tuple(map(len, self.sides))

    def places(self, tiles: IntArray) -> IntArray:
        """Return the places of some tiles, shape (tiles, dimensions)."""
        if not self.sides:
            return np.zeros((len(tiles), 0), dtype=np.int64)
        return np.stack(np.unravel_index(tiles, self.shape), axis=1)

    def extents(self, places: IntArray) -> IntArray:
        """Return extents at some places, shape (tiles, dimensions)."""
        return _columns(self.sides, places)

    def counts(self, places: IntArray) -> IntArray:
        """Return the numbers of tiles along each dimension at some places."""
        return _columns(self.numbers, places)


def _columns(sides: Sequence[IntArray], places: IntArray) -> IntArray:
    columns = [side[places[:, d]] for d, side in enumerate(sides)]
    return np.stack(columns, axis=1) if columns else places


class Steps:
    """What loops bring under one keep mask, for some tiles.

    Parameters
    ----------
    grid
        Has the tiles.
    rates
        Of the dataspaces that the buffer keeps, by their places.
    places
        Of the tiles, shape (tiles, dimensions).
    """

    def __init__(self, grid: Grid, rates: dict[int, Rate], places: IntArray) -> None:
        self._rates, self._several, self._rows = list(rates.values()), grid.counts(places) > 1, len(places)
        self._sums = [[(own, tuple(places[:, d] for d in own.dims)) for own in grid.sums[v]] for v in rates]

    @property
    def visits(self) -> IntArray:
        """Cost of the tiles of all steps, without what is new."""
        return self._total(lambda own: own.visits, lambda own: own.first)

    def _total(self, words: Callable[[Sums], IntArray], new: Callable[[Sums], IntArray] | None) -> IntArray:
        """Cost of some words of all dataspaces, less so many of them that are new."""
        total = np.zeros(self._rows, dtype=np.int64)
        for rate, groups in zip(self._rates, self._sums, strict=True):
            total += rate.brought * _product(words(own)[rows] for own, rows in groups)
            if new is not None:
                total -= rate.first * _product(new(own)[rows] for own, rows in groups)
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
                first = _product(own.first[rows] for own, rows in groups)
                total += rate.brought * _fewest(groups, dim) - rate.first * first
            least = np.where(self._several[:, dim], np.minimum(least, total), least)
        return least

    def staying(self, inside: frozenset[int], dim: int) -> IntArray:
        """Cost of what stays whenever the loop over a dimension advances, with some loops inside of it."""

        def words(own: Sums) -> IntArray:
            kind = tuple(d in inside for d in own.dims), dim if dim in own.dims else None
            return own.staying[kind]

        return self._total(words, None)


def _fewest(groups: Sequence[tuple[Sums, tuple[IntArray, ...]]], dim: int) -> IntArray:
    """Words of a dataspace with the loop over a dimension innermost, at least."""
    if any(own.dims == (dim,) and own.is_indexed for own, _ in groups):
        return _product(own.visits[rows] for own, rows in groups)
    touched = _product(own.touched[rows] for own, rows in groups)
    fresh = _product((own.fresh[dim] if dim in own.dims else own.visits)[rows] for own, rows in groups)
    fewest: IntArray = np.maximum(touched, fresh)
    return fewest


def _product(factors: Iterable[IntArray]) -> IntArray:
    """Return the product of arrays, of ones if there are none."""
    return reduce(np.multiply, factors, np.ones(1, dtype=np.int64))


def least_costs(steps: Steps, dims: int, stop: Stop) -> Iterator[tuple[IntArray, IntArray]]:
    """Yield the least cost with each set of loops inside, and which of them is its outermost one.

    Sets are numbers whose bits are dimensions, in ascending order: the last one has all loops.
    """
    known: list[IntArray] = [steps.visits]
    yield known[0], np.zeros(len(known[0]), dtype=np.int64)
    for chosen in range(1, 1 << dims):
        if stop():
            raise Stopped
        members = [d for d in range(dims) if chosen >> d & 1]
        every = np.stack(
            [known[chosen ^ 1 << d] - steps.staying(frozenset(members) - {d}, d) for d in members]
        )
        outermost = every.argmin(axis=0)
        known.append(np.take_along_axis(every, outermost[np.newaxis], axis=0)[0])
        yield known[-1], np.array(members)[outermost]
