"""Choices that rules leave open, against trying every order and every set of levels."""

from itertools import combinations, permutations, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.choices import KeepChoice, SideOrder, keep_options, keep_sets
from model.mapspace import KeepRules, SpatialRules
from tests.strategies import mapspaces

DIMS = tuple("ABCD")


@st.composite
def side_rules(draw) -> SpatialRules:
    order = draw(st.permutations(DIMS))
    first, second, third = sorted(draw(st.tuples(*[st.integers(0, len(DIMS))] * 3)))
    split = draw(st.none() | st.integers(0, len(DIMS) + 1))
    inner, outer, uncounted = order[:first], order[first:second], order[second:third]
    return SpatialRules((), tuple(inner), tuple(outer), frozenset(uncounted), split)


@given(side_rules(), st.sets(st.sampled_from(DIMS)))
def test_sides_are_those_of_some_order(rules, live):
    live -= rules.uncounted
    between = [dim for dim in DIMS if dim not in {*rules.inner, *rules.outer, *rules.uncounted}]
    orders = [(*rules.inner, *middle, *rules.outer) for middle in permutations(between)]
    splits = range(len(DIMS) + 1) if rules.split is None else (rules.split,)
    expected = {frozenset(live.intersection(own[:split])) for own, split in product(orders, splits)}
    order = SideOrder.of(rules, DIMS)
    assert {frozenset(own) for own in order.sets_along_x(live)} == expected
    assert set(order.free(live)) == live.intersection(between)


@pytest.mark.parametrize(
    ("rules", "first", "later"),
    [
        (KeepRules(), (True,), (True, False)),
        (KeepRules(keep=frozenset("A")), (True,), (True,)),
        (KeepRules(bypass=frozenset("A")), (False,), (False,)),
        (KeepRules(frozenset("A"), frozenset("A")), (), ()),
    ],
)
def test_the_outermost_level_keeps_what_it_is_not_told_to_bypass(rules, first, later):
    assert keep_options(rules, 0, "A") == first
    assert keep_options(rules, 1, "A") == later


@given(mapspaces())
def test_levels_that_keep_are_those_that_all_rules_allow(mapspace):
    levels = range(len(mapspace.keep))
    every = [frozenset(own) for size in levels for own in combinations(levels, size + 1)]
    for space in mapspace.problem.dataspaces:
        expected = [
            kept
            for kept in every
            if all((lv in kept) in keep_options(mapspace.keep[lv], lv, space.name) for lv in levels)
            and all(group.allows(space.name, kept) for group in mapspace.parallel)
        ]
        found = list(keep_sets(mapspace, space.name))
        assert set(found) == set(expected)
        assert len(found) == len(expected)
        assert (KeepChoice.of(mapspace.keep, space.name) is None) <= (not found)
