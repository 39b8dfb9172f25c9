"""Random mappings that keep the rules of a mapspace, many at a time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from model.architecture import Fanout
from model.cost.batch import MappingBatch
from model.cost.batch.encoding import Booleans, Doubles, Integers
from model.mapspace import Mapspace, TemporalRules
from model.numbers import divisors
from solver.heuristics.rules import Rules


class Sampler:
    """Draws factors, orders and kept dataspaces within the rules; meshes and capacities are not looked at.

    Parameters
    ----------
    rules
        What the mapspace allows.
    inward
        How readily factors go inwards: a factor f is ``f ** inward`` times as likely at a node as its
        place among the storage levels is farther in, from the outermost (0) to the innermost (1). With 0
        all ordered factorizations are equally likely; negative values favour small inner tiles.
    """

    def __init__(self, rules: Rules, inward: float = 0.0) -> None:
        mapspace = rules.mapspace
        self._rules = rules
        self._splits = [_Factorizations(mapspace, rules, dim, inward) for dim in mapspace.problem.dims]
        self._order_keys = np.array(
            [_order_keys(rules, mapspace.problem.dims) for rules in mapspace.temporal]
        )

    @property
    def empty(self) -> bool:
        """Whether the rules leave no mapping for certain."""
        no_factors = any(split.impossible for split in self._splits)
        return no_factors or any(len(options) == 0 for options in self._rules.keep_options)

    def draw(self, random: np.random.Generator, count: int) -> MappingBatch:
        """Draw `count` mappings, each kind of choice on its own.

        Raises
        ------
        ValueError
            If the space is `empty`.
        """
        if self.empty:
            raise ValueError("the rules of the mapspace leave no mapping")
        factors = np.stack([split.draw(random, count) for split in self._splits], axis=2)
        return MappingBatch(factors, self.draw_orders(random, count), self.draw_keep(random, count))

    def draw_orders(self, random: np.random.Generator, count: int) -> Integers:
        """Draw orders of all storage levels, uniformly."""
        keys = random.random((count, *self._order_keys.shape)) + self._order_keys
        return np.argsort(keys, axis=2)

    def draw_keep(self, random: np.random.Generator, count: int) -> Booleans:
        """Draw for each dataspace which levels keep it, uniformly."""
        options = self._rules.keep_options
        return np.stack(
            [keep_sets[random.integers(len(keep_sets), size=count)] for keep_sets in options], axis=2
        )


class _Factorizations:
    """Ordered factorizations of one dimension's bound over the nodes, within the rules."""

    def __init__(self, mapspace: Mapspace, rules: Rules, dim: str, inward: float) -> None:
        bound = mapspace.problem.bound[dim]
        self._divisors = np.array(divisors(bound), dtype=np.int64)
        numbers = self._divisors.tolist()
        quotients, remainders = np.divmod(self._divisors[:, None], self._divisors)
        self._rest = np.where(remainders == 0, np.searchsorted(self._divisors, quotients), -1)
        ways = np.zeros(len(numbers))
        ways[0] = 1.0
        steps: list[Doubles] = []
        for position in reversed(range(len(mapspace.architecture.nodes))):
            of_dim = [rule for rule in rules.factor_rules[position] if rule.dim == dim]
            most = _longest_side(mapspace, position)
            fits = np.array([f <= most and all(rule.allows(f) for rule in of_dim) for f in numbers])
            weights = np.where(fits, self._divisors ** (inward * _depth(mapspace, position)), 0.0)
            chances = np.where(self._rest >= 0, weights * ways[self._rest], 0.0)
            ways = chances.sum(axis=1)
            ways /= max(ways.max(), 1.0)
            steps.append(np.cumsum(chances, axis=1))
        self._steps = steps[::-1]
        self.impossible = bool(ways[-1] == 0)

    def draw(self, random: np.random.Generator, count: int) -> Integers:
        """Draw factors, shape ``(count, nodes)``."""
        remaining = np.full(count, len(self._divisors) - 1)
        factors = np.empty((count, len(self._steps)), dtype=np.int64)
        for node, chances in enumerate(self._steps):
            thresholds = random.random(count) * chances[remaining, -1]
            chosen = (chances[remaining] <= thresholds[:, None]).sum(axis=1)
            factors[:, node] = self._divisors[chosen]
            remaining = self._rest[remaining, chosen]
        return factors


def _longest_side(mapspace: Mapspace, position: int) -> int:
    node = mapspace.architecture.nodes[position]
    return max(node.mesh_x, node.mesh_y) if isinstance(node, Fanout) else max(mapspace.problem.bounds)


def _depth(mapspace: Mapspace, position: int) -> float:
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
