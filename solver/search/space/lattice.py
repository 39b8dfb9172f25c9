"""The divisor lattice: all vectors of tile extents, each a divisor of its dimension's bound.

A vector is stored by the exponents of its primes, one axis per (dimension, prime). The linear index
of a product of two vectors is the sum of their indices.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from model.numbers import prime_factors
from solver.search.arrays import BoolArray, IntArray, among

Steps = tuple[tuple[int, int], ...]
"""Bases and largest exponents: the products of their powers are the extents of a dimension."""


def coarsened(steps: Steps) -> Steps:
    """Fewer extents of the same bound: a base with half as many powers, or one instead of two."""
    base, exponent = max(steps, key=lambda own: own[1])
    if exponent > 3:  # the halves of fewer powers have the same products
        half = exponent // 2
        halves = ((base**half, 2),) if exponent % 2 == 0 else ((base**half, 1), (base ** (half + 1), 1))
        return (*halves, *(own for own in steps if own != (base, exponent)))
    whole = (math.prod(base**exponent for base, exponent in steps[-2:]), 1)
    return (*steps[:-2], whole)


def _power_products(steps: Steps) -> tuple[int, ...]:
    """Products of powers of all bases, the last one's exponent running fastest."""
    values = [1]
    for base, exponent in steps:
        values = [value * base**e for value in values for e in range(exponent + 1)]
    return tuple(values)


