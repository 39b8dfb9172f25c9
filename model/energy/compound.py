"""Accelergy's compound component classes: what a spec says a component is made of."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from model.energy.figures import items_of, keyed_mapping
from model.text.composer import plain_value
from model.text.fields import as_name, flat_items, one_of
from model.text.source import MappingNode, Node, ScalarNode, Span, SpecError

_LIBRARY_KEYS = frozenset({"version", "classes"})
_CLASS_KEYS = frozenset({"name", "attributes", "subcomponents", "actions"})
# The first of each is the name of today's format, the others are those of older files of it.
AREA_SCALES = ("area_scale", "area_share")
_ENERGY_SCALES = ("energy_scale", "action_share", "repeat")
_SUBCOMPONENT_KEYS = frozenset({"name", "class", "attributes", "energy_scale", *AREA_SCALES})
_ACTION_KEYS = frozenset({"name", "arguments", "subcomponents"})
_PART_KEYS = frozenset({"name", "actions"})
_STEP_KEYS = frozenset({"name", "arguments", *_ENERGY_SCALES})
_INDEXED_NAME = re.compile(r"([A-Za-z_]\w*)\s*(?:\[(.*)\])?", re.DOTALL)

T = TypeVar("T")
Arguments = tuple[tuple[str, ScalarNode], ...]
Defaults = tuple[tuple[str, Node], ...]
"""Attributes by name: scalars, or lists and mappings out of which expressions take values."""


@dataclass(frozen=True)
class IndexRange:
    """``first..last`` of ``storage[first..last]``, as expressions; both are included."""

    first: ScalarNode
    last: ScalarNode


@dataclass(frozen=True)
class Subcomponent:
    """A part of a compound class.

    Parameters
    ----------
    name
        Unique in the class.
    indices
        How many there are; one without.
    component_class
        Name of its class, compound or primitive.
    attributes
        Expressions over the attributes of the whole.
    area_scale
        What its area is multiplied by, None for 1.
    energy_scale
        What the energy of all its actions but leakage is multiplied by, None for 1.
    span
        Where it stands.
    """

    name: str
    indices: IndexRange | None
    component_class: str
    attributes: Defaults
    area_scale: ScalarNode | None
    energy_scale: ScalarNode | None
    span: Span


@dataclass(frozen=True)
class Step:
    """An action of a subcomponent that an action of the compound class causes.

    Parameters
    ----------
    action
        Its name in the class of the subcomponent.
    arguments
        Attributes that it sets in the subcomponent, as expressions.
    energy_scale
        What its energy is multiplied by, leakage included; None for 1.
    span
        Where it stands.
    """

    action: str
    arguments: Arguments
    energy_scale: ScalarNode | None
    span: Span


@dataclass(frozen=True)
class ActionPart:
    """Steps that each of some subcomponents takes.

    Parameters
    ----------
    name
        Of the subcomponents.
    indices
        Which of them: only their number counts. One without.
    steps
        All of which each takes.
    span
        Where the part stands.
    """

    name: str
    indices: IndexRange | None
    steps: tuple[Step, ...]
    span: Span


@dataclass(frozen=True)
class CompoundAction:
    """An action of a compound class.

    Parameters
    ----------
    name
        Unique in the class.
    arguments
        Those that its caller may give: values, or ranges ``first..last``.
    parts
        What the subcomponents do.
    span
        Where it stands.
    """

    name: str
    arguments: Arguments
    parts: tuple[ActionPart, ...]
    span: Span


@dataclass(frozen=True)
class CompoundClass:
    """A class of components that are made of others.

    Parameters
    ----------
    name
        Unique in the spec.
    attributes
        With their defaults, which may use those before; ``SET ME`` asks for a value.
    subcomponents, actions
        By name, in the order of the spec.
    span
        Of the name.
    """

    name: str
    attributes: Defaults
    subcomponents: Mapping[str, Subcomponent]
    actions: Mapping[str, CompoundAction]
    span: Span

    def declares(self, attribute: str) -> bool:
        """Whether the class has an attribute of that name."""
        return any(name == attribute for name, _ in self.attributes)


@dataclass(frozen=True)
class CompoundClasses:
    """The compound classes of a spec by name.

    ``built`` counts the components that pricing expands them to, over all components of the spec.
    """

    by_name: Mapping[str, CompoundClass] = field(default_factory=dict)
    built: Iterator[int] = field(default_factory=itertools.count, repr=False, compare=False)


def load_compound_classes(nodes: Iterable[Node]) -> CompoundClasses:
    """Read compound classes.

    Parameters
    ----------
    nodes
        The values of the top-level keys ``components`` and ``compound_components``.

    Raises
    ------
    SpecError
        A malformed class, or two classes, subcomponents or actions of one name.
    """
    classes: dict[str, CompoundClass] = {}
    for compound in map(_load_class, _class_nodes(nodes)):
        first = classes.setdefault(compound.name, compound)
        if first is not compound:
            related = ((first.span, "the first one is here"),)
            raise SpecError(f"two component classes are named `{compound.name}`", compound.span, related)
    return CompoundClasses(classes)


def _class_nodes(nodes: Iterable[Node]) -> Iterator[Node]:
    for node in nodes:
        library = keyed_mapping(node, "the components", _LIBRARY_KEYS)
        yield from flat_items(items_of(library.get("classes"), "`classes`"))


def _load_class(node: Node) -> CompoundClass:
    entry = keyed_mapping(node, "a component class", _CLASS_KEYS)
    name_node = entry.require("name", "a component class")
    name = as_name(name_node, "the class's `name`")
    parts = items_of(entry.get("subcomponents"), "`subcomponents`")
    subcomponents = [_load_subcomponent(item) for item in parts]
    actions = [_load_action(item) for item in items_of(entry.get("actions"), "`actions`")]
    return CompoundClass(
        name,
        _load_attributes(entry.get("attributes")),
        _by_name(((part.name, part.span, part) for part in subcomponents), "subcomponents"),
        _by_name(((action.name, action.span, action) for action in actions), "actions"),
        name_node.span,
    )


def _load_subcomponent(node: Node) -> Subcomponent:
    entry = keyed_mapping(node, "a subcomponent", _SUBCOMPONENT_KEYS)
    name, indices = _load_indexed_name(entry.require("name", "a subcomponent"))
    return Subcomponent(
        name,
        indices,
        as_name(entry.require("class", f"the subcomponent `{name}`"), "the subcomponent's `class`"),
        _load_attributes(entry.get("attributes")),
        _scale(entry, AREA_SCALES, "a subcomponent"),
        _scale(entry, ("energy_scale",), "a subcomponent"),
        entry.span,
    )


def _load_action(node: Node) -> CompoundAction:
    entry = keyed_mapping(node, "an action", _ACTION_KEYS)
    name = as_name(entry.require("name", "an action"), "the action's `name`")
    parts = tuple(_load_part(item) for item in items_of(entry.get("subcomponents"), "`subcomponents`"))
    return CompoundAction(name, _load_arguments(entry.get("arguments")), parts, entry.span)


def _load_part(node: Node) -> ActionPart:
    entry = keyed_mapping(node, "a subcomponent of an action", _PART_KEYS)
    name, indices = _load_indexed_name(entry.require("name", "a subcomponent of an action"))
    steps = tuple(_load_step(item) for item in items_of(entry.get("actions"), "`actions`"))
    return ActionPart(name, indices, steps, entry.span)


def _load_step(node: Node) -> Step:
    entry = keyed_mapping(node, "an action of a subcomponent", _STEP_KEYS)
    return Step(
        as_name(entry.require("name", "an action of a subcomponent"), "the action's `name`"),
        _load_arguments(entry.get("arguments")),
        _scale(entry, _ENERGY_SCALES, "an action of a subcomponent"),
        entry.span,
    )


def _load_attributes(node: Node | None) -> Defaults:
    if node is None or (isinstance(node, ScalarNode) and node.value is None):
        return ()
    if not isinstance(node, MappingNode):
        raise SpecError("`attributes` must be a mapping", node.span)
    return tuple((key.text, value) for key, value in node.entries)


def _load_arguments(node: Node | None) -> Arguments:
    if node is None or (isinstance(node, ScalarNode) and node.value is None):
        return ()
    if not isinstance(node, MappingNode):
        raise SpecError("`arguments` must be a mapping", node.span)
    return tuple((key.text, _scalar(value, f"`{key.text}`")) for key, value in node.entries)


def _load_indexed_name(node: Node) -> tuple[str, IndexRange | None]:
    text = as_name(node, "a subcomponent's `name`")
    match = _INDEXED_NAME.fullmatch(text)
    if match is None:
        raise SpecError(
            f"`{text}` is no name of a subcomponent", node.span, hint="write name, name[0] or name[1..count]"
        )
    if match[2] is None:
        return match[1], None
    first, dots, last = match[2].partition("..")
    lower = as_expression(first, node.span)
    return match[1], IndexRange(lower, as_expression(last, node.span) if dots else lower)


def as_expression(text: str, span: Span) -> ScalarNode:
    """Return a part of a scalar's text, to be evaluated on its own.

    Raises
    ------
    SpecError
        If `text` is no value of YAML.
    """
    stripped = text.strip()
    return ScalarNode(plain_value(stripped, span), stripped, False, span)


def _scale(entry: MappingNode, names: Sequence[str], what: str) -> ScalarNode | None:
    written = one_of(entry, names, what)
    return None if written is None else _scalar(written[1], f"`{written[0].text}`")


def _scalar(node: Node, what: str) -> ScalarNode:
    if not isinstance(node, ScalarNode):
        raise SpecError(f"{what} must be a number, a text or an expression", node.span)
    return node


def _by_name(items: Iterable[tuple[str, Span, T]], what: str) -> dict[str, T]:
    by_name: dict[str, T] = {}
    spans: dict[str, Span] = {}
    for name, span, item in items:
        if name in by_name:
            raise SpecError(
                f"two {what} are named `{name}`", span, related=((spans[name], "the first one is here"),)
            )
        by_name[name], spans[name] = item, span
    return by_name
