"""The agenda of a search: in which order subproblems are bounded, and which of them together."""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np

from solver.search.bounds import LatticeBounds
from solver.search.candidates import Candidate
from solver.search.goal import Goal
from solver.search.groups import halves, together
from solver.search.lattice import IntArray
from solver.search.outlook import Outlook
from solver.search.space import KeepMask
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

Turn = tuple[int, Candidate]
"""A bound on the objective of a candidate, at which it is its turn, and the candidate."""


_Step = tuple[float, Turn | None]
"""A bound on all turns to come, and the next one; None if more is to be found out first."""


class Agenda:
    """Makes candidates of the subproblems that the survey leaves open."""

    def __init__(self, survey: Survey, goal: Goal, quantum: int) -> None:
        self._survey = survey
        self._goal = goal
        self._quantum = quantum
        self._outlooks = {mask: Outlook(survey, mask, goal) for mask in survey.space.keep_masks}
        self._trials: Counter[int] = Counter()
        self._settled: Counter[int] = Counter()
        self._states: Counter[int] = Counter()

    def outlook(self, mask: KeepMask) -> Outlook:
        """The survey's bounds on the objective with a keep mask."""
        return self._outlooks[mask]

    @property
    def least(self) -> int | None:
        """Bound on the objective of any mapping that improves, None if there is none."""
        least = min((own.least for own in self._outlooks.values()), default=math.inf)
        return max(0, math.floor(least)) if math.isfinite(least) else None

    def turns(self) -> Iterator[Turn]:
        """Candidates by rising bounds; keep masks are looked at when it is their turn.

        Raises
        ------
        Stopped
            As soon as the survey is.
        """
        rests = [self._of_mask(mask) for mask in self._outlooks]
        waiting = [(own.least, number, None) for number, own in enumerate(self._outlooks.values())]
        steps: list[tuple[float, int, Turn | None]] = [own for own in waiting if math.isfinite(own[0])]
        heapq.heapify(steps)
        while steps:
            _, number, turn = heapq.heappop(steps)
            if turn is not None:
                yield turn
            following = next(rests[number], None)
            if following is not None:
                bound, turn = following
                heapq.heappush(steps, (bound, number, turn))

    def _of_mask(self, mask: KeepMask) -> Iterator[_Step]:
        """Candidates of `mask` by rising bounds: subproblems, and where these are many groups of them."""
        outlook, first = self._outlooks[mask], list[int]()
        for bound, number in outlook.rising(FIRST_ALONE):
            found = [] if number is None else [number]
            yield bound, self._turn(mask, np.array(found)) if found else None
            first += found
        yield outlook.least_but(first), None
        for turn in self._others(mask, first):
            yield turn[0], turn

    def _others(self, mask: KeepMask, first: Sequence[int]) -> Iterator[Turn]:
        """Those of `mask` but for the `first` ones."""
        outlook = self._outlooks[mask]
        rest = outlook.hopeful_but(first)
        alone = 0
        while alone < len(rest) and not self._groups_settle:
            yield self._turn(mask, rest[alone : alone + 1])
            alone += 1
        parts = self._grouped(outlook.hopeful(rest[alone:]))
        for part in sorted(parts, key=lambda numbers: float(outlook.values(numbers).min())):
            yield self._turn(mask, part)

    def bounded(self, candidate: Candidate, bounds: LatticeBounds) -> None:
        """Note what bounding a candidate took, and what it settled: it tells whether groups pay."""
        size = len(candidate.numbers)
        self._trials[size.bit_length()] += 1
        self._settled[size.bit_length()] += size * bounds.empty
        self._states[size.bit_length()] += bounds.states

    def parts(self, group: Candidate, bounds: LatticeBounds) -> Iterator[Turn]:
        """The parts of a group that was bounded, as far as that does not settle them."""
        mask, numbers = group.sub.mask, self._hopeful(group.sub.mask, group.numbers)
        if bounds.empty or len(numbers) == 0:
            return
        for half in halves(self._survey.grid.chosen(numbers)):
            for part in self._together(numbers[half]):
                yield self._turn(mask, part, bounds)

    def _hopeful(self, mask: KeepMask, numbers: IntArray) -> IntArray:
        return self._outlooks[mask].hopeful(numbers)

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

    def _turn(self, mask: KeepMask, numbers: IntArray, outer: LatticeBounds | None = None) -> Turn:
        """The candidate of some subproblems of `mask`, part of a group with the bounds `outer`."""
        goal, outlook = self._goal, self._outlooks[mask]
        fewest = math.floor(outlook.fewest_cycles(numbers))
        sub = together(self._survey.grid.chosen(numbers), mask, self._quantum, fewest)
        value = max(0, int(outlook.values(numbers).min()))
        if outer is None:
            return value, Candidate(sub, numbers)
        value = max(value, goal.value(outer.least, outer.least_cycles))
        return value, Candidate(sub, numbers, within=outer.survivors)
