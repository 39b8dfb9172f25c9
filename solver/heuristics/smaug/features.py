"""Weights and outputs of operators with output features: convolution and inner product.

Weights begin with the rank of output features and end with that of channels; outputs end with features.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile

from model.tiling.operators import Shape
from model.tiling.tilings import Backend, Strategy
from solver.heuristics.smaug.enumeration import growing
from solver.heuristics.smaug.sizes import TileShape


@dataclass(frozen=True, slots=True)
class Strategies:
    """One strategy per tensor."""

    inputs: Strategy
    weights: Strategy
    outputs: Strategy


def feature_combinations(
    tiles: Iterable[TileShape], weights: TileShape, chosen: Strategies, backend: Backend, repad: bool
) -> Iterator[tuple[TileShape, TileShape, int]]:
    """Yield each tile of inputs with each tile of `weights` that goes with it, and features of outputs.

    `repad` says whether weights that are cut along features alone are padded for themselves.
    """
    for inputs in tiles:
        for tile in _weight_tiles(weights, inputs, chosen, backend, repad):
            yield from ((inputs, tile, count) for count in _output_features(tile, weights, chosen, backend))


def _weight_tiles(
    weights: TileShape, inputs: TileShape, chosen: Strategies, backend: Backend, repad: bool
) -> Iterator[TileShape]:
    """Yield the tiles of `weights` that fit and go with the tile `inputs`.

    Features grow by the number of PEs. Channels are those of the inputs' tile, unless the weights are cut
    along them and the inputs are not: then they grow by what a PE reduces at a time.
    """
    channels: Sequence[int] = (inputs.dims[-1],)
    if chosen.weights.cuts("C") and not chosen.inputs.cuts("C"):
        channels = growing(weights.dims[-1], backend.num_maccs_per_pe)
    features: Sequence[int] = (weights.dims[0],)
    if chosen.weights is not Strategy.NONE:
        features = growing(weights.dims[0], backend.num_pes)
    for feature_count in features:
        sizes = ((feature_count, *weights.dims[1:-1], channel_count) for channel_count in channels)
        tiles = (_tile(weights, size, chosen, repad) for size in sizes)
        fitting = list(takewhile(lambda tile: tile.fits(backend.capacity), tiles))
        if not fitting:
            return
        yield from fitting


def _output_features(
    tile: TileShape, weights: TileShape, chosen: Strategies, backend: Backend
) -> Sequence[int]:
    """Return how many features a tile of outputs may have beside the tile of `weights`."""
    if chosen.outputs is Strategy.NONE:
        return (weights.dims[0],)
    if chosen.weights is not Strategy.NONE or chosen.outputs.cuts("H"):
        return (tile.dims[0],)
    return growing(weights.dims[0], backend.num_pes)


def _tile(weights: TileShape, dims: Shape, chosen: Strategies, repad: bool) -> TileShape:
    if repad and chosen.weights is Strategy.N:
        return TileShape.aligned(dims, weights.alignment)
    return weights.shrunk(dims)
