"""Types of DRAM, and the energy per bit at their interface, independent of the node.

DDR3 and LPDDR: K. Malladi et al., ISCA 2012; GDDR5 and HBM2: M. O'Connor et al., MICRO 2017; DDR4: Micron,
Hot Chips 2011 (309 mW per GB/s); LPDDR4: 512 pJ for 64 bits, as in the tables that Accelergy computed for
Timeloop's example designs.
"""

from __future__ import annotations

from collections.abc import Mapping

from model.energy.request import EnergyError
from model.text.source import did_you_mean

DRAM_PJ_PER_BIT: Mapping[str, float] = {
    "LPDDR": 40.0,
    "LPDDR4": 8.0,
    "DDR3": 70.0,
    "DDR4": 39.0,
    "GDDR5": 14.0,
    "HBM2": 3.9,
}
DEFAULT_DRAM = "LPDDR4"
_DRAM_WORDS = ("DRAM", "DDR", "HBM")
_DRAM_TYPES = ", ".join(sorted(DRAM_PJ_PER_BIT))


def dram_pj_per_bit(written: object) -> float:
    """Return the energy per bit of a DRAM, in picojoule.

    Raises
    ------
    EnergyError
        It is no known type.
    """
    kind = DEFAULT_DRAM if written is None else str(written).upper()
    if kind not in DRAM_PJ_PER_BIT:
        known = f"known types: {_DRAM_TYPES}; for others give the energies, or an ERT"
        hint = " ".join(filter(None, (did_you_mean(kind, DRAM_PJ_PER_BIT), known)))
        raise EnergyError(f"unknown DRAM type `{written}`", hint=hint, about="type")
    return DRAM_PJ_PER_BIT[kind]


def dram_hint(component_class: str) -> str | None:
    """Return how a DRAM is written, where an unknown class is named like one; None elsewhere.

    Parameters
    ----------
    component_class
        Such as ``LPDDR5``.
    """
    if not any(word in component_class.upper() for word in _DRAM_WORDS):
        return None
    return f"a DRAM has `class: DRAM` and a `type` ({_DRAM_TYPES}; others need energies or an ERT);"
