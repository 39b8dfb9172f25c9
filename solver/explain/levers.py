"""Single changes that make room for a mapping: each the nearest that suffices, tried before it is proposed.

A constraint with one number that only widens or narrows is bisected. A least parallelism is a share of all
units, and a least utilization a share of a capacity, so a larger size has more room but its share requires
more. There the nearest size is approached from the one that does not suffice: the share of the next size
needs some room, the share of that room needs more, and so on until both agree. No size in between suffices.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import assert_never

from model.architecture import StorageLevel
from model.extents import ANY
from model.mapping import FanoutMapping
from model.mapspace import FactorRule, Mapspace, Relation
from solver.explain.constraints import twins_of
from solver.explain.feasibility import Feasibility, Verdict, Witness
from solver.explain.wording import also_text, change_text, order_text, without_text
from solver.formulation.requirements import (
    AxisSplit,
    Constraint,
    ConstraintSet,
    FactorLimit,
    KeepVerb,
    KeptOrBypassed,
    Mesh,
    Parallelism,
    SpatialOrder,
    TileCapacity,
    Utilization,
    Whole,
    stored_at,
)
from solver.result import Clock, Lever

MOST_TRIED = 256
"""Values on either side of a factor that are tried where several nodes share it and any may do."""


@dataclass(frozen=True)
class Nearest:
    """A value that suffices, with a mapping; `exact` if no nearer one does."""

    value: int
    witness: Witness
    exact: bool


@dataclass(frozen=True)
class _Dependence:
    """How a constraint depends on one number."""

    limit: int
    upper: bool  # whether the number is an upper limit on what `measure` finds in a mapping
    measure: Callable[[Witness], int]
    at: Callable[[int], Constraint]


def nearest_sufficient(
    feasibility: Feasibility, context: ConstraintSet, constraint: Constraint, twins: Sequence[Constraint] = ()
) -> Nearest | None:
    """Return the value nearest to that of `constraint` that suffices in `context`, None if none was found."""
    scales = [scale for scale in map(_dependence, (constraint, *twins)) if scale is not None]
    if scales and not any(_is_held_at_one(feasibility.mapspace, limit) for limit in (constraint, *twins)):
        return _bisect(feasibility, context, scales)
    if isinstance(constraint, FactorLimit) and feasibility.mapspace.factors == ANY and not twins:
        return _nearest_factor(feasibility, context, constraint)
    for value in _candidates(feasibility.mapspace, constraint, twins):
        changed = [with_value(each, value) for each in (constraint, *twins)]
        answer = feasibility.decide([*context, *changed])
        if answer.witness is not None:
            return Nearest(value, answer.witness, exact=True)
    return None


def with_value(constraint: Constraint, value: int) -> Constraint:
    """Return a factor rule, a mesh, a split or a least parallelism with another number."""
    match constraint:
        case FactorLimit(node, rule):
            return FactorLimit(node, replace(rule, value=value))
        case Mesh():
            return replace(constraint, size=value)
        case AxisSplit():
            return replace(constraint, count=value)
        case Parallelism():
            return replace(constraint, units=Fraction(value))
        case SpatialOrder() | KeptOrBypassed() | Whole() | TileCapacity() | Utilization():
            raise ValueError(f"{type(constraint).__name__} has no single number")
        case _:
            assert_never(constraint)


def _bisect(
    feasibility: Feasibility, context: ConstraintSet, scales: Sequence[_Dependence]
) -> Nearest | None:
    """Bisect between the limit, which does not suffice, and the need of the mappings found so far."""
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


def _nearest_factor(feasibility: Feasibility, context: ConstraintSet, limit: FactorLimit) -> Nearest | None:
    """Bisect on either side of a fixed factor that may have any other value."""
    rule, mapspace = limit.rule, feasibility.mapspace
    found: list[Nearest] = []
    for relation, beside, opposite in _SIDES:
        start = rule.value + beside
        if not 1 <= start <= mapspace.problem.bound[rule.dim]:
            continue
        side = FactorLimit(limit.node, replace(rule, relation=relation, value=start))
        scale = _dependence(FactorLimit(limit.node, replace(rule, relation=opposite)))
        assert scale is not None  # limits on one side have one
        suffices = _bisect(feasibility, [*context, side], [scale])
        if suffices is not None and not _shifts_an_order(mapspace, limit, suffices.value):
            found.append(suffices)
    return min(found, key=lambda each: _ratio(each.value, rule.value), default=None)


_SIDES: tuple[tuple[Relation, int, Relation], ...] = ((">=", 1, "<="), ("<=", -1, ">="))
"""Relations to the values above a factor and below it, where they begin, and the opposite relations."""


def _ratio(one: int, other: int) -> Fraction:
    return Fraction(max(one, other), min(one, other))


def _dependence(constraint: Constraint) -> _Dependence | None:
    """Return the scale of a constraint that is monotone in its number, None for any other."""
    at = partial(with_value, constraint)
    match constraint:
        case TileCapacity() | Utilization():
            return _scale_of_words(constraint)
        case Mesh(node, axis, size):
            return _Dependence(size, True, lambda witness: witness.along(node, axis), at)
        case Parallelism():
            return _Dependence(constraint.least, False, lambda witness: witness.units, at)
        case FactorLimit(node, rule) if rule.relation != "=":
            upper = rule.relation == "<="
            return _Dependence(rule.value, upper, lambda witness: witness.factor(node, rule.dim), at)
        case _:
            return None


def _scale_of_words(constraint: TileCapacity | Utilization) -> _Dependence:
    level, storage = constraint.level, constraint.storage

    def capacity(words: int) -> Constraint:
        return TileCapacity(level, replace(storage, size_words=words, multiple_buffering=Fraction(1)))

    def utilization(words: int) -> Constraint:
        assert storage.usable_words is not None
        return Utilization(level, replace(storage, min_utilization=Fraction(words, storage.usable_words)))

    upper = isinstance(constraint, TileCapacity)
    at = capacity if upper else utilization
    return _Dependence(constraint.words, upper, lambda witness: witness.words(level), at)


def _candidates(mapspace: Mapspace, constraint: Constraint, twins: Sequence[Constraint]) -> Iterator[int]:
    """Yield other values of a constraint that is not monotone in its value, nearest first."""
    match constraint:
        case FactorLimit(_, FactorRule(relation="=") as rule):
            limits = (constraint, *twins)
            near = mapspace.extents(rule.dim).values
            if mapspace.factors == ANY:
                near = near[max(0, rule.value - MOST_TRIED) : rule.value + MOST_TRIED]
            values = [d for d in near if d != rule.value]
            values = [d for d in values if not any(_shifts_an_order(mapspace, c, d) for c in limits)]
            yield from sorted(values, key=lambda value: _ratio(value, rule.value))
        case AxisSplit(node, count):
            fanout = mapspace.architecture.fanout_indices.index(node)
            places = len(mapspace.problem.dims) - len(mapspace.spatial[fanout].uncounted)
            yield from sorted(set(range(places + 1)) - {count}, key=lambda v: abs(v - count))
        case _:
            return  # monotone and bisected, or without a value


def _is_held_at_one(mapspace: Mapspace, constraint: Constraint) -> bool:
    """Whether a rule keeps its dimension out of an order that it would enter with any larger limit."""
    return isinstance(constraint, FactorLimit) and _shifts_an_order(
        mapspace, constraint, constraint.rule.value + 1
    )


def _shifts_an_order(mapspace: Mapspace, constraint: Constraint, value: int) -> bool:
    """Whether a value changes what a fanout's order counts, and so what lies along X; it is not proposed."""
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


