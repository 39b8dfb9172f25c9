"""A mapspace as a list of constraints, and the mapspaces that remain without some of them.

A mapspace allows a mapping if and only if every constraint holds and the mapping is well formed: factors
multiply to the bound, the outermost level keeps what it does not bypass, every dataspace is kept
somewhere, and the branches of a ``!Parallel`` share them. Dropping a constraint thus only adds mappings.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable, Iterable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product
from typing import Literal

from model.architecture import Fanout, Node, StorageLevel
from model.choices import allowed_factors
from model.cost.counting import tile_words
from model.mapping import Axis
from model.mapspace import FactorRule, KeepRules, Mapspace, SpatialRules, TemporalRules
from model.rules import Quantity, Rule
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
class Split(_Written):
    """The number of a fanout's dimensions that lie along X."""

    node: int
    count: int
    source: SourceRef | None


@dataclass(frozen=True)
class Keeping(_Written):
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
class Capacity(_Written):
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
        assert self.storage.usable_words is not None
        return math.ceil(self.storage.usable_words * self.storage.min_utilization)

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
    FactorLimit | SpatialOrder | Split | Keeping | Whole | Capacity | Utilization | Mesh | Parallelism
)
Constraints = Collection[Constraint]


def constraints_of(mapspace: Mapspace) -> tuple[Constraint, ...]:
    """Return all constraints of `mapspace` once, outermost node first; orders of temporal loops are none."""
    return tuple(dict.fromkeys(_constraints(mapspace)))


def temporal_orders(mapspace: Mapspace) -> tuple[TemporalOrder, ...]:
    """Return the orders of temporal loops that `mapspace` requires."""
    return tuple(
        TemporalOrder(level, rules)
        for level, rules in enumerate(mapspace.temporal)
        if rules.inner or rules.outer
    )


def user_rules(mapspace: Mapspace) -> tuple[UserRule, ...]:
    """Return the rules of the user's own."""
    return tuple(dict.fromkeys(map(UserRule, mapspace.rules)))


def droppable(constraint: Constraint) -> bool:
    """Whether the user could drop `constraint`: not an axis of a single child, nor what is settled."""
    if isinstance(constraint, Keeping):
        return not constraint.settled
    return not isinstance(constraint, Mesh) or constraint.size > 1


def written_together(one: Constraint, other: Constraint) -> bool:
    """Whether two constraints are one in the text, and so change together."""
    if type(one) is not type(other) or not one.sources or one.sources[:1] != other.sources[:1]:
        return False
    return _key_at_place(one) == _key_at_place(other)


def _key_at_place(constraint: Constraint) -> Hashable:
    """Return what distinguishes constraints of one kind that are written at one place."""
    match constraint:
        case FactorLimit(_, rule):
            # A macro expands to rules on several dimensions, which are changed one by one.
            return rule.dim, rule.relation, rule.value
        case Mesh(axis=axis):
            return axis
        case Keeping(dataspace=dataspace):
            return dataspace
        case Whole():
            return constraint
        case _:
            return None


def twins_of(constraint: Constraint, constraints: Iterable[Constraint]) -> list[Constraint]:
    """Return the other constraints that are written together with `constraint`."""
    return [c for c in constraints if c != constraint and written_together(c, constraint)]


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


def _constraints(mapspace: Mapspace) -> Iterator[Constraint]:
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
        # The outermost level keeps what it does not bypass anyway.
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
    """Return what a level is told to keep, besides what it stores as a whole anyway."""
    return rules.keep - (rules.whole - dict(rules.sources).keys())


def _present(*sources: SourceRef | None) -> tuple[SourceRef, ...]:
    return tuple(source for source in sources if source is not None)


def without(
    mapspace: Mapspace, parts: Collection[Constraint | TemporalOrder | UserRule]
) -> tuple[Mapspace, ...]:
    """Return mapspaces that together allow what `mapspace` allows without some of its parts.

    Several are needed where a mapspace cannot leave a choice open: an outermost level keeps or bypasses
    a dataspace, and a dimension that took no place in a fanout's order takes one, or lies along X or Y.
    """
    dropped = [part for part in parts if not isinstance(part, TemporalOrder | UserRule)]
    ruled = [rule for rule in mapspace.rules if UserRule(rule) not in parts]
    limits = replace(_without_limits(mapspace, dropped), rules=tuple(_sized(mapspace, dropped, ruled)))
    temporal = [
        replace(rules, factors=_factors(rules, position, dropped))
        for position, rules in zip(mapspace.architecture.storage_indices, mapspace.temporal, strict=True)
    ]
    for order in (part for part in parts if isinstance(part, TemporalOrder)):
        temporal[order.level] = replace(temporal[order.level], inner=(), outer=())
    fanouts = [
        list(_spatial_variants(limits, position, rules, dropped))
        for position, rules in zip(mapspace.architecture.fanout_indices, mapspace.spatial, strict=True)
    ]
    keeps = list(_keep_variants(mapspace, dropped))
    return tuple(
        replace(limits, temporal=tuple(temporal), spatial=spatial, keep=keep)
        for spatial, keep in product(product(*fanouts), keeps)
    )


def _without_limits(mapspace: Mapspace, dropped: Constraints) -> Mapspace:
    """Lift capacities, meshes and the least parallelism."""
    nodes: list[Node] = list(mapspace.architecture.nodes)
    for level, position in enumerate(mapspace.architecture.storage_indices):
        storage = mapspace.architecture.levels[level]
        lifted = [type(c) for c in dropped if isinstance(c, Capacity | Utilization) and c.level == level]
        nodes[position] = _storage(storage, lifted, mapspace)
    for constraint in dropped:
        if isinstance(constraint, Mesh):
            nodes[constraint.node] = _wider(nodes[constraint.node], constraint, mapspace.problem.computes)
    parallelism = any(isinstance(constraint, Parallelism) for constraint in dropped)
    return replace(
        mapspace,
        architecture=replace(mapspace.architecture, nodes=tuple(nodes)),
        min_parallelism=Fraction(0) if parallelism else mapspace.min_parallelism,
    )


