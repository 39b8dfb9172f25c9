"""Joint bounds: a weighted sum of several costs, by the same dynamic program as for each of them.

A mapping that can still improve is below the limit of every cost, so its weighted sum of them is below
the sum of the limits. Costs that are low apart are often not low together: a tile that keeps the traffic
of one level small makes that of another large. So tiles go that no cost rules out by itself.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Self

from solver.search.goal import Goal
from solver.search.space.lattice import INFINITY
from solver.search.space.prices import LARGEST_COST, BoundaryPrice, PriceTerm
from solver.search.space.search_space import SearchSpace
from solver.search.subproblems.combination import Combination, Uneven
from solver.search.subproblems.loads import DOUBLE_ROUNDING, LoadSubproblem, Searchable

WHOLE = INFINITY >> 5
"""What the limit of a cost counts for, with weight 1."""


@dataclass(frozen=True)
class Cost:
    """A cost of mappings: a subproblem with its prices, and the least cost that cannot improve.

    Parameters
    ----------
    limit
        In units of the subproblem, exclusive.
    """

    sub: Searchable
    limit: int

    @property
    def room(self) -> int:
        """Quanta beyond the constant from which on nothing improves."""
        return max(1, -(-(self.limit - self.sub.constant) // self.sub.quantum))


@dataclass(frozen=True, kw_only=True)
class MixedSubproblem(Combination):
    """The mappings of a subproblem, priced by a weighted sum of costs, each as a share of its limit.

    Parameters
    ----------
    mixed
        Costs of the same mappings, one at least.
    weights
        One per cost, not negative; costs of weight 0 are left out.

    References
    ----------
    docs/search.md, "Bandwidths": joint bounds.
    """

    mixed: tuple[Cost, ...]
    weights: tuple[Fraction, ...]

    def on(self, space: SearchSpace) -> Self:
        """As of `Combination`."""
        mixed = tuple(Cost(cost.sub.on(space), cost.limit) for cost in self.mixed)
        return replace(self, space=space, mixed=mixed)

    @property
    def _shares(self) -> Iterator[tuple[Cost, Fraction]]:
        """Costs that count, with what a quantum of them is priced at."""
        for cost, weight in zip(self.mixed, self.weights, strict=True):
            if weight:
                yield cost, weight * WHOLE / cost.room

    @cached_property
    def prices(self) -> tuple[dict[int, BoundaryPrice], ...]:
        """Per dataspace, the weighted price of each of its boundaries, rounded down."""
        shares = list(self._shares)
        first = self.mixed[0].sub.prices
        return tuple(
            {level: self._mixed(place, level, shares) for level in own} for place, own in enumerate(first)
        )

    @staticmethod
    def _mixed(place: int, level: int, shares: Sequence[tuple[Cost, Fraction]]) -> BoundaryPrice:
        terms = (
            PriceTerm(
                min(math.floor(term.price * share), LARGEST_COST), term.multiplier, term.minus, term.block
            )
            for cost, share in shares
            for term in cost.sub.prices[place][level].terms
        )
        return BoundaryPrice(tuple(term for term in terms if term.price), ())

    @property
    def constant(self) -> int:
        """Every cost is counted from its constant on."""
        return 0

    @property
    def limit(self) -> int:
        """Least weighted sum that no mapping reaches which is below all limits."""
        return 1 + sum(math.ceil((cost.room - 1) * share) for cost, share in self._shares)

    def least_value(self, goal: Goal, total: int, energy: int, cycles: int) -> int:
        """Bound on the objective of mappings whose weighted sum is `total` or more.

        They take `energy` and `cycles` or more. What the sum demands beyond is left to either of them, as
        far as the goal's limits allow: between both ends, no objective is less than at the lesser one.
        """
        per_energy, per_cycle, needed = Fraction(0), Fraction(0), Fraction(total)
        for cost, share in self._shares:
            weight = share / cost.sub.quantum
            needed += weight * cost.sub.constant
            if isinstance(cost.sub, LoadSubproblem):
                per_cycle += weight * cost.sub.scale * DOUBLE_ROUNDING
            else:
                per_energy += weight
        needed += per_cycle * self.space.latency
        cheapest, dearest = Fraction(energy), Fraction(goal.energy_limit(cycles))
        fastest, slowest = Fraction(cycles), Fraction(goal.cycles_limit(energy))
        slow = _least(needed - per_energy * cheapest, per_cycle, fastest, slowest)
        dear = _least(needed - per_cycle * fastest, per_energy, cheapest, dearest)
        thrifty = _least(needed - per_cycle * slow, per_energy, cheapest, dear)
        quick = _least(needed - per_energy * dear, per_cycle, fastest, slow)
        ends = ((thrifty, slow), (dear, quick))
        return min(goal.value(math.floor(spent), math.floor(taken)) for spent, taken in ends)


@dataclass(frozen=True, kw_only=True)
class UnevenMix(Uneven, MixedSubproblem):
    """The same where loops may have remainders."""


def _least(needed: Fraction, each: Fraction, least: Fraction, most: Fraction) -> Fraction:
    """How much of a cost makes up for `needed`, if it counts for anything; between `least` and `most`."""
    return min(most, max(least, needed / each)) if each else least
