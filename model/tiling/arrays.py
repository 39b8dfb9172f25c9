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
        """Copy the tensor's data into all tiles, over what is in them."""
        for index, tile in self.tiles.items():
            tile[...] = self.source[_slices(self.grid, index)]

    def gathered(self) -> Array:
        """Return the tensor that the tiles make up."""
        whole = self.source.copy()
        for index, tile in self.tiles.items():
            whole[_slices(self.grid, index)] = tile
        return whole


def cut_tensor(tensor: Array, grid: Grid, copy: bool) -> TiledTensor:
    """Cut a tensor into the tiles of a grid."""
    tiles = {
        index: np.zeros(tuple(span.size for span in grid.spans(index)), tensor.dtype)
        for index in grid.indices()
    }
    tiled = TiledTensor(tensor, grid, tiles)
    if copy:
        tiled.fill()
    return tiled


def plain_tiles(tensor: Array, tile: Shape, copy: bool = True) -> TiledTensor:
    """Cut a tensor into tiles that do not overlap.

    Raises
    ------
    TooManyTilesError
        A rank would be cut into too many stretches.
    ValueError
        `tile` has not one number per rank.
    """
    return cut_tensor(tensor, plain_grid(tensor.shape, tile), copy)


def windowed_tiles(
    tensor: Array, tile: Shape, windows: tuple[Window, Window], copy: bool = True
) -> TiledTensor:
    """Cut a tensor into tiles that overlap by what sliding windows share.

    Padding is not part of a tile; it makes the first one smaller, see `windowed_cut`.

    Raises
    ------
    TooManyTilesError
        A rank would be cut into too many stretches.
    ValueError
        Tiles would not advance, as they are not larger than the halo.
    """
    return cut_tensor(tensor, windowed_grid(tensor.shape, tile, windows), copy)


def tiles_per_batch(tensor: Array, elements: int, alignment: int, copy: bool = True) -> TiledTensor:
    """Cut the storage of a tensor, as one row, into pieces, whatever its ranks are.

    Raises
    ------
    TooManyTilesError
        There would be too many pieces.
    """
    return plain_tiles(stored_row(tensor, alignment), (1, elements), copy)


def stored_row(tensor: Array, alignment: int) -> Array:
    """Return the storage of a tensor as one row."""
    missing = -tensor.shape[-1] % alignment
    padded = np.pad(tensor, [(0, 0)] * (tensor.ndim - 1) + [(0, missing)])
    return padded.reshape(1, -1)


def from_row(row: Array, shape: Shape, alignment: int) -> Array:
    """Return the tensor whose storage is given; undoes `stored_row`."""
    padded = shape[-1] + -shape[-1] % alignment
    return row.reshape(*shape[:-1], padded)[..., : shape[-1]]


def _slices(grid: Grid, index: Shape) -> tuple[slice, ...]:
    return tuple(span.slice() for span in grid.spans(index))
