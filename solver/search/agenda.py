"""The agenda of a search: in which order subproblems are bounded, and which of them together."""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Iterator
from itertools import count, islice

import numpy as np

from solver.search.arrays import IntArray
from solver.search.bounds.lattice_bounds import AnyBounds
from solver.search.candidates import Coming, Surveyed, Unopened
from solver.search.goal import Goal
from solver.search.subproblems.groups import together
from solver.search.survey.cells import halves
from solver.search.survey.prospects import SurveyBounds
from solver.search.survey.survey import Survey

FIRST_ALONE = 16
"""Subproblems of a keep mask that are bounded one by one, before groups of the others are."""

FIRST_LOOSELY = 64
"""Subproblems and groups of all keep masks that are bounded, before all others are surveyed closely."""

TRIED = 4
"""Subproblems that are bounded before more cells are opened, though it is not their turn."""

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

FEWEST_IN_VAIN, MOST_IN_VAIN = 1 << 8, 1 << 13
"""Lattices in a row without a better mapping, after which neighbouring levels are bounded together.

A good mapping makes that cheap. As long as it settles little, it is doubled, up to the second number.
"""

JOINED_PER_LATTICE = 32
"""Subproblems that are bounded so, for each of these lattices, unless nearly all are settled."""

LITTLE, NEARLY_ALL = 0.25, 0.9
"""Shares of the subproblems."""

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

    def add(self, *streams: tuple[float, Iterator[Turn]]) -> None:
        """Take in more iterators, each with a bound on its turns."""
        for bound, turns in streams:
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


class _Rest:
    """Subproblems of a keep mask that wait for their turn."""

    def __init__(self, survey_bounds: SurveyBounds, mask: int, numbers: IntArray) -> None:
        self._survey_bounds = survey_bounds
        self.mask = mask
        self._numbers = numbers
        self._version: int | None = None

    @property
    def numbers(self) -> IntArray:
        """Those that are hopeful, by rising bounds; they are looked at anew where bounds have changed."""
        if self._version != self._survey_bounds.version:
            self._numbers = self._survey_bounds.hopeful(self.mask, self._numbers)
            self._version = self._survey_bounds.version
        return self._numbers

    def look_closely(self) -> None:
        """Bound them anew, tiles of windows more closely."""
        if len(self.numbers):
            self._numbers = self._survey_bounds.look_closely(self.mask, self.numbers)

    def pop(self) -> IntArray:
        """The number of the first one."""
        first, self._numbers = self.numbers[:1], self._numbers[1:]
        return first


