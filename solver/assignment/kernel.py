"""Kernels, what is too wide for any elimination: branch and bound and CP-SAT, in turns.

Where many layers are joined to many others, bounds by moving costs and a fast tree search decide. In large
graphs of few edges per layer, relaxations are nearly tight, and CP-SAT's clauses and cuts do. No number says
beforehand which, so both get turns that grow, and the time is within a factor of the better one's.

Bounds: a cost that all values of a neighbour share may move from the matrix into a vector, and back into
another matrix; no assignment's total changes. What all values of a variable then have in common is a
constant, below which no assignment is. Sweeps forward and backward move costs such that the constant rises,
as in sequential tree-reweighted message passing (Kolmogorov, PAMI 2006; without trees: PAMI 2015), but in
integers, and for many instances of the same graph at once.

Branch and bound is depth-first over many partial assignments at once: a batch holds those that have chosen
the same variables. Two sweeps bound each of them and rule out values; the variable with the fewest values
left is chosen next.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from model.assignment import LARGEST_TOTAL, CostArray
from solver.assignment.instance import Choice, Instance, Pair, best_neighbour, descend, price
from solver.assignment.kernel_model import CP_SAT, KernelModel, KernelRequest, KernelResult
from solver.result import Clock


@dataclass(eq=False)
class Potentials:
    """Instances of the same graph, each with a constant; sweeps change them in place."""

    limit: int  # assignments of this total or more do not count, so costs above it need not be distinguished
    floors: CostArray  # the constants, shape (instances,)
    vectors: dict[int, CostArray]  # per variable, shape (instances, values)
    # Per variable and neighbour the matrix, shape (instances, values, neighbour's values); the neighbour's is
    # a view of the same.
    near: dict[int, dict[int, CostArray]]

    @classmethod
    def of(cls, instance: Instance, limit: int) -> Potentials:
        """Return a single instance, nothing moved yet."""
        count = len(instance.vectors) + len(instance.matrices)
        # Totals of allowed assignments bound what a place gathers; forbidden ones are cut off at the limit.
        dtype = np.int64 if limit * 8 * count <= LARGEST_TOTAL else object

        def cut_off(costs: CostArray) -> CostArray:
            return np.minimum(costs, limit).astype(dtype)[None]

        potentials = cls(
            limit,
            np.zeros(1, dtype=dtype),
            {variable: cut_off(vector) for variable, vector in enumerate(instance.vectors)},
            {variable: {} for variable in range(len(instance.vectors))},
        )
        for pair, matrix in instance.matrices.items():
            potentials._join(pair, cut_off(matrix))
        return potentials

    def _join(self, pair: Pair, matrix: CostArray) -> None:
        i, j = pair
        self.near[i][j], self.near[j][i] = matrix, matrix.swapaxes(1, 2)

    def sweep(self, forward: bool) -> None:
        """Gather every variable's costs, add their minimum to the constant, and pass the rest on."""
        for variable in sorted(self.vectors, reverse=not forward):
            vector, near = self.vectors[variable], self.near[variable]
            for matrix in near.values():
                least = matrix.min(axis=2)
                np.subtract(matrix, least[:, :, None], out=matrix)
                vector = vector + least
            least = vector.min(axis=1)
            self.floors = self.floors + least
            vector = vector - least[:, None]
            is_dead = vector + self.floors[:, None] >= self.limit
            ahead = [matrix for other, matrix in near.items() if (other > variable) is forward]
            share = vector // max(1, len(ahead), len(near) - len(ahead))
            rest = vector - share * len(ahead)
            # A dead value has no total to preserve: its whole neighbourhood learns of it at once.
            share[is_dead] = rest[is_dead] = self.limit
            for matrix in ahead:
                np.add(matrix, share[:, :, None], out=matrix)
            self.vectors[variable] = rest

    def alive(self, variable: int) -> NDArray[np.bool_]:
        """Return which values may be part of an assignment below the limit, shape (instances, values)."""
        below_limit: NDArray[np.bool_] = self.vectors[variable] + self.floors[:, None] < self.limit
        return below_limit

    def take(self, rows: NDArray[np.intp]) -> Potentials:
        """Return some of the instances."""
        taken = replace(
            self,
            floors=self.floors[rows],
            vectors={variable: vector[rows] for variable, vector in self.vectors.items()},
            near={variable: {} for variable in self.near},
        )
        pairs = (((i, j), matrix) for i, near in self.near.items() for j, matrix in near.items() if i < j)
        for pair, matrix in pairs:
            taken._join(pair, matrix[rows])
        return taken

    def fix(self, variable: int, rows: NDArray[np.intp], values: NDArray[np.intp]) -> Potentials:
        """Return instances without `variable`: one per entry of `rows`, in which it has taken its value."""
        vectors, near = dict(self.vectors), dict(self.near)
        vector, linked = vectors.pop(variable), near.pop(variable)
        for other in linked:
            near[other] = {third: matrix for third, matrix in near[other].items() if third != variable}
        fixed = replace(self, vectors=vectors, near=near).take(rows)
        fixed.floors = fixed.floors + vector[rows, values]
        for other, matrix in linked.items():
            fixed.vectors[other] = fixed.vectors[other] + matrix[rows, values]
        return fixed

    def bounds_with(self, variable: int, rows: NDArray[np.intp], values: NDArray[np.intp]) -> CostArray:
        """Return what no assignment is below if `variable` takes a value, one per entry of `rows`."""
        bounds = self.floors[rows] + self.vectors[variable][rows, values]
        linked = self.near[variable]
        for other, vector in self.vectors.items():
            if other in linked:
                bounds = bounds + (vector[rows] + linked[other][rows, values]).min(axis=1)
            elif other != variable:
                bounds = bounds + vector[rows].min(axis=1)
        return bounds

    def entries(self) -> int:
        """Return the entries of all matrices of one instance."""
        return sum(int(matrix[0].size) for near in self.near.values() for matrix in near.values()) // 2

    def as_instance(self, origin: Instance, most: int) -> Instance:
        """Return the first instance without its constant, for assignments of at most `most`."""
        infinity, dtype = origin.infinity, origin.vectors[0].dtype
        vectors = [
            np.where(vector[0] + self.floors[0] <= most, vector[0].astype(dtype), infinity)
            for vector in self.vectors.values()
        ]
        matrices = {
            (i, j): np.where(matrix <= most, self.near[i][j][0].astype(dtype), infinity)
            for (i, j), matrix in origin.matrices.items()
        }
        return Instance(vectors, matrices, infinity)


