"""The ``mapping`` section: the loops of every node and what each level keeps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import product

from model.formats.timeloop.assembly import Assembly
from model.formats.timeloop.clauses import Clause
from model.formats.timeloop.conformity import check_axes, check_flags, check_order, check_rules, check_single
from model.formats.timeloop.context import Context
from model.formats.timeloop.factors import Factor
from model.formats.timeloop.loops import LoopConstraints, read_loops
from model.formats.timeloop.rules import axis_of, spatial_rules
from model.formats.timeloop.slots import FanoutSlot, StorageSlot
from model.mapping import FanoutMapping, Loop, Mapping, SpatialLoop, StorageMapping
from model.text.source import Span, SpecError
from model.wording import listing


def read_mapping(targets: Sequence[Clause], settled: Assembly, span: Span, context: Context) -> Mapping:
    """Return the mapping that some targets describe.

    Where the mapping says nothing of a factor, an order or a split, what the constraints fix is taken.
    A factor that neither gives is 1; a level that says nothing about a dataspace keeps it unless the
    constraints bypass it.

    Raises
    ------
    SpecError
        Factors that do not multiply to the bounds, an inequality, an order or a split that is
        left open, a dataspace whose ``!Parallel`` branch is not said, or anything that the constraints
        exclude.
    """
    for target in targets:
        if target.kind not in ("temporal", "spatial", "dataspace"):
            raise SpecError(f"a {target.kind} constraint does not belong into a mapping", target.node.span)
    check_single(targets, [slot.loops.leaf for slot in settled.fanouts], context)
    written = [read_loops(targets, slot.loops.leaf, slot.loops.kind, context) for slot in settled.slots]
    for slot, node_loops in zip(settled.slots, written, strict=True):
        check_flags(slot.loops, node_loops)
        _refuse_macro(node_loops)
    loops = [
        _completed(node_loops, slot.loops) for slot, node_loops in zip(settled.slots, written, strict=True)
    ]
    factors = [_exact_factors(node_loops) for node_loops in loops]
    _check_products(factors, loops, written, span, context)
    for slot, node_loops, values in zip(settled.slots, loops, factors, strict=True):
        check_rules(slot.loops, node_loops, values, span, context)
    keeps = _kept(settled, span, context)
    nodes: list[StorageMapping | FanoutMapping] = []
    for slot, node_loops, values in zip(settled.slots, loops, factors, strict=True):
        live = {dim: value for dim, value in values.items() if value > 1}
        if isinstance(slot, FanoutSlot):
            spatial = _spatial(node_loops, live, slot, span, context)
            check_axes(slot.loops, slot.rules, spatial, span, context)
            nodes.append(FanoutMapping(spatial))
            continue
        order = _order(node_loops, live, span)
        check_order(slot.loops, node_loops, order, span)
        nodes.append(StorageMapping(tuple(Loop(dim, live[dim]) for dim in order), keeps[_name(slot)]))
    return Mapping(tuple(nodes))


def _refuse_macro(loops: LoopConstraints) -> None:
    if loops.maximize is not None:
        raise SpecError("`maximize_dims`: a mapping gives its factors", loops.maximize.span)


def _completed(loops: LoopConstraints, asked: LoopConstraints) -> LoopConstraints:
    """Return the mapping's loops, with what the constraints fix where it says nothing."""
    said = {factor.dim for factor in loops.factors}
    fixed = [factor for factor in asked.factors if factor.relation == "=" and factor.dim not in said]
    return replace(
        loops, factors=(*loops.factors, *fixed), permutation=loops.permutation or asked.permutation
    )


def _exact_factors(loops: LoopConstraints) -> dict[str, int]:
    fixed: dict[str, Factor] = {}
    for factor in loops.factors:
        if factor.relation != "=":
            raise SpecError(f"`{factor}`: a mapping fixes its factors with `=`", factor.span)
        other = fixed.get(factor.dim, factor)
        if other.value != factor.value:
            raise SpecError(f"`{factor}` stands beside `{other}`", factor.span, ((other.span, "the first"),))
        fixed[factor.dim] = factor
    return {dim: factor.value for dim, factor in fixed.items()}


