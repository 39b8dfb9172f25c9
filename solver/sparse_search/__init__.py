"""The search for sparse data: branch and bound over tiles, with bounds on expected costs (docs/sparse.md)."""

from solver.sparse_search.densities import DensityPoint, density_sweep
from solver.sparse_search.mapper import SparseResult, SparseSearch, map_sparse, map_totals

__all__ = ["DensityPoint", "SparseResult", "SparseSearch", "density_sweep", "map_sparse", "map_totals"]
