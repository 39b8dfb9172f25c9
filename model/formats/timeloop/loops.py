"""Constraints on the loops of one node: joined, macros expanded, and as rules of the mapspace."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import product

from model.extents import ANY, PERFECT, Extents, Factors, tiles_of
from model.formats.timeloop.constraints import (
    ADDRESS_KEYS,
    SHORT_PARALLELISM,
    Clause,
    Kind,
    Permutation,
    WrittenFactor,
    of,
    read_factors,
    read_permutation,
)
from model.formats.timeloop.context import Context
from model.formats.timeloop.tree import ArchLeaf
from model.mapping import Axis
from model.mapspace import SpatialRules, TemporalRules
from model.text.fields import (
    Names,
    as_int,
    as_name,
    as_sequence,
    check_count,
    check_keys,
    given,
    means_all,
    name_list,
)
from model.text.source import MappingNode, Node, SequenceNode, Span, SpecError, note_at, source_ref
from model.wording import listing

CHOICES = (
    "factors",
    "permutation",
    "split",
    "default_max_factor",
    "default_min_factor",
    "remainders",
    "factors_only",
    "no_iteration_over_dataspaces",
    "must_iterate_over_dataspaces",
    "maximize_dims",
    "maximize_dims_capacity",
)
"""Constraints on what a mapping says in full; the others say what is counted."""

_TEMPORAL_CHOICES = tuple(key for key in CHOICES if key != "split")
_OLD_NO_REUSE: dict[Kind, tuple[str, ...]] = {
    "temporal": ("no_temporal_reuse",),
    "spatial": ("no_multicast_no_reduction",),
}
_KEYS: dict[Kind, tuple[str, ...]] = {
    "temporal": (*_TEMPORAL_CHOICES, "no_reuse", *_OLD_NO_REUSE["temporal"], "rmw_first_update"),
    "spatial": (*CHOICES, "no_reuse", *_OLD_NO_REUSE["spatial"], "no_link_transfer"),
}


@dataclass(frozen=True)
class Maximize:
    """The macro ``maximize_dims`` as it is written."""

    # Dimensions that share what fits, each group after those before it; no dimension twice
    groups: tuple[tuple[str, ...], ...]
    # What the product of all factors may be at most; None for the children of the fanout
    capacity: int | None
    span: Span


@dataclass(frozen=True)
class LoopConstraints:
    """What is asked of the temporal or the spatial loops of one node."""

    # The node, and which of its loops
    leaf: ArchLeaf
    kind: Kind
    factors: tuple[WrittenFactor, ...] = ()  # rules on factors, those that macros come down to included
    permutation: Permutation | None = None
    # Number of dimensions along X, with its place; None where it is left open, or for temporal loops
    split: tuple[int, Span] | None = None
    # A macro that is still to be worked out, see `model.formats.timeloop.loops`
    maximize: Maximize | None = None
    # Names of dataspaces with the places that say so
    no_reuse: dict[str, Span] = field(default_factory=dict)
    no_link_transfer: dict[str, Span] = field(default_factory=dict)
    rmw_first_update: dict[str, Span] = field(default_factory=dict)
    sweeping: frozenset[str] = frozenset()  # which of `no_reuse` and `rmw_first_update` are written as `*`

    def rules_of(self, dim: str) -> tuple[WrittenFactor, ...]:
        """Return the rules on one dimension."""
        return tuple(factor for factor in self.factors if factor.dim == dim)


def read_loops(
    clauses: Iterable[Clause], leaf: ArchLeaf, kind: Kind, context: Context, *, mapped: bool = False
) -> LoopConstraints:
    """Read all constraints on the temporal or spatial loops of a node, and join them.

    Only what a mapping says, `mapped`, has factors with their remainders.
    """
    nodes = of(clauses, leaf, kind)
    names = context.names_at(leaf)
    for node in nodes:
        _refuse_shares(node, kind)
        check_keys(node, (*_KEYS[kind], *ADDRESS_KEYS), f"a {kind} constraint")
        _check_remainder_limit(node, context)
    permutation = _permutation(nodes, context)
    constraints = LoopConstraints(
        leaf=leaf,
        kind=kind,
        factors=_within_bounds(_factor_rules(nodes, names, context), leaf, mapped, context),
        permutation=permutation,
        split=_read_split(nodes, permutation, names),
        maximize=_maximize(nodes, names, context),
        no_reuse=_named_dataspaces(nodes, ("no_reuse", *_OLD_NO_REUSE[kind]), context),
        no_link_transfer=_named_dataspaces(nodes, ("no_link_transfer",), context),
        rmw_first_update=_rmw_first_update(nodes, context),
        sweeping=_sweeping(nodes, kind),
    )
    short = next((factor for factor in constraints.factors if factor.remainder is not None), None)
    if short is not None and not mapped:
        message = f"`{short}`: constraints fix no remainders, which follow from the factors and the bound"
        raise SpecError(message, short.span)
    for dim in context.problem.dims:
        what = f"rules on {dim} at `{leaf.name}`"
        check_count(constraints.rules_of(dim), context.limits.rules, what, leaf.span)
    return constraints


def _refuse_shares(node: MappingNode, kind: Kind) -> None:
    """Raise a SpecError for a least share of all units among what is asked of loops."""
    key = next((key for key in (SHORT_PARALLELISM, "parallelism", "utilization") if key in node), None)
    if key is not None:
        message = f"unknown key `{key}` in a {kind} constraint"
        hint = f"`constraints: {{{SHORT_PARALLELISM}: SHARE}}` on the compute unit asks for units in use"
        raise SpecError(message, node.key(key).span, hint=hint)


def _check_remainder_limit(node: MappingNode, context: Context) -> None:
    """Check that a limit on remainders leaves none, where there are none, or all that there may be."""
    value = given(node, "remainders")
    if value is None:
        return
    most, largest = as_int(value, "`remainders`"), max(context.problem.bounds)
    if context.factors == PERFECT and most > 1:
        message = "`remainders`: loops have no remainders here"
        raise SpecError(message, value.span, hint="`--factors any` allows them")
    if context.factors == ANY and most < largest:
        message = f"`remainders: {most}`: limits on remainders are not modelled"
        raise SpecError(message, value.span, hint=f"{largest}, the largest bound, allows all")


def _values_under(nodes: Iterable[MappingNode], *keys: str) -> Iterator[Node]:
    """Yield what is given under any of `keys`."""
    for node in nodes:
        yield from (value for key in keys if (value := given(node, key)) is not None)


def _factor_rules(
    nodes: tuple[MappingNode, ...], names: Names, context: Context
) -> tuple[WrittenFactor, ...]:
    """Return the rules of ``factors`` and of macros; a dimension that is left free has none."""
    values = [*_values_under(nodes, "factors"), *_values_under(nodes, "factors_only")]
    factors = [factor for value in values for factor in read_factors(value, context, names)]
    for node in nodes:
        if given(node, "factors_only") is None:
            continue
        ruled = {factor.dim for factor in factors}
        span = node.key("factors_only").span
        factors += [WrittenFactor(dim, "=", 1, span) for dim in context.problem.dims if dim not in ruled]
    factors = [factor for factor in factors if not factor.free]
    for node in nodes:
        factors += _dataspace_macros(node, context)
    for node in nodes:
        factors += _defaults(node, factors, names, context)
    return tuple(dict.fromkeys(factors))


def _within_bounds(
    factors: tuple[WrittenFactor, ...], leaf: ArchLeaf, mapped: bool, context: Context
) -> tuple[WrittenFactor, ...]:
    """Return factors without those that Timeloop passes over in older specs: their dimension is smaller."""
    if mapped or not context.is_older:
        return factors
    bound = context.problem.bound
    beyond = [factor for factor in factors if factor.relation == "=" and factor.value > bound[factor.dim]]
    for factor in beyond:
        sentence = "`{}` of `{}` has no effect, as in Timeloop: {} is only {}"
        context.note(note_at(factor.span, sentence, str(factor), leaf.name, factor.dim, bound[factor.dim]))
    return tuple(factor for factor in factors if factor not in beyond)


def _dataspace_macros(node: MappingNode, context: Context) -> list[WrittenFactor]:
    fixed: list[WrittenFactor] = []
    macros = (("no_iteration_over_dataspaces", True), ("must_iterate_over_dataspaces", False))
    for macro, bars_its_dims in macros:
        value = given(node, macro)
        if value is None:
            continue
        names = name_list(value, context.dataspaces, "dataspace")
        dims = frozenset[str]().union(*(context.problem.dataspace(name).dims for name in names))
        barred = [dim for dim in context.problem.dims if (dim in dims) is bars_its_dims]
        fixed += [WrittenFactor(dim, "=", 1, node.key(macro).span) for dim in barred]
    return fixed


def _defaults(
    node: MappingNode, factors: list[WrittenFactor], names: Names, context: Context
) -> list[WrittenFactor]:
    """Apply ``default_max_factor`` and ``default_min_factor`` to the dimensions without such a rule."""
    added: list[WrittenFactor] = []
    highest, lowest = given(node, "default_max_factor"), given(node, "default_min_factor")
    if highest is not None:
        value = as_int(highest, "`default_max_factor`", names, minimum=1)
        ruled = {factor.dim for factor in factors if factor.relation != ">="}
        dims = (dim for dim in context.problem.dims if dim not in ruled)
        added += [WrittenFactor(dim, "<=", value, highest.span, default=True) for dim in dims]
    if lowest is not None:
        value = as_int(lowest, "`default_min_factor`", names, minimum=1)
        ruled = {factor.dim for factor in factors if factor.relation != "<="}
        added += [
            WrittenFactor(dim, ">=", min(value, bound), lowest.span, default=True)
            for dim, bound in context.problem.bound.items()
            if dim not in ruled
        ]
    return added


def _permutation(nodes: tuple[MappingNode, ...], context: Context) -> Permutation | None:
    first: Permutation | None = None
    for value in _values_under(nodes, "permutation"):
        permutation = read_permutation(value, context)
        if first is not None and (first.inner, first.outer) != (permutation.inner, permutation.outer):
            related = ((first.span, "the first"),)
            raise SpecError("two different permutations for one node", permutation.span, related)
        first = first or permutation
    return first


def _read_split(
    nodes: tuple[MappingNode, ...], permutation: Permutation | None, names: Names
) -> tuple[int, Span] | None:
    """Return the number of dimensions along X, without those that the problem lacks."""
    lacking = () if permutation is None else permutation.lacking
    first: tuple[int, Span] | None = None
    for value in _values_under(nodes, "split"):
        split = as_int(value, "`split`", names, minimum=0)
        if first is not None and first[0] != split:
            raise SpecError("two different splits for one node", value.span, ((first[1], "the first"),))
        first = first or (split, value.span)
    if first is None:
        return None
    return first[0] - sum(place < first[0] for place in lacking), first[1]


def _maximize(nodes: tuple[MappingNode, ...], names: Names, context: Context) -> Maximize | None:
    macro: Maximize | None = None
    for node in nodes:
        value, capacity = given(node, "maximize_dims"), given(node, "maximize_dims_capacity")
        if value is None and capacity is not None:
            raise SpecError("`maximize_dims_capacity` without `maximize_dims`", capacity.span)
        if value is None:
            continue
        if macro is not None:
            raise SpecError("`maximize_dims` is given twice", value.span, ((macro.span, "the first"),))
        limit = None if capacity is None else as_int(capacity, "`maximize_dims_capacity`", names, minimum=1)
        macro = Maximize(_maximized_groups(value, context), limit, value.span)
    return macro if macro is not None and macro.groups else None


def _maximized_groups(node: Node, context: Context) -> tuple[tuple[str, ...], ...]:
    items = as_sequence(node, "`maximize_dims`").items
    nested = [item for item in items if isinstance(item, SequenceNode)]
    if nested and len(nested) != len(items):
        message = "`maximize_dims` is a list of dimensions or a list of such lists, not a mixture"
        raise SpecError(message, node.span)
    lists = [item.items for item in nested] if nested else [items]
    named = [[(as_name(item, "dimension"), item.span) for item in group] for group in lists]
    groups = [tuple(dim for dim, span in group if context.is_dimension(dim, span)) for group in named]
    flat = [dim for group in groups for dim in group]
    if len(set(flat)) != len(flat):
        raise SpecError("a dimension is listed twice in `maximize_dims`", node.span)
    return tuple(group for group in groups if group)


def _named_dataspaces(
    nodes: tuple[MappingNode, ...], keys: tuple[str, ...], context: Context
) -> dict[str, Span]:
    spans: dict[str, Span] = {}
    for value in _values_under(nodes, *keys):
        spans = {**name_list(value, context.dataspaces, "dataspace"), **spans}
    return spans


def _sweeping(nodes: tuple[MappingNode, ...], kind: Kind) -> frozenset[str]:
    """Return the flags that are written as ``*``."""
    spellings = {"no_reuse": ("no_reuse", *_OLD_NO_REUSE[kind]), "rmw_first_update": ("rmw_first_update",)}
    return frozenset(
        flag for flag, keys in spellings.items() if any(map(means_all, _values_under(nodes, *keys)))
    )


def _rmw_first_update(nodes: tuple[MappingNode, ...], context: Context) -> dict[str, Span]:
    """Return the dataspaces of ``rmw_first_update``; ``*`` means those that are written."""
    spans: dict[str, Span] = {}
    for value in _values_under(nodes, "rmw_first_update"):
        names = name_list(value, context.dataspaces, "dataspace")
        if means_all(value):
            names = {n: span for n, span in names.items() if context.problem.dataspace(n).read_write}
        spans = {**names, **spans}
    return spans


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
    instead, and count: docs/model.md, "Where the reading of specs departs from Timeloop".
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
    split = None if loops.split is None else _split_place(loops, *loops.split, counted)
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
    """Unlisted dimensions that Timeloop's front end puts in front of a permutation: a written factor is 1."""
    order = loops.permutation
    listed = () if order is None else order.listed
    named = [factor.dim for factor in loops.factors if factor.value == 1 and not factor.default]
    bound_one = [dim for dim, bound in context.problem.bound.items() if bound == 1]
    return tuple(reversed([dim for dim in dict.fromkeys((*named, *bound_one)) if dim not in listed]))


