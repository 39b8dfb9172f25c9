"""Constraints on the loops of one node: factors, order, split, and the macros over them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

from model.formats.timeloop.clauses import ADDRESS_KEYS, SHORT_PARALLELISM, Clause, Kind, of
from model.formats.timeloop.context import Context
from model.formats.timeloop.factors import Factor, check_attainable, read_factors
from model.formats.timeloop.permutation import Permutation, read_permutation
from model.formats.timeloop.shrinking import irreducible
from model.formats.timeloop.tree import Leaf
from model.numbers import divisors
from model.text.fields import Names, as_int, as_sequence, given, known_name, means_all, name_list
from model.text.keys import check_keys
from model.text.sizes import check_count
from model.text.source import ConflictError, MappingNode, Node, SequenceNode, Span, SpecError

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
    """The macro ``maximize_dims`` as it is written.

    Parameters
    ----------
    groups
        Dimensions that share what fits, each group after those before it; no dimension twice.
    capacity
        What the product of all factors may be at most; None for the children of the fanout.
    span
        Its place.
    """

    groups: tuple[tuple[str, ...], ...]
    capacity: int | None
    span: Span


@dataclass(frozen=True)
class LoopConstraints:
    """What is asked of the temporal or the spatial loops of one node.

    Parameters
    ----------
    leaf, kind
        The node, and which of its loops.
    factors
        Rules on factors, those that macros come down to included.
    permutation
        Their order, None where it is left open.
    split
        Number of dimensions along X, with its place; None where it is left open, or for temporal loops.
    maximize
        A macro that is still to be worked out, see `model.formats.timeloop.macros`.
    no_reuse, no_link_transfer, rmw_first_update
        Names of dataspaces with the places that say so.
    sweeping
        Which of `no_reuse` and `rmw_first_update` are written as ``*``.
    """

    leaf: Leaf
    kind: Kind
    factors: tuple[Factor, ...] = ()
    permutation: Permutation | None = None
    split: tuple[int, Span] | None = None
    maximize: Maximize | None = None
    no_reuse: dict[str, Span] = field(default_factory=dict)
    no_link_transfer: dict[str, Span] = field(default_factory=dict)
    rmw_first_update: dict[str, Span] = field(default_factory=dict)
    sweeping: frozenset[str] = frozenset()

    def rules_of(self, dim: str) -> tuple[Factor, ...]:
        """Return the rules on one dimension."""
        return tuple(factor for factor in self.factors if factor.dim == dim)


def read_loops(clauses: Iterable[Clause], leaf: Leaf, kind: Kind, context: Context) -> LoopConstraints:
    """Read all constraints on the temporal or spatial loops of a node, and join them.

    Raises
    ------
    SpecError
        A malformed constraint, two that contradict each other, or too many rules on a dimension.
    """
    nodes = of(clauses, leaf, kind)
    names = context.names_at(leaf)
    for node in nodes:
        _refuse_shares(node, kind)
        check_keys(node, (*_KEYS[kind], *ADDRESS_KEYS), f"a {kind} constraint")
        _refuse_remainders(node)
    constraints = LoopConstraints(
        leaf=leaf,
        kind=kind,
        factors=_factors(nodes, names, context),
        permutation=_permutation(nodes, context),
        split=_split(nodes, names),
        maximize=_maximize(nodes, names, context),
        no_reuse=_names(nodes, ("no_reuse", *_OLD_NO_REUSE[kind]), context),
        no_link_transfer=_names(nodes, ("no_link_transfer",), context),
        rmw_first_update=_rmw_first_update(nodes, context),
        sweeping=_sweeping(nodes, kind),
    )
    for dim in context.problem.dims:
        what = f"rules on {dim} at `{leaf.name}`"
        check_count(constraints.rules_of(dim), context.limits.rules, what, leaf.span)
    return constraints


def check_factors(constraints: LoopConstraints, context: Context) -> None:
    """Check for each dimension that some divisor of its bound satisfies the rules at one node.

    Raises
    ------
    ConflictError
        None satisfies a rule, or all rules on a dimension together.
    """
    for factor in constraints.factors:
        check_attainable(factor, context.bounds)
    for dim, bound in context.problem.bound.items():
        rules = constraints.rules_of(dim)
        if not _contradict(bound, rules):
            continue
        rules = tuple(irreducible(rules, partial(_contradict, bound)))
        last = rules[-1]
        related = tuple((rule.span, f"`{rule}` here") for rule in rules[:-1] if rule.span != last.span)
        related = (*related, (context.bounds.spans[dim], f"{dim} is {bound} here"))
        shown = " and ".join(f"`{rule}`" for rule in dict.fromkeys(rules))
        message = f"no divisor of {dim} = {bound} satisfies {shown}"
        raise ConflictError(message, last.span, related)


def _contradict(bound: int, rules: Sequence[Factor]) -> bool:
    """Whether no divisor of `bound` satisfies all rules."""
    asked = [rule.rule() for rule in rules]
    return not any(all(rule.allows(divisor) for rule in asked) for divisor in divisors(bound))


def _refuse_shares(node: MappingNode, kind: Kind) -> None:
    """Raise a SpecError for a least share of all units among what is asked of loops."""
    key = next((key for key in (SHORT_PARALLELISM, "parallelism", "utilization") if key in node), None)
    if key is not None:
        message = f"unknown key `{key}` in a {kind} constraint"
        hint = f"`constraints: {{{SHORT_PARALLELISM}: SHARE}}` on the compute unit asks for units in use"
        raise SpecError(message, node.key(key).span, hint=hint)


def _refuse_remainders(node: MappingNode) -> None:
    value = given(node, "remainders")
    if value is not None and as_int(value, "`remainders`") > 1:
        raise SpecError("`remainders`: imperfect factors are not modelled", value.span)


def _values(nodes: Iterable[MappingNode], *keys: str) -> Iterator[Node]:
    """Yield what is given under any of `keys`."""
    for node in nodes:
        yield from (value for key in keys if (value := given(node, key)) is not None)


def _factors(nodes: tuple[MappingNode, ...], names: Names, context: Context) -> tuple[Factor, ...]:
    """Return the rules of ``factors`` and of the macros that come down to factors.

    A dimension that is left free is named for ``factors_only``, and has no rule.
    """
    factors = [f for key in ("factors", "factors_only") for f in _written_factors(nodes, key, names, context)]
    for node in nodes:
        if given(node, "factors_only") is None:
            continue
        ruled = {factor.dim for factor in factors}
        span = node.key("factors_only").span
        factors += [Factor(dim, "=", 1, span) for dim in context.problem.dims if dim not in ruled]
    factors = [factor for factor in factors if not factor.free]
    for node in nodes:
        factors += _dataspace_macros(node, context)
    for node in nodes:
        factors += _defaults(node, factors, names, context)
    return tuple(dict.fromkeys(factors))


def _written_factors(
    nodes: Iterable[MappingNode], key: str, names: Names, context: Context
) -> Iterator[Factor]:
    for value in _values(nodes, key):
        yield from read_factors(value, context.bounds, names)


def _dataspace_macros(node: MappingNode, context: Context) -> list[Factor]:
    fixed: list[Factor] = []
    barred = given(node, "no_iteration_over_dataspaces")
    if barred is not None:
        dims = _dims_of(name_list(barred, context.dataspaces, "dataspace"), context)
        span = node.key("no_iteration_over_dataspaces").span
        fixed += [Factor(dim, "=", 1, span) for dim in context.problem.dims if dim in dims]
    required = given(node, "must_iterate_over_dataspaces")
    if required is not None:
        dims = _dims_of(name_list(required, context.dataspaces, "dataspace"), context)
        span = node.key("must_iterate_over_dataspaces").span
        fixed += [Factor(dim, "=", 1, span) for dim in context.problem.dims if dim not in dims]
    return fixed


def _dims_of(dataspaces: Iterable[str], context: Context) -> frozenset[str]:
    return frozenset[str]().union(*(context.problem.dataspace(name).dims for name in dataspaces))


def _defaults(node: MappingNode, factors: list[Factor], names: Names, context: Context) -> list[Factor]:
    """Apply ``default_max_factor`` and ``default_min_factor`` to the dimensions without such a rule.

    A minimum above a dimension's bound asks for the bound.
    """
    added: list[Factor] = []
    highest, lowest = given(node, "default_max_factor"), given(node, "default_min_factor")
    if highest is not None:
        value = as_int(highest, "`default_max_factor`", names, minimum=1)
        ruled = {factor.dim for factor in factors if factor.relation != ">="}
        dims = (dim for dim in context.problem.dims if dim not in ruled)
        added += [Factor(dim, "<=", value, highest.span, default=True) for dim in dims]
    if lowest is not None:
        value = as_int(lowest, "`default_min_factor`", names, minimum=1)
        ruled = {factor.dim for factor in factors if factor.relation != "<="}
        added += [
            Factor(dim, ">=", min(value, bound), lowest.span, default=True)
            for dim, bound in context.problem.bound.items()
            if dim not in ruled
        ]
    return added


def _permutation(nodes: tuple[MappingNode, ...], context: Context) -> Permutation | None:
    first: Permutation | None = None
    for value in _values(nodes, "permutation"):
        permutation = read_permutation(value, context.problem.dims)
        if first is not None and (first.inner, first.outer) != (permutation.inner, permutation.outer):
            related = ((first.span, "the first"),)
            raise SpecError("two different permutations for one node", permutation.span, related)
        first = first or permutation
    return first


def _split(nodes: tuple[MappingNode, ...], names: Names) -> tuple[int, Span] | None:
    first: tuple[int, Span] | None = None
    for value in _values(nodes, "split"):
        split = as_int(value, "`split`", names, minimum=0)
        if first is not None and first[0] != split:
            raise SpecError("two different splits for one node", value.span, ((first[1], "the first"),))
        first = first or (split, value.span)
    return first


def _maximize(nodes: tuple[MappingNode, ...], names: Names, context: Context) -> Maximize | None:
    macro: Maximize | None = None
    for node in nodes:
        value, capacity = given(node, "maximize_dims"), given(node, "maximize_dims_capacity")
        if value is None and capacity is not None:
            raise SpecError("`maximize_dims_capacity` without `maximize_dims`", capacity.span)
        if value is None:
            continue
        if macro is not None:
            raise SpecError("`maximize_dims` stands twice", value.span, ((macro.span, "the first"),))
        limit = None if capacity is None else as_int(capacity, "`maximize_dims_capacity`", names, minimum=1)
        macro = Maximize(_groups(value, context), limit, value.span)
    return macro if macro is not None and macro.groups else None


def _groups(node: Node, context: Context) -> tuple[tuple[str, ...], ...]:
    items = as_sequence(node, "`maximize_dims`").items
    nested = [item for item in items if isinstance(item, SequenceNode)]
    if nested and len(nested) != len(items):
        message = "`maximize_dims` is a list of dimensions or a list of such lists, not a mixture"
        raise SpecError(message, node.span)
    lists = [item.items for item in nested] if nested else [items]
    groups = [tuple(known_name(item, context.problem.dims, "dimension") for item in group) for group in lists]
    flat = [dim for group in groups for dim in group]
    if len(set(flat)) != len(flat):
        raise SpecError("a dimension stands twice in `maximize_dims`", node.span)
    return tuple(group for group in groups if group)


def _names(nodes: tuple[MappingNode, ...], keys: tuple[str, ...], context: Context) -> dict[str, Span]:
    spans: dict[str, Span] = {}
    for value in _values(nodes, *keys):
        spans = {**name_list(value, context.dataspaces, "dataspace"), **spans}
    return spans


def _sweeping(nodes: tuple[MappingNode, ...], kind: Kind) -> frozenset[str]:
    """Return the flags that are written as ``*``."""
    spellings = {"no_reuse": ("no_reuse", *_OLD_NO_REUSE[kind]), "rmw_first_update": ("rmw_first_update",)}
    return frozenset(flag for flag, keys in spellings.items() if any(map(means_all, _values(nodes, *keys))))


def _rmw_first_update(nodes: tuple[MappingNode, ...], context: Context) -> dict[str, Span]:
    """Return the dataspaces of ``rmw_first_update``; ``*`` means those that are written."""
    spans: dict[str, Span] = {}
    for value in _values(nodes, "rmw_first_update"):
        names = name_list(value, context.dataspaces, "dataspace")
        if means_all(value):
            names = {n: span for n, span in names.items() if context.problem.dataspace(n).read_write}
        spans = {**names, **spans}
    return spans
