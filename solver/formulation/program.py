"""Linear programs over Booleans: choices of one value out of several, and sums that tie them together.

Values of a choice may be any numbers: only literals enter the program. So products of factors, words and
costs of any size are exact, and every row that ties choices together has coefficients of 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Generic, TypeVar

from solver.cpsat import CheckedModel, Expression, Literal
from solver.result import StopCallback, TooLargeError

Number = int | Fraction

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
S = TypeVar("S")
R = TypeVar("R")

LARGEST_TOTAL = 1 << 30
"""What all coefficients of one row add up to, at most."""

MOST_LITERALS = 500_000
"""Booleans that a program may have; CP-SAT would take gigabytes for more."""

MOST_PAIRS = 20_000
"""Values up to which choices are combined; above, they are rounded down to fewer, or a rule is left out."""


class EmptyProgramError(Exception):
    """Some choice has no value that is allowed: the program has no solution."""


@dataclass(frozen=True)
class LiteralChoice(Generic[T_co]):
    """One of several values, each with a literal; exactly one literal is true."""

    values: tuple[T_co, ...]
    literals: tuple[Literal, ...]

    @property
    def known(self) -> T_co | None:
        """The value if there is only one, else None."""
        return self.values[0] if len(self.values) == 1 else None

    def items(self) -> Iterable[tuple[T_co, Literal]]:
        """Pairs of a value and its literal."""
        return zip(self.values, self.literals, strict=True)


class UnfinishedError(Exception):
    """The program was to be stopped before it was complete."""


class Program:
    """Rows over Booleans, and choices with what follows from them.

    Parameters
    ----------
    stop
        Asked from time to time; once it answers True, `UnfinishedError` is raised.
    """

    def __init__(self, stop: StopCallback = lambda: False) -> None:
        self._stop = stop
        self._literals = 0
        self.checked = CheckedModel()
        self.model = self.checked.model
        self.true: Literal = self.model.new_constant(1)
        self._forbidden: set[int] = set()

    def literal(self, name: str = "") -> Literal:
        """Return a new Boolean.

        Raises
        ------
        TooLargeError
            There are `MOST_LITERALS` already.
        UnfinishedError
            The program is to be stopped.
        """
        self._literals += 1
        if self._literals > MOST_LITERALS:
            raise TooLargeError(f"the formulation takes more than {MOST_LITERALS:,} Booleans")
        if self._stop():
            raise UnfinishedError
        return self.model.new_bool_var(name)

    def constant(self, value: T) -> LiteralChoice[T]:
        """Return a choice of a single value."""
        return LiteralChoice((value,), (self.true,))

    def choice(self, values: Iterable[T], name: str) -> LiteralChoice[T]:
        """Return a new choice of one of the values.

        Raises
        ------
        EmptyProgramError
            There is none.
        """
        every = tuple(values)
        if not every:
            raise EmptyProgramError(name)
        if len(every) == 1:
            return self.constant(every[0])
        literals = tuple(self.literal(f"{name}={value}") for value in every)
        self.model.add_exactly_one(literals)
        return LiteralChoice(every, literals)

    # ------------------------------------------------------------------------- rows

    def sum_of(self, literals: Sequence[Literal], weights: Sequence[int] | None = None) -> Expression:
        """Return a weighted sum of literals; without weights each counts once."""
        return self.checked.weighted_sum(literals, weights or [1] * len(literals))

    def equal(self, parts: Sequence[Literal], whole: Literal) -> None:
        """Require as many of `parts` as of `whole`: one of them, or none."""
        self.model.add(self.sum_of([*parts, whole], [*[1] * len(parts), -1]) == 0)

    def any_of(self, parts: Sequence[Literal], name: str = "") -> Literal:
        """Return a literal that holds if one of `parts` does, at most one of which can."""
        if len(parts) == 1:
            return parts[0]
        whole = self.literal(name)
        self.equal(parts, whole)
        return whole

    def imply(self, literal: Literal, others: Sequence[Literal]) -> None:
        """Let one of the others hold where the literal does."""
        self.model.add_bool_or([literal.negated(), *others])

    def forbid(self, literals: Iterable[Literal]) -> None:
        """Let none of the literals hold."""
        for literal in literals:
            if literal.index not in self._forbidden:
                self._forbidden.add(literal.index)
                self.model.add_bool_or([literal.negated()])

    def hint(self, values: Iterable[tuple[Literal, bool]]) -> None:
        """Let the search try values of literals first, those and no others; it keeps to none of them."""
        hints: dict[int, tuple[Literal, bool]] = {}
        for literal, value in values:
            variable = max(literal.index, literal.negated().index)
            if literal is not self.true and not self.is_forbidden(literal):
                hints.setdefault(variable, (literal, value))
        self.model.clear_hints()  # type: ignore[no-untyped-call]
        for literal, value in hints.values():
            self.model.add_hint(literal, value)

    def is_forbidden(self, literal: Literal) -> bool:
        """Whether a literal was forbidden."""
        return literal.index in self._forbidden

    def limit(self, literals: Sequence[Literal], costs: Sequence[Fraction], most: Fraction) -> None:
        """Let a sum of costs be at most so much, exactly; costs too large for one row take one per digit.

        A sum of numbers ``high * radix + low`` is at most ``h * radix + l`` if and only if the high parts and
        a carry are at most h, where ``radix * carry`` is at least the low parts less l.
        """
        unit = whole_multiple(costs)
        numbers, room = [int(cost / unit) for cost in costs], math.floor(most / unit)
        radix = LARGEST_TOTAL // (2 * len(numbers) + 4)
        carries: list[Literal] = []
        while sum(map(abs, numbers)) > LARGEST_TOTAL:
            low = [number % radix for number in numbers]
            carry = self.model.new_int_var(0, len(numbers) + 1, "carry")
            total = self.sum_of([*literals, *carries, carry], [*low, *(1 for _ in carries), -radix])
            self.model.add(total <= room % radix)
            numbers, room, carries = [number // radix for number in numbers], room // radix, [carry]
        if room < -LARGEST_TOTAL:
            raise EmptyProgramError("costs")
        total = self.sum_of([*literals, *carries], [*numbers, *(1 for _ in carries)])
        self.model.add(total <= min(room, LARGEST_TOTAL))

    # ---------------------------------------------------------------------- choices

    def mapped(
        self, choice: LiteralChoice[T], function: Callable[[T], R], name: str = ""
    ) -> LiteralChoice[R]:
        """Return what a function makes of a choice."""
        groups: dict[R, list[Literal]] = {}
        for value, literal in choice.items():
            groups.setdefault(function(value), []).append(literal)
        if len(groups) == 1:
            return self.constant(next(iter(groups)))
        literals = tuple(self.any_of(parts, f"{name}={value}") for value, parts in groups.items())
        return LiteralChoice(tuple(groups), literals)

    def holds(self, choice: LiteralChoice[T], condition: Callable[[T], bool]) -> Literal | None:
        """Return a literal for a condition on a choice; None if it cannot hold."""
        verdict = self.mapped(choice, condition)
        return dict(verdict.items()).get(True)

    def combined(
        self, one: LiteralChoice[T], other: LiteralChoice[S], function: Callable[[T, S], R], name: str = ""
    ) -> LiteralChoice[R]:
        """Return what a function makes of two choices: one literal per pair of values, tied to both."""
        if len(one.values) == 1:
            return self.mapped(other, lambda value: function(one.values[0], value), name)
        if len(other.values) == 1:
            return self.mapped(one, lambda value: function(value, other.values[0]), name)
        pairs = [[self.literal(f"{name}:{a},{b}") for b in other.values] for a in one.values]
        for row, literal in zip(pairs, one.literals, strict=True):
            self.equal(row, literal)
        for column, literal in zip(zip(*pairs, strict=True), other.literals, strict=True):
            self.equal(column, literal)
        values = tuple((a, b) for a in one.values for b in other.values)
        both = LiteralChoice(values, tuple(literal for row in pairs for literal in row))
        return self.mapped(both, lambda pair: function(*pair), name)

    def product(
        self, parts: Sequence[LiteralChoice[Number]], name: str = "", most: int | None = None
    ) -> LiteralChoice[Number]:
        """Return the product of choices of positive numbers; one above `most` counts as ``most + 1``."""
        total: LiteralChoice[Number] = self.constant(1)
        for part in sorted(parts, key=lambda own: len(own.values)):
            total = self.combined(total, part, _clipped(most), name)
        return total

    def least_product(self, parts: Sequence[LiteralChoice[Number]], name: str = "") -> LiteralChoice[Number]:
        """Return a lower bound on the product: few numbers where pairs would be too many."""
        total: LiteralChoice[Number] = self.constant(1)
        for part in sorted(parts, key=lambda own: len(own.values)):
            room = max(2, MOST_PAIRS // len(part.values))
            total = self.combined(self.rounded(total, room), part, _clipped(None), name)
        return total

    def rounded(self, choice: LiteralChoice[Number], most: int) -> LiteralChoice[Number]:
        """Return a choice with its positive numbers rounded down to so many different ones."""
        if len(choice.values) <= most:
            return choice
        ordered = sorted(choice.values)
        step = -(-len(ordered) // most)
        floor = {value: ordered[place - place % step] for place, value in enumerate(ordered)}
        return self.mapped(choice, lambda value: floor[value])

    def given(self, choice: LiteralChoice[T], gate: Literal | None) -> LiteralChoice[T]:
        """Return a choice of which no literal holds unless the gate does; None is a gate that never does."""
        if gate is None:
            return LiteralChoice((), ())
        if gate is self.true or len(choice.values) == 1:
            return (
                LiteralChoice(choice.values, (gate,) * len(choice.values))
                if gate is not self.true
                else choice
            )
        literals = tuple(self.literal() for _ in choice.values)
        for own, literal in zip(literals, choice.literals, strict=True):
            self.model.add_implication(own, literal)
        self.equal(literals, gate)
        return LiteralChoice(choice.values, literals)

    def either(self, cases: Sequence[tuple[Literal, LiteralChoice[T]]], name: str = "") -> LiteralChoice[T]:
        """Return the choice of the one case whose literal holds."""
        if len(cases) == 1:
            return cases[0][1]
        groups: dict[T, list[Literal]] = {}
        for gate, choice in cases:
            for value, literal in self.given(choice, gate).items():
                groups.setdefault(value, []).append(literal)
        if len(groups) == 1:
            return self.constant(next(iter(groups)))
        return LiteralChoice(tuple(groups), tuple(self.any_of(parts, name) for parts in groups.values()))


def _clipped(most: int | None) -> Callable[[Number, Number], Number]:
    if most is None:
        return lambda a, b: a * b
    return lambda a, b: min(a * b, most + 1)


def whole_multiple(costs: Iterable[Fraction]) -> Fraction:
    """Return the largest number that all of the costs are whole multiples of; 1 if all are zero."""
    numerator, denominator = 0, 1
    for cost in costs:
        numerator = math.gcd(numerator * cost.denominator, cost.numerator * denominator)
        denominator *= cost.denominator
        shared = math.gcd(numerator, denominator)
        numerator, denominator = numerator // shared, denominator // shared
    return Fraction(numerator, denominator) if numerator else Fraction(1)
