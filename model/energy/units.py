"""The unit that an architecture's energies are whole numbers of."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from fractions import Fraction

from model.numbers import EXACT

MOST_DIGITS = 43
"""Digits of a price in units: sums of such prices stay far below what a search takes for unlimited."""

LEAST_DIGITS = 10
"""Digits of the least price in units where prices are rounded: these are off by less than its billionth."""


class SpreadError(ValueError):
    """Energies are too far apart to be whole numbers of one unit."""


def exact_units(values_pj: Iterable[Decimal]) -> int:
    """Smallest power of ten such that every value times it is an integer.

    Parameters
    ----------
    values_pj
        Energies in picojoule, finite.
    """
    return _power(max(map(_decimals, values_pj), default=0))


def energy_units(values_pj: Iterable[Decimal]) -> int:
    """`exact_units`, or as many as leave the largest value `MOST_DIGITS`.

    Parameters
    ----------
    values_pj
        Energies in picojoule, finite, not negative, less than 1e31.

    Raises
    ------
    SpreadError
        The least value above zero would have less than `LEAST_DIGITS` then, and has more digits.
    """
    values = [value for value in values_pj if value]
    if not values:
        return 1
    needed = max(map(_decimals, values))
    room = MOST_DIGITS - 1 - max(value.adjusted() for value in values)
    least = min(value.adjusted() for value in values)
    if needed > room and room + least < LEAST_DIGITS - 1:
        raise SpreadError(f"{min(values):.3g} pJ and {max(values):.3g} pJ are too far apart")
    return _power(min(needed, room))


def to_units(value_pj: Decimal, units_per_pj: int) -> int:
    """Convert picojoules to whole energy units, rounding half to even.

    Parameters
    ----------
    value_pj
        Finite.
    units_per_pj
        Energy units in a picojoule, see `energy_units`.
    """
    return round(Fraction(value_pj) * units_per_pj)


def _decimals(value: Decimal) -> int:
    """Digits behind the point that a number needs, at least 0."""
    exponent = EXACT.normalize(value).as_tuple().exponent
    return max(0, -exponent) if isinstance(exponent, int) else 0


def _power(digits: int) -> int:
    power: int = 10**digits
    return power
