"""The survey's bounds on the objective, looked at more closely where that may matter."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from operator import itemgetter
from typing import NamedTuple

import numpy as np

from solver.search.arrays import BoolArray, FloatArray, IntArray
from solver.search.goal import Goal
from solver.search.stopping import heeding
from solver.search.survey.neighbours import Neighbours, Subjects
from solver.search.survey.survey import Survey

FIRST_OPENED, MOST_OPENED = 1 << 18, 1 << 24
"""Combinations of cells that are opened together, at first and at most, about."""

GROWTH = 4
"""By how much these are more each time."""

FEWEST_JOINED, FIRST_JOINED = 1 << 8, 1 << 11
"""Subproblems whose neighbouring levels are bounded together: at the least, and at most at first."""

MOST_APART = 1 << 20
"""Subproblems that these are chosen from, at most, about: the most promising ones."""

FEWEST_LEVELS = 3
"""Levels from which on there are neighbours; nothing is delivered to the outermost one."""


class Opened(NamedTuple):
    """The hopeful combinations of opened cells with one mask, and their bounds.

    Parameters
    ----------
    numbers
        Places in the grid, shape (combinations,), as are the bounds.
    values, energies, cycles
        Lower bounds on the objective, in energy units, and in cycles.
    """

    numbers: IntArray
    values: FloatArray
    energies: FloatArray
    cycles: FloatArray


NO_NUMBERS, NO_VALUES, NO_FLAGS = np.empty(0, dtype=np.int64), np.empty(0), np.empty(0, dtype=np.bool_)


class Prospects:
    """Bounds on the combinations of spatial classes with one keep mask that were hopeful when opened."""

    __slots__ = ("_apart", "_cycles", "_energies", "_numbers", "_values")

    def __init__(self) -> None:
        self._numbers = NO_NUMBERS
        self._values, self._energies, self._cycles = NO_VALUES, NO_VALUES, NO_VALUES
        self._apart = NO_FLAGS

    def add(self, opened: Opened) -> None:
        """Take note of bounds on hopeful combinations."""
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

    def values_apart(self, limit: float) -> FloatArray:
        """The values of `apart`."""
        return self._values[self._apart & (self._values < limit)]

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
        """Bound on the objective with all of these combinations but some; infinite if there are no others."""
        others = self._values[~np.isin(self._numbers, numbers)] if len(numbers) else self._values
        return float(others.min(initial=np.inf))


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
    prospects
        Hopeful combinations, by mask; of 2^18 masks, most never have any.
    """

    def __init__(self, survey: Survey, goal: Goal) -> None:
        self._survey = survey
        self._goal = goal
        self._closed = goal.values(*survey.overview)
        self.closed = float(self._closed.min(initial=np.inf))
        self._most, self.most_joined = FIRST_OPENED, FIRST_JOINED
        self.version = 0
        self.prospects: defaultdict[int, Prospects] = defaultdict(Prospects)
        self._settled = np.full(len(survey.space.keep_masks), np.inf)  # of opened cells, all others

    @property
    def limit(self) -> float:
        """Value of the objective that can no longer improve."""
        return math.inf if self._goal.incumbent is None else float(self._goal.incumbent)

    @property
    def least(self) -> float:
        """Bound on the objective of any mapping; infinite if no tile fits."""
        opened = (prospects.least_but(NO_NUMBERS) for prospects in self.prospects.values())
        settled = float(self._settled.min(initial=np.inf))
        return min(self.closed, settled, min(opened, default=math.inf))

    def least_but(self, mask: int, numbers: IntArray) -> float:
        """Bound on the objective with a mask and any combination but some; infinite if no tile fits."""
        closed = float(self._closed[mask].min(initial=np.inf))
        return min(closed, float(self._settled[mask]), self.prospects[mask].least_but(numbers))

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
        if goal.incumbent is None or not goal.counts_energy or levels < FEWEST_LEVELS or not self.prospects:
            return 0.0
        masks, limit = sorted(self.prospects.items(), key=itemgetter(0)), self._limit_of(MOST_APART)
        subjects = Subjects.all_of(
            [prospects.subjects(mask, prospects.apart(limit)) for mask, prospects in masks]
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

    def _limit_of(self, most: int) -> float:
        """A value below which there are about `most` combinations that were not bounded so, or the limit."""
        values = np.concatenate([own.values_apart(self.limit) for own in self.prospects.values()])
        if len(values) <= most:
            return self.limit
        return math.nextafter(float(np.partition(values, most)[most]), math.inf)

    def open(self) -> list[tuple[float, tuple[int, IntArray]]]:
        """Open the most promising cells; return a bound and hopeful combinations of each mask."""
        cells = self._survey.cells
        chosen = np.ones(self._closed.shape, dtype=np.bool_) if cells.single else self._most_promising()
        opened, settled = self._alone() if cells.single else self._opened(chosen)
        for mask, hopeful in heeding(self._survey.stop, opened):
            self.prospects[mask].add(hopeful)
        # Not before: bounds have to hold where that is stopped.
        np.minimum(self._settled, settled, out=self._settled)
        self._closed[chosen] = np.inf
        self.closed = float(self._closed.min(initial=np.inf))
        self._most = min(GROWTH * self._most, MOST_OPENED)
        return [(float(hopeful.values.min()), (mask, hopeful.numbers)) for mask, hopeful in opened]

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

    def _alone(self) -> tuple[list[tuple[int, Opened]], FloatArray]:
        """What is in the cells if each has one combination: all of them are opened.

        Masks with hopeful combinations, and the least value of the others by mask.
        """
        numbers, hopeful = np.arange(len(self._survey.grid)), self._closed < self.limit
        settled = np.where(hopeful, np.inf, self._closed).min(axis=1, initial=np.inf)
        energies, cycles = self._survey.overview
        opened = [
            (mask, Opened(numbers[left], self._closed[mask, left], energies[mask, left], cycles[mask, left]))
            for mask in np.flatnonzero(hopeful.any(axis=1)).tolist()
            for left in [hopeful[mask]]
        ]
        return opened, settled

    def _opened(self, chosen: BoolArray) -> tuple[list[tuple[int, Opened]], FloatArray]:
        """What is in some cells, as `_alone` has it."""
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
        there, starts = np.unique(masks[order], return_index=True)
        parts = np.split(order, starts[1:])
        return [
            (mask, Opened(*(column[part] for column in known)))
            for mask, part in zip(there.tolist(), parts, strict=False)  # one part if there are none
        ], settled
