"""The ``mapping`` section: loops of every node, what each level keeps, and whether constraints hold."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import product
from typing import TypeVar

from model.counting import rule_of
from model.extents import remainder_of, tiles_of
from model.formats.timeloop.assembly import PLACES_KEY, Assembly, SpatialLevel, TemporalLevel
from model.formats.timeloop.constraints import Clause, WrittenFactor
from model.formats.timeloop.context import Context
from model.formats.timeloop.loops import LoopConstraints, axis_of, read_loops, spatial_rules
from model.formats.timeloop.tree import ArchLeaf
from model.mapping import FanoutMapping, Loop, Mapping, SpatialLoop, StorageMapping
from model.mapspace import SpatialRules
from model.text.source import Span, SpecError, note_at
from model.wording import listing


def _check_mapped_flags(asked: LoopConstraints, mapped: LoopConstraints) -> None:
    """Check that a mapping sets no flag by itself that changes what is counted."""
    for flag in ("no_reuse", "no_link_transfer", "rmw_first_update"):
        _check_flag(flag, getattr(asked, flag), getattr(mapped, flag), mapped.leaf)


def check_coalescing(asked: Sequence[TemporalLevel], assembly: Sequence[TemporalLevel]) -> None:
    """Check that a mapping sets no ``no_coalesce`` by itself."""
    for before, after in zip(asked, assembly, strict=True):
        flagged = after.keeping.no_coalesce
        _check_flag("no_coalesce", before.keeping.no_coalesce, flagged, after.loops.leaf)


def _check_flag(flag: str, asked: Collection[str], flagged: dict[str, Span], leaf: ArchLeaf) -> None:
    """Raise a SpecError for a dataspace that has a flag without being asked to by the constraints."""
    for name, span in flagged.items():
        if name not in asked:
            hint = f"write it in the constraints of `{leaf.name}`"
            raise SpecError(f"{flag} of `{name}` belongs to the architecture", span, hint=hint)


def _check_without_fanout(targets: Iterable[Clause], fanouts: Sequence[ArchLeaf], context: Context) -> None:
    """Check that a mapping asks for no children of nodes that have no fanout."""
    spatial = [target for target in targets if target.kind == "spatial" and target.leaf not in fanouts]
    for leaf in dict.fromkeys(target.leaf for target in spatial):
        factors = read_loops(spatial, leaf, "spatial", context, mapped=True).factors
        wide = next((factor for factor in factors if factor.value > 1), None)
        if wide is not None:
            raise SpecError(f"the mapping's {wide} at `{leaf.name}` exceeds its mesh of 1 x 1", wide.span)


def _check_factor_rules(
    asked: LoopConstraints, mapped: LoopConstraints, values: dict[str, int], span: Span, context: Context
) -> None:
    """Check a mapping's factors at one node against the constraints."""
    for dim in context.problem.dims:
        value = values.get(dim, 1)
        broken = next((rule for rule in asked.rules_of(dim) if not rule.rule().allows(value)), None)
        if broken is not None:
            place = next((factor.span for factor in mapped.rules_of(dim)), span)
            related = ((broken.span, "the constraint"),)
            message = (
                f"the mapping's {dim}={value} at `{mapped.leaf.name}` violates the constraint `{broken}`"
            )
            raise SpecError(message, place, related)


def _check_order(asked: LoopConstraints, mapped: LoopConstraints, order: list[str], span: Span) -> None:
    """Check a mapping's order of loops at one node against the constraints."""
    if asked.permutation is None:
        return
    inner = [dim for dim in asked.permutation.inner if dim in order]
    outer = [dim for dim in asked.permutation.outer if dim in order]
    if order[: len(inner)] == inner and order[len(order) - len(outer) :] == outer:
        return
    shown = " ".join(order)
    place = span if mapped.permutation is None else mapped.permutation.span
    related = ((asked.permutation.span, "the constraint"),)
    message = (
        f"the loops of `{mapped.leaf.name}` (innermost first: {shown}) violate the order of the constraints"
    )
    raise SpecError(message, place, related)


