"""Runs the schedule of a tiling on arrays: every step sees its tiles and nothing else."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from model.tiling.arrays import Array, TiledTensor, cut_tensor, from_row, stored_row
from model.tiling.cuts import Span
from model.tiling.kernels import (
    Elementwise,
    applied,
    check_operands,
    convolve,
    inner_product,
    normalise,
    pool,
    softmax,
)
from model.tiling.operators import (
    INPUTS,
    OUTPUTS,
    SECOND_INPUTS,
    WEIGHTS,
    BatchNorm,
    Convolution,
    InnerProduct,
    Pooling,
    Softmax,
    Unary,
    Window,
)
from model.tiling.result import Tiling
from model.tiling.schedule import Step, steps


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
        As `model.tiling.kernels.untiled` returns it: the same numbers for integers; for floating point
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
            inputs[_local(step.region, where)], weights[:, step.region[-1].slice(held[-1].start)]
        )
    assert step.channels is not None  # the others sum up channels
    weights = weights[step.region[-1].slice(held[0].start), ..., step.channels.slice(held[-1].start)]
    if isinstance(operator, InnerProduct):
        rows = step.region[0].slice(where[0].start)
        return inner_product(inputs[rows, step.channels.slice(where[1].start)], weights)
    return convolve(_window_inputs(operator, step, inputs, where), weights, operator.windows)


def _window_inputs(
    operator: Convolution | Pooling, step: Step, inputs: Array, where: tuple[Span, ...]
) -> Array:
    """Return what the windows of a step cover, zeros included where they reach over the tensor's ends."""
    channels = step.channels or step.region[-1]
    rows, columns = (
        _covered(windows, window) for windows, window in zip(step.region[1:3], operator.windows, strict=True)
    )
    inside = [
        step.region[0],
        rows.overlap(Span(0, operator.input[1])),
        columns.overlap(Span(0, operator.input[2])),
        channels,
    ]
    margins = [(0, 0)] + [
        (part.start - whole.start, whole.stop - part.stop)
        for whole, part in zip((rows, columns), inside[1:3], strict=True)
    ]
    return np.pad(inputs[_local(tuple(inside), where)], [*margins, (0, 0)])


def _covered(windows: Span, window: Window) -> Span:
    first = windows.start * window.stride - window.before
    last = (windows.stop - 1) * window.stride - window.before
    return Span(first, last + window.field)


def _local(region: tuple[Span, ...], tile: tuple[Span, ...]) -> tuple[slice, ...]:
    """Return `region` as slices of a tile; it lies within, or a step would read what it does not have."""
    for part, whole in zip(region, tile, strict=True):
        assert whole.start <= part.start and part.stop <= whole.stop, "a step reaches beyond its tile"
    return tuple(part.slice(whole.start) for part, whole in zip(region, tile, strict=True))
