"""The nearest value of a constraint that makes room for a mapping, found by asking value by value."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction

from model.mapspace import Mapspace
from model.numbers import divisors
from solver.explain.constraints import (
    Capacity,
    Constraint,
    FactorLimit,
    Mesh,
    Parallelism,
    Split,
    Utilization,
)
from solver.explain.feasibility import Feasibility, Verdict, Witness


@dataclass(frozen=True)
class Nearest:
    """A value that suffices, with a mapping; `exact` if no nearer one does."""

    value: int
    witness: Witness
    exact: bool


@dataclass(frozen=True)
class _Scale:
    """How a constraint depends on one number.

    ``upper`` says that the number limits what ``measure`` finds in a mapping from above.
    """

    limit: int
    upper: bool
    measure: Callable[[Witness], int]
    at: Callable[[int], Constraint]


def nearest(
    feasibility: Feasibility, context: Collection[Constraint], constraint: Constraint
) -> Nearest | None:
    """Return the value nearest to that of `constraint` which `context` leaves room for.

    None if there is none, if the constraint has no value, or if the search was stopped before any was
    found.

    Parameters
    ----------
    context
        What else is to hold; together with `constraint` it is infeasible.
    """
    scale = _scale(constraint)
    if scale is not None:
        return _bisect(feasibility, context, scale)
    for value, candidate in _candidates(feasibility.mapspace, constraint):
        answer = feasibility.decide([*context, candidate])
        if answer.witness is not None:
            return Nearest(value, answer.witness, exact=True)
    return None


def _bisect(feasibility: Feasibility, context: Collection[Constraint], scale: _Scale) -> Nearest | None:
    """Close in between the limit, which does not suffice, and what mappings that were found need."""
    witness = feasibility.decide(context).witness
    if witness is None:
        return None
    fails, suffices = scale.limit, scale.measure(witness)
    while abs(suffices - fails) > 1:
        middle = (suffices + fails) // 2
        answer = feasibility.decide([*context, scale.at(middle)])
        if answer.verdict is Verdict.UNKNOWN:
            return Nearest(suffices, witness, exact=False)
        if answer.witness is None:
            fails = middle
        else:
            witness, suffices = answer.witness, scale.measure(answer.witness)
    return Nearest(suffices, witness, exact=True)


def _scale(constraint: Constraint) -> _Scale | None:
    match constraint:
        case Capacity(level, storage):
            return _Scale(
                constraint.words,
                True,
                lambda witness: witness.words(level),
                lambda words: Capacity(
                    level, replace(storage, size_words=words, multiple_buffering=Fraction(1))
                ),
            )
        case Utilization(level, storage):
            assert storage.usable_words is not None
            room = storage.usable_words
            return _Scale(
                constraint.words,
                False,
                lambda witness: witness.words(level),
                lambda words: Utilization(level, replace(storage, min_utilization=Fraction(words, room))),
            )
        case Mesh(node, axis, size):
            return _Scale(
                size,
                True,
                lambda witness: witness.along(node, axis),
                lambda children: replace(constraint, size=children),
            )
        case Parallelism():
            return _Scale(
                constraint.least,
                False,
                lambda witness: witness.units,
                lambda units: replace(constraint, units=Fraction(units)),
            )
        case FactorLimit(node, rule) if rule.relation != "=":
            return _Scale(
                rule.value,
                rule.relation == "<=",
                lambda witness: witness.factor(node, rule.dim),
                lambda factor: FactorLimit(node, replace(rule, value=factor)),
            )
    return None


def _candidates(mapspace: Mapspace, constraint: Constraint) -> Iterator[tuple[int, Constraint]]:
    """Yield other values of a constraint that is not monotone in them, nearest first."""
    match constraint:
        case FactorLimit(node, rule) if not _takes_a_place(mapspace, node, rule.dim):
            values = [d for d in divisors(mapspace.problem.bound[rule.dim]) if d != rule.value]
            for value in sorted(values, key=lambda v: Fraction(max(v, rule.value), min(v, rule.value))):
                yield value, FactorLimit(node, replace(rule, value=value))
        case Split(node, count):
            fanout = mapspace.architecture.fanout_indices.index(node)
            places = len(mapspace.problem.dims) - len(mapspace.spatial[fanout].uncounted)
            for value in sorted(set(range(places + 1)) - {count}, key=lambda v: abs(v - count)):
                yield value, replace(constraint, count=value)


def _takes_a_place(mapspace: Mapspace, node: int, dim: str) -> bool:
    """Whether `dim` would enter an order that it takes no place in as long as its factor is 1.

    What lies along X would then be another matter, so no value is proposed.
    """
    if node not in mapspace.architecture.fanout_indices:
        return False
    rules = mapspace.spatial[mapspace.architecture.fanout_indices.index(node)]
    return dim in rules.uncounted and bool(rules.inner or rules.outer or rules.split is not None)
