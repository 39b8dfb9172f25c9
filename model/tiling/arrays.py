"""Tiles as arrays: cut out of a tensor, filled, and put together again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from model.tiling.cuts import Grid, plain_grid, windowed_grid
from model.tiling.operators import Shape, Window

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class TiledTensor:
    """A tensor and its tiles.

    Parameters
    ----------
    source
        The tensor; tiles never share memory with it.
    grid
        Where the tiles lie.
    tiles
        The tiles by their position, one number per rank.
    """

    source: Array
    grid: Grid
    tiles: dict[Shape, Array]

    def fill(self) -> None:
        """Copy the tensor's data into all tiles."""
        for index, tile in self.tiles.items():
            tile[...] = self.source[_slices(self.grid, index)]

    def gathered(self) -> Array:
        """Return the tensor that the tiles make up; where tiles overlap, a later one counts.

        Elements that lie in no tile are those of `source`.
        """
        whole = self.source.copy()
        for index, tile in self.tiles.items():
            whole[_slices(self.grid, index)] = tile
        return whole


def cut_tensor(tensor: Array, grid: Grid, copy: bool) -> TiledTensor:
    """Cut `tensor` into the tiles of `grid`, filled with its data if `copy`, else with zeros.

    Outputs need no copy: what is in them is overwritten.
    """
    tiles = {
        index: np.zeros(tuple(span.size for span in grid.spans(index)), tensor.dtype)
        for index in grid.indices()
    }
    tiled = TiledTensor(tensor, grid, tiles)
    if copy:
        tiled.fill()
    return tiled


def plain_tiles(tensor: Array, tile: Shape, copy: bool = True) -> TiledTensor:
    """Cut `tensor` into tiles of the shape `tile` that do not overlap."""
    return cut_tensor(tensor, plain_grid(tensor.shape, tile), copy)


def windowed_tiles(
    tensor: Array, tile: Shape, windows: tuple[Window, Window], copy: bool = True
) -> TiledTensor:
    """Cut an NHWC `tensor` into tiles that overlap by what sliding windows share.

    Padding is not part of a tile; it makes the first one smaller, see `windowed_cut`.
    """
    return cut_tensor(tensor, windowed_grid(tensor.shape, tile, windows), copy)


def tiles_per_batch(tensor: Array, elements: int, alignment: int, copy: bool = True) -> TiledTensor:
    """Cut the storage of `tensor`, as one row, into tiles (1, `elements`), whatever its ranks are."""
    return plain_tiles(stored_row(tensor, alignment), (1, elements), copy)


def stored_row(tensor: Array, alignment: int) -> Array:
    """Return the storage of `tensor`, shape (1, elements): its last rank padded to the alignment."""
    missing = -tensor.shape[-1] % alignment
    padded = np.pad(tensor, [(0, 0)] * (tensor.ndim - 1) + [(0, missing)])
    return padded.reshape(1, -1)


def from_row(row: Array, shape: Shape, alignment: int) -> Array:
    """Return the tensor of `shape` whose storage is `row`."""
    padded = shape[-1] + -shape[-1] % alignment
    return row.reshape(*shape[:-1], padded)[..., : shape[-1]]


def _slices(grid: Grid, index: Shape) -> tuple[slice, ...]:
    return tuple(span.slice() for span in grid.spans(index))
