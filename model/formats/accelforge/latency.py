"""Expressions ``total_latency``: the slowest of several sums over a component's actions."""

from __future__ import annotations

import ast
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from model.formats.accelforge.numbers import exact
from model.text.expressions import Evaluator
from model.text.fields import Names
from model.text.source import ScalarNode, SpecError
from model.wording import suggestion

DEFAULT_LATENCY = "sum(a.n_calls / a.throughput for a in actions)"
MOST_FORMS = 64
_EXAMPLE = f"such as `{DEFAULT_LATENCY}`"
_CALLS = "n_calls"


@dataclass(frozen=True, slots=True)
class Action:
    """An action as ``total_latency`` sees it; a throughput of None is unlimited."""

    name: str
    throughput: Fraction | None
    attributes: Mapping[str, object]


Seconds = tuple[tuple[str, Fraction], ...]
"""Seconds per call of each action, by name in order; an action that is left out takes none."""


@dataclass(frozen=True, slots=True)
class Slowest:
    """The largest of sums ``constant + seconds of each action * its calls``."""

    forms: tuple[tuple[Fraction, Seconds], ...]

    def __post_init__(self) -> None:
        """Check the number of sums: products of maxima multiply them."""
        if len(self.forms) > MOST_FORMS:
            raise ValueError(f"this is a maximum of more than {MOST_FORMS} sums")

    def times(self, factor: Fraction) -> Slowest:
        """Return the latency times a number that is not negative."""
        if factor < 0:
            raise ValueError("a latency cannot be negative")
        return Slowest(
            tuple(
                (constant * factor, tuple((name, value * factor) for name, value in seconds))
                for constant, seconds in self.forms
            )
        )

    def plus(self, other: Slowest) -> Slowest:
        """Return the sum with another latency."""
        return Slowest(tuple(dict.fromkeys(_sum_of(a, b) for a in self.forms for b in other.forms)))

    def joined(self, other: Slowest) -> Slowest:
        """Return the larger of both."""
        return Slowest(tuple(dict.fromkeys((*self.forms, *other.forms))))


def _sum_of(first: tuple[Fraction, Seconds], second: tuple[Fraction, Seconds]) -> tuple[Fraction, Seconds]:
    seconds = dict(first[1])
    for name, value in second[1]:
        seconds[name] = seconds.get(name, Fraction(0)) + value
    return first[0] + second[0], tuple(sorted(seconds.items()))


def read_latency(node: ScalarNode | None, actions: Sequence[Action], values: Names) -> tuple[Seconds, ...]:
    """Return the sums of which the largest is a component's latency.

    Parameters
    ----------
    node
        The expression, None for AccelForge's default: all actions share one port.
    actions
        Those of the component.
    values
        Further names that it may use.

    Raises
    ------
    SpecError
        If it is no expression over the actions, or none that is the largest of sums.
    """
    text, span = (DEFAULT_LATENCY, None) if node is None else (node.text, node.span)
    value = _LatencyEvaluator(text, span, actions, values).value()
    if not isinstance(value, Slowest):
        message = "`total_latency` is not an expression over the actions"
        raise SpecError(message, span, hint=f"use calls of the actions, {_EXAMPLE}")
    if any(constant for constant, _ in value.forms):
        message = "`total_latency` adds a time that does not depend on the actions, which is not modelled"
        raise SpecError(message, span)
    return tuple(seconds for _, seconds in value.forms)


