"""Overrides: other values for attributes of architecture nodes than the files give."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from model.formats.timeloop.document import COMPONENT_TAGS, with_entry, with_leaves
from model.formats.timeloop.storage import MODELLED_ATTRIBUTES
from model.sweep import MESHES
from model.text.composer import scalar_node
from model.text.limits import Limits
from model.text.source import Document, MappingNode, ScalarNode, Span, SpecError
from model.wording import suggestion


@dataclass(frozen=True)
class AttributeSetting:
    """One value of one attribute of a component or container; ``meshX`` and ``meshY`` are its fanout's."""

    node: str
    attribute: str
    value: ScalarNode
    span: Span  # of the whole setting

    @property
    def name(self) -> str:
        """The attribute with its node."""
        return f"{self.node}.{self.attribute}"


def parse_setting(text: str, label: str = "setting") -> tuple[AttributeSetting, ...]:
    """Read ``NODE.ATTRIBUTE=VALUE,VALUE,...`` into one setting per value; SpecError for any other form.

    Values are plain YAML scalars: numbers, words, or expressions over attributes. Messages call it `label`.
    """
    name, equals, values = text.partition("=")
    document = Document.of(f"{label} {name}" if equals else label, text, "setting")
    whole = document.span(1, 1, 1, len(text) + 1)
    node, dot, attribute = name.rpartition(".")
    if not equals or not dot or not node or not attribute:
        hint = "write NODE.ATTRIBUTE=VALUE,VALUE,..., such as buffer.depth=1024,2048"
        raise SpecError("this does not set an attribute", whole, hint=hint)
    settings: dict[object, AttributeSetting] = {}
    column = len(name) + 2
    for part in _split_values(values):
        span = document.span(1, column, 1, column + max(1, len(part)))
        if not part.strip():
            raise SpecError(f"a value of `{name}` is empty", span)
        value = scalar_node(part.strip(), False, span, None, Limits())
        if value.value in settings:
            raise SpecError(f"`{name}` gets the value {part.strip()} twice", span)
        settings[value.value] = AttributeSetting(node, attribute, value, whole)
        column += len(part) + 1
    return tuple(settings.values())


def _split_values(values: str) -> Iterator[str]:
    """Split at the commas that stand outside of brackets, so that functions keep their arguments."""
    depth, start = 0, 0
    for place, character in enumerate(values):
        depth += (character in "([{") - (character in ")]}")
        if character == "," and depth <= 0:
            yield values[start:place]
            start = place + 1
    yield values[start:]


def with_settings(top: MappingNode, settings: Iterable[AttributeSetting]) -> MappingNode:
    """Return a joined spec with attributes of its architecture set, before any of it is evaluated.

    An attribute is one that its node writes, or any that the model of a storage knows.
    """
    for setting in settings:
        top = _with_setting(top, setting)
    return top


def _with_setting(top: MappingNode, setting: AttributeSetting) -> MappingNode:
    names: list[str] = []

    def changed(leaf: MappingNode) -> MappingNode:
        name = leaf.get("name")
        if not isinstance(name, ScalarNode):
            return leaf
        names.append(name.text)
        return _with_attribute(leaf, setting) if name.text == setting.node else leaf

    architecture = top.get("architecture")
    edited = None if architecture is None else with_leaves(architecture, changed)
    if edited is None or setting.node not in names:
        hint = suggestion(setting.node, names, "its nodes are")
        raise SpecError(f"the architecture has no node `{setting.node}`", setting.span, hint=hint)
    return with_entry(top, "architecture", edited)


def _with_attribute(node: MappingNode, setting: AttributeSetting) -> MappingNode:
    section = "spatial" if setting.attribute in MESHES else "attributes"
    attributes = node.get(section)
    attributes = attributes if isinstance(attributes, MappingNode) else MappingNode((), setting.span)
    is_modelled = node.tag in COMPONENT_TAGS and setting.attribute in MODELLED_ATTRIBUTES
    is_free = section == "spatial" or is_modelled
    if setting.attribute not in attributes and not is_free:
        hint = suggestion(setting.attribute, attributes.keys(), "it sets")
        message = f"`{setting.node}` does not set the attribute `{setting.attribute}`"
        raise SpecError(message, setting.span, ((node.span, "the node"),), hint)
    return with_entry(node, section, with_entry(attributes, setting.attribute, setting.value))
