"""The macro ``maximize_dims``: give dimensions as much of a fanout or a capacity as fits."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import product

from model.formats.timeloop.context import Context
from model.formats.timeloop.factors import Factor
from model.formats.timeloop.loops import LoopConstraints, Maximize
from model.formats.timeloop.rules import axis_of, spatial_rules
from model.mapping import Axis
from model.numbers import divisors
from model.text.notes import note_at
from model.text.source import SpecError

ROUNDED = "; Timeloop may round up to factors that leave a remainder, which are not modelled"
"""Said where divisors do not fill what is to be filled."""

_Products = dict[tuple[int, int], tuple[int, ...]]
"""Products of factors along X and along Y, with the factors."""


def maximize(all_loops: Iterable[LoopConstraints], context: Context) -> list[LoopConstraints]:
    """Turn every ``maximize_dims`` into fixed factors, and note which.

    Spatial constraints come first, then temporal ones, each from the innermost node outwards. A
    group gets the divisors of what is left of its dimensions (the bound over the factors fixed
    anywhere) with the largest product that fits; among equal products the first dimensions of the
    group get most. In a fanout the factors also have to fit along its axes.

    Raises
    ------
    SpecError
        A dimension is constrained already, or a temporal macro lacks its capacity.

    Notes
    -----
    Timeloop rounds up where a bound does not divide: docs/model.md, "Where the reading of specs departs
    from Timeloop".
    """
    loops = list(all_loops)
    order = [
        i for kind in ("spatial", "temporal") for i in reversed(range(len(loops))) if loops[i].kind == kind
    ]
    for place in order:
        macro = loops[place].maximize
        if macro is not None:
            loops[place] = _maximized(loops[place], macro, loops, context)
    return loops


def _maximized(
    constraints: LoopConstraints, macro: Maximize, loops: list[LoopConstraints], context: Context
) -> LoopConstraints:
    if constraints.kind == "temporal" and macro.capacity is None:
        raise SpecError("a temporal `maximize_dims` needs `maximize_dims_capacity`", macro.span)
    capacity = constraints.leaf.fanout if macro.capacity is None else macro.capacity
    unused = _left_over(loops, context)
    for group in macro.groups:
        for dim in group:
            _require_free(constraints, dim, macro)
        chosen = _largest(group, unused, capacity, constraints, context)
        added = [Factor(dim, "=", value, macro.span) for dim, value in chosen.items()]
        constraints = replace(constraints, factors=(*constraints.factors, *added))
    fixed = ", ".join(str(factor) for factor in constraints.factors if factor.span == macro.span)
    remark = (
        ROUNDED if any(_rounds_up(group, constraints, unused, capacity) for group in macro.groups) else ""
    )
    sentence = "maximize_dims of `{}` comes to {}" + remark
    context.note(note_at(macro.span, sentence, constraints.leaf.name, fixed))
    return constraints


def _rounds_up(
    group: tuple[str, ...], constraints: LoopConstraints, unused: dict[str, int], capacity: int
) -> bool:
    """Whether something is left of a group and of the capacity: Timeloop then rounds a factor up."""
    fixed = {factor.dim: factor.value for factor in constraints.factors if factor.relation == "="}
    room = capacity // math.prod(fixed.values())
    return room > 1 and any(fixed[dim] < unused[dim] for dim in group)


def _require_free(constraints: LoopConstraints, dim: str, macro: Maximize) -> None:
    rules = constraints.rules_of(dim)
    if rules:
        related = ((rules[0].span, f"`{rules[0]}` here"),)
        raise SpecError(f"`maximize_dims`: `{dim}` is constrained already", macro.span, related)


def _left_over(loops: list[LoopConstraints], context: Context) -> dict[str, int]:
    """Return what is left of each bound after the factors that are fixed at any node."""
    unused = context.problem.bound.copy()
    for other in loops:
        fixed = {factor.dim: factor.value for factor in other.factors if factor.relation == "="}
        for dim, value in fixed.items():
            unused[dim] = unused[dim] // value if unused[dim] % value == 0 else 1
    return unused


def _largest(
    group: tuple[str, ...],
    unused: dict[str, int],
    capacity: int,
    constraints: LoopConstraints,
    context: Context,
) -> dict[str, int]:
    """Return the factors of a group with the largest product that fits beside what is asked for.

    Reachable are pairs of products along the two axes; temporal loops have one axis of the capacity.
    """
    spatial = constraints.kind == "spatial"
    mesh = (constraints.leaf.mesh_x, constraints.leaf.mesh_y) if spatial else (capacity, 1)
    rules = spatial_rules(constraints, context) if spatial else None
    taken = {factor.dim: factor.value for factor in constraints.factors if factor.relation != "<="}
    choices: list[tuple[str, tuple[int, ...]]] = [(dim, (value,)) for dim, value in taken.items()]
    choices += [(dim, divisors(unused[dim])[::-1]) for dim in group]
    reached: _Products = {(1, 1): ()}
    for dim, values in choices:
        axis = None if rules is None else axis_of(rules, dim, context)
        reached = _extended(reached, values, axis, mesh, capacity)
    if not reached:
        return dict.fromkeys(group, 1)
    best = max(reached.items(), key=lambda item: (math.prod(item[0]), item[1]))[1]
    return dict(zip(group, best[len(taken) :], strict=True))


def _extended(
    reached: _Products, values: Sequence[int], axis: Axis | None, mesh: tuple[int, int], capacity: int
) -> _Products:
    """Return the products that fit after one more dimension, each with its best factors."""
    longer: _Products = {}
    for (x, y), factors in _with_another(reached, values, axis):
        fits = x <= mesh[0] and y <= mesh[1] and x * y <= capacity
        if fits and factors > longer.get((x, y), ()):
            longer[x, y] = factors
    return longer


def _with_another(
    reached: _Products, values: Sequence[int], axis: Axis | None
) -> Iterator[tuple[tuple[int, int], tuple[int, ...]]]:
    """Yield the products with one more factor, along either axis unless that is settled."""
    for ((x, y), factors), value in product(reached.items(), values):
        if axis != "y":
            yield (x * value, y), (*factors, value)
        if axis != "x":
            yield (x, y * value), (*factors, value)
