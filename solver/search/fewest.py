"""The fewest words that deliver a dataspace once to all instances of a level, over the tiles that fit."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from solver.search.grid import SpatialGrid
from solver.search.lattice import IntArray
from solver.search.space import SearchSpace

NO_TILE = np.iinfo(np.int64).max
"""Stands for the words of no tile."""

UNKNOWN = -1
"""Stands for words that were not counted yet."""

Tenancy = tuple[int, frozenset[int]]
"""A level, and the dataspaces that it keeps."""


def fewest_words(space: SearchSpace, place: int, tenancy: Tenancy) -> IntArray:
    """Fewest words whatever is unrolled above the level, shape (1,)."""
    words = space.relevant_words(place, tenancy[0], space.no_unrolling)
    least: IntArray = words[space.feasible(*tenancy)].min(keepdims=True)
    return least


class FewestBelow:
    """Fewest words combination by combination: as instances have their own tiles, windows overlap less.

    Tiles leave room for what is unrolled above, too.
    """

    def __init__(self, grid: SpatialGrid) -> None:
        self._grid = grid
        self._space = grid.space
        self._known: dict[tuple[int, Tenancy], IntArray] = {}

    def words(self, numbers: IntArray, place: int, tenancy: Tenancy) -> IntArray:
        """Fewest words of some combinations of the grid; `NO_TILE` where no tile fits."""
        firsts, kinds = self._alike[tenancy[0]]
        known = self._known.setdefault((place, tenancy), np.full(len(firsts), UNKNOWN))
        chosen = kinds[numbers]
        for kind in np.unique(chosen[known[chosen] == UNKNOWN]):
            known[kind] = self._least(int(firsts[kind]), place, tenancy)
        words: IntArray = known[chosen]
        return words

    @cached_property
    def _alike(self) -> tuple[tuple[IntArray, IntArray], ...]:
        """Per level, combinations that differ in what is unrolled above it, and the kind of each of all."""
        kinds = np.zeros(len(self._grid), dtype=np.int64)
        found = [np.unique(kinds, return_index=True, return_inverse=True)[1:]]
        for stage, own in zip(self._space.stages, self._grid.choices, strict=True):
            _, firsts, kinds = np.unique(kinds * len(stage) + own, return_index=True, return_inverse=True)
            found.append((firsts, kinds))
        return tuple(found)

    def _least(self, number: int, place: int, tenancy: Tenancy) -> int:
        """Fewest words with what a combination unrolls above a level."""
        space, (level, _) = self._space, tenancy
        tiles = space.feasible(*tenancy)
        room = space.lattice.fitting(tiles, int(self._grid.unrolled_above[level][number]))
        unrolling = space.unrolling([own.windows for own in self._grid.spatial(number)[:level]])
        words = space.relevant_words(place, level, unrolling)
        return int(words[tiles[room]].min(initial=NO_TILE))
