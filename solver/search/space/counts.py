"""Tiles where the last one along a dimension may be short: vectors of numbers of tiles.

With tiles of extent x, a dimension of bound N has T = ceil(N / x) of them. What is counted at a boundary
follows from T, and a loop of f iterations around the tiles leaves ceil(T / f). So a vector holds the numbers
of tiles; its extents are the least that have so many. There are about 2 sqrt(N) numbers per dimension.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import count, pairwise
from operator import mul
from typing import NamedTuple

import numpy as np

from solver.search.arrays import BoolArray, IntArray
from solver.search.space.lattice import INFINITY, Lattice, Reach, Slot
from solver.search.space.packing import Packed

EITHER, MOVING = 0, -1

FEW_PAIRS = 1 << 14
"""Pairs of sources and targets up to which they are compared one by one."""

_Unrolled = tuple[tuple[int, ...], tuple[int, ...]]
"""Spatial factors per dimension, and how many tiles they need."""


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


def _joined(starts: Sequence[int], numbers: Sequence[int], grain: float) -> list[int]:
    """Where cells begin once neighbours are joined whose numbers differ by less than a factor."""
    kept = [0]
    for start, end in pairwise((*starts[1:], len(numbers))):
        if numbers[kept[-1]] > grain * numbers[end - 1]:
            kept.append(start)
    return kept


class Alone(NamedTuple):
    """A loop whose last pass leaves some tiles in place: some child has one iteration.

    Parameters
    ----------
    dim
        What it runs over.
    left
        Rounds of tiles in that pass: 1, or 2 of which the second one has fewer tiles than there are children;
        or `EITHER`. `MOVING` stands for any loop, whatever it leaves in place.
    """

    dim: int
    left: int


class Mover(NamedTuple):
    """A loop that leaves some tiles in place, which decides what the loops outside of it cost.

    Parameters
    ----------
    alone
        The loop.
    children
        How many tiles along its dimension run side by side in an iteration.
    inside
        Places of these tiles along it, shape (sources,).
    costs
        By place of the tiles, and kind of what is outside.
    kinds
        Of each target, shape (targets,).
    """

    alone: Alone
    children: int
    inside: IntArray
    costs: IntArray
    kinds: IntArray


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
            starts = _joined(starts, numbers, grain)
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
        """The same along a dimension, as `side` has the least ones."""
        bound, own = self.bounds[dim], self.tiles_along(dim)
        extents: IntArray = np.where(own == 1, bound, -(-bound // np.maximum(own - 1, 1)) - 1)
        return extents

    def rounds(self, dim: int, children: int) -> tuple[IntArray, IntArray]:
        """Places of the numbers of rounds that so many children take for each number of tiles, from and to.

        Returns
        -------
        tuple
            By place along the dimension, twice.
        """
        first = self.place(dim, -(-self.most[dim] // children))
        return first, self.place(dim, -(-self.numbers[dim] // children))

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
        """As of `Lattice`."""
        return self.most[dim].reshape([-1 if d == dim else 1 for d in range(len(self.bounds))])

    def place(self, dim: int, numbers: IntArray) -> IntArray:
        """Places of the cells of numbers of tiles along an axis."""
        return np.searchsorted(-self.numbers[dim], -numbers)

    def index(self, vector: Sequence[int]) -> int:
        """Linear index of the tiles of any extents within the bounds."""
        return int(self._index(np.array([vector], dtype=np.int64))[0])

    def _index(self, extents: IntArray) -> IntArray:
        """Linear indices of the tiles of extents, shape (tiles, dimensions)."""
        tiles = -(-np.array(self.bounds, dtype=np.int64) // extents)
        return self._indices(tiles)

    def _indices(self, tiles: IntArray) -> IntArray:
        """Linear indices of numbers of tiles, shape (vectors, dimensions)."""
        indices: IntArray = np.zeros(len(tiles), dtype=np.int64)
        for d, stride in enumerate(self.dim_strides):
            indices += self.place(d, tiles[:, d]) * stride
        return indices

    @property
    def packed(self) -> tuple[Packed, ...]:
        """None: vectors are compared by their numbers."""
        return ()

    def least_prime(self, dim: int) -> int:
        """The fewest iterations of a loop."""
        return 2

    # Spatial factors.

    @cached_property
    def _codes(self) -> _Codes:
        """Spatial factors, and how many tiles they need so that no child has nothing to do."""
        return _Codes(len(self.bounds))

    @cached_property
    def _code_of(self) -> dict[_Unrolled, int]:
        """Codes that were asked for one by one."""
        return {}

    @cached_property
    def _vector_of(self) -> dict[int, _Unrolled]:
        return {}

    @property
    def _ones(self) -> tuple[int, ...]:
        return (1,) * len(self.bounds)

    def have(self, factors: IntArray) -> BoolArray:
        """Which rows, shape (rows, dimensions), are within the bounds."""
        have: BoolArray = np.logical_and.reduce(factors <= np.array(self.bounds, dtype=np.int64), axis=1)
        return have

    def codes(self, factors: IntArray) -> IntArray:
        """As of `Lattice`."""
        return self._codes.of(np.stack((factors, factors), axis=1))

    def code(self, factors: Sequence[int]) -> int:
        """A number for spatial factors of one fanout."""
        vector = tuple(int(factor) for factor in factors)
        return self._code(vector, vector)

    def nested(self, several: Sequence[Sequence[int]]) -> int:
        """As of `Lattice`."""
        product, needed = self._ones, self._ones
        for factors in reversed(several):
            needed = tuple(
                (f - 1) * p + 1 if f > 1 else n for f, p, n in zip(factors, product, needed, strict=True)
            )
            product = tuple(map(mul, factors, product))
        return self._code(product, needed)

    def _code(self, factors: tuple[int, ...], needed: tuple[int, ...]) -> int:
        vector = factors, needed
        if vector not in self._code_of:
            self._code_of[vector] = int(self._codes.of(np.array([vector], dtype=np.int64))[0])
        return self._code_of[vector]

    def _vector(self, code: int) -> _Unrolled:
        if code not in self._vector_of:
            factors, needed = self._codes.vectors[code].tolist()
            self._vector_of[code] = tuple(factors), tuple(needed)
        return self._vector_of[code]

    def factors(self, code: int) -> tuple[int, ...]:
        """The spatial factors that have this code."""
        return self._vector(code)[0]

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

    def common(self, codes: IntArray, starts: IntArray) -> IntArray:
        """Codes of the largest factors that no others of a range are below; ranges begin at `starts`."""
        return self._codes.of(np.minimum.reduceat(self._codes.vectors[codes], starts, axis=0))

    def unrolled(self, codes: IntArray) -> IntArray:
        """Indices of the tiles of spatial factors alone, with one iteration in each instance."""
        return self._index(np.minimum(self._factors(codes), np.array(self.bounds)))

    def largest_below(self, codes: IntArray) -> IntArray:
        """Indices of the largest tiles of which there are as many as spatial factors outside."""
        needed, indices = self._needed(codes), np.zeros(len(codes), dtype=np.int64)
        for d, stride in enumerate(self.dim_strides):
            indices += (np.searchsorted(-self.most[d], -needed[:, d], side="right") - 1) * stride
        return indices

    def _leaving(self, codes: Iterable[int]) -> BoolArray:
        leaves = np.zeros(self.counts, dtype=np.bool_)
        for code in set(codes):
            leaves[tuple(slice(0, last) for last in self._roomy(code))] = True
        return leaves.reshape(self.size)

    def _roomy(self, code: int) -> list[int]:
        """Per dimension, how many places have as many tiles as spatial factors outside."""
        pairs = zip(self.most, self._vector(code)[1], strict=True)
        return [int(np.searchsorted(-most, -needed, side="right")) for most, needed in pairs]

    def enough(self, indices: IntArray, code: int) -> IntArray:
        """Places of those at `indices` that may have as many tiles as spatial factors need."""
        inner, roomy = self.places[indices], self._roomy(code)
        busy = np.ones(len(indices), dtype=np.bool_)
        for d in (d for d, factor in enumerate(self.factors(code)) if factor > 1):
            busy &= inner[:, d] < roomy[d]
        return np.flatnonzero(busy)

    def times(self, indices: IntArray, factors: Iterable[int]) -> tuple[IntArray, IntArray]:
        """Tiles outside of spatial factors around those at `indices`, and the places of these.

        Both arrays have shape (products,), factor by factor; there is one factor at the least. Cells stand
        for the most tiles that they have.
        """
        products, origins = [], []
        inner = self.places[indices]
        for code in factors:
            moved = [(d, f) for d, f in enumerate(self.factors(code)) if f > 1]
            places = self.enough(indices, code)
            outside = indices[places]
            for d, factor in moved:
                shift = self.place(d, -(-self.most[d] // factor)) - np.arange(self.counts[d])
                outside = outside + (shift * self.dim_strides[d])[inner[places, d]]
            products.append(outside)
            origins.append(places)
        return np.concatenate(products), np.concatenate(origins)

    def dividing(self, first: IntArray, second: IntArray, most: int) -> Iterator[tuple[IntArray, IntArray]]:
        """Yield the places of pairs of spatial factors, the second inside, that the bounds have tiles for."""
        rows = max(1, most // max(1, len(second)))
        outside, inner = self._needed(first), self._factors(second)
        bounds = np.array(self.bounds, dtype=np.int64)
        for start in range(0, len(first), rows):
            fits = ((outside[start : start + rows, None] - 1) * inner[None] < bounds).all(axis=2)
            one, other = np.nonzero(fits)
            yield one + start, other

    def fitting(self, indices: IntArray, factor: int, whole: int = -1) -> BoolArray:
        """Which tiles at `indices` are so many that no instance is idle, and lie within the one `whole`."""
        factors, needed = self._vector(factor)
        within = np.ones(len(indices), dtype=np.bool_)
        places, outside = self.places[indices], self.tiles[whole]
        for d, (unrolled, least) in enumerate(zip(factors, needed, strict=True)):
            outer = int(outside[d])
            fits = (self.most[d] >= least) & (-(-self.most[d] // unrolled) >= outer)
            if not fits.all():
                within &= fits[places[:, d]]
        return within

    def slot(self, allowed: Sequence[frozenset[int]]) -> Slot:
        """The temporal factors of a level."""
        return CountSlot(self, tuple(allowed))

    def loop_factors(self, dim: int) -> Sequence[int]:
        """All temporal factors of a dimension."""
        return range(1, self.bounds[dim] + 1)


@dataclass(frozen=True)
class CountSlot(Slot):
    """The temporal factors that one storage level may have, where any are factors."""

    lattice: CountLattice

    @cached_property
    def free(self) -> tuple[bool, ...]:
        """Per dimension, whether every factor is allowed."""
        pairs = zip(self.lattice.bounds, self.allowed, strict=True)
        return tuple(len(allowed) == bound for bound, allowed in pairs)

    def steps(
        self, dim: int, alone: Alone | None = None, children: int = 1, still: bool = False
    ) -> BoolArray:
        """Which tiles outside (rows) loops over a dimension leave of which inside (columns), by place.

        So many children take tiles inside at the same time.

        Parameters
        ----------
        alone
            Only such loops.
        still
            No loop at all.
        """
        key = dim, alone, children, still
        if key not in self._known_steps:
            numbers = np.array(self.lattice.every_number(dim), dtype=np.int64)
            rounds = np.searchsorted(-numbers, numbers // -children)
            steps = np.eye(len(numbers), dtype=np.bool_) if still else self._fine(dim, alone)
            self._known_steps[key] = self._in_cells(steps[:, rounds], dim)
        return self._known_steps[key]

    @cached_property
    def _known_steps(self) -> dict[tuple[int, Alone | None, int, bool], BoolArray]:
        return {}

    def _in_cells(self, steps: BoolArray, dim: int) -> BoolArray:
        """The same for cells of numbers."""
        starts = self.lattice.starts[dim]
        for axis in range(2):
            steps = np.logical_or.reduceat(steps, starts, axis=axis)
        return steps

    def _fine(self, dim: int, alone: Alone | None) -> BoolArray:
        """Which numbers of tiles (rows) a loop leaves of which (columns)."""
        if alone is None:
            return self._fine_steps(dim)
        if alone.left == MOVING:
            return np.tril(self._fine_steps(dim), -1)
        if alone.left == EITHER:
            return self._fine_alone(Alone(dim, 1)) | self._fine_alone(Alone(dim, 2))
        return self._fine_alone(alone)

    def _fine_steps(self, dim: int) -> BoolArray:
        numbers = np.array(self.lattice.every_number(dim), dtype=np.int64)
        outer, inner = numbers[:, None], numbers[None, :]
        if self.free[dim]:
            least = -(-inner // outer)
            steps: BoolArray = (outer <= inner) & (-(-inner // least) == outer)
            return steps
        steps = np.zeros((len(numbers), len(numbers)), dtype=np.bool_)
        for factor in self.allowed[dim]:
            inside = np.flatnonzero(numbers >= factor)
            steps[np.searchsorted(-numbers, numbers[inside] // -factor), inside] = True
        return steps

    def _loops_of(self, dim: int, unrolled: int, outer: int) -> IntArray:
        """Factors that leave `outer` tiles outside of spatial ones, shape (3, numbers of tiles); 0 for none.

        Those with one or two rounds in the last pass, and the least of all others.
        """
        key = dim, unrolled, outer
        if key not in self._known_loops:
            rounds = (-(-self.lattice.numbers[dim] // unrolled)).tolist()
            found = [loop_factors(own, outer, self._sorted[dim]) for own in rounds]
            self._known_loops[key] = np.array(
                [(few[0] if few else 0, *single) for *single, few in found], dtype=np.int64
            ).T
        return self._known_loops[key]

    @cached_property
    def _known_loops(self) -> dict[tuple[int, int, int], IntArray]:
        return {}

    @cached_property
    def _sorted(self) -> tuple[Sequence[int], ...]:
        """Allowed factors, ascending."""
        ranges = (range(1, bound + 1) for bound in self.lattice.bounds)
        return tuple(
            every if free else sorted(allowed)
            for every, free, allowed in zip(ranges, self.free, self.allowed, strict=True)
        )

    def _fine_alone(self, alone: Alone) -> BoolArray:
        """The factor divides all rounds but those of the last pass."""
        dim, left = alone
        numbers = np.array(self.lattice.every_number(dim), dtype=np.int64)
        outer, inner = numbers[:, None], numbers[None, :]
        factors = (inner - left) // np.maximum(outer - 1, 1)
        exact = (outer > 1) & (factors * (outer - 1) == inner - left)
        # A single pass has as many iterations as there are rounds.
        only = (outer == 1) & (inner == left)
        factors = np.where(only, left, factors)
        allowed = np.array(sorted(self.allowed[dim] - {1}), dtype=np.int64)
        steps: BoolArray = (exact | only) & np.isin(factors, allowed)
        return steps

    def connects(self, sources: IntArray, targets: IntArray, dims: Sequence[int] | None) -> BoolArray:
        """As of `Slot`."""
        return self.reach(sources, targets).connected(dims, {})

    def reach(self, sources: IntArray, targets: IntArray, factors: IntArray | None = None) -> CountReach:
        """As of `Slot`, with spatial factors around the sources, of shape (sources, dimensions)."""
        return CountReach(self, sources, targets, factors)

    def _sweep_listed(self, table: IntArray, dim: int) -> IntArray:
        return self._sweep_pairs(table, dim, self.steps(dim))

    def _sweep_pairs(self, table: IntArray, dim: int, steps: BoolArray) -> IntArray:
        stride = self.lattice.dim_strides[dim]
        old = table.reshape(-1, self.lattice.counts[dim], stride)
        new = np.full_like(old, INFINITY)
        for target, source in np.argwhere(steps).tolist():
            np.minimum(new[:, target], old[:, source], out=new[:, target])
        return new.reshape(table.shape)


class CountReach(Reach):
    """The same where any are factors: many tiles are compared dimension by dimension."""

    _slot: CountSlot

    def __init__(
        self, slot: CountSlot, sources: IntArray, targets: IntArray, factors: IntArray | None = None
    ) -> None:
        super().__init__(slot, sources, targets)
        dims = len(slot.allowed)
        self._children: list[list[int]] = [[1] for _ in range(dims)]
        self._inside = slot.lattice.places[sources]
        if factors is None or not len(sources):
            return
        for d in range(dims):
            children, which = np.unique(factors[:, d], return_inverse=True)
            self._children[d] = children.tolist()
            self._inside[:, d] += which * slot.lattice.counts[d]

    @property
    def _codes(self) -> list[int]:
        """Places of tiles inside, for each number of children; the number of both, per dimension."""
        pairs = zip(self._slot.lattice.counts, self._children, strict=True)
        return [count * len(children) for count, children in pairs]

    @cached_property
    def _outside(self) -> IntArray:
        return self._slot.lattice.places[self._targets]

    def least(
        self,
        values: IntArray,
        dims: tuple[int, ...] | None = None,
        alone: tuple[Alone, ...] = (),
        mover: Mover | None = None,
    ) -> IntArray:
        """As of `Reach`. The loops in `alone` are among those between, and a `mover` adds its costs."""
        special = {own.dim: own for own in (alone if mover is None else (*alone, mover.alone))}
        moving = range(len(self._slot.allowed)) if dims is None else dims
        chosen = np.flatnonzero(values < INFINITY)
        if not len(chosen) or any(d not in moving or self._slot.trivial[d] for d in special):
            return np.full(len(self._targets), INFINITY, dtype=np.int64)
        if len(chosen) * len(self._targets) > FEW_PAIRS:
            return self._by_dimensions(values, chosen, dims, special, mover)
        some = self._only(chosen)
        costs = np.where(some.connected(dims, special), values[chosen], INFINITY)
        if mover is not None:
            inside, outside = mover.inside[chosen], self._outside[:, mover.alone.dim]
            steps = self._mover_steps(mover)[outside][:, inside]
            more = mover.costs[inside[None, :], mover.kinds[:, None]]
            costs = np.where(steps, np.minimum(costs + more, INFINITY), INFINITY)
        least: IntArray = costs.min(axis=1, initial=INFINITY)
        return least

    def _only(self, chosen: IntArray) -> CountReach:
        """For some of the sources."""
        some = CountReach(self._slot, self._sources[chosen], self._targets)
        some.__dict__.update(_inside=self._inside[chosen], _outside=self._outside, _children=self._children)
        return some

    def connected(self, dims: Sequence[int] | None, special: Mapping[int, Alone]) -> BoolArray:
        """Which targets (rows) loops over `dims` make of which sources (columns)."""
        connects = np.ones((len(self._targets), len(self._sources)), dtype=np.bool_)
        for d in range(len(self._slot.allowed)):
            steps = self._steps(d, dims, special)
            connects &= steps[self._outside[:, d]][:, self._inside[:, d]]
        return connects

    def steps_of(self, alone: Alone) -> BoolArray:
        """Which targets (rows) such a loop leaves of which sources (columns) along its dimension."""
        steps = self._steps(alone.dim, None, {alone.dim: alone})
        connects: BoolArray = steps[self._outside[:, alone.dim]][:, self._inside[:, alone.dim]]
        return connects

    def _steps(self, dim: int, dims: Sequence[int] | None, special: Mapping[int, Alone]) -> BoolArray:
        """Tiles outside (rows) and inside (columns) of a dimension that go together, by place.

        There are columns for each number of children.
        """
        moving = (dims is None or dim in dims) and not self._slot.trivial[dim]
        alone = special.get(dim) if moving else None
        steps = [self._slot.steps(dim, alone, children, not moving) for children in self._children[dim]]
        every = steps[0] if len(steps) == 1 else np.concatenate(steps, axis=1)
        return every if moving else every & (1 in self._slot.allowed[dim])

    def _mover_steps(self, mover: Mover) -> BoolArray:
        return self._slot.steps(mover.alone.dim, mover.alone, mover.children)

    def _by_dimensions(
        self,
        values: IntArray,
        chosen: IntArray,
        dims: tuple[int, ...] | None,
        special: Mapping[int, Alone],
        mover: Mover | None,
    ) -> IntArray:
        """The same over the places that any source or target has, one dimension after the other."""
        inside = self._inside[chosen]
        if mover is not None:
            inside = inside.copy()
            inside[:, mover.alone.dim] = mover.inside[chosen]
        sources, shape, used = _places(inside, self._codes)
        targets, outer, present = self._target_places
        table = np.full(math.prod(shape), INFINITY, dtype=np.int64)
        np.minimum.at(table, sources, values[chosen])
        table = table.reshape(shape)
        last = None if mover is None else mover.alone.dim
        # The dimensions that leave the fewest entries first.
        order = sorted((d for d in range(len(shape)) if d != last), key=lambda d: outer[d] / shape[d])
        for d in order:
            steps = self._steps(d, dims, special)[present[d]][:, used[d]]
            table = _least_along(table, d, steps)
        if mover is not None:
            table = self._moved(table, mover, used[mover.alone.dim])
        return np.minimum(table.reshape(-1)[targets], INFINITY)

    @cached_property
    def _target_places(self) -> tuple[IntArray, tuple[int, ...], list[IntArray]]:
        return _places(self._outside, self._slot.lattice.counts)

    def _moved(self, table: IntArray, mover: Mover, inside: IntArray) -> IntArray:
        """The same along the dimension of a mover, with its costs."""
        targets, outer, present = self._target_places
        dim = mover.alone.dim
        kinds = np.zeros(math.prod(outer), dtype=np.int64)
        kinds[targets] = mover.kinds
        steps = self._mover_steps(mover)[present[dim]][:, inside]
        old = table.reshape(math.prod(outer[:dim]), len(inside), -1)
        by_kind = kinds.reshape(old.shape[0], outer[dim], old.shape[2])
        new = np.full(by_kind.shape, INFINITY, dtype=np.int64)
        for target, source in np.argwhere(steps).tolist():
            costs = old[:, source] + mover.costs[inside[source]][by_kind[:, target]]
            np.minimum(new[:, target], costs, out=new[:, target])
        return new


def _places(vectors: IntArray, counts: Sequence[int]) -> tuple[IntArray, tuple[int, ...], list[IntArray]]:
    """Linear indices of vectors among the places that occur, how many these are, and which, per dimension."""
    indices, used = np.zeros(len(vectors), dtype=np.int64), []
    for column, number in zip(vectors.T, counts, strict=True):
        occurs = np.zeros(number, dtype=np.bool_)
        occurs[column] = True
        places = np.flatnonzero(occurs)
        indices = indices * len(places) + (np.cumsum(occurs) - 1)[column]
        used.append(places)
    return indices, tuple(map(len, used)), used


def _least_along(table: IntArray, dim: int, steps: BoolArray) -> IntArray:
    """Per row of `steps`, the minimum of the table over its columns along a dimension."""
    moved = np.moveaxis(table, dim, 0)
    new = np.full((len(steps), *moved.shape[1:]), INFINITY, dtype=np.int64)
    for row, chosen in enumerate(steps):
        if chosen.any():
            moved[chosen].min(axis=0, out=new[row, ...])
    return np.moveaxis(new, 0, dim)
