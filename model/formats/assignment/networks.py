"""Network files: layers and edges, with explicit costs or with shapes and the cost model that prices them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

from model.assignment import Cost, CostedNetwork, EdgeCosts, LayerCosts, build_network
from model.assignment.network import (
    METHODS,
    TENSOR,
    WINOGRAD,
    ConvolutionShape,
    ShapedEdge,
    ShapedLayer,
    ShapedNetwork,
    Tensor,
    find_cycle,
)
from model.assignment.systolic import DATAFLOWS, Hardware, SystolicModel
from model.formats.foreign import refuse_foreign
from model.note import Note
from model.text.fields import (
    add_once,
    as_bool,
    as_fraction,
    as_int,
    as_mapping,
    as_name,
    as_sequence,
    check_keys,
    keyed_mapping,
    kind_of,
    known_name,
    name_list,
)
from model.text.limits import DEFAULT_LIMITS, Limits
from model.text.reader import read_files, unused_notes
from model.text.source import (
    MappingNode,
    Node,
    ScalarNode,
    SequenceNode,
    Span,
    SpecError,
    note_at,
    source_ref,
)
from model.wording import suggestion

SECTION, ARCHITECTURE = "network", "architecture"
MOST_NOTES = 10
"""Of a kind: a few show what is wrong with thousands of edges."""


@dataclass(frozen=True)
class LoadedAssignment:
    """What network files say: either a network with its costs, or shapes and the hardware."""

    network: CostedNetwork | None = None  # with explicit costs; None where a cost model prices it
    # Layers by their shapes, and what prices them; None where costs are explicit.
    shaped: ShapedNetwork | None = None
    hardware: Hardware | None = None


def load_assignment(
    paths: Iterable[str | Path],
    variables: Mapping[str, object] | None = None,
    allow_include: Iterable[str | Path] = (),
    limits: Limits = DEFAULT_LIMITS,
) -> LoadedAssignment:
    """Read network files, YAML and Jinja2 templates, joined by top-level key.

    Raises
    ------
    SpecError
        For every kind of bad input, with its place.
    """
    names: set[str] = set()
    refuse_foreign(map(Path, paths))
    top = read_files(paths, variables, limits, allow_include, names=names)
    unused = tuple(unused_notes(variables or {}, names))
    if ARCHITECTURE in top and SECTION in top:
        raise SpecError(
            "a network with explicit costs needs no architecture",
            top.key(ARCHITECTURE).span,
            hint="`--methods FILE` lets the mapper find what each method of FILE costs on it",
        )
    check_keys(top, (SECTION,), "a network file", (SECTION,))
    section = as_mapping(top.require(SECTION, "the file"), f"`{SECTION}`")
    if "cost_model" not in section:
        network = read_tables(section)
        return LoadedAssignment(network=replace(network, notes=(*network.notes, *unused)))
    shaped, hardware = read_shapes(section)
    return LoadedAssignment(shaped=replace(shaped, notes=(*shaped.notes, *unused)), hardware=hardware)


CHAIN = "chain"


@dataclass(frozen=True)
class NamedLayer:
    """A layer's name and its mapping."""

    name: str
    node: MappingNode


@dataclass(frozen=True)
class NamedEdge:
    """An edge between layers."""

    source: int
    target: int
    node: MappingNode | None  # its mapping; None where ``edges: chain`` implies it
    span: Span


def read_layers(section: MappingNode, keys: Sequence[str]) -> tuple[NamedLayer, ...]:
    """Read the list under ``layers``."""
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
        add_once(places, name, name_node.span, f"two layers are named `{name}`")
        check_keys(node, keys, f"layer `{name}`")
        named[name] = NamedLayer(name, node)
    return tuple(named.values())


def read_edges(
    section: MappingNode, layers: Sequence[NamedLayer], keys: Sequence[str]
) -> tuple[NamedEdge, ...]:
    """Read ``edges``: a list of mappings, or ``chain``."""
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
    places: dict[tuple[int, int], Span] = {}
    for item in as_sequence(node, "`edges`").items:
        edge = _read_edge(item, positions, keys)
        ends = (edge.source, edge.target)
        add_once(places, ends, edge.span, "these layers are joined twice", "first here")
        edges[ends] = edge
    _check_acyclic(layers, edges)
    return tuple(edges.values())


