"""Numbers of an architecture: exact where they are written out, within wide bounds."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

from model.formats.accelforge.sets import SetNames, evaluate_with_sets
from model.text.arithmetic import calculated
from model.text.composer import plain_value
from model.text.fields import Names, as_scalar, unfit
from model.text.source import Node, ScalarNode, SpecError

LARGEST = Fraction(10) ** 40
"""Of all numbers, in any unit; the least above zero is its reciprocal."""


def exact(value: object) -> Fraction:
    """Return a finite number exactly; a computed float counts with its 15 digits. TypeError for others."""
    if isinstance(value, bool) or not isinstance(value, (int, float, Fraction)):
        raise TypeError("a number is needed here")
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError("a finite number is needed here")
    return value if isinstance(value, Fraction) else Fraction(calculated(value))


def evaluated(node: Node, what: str, names: SetNames, values: Names) -> object:
    """Return what a scalar says; text is an expression over sets and values, and may be in quotes."""
    scalar = as_scalar(node, what)
    value = plain_value(scalar.text, scalar.span) if scalar.quoted else scalar.value
    if isinstance(value, float) and math.isfinite(value):
        return _exact_as_written(scalar)
    return evaluate_with_sets(scalar, names, values) if isinstance(value, str) else value


def _exact_as_written(scalar: ScalarNode) -> object:
    """Return a decimal number exactly as written."""
    return Fraction(Decimal(scalar.text.strip().replace("_", "")))


def not_negative(node: Node, what: str, names: SetNames, values: Names) -> Fraction | None:
    """Return a number that is not negative, None for an infinite one; SpecError for anything else."""
    value = evaluated(node, what, names, values)
    if isinstance(value, float) and value == math.inf:
        return None
    try:
        found = exact(value)
    except (TypeError, ValueError):
        shown = value if isinstance(value, (bool, int, float, str)) else "a set"
        raise unfit(node, shown, f"{what} must be a number") from None
    if found < 0:
        raise SpecError(f"{what} must not be negative, but is {float(found):g}", node.span)
    if found and not 1 / LARGEST <= found <= LARGEST:
        raise SpecError(f"{what} must be 0 or from 1e-40 to 1e40", node.span)
    return found


def finite(node: Node, what: str, names: SetNames, values: Names) -> Fraction:
    """Return a number that is neither negative nor infinite."""
    found = not_negative(node, what, names, values)
    if found is None:
        raise SpecError(f"{what} must be finite", node.span)
    return found


def positive(node: Node, what: str, names: SetNames, values: Names) -> Fraction:
    """Return a finite number above zero."""
    found = finite(node, what, names, values)
    if found == 0:
        raise SpecError(f"{what} must be above 0", node.span)
    return found


def truth(node: Node, what: str, names: SetNames, values: Names) -> bool:
    """Return a truth value, also of a set: whether it has members."""
    value = evaluated(node, what, names, values)
    if isinstance(value, str) or (not hasattr(value, "__bool__") and not hasattr(value, "__len__")):
        raise unfit(node, str(value), f"{what} must be true or false")
    return bool(value)