@dataclass(frozen=True)
class Sized:
    """A size on which several constraints depend."""

    below: int  # the next sizes on either side of the present one
    above: int
    limits: Callable[[int], list[Constraint]]  # constraints that a larger size loosens
    shares: Callable[[int], list[Constraint]]  # constraints that a larger size tightens
    needed: Callable[[int], int] = lambda value: value  # the size for a value of the first of `limits`

    def at(self, size: int) -> list[Constraint]:
        """Return all constraints that depend on the size."""
        return [*self.limits(size), *self.shares(size)]


def sized_mesh(rest: ConstraintSet, meshes: Sequence[Mesh]) -> Sized:
    """Return the size of meshes that are written together, on which a least parallelism in `rest` depends."""
    now = meshes[0].size
    asked = [c for c in rest if isinstance(c, Parallelism)]

    def limits(size: int) -> list[Constraint]:
        return [with_value(mesh, size) for mesh in meshes]

    def shares(size: int) -> list[Constraint]:
        growth = Fraction(size, now) ** len(meshes)
        return [replace(c, units=c.units * growth) for c in asked]

    return Sized(now - 1, now + 1, limits, shares)


def sized_storages(capacities: Sequence[TileCapacity], filled: Collection[int]) -> Sized:
    """Return the size, as written, of storages that change together; `filled` have a least utilization."""
    storages = [each.storage for each in capacities]

    def limits(size: int) -> list[Constraint]:
        return [_resized_capacity(each, size) for each in capacities]

    def shares(size: int) -> list[Constraint]:
        resized = [_resized_capacity(each, size) for each in capacities if each.level in filled]
        return [Utilization(each.level, each.storage) for each in resized if each.words]

    def needed(words: int) -> int:
        return max(
            math.ceil(words * storage.multiple_buffering / unit_words(storage)) for storage in storages
        )

    words, unit = storages[0].size_words or 0, unit_words(storages[0])
    return Sized((words - 1) // unit, words // unit + 1, limits, shares, needed)


def unit_words(storage: StorageLevel) -> int:
    """Return the words in one unit of a capacity as it is written: in rows, or in words."""
    if storage.rows_per_word is None:
        return 1
    words = 1 / storage.rows_per_word
    return int(words) if words.denominator == 1 and storage.reserved_words % words == 0 else 1


def sized_utilizations(utilizations: Sequence[Utilization]) -> Sized:
    """Return the least filling of levels that are written together, in words of the first."""
    first = utilizations[0]

    def shares(words: int) -> list[Constraint]:
        share = Fraction(words, first.storage.usable_words or 1)
        return [
            Utilization(utilization.level, replace(utilization.storage, min_utilization=share))
            for utilization in utilizations
        ]

    return Sized(first.words - 1, first.words + 1, lambda _: [], shares)


def next_larger(feasibility: Feasibility, rest: ConstraintSet, sized: Sized) -> int | None:
    """Return the least larger size that suffices, None if none was found; `rest` is independent of it."""
    size = sized.above
    while True:
        first, *others = sized.limits(size - 1)
        suffices = nearest_sufficient(feasibility, [*rest, *sized.shares(size)], first, others)
        if suffices is None or not suffices.exact:
            return None
        size = max(size, sized.needed(suffices.value))
        if feasibility.decide([*rest, *sized.at(size)]).witness is not None:
            return size
        size += 1


def next_smaller(feasibility: Feasibility, rest: ConstraintSet, sized: Sized) -> int | None:
    """Return the largest smaller size that suffices, None if none was found."""

    def fails(*asked: Constraint) -> bool:
        return feasibility.decide([*rest, *asked]).witness is None

    size = sized.below
    while size > 0 and fails(*sized.at(size)):
        limits = sized.limits(size)
        if fails(*limits):
            return None
        size = bisect_left(range(size), True, lo=1, key=lambda less: fails(*limits, *sized.shares(less))) - 1
    return size if size > 0 else None


def _resized_capacity(capacity: TileCapacity, size: int) -> TileCapacity:
    storage = capacity.storage
    return TileCapacity(capacity.level, replace(storage, size_words=size * unit_words(storage)))


Search = Callable[[Feasibility, ConstraintSet, Sized], int | None]

CHEAPEST_FIRST = (
    FactorLimit,
    KeptOrBypassed,
    AxisSplit,
    SpatialOrder,
    Whole,
    Parallelism,
    Utilization,
    TileCapacity,
    Mesh,
)
"""The order in which changes are tried: those with one solve, then bisections, then sizes with shares."""


def levers(
    feasibility: Feasibility, constraints: ConstraintSet, conflict: ConstraintSet, clock: Clock
) -> tuple[tuple[Lever, ...], bool]:
    """Return the nearest sufficient change to each constraint of `conflict`, and whether time sufficed."""
    together = list(_written_together(conflict, constraints))
    found: dict[Constraint, tuple[Lever, ...]] = {}
    complete = True
    for tried, changed in enumerate(sorted(together, key=_effort)):
        share = clock.share(len(together) - tried)
        found[changed[0]] = tuple(_sufficient(feasibility.until(share.stop), constraints, changed))
        complete &= share.termination is None
    return tuple(lever for changed in together for lever in found[changed[0]]), complete


def _written_together(
    conflict: Iterable[Constraint], constraints: ConstraintSet
) -> Iterator[list[Constraint]]:
    """Yield each constraint of a conflict with those that change with it, each group once."""
    seen: set[Constraint] = set()
    for constraint in conflict:
        if constraint not in seen:
            twins = twins_of(constraint, constraints)
            seen.update(twins)
            yield [constraint, *twins]


def _effort(changed: Sequence[Constraint]) -> tuple[int, int]:
    """Return a sort key for changes; a larger mesh has more sizes to try."""
    first = changed[0]
    return CHEAPEST_FIRST.index(type(first)), first.size if isinstance(first, Mesh) else 0


def _sufficient(
    feasibility: Feasibility, constraints: ConstraintSet, changed: Sequence[Constraint]
) -> Iterator[Lever]:
    """Yield the nearest changes to `changed`, written together, that suffice by themselves."""
    constraint = changed[0]
    rest = [c for c in constraints if c not in changed]
    match constraint:
        case SpatialOrder():
            yield from _reordered(feasibility, rest, changed)
        case Mesh():
            yield from _resized_mesh(feasibility, rest, changed)
        case Whole():
            yield from _stored_elsewhere(feasibility, rest, constraint)
        case TileCapacity():
            yield from _resized_storage(feasibility, rest, changed, next_larger)
        case Utilization():
            yield from _filled_less(feasibility, rest, changed)
        case FactorLimit() | AxisSplit() | KeptOrBypassed() | Parallelism():
            yield from _levers_for(feasibility, rest, changed)
        case _:
            assert_never(constraint)


def _levers_for(
    feasibility: Feasibility, rest: ConstraintSet, changed: Sequence[Constraint]
) -> Iterator[Lever]:
    """Yield the nearest other value that suffices, or dropping the constraint where there is none."""
    constraint, *twins = changed
    suffices = nearest_sufficient(feasibility, rest, constraint, twins)
    if suffices is not None:
        yield _number_lever(feasibility.mapspace, changed, suffices.value, _number_of_constraint(constraint))
    elif feasibility.decide(rest).witness is not None:
        yield _dropped(feasibility, rest, constraint, twins)


def _dropped(
    feasibility: Feasibility, rest: ConstraintSet, constraint: Constraint, twins: Sequence[Constraint]
) -> Lever:
    """Return the lever that drops `constraint`, or that inverts it where a level keeps or bypasses."""
    mapspace = feasibility.mapspace
    if not isinstance(constraint, KeptOrBypassed):
        return Lever(without_text(constraint, mapspace), sources=constraint.sources)
    # In a `!Parallel`, what is kept in one branch is bypassed in the others, which are then free.
    dropped = [k for k in (constraint, *twins) if isinstance(k, KeptOrBypassed) and k.verb == constraint.verb]
    opposite: KeepVerb = "bypass" if constraint.verb == "keep" else "keep"
    turned = [replace(keeping, verb=opposite) for keeping in dropped]
    is_enough = all(_keeps_something(keeping, rest, mapspace) for keeping in dropped) and (
        feasibility.decide([*rest, *turned]).witness is not None
    )
    text = without_text(constraint, mapspace, is_enough) + also_text(dropped[1:], mapspace)
    return Lever(text, sources=constraint.sources)


def _stored_elsewhere(feasibility: Feasibility, rest: ConstraintSet, whole: Whole) -> Iterator[Lever]:
    """Yield the nearest level outside that makes room if it stores the dataspace instead of bypassing it."""
    bypasses = [c for c in rest if isinstance(c, KeptOrBypassed) and c.verb == "bypass"]
    outside = [c for c in bypasses if c.dataspace == whole.dataspace and c.level < whole.level]
    for bypass in reversed(outside):
        lever = _stored_at(feasibility, rest, bypass)
        if lever is not None:
            yield lever
            return


def _stored_at(feasibility: Feasibility, rest: ConstraintSet, bypass: KeptOrBypassed) -> Lever | None:
    """Return the lever that a level stores a dataspace it bypasses, None if that does not suffice."""
    mapspace, twins = feasibility.mapspace, twins_of(bypass, rest)
    freed = [k for k in (bypass, *twins) if isinstance(k, KeptOrBypassed) and k.verb == "bypass"]
    level = min(keeping.level for keeping in freed)
    storage = mapspace.architecture.levels[level]
    if any(keeping.settled for keeping in freed) or bypass.dataspace in storage.no_coalesce:
        return None
    others = [c for c in rest if c != bypass and c not in twins]
    if feasibility.decide([*others, stored_at(mapspace, level, bypass.dataspace)]).witness is None:
        return None
    text = without_text(bypass, mapspace, inverted=True) + also_text(freed[1:], mapspace)
    return Lever(text, sources=bypass.sources)


def _resized_mesh(
    feasibility: Feasibility, rest: ConstraintSet, changed: Sequence[Constraint]
) -> Iterator[Lever]:
    """Yield the nearest number of children that suffices; a least parallelism may need fewer."""
    meshes = [mesh for mesh in changed if isinstance(mesh, Mesh)]
    sized, present = sized_mesh(rest, meshes), meshes[0].size
    others = [c for c in rest if not isinstance(c, Parallelism)]
    sizes = [search(feasibility, others, sized) for search in (next_larger, next_smaller)]
    found = [size for size in sizes if size is not None]
    if found:
        needed = min(found, key=lambda size: abs(size - present))
        yield _number_lever(feasibility.mapspace, meshes, needed, present)


def _resized_storage(
    feasibility: Feasibility, rest: ConstraintSet, changed: Sequence[Constraint], search: Search
) -> Iterator[Lever]:
    """Yield the nearest capacity that `search` finds to suffice; its least utilizations change along."""
    capacities = [capacity for capacity in changed if isinstance(capacity, TileCapacity)]
    levels = {capacity.level for capacity in capacities}
    sized = [c for c in rest if isinstance(c, TileCapacity | Utilization) and c.level in levels]
    filled = {c.level for c in sized if isinstance(c, Utilization)}
    others, storage = [c for c in rest if c not in sized], capacities[0].storage
    size = search(feasibility, others, sized_storages(capacities, filled))
    if size is not None:
        words, present = size * unit_words(storage), storage.size_words or 0
        lever, reserved = (
            _number_lever(feasibility.mapspace, capacities, words, present),
            storage.reserved_words,
        )
        yield replace(lever, current=present + reserved, needed=words + reserved)


def _filled_less(
    feasibility: Feasibility, rest: ConstraintSet, changed: Sequence[Constraint]
) -> Iterator[Lever]:
    """Yield the nearest least utilization that suffices, and the nearest smaller capacity."""
    utilizations = [constraint for constraint in changed if isinstance(constraint, Utilization)]
    first = utilizations[0]
    words = next_smaller(feasibility, rest, sized_utilizations(utilizations))
    if words is not None:
        yield _number_lever(feasibility.mapspace, utilizations, words, first.words)
    elif feasibility.decide(rest).witness is not None:
        yield Lever(without_text(first, feasibility.mapspace), sources=first.sources)
    capacity = TileCapacity(first.level, first.storage)
    together = [capacity, *twins_of(capacity, rest)]
    yield from _resized_storage(feasibility, [*rest, *utilizations], together, next_smaller)


def _reordered(
    feasibility: Feasibility, rest: ConstraintSet, orders: Sequence[Constraint]
) -> Iterator[Lever]:
    """Yield the order of a mapping's loops along X, then unused dimensions, then Y, if that suffices."""
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
        replace(each, rules=replace(each.rules, inner=order, outer=()))
        for each in orders
        if isinstance(each, SpatialOrder)
    ]
    if feasibility.decide([*rest, *others]).witness is not None:
        text = order_text(constraint, order, mapspace) + also_text(orders[1:], mapspace)
        yield Lever(text, sources=constraint.sources)


def _keeps_something(keeping: KeptOrBypassed, rest: ConstraintSet, mapspace: Mapspace) -> bool:
    """Whether a level may keep any dataspace once it bypasses this one; a level must not bypass all."""
    if keeping.verb == "bypass":
        return True
    others = {space.name for space in mapspace.problem.dataspaces} - {keeping.dataspace}
    of_level = (c for c in rest if isinstance(c, KeptOrBypassed) and c.level == keeping.level)
    return not others <= {c.dataspace for c in of_level if c.verb == "bypass"}


def _number_lever(mapspace: Mapspace, changed: Sequence[Constraint], needed: int, current: int) -> Lever:
    """Return the lever that gives constraints that are written together another number."""
    text = change_text(changed[0], needed, mapspace) + also_text(changed[1:], mapspace)
    return Lever(text, current, needed, changed[0].sources[:1])


def _number_of_constraint(constraint: Constraint) -> int:
    match constraint:
        case Parallelism():
            return constraint.least
        case FactorLimit(_, rule):
            return rule.value
        case AxisSplit(_, count):
            return count
        case _:
            raise ValueError(f"{type(constraint).__name__} has no single number")
