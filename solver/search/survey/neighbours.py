"""Bounds on neighbouring levels together, for many subproblems at a time.

The survey bounds the boundary of each level alone. But the tile that costs least at one level often divides
no cheap tile of the next one. So here pairs of tiles are looked at, at once for all subproblems whose tiles
and loops between them are the same: only their prices differ.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from solver.search.arrays import FloatArray, IntArray
from solver.search.goal import Goal
from solver.search.space.grid import ROUNDED_DOWN, ROUNDED_UP
from solver.search.stopping import Stopped
from solver.search.survey.pairs import Level, Rates, TilePairs
from solver.search.survey.rates import RateTable
from solver.search.survey.survey import Survey

SMALLEST_GROUP = 8
"""Fewer subproblems than this are not worth it."""


@dataclass(frozen=True)
class Subjects:
    """Subproblems: their places among the keep masks and in the grid, and the survey's bounds.

    Parameters
    ----------
    masks, numbers
        Shape (subproblems,), as are all.
    energies, cycles
        Lower bounds, in energy units and cycles.
    """

    masks: IntArray
    numbers: IntArray
    energies: FloatArray
    cycles: FloatArray

    def __len__(self) -> int:
        """Number of subproblems."""
        return len(self.masks)

    @classmethod
    def all_of(cls, several: Iterable[Subjects]) -> Subjects:
        """Those of several together.

        Raises
        ------
        ValueError
            If there are none.
        """
        columns = zip(
            *((subjects.masks, subjects.numbers, subjects.energies, subjects.cycles) for subjects in several),
            strict=True,
        )
        return cls(*map(np.concatenate, columns))

    def chosen(self, places: IntArray) -> Subjects:
        """Those at some places, in that order."""
        masks, numbers = self.masks[places], self.numbers[places]
        return Subjects(masks, numbers, self.energies[places], self.cycles[places])


class Neighbours:
    """Raises the survey's bounds on energies, as far as the goal needs it."""

    def __init__(self, survey: Survey, goal: Goal) -> None:
        self._survey = survey
        self._goal = goal
        self._space = survey.space

    def alike(self, subjects: Subjects, most: int) -> IntArray:
        """Places of at most `most` subjects that differ from many others in prices only, as to two levels."""
        groups = [group for level in self._outer_levels for group in self._groups(subjects, level)]
        chosen, remaining = np.zeros(len(subjects), dtype=np.bool_), most
        for group in sorted(groups, key=len, reverse=True):
            if remaining < SMALLEST_GROUP:
                break
            # Of a larger group some from everywhere: they tell whether the others are worth it.
            spread = (
                group if len(group) <= remaining else group[np.arange(remaining) * len(group) // remaining]
            )
            remaining -= int(np.count_nonzero(~chosen[spread]))
            chosen[spread] = True
        return np.flatnonzero(chosen)

    @property
    def _outer_levels(self) -> Iterable[int]:
        """Levels with another one inside, innermost first; nothing is delivered to the outermost level."""
        return reversed(range(1, len(self._space.levels) - 1))

    def energies(self, subjects: Subjects) -> FloatArray:
        """Energies at least; where no mapping improves, those at which that is so.

        Returns
        -------
        FloatArray
            Energy units, shape (subjects,); no less than what the subjects have unless the goal's limits are.

        References
        ----------
        docs/search.md, "Neighbouring levels".
        """
        limits = self._goal.energy_limits(subjects.cycles)
        # Pairs of tiles know nothing of whole blocks.
        surplus = self._survey.surplus(subjects.masks, subjects.numbers)
        singly = subjects.energies - surplus * ROUNDED_UP
        room = np.maximum(limits - singly, 0.0)
        # What pairs add that have no level in common counts together.
        raised, apart = np.zeros(len(subjects)), np.zeros(len(subjects))
        for level in self._outer_levels:
            added = np.zeros(len(subjects))
            still = np.flatnonzero(raised < room)
            for group in self._groups(subjects.chosen(still), level):
                places = still[group]
                added[places] = self._added(subjects.chosen(places), level, (room - apart)[places])
            raised, apart = np.maximum(raised, apart + added), raised
        return np.minimum(np.maximum(subjects.energies, singly + raised * ROUNDED_DOWN), limits)

    def _groups(self, subjects: Subjects, level: int) -> Iterator[IntArray]:
        """Places of the subjects that have the same tiles at `level` and inside, and loops between."""
        if self._survey.stop():
            raise Stopped
        keys = [self._survey.kept.tenants[own - 1][subjects.masks] for own in (level, level + 1)]
        unrolled = (level, level + 1) if self._innermost(level + 1) else (level,)
        keys += [self._survey.grid.choices[own][subjects.numbers] for own in unrolled]
        # Short types are sorted by their digits.
        short = [key.astype(np.min_scalar_type(key.max(initial=0))) for key in keys]
        order = np.lexsort(short)
        differ = np.any([np.diff(key[order]) != 0 for key in short], axis=0)
        starts = np.concatenate([[0], np.flatnonzero(differ) + 1, [len(order)]])
        large = np.flatnonzero(np.diff(starts) >= SMALLEST_GROUP)
        yield from (order[starts[n] : starts[n + 1]] for n in large)

    def _added(self, group: Subjects, level: int, room: FloatArray) -> FloatArray:
        """By how much more than the survey has it both levels cost, up to `room`."""
        numbers, columns = np.unique(group.numbers, return_inverse=True)
        table = RateTable(self._survey.grid.chosen(numbers))
        outer, inner = (self._rates(group, columns, table, own) for own in (level, level + 1))
        pairs = self._pairs(group, level)
        added = np.empty(len(group))
        # Of those with the same prices most is computed once.
        order = np.lexsort((room, *outer.per_word))
        for rows in np.split(order, range(pairs.at_once, len(order), pairs.at_once)):
            if self._survey.stop():
                raise Stopped
            grid = self._survey.grid.chosen(group.numbers[rows])
            added[rows] = pairs.added(outer.chosen(rows), inner.chosen(rows), grid, room[rows])
        return added

    def _pairs(self, group: Subjects, level: int) -> TilePairs:
        space, choices, first = self._space, self._survey.grid.choices, int(group.numbers[0])
        mask = space.keep_masks[group.masks[0]]
        outer, inner = (Level(space, own, space.tenants(mask, own)) for own in (level, level + 1))
        below = int(choices[level + 1][first]) if self._innermost(level + 1) else None
        return TilePairs(outer, inner, int(choices[level][first]), below)

    def _innermost(self, level: int) -> bool:
        return level == len(self._space.levels) - 1

    def _rates(self, group: Subjects, columns: IntArray, table: RateTable, level: int) -> Rates:
        """Energies of what is delivered to `level`; `columns` has the places of the group in the table."""
        shape = len(self._space.views), len(group)
        per_word, per_copies = np.zeros(shape), np.zeros(shape)
        kept = self._survey.kept
        kinds = kept.variant_of_mask[level - 1][group.masks]
        for kind in np.unique(kinds):
            members = np.flatnonzero(kinds == kind)
            for portion in kept.variants[level - 1][kind].portions:
                rate = table.rate(portion, None)
                assert rate is not None  # every portion takes energy
                per_word[portion.place, members] = rate.per_word[columns[members]]
                per_copies[portion.place, members] = rate.per_copies[columns[members]]
        return Rates(per_word, per_copies)
