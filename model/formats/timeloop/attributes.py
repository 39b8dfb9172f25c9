"""Attributes of containers and components: inheritance, variables, expressions."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from model.text.expressions import evaluate
from model.text.fields import NO_NAMES, Names
from model.text.limits import DEFAULT_LIMITS, Limits
from model.text.sizes import check_count
from model.text.source import MappingNode, Node, ScalarNode, SequenceNode, Span, SpecError
from model.text.syntax import ExpressionText

_WORD = re.compile(r"[.'\"]?(?!(?<=\d)[eE][-+]?\d+\b)[A-Za-z_]\w*")
"""A word of an expression, but no exponent; one behind a dot or a quotation mark is no name of its own."""
_OPERATORS = frozenset(("and", "else", "if", "in", "is", "not", "or"))
"""Words of expressions that name nothing."""
_OF_NODES = re.compile(r"(?<![\w.])([A-Za-z_]\w*)\.(?:attributes|spatial|get_fanout)\b")
"""The node whose attributes or mesh an expression asks for."""
_LONGEST_CHAIN = 50


@dataclass(frozen=True, slots=True)
class Attribute:
    """An evaluated attribute.

    Parameters
    ----------
    value
        A scalar, or a plain list or dict of values.
    node
        The value's node, whose text gives numbers exactly; an expression's holds its value.
    key
        Place of the key.
    """

    value: object
    node: Node
    key: Span


Attributes = Mapping[str, Attribute]
NO_ATTRIBUTES: Attributes = MappingProxyType({})


def values_of(attributes: Attributes) -> dict[str, object]:
    """Return the attributes' values by name."""
    return {name: attribute.value for name, attribute in attributes.items()}


def read_attributes(
    node: MappingNode | None,
    inherited: Attributes,
    variables: Names,
    limits: Limits = DEFAULT_LIMITS,
    visible: Attributes | None = None,
    nodes: Names = NO_NAMES,
) -> dict[str, Attribute]:
    """Evaluate the attributes of a node over those it inherits.

    A plain scalar that reads as an expression over the node's own attributes, the visible ones (the
    inherited ones where none are given) and `variables` (in that order of precedence) is replaced by
    its value, whatever the order in which the attributes are written. Quoted text stays text, as does
    plain text that is no expression over known names (``45nm``, ``LPDDR4``).

    Parameters
    ----------
    node
        The section ``attributes``, None where there is none.
    inherited
        What holds where the node says nothing else.
    variables
        Top-level variables.
    limits
        ``attributes`` counts, with the inherited ones.
    visible
        What expressions may name besides; None for the inherited ones.
    nodes
        Found by ``buffer.attributes["width"]``, ``buffer.attributes.width``, ``buffer.spatial.meshX`` and
        ``buffer.get_fanout()`` alone, as texts may well say the name of another node.

    Returns
    -------
    dict of str to Attribute
        The inherited ones first.

    Raises
    ------
    SpecError
        Attributes that need each other's values, or are more than the limits allow; an expression that
        is wrong.
    """
    attributes = dict(inherited)
    if node is None:
        return attributes
    names = {*inherited, *node.keys()}
    check_count(list(names), limits.attributes, "attributes", node.span)
    outer = {**variables, **values_of(inherited if visible is None else visible)}
    resolver = _Resolver(node, outer, nodes)
    for key, value in node.entries:
        resolved = resolver.value(key.text)
        attributes[key.text] = Attribute(resolved, _settled(value, resolved), key.span)
    return attributes


def _settled(node: Node, value: object) -> Node:
    """Return the node of an evaluated attribute: an expression gives way to its value."""
    if not isinstance(node, ScalarNode) or not isinstance(node.value, str) or value == node.text:
        return node
    assert isinstance(value, (bool, int, float, str))
    return ScalarNode(value, str(value), isinstance(value, str), node.span, node.tag)


class _Resolver:
    """Evaluates the entries of one mapping, each after those it refers to."""

    def __init__(self, node: MappingNode, outer: Names, nodes: Names) -> None:
        self._node = node
        self._outer = outer
        self._nodes = nodes
        self._values: dict[str, object] = {}
        self._open: list[str] = []

    def value(self, name: str) -> object:
        if name in self._values:
            return self._values[name]
        node = self._node.get(name)
        assert node is not None
        if name in self._open:
            chain = " -> ".join((*self._open[self._open.index(name) :], name))
            raise SpecError(f"attributes need each other's values: {chain}", node.span)
        if len(self._open) >= _LONGEST_CHAIN:
            message = f"attributes need one another's values in a chain of more than {_LONGEST_CHAIN}"
            raise SpecError(message, node.span)
        self._open.append(name)
        self._values[name] = self._evaluate(name, node)
        self._open.pop()
        return self._values[name]

    def _evaluate(self, name: str, node: Node, inside: bool = False) -> object:
        """Return the value of an attribute, or of what stands `inside` of one."""
        if isinstance(node, SequenceNode):
            return [self._evaluate(name, item, inside=True) for item in node.items]
        if isinstance(node, MappingNode):
            return {key.text: self._evaluate(name, item, inside=True) for key, item in node.entries}
        assert isinstance(node, ScalarNode)
        if node.quoted or not isinstance(node.value, str):
            return node.value
        found = dict.fromkeys(_WORD.findall(node.text))
        words = [word for word in found if word not in _OPERATORS]
        asked = _OF_NODES.findall(node.text)
        # An attribute that names itself means the inherited one: `depth: depth * 2`.
        siblings = [word for word in words if word in self._node and word != name]
        names = {**self._outer, **{word: self.value(word) for word in siblings}}
        calls = "(" in node.text and not inside
        # `5 if 3 > 2 else 7` names nothing and is an expression; `10 in` is text.
        is_text = words or (found and not _is_expression(node.text))
        if is_text and not asked and not any(word in names for word in words) and not calls:
            return node.text
        return evaluate(node, {**self._nodes, **names} if asked else names)


def _is_expression(text: str) -> bool:
    """Whether a text has the form of an expression, whatever its names mean."""
    try:
        ExpressionText(text, None).parse()
    except SpecError:
        return False
    return True


def read_variables(node: MappingNode | None, limits: Limits = DEFAULT_LIMITS) -> dict[str, object]:
    """Evaluate the top-level ``variables``; each may use the others.

    Parameters
    ----------
    node
        The section, None where there is none.
    limits
        ``attributes`` counts.

    Raises
    ------
    SpecError
        As for `read_attributes`.
    """
    if node is None:
        return {}
    return values_of(read_attributes(node, NO_ATTRIBUTES, {}, limits))