class _LatencyEvaluator(Evaluator):
    def __init__(self, text: str, span: object, actions: Sequence[Action], values: Names) -> None:
        super().__init__(text, span, values)  # type: ignore[arg-type]
        self._actions = actions
        self._bound: dict[str, Action] = {}

    def _known_value(self, node: ast.expr, depth: int) -> object:
        match node:
            case ast.Attribute(value=owner, attr=name) if self._is_action(owner):
                return self._of_action(self._action(owner), name, node)
            case ast.BinOp(left=left, op=symbol, right=right):
                sides = self._value(left, depth), self._value(right, depth)
                if any(isinstance(side, Slowest) for side in sides):
                    return _calculated(symbol, *sides)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                if isinstance(self._value(operand, depth), Slowest):
                    raise ValueError("a latency cannot be negative")
            case ast.Call(func=ast.Name(id="sum" | "max" | "min" as name), args=arguments, keywords=[]):
                return self._folded(name, self._arguments(arguments, depth), node)
            case ast.IfExp(test=test, body=body, orelse=otherwise):
                return self._value(body if self._value(test, depth) else otherwise, depth)
            case ast.Name(id=name) if (older := self._older(name)) is not None:
                return older
            case ast.Name(id=name) if name in self._bound or name == "actions":
                raise SpecError(
                    f"`{name}` is not a number: use `.n_calls` and `.throughput` of an action",
                    self._text.at(node),
                )
        return super()._known_value(node, depth)

    def _older(self, name: str) -> Slowest | None:
        """Return what names of before April 2026 mean: ``read_actions``, and ``read_latency``, in seconds."""
        for action in self._actions:
            calls = Slowest(((Fraction(0), ((action.name, Fraction(1)),)),))
            if name == f"{action.name}_actions":
                return calls
            if name == f"{action.name}_latency":
                return calls.times(1 / action.throughput if action.throughput else Fraction(0))
        return None

    def _is_action(self, owner: ast.expr) -> bool:
        match owner:
            case ast.Name(id=name):
                return name in self._bound
            case ast.Subscript(value=ast.Name(id="actions")):
                return True
        return False

    def _action(self, owner: ast.expr) -> Action:
        match owner:
            case ast.Name(id=name):
                return self._bound[name]
            case ast.Subscript(slice=ast.Constant(value=str() as name)):
                known = [action.name for action in self._actions]
                if name in known:
                    return self._actions[known.index(name)]
                hint = suggestion(name, known, "its actions are")
                raise SpecError(f"there is no action `{name}`", self._text.at(owner), hint=hint)
        raise SpecError("an action is looked up by its name, as in `actions['read']`", self._text.at(owner))

    def _of_action(self, action: Action, name: str, node: ast.expr) -> object:
        if name == _CALLS:
            return Slowest(((Fraction(0), ((action.name, Fraction(1)),)),))
        if name == "throughput":
            return math.inf if action.throughput is None else action.throughput
        if name == "name":
            return action.name
        if name in action.attributes:
            return action.attributes[name]
        known = (_CALLS, "throughput", "name", *action.attributes)
        hint = suggestion(name, known, "an action has")
        raise SpecError(f"an action has no `{name}`", self._text.at(node), hint=hint)

    def _arguments(self, arguments: Sequence[ast.expr], depth: int) -> list[object]:
        """Return the values that are summed or compared: of a generator, of a list, or as they stand."""
        if len(arguments) != 1:
            return [self._value(argument, depth) for argument in arguments]
        match arguments[0]:
            case ast.GeneratorExp(elt=item, generators=[loop]) | ast.ListComp(elt=item, generators=[loop]):
                return self._each(item, loop, depth)
            case ast.List(elts=items) | ast.Tuple(elts=items):
                return [self._value(part, depth) for part in items]
        return [self._value(arguments[0], depth)]

    def _each(self, item: ast.expr, loop: ast.comprehension, depth: int) -> list[object]:
        """Return a value per action."""
        match loop:
            case ast.comprehension(target=ast.Name(id=name), iter=ast.Name(id="actions"), is_async=0):
                pass
            case _:
                raise SpecError("a loop runs over `actions`: `for a in actions`", self._text.at(loop.iter))
        values: list[object] = []
        for action in self._actions:
            self._bound[name] = action
            if all(self._value(test, depth) for test in loop.ifs):
                values.append(self._value(item, depth))
        del self._bound[name]
        return values

    def _folded(self, name: str, values: list[object], node: ast.expr) -> object:
        if not values:
            raise ValueError(f"`{name}` of nothing")
        if name == "min" and any(isinstance(value, Slowest) for value in values):
            raise SpecError("the least of several latencies is not modelled", self._text.at(node))
        if not any(isinstance(value, Slowest) for value in values):
            numbers = [exact(value) for value in values]
            return {"sum": sum(numbers), "max": max(numbers), "min": min(numbers)}[name]
        total = _as_latency(values[0])
        for value in values[1:]:
            total = total.plus(_as_latency(value)) if name == "sum" else total.joined(_as_latency(value))
        return total


def _as_latency(value: object) -> Slowest:
    return value if isinstance(value, Slowest) else Slowest(((exact(value), ()),))


def _calculated(symbol: ast.operator, left: object, right: object) -> Slowest:
    """Return a sum of latencies, or one times or divided by a number."""
    match symbol, left, right:
        case ast.Add(), _, _:
            return _as_latency(left).plus(_as_latency(right))
        case ast.Mult(), Slowest(), Slowest():
            raise ValueError("calls are multiplied with each other")
        case ast.Mult(), Slowest() as latency, factor:
            return latency.times(exact(factor))
        case ast.Mult(), factor, Slowest() as latency:
            return latency.times(exact(factor))
        case ast.Div(), Slowest() as latency, divisor if not isinstance(divisor, Slowest):
            return latency.times(_reciprocal(divisor))
    raise ValueError("latencies are added up, compared, and multiplied or divided by numbers only")


def _reciprocal(divisor: object) -> Fraction:
    if isinstance(divisor, float) and divisor == math.inf:
        return Fraction(0)
    number = exact(divisor)
    if number == 0:
        raise ZeroDivisionError("division by zero")
    return 1 / number
