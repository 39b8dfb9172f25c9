"""Affine expressions of rank variables, and comparisons between them."""

from __future__ import annotations

import ast
import keyword
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise

from model.text.source import Span, SpecError
from model.text.syntax import ExpressionText

LARGEST = 2**31 - 1

_DEEPEST = 50

_FACTOR = re.compile(r"(?<![\w.])(?!0[xXoObB])(\d+)\s*(?=[A-Za-z(])(?![eE]\d|(?:and|or|mod|not|implies)\b)")
"""A number before what it multiplies, as in ``2p`` and ``3 (p + 1)``."""

_RESERVED = frozenset(keyword.kwlist) - {"and", "or", "not"}
_EQUALITY = re.compile(r"(?<![<>=!])=(?!=)")
_TWICE = re.compile(r"[<>=]\s+[<>=]")
_WORD = re.compile(r"[A-Za-z_]\w*")


@dataclass(frozen=True)
class Affine:
    """``constant + sum of coefficient * rank variable``; no coefficient is zero."""

    constant: int = 0
    coefficients: Mapping[str, int] = field(default_factory=dict)

    def plus(self, other: Affine, factor: int = 1) -> Affine:
        """Return this plus `factor` times `other`; coefficients that come to zero are left out."""
        total = dict(self.coefficients)
        for name, coefficient in other.coefficients.items():
            total[name] = total.get(name, 0) + factor * coefficient
        kept = {name: coefficient for name, coefficient in total.items() if coefficient}
        return Affine(self.constant + factor * other.constant, kept)

    def __str__(self) -> str:
        terms = (f"{coefficient} * {name}" for name, coefficient in self.coefficients.items())
        return " + ".join((*terms, str(self.constant)))


@dataclass(frozen=True)
class Constraint:
    """``affine >= 0``, and where that is asked for."""

    affine: Affine
    span: Span


class NotAffineError(Exception):
    """A part of an expression that is not affine, with its place."""

    def __init__(self, message: str, span: Span | None) -> None:
        super().__init__(message)
        self.span = span


def read_affine(text: str, span: Span | None) -> Affine:
    """Return an affine expression over names.

    Raises
    ------
    SpecError
        For anything else, at the part that is wrong; and for numbers above `LARGEST`.
    """
    source = _expression(text, span)
    try:
        return _Walker(source).affine(source.parse(), 0)
    except NotAffineError as error:
        hint = "an index is a sum of whole numbers times rank variables, such as `2*p + r`"
        raise SpecError(str(error), error.span, hint=hint) from None


def read_constraints(text: str, span: Span) -> tuple[Constraint, ...]:
    """Return the constraints that a conjunction of affine comparisons stands for.

    Comparisons may be chained (``0 <= m < 128``) and joined by ``and`` or ``&&``; ``=`` means equality.

    Raises
    ------
    SpecError
        For what is no expression.
    NotAffineError
        For an expression of another kind, which may describe a set all the same.
    """
    if _TWICE.search(text):
        hint = "write one between two values, such as `0 <= m < 128`"
        raise SpecError(f"two signs of comparison follow each other in `{text}`", span, hint=hint)
    source = _expression(_EQUALITY.sub("==", text).replace("&&", " and "), span)
    return tuple(Constraint(affine, span) for affine in _Walker(source).conjunction(source.parse()))


def _expression(text: str, span: Span | None) -> ExpressionText:
    for word in _WORD.findall(text):
        if word in _RESERVED:
            hint = "give the rank variable another name"
            raise SpecError(f"`{word}` cannot be a name in an expression", span, hint=hint)
    return ExpressionText(_FACTOR.sub(r"\1*", text), span)


class _Walker:
    def __init__(self, source: ExpressionText) -> None:
        self._source = source

    def affine(self, node: ast.expr, depth: int) -> Affine:
        if depth > _DEEPEST:
            raise NotAffineError("the expression is nested too deep", self._source.at(node))
        expression = self._affine(node, depth + 1)
        numbers = (expression.constant, *expression.coefficients.values())
        if any(abs(number) > LARGEST for number in numbers):
            raise NotAffineError(f"numbers above {LARGEST} are not read here", self._source.at(node))
        return expression

    def _affine(self, node: ast.expr, depth: int) -> Affine:  # noqa: PLR0911 (one case per kind of node)
        match node:
            case ast.Constant(value=int() as value) if not isinstance(value, bool):
                return Affine(value)
            case ast.Name(id=name):
                return Affine(0, {name: 1})
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return Affine().plus(self.affine(operand, depth), -1)
            case ast.UnaryOp(op=ast.UAdd(), operand=operand):
                return self.affine(operand, depth)
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                return self.affine(left, depth).plus(self.affine(right, depth))
            case ast.BinOp(left=left, op=ast.Sub(), right=right):
                return self.affine(left, depth).plus(self.affine(right, depth), -1)
            case ast.BinOp(left=left, op=ast.Mult(), right=right):
                return self._product(self.affine(left, depth), self.affine(right, depth), node)
        raise NotAffineError("this is not affine", self._source.at(node))

    def _product(self, left: Affine, right: Affine, node: ast.expr) -> Affine:
        if left.coefficients and right.coefficients:
            raise NotAffineError("a product of rank variables is not affine", self._source.at(node))
        factor, scaled = (left.constant, right) if not left.coefficients else (right.constant, left)
        return Affine().plus(scaled, factor)

    def conjunction(self, node: ast.expr) -> Iterator[Affine]:
        if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.And):
            for part in node.values:
                yield from self.conjunction(part)
            return
        if not isinstance(node, ast.Compare):
            raise NotAffineError("a comparison such as `0 <= m < 128` is expected", self._source.at(node))
        sides = [self.affine(side, 0) for side in (node.left, *node.comparators)]
        for symbol, (left, right) in zip(node.ops, pairwise(sides), strict=True):
            yield from self._comparison(symbol, left, right, node)

    def _comparison(self, symbol: ast.cmpop, left: Affine, right: Affine, node: ast.expr) -> list[Affine]:
        """Return what is at least zero where ``left symbol right`` holds for whole numbers."""
        match symbol:
            case ast.LtE():
                return [right.plus(left, -1)]
            case ast.Lt():
                return [right.plus(left, -1).plus(Affine(-1))]
            case ast.GtE():
                return [left.plus(right, -1)]
            case ast.Gt():
                return [left.plus(right, -1).plus(Affine(-1))]
            case ast.Eq():
                return [right.plus(left, -1), left.plus(right, -1)]
        raise NotAffineError("this comparison does not bound a range", self._source.at(node))
