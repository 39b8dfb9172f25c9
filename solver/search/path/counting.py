"""Differences between counting rules, as far as paths depend on them: an object per rule."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from solver.search.arrays import FloatArray, IntArray
from solver.search.path.axes import SlotLoops
from solver.search.space.dataspaces import DataspaceView
from solver.search.space.search_space import SearchSpace

LeftInPlace = frozenset[int] | None
"""What the innermost loop of a slot leaves in place; None where the slot has no loops."""


@dataclass(frozen=True)
class ByOrder:
    """Loops that do not move a tile leave it in place where no loop inside of them does.

    Attributes
    ----------
    executed
        Whether words are those that an execution moves, which `words` counts.
    leads_are_loops
        Whether a lead that is not None says that there is such a loop.
    """

    space: SearchSpace
    executed: bool = True
    leads_are_loops: bool = True

    @property
    def merges(self) -> bool:
        """Whether paths cost the same, and are allowed alike, that deliver all dataspaces as often."""
        return False

    def leads(self, loops: SlotLoops) -> tuple[LeftInPlace, ...]:
        """What the innermost loop of a slot may leave in place, given the loops that it may have."""
        found: list[LeftInPlace] = [None] if loops.may_be_empty else []
        # Rules on orders do not matter here: loops that they put innermost may have one iteration.
        for members in self.space.reuse_classes:
            if loops.live & frozenset(self.space.leading(members)):
                found.append(members)
        return tuple(found)

    def leading(self, lead: LeftInPlace) -> frozenset[int]:
        """Dimensions of the innermost loops that leave this in place."""
        return frozenset(range(len(self.space.active)) if lead is None else self.space.leading(lead))

    def shares(self, view: DataspaceView, factors: IntArray) -> FloatArray:
        """Distinct tiles per child of a fanout, at least, for factors of shape (choices, dimensions)."""
        dims = sorted(view.window_dims)
        rows, inverse = np.unique(factors[:, dims], axis=0, return_inverse=True)
        vectors = np.ones((len(rows), factors.shape[1]), dtype=np.int64)
        vectors[:, dims] = rows
        bounds, kind = self.space.lattice.bounds, self.space.mapspace.factors
        distinct = [view.distinct_tiles(vector, bounds, kind) for vector in vectors.tolist()]
        share: FloatArray = (np.array(distinct) / rows.prod(axis=1))[inverse.reshape(-1)]
        return share

    def touched_apart(self, alone: IntArray, irrelevant: Sequence[int]) -> IntArray:
        """How often first touches count because children do not share them, given the factors of these."""
        del irrelevant
        return np.ones(len(alone), dtype=np.int64)


@dataclass(frozen=True)
class ByPlace(ByOrder):
    """Every loop outside of a tile brings it anew; so no order tells dataspaces without windows apart."""

    executed: bool = False
    leads_are_loops: bool = False

    @cached_property
    def merges(self) -> bool:
        """Where tiles are partitions, so that none has holes or overlaps, and rules look at fanouts alone."""
        filled = any(level.min_utilization for level in self.space.levels)
        return self.space.is_unruled and all(view.simple for view in self.space.views) and not filled

    def leads(self, loops: SlotLoops) -> tuple[LeftInPlace, ...]:
        """One for all: any loops or none, which leave nothing in place."""
        del loops
        return (frozenset(),)

    def leading(self, lead: LeftInPlace) -> frozenset[int]:
        """All dimensions."""
        del lead
        return frozenset(range(len(self.space.active)))

    def shares(self, view: DataspaceView, factors: IntArray) -> FloatArray:
        """Loops that move a tile make all children distinct."""
        del view
        return np.ones(len(factors))

    def touched_apart(self, alone: IntArray, irrelevant: Sequence[int]) -> IntArray:
        """Children that do not share a dataspace touch its words each for the first time."""
        apart: IntArray = alone[:, irrelevant].prod(axis=1)
        return apart


def counted_by(space: SearchSpace) -> ByOrder:
    """The rule of a search space."""
    rule = space.mapspace.counting_rule
    return ByOrder(space, rule.is_executed) if rule.by_order else ByPlace(space)
