"""Rules of the user's own about one tile or one fanout: they leave fewer tiles and spatial choices.

With remainders a tile is known by numbers of tiles, and several extents have each. It is left out if none of
these satisfies a rule, as far as that is decided quickly; branching decides it for each mapping.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product

import numpy as np

from model.architecture import Fanout, StorageLevel
from model.counting.words import tile_words
from model.mapspace import Mapspace
from model.problem import Problem
from model.rules.columns import holds_in_rows
from model.rules.language import Constant, Expression, Locality, Operation, Quantity, Rule, Value
from solver.search.arrays import BoolArray, IntArray
from solver.search.space.spatial import Factors
from solver.search.stopping import Stop, Stopped, never

MOST_TRIED = 64
"""Extents with the same numbers of tiles up to which a rule is asked about each."""


def factors_allowed(mapspace: Mapspace, fanout: Fanout, active: Sequence[str]) -> Callable[[Factors], bool]:
    """Return what decides whether rules allow factors of a fanout, one per active dimension."""
    rules = mapspace.rules_on(Locality("spatial", fanout.name))

    def allows(factors: Factors) -> bool:
        facts = _FanoutFacts(dict(zip(active, factors, strict=True)))
        return all(rule.holds(facts) for rule in rules)

    return allows


class _FanoutFacts:
    """The quantities that rules about one fanout ask for."""

    def __init__(self, factors: Mapping[str, int]) -> None:
        self._factors = factors

    def __call__(self, asked: Quantity) -> Value:
        return (
            self._factors.get(asked.of, 1) if asked.kind == "spatial" else math.prod(self._factors.values())
        )


class TileRules:
    """The rules about the tile at one level, for many tiles at a time.

    Parameters
    ----------
    rules
        Each is about the tile at `level` alone.
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
        level: StorageLevel,
        words: Mapping[str, IntArray],
        extents: Mapping[str, IntArray],
    ) -> None:
        self._rules, self._level = rules, level
        self._words, self._extents = words, extents

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
        if asked.kind == "keeps":
            return bool(number)
        return number * self._level.packing_of(asked.of).size_per_value if asked.kind == "words" else number


Extents = Mapping[str, int]
"""Iterations of a tile by dimension, those of bound 1 included."""


@dataclass(frozen=True)
class ExtentsRule:
    """A rule about the tile at one level, where only numbers of tiles are known.

    Parameters
    ----------
    rule
        It is about the tile at `level` alone.
    problem
        Whose tile it is.
    """

    rule: Rule
    problem: Problem
    level: StorageLevel

    @cached_property
    def dims(self) -> tuple[str, ...]:
        """Dimensions with a bound above 1 of whose extents the rule tells."""
        asked: set[str] = set()
        for own in self.rule.quantities:
            if own.kind == "tile":
                asked.add(own.of)
            elif own.kind == "words":
                asked.update(self.problem.dataspace(own.of).dims)
        return tuple(dim for dim, bound in self.problem.bound.items() if bound > 1 and dim in asked)

    @cached_property
    def asks_for_kept(self) -> bool:
        """Whether it asks for what the level keeps."""
        return any(own.kind in ("keeps", "words") for own in self.rule.quantities)

    @cached_property
    def falls(self) -> bool:
        """Whether it holds for all smaller tiles where it holds for one."""
        return _compares(self.rule.condition, ("<", "<="), (">", ">="))

    @cached_property
    def _rises(self) -> bool:
        """Whether it holds for all larger tiles where it holds for one."""
        return _compares(self.rule.condition, (">", ">="), ("<", "<="))

    def holds(self, extents: Extents, kept: frozenset[str] = frozenset()) -> bool:
        """Whether it holds for a tile, where the level keeps some dataspaces."""

        def value(asked: Quantity) -> Value:
            if asked.kind == "tile":
                return extents[asked.of]
            if asked.kind == "keeps":
                return asked.of in kept
            size = self.level.packing_of(asked.of).size_per_value
            return tile_words(self.problem.dataspace(asked.of), extents) * size if asked.of in kept else 0

        return self.rule.holds(value)

    def allow(
        self,
        tiles: int,
        least: Sequence[IntArray],
        most: Sequence[IntArray],
        kept: frozenset[str],
        stop: Stop = never,
    ) -> BoolArray:
        """Which of so many tiles may satisfy it, by their least and largest extents along `dims`."""
        if not self.dims:
            return np.full(tiles, self._holds((), kept))
        ends = np.stack([*least, *most], axis=1)
        cells, places = np.unique(ends, axis=0, return_inverse=True)
        found = np.empty(len(cells), dtype=np.bool_)
        for number, cell in enumerate(cells.tolist()):
            if stop():
                raise Stopped
            found[number] = self._allows(cell[: len(self.dims)], cell[len(self.dims) :], kept)
        allowed: BoolArray = found[places.ravel()]
        return allowed

    def _allows(self, least: Sequence[int], most: Sequence[int], kept: frozenset[str]) -> bool:
        ranges = [range(low, high + 1) for low, high in zip(least, most, strict=True)]
        if math.prod(map(len, ranges)) <= MOST_TRIED:
            return any(self._holds(extents, kept) for extents in product(*ranges))
        if self.falls or self._rises:
            return self._holds(least if self.falls else most, kept)
        return True

    def _holds(self, extents: Sequence[int], kept: frozenset[str]) -> bool:
        ones = dict.fromkeys(self.problem.dims, 1)
        return self.holds({**ones, **dict(zip(self.dims, extents, strict=True))}, kept)


def extents_rules(mapspace: Mapspace) -> tuple[tuple[ExtentsRule, ...], ...]:
    """Return the rules about the tile at each level, outermost first; none at inner places of memories."""
    inner = {place for rules in mapspace.joint for place in rules.levels[1:]}
    return tuple(
        tuple(
            ExtentsRule(rule, mapspace.problem, level)
            for rule in mapspace.rules_on(Locality("tile", level.component))
            if number not in inner
        )
        for number, level in enumerate(mapspace.architecture.levels)
    )


def _compares(condition: Expression, names: Sequence[str], mirrored: Sequence[str]) -> bool:
    """Whether a condition compares what grows with tiles, by one of `names`, with what does not change."""
    if not isinstance(condition, Operation) or len(condition.operands) != 2:
        return False
    left, right = condition.operands
    if condition.name in mirrored:
        left, right = right, left
    return condition.name in (*names, *mirrored) and _grows(left) and _is_constant(right)


def _grows(part: Expression) -> bool:
    """Whether a number is never negative, and never less for larger tiles."""
    if isinstance(part, Constant):
        return not isinstance(part.value, str) and part.value >= 0
    if isinstance(part, Quantity):
        return part.kind in ("tile", "words")
    if part.name in ("+", "*"):
        return all(map(_grows, part.operands))
    return part.name == "/" and all(map(_grows, part.operands)) and _is_constant(part.operands[1])


def _is_constant(part: Expression) -> bool:
    """Whether a number is the same for all tiles."""
    return not Rule(part).quantities
