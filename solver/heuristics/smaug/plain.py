"""Tensors that are cut without overlap."""

from __future__ import annotations

from model.tiling.cuts import plain_grid
from model.tiling.result import TensorTiling
from model.tiling.strategy import Strategy
from solver.heuristics.smaug.sizes import TileShape


def plain_tensor(name: str, tensor: TileShape, strategy: Strategy | None, tile: TileShape) -> TensorTiling:
    """Cut `tensor` into tiles of the shape `tile` that do not overlap."""
    grid = plain_grid(tensor.dims, tile.dims)
    return TensorTiling(name, tensor.dims, strategy, tile.dims, tile.counted, grid, grid)
