"""A network of shapes on one systolic array, or on all that a budget of multipliers allows."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from model.assignment.costed import LARGEST_TOTAL, CostArray, CostedLayer, CostedNetwork, Edge
from model.assignment.shapes import Convolution, ShapedEdge, ShapedLayer, ShapedNetwork
from model.assignment.systolic import ArrayTime, SystolicModel, method_times, transition_ms
from model.note import Note

UNIT = "ms"

Sizes = NDArray[np.int64]


def arrays_within(budget: int) -> tuple[Sizes, Sizes]:
    """Return rows and columns of all arrays of at most `budget` multipliers, rows ascending."""
    counts = [budget // rows for rows in range(1, budget + 1)]
    rows = np.repeat(np.arange(1, budget + 1), counts)
    columns = np.concatenate([np.arange(1, count + 1) for count in counts])
    return rows, columns


def price(shaped: ShapedNetwork, model: SystolicModel, rows: int, columns: int) -> CostedNetwork:
    """Return the network with its costs on an array of `rows` x `columns`, in ms."""
    return PricedArrays(shaped, model, np.array([rows]), np.array([columns])).network(0)


@dataclass(frozen=True, eq=False)
class PricedArrays:
    """The exact costs of a network on many arrays at once.

    Parameters
    ----------
    shaped
        The network.
    model
        The cost model.
    rows, columns
        Sizes of the arrays, shape (arrays,).
    """

    shaped: ShapedNetwork
    model: SystolicModel
    rows: Sizes
    columns: Sizes

    @cached_property
    def times(self) -> dict[Convolution, dict[str, tuple[ArrayTime, ...]]]:
        """Per shape and method, the time by each dataflow."""
        by_shape: dict[Convolution, dict[str, tuple[ArrayTime, ...]]] = {}
        for layer in self.shaped.layers:
            if isinstance(layer.shape, Convolution):
                of_shape = by_shape.setdefault(layer.shape, {})
                of_shape.update(
                    {m: method_times(m, layer.shape, self.model) for m in layer.methods if m not in of_shape}
                )
        return by_shape

    @cached_property
    def transitions_ms(self) -> list[list[list[Fraction]]]:
        """Per edge, a matrix of the times of all pairs of methods, double buffered."""
        return [self._transition(edge) for edge in self.shaped.edges]

    def _transition(self, edge: ShapedEdge) -> list[list[Fraction]]:
        sources, target = self.shaped.layers[edge.source].methods, self.shaped.layers[edge.target]
        return [
            [transition_ms(source, method, target, edge, self.model) for method in target.methods]
            for source in sources
        ]

    @cached_property
    def steps_per_ms(self) -> int:
        """The least number of steps in a millisecond that makes every cost whole."""
        figures = [
            figure
            for methods in self.times.values()
            for entries in methods.values()
            for entry in entries
            for figure in (entry.pass_ms, entry.fixed_ms)
        ]
        figures += [figure for matrix in self.transitions_ms for row in matrix for figure in row]
        return math.lcm(*{figure.denominator for figure in figures})

    @cached_property
    def _dtype(self) -> type:
        """64-bit integers where the dearest array's total surely fits them."""
        slowest = [
            max(entry.milliseconds(1, 1) for entries in self.times[layer.shape].values() for entry in entries)
            for layer in self.shaped.layers
            if isinstance(layer.shape, Convolution)
        ]
        moves = [2 * max(figure for row in matrix for figure in row) for matrix in self.transitions_ms]
        most = sum((*slowest, *moves), Fraction(0)) * self.steps_per_ms
        return np.int64 if most <= LARGEST_TOTAL else object

    @cached_property
    def costs(self) -> list[CostArray]:
        """Per layer, steps of shape (arrays, methods): the fastest dataflow of each method."""
        known: dict[tuple[Convolution, str], CostArray] = {}
        return [self._layer_costs(layer, known) for layer in self.shaped.layers]

    def _layer_costs(self, layer: ShapedLayer, known: dict[tuple[Convolution, str], CostArray]) -> CostArray:
        if not isinstance(layer.shape, Convolution):
            return np.zeros((len(self.rows), 1), dtype=self._dtype)
        for method in layer.methods:
            if (layer.shape, method) not in known:
                entries = self.times[layer.shape][method]
                known[layer.shape, method] = np.minimum.reduce([self._steps(entry) for entry in entries])
        return np.stack([known[layer.shape, method] for method in layer.methods], axis=1)

    def _steps(self, time: ArrayTime) -> CostArray:
        """Return a time on all arrays in steps."""
        rows: CostArray = self.rows.astype(self._dtype)
        columns: CostArray = self.columns.astype(self._dtype)
        down = -(-time.down.numerator // (time.down.denominator * rows))
        across = -(-time.across.numerator // (time.across.denominator * columns))
        per_pass, fixed = (int(ms * self.steps_per_ms) for ms in (time.pass_ms, time.fixed_ms))
        steps: CostArray = down * across * per_pass + fixed
        return steps

    @cached_property
    def buffering(self) -> CostArray:
        """How often a transition is paid on each array: once if double buffered, else twice."""
        pairs = zip(self.rows.tolist(), self.columns.tolist(), strict=True)
        times = [1 if self.model.is_double_buffered(*pair) else 2 for pair in pairs]
        return np.array(times, dtype=self._dtype)

    @cached_property
    def transitions(self) -> list[CostArray]:
        """Per edge, the matrix in steps, double buffered."""
        return [
            np.array([[int(ms * self.steps_per_ms) for ms in row] for row in matrix], dtype=self._dtype)
            for matrix in self.transitions_ms
        ]

    def network(self, position: int) -> CostedNetwork:
        """Return the network with its costs on one of the arrays, in ms."""
        times = int(self.buffering[position])
        shaped = self.shaped
        layers = [
            CostedLayer(layer.name, layer.methods, costs[position], layer.place)
            for layer, costs in zip(shaped.layers, self.costs, strict=True)
        ]
        edges = [
            Edge(edge.source, edge.target, matrix * times, edge.place)
            for edge, matrix in zip(shaped.edges, self.transitions, strict=True)
        ]
        rows, columns = int(self.rows[position]), int(self.columns[position])
        buffered = "double buffered" if times == 1 else "without double buffering"
        note = Note("systolic array of {} x {}, transitions {}", (rows, columns, buffered))
        notes = (note, *shaped.notes)
        return CostedNetwork(shaped.name, UNIT, self.steps_per_ms, tuple(layers), tuple(edges), notes)
