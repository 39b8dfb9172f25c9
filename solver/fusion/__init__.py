"""Fused cascades: the best tree of bodies, shared loops, stored and held tiles, and nests, with a proof."""

from solver.fusion.limits import FusionLimits, LimitError, NotSearchedError
from solver.fusion.mapper import FusedResult, FusionProgress, fuse_cascade

__all__ = [
    "FusedResult",
    "FusionLimits",
    "FusionProgress",
    "LimitError",
    "NotSearchedError",
    "fuse_cascade",
]