def _check_axes(
    asked: LoopConstraints, rules: SpatialRules, loops: Iterable[SpatialLoop], span: Span, context: Context
) -> None:
    """Check the axes of a mapping's spatial loops against the constraints; orders along an axis are free."""
    for loop in loops:
        axis = axis_of(rules, loop.dim, context)
        if axis in (None, loop.axis):
            continue
        assert asked.split is not None
        related = ((asked.split[1], "the constraint"),)
        message = f"the mapping puts {loop.dim} along {loop.axis.upper()} at `{asked.leaf.name}`"
        raise SpecError(f"{message}, but the constraints do not", span, related)


def check_parallelism(used: int, least: Fraction, constraint: Span | None, span: Span) -> None:
    """Check that a mapping uses enough compute units."""
    if used >= least:
        return
    related = () if constraint is None else ((constraint, "the constraint"),)
    message = f"the mapping uses {used} compute units, but the constraints require {math.ceil(least)}"
    raise SpecError(message, span, related)


def check_loop_limit(mapping: Mapping, most: tuple[int, Span] | None, span: Span) -> None:
    """Check that a mapping has at most as many temporal loops as the mapper may use."""
    if most is None or mapping.temporal_loops <= most[0]:
        return
    message = f"the mapping has {mapping.temporal_loops} temporal loops, but the mapper allows {most[0]}"
    raise SpecError(message, span, ((most[1], "the limit"),))


def read_mapping(targets: Sequence[Clause], assembly: Assembly, span: Span, context: Context) -> Mapping:
    """Return the mapping that some targets describe.

    Where the mapping says nothing of a factor, an order or a split, what the constraints fix is taken.
    A factor that neither gives is 1; a level that says nothing about a dataspace keeps it unless the
    constraints bypass it.
    """
    for target in targets:
        if target.kind not in ("temporal", "spatial", "dataspace"):
            raise SpecError(f"a {target.kind} constraint does not belong in a mapping", target.node.span)
        if PLACES_KEY in target.node:
            hint = "a mapping names the places themselves, such as `buffer#1`"
            raise SpecError(f"`{PLACES_KEY}` is a constraint", target.node.key(PLACES_KEY).span, hint=hint)
    _check_without_fanout(targets, [level.loops.leaf for level in assembly.fanouts], context)
    written = [
        read_loops(targets, level.loops.leaf, level.loops.kind, context, mapped=True)
        for level in assembly.levels
    ]
    for level, node_loops in zip(assembly.levels, written, strict=True):
        _check_mapped_flags(level.loops, node_loops)
        if node_loops.maximize is not None:
            raise SpecError("`maximize_dims`: a mapping gives its factors", node_loops.maximize.span)
    loops = [
        _completed(node_loops, level.loops)
        for level, node_loops in zip(assembly.levels, written, strict=True)
    ]
    factors = [_exact_factors(node_loops) for node_loops in loops]
    for dim in context.problem.dims:
        _complete(dim, factors, loops, context)
        _check_product(dim, factors, loops, written, span, context)
        _check_remainders(dim, factors, loops, span, context)
    for level, node_loops, values in zip(assembly.levels, loops, factors, strict=True):
        _check_factor_rules(level.loops, node_loops, values, span, context)
    keeps = _kept_by_storage(assembly, span, context)
    nodes: list[StorageMapping | FanoutMapping] = []
    for level, node_loops, values in zip(assembly.levels, loops, factors, strict=True):
        live = {dim: value for dim, value in values.items() if value > 1}
        if isinstance(level, SpatialLevel):
            spatial = _spatial_loops(node_loops, live, level, span, context)
            _check_axes(level.loops, level.rules, spatial, span, context)
            nodes.append(FanoutMapping(_with_idle(spatial, node_loops, context, _idle_spatial)))
            continue
        order = _order_of_live(node_loops, live, span, context)
        _check_order(level.loops, node_loops, order, span)
        temporal = tuple(Loop(dim, live[dim]) for dim in order)
        loops_with_idle = _with_idle(temporal, node_loops, context, _idle_temporal)
        nodes.append(StorageMapping(loops_with_idle, keeps[level.storage.name]))
    return Mapping(tuple(nodes))


LoopOf = TypeVar("LoopOf", Loop, SpatialLoop)


def _idle_temporal(dim: str) -> Loop:
    return Loop(dim, 1)


def _idle_spatial(dim: str) -> SpatialLoop:
    return SpatialLoop(dim, 1, "x")


