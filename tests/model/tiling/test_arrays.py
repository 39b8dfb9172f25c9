"""Tiles of arrays, with and without their data."""

import numpy as np
import pytest

from model.tiling.cuts import plain_grid, windowed_grid
from model.tiling.operators import Window
from tests.model.tiling.execution import cut_tensor, from_row, stored_row

IMAGE = np.arange(2 * 7 * 6 * 5).reshape(2, 7, 6, 5)
WINDOWS = (Window(3, 1), Window(3, 2, 1, 1))


def test_plain_tiles_hold_their_data():
    tiled = cut_tensor(IMAGE, plain_grid(IMAGE.shape, (1, 4, 6, 3)), copy=True)
    assert len(tiled.tiles) == 2 * 2 * 1 * 2
    np.testing.assert_array_equal(tiled.tiles[1, 1, 0, 1], IMAGE[1:2, 4:7, :, 3:5])
    np.testing.assert_array_equal(tiled.gathered(), IMAGE)


def test_windowed_tiles_overlap():
    tiled = cut_tensor(IMAGE, windowed_grid(IMAGE.shape, (1, 4, 3, 5), WINDOWS), copy=True)
    rows = [tiled.tiles[0, row, 0, 0] for row in range(3)]
    np.testing.assert_array_equal(rows[0][:, 2:4], rows[1][:, 0:2])
    np.testing.assert_array_equal(rows[2], IMAGE[:1, 4:7, :2])
    np.testing.assert_array_equal(tiled.gathered(), IMAGE)


def test_without_copying_tiles_are_blank_until_they_are_filled():
    tiled = cut_tensor(IMAGE, plain_grid(IMAGE.shape, (1, 4, 6, 3)), copy=False)
    assert not any(tile.any() for tile in tiled.tiles.values())
    tiled.fill()
    np.testing.assert_array_equal(tiled.gathered(), IMAGE)


def test_tiles_are_no_windows_on_the_tensor():
    tensor = IMAGE.copy()
    tiled = cut_tensor(tensor, plain_grid(tensor.shape, tensor.shape), copy=True)
    tiled.tiles[0, 0, 0, 0][...] = 0
    np.testing.assert_array_equal(tensor, IMAGE)


@pytest.mark.parametrize("alignment", [1, 4, 8])
def test_pieces_of_a_stored_row(alignment):
    row = stored_row(IMAGE, alignment)
    tiled = cut_tensor(row, plain_grid(row.shape, (1, 100)), copy=True)
    assert row.shape == (1, 2 * 7 * 6 * (5 + -5 % alignment))
    np.testing.assert_array_equal(np.concatenate(list(tiled.tiles.values()), axis=1), row)
    np.testing.assert_array_equal(from_row(tiled.gathered(), IMAGE.shape, alignment), IMAGE)
