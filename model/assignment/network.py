"""Networks of layers: by their shapes, or with the cost of every method and transition."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from graphlib import CycleError, TopologicalSorter
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from model.note import Note
from model.source_ref import SourceRef

IM2COL, KN2ROW, WINOGRAD = METHODS = ("im2col", "kn2row", "winograd")
TENSOR = "tensor"
"""The one layout of a layer that computes nothing: a fork, a concatenation, a sum."""


@dataclass(frozen=True)
class ConvolutionShape:
    """A convolution; a fully connected layer is one with a single output position."""

    # Channels of the input and of the output.
    in_channels: int
    out_channels: int
    # Output positions. The input has `stride` times as many along each side.
    height: int
    width: int
    kernel: tuple[int, int] = (1, 1)  # height and width of the filter
    stride: int = 1  # distance of two windows along both sides

    @property
    def positions(self) -> int:
        """Output positions of one channel."""
        return self.height * self.width

    @property
    def window(self) -> int:
        """Positions of the filter."""
        return self.kernel[0] * self.kernel[1]

    def usual_methods(self) -> tuple[str, ...]:
        """Return the methods that are tried unless the user says otherwise.

        A filter of one position has nothing to lower but a matrix product. Winograd's transforms need
        a square filter of at least three positions a side, and windows that touch (stride 1).
        """
        high, wide = self.kernel
        if high == wide == 1:
            return (IM2COL,)
        if self.allows_winograd and high > 2:
            return METHODS
        return (IM2COL, KN2ROW)

    @property
    def allows_winograd(self) -> bool:
        """Whether Winograd's method can compute it."""
        return self.kernel[0] == self.kernel[1] > 1 and self.stride == 1


@dataclass(frozen=True)
class Tensor:
    """A layer that only holds a tensor: it costs nothing and has one layout."""

    channels: int
    height: int
    width: int


@dataclass(frozen=True)
class ShapedLayer:
    """A layer by its shape, with the methods to choose from."""

    name: str
    shape: ConvolutionShape | Tensor
    methods: tuple[str, ...]
    place: SourceRef | None = None

    @property
    def channels(self) -> int:
        """Channels that go in."""
        return self.shape.in_channels if isinstance(self.shape, ConvolutionShape) else self.shape.channels

    @property
    def out_channels(self) -> int:
        """Channels that come out."""
        return self.shape.out_channels if isinstance(self.shape, ConvolutionShape) else self.shape.channels


@dataclass(frozen=True)
class ShapedEdge:
    """A tensor that goes from layer `source` to layer `target` (positions).

    `channels` is how many of the target's input channels it carries; None is all of them.
    """

    source: int
    target: int
    channels: int | None = None
    place: SourceRef | None = None


@dataclass(frozen=True)
class ShapedNetwork:
    """A network of layers by their shapes; with `notes` for the report."""

    name: str
    layers: tuple[ShapedLayer, ...]
    edges: tuple[ShapedEdge, ...]
    notes: tuple[Note, ...] = ()


CostArray = NDArray[Any]
"""Exact costs in steps: 64-bit integers, or Python's own (dtype object) where those are too small."""

FORBIDDEN = -1
"""Stands for an infinite cost."""

LARGEST_TOTAL = 1 << 60
"""Up to this sum of all costs, solvers may use 64 bits: three infinities still fit."""


@dataclass(frozen=True, eq=False)
class CostedLayer:
    """A layer and what each of its methods costs."""

    name: str
    methods: tuple[str, ...]  # names of the methods, at least one
    costs: CostArray  # steps per method, shape (methods,); `FORBIDDEN` for a method that must not be taken
    place: SourceRef | None = None
    # What each method occupies, in whole units, from the first moment of the interval to before the last one.
    usages: CostArray | None = None
    interval: tuple[int, int] = (0, 0)


@dataclass(frozen=True, eq=False)
class Edge:
    """A dependence between two layers, and what it costs to go from one's method to the other's."""

    # Positions of the layers in the network.
    source: int
    target: int
    # Steps, shape (methods of the source, methods of the target); `FORBIDDEN` for a pair that must not be
    # taken together. None is a matrix of zeros.
    transition: CostArray | None = None
    place: SourceRef | None = None