def _with_idle(
    loops: tuple[LoopOf, ...], written: LoopConstraints, context: Context, idle: Callable[[str], LoopOf]
) -> tuple[LoopOf, ...]:
    """Add the loops of bound 1 that an order names: the ranks of formats follow the order of all loops."""
    permutation = written.permutation
    if not context.optimizes_sparse or permutation is None:
        return loops
    own = {loop.dim: loop for loop in loops}
    inner: tuple[str, ...] = permutation.inner
    outer: tuple[str, ...] = permutation.outer
    between: list[str] = [dim for dim in own if dim not in (*inner, *outer)]
    return tuple(own.get(dim) or idle(dim) for dim in (*inner, *between, *outer))


def _completed(loops: LoopConstraints, asked: LoopConstraints) -> LoopConstraints:
    """Return the mapping's loops, with what the constraints fix where it says nothing."""
    said = {factor.dim for factor in loops.factors}
    fixed = [factor for factor in asked.factors if factor.relation == "=" and factor.dim not in said]
    return replace(
        loops, factors=(*loops.factors, *fixed), permutation=loops.permutation or asked.permutation
    )


def _exact_factors(loops: LoopConstraints) -> dict[str, int]:
    fixed: dict[str, WrittenFactor] = {}
    for factor in loops.factors:
        if factor.relation != "=":
            raise SpecError(f"`{factor}`: a mapping fixes its factors with `=`", factor.span)
        other = fixed.get(factor.dim, factor)
        if (other.value, other.remainder) != (factor.value, factor.remainder):
            raise SpecError(f"`{factor}` conflicts with `{other}`", factor.span, ((other.span, "the first"),))
        fixed[factor.dim] = factor
    return {dim: factor.value for dim, factor in fixed.items()}


def _complete(
    dim: str, factors: Sequence[dict[str, int]], loops: Sequence[LoopConstraints], context: Context
) -> None:
    """Cut a factor that goes beyond its dimension, where its remainder says so, to what there is."""
    left = context.problem.bound[dim]
    for chosen, node_loops in zip(reversed(factors), reversed(loops), strict=True):
        factor = next(iter(node_loops.rules_of(dim)), None)
        if factor is not None and factor.value > left == factor.remainder:
            sentence = "`{}` at `{}` is read as {}: there are no more iterations"
            context.note(note_at(factor.span, sentence, str(factor), node_loops.leaf.name, left))
            chosen[dim] = left
        left = tiles_of(left, chosen.get(dim, 1))


def _check_product(
    dim: str,
    factors: Sequence[dict[str, int]],
    loops: Sequence[LoopConstraints],
    written: Sequence[LoopConstraints],
    span: Span,
    context: Context,
) -> None:
    """Raise a SpecError where factors do not cover a dimension: at the mapping's own, where it has some."""
    bound = context.problem.bound[dim]
    values = [
        (node_loops.leaf.name, chosen.get(dim, 1)) for node_loops, chosen in zip(loops, factors, strict=True)
    ]
    left, fits = bound, True
    for _, value in reversed(values):
        fits = fits and value <= left
        left = tiles_of(left, value)
    if fits and left == 1:
        return
    product = math.prod(value for _, value in values)
    shown = " * ".join(f"{value} ({name})" for name, value in values if value > 1)
    places = [factor.span for node_loops in written for factor in node_loops.rules_of(dim)]
    taken = [
        factor for node_loops in loops for factor in node_loops.rules_of(dim) if factor.span not in places
    ]
    places_of_bounds = context.loaded.bound_spans
    related = [(places_of_bounds[dim], f"{dim} is {bound} here")] if dim in places_of_bounds else []
    related += [(factor.span, f"`{factor}` is a constraint") for factor in taken if factor.value > 1]
    reached = f"multiply to {shown} = {product}" if shown else "are all 1"
    message = f"the mapping's factors of {dim} {reached}, but its bound is {bound}"
    raise SpecError(message, places[-1] if places else span, tuple(related))


