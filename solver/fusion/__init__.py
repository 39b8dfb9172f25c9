"""Fused cascades: the best tree of bodies, shared loops, stored and held tiles, and nests, with a proof."""

from solver.fusion.limits import FusionLimits, LimitError, NotSearchedError
from solver.fusion.mapper import fuse_cascade
from solver.fusion.result import FusedResult, FusionProgress

__all__ = [
    "FusedResult",
    "FusionLimits",
    "FusionProgress",
    "LimitError",
    "NotSearchedError",
    "fuse_cascade",
]
