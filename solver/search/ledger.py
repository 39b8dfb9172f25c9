"""The ledger of a search: which of its steps settles which subproblems, keep mask by keep mask."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from solver.result import Evidence, MaskEvidence
from solver.search.arrays import IntArray
from solver.search.bounds.lattice_bounds import AnyBounds
from solver.search.goal import Goal
from solver.search.space.keep_masks import KeepMask
from solver.search.space.search_space import SearchSpace
from solver.search.subproblems.combination import Combination
from solver.search.survey.prospects import SurveyBounds
from solver.search.survey.survey import Survey


@dataclass
class _Entry:
    """What was done for one keep mask; ``bounded`` has the subproblems that the survey does not settle."""

    tiles_left: list[int]
    bounded: list[IntArray] = field(default_factory=list)
    states: int = 0
    nodes: int = 0
    branched: set[object] = field(default_factory=set)


class Ledger:
    """Keeps account of a search as it goes."""

    def __init__(self, survey: Survey) -> None:
        self._survey = survey
        self._entries: dict[KeepMask, _Entry] = {}

    def _entry(self, mask: KeepMask) -> _Entry:
        """What was done for a mask; most masks never have anything done."""
        if mask not in self._entries:
            self._entries[mask] = _Entry([0] * (len(self._survey.space.levels) - 1))
        return self._entries[mask]

    def surveyed(self, mask: KeepMask, numbers: IntArray) -> None:
        """Note that the survey does not settle subproblems, so that lattices were bounded."""
        self._entry(mask).bounded.append(numbers)

    def bounded(self, bounds: AnyBounds) -> None:
        """Note what a lattice had, and what its bounds left."""
        entry = self._entry(bounds.sub.mask)
        entry.states += bounds.states
        for level, stage in enumerate(bounds.stages):
            entry.tiles_left[level] += len(stage.tiles)

    def branched(self, sub: Combination, nodes: int) -> None:
        """Note that nodes of a subproblem were branched."""
        entry = self._entry(sub.mask)
        entry.branched.add(_classes(sub))
        entry.nodes += nodes

    def evidence(self, goal: Goal, survey_bounds: SurveyBounds) -> Evidence:
        """What the bound on the goal's objective rests on."""
        keeps = enumerate(self._survey.space.keep_masks)
        masks = (self._of_mask(place, mask, self._entry(mask), goal, survey_bounds) for place, mask in keeps)
        return Evidence(goal.objective, tuple(masks))

    def _of_mask(
        self, place: int, mask: KeepMask, entry: _Entry, goal: Goal, survey_bounds: SurveyBounds
    ) -> MaskEvidence:
        bounded = np.unique(np.concatenate(entry.bounded)) if entry.bounded else np.empty(0, dtype=np.int64)
        least = survey_bounds.least_but(place, bounded)
        return MaskEvidence(
            keep=self._survey.space.chains(mask),
            by_survey=len(self._survey.grid) - len(bounded),
            by_lattice=len(bounded) - len(entry.branched),
            by_branching=len(entry.branched),
            survey_bound=_exact(least, goal),
            states=entry.states,
            tiles_left=tuple(entry.tiles_left),
            nodes=entry.nodes,
        )


def _exact(least: float, goal: Goal) -> int | None:
    """A bound of the survey, None if it is infinite; of what cannot improve, at least the incumbent."""
    if not math.isfinite(least):
        return None
    settled = goal.incumbent is not None and least == float(goal.incumbent)
    return goal.incumbent if settled else max(0, int(least))


def unsearched(space: SearchSpace, goal: Goal) -> Evidence:
    """What it rests on that there is no mapping at all: the rules leave no factor."""
    masks = (MaskEvidence(space.chains(mask), by_survey=0) for mask in space.keep_masks)
    return Evidence(goal.objective, tuple(masks))


def _classes(sub: Combination) -> object:
    """What tells a subproblem from the others of its keep mask."""
    return tuple(stage.key for stage in sub.spatial)
