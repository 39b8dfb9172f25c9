"""The survey's bounds on the objective with one keep mask, looked at more closely where that may matter."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from solver.search.goal import Goal
from solver.search.lattice import FloatArray, IntArray
from solver.search.space import KeepMask
from solver.search.survey import Survey


class Outlook:
    """Bounds on combinations of spatial classes with one keep mask.

    In the beginning there are those of cells. Once the search comes to a cell it is opened: its combinations
    have bounds of their own.
    """

    def __init__(self, survey: Survey, mask: KeepMask, goal: Goal) -> None:
        self._survey = survey
        self._mask = mask
        self._goal = goal
        self._closed = goal.values(*survey.overview(mask))
        self._settled = math.inf
        # Of the combinations of opened cells those that were hopeful, by number.
        self._numbers = np.empty(0, dtype=np.int64)
        self._values, self._cycles = np.empty(0), np.empty(0)

    @property
    def least(self) -> float:
        """Bound on the objective with any combination; infinite if no tile fits."""
        return self.least_but(())

    def least_but(self, numbers: Sequence[int] | IntArray) -> float:
        """The same for all combinations but some."""
        others = self._values[~np.isin(self._numbers, np.asarray(numbers, dtype=np.int64))]
        return float(min(self._closed.min(initial=np.inf), others.min(initial=np.inf), self._settled))

    def values(self, numbers: IntArray) -> FloatArray:
        """Bounds on the objective of combinations that were hopeful."""
        return self._values[np.searchsorted(self._numbers, numbers)]

    def fewest_cycles(self, numbers: IntArray) -> float:
        """Bound on the cycles of any of these."""
        return float(self._cycles[np.searchsorted(self._numbers, numbers)].min())

    def hopeful(self, numbers: IntArray) -> IntArray:
        """Of these, those that are not settled by now, by rising bounds."""
        values = self.values(numbers)
        return numbers[np.argsort(values, kind="stable")][: int((values < self._limit).sum())]

    def rising(self, few: int) -> Iterator[tuple[float, int | None]]:
        """Yield the first combinations by rising bounds; before a closer look, what bounds all that follow."""
        order = np.argsort(self._closed, kind="stable")
        order = order[np.isfinite(self._closed[order])]
        # Where the cells are combinations a few of them are opened at once.
        size = int(np.searchsorted(np.cumsum(self._survey.cells.sizes[order]), few)) + 1
        start, done = 0, list[int]()
        while len(done) < few:
            closed = float(self._closed[order[start]]) if start < len(order) else math.inf
            best = self.hopeful(self._but(done))[:1]
            if len(best) and self.values(best)[0] <= closed:
                done.append(int(best[0]))
                yield float(self.values(best)[0]), done[-1]
            elif closed < self._limit:
                yield closed, None
                self._open(order[start : start + size])
                start += size
            else:
                return

    def _but(self, numbers: Sequence[int]) -> IntArray:
        return np.setdiff1d(self._numbers, np.array(numbers, dtype=np.int64))

    def hopeful_but(self, first: Sequence[int]) -> IntArray:
        """All other combinations that are not settled, by rising bounds, after a closer look at them."""
        self._open(np.flatnonzero(self._closed < self._limit))
        rest = self.hopeful(self._but(first))
        closer = self._goal.values(*self._survey.closer(self._mask, rest))
        places = np.searchsorted(self._numbers, rest)
        self._values[places] = np.maximum(self._values[places], closer)
        return self.hopeful(rest)

    @property
    def _limit(self) -> float:
        return math.inf if self._goal.incumbent is None else float(self._goal.incumbent)

    def _open(self, cells: IntArray) -> None:
        numbers = self._survey.cells.members(cells)
        energies, cycles = self._survey.bounds(self._mask, cells)
        values = self._goal.values(energies, cycles)
        hopeful = values < self._limit
        self._settled = min(self._settled, float(values[~hopeful].min(initial=np.inf)))
        self._closed[cells] = np.inf
        numbers = np.concatenate([self._numbers, numbers[hopeful]])
        order = np.argsort(numbers)
        self._numbers = numbers[order]
        self._values = np.concatenate([self._values, values[hopeful]])[order]
        self._cycles = np.concatenate([self._cycles, cycles[hopeful]])[order]