def _check_remainders(
    dim: str,
    factors: Sequence[dict[str, int]],
    loops: Sequence[LoopConstraints],
    span: Span,
    context: Context,
) -> None:
    """Hold remainders that are written against those that the factors leave; note those that are not."""
    bound, inner = context.problem.bound[dim], 1
    missing: list[str] = []
    place = span
    for chosen, node_loops in zip(reversed(factors), reversed(loops), strict=True):
        value, factor = chosen.get(dim, 1), next(iter(node_loops.rules_of(dim)), None)
        remainder = remainder_of(bound, inner, value)
        inner *= value
        place = place if factor is None else factor.span
        written = None if factor is None else factor.remainder
        if written not in (None, remainder):
            message = (
                f"`{factor}` at `{node_loops.leaf.name}`: the remainder is {remainder}, as {dim} is {bound}"
            )
            raise SpecError(message, place)
        missing += [f"{dim}={value},{remainder}"] if written is None and remainder < value else []
    if inner == bound:
        return
    lack = rule_of(context.counting).lack_of_remainders
    if lack is not None:
        message = f"the mapping's factors of {dim} = {bound} leave a remainder, which {lack}"
        raise SpecError(message, place, hint="--counting exact, the default, counts such mappings")
    if missing:
        sentence = "the mapping's factors of {} = {} leave remainders: {}, the innermost first"
        context.note(note_at(place, sentence, dim, bound, listing(missing)))


def _order_of_live(loops: LoopConstraints, live: dict[str, int], span: Span, context: Context) -> list[str]:
    """Return the live dimensions, innermost first."""
    order = loops.permutation
    inner = () if order is None else order.inner
    outer = () if order is None else order.outer
    between = [dim for dim in live if dim not in (*inner, *outer)]
    between.sort(key=context.problem.dims.index)
    if len(between) > 1 and context.is_older:
        sentence = "the order of the loops over {} of `{}` is not given: they follow the problem's dimensions"
        context.note(note_at(span, sentence, listing(between), loops.leaf.name))
    elif len(between) > 1:
        place = _factors_place(loops, span) if order is None else order.span
        message = f"the order of the loops over {listing(between)} of `{loops.leaf.name}` is not given"
        raise SpecError(message, place, hint="list them in `permutation`, innermost first")
    return [dim for dim in (*inner, *between, *outer) if dim in live]


def _spatial_loops(
    loops: LoopConstraints, live: dict[str, int], level: SpatialLevel, span: Span, context: Context
) -> tuple[SpatialLoop, ...]:
    order = _order_of_live(loops, live, span, context)
    along_x = _dims_along_x(loops, live, order, level, span, context)
    return tuple(SpatialLoop(dim, live[dim], "x" if dim in along_x else "y") for dim in order)


def _dims_along_x(
    loops: LoopConstraints,
    live: dict[str, int],
    order: list[str],
    level: SpatialLevel,
    span: Span,
    context: Context,
) -> frozenset[str]:
    """Return the dimensions along X, by the mapping's split, else the constraints', else all that fit."""
    if loops.split is None:
        leaf = loops.leaf
        if leaf.mesh_x == 1 or not order:
            return frozenset()
        axes = {dim: axis_of(level.rules, dim, context) for dim in order}
        if None not in axes.values():
            return frozenset(dim for dim, axis in axes.items() if axis == "x")
        if leaf.mesh_y > 1 and math.prod(live.values()) > leaf.mesh_x:
            hint = "give `split`, the number of leading dimensions along X"
            message = f"the mapping does not split the loops of `{leaf.name}`"
            raise SpecError(message, _factors_place(loops, span), hint=hint)
        return frozenset(order)
    rules = spatial_rules(_with_units(loops, level.loops, live, context), context)
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
    ones = tuple(WrittenFactor(dim, "=", 1, place) for dim in context.problem.dims if dim not in live)
    return replace(loops, factors=(*loops.factors, *ones))


def _kept_by_storage(assembly: Assembly, span: Span, context: Context) -> dict[str, frozenset[str]]:
    storages = assembly.storages
    kept = {
        level.storage.name: {n for n in context.dataspaces if n not in level.keeping.bypass}
        for level in storages
    }
    for group, name in product(assembly.parallel, context.dataspaces):
        members = [storages[place].storage.name for place in group.levels]
        holders = [member for member in members if name in kept[member]]
        if len(holders) > 1:
            raise SpecError(f"the mapping does not say which of {listing(holders)} keeps `{name}`", span)
    return {name: frozenset(spaces) for name, spaces in kept.items()}
