"""What the search minimises, and which energies and cycles can still improve on the incumbent."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from model.objective import objective_value
from solver.search.arrays import BoolArray, FloatArray

UNLIMITED = 1 << 400
"""An energy or a number of cycles that no mapping reaches: specs are limited to far less."""

SLACK = 1 - 1e-12
"""A product of two floating-point numbers errs by far less than this share."""


ROUNDED_UP = 1 + 1e-9
"""Far more than what floating-point numbers here err by."""


@dataclass(frozen=True, slots=True)
class Caps:
    """The most that a mapping may cost, in energy units, in cycles, and in their product; None is no cap."""

    energy: int | None = None
    cycles: int | None = None
    edp: int | None = None

    @property
    def limits(self) -> tuple[tuple[str, int], ...]:
        """The caps that there are, as limits of a `Goal`."""
        pairs = (("energy", self.energy), ("latency", self.cycles), ("edp", self.edp))
        return tuple((name, cap) for name, cap in pairs if cap is not None)


NO_CAPS = Caps()


@dataclass
class Goal:
    """One objective, the limits that earlier objectives set, and the best value so far.

    Every objective grows with energy and with cycles, so lower bounds on both bound the value.

    Parameters
    ----------
    objective
        "energy" (energy units), "latency" (cycles) or "edp" (their product).
    limits
        Pairs of such a name and the most that a mapping may come to, inclusive.
    incumbent
        Value of the best mapping; None if there is none yet.
    """

    objective: str
    limits: tuple[tuple[str, int], ...] = ()
    incumbent: int | None = None

    @property
    def counts_energy(self) -> bool:
        """Whether the energy of a mapping matters at all."""
        return self.objective != "latency" or any(name != "latency" for name, _ in self.limits)

    @property
    def counts_cycles(self) -> bool:
        """Whether the cycles of a mapping matter at all."""
        return self.objective != "energy" or any(name != "energy" for name, _ in self.limits)

    def value(self, energy: int, cycles: int) -> int:
        """Value of the objective."""
        return objective_value(self.objective, energy, cycles)

    def values(self, energies: FloatArray, cycles: FloatArray) -> FloatArray:
        """Objective of arrays of bounds, in floating point, rounded down; infinite beyond a limit."""
        within = np.isfinite(energies) & np.isfinite(cycles)
        for name, most in self.limits:
            within &= _rounded_down(name, energies, cycles) <= float(most)
        return np.where(within, _rounded_down(self.objective, energies, cycles), np.inf)

    def below(self, values: FloatArray) -> BoolArray:
        """Which lower bounds on the objective leave room for a better mapping."""
        able: BoolArray = np.isfinite(values)
        if self.incumbent is not None:
            able &= values < float(self.incumbent)
        return able

    def improves(self, energy: int, cycles: int) -> bool:
        """Whether a mapping with these costs is allowed and better than the incumbent."""
        return all(objective_value(name, energy, cycles) <= most for name, most in self._ceilings)

    @property
    def _ceilings(self) -> tuple[tuple[str, int], ...]:
        """The most that a mapping may cost which improves, by objective."""
        if self.incumbent is None:
            return self.limits
        return (*self.limits, (self.objective, self.incumbent - 1))

    def energy_limit(self, cycles: int) -> int:
        """Least energy that can no longer improve, for a mapping that takes `cycles` or more."""
        limits = (_first_energy_above(name, most, cycles) for name, most in self._ceilings)
        return min(limits, default=UNLIMITED)

    def energy_limits(self, cycles: FloatArray) -> FloatArray:
        """`energy_limit` for many numbers of cycles, above 0, in floating point and rounded up."""
        limits = np.full(len(cycles), np.inf)
        for name, most in (ceiling for ceiling in self._ceilings if ceiling[0] != "latency"):
            least_above = (float(most) + 1) / (cycles if name == "edp" else 1.0)
            np.minimum(limits, least_above * ROUNDED_UP, out=limits)
        return limits

    def cycles_limit(self, energy: int) -> int:
        """Least cycles that can no longer improve, for a mapping that takes `energy` or more."""
        limits = (_first_cycles_above(name, most, energy) for name, most in self._ceilings)
        return min(limits, default=UNLIMITED)

    def hopeful(self, energies: FloatArray, cycles: FloatArray) -> BoolArray:
        """Which pairs of lower bounds can still improve; never too strict in spite of rounding.

        Parameters
        ----------
        energies, cycles
            Shape (pairs,).
        """
        hopeful = np.ones(len(energies), dtype=np.bool_)
        for name, most in self._ceilings:
            hopeful &= _rounded_down(name, energies * SLACK, cycles) <= float(most)
        return hopeful


def _rounded_down(objective: str, energies: FloatArray, cycles: FloatArray) -> FloatArray:
    """Objective of arrays of bounds, in floating point; a product is scaled below the exact one."""
    if objective == "energy":
        return energies
    return cycles if objective == "latency" else energies * cycles * SLACK


def _first_energy_above(objective: str, most: int, cycles: int) -> int:
    """Least energy at which the objective exceeds `most`, 0 if it always does, `UNLIMITED` if none does."""
    if objective == "latency":
        return UNLIMITED if cycles <= most else 0
    return max(0, most // (cycles if objective == "edp" else 1) + 1)


def _first_cycles_above(objective: str, most: int, energy: int) -> int:
    """Least number of cycles at which the objective exceeds `most`, 0 if it always does.

    `UNLIMITED` if no number of cycles does, and for an energy of 0, which as a lower bound tells nothing.
    """
    if objective == "latency":
        return most + 1
    if energy == 0:
        return UNLIMITED
    if objective == "energy":
        return UNLIMITED if energy <= most else 0
    return most // energy + 1
