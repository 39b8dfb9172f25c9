"""A spec as it was read, without what a mapping settles."""

from __future__ import annotations

from model.formats.timeloop.constraints import ADDRESS_KEYS, KINDS, SHORT_PARALLELISM
from model.formats.timeloop.document import ANCHOR_MARK, section_name, with_entry, with_leaves, without
from model.formats.timeloop.loader import LoadedSpec
from model.formats.timeloop.loops import CHOICES
from model.text.fields import as_name
from model.text.source import MappingNode, Node, SequenceNode

_COUNTED = ("temporal", "spatial", "dataspace")
"""Constraints that hold flags, or say which data is kept; Timeloop's mappings know no others."""


def mapped_spec(loaded: LoadedSpec) -> MappingNode:
    """Return a spec that takes a mapping of a loaded one, which prices as it does there.

    It lacks the constraints on what a mapping says in full (factors, orders, splits, the least
    parallelism), any mapping of its own, and sections that only hold anchors. Flags and the dataspaces
    to keep and to bypass stay. The problem's shape is written out, as its file may be elsewhere.
    """
    top = loaded.document
    entries = tuple(
        (key, _section(key.text, value, loaded))
        for key, value in top.entries
        if section_name(key.text) not in ("mapping", ANCHOR_MARK)
    )
    return MappingNode(entries, top.span, top.tag)


def _section(name: str, value: Node, loaded: LoadedSpec) -> Node:
    if name == "problem":
        return loaded.problem or value
    if name == "architecture":
        return with_leaves(value, _leaf)
    return _targets(value) if section_name(name) == "constraints" else value


def _leaf(node: MappingNode) -> MappingNode:
    """Return a component or container with the constraints that count, without the key where none does."""
    constraints = node.get("constraints")
    if not isinstance(constraints, MappingNode):
        return node
    kept = ((key, _counting(key.text, value)) for key, value in constraints.entries)
    entries = tuple((key, value) for key, value in kept if value is not None)
    if not entries:
        return without(node, ("constraints",))
    return with_entry(node, "constraints", MappingNode(entries, constraints.span, constraints.tag))


def _targets(section: Node) -> Node:
    """Return a section of constraints, or a list of them, with those that count."""
    if isinstance(section, SequenceNode):
        kept = (_counting(_type_of(item), item) for item in section.items)
        return SequenceNode(tuple(item for item in kept if item is not None), section.span, section.tag)
    if not isinstance(section, MappingNode):
        return section
    section = without(section, (SHORT_PARALLELISM,))
    targets = section.get("targets")
    return section if targets is None else with_entry(section, "targets", _targets(targets))


def _type_of(target: Node) -> str:
    assert isinstance(target, MappingNode)  # the loader has read it
    return as_name(target.require("type"), "`type`")


def _counting(kind: str, constraint: Node) -> MappingNode | None:
    """Return what a constraint says of the counting, None where that is nothing."""
    if KINDS.get(kind) not in _COUNTED or not isinstance(constraint, MappingNode):
        return None
    kept = without(constraint, CHOICES)
    return None if all(key in ADDRESS_KEYS for key in kept.keys()) else kept  # noqa: SIM118 (a node, not a dict)
