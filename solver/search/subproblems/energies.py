"""Combinations of a keep mask and spatial classes, priced by energy."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from model.architecture import StorageLevel
from model.cost.prices import paying_instances
from solver.search.arrays import FloatArray, IntArray
from solver.search.goal import SLACK, Goal
from solver.search.space.prices import LARGEST_TOTAL, BoundaryPrice, PriceList, Spread
from solver.search.subproblems.combination import Combination


@dataclass(frozen=True)
class EnergySubproblem(Combination):
    """The mappings of a combination, priced by energy, in the architecture's units."""

    @cached_property
    def prices(self) -> tuple[dict[int, BoundaryPrice], ...]:
        """Per dataspace, the price of each of its boundaries (by the level below)."""
        return tuple(self.priced(view.place, self.spread(view.place)) for view in self.space.views)

    def priced(self, place: int, spread: Spread) -> dict[int, BoundaryPrice]:
        """The prices of a dataspace's boundaries if its words spread so."""
        return self._price_list.boundaries(self.space.views[place].name, self.actions(place, spread))

    @cached_property
    def _price_list(self) -> PriceList:
        space = self.space
        paying = tuple(
            paying_instances(level, total, used)
            for used, total, level in zip(self.above, space.instances, space.levels, strict=False)
        )
        return PriceList(space.levels, paying, space.resources, self.quantum)

    @cached_property
    def leak_per_cycle(self) -> int:
        """Energy units that the instances in use leak per cycle, at least."""
        return sum(
            level.energy.leak_per_cycle * self._least_leaking(place, level)
            for place, level in enumerate(self.space.levels)
        )

    @cached_property
    def constant(self) -> int:
        """Energy units that all mappings here share at least: compute, its operands, leakage."""
        space = self.space
        compute = space.problem.computes * space.architecture.compute.energy
        operands = sum(
            prices[len(space.levels)].exact(self.steps)
            for prices in self.prices
            if len(space.levels) in prices
        )
        busy = self.least_cycles - space.latency
        return compute + operands * self.quantum + self.leak_per_cycle * busy

    def rounded_off(self, fewest: Mapping[tuple[int, int], int]) -> int:
        """Units that rounded prices leave out of every mapping's energy, at least."""
        if self.quantum == 1:
            return 0
        exact = replace(self, quantum=1)
        off = exact.constant - self.constant
        for (place, level), words in fewest.items():
            rounded = self.prices[place][level].exact(words)
            # Tables do not tell larger sums apart.
            if rounded < LARGEST_TOTAL:
                off += exact.prices[place][level].exact(words) - rounded * self.quantum
        return off

    def limit(self, goal: Goal) -> int:
        """Least energy that can no longer improve."""
        return goal.energy_limit(self.least_cycles)

    def costs(self, least: IntArray, constant: int, busiest: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Energy and cycles at least."""
        least_busy = float(self.least_cycles - self.space.latency)
        # Beside long latencies nothing is left of the difference.
        waiting = np.maximum(np.ceil(busiest * SLACK) - least_busy, 0.0) * float(self.leak_per_cycle)
        energies = least * float(self.quantum) + float(constant) + waiting
        return energies, self.cycles_under(busiest)

    def improves(self, goal: Goal, least: int, cycles: int) -> bool:
        """Whether mappings may improve that take `least` energy units and `cycles`, or more."""
        cycles = max(cycles, self.least_cycles)
        return least + self.leak_per_cycle * (cycles - self.least_cycles) < goal.energy_limit(cycles)

    def _least_leaking(self, place: int, level: StorageLevel) -> int:
        """Instances that leak at least; fewer than in truth only where a gate lies between two fanouts."""
        if level.gating_fanouts is None:
            return self.above[place]
        fanouts_above = 0
        gated_by = 0
        for stage, below in enumerate(self.space.fanouts_below[:place]):
            if fanouts_above + len(below) <= level.gating_fanouts:
                gated_by = stage + 1
            fanouts_above += len(below)
        behind = self.space.architecture.fanouts[level.gating_fanouts : fanouts_above]
        return max(self.above[place], self.above[gated_by] * math.prod(fanout.size for fanout in behind))
