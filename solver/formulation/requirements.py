"""A mapspace as a list of constraints, each with the lines of the text that state it.

A mapspace allows a mapping if and only if every constraint holds and the mapping is well formed: factors
multiply to the bound, the outermost level keeps what it does not bypass, every dataspace is kept
somewhere, and the branches of a ``!Parallel`` share them. Dropping a constraint thus only adds mappings.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from model.architecture import Fanout, StorageLevel
from model.mapping import Axis
from model.mapspace import FactorRule, KeepRules, Mapspace, SpatialRules, TemporalRules
from model.rules import Rule
from model.source_ref import SourceRef

KeepVerb = Literal["keep", "bypass"]


class _Written:
    """A constraint that is written in the text, or follows from what is not."""

    source: SourceRef | None

    @property
    def sources(self) -> tuple[SourceRef, ...]:
        """Where it is written."""
        return _present(*self._places())

    def _places(self) -> tuple[SourceRef | None, ...]:
        return (self.source,)


@dataclass(frozen=True)
class FactorLimit(_Written):
    """A factor rule at a node, given by its position in ``Architecture.nodes``."""

    node: int
    rule: FactorRule

    def fixes_to_one(self, dim: str) -> bool:
        """Whether it allows `dim` no factor but 1, so that a fanout's order may leave it out."""
        return self.rule.dim == dim and self.rule.relation != ">=" and self.rule.value == 1

    def _places(self) -> tuple[SourceRef | None, ...]:
        return (self.rule.source,)


@dataclass(frozen=True)
class SpatialOrder(_Written):
    """The order of a fanout's loops, which together with the split decides what lies along X."""

    node: int
    rules: SpatialRules

    def _places(self) -> tuple[SourceRef | None, ...]:
        return (self.rules.source,)


@dataclass(frozen=True)
class AxisSplit(_Written):
    """The number of a fanout's dimensions that lie along X."""

    node: int
    count: int
    source: SourceRef | None


@dataclass(frozen=True)
class KeptOrBypassed(_Written):
    """A dataspace that a storage level (0 is the outermost) must keep, or must bypass."""

    level: int
    dataspace: str
    verb: KeepVerb
    source: SourceRef | None
    settled: bool = False  # by a !Parallel: it cannot be dropped


@dataclass(frozen=True)
class Whole:
    """A dataspace that a storage level stores as a whole, since the levels outside bypass it."""

    level: int
    dataspace: str
    outside: tuple[int, ...]  # nodes of the levels outside, which have no loops over `dims`
    dims: tuple[str, ...]  # the dataspace's dimensions
    sources: tuple[SourceRef, ...] = ()  # where the levels outside are told to bypass it


@dataclass(frozen=True)
class TileCapacity(_Written):
    """The most words that the tiles in a storage level may take together."""

    level: int
    storage: StorageLevel

    @property
    def words(self) -> int:
        """The limit."""
        assert self.storage.usable_words is not None
        return self.storage.usable_words

    def _places(self) -> tuple[SourceRef | None, ...]:
        return self.storage.size_source, self.storage.buffering_source


@dataclass(frozen=True)
class Utilization(_Written):
    """The fewest words that the tiles in a storage level must take together."""

    level: int
    storage: StorageLevel

    @property
    def words(self) -> int:
        """The limit, rounded up."""
        return self.storage.least_words

    def _places(self) -> tuple[SourceRef | None, ...]:
        return self.storage.utilization_source, self.storage.size_source


@dataclass(frozen=True)
class Mesh(_Written):
    """The number of children of a fanout along one axis; an axis of a single child cannot be dropped."""

    node: int
    axis: Axis
    size: int
    source: SourceRef | None


@dataclass(frozen=True)
class Parallelism(_Written):
    """The least number of arithmetic units in use."""

    units: Fraction
    source: SourceRef | None

    @property
    def least(self) -> int:
        """The limit, rounded up."""
        return math.ceil(self.units)


@dataclass(frozen=True)
class TemporalOrder(_Written):
    """The order of a level's temporal loops. It has a cost, but never makes a mapspace empty."""

    level: int
    rules: TemporalRules

    def _places(self) -> tuple[SourceRef | None, ...]:
        return (self.rules.source,)