MEMORY_BYTES = 1 << 29
"""What the batches of a path through the tree may hold together, about."""

ENTRIES_PER_PAIR = 1000
"""What a batch is charged per pair of variables, joined or not: graphs of few edges soon get to CP-SAT."""


@dataclass(eq=False)
class _Batch:
    """Partial assignments: potentials of the variables that are open, and all values chosen so far."""

    potentials: Potentials
    chosen: NDArray[np.int32]


class Branching:
    """A search that can be continued: assignments below the limit of `potentials`, but for `excluded`."""

    def __init__(self, instance: Instance, potentials: Potentials, excluded: Choice | None) -> None:
        self._instance = instance
        self._excluded = None if excluded is None else np.array(excluded)
        self._stack = [_Batch(potentials, np.zeros((1, len(instance.vectors)), dtype=np.int32))]
        widest = max(vector.size for vector in instance.vectors)
        self._batch_bytes = MEMORY_BYTES // (len(instance.vectors) * widest)
        self.limit = potentials.limit
        self.best: Choice | None = None

    @property
    def is_done(self) -> bool:
        """Whether no assignment below the limit is left."""
        return self.bound >= self.limit

    @property
    def bound(self) -> int:
        """No assignment that counts is below it; the limit itself once the search is done."""
        return min((int(batch.potentials.floors.min()) for batch in self._stack), default=self.limit)

    def run(self, entries: int, stop: Callable[[], bool]) -> None:
        """Search until about `entries` of matrices are swept, or until `stop`, asked before each batch."""
        while self._stack and entries > 0 and not stop():
            batch = self._stack.pop()
            potentials = batch.potentials
            potentials.limit = self.limit
            rows = np.flatnonzero(potentials.floors < self.limit)
            entries -= len(rows) * potentials.entries() + ENTRIES_PER_PAIR * len(potentials.vectors) ** 2
            if len(rows) < len(batch.chosen):
                batch = _Batch(potentials.take(rows), batch.chosen[rows])
            if not len(rows):
                continue
            if len(potentials.vectors) == 2:
                self._finish(batch)
            else:
                self._branch(batch)

    def accept(self, choice: Choice, total: int) -> None:
        """Take an assignment from elsewhere, if it is better."""
        if total < self.limit:
            self.best, self.limit = choice, total

    def _branch(self, batch: _Batch) -> None:
        """Put the children of a batch on the stack, those with the least bounds on top."""
        potentials = batch.potentials
        alive = {variable: potentials.alive(variable) for variable in potentials.vectors}
        variable = min(alive, key=lambda own: (alive[own].sum(), -len(potentials.near[own])))
        rows, values = np.nonzero(alive[variable])
        bounds = potentials.bounds_with(variable, rows, values)
        kept = np.flatnonzero(bounds < self.limit)
        kept = kept[np.argsort(-bounds[kept], kind="stable")]
        size = max(1, self._batch_bytes // (8 * max(1, potentials.entries())))
        for start in range(0, len(kept), size):
            piece = kept[start : start + size]
            child = potentials.fix(variable, rows[piece], values[piece])
            chosen = batch.chosen[rows[piece]]
            chosen[:, variable] = values[piece]
            for forward in (True, False):
                child.sweep(forward)
            self._stack.append(_Batch(child, chosen))

    def _finish(self, batch: _Batch) -> None:
        """Take the best pair of values of the last two variables."""
        potentials = batch.potentials
        i, j = potentials.vectors
        totals = (
            potentials.floors[:, None, None]
            + potentials.vectors[i][:, :, None]
            + potentials.vectors[j][:, None, :]
            + potentials.near[i].get(j, 0)
        )
        if self._excluded is not None:
            chosen = batch.chosen == self._excluded
            chosen[:, [i, j]] = True
            totals[chosen.all(axis=1), self._excluded[i], self._excluded[j]] = self.limit
        row, k, m = (int(place) for place in np.unravel_index(totals.argmin(), totals.shape))
        total = int(totals[row, k, m])
        if total >= self.limit:
            return
        values = batch.chosen[row].tolist()
        values[i], values[j] = k, m
        if price(self._instance, values) != total:
            raise AssertionError("potentials changed a total")
        self.accept(tuple(values), total)


MOST_SWEEPS = 200
"""Sweeps over the whole instance, before anything is branched on."""

LEAST_GAIN = 1 / 500
"""Part of the gap that two sweeps must close for more of them to be worth it."""

GROWTH = 4


def solve_kernel(instance: Instance, request: KernelRequest, clock: Clock) -> KernelResult:
    """Find the least total of an instance among the assignments asked for."""
    most = instance.infinity - 1 if request.limit is None else min(request.limit, instance.infinity - 1)
    potentials = Potentials.of(instance, most + 1)
    start = _prepare(instance, potentials, request.excluded, clock)
    floor = int(potentials.floors[0])
    branching = Branching(instance, potentials, request.excluded)
    if start is not None:
        branching.accept(start, price(instance, start))
    answer = KernelResult(None, None, floor)
    entries, seconds = request.first_entries, request.first_deterministic_s
    while True:
        branching.run(entries, clock.stop)
        answer = _told(branching, answer)
        if branching.is_done or clock.stop():
            return answer
        # The best assignment itself stays part of the model: CP-SAT must not call that infeasible.
        reached = min(most, branching.limit)
        model = KernelModel(potentials.as_instance(instance, reached), floor, reached, request)
        answer = model.solve(instance, answer, clock, seconds)
        if answer.is_proven:
            return _within(most, answer)
        if answer.choice is not None and answer.total is not None:
            branching.accept(answer.choice, answer.total)
        entries, seconds = entries * GROWTH, seconds * GROWTH


def _within(most: int, answer: KernelResult) -> KernelResult:
    """Return a proven answer of CP-SAT, which bounds single costs and the highest digit, but no sum."""
    is_above = answer.total is not None and answer.total > most
    return KernelResult(None, None, None, CP_SAT) if is_above else answer


def _prepare(
    instance: Instance, potentials: Potentials, excluded: Choice | None, clock: Clock
) -> Choice | None:
    """Sweep as long as it helps, and return the best assignment below the limit found on the way."""
    best = None
    for _ in range(MOST_SWEEPS):
        if excluded is None:
            incumbent = descend(instance, [int(vector[0].argmin()) for vector in potentials.vectors.values()])
        else:
            incumbent = best_neighbour(instance, excluded)
        if incumbent is not None and (total := price(instance, incumbent)) < potentials.limit:
            # One more, so that the assignment itself stays within reach of CP-SAT.
            best, potentials.limit = incumbent, total + 1
        before = int(potentials.floors[0])
        for is_forward in (True, False):
            potentials.sweep(is_forward)
        floor = int(potentials.floors[0])
        if (
            floor >= potentials.limit
            or clock.stop()
            or floor - before < LEAST_GAIN * (potentials.limit - floor)
        ):
            break
    return best


def _told(branching: Branching, before: KernelResult) -> KernelResult:
    """Return what branch and bound has found, and the better bound of it and of before."""
    total = None if branching.best is None else branching.limit
    if branching.is_done:
        return KernelResult(branching.best, total, total)
    bound = branching.bound if before.bound is None else max(before.bound, branching.bound)
    return KernelResult(branching.best, total, bound if total is None else min(bound, total), before.method)
