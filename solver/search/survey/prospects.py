"""The survey's bounds on the objective, looked at more closely where that may matter."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from solver.search.arrays import BoolArray, FloatArray, IntArray
from solver.search.goal import Goal
from solver.search.survey.neighbours import Neighbours, Subjects
from solver.search.survey.survey import Survey

FIRST_OPENED, MOST_OPENED = 1 << 18, 1 << 24
"""Combinations of cells that are opened together, at first and at most, about."""

GROWTH = 4
"""By how much these are more each time."""

FEWEST_JOINED, FIRST_JOINED = 1 << 8, 1 << 11
"""Subproblems whose neighbouring levels are bounded together: at the least, and at most at first."""

FEWEST_LEVELS = 3
"""Levels from which on there are neighbours; nothing is delivered to the outermost one."""


class Opened(NamedTuple):
    """The hopeful combinations of opened cells with one mask, their bounds, and the least of the others.

    Parameters
    ----------
    numbers
        Places in the grid, shape (combinations,), as are the bounds.
    values, energies, cycles
        Lower bounds on the objective, in energy units, and in cycles.
    least_settled
        Least value of the combinations that are not hopeful; infinite if there are none.
    """

    numbers: IntArray
    values: FloatArray
    energies: FloatArray
    cycles: FloatArray
    least_settled: float


NO_NUMBERS, NO_VALUES, NO_FLAGS = np.empty(0, dtype=np.int64), np.empty(0), np.empty(0, dtype=np.bool_)
"""There may be 2^18 keep masks, most of which never have combinations of their own."""


class Prospects:
    """Bounds on combinations of spatial classes with one keep mask: those of opened cells.

    Only those that are hopeful then are remembered; of all others it is known what they cost at least.
    """

    __slots__ = ("_apart", "_cycles", "_energies", "_least_settled", "_numbers", "_values")

    def __init__(self) -> None:
        self._numbers = NO_NUMBERS
        self._values, self._energies, self._cycles = NO_VALUES, NO_VALUES, NO_VALUES
        self._apart = NO_FLAGS
        self._least_settled = math.inf

    def add(self, opened: Opened) -> None:
        """Take note of bounds on hopeful combinations, and of the least value of those that are settled."""
        self._least_settled = min(self._least_settled, opened.least_settled)
        joined = np.concatenate([self._numbers, opened.numbers])
        order = np.argsort(joined, kind="stable")
        self._numbers = joined[order]
        self._values = np.concatenate([self._values, opened.values])[order]
        self._energies = np.concatenate([self._energies, opened.energies])[order]
        self._cycles = np.concatenate([self._cycles, opened.cycles])[order]
        self._apart = np.concatenate([self._apart, np.ones(len(opened.numbers), dtype=np.bool_)])[order]

    def among(self, numbers: IntArray) -> IntArray:
        """Those of `numbers` (places in the grid) that are remembered, in the same order."""
        return numbers[np.isin(numbers, self._numbers)]

    def values(self, numbers: IntArray) -> FloatArray:
        """Bounds on the objective."""
        return self._values[np.searchsorted(self._numbers, numbers)]

    def fewest_cycles(self, numbers: IntArray) -> int:
        """Bound on the cycles with any of these combinations."""
        return math.floor(float(self._cycles[np.searchsorted(self._numbers, numbers)].min()))

    def apart(self, limit: float) -> IntArray:
        """Combinations with values below `limit` whose levels were not bounded together so far."""
        return self._numbers[self._apart & (self._values < limit)]

    def subjects(self, mask: int, numbers: IntArray) -> Subjects:
        """Combinations with what the survey has of them; `mask` is the place of their keep mask."""
        places = np.searchsorted(self._numbers, numbers)
        return Subjects(np.full(len(numbers), mask), numbers, self._energies[places], self._cycles[places])

    def join(self, numbers: IntArray, values: FloatArray) -> None:
        """Take note of bounds on levels together."""
        self._apart[np.searchsorted(self._numbers, numbers)] = False
        self.sharpen(numbers, values)

    def sharpen(self, numbers: IntArray, values: FloatArray) -> None:
        """Take note of other bounds on the objective; the higher ones hold."""
        places = np.searchsorted(self._numbers, numbers)
        self._values[places] = np.maximum(self._values[places], values)

    def least_but(self, numbers: IntArray) -> float:
        """Bound on the objective with all combinations but some; infinite if no tile fits."""
        others = self._values[~np.isin(self._numbers, numbers)] if len(numbers) else self._values
        return min(float(others.min(initial=np.inf)), self._least_settled)


class SurveyBounds:
    """Bounds on combinations of spatial classes with all keep masks, known by their places.

    In the beginning there are those of cells. The most promising ones are opened, so many at a time: their
    combinations have bounds of their own. Where many are hopeful, levels of theirs are bounded together.

    Attributes
    ----------
    closed
        Bound on the objective with all combinations of cells that were not opened.
    version
        Changes when levels were bounded together: then so may the order of subproblems.
    most_joined
        Of how many subproblems they are bounded together the next time, at most.
    """

    def __init__(self, survey: Survey, goal: Goal) -> None:
        self._survey = survey
        self._goal = goal
        self._closed = goal.values(*survey.overview)
        self.closed = float(self._closed.min(initial=np.inf))
        self._most, self.most_joined = FIRST_OPENED, FIRST_JOINED
        self.version = 0
        self.prospects = tuple(Prospects() for _ in survey.space.keep_masks)

    @property
    def limit(self) -> float:
        """Value of the objective that can no longer improve."""
        return math.inf if self._goal.incumbent is None else float(self._goal.incumbent)

    @property
    def least(self) -> float:
        """Bound on the objective of any mapping; infinite if no tile fits."""
        opened = (prospects.least_but(NO_NUMBERS) for prospects in self.prospects)
        return min(self.closed, min(opened, default=math.inf))

    def least_but(self, mask: int, numbers: IntArray) -> float:
        """Bound on the objective with a mask and any combination but some; infinite if no tile fits."""
        closed = float(self._closed[mask].min(initial=np.inf))
        return min(closed, self.prospects[mask].least_but(numbers))

    def hopeful(self, mask: int, numbers: IntArray) -> IntArray:
        """Of combinations that were hopeful those that are not settled by now, by rising bounds."""
        values = self.prospects[mask].values(numbers)
        return numbers[np.argsort(values, kind="stable")][: int((values < self.limit).sum())]

    def look_closely(self, mask: int, numbers: IntArray) -> IntArray:
        """Bound some hopeful combinations anew; return those that still are, by rising bounds."""
        values = self._goal.values(*self._survey.closer(mask, numbers))
        self.prospects[mask].sharpen(numbers, values)
        return self.hopeful(mask, numbers)

    def falling(self, mask: int, parts: Sequence[IntArray]) -> list[IntArray]:
        """Of parts of combinations, those that are not settled by now, by falling bounds."""
        starts = np.cumsum([0, *map(len, parts[:-1])])
        values = np.minimum.reduceat(self.prospects[mask].values(np.concatenate(parts)), starts)
        hopeful = np.flatnonzero(values < self.limit)
        return [parts[place] for place in hopeful[np.argsort(-values[hopeful], kind="stable")]]

    def join(self) -> float:
        """Bound neighbouring levels of the most promising subproblems together, where there are many."""
        goal, levels = self._goal, len(self._survey.space.levels)
        if goal.incumbent is None or not goal.counts_energy or levels < FEWEST_LEVELS:
            return 0.0
        masks = enumerate(self.prospects)
        subjects = Subjects.all_of(
            [prospects.subjects(mask, prospects.apart(self.limit)) for mask, prospects in masks]
        )
        neighbours = Neighbours(self._survey, goal)
        subjects = subjects.chosen(neighbours.alike(subjects, self.most_joined))
        if len(subjects) < FEWEST_JOINED:
            return 0.0
        values = np.minimum(goal.values(neighbours.energies(subjects), subjects.cycles), self.limit)
        for mask in np.unique(subjects.masks):
            of_mask = subjects.masks == mask
            self.prospects[mask].join(subjects.numbers[of_mask], values[of_mask])
        self.version += 1
        settled = float((values >= self.limit).mean())
        self.most_joined *= GROWTH if 2 * settled > 1 else 1
        return settled

    def open(self) -> list[tuple[float, tuple[int, IntArray]]]:
        """Open the most promising cells; return a bound and hopeful combinations of each mask."""
        cells = self._survey.cells
        chosen = np.ones(self._closed.shape, dtype=np.bool_) if cells.single else self._most_promising()
        opened = self._alone() if cells.single else self._opened(chosen)
        self._closed[chosen] = np.inf
        self.closed = float(self._closed.min(initial=np.inf))
        for mask, hopeful in opened:
            self.prospects[mask].add(hopeful)
        self._most = min(GROWTH * self._most, MOST_OPENED)
        return [
            (float(hopeful.values.min()), (mask, hopeful.numbers))
            for mask, hopeful in opened
            if len(hopeful.numbers)
        ]

    def _most_promising(self) -> BoolArray:
        """Cells with the least bounds, shape (masks, cells)."""
        closed, cells = self._closed.ravel(), self._survey.cells
        most = max(1, self._most * len(cells) // len(cells.numbers))
        hopeful = np.flatnonzero(closed < self.limit)
        if len(hopeful) > most:
            hopeful = hopeful[np.argpartition(closed[hopeful], most)[:most]]
        chosen = np.zeros(closed.size, dtype=np.bool_)
        chosen[hopeful] = True
        return chosen.reshape(self._closed.shape)

    def _alone(self) -> list[tuple[int, Opened]]:
        """What is in the cells if each has one combination: all of them are opened."""
        numbers, hopeful = np.arange(len(self._survey.grid)), self._closed < self.limit
        rows = zip(self._closed, *self._survey.overview, hopeful, strict=True)
        opened = (
            Opened(numbers[left], v[left], e[left], c[left], v[~left].min(initial=np.inf))
            for v, e, c, left in rows
        )
        return list(enumerate(opened))

    def _opened(self, chosen: BoolArray) -> list[tuple[int, Opened]]:
        bounded: list[tuple[IntArray, IntArray, FloatArray, FloatArray, FloatArray]] = []
        settled = np.full(len(chosen), np.inf)
        for masks, members, (energies, cycles) in self._survey.opened(chosen):
            values = self._goal.values(energies, cycles)
            hopeful = values < self.limit
            bounds = values[hopeful], energies[hopeful], cycles[hopeful]
            bounded.append((masks[hopeful], members[hopeful], *bounds))
            np.minimum.at(settled, masks[~hopeful], values[~hopeful])
        masks, *known = (np.concatenate(column) for column in zip(*bounded, strict=True))
        order = np.argsort(masks, kind="stable")
        parts = np.split(order, np.searchsorted(masks[order], np.arange(1, len(chosen))))
        numbers, values, energies, cycles = known
        return [
            (mask, Opened(numbers[part], values[part], energies[part], cycles[part], float(settled[mask])))
            for mask, part in enumerate(parts)
        ]
