"""Values of an architecture's attributes that are given from outside, as in a sweep."""

from __future__ import annotations

from dataclasses import dataclass

from model.spec.fields import listing
from model.spec.scalars import plain_value
from model.spec.source import MappingNode, Node, ScalarNode, SequenceNode, Span, SpecError, did_you_mean

ATTRIBUTES = "attributes"


@dataclass(frozen=True)
class Override:
    """``component.attribute=value``, the value as it would stand in a file."""

    component: str
    attribute: str
    value: str

    @classmethod
    def of(cls, text: str) -> Override:
        """Read ``component.attribute=value``; SpecError for anything else."""
        address, equals, value = text.partition("=")
        component, dot, attribute = address.rpartition(".")
        if not (equals and dot and component and attribute.isidentifier() and value):
            raise SpecError(f"`{text}` does not set an attribute", hint="write COMPONENT.ATTRIBUTE=VALUE")
        return cls(component, attribute, value)

    def __str__(self) -> str:
        return f"{self.component}.{self.attribute}={self.value}"

    @property
    def node(self) -> ScalarNode:
        """The value as a node; its place is this text."""
        text = str(self)
        span = Span(text, 1, len(text) - len(self.value) + 1, 1, len(text) + 1)
        return ScalarNode(plain_value(self.value, span), self.value, False, span)


def overridden(top: MappingNode, override: Override) -> MappingNode:
    """Return a spec in which one attribute of a component of the architecture has another value.

    Raises
    ------
    SpecError
        The architecture has no component of that name.
    """
    names: dict[str, bool] = {}
    entries = tuple(
        (key, _changed(value, override, names) if key.text == "architecture" else value)
        for key, value in top.entries
    )
    if not names.get(override.component):
        hint = did_you_mean(override.component, names) or f"it has {listing(names)}"
        raise SpecError(f"`{override}`: the architecture has no `{override.component}`", hint=hint)
    return MappingNode(entries, top.span, top.tag)


def _changed(node: Node, override: Override, names: dict[str, bool]) -> Node:
    """Return a part of the tree with the attribute set; collect names, and whether they were meant."""
    if isinstance(node, SequenceNode):
        return SequenceNode(
            tuple(_changed(item, override, names) for item in node.items), node.span, node.tag
        )
    if not isinstance(node, MappingNode):
        return node
    name = node.get("name")
    base = name.text.partition("[")[0].strip() if isinstance(name, ScalarNode) else None
    if base is not None:
        names[base] = base == override.component
    entries = [(key, _changed(value, override, names)) for key, value in node.entries]
    if base is None or base != override.component:
        return MappingNode(tuple(entries), node.span, node.tag)
    given = node.get(ATTRIBUTES)
    known = given.entries if isinstance(given, MappingNode) else ()
    value = override.node
    own = [entry for entry in known if entry[0].text != override.attribute]
    own.append((_key(override.attribute, value.span), value))
    entries = [entry for entry in entries if entry[0].text != ATTRIBUTES]
    span = node.span if given is None else given.span
    entries.append((_key(ATTRIBUTES, span), MappingNode(tuple(own), span)))
    return MappingNode(tuple(entries), node.span, node.tag)


def _key(text: str, span: Span) -> ScalarNode:
    return ScalarNode(text, text, False, span)
