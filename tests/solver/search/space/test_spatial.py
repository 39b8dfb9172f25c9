"""Spatial choices against a naive enumeration of factors and orders."""

import math
from dataclasses import replace
from itertools import combinations, product
from random import Random

import pytest

from model.architecture import Fanout, StorageLevel
from model.cost.counting import tile_words
from model.extents import Extents
from model.mapspace import Mapspace, SpatialRules
from model.numbers import divisors
from model.problem import Dataspace, Problem, Term
from solver.result import Options, Status, Termination
from solver.search import map_einsum
from solver.search.space.grid import spatial_grid
from solver.search.space.search_space import SearchSpace
from solver.search.space.spatial import fanout_choices
from solver.search.stopping import Stopped
from tests.bruteforce import axis_choices
from tests.mapspaces import free_mapspace, matmul
from tests.solver.search.unusual import told_apart
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
                choices = fanout_choices(
                    mesh, rules, problem.dims, space.active, [Extents(b) for b in space.lattice.bounds]
                )
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


def consecutive(random: Random, mapspace: Mapspace) -> Mapspace:
    """The mapspace with three fanouts below the outermost level, instead of its own."""
    outermost, *levels = mapspace.architecture.levels
    names = [space.name for space in mapspace.problem.dataspaces]
    fanouts = [
        Fanout(
            f"array{number}",
            *random.choice(((2, 1), (2, 2), (4, 1), (3, 2))),
            no_multicast=frozenset(random.sample(names, random.choice((0, 0, 1)))),
        )
        for number in range(3)
    ]
    gates = [random.choice((None, None, 0, 1, 2, 3)) for _ in levels]
    gated = [replace(level, gating_fanouts=gate) for level, gate in zip(levels, gates, strict=True)]
    architecture = replace(mapspace.architecture, nodes=(outermost, *fanouts, *gated))
    return replace(mapspace, architecture=architecture, spatial=(SpatialRules(),) * 3)


@pytest.mark.parametrize("seed", range(6))
def test_stages_hold_one_of_all_choices_that_no_cost_tells_apart(seed: int):
    """Combinations of three fanouts, one by one, against the members of the classes."""
    random = Random(seed)
    left_out = 0
    for mapspace in (consecutive(random, own) for own in random_mapspaces(300 + seed, 8, 300)):
        space = SearchSpace(mapspace)
        stage = space.stages[0]
        members = [member for own in stage for member in own.members]
        assert len({own.key for own in stage}) == len(stage)
        found = {told_apart(space, 0, [choice.factors for choice in own.choices]) for own in members}
        assert len(found) == len(members)
        dims, bounds = mapspace.problem.dims, space.lattice.bounds
        options = [
            fanout_choices(fanout, rules, dims, space.active, [Extents(bound) for bound in bounds])
            for fanout, rules in zip(mapspace.architecture.fanouts, mapspace.spatial, strict=True)
        ]
        naive = [own for own in product(*options) if divisible(space, own)]
        assert {told_apart(space, 0, [choice.factors for choice in own]) for own in naive} == found
        left_out += len(naive) - len(members)
    assert left_out > 20


def test_enumerating_spatial_choices_can_be_stopped():
    asked: list[bool] = []
    mapspace = free_mapspace(matmul(64, 64, 64), StorageLevel("dram"), Fanout("f", 64), Fanout("g", 64))

    def stop() -> bool:
        asked.append(True)
        return len(asked) > 1

    with pytest.raises(Stopped):
        _ = SearchSpace(mapspace, stop=stop).stages
    result = map_einsum(mapspace, Options(objectives=("energy",), time_limit_s=0))
    assert (result.status, result.termination) == (Status.UNKNOWN, Termination.TIME_LIMIT)


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
            single = len(members) == 1 and not possible
            if units < mapspace.min_parallelism or single or not agree_in_pairs(space, combination):
                assert combination not in found
                dropped += 1
            elif possible:
                assert combination in found
                kept += 1
    assert kept > 0 and dropped > 0


def test_members_of_two_stages_have_to_divide_the_bounds_together():
    """Both P and Q are unrolled by two already: there is no third factor of two for either of them."""
    spaces = (
        Dataspace("W", ((Term("K"),),)),
        Dataspace("I", ((Term("P"),), (Term("Q"),))),
        Dataspace("O", ((Term("K"),), (Term("P"),), (Term("Q"),)), read_write=True),
    )
    nodes = (
        StorageLevel("dram"),
        Fanout("f", 4),
        StorageLevel("buffer"),
        Fanout("g", 2),
        StorageLevel("register"),
    )
    space = SearchSpace(free_mapspace(Problem("outer", ("K", "P", "Q"), (2, 6, 6), spaces), *nodes))
    grid = spatial_grid(space)
    found = [grid.spatial(number) for number in range(len(grid))]
    both = [own for own in found if (1, 2, 2) in [member.factors for member in own[0].members]]
    assert both
    assert {member.factors for own in both for member in own[1].members} == {(1, 1, 1), (2, 1, 1)}
    assert any(len(own[1].members) == 2 for own in found)


def agree_in_pairs(space: SearchSpace, combination: tuple) -> bool:
    """Whether any two of the classes have members that divide the bounds together."""
    pairs = combinations(combination, 2)
    return all(any(divisible(space, own) for own in product(a.members, b.members)) for a, b in pairs)


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
