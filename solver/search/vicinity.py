"""Subproblems that differ little from that of a good mapping.

Where bounds are loose, as those of sliding windows may be, the order of bounds leads to poor mappings. Better
ones are often found where one dataspace more or less is kept, or one stage is unrolled otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property

import numpy as np

from model.mapping import FanoutMapping, Mapping, StorageMapping
from solver.search.arrays import BoolArray, IntArray
from solver.search.space.keep_masks import KeepMask
from solver.search.space.search_space import SearchSpace
from solver.search.space.spatial import Factors
from solver.search.stopping import heeding
from solver.search.survey.prospects import SurveyBounds
from solver.search.survey.survey import Survey

Place = tuple[int, int]
"""Places of a subproblem among the keep masks and in the grid."""


class Vicinity:
    """What is near a mapping, as far as cells were opened."""

    def __init__(self, survey: Survey, survey_bounds: SurveyBounds) -> None:
        self._space = survey.space
        self._survey = survey
        self._survey_bounds = survey_bounds

    def around(self, mapping: Mapping) -> Iterator[Place]:
        """The subproblem of a mapping and hopeful neighbours: first where one dataspace more or less is kept.

        Others follow by their bounds: they have one stage unrolled otherwise, or two changes of what is kept.
        """
        space, mask = self._space, _keep_mask(self._space, mapping)
        unlike = self._stages_unlike(_spatial_factors(space, mapping))
        here, near = np.flatnonzero(unlike == 0), np.flatnonzero(unlike == 1)
        changes = (self._kept != self._row(mask)).sum(axis=1)
        same, once, twice = ([int(number) for number in np.flatnonzero(changes == n)] for n in range(3))
        yield from self._hopeful((number, here) for number in same)
        yield from self._hopeful((number, here) for number in once)
        yield from self._hopeful(
            (*((number, near) for number in same), *((number, here) for number in twice))
        )

    def _stages_unlike(self, factors: Sequence[Factors]) -> IntArray:
        """Per combination, how many stages are unrolled otherwise; `factors` are those of each stage."""
        grid = self._survey.grid
        unlike = np.zeros(len(grid), dtype=np.int64)
        for stage, choices, unrolled in zip(self._space.stages, grid.choices, factors, strict=True):
            others = ~stage.with_factors(unrolled)
            if others.any():
                unlike += others[choices]
        return unlike

    def _hopeful(self, by_mask: Iterable[tuple[int, IntArray]]) -> list[Place]:
        """Those of several masks' combinations that are not settled, by rising bounds."""
        hopeful: list[tuple[float, int, int]] = []
        for mask, numbers in by_mask:
            prospects = self._survey_bounds.prospects[mask]
            known = self._survey_bounds.hopeful(mask, prospects.among(numbers))
            values = prospects.values(known).tolist()
            hopeful += [(value, mask, number) for value, number in zip(values, known.tolist(), strict=True)]
        return [(mask, number) for _, mask, number in sorted(hopeful)]

    @cached_property
    def _kept(self) -> BoolArray:
        """By mask, whether each level keeps each dataspace: shape (masks, dataspaces times levels)."""
        return np.array(list(heeding(self._space.stop, map(self._row, self._space.keep_masks))))

    def _row(self, mask: KeepMask) -> BoolArray:
        levels = range(len(self._space.levels))
        return np.array([level in chain for chain in self._space.chains(mask) for level in levels])


def _keep_mask(space: SearchSpace, mapping: Mapping) -> KeepMask:
    nodes = (node for node in mapping.nodes if isinstance(node, StorageMapping))
    return tuple(frozenset(view.place for view in space.views if view.name in node.keep) for node in nodes)


def _spatial_factors(space: SearchSpace, mapping: Mapping) -> list[Factors]:
    """Per stage, the product of a mapping's spatial factors, per active dimension."""
    fanouts = [node for node in mapping.nodes if isinstance(node, FanoutMapping)]
    return [
        tuple(
            math.prod(loop.bound for place in below for loop in fanouts[place].spatial if loop.dim == dim)
            for dim in space.active
        )
        for below in space.fanouts_below
    ]
