"""From rank sizes and iteration spaces to the ranges of an Einsum's rank variables."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from model.formats.accelforge.affine import (
    Affine,
    Box,
    Constraint,
    NotAffineError,
    bounding_box,
    cuts,
    is_attained,
    may_bound_together,
    read_constraints,
    tightened,
)
from model.formats.accelforge.einsums import SHAPE_KEYS, WrittenEinsum, WrittenIndex
from model.formats.timeloop.problem import MAX_BOUND
from model.formats.timeloop.tree import Attributes, read_attributes
from model.text.fields import Names, as_int, as_mapping, as_scalar, is_blank, one_of
from model.text.limits import DEFAULT_LIMITS
from model.text.source import MappingNode, Node, ScalarNode, SequenceNode, Span, SpecError, TakeNote, note_at
from model.wording import did_you_mean, suggestion

_WORD = re.compile(r"[A-Za-z_]\w*")
_ISL_NOTATION = re.compile(r"\b(mod|exists|floor|ceil|or|not|implies)\b|\|\||[:,/%!]")


# A cascade may well have more ranks than a component has attributes.
_AS_MANY_AS_WRITTEN = replace(DEFAULT_LIMITS, attributes=DEFAULT_LIMITS.nodes)


@dataclass(frozen=True)
class RankSize:
    """The size of a rank, and where it is given."""

    size: int
    span: Span


@dataclass(frozen=True)
class Condition:
    """One text of an iteration space shape."""

    text: str
    span: Span
    # Those of the workload that it mentions, its key included.
    variables: frozenset[str]


@dataclass(frozen=True)
class IterationShape:
    """What an Einsum computes."""

    ranges: tuple[range, ...]  # values of each rank variable, in the order of the Einsum's
    is_box: bool  # whether all their combinations are computed
    # Without the conditions that only ISL understands.
    constraints: tuple[Constraint, ...] = ()


def read_rank_sizes(
    node: Node | None, outer: Attributes, variables: Names
) -> tuple[dict[str, RankSize], Attributes]:
    """Return the sizes of ranks, those of the workload included, and what an inner section inherits."""
    section = None if node is None else as_mapping(node, "`rank_sizes`")
    attributes = read_attributes(section, outer, variables, _AS_MANY_AS_WRITTEN)
    names = {**variables, **{name: attribute.value for name, attribute in attributes.items()}}
    sizes = {}
    for name, attribute in attributes.items():
        if name[:1].islower():
            hint = f"ranks begin with an upper-case letter: `{name.upper()}`"
            raise SpecError(f"`{name}` is not the name of a rank", attribute.key, hint=hint)
        size = as_int(attribute.node, f"the size of rank `{name}`", names, 1, MAX_BOUND)
        sizes[name] = RankSize(size, attribute.node.span)
    return sizes, attributes


def read_conditions(
    section: MappingNode | None, known: frozenset[str], note: TakeNote
) -> tuple[Condition, ...]:
    """Read ``iteration_space_shape``: a list of texts, or a mapping of rank variables to texts."""
    written = None if section is None else one_of(section, SHAPE_KEYS, "the workload")
    if written is None or is_blank(written[1]):
        return ()
    key, node = written
    if key.text != SHAPE_KEYS[0]:
        note(note_at(key.span, "`{}` is read as `{}`, its current name", key.text, SHAPE_KEYS[0]))
    if isinstance(node, MappingNode):
        return tuple(_condition(value, known, key) for key, value in node.entries)
    if isinstance(node, SequenceNode):
        return tuple(_condition(item, known, None) for item in node.items)
    return (_condition(node, known, None),)


def _condition(node: Node, known: frozenset[str], key: ScalarNode | None) -> Condition:
    scalar = as_scalar(node, "a part of `iteration_space_shape`")
    words = frozenset(_WORD.findall(scalar.text))
    if key is not None and key.text not in words:
        raise SpecError(f"this does not mention `{key.text}`", scalar.span, ((key.span, "its key"),))
    constrained = frozenset() if key is None else {key.text}
    return Condition(scalar.text, scalar.span, (words & known) | constrained)


def iteration_shape(
    einsum: WrittenEinsum, sizes: Mapping[str, RankSize], conditions: tuple[Condition, ...]
) -> IterationShape:
    """Return the ranges of an Einsum's rank variables; what lies beyond the size of a rank is skipped."""
    indices = [index for access in einsum.accesses for index in access.indices]
    limits = [limit for index in indices for limit in _index_limits(index, sizes)]
    affine: list[Constraint] = []
    texts: list[tuple[str, Span]] = []
    for condition in conditions:
        constraints = _affine_constraints(condition)
        if constraints is None:
            texts.append((condition.text, condition.span))
        else:
            affine += constraints
    for constraint in affine:
        _check_variables(constraint, einsum)
    box = tightened(einsum.rank_variables, [*limits, *affine])
    bent = [constraint for constraint in affine if len(constraint.affine.coefficients) > 1]
    texts += [(f"{c.affine} >= 0", c.span) for c in bent if cuts(c, box)]
    bounded = all(interval.is_bounded for interval in box.values())
    is_plain = is_attained(box, limits) if bounded else not may_bound_together(box, limits)
    if not texts and not is_plain:
        texts = [(f"{c.affine} >= 0", c.span) for c in limits if cuts(c, box)]
    is_box = True
    if texts:
        box, is_box = bounding_box(einsum.rank_variables, [*limits, *affine], texts)
    _check_bounded(einsum, box, sizes)
    ranges = tuple(_range(box, name, einsum) for name in einsum.rank_variables)
    return IterationShape(ranges, is_box and not any(cuts(limit, box) for limit in limits), tuple(affine))


