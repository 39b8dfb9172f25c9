"""A network whose layers can be carried out by several methods, with the cost of every choice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from model.note import Note
from model.source_ref import SourceRef

CostArray = NDArray[Any]
"""Exact costs in steps: 64-bit integers, or Python's own (dtype object) where those are too small."""

FORBIDDEN = -1
"""Stands for an infinite cost."""

LARGEST_TOTAL = 1 << 60
"""Up to this sum of all costs, solvers may use 64 bits: three infinities still fit."""


@dataclass(frozen=True, eq=False)
class CostedLayer:
    """A layer and what each of its methods costs.

    Parameters
    ----------
    name
        Unique in the network.
    methods
        Names of the methods, at least one.
    costs
        Steps per method, shape (methods,); `FORBIDDEN` for a method that must not be taken.
    place
        Where the layer was written.
    """

    name: str
    methods: tuple[str, ...]
    costs: CostArray
    place: SourceRef | None = None


@dataclass(frozen=True, eq=False)
class Edge:
    """A dependence between two layers, and what it costs to go from one's method to the other's.

    Parameters
    ----------
    source, target
        Positions of the layers in the network.
    transition
        Steps, shape (methods of the source, methods of the target); `FORBIDDEN` for a pair that must
        not be taken together. None is a matrix of zeros.
    place
        Where the edge was written.
    """

    source: int
    target: int
    transition: CostArray | None = None
    place: SourceRef | None = None


@dataclass(frozen=True, eq=False)
class CostedNetwork:
    """A directed acyclic graph of layers.

    Parameters
    ----------
    name
        Name of the network.
    unit
        Unit of the costs, such as ``ms``.
    steps_per_unit
        Costs are whole numbers of steps; so many of them make one unit.
    layers, edges
        The graph; at most one edge between two layers.
    notes
        What a user should know about the costs.

    Raises
    ------
    ValueError
        A name occurs twice, an array has the wrong shape, type or sign, or the edges are no acyclic
        graph.
    """

    name: str
    unit: str
    steps_per_unit: int
    layers: tuple[CostedLayer, ...]
    edges: tuple[Edge, ...]
    notes: tuple[Note, ...] = ()

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
        if len({(edge.source, edge.target) for edge in self.edges}) < len(self.edges):
            raise ValueError("two edges join the same layers")
        circle = find_cycle(len(self.layers), [(edge.source, edge.target) for edge in self.edges])
        if circle:
            raise ValueError("the edges run in a circle: " + " -> ".join(self.layers[i].name for i in circle))

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
        """Return the edge for people: ``conv1 -> conv2``."""
        return f"{self.layers[edge.source].name} -> {self.layers[edge.target].name}"

    def execution(self, choice: Sequence[int]) -> list[int | None]:
        """Return each layer's cost in steps under the chosen methods, None where it is forbidden."""
        return [_steps(layer.costs[k]) for layer, k in zip(self.layers, choice, strict=True)]

    def transitions(self, choice: Sequence[int]) -> list[int | None]:
        """Return each edge's cost in steps under the chosen methods, None where it is forbidden."""
        return [
            0
            if edge.transition is None
            else _steps(edge.transition[choice[edge.source], choice[edge.target]])
            for edge in self.edges
        ]

    def total(self, choice: Sequence[int]) -> int | None:
        """Return the cost of an assignment in steps, None where it takes something forbidden.

        Parameters
        ----------
        choice
            Position of the chosen method in each layer's `methods`.
        """
        total = 0
        for part in (*self.execution(choice), *self.transitions(choice)):
            if part is None:
                return None
            total += part
        return total

    def in_unit(self, steps: int) -> Fraction:
        """Return a cost in the network's unit, exactly."""
        return Fraction(steps, self.steps_per_unit)


def find_cycle(count: int, edges: Sequence[tuple[int, int]]) -> list[int]:
    """Return nodes along a directed cycle, the first one again at the end; empty if there is none."""
    successors: list[list[int]] = [[] for _ in range(count)]
    waiting = [0] * count
    for source, target in edges:
        successors[source].append(target)
        waiting[target] += 1
    ready = [node for node in range(count) if not waiting[node]]
    # The list grows while it is gone through.
    for target in (target for node in ready for target in successors[node]):
        waiting[target] -= 1
        if not waiting[target]:
            ready.append(target)
    # Every node that still waits has a predecessor that waits: walking back must meet itself.
    before = {target: source for source, target in edges if waiting[source] and waiting[target]}
    if not before:
        return []
    node, met = next(iter(before)), dict[int, int]()
    while node not in met:
        met[node] = len(met)
        node = before[node]
    return [node, *reversed(list(met)[met[node] :])]


def _steps(cost: Any) -> int | None:
    return None if cost == FORBIDDEN else int(cost)


def _check_layer(layer: CostedLayer) -> None:
    if not layer.methods or len(set(layer.methods)) < len(layer.methods):
        raise ValueError(f"layer {layer.name}: methods must be given, each once")
    if layer.costs.shape != (len(layer.methods),):
        raise ValueError(f"layer {layer.name}: one cost per method is needed")
    _check_costs(layer.costs, f"layer {layer.name}")


def _check_costs(costs: CostArray, what: str) -> None:
    if costs.dtype not in (np.dtype(np.int64), np.dtype(object)):
        raise ValueError(f"{what}: costs are exact integers, not {costs.dtype}")
    if costs.dtype == object and not all(isinstance(cost, int) for cost in costs.flat):
        raise ValueError(f"{what}: costs are exact integers")
    if costs.min() < FORBIDDEN:
        raise ValueError(f"{what}: a cost is negative")