@dataclass(frozen=True)
class Lattice:
    """The lattice of divisor vectors of `bounds` (all greater than 1).

    Dimensions in `coarse` have the extents that their own steps make up: a part of the lattice, for when
    the whole one does not fit into memory.

    Parameters
    ----------
    coarse
        Pairs of a dimension's place and its steps.
    """

    bounds: tuple[int, ...]
    coarse: tuple[tuple[int, Steps], ...] = ()

    def steps(self, dim: int) -> Steps:
        """Bases and largest exponents that make up the extents of a dimension: as a rule its primes."""
        return dict(self.coarse).get(dim) or prime_factors(self.bounds[dim])

    @cached_property
    def axes(self) -> tuple[tuple[int, int, int], ...]:
        """Triples (dimension, base, largest exponent), dimensions in order."""
        return tuple((d, p, e) for d in range(len(self.bounds)) for p, e in self.steps(d))

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """Number of exponents per axis."""
        return tuple(e + 1 for _, _, e in self.axes)

    @cached_property
    def size(self) -> int:
        """Number of vectors."""
        return math.prod(self.shape)

    @cached_property
    def limits(self) -> npt.NDArray[np.int8]:
        """Largest exponent per axis, shape (axes,)."""
        return np.array([e for _, _, e in self.axes], dtype=np.int8)

    @cached_property
    def exponents(self) -> npt.NDArray[np.int8]:
        """Exponents of every vector, shape (size, axes)."""
        grid = np.indices(self.shape, dtype=np.int8)
        return np.ascontiguousarray(grid.reshape(len(self.shape), self.size).T)

    @cached_property
    def extents(self) -> IntArray:
        """Extents of every vector, shape (size, dimensions)."""
        columns = [np.array(self.divisors_of(d), dtype=np.int64) for d in range(len(self.bounds))]
        mesh = np.meshgrid(*columns, indexing="ij")
        return np.stack([m.ravel() for m in mesh], axis=1) if columns else np.ones((1, 0), dtype=np.int64)

    @cached_property
    def largest_extents(self) -> IntArray:
        """Largest extents with as many tiles: without remainders there is one."""
        return self.extents

    @cached_property
    def tiles(self) -> IntArray:
        """Tiles that cover each dimension, for the extents of every vector, shape (size, dimensions)."""
        tiles: IntArray = np.array(self.bounds, dtype=np.int64) // self.extents
        return tiles

    def divisors_of(self, dim: int) -> tuple[int, ...]:
        """Divisors of a dimension's bound in lattice order (by exponents, not by size)."""
        return self._divisors[dim]

    @cached_property
    def _divisors(self) -> tuple[tuple[int, ...], ...]:
        return tuple(_power_products(self.steps(dim)) for dim in range(len(self.bounds)))

    @cached_property
    def counts(self) -> tuple[int, ...]:
        """How many extents each dimension has."""
        return tuple(len(self.divisors_of(d)) for d in range(len(self.bounds)))

    def side(self, dim: int) -> IntArray:
        """Extents of a dimension, along its axis of tables of shape `counts`."""
        extents = np.array(self.divisors_of(dim), dtype=np.int64)
        return extents.reshape([-1 if d == dim else 1 for d in range(len(self.bounds))])

    def longest(self, dim: int) -> IntArray:
        """Largest extents with as many tiles along a dimension's axis: without remainders there is one."""
        return self.side(dim)

    def tiles_along(self, dim: int) -> IntArray:
        """Tiles that cover a dimension, along its axis of tables of shape `counts`."""
        tiles: IntArray = self.bounds[dim] // self.side(dim)
        return tiles

    def most_along(self, dim: int) -> IntArray:
        """The most tiles that a vector stands for, along an axis: without remainders one number."""
        return self.tiles_along(dim)

    def across(self, table: IntArray, dims: Sequence[int]) -> IntArray:
        """The part of a table, shape (size,), over `dims`, others being 1; with an axis per dimension."""
        chosen = tuple(slice(None if d in dims else 1) for d in range(len(self.bounds)))
        return table.reshape(self.counts)[chosen]

    def spread(self, part: IntArray) -> IntArray:
        """The table, shape (size,), whose entries depend on what a part of it depends on."""
        return np.broadcast_to(part, self.counts).reshape(self.size)

    @cached_property
    def dim_strides(self) -> tuple[int, ...]:
        """Step of the linear index per place in `divisors_of`, one per dimension."""
        return tuple(math.prod(self.counts[d + 1 :]) for d in range(len(self.counts)))

    def have(self, factors: IntArray) -> BoolArray:
        """Which rows, shape (rows, dimensions), are factors of the lattice, as may not be of a coarse one."""
        have = np.ones(len(factors), dtype=np.bool_)
        for d, divisors in enumerate(self._divisors):
            have &= among(factors[:, d], np.array(sorted(divisors), dtype=np.int64))
        return have

    def codes(self, factors: IntArray) -> IntArray:
        """Numbers for the factors of one fanout in each row, shape (rows, dimensions)."""
        codes: IntArray = np.zeros(len(factors), dtype=np.int64)
        for d, stride in enumerate(self.dim_strides):
            divisors = np.array(self.divisors_of(d), dtype=np.int64)
            order = np.argsort(divisors)
            codes += order[np.searchsorted(divisors, factors[:, d], sorter=order)] * stride
        return codes

    def product(self, codes: IntArray, others: IntArray) -> IntArray:
        """Codes of products of spatial factors, which are within the bounds."""
        return codes + others

    def loop_factors(self, dim: int) -> Sequence[int]:
        """All temporal factors of a dimension."""
        return self.divisors_of(dim)

    def least_prime(self, dim: int) -> int:
        """Least prime factor of a bound: no loop over the dimension has fewer iterations."""
        return min(prime for prime, _ in prime_factors(self.bounds[dim]))

    def dividing(self, first: IntArray, second: IntArray, most: int) -> Iterator[tuple[IntArray, IntArray]]:
        """Yield the places of pairs of vectors whose product divides the bounds.

        About `most` pairs are looked at at a time, by rising place in `first`. Vectors are linear indices.
        """
        rows, near, far = max(1, most // max(1, len(second))), self.exponents[first], self.exponents[second]
        largest = near.max(axis=0, initial=0) + far.max(axis=0, initial=0)
        axes = np.flatnonzero(largest > self.limits)
        columns = {axis: np.ascontiguousarray(far[:, axis]) for axis in axes}
        for start in range(0, len(first), rows):
            some = near[start : start + rows]
            fits = np.ones((len(some), len(second)), dtype=np.bool_)
            for axis, column in columns.items():
                fits &= some[:, axis, None] + column <= self.limits[axis]
            one, other = np.nonzero(fits)
            yield one + start, other
