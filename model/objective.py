"""What mappings are compared by: energy, latency, or the product of both."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Doubles = npt.NDArray[np.float64]

ENERGY, LATENCY, EDP = OBJECTIVES = ("energy", "latency", "edp")

ADDITIVE = (ENERGY, LATENCY)
"""Objectives that add up over layers; the product of both does not."""

UNITS = {ENERGY: "pJ", LATENCY: "cycles", EDP: "pJ*cycles"}
"""What people read, see `in_reported_unit`."""

TIMELOOP_METRICS = {"delay": LATENCY}
"""Objectives that Timeloop has other names of."""

Quantity = TypeVar("Quantity", int, "Doubles")
"""Of one mapping, exact; or of many."""


def objective_value(objective: str, energy: Quantity, cycles: Quantity) -> Quantity:
    """Return the value of one of `OBJECTIVES`, exact for integers; KeyError if there is no such objective.

    Energy is in energy units; it and the cycles may also be doubles of shape ``(mappings,)``.
    """
    if objective == ENERGY:
        return energy
    if objective == LATENCY:
        return cycles
    if objective != EDP:
        raise KeyError(objective)
    return energy * cycles


def in_reported_unit(objective: str, quantity: int, units_per_pj: int) -> float | int:
    """Convert an exact objective value to what people read: pJ, cycles (an int) or pJ * cycles."""
    return quantity if objective == LATENCY else quantity / units_per_pj


TOTAL, LAYERS, METHODS = CRITERIA = ("total", "layers", "methods")
"""What the array of an assignment may be chosen by: the assignment's total; the layers' cheapest methods,
transitions left out; the sum over all methods of all layers, as in the published notebook."""
