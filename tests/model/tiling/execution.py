"""Runs a tiling on arrays, in SMAUG's order of tiles: every step sees its tiles and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from model.tiling.cuts import Cut, Grid, RankSpan, windows_within
from model.tiling.operators import (
    INPUTS,
    OUTPUTS,
    SECOND_INPUTS,
    WEIGHTS,
    BatchNorm,
    Convolution,
    InnerProduct,
    Operator,
    Pooling,
    Shape,
    Softmax,
    Unary,
    Window,
)
from model.tiling.tilings import Tiling

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class TiledTensor:
    """A tensor and its tiles.

    Parameters
    ----------
    source
        The tensor; tiles never share memory with it.
    grid
        Where the tiles lie.
    tiles
        The tiles by their position, one number per rank.
    """

    source: Array
    grid: Grid
    tiles: dict[Shape, Array]

    def fill(self) -> None:
        """Copy the tensor's data into all tiles, over what is in them."""
        for index, tile in self.tiles.items():
            tile[...] = self.source[_slices(self.grid, index)]

    def gathered(self) -> Array:
        """Return the tensor that the tiles make up."""
        whole = self.source.copy()
        for index, tile in self.tiles.items():
            whole[_slices(self.grid, index)] = tile
        return whole


def cut_tensor(tensor: Array, grid: Grid, copy: bool) -> TiledTensor:
    """Cut a tensor into the tiles of a grid."""
    tiles = {
        index: np.zeros(tuple(span.size for span in grid.spans(index)), tensor.dtype)
        for index in grid.indices()
    }
    tiled = TiledTensor(tensor, grid, tiles)
    if copy:
        tiled.fill()
    return tiled


def stored_row(tensor: Array, alignment: int) -> Array:
    """Return the storage of a tensor as one row."""
    missing = -tensor.shape[-1] % alignment
    padded = np.pad(tensor, [(0, 0)] * (tensor.ndim - 1) + [(0, missing)])
    return padded.reshape(1, -1)


def from_row(row: Array, shape: Shape, alignment: int) -> Array:
    """Return the tensor whose storage is given; undoes `stored_row`."""
    padded = shape[-1] + -shape[-1] % alignment
    return row.reshape(*shape[:-1], padded)[..., : shape[-1]]


def as_slice(span: RankSpan, origin: int = 0) -> slice:
    """Return a span as a slice of what begins at `origin` of the rank."""
    return slice(span.start - origin, span.stop - origin)


def overlap(one: RankSpan, other: RankSpan) -> RankSpan:
    """Return what both cover; its size is at most 0 if there is nothing."""
    return RankSpan(max(one.start, other.start), min(one.stop, other.stop))


def _slices(grid: Grid, index: Shape) -> tuple[slice, ...]:
    return tuple(as_slice(span) for span in grid.spans(index))


Elementwise = Callable[..., Array]
Windows = tuple[Window, Window]


def untiled(operator: Operator, tensors: Mapping[str, Array], function: Elementwise | None = None) -> Array:
    """Return the outputs of an operator, computed at once.

    Parameters
    ----------
    operator
        What is computed.
    tensors
        The operands by name, of the shapes ``operator.shapes``; they are not changed.
    function
        What an element-wise operator does with its one or two operands.

    Returns
    -------
    ndarray
        Of the shape ``operator.shapes["outputs"]``.

    Raises
    ------
    ValueError
        If an operand is missing or of another shape, or an element-wise operator is given no function.
    """
    check_operands(operator, tensors)
    inputs = tensors[INPUTS]
    if isinstance(operator, Convolution):
        rows, columns = operator.windows
        margins = ((0, 0), (rows.before, rows.after), (columns.before, columns.after), (0, 0))
        return convolve(np.pad(inputs, margins), tensors[WEIGHTS], operator.windows)
    if isinstance(operator, InnerProduct):
        return inner_product(inputs, tensors[WEIGHTS])
    if isinstance(operator, Pooling):
        return pool(inputs, operator.windows, operator.average)
    if isinstance(operator, BatchNorm):
        return normalise(inputs, tensors[WEIGHTS])
    if isinstance(operator, Softmax):
        return softmax(inputs)
    return applied(function, [tensors[name] for name in (INPUTS, SECOND_INPUTS) if name in tensors])


