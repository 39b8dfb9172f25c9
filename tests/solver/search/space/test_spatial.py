"""Spatial choices against a naive enumeration of factors and orders."""

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from operator import le
from random import Random

import pytest

from model.architecture import AccessEnergy, Fanout, StorageLevel
from model.choices import SideOrder
from model.extents import FACTORS, PERFECT, Extents
from model.mapspace import Mapspace, SpatialRules
from model.numbers import divisors
from model.problem import Problem
from solver.result import Options, Status, Termination
from solver.search import map_by_bounds
from solver.search.space import spatial
from solver.search.space.search_space import SearchSpace
from solver.search.space.spatial import FanoutChoice, StageChoice, fanout_choices
from solver.search.stopping import Stopped
from tests import strategies
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


def extents(space: SearchSpace) -> list[Extents]:
    """What the active dimensions may be split into."""
    return [Extents(bound, space.mapspace.factors) for bound in space.lattice.bounds]


@pytest.mark.parametrize("seed", range(8))
def test_fanout_choices_are_all_that_fit(seed: int):
    random = Random(seed)
    compared = 0
    for mapspace in random_mapspaces(100 + seed, 12, 300):
        problem, space = mapspace.problem, SearchSpace(mapspace)
        for fanout, rules in zip(mapspace.architecture.fanouts, mapspace.spatial, strict=True):
            roomy = Fanout("f", random.randint(1, 6), random.randint(1, 6))
            for mesh in (fanout, roomy):
                choices = fanout_choices(mesh, rules, problem.dims, space.active, extents(space))
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
        dims = mapspace.problem.dims
        options = [
            fanout_choices(fanout, rules, dims, space.active, extents(space))
            for fanout, rules in zip(mapspace.architecture.fanouts, mapspace.spatial, strict=True)
        ]
        naive = [own for own in product(*options) if divisible(space, own)]
        assert {told_apart(space, 0, [choice.factors for choice in own]) for own in naive} == found
        left_out += len(naive) - len(members)
    assert left_out > 20


@pytest.mark.parametrize("seed", range(4))
def test_classes_are_those_of_an_enumeration_one_by_one(seed: int):
    """Classes, members, their order and their sides agree."""
    random, compared = Random(seed), Counter[str]()
    for mapspace in random_mapspaces(400 + seed, 12, 300):
        drawn = consecutive(random, mapspace)
        rules = tuple(strategies._spatial_rules(random, mapspace.problem) for _ in drawn.spatial)
        for kind in FACTORS:
            space = SearchSpace(replace(drawn, spatial=rules, factors=kind))
            naive = classes_one_by_one(space)
            assert [(own.key, own.members) for own in space.stages[0]] == naive
            compared[kind] += len(naive)
    assert min(compared.values()) > 40


def classes_one_by_one(space: SearchSpace) -> list[tuple[object, tuple[StageChoice, ...]]]:
    """Keys and members of the outermost stage's classes."""
    mapspace, bounds = space.mapspace, space.lattice.bounds
    fanouts = mapspace.architecture.fanouts
    options = [
        list(choices_one_by_one(space, fanout, rules))
        for fanout, rules in zip(fanouts, mapspace.spatial, strict=True)
    ]
    firsts: dict[object, StageChoice] = {}
    for choices in product(*options):
        own = [choice.factors for choice in choices]
        member = StageChoice(choices, tuple(map(math.prod, zip(*own, strict=True))))
        if fits_bounds(space, member):
            needed = tiles_needed(member) if space.has_remainders else ()
            firsts.setdefault((told_apart(space, 0, own), needed), member)
    classes: dict[object, list[StageChoice]] = {}
    for member in firsts.values():
        distinct = tuple(
            math.prod(
                math.prod(choice.factors)
                if view.name in fanout.no_multicast
                else view.distinct_tiles(choice.factors, bounds, mapspace.factors)
                for fanout, choice in zip(fanouts, member.choices, strict=True)
            )
            for view in space.views
        )
        windows = tuple(f if d in space.window_dims else 1 for d, f in enumerate(member.factors))
        unused = tuple(math.prod(member.factors[d] for d in view.irrelevant) for view in space.views)
        classes.setdefault((math.prod(member.factors), unused, distinct, windows), []).append(member)
    return [(key, tuple(members)) for key, members in classes.items()]


