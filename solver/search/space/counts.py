"""Tiles where the last one along a dimension may be short: vectors of numbers of tiles.

With tiles of extent x, a dimension of bound N has T = ceil(N / x) of them. What is counted at a boundary
follows from T, and a loop of f iterations around the tiles leaves ceil(T / f). So a vector holds the numbers
of tiles; its extents are the least that have so many. There are about 2 sqrt(N) numbers per dimension.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import count, pairwise

import numpy as np

from solver.search.arrays import BoolArray, IntArray
from solver.search.space.lattice import Lattice


def numbers_of_tiles(bound: int) -> tuple[int, ...]:
    """All numbers of tiles that some extent has, descending: from tiles of one iteration to a single tile."""
    numbers = [bound]
    while numbers[-1] > 1:
        # The least extent that leaves fewer tiles.
        extent = -(-bound // (numbers[-1] - 1))
        numbers.append(-(-bound // extent))
    return tuple(numbers)


class _Codes:
    """Numbers for spatial factors and the tiles that they need, from 0 on: nothing is unrolled.

    Parameters
    ----------
    dims
        Number of dimensions.
    """

    def __init__(self, dims: int) -> None:
        self._numbers: defaultdict[bytes, int] = defaultdict(count().__next__)
        self._rows = np.empty((0, 2, dims), dtype=np.int64)
        self.of(np.ones((1, 2, dims), dtype=np.int64))

    @property
    def vectors(self) -> IntArray:
        """By number, shape (numbers, 2, dimensions)."""
        return self._rows[: len(self._numbers)]

    def of(self, vectors: IntArray) -> IntArray:
        """Numbers of several, shape (vectors, 2, dimensions)."""
        known, data, width = len(self._numbers), vectors.tobytes(), 16 * vectors.shape[2]
        keys = (data[width * row : width * (row + 1)] for row in range(len(vectors)))
        codes = np.fromiter(map(self._numbers.__getitem__, keys), np.int64, len(vectors))
        new = np.flatnonzero(codes >= known)
        if len(new):
            self._add(known, vectors[new[np.unique(codes[new], return_index=True)[1]]])
        return codes

    def _add(self, known: int, vectors: IntArray) -> None:
        end = known + len(vectors)
        if end > len(self._rows):
            # With as much room again, for those that come one by one.
            self._rows = np.concatenate(
                (self._rows[:known], np.empty((end, *vectors.shape[1:]), dtype=np.int64))
            )
        self._rows[known:end] = vectors


def loop_factors(rounds: int, outer: int, allowed: Sequence[int]) -> tuple[int, int, Sequence[int]]:
    """Factors of a loop around `rounds` of tiles that leave `outer` tiles outside.

    Parameters
    ----------
    allowed
        Ascending.

    Returns
    -------
    tuple
        The factor that leaves one round to the last pass, the one that leaves two (0 if there is none), and
        all others, ascending.
    """
    least = -(-rounds // outer)
    most = least if outer == 1 else -(-rounds // (outer - 1)) - 1
    within = allowed[bisect_left(allowed, least) : bisect_right(allowed, most)]
    single = [0, 0]
    for left in (1, 2):
        factor = rounds if outer == 1 else (rounds - left) // (outer - 1)
        if rounds - factor * (outer - 1) == left and factor > 1 and factor in within:
            single[left - 1] = factor
    if not any(single):
        return 0, 0, within
    return single[0], single[1], [factor for factor in within if factor not in single]


def _joined_cells(starts: Sequence[int], numbers: Sequence[int], grain: float) -> list[int]:
    """Where cells begin once neighbours are joined whose numbers differ by less than a factor."""
    kept = [0]
    for start, end in pairwise((*starts[1:], len(numbers))):
        if numbers[kept[-1]] > grain * numbers[end - 1]:
            kept.append(start)
    return kept


@dataclass(frozen=True)
class CountLattice(Lattice):
    """Vectors of numbers of tiles, one axis per dimension, tiles growing along it.

    Spatial factors have codes of their own, since any of them may be unrolled.

    Parameters
    ----------
    numbered
        Per dimension the numbers of tiles that there are, descending; none for those of any extents.
    """

    grains: tuple[float, ...] = ()
    numbered: tuple[tuple[int, ...], ...] = ()

    def every_number(self, dim: int) -> tuple[int, ...]:
        """All numbers of tiles along a dimension, descending."""
        return self.numbered[dim] if self.numbered else numbers_of_tiles(self.bounds[dim])

    @cached_property
    def starts(self) -> tuple[IntArray, ...]:
        """Per dimension, places in all numbers of tiles at which cells of similar ones begin."""
        return tuple(self._starts(self.every_number(dim)) for dim in range(len(self.bounds)))

    def _starts(self, numbers: Sequence[int]) -> IntArray:
        starts = list(range(len(numbers)))
        for grain in self.grains:
            starts = _joined_cells(starts, numbers, grain)
        return np.array(starts, dtype=np.int64)

    @cached_property
    def most(self) -> tuple[IntArray, ...]:
        """Most tiles of each cell, descending."""
        return tuple(
            np.array(self.every_number(dim), dtype=np.int64)[starts] for dim, starts in enumerate(self.starts)
        )

    @cached_property
    def numbers(self) -> tuple[IntArray, ...]:
        """Fewest tiles of each cell, descending: all numbers of tiles where cells have one each."""
        return tuple(
            np.array(self.every_number(dim), dtype=np.int64)[[*(starts[1:] - 1), -1]]
            for dim, starts in enumerate(self.starts)
        )

    @cached_property
    def _divisors(self) -> tuple[tuple[int, ...], ...]:
        pairs = zip(self.bounds, self.most, strict=True)
        return tuple(tuple((-(-bound // numbers)).tolist()) for bound, numbers in pairs)

    @cached_property
    def largest_extents(self) -> IntArray:
        """The largest extents of which there are as many tiles, shape (size, dimensions)."""
        columns = [self.longest(dim).reshape(-1) for dim in range(len(self.bounds))]
        mesh = np.meshgrid(*columns, indexing="ij")
        return np.stack([m.ravel() for m in mesh], axis=1) if mesh else np.ones((1, 0), dtype=np.int64)

    def longest(self, dim: int) -> IntArray:
        """The largest extents of which there are so many tiles, along a dimension's axis."""
        bound, own = self.bounds[dim], self.tiles_along(dim)
        extents: IntArray = np.where(own == 1, bound, -(-bound // np.maximum(own - 1, 1)) - 1)
        return extents

    @cached_property
    def axes(self) -> tuple[tuple[int, int, int], ...]:
        """Triples (dimension, 0, largest place), one per dimension: there are no primes."""
        return tuple((d, 0, len(numbers) - 1) for d, numbers in enumerate(self.numbers))

    @cached_property
    def tiles(self) -> IntArray:
        """Tiles that cover each dimension, for every vector, shape (size, dimensions)."""
        mesh = np.meshgrid(*self.numbers, indexing="ij")
        return np.stack([m.ravel() for m in mesh], axis=1) if mesh else np.ones((1, 0), dtype=np.int64)

    def tiles_along(self, dim: int) -> IntArray:
        """Tiles that cover a dimension, along its axis of tables of shape `counts`."""
        return self.numbers[dim].reshape([-1 if d == dim else 1 for d in range(len(self.bounds))])

    def most_along(self, dim: int) -> IntArray:
        """The most tiles that a cell stands for, along a dimension's axis."""
        return self.most[dim].reshape([-1 if d == dim else 1 for d in range(len(self.bounds))])

    def place(self, dim: int, numbers: IntArray) -> IntArray:
        """Places of the cells of numbers of tiles along an axis."""
        return np.searchsorted(-self.numbers[dim], -numbers)

    def least_prime(self, dim: int) -> int:
        """The fewest iterations of a loop."""
        return 2

    # Spatial factors.

    @cached_property
    def _codes(self) -> _Codes:
        """Spatial factors, and how many tiles they need so that no child has nothing to do."""
        return _Codes(len(self.bounds))

    def have(self, factors: IntArray) -> BoolArray:
        """Which rows, shape (rows, dimensions), are within the bounds."""
        have: BoolArray = np.logical_and.reduce(factors <= np.array(self.bounds, dtype=np.int64), axis=1)
        return have

    def codes(self, factors: IntArray) -> IntArray:
        """Numbers for the factors of one fanout in each row, shape (rows, dimensions)."""
        return self._codes.of(np.stack((factors, factors), axis=1))

    def _factors(self, codes: IntArray) -> IntArray:
        """Factors of several codes, shape (codes, dimensions)."""
        factors: IntArray = self._codes.vectors[codes, 0]
        return factors

    def _needed(self, codes: IntArray) -> IntArray:
        """Tiles that they need, likewise."""
        needed: IntArray = self._codes.vectors[codes, 1]
        return needed

    def product(self, codes: IntArray, others: IntArray) -> IntArray:
        """Codes of products of spatial factors, and of those of fanouts inside.

        The last child of a fanout may have work for one child of its own only.
        """
        codes, others = np.broadcast_arrays(codes, others)
        if not codes.any() or not others.any():
            return codes + others
        # Most pairs come many times.
        vectors = self._codes.vectors
        pairs, inverse = np.unique(codes * len(vectors) + others, return_inverse=True)
        outer, inner = vectors[pairs // len(vectors)], vectors[pairs % len(vectors)]
        products = outer[:, 0] * inner[:, 0]
        needed = np.maximum((outer[:, 1] - 1) * inner[:, 0] + 1, inner[:, 1])
        return self._codes.of(np.stack((products, needed), axis=1))[inverse]

    def dividing(self, first: IntArray, second: IntArray, most: int) -> Iterator[tuple[IntArray, IntArray]]:
        """Yield the places of pairs of spatial factors, the second inside, that the bounds have tiles for."""
        rows = max(1, most // max(1, len(second)))
        outside, inner = self._needed(first), self._factors(second)
        bounds = np.array(self.bounds, dtype=np.int64)
        for start in range(0, len(first), rows):
            fits = ((outside[start : start + rows, None] - 1) * inner[None] < bounds).all(axis=2)
            one, other = np.nonzero(fits)
            yield one + start, other

    def loop_factors(self, dim: int) -> Sequence[int]:
        """All temporal factors of a dimension."""
        return range(1, self.bounds[dim] + 1)
