"""Set expressions: which tensors or rank variables of an Einsum are meant."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal, Protocol

from model.text.expressions import Evaluator
from model.text.source import ScalarNode, SpecError, did_you_mean

Kind = Literal["tensors", "rank variables"]

_OPERATORS: dict[type[ast.operator], str] = {
    ast.BitAnd: "&",
    ast.BitOr: "|",
    ast.BitXor: "^",
    ast.Sub: "-",
}


@dataclass(frozen=True, slots=True)
class SetValue:
    """A set of tensors or of rank variables; `kind` is None for the empty set of either.

    Sets are equal if their members are: the empty set of tensors is ``Nothing``.
    """

    members: frozenset[str]
    kind: Kind | None = field(default=None, compare=False)

    def __len__(self) -> int:
        return len(self.members)

    @property
    def described(self) -> str:
        """What it is, for messages about wrong types."""
        return f"a set of {self.kind}" if self.kind else "the empty set"


NOTHING = SetValue(frozenset())


def set_of(members: Iterable[str], kind: Kind) -> SetValue:
    """Return a set of one kind."""
    return SetValue(frozenset(members), kind)


class SetNames(Protocol):
    """What names mean in the set expressions of one Einsum."""

    def find(self, name: str) -> SetValue | None:
        """Return the set called `name`, None where there is none."""

    def candidates(self) -> Iterable[str]:
        """Return the known names, to suggest one of them."""

    def unknown(self) -> str:
        """Return a hint for names that are like none of the known ones."""

    def everything(self, kind: Kind | None) -> SetValue:
        """Return all tensors or all rank variables of the Einsum."""

    def attribute(self, value: SetValue, name: str) -> object:
        """Return an attribute of a set.

        Raises
        ------
        TypeError
            There is none; evaluation turns it into an error of the spec.
        """


def evaluate_set(node: ScalarNode, names: SetNames) -> SetValue:
    """Return the set that a set expression stands for.

    Names of sets, tensors, rank variables and renames are combined by ``& | ^ - ~``, parentheses
    and conditionals; ``Inputs()`` means ``Inputs``; ``len(...)`` counts; ``.tensors`` and
    ``.rank_variables`` lead from one kind to the other.

    Raises
    ------
    SpecError
        For unknown names, at their place, and for what is no set.
    """
    value = _SetEvaluator(node, names).value()
    if not isinstance(value, SetValue):
        raise SpecError("the expression does not give a set of tensors or rank variables", node.span)
    return value


def evaluate_number(node: ScalarNode, names: SetNames) -> object:
    """Return what an expression over sets stands for, such as ``1 if len(All) == 3 else 0``.

    Raises
    ------
    SpecError
        For unknown names and for what is no expression.
    """
    return _SetEvaluator(node, names).value()


class _SetEvaluator(Evaluator):
    def __init__(self, node: ScalarNode, names: SetNames) -> None:
        super().__init__(node.text, node.span, {})
        self._sets = names

    def value(self) -> object:
        """Return the expression's value: a set, a number or a truth value."""
        return self._value(self._text.parse(), 0)

    def _known_value(self, node: ast.expr, depth: int) -> object:
        match node:
            case ast.BinOp(left=left, op=symbol, right=right) if type(symbol) in _OPERATORS:
                values = self._value(left, depth), self._value(right, depth)
                if any(isinstance(value, SetValue) for value in values):
                    return _combined(_OPERATORS[type(symbol)], *values)
            case ast.UnaryOp(op=ast.Invert(), operand=operand):
                return self._complement(self._value(operand, depth))
            case ast.Call(func=ast.Name(id="len"), args=[argument], keywords=[]):
                return len(_as_set(self._value(argument, depth)))
            case ast.Call(func=ast.Name() as name, args=[], keywords=[]):
                return self._value(name, depth)
            case ast.Attribute(value=owner, attr=name):
                return self._sets.attribute(_as_set(self._value(owner, depth)), name)
        return super()._known_value(node, depth)

    def _named(self, name: str, node: ast.expr) -> object:
        known = self._sets.find(name)
        if known is not None:
            return known
        hint = did_you_mean(name, self._sets.candidates()) or self._sets.unknown()
        message = f"`{name}` is no tensor, rank variable, rename or set"
        raise SpecError(message, self._text.at(node), hint=hint)

    def _complement(self, value: object) -> SetValue:
        members = _as_set(value)
        return _combined("-", self._sets.everything(members.kind), members)


def _as_set(value: object) -> SetValue:
    if isinstance(value, SetValue):
        return value
    raise TypeError("a set is needed here")


def _combined(symbol: str, first_value: object, second_value: object) -> SetValue:
    first, second = _as_set(first_value), _as_set(second_value)
    if first.kind and second.kind and first.kind != second.kind:
        raise TypeError(f"`{symbol}` joins {first.kind} with {second.kind}")
    members = {
        "&": first.members & second.members,
        "|": first.members | second.members,
        "^": first.members ^ second.members,
        "-": first.members - second.members,
    }
    return SetValue(members[symbol], first.kind or second.kind)
