"""How energy and area change with the technology node.

The scale factors follow A. Stillmaker and B. Baas, "Scaling equations for the accurate prediction
of CMOS device performance from 180 nm to 7 nm", Integration 58 (2017): their quadratic fit of
energy over the supply voltage, evaluated at a usual supply of each node, and their area factors
for the 45 nm node. Between the nodes of the tables we interpolate linearly in the logarithms of
node and factor; down to 3 nm and up to 180 nm the slope of the outermost pair is continued, which
is a guess.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from itertools import pairwise

from model.energy.request import EnergyError

REFERENCE_NM = 45.0
SMALLEST_NM = 3.0
LARGEST_NM = 180.0
PLACEHOLDER_TECHNOLOGY = -1

_NODE = re.compile(r"(\d+(?:\.\d+)?)\s*(?:nm)?", re.IGNORECASE)

# Node in nm: supply in V, then the coefficients of V**2, V and 1 in the energy fit.
_ENERGY_FIT: Mapping[float, tuple[float, float, float, float]] = {
    130.0: (1.2, 7.171, -6.709, 2.904),
    90.0: (1.1, 4.762, -4.781, 2.092),
    65.0: (1.1, 3.755, -4.398, 1.975),
    45.0: (0.9, 1.103, -0.362, 0.2767),
    32.0: (0.9, 0.9559, -0.7823, 0.471),
    20.0: (0.8, 0.373, -0.1582, 0.04104),
    16.0: (0.8, 0.2958, -0.1241, 0.03024),
    14.0: (0.8, 0.2363, -0.09675, 0.02239),
    10.0: (0.75, 0.2068, -0.09311, 0.02375),
    7.0: (0.7, 0.1776, -0.09097, 0.02447),
}
_AREA_RELATIVE_TO_45_NM: Mapping[float, float] = {
    130.0: 6.4,
    90.0: 2.8,
    65.0: 1.5,
    45.0: 1.0,
    32.0: 0.46,
    20.0: 0.21,
    16.0: 0.19,
    14.0: 0.17,
    10.0: 0.10,
    7.0: 0.059,
}
_ENERGY: Mapping[float, float] = {
    node: square * volt**2 + linear * volt + constant
    for node, (volt, square, linear, constant) in _ENERGY_FIT.items()
}


def asks_for_placeholders(technology: object) -> bool:
    """Whether a technology asks for placeholder figures, as ``-1`` does in Accelergy."""
    return technology == PLACEHOLDER_TECHNOLOGY


def parse_node(technology: object) -> float:
    """Return the node in nanometres of ``45``, ``"45"``, ``"45nm"`` or ``"45 nm"``.

    Raises
    ------
    EnergyError
        For anything else, and outside of 3 nm to 180 nm.
    """
    match = None if isinstance(technology, bool) else _NODE.fullmatch(str(technology).strip())
    if match is None:
        raise EnergyError(
            f"attribute `technology` is {technology!r}, which is no technology node",
            hint="write 45nm, for example",
            about="technology",
        )
    node_nm = float(match[1])
    if not SMALLEST_NM <= node_nm <= LARGEST_NM:
        raise EnergyError(
            f"technology {node_nm:g} nm is outside of the estimator's range, "
            f"{SMALLEST_NM:g} nm to {LARGEST_NM:g} nm",
            hint="give the energies yourself, or an ERT",
            about="technology",
        )
    return node_nm


def energy_scale(node_nm: float) -> float:
    """Energy at a node relative to 45 nm, by the fit of Stillmaker and Baas (see the module)."""
    return _interpolated(_ENERGY, node_nm) / _ENERGY[REFERENCE_NM]


def area_scale(node_nm: float) -> float:
    """Area at a node relative to 45 nm, by the table of Stillmaker and Baas (see the module)."""
    return _interpolated(_AREA_RELATIVE_TO_45_NM, node_nm)


def _interpolated(table: Mapping[float, float], node_nm: float) -> float:
    """Interpolate (beyond the ends: extrapolate) linearly in log-log space."""
    nodes = sorted(table)
    pairs = list(pairwise(nodes))
    low, high = next((pair for pair in pairs if node_nm <= pair[1]), pairs[-1])
    share = math.log(node_nm / low) / math.log(high / low)
    return math.exp((1 - share) * math.log(table[low]) + share * math.log(table[high]))
