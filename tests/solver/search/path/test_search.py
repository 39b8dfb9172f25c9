"""The search along paths against the enumeration of all mappings."""

from dataclasses import replace
from random import Random

import pytest

from model.architecture import AccessEnergy, Fanout, StorageLevel
from model.assignment.methods import run_outermost
from model.extents import ANY, FACTORS, PERFECT
from model.mapspace import FactorRule, KeepRules, Mapspace, TemporalRules
from model.problem import Dataspace, Problem, Term
from solver.search.goal import Goal
from solver.search.path.search import EinsumSearch
from solver.search.space.search_space import SearchSpace
from tests import strategies
from tests.bruteforce import optima, optimum
from tests.mapspaces import free_mapspace, matmul
from tests.random_rules import with_binding_rules
from tests.slow import few
from tests.solver.search.path.alone import quiet, searched, stops_after
from tests.solver.search.path.test_outside import SHIFTED, outer_loop_fixed
from tests.strategies import (
    CONVOLUTIONS,
    free_mapspaces_with_remainders,
    random_mapspaces,
    random_mapspaces_with_places,
    random_mapspaces_with_remainders,
)

OBJECTIVES = ("energy", "latency", "edp")


def check(mapspace: Mapspace) -> None:
    """Bound and value are the optimum of the enumeration, or there is none."""
    for objective, best in zip(OBJECTIVES, optima(mapspace, OBJECTIVES), strict=True):
        value = None if best is None else best[0]
        assert searched(mapspace, objective) == (value, value)


@pytest.mark.parametrize("seed", few(range(4)))
def test_optimum_with_perfect_factors(seed: int):
    for mapspace in random_mapspaces(900 + seed, 5, 200):
        check(mapspace)


@pytest.mark.parametrize("seed", few((2, 0, 1, 3)))
def test_optimum_with_remainders(seed: int):
    for mapspace in random_mapspaces_with_remainders(914 + seed, 4, 250):
        check(mapspace)


def in_order(mapspace: Mapspace, random: Random) -> Mapspace:
    """Fix the order of some of the outermost loops."""
    dims = random.sample(mapspace.problem.dims, len(mapspace.problem.dims))
    listed = random.randint(1, len(dims))
    cut = random.choice((0, 0, listed, random.randint(0, listed)))
    first = replace(mapspace.temporal[0], inner=tuple(dims[:cut]), outer=tuple(dims[cut:listed]))
    return replace(mapspace, temporal=(first, *mapspace.temporal[1:]))


@pytest.mark.parametrize("draw", [random_mapspaces, random_mapspaces_with_remainders])
@pytest.mark.parametrize("seed", few(range(4)))
def test_optimum_with_an_order_outside(draw, seed: int, monkeypatch: pytest.MonkeyPatch):
    if seed % 2:
        monkeypatch.setattr(strategies, "EINSUMS", CONVOLUTIONS)
    random = Random(seed)
    for mapspace in draw(1060 + seed, 4, 250):
        check(in_order(mapspace, random))


@pytest.mark.parametrize("farther_out", few([True, False]))
@pytest.mark.parametrize("factors", FACTORS)
def test_optimum_where_loops_enclose_all_others(farther_out: bool, factors: str):
    """Sums of all products but the first are read again: they stay in place in one of them at most."""
    prices = [AccessEnergy(own, own - 1, own + 1) for own in (200, 20, 6, 1)]
    dram, far = StorageLevel("DRAM", energy=prices[0]), StorageLevel("far", 16, energy=prices[1])
    buffer, registers = StorageLevel("buffer", 8, energy=prices[2]), StorageLevel("RF", 4, energy=prices[3])
    middle = (far,) if farther_out else ()
    problem = replace(SHIFTED, bounds=(2, 2, 2, 3) if factors == PERFECT else (2, 1, 2, 3))
    mapspace = free_mapspace(problem, dram, *middle, buffer, Fanout("row", 2), registers)
    keep = [KeepRules(frozenset("WIO")), *(KeepRules(frozenset("O"), frozenset("W")) for _ in middle)]
    keep += [KeepRules(frozenset("I")), KeepRules(frozenset("W"), frozenset("I"))]
    mapspace = replace(mapspace, factors=factors, keep=tuple(keep))
    check(run_outermost(mapspace, ("R",)))
    check(replace(mapspace, temporal=(TemporalRules(outer=("C", "R")), *mapspace.temporal[1:])))


