"""Depth-first branch and bound over many partial assignments at once.

A batch holds partial assignments that have chosen the same variables. Two sweeps of the potentials bound
each of them, and rule out values; the variable with the fewest values left is chosen next.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from solver.assignment.instance import Choice, Instance, price
from solver.assignment.potentials import Potentials

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
    """A search that goes on where it stopped.

    Parameters
    ----------
    instance
        What is searched.
    potentials
        The same, swept; its limit is what assignments must stay below.
    excluded
        An assignment that does not count.
    """

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
        """Search until about so many entries of matrices were swept, or until `stop` says so.

        Parameters
        ----------
        entries
            A batch that is begun is finished, so it may be more.
        stop
            Asked before each batch; what is open stays so.

        Raises
        ------
        AssertionError
            If the total of an assignment differs from what the instance's own costs come to.
        """
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
