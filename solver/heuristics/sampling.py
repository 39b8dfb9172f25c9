"""Random mappings that keep the rules of a mapspace, and small changes of many mappings at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from model.architecture import Fanout
from model.cost.batch import MappingBatch
from model.cost.batch.mappings import Booleans, Doubles, Integers
from model.extents import ANY, PERFECT
from model.mapspace import Mapspace, TemporalRules
from model.numbers import prime_factors
from solver.heuristics.interface import MapperError
from solver.heuristics.pricing import Pricing
from solver.heuristics.rules import MapspaceRules


class Sampler:
    """Draws factors, orders and kept dataspaces within the rules; meshes and capacities are not looked at.

    A factor f is ``f ** inward`` times as likely at a node as its place among the storage levels is farther
    in, from the outermost (0) to the innermost (1). With 0 all ordered factorizations are equally likely;
    negative values favour small inner tiles.
    """

    def __init__(self, rules: MapspaceRules, inward: float = 0.0) -> None:
        mapspace = rules.mapspace
        self._rules = rules
        self._splits = [_Factorizations(mapspace, dim, inward) for dim in mapspace.problem.dims]
        self._order_keys = np.array(
            [_order_keys(rules, mapspace.problem.dims) for rules in mapspace.temporal]
        )

    @property
    def empty(self) -> bool:
        """Whether the rules leave no mapping for certain."""
        no_factors = any(split.impossible for split in self._splits)
        return no_factors or any(len(options) == 0 for options in self._rules.keep_options)

    def draw(self, random: np.random.Generator, count: int) -> MappingBatch:
        """Draw `count` mappings, each kind of choice on its own; ValueError if the space is `empty`."""
        if self.empty:
            raise ValueError("the rules of the mapspace leave no mapping")
        factors = np.stack([split.draw(random, count) for split in self._splits], axis=2)
        order_keys = random.random((count, *self._order_keys.shape)) + self._order_keys
        options = self._rules.keep_options
        kept = [keep_sets[random.integers(len(keep_sets), size=count)] for keep_sets in options]
        return MappingBatch(factors, np.argsort(order_keys, axis=2), np.stack(kept, axis=2))


class _Factorizations:
    """Chains of factors of one dimension over the nodes, within the rules, from the innermost node outwards.

    The state between two nodes is how many tiles are left to be looped over.
    """

    def __init__(self, mapspace: Mapspace, dim: str, inward: float) -> None:
        extents = mapspace.extents(dim)
        tiles = np.unique([extents.tiles(extent) for extent in extents.values])
        self._factors = np.array(_sampled_factors(mapspace, dim), dtype=np.int64)
        numbers = self._factors.tolist()
        left = -(-tiles[:, None] // self._factors)
        possible = self._factors <= tiles[:, None]
        if extents.kind == PERFECT:
            possible &= tiles[:, None] % self._factors == 0
        self._rest = np.where(possible, np.searchsorted(tiles, left), -1)
        ways = np.zeros(len(tiles))
        ways[0] = 1.0
        steps: list[Doubles] = []
        for position in range(len(mapspace.architecture.nodes)):
            of_dim = [rule for rule in mapspace.factor_rules[position] if rule.dim == dim]
            most = _longest_side(mapspace, position)
            fits = np.array([f <= most and all(rule.allows(f) for rule in of_dim) for f in numbers])
            weights = np.where(fits, self._factors ** (inward * _relative_depth(mapspace, position)), 0.0)
            chances = np.where(self._rest >= 0, weights * ways[self._rest], 0.0)
            ways = chances.sum(axis=1)
            ways /= max(ways.max(), 1.0)
            steps.append(np.cumsum(chances, axis=1))
        self._steps = steps
        self.impossible = bool(ways[-1] == 0)

    def draw(self, random: np.random.Generator, count: int) -> Integers:
        """Draw factors, shape ``(count, nodes)``."""
        remaining = np.full(count, len(self._rest) - 1)
        factors = np.empty((count, len(self._steps)), dtype=np.int64)
        for node in reversed(range(len(self._steps))):
            chances = self._steps[node]
            thresholds = random.random(count) * chances[remaining, -1]
            chosen = (chances[remaining] <= thresholds[:, None]).sum(axis=1)
            factors[:, node] = self._factors[chosen]
            remaining = self._rest[remaining, chosen]
        return factors


MOST_FACTORS = 512
"""Factors of a dimension that are all drawn; of more, low ones and those that leave fewer tiles outside."""


def _sampled_factors(mapspace: Mapspace, dim: str) -> Sequence[int]:
    """Factors that are drawn, ascending: all, or those of larger dimensions that no lower one can replace."""
    extents = mapspace.extents(dim)
    factors = extents.factors(1)
    if len(factors) <= MOST_FACTORS:
        return factors
    ruled = (rule.value for rules in mapspace.factor_rules for rule in rules if rule.dim == dim)
    small = range(1, MOST_FACTORS + 1)
    return sorted({*small, *extents.least_factors(1), *(value for value in ruled if value in factors)})


def _longest_side(mapspace: Mapspace, position: int) -> int:
    node = mapspace.architecture.nodes[position]
    return max(node.mesh_x, node.mesh_y) if isinstance(node, Fanout) else max(mapspace.problem.bounds)


def _relative_depth(mapspace: Mapspace, position: int) -> float:
    """How far in a node lies among the storage levels, from 0 to 1; fanouts count as their level above."""
    levels = mapspace.architecture.storage_indices
    above = sum(index <= position for index in levels) - 1
    return above / max(1, len(levels) - 1)


def _order_keys(rules: TemporalRules, dims: Sequence[str]) -> list[float]:
    """Keys by which dimensions are sorted, to which a number from 0 to 1 is added."""
    first, last = -len(dims), 1
    keys = {dim: first + index for index, dim in enumerate(rules.inner)}
    keys |= {dim: last + index for index, dim in enumerate(rules.outer)}
    return [keys.get(dim, 0) for dim in dims]


INWARD = (0.0, -1.0, -2.0, -4.0, -8.0)
"""Distributions of starting points: from even ones to those with small tiles inside."""

DRAWN_TOGETHER = 1024

PATIENCE = 25
"""Draws after which fewer starting points than wanted have to do."""

MOST_VAIN = 1000
"""Draws after which a search without a budget gives up where none has a mapping that fits."""


SMALL_PRIMES = (2, 3)
"""Steps by which any factor may grow, besides the primes of its bound."""


def prime_steps(mapspace: Mapspace) -> tuple[tuple[int, int], ...]:
    """All pairs of a dimension (by its place) and a prime by which its factors may grow."""
    more = SMALL_PRIMES if mapspace.factors == ANY else ()
    return tuple(
        (place, prime)
        for place, bound in enumerate(mapspace.problem.bounds)
        for prime in dict.fromkeys((*(prime for prime, _ in prime_factors(bound)), *more))
        if bound > 1
    )


def completed(chains: Integers, sources: Integers, bounds: Integers) -> Integers:
    """Let one loop of each chain take what the others leave of a dimension, rounded up.

    Parameters
    ----------
    chains
        Shape ``(chains, nodes)``: factors of one dimension. Those beyond what is left to them are cut.
    sources, bounds
        Shape ``(chains,)``: the node of the loop, and the bound of the dimension.
    """
    rows, chains = np.arange(len(chains)), chains.copy()
    chains[rows, sources] = 1
    left = bounds
    for factors in chains.T:
        left = -(-left // factors)
    chains[rows, sources] = left
    left = bounds
    for node in reversed(range(chains.shape[1])):
        chains[:, node] = np.minimum(chains[:, node], left)
        left = -(-left // chains[:, node])
    return chains


def valid_starts(
    pricing: Pricing,
    random: np.random.Generator,
    count: int,
    *,
    drawn_together: int = DRAWN_TOGETHER,
    patience: int = PATIENCE,
    most_vain: int = MOST_VAIN,
) -> MappingBatch:
    """Draw `count` mappings that are allowed and fit, from ever smaller inner tiles if need be.

    Where factors may be any, those without remainders come first. Where such mappings are rare, fewer
    of them are repeated. BudgetSpent if the budget is spent before;
    MapperError if the rules leave none for certain, or without a budget none of very many fits.
    """
    samplers = [Sampler(rules, inward) for rules in perfect_first(pricing.rules) for inward in INWARD]
    if samplers[-1].empty:
        raise MapperError("the rules of the mapspace leave no mapping")
    samplers = [sampler for sampler in samplers if not sampler.empty]
    batches: list[MappingBatch] = []
    attempt, total = 0, 0
    while total < count and (total == 0 or attempt < patience):
        if total == 0 and attempt == most_vain and pricing.budget.unlimited:
            raise MapperError(
                f"none of {most_vain * drawn_together} mappings drawn at random is allowed and fits"
            )
        drawn = samplers[attempt % len(samplers)].draw(random, drawn_together)
        batches.append(drawn.part(np.flatnonzero(pricing.estimate_batch(drawn).allowed)[:count]))
        attempt, total = attempt + 1, total + len(batches[-1])
    return concatenated(batches).part(np.resize(np.arange(total), count))


def perfect_first(rules: MapspaceRules) -> Iterator[MapspaceRules]:
    """Yield the rules with perfect factors only, and those with any factors where they may be any."""
    if rules.mapspace.factors != PERFECT:
        yield MapspaceRules(replace(rules.mapspace, factors=PERFECT))
    yield rules


def concatenated(batches: Sequence[MappingBatch]) -> MappingBatch:
    """Put batches one after the other."""
    return MappingBatch(
        np.concatenate([batch.factors for batch in batches]),
        np.concatenate([batch.order for batch in batches]),
        np.concatenate([batch.keep for batch in batches]),
    )


def copies(batch: MappingBatch, row: int, count: int) -> MappingBatch:
    """Return `count` copies of one mapping, to be changed."""
    same = batch.part(np.full(count, row))
    return MappingBatch(same.factors.copy(), same.order.copy(), same.keep.copy())


# --- all neighbours of one mapping


def factor_moves(batch: MappingBatch, row: int, mapspace: Mapspace, target: int) -> MappingBatch:
    """Return all ways to move one prime factor of a mapping from another node to the node `target`.

    Where factors may be any, all ways to give the node another one of a few; one other node makes up for it.
    """
    if mapspace.factors == ANY:
        return _exchanges(batch, row, mapspace, target)
    factors = batch.factors[row]
    moves = [
        (source, dim, prime)
        for dim, prime in prime_steps(mapspace)
        for source in range(len(factors))
        if source != target and factors[source, dim] % prime == 0
    ]
    moved = copies(batch, row, len(moves))
    for number, (source, dim, prime) in enumerate(moves):
        moved.factors[number, source, dim] //= prime
        moved.factors[number, target, dim] *= prime
    return moved


def _exchanges(batch: MappingBatch, row: int, mapspace: Mapspace, target: int) -> MappingBatch:
    """Return the mappings in which the node `target` has another factor of one dimension."""
    factors = batch.factors[row]
    found: dict[tuple[int, ...], None] = {}
    for dim, bound in enumerate(mapspace.problem.bounds):
        changes = [
            (source, value)
            for source in range(len(factors))
            if source != target and bound > 1
            for value in _other_factors(
                mapspace, target, int(factors[target, dim]), factors[source, dim], bound
            )
        ]
        if not changes:
            continue
        sources, values = np.array(changes).T
        chains = np.repeat(factors[None, :, dim], len(changes), axis=0)
        chains[:, target] = values
        rows = completed(chains, sources, np.full(len(changes), bound)).tolist()
        found.update(((dim, *chain), None) for chain in rows if chain != factors[:, dim].tolist())
    moved = copies(batch, row, len(found))
    for number, (dim, *chain) in enumerate(found):
        moved.factors[number, :, dim] = chain
    return moved


def _other_factors(mapspace: Mapspace, node: int, now: int, given: int, bound: int) -> Sequence[int]:
    """Factors that a node's loop may have instead, if another loop has the factor `given` so far."""
    grown = [now + 1, now * given, *(now * prime for place, prime in prime_steps(mapspace))]
    hardware = mapspace.architecture.nodes[node]
    grown += [hardware.mesh_x, hardware.mesh_y] if isinstance(hardware, Fanout) else []
    larger = {factor for factor in grown if now < factor <= bound and given > 1}
    return sorted(larger | ({now - 1} if now > 1 else set()))


