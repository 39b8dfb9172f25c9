"""The search for sparse data: branch and bound over tiles, with bounds on expected costs (docs/sparse.md)."""

from solver.sparse_search.densities import DensityPoint, density_sweep
from solver.sparse_search.mapper import (
    Priced,
    SparseResult,
    first_mapping,
    lack_of_remainders,
    map_sparse,
    map_totals,
    sparse_search,
)

__all__ = [
    "DensityPoint",
    "Priced",
    "SparseResult",
    "density_sweep",
    "first_mapping",
    "lack_of_remainders",
    "map_sparse",
    "map_totals",
    "sparse_search",
]
