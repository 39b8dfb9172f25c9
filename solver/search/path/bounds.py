"""Bounds on the objective under one keep mask: energy, cycles of the arithmetic, loads of bandwidths."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from solver.search.arrays import BoolArray, FloatArray, IntArray
from solver.search.goal import Goal
from solver.search.path.charges import ENERGY, MOST_GRAINS, Price
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
        floors = self.masked.floors(self.every, Price(0.0, ((resource, 1.0),)))
        return self._besides[resource] + float(floors.min())

    @cached_property
    def _loaded(self) -> float:
        """Cycles of the busiest resource, at least."""
        return max((self._least_load(r) for r in self._busy), default=0.0)

    def by_choice(self, steps: FloatArray) -> FloatArray:
        """Bounds by spatial choice, given the least steps of each; shape (choices,)."""
        cycles = self.cycles(np.full(len(steps), self._loaded), steps)
        fixed = self.masked.fixed(self.every, self.waiting(cycles, steps))
        energy = self.masked.charges.whole(fixed + self.masked.floors(self.every, ENERGY))
        return self.goal.values(energy, cycles)

    def values(self, limits: Limits, steps: FloatArray) -> FloatArray:
        """Bounds on the objective, given those on energy, loads and steps."""
        return self.goal.values(limits.energy, self.cycles(limits.loads, steps))

    def cycles(self, loads: FloatArray, steps: FloatArray) -> FloatArray:
        """Cycles, at least, of the slowest."""
        latency = float(self.masked.frame.space.latency)
        cycles: FloatArray = np.maximum(steps, np.ceil(loads * (1 - 1e-9))) + latency
        return cycles

    def waiting(self, cycles: FloatArray, steps: FloatArray) -> FloatArray:
        """Cycles in which instances leak, at least, where a mapping takes so many."""
        frame = self.masked.frame
        return np.maximum(steps, cycles - frame.space.latency - frame.counted.rounded_up)

    def floors(self, tiles: IntArray, choices: Unrolled, least_steps: float) -> FloatArray:
        """Bounds on tiles at the first boundary inside, whichever of some spatial choices there is."""
        loosest = Loosest(choices, len(tiles))
        steps = np.maximum(self.masked.inside.steps(tiles, loosest), least_steps)
        every = (self._bounded(tiles, loosest, leads, steps)[0] for leads in self.masked.labels())
        least: FloatArray = np.full(len(tiles), np.inf)
        for values in every:
            least = np.minimum(least, values)
        return least

    @property
    def _known(self) -> bool:
        """Whether there is anything to compare with."""
        return self.goal.incumbent is not None or bool(self.goal.limits)

    def _loads(self, known: dict[int, IntArray], unrolled: Unrolled, leads: Leads, close: bool) -> FloatArray:
        """Cycles of the busiest resource, at least."""
        loads: FloatArray = np.zeros(len(unrolled))
        limits = np.full(len(unrolled), np.inf) if close else None
        for r in self._busy:
            own = self.masked.cost(known, unrolled, leads, Price(0.0, ((r, 1.0),)), limits)
            loads = np.maximum(loads, self._besides[r] + own)
        return loads

    def closely(self, tiles: IntArray, unrolled: Unrolled, leads: Leads) -> tuple[FloatArray, FloatArray]:
        """Bounds on the objective, and on cycles, of tiles with spatial choices."""
        return self._bounded(tiles, unrolled, leads, self.masked.steps(tiles, unrolled))

    def _bounded(
        self, tiles: IntArray, unrolled: Unrolled, leads: Leads, steps: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """The same: ever closer, but only of rows that may improve."""
        first = self.masked.inside.first
        values, cycles = np.full(len(tiles), np.inf), np.full(len(tiles), np.inf)
        rows = np.flatnonzero(np.isfinite(steps))
        energy, loads = np.zeros(len(tiles)), np.full(len(tiles), self._loaded)
        for close in (False, True) if self._known else (False,):
            known, own = {first: tiles[rows]}, unrolled[rows]
            least = self.cycles(loads[rows], steps[rows])
            fixed = self.masked.fixed(own, self.waiting(least, steps[rows]))
            limits = self.goal.energy_limits(least) - fixed if close else None
            least_energy = fixed + self.masked.cost(known, own, leads, ENERGY, limits)
            energy[rows] = self.masked.charges.whole(least_energy)
            rows = self._hopeful(rows, energy, loads, steps)
            if not len(rows):
                break
            loads[rows] = np.maximum(
                loads[rows], self._loads({first: tiles[rows]}, unrolled[rows], leads, close)
            )
            rows = self._hopeful(rows, energy, loads, steps)
        cycles[rows] = self.cycles(loads[rows], steps[rows])
        values[rows] = self.goal.values(energy[rows], cycles[rows])
        return values, cycles

    def _hopeful(self, rows: IntArray, energy: FloatArray, loads: FloatArray, steps: FloatArray) -> IntArray:
        """Those of some rows whose bounds leave room for a better mapping."""
        values = self.values(Limits(energy[rows], loads[rows]), steps[rows])
        able: BoolArray = np.isfinite(values)
        if self.goal.incumbent is not None:
            able &= values < float(self.goal.incumbent)
        return self.live(rows[able], energy, self.cycles(loads, steps))

    def live(self, rows: IntArray, energy: FloatArray, cycles: FloatArray) -> IntArray:
        """Those of some rows that may improve where energies are few grains, so that doubles are exact."""
        grain = self.masked.charges.grain
        if not self._known or not len(rows) or float(energy[rows].max()) >= MOST_GRAINS * grain:
            return rows
        every, inverse = np.unique(cycles[rows], return_inverse=True)
        limits = [-(-self.goal.energy_limit(int(own)) // grain) for own in every]
        most = np.array([min(float(own), 2 * MOST_GRAINS) for own in limits])
        return rows[np.rint(energy[rows] / grain) < most[inverse.reshape(-1)]]
