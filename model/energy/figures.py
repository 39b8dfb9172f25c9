"""Figures: exact decimals in a spec's text, rounded estimates, and the unit of an architecture's energies."""

from __future__ import annotations

import math
from collections.abc import Iterable
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from pathlib import PurePath

from model.energy.request import EnergyError
from model.numbers import EXACT
from model.text.fields import unfit
from model.text.source import Node, ScalarNode, Span, SpecError

SIGNIFICANT_DIGITS = 6
LARGEST_FIGURE = 1e30
SMALLEST_FIGURE = Decimal("1e-30")
"""Of those above zero."""

COARSEST_PJ = Decimal("1e-12")
"""What is calculated from estimates is not rounded to more than this."""


def place(span: Span) -> str:
    """Name a place shortly, for the column of sources: ``ERT.yaml:12``."""
    return f"{PurePath(span.file).name}:{span.line}"


def exact_decimal(node: Node, what: str) -> Decimal:
    """Read a finite, non-negative number without a detour over binary floating point."""
    value = node.value if isinstance(node, ScalarNode) else None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        if isinstance(node, ScalarNode) and node.quoted:
            raise unfit(node, value, f"{what} must be a number")
        raise SpecError(f"{what} must be a number", node.span)
    if math.isnan(value) or value > LARGEST_FIGURE:
        raise SpecError(f"{what} must be finite, at most {LARGEST_FIGURE:g}", node.span)
    if value < 0:
        raise SpecError(f"{what} must not be negative", node.span)
    if isinstance(value, int) or value == 0:
        return Decimal(int(value))
    assert isinstance(node, ScalarNode)
    try:
        figure = Decimal(node.text)
    except InvalidOperation:
        raise SpecError(f"{what} must be written as a decimal number", node.span) from None
    if figure < SMALLEST_FIGURE:
        raise SpecError(f"{what} must be zero, or at least {SMALLEST_FIGURE:g}", node.span)
    return figure


def rounded(value: float, finest: Decimal | None = None) -> Decimal:
    """Round an estimate to six digits; those below `finest` are dropped too where that leaves four."""
    if not abs(value) <= LARGEST_FIGURE:
        raise EnergyError(f"the estimate is out of range: {value:g}")
    figure = Decimal(f"{value:.{SIGNIFICANT_DIGITS}g}")
    if finest is None or abs(figure) < 1000 * finest:
        return figure
    # Written out, large figures have more digits than decimal contexts hold, and none to drop.
    whole = finest <= 1 and figure == figure.to_integral_value()
    return figure if whole else figure.quantize(finest)


def with_fewer_digits(figure: Decimal) -> Decimal:
    """Drop digits of what follows from an estimate: those below `COARSEST_PJ` where that leaves six."""
    last = min(COARSEST_PJ.adjusted(), figure.adjusted() - SIGNIFICANT_DIGITS + 1)
    exponent = figure.as_tuple().exponent
    if not isinstance(exponent, int) or exponent >= last:
        return figure
    return EXACT.quantize(figure, Decimal(1).scaleb(last))


MOST_DIGITS = 43
"""Digits of a price in units: sums of such prices stay far below what a search takes for unlimited."""

LEAST_DIGITS = 10
"""Digits of the least price in units where prices are rounded: these are off by less than its billionth."""


class SpreadError(ValueError):
    """Energies are too far apart to be whole numbers of one unit."""


def exact_units(values_pj: Iterable[Decimal]) -> int:
    """Smallest power of ten such that every value times it is an integer."""
    return _power(max(map(_decimals, values_pj), default=0))


def energy_units(values_pj: Iterable[Decimal]) -> int:
    """`exact_units`, or as many as leave the largest value `MOST_DIGITS`; SpreadError for too far apart."""
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
    """Convert picojoules to whole energy units, rounding half to even."""
    return round(Fraction(value_pj) * units_per_pj)


def _decimals(value: Decimal) -> int:
    """Digits behind the point that a number needs, at least 0."""
    exponent = EXACT.normalize(value).as_tuple().exponent
    return max(0, -exponent) if isinstance(exponent, int) else 0


def _power(digits: int) -> int:
    power: int = 10**digits
    return power
