"""Whether a mapping keeps to the constraints of the architecture that it is for."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from fractions import Fraction

from model.formats.timeloop.clauses import Clause
from model.formats.timeloop.context import Context
from model.formats.timeloop.loops import LoopConstraints, read_loops
from model.formats.timeloop.rules import axis_of
from model.formats.timeloop.slots import StorageSlot
from model.formats.timeloop.tree import Leaf
from model.mapping import FanoutMapping, Mapping, SpatialLoop
from model.mapspace import SpatialRules
from model.text.source import Span, SpecError


def check_flags(asked: LoopConstraints, mapped: LoopConstraints) -> None:
    """Check that a mapping sets no flag by itself that changes what is counted.

    Raises
    ------
    SpecError
        A flag stands in the mapping only.
    """
    for flag in ("no_reuse", "no_link_transfer", "rmw_first_update"):
        _check_flag(flag, getattr(asked, flag), getattr(mapped, flag), mapped.leaf)


def check_coalescing(asked: Sequence[StorageSlot], settled: Sequence[StorageSlot]) -> None:
    """Check that a mapping sets no ``no_coalesce`` by itself.

    Raises
    ------
    SpecError
        It stands in the mapping only.
    """
    for before, after in zip(asked, settled, strict=True):
        flagged = after.keeping.no_coalesce
        _check_flag("no_coalesce", before.keeping.no_coalesce, flagged, after.loops.leaf)


def _check_flag(flag: str, asked: Collection[str], flagged: dict[str, Span], leaf: Leaf) -> None:
    """Raise a SpecError for a dataspace that has a flag without being asked to by the constraints."""
    for name, span in flagged.items():
        if name not in asked:
            hint = f"write it in the constraints of `{leaf.name}`"
            raise SpecError(f"{flag} of `{name}` belongs to the architecture", span, hint=hint)


def check_single(targets: Iterable[Clause], fanouts: Sequence[Leaf], context: Context) -> None:
    """Check that a mapping asks for no children of nodes that have no fanout.

    Raises
    ------
    SpecError
        A spatial factor above 1 at another node.
    """
    spatial = [target for target in targets if target.kind == "spatial" and target.leaf not in fanouts]
    for leaf in dict.fromkeys(target.leaf for target in spatial):
        factors = read_loops(spatial, leaf, "spatial", context).factors
        wide = next((factor for factor in factors if factor.value > 1), None)
        if wide is not None:
            raise SpecError(f"the mapping's {wide} at `{leaf.name}` exceeds its mesh of 1 x 1", wide.span)


def check_rules(
    asked: LoopConstraints, mapped: LoopConstraints, values: dict[str, int], span: Span, context: Context
) -> None:
    """Check a mapping's factors at one node against the constraints.

    Raises
    ------
    SpecError
        The constraints exclude a factor.
    """
    for dim in context.problem.dims:
        value = values.get(dim, 1)
        broken = next((rule for rule in asked.rules_of(dim) if not rule.rule().allows(value)), None)
        if broken is not None:
            place = next((factor.span for factor in mapped.rules_of(dim)), span)
            related = ((broken.span, "the constraint"),)
            message = f"the mapping's {dim}={value} at `{mapped.leaf.name}` breaks the constraint `{broken}`"
            raise SpecError(message, place, related)


def check_order(asked: LoopConstraints, mapped: LoopConstraints, order: list[str], span: Span) -> None:
    """Check a mapping's order of loops at one node against the constraints.

    Raises
    ------
    SpecError
        The constraints exclude the order.
    """
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
        f"the loops of `{mapped.leaf.name}` (innermost first: {shown}) break the order of the constraints"
    )
    raise SpecError(message, place, related)


def check_axes(
    asked: LoopConstraints, rules: SpatialRules, loops: Iterable[SpatialLoop], span: Span, context: Context
) -> None:
    """Check the axes of a mapping's spatial loops at one node against the constraints.

    The order of the loops along one axis is left alone: only link transfers depend on it, and they are
    counted for the order that the mapping gives.

    Raises
    ------
    SpecError
        A loop lies along another axis than the constraints say.
    """
    for loop in loops:
        axis = axis_of(rules, loop.dim, context)
        if axis in (None, loop.axis):
            continue
        assert asked.split is not None
        related = ((asked.split[1], "the constraint"),)
        message = f"the mapping puts {loop.dim} along {loop.axis.upper()} at `{asked.leaf.name}`"
        raise SpecError(f"{message}, where the constraints do not", span, related)


def check_parallelism(mapping: Mapping, least: Fraction, constraint: Span | None, span: Span) -> None:
    """Check that a mapping uses enough compute units.

    Raises
    ------
    SpecError
        Fewer are in use.
    """
    spatial = (entry.spatial for entry in mapping.nodes if isinstance(entry, FanoutMapping))
    used = math.prod(loop.bound for loops in spatial for loop in loops)
    if used >= least:
        return
    related = () if constraint is None else ((constraint, "the constraint"),)
    message = f"the mapping uses {used} compute units, and the constraints ask for {math.ceil(least)}"
    raise SpecError(message, span, related)
