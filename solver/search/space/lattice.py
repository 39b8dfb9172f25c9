"""The divisor lattice: all vectors of tile extents, each a divisor of its dimension's bound.

A vector is stored by the exponents of its primes, one axis per (dimension, prime). The linear index
of a product of two vectors is the sum of their indices, and a minimum over all divisors of a vector
is a running minimum along each axis.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from model.numbers import prime_factors
from solver.search.arrays import BoolArray, IntArray
from solver.search.space.packing import Packed, packed

SHORT_ROW, MANY_ROWS = 8, 500
"""Entries up to which the rows of an array are short, and rows from which on it has many."""

FEW_BASES, MANY_POWERS = 2, 4
"""Bases up to which those with so many powers get fewer of them, when a lattice is made coarser."""

PAIRS_PER_STATE = 0.1
"""Up to this many pairs per lattice state and axis, comparing them is faster than sweeping along the axes."""

INFINITY = 1 << 59
"""Stands for "impossible" in tables; a dozen of them still add up without overflow."""

Steps = tuple[tuple[int, int], ...]
"""Bases and largest exponents: the products of their powers are the extents of a dimension."""


def coarsened(steps: Steps) -> Steps:
    """Fewer extents of the same bound: a base with half as many powers, or one instead of two."""
    base, exponent = max(steps, key=lambda own: own[1])
    if len(steps) <= FEW_BASES and exponent >= MANY_POWERS:
        half = exponent // 2
        halves = ((base**half, 2),) if exponent % 2 == 0 else ((base**half, 1), (base ** (half + 1), 1))
        return (*halves, *(own for own in steps if own != (base, exponent)))
    whole = (math.prod(base**exponent for base, exponent in steps[-2:]), 1)
    return (*steps[:-2], whole)


def _products(steps: Steps) -> tuple[int, ...]:
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
    def strides(self) -> tuple[int, ...]:
        """Step of the linear index per exponent, one per axis."""
        return tuple(math.prod(self.shape[a + 1 :]) for a in range(len(self.shape)))

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
        """The same: only with remainders several extents have as many tiles."""
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
        return tuple(_products(self.steps(dim)) for dim in range(len(self.bounds)))

    @cached_property
    def places(self) -> IntArray:
        """Place of every vector's extents in `divisors_of`, shape (size, dimensions)."""
        return np.indices(self.counts).reshape(len(self.counts), self.size).T

    @cached_property
    def position(self) -> tuple[dict[int, int], ...]:
        """Per dimension, the place of each divisor in `divisors_of`."""
        return tuple({v: i for i, v in enumerate(self.divisors_of(d))} for d in range(len(self.bounds)))

    @cached_property
    def counts(self) -> tuple[int, ...]:
        """How many extents each dimension has."""
        return tuple(len(self.divisors_of(d)) for d in range(len(self.bounds)))

    def side(self, dim: int) -> IntArray:
        """Extents of a dimension, along its axis of tables of shape `counts`."""
        extents = np.array(self.divisors_of(dim), dtype=np.int64)
        return extents.reshape([-1 if d == dim else 1 for d in range(len(self.bounds))])

    def tiles_along(self, dim: int) -> IntArray:
        """Tiles that cover a dimension, along its axis of tables of shape `counts`."""
        tiles: IntArray = self.bounds[dim] // self.side(dim)
        return tiles

    def most_along(self, dim: int) -> IntArray:
        """The same, but most of them where a vector stands for several numbers of tiles."""
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

    def index(self, vector: Sequence[int]) -> int:
        """Linear index of a vector of extents.

        Raises
        ------
        KeyError
            If an extent is none of the lattice's, as may be of a coarse dimension.
        """
        places = (self.position[d][v] * self.dim_strides[d] for d, v in enumerate(vector))
        return sum(places)

    def have(self, factors: IntArray) -> BoolArray:
        """Which rows, shape (rows, dimensions), are factors of the lattice, as may not be of a coarse one."""
        have = np.ones(len(factors), dtype=np.bool_)
        for d, divisors in enumerate(self._divisors):
            have &= np.isin(factors[:, d], divisors)
        return have

    def codes(self, factors: IntArray) -> IntArray:
        """Numbers for the factors of one fanout in each row, shape (rows, dimensions)."""
        codes: IntArray = np.zeros(len(factors), dtype=np.int64)
        for d, stride in enumerate(self.dim_strides):
            divisors = np.array(self.divisors_of(d), dtype=np.int64)
            order = np.argsort(divisors)
            codes += order[np.searchsorted(divisors, factors[:, d], sorter=order)] * stride
        return codes

    def code(self, factors: Sequence[int]) -> int:
        """A number for spatial factors of the lattice."""
        return self.index(factors)

    def nested(self, several: Sequence[Sequence[int]]) -> int:
        """The code of spatial factors of several fanouts together, outermost first."""
        return sum(self.code(factors) for factors in several)

    def factors(self, code: int) -> tuple[int, ...]:
        """The spatial factors that have this code."""
        return self.vector(code)

    def product(self, codes: IntArray, others: IntArray) -> IntArray:
        """Codes of products of spatial factors, which are within the bounds."""
        return codes + others

    def common(self, codes: IntArray, starts: IntArray) -> IntArray:
        """Codes of the largest factors that divide all others of a range; ranges begin at `starts`."""
        least = np.minimum.reduceat(self.exponents[codes], starts, axis=0).astype(np.int64)
        common: IntArray = least @ np.array(self.strides, dtype=np.int64)
        return common

    def unrolled(self, codes: IntArray) -> IntArray:
        """Indices of the tiles of spatial factors alone, with one iteration in each instance."""
        return codes

    def largest_below(self, codes: IntArray) -> IntArray:
        """Indices of the largest tiles that leave room for spatial factors outside."""
        return self.size - 1 - codes

    def vector(self, index: int) -> tuple[int, ...]:
        """Extents at a linear index."""
        return tuple(int(v) for v in self.extents[index])

    @cached_property
    def packed(self) -> tuple[Packed, ...]:
        """The exponents of every vector, packed."""
        return packed(self.exponents, self.limits.tolist())

    def least_of_divisors(self, table: IntArray) -> IntArray:
        """Minimum of `table`, shape (size,), over all divisors of each vector."""
        return self._any_loops.sweep(table)

    @property
    def _any_loops(self) -> Slot:
        return Slot(self, tuple(frozenset(self.divisors_of(d)) for d in range(len(self.bounds))))

    def slot(self, allowed: Sequence[frozenset[int]]) -> Slot:
        """The temporal factors of a level."""
        return Slot(self, tuple(allowed))

    def loop_factors(self, dim: int) -> Sequence[int]:
        """All temporal factors of a dimension."""
        return self.divisors_of(dim)

    def least_prime(self, dim: int) -> int:
        """Least prime factor of a bound: no loop over the dimension has fewer iterations."""
        return min(prime for prime, _ in prime_factors(self.bounds[dim]))

    def times(self, indices: IntArray, factors: Iterable[int]) -> tuple[IntArray, IntArray]:
        """Products of vectors at `indices` and `factors` within the bounds, and the places of the former.

        Both arrays have shape (products,), factor by factor; there is one factor at the least.
        """
        fits = [(factor, np.flatnonzero(self.fitting(indices, factor))) for factor in factors]
        products = [indices[places] + factor for factor, places in fits]
        return np.concatenate(products), np.concatenate([places for _, places in fits])

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

    def fitting(self, indices: IntArray, factor: int, whole: int = -1) -> BoolArray:
        """Which of the vectors at `indices`, times the vector at `factor`, divide the one at `whole`.

        By default, that is the largest one, all bounds. The answer has the shape of `indices`.
        """
        fits = np.full(len(indices), (self.exponents[factor] <= self.exponents[whole]).all())
        for part in self.packed:
            fits &= part.covers(part.codes[whole] - part.codes[factor], part.codes[indices])
        return fits