def check_operands(operator: Operator, tensors: Mapping[str, Array]) -> None:
    """Check the operands of an operator.

    Raises
    ------
    ValueError
        One is missing, too many, or of another shape.
    """
    wanted = {name: shape for name, shape in operator.shapes.items() if name != OUTPUTS}
    shapes = {name: tensor.shape for name, tensor in tensors.items()}
    if shapes != wanted:
        raise ValueError(f"{operator.name} takes operands of the shapes {wanted}, not {shapes}")


def applied(function: Elementwise | None, operands: Sequence[Array]) -> Array:
    """Apply what an element-wise operator does.

    Raises
    ------
    ValueError
        `function` is None.
    """
    if function is None:
        raise ValueError("an element-wise operator needs a function")
    return function(*operands)


def convolve(padded: Array, weights: Array, windows: Windows) -> Array:
    """Correlate images with a filter."""
    parts = [part @ weights[:, row, column, :].T for (row, column), part in _parts(padded, windows)]
    total: Array = np.add.reduce(parts)
    return total


def inner_product(inputs: Array, weights: Array) -> Array:
    """Multiply vectors with a matrix."""
    products: Array = inputs @ weights.T
    return products


def pool(inputs: Array, windows: Windows, average: bool) -> Array:
    """Return the maximum or the average of each window."""
    parts = np.stack([part for _, part in _parts(inputs, windows)])
    pooled: Array = parts.mean(axis=0) if average else parts.max(axis=0)
    return pooled


def normalise(inputs: Array, weights: Array) -> Array:
    """Return ``gamma * (inputs - mean) * scale + beta`` along the last rank."""
    mean, scale, gamma, beta = weights
    normalised: Array = gamma * ((inputs - mean) * scale) + beta
    return normalised


def softmax(inputs: Array) -> Array:
    """Return the softmax of each row of inputs of the shape ``(N, C)``."""
    powers = np.exp(inputs - inputs.max(axis=1, keepdims=True))
    shares: Array = powers / powers.sum(axis=1, keepdims=True)
    return shares


def _parts(inputs: Array, windows: Windows) -> list[tuple[tuple[int, int], Array]]:
    """Return, per place in the window, the elements that stand there in each window."""
    rows, columns = (
        Window(window.field, window.stride).positions(extent)
        for window, extent in zip(windows, inputs.shape[1:3], strict=True)
    )
    down, across = windows
    return [
        (
            (row, column),
            inputs[:, row :: down.stride, column :: across.stride][:, :rows, :columns],
        )
        for row, column in product(range(down.field), range(across.field))
    ]


Pair = tuple[int, int, RankSpan]
"""A stretch of one cut, one of another, and what they share."""


@dataclass(frozen=True, slots=True)
class Step:
    """One call of the accelerator.

    Parameters
    ----------
    inputs, weights, outputs
        Positions of the tiles; a second tensor of inputs stands where the first one does.
    region
        What is computed of the outputs, in the coordinates of the whole tensor.
    channels
        Which channels are summed up, or None if nothing is.
    first
        Whether the sum begins here; otherwise it goes on in the tile of outputs.
    """

    inputs: Shape
    outputs: Shape
    region: tuple[RankSpan, ...]
    weights: Shape | None = None
    channels: RankSpan | None = None
    first: bool = True


def steps(tiling: Tiling) -> Iterator[Step]:
    """Yield the calls of the accelerator in SMAUG's order.

    Convolution: batches, rows, columns of inputs, then tiles of weights by features, then those of
    outputs within, then channels, so that a sum is finished before the next one begins. Inner product:
    batches, features, channels. Pooling and batch normalisation: batches, rows, columns, channels.
    Element-wise operators and softmax: all tensors in lockstep.
    """
    operator = tiling.operator
    inputs, outputs = tiling[INPUTS].grid, tiling[OUTPUTS].grid
    if isinstance(operator, Convolution):
        return _convolution_steps(operator, inputs, tiling[WEIGHTS].grid, outputs)
    if isinstance(operator, InnerProduct):
        return _inner_product_steps(inputs, tiling[WEIGHTS].grid, outputs)
    if isinstance(operator, Pooling):
        return _pooling_steps(operator, inputs, outputs)
    if isinstance(operator, BatchNorm):
        return _batch_norm_steps(inputs, tiling[WEIGHTS].grid)
    return (Step(index, index, inputs.spans(index)) for index in inputs.indices())


