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
    """One dataspace's boundary below which level `level` keeps it, within a subproblem."""

    sub: Subproblem
    place: int
    level: int

    @property
    def price(self) -> BoundaryPrice:
        """Energy and load of the words delivered."""
        return self.sub.prices[self.place][self.level]

    def counts_in(self, members: frozenset[int]) -> bool:
        """Whether the dataspace is one of `members` and reused at this boundary."""
        return self.place in members and self.sub.reused(self.place, self.level)

    @cached_property
    def spread(self) -> int:
        """Product of the spatial factors above the level that index the dataspace."""
        return self.sub.above[self.level] // self.sub.unused_above(self.place, self.level)

    def unreused(self, tiles: IntArray) -> IntArray:
        """Least words delivered per instance for tiles without reuse in the slot above."""
        tables = self.sub.space.tables[self.place]
        relevant = tables.relevant_words if self.sub.reused(self.place, self.level) else tables.plain_words
        return ceil_div(relevant[tiles] * tables.irrelevant_tiles[tiles], self.sub.above[self.level])

    @cached_property
    def least_relevant(self) -> int:
        """Least words of all tiles that cover the dataspace once, over the tiles that fit."""
        tiles = self.sub.feasible(self.level)
        relevant = self.sub.space.tables[self.place].relevant_words
        return int(relevant[tiles].min()) if len(tiles) else 0

    def reused(self, outer_tiles: IntArray) -> IntArray:
        """Least words delivered per instance when the slot above reuses the dataspace fully.

        What is left is one delivery per iteration of the loops outside of that slot, a function of
        the tile of the level that owns the slot.
        """
        irrelevant = self.sub.space.tables[self.place].irrelevant_tiles[outer_tiles]
        outside = ceil_div(irrelevant, self.sub.unused_above(self.place, self.level - 1))
        return ceil_div(self.least_relevant * outside, self.spread)

    @cached_property
    def once(self) -> int:
        """Least words delivered per instance when all loops above reuse the dataspace."""
        return -(-self.least_relevant // self.spread)

    def surplus(self, tiles: IntArray) -> IntArray:
        """Energy by which reused `tiles` exceed the cheapest tile, at least."""
        relevant = self.sub.space.tables[self.place].relevant_words[tiles]
        return self.price.increment((relevant - self.least_relevant) // self.spread)


@dataclass(frozen=True)
class StageTables:
    """What the branching needs of one boundary stage: the tiles inside, cheapest first, per class.

    ``order[k]`` sorts ``tiles`` by ``least[k]``: energy at this boundary and inside it for class k,
    without the part that depends on the tile outside.
    """

    tiles: IntArray
    least: tuple[IntArray, ...]
    order: tuple[IntArray, ...]


class LatticeBounds:
    """The dynamic program of one subproblem."""

    def __init__(self, sub: Subproblem) -> None:
        self.sub = sub
        self.space = sub.space
        self.classes = self.space.reuse_classes
        self.depth = len(self.space.levels)
        self.states = 0
        self.boundaries = tuple(self._boundaries(level) for level in range(self.depth))
        self.inside: list[IntArray] = [np.empty((0, 0), dtype=np.int64)] * self.depth
        self.stages: list[StageTables | None] = [None] * self.depth
        for level in reversed(range(self.depth)):
            self._bound(level)

    @property
    def least(self) -> int:
        """Lower bound on the energy of every mapping of the subproblem, `INFINITY` if there is none."""
        inside = int(self.inside[0][-1, 0])
        return INFINITY if inside >= INFINITY else self.sub.constant + inside

    def tiles(self, level: int) -> IntArray:
        """Lattice indices of the tiles of `level`; the outermost one holds everything."""
        if level == 0:
            whole = self.space.lattice.size - 1
            fits = self.sub.feasible(0)
            return fits[-1:] if len(fits) and fits[-1] == whole else fits[:0]
        return self.sub.feasible(level)

    def _boundaries(self, level: int) -> tuple[Boundary, ...]:
        return tuple(
            Boundary(self.sub, place, level)
            for place, prices in enumerate(self.sub.prices)
            if level in prices
        )

    def _bound(self, level: int) -> None:
        tiles = self.tiles(level)
        if len(tiles) == 0:
            self.inside[level] = np.full((len(self.classes) + 1, 1), INFINITY, dtype=np.int64)
            return
        if level == self.depth - 1:
            best = self._innermost()[tiles]
            self.inside[level] = np.repeat(best[None, :], len(self.classes) + 1, axis=0)
        else:
            self.inside[level] = self._join(level, tiles)

    def _innermost(self) -> IntArray:
        table = np.full(self.space.lattice.size, INFINITY, dtype=np.int64)
        for member in self.sub.spatial[-1].members:
            table[self.space.lattice.index(member.factors)] = 0
        return self.space.slots[-1].sweep(table)

    def _join(self, level: int, outer: IntArray) -> IntArray:
        """Bounds at the tiles `outer` of `level` from those one level inside."""
        slot = self.space.slots[level]
        stage = self._stage(level + 1)
        self.stages[level + 1] = stage
        closed = np.full(len(outer), INFINITY, dtype=np.int64)
        passing = np.full((len(self.classes), len(outer)), INFINITY, dtype=np.int64)
        for k, members in enumerate(self.classes):
            table = self._unroll(level, stage, stage.least[k])
            self.states += len(stage.tiles)
            reused = [b for b in self.boundaries[level + 1] if b.counts_in(members)]
            outside = sum(
                (b.price.price(b.reused(outer)) for b in reused), np.zeros(len(outer), dtype=np.int64)
            )
            np.minimum(closed, outside + slot.sweep(table)[outer], out=closed)
            once = sum(b.price.exact(b.once) for b in reused)
            for j, others in enumerate(self.classes):
                shared = members & others
                if level == 0 or not (shared or members == others):
                    continue
                dims = sorted(frozenset().union(*(self.space.views[p].irrelevant for p in shared)))
                candidate = once + slot.sweep(table, dims)[outer]
                np.minimum(passing[j], candidate, out=passing[j])
        rows = np.vstack([np.minimum(passing, closed[None, :]), closed[None, :]])
        return np.minimum(rows, INFINITY)

    def _stage(self, level: int) -> StageTables:
        """Cost of each tile of `level` at its own boundary and inside, per class of the slot above."""
        tiles = self.tiles(level)
        least = []
        for k, members in enumerate(self.classes):
            total = self.inside[level][k].copy() if len(tiles) else np.empty(0, dtype=np.int64)
            for b in self.boundaries[level]:
                reused = b.counts_in(members)
                if not reused:
                    total += b.price.price(b.unreused(tiles))
                elif not self.space.views[b.place].simple:
                    total += b.surplus(tiles)
            least.append(np.minimum(total, INFINITY))
        return StageTables(tiles, tuple(least), tuple(np.argsort(v, kind="stable") for v in least))

    def _unroll(self, level: int, stage: StageTables, least: IntArray) -> IntArray:
        """Minimum over the spatial choices below `level`, as a table over the whole lattice."""
        lattice = self.space.lattice
        table = np.full(lattice.size, INFINITY, dtype=np.int64)
        for member in self.sub.spatial[level].members:
            factor = lattice.index(member.factors)
            fits = lattice.fitting(stage.tiles, factor)
            targets = stage.tiles[fits] + factor
            table[targets] = np.minimum(table[targets], least[fits])
        return table
