"""The agenda of a search: in which order subproblems are bounded, and which of them together."""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Iterator
from itertools import count, islice

import numpy as np

from solver.search.bounds import LatticeBounds
from solver.search.candidates import Surveyed
from solver.search.cells import halves
from solver.search.goal import Goal
from solver.search.groups import together
from solver.search.lattice import IntArray
from solver.search.outlook import Outlook
from solver.search.survey import Survey

FIRST_ALONE = 16
"""Subproblems of a keep mask that are bounded one by one, before groups of the others are."""

SMALLEST_GROUP = 3
"""Fewer subproblems than this are bounded one by one."""

LARGEST_GROUP = 128
"""More subproblems than this are not bounded together."""

CREDIT = 32
"""Subproblems that groups of similar size are taken to have settled before any is bounded."""

PAYING = 1.2
"""Subproblems that a group has to settle on average, per subproblem that could be bounded in its time."""

STATES_ALONE, STATES_TOGETHER = 5_000, 40_000
"""States of a lattice that take as long as all else does that a subproblem, or a group, needs."""

Turn = tuple[int, Surveyed]
"""A bound on the objective of a candidate, at which it is its turn, and the candidate."""


class _Merged:
    """Turns by rising bounds, out of iterators of which each has its own so; they go on only when due."""

    def __init__(self) -> None:
        self._ticket = count()
        self._waiting: list[tuple[float, int, Surveyed | None, Iterator[Turn]]] = []

    def __bool__(self) -> bool:
        """Whether there may be any left."""
        return bool(self._waiting)

    def add(self, *several: tuple[float, Iterator[Turn]]) -> None:
        """Take in more iterators, each with a bound on its turns."""
        for bound, turns in several:
            heapq.heappush(self._waiting, (bound, next(self._ticket), None, turns))

    @property
    def bound(self) -> float:
        """Bound on all turns that are left; infinite if there are none."""
        while self._waiting and self._waiting[0][2] is None:
            *_, turns = heapq.heappop(self._waiting)
            for value, candidate in islice(turns, 1):
                heapq.heappush(self._waiting, (value, next(self._ticket), candidate, turns))
        return self._waiting[0][0] if self._waiting else math.inf

    def pop(self) -> Surveyed:
        """The candidate with the least bound."""
        bound, _, candidate, turns = heapq.heappop(self._waiting)
        assert candidate is not None  # `bound` was asked for
        self.add((bound, turns))
        return candidate


class Agenda:
    """Makes candidates of the subproblems that the survey leaves open."""

    def __init__(self, survey: Survey, goal: Goal, quantum: int) -> None:
        self._survey = survey
        self._goal = goal
        self._quantum = quantum
        self._places = {mask: place for place, mask in enumerate(survey.space.keep_masks)}
        self.outlook = Outlook(survey, goal)
        self._trials: Counter[int] = Counter()
        self._settled: Counter[int] = Counter()
        self._states: Counter[int] = Counter()

    @property
    def least(self) -> int | None:
        """Bound on the objective of any mapping, None if there is none."""
        least = self.outlook.least
        return max(0, math.floor(least)) if math.isfinite(least) else None

    def turns(self) -> Iterator[Turn]:
        """Candidates by rising bounds; cells are opened when it is their turn.

        Raises
        ------
        Stopped
            As soon as the survey is.
        """
        outlook, merged, tried = self.outlook, _Merged(), False
        while min(merged.bound, outlook.closed) < outlook.limit:
            if merged.bound <= outlook.closed:
                yield int(merged.bound), merged.pop()
            elif self._goal.incumbent is None and merged and not tried:
                # Before more cells are opened, the best subproblem so far may lead to an incumbent.
                tried = True
                yield max(0, math.floor(outlook.closed)), merged.pop()
            else:
                tried = False
                merged.add(*((bound, self._of_mask(*own)) for bound, own in outlook.open()))

    def _of_mask(self, mask: int, numbers: IntArray) -> Iterator[Turn]:
        """Candidates of a mask by rising bounds: subproblems, and where these are many groups of them."""
        outlook = self.outlook
        order = outlook.hopeful(mask, numbers)
        for number in order[:FIRST_ALONE]:
            yield self._turn(mask, np.array([number]))
        rest = outlook.hopeful(mask, order[FIRST_ALONE:])
        rest = outlook.look_closely(mask, rest)
        alone = 0
        while alone < len(rest) and not self._groups_settle:
            yield self._turn(mask, rest[alone : alone + 1])
            alone += 1
        parts = self._grouped(outlook.hopeful(mask, rest[alone:]))
        values = outlook.prospects[mask].values
        for part in sorted(parts, key=lambda numbers: float(values(numbers).min())):
            yield self._turn(mask, part)

    def bounded(self, candidate: Surveyed, bounds: LatticeBounds) -> None:
        """Note what bounding a candidate took, and what it settled: it tells whether groups pay."""
        size = len(candidate.numbers)
        self._trials[size.bit_length()] += 1
        self._settled[size.bit_length()] += size * bounds.empty
        self._states[size.bit_length()] += bounds.states

    def parts(self, group: Surveyed, bounds: LatticeBounds) -> Iterator[Turn]:
        """The parts of a group that was bounded, as far as that does not settle them."""
        mask = self._places[group.sub.mask]
        numbers = self.outlook.hopeful(mask, group.numbers)
        if bounds.empty or len(numbers) == 0:
            return
        for half in halves(self._survey.grid.chosen(numbers)):
            for part in self._together(numbers[half]):
                yield self._turn(mask, part, bounds)

    @property
    def _groups_settle(self) -> bool:
        """Whether anything limits the energy: without that, bounds of groups settle nothing."""
        return self._goal.incumbent is not None and self._goal.counts_energy

    def _grouped(self, numbers: IntArray) -> Iterator[IntArray]:
        """Subproblems in groups, or one by one where groups do not pay."""
        waiting = [numbers]
        while waiting:
            own = waiting.pop()
            if len(own) > LARGEST_GROUP:
                waiting += [own[half] for half in halves(self._survey.grid.chosen(own))]
            else:
                yield from self._together(own)

    def _together(self, numbers: IntArray) -> Iterator[IntArray]:
        """A group, or one subproblem after the other where groups of that size do not pay."""
        size = len(numbers)
        kind = size.bit_length()
        pays = self._settled[kind] + CREDIT >= PAYING * self._slower(kind) * self._trials[kind]
        yield from (numbers,) if size >= SMALLEST_GROUP and pays else numbers[:, None]

    def _slower(self, kind: int) -> float:
        """How many subproblems can be bounded while a group of some size is."""
        alone, group = (self._states[own] / max(1, self._trials[own]) for own in (1, kind))
        return (max(group, alone) + STATES_TOGETHER) / (alone + STATES_ALONE)

    def _turn(self, mask: int, numbers: IntArray, outer: LatticeBounds | None = None) -> Turn:
        """The candidate of some subproblems of a mask, part of a group with the bounds `outer`."""
        goal, known = self._goal, self.outlook.prospects[mask]
        grid, keeps = self._survey.grid.chosen(numbers), self._survey.space.keep_masks[mask]
        sub = together(grid, keeps, self._quantum, known.fewest_cycles(numbers))
        value = max(0, int(known.values(numbers).min()))
        if outer is None:
            return value, Surveyed(sub, numbers)
        value = max(value, goal.value(outer.least, outer.least_cycles))
        return value, Surveyed(sub, numbers, within=outer.survivors)
