"""SMAUG's tiling optimizers: from an operator and a backend to a tiling.

SMAUG's own lists of tiles are not always complete or exact, see `missing`; the schedule of this package goes
through tiles that are (`model.tiling.cuts`). Both are kept: one to compare with SMAUG, the other to compute.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise

from model.tiling.cuts import (
    NO_WINDOW,
    Cut,
    Grid,
    RankSpan,
    TooManyTilesError,
    plain_cut,
    plain_grid,
    windowed_cut,
    windowed_grid,
    windows_within,
)
from model.tiling.operators import (
    INPUTS,
    OUTPUTS,
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
from model.tiling.tilings import Backend, Strategy, TensorTiling, Tiling
from solver.heuristics.smaug.tile_shapes import (
    CannotTile,
    Configuration,
    Strategies,
    TileRule,
    TileShape,
    best_strategy,
    feature_combinations,
    fullest,
    growing,
    tile_shapes,
)


def plain_tensor(name: str, tensor: TileShape, strategy: Strategy | None, tile: TileShape) -> TensorTiling:
    """Cut `tensor` into tiles of the shape `tile` that do not overlap."""
    grid = plain_grid(tensor.dims, tile.dims)
    return tensor_tiling(name, tensor.dims, strategy, tile, grid, grid)


def tensor_tiling(
    name: str, shape: Shape, strategy: Strategy | None, tile: TileShape, grid: Grid, listed: Grid
) -> TensorTiling:
    """Return the tiling of a tensor of `shape` whose basic tile is `tile`."""
    return TensorTiling(name, shape, strategy, tile.dims, tile.counted, grid, listed)


def _padded(operator: Operator, backend: Backend) -> list[TileShape]:
    """Return the tensors of an operator, each padded to the alignment."""
    return [TileShape.aligned(shape, backend.alignment) for shape in operator.shapes.values()]


def tile_convolution(operator: Convolution, backend: Backend) -> Tiling:
    """Tile a convolution; its notes say where SMAUG's own list of tiles is another."""
    inputs, weights, whole = _padded(operator, backend)
    # SMAUG infers the outputs of a convolution for a batch of one, and plans with that.
    outputs = whole.shrunk((1, *whole.dims[1:]))
    chosen = _conv_strategies(operator, backend, inputs, weights, outputs)
    candidates = _conv_configurations(operator, backend, chosen, (inputs, weights, outputs))
    input_tile, weight_tile, output_tile = fullest(candidates, backend.capacity)
    input_grid = windowed_grid(operator.input, input_tile.dims, operator.windows)
    input_list = listed_inputs(operator.input, input_tile.dims, operator.windows)
    output_grid = _output_grid(operator, input_grid, output_tile)
    by_features = plain_tensor(WEIGHTS, weights, chosen.weights, weight_tile)
    output_list = plain_grid(outputs.dims, output_tile.dims)
    if chosen.outputs.cuts("H"):
        output_list = listed_rowwise_outputs(operator, input_list, by_features.grid)
    tensors = (
        tensor_tiling(INPUTS, operator.input, chosen.inputs, input_tile, input_grid, input_list),
        by_features,
        tensor_tiling(OUTPUTS, whole.dims, chosen.outputs, output_tile, output_grid, output_list),
    )
    remarks = (*missing(INPUTS, input_list, input_grid), *missing(OUTPUTS, output_list, output_grid))
    return Tiling(operator, backend, tensors, remarks)


