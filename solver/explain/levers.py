"""Single changes that make room for a mapping, each tried out before it is proposed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import assert_never

from model.mapping import FanoutMapping
from model.mapspace import Mapspace
from solver.explain.constraints import (
    Capacity,
    Constraint,
    FactorLimit,
    Keeping,
    KeepVerb,
    Mesh,
    Parallelism,
    SpatialOrder,
    Split,
    Utilization,
    Whole,
    stored_at,
    twins_of,
)
from solver.explain.feasibility import Feasibility
from solver.explain.nearest import nearest
from solver.explain.shares import (
    Sized,
    next_larger,
    next_smaller,
    sized_mesh,
    sized_storages,
    sized_utilizations,
    unit_words,
)
from solver.explain.wording import also_text, change_text, order_text, without_text
from solver.result import Clock, Lever

Search = Callable[[Feasibility, Collection[Constraint], Sized], int | None]

DEAREST_LAST = (FactorLimit, Keeping, Split, SpatialOrder, Whole, Parallelism, Utilization, Capacity, Mesh)
"""In which order changes are tried: one question each, a bisection, several until sizes and shares agree."""


def levers(
    feasibility: Feasibility,
    constraints: Collection[Constraint],
    conflict: Collection[Constraint],
    clock: Clock,
) -> tuple[tuple[Lever, ...], bool]:
    """Return, for each constraint of `conflict`, the nearest change that suffices by itself, if any does.

    The dearest are tried last, each for its share of the time that the others leave.
    """
    together = list(_written_together(conflict, constraints))
    found: dict[Constraint, tuple[Lever, ...]] = {}
    complete = True
    for tried, changed in enumerate(sorted(together, key=_dearness)):
        share = clock.share(len(together) - tried)
        found[changed[0]] = tuple(_sufficient(feasibility.until(share.stop), constraints, changed))
        complete &= share.termination is None
    return tuple(lever for changed in together for lever in found[changed[0]]), complete


def _written_together(
    conflict: Iterable[Constraint], constraints: Collection[Constraint]
) -> Iterator[list[Constraint]]:
    """Yield each constraint with those that change with it, once for all of them."""
    seen: set[Constraint] = set()
    for constraint in conflict:
        if constraint not in seen:
            twins = twins_of(constraint, constraints)
            seen.update(twins)
            yield [constraint, *twins]


def _dearness(changed: Sequence[Constraint]) -> tuple[int, int]:
    """Return what sorts changes; of several meshes, the largest has the most sizes to go through."""
    first = changed[0]
    return DEAREST_LAST.index(type(first)), first.size if isinstance(first, Mesh) else 0


def _sufficient(
    feasibility: Feasibility, constraints: Collection[Constraint], changed: Sequence[Constraint]
) -> Iterator[Lever]:
    """Yield the nearest change to what is written together that suffices by itself, if any does."""
    constraint = changed[0]
    rest = [c for c in constraints if c not in changed]
    match constraint:
        case SpatialOrder():
            yield from _reordered(feasibility, rest, changed)
        case Mesh():
            yield from _resized_mesh(feasibility, rest, changed)
        case Whole():
            yield from _stored_elsewhere(feasibility, rest, constraint)
        case Capacity():
            yield from _resized(feasibility, rest, changed, next_larger)
        case Utilization():
            yield from _filled_less(feasibility, rest, changed)
        case FactorLimit() | Split() | Keeping() | Parallelism():
            yield from _changed(feasibility, rest, changed)
        case _:
            assert_never(constraint)


def _changed(
    feasibility: Feasibility, rest: Collection[Constraint], changed: Sequence[Constraint]
) -> Iterator[Lever]:
    """Yield the nearest other value that suffices; where there is none, that the constraint has to go."""
    constraint, *twins = changed
    mapspace = feasibility.mapspace
    suffices = nearest(feasibility, rest, constraint, twins)
    if suffices is not None:
        text = change_text(constraint, suffices.value, mapspace) + also_text(twins, mapspace)
        yield Lever(text, _number(constraint), suffices.value, constraint.sources[:1])
    elif feasibility.decide(rest).witness is not None:
        yield _dropped(feasibility, rest, constraint, twins)


def _dropped(
    feasibility: Feasibility,
    rest: Collection[Constraint],
    constraint: Constraint,
    twins: Sequence[Constraint],
) -> Lever:
    """Return that `constraint` goes; of a dataspace, that it is bypassed rather than kept, or kept."""
    mapspace = feasibility.mapspace
    if not isinstance(constraint, Keeping):
        return Lever(without_text(constraint, mapspace), sources=constraint.sources)
    # In a `!Parallel`, what is kept in one branch is bypassed in the others, which are then free.
    dropped = [k for k in (constraint, *twins) if isinstance(k, Keeping) and k.verb == constraint.verb]
    opposite: KeepVerb = "bypass" if constraint.verb == "keep" else "keep"
    turned = [replace(keeping, verb=opposite) for keeping in dropped]
    is_enough = all(_keeps_something(keeping, rest, mapspace) for keeping in dropped) and (
        feasibility.decide([*rest, *turned]).witness is not None
    )
    text = without_text(constraint, mapspace, is_enough) + also_text(dropped[1:], mapspace)
    return Lever(text, sources=constraint.sources)


def _stored_elsewhere(
    feasibility: Feasibility, rest: Collection[Constraint], whole: Whole
) -> Iterator[Lever]:
    """Yield the nearest level outside that makes room if it does not bypass the dataspace, but stores it."""
    bypasses = [c for c in rest if isinstance(c, Keeping) and c.verb == "bypass"]
    outside = [c for c in bypasses if c.dataspace == whole.dataspace and c.level < whole.level]
    for bypass in reversed(outside):
        lever = _stored_at(feasibility, rest, bypass)
        if lever is not None:
            yield lever
            return


def _stored_at(feasibility: Feasibility, rest: Collection[Constraint], bypass: Keeping) -> Lever | None:
    """Return that a level stores a dataspace instead of bypassing it, None if that is not enough."""
    mapspace, twins = feasibility.mapspace, twins_of(bypass, rest)
    freed = [k for k in (bypass, *twins) if isinstance(k, Keeping) and k.verb == "bypass"]
    level = min(keeping.level for keeping in freed)
    storage = mapspace.architecture.levels[level]
    if any(keeping.settled for keeping in freed) or bypass.dataspace in storage.no_coalesce:
        return None
    others = [c for c in rest if c != bypass and c not in twins]
    if feasibility.decide([*others, stored_at(mapspace, level, bypass.dataspace)]).witness is None:
        return None
    text = without_text(bypass, mapspace, turned=True) + also_text(freed[1:], mapspace)
    return Lever(text, sources=bypass.sources)


def _resized_mesh(
    feasibility: Feasibility, rest: Collection[Constraint], changed: Sequence[Constraint]
) -> Iterator[Lever]:
    """Yield the nearest number of children that suffices; a least parallelism may ask for a smaller one."""
    meshes = [mesh for mesh in changed if isinstance(mesh, Mesh)]
    sized, mapspace, present = sized_mesh(rest, meshes), feasibility.mapspace, meshes[0].size
    others = [c for c in rest if not isinstance(c, Parallelism)]
    sizes = (search(feasibility, others, sized) for search in (next_larger, next_smaller))
    needed = min(
        (size for size in sizes if size is not None), key=lambda size: abs(size - present), default=None
    )
    if needed is not None:
        text = change_text(meshes[0], needed, mapspace) + also_text(meshes[1:], mapspace)
        yield Lever(text, present, needed, meshes[0].sources[:1])


def _resized(
    feasibility: Feasibility, rest: Collection[Constraint], changed: Sequence[Constraint], search: Search
) -> Iterator[Lever]:
    """Yield the nearest capacity that `search` finds to suffice; their least utilizations go along."""
    capacities = [capacity for capacity in changed if isinstance(capacity, Capacity)]
    levels = {capacity.level for capacity in capacities}
    sized = [c for c in rest if isinstance(c, Capacity | Utilization) and c.level in levels]
    filled = {c.level for c in sized if isinstance(c, Utilization)}
    others, mapspace, first = [c for c in rest if c not in sized], feasibility.mapspace, capacities[0]
    size = search(feasibility, others, sized_storages(capacities, filled))
    if size is not None:
        words = size * unit_words(first.storage)
        text = change_text(first, words, mapspace) + also_text(capacities[1:], mapspace)
        taken = first.storage.reserved_words
        yield Lever(text, (first.storage.size_words or 0) + taken, words + taken, first.sources[:1])


def _filled_less(
    feasibility: Feasibility, rest: Collection[Constraint], changed: Sequence[Constraint]
) -> Iterator[Lever]:
    """Yield the nearest least utilization that suffices, and the nearest smaller capacity."""
    utilizations = [constraint for constraint in changed if isinstance(constraint, Utilization)]
    first, mapspace = utilizations[0], feasibility.mapspace
    words = next_smaller(feasibility, rest, sized_utilizations(utilizations))
    if words is not None:
        text = change_text(first, words, mapspace) + also_text(utilizations[1:], mapspace)
        yield Lever(text, first.words, words, first.sources[:1])
    elif feasibility.decide(rest).witness is not None:
        yield Lever(without_text(first, mapspace), sources=first.sources)
    capacity = Capacity(first.level, first.storage)
    together = [capacity, *twins_of(capacity, rest)]
    yield from _resized(feasibility, [*rest, *utilizations], together, next_smaller)


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


def _keeps_something(keeping: Keeping, rest: Collection[Constraint], mapspace: Mapspace) -> bool:
    """Whether a level may keep any dataspace once it bypasses this one: to keep none is refused."""
    if keeping.verb == "bypass":
        return True
    others = {space.name for space in mapspace.problem.dataspaces} - {keeping.dataspace}
    of_level = (c for c in rest if isinstance(c, Keeping) and c.level == keeping.level)
    return not others <= {c.dataspace for c in of_level if c.verb == "bypass"}


def _number(constraint: Constraint) -> int:
    match constraint:
        case Parallelism():
            return constraint.least
        case FactorLimit(_, rule):
            return rule.value
        case Split(_, count):
            return count
        case SpatialOrder() | Keeping() | Whole() | Capacity() | Utilization() | Mesh():
            raise ValueError(f"a {type(constraint).__name__} is not changed as a number of its own")
        case _:
            assert_never(constraint)