def choices_one_by_one(space: SearchSpace, fanout: Fanout, rules: SpatialRules) -> Iterator[FanoutChoice]:
    """Every vector of factors that fits the mesh, with the first arrangement that does."""
    order = SideOrder.of(rules, space.problem.dims)
    for factors in product(*(own.values for own in extents(space))):
        factor = dict.fromkeys(space.problem.dims, 1) | dict(zip(space.active, factors, strict=True))
        if not all(rule.allows(factor[rule.dim]) for rule in rules.factors):
            continue
        for along_x in order.sets_along_x([dim for dim in space.active if factor[dim] > 1]):
            width = math.prod(factor[dim] for dim in along_x)
            if width <= fanout.mesh_x and math.prod(factors) <= width * fanout.mesh_y:
                yield FanoutChoice(factors, frozenset(map(space.active.index, along_x)))
                break


def fits_bounds(space: SearchSpace, member: StageChoice) -> bool:
    """Whether no child of any fanout is idle."""
    if space.mapspace.factors == PERFECT:
        return divisible(space, (member,))
    return all(map(le, tiles_needed(member), space.lattice.bounds))


def tiles_needed(member: StageChoice) -> tuple[int, ...]:
    """Per dimension, the fewest tiles for which no child of any fanout is idle, with remainders."""
    needed = []
    for factors in zip(*(choice.factors for choice in member.choices), strict=True):
        outermost = next((place for place, factor in enumerate(factors) if factor > 1), 0)
        needed.append((factors[outermost] - 1) * math.prod(factors[outermost + 1 :]) + 1)
    return tuple(needed)


def test_enumerating_spatial_choices_can_be_stopped():
    asked: list[bool] = []
    mapspace = free_mapspace(matmul(64, 64, 64), StorageLevel("dram"), Fanout("f", 64), Fanout("g", 64))

    def stop() -> bool:
        asked.append(True)
        return len(asked) > 1

    with pytest.raises(Stopped):
        _ = SearchSpace(mapspace, stop=stop).stages
    result = map_by_bounds(mapspace, Options(objectives=("energy",), time_limit_s=0))
    assert (result.status, result.termination) == (Status.UNKNOWN, Termination.TIME_LIMIT)


def test_more_spatial_choices_than_memory_holds_are_not_told_apart(monkeypatch: pytest.MonkeyPatch):
    nodes = StorageLevel("dram", energy=AccessEnergy(9, 9, 9)), Fanout("f", 4), Fanout("g", 4)
    mapspace = free_mapspace(matmul(4, 4, 4), *nodes, StorageLevel("buffer"))
    numbers = [sum(len(own.members) for own in stage) for stage in SearchSpace(mapspace).stages]
    for most, termination in ((numbers[0], Termination.PROVEN), (numbers[0] - 1, Termination.CHOICES)):
        monkeypatch.setattr(spatial, "MOST_CHOICES", most)
        assert map_by_bounds(mapspace, Options(objectives=("energy",))).termination == termination


def divisible(space: SearchSpace, members: tuple) -> bool:
    totals = [math.prod(m.factors[d] for m in members) for d in range(len(space.active))]
    return all(bound % total == 0 for bound, total in zip(space.lattice.bounds, totals, strict=True))


def test_arranging_dimensions_can_be_stopped_within_a_batch(monkeypatch: pytest.MonkeyPatch):
    arranged = []
    monkeypatch.setattr(spatial, "_sets_along_x", lambda *_: arranged.append(None) or iter(()))
    dims, asked = ("A", "B", "C"), iter((False, False, True))
    with pytest.raises(Stopped):
        fanout_choices(
            Fanout("PE", 8, 8), SpatialRules(), dims, dims, [Extents(2, PERFECT)] * 3, lambda: next(asked)
        )
    assert len(arranged) == 2