def _index_limits(index: WrittenIndex, sizes: Mapping[str, RankSize]) -> tuple[Constraint, ...]:
    """Return ``0 <= index < size`` for a rank with a size."""
    if index.rank not in sizes:
        return ()
    above = Affine(sizes[index.rank].size - 1).plus(index.affine, -1)
    if not index.affine.coefficients and (index.affine.constant < 0 or above.constant < 0):
        related = ((sizes[index.rank].span, f"rank `{index.rank}` ends here"),)
        raise SpecError(f"this lies outside of rank `{index.rank}`", index.span, related)
    return Constraint(index.affine, index.span), Constraint(above, index.span)


def _affine_constraints(condition: Condition) -> tuple[Constraint, ...] | None:
    """Return a condition as affine constraints, None if only ISL can interpret it."""
    is_for_isl = _ISL_NOTATION.search(condition.text) is not None
    try:
        return read_constraints(condition.text, condition.span)
    except NotAffineError as error:
        if is_for_isl:
            return None
        raise SpecError(str(error), error.span) from None
    except SpecError:
        if is_for_isl:
            return None
        raise


def _check_variables(constraint: Constraint, einsum: WrittenEinsum) -> None:
    for name in constraint.affine.coefficients:
        if name not in einsum.rank_variables:
            hint = suggestion(name, einsum.rank_variables, "it has")
            message = f"`{name}` is not a rank variable of Einsum `{einsum.name}`"
            raise SpecError(message, constraint.span, hint=hint)


def _check_bounded(einsum: WrittenEinsum, box: Box, sizes: Mapping[str, RankSize]) -> None:
    indices = (index for access in einsum.accesses for index in access.indices)
    for index, name in ((inner, name) for inner in indices for name in inner.affine.coefficients):
        if box[name].is_bounded:
            continue
        hint = (
            f"give rank `{index.rank}` a size in `rank_sizes`, or limit `{name}` in `iteration_space_shape`"
        )
        is_single = set(index.affine.coefficients) == {name}
        what = f"rank `{index.rank}` is undefined: it has no size, and" if is_single else "there is no size:"
        message = f"{what} rank variable `{name}` has no bounds"
        raise SpecError(message, index.span, hint=did_you_mean(index.rank, sizes) or hint)


def _range(box: Box, name: str, einsum: WrittenEinsum) -> range:
    interval = box[name]
    assert interval.low is not None
    assert interval.high is not None
    if interval.high - interval.low >= MAX_BOUND:
        raise SpecError(f"`{name}` has more than {MAX_BOUND} values", einsum.span)
    return range(interval.low, interval.high + 1)
