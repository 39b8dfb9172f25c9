"""Files of methods, and what a mapper has to find for a network of shapes on an architecture."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path

from model.assignment.methods import KN2ROW, LOWERINGS, Method, MethodNetwork, lower, run_outermost
from model.assignment.network import ConvolutionShape, ShapedLayer, ShapedNetwork, Tensor
from model.cost.copying import leakage_of_one
from model.formats.assignment.networks import (
    SECTION,
    SHAPED_LAYER_KEYS,
    SHAPED_NETWORK_KEYS,
    NamedLayer,
    read_layers,
    read_shape,
    shaped_network,
)
from model.formats.cascade.loader import without_mapping
from model.formats.foreign import refuse_foreign
from model.formats.timeloop.loader import load_node
from model.formats.timeloop.options import LoadOptions
from model.formats.timeloop.problem import MAX_BOUND, LoadedProblem
from model.mapspace import Mapspace
from model.note import Note
from model.text.fields import (
    add_once,
    as_mapping,
    as_name,
    as_sequence,
    check_keys,
    check_problem,
    keyed_mapping,
    kind_of,
    known_name,
    name_list,
)
from model.text.merging import join_specs
from model.text.reader import unused_notes
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

PROBLEM, MAPPER = "problem", "mapper"


def load_method_network(
    paths: Iterable[str | Path],
    methods: str | Path,
    variables: Mapping[str, object] | None = None,
    options: LoadOptions | None = None,
) -> MethodNetwork:
    """Read a network, an architecture, and the methods to map the network with.

    Parameters
    ----------
    paths
        Files with ``network`` make up the network: layers with shapes; all others the architecture.
    methods
        File with ``methods``.

    Raises
    ------
    SpecError
        For every kind of bad input, with its place.
    """
    # A method that cannot carry out a layer is an answer of the mapper's, not an error.
    options = replace(options or LoadOptions(), refuse_infeasible=False)
    files = [Path(path) for path in paths]
    names: set[str] = set()
    refuse_foreign(files)
    notes: list[Note] = []
    tops = {path: options.files.read([path], variables, names, notes=notes) for path in files}
    networks = [top for top in tops.values() if SECTION in top]
    architectures = tuple(path for path, top in tops.items() if SECTION not in top)
    if not networks:
        raise SpecError("no network is given", hint="a file with `network:`, whose layers have shapes")
    if not architectures:
        raise SpecError("no architecture is given", hint="add a file with `architecture:`")
    top = reduce(join_specs, networks)
    check_keys(top, (SECTION,), "a network file")
    section = as_mapping(top.require(SECTION), f"`{SECTION}`")
    offered = read_methods(options.files.read([methods], variables, names, notes=notes))
    notes += unused_notes(variables or {}, names)
    named = read_layers(section, SHAPED_LAYER_KEYS)
    shaped = _shaped_network(section, named, offered, notes)
    hardware = options.files.read(architectures, variables, notes=[])  # noted above
    if PROBLEM in hardware:
        raise SpecError(
            "the layers come from `network`, so `problem` does not belong here", hardware.key(PROBLEM).span
        )
    if MAPPER in hardware:
        sentence = "`mapper` does not choose the objective of an assignment"
        notes.append(note_at(hardware.key(MAPPER).span, sentence))
    places = {layer.name: layer.node.span for layer in named}
    loader = _Loader(without_mapping(hardware, notes), architectures, options, offered, places, notes)
    return loader.network(shaped)


def _shaped_network(
    section: MappingNode, named: Sequence[NamedLayer], offered: MethodFile, notes: list[Note]
) -> ShapedNetwork:
    check_keys(section, SHAPED_NETWORK_KEYS, f"`{SECTION}`")
    for key in ("cost_model", "unit"):
        if key in section:
            sentence = "`{}` is not used; the mapper finds the costs"
            notes.append(note_at(section.key(key).span, sentence, key))
    layers = tuple(_shaped_layer(layer, offered) for layer in named)
    shaped = shaped_network(section, named, layers)
    notes.extend(shaped.notes)
    return shaped


def _shaped_layer(layer: NamedLayer, offered: MethodFile) -> ShapedLayer:
    shape = read_shape(layer)
    listed, place = layer.node.get("methods"), source_ref(layer.node.span)
    if isinstance(shape, Tensor):
        known, what, usual = offered.layouts, "layout", offered.layouts
    else:
        known, what, usual = tuple(offered.methods), "method", _usual(shape, offered.methods)
    if listed is None:
        return ShapedLayer(layer.name, shape, usual, place)
    chosen = tuple(name_list(listed, known, what))
    if not chosen:
        raise SpecError(f"layer `{layer.name}` offers no {what}", listed.span)
    return ShapedLayer(layer.name, shape, chosen, place)


def _usual(shape: ConvolutionShape, methods: Mapping[str, Method]) -> tuple[str, ...]:
    """Return the methods that make sense: a filter of one position leaves nothing to take in turn."""
    useful = tuple(name for name, method in methods.items() if method.lowering != KN2ROW or shape.window > 1)
    return useful or tuple(methods)


def _mapped(shaped: ShapedNetwork) -> Iterator[tuple[ShapedLayer, ConvolutionShape, str]]:
    """Yield the layers that have something to map, with their shapes, by each of their methods."""
    for layer in shaped.layers:
        if isinstance(layer.shape, ConvolutionShape):
            yield from ((layer, layer.shape, name) for name in layer.methods)


@dataclass(frozen=True)
class _Loader:
    """Reads the architecture again for every problem and dataflow: constraints depend on the problem."""

    hardware: MappingNode
    files: Sequence[Path]
    options: LoadOptions
    offered: MethodFile
    places: Mapping[str, Span]
    notes: list[Note]

    def network(self, shaped: ShapedNetwork) -> MethodNetwork:
        """Return the network with the mapspace of each shape by each of its methods."""
        mapspaces: dict[tuple[ConvolutionShape, str], Mapspace] = {}
        for layer, shape, name in _mapped(shaped):
            if (shape, name) not in mapspaces:
                mapspaces[shape, name] = self._mapspace(layer, shape, name)
        if not mapspaces:
            raise SpecError("the network has no layer to map", hint="a layer with `conv`")
        architecture = next(iter(mapspaces.values())).architecture
        return MethodNetwork(
            shaped=shaped,
            methods=self.offered.methods,
            dataflows=tuple(self.offered.dataflows),
            mapspaces=mapspaces,
            level=architecture.levels[0],
            units_per_pj=architecture.units_per_pj,
            copy_leakage=leakage_of_one(architecture),
            notes=tuple(dict.fromkeys(self.notes)),
        )

    def _mapspace(self, layer: ShapedLayer, shape: ConvolutionShape, name: str) -> Mapspace:
        method = self.offered.methods[name]
        lowered = lower(shape, method.lowering)
        problem, place = lowered.problem, self.places[layer.name]
        if max(problem.bounds) > MAX_BOUND:
            message = (
                f"`{method.lowering}` makes a dimension of {max(problem.bounds):,}; at most {MAX_BOUND:,}"
            )
            raise SpecError(message, place)
        check_problem(problem, self.options.files.limits, place)
        loaded = load_node(
            self._constrained(method.dataflow),
            self.files,
            self.options,
            LoadedProblem(problem, dict.fromkeys(problem.dims, place), ()),
        )
        self.notes.extend(loaded.notes)
        try:
            return run_outermost(loaded.mapspace, lowered.outermost)
        except ValueError as error:
            message = f"method `{name}` cannot run its products one after the other: {error}"
            raise SpecError(message, self.offered.places[name]) from error

    def _constrained(self, dataflow: str) -> MappingNode:
        """Return the architecture with the constraints of a dataflow in a section of their own."""
        constraints = self.offered.dataflows[dataflow]
        if not constraints.items:
            return self.hardware
        name = "dataflow_constraints"
        while name in self.hardware:
            name = f"more_{name}"
        key = ScalarNode(name, name, True, constraints.span)
        return MappingNode(
            (*self.hardware.entries, (key, constraints)), self.hardware.span, self.hardware.tag
        )


METHODS = "methods"
METHODS_KEYS = ("layouts", "dataflows", "offers")
OFFER_KEYS = ("name", "lowering", "dataflow", "input_layout", "output_layout")


@dataclass(frozen=True)
class MethodFile:
    """What a file of methods says."""

    layouts: tuple[str, ...]  # names of layouts, one at least
    # Per name the list of constraints; empty for those of the architecture alone.
    dataflows: Mapping[str, SequenceNode]
    # By name, one at least, and where each is written.
    methods: Mapping[str, Method]
    places: Mapping[str, Span]


def read_methods(top: MappingNode) -> MethodFile:
    """Read a file of methods; the constraints in it are read where they meet an architecture."""
    check_keys(top, (METHODS,), "a file of methods", (METHODS,))
    section = keyed_mapping(top.require(METHODS, "the file"), f"`{METHODS}`", METHODS_KEYS, METHODS_KEYS)
    layouts = _layouts(section.require("layouts", f"`{METHODS}`"))
    constraints = as_mapping(section.require("dataflows", f"`{METHODS}`"), "`dataflows`")
    dataflows = {key.text: _dataflow_constraints(key, value) for key, value in constraints.entries}
    methods: dict[str, Method] = {}
    places: dict[str, Span] = {}
    offers = as_sequence(section.require("offers", f"`{METHODS}`"), "`offers`")
    for item in offers.items:
        method = _method(item, layouts, tuple(dataflows))
        add_once(places, method.name, item.span, f"two methods are named `{method.name}`")
        methods[method.name] = method
    if not methods:
        raise SpecError("`offers` must not be empty", offers.span)
    return MethodFile(layouts, dataflows, methods, places)


def _layouts(node: Node) -> tuple[str, ...]:
    layouts: dict[str, Span] = {}
    for item in as_sequence(node, "`layouts`").items:
        name = as_name(item, "a layout")
        add_once(layouts, name, item.span, f"layout `{name}` is listed twice", "first here")
    if not layouts:
        raise SpecError("`layouts` must not be empty", node.span)
    return tuple(layouts)


def _dataflow_constraints(key: ScalarNode, node: Node) -> SequenceNode:
    if isinstance(node, SequenceNode):
        return node
    what = f"dataflow `{key.text}`"
    hint = "`[]` adds nothing to the constraints of the architecture"
    raise SpecError(f"{what} must be a list of constraints, but is {kind_of(node)}", node.span, hint=hint)


def _method(item: Node, layouts: tuple[str, ...], dataflows: tuple[str, ...]) -> Method:
    node = keyed_mapping(item, "a method", OFFER_KEYS, OFFER_KEYS)
    name = as_name(node.require("name", "a method"), "the method's name")
    what = f"method `{name}`"
    return Method(
        name=name,
        lowering=known_name(node.require("lowering", what), LOWERINGS, "lowering"),
        dataflow=known_name(node.require("dataflow", what), dataflows, "dataflow"),
        input_layout=known_name(node.require("input_layout", what), layouts, "layout"),
        output_layout=known_name(node.require("output_layout", what), layouts, "layout"),
    )
