"""The text of a rule to its condition: names and types are checked, nothing is evaluated."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Literal

from model.architecture import Architecture
from model.problem import Problem
from model.rules.language import (
    KINDS,
    Constant,
    Expression,
    Kind,
    Number,
    Operation,
    OperatorName,
    Quantity,
    Rule,
)
from model.source_ref import SourceRef
from model.syntax import DEEPEST, NESTED, ExpressionError, extent_of, syntax_tree
from model.wording import did_you_mean, listing, suggestion

Place = Literal["tile", "temporal", "spatial"]
Type = Literal["number", "energy", "dimension", "condition"]
Typed = tuple[Expression, Type]

MOST_DIGITS = 200
"""Digits of a number, and the largest exponent."""

_LEVEL, _FANOUT = "level", "fanout"
_FUNCTIONS: Mapping[str, tuple[str, ...]] = {
    "tile": (_LEVEL, "dimension"),
    "words": (_LEVEL, "dataspace"),
    "share": (_LEVEL, "dataspace"),
    "keeps": (_LEVEL, "dataspace"),
    "capacity": (_LEVEL,),
    "temporal": (_LEVEL, "dimension"),
    "innermost": (_LEVEL,),
    "spatial": (_FANOUT, "dimension"),
    "instances": (_FANOUT,),
    "fanout": (_FANOUT,),
    "energy": (),
    "cycles": (),
}
"""What rules may ask for, and of what; where a rule stands on a node, the node may be left out."""

_TYPES: Mapping[str, Type] = {"keeps": "condition", "innermost": "dimension", "energy": "energy"}
_PICOJOULE = {
    "fJ": Fraction(1, 1000),
    "pJ": Fraction(1),
    "nJ": Fraction(10**3),
    "uJ": Fraction(10**6),
    "mJ": Fraction(10**9),
    "J": Fraction(10**12),
}
_UNITS = (*_PICOJOULE, "cycles")
_NUMBER = r"(?:\d[\d_]*(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?"
_WITH_UNIT = re.compile(rf"(?<![\w.])({_NUMBER}) +({'|'.join(_UNITS)})\b")
_UNIT_TOO_CLOSE = re.compile(rf"(?<![\w.]){_NUMBER}(?:{'|'.join(_UNITS)})\b")
_SINGLE_EQUAL = re.compile("(?<![=<>!])=(?!=)")
_ARITHMETIC: Mapping[type[ast.operator], OperatorName] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.FloorDiv: "//",
    ast.Mod: "%",
}
_COMPARED: Mapping[type[ast.cmpop], OperatorName] = {
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
}
_INSTEAD: Mapping[type[ast.operator], str] = {ast.BitAnd: "and", ast.BitOr: "or"}


@dataclass(frozen=True)
class RuleScope:
    """What the names in a rule stand for.

    Parameters
    ----------
    problem, architecture
        Whose dimensions, dataspaces, levels and fanouts there are.
    place, node
        The constraint that the rule stands in, and the level or fanout that has it: there the name of a
        dimension is the extent of the tile, or the factor. None for rules of a whole mapspace.
    constants
        Further names of numbers.
    """

    problem: Problem
    architecture: Architecture
    place: Place | None = None
    node: str = ""
    constants: Mapping[str, Fraction] = field(default_factory=dict)

    @cached_property
    def known(self) -> Mapping[str, tuple[str, ...]]:
        """The names of each kind."""
        return {
            _LEVEL: tuple(level.name for level in self.architecture.levels),
            _FANOUT: tuple(fanout.name for fanout in self.architecture.fanouts),
            "dimension": self.problem.dims,
            "dataspace": tuple(space.name for space in self.problem.dataspaces),
        }

    @property
    def kind(self) -> str | None:
        """The kind of node that the rule stands on."""
        return None if self.place is None else _FANOUT if self.place == "spatial" else _LEVEL

    @property
    def text(self) -> str:
        """The place for people."""
        return "" if self.place is None else f"{self.place} of {self.node}"


def parse_rule(text: str, scope: RuleScope, source: SourceRef | None = None) -> Rule:
    """Return the rule that a text states.

    Parameters
    ----------
    text
        A condition, as docs/constraints.md describes it.
    scope
        What its names stand for.
    source
        Where it is written.

    Raises
    ------
    ExpressionError
        If it is none, with the part that is wrong.
    """
    line = " ".join(text.split("\n")).strip()
    condition = _RuleParser(line, scope).condition()
    rule = Rule(condition, line, scope.text, source)
    if not any(quantity.kind not in ("capacity", "fanout") for quantity in rule.quantities):
        raise ExpressionError("this rule says nothing about a mapping")
    return rule


class _RuleParser:
    """Walks the syntax tree of one rule."""

    def __init__(self, text: str, scope: RuleScope) -> None:
        self._scope = scope
        self._units: set[int] = set()  # where the names of units begin
        # A unit becomes a factor, at the same place, so that the text is an expression.
        self._text = _WITH_UNIT.sub(self._as_factor, text)

    def _as_factor(self, match: re.Match[str]) -> str:
        self._units.add(match.start(2))
        return f"{match[1]}*{match[0][len(match[1]) + 1 :]}"

    def condition(self) -> Expression:
        """Return the condition of the whole text."""
        return self._condition(self._tree(), 0)

    def _tree(self) -> ast.expr:
        try:
            return syntax_tree(self._text)
        except ExpressionError as error:
            close = _UNIT_TOO_CLOSE.search(self._text)
            if error.is_syntax and close:
                error.hint = "a blank stands before a unit: `2.5 mJ`"
            elif error.is_syntax and _SINGLE_EQUAL.search(self._text):
                error.hint = "equal figures are compared with `==`"
            raise

    def _error(self, message: str, node: ast.expr, hint: str | None = None) -> ExpressionError:
        return ExpressionError(message, *extent_of(self._text, node), hint)

    def _condition(self, node: ast.expr, depth: int) -> Expression:
        return self._typed(node, "condition", depth)

    def _typed(self, node: ast.expr, wanted: Type, depth: int) -> Expression:
        expression, found = self._expression(node, depth)
        if found != wanted:
            raise self._error(f"this is {_article(found)}, not {_article(wanted)}", node)
        return expression

    def _expression(self, node: ast.expr, depth: int) -> Typed:  # noqa: PLR0911 (one case per kind of node)
        if depth > DEEPEST:
            raise self._error(NESTED, node)
        match node:
            case ast.BoolOp(op=junction, values=values):
                operands = tuple(self._condition(value, depth + 1) for value in values)
                return Operation("or" if isinstance(junction, ast.Or) else "and", operands), "condition"
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return Operation("not", (self._condition(operand, depth + 1),)), "condition"
            case ast.Compare():
                return self._comparison(node, depth + 1), "condition"
            case ast.UnaryOp(op=ast.USub() | ast.UAdd() as sign, operand=operand):
                value = self._typed(operand, "number", depth + 1)
                return (Operation("-", (value,)) if isinstance(sign, ast.USub) else value), "number"
            case ast.BinOp(left=ast.Constant() as number, op=ast.Mult(), right=ast.Name() as unit) if (
                self._begins(unit) in self._units
            ):
                return self._with_unit(number, unit.id)
            case ast.BinOp(left=ast.BinOp(right=ast.Constant()) as product, right=ast.Name() as unit) if (
                self._begins(unit) in self._units
            ):
                return self._expression(_regrouped(product, unit), depth)
            case ast.BinOp(op=symbol) if type(symbol) in _ARITHMETIC:
                return self._arithmetic(node, _ARITHMETIC[type(symbol)], depth + 1)
            case ast.Constant(value=bool()) | ast.Constant(value=complex()):
                pass
            case ast.Constant(value=int() | float()):
                return Constant(_plain(self._number(node))), "number"
            case ast.Name(id=name):
                return self._named(name, node)
            case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]):
                return self._called(name, node, arguments)
        raise self._error("this is not allowed in a rule", node, _operator_hint(node))

    def _begins(self, node: ast.expr) -> int:
        return extent_of(self._text, node)[0]

    def _with_unit(self, number: ast.Constant, unit: str) -> Typed:
        value = self._number(number)
        if unit in _PICOJOULE:
            return Constant(_plain(value * _PICOJOULE[unit]), is_energy=True), "energy"
        return Constant(_plain(value)), "number"

    def _number(self, node: ast.Constant) -> Fraction:
        """Return a number exactly as it is written."""
        if isinstance(node.value, int):
            if node.value >= 10**MOST_DIGITS:
                raise self._error(f"a number has at most {MOST_DIGITS} digits", node)
            return Fraction(node.value)
        start, end = extent_of(self._text, node)
        digits, _, exponent = self._text[start:end].replace("_", "").lower().partition("e")
        if len(digits) > MOST_DIGITS or abs(int(exponent or 0)) > MOST_DIGITS:
            raise self._error(f"a number has at most {MOST_DIGITS} digits", node)
        return Fraction(digits) * Fraction(10) ** int(exponent or 0)

    def _arithmetic(self, node: ast.BinOp, name: OperatorName, depth: int) -> Typed:
        left, left_type = self._expression(node.left, depth)
        right, right_type = self._expression(node.right, depth)
        for side, found in ((node.left, left_type), (node.right, right_type)):
            if found in ("condition", "dimension"):
                raise self._error(f"this is {_article(found)}, not a number", side)
        result = _type_of(name, left_type, right_type)
        if result is None:
            raise self._error(f"`{name}` cannot be combined with these: {left_type} and {right_type}", node)
        if name in ("/", "//", "%") and right == Constant(0):
            raise self._error("this divides by zero", node)
        return Operation(name, (left, right)), result

    def _comparison(self, node: ast.Compare, depth: int) -> Expression:
        """Return a comparison; a chain such as ``1 < K <= 4`` is its parts together."""
        parts: list[Expression] = []
        left_node = node.left
        for symbol, right in zip(node.ops, node.comparators, strict=True):
            left = self._expression(left_node, depth)
            parts.append(self._compared(left, left_node, symbol, right, depth))
            left_node = right
        return parts[0] if len(parts) == 1 else Operation("and", tuple(parts))

    def _compared(
        self, left: Typed, left_node: ast.expr, symbol: ast.cmpop, right: ast.expr, depth: int
    ) -> Expression:
        if isinstance(symbol, (ast.In, ast.NotIn)):
            if not isinstance(right, (ast.List, ast.Tuple)) or not right.elts:
                raise self._error("`in` needs a list, such as `[C, R, S]`", right)
            equal = [self._equal(left, left_node, "==", item, depth) for item in right.elts]
            found = equal[0] if len(equal) == 1 else Operation("or", tuple(equal))
            return Operation("not", (found,)) if isinstance(symbol, ast.NotIn) else found
        if type(symbol) not in _COMPARED:
            raise self._error("this comparison is not allowed in a rule", right)
        return self._equal(left, left_node, _COMPARED[type(symbol)], right, depth)

    def _equal(
        self, left: Typed, left_node: ast.expr, name: OperatorName, right: ast.expr, depth: int
    ) -> Expression:
        value, found = left
        if found == "condition":
            raise self._error("a condition is not compared", left_node, "join conditions by `and` and `or`")
        if found == "dimension":
            if name not in ("==", "!="):
                raise self._error("dimensions are compared by `==`, `!=` and `in` only", right)
            return Operation(name, (value, Constant(self._name(right, "dimension"))))
        other, other_type = self._expression(right, depth)
        if other_type == "dimension":
            raise self._error("this is a dimension", right, "write `innermost == C`, in this order")
        if other_type != found:
            side = right if found == "energy" else left_node
            hint = "an energy has a unit: `energy <= 2.5 mJ`" if "energy" in (found, other_type) else None
            raise self._error(f"{_article(found)} is compared with {_article(other_type)}", side, hint)
        return Operation(name, (value, other))

    def _named(self, name: str, node: ast.Name) -> Typed:
        """Return what a name alone stands for: dimensions come first, then what functions ask for."""
        scope = self._scope
        if scope.place is not None and name in scope.problem.dims:
            return Quantity(scope.place, scope.node, name), "number"
        if name in _FUNCTIONS:
            return self._called(name, node, [])
        if name in scope.constants:
            return Constant(_plain(scope.constants[name])), "number"
        raise self._error(f"`{name}` is not defined here", node, self._hint_for(name))

    def _hint_for(self, name: str) -> str:
        known = self._scope.known
        if name in known["dimension"]:
            shown = f"`tile(LEVEL, {name})`, `temporal(LEVEL, {name})` or `spatial(FANOUT, {name})`"
            return f"outside the constraints of a node, write {shown}"
        if name in known["dataspace"]:
            return f"write `words({name})`, `share({name})` or `keeps({name})`"
        names = (*known["dimension"], *_FUNCTIONS, *self._scope.constants)
        return did_you_mean(name, names) or f"the problem has {listing(known['dimension'])}"

    def _called(self, name: str, node: ast.Call | ast.Name, arguments: Sequence[ast.expr]) -> Typed:
        if name not in _FUNCTIONS:
            hint = suggestion(name, _FUNCTIONS, "there are")
            raise self._error(f"there is no function `{name}`", node, hint)
        kinds = _FUNCTIONS[name]
        own = () if not kinds or kinds[0] != self._scope.kind else (self._scope.node,)
        if len(arguments) == len(kinds):
            own = ()
        elif not own or len(arguments) != len(kinds) - 1:
            raise self._error(f"`{name}` is written `{name}({', '.join(map(str.upper, kinds))})`", node)
        pairs = zip(arguments, kinds[len(own) :], strict=True)
        return self._asked(name, node, (*own, *(self._name(argument, kind) for argument, kind in pairs)))

    def _asked(self, name: str, node: ast.expr, names: tuple[str, ...]) -> Typed:
        """Return what a function with known names asks for."""
        if name in ("share", "capacity"):
            self._check_limited(names[0], node)
        if name == "share":
            words, capacity = Quantity("words", *names), Quantity("capacity", names[0])
            return Operation("/", (words, capacity)), "number"
        kind: Kind = next(kind for kind in KINDS if kind == name)
        return Quantity(kind, *names), _TYPES.get(name, "number")

    def _check_limited(self, level: str, node: ast.expr) -> None:
        storage = next(own for own in self._scope.architecture.levels if own.name == level)
        if storage.usable_words is None:
            raise self._error(f"`{level}` has no limited capacity", node)

    def _name(self, node: ast.expr, kind: str) -> str:
        """Return a name of some kind, which may be quoted."""
        match node:
            case ast.Name(id=name) | ast.Constant(value=str() as name):
                known = self._scope.known[kind]
                if name in known:
                    return name
                hint = suggestion(name, known, "known are")
                raise self._error(f"there is no {kind} `{name}`", node, hint)
        raise self._error(f"the name of a {kind} belongs here", node)


def _regrouped(product: ast.BinOp, unit: ast.Name) -> ast.BinOp:
    """Return ``(A * 2) UNIT``, as the tree of ``A * 2 UNIT`` has it, as ``A * (2 UNIT)``."""
    energy = ast.copy_location(ast.BinOp(product.right, ast.Mult(), unit), product.right)
    whole = ast.copy_location(ast.BinOp(product.left, product.op, energy), product)
    energy.end_col_offset = whole.end_col_offset = unit.end_col_offset
    return whole


def _plain(number: Fraction) -> Number:
    """Return a whole number as an integer, whose arithmetic is faster."""
    return number.numerator if number.denominator == 1 else number


def _type_of(name: OperatorName, left: Type, right: Type) -> Type | None:
    """Return the type of a sum, product or quotient, None where there is no such thing."""
    energies = (left, right).count("energy")
    if energies == 0:
        return "number"
    if name in ("+", "-"):
        return "energy" if energies == 2 else None
    if name == "*":
        return "energy" if energies == 1 else None
    if name == "/":
        return "number" if energies == 2 else "energy" if left == "energy" else None
    return None


def _article(found: Type) -> str:
    return f"an {found}" if found == "energy" else f"a {found}"


def _operator_hint(node: ast.expr) -> str | None:
    """Return what to write instead of an operator of other languages."""
    instead = _INSTEAD.get(type(node.op)) if isinstance(node, ast.BinOp) else None
    return f"write `{instead}`" if instead else None
