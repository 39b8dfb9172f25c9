"""What no reduction applies to: solved by CP-SAT on exact integers.

A literal per value and per pair of values, tied by the marginals of a local polytope. CP-SAT sees no
coefficient that is not small: costs are written in digits of a power of two, the digits' sums are tied by
carries, and minimised from the highest digit down, each proven before the next.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from model.network import CostArray
from solver.assignment.clock import Clock
from solver.assignment.exact_sum import ExactSum
from solver.assignment.instance import Instance, Pair
from solver.cpsat import LARGEST_ACTIVITY, CheckedModel, ModelError, Settings, Variable
from solver.cpsat import Answer as Values

Choice = tuple[int, ...]


@dataclass(frozen=True)
class Answer:
    """What is known about the least total of an instance.

    Parameters
    ----------
    choice, total
        The best assignment found, None if there is none.
    bound
        No assignment that was asked for is below it; None is infinite: there is none at all.
    literals
        Size of the CP-SAT model.
    """

    choice: Choice | None
    total: int | None
    bound: int | None
    literals: int = 0

    @property
    def is_proven(self) -> bool:
        """Whether value and bound meet, or no assignment exists."""
        return self.total == self.bound


@dataclass(frozen=True)
class Request:
    """Which assignments are asked for, and how.

    Parameters
    ----------
    limit
        Only assignments of at most this total; None is any.
    excluded
        An assignment that does not count.
    jobs, seed
        Workers and seed of CP-SAT.
    """

    limit: int | None = None
    excluded: Choice | None = None
    jobs: int = 1
    seed: int = 0

    def accepts(self, answer: Answer) -> bool:
        """Whether an answer has an assignment, and one that is asked for."""
        if answer.total is None or answer.choice == self.excluded:
            return False
        return self.limit is None or answer.total <= self.limit


def part_of(instance: Instance, variables: Sequence[int]) -> Instance:
    """Return the instance of some variables alone, numbered as in `variables` (ascending)."""
    number = {variable: position for position, variable in enumerate(variables)}
    matrices = {(number[i], number[j]): matrix for (i, j), matrix in instance.matrices.items() if i in number}
    return Instance([instance.vectors[v] for v in variables], matrices, instance.infinity)


def price(instance: Instance, choice: Sequence[int]) -> int:
    """Return the exact total of an assignment; at least `infinity` where it is forbidden."""
    total = sum(int(vector[k]) for vector, k in zip(instance.vectors, choice, strict=True))
    return total + sum(int(matrix[choice[i], choice[j]]) for (i, j), matrix in instance.matrices.items())


def descend(instance: Instance) -> Choice | None:
    """Return an assignment that no change of a single value improves, None if it is forbidden."""
    near: list[list[tuple[int, CostArray]]] = [[] for _ in instance.vectors]
    for (i, j), matrix in instance.matrices.items():
        near[i].append((j, matrix))
        near[j].append((i, matrix.T))
    choice = [int(vector.argmin()) for vector in instance.vectors]
    improves = True
    while improves:
        improves = False
        for i, vector in enumerate(instance.vectors):
            costs = vector
            for j, matrix in near[i]:
                costs = np.minimum(costs + matrix[:, choice[j]], instance.infinity)
            best = int(costs.argmin())
            if costs[best] < costs[choice[i]]:
                choice[i], improves = best, True
    return tuple(choice) if price(instance, choice) < instance.infinity else None


def solve_kernel(instance: Instance, request: Request, clock: Clock) -> Answer:
    """Find the least total of a connected instance among the assignments asked for.

    Parameters
    ----------
    instance
        Vectors and matrices.
    request
        What is asked for.
    clock
        Ends the search early.
    """
    start = None if request.excluded is not None else descend(instance)
    found = Answer(start, None if start is None else price(instance, start), 0)
    limits = [limit for limit in (request.limit, found.total) if limit is not None]
    normal, floor = _normalised(instance)
    if floor >= instance.infinity:
        return Answer(None, None, None)
    found = replace(found, bound=floor)
    if clock.stop():
        return found
    window = min(limits) - floor if limits else None
    answer = _Model(normal, window, request).solve(instance, found, floor, clock)
    if request.limit is None or answer.total is None or answer.total <= request.limit:
        return answer
    # The window bounds single entries and the highest digit: a sum may still lie above the limit.
    return replace(answer, choice=None, total=None, bound=None if answer.is_proven else answer.bound)


def _normalised(instance: Instance) -> tuple[Instance, int]:
    """Return an instance with zeros in all vectors and rows, and the constant that it costs less."""
    infinity = instance.infinity
    vectors = list(instance.vectors)
    matrices: dict[Pair, CostArray] = {}
    for (i, j), matrix in instance.matrices.items():
        rest = matrix
        for end, axis in ((i, 1), (j, 0)):
            least = rest.min(axis=axis)
            vectors[end] = np.minimum(vectors[end] + least, infinity)
            rest = np.where(rest < infinity, rest - np.expand_dims(least, axis), infinity)
        matrices[i, j] = rest
    floor = sum(int(vector.min()) for vector in vectors)
    vectors = [np.where(vector < infinity, vector - vector.min(), infinity) for vector in vectors]
    return Instance(vectors, matrices, infinity), floor


class _Model:
    """The CP-SAT model of a normalised instance, for surpluses of at most `window` (None: any)."""

    def __init__(self, instance: Instance, window: int | None, request: Request) -> None:
        self._checked = CheckedModel()
        self.model = self._checked.model
        self._request = request
        self._most = instance.infinity - 1 if window is None else min(window, instance.infinity - 1)
        self._priced: list[tuple[Variable, int]] = []
        self._pairs: list[tuple[Pair, Pair, Variable]] = []
        self.values = [self._choose(i, vector) for i, vector in enumerate(instance.vectors)]
        for (i, j), matrix in instance.matrices.items():
            self._tie(i, j, matrix)
        if request.excluded is not None:
            taken = [own.get(k) for own, k in zip(self.values, request.excluded, strict=True)]
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
        for k, own in rows.items():
            for m, cost in self._allowed(matrix[k]):
                if m in columns:
                    pair = self._literal(f"y{i}_{k}_{j}_{m}", cost)
                    self._pairs.append(((i, j), (k, m), pair))
                    own.append(pair)
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

    def solve(self, instance: Instance, found: Answer, floor: int, clock: Clock) -> Answer:
        """Minimise digit by digit; `found` is what is known already, `floor` the constant left out."""
        if self._most < 0:
            return replace(found, bound=None)
        digits = list(ExactSum(self._checked, self._priced).digits_down())
        self.model.add(digits[0].sum <= min(self._most // digits[0].weight, LARGEST_ACTIVITY))
        best = replace(found, literals=len(self._priced))
        # The local polytope's relaxation proves most; probing pairs takes longer than it saves.
        settings = Settings(self._request.seed, self._request.jobs, linearization=2, probing=0)
        known = floor
        for digit in digits:
            self._hint(best.choice)
            self.model.minimize(digit.sum)
            outcome = self._checked.solve(settings, clock.stop)
            if outcome.is_infeasible:
                if digit is not digits[0] or self._request.accepts(found):
                    raise ModelError("CP-SAT calls a model infeasible that has an answer")
                return replace(best, bound=found.total)
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
        return replace(best, bound=known if best.total is None else min(known, best.total))

    def _hint(self, choice: Choice | None) -> None:
        self.model.clear_hints()  # type: ignore[no-untyped-call]
        if choice is None:
            return
        for own, value in zip(self.values, choice, strict=True):
            for k, literal in own.items():
                self.model.add_hint(literal, k == value)
        for (i, j), values, literal in self._pairs:
            self.model.add_hint(literal, values == (choice[i], choice[j]))

    def _chosen(self, values: Values) -> Choice:
        return tuple(list(own)[values.choice(own.values())] for own in self.values)

    def _better(self, instance: Instance, best: Answer, choice: Choice) -> Answer:
        total = price(instance, choice)
        if total >= instance.infinity or choice == self._request.excluded:
            raise ModelError("CP-SAT's answer breaks a constraint of the model")
        if best.total is not None and best.total <= total:
            return best
        return replace(best, choice=choice, total=total)
