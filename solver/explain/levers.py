"""Single changes that make room for a mapping, each tried out before it is proposed."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction

from model.architecture import StorageLevel
from model.mapspace import Mapspace
from solver.explain.constraints import (
    Capacity,
    Constraint,
    FactorLimit,
    Mesh,
    Parallelism,
    Split,
    Utilization,
)
from solver.explain.feasibility import Feasibility
from solver.explain.nearest import nearest
from solver.explain.wording import change_text, without_text
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
        All that is to hold otherwise, the conflict included.
    """
    mapspace = feasibility.mapspace
    for constraint in conflict:
        rest = [c for c in constraints if c != constraint]
        found = nearest(feasibility, rest, constraint)
        if found is None:
            if feasibility.decide(rest).witness is not None:
                yield Lever(without_text(constraint, mapspace), sources=constraint.sources)
            continue
        for change in _changes(constraint, found.value, rest, mapspace):
            if feasibility.decide(change.outcome).witness is not None:
                text = change_text(change.constraint, change.needed, mapspace)
                yield Lever(text, change.current, change.needed, change.constraint.sources[:1])


def _changes(
    constraint: Constraint, value: int, rest: list[Constraint], mapspace: Mapspace
) -> Iterator[_Change]:
    """Yield what `constraint` can be changed to so that `value` suffices."""
    match constraint:
        case Capacity(level, storage):
            least = math.ceil(value * storage.multiple_buffering / storage.block_size)
            yield _resized(level, storage, least * storage.block_size, rest)
        case Utilization(level, storage):
            share = Fraction(value, storage.usable_words or 1)
            changed = Utilization(level, replace(storage, min_utilization=share))
            yield _Change(constraint, constraint.words, value, [*rest, changed])
            fillable = value // storage.min_utilization
            rows = max(1, math.floor(fillable * storage.multiple_buffering / storage.block_size))
            yield _resized(level, storage, rows * storage.block_size, rest)
        case Mesh(_, _, size):
            # A least parallelism is a share of all units, of which there are more on a larger mesh.
            grown = [_scaled(c, Fraction(value, size)) for c in rest]
            yield _Change(constraint, size, value, [*grown, replace(constraint, size=value)])
        case Parallelism():
            fewer = replace(constraint, units=Fraction(value))
            yield _Change(constraint, constraint.least, value, [*rest, fewer])
        case FactorLimit(node, rule):
            other = FactorLimit(node, replace(rule, value=value))
            yield _Change(constraint, rule.value, value, [*rest, other])
        case Split(_, count):
            yield _Change(constraint, count, value, [*rest, replace(constraint, count=value)])


def _resized(level: int, storage: StorageLevel, words: int, rest: list[Constraint]) -> _Change:
    """Return the change of a storage to `words`, on which its least utilization depends as well."""
    resized = replace(storage, size_words=words)
    others = [c for c in rest if not (isinstance(c, Capacity | Utilization) and c.level == level)]
    outcome: list[Constraint] = [*others, Capacity(level, resized)]
    if resized.min_utilization and resized.usable_words:
        outcome.append(Utilization(level, resized))
    return _Change(Capacity(level, storage), storage.size_words or 0, words, outcome)


def _scaled(constraint: Constraint, factor: Fraction) -> Constraint:
    if isinstance(constraint, Parallelism):
        return replace(constraint, units=constraint.units * factor)
    return constraint
