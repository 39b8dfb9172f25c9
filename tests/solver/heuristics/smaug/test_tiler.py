"""Strategies and tile shapes that can be computed by hand."""

from dataclasses import replace

import pytest

from model.formats.backends import load_backend
from model.tiling.operators import BatchNorm, Convolution, Eltwise, InnerProduct, Pooling, Softmax, Unary
from model.tiling.tilings import Strategy
from solver.heuristics.smaug import CannotTile, tile
from solver.heuristics.smaug.tile_shapes import TileRule, TileShape, best_strategy, tile_shapes

SMV = load_backend("smv")
TENSOR = TileShape.aligned((2, 8, 8, 64), 8)  # 4096 elements an item, 64 a pixel


@pytest.mark.parametrize(
    ("capacity", "minimum", "expected"),
    [
        (8192, (1, 1, 1, 8), Strategy.NONE),
        (8191, (1, 1, 1, 8), Strategy.N),
        (4095, (1, 1, 1, 8), Strategy.NC),
        (511, (1, 1, 8, 8), Strategy.NCH),
        (511, (1, 1, 1, 8), Strategy.NHW),
        (511, (1, 8, 1, 8), Strategy.NCW),
        (512, (1, 8, 1, 64), Strategy.NW),
        (1024, (1, 2, 8, 64), Strategy.NH),
    ],
)
def test_strategies_are_tried_in_order(capacity, minimum, expected):
    assert best_strategy("inputs", TENSOR, minimum, capacity, SMV.order("pooling")) is expected


def test_a_backend_may_prefer_other_strategies():
    rows_first = (Strategy.NONE, Strategy.N, Strategy.NH, Strategy.NC)
    backend = replace(SMV, preference={"pooling": rows_first})
    operator = Pooling((1, 32, 32, 32), (2, 2), (2, 2))
    assert tile(operator, SMV)["inputs"].strategy is Strategy.NC
    rows = tile(operator, backend)["inputs"]
    assert (rows.strategy, rows.tile) == (Strategy.NH, (1, 16, 32, 32))


def test_what_fits_no_strategy_is_said():
    with pytest.raises(CannotTile, match=r"cuts the weights \[2, 8, 8, 64\] into tiles of at most 9 "):
        best_strategy("weights", TENSOR, (1, 1, 1, 8), 9, (Strategy.NC, Strategy.NHW))


def test_cut_ranks_grow_by_steps_and_others_are_whole():
    rule = TileRule((1, 3, 8, 32), (1, 2, 1, 32))
    shapes = [tile.dims for tile in tile_shapes(TENSOR, Strategy.NCH, rule, 2000)]
    # Batches, then channels, then rows, the outermost of them first.
    assert shapes == [(1, 3, 8, 32), (1, 5, 8, 32), (1, 7, 8, 32), (1, 3, 8, 64), (2, 3, 8, 32)]


def test_the_last_rank_counts_with_its_padding():
    whole = TileShape.aligned((2, 3, 3, 20), 8)
    assert (whole.counted, whole.stored) == (2 * 9 * 24, 2 * 9 * 24)
    cut = whole.shrunk((1, 3, 3, 8))
    assert (cut.counted, cut.stored) == (9 * 12, 9 * 8)


def test_weights_and_outputs_of_a_convolution_follow_the_inputs():
    tiling = tile(Convolution((1, 32, 32, 192), (4, 4), 32, (1, 1), "same"), SMV)
    assert [tensor.tile for tensor in tiling.tensors] == [(1, 16, 32, 32), (32, 4, 4, 32), (1, 15, 32, 32)]
    assert tiling["inputs"].grid.counts == (1, 3, 1, 6)
    assert tiling["outputs"].grid.counts == (1, 3, 1, 1)


def test_smaug_lists_one_image_of_a_batch_but_all_are_scheduled():
    operator = Convolution((2, 8, 8, 192), (3, 3), 256, (1, 1), "same")
    outputs = tile(operator, SMV)["outputs"]
    assert outputs.grid.count == 2 * outputs.listed.count == 64
    assert (
        "outputs: count, first and last are those of SMAUG's list of 32 tiles"
        in tile(operator, SMV).remarks[0]
    )
    assert tile(replace(operator, input=(1, 8, 8, 192)), SMV).remarks == ()


def test_tiles_fit_however_wide_a_processing_element_is():
    narrow = replace(SMV, num_pes=1, num_maccs_per_pe=1, vector_size=1, spad_bytes=128)
    tiling = tile(InnerProduct((3, 864), 44), narrow)
    for tensor in tiling.tensors:
        assert TileShape.aligned(tensor.tile, narrow.alignment).stored <= narrow.capacity


def test_elementwise_tiles_are_aligned_pieces_of_the_storage():
    backend = replace(SMV, spad_bytes=1005)  # 502 elements, 496 of them in whole vectors
    tiling = tile(Eltwise((2, 5, 5, 12)), backend)
    assert [tensor.name for tensor in tiling.tensors] == ["inputs", "second_inputs", "outputs"]
    assert {tensor.tile for tensor in tiling.tensors} == {(1, 496)}
    assert (tiling["inputs"].shape, tiling["inputs"].listed.last) == ((1, 800), (1, 304))
    assert tiling.total_elements == 3 * 496


def test_softmax_is_cut_by_batches():
    tiling = tile(Softmax((100, 1001)), SMV)
    assert tiling["inputs"].tile == (16, 1001)
    assert tiling["outputs"].listed.last == (4, 1001)
    assert tile(Softmax((16, 1001)), SMV)["inputs"].strategy is Strategy.NONE


@pytest.mark.parametrize(
    ("operator", "backend", "message"),
    [
        (Softmax((1, 16385)), SMV, "a row of 16392 elements must fit"),
        (Unary((1, 8)), replace(SMV, spad_bytes=14), "smaller than one aligned block of 8"),
        (BatchNorm((1, 2, 2, 5000)), SMV, "must fit whole"),
        (Convolution((1, 128, 128, 96), (5, 5), 32), SMV, "no strategy cuts the inputs"),
        (Convolution((1, 224, 224, 3), (3, 3), 64, (1, 1), "same"), SMV, "no combination of tiles fits"),
        (Unary((1, 1 << 40)), SMV, "more than 1048576 tiles"),
    ],
)
def test_what_cannot_be_tiled_is_said(operator, backend, message):
    with pytest.raises(CannotTile, match=message):
        tile(operator, backend)
