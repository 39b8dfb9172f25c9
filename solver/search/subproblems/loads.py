"""Lower bounds on the load of one bandwidth, by the same dynamic program as for the energy."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Self

import numpy as np

from model.mapspace import EXACT
from solver.search.arrays import FloatArray, IntArray
from solver.search.goal import UNLIMITED, Goal
from solver.search.space.lattice import INFINITY
from solver.search.space.prices import (
    LARGEST_COST,
    BoundaryPrice,
    LoadTerm,
    PriceTerm,
)
from solver.search.space.search_space import SearchSpace
from solver.search.subproblems.combination import Combination, Uneven
from solver.search.subproblems.energies import EnergySubproblem

LARGEST_LOAD = INFINITY >> 2
"""Parts of a cycle up to which loads are told apart."""

DOUBLE_ROUNDING = 1 + Fraction(1, 10**12)
"""Cycles by Timeloop's rule are doubles before they are rounded up, and err by far less than this."""

PARTS = 4
"""Parts that a word loads a bandwidth with, at least: floating-point sums of loads err by less."""


@dataclass(frozen=True, kw_only=True)
class LoadSubproblem(Combination):
    """The mappings of `origin`, priced by what they load a bandwidth with instead of by energy.

    A load is counted in parts of a cycle, `scale` to the cycle. Without a `resource` nothing is loaded:
    then all that matters is which mappings there are.

    Parameters
    ----------
    origin
        The same mappings, priced by energy.
    resource
        Its place among those of the search space, or None.
    scale
        Parts per cycle. Prices are whole parts, rounded down, and ``quantum`` is 1.
    """

    origin: EnergySubproblem
    resource: int | None
    scale: Fraction

    @classmethod
    def of(cls, origin: EnergySubproblem, resource: int | None, scale: Fraction) -> LoadSubproblem:
        """The mappings of `origin`, priced by the load of `resource`."""
        kind = UnevenLoad if origin.space.uneven else cls
        mask, spatial = origin.mask, origin.spatial
        return kind(origin.space, mask, spatial, origin=origin, resource=resource, scale=scale)

    def on(self, space: SearchSpace) -> Self:
        """As of `Combination`."""
        return replace(self, space=space, origin=self.origin.on(space))

    @cached_property
    def prices(self) -> tuple[dict[int, BoundaryPrice], ...]:
        """Per dataspace, the load of each of its boundaries."""
        return tuple({b: self._loading(price) for b, price in own.items()} for own in self.origin.prices)

    def _loading(self, price: BoundaryPrice) -> BoundaryPrice:
        terms = [
            PriceTerm(min(int(t.share * self.scale), LARGEST_COST), t.multiplier, t.minus, 1)
            for t in price.loads
            if t.resource == self.resource
        ]
        return BoundaryPrice(tuple(t for t in terms if t.price), price.loads)

    @cached_property
    def constant(self) -> int:
        """What the compute's own accesses load the resource with."""
        depth = len(self.space.levels)
        besides = 0
        if self.resource is not None:
            besides = math.floor(self.space.resources[self.resource].besides(self.space.levels) * self.scale)
        return besides + sum(own[depth].exact(self.operations) for own in self.prices if depth in own)

    @cached_property
    def most(self) -> int:
        """Load that no mapping exceeds: each boundary gets a whole tile per iteration."""
        return self.constant + sum(
            price.exact(self._most_words(place, level))
            for place, own in enumerate(self.prices)
            for level, price in own.items()
            if level < len(self.space.levels)
        )

    def _most_words(self, place: int, level: int) -> int:
        """Words of a dataspace that one instance of `level` receives at most."""
        tables, tenants = self.space.tables[place], self.space.tenants(self.mask, level)

        def words() -> IntArray:
            tiles = self.space.feasible(level, tenants)
            traffic = tables.plain_words[tiles] * tables.irrelevant_tiles[tiles]
            return np.array([traffic.max(initial=0)])

        return -(-int(self.space.memo(("most words", place, level, tenants), words)[0]) // self.above[level])

    def limit(self, goal: Goal, energy: int = 0) -> int:
        """Least load of mappings that take `energy` or more and can no longer improve."""
        return self._first_load_above(goal.cycles_limit(energy) - 1)

    def idle(self, goal: Goal, energy: int = 0) -> bool:
        """Whether the resource decides nothing: others take longer in any case.

        Where only cycles count, it is enough that all mappings may improve. Bounds without any resource are
        never idle: they tell which mappings there are.
        """
        if self.resource is None:
            return False
        busy = self.least_cycles - self.space.latency
        if self.most <= busy * self.scale:
            return True
        limited = goal.cycles_limit(energy) < UNLIMITED and not goal.counts_energy
        return limited and self.most < self.limit(goal, energy)

    def loads_at(self, cost: int, loads: FloatArray) -> FloatArray:
        """The loads, at least one of which is the cost: only the busiest one counts.

        Parameters
        ----------
        loads
            In cycles, shape (resources,).
        """
        return np.maximum(loads, float(cost / self.scale))

    def costs(self, least: IntArray, constant: int, busiest: FloatArray) -> tuple[FloatArray, FloatArray]:
        """No energy, and cycles at least."""
        loaded = (least.astype(np.float64) + float(constant)) / float(self.scale)
        return np.zeros(len(least)), self.cycles_under(np.maximum(busiest, loaded))

    def improves(self, goal: Goal, least: int, cycles: int) -> bool:
        """Whether mappings may improve with the load `least` and `cycles`, or more."""
        return least < self.limit(goal) and goal.improves(0, cycles)

    def _first_load_above(self, cycles: int) -> int:
        """Least load at which the cost model says more than `cycles`, or a little more if it may not."""
        within = max(0, cycles - self.space.latency) * self.scale
        if self.space.mapspace.counting != EXACT:
            within *= DOUBLE_ROUNDING
        return math.floor(within) + 1


@dataclass(frozen=True, kw_only=True)
class UnevenLoad(Uneven, LoadSubproblem):
    """The same where loops may have remainders: the busiest instance does no less than all do on average."""

    @cached_property
    def most(self) -> int:
        """Load that no mapping exceeds: one instance may do everything."""
        return super().most * self.used[-1]


Searchable = EnergySubproblem | LoadSubproblem
"""Combinations with a cost of which a goal knows from where on it cannot improve: these are branched."""


def load_terms(sub: EnergySubproblem, resource: int | None) -> list[LoadTerm]:
    """All that loads a resource."""
    prices = (price for by_level in sub.prices for price in by_level.values())
    return [term for price in prices for term in price.loads if term.resource == resource]


def loaded(sub: EnergySubproblem, resource: int | None, goal: Goal, energy: int = 0) -> LoadSubproblem:
    """`sub` priced by the load of a resource, as finely as is of use for mappings of `energy` or more.

    Parameters
    ----------
    resource
        Its place among those of the search space, or None.
    goal
        Loads beyond what it allows need not be told apart.
    energy
        In energy units, a lower bound.

    Returns
    -------
    LoadSubproblem
        In `PARTS` or more to each word if all loads that matter are below `LARGEST_LOAD` then; else in fewer,
        and prices are rounded down.
    """
    exact = Fraction(PARTS * math.lcm(*(term.share.denominator for term in load_terms(sub, resource))))
    whole = LoadSubproblem.of(sub, resource, exact)
    most = min(goal.cycles_limit(energy), math.ceil(whole.most / exact)) + 1
    if most * exact < LARGEST_LOAD:
        return whole
    # Prices are rounded down then: bounds get weaker, and no mapping is lost.
    return LoadSubproblem.of(sub, resource, Fraction(LARGEST_LOAD, 1 << most.bit_length()))
