"""Loop factors as they stand in constraints and mappings."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from model.mapspace import FactorRule, Relation
from model.text.expressions import evaluate
from model.text.fields import Names, as_int, as_scalar, kind_of, known_name, source_ref
from model.text.source import ConflictError, MappingNode, Node, ScalarNode, SequenceNode, Span, SpecError
from model.wording import listing

_OPERATOR = re.compile(r" ?(<=|>=|==|=|<|>) ?")
_ANY = -1
_FORMS = "write `P=4`, `P<=4` or `P>=4`, in a list, a mapping `{P: 4}` or a text `P=4, Q=2`"


@dataclass(frozen=True, slots=True)
class Factor:
    """One factor rule and where it was written.

    Parameters
    ----------
    dim
        A dimension of the problem.
    relation, value
        What its loop's bound at the node is compared with; the value is at least 1.
    span
        Its place.
    default
        Whether it is there for all dimensions without one.
    free
        Whether it says that there is no rule; relation and value mean nothing then.
    """

    dim: str
    relation: Relation
    value: int
    span: Span
    default: bool = False
    free: bool = False

    def rule(self) -> FactorRule:
        """Return the rule of the canonical problem."""
        return FactorRule(self.dim, self.relation, self.value, source_ref(self.span))

    def __str__(self) -> str:
        return f"{self.dim}{self.relation}{self.value}"


@dataclass(frozen=True)
class Bounds:
    """What factors are checked against.

    Parameters
    ----------
    bound, spans
        The problem's bounds by dimension, and their places.
    """

    bound: dict[str, int]
    spans: dict[str, Span]


def read_factors(node: Node, bounds: Bounds, names: Names) -> tuple[Factor, ...]:
    """Read factors in any of their forms; a value of 0 means the full bound, one of -1 any factor.

    A factor in parentheses is an expression that gives the factor's text: ``("P=" + str(WIDTH))``.

    Raises
    ------
    SpecError
        A malformed factor, an unknown dimension, an imperfect factor (``P=4,3``), ``<`` or ``>``.
    """
    return tuple(
        _checked(_spelt_out(text, part, names), part, bounds, names) for text, part in factor_texts(node)
    )


def _spelt_out(text: str, node: Node, names: Names) -> str:
    if not text.startswith("("):
        return text
    value = evaluate(ScalarNode(text, text, False, node.span), names)
    if not isinstance(value, str):
        raise SpecError(f"`{text}` is {value}, not the text of a factor", node.span, hint=_FORMS)
    return value


def factor_texts(node: Node) -> Iterator[tuple[str, Node]]:
    """Yield the factors as texts, each with the node it stands in.

    Parameters
    ----------
    node
        A list, a mapping or a text; none are in an empty one.

    Raises
    ------
    SpecError
        While it is iterated, for an item that is no text.
    """
    if isinstance(node, MappingNode):
        for key, value in node.entries:
            text = as_scalar(value, f"factor of `{key.text}`").text.strip()
            yield (f"{key.text}{text}" if text[:1] in "<>=" else f"{key.text}={text}"), value
        return
    if isinstance(node, SequenceNode):
        yield from ((_joined(item), item) for item in node.items)
        return
    if node.value is None:
        return
    # Spaces around an operator belong to the factor; all others separate factors.
    joined = _OPERATOR.sub(lambda match: match.group(1), " ".join(node.text.split()))
    for text in re.split(r"[,\s]+", joined):
        if text:
            yield text, node


def split_factor(text: str) -> tuple[str, str, str]:
    """Split ``P<=4`` or ``P4`` into name, operator and value; what is not there is empty.

    Parameters
    ----------
    text
        Without an operator all digits at its end are the value, even where they belong to the name.
    """
    match = _OPERATOR.search(text)
    if match:
        return text[: match.start()].strip(), match.group(1), text[match.end() :].strip()
    name = text.rstrip("0123456789")
    return name, "", text[len(name) :]


def _joined(item: Node) -> str:
    """Return a factor of a list as one text; it may be a list of parts, such as ``[P, "=", WIDTH]``."""
    parts = item.items if isinstance(item, SequenceNode) else (item,)
    texts = [part.text.strip() for part in parts if isinstance(part, ScalarNode)]
    if not texts or len(texts) < len(parts):
        raise SpecError(f"a factor must be text, but is {kind_of(item)}", item.span, hint=_FORMS)
    return "".join(texts)


def _checked(text: str, node: Node, bounds: Bounds, names: Names) -> Factor:
    dim, operator, value_text = _split(text, node, bounds)
    if operator in ("<", ">"):
        hint = f"`{operator}` is silently dropped by Timeloop; write `{dim}{operator}={value_text}` or so"
        raise SpecError(f"`{text}`: strict bounds on factors are not supported", node.span, hint=hint)
    value = _value(value_text, text, node, names)
    relation: Relation = "<=" if operator == "<=" else ">=" if operator == ">=" else "="
    if relation == "=" and value == _ANY:
        return Factor(dim, "=", 1, node.span, free=True)
    if relation == "=" and value == 0:
        value = bounds.bound[dim]
    if value < 1:
        raise SpecError(f"`{text}`: a factor is at least 1", node.span)
    return Factor(dim, relation, value, node.span)


def check_attainable(factor: Factor, bounds: Bounds) -> None:
    """Check that some factor of its dimension's bound satisfies a rule.

    Constraints that serve several layers may be right but for the bound of one.

    Raises
    ------
    ConflictError
        None does: it exceeds the bound, or does not divide it.
    """
    bound = bounds.bound[factor.dim]
    related = ((bounds.spans[factor.dim], f"{factor.dim} is {bound} here"),)
    if factor.relation != "<=" and factor.value > bound:
        message = f"`{factor}`: the factor exceeds the bound {factor.dim} = {bound}"
        raise ConflictError(message, factor.span, related)
    if factor.relation == "=" and bound % factor.value:
        message = f"`{factor}`: {factor.value} does not divide the bound {factor.dim} = {bound}"
        raise ConflictError(message, factor.span, related, hint="imperfect factors are not modelled")


def _split(text: str, node: Node, bounds: Bounds) -> tuple[str, str, str]:
    """Split ``P<=4`` or ``P4`` into dimension, operator and value."""
    name, operator, value = split_factor(text)
    if operator:
        _require_dim(name, node, bounds)
        return name, operator, value
    if value and not name:
        message = f"`{text}` names no dimension: imperfect factors are not modelled"
        raise SpecError(message, node.span, hint=_FORMS)
    fits = [dim for dim in bounds.bound if text.startswith(dim) and re.fullmatch(r"\d+", text[len(dim) :])]
    if len(fits) > 1:
        message = f"`{text}` can be a factor of {listing(fits)}"
        raise SpecError(message, node.span, hint="put `=` between dimension and factor")
    if fits:
        return fits[0], "=", text[len(fits[0]) :]
    if value and name.isidentifier():
        _require_dim(name, node, bounds)
    raise SpecError(f"`{text}` is not a factor", node.span, hint=_FORMS)


def _require_dim(name: str, node: Node, bounds: Bounds) -> None:
    if not name.isidentifier():
        raise SpecError(f"`{name}` is no dimension", node.span, hint=_FORMS)
    known_name(ScalarNode(name, name, True, node.span), bounds.bound, "dimension")


def _value(value_text: str, text: str, node: Node, names: Names) -> int:
    if re.fullmatch(r"\d+\s*,\s*\d+", value_text):
        raise SpecError(f"`{text}`: imperfect factors are not modelled", node.span)
    if not value_text or value_text.endswith(";"):
        raise SpecError(f"`{text}` is not a factor", node.span, hint=_FORMS)
    written = ScalarNode(value_text, value_text, False, node.span)
    return as_int(written, f"the factor of `{text}`", names)
