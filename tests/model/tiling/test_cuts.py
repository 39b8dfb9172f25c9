"""How tensors are cut, against what each window needs."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from model.tiling.cuts import RankSpan, TooManyTilesError, plain_cut, plain_grid, windowed_cut, windows_within
from model.tiling.operators import Window

SMALL = st.integers(1, 9)


@given(st.integers(1, 200), st.integers(1, 60))
def test_plain_cuts_cover_each_element_once(extent, tile):
    cut = plain_cut(extent, tile)
    assert [element for span in cut for element in range(span.start, span.stop)] == list(range(extent))
    assert all(span.size == tile for span in cut[:-1])


@given(st.integers(1, 60), SMALL, SMALL, st.integers(0, 6), st.booleans())
def test_each_window_lies_in_exactly_one_stretch(extent, field, stride, extra, same):
    total = field - 1 if same else 0
    window = Window(field, stride, total - total // 2, total // 2)
    assume(window.positions(extent) > 0)
    cut = windowed_cut(extent, field + extra * stride, window)
    computed = [windows_within(span, extent, window) for span in cut]
    numbers = [number for span in computed for number in range(span.start, span.stop)]
    assert numbers == list(range(window.positions(extent)))
    for span, windows in zip(cut, computed, strict=True):
        for number in range(windows.start, windows.stop):
            start = number * stride - window.before
            assert max(start, 0) >= span.start
            assert min(start + field, extent) <= span.stop


def test_a_halo_is_shared_and_the_first_stretch_makes_room_for_the_padding():
    assert windowed_cut(32, 16, Window(4, 1, 2, 1)) == (RankSpan(0, 16), RankSpan(13, 29), RankSpan(26, 32))
    assert windowed_cut(225, 9, Window(7, 2, 3, 3))[:2] == (RankSpan(0, 8), RankSpan(3, 12))


def test_a_stride_beyond_the_field_leaves_elements_out():
    assert windowed_cut(9, 4, Window(1, 3)) == (RankSpan(0, 4), RankSpan(6, 9))


def test_a_grid_counts_the_last_rank_fastest():
    grid = plain_grid((2, 5), (1, 3))
    assert (grid.count, grid.counts, grid.first, grid.last) == (4, (2, 2), (1, 3), (1, 2))
    assert [grid.spans(index)[1] for index in grid.indices()] == [RankSpan(0, 3), RankSpan(3, 5)] * 2
    assert grid.largest == (1, 3)


def test_tiles_that_do_not_advance_are_refused():
    with pytest.raises(ValueError, match="do not advance"):
        windowed_cut(20, 3, Window(5, 1))


def test_lists_of_tiles_stay_within_memory():
    with pytest.raises(TooManyTilesError, match="more than 1048576 tiles"):
        plain_cut(1 << 40, 8)
