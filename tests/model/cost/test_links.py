"""Link transfers: which instances are neighbours, and what a step saves."""

from __future__ import annotations

from model.cost.links import ChildGrid, Sharing, share
from model.counting.words import Change

ROW = ChildGrid(((0,), (1,), (2,), (3,)), columns=4, rows=1)
SQUARE = ChildGrid(((0,), (1,), (10,), (11,)), columns=2, rows=2)


def test_neighbours_in_a_square() -> None:
    assert [sorted(SQUARE.neighbours(child)) for child in range(4)] == [[1, 2], [0, 3], [0, 3], [1, 2]]


def test_idle_columns_leave_no_vertical_neighbours() -> None:
    """Children fill a row of the hardware's mesh before the next one begins."""
    wide = ChildGrid(SQUARE.offsets, columns=4, rows=2)
    assert [sorted(wide.neighbours(child)) for child in range(4)] == [[1], [0, 2], [1, 3], [2]]


def test_tiles_come_from_the_side_they_move_to() -> None:
    assert ROW.linked((1,)) == {0, 1, 2}
    assert ROW.linked((-1,)) == {1, 2, 3}
    assert ROW.linked((2,)) == frozenset()
    assert SQUARE.linked((10,)) == {0, 1}


def test_a_step_with_equal_words_before_is_linked() -> None:
    slide = (Change(repeats=5, jump=(1,), words=2),)
    assert share(ROW, 2, slide, multicast=True, links=True) == Sharing(8 + 10, 8 + 10, 30)
    assert share(ROW, 2, slide, multicast=True, links=False) == Sharing(8 + 40, 8 + 40, 0)


def test_words_of_another_shape_are_not_handed_on() -> None:
    """The first step brings the whole tile of 3 words, the later ones its new word."""
    slide = (Change(repeats=1, jump=(1,), words=1),)
    assert share(ROW, 3, slide, multicast=True, links=True) == Sharing(12 + 4, 12 + 4, 0)
    longer = (Change(repeats=6, jump=(1,), words=1), Change(repeats=1, jump=(4,), words=3))
    # All steps of a loop count like its first one, and those of the inner loop follow whole tiles.
    assert share(ROW, 3, longer, multicast=True, links=True) == Sharing(12 + 24 + 12, 12 + 24 + 12, 0)


def test_links_that_save_no_access_are_not_used() -> None:
    """All children want the same word: one multicast brings it, whoever could hand it on."""
    same = ChildGrid(((0,),) * 4, columns=4, rows=1)
    stay = (Change(repeats=3, jump=(0,), words=1),)
    assert share(same, 1, stay, multicast=True, links=True) == Sharing(1, 4, 12)
    move = (Change(repeats=3, jump=(1,), words=1),)
    assert share(same, 1, move, multicast=True, links=True) == Sharing(4, 16, 0)
    # The second child could take its word from the third, but the access of the first one brings it too.
    pair = ChildGrid(((0,), (0,), (1,)), columns=3, rows=1)
    assert share(pair, 1, move, multicast=True, links=True) == Sharing(2 + 6, 3 + 9, 0)