def lone_layer_notes(layers: Sequence[NamedLayer], edges: Sequence[NamedEdge]) -> list[Note]:
    """Return a note for each layer without an edge, where others have some: one may have been forgotten."""
    if not edges:
        return []
    joined = {end for edge in edges for end in (edge.source, edge.target)}
    sentence = "no edge joins layer `{}`, so it has no transition costs"
    lone = [layer for number, layer in enumerate(layers) if number not in joined]
    return _first(
        [note_at(layer.node.span, sentence, layer.name) for layer in lone], "{:,} more layers like these"
    )


def _read_edge(item: Node, positions: Mapping[str, int], keys: Sequence[str]) -> NamedEdge:
    node = keyed_mapping(item, "an edge", keys, ("from", "to"))
    source, target = (
        positions[known_name(node.require(end, "an edge"), positions, "layer")] for end in ("from", "to")
    )
    if source == target:
        raise SpecError("an edge joins two different layers", node.span)
    return NamedEdge(source, target, node, node.span)


def _check_acyclic(layers: Sequence[NamedLayer], edges: Mapping[tuple[int, int], NamedEdge]) -> None:
    cycle = find_cycle(edges)
    if not cycle:
        return
    names = " -> ".join(f"`{layers[position].name}`" for position in cycle)
    places = [edges[ends].span for ends in pairwise(cycle)]
    others = tuple((span, "then this one") for span in places[1:])
    raise SpecError(f"the edges form a cycle: {names}", places[0], others)


DEFAULT_UNIT = "units"
COSTED_NETWORK_KEYS = ("name", "unit", "layers", "edges")
COSTED_LAYER_KEYS = ("name", "methods")
COSTED_EDGE_KEYS = ("from", "to", "transition")


def read_tables(section: MappingNode) -> CostedNetwork:
    """Read a network whose costs are all given."""
    check_keys(section, COSTED_NETWORK_KEYS, "`network`", ("layers",))
    named = read_layers(section, COSTED_LAYER_KEYS)
    layers = [_layer_costs(layer) for layer in named]
    joined = read_edges(section, named, COSTED_EDGE_KEYS)
    edges = [_edge_costs(edge, layers) for edge in joined]
    unit = section.get("unit")
    return build_network(
        network_name(section),
        DEFAULT_UNIT if unit is None else as_name(unit, "`unit`"),
        layers,
        edges,
        tuple(lone_layer_notes(named, joined)),
    )


def network_name(section: MappingNode) -> str:
    """Return the network's name, empty if it has none."""
    name = section.get("name")
    return "" if name is None else as_name(name, "`name`")


def _layer_costs(layer: NamedLayer) -> LayerCosts:
    what = f"layer `{layer.name}`"
    methods = as_mapping(layer.node.require("methods", what), f"`methods` of {what}")
    if not methods.entries:
        raise SpecError(f"{what} offers no method", methods.span)
    costs = {key.text: read_cost(cost, f"cost of `{key.text}` in {what}") for key, cost in methods.entries}
    return LayerCosts(layer.name, costs, source_ref(layer.node.span))


def _edge_costs(edge: NamedEdge, layers: list[LayerCosts]) -> EdgeCosts:
    source, target = layers[edge.source], layers[edge.target]
    table = None if edge.node is None else edge.node.get("transition")
    transition: Mapping[tuple[str, str], Cost] = {}
    if table is not None:
        name = f"`{source.name}` -> `{target.name}`"
        transition = read_transition(table, name, source.costs, target.costs)
    return EdgeCosts(source.name, target.name, transition, source_ref(edge.span))


INFINITE_WORDS = ("inf", "+inf", "infinity")