def _convolution_steps(operator: Convolution, inputs: Grid, weights: Grid, outputs: Grid) -> Iterator[Step]:
    features = _pairs(weights.cuts[0], outputs.cuts[3])
    channels = _pairs(inputs.cuts[3], weights.cuts[3])
    places = product(*_places(operator, inputs, outputs), features)
    for (batch, rows, columns, feature), (number, channel) in product(places, enumerate(channels)):
        place = (batch, rows, columns)
        yield Step(
            inputs=(*(pair[0] for pair in place), channel[0]),
            outputs=(*(pair[1] for pair in place), feature[1]),
            region=(*(pair[2] for pair in place), feature[2]),
            weights=(feature[0], 0, 0, channel[1]),
            channels=channel[2],
            first=number == 0,
        )


def _inner_product_steps(inputs: Grid, weights: Grid, outputs: Grid) -> Iterator[Step]:
    batches = _pairs(inputs.cuts[0], outputs.cuts[0])
    features = _pairs(weights.cuts[0], outputs.cuts[1])
    channels = _pairs(inputs.cuts[1], weights.cuts[1])
    for batch, feature, (number, channel) in product(batches, features, enumerate(channels)):
        yield Step(
            inputs=(batch[0], channel[0]),
            outputs=(batch[1], feature[1]),
            region=(batch[2], feature[2]),
            weights=(feature[0], channel[1]),
            channels=channel[2],
            first=number == 0,
        )


def _pooling_steps(operator: Pooling, inputs: Grid, outputs: Grid) -> Iterator[Step]:
    channels = _pairs(inputs.cuts[3], outputs.cuts[3])
    for place in product(*_places(operator, inputs, outputs), channels):
        yield Step(
            inputs=tuple(pair[0] for pair in place),
            outputs=tuple(pair[1] for pair in place),
            region=tuple(pair[2] for pair in place),
        )


def _batch_norm_steps(inputs: Grid, weights: Grid) -> Iterator[Step]:
    channels = _pairs(inputs.cuts[-1], weights.cuts[-1])
    others = product(*(tuple(enumerate(cut)) for cut in inputs.cuts[:-1]))
    for place, channel in product(others, channels):
        index = (*(position for position, _ in place), channel[0])
        region = (*(span for _, span in place), channel[2])
        yield Step(index, index, region, weights=(0, channel[1]))


def _places(
    operator: Convolution | Pooling, inputs: Grid, outputs: Grid
) -> tuple[list[Pair], list[Pair], list[Pair]]:
    """Return pairs of tiles along batches, rows and columns, with what the one computes of the other."""
    rows, columns = (
        _pairs(tuple(windows_within(span, extent, window) for span in inputs.cuts[rank]), outputs.cuts[rank])
        for rank, extent, window in zip((1, 2), operator.input[1:3], operator.windows, strict=True)
    )
    return _pairs(inputs.cuts[0], outputs.cuts[0]), rows, columns


def _pairs(first: Cut, second: Cut) -> list[Pair]:
    """Return all pairs of stretches that share something, ordered by the first, then the second."""
    shared = (
        (i, j, overlap(one, other)) for (i, one), (j, other) in product(enumerate(first), enumerate(second))
    )
    return [pair for pair in shared if pair[2].size > 0]


