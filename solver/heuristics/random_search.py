"""Random search: what Timeloop's mapper does with ``algorithm: random``, on batches."""

from __future__ import annotations

import numpy as np

from model.mapspace import Mapspace
from solver.heuristics.interface import MapperError
from solver.heuristics.pricing import BatchPrices, Pricing
from solver.heuristics.sampling import Sampler

BATCH = 4096


class RandomSearch:
    """Draws mappings uniformly until the budget or a stop condition ends it.

    The stop conditions mean what they mean in Timeloop's mapper, and end the search after exactly the
    mapping that fulfils them. They are off by default, as a budget is always set.

    Parameters
    ----------
    victory_condition
        Stop after so many valid mappings in a row that are not better than the best before; 0 is never.
    timeout
        Stop after so many invalid mappings in a row; 0 is never.

    Raises
    ------
    ValueError
        One of them is negative.
    """

    def __init__(self, victory_condition: int = 0, timeout: int = 0) -> None:
        if victory_condition < 0 or timeout < 0:
            raise ValueError("victory_condition and timeout must not be negative")
        self._victory_condition = victory_condition
        self._timeout = timeout

    def find_mapping(self, mapspace: Mapspace, pricing: Pricing) -> None:
        """Search until `pricing` or a condition ends it; the answer is the best mapping priced.

        Raises
        ------
        BudgetSpent
            Once the budget is spent, unless a condition was fulfilled before.
        MapperError
            If the rules leave no mapping.
        """
        sampler = Sampler(pricing.rules)
        if sampler.empty:
            raise MapperError("the rules of the mapspace leave no mapping")
        random = np.random.default_rng(pricing.seed)
        idle, invalid = 0, 0
        while True:
            # No condition can be fulfilled within so few mappings but by the last of them.
            count = min(
                BATCH,
                self._victory_condition - idle if self._victory_condition else BATCH,
                self._timeout - invalid if self._timeout else BATCH,
            )
            if count <= 0:
                return
            best = np.inf if pricing.best is None else float(pricing.best.values[0])
            prices = pricing.price_batch(sampler.draw(random, count))
            idle, invalid = _idle(prices, best, idle), _invalid(prices, invalid)


def _idle(prices: BatchPrices, best: float, before: int) -> int:
    """Valid mappings at the end of a batch since the last one that was better than all before."""
    scores = np.minimum.accumulate(np.append(best, prices.scores))
    improving = np.flatnonzero(scores[1:] < scores[:-1])
    if len(improving) == 0:
        return before + int(prices.allowed.sum())
    return int(prices.allowed[improving[-1] + 1 :].sum())


def _invalid(prices: BatchPrices, before: int) -> int:
    """Invalid mappings at the end of a batch since the last valid one."""
    valid = np.flatnonzero(prices.allowed)
    return before + len(prices.allowed) if len(valid) == 0 else len(prices.allowed) - 1 - int(valid[-1])
