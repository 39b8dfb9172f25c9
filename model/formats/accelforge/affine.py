"""Affine expressions and constraints of rank variables, and the smallest box around what they allow."""

from __future__ import annotations

import ast
import keyword
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from model.text.expressions import ExpressionText
from model.text.source import Span, SpecError

if TYPE_CHECKING:
    from types import ModuleType


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
        """Return this plus `factor` times `other`; zero coefficients are left out."""
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
    """Return an affine expression over names."""
    source = _expression(text, span)
    try:
        return _Walker(source).affine(source.parse(), 0)
    except NotAffineError as error:
        hint = "an index is a sum of whole numbers times rank variables, such as `2*p + r`"
        raise SpecError(str(error), error.span, hint=hint) from None


def read_constraints(text: str, span: Span) -> tuple[Constraint, ...]:
    """Return the constraints of comparisons, which may be chained, and joined by ``and`` or ``&&``."""
    if _TWICE.search(text):
        hint = "write one between two values, such as `0 <= m < 128`"
        raise SpecError(f"two comparison operators follow each other in `{text}`", span, hint=hint)
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
            raise NotAffineError("the expression is nested too deeply", self._source.at(node))
        expression = self._affine(node, depth + 1)
        numbers = (expression.constant, *expression.coefficients.values())
        if any(abs(number) > LARGEST for number in numbers):
            raise NotAffineError(f"numbers above {LARGEST} are not supported here", self._source.at(node))
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


# Bounds that constraints over several variables hand on to one another; real files need two rounds.
_ROUNDS = 50


@dataclass
class Interval:
    """The values of a variable."""

    low: int | None = None  # both ends are included; None where there is no bound
    high: int | None = None

    @property
    def is_bounded(self) -> bool:
        """Whether both ends are known."""
        return self.low is not None and self.high is not None


Box = dict[str, Interval]


def tightened(variables: Iterable[str], constraints: Sequence[Constraint]) -> Box:
    """Return the intervals that constraints leave to each variable, exact unless one is over several."""
    box: Box = {name: Interval() for name in variables}
    last: dict[str, Span] = {}
    for _ in range(_ROUNDS):
        changed = [_apply(constraint, box, last) for constraint in constraints]
        if not any(changed):
            break
    return box


