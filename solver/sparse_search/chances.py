"""Chances that tiles are empty where the last one along a dimension may be short."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from model.sparse.density import EXACT_WORDS, Distribution, FixedStructured, Hypergeometric
from solver.search.arrays import BoolArray, FloatArray, IntArray

GROWTH = 8
"""By how much sizes differ that are told apart of what may be short."""

TINY = 1e-300
"""Chances below this one are rounded by much."""

Sizes = list[tuple[IntArray, FloatArray]]
"""Iterations that are together along a dimension, at least, and in which share of the cases.

Share by share, these are no more than any that there may be."""


def cut(
    bound: int,
    numbers: IntArray,
    least: IntArray,
    longest: IntArray,
    together: IntArray | int = 1,
    aligned: BoolArray | bool = True,
    once: bool = False,
) -> Sizes:
    """How many iterations along a dimension are together: whole tiles, or several of them, and what is left.

    Parameters
    ----------
    bound
        Of the dimension.
    numbers, least, longest
        Of tiles along it, and their extents.
    together
        Tiles that are together, at least, where there are so many.
    aligned
        Whether there are exactly so many, one after the other.
    once
        Whether all that are together count once, however many; else each iteration does.
    """
    numbers, least, longest = np.broadcast_arrays(numbers, least, longest)
    groups = -(-numbers // together)
    full = np.minimum(least * together, bound)
    shortest = np.where(aligned, bound - (groups - 1) * together * longest, bound - (numbers - 1) * longest)
    largest = np.where(aligned, bound - (groups - 1) * together * least, full - 1)
    shortest = np.maximum(shortest, 1)
    largest = np.where(groups == 1, 0, np.minimum(largest, full - 1))
    return _stepped(bound, full, shortest, largest, once)


def of_any(bound: int, full: IntArray, once: bool) -> Sizes:
    """Sizes where whole parts have so many iterations or more, and what is left is not known."""
    full = np.minimum(full, bound)
    return _stepped(bound, full, np.ones_like(full), np.where(full == bound, 0, full - 1), once)


def _stepped(bound: int, full: IntArray, shortest: IntArray, largest: IntArray, once: bool) -> Sizes:
    """Sizes of what is short, from the shortest up to the largest, and of whole parts.

    Of two parts or more at most one is short, be it farther in or not.
    """
    is_short = largest >= shortest
    if once:
        half = np.where(is_short, 0.5, 0.0)
        return [(shortest, half), (full, 1 - half)]
    found: Sizes = []
    size, upto = shortest, np.zeros(full.shape)
    while (size <= largest).any():
        next_size = size * GROWTH
        share = np.where(is_short, np.minimum(next_size - 1, largest) / bound, 0.0)
        found.append((np.minimum(size, full), share - upto))
        size, upto = next_size, share
    return [*found, (full, 1 - upto)]


@dataclass(frozen=True, eq=False)
class Chances:
    """Chances that tiles of a dataspace are empty, which follow from their words: no band."""

    distribution: Distribution

    def empty(self, words: FloatArray) -> FloatArray:
        """Chance of tiles of so many words to be empty, at most."""
        own = self.distribution
        if isinstance(own, FixedStructured):
            return np.maximum(1 - words * own.mean, 0.0)
        assert isinstance(own, Hypergeometric)
        if own.words <= EXACT_WORDS:
            found: FloatArray = self._exact[words.astype(np.int64)]
            return found
        fewer, more = np.minimum(words, own.nonzeros), np.maximum(words, own.nonzeros)
        # The mean of logarithms is no more than the logarithm at the mean.
        chance = np.maximum(1 - more / (own.words - np.maximum(fewer - 1, 0) / 2), 0.0)
        rounded = 1 + 1e-15 * fewer
        most = np.minimum(chance**fewer * rounded + TINY, 1.0)
        return np.where(words + own.nonzeros > own.words, 0.0, most)

    @cached_property
    def _exact(self) -> FloatArray:
        own = self.distribution
        assert isinstance(own, Hypergeometric)
        return np.array([own.empty((words,)) for words in range(own.words + 1)])
