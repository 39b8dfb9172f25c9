"""The tiling optimizer of pooling."""

from __future__ import annotations

from collections.abc import Iterator

from model.tiling.cuts import windowed_grid
from model.tiling.operators import INPUTS, OUTPUTS, Pooling
from model.tiling.tilings import Backend, Strategy, Tiling
from solver.heuristics.smaug.enumeration import Configuration, TileRule, best_strategy, fullest, tile_shapes
from solver.heuristics.smaug.sizes import TileShape
from solver.heuristics.smaug.tensors import plain_tensor, tensor_tiling


def tile_pooling(operator: Pooling, backend: Backend) -> Tiling:
    """Tile a pooling operator.

    Raises
    ------
    CannotTile
        No tiling fits.
    """
    inputs, outputs = (
        TileShape.aligned(operator.shapes[name], backend.alignment) for name in (INPUTS, OUTPUTS)
    )
    for_inputs, for_outputs = _strategies(operator, backend, inputs, outputs)
    candidates = _configurations(operator, backend, (for_inputs, for_outputs), (inputs, outputs))
    best = fullest(candidates, backend.capacity)
    grid = windowed_grid(inputs.dims, best.inputs.dims, operator.windows)
    tensors = (
        tensor_tiling(INPUTS, inputs.dims, for_inputs, best.inputs, grid, grid),
        plain_tensor(OUTPUTS, outputs, for_outputs, best.outputs),
    )
    return Tiling(operator, backend, tensors)


def _strategies(
    operator: Pooling, backend: Backend, inputs: TileShape, outputs: TileShape
) -> tuple[Strategy, Strategy]:
    order, capacity = backend.order(operator.name), backend.capacity
    for_inputs = best_strategy(INPUTS, inputs, (1, *operator.pool, backend.vector_size), capacity, order)
    for_outputs = best_strategy(OUTPUTS, outputs, (1, 1, 1, backend.vector_size), capacity, order)
    # Rows and columns of inputs and outputs come and go together.
    if for_inputs.cuts("H"):
        for_outputs = _also_along("H", for_outputs)
    if for_inputs.cuts("W"):
        for_outputs = _also_along("W", for_outputs)
    return for_inputs, for_outputs


def _also_along(axis: str, strategy: Strategy) -> Strategy:
    """Return `strategy` with `axis` cut as well; beside channels only one of rows and columns is."""
    if strategy.cuts("C"):
        return Strategy.NCH if axis == "H" else Strategy.NCW
    if strategy.cuts("W" if axis == "H" else "H"):
        return Strategy.NHW
    return Strategy.NH if axis == "H" else Strategy.NW


def _configurations(
    operator: Pooling,
    backend: Backend,
    chosen: tuple[Strategy, Strategy],
    tensors: tuple[TileShape, TileShape],
) -> Iterator[Configuration]:
    inputs, outputs = tensors
    for_inputs, for_outputs = chosen
    rule = TileRule((1, *operator.pool, backend.vector_size), (1, *operator.stride, backend.vector_size))
    for tile in tile_shapes(inputs, for_inputs, rule, backend.capacity):
        batch, rows, columns, channels = tile.dims
        cut = outputs.shrunk(
            (
                batch,
                operator.windows[0].positions(rows) if for_outputs.cuts("H") else outputs.dims[1],
                operator.windows[1].positions(columns) if for_outputs.cuts("W") else outputs.dims[2],
                channels if for_inputs.cuts("C") and for_outputs.cuts("C") else outputs.dims[3],
            )
        )
        if cut.fits(backend.capacity):
            yield Configuration(tile, cut)
