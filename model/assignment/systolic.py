"""The published cost model of convolution methods on a systolic array of P1 x P2 multipliers.

Formulas after DYNAMAP (Meng et al., FPGA 2021) and its public code. Every method lowers a convolution to
matrix products; each product is cut into pieces that fill the array, and every piece streams one operand
through it. All figures are exact fractions.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from model.assignment.shapes import IM2COL, KN2ROW, TENSOR, WINOGRAD, Convolution, ShapedEdge, ShapedLayer

NON_STATIONARY, WEIGHT_STATIONARY, INPUT_STATIONARY = DATAFLOWS = (
    "non_stationary",
    "weight_stationary",
    "input_stationary",
)


@dataclass(frozen=True)
class SystolicModel:
    """What the costs depend on besides the size of the array.

    Parameters
    ----------
    cycles_per_ms
        Clock frequency.
    bytes_per_ms
        Bandwidth to memory.
    element_bytes
        Size of a word.
    dataflows
        Out of `DATAFLOWS`; the fastest one counts, per method.
    double_buffering
        Whether loads overlap stores. It is off anyway on arrays whose edges take in more than the
        bandwidth.
    winograd_outputs, winograd_kernel
        m and r of F(m x m, r x r).
    whole_kernel_tiles
        Whether a filter that is no multiple of r takes whole tiles of r (5 x 5 takes four of 3 x 3).
        The published formula takes the fraction (5/3)^2.
    """

    cycles_per_ms: Fraction = Fraction(200_000)
    bytes_per_ms: Fraction = Fraction(64_000_000)
    element_bytes: Fraction = Fraction(1)
    dataflows: tuple[str, ...] = DATAFLOWS
    double_buffering: bool = True
    winograd_outputs: int = 2
    winograd_kernel: int = 3
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


def method_times(method: str, shape: Convolution, model: SystolicModel) -> tuple[ArrayTime, ...]:
    """Return the time of a convolution by `method`, one entry per dataflow of the model."""
    positions, depth, outputs = Fraction(shape.positions), shape.in_channels, shape.out_channels
    if method == IM2COL:
        depth *= shape.window
        words = positions * depth + depth * outputs
        load_ms = words * model.element_bytes / model.bytes_per_ms
        return tuple(_products(positions, depth, outputs, Fraction(1), load_ms, model))
    if method == KN2ROW:
        return tuple(_products(positions, depth, outputs, Fraction(shape.window), Fraction(0), model))
    if method != WINOGRAD or not shape.allows_winograd:
        raise ValueError(f"{method} is no method for {shape}")
    repeats = model.kernel_tiles(shape.kernel[0]) * model.winograd_tile**2
    transform_ms = repeats * max(model.winograd_outputs, model.winograd_kernel) / model.cycles_per_ms
    tiles = positions / model.winograd_outputs**2
    return tuple(_products(tiles, depth, outputs, repeats, transform_ms, model))


def _products(
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
    if isinstance(shape, Convolution):
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
    elif target == IM2COL and isinstance(shape, Convolution):
        words = shape.positions * shape.window * channels
    else:
        words = high * wide * channels
    return words * model.element_bytes / model.bytes_per_ms