def _conv_strategies(
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


def _conv_configurations(
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
            yield input_tile, weight_tile, tile


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
        (plain_cut(batch, tile.dims[0]), row_cut, (RankSpan(0, columns),), plain_cut(features, tile.dims[3]))
    )


def _computed_rows(operator: Convolution, input_rows: Cut) -> Cut:
    # With a stride the last tile of inputs may not hold a single window.
    spans = (windows_within(span, operator.input[1], operator.windows[0]) for span in input_rows)
    return tuple(span for span in spans if span.size > 0)


def listed_inputs(shape: Shape, tile: Shape, windows: tuple[Window, Window]) -> Grid:
    """Return the tiles of NHWC inputs: the first tile is not made smaller if it holds one window only."""
    along = (NO_WINDOW, *windows, NO_WINDOW)
    return Grid(
        tuple(
            windowed_cut(extent, size, window, _first_size(size, window))
            for extent, size, window in zip(shape, tile, along, strict=True)
        )
    )


def listed_rowwise_outputs(operator: Convolution, inputs: Grid, weights: Grid) -> Grid:
    """Return the tiles of outputs that are cut along rows: what each of the listed inputs computes.

    The first tile has the padding in front alone, even if it is the last one as well. The last tile is
    left out if it does not hold a window.
    """
    window = operator.windows[0]
    sizes = [span.size for span in inputs.cuts[1]]
    if sizes[-1] + window.after < window.field:
        sizes.pop()
    rows = [_window_rows(size, window) for size in sizes]
    if len(rows) > 1:
        rows[-1] = _window_rows(sizes[-1] + window.after, window)
    if rows:
        rows[0] = _window_rows(sizes[0] + window.before, window)
    columns = operator.windows[1].positions(operator.input[2])
    return Grid((inputs.cuts[0], _stacked(rows), (RankSpan(0, columns),), weights.cuts[0]))


def missing(what: str, listed: Grid, scheduled: Grid) -> tuple[str, ...]:
    """Return a remark where SMAUG's list of a tensor's tiles is not the schedule's, else nothing."""
    if listed == scheduled:
        return ()
    return (
        f"{what}: count, first and last are those of SMAUG's list of {listed.count} tiles, which does not "
        f"cover what the operator computes; the schedule goes through {scheduled.count} tiles that do",
    )


def _first_size(tile: int, window: Window) -> int:
    steps = (tile + window.before - window.field) // window.stride
    return tile if steps <= 0 else window.field + steps * window.stride - window.before


def _window_rows(size: int, window: Window) -> int:
    return (size - window.field) // window.stride + 1


def _stacked(sizes: list[int]) -> Cut:
    ends = accumulate(sizes, initial=0)
    return tuple(RankSpan(start, stop) for start, stop in pairwise(ends))


def tile_inner_product(operator: InnerProduct, backend: Backend) -> Tiling:
    """Tile an inner product."""
    tensors = _padded(operator, backend)
    chosen = _product_strategies(operator, backend, tensors)
    best = fullest(_product_configurations(backend, chosen, tensors), backend.capacity)
    return Tiling(operator, backend, tuple(map(plain_tensor, operator.shapes, tensors, chosen, best)))


def _product_strategies(operator: InnerProduct, backend: Backend, tensors: Sequence[TileShape]) -> Strategies:
    inputs, weights, outputs = tensors
    order, capacity = backend.order(operator.name), backend.capacity
    for_inputs = best_strategy(INPUTS, inputs, (1, backend.num_maccs_per_pe), capacity, order)
    for_weights = best_strategy(
        WEIGHTS, weights, (backend.num_pes, backend.num_maccs_per_pe), capacity, order
    )
    for_outputs = best_strategy(OUTPUTS, outputs, (1, backend.num_pes), capacity, order)
    # Outputs that do not fit leave feature by feature, as the weights come.
    if for_weights is not Strategy.NONE and for_outputs is not Strategy.NONE:
        for_outputs = Strategy.NC
    return Strategies(for_inputs, for_weights, for_outputs)


def _product_configurations(
    backend: Backend, chosen: Strategies, tensors: Sequence[TileShape]
) -> Iterator[Configuration]:
    inputs, weights, outputs = tensors
    rule = TileRule((1, backend.num_maccs_per_pe), (1, backend.num_maccs_per_pe))
    tiles = tile_shapes(inputs, chosen.inputs, rule, backend.capacity)
    for input_tile, weight_tile, features in feature_combinations(
        tiles, weights, chosen, backend, repad=True
    ):
        tile = outputs.shrunk((input_tile.dims[0], features))
        if tile.fits(backend.capacity):
            yield input_tile, weight_tile, tile


def tile_pooling(operator: Pooling, backend: Backend) -> Tiling:
    """Tile a pooling operator."""
    inputs, outputs = _padded(operator, backend)
    for_inputs, for_outputs = _pooling_strategies(operator, backend, inputs, outputs)
    candidates = _pooling_configurations(operator, backend, (for_inputs, for_outputs), (inputs, outputs))
    input_tile, output_tile = fullest(candidates, backend.capacity)
    grid = windowed_grid(inputs.dims, input_tile.dims, operator.windows)
    tensors = (
        tensor_tiling(INPUTS, inputs.dims, for_inputs, input_tile, grid, grid),
        plain_tensor(OUTPUTS, outputs, for_outputs, output_tile),
    )
    return Tiling(operator, backend, tensors)


def _pooling_strategies(
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


def _pooling_configurations(
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
            yield tile, cut


def tile_batch_norm(operator: BatchNorm, backend: Backend) -> Tiling:
    """Tile a batch normalisation."""
    tensors = _padded(operator, backend)
    inputs, weights, _ = tensors
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
    best = fullest(_norm_configurations(tiles, (for_inputs, for_weights), weights, backend), capacity)
    strategies = (for_inputs, for_weights, for_inputs)
    return Tiling(operator, backend, tuple(map(plain_tensor, operator.shapes, tensors, strategies, best)))


def _norm_configurations(
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
            yield tile, cut, tile
        elif follow:
            # SMAUG looks at no further tile of inputs here, larger batches of fewer channels included.
            return


def tile_elementwise(operator: Unary, backend: Backend) -> Tiling:
    """Tile an operator on single elements: the storage as one row, in pieces that fill a scratchpad."""
    largest = backend.capacity - backend.capacity % backend.alignment
    if largest == 0:
        raise CannotTile(
            f"a scratchpad of {backend.capacity} elements is smaller than one aligned block of "
            f"{backend.alignment}"
        )
    elements = TileShape.aligned(operator.input, backend.alignment).stored
    row = TileShape.aligned((1, elements), backend.alignment)
    tile = row.shrunk((1, min(elements, largest)))
    return Tiling(operator, backend, tuple(plain_tensor(name, row, None, tile) for name in operator.shapes))


def tile_softmax(operator: Softmax, backend: Backend) -> Tiling:
    """Tile a softmax by batches: each of its rows needs all channels at a time."""
    tensor = TileShape.aligned(operator.input, backend.alignment)
    items, channels = operator.input
    per_item = tensor.stored // items
    if per_item > backend.capacity:
        raise CannotTile(
            f"a row of {per_item} elements must fit into a scratchpad of {backend.capacity}: "
            "softmax is cut by batches only"
        )
    tile = tensor.shrunk((min(items, backend.capacity // per_item), channels))
    strategy = Strategy.NONE if tile.dims[0] == items else Strategy.N
    return Tiling(
        operator, backend, tuple(plain_tensor(name, tensor, strategy, tile) for name in (INPUTS, OUTPUTS))
    )


def tile(operator: Operator, backend: Backend) -> Tiling:
    """Choose strategies and tile shapes, and cut the tensors into tiles that fit into a scratchpad each.

    Raises
    ------
    CannotTile
        If no strategy, or no combination of tile shapes, fits, or the tiles are too many to list.
    """
    try:
        return _tiling_of(operator, backend)
    except TooManyTilesError as error:
        raise CannotTile(str(error)) from error


def _tiling_of(operator: Operator, backend: Backend) -> Tiling:
    if isinstance(operator, Convolution):
        return tile_convolution(operator, backend)
    if isinstance(operator, InnerProduct):
        return tile_inner_product(operator, backend)
    if isinstance(operator, Pooling):
        return tile_pooling(operator, backend)
    if isinstance(operator, BatchNorm):
        return tile_batch_norm(operator, backend)
    if isinstance(operator, Softmax):
        return tile_softmax(operator, backend)
    return tile_elementwise(operator, backend)
