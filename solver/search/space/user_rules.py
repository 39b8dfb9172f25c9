"""Rules of the user's own about one tile or one fanout: they leave fewer tiles and spatial choices."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import NamedTuple

import numpy as np

from model.architecture import Fanout, StorageLevel
from model.mapspace import Mapspace
from model.rules.columns import holds_in_rows
from model.rules.language import Locality, Quantity, Rule, Value
from solver.search.arrays import BoolArray, IntArray
from solver.search.space.dataspaces import DataspaceView, bounding_box
from solver.search.space.spatial import Factors
from solver.search.stopping import Stop, Stopped, never


def factors_allowed(mapspace: Mapspace, fanout: Fanout, active: Sequence[str]) -> Callable[[Factors], bool]:
    """Return what decides whether rules allow factors of a fanout, one per active dimension."""
    rules = mapspace.rules_on(Locality("spatial", fanout.name))

    def allows(factors: Factors) -> bool:
        facts = _FanoutFacts(fanout, dict(zip(active, factors, strict=True)))
        return all(rule.holds(facts) for rule in rules)

    return allows


class _FanoutFacts:
    """The quantities that rules about one fanout ask for."""

    def __init__(self, fanout: Fanout, factors: Mapping[str, int]) -> None:
        self._fanout, self._factors = fanout, factors

    def __call__(self, asked: Quantity) -> Value:
        if asked.kind == "spatial":
            return self._factors.get(asked.of, 1)
        return self._fanout.size if asked.kind == "fanout" else int(np.prod(list(self._factors.values())))


class AllowedExtents(NamedTuple):
    """Which extents of tiles a rule allows, along the dimensions that it asks for.

    Parameters
    ----------
    dims
        The dimensions, of the active ones.
    sums
        How many are allowed of those below some extents, shape (bound + 1, ...) along `dims`.
    """

    dims: tuple[int, ...]
    sums: IntArray

    def any_between(self, least: IntArray, largest: IntArray) -> BoolArray:
        """Whether some extents between two ends, shape (tiles, active dimensions), are allowed."""
        total: IntArray = np.zeros(len(least), dtype=np.int64)
        for lower in product((False, True), repeat=len(self.dims)):
            ends = zip(self.dims, lower, strict=True)
            corner = tuple(least[:, d] - 1 if low else largest[:, d] for d, low in ends)
            total += (-1) ** sum(lower) * self.sums[corner]
        return total > 0


MOST_EXTENTS = 1 << 14
"""Extents of tiles for which a rule is decided one by one."""


def allowed_extents(
    rule: Rule,
    judge: Callable[[Mapping[str, IntArray], Mapping[str, IntArray]], TileRules],
    asked: Sequence[DataspaceView],
    active: Sequence[str],
    bounds: Sequence[int],
) -> AllowedExtents | None:
    """Return what a rule about the tile at a level allows, None if there are too many extents.

    `judge` returns it for the words and extents of many tiles; of dataspaces, the level keeps those `asked`.
    """
    named = {quantity.of for quantity in rule.quantities if quantity.kind == "tile"}
    dims = sorted({d for view in asked for d in view.relevant} | {active.index(n) for n in named & {*active}})
    shape = [bounds[d] for d in dims]
    if math.prod(shape) > MOST_EXTENTS:
        return None
    every = np.ones((math.prod(shape), len(active)), dtype=np.int64)
    every[:, dims] = np.indices(shape).reshape(len(dims), -1).T + 1
    words = {view.name: bounding_box(view, every) for view in asked}
    extents = {dim: every[:, d] for d, dim in enumerate(active)}
    allowed = judge(words, extents).allow(len(every)).reshape(shape)
    sums = np.pad(allowed.astype(np.int64), [(1, 0)] * len(dims))
    for axis in range(len(dims)):
        sums = sums.cumsum(axis=axis)
    return AllowedExtents(tuple(dims), sums)


class TileRules:
    """The rules about the tile at one level, for many tiles at a time.

    Parameters
    ----------
    rules
        Each is about the tile at `level` alone.
    levels
        Of the architecture; rules may ask for the capacity of any.
    level
        Whose tiles are judged.
    words
        By dataspace that the level keeps, the words of each tile, before packing: shape (tiles,).
    extents
        By active dimension, the extent of each tile: shape (tiles,).
    """

    def __init__(
        self,
        rules: Sequence[Rule],
        levels: Sequence[StorageLevel],
        level: StorageLevel,
        words: Mapping[str, IntArray],
        extents: Mapping[str, IntArray],
    ) -> None:
        self._rules, self._level = rules, level
        self._words, self._extents = words, extents
        self._capacities = {own.component: own.usable_words for own in levels}

    def allow(self, tiles: int, stop: Stop = never) -> BoolArray:
        """Which of so many tiles all rules allow, shape (tiles,); `Stopped` once `stop` answers True."""

        def pause() -> None:
            if stop():
                raise Stopped

        allowed = np.ones(tiles, dtype=np.bool_)
        for rule in self._rules if tiles else ():
            columns = [np.broadcast_to(self._column(asked), tiles) for asked in rule.quantities]
            allowed &= holds_in_rows(rule, columns, self._meaning, pause)
        return allowed

    def _column(self, asked: Quantity) -> IntArray:
        one = np.ones(1, dtype=np.int64)
        if asked.kind == "tile":
            return self._extents.get(asked.of, one)
        if asked.kind == "words":
            return self._words.get(asked.of, 0 * one)
        return one if asked.kind == "keeps" and asked.of in self._words else 0 * one

    def _meaning(self, asked: Quantity, number: int) -> Value:
        if asked.kind == "capacity":
            usable = self._capacities[asked.node]
            assert usable is not None  # rules ask for limited ones only
            return usable
        if asked.kind == "keeps":
            return bool(number)
        return number * self._level.packing_of(asked.of).size_per_value if asked.kind == "words" else number