class Agenda:
    """Makes candidates of the subproblems that the survey leaves open.

    Parameters
    ----------
    goal
        Read anew at every turn.
    quantum
        Energy units per unit of the tables.
    """

    def __init__(self, survey: Survey, goal: Goal, quantum: int) -> None:
        self._survey = survey
        self._goal = goal
        self._quantum = quantum
        self._places = {mask: place for place, mask in enumerate(survey.space.keep_masks)}
        self.survey_bounds = SurveyBounds(survey, goal)
        self._taken: set[tuple[int, int]] = set()
        self._trials: Counter[int] = Counter()
        self._settled: Counter[int] = Counter()
        self._states: Counter[int] = Counter()
        self._in_vain, self._patience, self._last = 0, FEWEST_IN_VAIN, goal.incumbent

    @property
    def least(self) -> int | None:
        """Bound on the objective of any mapping, None if there is none."""
        least = self.survey_bounds.least
        return max(0, math.floor(least)) if math.isfinite(least) else None

    def turns(self) -> Iterator[tuple[int, Coming]]:
        """Candidates by rising bounds.

        Where unopened cells may hold a better one, a few candidates come before their turn, then `Unopened`:
        the cells are opened when the next turn is asked for.
        """
        survey_bounds, merged, tried = self.survey_bounds, _Merged(), 0
        while min(merged.bound, survey_bounds.closed) < survey_bounds.limit:
            if merged.bound <= survey_bounds.closed:
                yield int(merged.bound), merged.pop()
            elif merged and tried < TRIED:
                # Before more cells are opened, the best subproblems so far may lead to a better incumbent.
                tried += 1
                yield max(0, math.floor(survey_bounds.closed)), merged.pop()
            else:
                tried = 0
                yield max(0, math.floor(survey_bounds.closed)), Unopened()
                merged.add(*((bound, self._of_mask(*own)) for bound, own in survey_bounds.open()))

    def _of_mask(self, mask: int, numbers: IntArray) -> Iterator[Turn]:
        """Candidates of a mask by rising bounds: subproblems, and where these are many groups of them."""
        rest = _Rest(self.survey_bounds, mask, numbers)
        closely = self._trials.total() >= FIRST_LOOSELY
        if closely:
            rest.look_closely()
        for _ in range(FIRST_ALONE):
            if not self._any_left(rest):
                return
            yield self._turn(mask, rest.pop())
        if not closely:
            rest.look_closely()
        while self._any_left(rest) and not self._groups_settle:
            yield self._turn(mask, rest.pop())
        yield from self._in_parts(mask, list(self._grouped(rest.numbers)))

    def single(self, mask: int, number: int) -> Surveyed | None:
        """The candidate of one subproblem before its turn; None if it had one. It is left out then."""
        numbers = np.array([number])
        return None if self._had(mask, numbers) else self._turn(mask, numbers)[1]

    def _had(self, mask: int, numbers: IntArray) -> bool:
        """Whether these are a single subproblem that had its turn."""
        return len(numbers) == 1 and (mask, int(numbers[0])) in self._taken

    def _any_left(self, rest: _Rest) -> bool:
        self._join()
        while self._had(rest.mask, rest.numbers[:1]):
            rest.pop()
        return len(rest.numbers) > 0

    def _in_parts(self, mask: int, parts: list[IntArray]) -> Iterator[Turn]:
        """Candidates of a mask that are groups of subproblems."""
        version = None
        while parts:
            self._join()
            if version != self.survey_bounds.version:
                parts, version = self.survey_bounds.falling(mask, parts), self.survey_bounds.version
            if parts and not self._had(mask, numbers := parts.pop()):
                yield self._turn(mask, numbers)

    def _join(self) -> None:
        """Bound levels together, for many subproblems at once, if it is time for that."""
        if self._in_vain < self._patience:
            return
        settled, self._in_vain = self.survey_bounds.join(), 0
        if settled > NEARLY_ALL:
            self._patience = FEWEST_IN_VAIN
        elif settled > LITTLE:
            self._patience = max(FEWEST_IN_VAIN, self.survey_bounds.most_joined // JOINED_PER_LATTICE)
        else:
            self._patience = min(2 * self._patience, MOST_IN_VAIN)

    def bounded(self, candidate: Surveyed, bounds: AnyBounds) -> None:
        """Note what bounding a candidate took, and what it settled: it tells whether groups pay."""
        size = len(candidate.numbers)
        self._in_vain = self._in_vain + 1 if self._goal.incumbent == self._last else 0
        self._last = self._goal.incumbent
        self._trials[size.bit_length()] += 1
        self._settled[size.bit_length()] += size * bounds.empty
        self._states[size.bit_length()] += bounds.states

    def parts(self, group: Surveyed, bounds: AnyBounds) -> Iterator[Turn]:
        """The parts of a group that was bounded, as far as that does not settle them."""
        mask = self._places[group.sub.mask]
        numbers = self.survey_bounds.hopeful(mask, group.numbers)
        if bounds.empty or len(numbers) == 0:
            return
        for half in halves(self._survey.grid.chosen(numbers)):
            parts = (part for part in self._together(numbers[half]) if not self._had(mask, part))
            yield from (self._turn(mask, part, bounds) for part in parts)

    @property
    def _groups_settle(self) -> bool:
        """Whether anything limits the energy: without that, bounds of groups settle nothing."""
        return self._goal.incumbent is not None and self._goal.counts_energy

    def _grouped(self, numbers: IntArray) -> Iterator[IntArray]:
        """Subproblems in groups, or one by one where groups do not pay."""
        waiting = [numbers]
        while waiting:
            members = waiting.pop()
            if len(members) > LARGEST_GROUP:
                waiting += [members[half] for half in halves(self._survey.grid.chosen(members))]
            else:
                yield from self._together(members)

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

    def _turn(self, mask: int, numbers: IntArray, outer: AnyBounds | None = None) -> Turn:
        """The candidate of some subproblems of a mask, part of a group with the bounds `outer`."""
        goal, known = self._goal, self.survey_bounds.prospects[mask]
        if len(numbers) == 1:
            self._taken.add((mask, int(numbers[0])))
        grid, keeps = self._survey.grid.chosen(numbers), self._survey.space.keep_masks[mask]
        sub = together(grid, keeps, self._quantum, known.fewest_cycles(numbers))
        value = max(0, int(known.values(numbers).min()))
        if outer is None:
            return value, Surveyed(sub, numbers)
        value = max(value, goal.value(outer.least, outer.least_cycles))
        return value, Surveyed(sub, numbers, within=outer.survivors)
