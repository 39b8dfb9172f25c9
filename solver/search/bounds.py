"""Lower bounds by dynamic programming over the divisor lattice, from the compute outwards.

For each level l, tile x and reuse class k, ``inside[l][k][x]`` bounds from below the energy of all
boundaries inside the tile x of level l, when the dataspaces of class k are still in place in the loops
outside of it. A boundary's cost splits into a part that depends on its own tile and a part that depends
on the tile of the level above, because the loops between them cancel out for a reused dataspace:
so a running minimum over divisors joins the two.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from solver.search.lattice import INFINITY, IntArray
from solver.search.prices import BoundaryPrice
from solver.search.subproblem import Subproblem


def ceil_div(numerator: IntArray, denominator: int) -> IntArray:
    """Round up ``numerator / denominator``."""
    return numerator if denominator == 1 else -(-numerator // denominator)


@dataclass(frozen=True)
class Boundary:
    """The boundary below which a subproblem's level `level` keeps dataspace `place`."""

    sub: Subproblem
    place: int
    level: int

    @property
    def price(self) -> BoundaryPrice:
        """Energy and load of the words delivered."""
        return self.sub.prices[self.place][self.level]

    def counts_in(self, members: frozenset[int]) -> bool:
        """Whether the dataspace is one of `members` and reused at this boundary."""
        return self.place in members and self.sub.space.reuses(self.place, self.level)

    @cached_property
    def spread(self) -> int:
        """Product of the spatial factors above the level that index the dataspace."""
        return self.sub.above[self.level] // self.sub.unused_above(self.place, self.level)

    @cached_property
    def least_relevant(self) -> int:
        """Least words of all tiles that cover the dataspace once, over the tiles that fit."""
        return self.sub.space.least_relevant(self.place, self.level, self.sub.mask)

    @cached_property
    def once(self) -> int:
        """Least energy when all loops above reuse the dataspace."""
        return self.price.exact(-(-self.least_relevant // self.spread))

    def unreused(self, tiles: IntArray) -> IntArray:
        """Least energy of tiles without reuse in the slot above."""
        words = self.sub.space.unreused_words(self.place, self.level)[tiles]
        return self.price.price(ceil_div(words, self.sub.above[self.level]))

    def reused(self, outer_tiles: IntArray) -> IntArray:
        """Least energy when the slot above reuses the dataspace fully.

        What is left is one delivery per iteration of the loops outside of that slot, a function of
        the tile of the level that owns the slot.
        """
        irrelevant = self.sub.space.tables[self.place].irrelevant_tiles[outer_tiles]
        outside = ceil_div(irrelevant, self.sub.unused_above(self.place, self.level - 1))
        return self.price.price(ceil_div(self.least_relevant * outside, self.spread))

    def surplus(self, tiles: IntArray) -> IntArray:
        """Energy by which reused `tiles` exceed the cheapest tile, at least."""
        relevant = self.sub.space.tables[self.place].relevant_words[tiles]
        return self.price.increment((relevant - self.least_relevant) // self.spread)


@dataclass(frozen=True)
class StageTables:
    """The tiles of one level that can still matter, and their costs.

    ``least[k]`` is the energy at the level's boundary and inside it for class k of the slot above,
    without the part that depends on the tile outside; ``order[k]`` sorts the tiles by it.
    """

    tiles: IntArray
    least: tuple[IntArray, ...]
    order: tuple[IntArray, ...]


class LatticeBounds:
    """The dynamic program of one subproblem.

    Tiles are left out whose own boundary alone, with the least cost of all others, reaches `limit`
    (quanta beyond the subproblem's constant): they are part of no mapping below it.
    """

    def __init__(self, sub: Subproblem, limit: int) -> None:
        self.sub = sub
        self.space = sub.space
        self.classes = self.space.reuse_classes
        self.depth = len(self.space.levels)
        self.states = 0
        self.boundaries = tuple(self._boundaries(level) for level in range(self.depth))
        self.inside: list[IntArray] = []
        self.stages: list[StageTables] = []
        self._run(limit)

    @property
    def least(self) -> int:
        """Lower bound on the energy units of every mapping below the limit."""
        return self.sub.constant + int(self.inside[0][-1, 0]) * self.sub.quantum

    @property
    def empty(self) -> bool:
        """Whether no mapping is below the limit."""
        return int(self.inside[0][-1, 0]) >= INFINITY

    def _boundaries(self, level: int) -> tuple[Boundary, ...]:
        return tuple(
            Boundary(self.sub, place, level)
            for place, prices in enumerate(self.sub.prices)
            if level in prices
        )

    def _run(self, limit: int) -> None:
        tiles, own = self._survivors(limit)
        if any(len(t) == 0 for t in tiles):
            self.inside = [np.full((1, 1), INFINITY, dtype=np.int64)]
            return
        inside = self._innermost(tiles[-1])
        found = [inside]
        stages: list[StageTables] = []
        for level in reversed(range(self.depth - 1)):
            stage = self._stage(tiles[level + 1], own[level + 1], inside)
            inside = self._join(level, stage, tiles[level])
            stages.append(stage)
            found.append(inside)
        self.inside = found[::-1]
        self.stages = stages[::-1]

    def _survivors(self, limit: int) -> tuple[list[IntArray], list[IntArray]]:
        """Per level, the tiles that can matter, and per class and tile the cost at their boundary."""
        whole = self.space.lattice.size - 1
        outermost = self.sub.feasible(0)
        tiles = [outermost[-1:] if len(outermost) and outermost[-1] == whole else outermost[:0]]
        own = [np.zeros((len(self.classes), len(tiles[0])), dtype=np.int64)]
        for level in range(1, self.depth):
            tiles.append(self.sub.feasible(level))
            own.append(self._own(level, tiles[-1]))
            self.states += len(tiles[-1])
        if any(len(t) == 0 for t in tiles):
            return tiles, own
        once = [self._once(level) for level in range(self.depth)]
        floors = [(costs + extra[:, None]).min(axis=0) for costs, extra in zip(own, once, strict=True)]
        slack = limit - sum(int(floor.min()) for floor in floors)
        for level, floor in enumerate(floors):
            keep = floor - floor.min() < slack
            tiles[level], own[level] = tiles[level][keep], own[level][:, keep]
        return tiles, own

    def _once(self, level: int) -> IntArray:
        """Per class, the least energy of the dataspaces it reuses at this boundary."""
        energies = [
            sum(b.once for b in self.boundaries[level] if b.counts_in(members)) for members in self.classes
        ]
        return np.array(energies, dtype=np.int64)

    def _own(self, level: int, tiles: IntArray) -> IntArray:
        """Energy at the boundary of `level` per class and tile, but for what the class reuses."""
        costs = np.zeros((len(self.classes), len(tiles)), dtype=np.int64)
        if len(tiles) == 0:
            return costs
        for b in self.boundaries[level]:
            loose = b.unreused(tiles)
            surplus = None if self.space.views[b.place].simple else b.surplus(tiles)
            for k, members in enumerate(self.classes):
                if not b.counts_in(members):
                    costs[k] += loose
                elif surplus is not None:
                    costs[k] += surplus
        return np.minimum(costs, INFINITY)

    def _innermost(self, tiles: IntArray) -> IntArray:
        table = np.full(self.space.lattice.size, INFINITY, dtype=np.int64)
        for member in self.sub.spatial[-1].members:
            table[self.space.lattice.index(member.factors)] = 0
        best = self.space.slots[-1].sweep(table)[tiles]
        return np.repeat(best[None, :], len(self.classes) + 1, axis=0)

    def _stage(self, tiles: IntArray, own: IntArray, inside: IntArray) -> StageTables:
        total = np.minimum(own + inside[:-1], INFINITY)
        return StageTables(tiles, tuple(total), tuple(np.argsort(row, kind="stable") for row in total))

    def _join(self, level: int, stage: StageTables, outer: IntArray) -> IntArray:
        """Bounds at the tiles `outer` of `level` from those one level inside.

        One row per class that the loops outside leave in place, and one for none.
        """
        slot = self.space.slots[level]
        count = len(self.classes)
        rows = np.full((count + 1, len(outer)), INFINITY, dtype=np.int64)
        sources, origins = self._unroll(level, stage.tiles)
        for members, least in zip(self.classes, stage.least, strict=True):
            values = least[origins]
            reused = [b for b in self.boundaries[level + 1] if b.counts_in(members)]
            cost = slot.least_below(sources, values, outer)
            for b in reused:
                cost += b.reused(outer)
            np.minimum(rows[count], cost, out=rows[count])
            once = sum(b.once for b in reused)
            for j, others in enumerate(self.classes):
                shared = members & others
                if level > 0 and (shared or members == others):
                    dims = sorted(frozenset().union(*(self.space.views[p].irrelevant for p in shared)))
                    passing = once + slot.least_below(sources, values, outer, dims)
                    np.minimum(rows[j], passing, out=rows[j])
        np.minimum(rows[:count], rows[count], out=rows[:count])
        return np.minimum(rows, INFINITY)

    def _unroll(self, level: int, tiles: IntArray) -> tuple[IntArray, IntArray]:
        """All products of `tiles` and a spatial choice below `level`, and the places of their tiles."""
        lattice = self.space.lattice
        products, origins = [], []
        for member in self.sub.spatial[level].members:
            factor = lattice.index(member.factors)
            fits = np.flatnonzero(lattice.fitting(tiles, factor))
            products.append(tiles[fits] + factor)
            origins.append(fits)
        return np.concatenate(products), np.concatenate(origins)
