"""ConstraintSet that may be dropped, those that stand at one place, and mapspaces without some of them."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator
from dataclasses import replace
from fractions import Fraction
from itertools import product

from model.architecture import Fanout, Node, StorageLevel
from model.choices import allowed_factors
from model.counting.words import tile_words
from model.mapspace import FactorRule, KeepRules, Mapspace, SpatialRules, TemporalRules
from model.rules import Quantity, Rule
from solver.formulation.requirements import (
    AxisSplit,
    Constraint,
    ConstraintSet,
    FactorLimit,
    KeptOrBypassed,
    Mesh,
    Parallelism,
    SpatialOrder,
    TemporalOrder,
    TileCapacity,
    UserRule,
    Utilization,
    Whole,
    asked_for,
)


def droppable(constraint: Constraint) -> bool:
    """Whether the user could drop `constraint`: not an axis of a single child, nor what is settled."""
    if isinstance(constraint, KeptOrBypassed):
        return not constraint.settled
    if isinstance(constraint, FactorLimit):
        return not constraint.rule.is_settled
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
        case KeptOrBypassed(dataspace=dataspace):
            return dataspace
        case Whole():
            return constraint
        case _:
            return None


def twins_of(constraint: Constraint, constraints: Iterable[Constraint]) -> list[Constraint]:
    """Return the other constraints that are written together with `constraint`."""
    return [c for c in constraints if c != constraint and written_together(c, constraint)]


def without_parts(
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
        replace(rules, factors=_rules_left(rules, position, dropped))
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


def _without_limits(mapspace: Mapspace, dropped: ConstraintSet) -> Mapspace:
    """Lift capacities, meshes and the least parallelism."""
    nodes: list[Node] = list(mapspace.architecture.nodes)
    for level, position in enumerate(mapspace.architecture.storage_indices):
        storage = mapspace.architecture.levels[level]
        lifted = [type(c) for c in dropped if isinstance(c, TileCapacity | Utilization) and c.level == level]
        nodes[position] = _lifted_storage(storage, lifted, mapspace)
    for constraint in dropped:
        if isinstance(constraint, Mesh):
            nodes[constraint.node] = _wider(nodes[constraint.node], constraint, mapspace.problem.computes)
    parallelism = any(isinstance(constraint, Parallelism) for constraint in dropped)
    return replace(
        mapspace,
        architecture=replace(mapspace.architecture, nodes=tuple(nodes)),
        min_parallelism=Fraction(0) if parallelism else mapspace.min_parallelism,
    )


def _sized(mapspace: Mapspace, dropped: ConstraintSet, rules: Iterable[Rule]) -> Iterator[Rule]:
    """Yield rules that ask for a capacity that is lifted with its size: what they require stays."""
    sizes = {
        Quantity("capacity", constraint.storage.name): constraint.storage.usable_words
        for constraint in dropped
        if isinstance(constraint, TileCapacity) and constraint.storage.usable_words is not None
    }
    for rule in rules:
        yield rule.given({asked: size for asked, size in sizes.items() if size is not None})


def _lifted_storage(
    storage: StorageLevel, lifted: Collection[type[Constraint]], mapspace: Mapspace
) -> StorageLevel:
    if Utilization in lifted:
        storage = replace(storage, min_utilization=Fraction(0))
    if TileCapacity not in lifted:
        return storage
    least = storage.least_words
    if not least:
        return replace(storage, size_words=None)
    # The least words stay the same, now as a share of room for everything.
    everything = sum(
        tile_words(space, mapspace.problem.bound) * storage.packing_of(space.name).size_per_value
        for space in mapspace.problem.dataspaces
    )
    room = max(everything, least)
    return replace(
        storage, size_words=room, multiple_buffering=Fraction(1), min_utilization=Fraction(least, room)
    )


def _wider(node: Node, mesh: Mesh, children: int) -> Node:
    assert isinstance(node, Fanout)
    return replace(node, mesh_x=children) if mesh.axis == "x" else replace(node, mesh_y=children)


def _rules_left(
    rules: TemporalRules | SpatialRules, position: int, dropped: ConstraintSet
) -> tuple[FactorRule, ...]:
    freed = _freed(dropped)
    return tuple(
        rule
        for rule in rules.factors
        if rule.stored not in freed and (rule.stored or FactorLimit(position, rule) not in dropped)
    )


def _freed(dropped: ConstraintSet) -> set[str]:
    """Return the dataspaces that no inner level has to store as a whole any longer."""
    return {constraint.dataspace for constraint in dropped if isinstance(constraint, Whole)}


def _spatial_variants(
    mapspace: Mapspace, position: int, rules: SpatialRules, dropped: ConstraintSet
) -> Iterator[SpatialRules]:
    counted = [dim for dim in mapspace.problem.dims if dim not in rules.uncounted]
    of_fanout = [c for c in dropped if isinstance(c, SpatialOrder | AxisSplit) and c.node == position]
    ordered = not any(isinstance(c, SpatialOrder) for c in of_fanout)
    split = None if rules.split is None or any(isinstance(c, AxisSplit) for c in of_fanout) else rules.split
    rules = replace(
        rules,
        factors=_rules_left(rules, position, dropped),
        inner=rules.inner if ordered else (),
        outer=rules.outer if ordered else (),
        split=None if split is None else min(split, len(counted)),
    )
    freed = [
        dim for dim in mapspace.problem.dims if dim in rules.uncounted and _is_live(mapspace, rules, dim)
    ]
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
        yield _order_by_axes(rules, dict(zip(freed, places, strict=True)))


def _is_live(mapspace: Mapspace, rules: SpatialRules, dim: str) -> bool:
    allowed = allowed_factors(rules.factors, dim, mapspace.problem.bound[dim], mapspace.factors)
    return bool(allowed) and allowed[-1] > 1


def _order_by_axes(rules: SpatialRules, axes: dict[str, str]) -> SpatialRules:
    """Put dimensions along X before the order and those along Y after it, the others as before."""
    along_x = tuple(dim for dim, axis in axes.items() if axis == "x")
    along_y = tuple(dim for dim, axis in axes.items() if axis == "y")
    split = None if rules.split is None else rules.split + len(along_x)
    return replace(rules, inner=(*along_x, *rules.inner), outer=(*rules.outer, *along_y), split=split)


def _keep_variants(mapspace: Mapspace, dropped: ConstraintSet) -> Iterator[tuple[KeepRules, ...]]:
    choices: list[list[KeepRules]] = []
    for level, rules in enumerate(mapspace.keep):
        of_level = [c for c in dropped if isinstance(c, KeptOrBypassed) and c.level == level]
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