def read_cost(node: Node, what: str) -> Cost:
    """Return a cost exactly as written."""
    if not isinstance(node, ScalarNode):
        raise SpecError(f"{what} must be a number, but is {kind_of(node)}", node.span)
    if node.value is None:
        raise SpecError(
            f"{what} is missing", node.span, hint="a cost is a number, or `inf` to forbid the choice"
        )
    if node.text.lower() in INFINITE_WORDS and not node.quoted:
        return None
    value = node.value
    if isinstance(value, (bool, str)) or math.isnan(value):
        hint = "text in quotes is not a number" if node.quoted else None
        raise SpecError(f"{what} must be a number or `inf`, but is `{node.text}`", node.span, hint=hint)
    if value < 0:
        raise SpecError(f"{what} must not be negative, but is {node.text}", node.span)
    if math.isinf(value):
        return None
    return as_fraction(node, what)


def read_transition(
    node: Node, edge: str, sources: Iterable[str], targets: Iterable[str]
) -> dict[tuple[str, str], Cost]:
    """Return the costs of pairs of methods: ``{METHOD OF THE SOURCE: {METHOD OF THE TARGET: COST}}``."""
    sources, targets = tuple(sources), tuple(targets)
    matrix = as_mapping(node, f"`transition` of {edge}")
    _check_methods(matrix, sources, f"the source of {edge}")
    costs: dict[tuple[str, str], Cost] = {}
    for source, entry in matrix.entries:
        row = as_mapping(entry, f"transitions from `{source.text}` in {edge}")
        _check_methods(row, targets, f"the target of {edge}")
        for target, cost in row.entries:
            what = f"transition from `{source.text}` to `{target.text}` in {edge}"
            costs[source.text, target.text] = read_cost(cost, what)
    return costs


def _check_methods(node: MappingNode, methods: tuple[str, ...], whose: str) -> None:
    for key, _ in node.entries:
        if key.text not in methods:
            hint = suggestion(key.text, methods, "it offers")
            raise SpecError(f"{whose} does not offer the method `{key.text}`", key.span, hint=hint)


SYSTOLIC_ARRAY = "systolic_array"
UNIT = "ms"
LARGEST_EXTENT = 10**6
LARGEST_BUDGET = 20_000
"""Multipliers up to which all arrays are tried: about 200,000 of them."""

SHAPED_NETWORK_KEYS = ("name", "unit", "cost_model", "layers", "edges")
SHAPED_LAYER_KEYS = ("name", "conv", "tensor", "methods")
SHAPED_EDGE_KEYS = ("from", "to", "channels")
CONV_KEYS = ("in_channels", "out_channels", "height", "width", "kernel", "stride")
TENSOR_KEYS = ("channels", "height", "width")
MODEL_KEYS = (
    "name",
    "rows",
    "columns",
    "dsp_budget",
    "cycles_per_ms",
    "bytes_per_ms",
    "element_bytes",
    "dataflows",
    "double_buffering",
    "winograd",
)
WINOGRAD_KEYS = ("m", "r", "kernel_tiles")
FRACTIONAL, WHOLE = "fractional", "whole"


def read_shapes(section: MappingNode) -> tuple[ShapedNetwork, Hardware]:
    """Read a network with a ``cost_model``."""
    check_keys(section, SHAPED_NETWORK_KEYS, "`network`", ("layers",))
    unit = section.get("unit")
    if unit is not None and as_name(unit, "`unit`") != UNIT:
        raise SpecError(f"the cost model `{SYSTOLIC_ARRAY}` gives costs in `{UNIT}`", unit.span)
    hardware = _read_hardware(section.require("cost_model"))
    named = read_layers(section, SHAPED_LAYER_KEYS)
    layers = tuple(map(_shaped_layer, named))
    return shaped_network(section, named, layers), hardware


def shaped_network(
    section: MappingNode, named: Sequence[NamedLayer], layers: tuple[ShapedLayer, ...]
) -> ShapedNetwork:
    """Read the edges between layers with shapes, and return the network with notes on them."""
    joined = read_edges(section, named, SHAPED_EDGE_KEYS)
    edges = tuple(_shaped_edge(edge, layers) for edge in joined)
    notes = (*channel_notes(joined, edges, layers), *lone_layer_notes(named, joined))
    return ShapedNetwork(network_name(section), layers, edges, notes)


