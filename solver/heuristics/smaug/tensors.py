"""The tiling of one tensor, from its tile's shape."""

from __future__ import annotations

from model.tiling.cuts import Grid, plain_grid
from model.tiling.operators import Shape
from model.tiling.tilings import Strategy, TensorTiling
from solver.heuristics.smaug.sizes import TileShape


def plain_tensor(name: str, tensor: TileShape, strategy: Strategy | None, tile: TileShape) -> TensorTiling:
    """Cut `tensor` into tiles of the shape `tile` that do not overlap."""
    grid = plain_grid(tensor.dims, tile.dims)
    return tensor_tiling(name, tensor.dims, strategy, tile, grid, grid)


def tensor_tiling(
    name: str, shape: Shape, strategy: Strategy | None, tile: TileShape, grid: Grid, listed: Grid
) -> TensorTiling:
    """Return the tiling of a tensor of `shape` whose basic tile is `tile`."""
    return TensorTiling(name, shape, strategy, tile.dims, tile.counted, grid, listed)
