"""The tiling optimizer of convolutions."""

from __future__ import annotations

from collections.abc import Iterator

from model.tiling.cuts import Cut, Grid, Span, plain_cut, plain_grid, windowed_grid, windows_within
from model.tiling.operators import INPUTS, OUTPUTS, WEIGHTS, Convolution, Window
from model.tiling.tilings import Backend, Strategy, Tiling
from solver.heuristics.smaug.enumeration import Configuration, TileRule, best_strategy, fullest, tile_shapes
from solver.heuristics.smaug.features import Strategies, feature_combinations
from solver.heuristics.smaug.listing import listed_inputs, listed_rowwise_outputs, missing
from solver.heuristics.smaug.sizes import TileShape
from solver.heuristics.smaug.tensors import plain_tensor, tensor_tiling


def tile_convolution(operator: Convolution, backend: Backend) -> Tiling:
    """Tile a convolution; its notes say where SMAUG's own list of tiles is another.

    Raises
    ------
    CannotTile
        No tiling fits.
    """
    shapes = operator.shapes
    inputs, weights = (TileShape.aligned(shapes[name], backend.alignment) for name in (INPUTS, WEIGHTS))
    # SMAUG infers the outputs of a convolution for a batch of one, and plans with that.
    outputs = TileShape.aligned((1, *shapes[OUTPUTS][1:]), backend.alignment)
    chosen = _strategies(operator, backend, inputs, weights, outputs)
    candidates = _configurations(operator, backend, chosen, (inputs, weights, outputs))
    best = fullest(candidates, backend.capacity)
    assert best.weights is not None  # every configuration of a convolution has some
    input_grid = windowed_grid(operator.input, best.inputs.dims, operator.windows)
    input_list = listed_inputs(operator.input, best.inputs.dims, operator.windows)
    output_grid = _output_grid(operator, input_grid, best.outputs)
    by_features = plain_tensor(WEIGHTS, weights, chosen.weights, best.weights)
    output_list = plain_grid(outputs.dims, best.outputs.dims)
    if chosen.outputs.cuts("H"):
        output_list = listed_rowwise_outputs(operator, input_list, by_features.grid)
    tensors = (
        tensor_tiling(INPUTS, operator.input, chosen.inputs, best.inputs, input_grid, input_list),
        by_features,
        tensor_tiling(OUTPUTS, shapes[OUTPUTS], chosen.outputs, best.outputs, output_grid, output_list),
    )
    remarks = (*missing(INPUTS, input_list, input_grid), *missing(OUTPUTS, output_list, output_grid))
    return Tiling(operator, backend, tensors, remarks)


def _strategies(
    operator: Convolution, backend: Backend, inputs: TileShape, weights: TileShape, outputs: TileShape
) -> Strategies:
    order, capacity = backend.order(operator.name), backend.capacity
    rows, columns = operator.kernel
    for_inputs = best_strategy(
        INPUTS, inputs, (1, rows, inputs.dims[2], backend.num_maccs_per_pe), capacity, order
    )
    for_weights = best_strategy(
        WEIGHTS, weights, (backend.num_pes, rows, columns, backend.num_maccs_per_pe), capacity, order
    )
    for_outputs = best_strategy(OUTPUTS, outputs, (1, 1, outputs.dims[2], backend.num_pes), capacity, order)
    # Finished features leave after each tile of weights, so outputs are cut where weights are.
    if for_weights is not Strategy.NONE:
        for_outputs = Strategy.NC
    # Rows of inputs and outputs come and go together.
    if for_inputs.cuts("H"):
        for_outputs = Strategy.NCH if for_outputs.cuts("C") else Strategy.NH
    return Strategies(for_inputs, for_weights, for_outputs)


def _configurations(
    operator: Convolution,
    backend: Backend,
    chosen: Strategies,
    tensors: tuple[TileShape, TileShape, TileShape],
) -> Iterator[Configuration]:
    inputs, weights, outputs = tensors
    rule = TileRule(
        (1, operator.kernel[0], inputs.dims[2], backend.num_maccs_per_pe),
        (1, operator.stride[0], 1, backend.num_maccs_per_pe),
    )
    tiles = tile_shapes(inputs, chosen.inputs, rule, backend.capacity)
    for input_tile, weight_tile, features in feature_combinations(
        tiles, weights, chosen, backend, repad=False
    ):
        rows = _output_rows(operator, input_tile, outputs, chosen)
        tile = outputs.shrunk((input_tile.dims[0], rows, outputs.dims[2], features))
        if rows > 0 and tile.fits(backend.capacity):
            yield Configuration(input_tile, tile, weight_tile)


def _output_rows(operator: Convolution, inputs: TileShape, outputs: TileShape, chosen: Strategies) -> int:
    """Rows of outputs beside a tile of inputs: the most that any of its tiles computes, the first one."""
    if not chosen.outputs.cuts("H"):
        return outputs.dims[1]
    window = operator.windows[0]
    return Window(window.field, window.stride, window.before).positions(inputs.dims[1])


def _output_grid(operator: Convolution, inputs: Grid, tile: TileShape) -> Grid:
    """Cut the outputs: where the inputs are cut along rows, by the rows that their tiles compute."""
    batch, rows, columns, features = operator.shapes[OUTPUTS]
    row_cut = plain_cut(rows, tile.dims[1])
    if len(inputs.cuts[1]) > 1:
        row_cut = _computed_rows(operator, inputs.cuts[1])
    return Grid(
        (plain_cut(batch, tile.dims[0]), row_cut, (Span(0, columns),), plain_cut(features, tile.dims[3]))
    )


def _computed_rows(operator: Convolution, input_rows: Cut) -> Cut:
    # With a stride the last tile of inputs may not hold a single window.
    spans = (windows_within(span, operator.input[1], operator.windows[0]) for span in input_rows)
    return tuple(span for span in spans if span.size > 0)
