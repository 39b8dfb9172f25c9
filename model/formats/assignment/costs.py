"""Costs in a spec: exact decimals, or infinity."""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction

from model.assignment import Cost
from model.text.fields import as_fraction, as_mapping, kind_of
from model.text.source import MappingNode, Node, ScalarNode, SpecError, did_you_mean

INFINITE_WORDS = ("inf", "+inf", "infinity")


def read_cost(node: Node, what: str) -> Cost:
    """Return a cost exactly as written.

    Raises
    ------
    SpecError
        It is missing, no number, negative, or neither zero nor from 1e-15 to 1e15.
    """
    if not isinstance(node, ScalarNode):
        raise SpecError(f"{what} must be a number, but is {kind_of(node)}", node.span)
    if node.value is None:
        raise SpecError(
            f"{what} is missing", node.span, hint="a cost is a number, or `inf` to forbid the choice"
        )
    if node.text.lower() in INFINITE_WORDS and not node.quoted:
        return None
    value = node.value
    if isinstance(value, (bool, str)) or math.isnan(value):
        hint = "text in quotes is no number" if node.quoted else None
        raise SpecError(f"{what} must be a number or `inf`, but is `{node.text}`", node.span, hint=hint)
    if value < 0:
        raise SpecError(f"{what} must not be negative, but is {node.text}", node.span)
    if math.isinf(value):
        return None
    return as_fraction(node, what)


def read_figure(node: Node, what: str) -> Fraction:
    """Return a positive finite number exactly as written.

    Raises
    ------
    SpecError
        It is anything else, or not from 1e-15 to 1e15.
    """
    figure = read_cost(node, what)
    if figure is None or figure == 0:
        raise SpecError(f"{what} must be positive and finite", node.span)
    return Fraction(figure)


def read_transition(
    node: Node, edge: str, sources: Iterable[str], targets: Iterable[str]
) -> dict[tuple[str, str], Cost]:
    """Return the costs of pairs of methods: ``{METHOD OF THE SOURCE: {METHOD OF THE TARGET: COST}}``.

    Raises
    ------
    SpecError
        A method that a layer does not offer, or a cost that is wrong.
    """
    sources, targets = tuple(sources), tuple(targets)
    matrix = as_mapping(node, f"`transition` of {edge}")
    _check_methods(matrix, sources, f"the source of {edge}")
    costs: dict[tuple[str, str], Cost] = {}
    for source, entry in matrix.entries:
        row = as_mapping(entry, f"transitions from `{source.text}` in {edge}")
        _check_methods(row, targets, f"the target of {edge}")
        for target, cost in row.entries:
            what = f"transition from `{source.text}` to `{target.text}` in {edge}"
            costs[source.text, target.text] = read_cost(cost, what)
    return costs


def _check_methods(node: MappingNode, methods: tuple[str, ...], whose: str) -> None:
    for key, _ in node.entries:
        if key.text not in methods:
            known = ", ".join(f"`{method}`" for method in methods)
            hint = did_you_mean(key.text, methods) or f"it offers {known}"
            raise SpecError(f"{whose} does not offer the method `{key.text}`", key.span, hint=hint)
