"""The search for the best mapping of one Einsum, and its proof."""

from solver.search.mapper import map_einsum

__all__ = ["map_einsum"]
