"""What the search needs to know of each dataspace: components of its ranks, tiles, traffic."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property, reduce
from itertools import product

import numpy as np

from model.counting.words import distinct_sums
from model.extents import PERFECT, Factors
from model.numbers import divisors
from model.problem import Dataspace, Problem
from solver.search.arrays import IntArray, distinct
from solver.search.space.lattice import Lattice

MAX_WINDOW_POINTS = 2_000_000
"""Points of a window up to which its words are counted one by one."""

RankTerms = tuple[tuple[int, int], ...]
"""Pairs (active dimension, coefficient)."""


@dataclass(frozen=True)
class Component:
    """Ranks of a dataspace that share dimensions, such as ``p * stride + r``.

    ``window_words`` is a lower bound on the distinct indices that the whole iteration space touches
    in these ranks, exact where it was cheap to count. ``sliding`` tells that neighbouring tiles can overlap.

    Parameters
    ----------
    dims
        Places of the active dimensions that index these ranks, ascending.
    ranks
        Terms of each rank.
    window_words
        In words; 1 + the sum of all bounds less 1 where there are more than `MAX_WINDOW_POINTS` points.
    """

    dims: tuple[int, ...]
    ranks: tuple[RankTerms, ...]
    window_words: int

    @property
    def sliding(self) -> bool:
        """Whether several dimensions index these ranks together."""
        return len(self.dims) > 1

    @property
    def partitions(self) -> bool:
        """Whether one dimension alone indexes one rank, with coefficient 1: tiles are a partition of it."""
        return len(self.dims) == 1 and len(self.ranks) == 1 and abs(self.ranks[0][0][1]) == 1

    def distinct_tiles(self, factors: tuple[int, ...], bounds: tuple[int, ...], kind: Factors) -> int:
        """Lower bound on the distinct tiles among children unrolled by `factors`, one per dimension.

        Exact for the most favourable tile where two dimensions index one rank, and factors divide. Otherwise
        a sum of arithmetic progressions of lengths a and b has at least a + b - 1 values.
        """
        if len(self.dims) == 2 and len(self.ranks) == 1 and kind == PERFECT:
            steps = dict(self.ranks[0])
            return _fewest_sums(factors, bounds, tuple(abs(steps[d]) for d in self.dims))
        return 1 + sum(factor - 1 for factor in factors)

    @property
    def linear(self) -> bool:
        """Whether there is one rank only."""
        return len(self.ranks) == 1

    @property
    def turns(self) -> bool:
        """Whether its dimensions move a rank in both directions."""
        return any(min(c for _, c in rank) * max(c for _, c in rank) < 0 for rank in self.ranks)

    def coefficient(self, dim: int) -> int:
        """How far the only rank moves per index of `dim`."""
        return dict(self.ranks[0])[dim]


@cache
def _fewest_sums(factors: tuple[int, ...], bounds: tuple[int, ...], steps: tuple[int, ...]) -> int:
    """Fewest values of a sum of two progressions over all tiles below the unrolled loops."""
    (factor_a, factor_b), (bound_a, bound_b), (step_a, step_b) = factors, bounds, steps
    return min(
        distinct_sums(factor_a, step_a * tile_a, factor_b, step_b * tile_b)
        for tile_a in divisors(bound_a // factor_a)
        for tile_b in divisors(bound_b // factor_b)
    )


@dataclass(frozen=True)
class DataspaceView:
    """A dataspace in terms of the active dimensions (those with a bound above 1).

    ``simple`` means that every active dimension indexes at most one rank, alone and with
    coefficient 1: its tiles partition it, so that traffic has a closed form.

    Parameters
    ----------
    place
        Among the dataspaces of the problem.
    relevant, irrelevant
        Active dimensions that index it, and all others.
    """

    name: str
    place: int
    read_write: bool
    relevant: frozenset[int]
    irrelevant: frozenset[int]
    components: tuple[Component, ...]
    simple: bool

    @cached_property
    def windows(self) -> tuple[tuple[int, int], ...]:
        """Pairs of a component along which tiles can overlap, and one of its dimensions."""
        sliding = ((number, c) for number, c in enumerate(self.components) if c.sliding)
        return tuple((number, dim) for number, component in sliding for dim in component.dims)

    @cached_property
    def window_dims(self) -> frozenset[int]:
        """Dimensions along which neighbouring tiles can overlap."""
        return frozenset(d for c in self.components if c.sliding for d in c.dims)

    @cached_property
    def apart(self) -> frozenset[int]:
        """Dimensions that move the tile to where it overlaps with none before."""
        return self.relevant - self.window_dims

    def distinct_tiles(self, factors: Sequence[int], bounds: Sequence[int], kind: Factors) -> int:
        """Lower bound on the distinct tiles among children unrolled by `factors`."""
        return math.prod(
            component.distinct_tiles(
                tuple(factors[d] for d in component.dims), tuple(bounds[d] for d in component.dims), kind
            )
            for component in self.components
        )


def view(space: Dataspace, place: int, problem: Problem, active: Sequence[str]) -> DataspaceView:
    """Describe `space` over the active dimensions."""
    number = {dim: i for i, dim in enumerate(active)}
    ranks = [tuple((number[t.dim], t.coefficient) for t in rank if t.dim in number) for rank in space.ranks]
    ranks = [rank for rank in ranks if rank]
    relevant = frozenset(d for rank in ranks for d, _ in rank)
    bounds = [problem.bound[dim] for dim in active]
    components = tuple(_component_of(group, bounds) for group in _connected(ranks))
    simple = all(c.partitions for c in components)
    everything = frozenset(range(len(active)))
    return DataspaceView(
        space.name, place, space.read_write, relevant, everything - relevant, components, simple
    )


def _connected(ranks: Sequence[RankTerms]) -> list[list[RankTerms]]:
    groups: list[list[RankTerms]] = []
    for rank in ranks:
        dims = {d for d, _ in rank}
        touching = [g for g in groups if any(d in dims for other in g for d, _ in other)]
        merged = [rank, *(other for g in touching for other in g)]
        groups = [g for g in groups if g not in touching]
        groups.append(merged)
    return groups


def _component_of(ranks: Sequence[RankTerms], bounds: Sequence[int]) -> Component:
    dims = tuple(sorted({d for rank in ranks for d, _ in rank}))
    return Component(dims, tuple(ranks), _window_words(ranks, dims, bounds))


def _window_words(ranks: Sequence[RankTerms], dims: Sequence[int], bounds: Sequence[int]) -> int:
    if math.prod(bounds[d] for d in dims) > MAX_WINDOW_POINTS:
        return 1 + sum(bounds[d] - 1 for d in dims)
    if len(dims) == 1 and any(c for rank in ranks for _, c in rank):
        return bounds[dims[0]]  # a dimension that is alone moves to another word in each step
    points = np.zeros((1, len(ranks)), dtype=np.int64)
    for d in dims:
        step = np.array([dict(rank).get(d, 0) for rank in ranks], dtype=np.int64)
        moved = points[:, None, :] + np.arange(bounds[d])[None, :, None] * step[None, None, :]
        points = distinct(moved.reshape(-1, len(ranks)))
    return len(points)


@dataclass(frozen=True)
class TileTables:
    """Per lattice vector x, for one dataspace.

    Parameters
    ----------
    lattice
        Its vectors.
    tile, boxes
        The bounding box of the tile x, and its extent in each component; tables along the axes that matter.
    plain
        Words of all tiles x that cover the dataspace once, each delivered whole; likewise.
    """

    lattice: Lattice
    tile: IntArray
    boxes: tuple[IntArray, ...]
    plain: IntArray

    @cached_property
    def plain_words(self) -> IntArray:
        """`plain` as a table of shape (lattice size,)."""
        return self.lattice.spread(self.plain)


def tables(space: DataspaceView, lattice: Lattice) -> TileTables:
    """Tabulate `space` over the lattice."""
    dims = range(len(lattice.bounds))
    one: IntArray = np.ones([1 for _ in dims], dtype=np.int64)
    boxes = [box_along(component, [lattice.side(d) for d in dims]) for component in space.components]
    plain = math.prod((covered(component, lattice) for component in space.components), start=one)
    return TileTables(lattice, math.prod(boxes, start=one), tuple(one * box for box in boxes), plain)


def covered(component: Component, lattice: Lattice) -> IntArray:
    """Words of all tiles along a component, each delivered whole, as a table along its axes.

    Of several numbers of tiles that a vector stands for, those that have the fewest words. Where tiles are a
    partition, they have the same number of words, whatever they are: the table has one entry.
    """
    if component.partitions:
        return np.full((1,) * len(lattice.bounds), lattice.bounds[component.dims[0]], dtype=np.int64)
    ends = [
        (lattice.tiles_along(d), lattice.most_along(d))
        if _has_holes(component, d)
        else (lattice.tiles_along(d),)
        for d in component.dims
    ]
    tables = [
        _covered_words(component, lattice, dict(zip(component.dims, tiles, strict=True)))
        for tiles in product(*ends)
    ]
    least: IntArray = reduce(np.minimum, tables)
    return least


def _has_holes(component: Component, dim: int) -> bool:
    """Whether larger tiles along a dimension may have words that no iteration touches."""
    return component.linear and abs(component.coefficient(dim)) > 1


def _covered_words(component: Component, lattice: Lattice, tiles: dict[int, IntArray]) -> IntArray:
    number: IntArray = math.prod(tiles.values(), start=np.ones((1,) * len(lattice.bounds), dtype=np.int64))
    if component.linear:
        # Extents of all tiles along a dimension add up to its bound.
        longer = (
            abs(component.coefficient(d)) * (lattice.bounds[d] - own) * (number // own)
            for d, own in tiles.items()
        )
        return sum(longer, number)
    box: IntArray = np.ones_like(number)
    for rank in component.ranks:
        box = box * (1 + sum(abs(c) * (lattice.side(d) - 1) for d, c in rank))
    even = math.prod(own * lattice.side(d) == lattice.bounds[d] for d, own in tiles.items())
    return np.where(even, number * box, number)


def box_words(space: DataspaceView, extents: IntArray) -> IntArray:
    """Words of tiles of some extents, shape (tiles, dimensions)."""
    boxes = (box_along(component, extents.T) for component in space.components)
    words: IntArray = math.prod(boxes, start=np.ones(len(extents), dtype=np.int64))
    return words


def box_along(component: Component, extents: Sequence[IntArray] | IntArray) -> IntArray:
    """Extents of tiles in a component, given those of each dimension."""
    box: IntArray = np.ones(1, dtype=np.int64)
    for rank in component.ranks:
        box = box * (1 + sum(abs(c) * (extents[d] - 1) for d, c in rank))
    return box
