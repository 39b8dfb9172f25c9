"""The fewest words over the tiles that fit, for all combinations of spatial classes at a time."""

from random import Random

import numpy as np
import pytest

from model.architecture import Fanout, StorageLevel
from model.mapspace import Mapspace
from solver.search.arrays import IntArray
from solver.search.space.search_space import SearchSpace
from solver.search.space.spatial import StageClass
from solver.search.stopping import Stopped
from solver.search.subproblems.energies import EnergySubproblem
from solver.search.survey import survey
from solver.search.survey.survey import NO_TILE, FewestBelow, Survey, fewest_words
from tests.mapspaces import free_mapspace, matmul
from tests.solver.search.unusual import unusual_mapspaces
from tests.strategies import random_mapspaces


def fitting(space: SearchSpace, stages: tuple[StageClass, ...], tiles: IntArray) -> IntArray:
    """Those of `tiles` that leave room for what is unrolled whichever members the classes have."""
    bounds = np.array(space.lattice.bounds)
    for stage in stages:
        bounds //= np.gcd.reduce([member.factors for member in stage.members])
    extents = np.array([space.lattice.vector(int(tile)) for tile in tiles]).reshape(-1, len(bounds))
    return tiles[(bounds % extents == 0).all(axis=1)]


def hold_fewest(mapspace: Mapspace) -> int:
    """Compare with tiles that are looked at one by one; return for how many windows are unrolled."""
    space = SearchSpace(mapspace)
    grid = Survey(space).grid
    below, unrolled = FewestBelow(grid), 0
    for mask in space.keep_masks[:4]:
        for number in range(len(grid)):
            stages = grid.spatial(number)
            sub = EnergySubproblem(space, mask, stages)
            for place, level in ((p, level) for p, own in enumerate(sub.prices) for level in own):
                tenancy = level, space.tenants(mask, level)
                if level == len(space.levels) or len(space.feasible(*tenancy)) == 0:
                    continue
                tiles = fitting(space, stages[:level], space.feasible(*tenancy))
                words = space.floor_words(place, level, sub.unrolling(level))[tiles]
                (found,) = below.words(np.array([number]), place, tenancy)
                assert found == words.min(initial=NO_TILE)
                assert found >= fewest_words(space, place, tenancy)
                unrolled += sub.unrolling(level) != space.no_unrolling
    return unrolled


def test_words_are_the_fewest_of_all_tiles():
    assert sum(map(hold_fewest, random_mapspaces(1110, 80, 1500))) > 20


def test_unusual_einsums(monkeypatch: pytest.MonkeyPatch):
    assert sum(map(hold_fewest, unusual_mapspaces(monkeypatch, 1120, 30, 1000))) > 100


@pytest.mark.parametrize("most_known", [0, 1 << 20])
def test_the_order_of_questions_does_not_matter(most_known: int, monkeypatch: pytest.MonkeyPatch):
    """Nor does it how much is remembered."""
    monkeypatch.setattr(survey, "MOST_KNOWN", most_known)
    space = SearchSpace(
        free_mapspace(matmul(4, 6, 8), StorageLevel("dram"), Fanout("mesh", 8), StorageLevel("buffer"))
    )
    grid = Survey(space).grid
    every, random = np.arange(len(grid)), Random(0)
    tenancy = 1, space.tenants(space.keep_masks[0], 1)
    whole = FewestBelow(grid).words(every, 0, tenancy)
    below = FewestBelow(grid)
    for _ in range(5):
        some = np.array(random.choices(every.tolist(), k=7))
        for place in (1, 0):
            found = below.words(some, place, tenancy)
        np.testing.assert_array_equal(found, whole[some])
    assert len(below.words(every[:0], 0, tenancy)) == 0


def test_counting_stops_when_asked_to():
    """Tables of large lattices take a while each."""
    space = SearchSpace(
        free_mapspace(matmul(4, 6, 8), StorageLevel("dram"), Fanout("mesh", 8), StorageLevel("buffer"))
    )
    grid = Survey(space).grid
    with pytest.raises(Stopped):
        FewestBelow(grid, lambda: True).words(np.arange(len(grid)), 0, (1, frozenset((0,))))
