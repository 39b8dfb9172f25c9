"""Fused cascades: the best tree of bodies, shared loops, stored and held tiles, and nests, with a proof."""

from solver.fusion.mapper import FusedResult, FusionProgress, fuse_cascade
from solver.fusion.space import FusionLimits, LimitError, NotSearchedError

__all__ = [
    "FusedResult",
    "FusionLimits",
    "FusionProgress",
    "LimitError",
    "NotSearchedError",
    "fuse_cascade",
]
