"""The search for sparse data: branch and bound over tiles, with bounds on expected costs (docs/sparse.md)."""

from solver.sparse_search.densities import DensityPoint, density_sweep
from solver.sparse_search.mapper import SparseResult, map_sparse

__all__ = ["DensityPoint", "SparseResult", "density_sweep", "map_sparse"]