@dataclass(frozen=True)
class Slot:
    """The temporal factors that one storage level may have, per dimension.

    ``allowed[d]`` lists the allowed divisors of dimension d.
    """

    lattice: Lattice
    allowed: tuple[frozenset[int], ...]

    @cached_property
    def masks(self) -> tuple[BoolArray, ...]:
        """Per dimension, which places of ``divisors_of`` are allowed factors, shape (divisors,)."""
        return tuple(
            np.array([v in allowed for v in self.lattice.divisors_of(d)], dtype=np.bool_)
            for d, allowed in enumerate(self.allowed)
        )

    @cached_property
    def free(self) -> tuple[bool, ...]:
        """Per dimension, whether every divisor is allowed."""
        return tuple(bool(mask.all()) for mask in self.masks)

    @cached_property
    def trivial(self) -> tuple[bool, ...]:
        """Per dimension, whether only the factor 1 is allowed."""
        return tuple(allowed == {1} for allowed in self.allowed)

    def reach(self, sources: IntArray, targets: IntArray) -> Reach:
        """Look at minima over the `sources` that this slot connects with each of the `targets`."""
        return Reach(self, sources, targets)

    def connects(self, sources: IntArray, targets: IntArray, dims: Sequence[int] | None) -> BoolArray:
        """Which targets (rows) loops of this slot make of which sources (columns), shape (targets, sources).

        Only loops over `dims` (None: any). Both are linear indices.
        """
        lattice = self.lattice
        every = range(len(self.allowed))
        moving = [d for d in (every if dims is None else dims) if not self.trivial[d]]
        still = [d for d in every if d not in moving]
        if any(1 not in self.allowed[d] for d in still):
            return np.zeros((len(targets), len(sources)), dtype=np.bool_)
        strides = np.array([lattice.dim_strides[d] for d in still], dtype=np.int64)
        rows, columns = lattice.places[targets], lattice.places[sources]
        connects: BoolArray = (rows[:, still] @ strides)[:, None] == (columns[:, still] @ strides)[None, :]
        for d in (d for d in moving if not self.free[d]):
            connects &= self._steps[d][rows[:, d]][:, columns[:, d]]
        axes = [a for a, (d, _, _) in enumerate(lattice.axes) if d in moving and self.free[d]]
        for part in lattice.packed if axes else ():
            connects &= part.covers(part.codes[targets][:, None], part.codes[sources][None, :], axes)
        return connects

    @cached_property
    def _steps(self) -> tuple[BoolArray, ...]:
        """Per dimension, which places of ``divisors_of`` (rows) its loop reaches from which (columns)."""
        return tuple(
            np.array(
                [
                    [t % s == 0 and t // s in allowed for s in self.lattice.divisors_of(d)]
                    for t in self.lattice.divisors_of(d)
                ]
            )
            for d, allowed in enumerate(self.allowed)
        )

    def products(self, indices: IntArray) -> BoolArray:
        """Which vectors loops of this slot make of those at `indices`, shape (lattice size,)."""
        table = np.full(self.lattice.size, INFINITY, dtype=np.int64)
        table[indices] = 0
        made: BoolArray = self.sweep(table) == 0
        return made

    def sweep(self, table: IntArray, dims: Sequence[int] | None = None) -> IntArray:
        """Minimum of `table`, shape (lattice size,), over all vectors which this slot connects with each
        vector.

        ``result[x] = min(table[y] for y | x if x / y is allowed here)``, with x and y equal in the
        dimensions that are not in `dims` (default: all); `INFINITY` where there is no such y.
        """
        every = range(len(self.allowed))
        moving = every if dims is None else dims
        if any(1 not in self.allowed[d] for d in every if d not in moving):
            return np.full_like(table, INFINITY)
        result = table.copy()
        for d in (d for d in moving if not self.trivial[d]):
            if self.free[d]:
                self._sweep_free(result, d)
            else:
                result = self._sweep_listed(result, d)
        return result

    def _sweep_free(self, table: IntArray, dim: int) -> None:
        for view in self._along(table, dim):
            for e in range(1, view.shape[1]):
                np.minimum(view[:, e], view[:, e - 1], out=view[:, e])

    def _along(self, table: IntArray, dim: int) -> Iterator[IntArray]:
        """Views of `table` whose second axis has the powers of one of the primes of `dim`."""
        shape = self.lattice.shape
        for a in (a for a, (d, _, _) in enumerate(self.lattice.axes) if d == dim):
            view = table.reshape(math.prod(shape[:a]), shape[a], -1)
            rows, _, columns = view.shape
            # Arrays of many short rows are slow: columns one by one are not.
            split = columns <= SHORT_ROW and rows >= MANY_ROWS
            yield from (view[:, :, n] for n in range(columns)) if split else (view,)

    def _sweep_listed(self, table: IntArray, dim: int) -> IntArray:
        places = self.lattice.position[dim]
        values = self.lattice.divisors_of(dim)
        stride = self.lattice.dim_strides[dim]
        old = table.reshape(-1, len(values), stride)
        new = np.full_like(old, INFINITY)
        steps = (
            (place, places[value // factor])
            for factor in self.allowed[dim]
            for place, value in enumerate(values)
            if value % factor == 0 and value // factor in places
        )
        for target, source in steps:
            np.minimum(new[:, target], old[:, source], out=new[:, target])
        return new.reshape(table.shape)


class Reach:
    """Minima over the sources that a slot connects with each target.

    Few sources and targets are compared pair by pair, many by sweeping the whole lattice.
    """

    def __init__(self, slot: Slot, sources: IntArray, targets: IntArray) -> None:
        self._slot = slot
        self._sources = sources
        self._targets = targets
        self._connects: dict[tuple[int, ...] | None, BoolArray] = {}

    def least(self, values: IntArray, dims: tuple[int, ...] | None = None) -> IntArray:
        """Per target, the minimum of `values` (one per source).

        Sources and targets are equal in the dimensions that are not in `dims` (default: all are in).

        Returns
        -------
        IntArray
            Shape (targets,); `INFINITY` for those that no source is connected with.
        """
        if self._are_many(dims):
            table = np.full(self._slot.lattice.size, INFINITY, dtype=np.int64)
            np.minimum.at(table, self._sources, values)
            return self._slot.sweep(table, dims)[self._targets]
        if dims not in self._connects:
            self._connects[dims] = self._slot.connects(self._sources, self._targets, dims)
        least: IntArray = np.where(self._connects[dims], values, INFINITY).min(axis=1, initial=INFINITY)
        return least

    def _are_many(self, dims: tuple[int, ...] | None) -> bool:
        """Whether there are so many pairs that sweeping the lattice along `dims` is faster."""
        lattice, trivial = self._slot.lattice, self._slot.trivial
        axes = [d for d, _, _ in lattice.axes if not trivial[d] and (dims is None or d in dims)]
        pairs = len(self._sources) * len(self._targets)
        return pairs > PAIRS_PER_STATE * (1 + len(axes)) * lattice.size
