"""The cost model: accesses, energy, cycles and limits of a mapping."""

from model.cost.plain import evaluate, evaluate_in
from model.cost.report import DataspaceCost, Evaluation, LevelCost, Violation

__all__ = ["DataspaceCost", "Evaluation", "LevelCost", "Violation", "evaluate", "evaluate_in"]