@pytest.mark.parametrize("factor", [12, 5, 3])
def test_optimum_with_a_fixed_factor(factor: int):
    check(outer_loop_fixed(factor))


@pytest.mark.parametrize("seed", few(range(2)))
def test_optimum_with_windows(seed: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(strategies, "EINSUMS", CONVOLUTIONS)
    for mapspace in random_mapspaces(920 + seed, 3, 200):
        check(mapspace)
    for mapspace in random_mapspaces_with_remainders(930 + seed, 2, 250):
        check(mapspace)


@pytest.mark.parametrize("seed", few(range(6)))
def test_each_instance_pays_for_whole_blocks(seed: int, monkeypatch: pytest.MonkeyPatch):
    """All bounds count as close to the incumbent, so that all split words up among instances."""
    monkeypatch.setattr("solver.search.path.bounds.TIED", 0.0)
    draw = free_mapspaces_with_remainders if seed % 2 else random_mapspaces_with_remainders
    for mapspace in draw(960 + seed, 2, 250):
        nodes = tuple(
            replace(own, block_size=3 + seed) if isinstance(own, StorageLevel) else own
            for own in mapspace.architecture.nodes
        )
        blocks = replace(mapspace, architecture=replace(mapspace.architecture, nodes=nodes))
        for objective, best in zip(OBJECTIVES, optima(blocks, OBJECTIVES), strict=True):
            if best is not None:
                search = EinsumSearch(SearchSpace(blocks), Goal(objective, incumbent=best[0] + 1), quiet())
                assert search.run() == search.goal.incumbent == best[0]


@pytest.mark.parametrize("objective", few(OBJECTIVES))
@pytest.mark.parametrize("draw", [random_mapspaces, random_mapspaces_with_remainders])
def test_a_stopped_search_has_a_bound(draw, objective: str):
    for mapspace in draw(940, 3, 200):
        best = optimum(mapspace, objective)
        if best is None:
            continue
        for calls in (0, 1, 2, 4, 8, 16, 32, 64):
            bound, value = searched(mapspace, objective, stops_after(calls))
            assert bound is not None
            assert bound <= best[0]
            assert value is None or value >= best[0]


@pytest.mark.parametrize("draw", [random_mapspaces, random_mapspaces_with_places])
@pytest.mark.parametrize("seed", few(range(2)))
def test_optimum_where_choices_are_bounded_together(draw, seed: int, monkeypatch: pytest.MonkeyPatch):
    """Bounds on cells hold for each of their spatial choices, through any number of slots."""
    monkeypatch.setattr("solver.search.path.search.FEW_PAIRS", 1)
    monkeypatch.setattr("solver.search.path.search.MOST_PAIRS", 1)
    for mapspace in draw(1050 + seed, 4, 600):
        check(mapspace)


def ruled(mapspace: Mapspace, seed: int) -> Mapspace:
    """Add rules, one of which usually excludes the best mapping for some objective."""
    random = Random(seed)
    best = random.choice(optima(mapspace, OBJECTIVES))
    return with_binding_rules(random, mapspace, best and best[1])


@pytest.mark.parametrize("draw", [random_mapspaces, random_mapspaces_with_remainders])
@pytest.mark.parametrize("seed", few((1, 0, 2)))
def test_optimum_with_rules(draw, seed: int):
    every = [ruled(mapspace, 10 * seed + n) for n, mapspace in enumerate(draw(990 + seed, 5, 200))]
    assert all(mapspace.rules for mapspace in every)
    for mapspace in every:
        check(mapspace)


def test_extents_that_a_rule_demands():
    """Seven iterations in two tiles may be 4, 5 or 6 and the rest; a rule allows one of these."""
    levels = StorageLevel("DRAM"), StorageLevel("buffer", size_words=60)
    mapspace = replace(free_mapspace(matmul(7, 2, 6), *levels), factors=ANY)
    ruled = mapspace.where("tile(buffer, M) == tile(buffer, K) + 1 and tile(buffer, N) > 1")
    check(ruled)


@pytest.mark.filterwarnings("error")
def test_tiles_inside_of_fanouts_that_a_rule_excludes():
    nodes = (
        StorageLevel("DRAM", energy=AccessEnergy(100, 100, 100)),
        Fanout("clusters", 2, 2),
        StorageLevel("buffer", size_words=60, energy=AccessEnergy(10, 10, 10)),
        Fanout("PE", 2, 3),
        StorageLevel("registers", size_words=7),
    )
    mapspace = replace(free_mapspace(matmul(1, 1, 4), *nodes), factors=ANY)
    check(mapspace.where("tile(registers, K) > 1"))


def test_several_memories_inside_of_the_fanouts():
    # Tiles of the outer one are known first; what lies farther in follows from those of the memory around it.
    mapspace = random_mapspaces_with_remainders(5030, 1, 150)[0]
    assert len(mapspace.architecture.levels) == 4
    check(mapspace)


def test_dataspaces_that_no_loop_indexes():
    mapspace = random_mapspaces(5071, 1, 150)[0]
    active = {dim for dim, bound in mapspace.problem.bound.items() if bound > 1}
    assert any(active.isdisjoint(space.dims) for space in mapspace.problem.dataspaces)
    check(mapspace)


@pytest.mark.parametrize("factors", FACTORS)
def test_a_window_that_loops_farther_in_slide_along(factors: str):
    """Where P goes on, I overlaps with what loops farther in had last: M is better outside of it."""
    spaces = (
        Dataspace("W", ((Term("K"),), (Term("R"),))),
        Dataspace("I", ((Term("P"), Term("R")),)),
        Dataspace("O", ((Term("M"),), (Term("P"),)), True),
    )
    problem = Problem("windows", ("M", "P", "R", "K"), (2, 6, 2, 2), spaces)
    levels = (
        StorageLevel("DRAM", energy=AccessEnergy(100, 100, 100)),
        StorageLevel("buffer"),
        StorageLevel("RF"),
    )
    mapspace = free_mapspace(problem, *levels, keep=False)
    bounds = (2, 2, 1, 2), (1, 3, 1, 1), (1, 1, 2, 1)
    rules = (tuple(map(fixed, problem.dims, own)) for own in bounds)
    keep = tuple(KeepRules(own, frozenset("WIO") - own) for own in map(frozenset, ("WIO", "O", "I")))
    check(replace(mapspace, temporal=tuple(map(TemporalRules, rules)), keep=keep, factors=factors))


def fixed(dim: str, factor: int) -> FactorRule:
    """A rule that a loop has one factor."""
    return FactorRule(dim, "=", factor)


@pytest.mark.parametrize("bounds", [(5, 1, 3), (3, 3, 1), (7, 1, 2)])
def test_fanouts_that_unroll_one_dimension_together(bounds: tuple[int, int, int]):
    """An outer fanout's last child may have fewer tiles than inner children: 3 tiles on 2 times 2."""
    prices = [AccessEnergy(read, read, read) for read in (100, 5, 1)]
    dram, buffer = StorageLevel("dram", energy=prices[0]), StorageLevel("buffer", 12, energy=prices[1])
    registers = StorageLevel("registers", 4, energy=prices[2])
    nodes = (dram, buffer, Fanout("outer", 3, 2), Fanout("inner", 2, 1))
    for inside in ((), (registers,)):
        check(replace(free_mapspace(matmul(*bounds), *nodes, *inside), factors=ANY))
