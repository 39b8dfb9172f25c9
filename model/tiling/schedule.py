"""The loop nest over the tiles of an operator."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

from model.tiling.cuts import Cut, Grid, Span, windows_within
from model.tiling.operators import (
    INPUTS,
    OUTPUTS,
    WEIGHTS,
    BatchNorm,
    Convolution,
    InnerProduct,
    Pooling,
    Shape,
)
from model.tiling.result import Tiling

Pair = tuple[int, int, Span]
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
    region: tuple[Span, ...]
    weights: Shape | None = None
    channels: Span | None = None
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
        (i, j, one.overlap(other)) for (i, one), (j, other) in product(enumerate(first), enumerate(second))
    )
    return [pair for pair in shared if pair[2].size > 0]
