"""The tiling optimizer of inner products."""

from __future__ import annotations

from collections.abc import Iterator

from model.tiling.operators import INPUTS, OUTPUTS, WEIGHTS, InnerProduct
from model.tiling.tilings import Backend, Strategy, Tiling
from solver.heuristics.smaug.enumeration import Configuration, TileRule, best_strategy, fullest, tile_shapes
from solver.heuristics.smaug.features import Strategies, feature_combinations
from solver.heuristics.smaug.sizes import TileShape
from solver.heuristics.smaug.tensors import plain_tensor


def tile_inner_product(operator: InnerProduct, backend: Backend) -> Tiling:
    """Tile an inner product.

    Raises
    ------
    CannotTile
        No tiling fits.
    """
    inputs, weights, outputs = (
        TileShape.aligned(operator.shapes[name], backend.alignment) for name in (INPUTS, WEIGHTS, OUTPUTS)
    )
    chosen = _strategies(operator, backend, (inputs, weights, outputs))
    candidates = _configurations(backend, chosen, (inputs, weights, outputs))
    best = fullest(candidates, backend.capacity)
    assert best.weights is not None  # every configuration of an inner product has some
    tensors = (
        plain_tensor(INPUTS, inputs, chosen.inputs, best.inputs),
        plain_tensor(WEIGHTS, weights, chosen.weights, best.weights),
        plain_tensor(OUTPUTS, outputs, chosen.outputs, best.outputs),
    )
    return Tiling(operator, backend, tensors)


def _strategies(
    operator: InnerProduct, backend: Backend, tensors: tuple[TileShape, TileShape, TileShape]
) -> Strategies:
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


def _configurations(
    backend: Backend, chosen: Strategies, tensors: tuple[TileShape, TileShape, TileShape]
) -> Iterator[Configuration]:
    inputs, weights, outputs = tensors
    rule = TileRule((1, backend.num_maccs_per_pe), (1, backend.num_maccs_per_pe))
    tiles = tile_shapes(inputs, chosen.inputs, rule, backend.capacity)
    for input_tile, weight_tile, features in feature_combinations(
        tiles, weights, chosen, backend, repad=True
    ):
        tile = outputs.shrunk((input_tile.dims[0], features))
        if tile.fits(backend.capacity):
            yield Configuration(input_tile, tile, weight_tile)
