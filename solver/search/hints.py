"""Mappings that a heuristic soon finds: where bounds are loose, following them leads to poor ones."""

from __future__ import annotations

from contextlib import suppress

from model.mapspace import Mapspace
from solver.heuristics.interface import Budget, BudgetSpent, MapperError
from solver.heuristics.local_search import GreedyDescent
from solver.heuristics.pricing import Pricing
from solver.search.branching.skeleton import Priced
from solver.search.stopping import Stop


def hint(mapspace: Mapspace, objective: str, evaluations: int, seed: int, stop: Stop) -> list[Priced]:
    """The best mapping that greedy descents from random ones find, or nothing."""
    # Heuristics that cannot treat a mapspace are not needed for its optimum.
    with suppress(BudgetSpent, MapperError):
        pricing = Pricing(mapspace, (objective,), Budget(None, evaluations), seed, stop)
        if not pricing.batched:
            # One by one the search itself is faster.
            return []
        with suppress(BudgetSpent):
            GreedyDescent().find_mapping(mapspace, pricing)
        if pricing.best is not None:
            return [Priced(pricing.best.mapping, pricing.best.evaluation)]
    return []
