"""Dense rests of graphs for CP-SAT, on exact integers.

A literal per value and per pair of values, tied by the marginals of a local polytope. CP-SAT sees no
coefficient that is not small: costs are written in digits of a power of two, the digits' sums are tied by
carries, and minimised from the highest digit down, each proven before the next.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from model.assignment import CostArray
from solver.assignment.answer import CP_SAT, Answer, Request
from solver.assignment.exact_sum import ExactSum
from solver.assignment.instance import Choice, Instance, Pair, price
from solver.cpsat import LARGEST_ACTIVITY, CheckedModel, ModelError, Settings, Variable
from solver.cpsat import Answer as Values
from solver.result import Clock


class KernelModel:
    """The CP-SAT model of an instance, for totals of at most `most`.

    Parameters
    ----------
    instance
        Vectors and matrices, as far as they are not part of the constant.
    floor
        The constant: what all assignments cost besides.
    most
        Assignments above it need not be found, but may be.
    request
        An excluded assignment, and how to solve.
    """

    def __init__(self, instance: Instance, floor: int, most: int, request: Request) -> None:
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

    def _allowed(self, costs: CostArray) -> Iterator[tuple[int, int]]:
        """Yield the positions whose cost fits into the window."""
        return ((k, cost) for k, cost in enumerate(costs.tolist()) if cost <= self._most)

    def _literal(self, name: str, cost: int) -> Variable:
        literal = self.model.new_bool_var(name)
        self._priced.append((literal, cost))
        return literal

    def solve(self, instance: Instance, found: Answer, clock: Clock, deterministic_s: float) -> Answer:
        """Minimise digit by digit."""
        digits = list(ExactSum(self._checked, self._priced).digits_down())
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
    def _bounded(best: Answer, known: int) -> Answer:
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

    def _chosen(self, values: Values) -> Choice:
        return tuple(list(literals)[values.choice(literals.values())] for literals in self.values)

    def _better(self, instance: Instance, best: Answer, choice: Choice) -> Answer:
        total = price(instance, choice)
        if total >= instance.infinity or choice == self._request.excluded:
            raise ModelError("CP-SAT's answer breaks a constraint of the model")
        if best.total is not None and best.total <= total:
            return best
        return replace(best, choice=choice, total=total)
