"""The CP-SAT core: what it enumerates, its safety margins, and answers that cannot be right."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from ortools.sat.python import cp_model

from model.architecture import AccessEnergy, Architecture, Compute, StorageLevel
from model.mapspace import FactorRule, KeepRules, Mapspace, TemporalRules
from solver.cpsat import ModelError
from solver.result import Options, Status
from solver.search import map_einsum
from solver.search.bounds.lattice_bounds import LatticeBounds
from solver.search.branching.completion import Completion
from solver.search.branching.core import Core
from solver.search.goal import Goal
from solver.search.space.search_space import SearchSpace
from tests.bruteforce import optimum
from tests.mapspaces import matmul
from tests.solver.planted import WRONG, in_floating_point, plant
from tests.solver.search.unusual import subproblems, unlimited_bounds
from tests.strategies import random_mapspaces

LARGEST = (1 << 31) - 1


def never() -> bool:
    return False


def open_bounds(mapspace: Mapspace) -> Iterator[LatticeBounds]:
    for sub in subproblems(SearchSpace(mapspace)):
        bounds = unlimited_bounds(sub)
        if not bounds.empty:
            yield bounds


def one_mapspace() -> Mapspace:
    """A matrix product in two levels whose best tiles are forbidden."""
    nodes = (
        StorageLevel("dram", energy=AccessEnergy(100, 100, 100)),
        StorageLevel("buffer", size_words=9, energy=AccessEnergy(3, 2, 1)),
    )
    outer = TemporalRules(factors=(FactorRule("M", "=", 4), FactorRule("N", ">=", 2)))
    everything = KeepRules(frozenset("ABZ"))
    return Mapspace(
        matmul(4, 4, 4),
        Architecture("a", nodes, Compute("mac")),
        (outer, TemporalRules()),
        (),
        (everything, everything),
    )


def factors_found(core: Core) -> set[tuple[Any, ...]]:
    return {(s.temporal, s.spatial) for s in core.skeletons(never) if s is not None}


def factors_expected(bounds: LatticeBounds) -> set[tuple[Any, ...]]:
    """Every choice of tiles and spatial members whose loops are whole and allowed."""
    space = bounds.space
    tiles = [[space.lattice.bounds], *([space.lattice.vector(t) for t in s.tiles] for s in bounds.stages)]
    partial: list[tuple[tuple[tuple[int, ...], ...], tuple[Any, ...], tuple[int, ...]]]
    partial = [((), (), space.lattice.bounds)]
    for level, (slot, stage) in enumerate(zip(space.slots, bounds.sub.spatial, strict=True)):
        inner = tiles[level + 1] if level + 1 < len(tiles) else [(1,) * len(space.active)]
        following = []
        for temporal, spatial, outer in partial:
            for tile in inner:
                for member in stage.members:
                    spans = [a * b for a, b in zip(tile, member.factors, strict=True)]
                    if any(o % s for o, s in zip(outer, spans, strict=True)):
                        continue
                    loops = tuple(o // s for o, s in zip(outer, spans, strict=True))
                    if all(f in allowed for f, allowed in zip(loops, slot.allowed, strict=True)):
                        following.append(((*temporal, loops), (*spatial, member), tile))
        partial = following
    return {(temporal, spatial) for temporal, spatial, _ in partial}


@pytest.mark.parametrize("seed", range(3))
def test_enumerates_all_factors_below_a_generous_limit(seed: int):
    compared = 0
    for mapspace in random_mapspaces(500 + seed, 6, 60):
        for bounds in open_bounds(mapspace):
            expected = factors_expected(bounds)
            if 0 < len(expected) <= 20:
                generous = bounds.room(bounds.constant + 10**15)
                assert factors_found(Core(bounds, generous, seed)) == expected
                compared += 1
                break
    assert compared > 1


@pytest.mark.parametrize("limit", [1, 10**6, 1 << 40, 1 << 59])
def test_no_number_leaves_the_range_where_presolve_is_sound(limit: int):
    checked = 0
    for mapspace in random_mapspaces(510, 12, 200):
        for bounds in open_bounds(mapspace):
            proto = Core(bounds, limit, 0).model.proto
            domain = [max(abs(bound) for bound in variable.domain) for variable in proto.variables]
            for row in (c.linear for c in proto.constraints if c.has_linear()):
                terms = [abs(c) * domain[v] for c, v in zip(row.coeffs, row.vars, strict=True)]
                assert sum(terms) <= LARGEST
            assert sum(abs(c) for c in proto.objective.coeffs) <= LARGEST
            checked += 1
            break
    assert checked > 5


def test_works_around_presolve_and_leaves_ctrl_c_alone(monkeypatch: pytest.MonkeyPatch):
    seen = []
    original = cp_model.CpSolver.solve

    def spy(solver: cp_model.CpSolver, model: cp_model.CpModel, *rest: Any) -> Any:
        seen.append(solver.parameters)
        return original(solver, model, *rest)

    monkeypatch.setattr(cp_model.CpSolver, "solve", spy)
    map_einsum(one_mapspace(), Options(objectives=("energy",), branch_nodes=0, seed=7))
    assert seen
    for parameters in seen:
        assert parameters.presolve_inclusion_work_limit == 0
        assert parameters.catch_sigint_signal is False
        assert parameters.num_workers == 1
        assert parameters.random_seed == 7


@pytest.mark.parametrize("lie", WRONG)
def test_wrong_answers_are_errors(lie: str, monkeypatch: pytest.MonkeyPatch):
    plant(monkeypatch, WRONG[lie])
    with pytest.raises(ModelError):
        map_einsum(one_mapspace(), Options(objectives=("energy",), branch_nodes=0))


def test_floating_point_is_read_as_the_whole_number_that_is_meant(monkeypatch: pytest.MonkeyPatch):
    plant(monkeypatch, in_floating_point)
    mapspace = one_mapspace()
    best = optimum(mapspace, "energy")
    assert best is not None
    result = map_einsum(mapspace, Options(objectives=("energy",), branch_nodes=0))
    assert (result.status, result.value) == (Status.OPTIMAL, best[0])


def planted(monkeypatch: pytest.MonkeyPatch, lie: Callable[[str, bool], bool]) -> None:
    """Let CP-SAT's answers pass through `lie`, which gets a variable's name and value."""
    original = cp_model.CpSolver.boolean_value
    monkeypatch.setattr(
        cp_model.CpSolver,
        "boolean_value",
        lambda solver, literal: lie(literal.name, original(solver, literal)),
    )


def test_no_planted_tile_is_taken_for_optimal(monkeypatch: pytest.MonkeyPatch):
    """Whichever tile the first answer wrongly names, what comes out is an error or the optimum."""
    mapspace = one_mapspace()
    best = optimum(mapspace, "energy")
    assert best is not None
    tiles = len(next(open_bounds(mapspace)).stages[0].tiles)
    caught = 0
    for wrong in range(tiles):
        told: set[str] = set()

        def lie_once(name: str, true: bool, wrong: int = wrong, told: set[str] = told) -> bool:
            if not name.startswith("tile1_") or name in told:
                return true
            told.add(name)
            return name == f"tile1_{wrong}"

        with monkeypatch.context() as patch:
            planted(patch, lie_once)
            try:
                result = map_einsum(mapspace, Options(objectives=("energy",), branch_nodes=0))
            except ModelError:
                caught += 1
                continue
        assert result.status is Status.OPTIMAL
        assert result.value == best[0]
    assert caught > 0


def test_tries_for_longer_until_stopped(monkeypatch: pytest.MonkeyPatch):
    def give_up(model: cp_model.CpModel, response: Any) -> None:
        response.status = cp_model.UNKNOWN

    plant(monkeypatch, give_up)
    bounds = next(open_bounds(one_mapspace()))
    core = Core(bounds, bounds.room(10**9), 0)
    assert list(core.skeletons(lambda: core.calls >= 3)) == [None]
    assert core.calls == 3


def test_limit_excludes_what_cannot_improve():
    mapspace = one_mapspace()
    best = optimum(mapspace, "energy")
    assert best is not None
    bounds = next(open_bounds(mapspace))
    assert list(Core(bounds, bounds.room(bounds.constant), 0).skeletons(never)) == []
    found = list(Core(bounds, bounds.room(best[0] + 1), 0).skeletons(never))
    values = [
        priced.evaluation.energy
        for s in found
        if s is not None
        for priced in Completion(s).best(Goal("energy"), never)
    ]
    assert min(values) == best[0]
