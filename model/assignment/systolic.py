"""The published cost model of convolution methods on a systolic array of P1 x P2 multipliers.

Formulas after DYNAMAP (Meng et al., FPGA 2021) and its public code. Every method lowers a convolution to
matrix products; each product is cut into pieces that fill the array, and every piece streams one operand
through it. All figures are exact fractions.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from model.assignment.network import (
    IM2COL,
    KN2ROW,
    LARGEST_TOTAL,
    TENSOR,
    WINOGRAD,
    ConvolutionShape,
    CostArray,
    CostedLayer,
    CostedNetwork,
    Edge,
    ShapedEdge,
    ShapedLayer,
    ShapedNetwork,
)
from model.note import Note

NON_STATIONARY, WEIGHT_STATIONARY, INPUT_STATIONARY = DATAFLOWS = (
    "non_stationary",
    "weight_stationary",
    "input_stationary",
)


@dataclass(frozen=True)
class SystolicModel:
    """What the costs depend on besides the size of the array."""

    cycles_per_ms: Fraction = Fraction(200_000)
    bytes_per_ms: Fraction = Fraction(64_000_000)  # bandwidth to memory
    element_bytes: Fraction = Fraction(1)
    dataflows: tuple[str, ...] = DATAFLOWS  # out of `DATAFLOWS`; the fastest one counts, per method
    # Whether loads overlap stores. It is off anyway on arrays whose edges take in more than the bandwidth.
    double_buffering: bool = True
    # The m and r of F(m x m, r x r).
    winograd_outputs: int = 2
    winograd_kernel: int = 3
    # Whether a filter that is not a multiple of r takes whole tiles (5 x 5 takes four of 3 x 3). The
    # published formula takes the fraction (5/3)^2.
    whole_kernel_tiles: bool = False

    @property
    def winograd_tile(self) -> int:
        """Positions along a side of Winograd's input tile."""
        return self.winograd_outputs + self.winograd_kernel - 1

    def kernel_tiles(self, kernel: int) -> Fraction:
        """Return how many tiles of r x r a filter of `kernel` x `kernel` counts as."""
        side = Fraction(kernel, self.winograd_kernel)
        return Fraction(-(-side.numerator // side.denominator) if self.whole_kernel_tiles else side) ** 2

    def is_double_buffered(self, rows: int, columns: int) -> bool:
        """Whether an array of this size hides loads behind stores."""
        demand = (rows + columns) * self.cycles_per_ms * self.element_bytes
        return self.double_buffering and demand <= self.bytes_per_ms


@dataclass(frozen=True)
class Hardware:
    """The cost model, and the array: its size, or a budget of multipliers to choose it within."""

    model: SystolicModel
    array: tuple[int, int] | None
    dsp_budget: int | None


@dataclass(frozen=True)
class ArrayTime:
    """Time of a tiled matrix product as a function of the array.

    ``ceil(down / rows) * ceil(across / columns) * pass_ms + fixed_ms``.
    """

    down: Fraction
    across: Fraction
    pass_ms: Fraction
    fixed_ms: Fraction

    def milliseconds(self, rows: int, columns: int) -> Fraction:
        """Return the time on an array of `rows` x `columns`."""
        return -(-self.down // rows) * -(-self.across // columns) * self.pass_ms + self.fixed_ms


def method_times(method: str, shape: ConvolutionShape, model: SystolicModel) -> tuple[ArrayTime, ...]:
    """Return the time of a convolution by `method`, one entry per dataflow of the model."""
    positions, depth, outputs = Fraction(shape.positions), shape.in_channels, shape.out_channels
    if method == IM2COL:
        depth *= shape.window
        words = positions * depth + depth * outputs
        load_ms = words * model.element_bytes / model.bytes_per_ms
        return tuple(_product_times(positions, depth, outputs, Fraction(1), load_ms, model))
    if method == KN2ROW:
        return tuple(_product_times(positions, depth, outputs, Fraction(shape.window), Fraction(0), model))
    if method != WINOGRAD or not shape.allows_winograd:
        raise ValueError(f"{method} is not a method for {shape}")
    repeats = model.kernel_tiles(shape.kernel[0]) * model.winograd_tile**2
    transform_ms = repeats * max(model.winograd_outputs, model.winograd_kernel) / model.cycles_per_ms
    tiles = positions / model.winograd_outputs**2
    return tuple(_product_times(tiles, depth, outputs, repeats, transform_ms, model))


def _product_times(
    rows: Fraction, depth: int, columns: int, repeats: Fraction, fixed_ms: Fraction, model: SystolicModel
) -> Iterator[ArrayTime]:
    """Yield the time of ``repeats`` products (rows x depth) by (depth x columns), per dataflow."""
    for dataflow in model.dataflows:
        # What lies along the two sides of the array, and what streams through it.
        down, across, stream = {
            NON_STATIONARY: (rows, Fraction(columns), Fraction(depth)),
            WEIGHT_STATIONARY: (Fraction(depth), Fraction(columns), rows),
            INPUT_STATIONARY: (Fraction(depth), rows, Fraction(columns)),
        }[dataflow]
        yield ArrayTime(down, across, stream * repeats / model.cycles_per_ms, fixed_ms)


def transition_ms(
    source: str, target: str, layer: ShapedLayer, edge: ShapedEdge, model: SystolicModel
) -> Fraction:
    """Return the time to bring a tensor from one method's layout into another's, double buffered."""
    shape = layer.shape
    if isinstance(shape, ConvolutionShape):
        high, wide, channels = shape.height * shape.stride, shape.width * shape.stride, shape.in_channels
    else:
        high, wide, channels = shape.height, shape.width, shape.channels
    channels = channels if edge.channels is None else edge.channels
    # A tensor that comes from Winograd's layout is restored at the price of making that layout.
    scattered = WINOGRAD if target == TENSOR and source == WINOGRAD else target
    words: Fraction | int
    if scattered == WINOGRAD:
        growth = Fraction(model.winograd_tile, model.winograd_outputs) ** 2 * high * wide
        outputs = model.winograd_outputs**2
        if source == target:
            words = growth * channels / outputs
        else:
            words = growth * (channels + Fraction(outputs * wide, high))
    elif target == IM2COL and isinstance(shape, ConvolutionShape):
        words = shape.positions * shape.window * channels
    else:
        words = high * wide * channels
    return words * model.element_bytes / model.bytes_per_ms


UNIT = "ms"

Sizes = NDArray[np.int64]


def arrays_within(budget: int) -> tuple[Sizes, Sizes]:
    """Return rows and columns of all arrays of at most `budget` multipliers, rows ascending."""
    counts = [budget // rows for rows in range(1, budget + 1)]
    rows = np.repeat(np.arange(1, budget + 1), counts)
    columns = np.concatenate([np.arange(1, count + 1) for count in counts])
    return rows, columns


def price_network(shaped: ShapedNetwork, model: SystolicModel, rows: int, columns: int) -> CostedNetwork:
    """Return the network with its costs on an array of `rows` x `columns`, in ms."""
    return PricedArrays(shaped, model, np.array([rows]), np.array([columns])).network(0)


@dataclass(frozen=True, eq=False)
class PricedArrays:
    """The exact costs of a network on many arrays at once."""

    shaped: ShapedNetwork
    model: SystolicModel
    # Sizes of the arrays, shape (arrays,).
    rows: Sizes
    columns: Sizes

    @cached_property
    def times(self) -> dict[ConvolutionShape, dict[str, tuple[ArrayTime, ...]]]:
        """Per shape and method, the time by each dataflow."""
        by_shape: dict[ConvolutionShape, dict[str, tuple[ArrayTime, ...]]] = {}
        for layer in self.shaped.layers:
            if isinstance(layer.shape, ConvolutionShape):
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
            if isinstance(layer.shape, ConvolutionShape)
        ]
        moves = [2 * max(figure for row in matrix for figure in row) for matrix in self.transitions_ms]
        most = sum((*slowest, *moves), Fraction(0)) * self.steps_per_ms
        return np.int64 if most <= LARGEST_TOTAL else object

    @cached_property
    def costs(self) -> list[CostArray]:
        """Per layer, steps of shape (arrays, methods): the fastest dataflow of each method."""
        known: dict[tuple[ConvolutionShape, str], CostArray] = {}
        return [self._layer_costs(layer, known) for layer in self.shaped.layers]

    def _layer_costs(
        self, layer: ShapedLayer, known: dict[tuple[ConvolutionShape, str], CostArray]
    ) -> CostArray:
        if not isinstance(layer.shape, ConvolutionShape):
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
