"""Decimal numbers that have more digits than doubles, and those that doubles should have had."""

from __future__ import annotations

import math
from decimal import Context, Decimal

DIGITS_OF_DOUBLES = 15
"""Decimal digits that a double keeps, whatever they are."""

_DOUBLES = Context(prec=DIGITS_OF_DOUBLES)


class LongFloat(float):
    """A float that is written with more digits than a double has; its text has all of them.

    Parameters
    ----------
    text
        A decimal number.
    """

    text: str

    def __new__(cls, text: str) -> LongFloat:
        """Keep the text beside the number."""
        number = super().__new__(cls, text)
        number.text = text
        return number

    def __repr__(self) -> str:
        return self.text

    def __getnewargs__(self) -> tuple[str]:  # type: ignore[override]
        return (self.text,)


def float_of(text: str) -> float:
    """Return a decimal number as a float, one of more than 15 digits as a `LongFloat`."""
    value = float(text)
    is_short = len(text) <= DIGITS_OF_DOUBLES or value == 0 or math.isinf(value)
    if is_short or len(Decimal(text).as_tuple().digits) <= DIGITS_OF_DOUBLES:
        return value
    return LongFloat(text)


def calculated(value: float) -> Decimal:
    """Return what was calculated, without the last digits of doubles, which calculations leave wrong.

    Integers, a `LongFloat`, and numbers that are written with 15 digits or less come out as written.

    Parameters
    ----------
    value
        Any number; those of ``decimal`` that are not finite for those of floats.
    """
    if isinstance(value, LongFloat):
        return Decimal(value.text)
    return Decimal(value) if isinstance(value, int) else _DOUBLES.create_decimal(repr(value))
