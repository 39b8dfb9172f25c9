"""How the best mapping of an Einsum is found, and how it is proven to be the best."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from solver.notebook import load, map_einsum, map_fused, map_network
    from solver.result import Options, Progress, Result, Statistics, Status, Termination

FUNCTIONS = ("load", "map_einsum", "map_fused", "map_network")

__all__ = [
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
]


def __getattr__(name: str) -> object:
    """Import a public name from its home on first use, so that ``import solver`` costs nothing."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = "solver.notebook" if name in FUNCTIONS else "solver.result"
    return getattr(import_module(home), name)