@dataclass(frozen=True, eq=False)
class CostedNetwork:
    """A directed acyclic graph of layers; what is alive at a moment may have to fit a limit.

    Parameters
    ----------
    name
        Name of the network.
    unit
        Unit of the costs, such as ``ms``.
    steps_per_unit
        Costs are whole numbers of steps; so many of them make one unit.
    layers, edges
        The graph; edges may be parallel.
    notes
        What a user should know about the costs.
    usage_limit
        What the usages of the layers may add up to at any moment; None is no limit.

    Raises
    ------
    ValueError
        A name occurs twice, an array has the wrong shape, type or sign, or the edges form a cycle.
    """

    name: str
    unit: str
    steps_per_unit: int
    layers: tuple[CostedLayer, ...]
    edges: tuple[Edge, ...]
    notes: tuple[Note, ...] = ()
    usage_limit: int | None = None

    def __post_init__(self) -> None:
        """Check what the solvers rely on."""
        if not self.layers:
            raise ValueError("a network has at least one layer")
        if self.steps_per_unit < 1:
            raise ValueError("steps_per_unit must be positive")
        names = {layer.name for layer in self.layers}
        if len(names) < len(self.layers):
            raise ValueError("two layers have the same name")
        for layer in self.layers:
            _check_layer(layer)
        for edge in self.edges:
            self._check_edge(edge)
        cycle = find_cycle((edge.source, edge.target) for edge in self.edges)
        if cycle:
            raise ValueError("the edges form a cycle: " + " -> ".join(self.layers[i].name for i in cycle))

    def _check_edge(self, edge: Edge) -> None:
        count = len(self.layers)
        if not (0 <= edge.source < count and 0 <= edge.target < count):
            raise ValueError("an edge names a layer that does not exist")
        if edge.transition is None:
            return
        shape = (len(self.layers[edge.source].methods), len(self.layers[edge.target].methods))
        if edge.transition.shape != shape:
            raise ValueError(f"{self.edge_name(edge)}: a transition matrix of shape {shape} is needed")
        _check_costs(edge.transition, self.edge_name(edge))

    def edge_name(self, edge: Edge) -> str:
        """Return the name of an edge in messages: ``conv1 -> conv2``."""
        return f"{self.layers[edge.source].name} -> {self.layers[edge.target].name}"

    def peak_usage(self, choice: Sequence[int]) -> int:
        """Return the most that the chosen methods occupy at any moment."""
        changes: dict[int, int] = {}
        for layer, k in zip(self.layers, choice, strict=True):
            first, last = layer.interval
            if layer.usages is None or first >= last:
                continue
            usage = int(layer.usages[k])
            changes[first] = changes.get(first, 0) + usage
            changes[last] = changes.get(last, 0) - usage
        return max(accumulate(changes[moment] for moment in sorted(changes)), default=0)

    def fits(self, choice: Sequence[int]) -> bool:
        """Whether the chosen methods stay within the limit at all moments."""
        return self.usage_limit is None or self.peak_usage(choice) <= self.usage_limit

    def execution(self, choice: Sequence[int]) -> list[int | None]:
        """Return each layer's cost in steps under the chosen methods, None where it is forbidden."""
        return [_steps_or_none(layer.costs[k]) for layer, k in zip(self.layers, choice, strict=True)]

    def transitions(self, choice: Sequence[int]) -> list[int | None]:
        """Return each edge's cost in steps under the chosen methods, None where it is forbidden."""
        return [
            0
            if edge.transition is None
            else _steps_or_none(edge.transition[choice[edge.source], choice[edge.target]])
            for edge in self.edges
        ]

    def total(self, choice: Sequence[int]) -> int | None:
        """Return the cost of an assignment in steps, None where that is forbidden, or does not fit.

        `choice` has the position of the chosen method in each layer's `methods`.
        """
        parts = [*self.execution(choice), *self.transitions(choice)]
        if not self.fits(choice):
            return None
        known = [part for part in parts if part is not None]
        return sum(known) if len(known) == len(parts) else None

    def in_unit(self, steps: int) -> Fraction:
        """Return a cost in the network's unit, exactly."""
        return Fraction(steps, self.steps_per_unit)


def find_cycle(edges: Iterable[tuple[int, int]]) -> list[int]:
    """Return nodes along a directed cycle, the first one again at the end; empty if there is none."""
    sorter: TopologicalSorter[int] = TopologicalSorter()
    for source, target in edges:
        sorter.add(target, source)
    try:
        sorter.prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def _steps_or_none(cost: Any) -> int | None:
    return None if cost == FORBIDDEN else int(cost)


def _check_layer(layer: CostedLayer) -> None:
    if not layer.methods or len(set(layer.methods)) < len(layer.methods):
        raise ValueError(f"layer {layer.name}: methods must be given, each once")
    if layer.costs.shape != (len(layer.methods),):
        raise ValueError(f"layer {layer.name}: one cost per method is needed")
    _check_costs(layer.costs, f"layer {layer.name}")
    if layer.usages is not None:
        if layer.usages.shape != layer.costs.shape:
            raise ValueError(f"layer {layer.name}: one usage per method is needed")
        _check_costs(layer.usages, f"layer {layer.name}", least=0)


