"""Mapspaces in which memories have several places: what they allow, and the way back to even tiles."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice, product
from random import Random

import pytest

from model.architecture import Fanout, StorageLevel
from model.cost import evaluate_in
from model.counting import ACCELFORGE, EXACT
from model.mapping import Loop
from model.mapspace import FactorRule, JointRules, KeepRules, ParallelGroup, TemporalRules
from model.places import (
    gathered,
    most_places,
    on_places,
    spread,
    spread_like,
    tidied,
    windows_without_outer_loops,
)
from model.problem import Dataspace, Problem, Term
from tests.bruteforce import enumerate_mappings, joined_allowed
from tests.mapspaces import free_mapspace, matmul
from tests.random_rules import TILE, WIDE, means, random_rule
from tests.rules import allows
from tests.strategies import random_mapspaces, random_mapspaces_with_places

GEMM = matmul(4, 4, 4)
PLAIN = free_mapspace(
    GEMM, StorageLevel("dram"), StorageLevel("buffer", size_words=20), StorageLevel("registers", size_words=3)
)


def test_a_memory_has_a_place_for_each_dataspace_that_it_may_keep():
    rules = (KeepRules(), KeepRules(frozenset("A"), frozenset("B")), KeepRules(bypass=frozenset("AB")))
    mapspace = replace(PLAIN, keep=rules)
    assert most_places(mapspace) == {"buffer": 2}
    wide = spread(mapspace)
    assert [level.name for level in wide.architecture.levels] == ["dram", "buffer#1", "buffer#2", "registers"]
    assert wide.parallel == (ParallelGroup((1, 2), may_skip=True, always=frozenset("A")),)
    assert wide.joint == (JointRules((1, 2), TemporalRules(), rules[1]),)
    assert spread(mapspace, ["registers"]) == mapspace
    with pytest.raises(KeyError):
        spread(mapspace, ["cache"])


def test_rules_on_tiles_hold_at_every_place_that_keeps_anything():
    """Of any kind, against Python's arithmetic on the loops."""
    random, both = Random(5), set()
    for wide in random_mapspaces_with_places(7, 12, 800):
        even, mappings = gathered(wide), list(enumerate_mappings(wide))
        text = random_rule(random, even, (TILE, WIDE))
        ruled = replace(wide, rules=even.where(text).rules)
        for mapping in random.sample(mappings, min(20, len(mappings))):
            holds = not evaluate_in(ruled, mapping).broken_rules
            assert holds == means(text, wide, mapping), text
            both.add(holds)
    assert both == {True, False}


def test_what_stores_a_dataspace_as_a_whole_keeps_its_one_place():
    whole = replace(PLAIN.keep[1], whole=frozenset("A"))
    assert most_places(replace(PLAIN, keep=(PLAIN.keep[0], whole, PLAIN.keep[2]))) == {"registers": 3}


def test_the_way_back():
    for mapspace in random_mapspaces(5, 30):
        wide = spread(mapspace)
        assert gathered(wide) == mapspace
        assert spread_like(wide, mapspace) == wide


def test_mappings_with_even_tiles_stay_what_they_are():
    for wide in random_mapspaces_with_places(3, 8, 1000):
        for mapping in islice(enumerate_mappings(gathered(wide)), 0, 60, 7):
            apart = on_places(wide, mapping)
            even = evaluate_in(gathered(wide), mapping)
            for own in (apart, tidied(wide, apart)):
                assert allows(wide, own)
                found = evaluate_in(wide, own)
                assert (found.energy, found.cycles, found.valid) == (even.energy, even.cycles, even.valid)
            assert gathered(wide).architecture.levels[0].name == wide.architecture.levels[0].name


def _loops(*places: str) -> list[dict[str, int]]:
    return [dict.fromkeys(place, 2) for place in places]


@pytest.mark.parametrize(
    ("outer", "inner", "allowed"),
    [
        ("M", "K", True),
        ("K", "M", False),
        ("K", "K", True),
        ("N", "M", True),
        ("M", "N", False),
        ("", "N", True),
    ],
)
def test_an_order_binds_the_joined_loops(outer: str, inner: str, allowed: bool):
    rules = JointRules((1, 2), TemporalRules(inner=("K",), outer=("N",)), KeepRules())
    assert rules.allow(_loops(outer, inner)) is allowed


def test_rules_on_all_loops_of_a_memory_mean_what_the_joined_loops_do():
    orders: Sequence[TemporalRules] = (
        TemporalRules((FactorRule("M", "=", 4),)),
        TemporalRules((FactorRule("M", ">=", 2), FactorRule("K", "<=", 2)), inner=("M", "K")),
        TemporalRules(inner=("N",), outer=("K", "M")),
    )
    dims = ["", "M", "K", "N", "MK", "KN"]
    for rules, outer, inner in product(orders, dims, dims):
        joined = [Loop(dim, 2) for dim in (*_in_order(rules, inner), *_in_order(rules, outer))]
        expected = joined_allowed(rules, GEMM, joined)
        assert JointRules((1, 2), rules, KeepRules()).allow(_loops(outer, inner)) is expected


def _in_order(rules: TemporalRules, dims: str) -> list[str]:
    """The loops of one place, innermost first, as its own rules have them."""
    ranks = {dim: n for n, dim in enumerate(rules.inner)} | {dim: 9 + n for n, dim in enumerate(rules.outer)}
    return sorted(dims, key=lambda dim: ranks.get(dim, 5))


def test_memories_right_below_a_fanout_that_may_keep_windows():
    window = Dataspace("I", ((Term("p", 1), Term("r", 1)),))
    spaces = (window, Dataspace("W", ((Term("r", 1),),)), Dataspace("O", ((Term("p", 1),),), read_write=True))
    problem = Problem("rows", ("p", "r"), (6, 3), spaces)
    names = "dram", "buffer", "registers", "latches"
    levels = [StorageLevel(name) for name in names]
    nodes = levels[0], levels[1], Fanout("array", 2, 1), levels[2], levels[3]
    mapspace = replace(free_mapspace(problem, *nodes), counting=ACCELFORGE)
    assert list(windows_without_outer_loops(mapspace)) == [("registers", ("I",))]
    assert not list(windows_without_outer_loops(replace(mapspace, counting=EXACT)))
    keep = (*mapspace.keep[:2], KeepRules(bypass=frozenset("I")), mapspace.keep[3])
    assert not list(windows_without_outer_loops(replace(mapspace, keep=keep)))
    rowless = replace(problem, bounds=(6, 1))
    assert not list(windows_without_outer_loops(replace(mapspace, problem=rowless)))
