"""Sums of large integers in CP-SAT, as digits that no presolve can overflow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from solver.cpsat import CheckedModel, Expression, RangeError, Variable

LARGEST_PLACE = 1 << 28
"""What the digits of one place add up to, at most; rows stay below 2^31 with room for the carry."""


@dataclass(frozen=True)
class Digit:
    """A digit of the sum: its expression, and what one of it counts for."""

    sum: Expression
    weight: int


class ExactSum:
    """The sum of ``cost * literal``, in digits of a power of two that are tied by carries.

    Parameters
    ----------
    checked
        Gets the variables and rows of the carries.
    terms
        Literals and their costs, none negative.

    Raises
    ------
    RangeError
        There are so many terms that not even digits of one bit stay small.
    """

    def __init__(self, checked: CheckedModel, terms: Sequence[tuple[Variable, int]]) -> None:
        self._digits: list[Digit] = []
        terms = [term for term in terms if term[1]] or terms[:1]
        literals = [literal for literal, _ in terms]
        costs = [cost for _, cost in terms]
        bits = (LARGEST_PLACE // max(1, len(terms))).bit_length() - 1
        if bits < 1:
            raise RangeError(f"{len(terms)} terms are too many for one sum")
        if sum(costs) <= LARGEST_PLACE:
            bits = LARGEST_PLACE.bit_length()
        base, weight = 1 << bits, 1
        carries: list[Variable] = []
        while True:
            low = [cost % base for cost in costs]
            costs = [cost // base for cost in costs]
            place = checked.weighted_sum([*literals, *carries], [*low, *(1 for _ in carries)])
            if not any(costs):
                self._digits.append(Digit(place, weight))
                return
            rest = checked.model.new_int_var(0, base - 1, f"digit{len(self._digits)}")
            onward = checked.model.new_int_var(0, len(terms) + 1, f"carry{len(self._digits)}")
            checked.model.add(place == base * onward + rest)
            self._digits.append(Digit(rest, weight))
            carries, weight = [onward], weight * base

    def digits_down(self) -> Iterator[Digit]:
        """Return the digits, highest first: minimised in this order, each fixed, they give the least sum."""
        return reversed(self._digits)
