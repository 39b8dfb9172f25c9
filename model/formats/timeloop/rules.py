"""From loop constraints to the rules of the canonical mapspace."""

from __future__ import annotations

from model.formats.timeloop.context import Context
from model.formats.timeloop.loops import LoopConstraints
from model.mapping import Axis
from model.mapspace import SpatialRules, TemporalRules
from model.text.fields import source_ref
from model.text.notes import note_at
from model.text.source import Span, SpecError
from model.wording import listing


def temporal_rules(loops: LoopConstraints) -> TemporalRules:
    """Return the rules of a storage level's temporal loops."""
    order = loops.permutation
    return TemporalRules(
        factors=tuple(factor.rule() for factor in loops.factors),
        inner=() if order is None else order.inner,
        outer=() if order is None else order.outer,
        source=None if order is None else source_ref(order.span),
    )


def spatial_rules(loops: LoopConstraints, context: Context) -> SpatialRules:
    """Return the rules of a fanout's spatial loops.

    A permutation that leaves out dimensions whose factor is 1 (by a constraint, or because their
    bound is 1) means what its author wrote: they take no place, and `split` counts only the
    others. With ``timeloop_padding`` those that Timeloop's front end takes for such come first
    instead, and count.

    Raises
    ------
    SpecError
        The split lies beyond the last dimension on a fanout with a Y axis.

    Notes
    -----
    docs/model.md, "Where the reading of specs departs from Timeloop".
    """
    order = loops.permutation
    inner = () if order is None else order.inner
    outer = () if order is None else order.outer
    uncounted = frozenset[str]()
    if context.timeloop_padding:
        inner = (*_padded_dims(loops, context), *inner)
    else:
        uncounted = _fixed_dims(loops, context).difference(inner, outer)
    counted = len(context.problem.dims) - len(uncounted)
    split = None if loops.split is None else _split(loops, *loops.split, counted)
    return SpatialRules(
        factors=tuple(factor.rule() for factor in loops.factors),
        inner=inner,
        outer=outer,
        uncounted=uncounted,
        split=split,
        source=None if order is None else source_ref(order.span),
        split_source=None if loops.split is None else source_ref(loops.split[1]),
    )


def _fixed_dims(loops: LoopConstraints, context: Context) -> frozenset[str]:
    """Dimensions whose factor can only be 1."""
    constrained = {f.dim for f in loops.factors if f.relation != ">=" and f.value == 1}
    return frozenset(constrained | {dim for dim, bound in context.problem.bound.items() if bound == 1})


def _padded_dims(loops: LoopConstraints, context: Context) -> tuple[str, ...]:
    """Unlisted dimensions that Timeloop's front end puts in front of a permutation, in its order.

    It looks at the written factors, whatever their relation, and not at the defaults.
    """
    order = loops.permutation
    listed = () if order is None else order.listed
    named = [factor.dim for factor in loops.factors if factor.value == 1 and not factor.default]
    bound_one = [dim for dim, bound in context.problem.bound.items() if bound == 1]
    return tuple(reversed([dim for dim in dict.fromkeys((*named, *bound_one)) if dim not in listed]))


def _split(loops: LoopConstraints, split: int, span: Span, counted: int) -> int:
    if split > counted and loops.leaf.mesh_y > 1:
        hint = "dimensions fixed to 1 and not listed take no place; --timeloop-padding counts them, first"
        related = () if loops.permutation is None else ((loops.permutation.span, "the permutation"),)
        message = f"split {split} lies beyond the permutation: only {counted} dimensions take a place"
        raise SpecError(message, span, related, hint)
    return min(split, counted)


def note_split(loops: LoopConstraints, rules: SpatialRules, context: Context) -> None:
    """Note a split beyond the permutation, an axis left unused, and what Timeloop reads otherwise."""
    if loops.split is None or rules.split is None:
        return
    leaf, (written, span) = loops.leaf, loops.split
    counted = len(context.problem.dims) - len(rules.uncounted)
    if counted == 0:  # not the split leaves both axes unused
        return
    if written > counted:
        sentence = "split {} of `{}` means that all dimensions lie along X"
        context.note(note_at(span, sentence, written, leaf.name))
    if rules.split == 0 and leaf.mesh_x > 1:
        sentence = "split 0 of `{}` leaves its X axis (meshX {}) unused"
        context.note(note_at(span, sentence, leaf.name, leaf.mesh_x))
    if rules.split == counted and leaf.mesh_y > 1:
        sentence = "split {} of `{}` leaves its Y axis (meshY {}) unused"
        context.note(note_at(span, sentence, written, leaf.name, leaf.mesh_y))
    if 0 < rules.split < counted:
        _note_narrow(loops, rules, context)
    _note_padding(loops, rules, context)