@dataclass(frozen=True)
class UserRule(_Written):
    """A rule of the user's own, which the feasibility model does not know."""

    rule: Rule

    def _places(self) -> tuple[SourceRef | None, ...]:
        return (self.rule.source,)


Constraint = (
    FactorLimit
    | SpatialOrder
    | AxisSplit
    | KeptOrBypassed
    | Whole
    | TileCapacity
    | Utilization
    | Mesh
    | Parallelism
)
ConstraintSet = Collection[Constraint]


def constraints_of(mapspace: Mapspace) -> tuple[Constraint, ...]:
    """Return all constraints of `mapspace` once, outermost node first; orders of temporal loops are none."""
    return tuple(dict.fromkeys(_own_constraints(mapspace)))


def temporal_orders(mapspace: Mapspace) -> tuple[TemporalOrder, ...]:
    """Return the orders of temporal loops that `mapspace` requires."""
    return tuple(
        TemporalOrder(level, rules)
        for level, rules in enumerate(mapspace.temporal)
        if rules.inner or rules.outer
    )


def user_rules(mapspace: Mapspace) -> tuple[UserRule, ...]:
    """Return the user-defined rules."""
    return tuple(dict.fromkeys(map(UserRule, mapspace.rules)))


def stored_at(mapspace: Mapspace, level: int, dataspace: str) -> Whole:
    """Return the constraint that a storage level stores a dataspace as a whole."""
    space = mapspace.problem.dataspace(dataspace)
    sources = (dict(rules.sources).get(dataspace) for rules in mapspace.keep[:level])
    return Whole(
        level,
        dataspace,
        outside=mapspace.architecture.storage_indices[:level],
        dims=tuple(dim for dim in mapspace.problem.dims if dim in space.dims),
        sources=tuple(dict.fromkeys(_present(*sources))),
    )


def _own_constraints(mapspace: Mapspace) -> Iterator[Constraint]:
    levels, fanouts = iter(enumerate(mapspace.temporal)), iter(mapspace.spatial)
    for position, node in enumerate(mapspace.architecture.nodes):
        if isinstance(node, Fanout):
            yield from _of_fanout(position, node, next(fanouts))
            continue
        level, rules = next(levels)
        # Rules that follow from a dataspace stored as a whole are part of `Whole`.
        yield from (FactorLimit(position, rule) for rule in rules.factors if rule.stored is None)
        yield from _of_level(mapspace, level, node)
    if mapspace.min_parallelism > 1:
        yield Parallelism(mapspace.min_parallelism, mapspace.min_parallelism_source)


def _of_fanout(position: int, fanout: Fanout, rules: SpatialRules) -> Iterator[Constraint]:
    yield from (FactorLimit(position, rule) for rule in rules.factors)
    if rules.inner or rules.outer:
        yield SpatialOrder(position, rules)
    if rules.split is not None:
        yield AxisSplit(position, rules.split, rules.split_source)
    x, y = fanout.mesh_sources or (None, None)
    yield Mesh(position, "x", fanout.mesh_x, x)
    yield Mesh(position, "y", fanout.mesh_y, y)


def _of_level(mapspace: Mapspace, level: int, storage: StorageLevel) -> Iterator[Constraint]:
    rules = mapspace.keep[level]
    sources = dict(rules.sources)
    for name in (space.name for space in mapspace.problem.dataspaces):
        settled, source = name in rules.settled, sources.get(name)
        if name in rules.whole:
            yield stored_at(mapspace, level, name)
        # The outermost level keeps what it does not bypass anyway.
        if name in asked_for(rules) and (level > 0 or name in rules.bypass):
            yield KeptOrBypassed(level, name, "keep", source, settled)
        if name in rules.bypass:
            yield KeptOrBypassed(level, name, "bypass", source, settled)
    if storage.usable_words is None:
        return
    yield TileCapacity(level, storage)
    if storage.min_utilization > 0:
        yield Utilization(level, storage)


def asked_for(rules: KeepRules) -> frozenset[str]:
    """Return what a level is told to keep, besides what it stores as a whole anyway."""
    return rules.keep - (rules.whole - dict(rules.sources).keys())


def _present(*sources: SourceRef | None) -> tuple[SourceRef, ...]:
    return tuple(source for source in sources if source is not None)
