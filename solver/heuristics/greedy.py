"""Greedy factor descent: fill the nodes from the innermost outwards, one prime factor at a time."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from model.architecture import StorageLevel
from model.cost.batch import MappingBatch
from model.mapspace import Mapspace
from solver.heuristics.moves import factor_moves, joined, keep_moves, order_moves, valid_starts
from solver.heuristics.pricing import Pricing

STARTS = 1024


class GreedyDescent:
    """Moves the prime factor that helps most into a node, as long as one helps, from the innermost node on.

    At a storage level the orders of the loops above compete as well: every factor that is moved there is
    tried with what then is the best single change of an order. After the outermost node the kept
    dataspaces follow, and it begins anew until a whole pass helps no more: a local optimum. It starts
    where inner tiles are small.
    """

    def find_mapping(self, mapspace: Mapspace, pricing: Pricing) -> None:
        """Descend once; the answer is the best mapping priced."""
        current = _start(mapspace, pricing)
        score = np.inf
        while True:
            for target in reversed(range(len(mapspace.architecture.nodes))):
                current = _descend(current, mapspace, pricing, target)
            current = _best_of(joined([current, keep_moves(current, 0, pricing.rules)]), pricing)
            reached = pricing.price_batch(current).scores[0]
            if reached >= score:
                return
            score = reached


def _start(mapspace: Mapspace, pricing: Pricing) -> MappingBatch:
    """Return a mapping with as much as possible in the outermost level."""
    starts = valid_starts(pricing, np.random.default_rng(pricing.seed), STARTS)
    outermost = mapspace.architecture.storage_indices[0]
    return starts.part(np.argsort(-np.log(starts.factors[:, outermost]).sum(axis=1), kind="stable")[:1])


def _descend(current: MappingBatch, mapspace: Mapspace, pricing: Pricing, target: int) -> MappingBatch:
    """Move factors into `target`, and loops of the levels, as long as it helps."""
    while True:
        before = pricing.price_batch(current).scores[0]
        moved = joined([current, factor_moves(current, 0, mapspace, target)])
        current = _best_of(joined([moved, *_reordered(moved, mapspace, target)]), pricing)
        if pricing.price_batch(current).scores[0] >= before:
            return current


def _reordered(moved: MappingBatch, mapspace: Mapspace, target: int) -> Iterator[MappingBatch]:
    """Yield the mappings with one loop moved, at the level of `target` and the one above it."""
    nodes = mapspace.architecture.nodes
    levels = [level for level, at in enumerate(mapspace.architecture.storage_indices) if at <= target]
    for row in range(len(moved)):
        for level in levels[-2:] if isinstance(nodes[target], StorageLevel) else levels[-1:]:
            yield order_moves(moved, row, mapspace, level)


def _best_of(candidates: MappingBatch, pricing: Pricing) -> MappingBatch:
    best = int(np.argmin(pricing.price_batch(candidates).scores))
    return candidates.part(np.array([best]))
