"""The plain model of sparse data: expected counts, energy and cycles of one mapping (docs/sparse.md)."""

from model.sparse.evaluation import evaluate_sparse
from model.sparse.nest import MappingError
from model.sparse.report import SparseEvaluation

__all__ = ["MappingError", "SparseEvaluation", "evaluate_sparse"]
