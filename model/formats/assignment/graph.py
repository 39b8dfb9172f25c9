"""The graph of a network: layers with unique names, edges between them, no circle."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from model.assignment.costed import find_cycle
from model.text.fields import as_mapping, as_name, as_sequence, check_keys, known_name
from model.text.source import MappingNode, Node, ScalarNode, Span, SpecError

CHAIN = "chain"


@dataclass(frozen=True)
class NamedLayer:
    """A layer's name and its mapping."""

    name: str
    node: MappingNode


@dataclass(frozen=True)
class NamedEdge:
    """An edge between layers.

    Parameters
    ----------
    source, target
        Positions of the layers.
    node
        Its mapping; None where ``edges: chain`` implies it.
    span
        Its place.
    """

    source: int
    target: int
    node: MappingNode | None
    span: Span


def read_layers(section: MappingNode, keys: Sequence[str]) -> tuple[NamedLayer, ...]:
    """Read the list under ``layers``.

    Raises
    ------
    SpecError
        There is no layer, a key is unknown, or a name is missing or given twice.
    """
    layers = as_sequence(section.require("layers", "`network`"), "`layers`")
    if not layers.items:
        raise SpecError("`layers` must not be empty", layers.span)
    named: dict[str, NamedLayer] = {}
    places: dict[str, Span] = {}
    for item in layers.items:
        node = as_mapping(item, "a layer")
        if "name" not in node:
            check_keys(node, keys, "a layer", ("name",))
        name_node = node.require("name", "a layer")
        name = as_name(name_node, "the layer's name")
        if name in named:
            raise SpecError(f"two layers are named `{name}`", name_node.span, ((places[name], "the first"),))
        check_keys(node, keys, f"layer `{name}`")
        named[name], places[name] = NamedLayer(name, node), name_node.span
    return tuple(named.values())


def read_edges(
    section: MappingNode, layers: Sequence[NamedLayer], keys: Sequence[str]
) -> tuple[NamedEdge, ...]:
    """Read ``edges``: a list of mappings, or ``chain``.

    Raises
    ------
    SpecError
        An unknown layer or key, an edge of a layer to itself, two edges between the same layers, or a circle.
    """
    node = section.get("edges")
    if node is None:
        return ()
    if isinstance(node, ScalarNode):
        if node.text != CHAIN:
            hint = f"`edges: {CHAIN}` joins each layer to the next one"
            raise SpecError("`edges` must be a list", node.span, hint=hint)
        return tuple(NamedEdge(number, number + 1, None, node.span) for number in range(len(layers) - 1))
    positions = {layer.name: position for position, layer in enumerate(layers)}
    edges: dict[tuple[int, int], NamedEdge] = {}
    for item in as_sequence(node, "`edges`").items:
        edge = _read_edge(item, positions, keys)
        ends = (edge.source, edge.target)
        if ends in edges:
            raise SpecError("these layers are joined twice", edge.span, ((edges[ends].span, "first here"),))
        edges[ends] = edge
    _check_acyclic(layers, edges)
    return tuple(edges.values())


def _read_edge(item: Node, positions: Mapping[str, int], keys: Sequence[str]) -> NamedEdge:
    node = as_mapping(item, "an edge")
    check_keys(node, keys, "an edge", ("from", "to"))
    source, target = (
        positions[known_name(node.require(end, "an edge"), positions, "layer")] for end in ("from", "to")
    )
    if source == target:
        raise SpecError("an edge joins two different layers", node.span)
    return NamedEdge(source, target, node, node.span)


def _check_acyclic(layers: Sequence[NamedLayer], edges: Mapping[tuple[int, int], NamedEdge]) -> None:
    circle = find_cycle(len(layers), list(edges))
    if not circle:
        return
    names = " -> ".join(f"`{layers[position].name}`" for position in circle)
    places = [edges[ends].span for ends in pairwise(circle)]
    others = tuple((span, "then this one") for span in places[1:])
    raise SpecError(f"the edges run in a circle: {names}", places[0], others)
