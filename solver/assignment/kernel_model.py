"""Kernels, the dense rests of graphs, as a CP-SAT model on exact integers.

A literal per value and per pair of values, tied by the marginals of a local polytope. CP-SAT sees no
coefficient that is not small: costs are written in digits of a power of two, the digits' sums are tied by
carries, and minimised from the highest digit down, each proven before the next.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from model.assignment import CostArray
from solver.assignment.bounds import Evidence
from solver.assignment.capacity import Capacity
from solver.assignment.instance import Choice, Instance, Pair, price
from solver.assignment.result import CHECKED_BOUND, CP_SAT, TOULBAR
from solver.cpsat import (
    LARGEST_ACTIVITY,
    Answer,
    CheckedModel,
    Expression,
    ModelError,
    RangeError,
    Settings,
    Variable,
)
from solver.result import Clock


@dataclass(frozen=True)
class KernelResult:
    """What is known about the least total of an instance."""

    # The best assignment found, if any.
    choice: Choice | None
    total: int | None
    bound: int | None  # no assignment that was asked for is below it; None is infinite: there is none at all
    method: str = CHECKED_BOUND  # what had the last word
    # Of a bound that can be checked; it may be below `bound`.
    evidence: Evidence | None = field(default=None, compare=False)

    @property
    def is_proven(self) -> bool:
        """Whether value and bound meet, or no assignment exists."""
        return self.total == self.bound


@dataclass(frozen=True)
class KernelRequest:
    """Which assignments are asked for, and how."""

    limit: int | None = None  # only assignments of at most this total; None is any
    excluded: Choice | None = None  # an assignment that does not count
    # Seed, and workers of CP-SAT.
    jobs: int = 1
    seed: int = 0
    engine: str = TOULBAR  # `CP_SAT` for that even where toulbar2 is installed
    backtracks: int | None = None  # of toulbar2: gives up after so many


LARGEST_PLACE = 1 << 28
"""What the digits of one place add up to, at most; rows stay below 2^31 with room for the carry."""


@dataclass(frozen=True)
class Digit:
    """A digit of the sum: its expression, and what one of it counts for."""

    sum: Expression
    weight: int


def digits_of_sum(checked: CheckedModel, terms: Sequence[tuple[Variable, int]]) -> list[Digit]:
    """Return the sum of ``cost * literal`` in digits of a power of two, tied by carries, highest first.

    Minimised in this order, each fixed, they give the least sum.
    """
    digits: list[Digit] = []
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
            digits.append(Digit(place, weight))
            return digits[::-1]
        rest = checked.model.new_int_var(0, base - 1, f"digit{len(digits)}")
        onward = checked.model.new_int_var(0, len(terms) + 1, f"carry{len(digits)}")
        checked.model.add(place == base * onward + rest)
        digits.append(Digit(rest, weight))
        carries, weight = [onward], weight * base


class KernelModel:
    """The CP-SAT model of an instance, for totals of at most `most`, `floor` included.

    `instance` lacks the constant `floor`, which all assignments cost besides. Assignments above `most` need
    not be found, but may be.
    """

    def __init__(
        self,
        instance: Instance,
        floor: int,
        most: int,
        request: KernelRequest,
        capacity: Capacity | None = None,
    ) -> None:
        self._checked = CheckedModel()
        self.model = self._checked.model
        self._request = request
        self._floor = floor
        self._most = most - floor
        self._priced: list[tuple[Variable, int]] = []
        self._pairs: list[tuple[Pair, Pair, Variable]] = []
        self.values = [self._choose(i, vector) for i, vector in enumerate(instance.vectors)]
        for (i, j), matrix in instance.matrices.items():
            self._tie(i, j, matrix)
        if capacity is not None:
            self._fit(capacity)
        if request.excluded is not None:
            taken = [literals.get(k) for literals, k in zip(self.values, request.excluded, strict=True)]
            # Where the window rules one of its values out, the assignment is excluded already.
            if all(literal is not None for literal in taken):
                self.model.add(sum(literal for literal in taken if literal is not None) < len(taken))

    def _choose(self, i: int, vector: CostArray) -> dict[int, Variable]:
        literals = {k: self._literal(f"x{i}_{k}", cost) for k, cost in self._allowed(vector)}
        self.model.add_exactly_one(literals.values())
        return literals

    def _tie(self, i: int, j: int, matrix: CostArray) -> None:
        rows: dict[int, list[Variable]] = {k: [] for k in self.values[i]}
        columns: dict[int, list[Variable]] = {k: [] for k in self.values[j]}
        cells = ((k, m, cost) for k in rows for m, cost in self._allowed(matrix[k]) if m in columns)
        for k, m, cost in cells:
            pair = self._literal(f"y{i}_{k}_{j}_{m}", cost)
            self._pairs.append(((i, j), (k, m), pair))
            rows[k].append(pair)
            columns[m].append(pair)
        for sums, literals in ((rows, self.values[i]), (columns, self.values[j])):
            for k, pairs in sums.items():
                self.model.add(sum(pairs) == literals[k])

    def _fit(self, capacity: Capacity) -> None:
        """Let what is occupied at each peak fit its room."""
        peaks: list[list[tuple[Variable, int]]] = [[] for _ in capacity.room]
        most = [0] * len(peaks)
        for variable, usage in capacity.usages.items():
            held = [(literal, int(usage[k])) for k, literal in self.values[variable].items() if usage[k]]
            for peak in range(*capacity.spans[variable]):
                peaks[peak] += held
                most[peak] += max((amount for _, amount in held), default=0)
        for terms, highest, room in zip(peaks, most, capacity.room, strict=True):
            if highest > room:
                self._add_row(terms, int(room))

    def _add_row(self, terms: Sequence[tuple[Variable, int]], room: int) -> None:
        """Add a sum that must not exceed a room; in two digits where it is too large for one."""
        literals = [literal for literal, _ in terms]
        amounts = [amount for _, amount in terms]
        if sum(amounts) <= LARGEST_PLACE:
            self.model.add(self._checked.weighted_sum(literals, amounts) <= room)
            return
        base = 1 << max(1, (LARGEST_PLACE // len(terms)).bit_length() - 1)
        carry = self.model.new_int_var(-1, len(terms), "")
        low = self._checked.weighted_sum(literals, [amount % base for amount in amounts])
        self.model.add(low <= base * carry + room % base)
        high = self._checked.weighted_sum([*literals, carry], [*(amount // base for amount in amounts), 1])
        self.model.add(high <= room // base)

    def _allowed(self, costs: CostArray) -> Iterator[tuple[int, int]]:
        """Yield the positions whose cost fits into the window."""
        return ((k, cost) for k, cost in enumerate(costs.tolist()) if cost <= self._most)

    def _literal(self, name: str, cost: int) -> Variable:
        literal = self.model.new_bool_var(name)
        self._priced.append((literal, cost))
        return literal

    def solve(
        self, instance: Instance, found: KernelResult, clock: Clock, deterministic_s: float
    ) -> KernelResult:
        """Minimise digit by digit."""
        digits = digits_of_sum(self._checked, self._priced)
        self.model.add(digits[0].sum <= min(self._most // digits[0].weight, LARGEST_ACTIVITY))
        best = replace(found, method=CP_SAT)
        # The local polytope's relaxation proves most; probing pairs takes longer than it saves.
        settings = Settings(
            self._request.seed,
            self._request.jobs,
            linearization=2,
            probing=0,
            deterministic_s=deterministic_s,
        )
        known = self._floor
        for digit in digits:
            self._hint(best.choice)
            self.model.minimize(digit.sum)
            outcome = self._checked.solve(settings, clock.stop)
            has_answer = digit is not digits[0] or found.choice is not None
            if outcome.is_infeasible and has_answer:
                raise ModelError("CP-SAT calls a model infeasible that has an answer")
            if outcome.is_infeasible:
                return replace(best, bound=None)
            known += outcome.bound * digit.weight
            if outcome.answer is None:
                return self._bounded(best, known)
            choice = self._chosen(outcome.answer)
            best = self._better(instance, best, choice)
            if not outcome.is_proven:
                return self._bounded(best, known)
            self.model.add(digit.sum == outcome.bound)
        if price(instance, choice) != known:
            raise ModelError("CP-SAT's answer does not cost what its digits say")
        return self._bounded(best, known)

    @staticmethod
    def _bounded(best: KernelResult, known: int) -> KernelResult:
        known = known if best.bound is None else max(known, best.bound)
        return replace(best, bound=known if best.total is None else min(known, best.total))

    def _hint(self, choice: Choice | None) -> None:
        self.model.clear_hints()  # type: ignore[no-untyped-call]
        if choice is None:
            return
        for literals, value in zip(self.values, choice, strict=True):
            for k, literal in literals.items():
                self.model.add_hint(literal, k == value)
        for (i, j), values, literal in self._pairs:
            self.model.add_hint(literal, values == (choice[i], choice[j]))

    def _chosen(self, values: Answer) -> Choice:
        return tuple(list(literals)[values.choice(literals.values())] for literals in self.values)

    def _better(self, instance: Instance, best: KernelResult, choice: Choice) -> KernelResult:
        total = price(instance, choice)
        if total >= instance.infinity or choice == self._request.excluded:
            raise ModelError("CP-SAT's answer breaks a constraint of the model")
        if best.total is not None and best.total <= total:
            return best
        return replace(best, choice=choice, total=total)
