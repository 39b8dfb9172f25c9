"""The cost model for many mappings at once: arrays in, arrays out."""

from model.cost.batch.encoding import MappingBatch, encode
from model.cost.batch.evaluator import BatchEvaluation, BatchEvaluator

__all__ = ["BatchEvaluation", "BatchEvaluator", "MappingBatch", "encode"]
