"""Spec nodes with parts replaced or left out; nodes are never changed, so all of it returns new ones."""

from __future__ import annotations

from collections.abc import Callable, Container

from model.formats.timeloop.tags import COMPONENT_TAGS
from model.text.source import MappingNode, Node, ScalarNode, SequenceNode

_LEAF_TAGS = (*COMPONENT_TAGS, "!Container")


def with_entry(node: MappingNode, name: str, value: Node) -> MappingNode:
    """Return a mapping with a value replaced, or added at the end.

    Parameters
    ----------
    node
        The mapping.
    name
        The key's text.
    value
        What stands under it; a new key has its place.
    """
    if name in node:
        entries = tuple((key, value if key.text == name else old) for key, old in node.entries)
    else:
        entries = (*node.entries, (ScalarNode(name, name, False, value.span), value))
    return MappingNode(entries, node.span, node.tag)


def without(node: MappingNode, names: Container[str]) -> MappingNode:
    """Return a mapping without the entries of some names, which need not be there."""
    entries = tuple((key, value) for key, value in node.entries if key.text not in names)
    return MappingNode(entries, node.span, node.tag)


def with_leaves(node: Node, change: Callable[[MappingNode], MappingNode]) -> Node:
    """Return a part of the architecture with its components and containers changed."""
    if isinstance(node, SequenceNode):
        items = tuple(with_leaves(item, change) for item in node.items)
        return SequenceNode(items, node.span, node.tag)
    if not isinstance(node, MappingNode):
        return node
    if node.tag in _LEAF_TAGS:
        return change(node)
    inner = node.get("nodes")
    return node if inner is None else with_entry(node, "nodes", with_leaves(inner, change))
