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
        """Return the tensor that the tiles make up.

        Returns
        -------
        ndarray
            A new one, of the shape and type of ``source``. Where tiles overlap, a later one counts; elements
            that lie in no tile are those of ``source``.
        """
        whole = self.source.copy()
        for index, tile in self.tiles.items():
            whole[_slices(self.grid, index)] = tile
        return whole


def cut_tensor(tensor: Array, grid: Grid, copy: bool) -> TiledTensor:
    """Cut a tensor into the tiles of a grid.

    Parameters
    ----------
    tensor
        Of the shape that the grid was made for.
    grid
        Where the tiles lie.
    copy
        Whether tiles are filled with the data, else with zeros. Outputs need no copy: what is in them is
        overwritten.

    Returns
    -------
    TiledTensor
        Its tiles are new arrays of the tensor's type.
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
    """Cut a tensor into tiles that do not overlap.

    Parameters
    ----------
    tensor
        Of any number of ranks.
    tile
        Elements of a tile along each rank, at least 1; the last tile along a rank holds the rest.
    copy
        As for `cut_tensor`.

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

    Parameters
    ----------
    tensor
        Shape ``(N, H, W, C)``.
    tile
        Elements of a tile along each rank.
    windows
        What slides along rows and columns.
    copy
        As for `cut_tensor`.

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

    Parameters
    ----------
    tensor
        Of one rank or more.
    elements
        Of a piece, padding included; the last one holds the rest.
    alignment
        As for `stored_row`.
    copy
        As for `cut_tensor`.

    Returns
    -------
    TiledTensor
        Its ``source`` is the storage, shape ``(1, elements)``.

    Raises
    ------
    TooManyTilesError
        There would be too many pieces.
    """
    return plain_tiles(stored_row(tensor, alignment), (1, elements), copy)


def stored_row(tensor: Array, alignment: int) -> Array:
    """Return the storage of a tensor as one row.

    Parameters
    ----------
    tensor
        Of one rank or more.
    alignment
        The last rank is padded with zeros to a multiple of this many elements.

    Returns
    -------
    ndarray
        Shape ``(1, elements)``.
    """
    missing = -tensor.shape[-1] % alignment
    padded = np.pad(tensor, [(0, 0)] * (tensor.ndim - 1) + [(0, missing)])
    return padded.reshape(1, -1)


def from_row(row: Array, shape: Shape, alignment: int) -> Array:
    """Return the tensor whose storage is given; undoes `stored_row`.

    Parameters
    ----------
    row
        Shape ``(1, elements)``, padding included.
    shape
        Of the tensor.
    alignment
        With which it was stored.
    """
    padded = shape[-1] + -shape[-1] % alignment
    return row.reshape(*shape[:-1], padded)[..., : shape[-1]]


def _slices(grid: Grid, index: Shape) -> tuple[slice, ...]:
    return tuple(span.slice() for span in grid.spans(index))