def _sized(mapspace: Mapspace, dropped: Constraints, rules: Iterable[Rule]) -> Iterator[Rule]:
    """Yield rules that ask for a capacity that is lifted with its size: what they require stays."""
    sizes = {
        Quantity("capacity", constraint.storage.name): constraint.storage.usable_words
        for constraint in dropped
        if isinstance(constraint, Capacity) and constraint.storage.usable_words is not None
    }
    for rule in rules:
        yield rule.given({asked: size for asked, size in sizes.items() if size is not None})


def _storage(storage: StorageLevel, lifted: Collection[type[Constraint]], mapspace: Mapspace) -> StorageLevel:
    if Utilization in lifted:
        storage = replace(storage, min_utilization=Fraction(0))
    if Capacity not in lifted:
        return storage
    if storage.usable_words is None or not storage.min_utilization:
        return replace(storage, size_words=None)
    # The least words stay the same, now as a share of room for everything.
    least = storage.usable_words * storage.min_utilization
    everything = sum(
        tile_words(space, mapspace.problem.bound) * storage.packing_of(space.name).size_per_value
        for space in mapspace.problem.dataspaces
    )
    room = max(everything, math.ceil(least))
    return replace(
        storage, size_words=room, multiple_buffering=Fraction(1), min_utilization=Fraction(least, room)
    )


def _wider(node: Node, mesh: Mesh, children: int) -> Node:
    assert isinstance(node, Fanout)
    return replace(node, mesh_x=children) if mesh.axis == "x" else replace(node, mesh_y=children)


def _factors(
    rules: TemporalRules | SpatialRules, position: int, dropped: Constraints
) -> tuple[FactorRule, ...]:
    freed = _freed(dropped)
    return tuple(
        rule
        for rule in rules.factors
        if rule.stored not in freed and (rule.stored or FactorLimit(position, rule) not in dropped)
    )


def _freed(dropped: Constraints) -> set[str]:
    """Return the dataspaces that no inner level has to store as a whole any longer."""
    return {constraint.dataspace for constraint in dropped if isinstance(constraint, Whole)}


def _spatial_variants(
    mapspace: Mapspace, position: int, rules: SpatialRules, dropped: Constraints
) -> Iterator[SpatialRules]:
    counted = [dim for dim in mapspace.problem.dims if dim not in rules.uncounted]
    of_fanout = [c for c in dropped if isinstance(c, SpatialOrder | Split) and c.node == position]
    ordered = not any(isinstance(c, SpatialOrder) for c in of_fanout)
    split = None if rules.split is None or any(isinstance(c, Split) for c in of_fanout) else rules.split
    rules = replace(
        rules,
        factors=_factors(rules, position, dropped),
        inner=rules.inner if ordered else (),
        outer=rules.outer if ordered else (),
        split=None if split is None else min(split, len(counted)),
    )
    freed = [dim for dim in mapspace.problem.dims if dim in rules.uncounted and _live(mapspace, rules, dim)]
    rules = replace(rules, uncounted=rules.uncounted.difference(freed))
    if rules.split is None and not (rules.inner or rules.outer):
        yield rules
        return
    fanout = mapspace.architecture.nodes[position]
    assert isinstance(fanout, Fanout)
    axes = [axis for axis, size in (("x", fanout.mesh_x), ("y", fanout.mesh_y)) if size > 1] or ["x"]
    # A freed dimension takes a place in the order, or still takes none and lies along either axis.
    ways = [*axes, ""] if rules.split is not None else axes
    for places in product(ways, repeat=len(freed)):
        yield _placed(rules, dict(zip(freed, places, strict=True)))


def _live(mapspace: Mapspace, rules: SpatialRules, dim: str) -> bool:
    allowed = allowed_factors(rules.factors, dim, mapspace.problem.bound[dim], mapspace.factors)
    return bool(allowed) and allowed[-1] > 1


def _placed(rules: SpatialRules, axes: dict[str, str]) -> SpatialRules:
    """Put dimensions along X before the order and those along Y after it, the others as before."""
    along_x = tuple(dim for dim, axis in axes.items() if axis == "x")
    along_y = tuple(dim for dim, axis in axes.items() if axis == "y")
    split = None if rules.split is None else rules.split + len(along_x)
    return replace(rules, inner=(*along_x, *rules.inner), outer=(*rules.outer, *along_y), split=split)


def _keep_variants(mapspace: Mapspace, dropped: Constraints) -> Iterator[tuple[KeepRules, ...]]:
    choices: list[list[KeepRules]] = []
    for level, rules in enumerate(mapspace.keep):
        of_level = [c for c in dropped if isinstance(c, Keeping) and c.level == level]
        whole = rules.whole - _freed(dropped)
        kept = asked_for(rules).difference(c.dataspace for c in of_level if c.verb == "keep") | whole
        freed = [c.dataspace for c in of_level if c.verb == "bypass"]
        bypassed = rules.bypass.difference(freed)
        # The outermost level keeps what it does not bypass: what it bypassed may now be either.
        both = product((False, True), repeat=len(freed)) if level == 0 else [(False,) * len(freed)]
        choices.append(
            [
                replace(
                    rules,
                    keep=kept,
                    whole=whole,
                    bypass=bypassed.union(n for n, again in zip(freed, chosen, strict=True) if again),
                )
                for chosen in both
            ]
        )
    yield from product(*choices)
