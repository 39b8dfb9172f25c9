"""The functions that expressions can call."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from model.text.arithmetic import bounded, calculate, container, number, total, type_name

_LONGEST_RANGE = 10_000
_LARGEST_PRECISION = 300


@dataclass(frozen=True, slots=True)
class Function:
    """A function of expressions.

    Parameters
    ----------
    compute
        Takes values of any type, and raises TypeError, ValueError or ArithmeticError for those that it
        does not take.
    least, most
        Number of arguments, both included; `most` may be infinite.
    """

    compute: Callable[..., object]
    least: int = 1
    most: float = 1

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
    result = range(*(_whole(bound) for bound in bounds))
    if len(result) > _LONGEST_RANGE:
        raise ValueError(f"a range has at most {_LONGEST_RANGE} values")
    return list(result)


def _whole(value: object) -> int:
    if isinstance(value, int):
        return value
    raise TypeError(f"a whole number is needed, not {type_name(value)}")


def _whole_numbers(compute: Callable[..., int]) -> Function:
    return Function(lambda *values: compute(*(_whole(value) for value in values)), 2, math.inf)


def _lcm(*values: int) -> int:
    result = 1
    for value in values:
        result = bounded(math.lcm(result, value))
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
    "isqrt": Function(lambda value: math.isqrt(_whole(value))),
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
