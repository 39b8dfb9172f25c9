"""Where Timeloop's counting rule departs from an execution, case by case; the exact rule never does."""

import pytest

from model.counting import EXACT, TIMELOOP
from tests.model.cost.nests import BUFFER, DRAM, both, conv1d, fill_words, problem, rank, space, storage


def by_timeloop_and_exactly(task, name, *pairs):
    timeloop, seen = fill_words(task, name, *pairs, counting=TIMELOOP)
    exact, _ = fill_words(task, name, *pairs, counting=EXACT)
    assert exact == seen
    return timeloop, exact


def test_window_that_slides_along_its_innermost_loop_is_counted_as_it_runs():
    pairs = ((DRAM, storage("P8", "WIO")), (BUFFER, storage("R3", "WIO")))
    assert by_timeloop_and_exactly(conv1d(8, 3), "I", *pairs) == (10, 10)


def test_timeloop_keeps_no_overlap_when_an_outer_loop_wraps():
    task = problem(
        (space("W", "K", "R"), space("I", rank("P", "R")), space("O", "K", "P", read_write=True)),
        K=2,
        P=2,
        R=3,
    )
    # The window of 3 steps on by 1, then back by 1 when K advances: a run keeps 2 words of it.
    pairs = ((DRAM, storage("P2 K2", "WIO")), (BUFFER, storage("R3", "WIO")))
    assert by_timeloop_and_exactly(task, "I", *pairs) == (3 + 1 + 3 + 1, 3 + 1 + 1 + 1)


@pytest.mark.parametrize(("loops", "timeloop"), [("P2 P4", 10), ("P4 P2", 12)])
def test_timeloop_judges_a_split_window_by_its_second_iteration(loops: str, timeloop: int):
    # A run slides on by 1 all the way. Timeloop sees that only if the inner loop ends at its second step.
    pairs = ((DRAM, storage(loops, "WIO")), (BUFFER, storage("R3", "WIO")))
    assert by_timeloop_and_exactly(conv1d(8, 3), "I", *pairs) == (timeloop, 10)


def test_timeloop_takes_a_wrap_for_standing_still():
    # One word of I at P + R: when P advances, R falls back from 2 to 0, which Timeloop takes for a move
    # by 1 - 1 = 0 and counts no word. A run fetches a word in each of the 12 steps.
    pairs = ((DRAM, storage("R3 P4", "WIO")), (BUFFER, storage("", "WIO")))
    assert by_timeloop_and_exactly(conv1d(4, 3), "I", *pairs) == (1 + 2 * 4, 12)


def test_timeloop_takes_a_wrap_for_another_step_of_the_window():
    # With stride 2 the last tap of a window is the first of the next: a run fetches nothing. Timeloop
    # takes the wrap for a move by 2 - 1 = 1, like the step from tap to tap, and counts a word.
    pairs = ((DRAM, storage("R3 P4", "WIO")), (BUFFER, storage("", "WIO")))
    assert by_timeloop_and_exactly(conv1d(4, 3, stride=2), "I", *pairs) == (12, 9)


def test_both_count_the_holes_between_strided_words():
    # Stride 3, two taps: 8 words are used, the tile is a box of 11.
    pairs = ((DRAM, storage("", "WIO")), (BUFFER, storage("P4 R2", "WIO")))
    for counting in (EXACT, TIMELOOP):
        assert both(conv1d(4, 2, stride=3), "buffer", "I", *pairs, counting=counting) == ((11, 8, 11),) * 2


def test_boxes_keep_words_that_lie_in_holes():
    # Words 0 and 2, then 1 and 3: the words do not overlap, their boxes do.
    pairs = ((DRAM, storage("R2", "WIO")), (BUFFER, storage("P2", "WIO")))
    assert by_timeloop_and_exactly(conv1d(2, 2, stride=2), "I", *pairs) == (3 + 1, 3 + 1)


def test_timeloop_touches_holes_of_outputs_for_the_first_time():
    # Outputs at 2P, three times: of the 12 updates 4 are first ones. Timeloop's partition has 7 words.
    task = problem((space("W", "K"), space("O", rank(("P", 2)), read_write=True)), P=4, K=3)
    pairs = ((DRAM, storage("P4 K3", "WO")),)
    assert both(task, "dram", "O", *pairs, counting=TIMELOOP) == ((7, 5, 0), (7, 8, 0))
    assert both(task, "dram", "O", *pairs, counting=EXACT) == ((7, 8, 0), (7, 8, 0))
