"""The tiling optimizer of batch normalisation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from model.tiling.operators import INPUTS, OUTPUTS, WEIGHTS, BatchNorm
from model.tiling.tilings import Backend, Strategy, Tiling
from solver.heuristics.smaug.enumeration import (
    CannotTile,
    Configuration,
    TileRule,
    best_strategy,
    fullest,
    growing,
    tile_shapes,
)
from solver.heuristics.smaug.sizes import TileShape
from solver.heuristics.smaug.tensors import plain_tensor


def tile_batch_norm(operator: BatchNorm, backend: Backend) -> Tiling:
    """Tile a batch normalisation.

    Raises
    ------
    CannotTile
        No tiling fits, or what follows a convolution has weights that do not fit whole.
    """
    inputs, weights = (
        TileShape.aligned(operator.shapes[name], backend.alignment) for name in (INPUTS, WEIGHTS)
    )
    vector = backend.vector_size
    order, capacity = backend.order(operator.name), backend.capacity
    useful = (1, *(vector for _ in inputs.dims[1:]))
    for_inputs = best_strategy(INPUTS, inputs, useful, capacity, order)
    for_weights = best_strategy(WEIGHTS, weights, (4, vector), capacity, order)
    if len(inputs.dims) == 4 and for_weights is not Strategy.NONE:
        raise CannotTile(
            f"after a convolution the weights {list(weights.dims)} must fit whole into {capacity} elements"
        )
    tiles = tile_shapes(inputs, for_inputs, TileRule(useful, useful), capacity)
    best = fullest(_configurations(tiles, (for_inputs, for_weights), weights, backend), capacity)
    assert best.weights is not None  # every configuration of a batch normalisation has some
    tensors = (
        plain_tensor(INPUTS, inputs, for_inputs, best.inputs),
        plain_tensor(WEIGHTS, weights, for_weights, best.weights),
        plain_tensor(OUTPUTS, inputs, for_inputs, best.outputs),
    )
    return Tiling(operator, backend, tensors)


def _configurations(
    tiles: Iterator[TileShape], chosen: tuple[Strategy, Strategy], weights: TileShape, backend: Backend
) -> Iterator[Configuration]:
    for_inputs, for_weights = chosen
    follow = for_weights is not Strategy.NONE and for_inputs.cuts("C")
    channel_counts: Sequence[int] = (weights.dims[-1],)
    if for_weights is not Strategy.NONE:
        channel_counts = growing(weights.dims[-1], backend.vector_size)
    pairs = (
        (tile, weights.shrunk((weights.dims[0], channels)))
        for tile in tiles
        for channels in ((tile.dims[-1],) if follow else channel_counts)
    )
    for tile, cut in pairs:
        if cut.fits(backend.capacity):
            yield Configuration(tile, tile, cut)
        elif follow:
            # SMAUG looks at no further tile of inputs here, larger batches of fewer channels included.
            return
