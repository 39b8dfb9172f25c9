"""Conditions on mappings: quantities, exact arithmetic, comparisons, and what is true of a mapping."""

from __future__ import annotations

import json
import math
import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import Literal, NamedTuple, get_args

from model.source_ref import SourceRef

Kind = Literal[
    "tile",
    "words",
    "keeps",
    "capacity",
    "temporal",
    "innermost",
    "spatial",
    "instances",
    "fanout",
    "energy",
    "cycles",
]
KINDS: tuple[Kind, ...] = get_args(Kind)
Number = int | Fraction
Value = Number | str | bool
"""A number, the name of a dimension, or whether a condition holds."""

OF_HARDWARE: tuple[Kind, ...] = ("capacity", "fanout")
OF_TILES: tuple[Kind, ...] = ("tile", "words", "keeps")
OF_DATASPACES: tuple[Kind, ...] = ("words", "keeps")
OF_FANOUTS: tuple[Kind, ...] = ("spatial", "instances")


@dataclass(frozen=True, slots=True)
class Quantity:
    """What a condition asks of a mapping, or of the hardware.

    Parameters
    ----------
    kind
        ``tile``: iterations of a dimension that a tile at a storage level has. ``words``: words of a level
        that the tile of a dataspace takes there in one instance, 0 if it is not kept. ``keeps``: whether a
        level keeps a dataspace. ``capacity``: words that the tiles in one instance of a level may take.
        ``temporal``: the factor of a level's loop over a dimension. ``innermost``: the dimension of a level's
        innermost loop of bound above 1, an empty text if it has none. ``spatial``: a fanout's factor over a
        dimension. ``instances``: the product of a fanout's factors. ``fanout``: children that a fanout has.
        ``energy``: of the mapping in pJ. ``cycles``: of the mapping.
    node
        Name of the level or the fanout; empty for `energy` and `cycles`.
    of
        Name of the dimension or the dataspace, for kinds that have one.
    """

    kind: Kind
    node: str = ""
    of: str = ""

    def __str__(self) -> str:
        arguments = [_quoted(name) for name in (self.node, self.of) if name]
        return f"{self.kind}({', '.join(arguments)})" if arguments else self.kind


@dataclass(frozen=True, slots=True)
class Constant:
    """A number, an energy in pJ, or the name of a dimension."""

    value: Number | str
    is_energy: bool = False

    def __str__(self) -> str:
        if isinstance(self.value, str):
            return _quoted(self.value)
        return f"{_decimal(self.value)} pJ" if self.is_energy else _decimal(self.value)


OperatorName = Literal["+", "-", "*", "/", "//", "%", "==", "!=", "<", "<=", ">", ">=", "and", "or", "not"]


@dataclass(frozen=True, slots=True)
class Operation:
    """An operator and its operands: one for ``not`` and a sign, two or more for ``and`` and ``or``."""

    name: OperatorName
    operands: tuple[Expression, ...]

    def __str__(self) -> str:
        parts = [f"({part})" if isinstance(part, Operation) else str(part) for part in self.operands]
        return f"{self.name} {parts[0]}" if len(parts) == 1 else f" {self.name} ".join(parts)


Expression = Quantity | Constant | Operation
Facts = Callable[[Quantity], Value]
"""The value of each quantity that a condition may ask for."""

