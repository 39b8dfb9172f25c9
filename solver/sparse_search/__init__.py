"""The search for sparse data: branch and bound over tiles, with bounds on expected costs (docs/sparse.md)."""

from solver.sparse_search.mapper import (
    detailed,
    first_mapping,
    judged,
    lack_of_remainders,
    map_sparse_by_bounds,
    searchable,
    sparse_search,
    without_zeros,
)

__all__ = [
    "detailed",
    "first_mapping",
    "judged",
    "lack_of_remainders",
    "map_sparse_by_bounds",
    "searchable",
    "sparse_search",
    "without_zeros",
]
