"""Mappings that a heuristic finds, to begin a search with."""

from __future__ import annotations

from contextlib import suppress

from model.mapspace import Mapspace
from solver.heuristics.interface import Budget, BudgetSpent, MapperError
from solver.heuristics.local_search import GreedyDescent
from solver.heuristics.pricing import Pricing
from solver.search.priced import Priced
from solver.search.stopping import Stop

FEW_HINTED, MANY_HINTED = 300, 1 << 15
"""Mappings that the heuristic may try: at first, or where they are priced one by one; and later."""


def hint(mapspace: Mapspace, objective: str, evaluations: int, seed: int, stop: Stop) -> list[Priced]:
    """The best mapping that greedy descents from random ones find, or nothing."""
    # Heuristics that cannot treat a mapspace are not needed for its optimum.
    if not _knows(mapspace):
        return []
    with suppress(BudgetSpent, MapperError):
        pricing = Pricing(mapspace, (objective,), Budget(None, evaluations), seed, stop)
        if not pricing.batched:
            # One by one takes much longer.
            few = Budget(None, min(evaluations, FEW_HINTED))
            pricing = Pricing(mapspace, (objective,), few, seed, stop)
        with suppress(BudgetSpent):
            GreedyDescent().find_mapping(mapspace, pricing)
        if pricing.best is not None:
            return [Priced(pricing.best.mapping, pricing.best.evaluation)]
    return []


def _knows(mapspace: Mapspace) -> bool:
    """Whether heuristics price its mappings."""
    ported = any(level.ports for level in mapspace.architecture.levels)
    return mapspace.counting_rule.is_general and not ported
