"""Timeloop's searches: random, and linear-pruned, which prices all mappings of a small mapspace in order."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from itertools import permutations

import numpy as np

from model.choices import allowed_factors
from model.cost.batch import MappingBatch
from model.cost.batch.evaluator import MAPPINGS_PER_CHUNK
from model.cost.batch.mappings import Booleans, Integers
from model.extents import PERFECT
from model.mapspace import Mapspace, TemporalRules
from model.mapspace_size import mapspace_size
from solver.heuristics.interface import MapperError
from solver.heuristics.pricing import BatchPrices, Pricing
from solver.heuristics.rules import MapspaceRules
from solver.heuristics.sampling import Sampler, concatenated


class RandomSearch:
    """Draws mappings uniformly until the budget or a stop condition ends it.

    The stop conditions mean what they mean in Timeloop's mapper, and end the search after exactly the
    mapping that fulfils them; 0 turns them off. They are `victory_condition` valid mappings in a row that are
    not better than the best before, and `timeout` invalid ones in a row. Remainders are compared by
    estimates, and the best of a batch is priced exactly.
    """

    knows_places = True

    def __init__(self, victory_condition: int = 0, timeout: int = 0) -> None:
        if victory_condition < 0 or timeout < 0:
            raise ValueError("victory_condition and timeout must not be negative")
        self._victory_condition = victory_condition
        self._timeout = timeout

    def find_mapping(self, mapspace: Mapspace, pricing: Pricing) -> None:
        """Search until `pricing` or a condition ends it; the answer is the best mapping priced."""
        sampler = Sampler(pricing.rules)
        if sampler.empty:
            raise MapperError("the rules of the mapspace leave no mapping")
        random = np.random.default_rng(pricing.seed)
        idle, invalid, best = 0, 0, np.inf
        while True:
            # No condition can be fulfilled within so few mappings but by the last of them.
            count = min(
                MAPPINGS_PER_CHUNK,
                self._victory_condition - idle if self._victory_condition else MAPPINGS_PER_CHUNK,
                self._timeout - invalid if self._timeout else MAPPINGS_PER_CHUNK,
            )
            if count <= 0:
                return
            prices = pricing.estimate_batch(sampler.draw(random, count))
            idle, invalid = _idle(prices, best, idle), _invalid(prices, invalid)
            best = min(best, float(prices.scores.min()))


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


class LinearPruned:
    """Prices every mapping, factorization by factorization, leaving out those that cannot matter.

    Factors that break a rule or find no room on a mesh are dropped with all their orders and kept
    dataspaces, and those that overflow a level with all their orders. Only loops that iterate are put in
    different orders, and those of the innermost storage level are not: no reuse depends on them. It ends
    with an optimum once all is seen. Mapspaces with more than `largest` mappings are refused: the part that
    can be seen in time says nothing about the rest.
    """

    def __init__(self, largest: int = 100_000_000) -> None:
        self._largest = largest

    def find_mapping(self, mapspace: Mapspace, pricing: Pricing) -> None:
        """Enumerate until the end or until the budget is spent; the answer is the best mapping priced."""
        size = mapspace_size(mapspace).mappings
        if size > self._largest:
            raise MapperError(f"the mapspace has {Decimal(size):.1e} mappings, too many to enumerate")
        for batch in _in_larger_batches(_reordered(mapspace, pricing)):
            pricing.price_batch(batch)


def _reordered(mapspace: Mapspace, pricing: Pricing) -> Iterator[MappingBatch]:
    """Yield what is not priced yet of all mappings that fit."""
    keeps = pricing.rules.keep_masks()
    for factors in _factorizations(mapspace, pricing.rules):
        pricing.check_budget()
        for fitting in _allowed_batches(factors, keeps, mapspace, pricing):
            yield from _with_orders(fitting, mapspace)


def _in_larger_batches(batches: Iterable[MappingBatch]) -> Iterator[MappingBatch]:
    """Yield larger batches: small ones cost more time per mapping."""
    waiting: list[MappingBatch] = []
    count = 0
    for batch in batches:
        waiting.append(batch)
        count += len(batch)
        if count >= MAPPINGS_PER_CHUNK:
            yield concatenated(waiting)
            waiting, count = [], 0
    if waiting:
        yield concatenated(waiting)


def _factorizations(mapspace: Mapspace, rules: MapspaceRules) -> Iterator[Integers]:
    """Yield factors that fit the rules of single factors and the meshes, shape ``(n, nodes, dims)``."""
    splits = [_factor_chains(mapspace, number) for number in range(len(mapspace.problem.dims))]
    sizes = [len(split) for split in splits]
    total = math.prod(sizes)
    for start in range(0, total, MAPPINGS_PER_CHUNK):
        chosen = np.unravel_index(np.arange(start, min(start + MAPPINGS_PER_CHUNK, total)), sizes)
        factors = np.stack([split[rows] for split, rows in zip(splits, chosen, strict=True)], axis=2)
        yield factors[rules.fits_meshes(factors)]


def _factor_chains(mapspace: Mapspace, number: int) -> Integers:
    """Chains of factors of one dimension within the rules, shape ``(n, nodes)``."""
    dim, bound = mapspace.problem.dims[number], mapspace.problem.bounds[number]
    found = np.ones((1, 0), dtype=np.int64)
    rest = np.array([bound], dtype=np.int64)
    for own in reversed(mapspace.factor_rules):
        factors = allowed_factors(own, dim, bound, mapspace.factors)
        if mapspace.factors == PERFECT:
            rows = [np.flatnonzero(rest % factor == 0) for factor in factors]
        else:
            rows = [np.flatnonzero(rest >= factor) for factor in factors]
        column = np.repeat(np.array(factors, dtype=np.int64), [len(own) for own in rows])
        taken = np.concatenate(rows) if rows else np.zeros(0, dtype=np.int64)
        found = np.concatenate([column[:, None], found[taken]], axis=1)
        rest = -(-rest[taken] // column)
    complete: Integers = found[rest == 1]
    return complete[np.lexsort(complete.T)]


def _allowed_batches(
    factors: Integers, keeps: Booleans, mapspace: Mapspace, pricing: Pricing
) -> Iterator[MappingBatch]:
    """Yield, per factorization, the mappings in one order that break neither a rule nor a limit."""
    order = _first_order(mapspace)
    together = max(1, MAPPINGS_PER_CHUNK // max(1, len(keeps)))
    for start in range(0, len(factors), together):
        part = factors[start : start + together]
        rows = np.repeat(np.arange(len(part)), len(keeps))
        orders = np.broadcast_to(order, (len(rows), *order.shape))
        batch = MappingBatch(part[rows], orders, np.tile(keeps, (len(part), 1, 1)))
        allowed = pricing.price_batch(batch).allowed
        for row in np.unique(rows[allowed]):
            yield batch.part(np.flatnonzero(allowed & (rows == row)))


def _first_order(mapspace: Mapspace) -> Integers:
    """The order that the rules say, other dimensions as the problem has them, shape ``(levels, dims)``."""
    orders = []
    for rules in mapspace.temporal:
        middle = [dim for dim in mapspace.problem.dims if dim not in (*rules.inner, *rules.outer)]
        orders.append([mapspace.problem.dims.index(dim) for dim in (*rules.inner, *middle, *rules.outer)])
    return np.array(orders, dtype=np.int64)


def _with_orders(fitting: MappingBatch, mapspace: Mapspace) -> Iterator[MappingBatch]:
    """Yield all orders of mappings with the same factors, but for the first one, which is priced already."""
    first, factors, dims = fitting.order[0], fitting.factors[0], mapspace.problem.dims
    choices = [
        np.array(list(_level_orders(order, factors[position], rules, dims)), dtype=np.int64)
        for order, position, rules in zip(
            first[:-1], mapspace.architecture.storage_indices[:-1], mapspace.temporal[:-1], strict=True
        )
    ]
    choices.append(first[-1:])
    sizes = [len(orders) for orders in choices]
    total, masks = math.prod(sizes), len(fitting)
    together = max(1, MAPPINGS_PER_CHUNK // masks)
    for start in range(1, total, together):
        chosen = np.unravel_index(np.arange(start, min(start + together, total)), sizes)
        orders = np.stack([choice[rows] for choice, rows in zip(choices, chosen, strict=True)], axis=1)
        yield MappingBatch(
            np.tile(fitting.factors, (len(orders), 1, 1)),
            np.repeat(orders, masks, axis=0),
            np.tile(fitting.keep, (len(orders), 1, 1)),
        )


def _level_orders(
    order: Integers, factors: Integers, rules: TemporalRules, dims: Sequence[str]
) -> Iterator[list[int]]:
    """Yield the orders of one level's loops; those that do not iterate stay where they are."""
    listed = (*rules.inner, *rules.outer)
    free = [place for place, d in enumerate(order) if dims[d] not in listed and factors[d] > 1]
    for chosen in permutations(free):
        changed = order.tolist()
        for place, source in zip(free, chosen, strict=True):
            changed[place] = int(order[source])
        yield changed
