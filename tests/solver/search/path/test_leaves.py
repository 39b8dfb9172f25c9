"""The best mapping of all paths against the enumeration of all mappings."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from random import Random

import pytest

from model.architecture import AccessEnergy, StorageLevel
from model.counting import ACCELFORGE, TIMELOOP
from model.extents import ANY, PERFECT
from model.mapspace import Mapspace
from model.problem import Dataspace, Problem, Term
from solver.search.goal import Goal
from solver.search.path.leaves import Leaves, TilePath
from solver.search.space.search_space import SearchSpace
from solver.search.space.spatial import StageChoice
from solver.search.stopping import never
from tests import strategies
from tests.bruteforce import optima, optimum
from tests.mapspaces import free_mapspace
from tests.random_rules import with_binding_rules
from tests.slow import few
from tests.solver.search.unusual import unusual_mapspaces
from tests.strategies import (
    CONVOLUTIONS,
    random_mapspaces,
    random_mapspaces_with_places,
    random_mapspaces_with_remainders,
)

OBJECTIVES = ("energy", "latency", "edp")


def rounds_of(tiles: int, factors: list[int], perfect: bool) -> int | None:
    """Tiles that are left outside of spatial loops, innermost first; None if these do not fit."""
    for factor in factors:
        if factor > tiles or (perfect and tiles % factor):
            return None
        tiles = -(-tiles // factor)
    return tiles


def tiles_of(space: SearchSpace, dim: int, spatial: tuple[StageChoice, ...]) -> set[tuple[int, ...]]:
    """Numbers of tiles by level that some temporal factors of a dimension lead to."""
    found = {(space.lattice.bounds[dim],)}
    for level in reversed(range(len(space.levels))):
        allowed = space.loop_factors[level][dim]
        factors = [choice.factors[dim] for choice in reversed(spatial[level].choices)]
        rounds = {own: rounds_of(own[0], factors, not space.has_remainders) for own in found}
        pairs = [(own, r, f) for own, r in rounds.items() if r is not None for f in allowed]
        found = {(-(-r // f), *own) for own, r, f in pairs if f <= r and (space.has_remainders or r % f == 0)}
    return {own[:-1] for own in found if own[0] == 1}


def paths(space: SearchSpace) -> Iterator[TilePath]:
    """All paths of a search space, with any loops leading."""
    leads = (None,) * (len(space.levels) - 1)
    for spatial in product(*([m for own in stage for m in own.members] for stage in space.stages)):
        options = [sorted(tiles_of(space, d, spatial)) for d in range(len(space.active))]
        for chosen, mask in product(product(*options), space.keep_masks):
            tiles = tuple(zip(*chosen, strict=True)) or ((),) * len(space.levels)
            yield TilePath(mask, tiles, spatial, leads)


def best(space: SearchSpace, every: list[TilePath], goal: Goal) -> int | None:
    found = Leaves(space, goal, never).improve(every)
    if found is None:
        return None
    assert found.evaluation.valid
    return goal.value(found.evaluation.energy, found.evaluation.cycles)


def check(mapspace: Mapspace) -> None:
    space = SearchSpace(mapspace)
    every = list(paths(space))
    optimum = optima(mapspace, OBJECTIVES)
    for objective, expected in zip(OBJECTIVES, optimum, strict=True):
        value = None if expected is None else expected[0]
        assert best(space, every, Goal(objective)) == value
        if value is not None:
            assert best(space, every, Goal(objective, incumbent=value)) is None
            assert best(space, every, Goal(objective, incumbent=value + 1)) == value


@pytest.mark.parametrize("seed", few((1, 0, 2)))
def test_all_paths_have_the_optimum(seed: int):
    for mapspace in random_mapspaces(700 + seed, 4, 300):
        check(mapspace)


@pytest.mark.parametrize("seed", few((1, 0, 2, 3)))
def test_all_paths_have_the_optimum_with_remainders(seed: int):
    for mapspace in random_mapspaces_with_remainders(710 + seed, 4, 250):
        check(mapspace)


def in_blocks(mapspace: Mapspace, random: Random) -> Mapspace:
    """Let words come in blocks at many levels."""
    nodes = (
        replace(node, block_size=random.choice((1, 2, 3, 5, 8))) if isinstance(node, StorageLevel) else node
        for node in mapspace.architecture.nodes
    )
    return replace(mapspace, architecture=replace(mapspace.architecture, nodes=tuple(nodes)))


@pytest.mark.parametrize("seed", few(range(3)))
def test_mappings_that_do_not_improve_are_not_judged(seed: int):
    """Each instance pays for whole blocks, and the busiest one decides: leaves know that themselves."""
    for mapspace in random_mapspaces_with_remainders(760 + seed, 4, 200):
        blocks = in_blocks(mapspace, Random(seed))
        space = SearchSpace(blocks)
        every = list(paths(space))
        for objective, best in zip(OBJECTIVES, optima(blocks, OBJECTIVES), strict=True):
            if best is not None:
                leaves = Leaves(space, Goal(objective, incumbent=best[0]), never)
                assert leaves.improve(every) is None
                assert leaves.priced == 0


@pytest.mark.parametrize("seed", few(range(3)))
def test_windows_with_remainders(seed: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(strategies, "EINSUMS", CONVOLUTIONS)
    for mapspace in random_mapspaces_with_remainders(740 + seed, 3, 250):
        check(mapspace)


def test_unusual_windows(monkeypatch: pytest.MonkeyPatch):
    for mapspace in unusual_mapspaces(monkeypatch, 750, 6, 300):
        check(mapspace)


@pytest.mark.parametrize("factors", [PERFECT, ANY])
def test_memories_with_several_places(factors):
    for mapspace in random_mapspaces_with_places(5, 3, 300, factors):
        check(mapspace)


@pytest.mark.parametrize("counting", [TIMELOOP, ACCELFORGE])
def test_other_counting_rules(counting):
    for mapspace in random_mapspaces(801, 4, 200):
        check(replace(mapspace, counting=counting))


def test_tiles_with_holes_differ_though_they_are_delivered_as_often():
    operands = (Dataspace(name, ((Term("R", step),),)) for name, step in (("A", 2), ("B", 3)))
    output = Dataspace("Z", ((Term("R"),),), read_write=True)
    problem = Problem("strided", ("R",), (12,), (*operands, output))
    costly = AccessEnergy(100, 100, 100)
    levels = (StorageLevel("dram", energy=costly), StorageLevel("a", energy=costly), StorageLevel("b"))
    check(replace(free_mapspace(problem, *levels), counting=ACCELFORGE))


def test_rules_of_the_users_own():
    random = Random(9)
    drawn = (*random_mapspaces(812, 3, 200), *random_mapspaces_with_remainders(811, 3, 300))
    for mapspace in drawn:
        found = optimum(mapspace, "energy")
        check(with_binding_rules(random, mapspace, found and found[1]))


def led(path: TilePath, space: SearchSpace) -> Iterator[TilePath]:
    """Yield a path once for every choice of leading dimensions."""
    every = [frozenset((d,)) for d in range(len(space.active))] or [None]
    for leads in product(every, repeat=len(path.leads)):
        yield replace(path, leads=leads)


@pytest.mark.parametrize("seed", few(range(2)))
def test_paths_by_their_leads_have_the_same_optimum(seed: int):
    for mapspace in (
        *random_mapspaces(720 + seed, 5, 100),
        *random_mapspaces_with_remainders(730 + seed, 4, 200),
    ):
        space = SearchSpace(mapspace)
        every = list(paths(space))
        apart = [own for path in every for own in led(path, space)]
        for objective in OBJECTIVES:
            assert best(space, apart, Goal(objective)) == best(space, every, Goal(objective))
