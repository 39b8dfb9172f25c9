"""Networks with explicit tables of costs."""

from __future__ import annotations

from collections.abc import Mapping

from model.assignment import Cost, CostedNetwork, EdgeCosts, LayerCosts, build_network
from model.formats.assignment.costs import read_cost, read_transition
from model.formats.assignment.graph import NamedEdge, NamedLayer, read_edges, read_layers
from model.text.fields import as_mapping, as_name, check_keys
from model.text.source import MappingNode, SpecError, source_ref

DEFAULT_UNIT = "units"
NETWORK_KEYS = ("name", "unit", "layers", "edges")
LAYER_KEYS = ("name", "methods")
EDGE_KEYS = ("from", "to", "transition")


def read_tables(section: MappingNode) -> CostedNetwork:
    """Read a network whose costs are all given.

    Raises
    ------
    SpecError
        An unknown or missing key, names that are unknown or given twice, or a cost that is wrong.
    """
    check_keys(section, NETWORK_KEYS, "`network`", ("layers",))
    named = read_layers(section, LAYER_KEYS)
    layers = [_layer(layer) for layer in named]
    edges = [_edge(edge, layers) for edge in read_edges(section, named, EDGE_KEYS)]
    unit = section.get("unit")
    return build_network(
        network_name(section),
        DEFAULT_UNIT if unit is None else as_name(unit, "`unit`"),
        layers,
        edges,
    )


def network_name(section: MappingNode) -> str:
    """Return the network's name, empty if it has none."""
    name = section.get("name")
    return "" if name is None else as_name(name, "`name`")


def _layer(layer: NamedLayer) -> LayerCosts:
    what = f"layer `{layer.name}`"
    methods = as_mapping(layer.node.require("methods", what), f"`methods` of {what}")
    if not methods.entries:
        raise SpecError(f"{what} offers no method", methods.span)
    costs = {key.text: read_cost(cost, f"cost of `{key.text}` in {what}") for key, cost in methods.entries}
    return LayerCosts(layer.name, costs, source_ref(layer.node.span))


def _edge(edge: NamedEdge, layers: list[LayerCosts]) -> EdgeCosts:
    source, target = layers[edge.source], layers[edge.target]
    table = None if edge.node is None else edge.node.get("transition")
    transition: Mapping[tuple[str, str], Cost] = {}
    if table is not None:
        name = f"`{source.name}` -> `{target.name}`"
        transition = read_transition(table, name, source.costs, target.costs)
    return EdgeCosts(source.name, target.name, transition, source_ref(edge.span))
