"""Notes on attributes that an architecture gives and nothing reads."""

from __future__ import annotations

import re
from collections.abc import Iterator

from model.energy import AREA_SCALES, ESTIMATED_ATTRIBUTES, GIVEN_KEYS, CompoundClasses
from model.formats.timeloop.context import Context
from model.formats.timeloop.storage_attributes import NETWORK_ENERGIES, SHAPE_ATTRIBUTES, STORAGE_ATTRIBUTES
from model.formats.timeloop.tree import POWER_GATING, Leaf
from model.text.notes import note_at
from model.text.source import Node, ScalarNode, Span, values_in
from model.wording import listing

_ANYWHERE = frozenset((*SHAPE_ATTRIBUTES, *ESTIMATED_ATTRIBUTES, *GIVEN_KEYS, "energy_scale", *AREA_SCALES))
_OF_STORAGES = _ANYWHERE | frozenset(STORAGE_ATTRIBUTES)
_WORD = re.compile(r"[A-Za-z_]\w*")
_GIVEN_FORMS = "; energies are given as `energy: {read: 2.5, write: 3}` on the component"


def note_unread(top: Node, classes: CompoundClasses, context: Context) -> None:
    """Note attributes that nothing asks of a node, no compound class declares, and no expression names."""
    owners: dict[Span, list[str]] = {}
    names: dict[Span, str] = {}
    for leaf in context.tree.leaves:
        for name, span in _unread_attributes(leaf, classes, context):
            names[span] = name
            owners.setdefault(span, []).append(leaf.name)
        if POWER_GATING in leaf.node and not _reaches_storage(POWER_GATING, leaf, context):
            span = leaf.node.key(POWER_GATING).span
            names[span], owners[span] = POWER_GATING, [leaf.name]
    words = _words(top) if names else frozenset[str]()
    for span, name in names.items():
        if name not in words:
            forms = _GIVEN_FORMS if "energy" in name and name not in _OF_STORAGES else ""
            context.note(note_at(span, "nothing reads `{}` of {}{}", name, listing(owners[span]), forms))


def _unread_attributes(leaf: Leaf, classes: CompoundClasses, context: Context) -> Iterator[tuple[str, Span]]:
    for name, attribute in leaf.attributes.items():
        if (
            name in leaf.own_attributes
            and attribute.value is not None
            and not _is_known(name, leaf, classes, context)
        ):
            yield name, attribute.key


def _is_known(name: str, leaf: Leaf, classes: CompoundClasses, context: Context) -> bool:
    if leaf.role == "nothing":
        return False
    compound = classes.by_name.get(leaf.subclass or leaf.component_class)
    declared = compound is not None and compound.declares(name)
    of_fanout = name in NETWORK_ENERGIES and leaf.role == "container"
    known = _OF_STORAGES if of_fanout or _reaches_storage(name, leaf, context) else _ANYWHERE
    return declared or name in known or name.replace("-", "_") in known


def _reaches_storage(name: str, leaf: Leaf, context: Context) -> bool:
    """Whether a storage has this attribute: its own, or one that it has from the container `leaf`."""
    if leaf.role != "container":
        return leaf.role == "storage"
    leaves = context.tree.leaves
    behind = leaves[leaves.index(leaf) + 1 :]
    storages = (other for other in behind if other.role == "storage")
    # A gate of the power is none of the attributes that its container hands on.
    return any(name == POWER_GATING or name in other.attributes for other in storages)


def _words(top: Node) -> frozenset[str]:
    """Return the words of all values that may be expressions."""
    plain = (node.text for node in values_in(top) if isinstance(node, ScalarNode) and not node.quoted)
    return frozenset(word for text in plain for word in _WORD.findall(text))