def _shaped_edge(edge: NamedEdge, layers: Sequence[ShapedLayer]) -> ShapedEdge:
    channels_node, target = None if edge.node is None else edge.node.get("channels"), layers[edge.target]
    channels = None if channels_node is None else _extent(channels_node, "`channels` of an edge")
    if channels_node is not None and channels is not None and channels > target.channels:
        taken = f"layer `{target.name}` takes in {target.channels:,}"
        raise SpecError(f"the edge carries {channels:,} channels, but {taken}", channels_node.span)
    return ShapedEdge(edge.source, edge.target, channels, source_ref(edge.span))


def _shaped_layer(layer: NamedLayer) -> ShapedLayer:
    what, methods, place = f"layer `{layer.name}`", layer.node.get("methods"), source_ref(layer.node.span)
    shape = read_shape(layer)
    if isinstance(shape, Tensor):
        if methods is not None:
            key = layer.node.key("methods")
            raise SpecError(f"{what} holds a tensor, so there is no method to choose", key.span)
        return ShapedLayer(layer.name, shape, (TENSOR,), place)
    if methods is None:
        return ShapedLayer(layer.name, shape, shape.usual_methods(), place)
    chosen = name_list(methods, METHODS, "method")
    if not chosen:
        raise SpecError(f"{what} offers no method", methods.span)
    if WINOGRAD in chosen and not shape.allows_winograd:
        message = f"{what}: Winograd's method needs a square filter of two positions or more, and stride 1"
        raise SpecError(message, chosen[WINOGRAD])
    return ShapedLayer(layer.name, shape, tuple(chosen), place)


def read_shape(layer: NamedLayer) -> ConvolutionShape | Tensor:
    """Read a layer's ``conv`` or ``tensor``."""
    what, node = f"layer `{layer.name}`", layer.node
    conv, tensor = (node.get(key) for key in ("conv", "tensor"))
    if (conv is None) == (tensor is None):
        raise SpecError(f"{what} has either `conv` or `tensor`", node.span)
    if conv is not None:
        return _read_convolution(conv, what)
    assert tensor is not None  # one of the two is given
    sizes = keyed_mapping(tensor, f"`tensor` of {what}", TENSOR_KEYS, TENSOR_KEYS)
    extents = {key: _extent(sizes.require(key, what), f"`{key}` of {what}") for key in TENSOR_KEYS}
    return Tensor(**extents)


def _read_convolution(conv: Node, what: str) -> ConvolutionShape:
    node = keyed_mapping(conv, f"`conv` of {what}", CONV_KEYS, CONV_KEYS[:4])
    sizes = {
        key: _extent(node.require(key, f"`conv` of {what}"), f"`{key}` of {what}") for key in CONV_KEYS[:4]
    }
    kernel, stride = node.get("kernel"), node.get("stride")
    return ConvolutionShape(
        **sizes,
        kernel=(1, 1) if kernel is None else _read_kernel(kernel, f"`kernel` of {what}"),
        stride=1 if stride is None else _extent(stride, f"`stride` of {what}"),
    )


def _read_kernel(node: Node, what: str) -> tuple[int, int]:
    """Read a filter's height and width, or one number for both."""
    if not isinstance(node, SequenceNode):
        side = _extent(node, what)
        return side, side
    if len(node.items) != 2:
        raise SpecError(f"{what} is one number, or a list of height and width", node.span)
    height, width = (_extent(item, what) for item in node.items)
    return height, width


def _extent(node: Node, what: str) -> int:
    return as_int(node, what, minimum=1, maximum=LARGEST_EXTENT)