def _split_place(loops: LoopConstraints, split: int, span: Span, counted: int) -> int:
    if split > counted and loops.leaf.mesh_y > 1:
        hint = "unlisted dimensions fixed to 1 have no position; --timeloop-padding puts them in front"
        related = () if loops.permutation is None else ((loops.permutation.span, "the permutation"),)
        message = f"split {split} lies beyond the permutation: only {counted} dimensions have a position"
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
    """Note spatial constraints of a node whose fanout is 1: containers share defaults for all fanouts."""
    leaf, flags = loops.leaf, (loops.no_reuse, loops.no_link_transfer)
    says_something = loops.factors or loops.permutation or loops.split or loops.maximize or any(flags)
    if leaf.node.get("constraints") is not None and says_something:
        sentence = "the mesh of `{}` is 1 x 1, so its spatial constraints have no effect"
        context.note(note_at(leaf.span, sentence, leaf.name))


ROUNDED = "; factors that leave a remainder may fill more of it"
"""Said where divisors do not fill what is to be filled."""

_Products = dict[tuple[int, int], tuple[int, tuple[int, ...]]]
"""Products of factors along X and along Y; the rounds that they leave outside, negative, and the factors."""


def maximize(all_loops: Iterable[LoopConstraints], context: Context) -> list[LoopConstraints]:
    """Turn every ``maximize_dims`` into fixed factors, and note which.

    Spatial constraints come first, then temporal ones, each from the innermost node outwards. A
    group gets the divisors of what is left of its dimensions (the bound over the factors fixed
    anywhere) with the largest product that fits; among equal products the first dimensions of the
    group get most. In a fanout the factors also have to fit along its axes. With remainders factors
    need not divide: those count that leave the fewest rounds outside, and are as low as that allows.
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
        chosen = _largest_product(group, unused, capacity, constraints, context)
        added = [WrittenFactor(dim, "=", value, macro.span) for dim, value in chosen.items()]
        constraints = replace(constraints, factors=(*constraints.factors, *added))
    fixed = ", ".join(str(factor) for factor in constraints.factors if factor.span == macro.span)
    remark = (
        ROUNDED
        if any(_rounds_up(group, constraints, unused, capacity, context.factors) for group in macro.groups)
        else ""
    )
    sentence = "maximize_dims of `{}` gives {}" + remark
    context.note(note_at(macro.span, sentence, constraints.leaf.name, fixed))
    return constraints


def _rounds_up(
    group: tuple[str, ...], constraints: LoopConstraints, unused: dict[str, int], capacity: int, kind: Factors
) -> bool:
    """Whether divisors leave something of a group and of the capacity."""
    fixed = {factor.dim: factor.value for factor in constraints.factors if factor.relation == "="}
    room = capacity // math.prod(fixed.values())
    return kind == PERFECT and room > 1 and any(fixed[dim] < unused[dim] for dim in group)


def _require_free(constraints: LoopConstraints, dim: str, macro: Maximize) -> None:
    rules = constraints.rules_of(dim)
    if rules:
        related = ((rules[0].span, f"`{rules[0]}` here"),)
        raise SpecError(f"`maximize_dims`: `{dim}` is already constrained", macro.span, related)


def _left_over(loops: list[LoopConstraints], context: Context) -> dict[str, int]:
    """Return what is left of each bound after the factors that are fixed at any node."""
    unused = context.problem.bound.copy()
    for other in loops:
        fixed = {factor.dim: factor.value for factor in other.factors if factor.relation == "="}
        for dim, value in fixed.items():
            whole = context.factors == ANY or unused[dim] % value == 0
            unused[dim] = tiles_of(unused[dim], value) if whole else 1
    return unused


def _largest_product(
    group: tuple[str, ...],
    unused: dict[str, int],
    capacity: int,
    constraints: LoopConstraints,
    context: Context,
) -> dict[str, int]:
    """Return the factors of a group with the largest product that fits, by products along the two axes."""
    spatial = constraints.kind == "spatial"
    mesh = (constraints.leaf.mesh_x, constraints.leaf.mesh_y) if spatial else (capacity, 1)
    rules = spatial_rules(constraints, context) if spatial else None
    taken = {factor.dim: factor.value for factor in constraints.factors if factor.relation != "<="}
    choices: list[tuple[str, int, Sequence[int]]] = [(dim, 1, (value,)) for dim, value in taken.items()]
    for dim in group:
        factors = Extents(unused[dim], context.factors).least_factors(1)
        choices.append((dim, unused[dim], factors[::-1]))
    reached: _Products = {(1, 1): (-1, ())}
    for dim, tiles, values in choices:
        axis = None if rules is None else axis_of(rules, dim, context)
        reached = _with_next_dim(reached, tiles, values, axis, mesh, capacity)
    if not reached:
        return dict.fromkeys(group, 1)
    _, best = max(reached.values())
    return dict(zip(group, best[len(taken) :], strict=True))


def _with_next_dim(
    reached: _Products,
    tiles: int,
    values: Sequence[int],
    axis: Axis | None,
    mesh: tuple[int, int],
    capacity: int,
) -> _Products:
    """Return the products that fit after one more dimension, each with its best factors."""
    longer: _Products = {}
    usable = [value for value in values if value <= capacity]
    for (x, y), (rounds, factors) in _with_another(reached, usable, axis):
        fits = x <= mesh[0] and y <= mesh[1] and x * y <= capacity
        found = rounds * tiles_of(tiles, factors[-1]), factors
        if fits and ((x, y) not in longer or found > longer[x, y]):
            longer[x, y] = found
    return longer


def _with_another(
    reached: _Products, values: Sequence[int], axis: Axis | None
) -> Iterator[tuple[tuple[int, int], tuple[int, tuple[int, ...]]]]:
    """Yield the products with one more factor, along either axis unless that is settled."""
    for ((x, y), (rounds, factors)), value in product(reached.items(), values):
        if axis != "y":
            yield (x * value, y), (rounds, (*factors, value))
        if axis != "x":
            yield (x, y * value), (rounds, (*factors, value))
