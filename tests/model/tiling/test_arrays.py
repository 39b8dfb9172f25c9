"""Tiles of real arrays, with and without their data."""

import numpy as np
import pytest

from model.tiling.arrays import from_row, plain_tiles, stored_row, tiles_per_batch, windowed_tiles
from model.tiling.operators import Window

IMAGE = np.arange(2 * 7 * 6 * 5).reshape(2, 7, 6, 5)
WINDOWS = (Window(3, 1), Window(3, 2, 1, 1))


def test_plain_tiles_hold_their_data():
    tiled = plain_tiles(IMAGE, (1, 4, 6, 3))
    assert len(tiled.tiles) == 2 * 2 * 1 * 2
    np.testing.assert_array_equal(tiled.tiles[1, 1, 0, 1], IMAGE[1:2, 4:7, :, 3:5])
    np.testing.assert_array_equal(tiled.gathered(), IMAGE)


def test_windowed_tiles_overlap():
    tiled = windowed_tiles(IMAGE, (1, 4, 3, 5), WINDOWS)
    rows = [tiled.tiles[0, row, 0, 0] for row in range(3)]
    np.testing.assert_array_equal(rows[0][:, 2:4], rows[1][:, 0:2])
    np.testing.assert_array_equal(rows[2], IMAGE[:1, 4:7, :2])
    np.testing.assert_array_equal(tiled.gathered(), IMAGE)


def test_without_copying_tiles_are_blank_until_they_are_filled():
    tiled = plain_tiles(IMAGE, (1, 4, 6, 3), copy=False)
    assert not any(tile.any() for tile in tiled.tiles.values())
    tiled.fill()
    np.testing.assert_array_equal(tiled.gathered(), IMAGE)


def test_tiles_are_no_windows_on_the_tensor():
    tensor = IMAGE.copy()
    tiled = plain_tiles(tensor, tensor.shape)
    tiled.tiles[0, 0, 0, 0][...] = 0
    np.testing.assert_array_equal(tensor, IMAGE)


@pytest.mark.parametrize("alignment", [1, 4, 8])
def test_tiles_per_batch_run_through_the_storage(alignment):
    tiled = tiles_per_batch(IMAGE, 100, alignment)
    row = stored_row(IMAGE, alignment)
    assert row.shape == (1, 2 * 7 * 6 * (5 + -5 % alignment))
    np.testing.assert_array_equal(np.concatenate(list(tiled.tiles.values()), axis=1), row)
    np.testing.assert_array_equal(from_row(tiled.gathered(), IMAGE.shape, alignment), IMAGE)