def _read_hardware(section: Node) -> Hardware:
    node = keyed_mapping(section, "`cost_model`", MODEL_KEYS, ("name",))
    known_name(node.require("name", "`cost_model`"), (SYSTOLIC_ARRAY,), "cost model")
    rows, columns, budget = (node.get(key) for key in ("rows", "columns", "dsp_budget"))
    model = _read_model(node)
    sides = [key for key in ("rows", "columns") if key in node]
    if budget is not None and sides:
        message = f"`dsp_budget` chooses the array, so `{sides[0]}` does not belong here"
        raise SpecError(message, node.key(sides[0]).span)
    if budget is not None:
        return Hardware(model, None, as_int(budget, "`dsp_budget`", minimum=1, maximum=LARGEST_BUDGET))
    if rows is None or columns is None:
        raise SpecError(
            "`cost_model` needs `rows` and `columns`, or a `dsp_budget` to choose them", node.span
        )
    return Hardware(model, (_extent(rows, "`rows`"), _extent(columns, "`columns`")), None)


def _read_model(node: MappingNode) -> SystolicModel:
    def figure(key: str, usual: Fraction) -> Fraction:
        value = node.get(key)
        if value is None:
            return usual
        cost = read_cost(value, f"`{key}`")
        if not cost:
            raise SpecError(f"`{key}` must be positive and finite", value.span)
        return Fraction(cost)

    model = SystolicModel()
    model = replace(
        model,
        cycles_per_ms=figure("cycles_per_ms", model.cycles_per_ms),
        bytes_per_ms=figure("bytes_per_ms", model.bytes_per_ms),
        element_bytes=figure("element_bytes", model.element_bytes),
    )
    dataflows, double, winograd = (node.get(key) for key in ("dataflows", "double_buffering", "winograd"))
    if dataflows is not None:
        names = tuple(name_list(dataflows, DATAFLOWS, "dataflow"))
        if not names:
            raise SpecError("`dataflows` must not be empty", dataflows.span)
        model = replace(model, dataflows=names)
    if double is not None:
        model = replace(model, double_buffering=as_bool(double, "`double_buffering`"))
    return model if winograd is None else _with_winograd(model, winograd)


def _with_winograd(model: SystolicModel, winograd: Node) -> SystolicModel:
    node = keyed_mapping(winograd, "`winograd`", WINOGRAD_KEYS)
    outputs, kernel = (_extent(node.require(key, "`winograd`"), f"`{key}`") for key in ("m", "r"))
    tiles = node.get("kernel_tiles")
    whole = tiles is not None and known_name(tiles, (FRACTIONAL, WHOLE), "kind of kernel tiles") == WHOLE
    return replace(model, winograd_outputs=outputs, winograd_kernel=kernel, whole_kernel_tiles=whole)


def channel_notes(
    named: Sequence[NamedEdge], edges: Sequence[ShapedEdge], layers: Sequence[ShapedLayer]
) -> list[Note]:
    """Note each edge without ``channels`` whose next layer takes in more than the one before puts out."""
    notes = (
        _channel_note(own.span, layers[edge.source], layers[edge.target])
        for own, edge in zip(named, edges, strict=True)
        if edge.channels is None and not _channels_agree(layers[edge.source], layers[edge.target])
    )
    return _first(list(notes), "{:,} more edges like these")


def _first(notes: list[Note], rest: str) -> list[Note]:
    if len(notes) <= MOST_NOTES:
        return notes
    return [*notes[:MOST_NOTES], note_at(None, rest, len(notes) - MOST_NOTES)]


def _channels_agree(source: ShapedLayer, target: ShapedLayer) -> bool:
    """Whether one takes in what the other puts out, or all positions of it as channels, perhaps pooled."""
    if target.channels == source.out_channels:
        return True
    shape = target.shape
    is_dense = isinstance(shape, ConvolutionShape) and shape.positions == shape.window == 1
    positions, rest = divmod(target.channels, source.out_channels)
    return is_dense and not rest and 1 <= positions <= source.shape.height * source.shape.width


def _channel_note(span: Span, source: ShapedLayer, target: ShapedLayer) -> Note:
    sentence = (
        "without `channels` the edge carries all {:,} channels that layer `{}` takes in, "
        "but layer `{}` has {:,} output channels"
    )
    return note_at(span, sentence, target.channels, target.name, source.name, source.out_channels)
