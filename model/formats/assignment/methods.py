"""The section ``methods``: layouts, dataflows as mapping constraints, and the methods made of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from model.assignment.lowering import LOWERINGS
from model.assignment.methods import Method
from model.text.fields import as_mapping, as_name, as_sequence, check_keys, kind_of, known_name
from model.text.source import MappingNode, Node, ScalarNode, SequenceNode, Span, SpecError

SECTION = "methods"
SECTION_KEYS = ("layouts", "dataflows", "offers")
OFFER_KEYS = ("name", "lowering", "dataflow", "input_layout", "output_layout")


@dataclass(frozen=True)
class MethodFile:
    """What a file of methods says.

    Parameters
    ----------
    layouts
        Names of layouts, one at least.
    dataflows
        Per name the list of constraints; empty for those of the architecture alone.
    methods, places
        By name, one at least, and where each is written.
    """

    layouts: tuple[str, ...]
    dataflows: Mapping[str, SequenceNode]
    methods: Mapping[str, Method]
    places: Mapping[str, Span]


def read_methods(top: MappingNode) -> MethodFile:
    """Read a file of methods; the constraints in it are read where they meet an architecture.

    Raises
    ------
    SpecError
        A name is unknown or given twice, or a key is missing or unknown.
    """
    check_keys(top, (SECTION,), "a file of methods", (SECTION,))
    section = as_mapping(top.require(SECTION, "the file"), f"`{SECTION}`")
    check_keys(section, SECTION_KEYS, f"`{SECTION}`", SECTION_KEYS)
    layouts = _layouts(section.require("layouts", f"`{SECTION}`"))
    constraints = as_mapping(section.require("dataflows", f"`{SECTION}`"), "`dataflows`")
    dataflows = {key.text: _constraints(key, value) for key, value in constraints.entries}
    methods: dict[str, Method] = {}
    places: dict[str, Span] = {}
    offers = as_sequence(section.require("offers", f"`{SECTION}`"), "`offers`")
    for item in offers.items:
        method = _method(item, layouts, tuple(dataflows))
        if method.name in methods:
            related = ((places[method.name], "the first"),)
            raise SpecError(f"two methods are named `{method.name}`", item.span, related)
        methods[method.name], places[method.name] = method, item.span
    if not methods:
        raise SpecError("`offers` must not be empty", offers.span)
    return MethodFile(layouts, dataflows, methods, places)


def _layouts(node: Node) -> tuple[str, ...]:
    layouts: dict[str, Node] = {}
    for item in as_sequence(node, "`layouts`").items:
        name = as_name(item, "a layout")
        if name in layouts:
            raise SpecError(
                f"layout `{name}` is listed twice", item.span, ((layouts[name].span, "first here"),)
            )
        layouts[name] = item
    if not layouts:
        raise SpecError("`layouts` must not be empty", node.span)
    return tuple(layouts)


def _constraints(key: ScalarNode, node: Node) -> SequenceNode:
    if isinstance(node, SequenceNode):
        return node
    what = f"dataflow `{key.text}`"
    hint = "`[]` adds nothing to the constraints of the architecture"
    raise SpecError(f"{what} must be a list of constraints, but is {kind_of(node)}", node.span, hint=hint)


def _method(item: Node, layouts: tuple[str, ...], dataflows: tuple[str, ...]) -> Method:
    node = as_mapping(item, "a method")
    check_keys(node, OFFER_KEYS, "a method", OFFER_KEYS)
    name = as_name(node.require("name", "a method"), "the method's name")
    what = f"method `{name}`"
    return Method(
        name=name,
        lowering=known_name(node.require("lowering", what), LOWERINGS, "lowering"),
        dataflow=known_name(node.require("dataflow", what), dataflows, "dataflow"),
        input_layout=known_name(node.require("input_layout", what), layouts, "layout"),
        output_layout=known_name(node.require("output_layout", what), layouts, "layout"),
    )
