"""The space that places of one memory share: how much is left for places farther out, in a few steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from solver.search.arrays import WITHIN_64_BITS, FloatArray, IntArray
from solver.search.space.keep_masks import KeepMask
from solver.search.space.search_space import SearchSpace

MOST_STEPS = 16
"""Steps of room that tables tell apart at one place, at most."""

MOST_ENTRIES = 1 << 21
"""Entries of a table that tells steps of room apart, at most."""


@dataclass(frozen=True)
class PlaceRooms:
    """Room at the places of all memories under one keep mask.

    Parameters
    ----------
    space, mask
        The search space, and which place keeps what.
    shape
        Of a table over all numbers of tiles.
    """

    space: SearchSpace
    mask: KeepMask
    shape: tuple[int, ...]
    _known: dict[tuple[str, int], IntArray] = field(default_factory=dict)
    _left: dict[int, NDArray[np.uint8]] = field(default_factory=dict)

    def outer(self, level: int) -> frozenset[int]:
        """Places of the same memory outside of a level."""
        return self.space.places_to[level] - {level}

    def goes_on(self, level: int) -> bool:
        """Whether the place right outside of a level is one of the same memory: tables follow its room."""
        return level - 1 in self.outer(level)

    def is_shared(self, level: int) -> bool:
        """Whether a level is one of several places of a memory whose room is limited."""
        return (
            self.space.levels[level].memory is not None and self.space.levels[level].usable_words is not None
        )

    def words(self, level: int) -> IntArray:
        """What the tiles of all numbers take that a place keeps, at least, shape `shape`."""
        key = "words", level
        if key not in self._known:
            chains = self.space.chains(self.mask)
            kept = frozenset(place for place, chain in enumerate(chains) if level in chain)
            self._known[key] = self.space.words_at(level, kept).reshape(self.shape)
        return self._known[key]

    def steps(self, level: int) -> IntArray:
        """Words that may be left for the tiles of a place and of those outside of it, ascending.

        Of the innermost one of neighbouring places there is one step: all of the memory.
        """
        key = "steps", level
        if key not in self._known:
            self._known[key] = self._steps(level)
        return self._known[key]

    def _steps(self, level: int) -> IntArray:
        usable = self.space.levels[level].usable_words
        if not self.is_shared(level) or usable is None:
            return np.zeros(1, dtype=np.int64)
        whole, most = np.array([usable]), min(MOST_STEPS, MOST_ENTRIES // self.space.lattice.size)
        is_last = level + 1 >= len(self.space.levels) or not self.goes_on(level + 1)
        if is_last or most < 2:
            return whole
        # Below the words of some tiles there is no room for these.
        own = np.unique(self.words(level))
        outside = np.unique(
            np.concatenate([np.zeros(1, dtype=np.int64), *map(self._ends, self.outer(level))])
        )
        ends = np.unique(own[own <= usable][:, None] + outside[None, :])
        ends = ends[(ends > 0) & (ends <= usable)]
        if len(ends) >= most:
            marks = np.geomspace(ends[0], ends[-1], most - 1)
            ends = ends[np.unique(np.searchsorted(ends, marks * (1 - 1e-9)).clip(max=len(ends) - 1))]
        return np.unique(np.concatenate([ends - 1, whole]))

    def _ends(self, level: int) -> IntArray:
        return self.steps(level)[:-1] + 1

    def left(self, level: int, known: Mapping[int, Sequence[int]]) -> int:
        """Words that other places of a level's memory leave to it, at most.

        Parameters
        ----------
        known
            Places in the tables, along all dimensions, of the tiles that are known, by level.
        """
        usable = self.space.levels[level].usable_words
        if not self.is_shared(level) or usable is None:
            return WITHIN_64_BITS
        memory = self.space.levels[level].memory
        others = (own for own in known if own != level and own < len(self.space.levels))
        taken = (own for own in others if self.space.levels[own].memory == memory)
        return usable - sum(int(self.words(own)[tuple(known[own])]) for own in taken)

    def step(self, level: int, words: IntArray) -> IntArray:
        """The step in which so many words may be left."""
        steps = self.steps(level)
        return np.minimum(np.searchsorted(steps, words), len(steps) - 1)

    def within(self, level: int, table: FloatArray) -> FloatArray:
        """Costs of what lies outside of a level, where its own tiles and those outside have room together.

        Parameters
        ----------
        table
            Shape (*shape, steps of the place outside), or (*shape, 1) where that is another memory.

        Returns
        -------
        FloatArray
            Shape (*shape, steps of the level).
        """
        if not self.is_shared(level):
            return table
        none = np.full((*self.shape, 1), np.inf, table.dtype)
        outside = np.broadcast_to(table, (*self.shape, table.shape[-1]))
        padded = np.concatenate([outside, none], axis=-1)
        return np.take_along_axis(padded, self._places(level).astype(np.intp), axis=-1)

    def _places(self, level: int) -> NDArray[np.uint8]:
        """By numbers of tiles and step of room, the step that is left outside; one too many if none is."""
        if level not in self._left:
            left = self.steps(level) - self.words(level)[..., None]
            own = self.step(level - 1, np.maximum(left, 0)) if self.goes_on(level) else np.zeros_like(left)
            none = len(self.steps(level - 1)) if self.goes_on(level) else 1
            self._left[level] = np.where(left >= 0, own, none).astype(np.uint8)
        return self._left[level]
