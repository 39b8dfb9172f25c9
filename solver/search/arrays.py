"""Types of the arrays that the search computes with, and what several modules do with them."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]
FloatArray = npt.NDArray[np.float64]

MOST_CODES = 1 << 62
"""Numbers that tell rows apart are below it."""

MOST_VALUES = 1 << 31
"""Values of a column are told apart by themselves if they are less than so much apart."""


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


def alike(columns: Iterable[IntArray], rows: int) -> tuple[IntArray, IntArray]:
    """Rows that are equal in all columns.

    Parameters
    ----------
    columns
        Each of shape (rows,).

    Returns
    -------
    tuple[IntArray, IntArray]
        The first row of each kind, ascending; and the place of every row's kind among these, shape (rows,).
    """
    codes, size = np.zeros(rows, dtype=np.int64), 1
    for column in columns:
        values, span = _from_zero(column)
        if size * span > MOST_CODES:
            codes, size = _from_zero(np.unique(codes, return_inverse=True)[1])
        codes, size = codes * span + values, size * span
    _, firsts, kinds = np.unique(codes, return_index=True, return_inverse=True)
    order = np.argsort(firsts)
    places = np.empty_like(order)
    places[order] = np.arange(len(order))
    return firsts[order], places[kinds]


def _from_zero(column: IntArray) -> tuple[IntArray, int]:
    """Numbers from 0 on that tell the values of a column apart, and how many there are at the most."""
    if len(column) == 0:
        return column, 1
    least, span = int(column.min()), int(column.max()) - int(column.min()) + 1
    if span <= MOST_VALUES:
        return column - least, span
    values, places = np.unique(column, return_inverse=True)
    return places, len(values)