def order_moves(batch: MappingBatch, row: int, mapspace: Mapspace, level: int) -> MappingBatch:
    """Return all ways to take one loop of a storage level out and put it in at another place."""
    order = batch.order[row, level].tolist()
    factors = batch.factors[row, mapspace.architecture.storage_indices[level]]
    looping = [dim for dim in order if factors[dim] > 1]
    idle = [dim for dim in order if factors[dim] == 1]
    changed = {tuple(_inserted(looping, dim, place)) for dim in looping for place in range(len(looping))}
    orders = sorted(changed - {tuple(looping)})
    moved = copies(batch, row, len(orders))
    for number, moving in enumerate(orders):
        moved.order[number, level] = (*moving, *idle)
    return moved


def keep_moves(batch: MappingBatch, row: int, rules: MapspaceRules) -> MappingBatch:
    """Return all ways to keep one dataspace in other levels."""
    moved = copies(batch, row, sum(map(len, rules.keep_options)))
    start = 0
    for space, options in enumerate(rules.keep_options):
        moved.keep[start : start + len(options), :, space] = options
        start += len(options)
    return moved


def _inserted(loops: list[int], dim: int, place: int) -> Iterator[int]:
    rest = [loop for loop in loops if loop != dim]
    yield from (*rest[:place], dim, *rest[place:])


