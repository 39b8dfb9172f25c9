"""Search for the best mapping of an Einsum, and the proof that it is the best."""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False  # not from `typing`: until `__main__` has begun, that may be a file of the user's

if TYPE_CHECKING:
    from solver.fusion import FusionLimits
    from solver.notebook import load, map_einsum, map_fused, map_network, traffic_curve
    from solver.result import Options, Progress, Result, Statistics, Status, Termination

HOMES = {
    "FusionLimits": "solver.fusion",
    **dict.fromkeys(("load", "map_einsum", "map_fused", "map_network", "traffic_curve"), "solver.notebook"),
}

__all__ = [
    "FusionLimits",
    "Options",
    "Progress",
    "Result",
    "Statistics",
    "Status",
    "Termination",
    "load",
    "map_einsum",
    "map_fused",
    "map_network",
    "traffic_curve",
]


def __getattr__(name: str) -> object:
    """Import a public name from its home on first use, so that ``import solver`` costs nothing."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(HOMES.get(name, "solver.result")), name)
