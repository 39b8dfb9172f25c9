"""Exponents of lattice vectors packed into integers, so that one operation compares all of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

WIDEST = 62
"""Bits that exponents take in one integer at most."""


@dataclass(frozen=True, eq=False)
class Packed:
    """The exponents of every vector along some axes of a lattice.

    Each has a field of its own with a spare bit above it, which a subtraction clears if it borrows.

    Parameters
    ----------
    codes
        One integer per vector, shape (lattice size,); spare bits are 0.
    fields, spare
        Per axis the bits of its field, and its spare bit.
    """

    codes: npt.NDArray[np.int64]
    fields: dict[int, int]
    spare: dict[int, int]

    def covers(
        self, rows: npt.NDArray[np.int64], columns: npt.NDArray[np.int64], axes: Iterable[int] | None = None
    ) -> npt.NDArray[np.bool_]:
        """Where no exponent along `axes` (default: all) is less in `rows` than in `columns`.

        Rows and columns are codes, of shapes that numpy broadcasts together.
        """
        chosen = [axis for axis in (self.fields if axes is None else axes) if axis in self.fields]
        mask, spare = sum(self.fields[a] for a in chosen), sum(self.spare[a] for a in chosen)
        differences = (rows & mask | spare) - (columns & mask)
        differences &= spare
        covers: npt.NDArray[np.bool_] = differences == spare
        return covers


def packed(exponents: npt.NDArray[np.int8], limits: Sequence[int]) -> tuple[Packed, ...]:
    """Pack `exponents`, shape (size, axes), none above its axis' limit; into several integers if need be."""
    groups: list[list[int]] = [[]]
    for axis, limit in enumerate(limits):
        if sum(_width(limits[a]) for a in groups[-1]) + _width(limit) > WIDEST:
            groups.append([])
        groups[-1].append(axis)
    return tuple(_pack(exponents, limits, axes) for axes in groups)


def _width(limit: int) -> int:
    return limit.bit_length() + 1


def _pack(exponents: npt.NDArray[np.int8], limits: Sequence[int], axes: Sequence[int]) -> Packed:
    codes = np.zeros(len(exponents), dtype=np.int64)
    fields, spare = {}, {}
    place = 0
    for axis in axes:
        codes |= exponents[:, axis].astype(np.int64) << place
        fields[axis] = (1 << _width(limits[axis]) - 1) - 1 << place
        place += _width(limits[axis])
        spare[axis] = 1 << place - 1
    return Packed(codes, fields, spare)
