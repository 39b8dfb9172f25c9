"""The cost model for many mappings at once: arrays in, arrays out."""

from model.cost.batch.evaluator import BatchEvaluation, BatchEvaluator
from model.cost.batch.mappings import MappingBatch, encode

__all__ = ["BatchEvaluation", "BatchEvaluator", "MappingBatch", "encode"]