# --- one random move of each mapping


class RandomMoves:
    """Draws a random move for every mapping of a batch; rules are left to the price service."""

    def __init__(self, rules: MapspaceRules) -> None:
        self._bounds = np.array(rules.mapspace.problem.bounds)
        self._any = rules.mapspace.factors == ANY
        self._steps = np.array(prime_steps(rules.mapspace), dtype=np.int64).reshape(-1, 2)
        self._keep_options = rules.keep_options
        self._free_keeps = [space for space, keep_sets in enumerate(rules.keep_options) if len(keep_sets) > 1]

    def apply(self, batch: MappingBatch, random: np.random.Generator) -> MappingBatch:
        """Return changed mappings: most with a factor moved, others with another order or other levels."""
        moved = MappingBatch(batch.factors.copy(), batch.order.copy(), batch.keep.copy())
        kind = random.random(len(batch))
        by_keep = kind < (0.1 if self._free_keeps else 0.0)
        by_order = ~by_keep & (kind < (0.4 if len(self._steps) else 1.0))
        self._move_factors(moved.factors, ~by_keep & ~by_order, random)
        twice = ~by_keep & ~by_order & (random.random(len(batch)) < 0.5)
        self._move_factors(moved.factors, twice, random)
        _swap_loops(moved.order, by_order, random)
        self._change_keeps(moved.keep, by_keep, random)
        return moved

    def _move_factors(self, factors: Integers, chosen: Booleans, random: np.random.Generator) -> None:
        """Move a random prime of a random dimension from one node that has it to any other.

        Where factors may be any, a node without that prime may be chosen as well, and one that grows may grow
        or shrink by 1 instead.
        """
        rows = np.flatnonzero(chosen)
        if not len(rows):
            return
        dims, primes = self._steps[random.integers(len(self._steps), size=len(rows))].T
        holding = factors[rows, :, dims] % primes[:, None] == 0
        keys = np.where(holding, random.random(holding.shape), -1.0)
        if self._any:
            keys += random.random(holding.shape) * (factors[rows, :, dims] > 1)
        sources = np.argmax(keys, axis=1)
        targets = random.integers(holding.shape[1], size=len(rows))
        if self._any:
            chains, places = factors[rows, :, dims], np.arange(len(rows))
            now = chains[places, targets]
            changed = np.stack([now * primes, now * primes, now + 1, np.maximum(1, now - 1)])
            chains[places, targets] = changed[random.integers(len(changed), size=len(rows)), places]
            factors[rows, :, dims] = completed(chains, sources, self._bounds[dims])
            return
        factors[rows, sources, dims] //= primes
        factors[rows, targets, dims] *= primes

    def _change_keeps(self, keep: Booleans, chosen: Booleans, random: np.random.Generator) -> None:
        rows = np.flatnonzero(chosen)
        if not len(rows):
            return
        spaces = random.choice(self._free_keeps, size=len(rows))
        for space in self._free_keeps:
            of_space = rows[spaces == space]
            options = self._keep_options[space]
            keep[of_space, :, space] = options[random.integers(len(options), size=len(of_space))]


def _swap_loops(order: Integers, chosen: Booleans, random: np.random.Generator) -> None:
    """Swap two loops of a random storage level."""
    rows = np.flatnonzero(chosen)
    levels = random.integers(order.shape[1], size=len(rows))
    first, second = random.integers(order.shape[2], size=(2, len(rows)))
    swapped = order[rows, levels, second]
    order[rows, levels, second] = order[rows, levels, first]
    order[rows, levels, first] = swapped
