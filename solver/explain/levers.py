"""Single changes that make room for a mapping, each tried out before it is proposed."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from model.mapping import FanoutMapping
from model.mapspace import Mapspace
from solver.explain.constraints import (
    Capacity,
    Constraint,
    FactorLimit,
    Keeping,
    Mesh,
    Parallelism,
    SpatialOrder,
    Split,
    Utilization,
)
from solver.explain.feasibility import Feasibility
from solver.explain.nearest import nearest, with_value
from solver.explain.wording import also_text, change_text, order_text, without_text
from solver.result import Lever


@dataclass(frozen=True)
class _Change:
    """A changed number of a constraint, and what the other constraints come to with it."""

    constraint: Constraint
    current: int
    needed: int
    outcome: list[Constraint]


def levers(
    feasibility: Feasibility, constraints: Collection[Constraint], conflict: Collection[Constraint]
) -> Iterator[Lever]:
    """Yield, for each constraint of `conflict`, the nearest change that suffices by itself, if any does.

    Parameters
    ----------
    constraints
        All that is to hold otherwise, the conflict included. What is written at the same place, by an
        anchor or for all branches of a ``!Parallel``, changes together.
    """
    mapspace = feasibility.mapspace
    seen: set[Constraint] = set()
    for constraint in conflict:
        if constraint in seen:
            continue
        twins = [c for c in constraints if c != constraint and _written_together(c, constraint)]
        seen.update(twins)
        rest = [c for c in constraints if c != constraint and c not in twins]
        if isinstance(constraint, SpatialOrder):
            yield from _reordered(feasibility, rest, [constraint, *twins])
            continue
        found = nearest(feasibility, rest, constraint, twins)
        if found is None:
            if feasibility.decide(rest).witness is not None:
                text = without_text(constraint, mapspace, turned=_keeps_something(constraint, rest, mapspace))
                yield Lever(text, sources=constraint.sources)
            continue
        for change in _changes(constraint, twins, found.value, rest):
            if feasibility.decide(change.outcome).witness is not None:
                text = change_text(change.constraint, change.needed, mapspace)
                text += also_text(twins, mapspace)
                yield Lever(text, change.current, change.needed, change.constraint.sources[:1])


def _reordered(
    feasibility: Feasibility, rest: Collection[Constraint], orders: Sequence[Constraint]
) -> Iterator[Lever]:
    """Yield an order that suffices: what some mapping has along X, then what it has no loop of, then Y."""
    constraint, witness = orders[0], feasibility.decide(rest).witness
    if witness is None:
        return
    assert isinstance(constraint, SpatialOrder)
    entry = witness.mapping.nodes[constraint.node]
    assert isinstance(entry, FanoutMapping)
    along = {axis: [loop.dim for loop in entry.spatial if loop.axis == axis] for axis in ("x", "y")}
    mapspace, live = feasibility.mapspace, (*along["x"], *along["y"])
    unused = [d for d in mapspace.problem.dims if d not in (*live, *constraint.rules.uncounted)]
    order = (*along["x"], *unused, *along["y"])
    others = [
        replace(own, rules=replace(own.rules, inner=order, outer=()))
        for own in orders
        if isinstance(own, SpatialOrder)
    ]
    if feasibility.decide([*rest, *others]).witness is not None:
        text = order_text(constraint, order, mapspace) + also_text(orders[1:], mapspace)
        yield Lever(text, sources=constraint.sources)


def _written_together(one: Constraint, other: Constraint) -> bool:
    """Whether two constraints are one in the text, and so change together."""
    if type(one) is not type(other) or not one.sources or one.sources[:1] != other.sources[:1]:
        return False
    match one, other:
        case FactorLimit(_, rule), FactorLimit(_, same):
            # A macro stands for rules on several dimensions, which are changed one by one.
            return (rule.dim, rule.relation, rule.value) == (same.dim, same.relation, same.value)
        case Mesh(axis=axis), Mesh(axis=same_axis):
            return axis == same_axis
        case Keeping(dataspace=dataspace), Keeping(dataspace=same_dataspace):
            return dataspace == same_dataspace
    return True


def _keeps_something(constraint: Constraint, rest: Collection[Constraint], mapspace: Mapspace) -> bool:
    """Whether a level may keep any dataspace once it bypasses this one: to keep none is refused."""
    if not isinstance(constraint, Keeping) or constraint.verb == "bypass":
        return True
    others = {space.name for space in mapspace.problem.dataspaces} - {constraint.dataspace}
    own = (c for c in rest if isinstance(c, Keeping) and c.level == constraint.level)
    return not others <= {c.dataspace for c in own if c.verb == "bypass"}


def _changes(
    constraint: Constraint, twins: Sequence[Constraint], value: int, rest: list[Constraint]
) -> Iterator[_Change]:
    """Yield what `constraint`, and its `twins` with it, can be changed to so that `value` suffices."""
    match constraint:
        case Capacity(_, storage):
            least = math.ceil(value * storage.multiple_buffering / storage.block_size)
            yield _resized((constraint, *twins), least * storage.block_size, rest)
        case Utilization(level, storage):
            share = Fraction(value, storage.usable_words or 1)
            changed = [
                Utilization(each.level, replace(each.storage, min_utilization=share))
                for each in (constraint, *twins)
                if isinstance(each, Utilization)
            ]
            yield _Change(constraint, constraint.words, value, [*rest, *changed])
            # The largest number of rows whose usable words, rounded down, are filled well enough.
            fillable = value // storage.min_utilization
            rows = max(1, math.ceil((fillable + 1) * storage.multiple_buffering / storage.block_size) - 1)
            yield _resized((Capacity(level, storage),), rows * storage.block_size, rest)
        case Mesh(_, _, size):
            # A least parallelism is a share of all units, of which there are more on a larger mesh.
            growth = Fraction(value, size) ** (1 + len(twins))
            others = [_scaled(c, growth) for c in rest]
            larger = [with_value(each, value) for each in (constraint, *twins)]
            yield _Change(constraint, size, value, [*others, *larger])
        case Parallelism() | FactorLimit() | Split():
            changes = [with_value(each, value) for each in (constraint, *twins)]
            yield _Change(constraint, _number(constraint), value, [*rest, *changes])


def _number(constraint: Parallelism | FactorLimit | Split) -> int:
    match constraint:
        case Parallelism():
            return constraint.least
        case FactorLimit(_, rule):
            return rule.value
        case Split(_, count):
            return count


def _resized(storages: Sequence[Constraint], words: int, rest: list[Constraint]) -> _Change:
    """Return the change of storages to `words`, on which their least utilization depends as well."""
    outcome = rest
    for each in storages:
        assert isinstance(each, Capacity)
        resized = replace(each.storage, size_words=words)
        outcome = [
            c for c in outcome if not (isinstance(c, Capacity | Utilization) and c.level == each.level)
        ]
        outcome.append(Capacity(each.level, resized))
        if resized.min_utilization and resized.usable_words:
            outcome.append(Utilization(each.level, resized))
    first = storages[0]
    assert isinstance(first, Capacity)
    return _Change(first, first.storage.size_words or 0, words, outcome)


def _scaled(constraint: Constraint, factor: Fraction) -> Constraint:
    if isinstance(constraint, Parallelism):
        return replace(constraint, units=constraint.units * factor)
    return constraint
