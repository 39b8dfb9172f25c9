"""The plain model of sparse data: expected counts, energy and cycles of one mapping (docs/sparse.md)."""

from model.sparse.evaluation import evaluate_sparse, evaluate_sparse_in, evaluate_totals
from model.sparse.nest import MappingError
from model.sparse.report import FIXED_POINT, SparseEvaluation

__all__ = [
    "FIXED_POINT",
    "MappingError",
    "SparseEvaluation",
    "evaluate_sparse",
    "evaluate_sparse_in",
    "evaluate_totals",
]
