"""Bounds on the load of one bandwidth, beside those on the energy of the same mappings."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from solver.search.arrays import BoolArray, FloatArray, IntArray
from solver.search.bounds.lattice_bounds import LatticeBounds
from solver.search.branching.walk import Walk
from solver.search.goal import Goal
from solver.search.space.lattice import INFINITY
from solver.search.subproblems.loads import LoadSubproblem


@dataclass(frozen=True)
class LoadBounds:
    """Bounds on one load, to be looked at beside other bounds of the same mappings.

    Parameters
    ----------
    sub, bounds
        The mappings with their loads as prices, and the bounds of that.
    energy
        What all of them take at least.
    """

    sub: LoadSubproblem
    bounds: LatticeBounds[LoadSubproblem]
    energy: int = 0

    @cached_property
    def _once(self) -> tuple[int, ...]:
        """Per level, what its boundaries and those inside cost at least."""
        by_level = [sum(b.once for b in boundaries) for boundaries in self.bounds.boundaries.by_level]
        return tuple(sum(by_level[level:]) for level in range(len(by_level) + 1))

    def limit(self, goal: Goal) -> int:
        """Least load that can no longer improve."""
        return self.sub.limit(goal, self.energy)

    def possible(self, level: int, tiles: IntArray) -> BoolArray:
        """Tiles of `level` below which a mapping may be left."""
        return np.isin(tiles, self.bounds.stages[level - 1].tiles)

    def with_inside(self, walk: Walk, level: int, loads: FloatArray) -> FloatArray:
        """Least load (parts) beside that of what is outside of a walk's tiles at `level` (cycles).

        Parameters
        ----------
        loads
            Of all that is outside, `level` included; shape (candidates, resources).

        Returns
        -------
        FloatArray
            Shape (candidates,); `INFINITY` for tiles that these bounds rule out, 0 without a resource.
        """
        if self.sub.resource is None:
            return np.zeros(len(loads))
        known, tiles = self.bounds.stages[level - 1].tiles, walk.candidates.tiles
        places = np.minimum(np.searchsorted(known, tiles), len(known) - 1)
        inside = walk.inside(self.bounds, level, places) + float(self._once[level + 1])
        outside = loads[:, self.sub.resource] * float(self.sub.scale)
        return np.where(known[places] == tiles, outside + inside, float(INFINITY))
