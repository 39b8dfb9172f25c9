"""Numbers of a spec: exact decimals, arithmetic that cannot use up time or memory, and functions."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Clamped, Context, Decimal, DecimalException, Inexact
from typing import Any, TypeVar

DIGITS_OF_DOUBLES = 15
"""Decimal digits that a double keeps, whatever they are."""

_DOUBLES = Context(prec=DIGITS_OF_DOUBLES)


class LongFloat(float):
    """A float that is written with more digits than a double has; its text has all of them."""

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
    """Return a number as a decimal: as written, or without the last digits of doubles, which may be wrong."""
    if isinstance(value, LongFloat):
        return Decimal(value.text)
    return Decimal(value) if isinstance(value, int) else _DOUBLES.create_decimal(repr(value))


_Value = TypeVar("_Value")

_INTEGER_BITS = 4096
_TEXT_LENGTH = 1_000_000

_OPERATORS: dict[str, Callable[[float, float], float]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
}
OPERATORS = frozenset({*_OPERATORS, "**"})

_EXACT = Context(prec=100, traps=[*Context().traps, Inexact, Clamped])
_EXACT_OPERATORS: dict[str, Callable[[Decimal, Decimal], Decimal]] = {
    "+": _EXACT.add,
    "-": _EXACT.subtract,
    "*": _EXACT.multiply,
    "/": _EXACT.divide,
}


def calculate(symbol: str, left: object, right: object) -> object:
    """Return ``left symbol right`` for numbers; ``+`` also joins two texts or lists, ``*`` repeats a list.

    If a number has more digits than a double, sums, differences, products and quotients are exact unless
    that takes more than 100 digits. ArithmeticError for a result that is not real, or too large: an integer
    of more than 4096 bits, a text or list longer than a million, an infinite float; TypeError for others.
    """
    if symbol == "+" and isinstance(left, (str, list, tuple)):
        return _plus(left, right)
    if symbol == "*" and isinstance(left, (list, tuple)):
        return _times(left, right)
    if symbol == "*" and isinstance(right, (list, tuple)):
        return _times(right, left)
    if not (isinstance(left, (int, float)) and isinstance(right, (int, float))):
        raise TypeError(f"`{symbol}` does not take {type_name(left)} and {type_name(right)}")
    result = _power(left, right) if symbol == "**" else _OPERATORS[symbol](left, right)
    if _is_infinite(result) and not (_is_infinite(left) or _is_infinite(right)):
        raise OverflowError("the result is too large for a number")
    if isinstance(result, float) and symbol in _EXACT_OPERATORS and (_is_long(left) or _is_long(right)):
        return _exactly(symbol, left, right, result)
    return short_enough(result)


def _is_long(value: float) -> bool:
    """Whether a number has digits that a double may lack."""
    return isinstance(value, LongFloat) or (isinstance(value, int) and abs(value) >= 10**DIGITS_OF_DOUBLES)


def _exactly(symbol: str, left: float, right: float, rounded: float) -> float:
    """Return the exact result of an operation, or that of doubles if it has too many digits."""
    try:
        return float_of(str(_EXACT_OPERATORS[symbol](calculated(left), calculated(right))))
    except DecimalException:
        return rounded


def _is_infinite(value: float) -> bool:
    return isinstance(value, float) and not math.isfinite(value)


def _power(base: float, exponent: float) -> float:
    is_whole = isinstance(base, int) and isinstance(exponent, int)
    if is_whole and exponent > 0 and exponent * (int(base).bit_length() - 1) > _INTEGER_BITS:
        raise OverflowError(f"the power has more than {_INTEGER_BITS} bits")
    try:
        result = base**exponent
    except OverflowError:
        raise OverflowError("the power is too large for a number") from None
    if isinstance(result, complex):
        raise ArithmeticError("the power of a negative number is not real")
    return result  # type: ignore[no-any-return]


def short_enough(value: _Value) -> _Value:
    """Return a value unchanged; OverflowError if it is an integer of more than 4096 bits."""
    if isinstance(value, int) and value.bit_length() > _INTEGER_BITS:
        raise OverflowError(f"the number has more than {_INTEGER_BITS} bits")
    return value


def total(values: Iterable[object], start: object = 0) -> object:
    """Return the sum of `start` and some numbers; errors as for `calculate`."""
    result: object = number(start)
    for value in values:
        result = calculate("+", result, number(value))
    return result


def number(value: object) -> float:
    """Return `value` if it is a number; TypeError otherwise."""
    if isinstance(value, (int, float)):
        return value
    raise TypeError(f"a number is needed, not {type_name(value)}")


def item(values: object, key: object) -> object:
    """Return an element of a list, or a value of a mapping; TypeError or ValueError if there is none."""
    if isinstance(values, Mapping):
        if isinstance(key, str) and key in values:
            return values[key]
        raise ValueError(f"the mapping has no `{key}`")
    if not isinstance(values, (list, tuple)):
        raise TypeError(f"a list or a mapping is needed, not {type_name(values)}")
    if not isinstance(key, int):
        raise TypeError(f"the index of a list is a whole number, not {type_name(key)}")
    if not -len(values) <= key < len(values):
        raise ValueError(f"the index {key} is out of range: the list has {len(values)} items, from index 0")
    return values[key]


def container(value: object) -> Sequence[object]:
    """Return `value` if it is a list or a text; TypeError otherwise."""
    if isinstance(value, (str, list, tuple)):
        return value
    raise TypeError(f"a list is needed, not {type_name(value)}")


def ordered(compare: Callable[[Any, Any], bool]) -> Callable[[object, object], bool]:
    """Return a comparison of two numbers or two texts; TypeError for anything else."""

    def compared(left: object, right: object) -> bool:
        if isinstance(left, str) and isinstance(right, str):
            return compare(left, right)
        return compare(number(left), number(right))

    return compared


def type_name(value: object) -> str:
    """Return what the user calls the type of a value."""
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, (int, float)):
        return "a number"
    if isinstance(value, str):
        return "a text"
    if isinstance(value, (list, tuple)):
        return "a list"
    if isinstance(value, Mapping):
        return "a mapping"
    described: str = getattr(value, "described", f"a {type(value).__name__}")
    return described


def _times(items: list[object] | tuple[object, ...], times: object) -> object:
    if not isinstance(times, int):
        raise TypeError(f"a list is repeated a whole number of times, not {type_name(times)}")
    if len(items) * times > _TEXT_LENGTH:
        raise OverflowError(f"the result is longer than {_TEXT_LENGTH}")
    return items * times


def _plus(left: str | list[object] | tuple[object, ...], right: object) -> object:
    if not isinstance(right, (str, list, tuple)) or type(left) is not type(right):
        raise TypeError(f"`+` does not take {type_name(left)} and {type_name(right)}")
    if len(left) + len(right) > _TEXT_LENGTH:
        raise OverflowError(f"the result is longer than {_TEXT_LENGTH}")
    return left + right  # type: ignore[operator]


_LONGEST_RANGE = 10_000
_LARGEST_PRECISION = 300


@dataclass(frozen=True, slots=True)
class Function:
    """A function of expressions; TypeError, ValueError or ArithmeticError for what it does not take."""

    compute: Callable[..., object]
    least: int = 1  # arguments
    most: float = 1  # may be infinite

    def __call__(self, name: str, arguments: Sequence[object]) -> object:
        """Call it; TypeError for a wrong number of arguments or a wrong type."""
        if not self.least <= len(arguments) <= self.most:
            raise TypeError(f"`{name}` does not take {len(arguments)} arguments")
        return self.compute(*arguments)


def _of_number(compute: Callable[[float], float]) -> Function:
    return Function(lambda value: compute(number(value)))


def _log(value: object, *base: object) -> float:
    return math.log(number(value), *(number(part) for part in base))


def _round(value: object, *digits: object) -> float:
    if not digits:
        return round(number(value))
    places = digits[0]
    if not isinstance(places, int) or abs(places) > _LARGEST_PRECISION:
        raise ValueError(f"`round` takes at most {_LARGEST_PRECISION} digits")
    return round(number(value), places)


def _extreme(choose: Callable[[Iterable[float]], float]) -> Function:
    def chosen(*values: object) -> float:
        candidates = container(values[0]) if len(values) == 1 else values
        if not candidates:
            raise ValueError("the list is empty")
        return choose([number(value) for value in candidates])

    return Function(chosen, 1, math.inf)


def _range(*bounds: object) -> list[int]:
    result = range(*(_as_integer(bound) for bound in bounds))
    if len(result) > _LONGEST_RANGE:
        raise ValueError(f"a range has at most {_LONGEST_RANGE} values")
    return list(result)


def _as_integer(value: object) -> int:
    if isinstance(value, int):
        return value
    raise TypeError(f"a whole number is needed, not {type_name(value)}")


def _whole_numbers(compute: Callable[..., int]) -> Function:
    return Function(lambda *values: compute(*(_as_integer(value) for value in values)), 2, math.inf)


def _lcm(*values: int) -> int:
    result = 1
    for value in values:
        result = short_enough(math.lcm(result, value))
    return result


def _prod(values: object) -> object:
    result: object = 1
    for value in container(values):
        result = calculate("*", result, number(value))
    return result


def _int(value: object) -> int:
    return int(value if isinstance(value, str) else number(value))


def _float(value: object) -> float:
    return float(value if isinstance(value, str) else number(value))


def _str(value: object) -> str:
    return value if isinstance(value, str) else str(number(value))


FUNCTIONS: Mapping[str, Function] = {
    "abs": _of_number(abs),
    "ceil": _of_number(math.ceil),
    "exp": _of_number(math.exp),
    "float": Function(_float),
    "floor": _of_number(math.floor),
    "gcd": _whole_numbers(math.gcd),
    "int": Function(_int),
    "isqrt": Function(lambda value: math.isqrt(_as_integer(value))),
    "lcm": _whole_numbers(_lcm),
    "len": Function(lambda values: len(container(values))),
    "log": Function(_log, 1, 2),
    "log10": _of_number(math.log10),
    "log2": _of_number(math.log2),
    "max": _extreme(max),
    "min": _extreme(min),
    "pow": Function(lambda base, exponent: calculate("**", base, exponent), 2, 2),
    "prod": Function(_prod),
    "range": Function(_range, 1, 3),
    "round": Function(_round, 1, 2),
    "sqrt": _of_number(math.sqrt),
    "str": Function(_str),
    "sum": Function(lambda values: total(container(values))),
}
