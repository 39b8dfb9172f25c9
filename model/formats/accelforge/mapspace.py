"""What an architecture allows: which tensors a memory keeps, and which loops a fanout may have."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction

from model.formats.accelforge.architecture import WrittenNode, WrittenSpatial
from model.formats.accelforge.numbers import finite, positive, truth
from model.formats.accelforge.scope import Kept, Scope, Subject
from model.mapspace import FactorRule, KeepRules, Relation, SpatialRules
from model.numbers import divisors
from model.text.fields import as_name, given
from model.text.source import MappingNode, SpecError, did_you_mean, source_ref
from model.wording import listing

_PRODUCT = "product"
_OPERATORS = ("==", "<=", ">=", "<", ">")


def keep_rules(node: WrittenNode, kept: Kept, subject: Subject) -> KeepRules:
    """Return what a memory must keep and must bypass."""
    keep = subject.spaces(kept.certain)
    bypass = subject.spaces(subject.dataspaces.keys() - kept.possible)
    written = node.tensors if node.tensors is None else given(node.tensors, "keep") or node.tensors
    source = source_ref(node.span if written is None else written.span)
    return KeepRules(
        keep=keep,
        bypass=bypass,
        source=source,
        sources=tuple((space, source) for space in sorted(keep | bypass)),
    )


@dataclass(frozen=True)
class DimensionRules:
    """What one dimension of a fanout allows."""

    rules: SpatialRules
    no_multicast: frozenset[str]
    is_gate: bool  # whether instances that are not used are off
    unsearchable: tuple[SpecError, ...] = ()


def spatial_rules(
    name: str, size: int, dimension: WrittenSpatial, scope: Scope, subject: Subject
) -> DimensionRules:
    """Read the constraints on one dimension of a fanout."""
    _check_scale(name, dimension, scope)
    reuse, may_reuse = dimension.get("reuse"), dimension.get("may_reuse")
    everything = scope.everything("tensors").members
    reused = frozenset[str]() if reuse is None else scope.tensors(reuse, f"`reuse` of `{name}`")
    shared = reused if reuse is not None else everything
    if may_reuse is not None:
        shared = scope.tensors(may_reuse, f"`may_reuse` of `{name}`")
    fixed = _iterating(reused, subject)
    factors = [
        *(FactorRule(dim, "=", 1, source_ref((reuse or dimension.node).span)) for dim in fixed),
        *_bounds(name, dimension.loop_bounds, scope, subject),
    ]
    gate = dimension.get("power_gateable")
    least, unsearchable = _least_used(name, size, dimension, factors, scope, subject)
    return DimensionRules(
        rules=SpatialRules(factors=(*factors, *least)),
        no_multicast=subject.spaces(everything - shared),
        is_gate=gate is not None and truth(gate, f"`power_gateable` of `{name}`", scope, scope.values),
        unsearchable=unsearchable,
    )


def _check_scale(name: str, dimension: WrittenSpatial, scope: Scope) -> None:
    written = dimension.get("usage_scale")
    if written is not None and positive(written, f"`usage_scale` of `{name}`", scope, scope.values) != 1:
        message = f"`usage_scale` of `{name}` is not modelled: each instance in use would count several times"
        raise SpecError(message, written.span)


def _iterating(tensors: Iterable[str], subject: Subject) -> list[str]:
    """Return the dimensions that index one of some tensors."""
    spaces = subject.spaces(tensors)
    indexing = {dim for space in subject.problem.dataspaces if space.name in spaces for dim in space.dims}
    return [dim for dim in subject.problem.dims if dim in indexing]


def _bounds(name: str, bounds: Iterable[MappingNode], scope: Scope, subject: Subject) -> Iterator[FactorRule]:
    for bound in bounds:
        dims = scope.rank_variables(bound.require("expression"), f"`loop_bounds` of `{name}`")
        written = bound.require("value")
        value = finite(written, f"`value` of a bound of `{name}`", scope, scope.values)
        relation, limit = _relation(bound, name, len(dims), value)
        source = source_ref(bound.require("expression").span)
        yield from (FactorRule(dim, relation, limit, source) for dim in subject.problem.dims if dim in dims)


def _relation(bound: MappingNode, name: str, count: int, value: Fraction) -> tuple[Relation, int]:
    """Return the relation and the bound of each loop; a product is one of each only in special cases."""
    node = bound.require("operator")
    written = as_name(node, f"`operator` of a bound of `{name}`")
    symbol = written.removeprefix(_PRODUCT)
    if symbol not in _OPERATORS:
        known = (*_OPERATORS, *(f"{_PRODUCT}{own}" for own in _OPERATORS))
        hint = did_you_mean(written, known) or f"known are {listing(known)}"
        raise SpecError(f"unknown operator `{written}`", node.span, hint=hint)
    is_one = value == 1 and symbol in ("==", "<=")
    if written != symbol and count > 1 and not is_one:
        message = f"a bound on the product of loops of `{name}` is not modelled, but for products of 1"
        raise SpecError(message, node.span)
    if symbol == "==" and value.denominator != 1:
        raise SpecError(f"no loop of `{name}` has a bound of {float(value):g}", bound.require("value").span)
    relations: dict[str, tuple[Relation, int]] = {
        "==": ("=", int(value)),
        "<=": ("<=", math.floor(value)),
        ">=": (">=", math.ceil(value)),
        "<": ("<=", math.ceil(value) - 1),
        ">": (">=", math.floor(value) + 1),
    }
    return relations[symbol]


def _least_used(
    name: str,
    size: int,
    dimension: WrittenSpatial,
    factors: Iterable[FactorRule],
    scope: Scope,
    subject: Subject,
) -> tuple[list[FactorRule], tuple[SpecError, ...]]:
    """Return the rule that ``min_usage`` comes to, or why it cannot be one.

    It asks for a share of the fanout, or for the largest share that can be reached. Over one dimension
    that is a least factor: the share rounded up, or the largest divisor that fits.
    """
    written = dimension.get("min_usage")
    if written is None:
        return [], ()
    share = finite(written, f"`min_usage` of `{name}`", scope, scope.values)
    if share > 1:
        raise SpecError(
            f"`min_usage` of `{name}` is a share from 0 to 1, but is {float(share):g}", written.span
        )
    if subject.einsum.is_copy_operation or not share:
        return [], ()
    rules = list(factors)
    free = {
        dim: [d for d in divisors(bound) if d <= size and all(r.allows(d) for r in rules if r.dim == dim)]
        for dim, bound in subject.problem.bound.items()
    }
    open_dims = [dim for dim, values in free.items() if any(value > 1 for value in values)]
    if not open_dims:
        return [], ()
    if len(open_dims) > 1:
        message = f"`min_usage` of `{name}`, whose loops may be over {listing(open_dims)}, is not searched"
        hint = "it is a least product of several factors; leave it out, or bound loops by `loop_bounds`"
        return [], (SpecError(message, written.span, hint=hint),)
    (dim,) = open_dims
    enough = [value for value in free[dim] if value >= share * size]
    least = min(enough) if enough else max(free[dim])
    return [FactorRule(dim, ">=", least, source_ref(written.span))], ()
