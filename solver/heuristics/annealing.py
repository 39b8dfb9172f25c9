"""Simulated annealing: many chains side by side, each step priced as one batch."""

from __future__ import annotations

import numpy as np

from model.cost.batch import MappingBatch
from model.mapspace import Mapspace
from solver.heuristics.moves import RandomMoves, valid_starts
from solver.heuristics.pricing import Pricing


class Annealing:
    """Runs of simulated annealing, each twice as long as the one before, until the budget is spent.

    A temperature t accepts a mapping that is ``exp(t)`` times as dear with a chance of 1/e: it compares
    ratios, so that it needs no scale. Each run starts at random valid mappings and cools evenly in the
    logarithm.

    Parameters
    ----------
    chains
        Mappings that are changed side by side.
    steps
        Moves of each chain in the first run.
    hottest, coldest
        First and last temperature.

    Raises
    ------
    ValueError
        No chains or steps, or temperatures that do not cool or are not above 0.
    """

    def __init__(
        self, chains: int = 512, steps: int = 100, hottest: float = 1.0, coldest: float = 0.003
    ) -> None:
        if chains < 1 or steps < 1:
            raise ValueError("chains and steps must be at least 1")
        if not 0 < coldest <= hottest:
            raise ValueError("temperatures must be above 0, and the first not below the last")
        self._chains = chains
        self._steps = steps
        self._hottest = hottest
        self._coldest = coldest

    def find_mapping(self, mapspace: Mapspace, pricing: Pricing) -> None:
        """Anneal until the budget is spent; the answer is the best mapping priced.

        Raises
        ------
        BudgetSpent
            In the end, always.
        MapperError
            If the rules leave no mapping.
        """
        random = np.random.default_rng(pricing.seed)
        moves = RandomMoves(pricing.rules)
        steps = self._steps
        while True:
            self._run(pricing, random, moves, steps)
            steps *= 2

    def _run(self, pricing: Pricing, random: np.random.Generator, moves: RandomMoves, steps: int) -> None:
        current = valid_starts(pricing, random, self._chains)
        scores = pricing.price_batch(current).scores
        for temperature in np.geomspace(self._hottest, self._coldest, steps):
            proposed = moves.apply(current, random)
            offered = pricing.price_batch(proposed).scores
            least = scores * np.exp(temperature * random.exponential(size=len(scores)))
            accepted = offered <= least
            scores = np.where(accepted, offered, scores)
            where = accepted[:, None, None]
            current = MappingBatch(
                np.where(where, proposed.factors, current.factors),
                np.where(where, proposed.order, current.order),
                np.where(where, proposed.keep, current.keep),
            )
