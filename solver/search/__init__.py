"""The search for the best mapping of one Einsum by bounds, and its proof."""

from solver.search.mapper import map_by_bounds

__all__ = ["map_by_bounds"]
