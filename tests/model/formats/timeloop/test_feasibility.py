"""Constraints that no mapping can satisfy."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.formats.timeloop.feasibility import irreducible
from tests.model.formats.timeloop.support import (
    ARRAY,
    BUFFER,
    DRAM,
    MAC,
    SPAD,
    architecture,
    constrained,
    failure,
    load,
    marked,
    spec,
)


def text_with(dram: str, array: str, spad: str) -> str:
    return spec(
        arch=architecture(
            constrained(DRAM, f"{{temporal: {{factors: {dram}}}}}"),
            constrained(ARRAY, f"{{spatial: {{factors: {array}}}}}"),
            constrained(SPAD, f"{{temporal: {{factors: {spad}}}}}"),
            MAC,
        )
    )


def test_a_dimension_fixed_to_one_everywhere():
    error = failure(text_with("[C=1]", "[C=1]", "[C=1]"))
    assert error.message == "C is 4, but its factor is fixed to 1 at every node"
    assert marked(error) == "C=1"
    assert [text for _, text in error.related] == [
        "C is 4 here",
        "`C=1` at `PE`",
        "`C=1` at `spad`",
    ]


@pytest.mark.parametrize(
    ("dram", "array", "spad", "reason"),
    [
        ("[C=2]", "[C=1]", "[C=1]", "2 at most"),
        ("[C=4]", "[C=2]", "[]", "none that divides it"),
        ("[K<=1]", "[]", "[K<=1]", "4 at most"),
    ],
)
def test_factors_that_cannot_reach_the_bound(dram, array, spad, reason):
    error = failure(text_with(dram, array, spad), factors="perfect")
    assert "cannot reach its bound" in error.message
    assert reason in error.message


def test_the_mesh_limits_what_is_reached():
    assert load(text_with("[K<=2]", "[]", "[K<=1]")).mapspace.spatial[0].factors == ()
    error = failure(text_with("[K<=1, K<=2]", "[K>=2]", "[K<=1]"))
    assert [text for _, text in error.related] == ["K is 8 here", "`K<=1` at `spad`", "`PE` is 4 x 2"]
    assert marked(error) == "K<=1"


def test_what_lies_outside_raises_the_least_tile():
    # Only the spad may loop over P, so it holds all 16 outputs of a feature and their 18 inputs.
    nodes = (
        constrained(DRAM, "{temporal: {factors: [P=1]}}"),
        constrained(SPAD, "{temporal: {factors: [R=3]}, dataspace: {keep: ['*']}}"),
        MAC,
    )
    error = failure(spec(arch=architecture(*nodes)))
    assert "Weights 1 + Inputs 16 + Outputs 16 = at least 33 words, `spad` holds 32" in error.message
    assert error.hint == "all that it must keep needs at least 37 words"
    assert [text for _, text in error.related][3:] == ["`P=1` at `DRAM`", "the capacity"]


def test_only_the_factors_that_exceed_the_mesh_are_named():
    error = failure(text_with("[]", "[R=3, C=4, K=2]", "[]"))
    assert error.message == "the spatial factors R=3 * C=4 = 12 exceed the 8 instances of `PE`: 4 too few"
    assert marked(error) == "C=4"
    assert [text for _, text in error.related] == ["`PE` is 4 x 2", "`R=3` is required here"]


def test_plain_conflicts_load_when_they_are_not_refused():
    text = text_with("[C=1]", "[C=1]", "[C=1]")
    loaded = load(text, refuse_infeasible=False)
    assert [rule.value for rule in loaded.mapspace.temporal[0].factors] == [1]


def test_multiple_buffering_is_shown_in_the_arithmetic():
    spad = SPAD.replace("datawidth: 16", "datawidth: 16, multiple_buffering: 16")
    error = failure(spec(arch=architecture(DRAM, constrained(spad, "{dataspace: {keep: ['*']}}"), MAC)))
    capacity = "`spad` holds 2 (32 over multiple_buffering 16)"
    assert f"= at least 3 words, {capacity}: 1 too few" in error.message


def test_a_capacity_that_just_suffices():
    spad = SPAD.replace("depth: 32", "depth: 3")
    assert load(spec(arch=architecture(DRAM, constrained(spad, "{dataspace: {keep: ['*']}}"), MAC)))


def test_feasible_constraints_pass():
    assert load(text_with("[C=2]", "[C=2, K=4]", "[K=2, R=3]")).mapspace.spatial[0].factors
    assert load(spec(arch=architecture(DRAM, BUFFER, MAC)))


@given(st.lists(st.integers(1, 9), max_size=12), st.integers(0, 60))
def test_none_of_the_parts_can_be_left_out(weights, limit):
    parts = list(enumerate(weights))

    def too_heavy(chosen):
        return sum(weight for _, weight in chosen) > limit

    if not too_heavy(parts):
        return
    few = irreducible(parts, too_heavy)
    assert too_heavy(few)
    assert all(not too_heavy([other for other in few if other is not part]) for part in few)


def test_few_of_many_parts_take_few_trials():
    trials = []

    def conflict(chosen):
        trials.append(chosen)
        return {17, 900} <= set(chosen)

    assert irreducible(range(1000), conflict) == [17, 900]
    assert len(trials) < 4 * math.log2(1000) + 4


def test_earlier_parts_are_kept_where_later_ones_can_go():
    assert irreducible("abcd", lambda chosen: len(chosen) >= 2) == ["a", "b"]
