"""Networks from exact costs, however they were found: read from a table, modelled, or searched."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from model.assignment.costed import FORBIDDEN, LARGEST_TOTAL, CostArray, CostedLayer, CostedNetwork, Edge
from model.note import Note
from model.source_ref import SourceRef

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
        As in `CostedNetwork`.
    layers, edges
        The graph, with costs in `unit`.
    notes
        As in `CostedNetwork`.

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
    scale = _Scale(steps_per_unit, sum(costs, Fraction(0)) * steps_per_unit > LARGEST_TOTAL)
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
        tuple(_edge(edge, positions, methods, scale) for edge in edges),
        notes,
    )


@dataclass(frozen=True)
class _Scale:
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


def _edge(
    edge: EdgeCosts, positions: Mapping[str, int], methods: Mapping[str, tuple[str, ...]], scale: _Scale
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
