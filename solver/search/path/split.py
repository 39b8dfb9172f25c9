"""How words are divided among groups of instances with equal work, where numbers of tiles determine it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from solver.search.arrays import BoolArray, FloatArray, IntArray


class Split(NamedTuple):
    """Groups of instances, each of which has the same share of all words; shape (groups, rows).

    Parameters
    ----------
    counts
        Instances of each group.
    words, free
        Shares that one of them has of the words, and of those of first touches that cost nothing.
    """

    counts: FloatArray
    words: FloatArray
    free: FloatArray

    def at(self, rows: IntArray | BoolArray) -> Split:
        """Some of the rows."""
        return self if self.counts.shape[1] == 1 else Split(*(own[:, rows] for own in self))

    def by(self, other: Split) -> Split:
        """The groups of instances along several dimensions."""
        rows = max(self.counts.shape[1], other.counts.shape[1])
        pairs = zip(self, other, strict=True)
        every = [(one[:, None] * two[None, :]).reshape(-1, rows) for one, two in pairs]
        groups = np.flatnonzero(every[0].any(axis=1))
        return Split(*(own[groups] for own in every))

    def where(self, rows: BoolArray) -> Split:
        """The groups in some rows; in others all instances together."""
        one = np.zeros((len(self.counts), 1))
        one[0] = 1
        return Split(
            np.where(rows, self.counts, one), np.where(rows, self.words, 1), np.where(rows, self.free, 1)
        )


UNSPLIT = Split(*(np.ones((1, 1)) for _ in range(3)))
"""All instances together: what each of them has is not known."""


def evenly(children: IntArray) -> Split:
    """So many children that have as much to do."""
    shares = 1 / children[None, :]
    return Split(children[None, :].astype(np.float64), shares, shares)


def dealt(tiles: IntArray, children: IntArray, each: IntArray, last: IntArray, *, frees: bool) -> Split:
    """Tiles dealt out to children, one after the other, where each of them has so much work but the last.

    Parameters
    ----------
    frees
        Whether first touches are shared like words; else all children have as many.
    """
    rounds = -(-tiles // children)
    busy = tiles - (rounds - 1) * children
    counts = np.stack([busy - 1, np.ones_like(busy), children - busy]).astype(np.float64)
    work = np.stack([rounds * each, (rounds - 1) * each + last, (rounds - 1) * each])
    words = work / (counts * work).sum(axis=0)
    return Split(counts, words, words if frees else np.broadcast_to(1 / children, words.shape))
