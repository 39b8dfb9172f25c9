"""Weights and outputs of operators with output features: convolution and inner product.

Weights begin with the rank of output features and end with that of channels; outputs end with features.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from model.tiling.backend import Backend
from model.tiling.strategy import Strategy
from solver.heuristics.smaug.enumeration import growing
from solver.heuristics.smaug.sizes import TileShape


@dataclass(frozen=True, slots=True)
class Strategies:
    """One strategy per tensor."""

    inputs: Strategy
    weights: Strategy
    outputs: Strategy


def weight_tiles(
    weights: TileShape, inputs: TileShape, chosen: Strategies, backend: Backend, repad: bool
) -> Iterator[TileShape]:
    """Yield the tiles of `weights` that fit and go with the tile `inputs`.

    Features grow by the number of PEs. Channels are those of the inputs' tile, unless the weights are cut
    along them and the inputs are not: then they grow by what a PE reduces at a time. `repad` says whether
    tiles that are cut along features alone are padded for themselves.
    """
    channels: Sequence[int] = (inputs.dims[-1],)
    if chosen.weights.cuts("C") and not chosen.inputs.cuts("C"):
        channels = growing(weights.dims[-1], backend.num_maccs_per_pe)
    features: Sequence[int] = (weights.dims[0],)
    if chosen.weights is not Strategy.NONE:
        features = growing(weights.dims[0], backend.num_pes)
    for feature_count in features:
        for channel_count in channels:
            tile = weights.shrunk((feature_count, *weights.dims[1:-1], channel_count))
            if repad and chosen.weights is Strategy.N:
                tile = TileShape.aligned(tile.dims, tile.alignment)
            if not tile.fits(backend.capacity):
                break
            yield tile


def output_features(weights: TileShape, features: int, chosen: Strategies, backend: Backend) -> Sequence[int]:
    """Return how many of all output `features` a tile of outputs may have beside the tile `weights`."""
    if chosen.outputs is Strategy.NONE:
        return (features,)
    if chosen.weights is not Strategy.NONE or chosen.outputs.cuts("H"):
        return (weights.dims[0],)
    return growing(features, backend.num_pes)
