"""Attributes that an architecture writes and that nobody reads."""

from __future__ import annotations

import re

from model.energy import AREA_SCALES, ESTIMATED_ATTRIBUTES, GIVEN_KEYS, CompoundClasses
from model.spec.source import Node, ScalarNode, Span, values_in
from model.spec.timeloop.context import Context
from model.spec.timeloop.storage import STORAGE_ATTRIBUTES
from model.spec.timeloop.tree import Leaf
from model.wording import listing

_KNOWN = frozenset((*STORAGE_ATTRIBUTES, *ESTIMATED_ATTRIBUTES, *GIVEN_KEYS, "energy_scale", *AREA_SCALES))
_WORD = re.compile(r"[A-Za-z_]\w*")
_GIVEN_FORMS = "; energies are given as `energy: {read: 2.5, write: 3}` on the component"


def note_unread(top: Node, classes: CompoundClasses, context: Context) -> None:
    """Note attributes that the model does not know, no compound class declares, and no expression names."""
    owners: dict[Span, list[str]] = {}
    names: dict[Span, str] = {}
    for leaf in context.tree.leaves:
        for name, attribute in leaf.attributes.items():
            if name not in leaf.own or attribute.value is None or _is_known(name, leaf, classes):
                continue
            names[attribute.key] = name
            owners.setdefault(attribute.key, []).append(leaf.name)
    words = _words(top) if names else frozenset[str]()
    for span, name in names.items():
        if name not in words:
            forms = _GIVEN_FORMS if "energy" in name else ""
            context.note(f"{span}: nothing reads `{name}` of {listing(owners[span])}{forms}")


def _is_known(name: str, leaf: Leaf, classes: CompoundClasses) -> bool:
    compound = classes.by_name.get(leaf.subclass or leaf.component_class)
    declared = compound is not None and compound.declares(name)
    return declared or name in _KNOWN or name.replace("-", "_") in _KNOWN


def _words(top: Node) -> frozenset[str]:
    """Return the words of all values that may be expressions."""
    plain = (node.text for node in values_in(top) if isinstance(node, ScalarNode) and not node.quoted)
    return frozenset(word for text in plain for word in _WORD.findall(text))
