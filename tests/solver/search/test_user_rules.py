"""Searches under user-defined rules, against complete enumeration."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import product
from random import Random

import numpy as np
import pytest

from model.architecture import Fanout, StorageLevel
from model.counting.words import tile_words
from model.extents import ANY, PERFECT, Factors
from model.mapspace import Mapspace
from model.rules import Locality, Quantity
from solver.pareto import pareto_front
from solver.result import Status
from solver.search.space import user_rules
from solver.search.space.search_space import SearchSpace
from solver.search.space.user_rules import extents_rules
from tests.bruteforce import optima
from tests.mapspaces import free_mapspace, matmul
from tests.random_rules import random_rule, with_binding_rules
from tests.reference import OBJECTIVES
from tests.slow import few
from tests.solver.search.holding import compare, hold_search, solve
from tests.solver.search.unusual import alike_mapspaces, register_mapspaces
from tests.solver.search.vectors import vector_at
from tests.strategies import random_mapspaces, random_mapspaces_with_remainders


def ruled(seed: int, mapspaces: Sequence[Mapspace]) -> list[Mapspace]:
    """Give mapspaces rules that their optima break, as a rule."""
    random, found = Random(seed), []
    for mapspace in mapspaces:
        best = random.choice(optima(mapspace, OBJECTIVES))  # of one objective
        found.append(with_binding_rules(random, mapspace, None if best is None else best[1]))
    return found


@pytest.mark.parametrize("seed", few(range(3)))
def test_rules_about_one_tile_or_one_fanout(seed: int):
    free = random_mapspaces(500 + seed, 15, 150)
    results = compare(ruled(seed, free), OBJECTIVES)
    assert {result.status for result in results} == {Status.OPTIMAL, Status.INFEASIBLE}


@pytest.mark.parametrize("seed", few(range(3)))
def test_rules_about_one_tile_or_one_fanout_with_remainders(seed: int):
    results = compare(ruled(seed, random_mapspaces_with_remainders(720 + seed, 3, 150)), OBJECTIVES)
    assert Status.OPTIMAL in {result.status for result in results}


EXTENTS = (
    "tile(buffer, M) + tile(buffer, K) == 11 and tile(buffer, M) < 7",
    "tile(buffer, M) == tile(buffer, K) + 1 and tile(buffer, N) > 1",
    "tile(buffer, M) % 5 == 0",
    "words(A) >= 10 and tile(buffer, M) * tile(buffer, K) % 2 == 1",
    "words(A) <= 0.25 * capacity(buffer) and tile(buffer, M) % 3 == 0",
    "keeps(buffer, B) and not tile(buffer, K) < 4",
)


@pytest.mark.parametrize("rule", EXTENTS)
def test_of_extents_with_the_same_number_of_tiles_rules_may_allow_any(rule: str):
    """Seven iterations in two tiles: 4, 5 or 6 in the first one."""
    rule = rule.replace("words(A)", "words(buffer, A)")
    buffer = StorageLevel("buffer", size_words=60)
    mapspace = free_mapspace(matmul(7, 2, 6), StorageLevel("DRAM"), buffer)
    mapspace = replace(mapspace, factors=ANY)
    compare([mapspace.where(rule)], ("energy",))


def test_tiles_are_left_out_where_no_extent_is_allowed():
    mapspace = free_mapspace(
        matmul(64, 64, 64), StorageLevel("DRAM"), StorageLevel("buffer", size_words=4096)
    )
    free = replace(mapspace, factors=ANY)
    rules = ("tile(buffer, M) % 16 == 0", "words(buffer, A) <= 512", "tile(buffer, N) == tile(buffer, K)")
    every = frozenset(range(3))
    sizes = [
        SearchSpace(own).allowed(1, every).sum() for own in (free, free.where(rules[0]), free.where(*rules))
    ]
    assert sizes[0] > 2 * sizes[1] > 4 * sizes[2] > 0


@pytest.mark.parametrize("most_tried", [2, 64])
def test_no_numbers_of_tiles_are_left_out_that_an_allowed_extent_has(
    most_tried: int, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(user_rules, "MOST_TRIED", most_tried)
    mapspace = free_mapspace(matmul(9, 1, 7), StorageLevel("DRAM"), StorageLevel("buffer", size_words=99))
    mapspace, random, cut = replace(mapspace, factors=ANY), Random(3), 0
    every, pairs = frozenset(range(3)), [*product(range(1, 10), range(1, 8))]
    for _ in range(60):
        ruled = mapspace.where(random_rule(random, mapspace, ("tile",)))
        space, rules = SearchSpace(ruled), extents_rules(ruled)[1]
        if rules and rules[0].dims:
            extents = [{"M": m, "N": 1, "K": k} for m, k in pairs]
            names = frozenset(view.name for view in space.views)
            held = [own for own in extents if all(rule.holds(own, names) for rule in rules)]
            tiles = {(-(-9 // own["M"]), -(-7 // own["K"])) for own in held}
            left = set(map(tuple, space.lattice.tiles[space.allowed(1, every)].tolist()))
            assert tiles <= left
            cut += len(left) < 30
    assert cut > 10


def limited(seed: int, mapspaces: Sequence[Mapspace]) -> list[Mapspace]:
    """Give mapspaces limits on energy or cycles, a little above or below the least that there is."""
    random, found = Random(seed), []
    for mapspace in mapspaces:
        energy, cycles = optima(mapspace, ("energy", "latency"))
        if energy is None or cycles is None:
            continue
        units = mapspace.architecture.units_per_pj
        share = random.choice(("0.9", "1", "1.05", "1.3"))
        comparison = random.choice(("<", "<="))
        rules = [f"cycles {comparison} {cycles[0]} * {share}", f"{energy[0]}/{units} * {share} pJ >= energy"]
        chosen = random.choice((rules[:1], rules[1:], rules))
        found.append(mapspace.where(" and ".join(chosen)))
    return found


@pytest.mark.parametrize("seed", few(range(2)))
def test_limits_on_energy_and_cycles(seed: int):
    limits = limited(seed, random_mapspaces(560 + seed, 12, 200))
    results = compare(limits, (*OBJECTIVES, ("latency", "energy")))
    assert {result.status for result in results} == {Status.OPTIMAL, Status.INFEASIBLE}
    results = compare(limited(7, ruled(7, random_mapspaces(565 + seed, 6, 200))), OBJECTIVES)
    assert Status.OPTIMAL in {result.status for result in results}


def test_a_front_lies_within_limits():
    cut = 0
    for mapspace in random_mapspaces(570, 25, 300):
        points = _front(mapspace)
        slowest = max((cycles for _, cycles in points), default=0)
        faster = [point for point in points if point[1] < slowest]
        if faster:
            cut += 1
            assert _front(mapspace.where(f"cycles < {slowest}")) == faster
    assert cut >= 3


def _front(mapspace: Mapspace) -> list[tuple[int, int]]:
    return [(point.evaluation.energy, point.evaluation.cycles) for point in pareto_front(mapspace).points]


@pytest.mark.parametrize("seed", few(range(2)))
def test_bounds_hold_under_rules(seed: int, monkeypatch: pytest.MonkeyPatch):
    for mapspace in ruled(seed, random_mapspaces(530 + seed, 8, 200)):
        hold_search(mapspace, monkeypatch)


def test_the_best_mapping_under_rules_is_often_dearer():
    dearer = 0
    for seed in (3, 4):
        free = random_mapspaces(537 + seed, 8, 300)
        own = ruled(seed, free)
        compare(own, OBJECTIVES)
        for one, two in zip(free, own, strict=True):
            pairs = zip(optima(one, OBJECTIVES), optima(two, OBJECTIVES), strict=True)
            dearer += any(least and best and least[0] > best[0] for best, least in pairs)
    assert dearer >= 5


def test_dimensions_that_are_alike_are_told_apart_by_rules():
    compare(ruled(5, alike_mapspaces(550, 5, 400)), OBJECTIVES)
    compare(ruled(6, register_mapspaces(551, 5, 400)), OBJECTIVES)


def test_a_rule_that_no_tile_meets_leaves_nothing():
    mapspace = free_mapspace(
        matmul(8, 8, 8), StorageLevel("DRAM"), StorageLevel("buffer", size_words=64), Fanout("PE", 4)
    )
    assert solve(mapspace.where("tile(buffer, K) % 3 == 0"), "energy").status is Status.INFEASIBLE
    assert solve(mapspace.where("tile(DRAM, K) < 8"), "energy").status is Status.INFEASIBLE
    assert solve(mapspace.where("keeps(buffer, A) and instances(PE) == 4"), "edp").status is Status.OPTIMAL


def test_the_tiles_that_are_left_are_those_that_rules_allow():
    cut = 0
    for mapspace in ruled(8, random_mapspaces(580, 12, 150)):
        space, free = SearchSpace(mapspace), SearchSpace(replace(mapspace, rules=()))
        every = frozenset(view.place for view in space.views)
        for number, level in enumerate(space.levels):
            rules = mapspace.rules_on(Locality("tile", level.name))
            tiles = np.flatnonzero(free.allowed(number, every))
            facts = [_facts(space, level, int(tile)) for tile in tiles]
            left = [
                tile for tile, own in zip(tiles, facts, strict=True) if all(rule.holds(own) for rule in rules)
            ]
            assert np.flatnonzero(space.allowed(number, every)).tolist() == left
            cut += len(left) < len(tiles)
    assert cut >= 5


def _facts(space: SearchSpace, level: StorageLevel, tile: int) -> Callable[[Quantity], object]:
    extents = dict.fromkeys(space.problem.dims, 1)
    extents |= dict(zip(space.active, vector_at(space.lattice, tile), strict=True))

    def value(asked: Quantity) -> object:
        if asked.kind == "words":
            size = level.packing_of(asked.of).size_per_value
            return tile_words(space.problem.dataspace(asked.of), extents) * size
        return {"tile": extents.get(asked.of), "keeps": True, "capacity": level.usable_words}[asked.kind]

    return value


@pytest.mark.parametrize("factors", [PERFECT, ANY])
@pytest.mark.parametrize(
    "rule",
    [
        "tile(buffer, K) >= fanout(PE)",
        "instances(PE) * 8 <= capacity(buffer)",
        "instances(PE) >= fanout(PE) and words(buffer, A) <= 2 * fanout(PE)",
    ],
)
def test_rules_on_one_tile_or_fanout_may_ask_any_hardware(rule: str, factors: Factors):
    mapspace = free_mapspace(
        matmul(4, 4, 2), StorageLevel("DRAM"), Fanout("PE", 4), StorageLevel("buffer", size_words=12)
    )
    compare([replace(mapspace.where(rule), factors=factors)], OBJECTIVES)
