"""Prices of energy and the load of one bandwidth together: some paths save the one, others the other."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from solver.search.path.bounds import Bounds
from solver.search.path.charges import ENERGY, Price
from solver.search.path.inside import Listed

MARGIN = 1e-9
"""Far more than floating-point numbers err by here, as a share."""

STEPS = 4
"""Weights that differ by less than one part in so many of a power of two are the same: they share tables."""


@dataclass(frozen=True)
class Mixed:
    """Energy units and cycles of a resource, weighted.

    Parameters
    ----------
    resource, weight
        Energy units that a cycle of its load counts as.
    besides
        What has to be added for what words do not cost.
    energy, cycles
        Of each path, at least.
    is_product
        Whether the value is the product of energy and cycles; else it is no less than the weighted sum.
    """

    resource: int
    weight: float
    besides: float
    energy: float
    cycles: float
    is_product: bool

    @property
    def price(self) -> Price:
        """Of words."""
        return Price(1.0, ((self.resource, self.weight),))

    def value(self, cost: float) -> float:
        """The objective, at least, where words cost so much."""
        total = (cost + self.besides) * (1 - MARGIN)
        if not self.is_product:
            return total
        # Where the sum is given, the product is least at an end.
        dear = self.energy * (total - self.energy) / self.weight
        slow = (total - self.weight * self.cycles) * self.cycles
        return max(min(dear, slow), self.energy * self.cycles) * (1 - MARGIN)

    def limit(self, incumbent: float) -> float:
        """What words cost of no path that is better than the incumbent."""
        total = incumbent
        if self.is_product:
            dear = self.energy + self.weight * incumbent / self.energy
            total = max(dear, incumbent / self.cycles + self.weight * self.cycles)
        return total * (1 + MARGIN) - self.besides


def mixes(bounds: Bounds, row: Listed, cycles: float) -> Iterator[Mixed]:
    """Yield the prices that may say more of one row than its energy does, given its least cycles."""
    masked, objective = bounds.masked, bounds.goal.objective
    steps = masked.steps(row.tiles[masked.inside.first], row.unrolled)
    fixed = float(masked.fixed(row.unrolled, bounds.waiting(np.array([cycles]), steps))[0])
    energy = (fixed + float(masked.cost(row, ENERGY)[0])) * (1 - MARGIN)
    compute = float(masked.charges.compute_energy)
    if objective == "edp":
        weight, more = _rounded_down(energy / cycles), fixed
        beside = float(masked.frame.space.latency)
    else:
        weight, more = _rounded_down(float(masked.inside.leak(row.unrolled)[0])), compute
        beside = 0.0
    for resource in bounds.busy if weight else ():
        besides = more + weight * (bounds.besides[resource] + beside)
        yield Mixed(resource, weight, besides, energy, cycles, objective == "edp")


def _rounded_down(weight: float) -> float:
    """One of few weights, no larger than this one."""
    return 2.0 ** (math.floor(math.log2(weight) * STEPS) / STEPS) if weight > 0 else 0.0
