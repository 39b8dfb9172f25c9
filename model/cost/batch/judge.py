"""Which mappings of a batch satisfy the rules of a user; see `model.cost.judge` for one mapping."""

from __future__ import annotations

import numpy as np

from model.cost.batch.evaluator import BatchEvaluation
from model.cost.batch.mappings import Booleans, Integers, MappingBatch, decode
from model.cost.plain import evaluate_in
from model.mapspace import Mapspace
from model.rules.columns import holds_in_rows
from model.rules.language import Quantity, Rule, Value


def rules_hold(mapspace: Mapspace, batch: MappingBatch, costs: BatchEvaluation) -> Booleans:
    """Return which mappings satisfy all rules of a mapspace.

    Parameters
    ----------
    mapspace
        Its rules.
    batch, costs
        Mappings, and what the cost model says of them. Mappings that break a limit may be said to satisfy
        rules about energy.

    Returns
    -------
    Booleans
        Shape ``(mappings,)``.
    """
    held = np.ones(len(batch), dtype=np.bool_)
    if not len(batch):
        return held
    figures = _BatchQuantities(mapspace, batch, costs)
    singly = [rule for rule in mapspace.rules if not figures.has(rule)]
    for rule in (rule for rule in mapspace.rules if rule not in singly):
        columns = [np.broadcast_to(figures.column(asked), len(batch)) for asked in rule.quantities]
        held &= holds_in_rows(rule, columns, figures.meaning)
    for row in np.flatnonzero(held & costs.valid).tolist() if singly else ():
        mapping = decode(mapspace.problem, mapspace.architecture, batch, row)
        held[row] = not evaluate_in(mapspace, mapping).broken_rules
    return held


class _BatchQuantities:
    """The quantities of the mappings of a batch, as far as whole numbers tell them exactly."""

    def __init__(self, mapspace: Mapspace, batch: MappingBatch, costs: BatchEvaluation) -> None:
        architecture, problem = mapspace.architecture, mapspace.problem
        self._architecture = architecture
        self._batch, self._costs = batch, costs
        self._dims = list(problem.dims)
        self._bounds = np.array(problem.bounds, dtype=np.int64)
        self._spaces = [space.name for space in problem.dataspaces]
        self._levels = [level.name for level in architecture.levels]
        self._fanouts = [fanout.name for fanout in architecture.fanouts]

    def has(self, rule: Rule) -> bool:
        """Whether each quantity of a rule is known exactly: energies in doubles are not, nor rounded cycles.

        Nor is what rules say of memories with several places.
        """
        nodes = {"", *self._levels, *self._fanouts}
        doubles = {"energy", "cycles"} if self._costs.cycles.dtype == np.float64 else {"energy"}
        return all(
            asked.kind not in doubles
            and asked.node in nodes
            and (asked.kind != "keeps" or not self._passes_on)
            for asked in rule.quantities
        )

    @property
    def _passes_on(self) -> bool:
        return any(level.passing for level in self._architecture.levels)

    def column(self, asked: Quantity) -> Integers:  # noqa: PLR0911 (one case per kind)
        """A number per mapping, or one for all."""
        match asked.kind:
            case "tile":
                return self._tile(asked)
            case "words":
                return self._words(asked)
            case "keeps":
                space = self._spaces.index(asked.of)
                return self._batch.keep[:, self._level(asked), space].astype(np.int64)
            case "capacity":
                return np.array([self._architecture.levels[self._level(asked)].usable_words], dtype=np.int64)
            case "innermost":
                return self._innermost(asked)
            case "fanout":
                return np.array([self._architecture.fanouts[self._fanouts.index(asked.node)].size])
            case "cycles":
                return np.asarray(self._costs.cycles).astype(np.int64)
        factors = self._factors(asked)
        one: Integers = factors[:, self._dims.index(asked.of)] if asked.of else factors.prod(axis=1)
        return one

    def meaning(self, asked: Quantity, number: int) -> Value:
        """What a number of `column` stands for."""
        if asked.kind == "keeps":
            return bool(number)
        if asked.kind == "innermost":
            return self._dims[number] if number >= 0 else ""
        return number

    def _level(self, asked: Quantity) -> int:
        return self._levels.index(asked.node)

    def _factors(self, asked: Quantity) -> Integers:
        """Factors of a node, shape ``(mappings, dims)``."""
        if asked.kind in ("spatial", "instances"):
            position = self._architecture.fanout_indices[self._fanouts.index(asked.node)]
        else:
            position = self._architecture.storage_indices[self._level(asked)]
        factors: Integers = self._batch.factors[:, position]
        return factors

    def _tile(self, asked: Quantity) -> Integers:
        position = self._architecture.storage_indices[self._level(asked)]
        dim = self._dims.index(asked.of)
        inside = self._batch.factors[:, position:, dim].prod(axis=1)
        tile: Integers = np.minimum(inside, self._bounds[dim])
        return tile

    def _words(self, asked: Quantity) -> Integers:
        level = self._level(asked)
        size = self._architecture.levels[level].packing_of(asked.of).size_per_value
        words: Integers = self._costs.tile_words[:, level, self._spaces.index(asked.of)] * size
        return words

    def _innermost(self, asked: Quantity) -> Integers:
        level = self._level(asked)
        order = self._batch.order[:, level]
        looping = np.take_along_axis(self._factors(asked), order, axis=1) > 1
        first = np.take_along_axis(order, looping.argmax(axis=1)[:, None], axis=1)[:, 0]
        return np.where(looping.any(axis=1), first, -1)
