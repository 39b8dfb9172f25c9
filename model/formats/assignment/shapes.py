"""Networks of shapes, and the cost model that prices them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

from model.assignment.shapes import (
    METHODS,
    TENSOR,
    WINOGRAD,
    Convolution,
    ShapedEdge,
    ShapedLayer,
    ShapedNetwork,
    Tensor,
)
from model.assignment.systolic import DATAFLOWS, Hardware, SystolicModel
from model.formats.assignment.channels import channel_notes
from model.formats.assignment.costs import read_figure
from model.formats.assignment.graph import NamedEdge, NamedLayer, read_edges, read_layers
from model.formats.assignment.tables import network_name
from model.text.fields import as_bool, as_int, as_mapping, as_name, check_keys, known_name, name_list
from model.text.source import MappingNode, Node, SequenceNode, SpecError, source_ref

SYSTOLIC_ARRAY = "systolic_array"
UNIT = "ms"
LARGEST_EXTENT = 10**6
LARGEST_BUDGET = 20_000
"""Multipliers up to which all arrays are tried: about 200,000 of them."""

NETWORK_KEYS = ("name", "unit", "cost_model", "layers", "edges")
LAYER_KEYS = ("name", "conv", "tensor", "methods")
EDGE_KEYS = ("from", "to", "channels")
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
    """Read a network with a ``cost_model``.

    Raises
    ------
    SpecError
        Anything in it is wrong.
    """
    check_keys(section, NETWORK_KEYS, "`network`", ("layers",))
    unit = section.get("unit")
    if unit is not None and as_name(unit, "`unit`") != UNIT:
        raise SpecError(f"the cost model `{SYSTOLIC_ARRAY}` gives costs in `{UNIT}`", unit.span)
    hardware = _read_hardware(as_mapping(section.require("cost_model"), "`cost_model`"))
    named = read_layers(section, LAYER_KEYS)
    layers = tuple(map(_read_layer, named))
    return shaped_network(section, named, layers), hardware


def shaped_network(
    section: MappingNode, named: Sequence[NamedLayer], layers: tuple[ShapedLayer, ...]
) -> ShapedNetwork:
    """Read the edges between layers with shapes, and return the network with notes on them.

    Raises
    ------
    SpecError
        As for `model.formats.assignment.graph.read_edges`, or an edge carries more channels than its target
        takes in.
    """
    joined = read_edges(section, named, EDGE_KEYS)
    edges = tuple(_read_edge(edge, layers) for edge in joined)
    notes = tuple(channel_notes(joined, edges, layers))
    return ShapedNetwork(network_name(section), layers, edges, notes)


def _read_edge(edge: NamedEdge, layers: Sequence[ShapedLayer]) -> ShapedEdge:
    channels_node, target = None if edge.node is None else edge.node.get("channels"), layers[edge.target]
    channels = None if channels_node is None else _extent(channels_node, "`channels` of an edge")
    if channels_node is not None and channels is not None and channels > target.channels:
        taken = f"layer `{target.name}` takes in {target.channels:,}"
        raise SpecError(f"the edge carries {channels:,} channels, but {taken}", channels_node.span)
    return ShapedEdge(edge.source, edge.target, channels, source_ref(edge.span))


def _read_layer(layer: NamedLayer) -> ShapedLayer:
    what, methods, place = f"layer `{layer.name}`", layer.node.get("methods"), source_ref(layer.node.span)
    shape = read_shape(layer)
    if isinstance(shape, Tensor):
        if methods is not None:
            key = layer.node.key("methods")
            raise SpecError(f"{what} holds a tensor, there is no method to choose", key.span)
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


def read_shape(layer: NamedLayer) -> Convolution | Tensor:
    """Read a layer's ``conv`` or ``tensor``.

    Raises
    ------
    SpecError
        It has none of them or both, a key is unknown or missing, or an extent is not from 1 to
        `LARGEST_EXTENT`.
    """
    what, node = f"layer `{layer.name}`", layer.node
    conv, tensor = (node.get(key) for key in ("conv", "tensor"))
    if (conv is None) == (tensor is None):
        raise SpecError(f"{what} has either `conv` or `tensor`", node.span)
    if conv is not None:
        return _read_convolution(as_mapping(conv, f"`conv` of {what}"), what)
    assert tensor is not None  # one of the two is given
    sizes = as_mapping(tensor, f"`tensor` of {what}")
    check_keys(sizes, TENSOR_KEYS, f"`tensor` of {what}", TENSOR_KEYS)
    extents = {key: _extent(sizes.require(key, what), f"`{key}` of {what}") for key in TENSOR_KEYS}
    return Tensor(**extents)


def _read_convolution(node: MappingNode, what: str) -> Convolution:
    check_keys(node, CONV_KEYS, f"`conv` of {what}", CONV_KEYS[:4])
    sizes = {
        key: _extent(node.require(key, f"`conv` of {what}"), f"`{key}` of {what}") for key in CONV_KEYS[:4]
    }
    kernel, stride = node.get("kernel"), node.get("stride")
    return Convolution(
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


def _read_hardware(node: MappingNode) -> Hardware:
    check_keys(node, MODEL_KEYS, "`cost_model`", ("name",))
    known_name(node.require("name", "`cost_model`"), (SYSTOLIC_ARRAY,), "cost model")
    rows, columns, budget = (node.get(key) for key in ("rows", "columns", "dsp_budget"))
    model = _read_model(node)
    sides = [key for key in ("rows", "columns") if key in node]
    if budget is not None and sides:
        message = f"`dsp_budget` chooses the array, so `{sides[0]}` has no place"
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
        return usual if value is None else read_figure(value, f"`{key}`")

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
    return model if winograd is None else _with_winograd(model, as_mapping(winograd, "`winograd`"))


def _with_winograd(model: SystolicModel, node: MappingNode) -> SystolicModel:
    check_keys(node, WINOGRAD_KEYS, "`winograd`")
    outputs, kernel = (_extent(node.require(key, "`winograd`"), f"`{key}`") for key in ("m", "r"))
    tiles = node.get("kernel_tiles")
    whole = tiles is not None and known_name(tiles, (FRACTIONAL, WHOLE), "kind of kernel tiles") == WHOLE
    return replace(model, winograd_outputs=outputs, winograd_kernel=kernel, whole_kernel_tiles=whole)