def _apply(constraint: Constraint, box: Box, last: dict[str, Span]) -> bool:
    """Tighten the interval of each variable of one constraint; say whether that changed any."""
    affine, changed = constraint.affine, False
    if not affine.coefficients and affine.constant < 0:
        raise SpecError("this never holds", constraint.span)
    for name, coefficient in affine.coefficients.items():
        rest = _largest_value(affine, box, skip=name)
        if rest is None:
            continue
        interval = box[name]
        if coefficient > 0:
            bound = -(rest // coefficient)
            grows = interval.low is None or bound > interval.low
            interval.low = bound if grows else interval.low
        else:
            bound = rest // -coefficient
            grows = interval.high is None or bound < interval.high
            interval.high = bound if grows else interval.high
        if interval.low is not None and interval.high is not None and interval.low > interval.high:
            related = ((last[name], "together with this"),) if name in last else ()
            raise SpecError(f"no value of `{name}` is left", constraint.span, related)
        if grows:
            last[name] = constraint.span
            changed = True
    return changed


def _largest_value(affine: Affine, box: Mapping[str, Interval], skip: str | None = None) -> int | None:
    """Return the greatest value in a box, with the variable `skip` left out; None if unbounded."""
    total = affine.constant
    for name, coefficient in affine.coefficients.items():
        if name == skip:
            continue
        end = box[name].high if coefficient > 0 else box[name].low
        if end is None:
            return None
        total += coefficient * end
    return total


def may_bound_together(box: Mapping[str, Interval], constraints: Iterable[Constraint]) -> bool:
    """Whether constraints may bound a box that has open ends."""
    sums: dict[str, set[tuple[tuple[str, int], ...]]] = {}
    for terms in (sorted(constraint.affine.coefficients.items()) for constraint in constraints):
        opposite = [(name, -coefficient) for name, coefficient in terms]
        for name, _ in terms:
            sums.setdefault(name, set()).add(tuple(max(terms, opposite)))
    unbounded = [name for name, interval in box.items() if not interval.is_bounded]
    return bool(unbounded) and all(len(sums.get(name, ())) > 1 for name in unbounded)


def is_attained(box: Mapping[str, Interval], constraints: Iterable[Constraint]) -> bool:
    """Whether each end of a bounded box is known to be the value of some point that satisfies constraints.

    Intervals alone say so unless different sums of the same variables are limited. Then each end is
    tried with all other variables at their low ends, and at their high ends.
    """
    strictest: dict[frozenset[tuple[str, int]], Affine] = {}
    for constraint in constraints:
        affine = constraint.affine
        if len(affine.coefficients) < 2 or not cuts(constraint, box):
            continue
        known = strictest.setdefault(frozenset(affine.coefficients.items()), affine)
        if affine.constant < known.constant:
            strictest[frozenset(affine.coefficients.items())] = affine
    cutting = list(strictest.values())
    first: dict[str, Affine] = {}
    sharing = ((first.setdefault(name, affine), affine) for affine in cutting for name in affine.coefficients)
    if not any(_are_coupled(one, other) for one, other in sharing):
        return True
    lows = {name: interval.low for name, interval in box.items() if interval.low is not None}
    highs = {name: interval.high for name, interval in box.items() if interval.high is not None}
    return any(
        all(
            _is_nonnegative(affine, {**corner, name: end})
            for ends in (lows, highs)
            for name, end in ends.items()
            for affine in cutting
        )
        for corner in (lows, highs)
    )


def _are_coupled(one: Affine, other: Affine) -> bool:
    """Whether two sums that share a variable are not one sum, or their limits leave it no value."""
    total = one.plus(other)
    if not total.coefficients:
        return total.constant < 0
    return one.coefficients != other.coefficients


def _is_nonnegative(affine: Affine, point: Mapping[str, int]) -> bool:
    terms = (coefficient * point[name] for name, coefficient in affine.coefficients.items())
    return affine.constant + sum(terms) >= 0


def cuts(constraint: Constraint, box: Mapping[str, Interval]) -> bool:
    """Whether some point of a box does not satisfy a constraint; True where the box is open that way."""
    opposite = Affine().plus(constraint.affine, -1)
    largest = _largest_value(opposite, box)
    return largest is None or largest > 0


EXTRA = "isl"

# Seconds at most; strides, triangles and bands of twelve variables take a fifth of it.
_MOST_OPERATIONS = 10**5


def bounding_box(
    variables: Sequence[str], constraints: Iterable[Constraint], texts: Sequence[tuple[str, Span]]
) -> tuple[Box, bool]:
    """Return the least box around a set of integer points, and whether the set fills it."""
    isl = _import_islpy(texts[0][1])
    context = isl.Context()
    context.set_max_operations(_MOST_OPERATIONS)
    try:
        return _bounding_box(_Isl(isl, context), variables, constraints, texts)
    except isl.Error as error:
        raise _isl_error(error, texts[-1][1]) from None


@dataclass(frozen=True)
class _Isl:
    """The library, and the context that counts its steps."""

    library: ModuleType
    context: Any


def _bounding_box(
    isl: _Isl, variables: Sequence[str], constraints: Iterable[Constraint], texts: Sequence[tuple[str, Span]]
) -> tuple[Box, bool]:
    everything = f"[{', '.join(variables)}]"
    known = [f"{constraint.affine} >= 0" for constraint in constraints]
    result = _isl_set(isl, everything, " and ".join(known) or "true", texts[0][1])
    for text, span in texts:
        _check_text(text, span)
        condition = re.sub(r"==+", "=", text)
        result = result.intersect(_isl_set(isl, everything, f"({condition})", span))
    if result.is_empty():
        raise SpecError("no point of the iteration space is left", texts[-1][1])
    box = {name: _interval_of_points(result, place) for place, name in enumerate(variables)}
    if not all(interval.is_bounded for interval in box.values()):
        return box, False
    limits = (f"{values.low} <= {name} <= {values.high}" for name, values in box.items())
    return box, bool(_isl_set(isl, everything, " and ".join(limits), texts[0][1]).is_equal(result))


def _check_text(text: str, span: Span) -> None:
    """Refuse what would end the condition that it is put into."""
    depth = 0
    for character in text:
        depth += {"(": 1, ")": -1}.get(character, 0)
        if depth < 0 or character in "{};":
            raise SpecError(f"`{character}` is not allowed in this condition", span)


def _import_islpy(span: Span) -> ModuleType:
    try:
        import islpy  # type: ignore[import-not-found,unused-ignore] # noqa: PLC0415 (an optional extra)
    except ImportError:
        message = "this iteration space is not a box of ranges such as `0 <= m < 128`"
        hint = f"other sets need the extra `{EXTRA}`: pip install 'tilewright[{EXTRA}]'"
        raise SpecError(message, span, hint=hint) from None
    return islpy  # type: ignore[no-any-return,unused-ignore]


def _isl_set(isl: _Isl, everything: str, condition: str, span: Span) -> Any:
    try:
        return isl.library.Set.read_from_str(isl.context, f"{{ {everything} : {condition} }}")
    except isl.library.Error as error:
        raise _isl_error(error, span) from None


def _isl_error(error: Exception, span: Span) -> SpecError:
    if "number of operations exceeded" in str(error):
        return SpecError(f"ISL needs more than {_MOST_OPERATIONS:,} steps for this", span)
    return SpecError("ISL does not understand this", span)


def _interval_of_points(points: Any, place: int) -> Interval:
    low, high = points.dim_min_val(place), points.dim_max_val(place)
    return Interval(
        int(low.to_str()) if low.is_int() else None, int(high.to_str()) if high.is_int() else None
    )
