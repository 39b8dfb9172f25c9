"""What the search minimises, and which bounds can still improve on the incumbent."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from model.objective import ENERGY, LATENCY, objective_value
from model.sparse import FIXED_POINT, SparseEvaluation
from solver.sparse_search.grid import FloatArray

LEAST = 1 - 1e-9
"""Bounds in doubles are scaled down by more than they err."""


def _scale(objective: str) -> float:
    """Whole numbers of an objective's value per energy unit, cycle, or product of both, as a bound."""
    return 1.0 if objective == LATENCY else FIXED_POINT * LEAST


@dataclass
class SparseGoal:
    """One objective, the limits that earlier ones set, and the value of the best mapping so far.

    Parameters
    ----------
    objective
        Out of `model.objective.OBJECTIVES`.
    limits
        Pairs of an objective and the most that a mapping may come to.
    incumbent
        As of `SparseEvaluation.value`; None if there is no mapping yet.
    """

    objective: str
    limits: tuple[tuple[str, int], ...] = ()
    incumbent: int | None = None

    @property
    def counts_cycles(self) -> bool:
        """Whether cycles matter."""
        return any(name != ENERGY for name in (self.objective, *(name for name, _ in self.limits)))

    @property
    def counts_energy(self) -> bool:
        """Whether energy matters."""
        return any(name != LATENCY for name in (self.objective, *(name for name, _ in self.limits)))

    def values(self, energies: FloatArray, cycles: FloatArray) -> FloatArray:
        """Bounds on the objective from those on energy units and cycles; infinite beyond a limit."""
        values = objective_value(self.objective, energies, cycles) * _scale(self.objective)
        for name, most in self.limits:
            own = objective_value(name, energies, cycles) * _scale(name)
            values = np.where(own <= float(most), values, np.inf)
        return np.asarray(values)

    def improves(self, bound: float) -> bool:
        """Whether mappings with this bound may be better than the incumbent."""
        return np.isfinite(bound) and (self.incumbent is None or bound < float(self.incumbent))

    def allows(self, evaluation: SparseEvaluation) -> bool:
        """Whether a mapping is valid, keeps the limits, and is better than the incumbent."""
        if not evaluation.valid or any(evaluation.value(name) > most for name, most in self.limits):
            return False
        return self.incumbent is None or evaluation.value(self.objective) < self.incumbent
