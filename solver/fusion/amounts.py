"""Amounts that are exact numbers for one body, or arrays for many: bounds are stated once for both."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]

BoolArray = npt.NDArray[np.bool_]

IntArray = npt.NDArray[np.int64]

Amount = Any
"""A number, or an array with one for each of many bodies; numbers are exact."""

SHARE_KEPT = 1 - 1e-9
"""Sums in floating point err by far less."""

UNLIMITED = 1 << 200
"""Room of a memory without a limit, and the cost of what there is no room for."""


def larger(one: Amount, other: Amount) -> Amount:
    """The larger one, body by body."""
    if isinstance(one, np.ndarray) or isinstance(other, np.ndarray):
        return np.maximum(one, other)
    return max(one, other)


def smaller(one: Amount, other: Amount) -> Amount:
    """The smaller one, body by body."""
    if isinstance(one, np.ndarray) or isinstance(other, np.ndarray):
        return np.minimum(one, other)
    return min(one, other)


def rounded_up(amount: Amount) -> Amount:
    """The least whole number that may be meant by a sum in floating point."""
    kept = amount * SHARE_KEPT
    return np.ceil(kept) if isinstance(kept, np.ndarray) else math.ceil(kept)


def unless(without: Amount, amount: Amount) -> Amount:
    """An amount, infinite in the bodies that are `without` it."""
    if isinstance(without, np.ndarray):
        return np.where(without, np.inf, amount)
    return math.inf if without else amount


def ever(holds: Amount) -> bool:
    """Whether something holds for any body."""
    return bool(holds.any() if isinstance(holds, np.ndarray) else holds)


def exactly(values: FloatArray) -> list[int]:
    """Sums of whole numbers, or whole numbers that are not above them where they are too large."""
    limit = 1 << 53
    pairs = zip(values.ravel().tolist(), worth(values), strict=True)
    return [int(value) if value < limit else below for value, below in pairs]


def worth(values: FloatArray) -> list[int]:
    """Whole numbers that no exact value is above; without limit where there is none."""
    return [
        math.floor(value * SHARE_KEPT) if math.isfinite(value) else UNLIMITED
        for value in values.ravel().tolist()
    ]
