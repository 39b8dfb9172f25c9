"""A mapspace as a list of constraints, each of which can be dropped, and the rules that hold it together.

A mapping is allowed by a mapspace if and only if every constraint holds, and what the architecture
itself demands: factors multiply to the bound, the outermost level keeps what it is not told to bypass,
every dataspace is kept somewhere, and the branches of a ``!Parallel`` share them. Dropping a constraint
therefore never takes mappings away.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, assert_never

from model.architecture import Fanout, StorageLevel
from model.mapping import Axis
from model.mapspace import FactorRule, KeepRules, Mapspace, SpatialRules, TemporalRules
from model.source_ref import SourceRef

KeepVerb = Literal["keep", "bypass"]


class _WrittenOnce:
    """What is written at one place, or nowhere."""

    source: SourceRef | None

    @property
    def sources(self) -> tuple[SourceRef, ...]:
        """Where it is written."""
        return _present(self.source)


@dataclass(frozen=True)
class FactorLimit:
    """A factor rule at a node, given by its position in ``Architecture.nodes``."""

    node: int
    rule: FactorRule

    def holds_at_one(self, dim: str) -> bool:
        """Whether it leaves `dim` no factor but 1, so that a fanout's order may do without it."""
        return self.rule.dim == dim and self.rule.relation != ">=" and self.rule.value == 1

    @property
    def sources(self) -> tuple[SourceRef, ...]:
        """Where it is written."""
        return _present(self.rule.source)


@dataclass(frozen=True)
class SpatialOrder:
    """The order of a fanout's loops, which decides together with the split what lies along X."""

    node: int
    rules: SpatialRules

    @property
    def sources(self) -> tuple[SourceRef, ...]:
        """Where it is written."""
        return _present(self.rules.source)


@dataclass(frozen=True)
class Split(_WrittenOnce):
    """The number of a fanout's dimensions that lie along X.

    Parameters
    ----------
    node
        Position of the fanout in ``Architecture.nodes``.
    source
        Where it is written, None if nowhere.
    """

    node: int
    count: int
    source: SourceRef | None


@dataclass(frozen=True)
class Keeping(_WrittenOnce):
    """A dataspace that the storage level `level` must keep, or must bypass.

    ``settled`` by a ``!Parallel``, it cannot be dropped.

    Parameters
    ----------
    level
        Its place among the storage levels, 0 the outermost.
    source
        Where it is written, None if nowhere.
    """

    level: int
    dataspace: str
    verb: KeepVerb
    source: SourceRef | None
    settled: bool = False


@dataclass(frozen=True)
class Whole:
    """A dataspace that the storage level `level` stores as a whole, since the levels outside bypass it.

    Parameters
    ----------
    outside
        Positions in ``Architecture.nodes`` of the storage levels outside, which have no loops over `dims`.
    dims
        The dataspace's dimensions.
    sources
        Where the levels outside are told to bypass it.
    """

    level: int
    dataspace: str
    outside: tuple[int, ...]
    dims: tuple[str, ...]
    sources: tuple[SourceRef, ...] = ()


@dataclass(frozen=True)
class Capacity:
    """What the tiles in the storage level `level` may take together."""

    level: int
    storage: StorageLevel

    @property
    def words(self) -> int:
        """The limit in words."""
        assert self.storage.usable_words is not None
        return self.storage.usable_words

    @property
    def sources(self) -> tuple[SourceRef, ...]:
        """Where it is written."""
        return _present(self.storage.size_source, self.storage.buffering_source)


@dataclass(frozen=True)
class Utilization:
    """What the tiles in the storage level `level` must take together at the least."""

    level: int
    storage: StorageLevel

    @property
    def words(self) -> int:
        """The least whole number of words."""
        assert self.storage.usable_words is not None
        return math.ceil(self.storage.usable_words * self.storage.min_utilization)

    @property
    def sources(self) -> tuple[SourceRef, ...]:
        """Where it is written."""
        return _present(self.storage.utilization_source, self.storage.size_source)


@dataclass(frozen=True)
class Mesh(_WrittenOnce):
    """The number of children of a fanout along one axis; a single one cannot be dropped.

    Parameters
    ----------
    node
        Position of the fanout in ``Architecture.nodes``.
    source
        Where it is written, None if nowhere.
    """

    node: int
    axis: Axis
    size: int
    source: SourceRef | None


@dataclass(frozen=True)
class Parallelism(_WrittenOnce):
    """The least number of arithmetic units in use."""

    units: Fraction
    source: SourceRef | None

    @property
    def least(self) -> int:
        """The least whole number of units."""
        return math.ceil(self.units)


@dataclass(frozen=True)
class TemporalOrder:
    """The order of a level's temporal loops. It costs, but never leaves a mapspace empty."""

    level: int
    rules: TemporalRules

    @property
    def sources(self) -> tuple[SourceRef, ...]:
        """Where it is written."""
        return _present(self.rules.source)


