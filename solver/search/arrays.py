"""Types of the arrays that the search computes with, and what several modules do with them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]
FloatArray = npt.NDArray[np.float64]

TOGETHER = 1 << 16
"""Entries of large arrays that are worked on together, about: so many stay in the processor's cache."""

WITHIN_64_BITS = 1 << 62
"""Whole numbers up to it, and sums of two, are exact in 64 bits."""


def distinct(values: IntArray) -> IntArray:
    """Distinct values or rows, ascending.

    Without indices NumPy imports masked arrays for that, which takes as long as a small search.
    """
    return np.unique(values, axis=0, return_index=True)[0]


def among(values: IntArray, known: IntArray) -> BoolArray:
    """Which values are among some that ascend."""
    if not len(known):
        return np.zeros(values.shape, dtype=np.bool_)
    found: BoolArray = known[np.searchsorted(known, values).clip(max=len(known) - 1)] == values
    return found


def ranges(starts: IntArray, sizes: IntArray) -> tuple[IntArray, IntArray]:
    """All numbers in several ranges, one range after the other: which range, and the number.

    Parameters
    ----------
    starts, sizes
        Shape (ranges,); sizes may be 0.

    Returns
    -------
    tuple[IntArray, IntArray]
        Both of shape (sum of all sizes,).
    """
    skipped = starts - np.cumsum(sizes) + sizes
    return np.repeat(np.arange(len(sizes)), sizes), np.repeat(skipped, sizes) + np.arange(sizes.sum())


def alike(rows: IntArray) -> tuple[IntArray, IntArray]:
    """Which rows are equal.

    Parameters
    ----------
    rows
        Shape (rows, columns).

    Returns
    -------
    tuple[IntArray, IntArray]
        The first row of each kind, ascending; and the place of every row's kind among these, shape (rows,).
    """
    codes, size = np.zeros(len(rows), dtype=np.int64), 1
    if len(rows) == 0:
        return codes, codes
    least, most = rows.min(axis=0), rows.max(axis=0)
    for d in np.flatnonzero(least < most).tolist():
        values, span = rows[:, d] - least[d], int(most[d] - least[d]) + 1
        if size * span > WITHIN_64_BITS:
            values, span = np.unique(values, return_inverse=True)[1], len(rows)
            codes, size = np.unique(codes, return_inverse=True)[1], len(rows)
        codes, size = codes * span + values, size * span
    _, firsts, kinds = np.unique(codes, return_index=True, return_inverse=True)
    order = np.argsort(firsts)
    places = np.empty_like(order)
    places[order] = np.arange(len(order))
    return firsts[order], places[kinds]


def minimal_rows(points: FloatArray) -> FloatArray:
    """Rows of `points` that no other row undercuts in every column (each value once).

    Parameters
    ----------
    points
        Shape (points, columns).

    Returns
    -------
    FloatArray
        Shape (front, columns), by rising sums; of shape (0,) if there are no points.
    """
    # The first points undercut most others: sorting all of them would take longer.
    sums, front = points.sum(axis=1), []
    while len(points):
        front.append(points[np.argmin(sums)])
        left = (points < front[-1]).any(axis=1)
        points, sums = points[left], sums[left]
    return np.array(front)
