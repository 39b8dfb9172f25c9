"""What an architecture allows: which tensors a memory keeps, and which loops a fanout may have."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from model.formats.accelforge.architecture import WrittenNode, WrittenSpatial
from model.formats.accelforge.numbers import finite, positive, truth
from model.formats.accelforge.scope import Kept, Scope, Subject
from model.formats.accelforge.sets import UndefinedNameError
from model.mapspace import FactorRule, KeepRules, Relation, SpatialRules
from model.numbers import divisors
from model.text.fields import as_name, as_scalar, given
from model.text.source import MappingNode, Node, SpecError, TakeNote, note_at, source_ref
from model.wording import suggestion

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
    """What one dimension of a fanout allows.

    Parameters
    ----------
    rules, no_multicast
        In terms of the canonical mapspace.
    is_gate
        Whether instances that are not used are off.
    factors
        The factors that each of the problem's dimensions may have here.
    least_used
        The fewest instances that must be in use, as ``min_usage`` says, and where; None without.
    """

    rules: SpatialRules
    no_multicast: frozenset[str]
    is_gate: bool
    factors: Mapping[str, Sequence[int]]
    least_used: LeastUse | None = None


@dataclass(frozen=True)
class LeastUse:
    """The fewest instances of a dimension of a fanout that must be in use.

    Parameters
    ----------
    instances
        The share that ``min_usage`` asks for, rounded up, or the most that loops can use.
    rank_variables
        Those that the loops may be over.
    """

    instances: int
    rank_variables: tuple[str, ...]
    written: Node


def fanout_rules(
    name: str, size: int, dimension: WrittenSpatial, scope: Scope, subject: Subject, note: TakeNote
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
        *_loop_bound_rules(name, dimension.loop_bounds, scope, subject, note),
    ]
    gate = dimension.get("power_gateable")
    allowed = _allowed_factors(size, factors, subject)
    least = _least_used(name, size, dimension, allowed, scope, subject)
    if least is not None and len(least.rank_variables) == 1:
        (dim,) = least.rank_variables
        factors.append(FactorRule(dim, ">=", least.instances, source_ref(least.written.span)))
    return DimensionRules(
        rules=SpatialRules(factors=tuple(factors)),
        no_multicast=subject.spaces(everything - shared),
        is_gate=gate is not None and truth(gate, f"`power_gateable` of `{name}`", scope, scope.values),
        factors=allowed,
        least_used=least,
    )


def _allowed_factors(size: int, rules: Sequence[FactorRule], subject: Subject) -> dict[str, tuple[int, ...]]:
    """Return the factors of each dimension that fit and that the rules allow."""
    return {
        dim: tuple(
            factor
            for factor in divisors(bound)
            if factor <= size and all(rule.allows(factor) for rule in rules if rule.dim == dim)
        )
        for dim, bound in subject.problem.bound.items()
    }


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


def _loop_bound_rules(
    name: str, bounds: Iterable[MappingNode], scope: Scope, subject: Subject, note: TakeNote
) -> Iterator[FactorRule]:
    for bound in bounds:
        dims = _bounded(name, bound.require("expression"), scope, subject, note)
        written = bound.require("value")
        value = finite(written, f"`value` of a bound of `{name}`", scope, scope.values)
        relation, limit = _relation(bound, name, len(dims), value)
        source = source_ref(bound.require("expression").span)
        yield from (FactorRule(dim, relation, limit, source) for dim in subject.problem.dims if dim in dims)


def _bounded(name: str, written: Node, scope: Scope, subject: Subject, note: TakeNote) -> frozenset[str]:
    """Return the rank variables whose loops are bounded.

    Where a name is not defined, AccelForge goes on with the text of the expression, and takes rank variables
    for bounded whose names are parts of it. Without any, the bound has no effect; otherwise it is refused.
    """
    what = f"`loop_bounds` of `{name}`"
    try:
        return scope.rank_variables(written, what)
    except UndefinedNameError:
        text = as_scalar(written, what).text
        if any(dim in text for dim in subject.problem.dims):
            raise
    sentence = "the bound on `{}` of `{}` has no effect, as in AccelForge: it uses a name that is not defined"
    note(note_at(written.span, sentence, text, name))
    return frozenset()


def _relation(bound: MappingNode, name: str, count: int, value: Fraction) -> tuple[Relation, int]:
    """Return the relation and the bound of each loop; a product is one of each only in special cases."""
    node = bound.require("operator")
    written = as_name(node, f"`operator` of a bound of `{name}`")
    symbol = written.removeprefix(_PRODUCT)
    if symbol not in _OPERATORS:
        known = (*_OPERATORS, *(f"{_PRODUCT}{own}" for own in _OPERATORS))
        hint = suggestion(written, known, "known are")
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
    factors: Mapping[str, Sequence[int]],
    scope: Scope,
    subject: Subject,
) -> LeastUse | None:
    """Return what ``min_usage`` comes to: the share, or the largest one that loops can reach."""
    written = dimension.get("min_usage")
    if written is None:
        return None
    share = finite(written, f"`min_usage` of `{name}`", scope, scope.values)
    if share > 1:
        raise SpecError(
            f"`min_usage` of `{name}` is a share from 0 to 1, but is {float(share):g}", written.span
        )
    open_dims = tuple(dim for dim, values in factors.items() if max(values, default=1) > 1)
    if subject.einsum.is_copy_operation or not share or not open_dims:
        return None
    products = {1}
    for dim in open_dims:
        products = {known * factor for known in products for factor in factors[dim] if known * factor <= size}
    return LeastUse(min(math.ceil(share * size), max(products)), open_dims, written)


MOST_FILLINGS = 100_000
"""Steps in which it is found out whether fanouts can be filled."""


def can_be_used(
    fanouts: Sequence[tuple[int, int, Mapping[str, Sequence[int]]]], bounds: Mapping[str, int]
) -> bool:
    """Whether so many instances of all fanouts can be used at once, as far as that is found out.

    Parameters
    ----------
    fanouts
        The size of each, the fewest instances in use, and the factors that each dimension may have there.
    bounds
        Of the dimensions, over all fanouts together.
    """
    steps = 0

    def use(place: int, used: int, dims: tuple[str, ...], left: dict[str, int]) -> bool:
        nonlocal steps
        steps += 1
        if steps > MOST_FILLINGS:
            return False
        size, least, factors = fanouts[place]
        if not dims:
            if used < least:
                return False
            return place + 1 == len(fanouts) or use(place + 1, 1, tuple(bounds), left)
        dim, *others = dims
        fitting = (f for f in reversed(factors[dim]) if used * f <= size and left[dim] % f == 0)
        return any(use(place, used * f, tuple(others), {**left, dim: left[dim] // f}) for f in fitting)

    return not fanouts or use(0, 1, tuple(bounds), dict(bounds))