def _check_costs(costs: CostArray, what: str, least: int = FORBIDDEN) -> None:
    if costs.dtype not in (np.dtype(np.int64), np.dtype(object)):
        raise ValueError(f"{what}: costs are exact integers, not {costs.dtype}")
    if costs.dtype == object and not all(isinstance(cost, int) for cost in costs.flat):
        raise ValueError(f"{what}: costs are exact integers")
    if costs.min() < least:
        raise ValueError(f"{what}: a cost is negative")


Cost = int | Fraction | None
"""A cost in the network's unit; None is infinite and forbids the choice."""


@dataclass(frozen=True)
class LayerCosts:
    """A layer with the cost of each method that it offers."""

    name: str
    costs: Mapping[str, Cost]
    place: SourceRef | None = None


@dataclass(frozen=True)
class EdgeCosts:
    """An edge with the costs of pairs (method of the source, method of the target); others cost nothing."""

    source: str
    target: str
    transition: Mapping[tuple[str, str], Cost]
    place: SourceRef | None = None


def build_network(
    name: str,
    unit: str,
    layers: Sequence[LayerCosts],
    edges: Iterable[EdgeCosts],
    notes: tuple[Note, ...] = (),
) -> CostedNetwork:
    """Return a network with all costs as whole numbers of one common step.

    Parameters
    ----------
    name, unit
        Name of the network, and unit of its costs.
    layers, edges
        The graph, with costs in `unit`.
    notes
        Remarks for users.

    Raises
    ------
    ValueError
        A cost is negative or no exact number, or names do not fit together.
    """
    layers, edges = tuple(layers), tuple(edges)
    tables: list[Mapping[str, Cost] | Mapping[tuple[str, str], Cost]] = [layer.costs for layer in layers]
    tables += [edge.transition for edge in edges]
    costs = [cost for table in tables for cost in table.values() if cost is not None]
    if any(isinstance(cost, bool) or not isinstance(cost, (int, Fraction)) for cost in costs):
        raise ValueError("a cost is an int, a Fraction, or None")
    steps_per_unit = math.lcm(*(cost.denominator for cost in costs))
    scale = _CommonStep(steps_per_unit, sum(costs, Fraction(0)) * steps_per_unit > LARGEST_TOTAL)
    positions = {layer.name: position for position, layer in enumerate(layers)}
    methods = {layer.name: tuple(layer.costs) for layer in layers}
    return CostedNetwork(
        name,
        unit,
        steps_per_unit,
        tuple(
            CostedLayer(layer.name, tuple(layer.costs), scale.vector(layer.costs), layer.place)
            for layer in layers
        ),
        tuple(_edge_in_steps(edge, positions, methods, scale) for edge in edges),
        notes,
    )


@dataclass(frozen=True)
class _CommonStep:
    """The common step, and whether 64 bits are too few."""

    steps_per_unit: int
    is_wide: bool

    def vector(self, costs: Mapping[str, Cost]) -> CostArray:
        """Return the costs of the methods of a layer."""
        return np.array([self.steps(cost) for cost in costs.values()], dtype=self.dtype)

    @property
    def dtype(self) -> type:
        """What arrays of costs hold."""
        return object if self.is_wide else np.int64

    def steps(self, cost: Cost) -> int:
        """Return a cost in steps; ``ValueError`` if it is negative."""
        if cost is None:
            return FORBIDDEN
        if cost < 0:
            raise ValueError(f"a cost is negative: {cost}")
        return int(cost * self.steps_per_unit)


def _edge_in_steps(
    edge: EdgeCosts, positions: Mapping[str, int], methods: Mapping[str, tuple[str, ...]], scale: _CommonStep
) -> Edge:
    for end in (edge.source, edge.target):
        if end not in positions:
            raise ValueError(f"an edge names the layer {end}, which does not exist")
    source, target = positions[edge.source], positions[edge.target]
    if not any(cost != 0 for cost in edge.transition.values()):
        return Edge(source, target, None, edge.place)
    rows, columns = methods[edge.source], methods[edge.target]
    matrix: CostArray = np.zeros((len(rows), len(columns)), dtype=scale.dtype)
    for (row, column), cost in edge.transition.items():
        if row not in rows or column not in columns:
            raise ValueError(f"{edge.source} -> {edge.target}: no pair of methods {row}, {column}")
        matrix[rows.index(row), columns.index(column)] = scale.steps(cost)
    return Edge(source, target, matrix, edge.place)
