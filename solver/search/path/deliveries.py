"""Tables of the least words that deliver a dataspace's tiles, along the axes that index it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from solver.search.arrays import FloatArray, IntArray
from solver.search.space.counts import CountLattice
from solver.search.space.dataspaces import covered
from solver.search.space.remainders import union_along, words_along
from solver.search.space.search_space import SearchSpace
from solver.search.space.windows import Unrolling, relevant_words, union_words


class Delivered(NamedTuple):
    """Words of all tiles of a dataspace, at least: where they come first, and each time they come again.

    Tables with an axis per dimension, of length 1 along those that do not index the dataspace.
    """

    begun: FloatArray
    again: FloatArray

    @property
    def anew(self) -> Delivered:
        """The words if each repetition begins with a whole tile: it brings what the first one does."""
        return Delivered(self.begun, self.begun)


@dataclass
class WordTables:
    """Words of all dataspaces of a search space; each table is made once."""

    space: SearchSpace
    _known: dict[object, Delivered] = field(default_factory=dict)

    def of(self, place: int, unrolling: Unrolling, leading: Collection[int]) -> Delivered:
        """Words of a dataspace where one of `leading` is the innermost loop that moves its tiles."""
        view = self.space.views[place]
        if not view.window_dims:
            return self._plain(place)
        key = place, unrolling, frozenset(leading).intersection(view.relevant)
        if key not in self._known:
            self._known[key] = self._windows(place, unrolling, key[2])
        return self._known[key]

    def at_most(self, words: Delivered, dims: Collection[int]) -> Delivered:
        """The least words of any tiles that are no larger along `dims`."""
        if not dims:
            return words
        return Delivered(*(self._no_larger(table, dims) for table in words))

    def _no_larger(self, table: FloatArray, dims: Collection[int]) -> FloatArray:
        for d in (d for d in sorted(dims) if table.shape[d] > 1):
            if isinstance(self.space.lattice, CountLattice):
                table = np.minimum.accumulate(table, axis=d)  # tiles grow along the axis
            else:
                table = np.broadcast_to(table.min(axis=d, keepdims=True), table.shape)
        return table

    def _plain(self, place: int) -> Delivered:
        if place not in self._known:
            lattice, view = self.space.lattice, self.space.views[place]
            words: IntArray = np.ones((1,) * len(lattice.bounds), dtype=np.int64)
            for component in view.components:
                words = words * covered(component, lattice)
            self._known[place] = Delivered(words.astype(np.float64), words.astype(np.float64))
        return self._known[place]

    def _windows(self, place: int, unrolling: Unrolling, leading: Collection[int]) -> Delivered:
        lattice, view, tables = self.space.lattice, self.space.views[place], self.space.tables[place]
        if isinstance(lattice, CountLattice):
            words = words_along(view, lattice, unrolling, leading)
            begun: IntArray = np.maximum(words.begun, union_along(view, lattice, unrolling))
            return Delivered(begun.astype(np.float64), words.repeated.astype(np.float64))
        counting = self.space.mapspace.counting
        words = relevant_words(view, tables, lattice, unrolling, leading, counting)
        begun = np.maximum(words.begun, union_words(view, tables, lattice, unrolling, counting))
        dims = sorted(view.relevant)
        return Delivered(*(lattice.across(own, dims).astype(np.float64) for own in (begun, words.repeated)))
