"""How the best mapping of an Einsum is found, and how it is proven to be the best."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from solver.result import Options, Progress, Result, Statistics, Status, Termination
    from solver.search import map_einsum

__all__ = ["Options", "Progress", "Result", "Statistics", "Status", "Termination", "map_einsum"]


def __getattr__(name: str) -> object:
    """Import a public name from its home on first use, so that ``import solver`` costs nothing."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = "solver.search" if name == "map_einsum" else "solver.result"
    return getattr(import_module(home), name)
