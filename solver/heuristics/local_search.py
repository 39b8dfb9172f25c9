"""Local searches: greedy descent by prime factors, and simulated annealing of many chains side by side."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from model.architecture import StorageLevel
from model.cost.batch import MappingBatch
from model.cost.batch.mappings import Integers
from model.extents import ANY, PERFECT
from model.mapspace import Mapspace
from solver.heuristics.pricing import BatchPrices, Pricing
from solver.heuristics.sampling import (
    RandomMoves,
    concatenated,
    factor_moves,
    keep_moves,
    order_moves,
    perfect_first,
    valid_starts,
)

STARTS = 256


class GreedyDescent:
    """Moves the prime factor that helps most into a node, as long as one helps, from the innermost node on.

    With every factor the best single change of a loop order is looked for, at the storage level that it is
    moved to and at the one above. After the outermost node the kept dataspaces follow, and it begins again
    until a whole pass helps no more: a local optimum. `descents` (0: as many as the budget allows) start at
    random; the first one at that of `STARTS` mappings with the most iterations at the outermost level.
    """

    knows_places = True

    def __init__(self, descents: int = 0) -> None:
        if descents < 0:
            raise ValueError("descents must not be negative")
        self._descents = descents

    def find_mapping(self, mapspace: Mapspace, pricing: Pricing) -> None:
        """Descend until the budget is spent; the answer is the best mapping priced."""
        random = np.random.default_rng(pricing.seed)
        starts = valid_starts(pricing, random, STARTS)
        outermost = mapspace.architecture.storage_indices[0]
        smallest = int(np.argmax(np.log(starts.factors[:, outermost]).sum(axis=1)))
        start = starts.part(np.array([smallest]))
        done = 0
        while True:
            for space in _spaces(mapspace, start):
                start = _Descent(space, pricing, start).run()
            done += 1
            if done == self._descents:
                return
            start = valid_starts(pricing, random, 1)


def _spaces(mapspace: Mapspace, starts: MappingBatch) -> Iterator[Mapspace]:
    """Yield the mapspaces to descend in: where factors may be any, and starts are perfect, that one first."""
    if mapspace.factors == ANY and len(_even_rows(mapspace, starts)) == len(starts):
        yield replace(mapspace, factors=PERFECT)
    yield mapspace


def _even_rows(mapspace: Mapspace, batch: MappingBatch) -> Integers:
    """Mappings without remainders."""
    whole = (batch.factors.prod(axis=1) == mapspace.problem.bounds).all(axis=1)
    return np.flatnonzero(whole)


MOST_REORDERED = 48
"""Mappings with another factor, where it may be any, whose loop orders are changed as well: the best ones."""


class _Descent:
    """One descent: the mapping where it stands, and its score, with remainders estimated."""

    def __init__(self, mapspace: Mapspace, pricing: Pricing, start: MappingBatch) -> None:
        self._mapspace = mapspace
        self._pricing = pricing
        self._current = start
        self._score = float(pricing.estimate_batch(start).scores[0])

    def run(self) -> MappingBatch:
        """Pass over all nodes until a pass does not help, and return where that ends."""
        before = np.inf
        while self._score < before:
            before = self._score
            for target in reversed(range(len(self._mapspace.architecture.nodes))):
                self._fill(target)
            self._improve(keep_moves(self._current, 0, self._pricing.rules))
        if self._mapspace.factors == ANY:
            around = self._neighbours()
            self._pricing.settle(around, self._pricing.estimate_batch(around))
        return self._current

    def _neighbours(self) -> MappingBatch:
        """Return the mapping and those with one other factor."""
        nodes = range(len(self._mapspace.architecture.nodes))
        moves = (factor_moves(self._current, 0, self._mapspace, node) for node in nodes)
        return concatenated([self._current, *moves])

    def _fill(self, target: int) -> None:
        """Move factors into the node `target` as long as that helps."""
        while self._improve(self._moves_to(target)):
            pass

    def _improve(self, candidates: MappingBatch) -> bool:
        """Step to the best of `candidates` if it is better."""
        prices = self._pricing.estimate_batch(candidates)
        scores = prices.scores
        best = int(np.argmin(scores)) if len(scores) else 0
        if not len(scores) or scores[best] >= self._score:
            return False
        self._current, self._score = candidates.part(np.array([best])), float(scores[best])
        return True

    def _moves_to(self, target: int) -> MappingBatch:
        moved = concatenated([self._current, factor_moves(self._current, 0, self._mapspace, target)])
        if self._mapspace.factors == ANY and len(moved) > MOST_REORDERED:
            scores = self._pricing.estimate_batch(moved).scores
            moved = moved.part(np.argsort(scores, kind="stable")[:MOST_REORDERED])
        return concatenated([moved, *self._reordered(moved, target)])

    def _reordered(self, moved: MappingBatch, target: int) -> Iterator[MappingBatch]:
        """Yield the mappings with one loop moved, at the level of `target` and the one above it."""
        architecture = self._mapspace.architecture
        levels = [level for level, at in enumerate(architecture.storage_indices) if at <= target]
        near = levels[-2:] if isinstance(architecture.nodes[target], StorageLevel) else levels[-1:]
        for row in range(len(moved)):
            self._pricing.check_budget()
            yield from (order_moves(moved, row, self._mapspace, level) for level in near)


class Annealing:
    """Runs of simulated annealing, each twice as long as the one before, until the budget is spent.

    A temperature t accepts a mapping that is ``exp(t)`` times as dear with a chance of 1/e: it compares
    ratios, so that it needs no scale. Each run starts at random valid mappings, so many `chains` side by
    side, and cools evenly in the logarithm; the first one makes `steps` moves of each. Where factors may
    be any, a run with perfect ones comes first, and goes on with any from where it ends, at a tenth of
    the heat.
    """

    knows_places = True

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
        """Anneal until the budget is spent; the answer is the best mapping priced."""
        random = np.random.default_rng(pricing.seed)
        moves = [RandomMoves(rules) for rules in perfect_first(pricing.rules)]
        steps = self._steps
        while True:
            current = valid_starts(pricing, random, self._chains)
            even = _even_rows(mapspace, current)
            hottest = self._hottest
            if len(moves) > 1 and len(even):
                current = current.part(np.resize(even, self._chains))
                current = self._anneal(pricing, random, moves[0], current, steps, hottest)
                hottest = max(self._coldest, hottest / 10)
            self._anneal(pricing, random, moves[-1], current, steps, hottest)
            steps *= 2

    def _anneal(
        self,
        pricing: Pricing,
        random: np.random.Generator,
        moves: RandomMoves,
        current: MappingBatch,
        steps: int,
        hottest: float,
    ) -> MappingBatch:
        scores = pricing.estimate_batch(current).scores
        for temperature in np.geomspace(hottest, self._coldest, steps):
            proposed = moves.apply(current, random)
            offered = pricing.estimate_batch(proposed).scores
            least = scores * np.exp(temperature * random.exponential(size=len(scores)))
            accepted = offered <= least
            scores = np.where(accepted, offered, scores)
            where = accepted[:, None, None]
            current = MappingBatch(
                np.where(where, proposed.factors, current.factors),
                np.where(where, proposed.order, current.order),
                np.where(where, proposed.keep, current.keep),
            )
        pricing.settle(current, BatchPrices(np.isfinite(scores), scores[:, None]))
        return current
