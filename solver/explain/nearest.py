"""The nearest value of a constraint that makes room for a mapping, found by asking value by value."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import assert_never

from model.mapspace import FactorRule, Mapspace
from model.numbers import divisors
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
    Whole,
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
    feasibility: Feasibility,
    context: Collection[Constraint],
    constraint: Constraint,
    twins: Sequence[Constraint] = (),
) -> Nearest | None:
    """Return the value nearest to that of `constraint` for which `context` leaves room.

    None if there is none, if the constraint has no value, or if the search was stopped before any was
    found.
    """
    scales = [scale for scale in map(_scale, (constraint, *twins)) if scale is not None]
    if scales and not any(_is_held_at_one(feasibility.mapspace, limit) for limit in (constraint, *twins)):
        return _bisect(feasibility, context, scales)
    for value in _candidates(feasibility.mapspace, constraint, twins):
        changed = [with_value(each, value) for each in (constraint, *twins)]
        answer = feasibility.decide([*context, *changed])
        if answer.witness is not None:
            return Nearest(value, answer.witness, exact=True)
    return None


def with_value(constraint: Constraint, value: int) -> Constraint:
    """Return a factor rule, a mesh, a split or a least parallelism with another number.

    Raises
    ------
    ValueError
        The constraint has no number, or a capacity's or utilization's words.
    """
    match constraint:
        case FactorLimit(node, rule):
            return FactorLimit(node, replace(rule, value=value))
        case Mesh():
            return replace(constraint, size=value)
        case Split():
            return replace(constraint, count=value)
        case Parallelism():
            return replace(constraint, units=Fraction(value))
        case SpatialOrder() | Keeping() | Whole() | Capacity() | Utilization():
            raise ValueError(f"{type(constraint).__name__} has no number of its own")
        case _:
            assert_never(constraint)


def _bisect(
    feasibility: Feasibility, context: Collection[Constraint], scales: Sequence[_Scale]
) -> Nearest | None:
    """Bisect between the limit, which does not suffice, and what the mappings found so far need."""
    furthest = max if scales[0].upper else min

    def measure(witness: Witness) -> int:
        return furthest(scale.measure(witness) for scale in scales)

    witness = feasibility.decide(context).witness
    if witness is None:
        return None
    fails, suffices = scales[0].limit, measure(witness)
    while abs(suffices - fails) > 1:
        middle = (suffices + fails) // 2
        answer = feasibility.decide([*context, *(scale.at(middle) for scale in scales)])
        if answer.verdict is Verdict.UNKNOWN:
            return Nearest(suffices, witness, exact=False)
        if answer.witness is None:
            fails = middle
        else:
            witness, suffices = answer.witness, measure(answer.witness)
    return Nearest(suffices, witness, exact=True)


def _scale(constraint: Constraint) -> _Scale | None:
    """Return the scale of a constraint that is monotone in its number, None for all others."""
    match constraint:
        case Capacity() | Utilization():
            return _scale_of_words(constraint)
        case Mesh(node, axis, size):
            return _Scale(
                size, True, lambda witness: witness.along(node, axis), partial(with_value, constraint)
            )
        case Parallelism():
            return _Scale(
                constraint.least, False, lambda witness: witness.units, partial(with_value, constraint)
            )
        case FactorLimit(node, rule) if rule.relation != "=":
            return _Scale(
                rule.value,
                rule.relation == "<=",
                lambda witness: witness.factor(node, rule.dim),
                partial(with_value, constraint),
            )
        case FactorLimit() | Split() | SpatialOrder() | Keeping() | Whole():
            return None
        case _:
            assert_never(constraint)


def _scale_of_words(constraint: Capacity | Utilization) -> _Scale:
    level, storage = constraint.level, constraint.storage

    def capacity(words: int) -> Constraint:
        return Capacity(level, replace(storage, size_words=words, multiple_buffering=Fraction(1)))

    def utilization(words: int) -> Constraint:
        assert storage.usable_words is not None
        return Utilization(level, replace(storage, min_utilization=Fraction(words, storage.usable_words)))

    upper = isinstance(constraint, Capacity)
    at = capacity if upper else utilization
    return _Scale(constraint.words, upper, lambda witness: witness.words(level), at)


def _candidates(mapspace: Mapspace, constraint: Constraint, twins: Sequence[Constraint]) -> Iterator[int]:
    """Yield other values of a constraint that is not monotone in them, nearest first."""
    match constraint:
        case FactorLimit(_, FactorRule(relation="=") as rule):
            limits = (constraint, *twins)
            values = [d for d in divisors(mapspace.problem.bound[rule.dim]) if d != rule.value]
            values = [d for d in values if not any(_shifts_an_order(mapspace, c, d) for c in limits)]
            yield from sorted(values, key=lambda v: Fraction(max(v, rule.value), min(v, rule.value)))
        case Split(node, count):
            fanout = mapspace.architecture.fanout_indices.index(node)
            places = len(mapspace.problem.dims) - len(mapspace.spatial[fanout].uncounted)
            yield from sorted(set(range(places + 1)) - {count}, key=lambda v: abs(v - count))
        case FactorLimit() | Mesh() | Parallelism() | Capacity() | Utilization():
            return  # monotone: a bisection finds their values
        case SpatialOrder() | Keeping() | Whole():
            return  # they have no value
        case _:
            assert_never(constraint)


def _is_held_at_one(mapspace: Mapspace, constraint: Constraint) -> bool:
    """Whether a rule keeps its dimension out of an order, which it would enter with any larger limit."""
    return isinstance(constraint, FactorLimit) and _shifts_an_order(
        mapspace, constraint, constraint.rule.value + 1
    )


def _shifts_an_order(mapspace: Mapspace, constraint: Constraint, value: int) -> bool:
    """Whether a dimension would enter or leave an order in which one that is fixed to 1 takes no place.

    What lies along X would then be another matter, so the value is not proposed.
    """
    assert isinstance(constraint, FactorLimit)
    node, rule = constraint.node, constraint.rule
    if node not in mapspace.architecture.fanout_indices or rule.relation == ">=":
        return False
    rules = mapspace.spatial[mapspace.architecture.fanout_indices.index(node)]
    if rule.dim in (*rules.inner, *rules.outer) or not (
        rules.inner or rules.outer or rules.split is not None
    ):
        return False
    return (rule.value == 1) != (value == 1)
