"""Bounds on the objective under one keep mask: energy, cycles of the arithmetic, and loads of bandwidths together."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from solver.search.arrays import BoolArray, FloatArray, IntArray
from solver.search.goal import Goal
from solver.search.path.charges import ENERGY, Price
from solver.search.path.inside import Loosest, Unrolled
from solver.search.path.masked import Leads, Masked

BUSY = 0.25
"""Resources are looked at which words load for this share of the least cycles of the arithmetic, or more."""


class Limits(NamedTuple):
    """Least energy units and least cycles of loads, shape (rows,) each."""

    energy: FloatArray
    loads: FloatArray

    def at(self, rows: IntArray | BoolArray) -> Limits:
        """Some of the rows."""
        return Limits(self.energy[rows], self.loads[rows])


@dataclass(frozen=True)
class Bounds:
    """Bounds on rows under one mask.

    Parameters
    ----------
    masked
        What rows cost.
    goal
        The objective, and its incumbent.
    every
        All spatial choices.
    steps
        Cycles of the arithmetic, at least.
    """

    masked: Masked
    goal: Goal
    every: Unrolled
    steps: float

    @cached_property
    def _besides(self) -> tuple[float, ...]:
        space = self.masked.frame.space
        return tuple(float(resource.besides(space.levels)) for resource in space.resources)

    @cached_property
    def _busy(self) -> tuple[int, ...]:
        """Resources whose loads may decide."""
        if not self.goal.counts_cycles:
            return ()
        loads = (self._least_load(r) for r in range(len(self.masked.frame.space.resources)))
        return tuple(r for r, load in enumerate(loads) if load >= BUSY * self.steps)

    def _least_load(self, resource: int) -> float:
        return self._besides[resource] + self.masked.floor(self.every, Price(0.0, ((resource, 1.0),)))

    @cached_property
    def _least(self) -> tuple[float, float]:
        """Energy units and loads of any mapping, at least."""
        loads = max((self._least_load(r) for r in self._busy), default=0.0)
        one = Loosest(self.every, 1)
        fixed = float(self.masked.fixed(one, np.array([max(self.steps, loads)]))[0])
        return fixed + self.masked.floor(self.every, ENERGY), loads

    @property
    def floor(self) -> float:
        """A bound on all mappings."""
        energy, loads = self._least
        return float(self.values(Limits(np.array([energy]), np.array([loads])), np.array([self.steps]))[0])

    def values(self, limits: Limits, steps: FloatArray) -> FloatArray:
        """Bounds on the objective, given those on energy, loads and steps."""
        return self.goal.values(limits.energy, self.cycles(limits.loads, steps))

    def cycles(self, loads: FloatArray, steps: FloatArray) -> FloatArray:
        """Cycles, at least, of the slowest."""
        latency = float(self.masked.frame.space.latency)
        cycles: FloatArray = np.maximum(steps, np.ceil(loads * (1 - 1e-9))) + latency
        return cycles

    def floors(self, tiles: IntArray, choices: Unrolled, least_steps: float) -> tuple[Limits, FloatArray]:
        """Bounds on tiles at the first boundary inside, whichever of some spatial choices there is, and steps."""
        masked, rows = self.masked, len(tiles)
        loosest = Loosest(choices, rows)
        known, none = {masked.inside.first: tiles}, np.full(rows, np.inf)
        energy, loads = none, none
        steps = np.maximum(masked.inside.steps(tiles, loosest), least_steps)
        fixed = masked.fixed(loosest, steps)
        limits = self._energy_limits(np.full(rows, self._least[1]), steps) - fixed
        for leads in masked.labels():
            own = masked.cost(known, loosest, leads, ENERGY, limits if self._known else None)
            energy = np.minimum(energy, fixed + own)
            loads = np.minimum(loads, self._loads(known, loosest, leads, None))
        return Limits(energy, loads), steps

    @property
    def _known(self) -> bool:
        """Whether there is anything to compare with."""
        return self.goal.incumbent is not None or bool(self.goal.limits)

    def _energy_limits(self, loads: FloatArray, steps: FloatArray) -> FloatArray:
        cycles = self.cycles(loads, steps)
        limits: FloatArray = np.where(
            np.isfinite(cycles), self.goal.energy_limits(np.minimum(cycles, 1e300)), 0.0
        )
        return limits

    def _loads(
        self, known: dict[int, IntArray], unrolled: Unrolled, leads: Leads, limits: FloatArray | None
    ) -> FloatArray:
        loads = np.zeros(len(unrolled))
        for r in self._busy:
            own = self.masked.cost(known, unrolled, leads, Price(0.0, ((r, 1.0),)), limits)
            loads = np.maximum(loads, self._besides[r] + own)
        return loads

    def closely(self, tiles: IntArray, unrolled: Unrolled, leads: Leads) -> tuple[FloatArray, FloatArray]:
        """Bounds on the objective, and on cycles, of tiles with spatial choices."""
        masked = self.masked
        known = {masked.inside.first: tiles}
        steps = masked.steps(tiles, unrolled)
        values, cycles = np.full(len(tiles), np.inf), np.full(len(tiles), np.inf)
        rows = np.flatnonzero(np.isfinite(steps))
        if not len(rows):
            return values, cycles
        known, unrolled, steps = {b: own[rows] for b, own in known.items()}, unrolled[rows], steps[rows]
        loads = self._loads(known, unrolled, leads, np.full(len(rows), np.inf) if self._known else None)
        least = self.cycles(loads, steps)
        fixed = masked.fixed(unrolled, np.where(np.isfinite(least), least, 0.0) - masked.frame.space.latency)
        limits = self._energy_limits(loads, steps) - fixed
        energy = fixed + masked.cost(known, unrolled, leads, ENERGY, limits if self._known else None)
        values[rows], cycles[rows] = self.goal.values(energy, least), least
        return values, cycles
