"""Lower bounds on the load of one bandwidth, by the same dynamic program as for the energy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from model.cost.prices import network_latency
from solver.search.bounds import LatticeBounds
from solver.search.lattice import INFINITY, IntArray
from solver.search.prices import BoundaryPrice, EnergyTerm
from solver.search.subproblem import Subproblem
from solver.search.walk import Walk

FINEST_SCALE = 1 << 24
"""Parts of a cycle in which loads are counted, at most."""


@dataclass(frozen=True)
class LoadSubproblem(Subproblem):
    """The mappings of a subproblem, priced by what they load `resource` with, in 1/`scale` cycles."""

    resource: int = 0
    scale: int = 1

    @cached_property
    def prices(self) -> tuple[dict[int, BoundaryPrice], ...]:
        """Per dataspace, the load of each of its boundaries."""
        return tuple({b: self._loading(price) for b, price in own.items()} for own in super().prices)

    def _loading(self, price: BoundaryPrice) -> BoundaryPrice:
        terms = [
            EnergyTerm(int(t.share * self.scale), t.multiplier, t.minus, 1)
            for t in price.loads
            if t.resource == self.resource
        ]
        return BoundaryPrice(tuple(t for t in terms if t.price), ())

    @cached_property
    def constant(self) -> int:
        """What the compute's own accesses load the resource with."""
        depth = len(self.space.levels)
        return sum(own[depth].exact(self.steps) for own in self.prices if depth in own)

    @cached_property
    def leak_per_cycle(self) -> int:
        """Leakage is no load."""
        return 0


class LoadBounds:
    """Least load of one resource, of all mappings of a subproblem that take less than `limit` cycles."""

    def __init__(self, sub: Subproblem, resource: int, limit: int, stop: Callable[[], bool]) -> None:
        busiest = max(0, limit - network_latency(sub.space.architecture))
        scale = FINEST_SCALE
        while scale > 1 and busiest * scale >= INFINITY:
            scale //= 2
        loaded = LoadSubproblem(sub.space, sub.mask, sub.spatial, 1, resource, scale)
        self.resource = resource
        self.scale = scale
        self.bounds = LatticeBounds(loaded, min(busiest * scale, INFINITY), sharp=True, stop=stop)

    @property
    def empty(self) -> bool:
        """Whether every mapping takes as many cycles as the limit."""
        return self.bounds.empty

    @property
    def least(self) -> float:
        """Least load in cycles."""
        return self.bounds.least / self.scale

    def inside(self, walk: Walk, level: int) -> IntArray:
        """Least load of the boundaries inside of a walk's tiles at `level`, in 1/``scale`` cycles."""
        known, tiles = self.bounds.stages[level - 1].tiles, walk.candidates.tiles
        places = np.minimum(np.searchsorted(known, tiles), len(known) - 1)
        once = sum(b.once for inner in self.bounds.boundaries[level + 1 :] for b in inner)
        found: IntArray = np.where(
            known[places] == tiles, walk.inside(self.bounds, level, places) + once, INFINITY
        )
        return found
