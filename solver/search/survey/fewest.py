"""The fewest words that deliver a dataspace once to all instances of a level, over the tiles that fit."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from solver.search.arrays import IntArray
from solver.search.space.grid import SpatialGrid
from solver.search.space.search_space import SearchSpace
from solver.search.space.spatial import Factors
from solver.search.stopping import Stop, Stopped, never

NO_TILE = np.iinfo(np.int64).max
"""Stands for the words of no tile."""

UNKNOWN = -1
"""Stands for words that were not counted yet."""

MOST_KNOWN = 1 << 23
"""Numbers of words that are remembered, about."""

Tenancy = tuple[int, frozenset[int]]
"""A level, and the dataspaces that it keeps."""


def fewest_words(space: SearchSpace, place: int, tenancy: Tenancy) -> IntArray:
    """Fewest words whatever is unrolled above the level, shape (1,).

    Raises
    ------
    ValueError
        If none does.
    """
    words = space.floor_words(place, tenancy[0], space.no_unrolling)
    least: IntArray = words[space.feasible(*tenancy)].min(keepdims=True)
    return least


class FewestBelow:
    """Fewest words combination by combination: as instances have their own tiles, windows overlap less.

    Tiles leave room for what is unrolled above, too.

    Parameters
    ----------
    grid
        All combinations: those that have the same classes outside of a level follow each other.
    stop
        Asked now and then; once it answers True `Stopped` is raised.
    """

    def __init__(self, grid: SpatialGrid, stop: Stop = never) -> None:
        self._grid = grid
        self._stop = stop
        self._space = grid.space
        self._known: dict[tuple[int, Tenancy], IntArray] = {}

    def words(self, numbers: IntArray, place: int, tenancy: Tenancy) -> IntArray:
        """Fewest words of some combinations of the grid; `NO_TILE` where no tile fits.

        Returns
        -------
        IntArray
            Lower bounds, words of all instances, shape (len(numbers),).
        """
        firsts, kinds = self._prefixes[tenancy[0]]
        known = self._remembered((place, tenancy), len(firsts))
        chosen = kinds[numbers]
        asked = np.zeros(len(firsts), dtype=np.bool_)
        asked[chosen] = True
        missing = np.flatnonzero(asked & (known == UNKNOWN))
        for rows in _alike(self._windows(firsts[missing], place, tenancy[0])):
            if self._stop():
                raise Stopped
            known[missing[rows]] = self._least(firsts[missing[rows]], place, tenancy)
        words: IntArray = known[chosen]
        return words

    def _remembered(self, key: tuple[int, Tenancy], size: int) -> IntArray:
        """What is known so far; of what was asked for long ago, much is forgotten."""
        if key not in self._known:
            while self._known and size + sum(map(len, self._known.values())) > MOST_KNOWN:
                del self._known[next(iter(self._known))]
            self._known[key] = np.full(size, UNKNOWN)
        return self._known[key]

    @cached_property
    def _prefixes(self) -> tuple[tuple[IntArray, IntArray], ...]:
        """Per level, where what is unrolled above it changes, and how often that was before a combination."""
        starts = np.zeros(len(self._grid), dtype=np.bool_)
        starts[:1] = True
        changes = np.flatnonzero(starts), np.cumsum(starts) - 1
        prefixes = [changes]
        for stage, choices in zip(self._space.stages, self._grid.choices, strict=True):
            if len(stage) > 1:
                starts[1:] |= choices[1:] != choices[:-1]
                changes = np.flatnonzero(starts), np.cumsum(starts) - 1
            prefixes.append(changes)
        return tuple(prefixes)

    def _windows(self, numbers: IntArray, place: int, level: int) -> IntArray:
        """Numbers that tell how some combinations unroll a dataspace's windows above a level."""
        codes = np.zeros(len(numbers), dtype=np.int64)
        if self._space.views[place].window_dims:
            for kinds, choice in zip(self._window_kinds[:level], self._grid.choices, strict=False):
                _, codes = np.unique(codes * len(kinds) + kinds[choice[numbers]], return_inverse=True)
        return codes

    @cached_property
    def _window_kinds(self) -> tuple[IntArray, ...]:
        """Stage by stage, which classes unroll windows alike: a number per class."""
        kinds: list[dict[Factors, int]] = [{} for _ in self._space.stages]
        pairs = zip(kinds, self._space.stages, strict=True)
        return tuple(np.array([own.setdefault(c.windows, len(own)) for c in stage]) for own, stage in pairs)

    def _least(self, numbers: IntArray, place: int, tenancy: Tenancy) -> IntArray:
        """Fewest words with what each combination unrolls above a level, windows all in the same way."""
        space, (level, _) = self._space, tenancy
        unrolling = space.unrolling([own.windows for own in self._grid.spatial(int(numbers[0]))[:level]])
        tiles = space.feasible(*tenancy)
        table = np.full(space.lattice.size, NO_TILE)
        table[tiles] = space.floor_words(place, level, unrolling)[tiles]
        largest = space.lattice.size - 1 - self._grid.chosen(numbers).unrolled_above[level]
        least: IntArray = space.lattice.least_of_divisors(table)[largest]
        return least


def _alike(codes: IntArray) -> list[IntArray]:
    """Places of equal numbers together."""
    order = np.argsort(codes, kind="stable")
    return list(filter(len, np.split(order, np.flatnonzero(np.diff(codes[order])) + 1)))
