"""Where the counting rule departs from an execution, case by case."""

import pytest

from model.loopnest import AccessCounts, execute
from tests.model.loopnest.nests import (
    BUFFER,
    DRAM,
    both,
    conv1d,
    fill_words,
    nest,
    operands_of,
    problem,
    rank,
    space,
    storage,
)


def test_window_that_slides_along_its_innermost_loop_is_counted_as_it_runs():
    pairs = ((DRAM, storage("P8", "WIO")), (BUFFER, storage("R3", "WIO")))
    assert fill_words(conv1d(8, 3), "I", *pairs) == (10, 10)


def test_rule_keeps_no_overlap_when_an_outer_loop_wraps():
    task = problem(
        (space("W", "K", "R"), space("I", rank("P", "R")), space("O", "K", "P", read_write=True)),
        K=2,
        P=2,
        R=3,
    )
    # The window of 3 steps on by 1, then back by 1 when K advances: a run keeps 2 words of it.
    pairs = ((DRAM, storage("P2 K2", "WIO")), (BUFFER, storage("R3", "WIO")))
    assert fill_words(task, "I", *pairs) == (3 + 1 + 3 + 1, 3 + 1 + 1 + 1)


@pytest.mark.parametrize(("loops", "rule"), [("P2 P4", 10), ("P4 P2", 12)])
def test_rule_judges_a_split_window_by_its_second_iteration(loops: str, rule: int):
    # A run slides on by 1 all the way. The rule sees that only if the inner loop ends at its second step.
    pairs = ((DRAM, storage(loops, "WIO")), (BUFFER, storage("R3", "WIO")))
    assert fill_words(conv1d(8, 3), "I", *pairs) == (rule, 10)


def test_rule_takes_a_wrap_for_standing_still():
    # One word of I at P + R: when P advances, R falls back from 2 to 0, which the rule takes for a move
    # by 1 - 1 = 0 and counts no word. A run fetches a word in each of the 12 steps.
    pairs = ((DRAM, storage("R3 P4", "WIO")), (BUFFER, storage("", "WIO")))
    assert fill_words(conv1d(4, 3), "I", *pairs) == (1 + 2 * 4, 12)


def test_rule_takes_a_wrap_for_another_step_of_the_window():
    # With stride 2 the last tap of a window is the first of the next: a run fetches nothing. The rule
    # takes the wrap for a move by 2 - 1 = 1, like the step from tap to tap, and counts a word.
    pairs = ((DRAM, storage("R3 P4", "WIO")), (BUFFER, storage("", "WIO")))
    assert fill_words(conv1d(4, 3, stride=2), "I", *pairs) == (12, 9)


def test_rule_counts_the_holes_between_strided_words():
    # Stride 3, two taps: 8 words are used, their bounding box has 11.
    pairs = ((DRAM, storage("", "WIO")), (BUFFER, storage("P4 R2", "WIO")))
    rule, seen = both(conv1d(4, 2, stride=3), "buffer", "I", *pairs)
    assert rule == (11, 8, 11)
    assert seen == (8, 8, 8)
    task = conv1d(4, 2, stride=3)
    boxed = execute(task, *nest(*pairs), operands_of(task), bounding_boxes=True)
    assert boxed.counts["buffer", "I"] == AccessCounts(8, 11, 0, 11, 1)


def test_rule_keeps_words_that_lie_in_holes():
    # Words 0 and 2, then 1 and 3: the boxes overlap, the words do not.
    pairs = ((DRAM, storage("R2", "WIO")), (BUFFER, storage("P2", "WIO")))
    assert fill_words(conv1d(2, 2, stride=2), "I", *pairs) == (3 + 1, 2 + 2)
