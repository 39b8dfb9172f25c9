"""The best mapping of all paths against the enumeration of all mappings."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import product

import pytest

from model.mapspace import Mapspace
from solver.search.goal import Goal
from solver.search.path.leaves import Leaves, Path
from solver.search.space.search_space import SearchSpace
from solver.search.stopping import never
from tests.bruteforce import optima
from tests.strategies import (
    random_mapspaces,
    random_mapspaces_with_remainders,
)

OBJECTIVES = ("energy", "latency", "edp")


def tiles_of(space: SearchSpace, dim: int, spatial: tuple[int, ...]) -> set[tuple[int, ...]]:
    """Numbers of tiles by level that some temporal factors of a dimension lead to."""
    found = {(space.lattice.bounds[dim],)}
    for level in reversed(range(len(space.levels))):
        allowed = space.slots[level].allowed[dim]
        rounds = {own: -(-own[0] // spatial[level]) for own in found if spatial[level] <= own[0]}
        if not space.uneven:
            allowed_rounds = ((own, r) for own, r in rounds.items() if own[0] % spatial[level] == 0)
            found = {(r // f, *own) for own, r in allowed_rounds for f in allowed if r % f == 0}
            continue
        found = {(-(-r // f), *own) for own, r in rounds.items() for f in allowed if f <= r}
    return {own[:-1] for own in found if own[0] == 1}


def paths(space: SearchSpace) -> Iterator[Path]:
    """All paths of a search space, with any loops leading."""
    leads = (None,) * (len(space.levels) - 1)
    for spatial in product(*([m for own in stage for m in own.members] for stage in space.stages)):
        factors = [stage.factors for stage in spatial]
        options = [
            sorted(tiles_of(space, d, tuple(own[d] for own in factors))) for d in range(len(space.active))
        ]
        for chosen, mask in product(product(*options), space.keep_masks):
            tiles = tuple(zip(*chosen, strict=True)) or ((),) * len(space.levels)
            yield Path(mask, tiles, spatial, leads)


def best(space: SearchSpace, every: list[Path], goal: Goal) -> int | None:
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


@pytest.mark.parametrize("seed", range(4))
def test_all_paths_have_the_optimum(seed: int):
    for mapspace in random_mapspaces(700 + seed, 15, 600):
        check(mapspace)


@pytest.mark.parametrize("seed", range(4))
def test_all_paths_have_the_optimum_with_remainders(seed: int):
    for mapspace in random_mapspaces_with_remainders(710 + seed, 8, 900):
        check(mapspace)


def led(path: Path, space: SearchSpace) -> Iterator[Path]:
    """The same path for every dimension that may lead in each slot."""
    every = [frozenset((d,)) for d in range(len(space.active))] or [None]
    for leads in product(every, repeat=len(path.leads)):
        yield replace(path, leads=leads)


@pytest.mark.parametrize("seed", range(2))
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