_BINARY: dict[OperatorName, Callable[..., Value]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": lambda left, right: Fraction(left) / right,
    "//": operator.floordiv,
    "%": operator.mod,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_UNARY: dict[OperatorName, Callable[..., Value]] = {
    "-": operator.neg,
    "+": operator.pos,
    "not": operator.not_,
}


_MIRRORED: dict[OperatorName, OperatorName] = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


def value_of(expression: Expression, facts: Facts) -> Value:
    """Return the exact value of an expression; operands of ``and`` and ``or`` only as far as they matter.

    Raises
    ------
    ZeroDivisionError
        If something is divided by zero.
    """
    match expression:
        case Constant(value=value):
            return value
        case Quantity():
            return facts(expression)
        case Operation(name="and", operands=operands):
            return all(value_of(operand, facts) for operand in operands)
        case Operation(name="or", operands=operands):
            return any(value_of(operand, facts) for operand in operands)
    values = [value_of(operand, facts) for operand in expression.operands]
    return (_UNARY if len(values) == 1 else _BINARY)[expression.name](*values)


class Locality(NamedTuple):
    """The one place that a rule is about.

    Parameters
    ----------
    kind
        ``tile``: the tile at a storage level, and what the level keeps. ``spatial``: the factors of a fanout.
    node
        Name of the level or the fanout.
    """

    kind: Literal["tile", "spatial"]
    node: str


class CostLimit(NamedTuple):
    """The most that a rule lets mappings cost.

    Parameters
    ----------
    quantity
        ``energy`` or ``cycles``.
    most
        In pJ, or cycles.
    strict
        Whether mappings have to stay below.
    """

    quantity: Literal["energy", "cycles"]
    most: Number
    strict: bool

    def in_units(self, units_per_pj: int) -> int:
        """Return the largest number of energy units, or of cycles, that is allowed; below 0 if none is."""
        most = Fraction(self.most) * (units_per_pj if self.quantity == "energy" else 1)
        return math.ceil(most) - 1 if self.strict else math.floor(most)


@dataclass(frozen=True)
class Rule:
    """A condition that every mapping of a mapspace satisfies.

    Parameters
    ----------
    condition
        What holds; rules with equal conditions are equal.
    text, place
        What was written, and the constraint in which it stands (such as ``tile of buffer``), if in one.
    source
        Where it is written.
    """

    condition: Expression
    text: str = field(default="", compare=False)
    place: str = field(default="", compare=False)
    source: SourceRef | None = field(default=None, compare=False)

    def __str__(self) -> str:
        """Return the rule as it is written, with its place."""
        text = self.text or str(self.condition)
        return f"{self.place}: {text}" if self.place else text

    @cached_property
    def quantities(self) -> tuple[Quantity, ...]:
        """What the condition asks for, each once, in the order in which it is named."""
        return tuple(dict.fromkeys(_quantities(self.condition)))

    @property
    def dataspaces(self) -> set[str]:
        """The names of the dataspaces that the condition asks for."""
        return {quantity.of for quantity in self.quantities if quantity.kind in OF_DATASPACES}

    @property
    def sized(self) -> set[str]:
        """The names of the dataspaces whose words the condition asks for."""
        return {quantity.of for quantity in self.quantities if quantity.kind == "words"}

    @cached_property
    def parts(self) -> tuple[Rule, ...]:
        """Rules that hold together just where this one does: the operands of ``and``, or itself."""
        if not isinstance(self.condition, Operation) or self.condition.name != "and":
            return (self,)
        rules = (replace(self, condition=operand) for operand in self.condition.operands)
        return tuple(part for rule in rules for part in rule.parts)

    @cached_property
    def locality(self) -> Locality | None:
        """The one tile or fanout that the rule is about; None if there are several, or it is about others."""
        asked = [quantity for quantity in self.quantities if quantity.kind not in OF_HARDWARE]
        nodes = {quantity.node for quantity in asked}
        if len(nodes) != 1:
            return None
        (node,) = nodes
        if all(quantity.kind in OF_TILES for quantity in asked):
            return Locality("tile", node)
        return Locality("spatial", node) if all(q.kind in OF_FANOUTS for q in asked) else None

    @property
    def is_spatial(self) -> bool:
        """Whether the rule is about the factors of one fanout."""
        return self.locality is not None and self.locality.kind == "spatial"

    @cached_property
    def cost_limit(self) -> CostLimit | None:
        """The limit on energy or cycles that the rule is, such as ``cycles <= 1e6``; None if it is none."""
        if not isinstance(self.condition, Operation) or self.condition.name not in _MIRRORED:
            return None
        name, (left, right) = self.condition.name, self.condition.operands
        if isinstance(right, Quantity):
            left, right, name = right, left, _MIRRORED[name]
        if name not in ("<", "<=") or not isinstance(left, Quantity) or any(_quantities(right)):
            return None
        most = _constant(right)
        if isinstance(most, str) or most is None or left.kind not in ("energy", "cycles"):
            return None
        return CostLimit("energy" if left.kind == "energy" else "cycles", most, name == "<")

    @property
    def limits_costs(self) -> bool:
        """Whether any part of the rule limits energy or cycles."""
        return any(part.cost_limit is not None for part in self.parts)

    @property
    def is_simple(self) -> bool:
        """Whether each part of the rule is about one tile or one fanout, or limits energy or cycles."""
        return all(part.locality is not None or part.cost_limit is not None for part in self.parts)

    def renamed(self, dims: Mapping[str, str], dataspaces: Mapping[str, str]) -> Rule:
        """Return the rule about dimensions and dataspaces of other names, without its text and places."""

        def new(part: Quantity | Constant) -> Expression:
            if isinstance(part, Quantity):
                names = dataspaces if part.kind in OF_DATASPACES else dims
                return Quantity(part.kind, part.node, names[part.of] if part.of else "")
            return Constant(dims[part.value]) if isinstance(part.value, str) else part

        return Rule(_replaced(self.condition, new))

    def given(self, known: Mapping[Quantity, int]) -> Rule:
        """Return the rule with numbers in the place of quantities that are `known`."""
        if not known.keys() & set(self.quantities):
            return self

        def new(part: Quantity | Constant) -> Expression:
            return Constant(known[part]) if isinstance(part, Quantity) and part in known else part

        return replace(self, condition=_replaced(self.condition, new))

    def holds(self, facts: Facts) -> bool:
        """Whether the condition holds; it does not where something is divided by zero."""
        try:
            return bool(value_of(self.condition, facts))
        except ZeroDivisionError:
            return False


def asks_for_energy(rules: tuple[Rule, ...]) -> bool:
    """Whether some rule is about the energy of mappings."""
    return any(quantity.kind == "energy" for rule in rules for quantity in rule.quantities)


def _quantities(expression: Expression) -> Iterator[Quantity]:
    if isinstance(expression, Quantity):
        yield expression
    elif isinstance(expression, Operation):
        for operand in expression.operands:
            yield from _quantities(operand)


def _constant(expression: Expression) -> Value | None:
    """Return the value of an expression without quantities, None where it divides by zero."""
    nothing: dict[Quantity, Value] = {}
    try:
        return value_of(expression, nothing.__getitem__)
    except ZeroDivisionError:
        return None


def _replaced(expression: Expression, new: Callable[[Quantity | Constant], Expression]) -> Expression:
    """Return an expression with other quantities and constants."""
    if not isinstance(expression, Operation):
        return new(expression)
    return Operation(expression.name, tuple(_replaced(operand, new) for operand in expression.operands))


def _quoted(name: str) -> str:
    return name if name.isidentifier() else json.dumps(name, ensure_ascii=False)


def _decimal(number: Number) -> str:
    """Return a number that has finitely many decimal places with all of them."""
    places = 0
    while Fraction(number * 10**places).denominator != 1 and places < 2_000:
        places += 1
    digits = str(abs(math.trunc(number * 10**places))).rjust(places + 1, "0")
    sign = "-" if number < 0 else ""
    return f"{sign}{digits[:-places]}.{digits[-places:]}" if places else f"{sign}{digits}"
