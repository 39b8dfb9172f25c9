"""Reductions of partitioned Boolean quadratic problems: exact, in O(N d^3), for series-parallel graphs.

R0 drops a variable without neighbours, RI folds one with a single neighbour into that neighbour's vector,
RII folds one with two neighbours into the matrix between them. Besides, a matrix that is a sum of a row
cost and a column cost couples nothing: it is split into the vectors (after Scholz and Eckstein, LCTES
2002, who call this a normalisation).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from model.assignment import CostArray
from solver.assignment.buckets import MOST_ENTRIES, eliminate, plan_order
from solver.assignment.elimination import Elimination
from solver.assignment.instance import Instance, Pair

LARGEST_BLOCK = 1 << 24
"""Entries that are added up at a time, so that layers of a thousand methods fit into memory."""


@dataclass(frozen=True, eq=False)
class Reduced:
    """What reductions made of an instance.

    Parameters
    ----------
    eliminations
        The variables that left, in order.
    splits
        Pairs whose matrix was split into the vectors.
    kernels
        Connected rests that are too wide to eliminate: the variables of each.
    instance
        Vectors and matrices of the rest, in the original numbers.
    """

    eliminations: list[Elimination]
    splits: list[Pair]
    kernels: list[list[int]]
    instance: Instance


def reduce_instance(instance: Instance, most_entries: int = MOST_ENTRIES) -> Reduced:
    """Apply reductions until none applies, then bucket elimination to rests of little width."""
    work = _Reduction(instance)
    work.run()
    matrices = {(i, j): matrix for i, near in enumerate(work.near) for j, matrix in near.items() if i < j}
    rest = Instance(work.vectors, matrices, instance.infinity)
    kernels: list[list[int]] = []
    narrow: list[int] = []
    for kernel in work.kernels():
        sizes = {variable: rest.vectors[variable].size for variable in kernel}
        order = plan_order(sizes, {variable: work.near[variable].keys() for variable in kernel}, most_entries)
        if order is None:
            kernels.append(kernel)
        else:
            narrow += order
    work.eliminations += eliminate(rest, narrow)
    return Reduced(work.eliminations, work.splits, kernels, rest)


@dataclass
class _Reduction:
    instance: Instance
    vectors: list[CostArray] = field(init=False)
    near: list[dict[int, CostArray]] = field(init=False)
    eliminations: list[Elimination] = field(default_factory=list)
    splits: list[Pair] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.vectors = list(self.instance.vectors)
        self.near = [{} for _ in self.vectors]
        for (i, j), matrix in self.instance.matrices.items():
            self._join(i, j, matrix)
        self._gone = [False] * len(self.vectors)
        self._waiting: dict[int, list[int]] = {0: [], 1: [], 2: []}
        for variable in range(len(self.vectors)):
            self._offer(variable)

    def run(self) -> None:
        """Eliminate as long as a variable has two neighbours at most; those with fewer go first."""
        while (variable := self._next()) is not None:
            links = tuple(self.near[variable].items())
            scoped = tuple(((neighbour,), matrix) for neighbour, matrix in links)
            self.eliminations.append(Elimination(variable, self.vectors[variable], scoped))
            self._gone[variable] = True
            for neighbour, _ in links:
                del self.near[neighbour][variable]
            if len(links) == 1:
                self._fold_into_vector(variable, *links[0])
            elif len(links) == 2:
                self._fold_into_matrix(variable, *links)
            for neighbour, _ in links:
                self._offer(neighbour)

    def kernels(self) -> list[list[int]]:
        """Return the connected components of what is left."""
        seen = set(np.flatnonzero(self._gone).tolist())
        kernels = []
        for start in range(len(self.vectors)):
            if start in seen:
                continue
            seen.add(start)
            component = [start]
            for variable in component:
                fresh = [other for other in self.near[variable] if other not in seen]
                seen.update(fresh)
                component += fresh
            kernels.append(sorted(component))
        return kernels

    def _offer(self, variable: int) -> None:
        degree = len(self.near[variable])
        if degree <= 2:
            self._waiting[degree].append(variable)

    def _next(self) -> int | None:
        for degree, variable in self._offers():
            if not self._gone[variable] and len(self.near[variable]) == degree:
                return variable
        return None

    def _offers(self) -> Iterator[tuple[int, int]]:
        """Take out what was offered, with its degree of then; it may have changed since."""
        for degree, waiting in self._waiting.items():
            while waiting:
                yield degree, waiting.pop()

    def _fold_into_vector(self, variable: int, neighbour: int, matrix: CostArray) -> None:
        self._add(neighbour, (self.vectors[variable][:, None] + matrix).min(axis=0))

    def _fold_into_matrix(
        self, variable: int, first: tuple[int, CostArray], second: tuple[int, CostArray]
    ) -> None:
        (i, rows), (j, columns) = first, second
        through = self.vectors[variable][:, None] + rows
        size = max(1, LARGEST_BLOCK // columns.size)
        blocks = [through[:, start : start + size] for start in range(0, through.shape[1], size)]
        folded = np.concatenate([(block[:, :, None] + columns[:, None, :]).min(axis=0) for block in blocks])
        present = self.near[i].get(j)
        if present is not None:
            folded = folded + present
        self._join(i, j, np.minimum(folded, self.instance.infinity))

    def _add(self, variable: int, costs: CostArray) -> None:
        self.vectors[variable] = np.minimum(self.vectors[variable] + costs, self.instance.infinity)

    def _join(self, i: int, j: int, matrix: CostArray) -> None:
        """Let a matrix stand between two variables, or split it into their vectors."""
        parts = split_matrix(matrix, self.instance.infinity)
        if parts is None:
            self.near[i][j] = matrix
            self.near[j][i] = matrix.T
            return
        self.near[i].pop(j, None)
        self.near[j].pop(i, None)
        self.splits.append((min(i, j), max(i, j)))
        self._add(i, parts[0])
        self._add(j, parts[1])


def split_matrix(matrix: CostArray, infinity: int) -> tuple[CostArray, CostArray] | None:
    """Return row and column costs that add up to `matrix`, none negative; None where there are none.

    Parameters
    ----------
    matrix
        Shape (rows, columns), none of it negative.
    """
    if matrix.shape[0] == 1:
        return np.zeros_like(matrix[:, 0]), matrix[0]
    if matrix.shape[1] == 1:
        return matrix[:, 0], np.zeros_like(matrix[0])
    if matrix.max() >= infinity:
        return None
    columns = matrix.min(axis=0)
    rows = matrix[:, 0] - columns[0]
    if (rows[:, None] + columns == matrix).all():
        return rows, columns
    return None
