"""Dataspaces as the checker reads them: their tiles, and where loops move them."""

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from fractions import Fraction
from functools import cache, reduce
from itertools import chain, product
from math import prod

import numpy as np

from solver.certificate.checker.claims import MOST_CHILDREN, MOST_PAIRS, Array, Json, Number, able, remembered

Dims = tuple[int, ...]
Extent = Sequence[Number]  # iterations per dimension, of one tile or of many
Whole = tuple[int, ...]  # iterations per dimension, of one tile
Term = tuple[int, int]  # a dimension and its coefficient
Rank = tuple[Term, ...]
Group = tuple[Dims, tuple[Rank, ...]]  # dimensions that share ranks, however indirectly, and these
Strides = tuple[tuple[int, int, int], ...]  # loops: dimension, factor, how far the dimension advances


@cache
def divisors(number: int) -> list[int]:
    """Divisors in ascending order."""
    small = [f for f in range(1, math.isqrt(number) + 1) if number % f == 0]
    return sorted({*small, *(number // f for f in small)})


class Dataspace:
    """What tiles of a dataspace hold, where loops (dimension, factor, stride) move them, what children share.

    `counting.py` completes it by a rule: the words that loops which divide deliver.
    """

    def __init__(self, doc: Json, bounds: Sequence[int]) -> None:
        self.rw, self.keep, self.bounds = doc["read_write"], [tuple(kept) for kept in doc["keep"]], bounds
        ranks = [tuple((d, c) for d, c in rank if c and bounds[d] > 1) for rank in doc["ranks"]]
        self.ranks = [rank for rank in ranks if rank]
        times = Counter(d for rank in self.ranks for d, _ in rank)
        self.relevant = set(times)
        self.groups: list[Group] = [((d,), ()) for d in range(len(bounds))]
        for rank in self.ranks:
            met = [group for group in self.groups if {*group[0]} & {*dict(rank)}]
            joined = tuple(chain(*(dims for dims, _ in met))), (*chain(*(own for _, own in met)), rank)
            self.groups = [*(group for group in self.groups if group not in met), joined]
        alone = [rank for rank in self.ranks if all(times[d] == 1 for d, _ in rank)]
        self.plain = {rank[0][0] for rank in alone if len(rank) == 1}
        self.windows = [rank for rank in alone if len(rank) == 2 and rank[0][1] * rank[1][1] > 0]
        self.tangled = self.relevant - self.plain - {d for rank in self.windows for d, _ in rank}
        self.is_plain = self.plain == self.relevant  # no two dimensions share a rank
        steps = [1 + abs(c) for rank in self.ranks for _, c in rank]
        self.dense = self.is_plain and {*steps} <= {2}
        self.least = prod(self.fewest_sums(own, bounds) for _, own in self.groups if own)
        self.most = prod(steps) * prod(bounds[d] ** (n - 1) for d, n in times.items()) * prod(bounds)
        self.ending = self.relevant  # dimensions of loops that end the reuse of a tile
        self.multicast: dict[int, bool] = {}  # by fanout, whether equal words are sent once

    @staticmethod
    def fewest_sums(ranks: Iterable[Rank], bounds: Sequence[int]) -> int:
        """At most the words that a group of dimensions touches: those of one rank, which are sums."""
        return max(1 + sum(bounds[d] - 1 for d, _ in rank) for rank in ranks)

    def stays(self, doc: Json) -> bool:
        """Whether tiles at a level may stay in place, or keep a part, from one step to the next."""
        return bool(doc["temporal_reuse"])

    def lengths(self, extent: Extent) -> list[Number]:
        """Lengths of the box that `extent` iterations per dimension touch, holes included, rank by rank."""
        return [1 + sum(abs(c) * (extent[d] - 1) for d, c in rank) for rank in self.ranks]

    def tile(self, extent: Extent) -> Number:
        """Words of that box."""
        return prod(self.lengths(extent))

    def move(self, d: int, stride: Number) -> tuple[Number, ...]:
        """How far the box moves along each rank when dimension `d` advances by `stride`."""
        return tuple(sum(c * stride for e, c in rank if e == d) for rank in self.ranks)

    def fresh(self, extent: Extent, move: Sequence[Number]) -> Number:
        """Words of the box that it did not cover before it moved."""
        both = [np.maximum(n - abs(step), 0) for n, step in zip(self.lengths(extent), move, strict=True)]
        return self.tile(extent) - prod(both)

    @remembered
    def distinct(self, loops: Strides, multicast: bool) -> int:
        """Number of children that spatial loops span, with multicast of those with different tiles."""
        children = prod(n for _, n, _ in loops)
        if not multicast:
            return children
        able(children < MOST_CHILDREN, "a fanout has too many children")
        offsets = {(0,) * len(self.ranks)}
        for d, n, stride in loops:
            step = self.move(d, stride)
            offsets = {
                tuple(a + i * s for a, s in zip(at, step, strict=True)) for at in offsets for i in range(n)
            }
        return len(offsets)

    def few_distinct(self, factors: Array, multicast: bool) -> Array:
        """At most that number for all strides, given factors (choice, dimension): windows may coincide."""
        if not multicast:
            return np.asarray(factors.prod(axis=1))
        least: Array = factors[:, sorted(self.plain)].prod(axis=1)
        least = least * factors[:, sorted(self.tangled)].max(axis=1, initial=1)
        for (d, near), (e, far) in self.windows:
            pairs, index = np.unique(factors[:, [d, e]], axis=0, return_inverse=True)
            (a, b), strides = pairs.T, product(*(divisors(self.bounds[i]) for i in (d, e)))
            ratios = {Fraction(near * x, far * y) for x, y in strides}
            able(len(ratios) * len(a) < MOST_PAIRS, "windows have too many strides")
            again = (np.maximum(a - r.denominator, 0) * np.maximum(b - r.numerator, 0) for r in ratios)
            least = least * (a * b - reduce(np.maximum, again))[index.ravel()]
        return least

    def decisive(
        self, loops: Iterable[tuple[int, int]], inner: Whole, outer: Whole, spatial: bool
    ) -> Hashable:
        """What words written first depend on: all loops that move a tile, in any order within a node."""
        return frozenset((d, n, inner[d]) for d, n in loops if n > 1 and d in self.relevant)