def _check_products(
    factors: Sequence[dict[str, int]],
    loops: Sequence[LoopConstraints],
    written: Sequence[LoopConstraints],
    span: Span,
    context: Context,
) -> None:
    """Raise a SpecError where factors do not multiply to a bound: at the mapping's own, where it has some."""
    for dim, bound in context.problem.bound.items():
        values = [
            (node_loops.leaf.name, chosen.get(dim, 1))
            for node_loops, chosen in zip(loops, factors, strict=True)
        ]
        product = math.prod(value for _, value in values)
        if product == bound:
            continue
        shown = " * ".join(f"{value} ({name})" for name, value in values if value > 1)
        places = [factor.span for node_loops in written for factor in node_loops.rules_of(dim)]
        taken = [
            factor for node_loops in loops for factor in node_loops.rules_of(dim) if factor.span not in places
        ]
        related = [(context.bounds.spans[dim], f"{dim} is {bound} here")]
        related += [(factor.span, f"`{factor}` is a constraint") for factor in taken if factor.value > 1]
        reached = f"multiply to {shown} = {product}" if shown else "are all 1"
        message = f"the mapping's factors of {dim} {reached}, but its bound is {bound}"
        raise SpecError(message, places[-1] if places else span, tuple(related))


def _order(loops: LoopConstraints, live: dict[str, int], span: Span) -> list[str]:
    """Return the live dimensions, innermost first."""
    order = loops.permutation
    inner = () if order is None else order.inner
    outer = () if order is None else order.outer
    between = [dim for dim in live if dim not in (*inner, *outer)]
    if len(between) > 1:
        place = _factors_place(loops, span) if order is None else order.span
        message = f"the order of the loops over {listing(between)} of `{loops.leaf.name}` is not given"
        raise SpecError(message, place, hint="list them in `permutation`, innermost first")
    return [dim for dim in (*inner, *between, *outer) if dim in live]


def _spatial(
    loops: LoopConstraints, live: dict[str, int], slot: FanoutSlot, span: Span, context: Context
) -> tuple[SpatialLoop, ...]:
    order = _order(loops, live, span)
    along_x = _along_x(loops, live, order, slot, span, context)
    return tuple(SpatialLoop(dim, live[dim], "x" if dim in along_x else "y") for dim in order)


def _along_x(
    loops: LoopConstraints,
    live: dict[str, int],
    order: list[str],
    slot: FanoutSlot,
    span: Span,
    context: Context,
) -> frozenset[str]:
    """Return the dimensions along X: the first `split` of the full order.

    Without a split of the mapping that of the constraints decides if it can; then a mesh with one axis, and
    else all loops lie along X if they fit.
    """
    if loops.split is None:
        leaf = loops.leaf
        if leaf.mesh_x == 1 or not order:
            return frozenset()
        axes = {dim: axis_of(slot.rules, dim, context) for dim in order}
        if None not in axes.values():
            return frozenset(dim for dim, axis in axes.items() if axis == "x")
        if leaf.mesh_y > 1 and math.prod(live.values()) > leaf.mesh_x:
            hint = "give `split`, the number of leading dimensions along X"
            message = f"the mapping does not split the loops of `{leaf.name}`"
            raise SpecError(message, _factors_place(loops, span), hint=hint)
        return frozenset(order)
    rules = spatial_rules(_with_units(loops, slot.loops, live, context), context)
    listed = (*rules.inner, *rules.outer)
    counted = (dim for dim in (*order, *context.problem.dims) if dim not in (*listed, *rules.uncounted))
    full = (*rules.inner, *dict.fromkeys(counted), *rules.outer)
    return frozenset(full[: rules.split])


def _factors_place(loops: LoopConstraints, otherwise: Span) -> Span:
    """Return where the first factor above 1 of a node is written."""
    return next((factor.span for factor in loops.factors if factor.value > 1), otherwise)


def _with_units(
    loops: LoopConstraints, asked: LoopConstraints, live: dict[str, int], context: Context
) -> LoopConstraints:
    """Return the loops with every dimension that has none fixed to 1; for padding, with all rules."""
    assert loops.split is not None
    if context.timeloop_padding:
        return replace(loops, factors=(*loops.factors, *asked.factors))
    place = loops.split[1]
    ones = tuple(Factor(dim, "=", 1, place) for dim in context.problem.dims if dim not in live)
    return replace(loops, factors=(*loops.factors, *ones))


def _kept(settled: Assembly, span: Span, context: Context) -> dict[str, frozenset[str]]:
    storages = settled.storages
    kept = {_name(slot): {n for n in context.dataspaces if n not in _bypassed(slot)} for slot in storages}
    for group, name in product(settled.parallel, context.dataspaces):
        members = [_name(storages[place]) for place in group.levels]
        holders = [member for member in members if name in kept[member]]
        if len(holders) > 1:
            raise SpecError(f"the mapping does not say which of {listing(holders)} keeps `{name}`", span)
    return {name: frozenset(spaces) for name, spaces in kept.items()}


def _name(slot: StorageSlot) -> str:
    return slot.loops.leaf.name


def _bypassed(slot: StorageSlot) -> frozenset[str]:
    return frozenset(slot.keeping.bypass)
