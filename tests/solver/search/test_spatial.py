"""Spatial choices against a naive enumeration of factors and orders."""

import math
from itertools import product
from random import Random

import pytest

from model.architecture import Fanout
from model.cost.tiles import tile_words
from model.mapspace import SpatialRules
from model.numbers import divisors
from model.problem import Problem
from solver.search.grid import spatial_grid
from solver.search.space import SearchSpace
from solver.search.spatial import fanout_choices, stage_choices
from tests.bruteforce import axis_choices
from tests.strategies import random_mapspaces


def naive(fanout: Fanout, rules: SpatialRules, problem: Problem) -> set[tuple[int, ...]]:
    """Factor vectors that some allowed order and split arranges on the mesh."""
    found = set()
    for factors in product(*(divisors(bound) for bound in problem.bounds)):
        factor = dict(zip(problem.dims, factors, strict=True))
        if not all(rule.allows(factor[rule.dim]) for rule in rules.factors):
            continue
        for along_x in axis_choices(rules, problem.dims):
            width = math.prod(factor[dim] for dim in along_x)
            height = math.prod(factors) // width
            if width <= fanout.mesh_x and height <= fanout.mesh_y:
                found.add(factors)
    return found


@pytest.mark.parametrize("seed", range(8))
def test_fanout_choices_are_all_that_fit(seed: int):
    random = Random(seed)
    compared = 0
    for mapspace in random_mapspaces(100 + seed, 12, 300):
        problem, space = mapspace.problem, SearchSpace(mapspace)
        for fanout, rules in zip(mapspace.architecture.fanouts, mapspace.spatial, strict=True):
            roomy = Fanout("f", random.randint(1, 6), random.randint(1, 6))
            for mesh in (fanout, roomy):
                choices = fanout_choices(mesh, rules, problem.dims, space.active, space.lattice.bounds)
                factors = [dict(zip(space.active, choice.factors, strict=True)) for choice in choices]
                found = [tuple(factor.get(dim, 1) for dim in problem.dims) for factor in factors]
                assert len(found) == len(set(found))
                assert set(found) == naive(mesh, rules, problem)
                compared += len(found)
                for factor, choice in zip(factors, choices, strict=True):
                    witness = {space.active[d] for d in choice.along_x}
                    used = {dim for dim in factor if factor[dim] > 1}
                    allowed = [used.intersection(c) for c in axis_choices(rules, problem.dims)]
                    assert used & witness in allowed
                    width = math.prod(factor[dim] for dim in witness)
                    assert width <= mesh.mesh_x
                    assert math.prod(choice.factors) // width <= mesh.mesh_y
    assert compared > 20


def test_stage_choices_divide_the_bounds():
    rules = SpatialRules()
    fanouts = [fanout_choices(Fanout("f", 4), rules, "MN", "MN", (4, 6)) for _ in range(2)]
    found = {(a.factors, b.factors) for a, b in (c.choices for c in stage_choices(fanouts, (4, 6)))}
    expected = set()
    vectors = [v for v in product(divisors(4), divisors(6)) if math.prod(v) <= 4]
    for a, b in product(vectors, vectors):
        if 4 % (a[0] * b[0]) == 0 and 6 % (a[1] * b[1]) == 0:
            expected.add((a, b))
    assert found == expected


@pytest.mark.parametrize("seed", range(4))
def test_grid_holds_every_combination_that_there_may_be_room_for(seed: int):
    kept = dropped = 0
    for mapspace in random_mapspaces(200 + seed, 10, 200):
        space = SearchSpace(mapspace)
        grid = spatial_grid(space)
        found = {grid.spatial(number) for number in range(len(grid))}
        assert len(found) == len(grid)
        for combination in product(*space.stages):
            units = math.prod(stage.units for stage in combination)
            members = list(product(*(s.members for s in combination)))
            possible = [own for own in members if divisible(space, own) and roomy(space, own)]
            if units < mapspace.min_parallelism or (len(members) == 1 and not possible):
                assert combination not in found
                dropped += 1
            elif possible:
                assert combination in found
                kept += 1
    assert kept > 0 and dropped > 0


def divisible(space: SearchSpace, members: tuple) -> bool:
    totals = [math.prod(m.factors[d] for m in members) for d in range(len(space.active))]
    return all(bound % total == 0 for bound, total in zip(space.lattice.bounds, totals, strict=True))


def roomy(space: SearchSpace, members: tuple) -> bool:
    """Whether every level can hold what is unrolled below it, of the dataspaces that it must keep."""
    bounds = dict.fromkeys(space.problem.dims, 1)
    for place, member in reversed(list(enumerate(members))):
        for dim, factor in zip(space.active, member.factors, strict=True):
            bounds[dim] *= factor
        level = space.levels[place]
        names = space.mapspace.keep[place].keep - level.no_coalesce
        sizes = (
            level.packing_of(name).size_per_value * tile_words(space.problem.dataspace(name), bounds)
            for name in names
        )
        if level.usable_words is not None and sum(sizes) > level.usable_words:
            return False
    return True