def run_tiled(tiling: Tiling, tensors: Mapping[str, Array], function: Elementwise | None = None) -> Array:
    """Return the outputs of an operator, computed tile by tile.

    Parameters
    ----------
    tiling
        How the tensors are cut.
    tensors
        The operands by name, of the shapes ``tiling.operator.shapes``.
    function
        What an element-wise operator does with its one or two operands.

    Returns
    -------
    ndarray
        As `untiled` returns it: the same numbers for integers; for floating point
        sums over channels may be rounded differently, as they are taken in parts.

    Raises
    ------
    ValueError
        If an operand is missing or of another shape, or an element-wise operator is given no function.
    """
    operator, alignment = tiling.operator, tiling.backend.alignment
    check_operands(operator, tensors)
    flat = isinstance(operator, Unary)
    operands = {name: stored_row(tensor, alignment) if flat else tensor for name, tensor in tensors.items()}
    tiles = {name: cut_tensor(tensor, tiling[name].grid, copy=True) for name, tensor in operands.items()}
    outputs: TiledTensor | None = None
    for step in steps(tiling):
        part = _computed(tiling, step, tiles, function)
        if outputs is None:
            blank = np.zeros(tiling[OUTPUTS].shape, part.dtype)
            outputs = cut_tensor(blank, tiling[OUTPUTS].grid, copy=False)
        local = _local(step.region, outputs.grid.spans(step.outputs))
        target = outputs.tiles[step.outputs]
        target[local] = part if step.first else target[local] + part
    assert outputs is not None  # a tensor has at least one tile
    whole = outputs.gathered()
    return from_row(whole, operator.input, alignment) if flat else whole


def _computed(
    tiling: Tiling, step: Step, tiles: Mapping[str, TiledTensor], function: Elementwise | None
) -> Array:
    operator = tiling.operator
    inputs = tiles[INPUTS].tiles[step.inputs]
    where = tiles[INPUTS].grid.spans(step.inputs)
    if isinstance(operator, Softmax):
        return softmax(inputs)
    if isinstance(operator, Unary):
        operands = [tiles[name].tiles[step.inputs] for name in (INPUTS, SECOND_INPUTS) if name in tiles]
        return applied(function, operands)
    if isinstance(operator, Pooling):
        return pool(_window_inputs(operator, step, inputs, where), operator.windows, operator.average)
    assert step.weights is not None  # all other operators have some
    weights = tiles[WEIGHTS].tiles[step.weights]
    held = tiles[WEIGHTS].grid.spans(step.weights)
    if isinstance(operator, BatchNorm):
        return normalise(
            inputs[_local(step.region, where)], weights[:, as_slice(step.region[-1], held[-1].start)]
        )
    assert step.channels is not None  # the others sum up channels
    weights = weights[as_slice(step.region[-1], held[0].start), ..., as_slice(step.channels, held[-1].start)]
    if isinstance(operator, InnerProduct):
        rows = as_slice(step.region[0], where[0].start)
        return inner_product(inputs[rows, as_slice(step.channels, where[1].start)], weights)
    return convolve(_window_inputs(operator, step, inputs, where), weights, operator.windows)


def _window_inputs(
    operator: Convolution | Pooling, step: Step, inputs: Array, where: tuple[RankSpan, ...]
) -> Array:
    """Return what the windows of a step cover, zeros included where they reach over the tensor's ends."""
    channels = step.channels or step.region[-1]
    rows, columns = (
        _covered(windows, window) for windows, window in zip(step.region[1:3], operator.windows, strict=True)
    )
    inside = [
        step.region[0],
        overlap(rows, RankSpan(0, operator.input[1])),
        overlap(columns, RankSpan(0, operator.input[2])),
        channels,
    ]
    margins = [(0, 0)] + [
        (part.start - whole.start, whole.stop - part.stop)
        for whole, part in zip((rows, columns), inside[1:3], strict=True)
    ]
    return np.pad(inputs[_local(tuple(inside), where)], [*margins, (0, 0)])


def _covered(windows: RankSpan, window: Window) -> RankSpan:
    first = windows.start * window.stride - window.before
    last = (windows.stop - 1) * window.stride - window.before
    return RankSpan(first, last + window.field)


def _local(region: tuple[RankSpan, ...], tile: tuple[RankSpan, ...]) -> tuple[slice, ...]:
    """Return `region` as slices of a tile; it lies within, or a step would read what it does not have."""
    for part, whole in zip(region, tile, strict=True):
        assert whole.start <= part.start and part.stop <= whole.stop, "a step reaches beyond its tile"
    return tuple(as_slice(part, whole.start) for part, whole in zip(region, tile, strict=True))
