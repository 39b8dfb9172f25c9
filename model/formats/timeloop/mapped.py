"""A spec that takes a mapping: with its prices, and without the constraints that the mapping meets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from itertools import chain

from model.architecture import Architecture
from model.formats.timeloop.assembly import KEPT, PLACES_KEY
from model.formats.timeloop.constraints import ADDRESS_KEYS, KINDS, RULES, SHORT_PARALLELISM
from model.formats.timeloop.document import (
    ANCHOR_MARK,
    LEFT_OUT,
    section_name,
    with_entry,
    with_leaves,
    without,
)
from model.formats.timeloop.loader import LoadedSpec
from model.formats.timeloop.loops import CHOICES
from model.formats.timeloop.places import place_names
from model.formats.timeloop.pricing import UNKNOWN
from model.numbers import EXACT
from model.text.composer import plain_value
from model.text.fields import as_name
from model.text.source import MappingNode, Node, ScalarNode, SequenceNode, Span

_COUNTED = ("temporal", "spatial", "dataspace")
"""Constraints that hold flags, or say which data is kept; Timeloop's mappings know no others."""
_TABLES = ("ERT", "ART")
NETWORK_LATENCIES = ("network_fill_latency", "network_drain_latency")

_Plain = str | Sequence["_Plain"] | Mapping[str, "_Plain"]


def mapped_spec(loaded: LoadedSpec) -> MappingNode:
    """Return a spec that takes a mapping of a loaded one, which prices as it does there.

    It lacks the constraints on what a mapping says in full (factors, orders, splits, the least
    parallelism), any mapping of its own, and sections that only hold anchors; a list of the constraints
    is under `LEFT_OUT`. Flags and the dataspaces to keep and to bypass stay. The problem's shape is written
    out, as its file may be elsewhere, and so are the prices: Timeloop's front end keeps an ERT only beside
    an ART, so there are both. Each place of a memory is a component of its own, which keeps what the
    mapping says: nothing in the spec tells that they share room and ports.
    """
    top = loaded.document
    reader = _Remover(place_names(loaded.mapspace))
    entries = [
        (key, reader.section(key.text, value, loaded))
        for key, value in top.entries
        if section_name(key.text) not in ("mapping", ANCHOR_MARK) and key.text not in _TABLES
    ]
    earlier = top.get(LEFT_OUT)
    items = earlier.items if isinstance(earlier, SequenceNode) else ()
    gone = [*(item.text for item in items if isinstance(item, ScalarNode)), *reader.left_out]
    sections: dict[str, _Plain] = dict(zip(_TABLES, _price_tables(loaded.mapspace.architecture), strict=True))
    if gone:
        sections[LEFT_OUT] = tuple(dict.fromkeys(gone))
    entries += [(_text_node(name, top.span), _as_node(value, top.span)) for name, value in sections.items()]
    return MappingNode(tuple(entries), top.span, top.tag)


def _price_tables(architecture: Architecture) -> tuple[_Plain, _Plain]:
    """Return an ERT and an ART with the prices of an architecture, in pJ and square micrometres.

    All figures have a point, as Timeloop's front end takes no integers there. Components without a price
    or an area have no table; an ART has at least one, as the front end drops the ERT otherwise.
    """
    units, compute = architecture.units_per_pj, architecture.compute
    energies: dict[str, dict[str, int]] = {}
    for level in architecture.levels:
        energy = level.energy
        if UNKNOWN not in dict(energy.sources).values():
            energies[level.name] = {
                "read": energy.read,
                "write": energy.fill,
                "update": energy.update,
                "leak": energy.leak_per_cycle,
            }
    if compute.energy_source != UNKNOWN:
        energies[compute.name] = {"compute": compute.energy}
    ert: list[_Plain] = []
    for name, figures in energies.items():
        actions: list[_Plain] = [
            {"name": action, "arguments": {}, "energy": _decimal_text(Fraction(energy, units))}
            for action, energy in figures.items()
        ]
        ert.append({"name": name, "actions": actions})
    areas = {compute.name: compute.area_um2, **{level.name: level.area_um2 for level in architecture.levels}}
    known = {name: area for name, area in areas.items() if area is not None} or {"unknown_areas": 0.0}
    art: list[_Plain] = [
        {"name": name, "area": _decimal_text(Fraction(Decimal(repr(area))))} for name, area in known.items()
    ]
    return {"version": "0.4", "tables": ert}, {"version": "0.4", "tables": art}


def _decimal_text(value: Fraction) -> str:
    """Return a number in decimals, with a point and without an exponent."""
    text = format(EXACT.divide(Decimal(value.numerator), Decimal(value.denominator)), "f")
    return text if "." in text else f"{text}.0"