Constraint = (
    FactorLimit | SpatialOrder | Split | Keeping | Whole | Capacity | Utilization | Mesh | Parallelism
)


def constraints_of(mapspace: Mapspace) -> tuple[Constraint, ...]:
    """Return all constraints of `mapspace`: the nodes' from the outermost inwards, then the array's.

    Returns
    -------
    tuple[Constraint, ...]
        Each once, those that are not `droppable` included; orders of temporal loops are none of them.
    """
    return tuple(dict.fromkeys(_constraints(mapspace)))


def temporal_orders(mapspace: Mapspace) -> tuple[TemporalOrder, ...]:
    """Return the orders of temporal loops that `mapspace` asks for."""
    return tuple(
        TemporalOrder(level, rules)
        for level, rules in enumerate(mapspace.temporal)
        if rules.inner or rules.outer
    )


def droppable(constraint: Constraint) -> bool:
    """Whether a mapspace without `constraint` makes sense: an axis of a single child is nobody's limit."""
    match constraint:
        case Keeping(settled=settled):
            return not settled
        case Mesh(size=size):
            return size > 1
        case FactorLimit() | SpatialOrder() | Split() | Whole() | Capacity() | Utilization() | Parallelism():
            return True
        case _:
            assert_never(constraint)


def written_together(one: Constraint, other: Constraint) -> bool:
    """Whether two constraints are one in the text, and so change together."""
    if type(one) is not type(other) or not one.sources or one.sources[:1] != other.sources[:1]:
        return False
    return _told(one) == _told(other)


def _told(constraint: Constraint) -> Hashable:
    """Return what distinguishes constraints of one kind that are written at one place."""
    match constraint:
        case FactorLimit(_, rule):
            # A macro stands for rules on several dimensions, which are changed one by one.
            return rule.dim, rule.relation, rule.value
        case Mesh(axis=axis):
            return axis
        case Keeping(dataspace=dataspace):
            return dataspace
        case Whole():
            return constraint
        case SpatialOrder() | Split() | Capacity() | Utilization() | Parallelism():
            return None
        case _:
            assert_never(constraint)


def twins_of(constraint: Constraint, constraints: Iterable[Constraint]) -> list[Constraint]:
    """Return those of `constraints` that are written together with `constraint`, itself excluded."""
    return [c for c in constraints if c != constraint and written_together(c, constraint)]


def stored_at(mapspace: Mapspace, level: int, dataspace: str) -> Whole:
    """Return that a storage level stores a dataspace as a whole.

    Raises
    ------
    StopIteration
        There is no such dataspace.
    """
    space = next(space for space in mapspace.problem.dataspaces if space.name == dataspace)
    told = (dict(rules.sources).get(dataspace) for rules in mapspace.keep[:level])
    return Whole(
        level,
        dataspace,
        outside=mapspace.architecture.storage_indices[:level],
        dims=tuple(dim for dim in mapspace.problem.dims if dim in space.dims),
        sources=tuple(dict.fromkeys(_present(*told))),
    )


def _constraints(mapspace: Mapspace) -> Iterator[Constraint]:
    levels, fanouts = iter(enumerate(mapspace.temporal)), iter(mapspace.spatial)
    for position, node in enumerate(mapspace.architecture.nodes):
        if isinstance(node, Fanout):
            yield from _of_fanout(position, node, next(fanouts))
            continue
        level, rules = next(levels)
        # What a level farther in stores as a whole speaks for itself.
        yield from (FactorLimit(position, rule) for rule in rules.factors if rule.stored is None)
        yield from _of_level(mapspace, level, node)
    if mapspace.min_parallelism > 1:
        yield Parallelism(mapspace.min_parallelism, mapspace.min_parallelism_source)


def _of_fanout(position: int, fanout: Fanout, rules: SpatialRules) -> Iterator[Constraint]:
    yield from (FactorLimit(position, rule) for rule in rules.factors)
    if rules.inner or rules.outer:
        yield SpatialOrder(position, rules)
    if rules.split is not None:
        yield Split(position, rules.split, rules.split_source)
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
        # The outermost level keeps what it does not bypass, so asking for it says nothing.
        if name in asked_for(rules) and (level > 0 or name in rules.bypass):
            yield Keeping(level, name, "keep", source, settled)
        if name in rules.bypass:
            yield Keeping(level, name, "bypass", source, settled)
    if storage.usable_words is None:
        return
    yield Capacity(level, storage)
    if storage.min_utilization > 0:
        yield Utilization(level, storage)


def asked_for(rules: KeepRules) -> frozenset[str]:
    """Return what a level is told to keep, beyond what it stores as a whole anyhow."""
    return rules.keep - (rules.whole - dict(rules.sources).keys())


def _present(*sources: SourceRef | None) -> tuple[SourceRef, ...]:
    return tuple(source for source in sources if source is not None)