def _note_narrow(loops: LoopConstraints, rules: SpatialRules, context: Context) -> None:
    """Note loops that the split leaves to an axis of a single child, where the rules allow other factors."""
    assert loops.split is not None
    assert rules.split is not None
    if min(loops.leaf.mesh_x, loops.leaf.mesh_y) > 1:
        return
    axis = "x" if loops.leaf.mesh_x == 1 else "y"
    fixed, (written, span) = _fixed_dims(loops, context), loops.split
    placed = {dim: axis_of(rules, dim, context) for dim in context.problem.dims}
    lost = [dim for dim, placed_on in placed.items() if placed_on == axis and dim not in fixed]
    unlisted = [dim for dim, placed_on in placed.items() if placed_on is None and dim not in rules.uncounted]
    places = rules.split if axis == "x" else len(placed) - len(rules.uncounted) - rules.split
    # What is fixed to 1 may take places that the order leaves open.
    least = (
        places - sum(placed_on == axis for placed_on in placed.values()) - len(fixed.intersection(unlisted))
    )
    parts = [listing(lost)] if lost else []
    if least > 0:
        parts.append(f"{least} of {listing(dim for dim in unlisted if dim not in fixed)}")
    if parts:
        sentence = "split {} of `{}` leaves {} to its {} axis, of a single child: they are not unrolled here"
        context.note(note_at(span, sentence, written, loops.leaf.name, " and ".join(parts), axis.upper()))


def _note_padding(loops: LoopConstraints, rules: SpatialRules, context: Context) -> None:
    """Note that dimensions which Timeloop's front end puts first leave fewer of the others along X."""
    assert loops.split is not None
    assert rules.split is not None
    first = () if context.timeloop_padding else _padded_dims(loops, context)
    written, span = loops.split
    others = len(context.problem.dims) - len(rules.uncounted.union(first))
    padded = min(max(written - len(first), 0), others)
    if padded == min(rules.split, others):
        return
    shown = listing(dim for dim in context.problem.dims if dim in first)
    counts = ", fixed to 1; split {2} counts the other dimensions only"
    reading = counts if rules.uncounted.issuperset(first) else ", for which a rule says 1"
    sentence = (
        "the permutation of `{0}` leaves out {1}" + reading + ". Timeloop's front end puts those it leaves "
        "out first, so that {3} of the others would lie along X (--timeloop-padding does so)"
    )
    context.note(note_at(span, sentence, loops.leaf.name, shown, written, padded))


def axis_of(rules: SpatialRules, dim: str, context: Context) -> Axis | None:
    """Return the axis on which a loop must lie."""
    if rules.split is None or dim in rules.uncounted:
        return None
    counted = len(context.problem.dims) - len(rules.uncounted)
    if dim in rules.inner:
        first = last = rules.inner.index(dim)
    elif dim in rules.outer:
        first = last = counted - len(rules.outer) + rules.outer.index(dim)
    else:
        first, last = len(rules.inner), counted - len(rules.outer) - 1
    if last < rules.split:
        return "x"
    return "y" if first >= rules.split else None


def asks_for_children(loops: LoopConstraints) -> bool:
    """Whether spatial constraints ask for a factor above 1, and so for more than one child."""
    return any(factor.relation != "<=" and factor.value > 1 for factor in loops.factors)


def note_no_fanout(loops: LoopConstraints, context: Context) -> None:
    """Note spatial constraints of a node whose fanout is 1, which only ask for 1.

    Containers share defaults for all fanouts, so that one without a mesh has them too.
    """
    leaf = loops.leaf
    if leaf.node.get("constraints") is not None and _says_something(loops):
        sentence = "the mesh of `{}` is 1 x 1, its spatial constraints have no effect"
        context.note(note_at(leaf.span, sentence, leaf.name))


def _says_something(loops: LoopConstraints) -> bool:
    flags = (loops.no_reuse, loops.no_link_transfer)
    return bool(loops.factors or loops.permutation or loops.split or loops.maximize or any(flags))
