"""Words delivered over time, and distinct words among children: small cases by hand, and by counting."""

from __future__ import annotations

from ast import AST, Compare, Is, IsNot, parse, walk
from itertools import pairwise, product
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.counting import EXACT, TIMELOOP, rule_of
from model.counting.words import (
    Move,
    Vector,
    covered_words,
    displacement,
    distinct_offsets,
    distinct_sums,
    exact_changes,
    extents,
    fresh_words,
    tile_words,
    timeloop_changes,
)
from model.problem import Dataspace, Term

INPUT = Dataspace("I", ((Term("P"), Term("R")),))
STRIDED = Dataspace("I", ((Term("P", 3), Term("R")),))


def test_tile_is_the_bounding_box() -> None:
    assert extents(INPUT, {"P": 4, "R": 3}) == (6,)
    assert tile_words(STRIDED, {"P": 4, "R": 2}) == 11
    assert tile_words(Dataspace("X", ((Term("P", -2),), (Term("R"),))), {"P": 4, "R": 3}) == 7 * 3


def test_displacement_takes_the_coefficient() -> None:
    assert displacement(STRIDED, "P", 2) == (6,)
    assert displacement(STRIDED, "M", 2) == (0,)


@given(
    tile=st.lists(st.integers(1, 5), min_size=1, max_size=3),
    move=st.lists(st.integers(-6, 6), min_size=3, max_size=3),
)
def test_fresh_words_counts_points(tile: list[int], move: list[int]) -> None:
    move = move[: len(tile)]
    here = set(product(*(range(extent) for extent in tile)))
    there = set(product(*(range(step, step + extent) for extent, step in zip(tile, move, strict=True))))
    assert fresh_words(tile, move) == len(there - here)


@pytest.mark.parametrize(
    ("loops", "exact", "timeloop"),
    [
        # P = 8 positions of a window of R = 3 taps, all taps inside: 10 words in all.
        ([("P", 8, 1)], 10, 10),
        ([("P", 4, 1), ("P", 2, 4)], 10, 3 + 6 * 1 + 1 * 3),
        ([("P", 2, 1), ("P", 4, 2)], 10, 10),
        # A loop that does not touch the tensor: free innermost, a restart outside.
        ([("M", 5, 1), ("P", 8, 1)], 10, 10),
        ([("P", 8, 1), ("M", 5, 1)], 5 * 7 + 3 + 4 * 3, 5 * 7 + 3 + 4 * 3),
        # Back by one step of two: a run keeps a word of the window.
        ([("P", 2, 2), ("M", 5, 1)], 3 + 9 * 2, 3 + 5 * 2 + 4 * 3),
    ],
)
def test_window_of_three_taps(loops: list[tuple[str, int, int]], exact: int, timeloop: int) -> None:
    moves = [(bound, displacement(INPUT, dim, stride)) for dim, bound, stride in loops]
    assert rule_of(EXACT).delivered_words((3,), moves) == exact
    assert rule_of(TIMELOOP).delivered_words((3,), moves) == timeloop


def test_timeloop_takes_a_position_reached_again_for_free() -> None:
    """With R inside P, the tile lies after a step of P where it lay in the second step of R."""
    moves = [(3, (1,)), (4, (1,))]
    assert [step.words for step in timeloop_changes((1,), moves)] == [1, 0]
    assert [step.words for step in exact_changes((1,), moves)] == [1, 1]


def _one_rank() -> st.SearchStrategy[list[Move]]:
    return st.lists(st.tuples(st.integers(1, 4), st.tuples(st.integers(-9, 9))), max_size=4)


def _runs(moves: list[Move], ranks: int) -> list[Vector]:
    """Positions of a tile in the order in which loops reach them, the first loop innermost."""
    return [
        tuple(
            sum(i * move[rank] for i, (_, move) in zip(index[::-1], moves, strict=True))
            for rank in range(ranks)
        )
        for index in product(*(range(bound) for bound, _ in reversed(moves)))
    ]


def _box(tile: list[int], at: Vector) -> set[Vector]:
    return set(product(*(range(start, start + extent) for start, extent in zip(at, tile, strict=True))))


@given(tile=st.lists(st.integers(1, 4), min_size=3, max_size=3), moves=st.deferred(lambda: _moves()))
def test_exact_words_are_those_of_a_run(tile: list[int], moves: list[Move]) -> None:
    boxes = [_box(tile, at) for at in _runs(moves, 3)]
    brought = len(boxes[0]) + sum(len(new - old) for old, new in pairwise(boxes))
    assert rule_of(EXACT).delivered_words(tile, moves) == brought
    assert covered_words(tile, moves) == len(set().union(*boxes))


@given(extent=st.integers(1, 6), moves=_one_rank())
def test_covered_words_of_one_rank(extent: int, moves: list[Move]) -> None:
    boxes = [_box([extent], at) for at in _runs(moves, 1)]
    assert covered_words([extent], moves) == len(set().union(*boxes))


@given(st.integers(1, 7), st.integers(-6, 6), st.integers(1, 7), st.integers(-6, 6))
def test_distinct_sums_counts_values(bound_a: int, step_a: int, bound_b: int, step_b: int) -> None:
    step_a, step_b = step_a or 1, step_b or -1
    values = {i * step_a + j * step_b for i in range(bound_a) for j in range(bound_b)}
    assert distinct_sums(bound_a, step_a, bound_b, step_b) == len(values)


def _moves() -> st.SearchStrategy[list[Move]]:
    vectors = st.tuples(*[st.sampled_from([0, 0, 0, 1, 2, 3, -1])] * 3)
    return st.lists(st.tuples(st.integers(1, 3), vectors), max_size=4)


@given(_moves())
def test_distinct_offsets_counts_positions(moves: list[Move]) -> None:
    positions = {
        tuple(sum(i * move[rank] for i, (_, move) in zip(index, moves, strict=True)) for rank in range(3))
        for index in product(*(range(bound) for bound, _ in moves))
    }
    assert distinct_offsets(moves) == len(positions)


def test_distinct_offsets_of_two_loops_are_not_enumerated() -> None:
    many = 10**9
    assert distinct_offsets([(many, (1, 1)), (many, (1, 2))]) == many**2
    assert distinct_offsets([(many, (1, -1)), (many, (-2, 2))]) == 3 * many - 2


@pytest.mark.parametrize("package", ["model", "solver"])
def test_no_module_compares_names_of_rules(package: str) -> None:
    """What depends on a rule is asked of it, so that one module says all of a new rule."""
    root = Path(__file__).parents[2] / package
    apart = {"counting", "formats", "checker"}
    modules = [path for path in root.rglob("*.py") if not apart & set(path.relative_to(root).parts[:-1])]
    assert len(modules) > 50
    assert [str(path) for path in modules if any(map(_names_a_rule, walk(parse(path.read_text()))))] == []


def _names_a_rule(node: AST) -> bool:
    """Whether a comparison has a `counting` on one side, and anything but None on the other."""
    if not isinstance(node, Compare) or any(isinstance(op, (Is, IsNot)) for op in node.ops):
        return False
    sides = (getattr(own, "attr", getattr(own, "id", None)) for own in (node.left, *node.comparators))
    return "counting" in sides