def _as_node(value: _Plain, span: Span) -> Node:
    """Return plain text, lists and mappings as nodes."""
    if isinstance(value, str):
        return _text_node(value, span)
    if isinstance(value, Mapping):
        entries = ((_text_node(key, span), _as_node(item, span)) for key, item in value.items())
        return MappingNode(tuple(entries), span)
    return SequenceNode(tuple(_as_node(item, span) for item in value), span)


def _text_node(text: str, span: Span) -> ScalarNode:
    return ScalarNode(plain_value(text), text, False, span)


class _Remover:
    """Removes the constraints that a mapping meets, and lists them."""

    def __init__(self, places: Mapping[str, Sequence[str]]) -> None:
        self.left_out: list[str] = []
        self._places = places

    def section(self, name: str, value: Node, loaded: LoadedSpec) -> Node:
        """Return a section with what stays of it."""
        if name == "problem":
            return loaded.problem or value
        if name == "architecture":
            return self._placed(with_leaves(value, self._leaf))
        if name == "mapspace" and isinstance(value, MappingNode) and RULES in value:
            self.left_out.append(f"{RULES} of {name}")
            return without(value, (RULES,))
        return self._targets(value) if section_name(name) == "constraints" else value

    def _placed(self, node: Node) -> Node:
        """Return a part of the architecture with a component for each place of a memory."""
        if isinstance(node, SequenceNode):
            items = tuple(place for item in node.items for place in self._components(item))
            return SequenceNode(items, node.span, node.tag)
        inner = node.get("nodes") if isinstance(node, MappingNode) else None
        if not isinstance(node, MappingNode) or inner is None:
            return node
        return with_entry(node, "nodes", self._placed(inner))

    def _components(self, node: Node) -> Iterator[Node]:
        """Yield a node, or the components that stand for it: fanout and networks are those of the first."""
        name = node.get("name") if isinstance(node, MappingNode) else None
        places = self._places.get(name.text, ()) if isinstance(name, ScalarNode) else ()
        if not isinstance(node, MappingNode) or not places:
            yield self._placed(node)
            return
        first, *others = places
        yield with_entry(node, "name", _text_node(first, node.span))
        node = without(node, ("spatial",))
        attributes = node.get("attributes")
        if isinstance(attributes, MappingNode):
            node = with_entry(node, "attributes", without(attributes, NETWORK_LATENCIES))
        yield from (with_entry(node, "name", _text_node(other, node.span)) for other in others)

    def _leaf(self, node: MappingNode) -> MappingNode:
        """Return a component or container with the constraints that stay, without the key where none does."""
        constraints = node.get("constraints")
        if not isinstance(constraints, MappingNode):
            return node
        name = as_name(node.require("name"), "`name`")
        kept = ((key, self._staying(name, key.text, value)) for key, value in constraints.entries)
        entries = tuple((key, value) for key, value in kept if value is not None)
        if not entries:
            return without(node, ("constraints",))
        return with_entry(node, "constraints", MappingNode(entries, constraints.span, constraints.tag))

    def _targets(self, section: Node) -> Node:
        """Return a section of constraints, or a list of them, with those that stay."""
        if isinstance(section, SequenceNode):
            kept = chain.from_iterable(map(self._target, section.items))
            return SequenceNode(tuple(kept), section.span, section.tag)
        if not isinstance(section, MappingNode):
            return section
        if SHORT_PARALLELISM in section:
            self.left_out.append(SHORT_PARALLELISM)
        section = without(section, (SHORT_PARALLELISM,))
        targets = section.get("targets")
        return section if targets is None else with_entry(section, "targets", self._targets(targets))

    def _target(self, item: Node) -> Iterator[MappingNode]:
        assert isinstance(item, MappingNode)  # the loader has read it
        key = "target" if "target" in item else "name"
        name, kind = as_name(item.require(key), "`target`"), as_name(item.require("type"), "`type`")
        staying = self._staying(name, kind, item)
        if staying is not None and name in self._places and KINDS.get(kind) != "spatial":
            yield from (with_entry(staying, key, _text_node(own, item.span)) for own in self._places[name])
        elif staying is not None:
            yield staying

    def _staying(self, target: str, kind: str, constraint: Node) -> MappingNode | None:
        """Return what stays of a constraint, None where that is nothing."""
        if KINDS.get(kind) not in _COUNTED or not isinstance(constraint, MappingNode):
            self.left_out.append(f"{kind} of {target}")
            return None
        said = (*CHOICES, RULES, *(KEPT if target in self._places else ()), PLACES_KEY)
        gone = [key for key in constraint.keys() if key in said]  # noqa: SIM118 (no dict)
        self.left_out += [f"{key} of {target} ({kind})" for key in gone]
        kept = without(constraint, said)
        return None if all(key in ADDRESS_KEYS for key in kept.keys()) else kept  # noqa: SIM118
