"""The macro ``maximize_dims``: give dimensions as much of a fanout or a capacity as fits."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from dataclasses import replace

from model.numbers import divisors
from model.spec.source import SpecError
from model.spec.timeloop.context import Context
from model.spec.timeloop.factors import Factor
from model.spec.timeloop.loops import LoopConstraints, Maximize


def maximize(all_loops: Iterable[LoopConstraints], context: Context) -> list[LoopConstraints]:
    """Turn every ``maximize_dims`` into fixed factors, and note which.

    Spatial constraints come first, then temporal ones, each from the innermost node outwards. A
    group gets the divisors of what is left of its dimensions (the bound over the factors fixed
    anywhere) with the largest product that fits; among equal products the first dimensions of the
    group get most. In a fanout the factors also have to fit along its axes.

    Parameters
    ----------
    all_loops
        Constraints of all nodes, outermost first.

    Raises
    ------
    SpecError
        A dimension is constrained already, or a temporal macro lacks its capacity.
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
    own: LoopConstraints, macro: Maximize, loops: list[LoopConstraints], context: Context
) -> LoopConstraints:
    if own.kind == "temporal" and macro.capacity is None:
        raise SpecError("a temporal `maximize_dims` needs `maximize_dims_capacity`", macro.span)
    capacity = own.leaf.fanout if macro.capacity is None else macro.capacity
    left = _left_over(loops, context)
    for group in macro.groups:
        for dim in group:
            _require_free(own, dim, macro)
        chosen = _largest(group, left, capacity, own)
        added = [Factor(dim, "=", value, macro.span) for dim, value in chosen.items()]
        own = replace(own, factors=(*own.factors, *added))
    fixed = ", ".join(str(factor) for factor in own.factors if factor.span == macro.span)
    context.note(f"{macro.span}: maximize_dims of `{own.leaf.name}` comes to {fixed}")
    return own


def _require_free(own: LoopConstraints, dim: str, macro: Maximize) -> None:
    rules = own.rules_of(dim)
    if rules:
        related = ((rules[0].span, f"`{rules[0]}` here"),)
        raise SpecError(f"`maximize_dims`: `{dim}` is constrained already", macro.span, related)


def _left_over(loops: list[LoopConstraints], context: Context) -> dict[str, int]:
    """Return what is left of each bound after the factors that are fixed at any node."""
    left = context.problem.bound.copy()
    for other in loops:
        fixed = {factor.dim: factor.value for factor in other.factors if factor.relation == "="}
        for dim, value in fixed.items():
            left[dim] = left[dim] // value if left[dim] % value == 0 else 1
    return left


def _largest(
    group: tuple[str, ...], left: dict[str, int], capacity: int, own: LoopConstraints
) -> dict[str, int]:
    taken = {f.dim: f.value for f in own.factors if f.relation in ("=", ">=")}
    room = capacity // math.prod(taken.values())
    choices = [[d for d in divisors(left[dim]) if d <= room] or [1] for dim in group]
    fitting = [values for values in itertools.product(*choices) if math.prod(values) <= room]
    fitting.sort(key=lambda values: (-math.prod(values), tuple(-value for value in values)))
    for values in fitting:
        chosen = dict(zip(group, values, strict=True))
        if own.kind == "temporal" or _fits(own, {**taken, **chosen}):
            return chosen
    return dict.fromkeys(group, 1)


def _fits(own: LoopConstraints, factors: dict[str, int]) -> bool:
    """Whether the factors can be laid out along the two axes of a fanout."""
    live = [value for value in factors.values() if value > 1]
    total = math.prod(live)
    for picked in itertools.product((False, True), repeat=len(live)):
        along_x = math.prod(value for value, on_x in zip(live, picked, strict=True) if on_x)
        if along_x <= own.leaf.mesh_x and total // along_x <= own.leaf.mesh_y:
            return True
    return False
