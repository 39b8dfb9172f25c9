"""CP-SAT alone against enumeration and against the search, and faults that they have to show."""

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from itertools import count
from random import Random
from typing import Any

import pytest

from model.cost import evaluate_in
from model.extents import ANY
from model.mapping import Mapping, StorageMapping
from model.mapspace import Mapspace
from solver.cpsat import ModelError
from solver.formulation import constraints, map_by_formulation, objective, tables, variables, windows
from solver.formulation.chains import Chain
from solver.formulation.engine import Beginning
from solver.formulation.model import Formulation
from solver.result import Options, Progress, Status, Termination
from solver.search import map_by_bounds
from tests.bruteforce import count_mappings, enumerate_mappings, optima
from tests.conftest import REPOSITORY
from tests.mapspaces import perfect_mapspace
from tests.strategies import random_mapspaces, with_tolls

OBJECTIVES = (("energy",), ("latency",), ("edp",), ("latency", "energy"), ("edp", "latency"))
SPECS = REPOSITORY / "specs"


def found(mapspace: Mapspace, objectives: tuple[str, ...]) -> tuple[int, ...] | None:
    """Values of a proven optimum, None where nothing fits."""
    result = map_by_formulation(mapspace, Options(objectives))
    if result.status is Status.INFEASIBLE:
        return None
    assert result.status is Status.OPTIMAL
    assert result.evaluation is not None
    assert [result.bound, *result.later_bounds] == [result.evaluation.value(name) for name in objectives]
    return tuple(result.evaluation.value(name) for name in objectives)


def enumerated(mapspace: Mapspace, objectives: tuple[str, ...]) -> object:
    """Enumerate all mappings and return the best values of the objectives, or None."""
    (best,) = optima(mapspace, [objectives])
    return None if best is None else best[0]


@pytest.mark.parametrize("seed", range(2))
def test_agrees_with_enumeration(seed: int):
    for number, mapspace in enumerate(random_mapspaces(700 + seed, 12, 200)):
        objectives = OBJECTIVES[number % len(OBJECTIVES)]
        assert found(mapspace, objectives) == enumerated(mapspace, objectives), number


def test_agrees_with_enumeration_through_tolls():
    random = Random(760)
    for number, drawn in enumerate(random_mapspaces(760, 12, 120)):
        objectives = OBJECTIVES[number % len(OBJECTIVES)]
        mapspace = with_tolls(random, drawn)
        assert found(mapspace, objectives) == enumerated(mapspace, objectives), number


def test_agrees_with_enumeration_of_remainders():
    checked = 0
    for number, drawn in enumerate(random_mapspaces(720, 24, 40)):
        mapspace = replace(drawn, factors=ANY)
        if count_mappings(mapspace, 300, innermost_orders=False) <= 300:
            objectives = OBJECTIVES[number % 3]
            assert found(mapspace, objectives) == enumerated(mapspace, objectives), number
            checked += 1
    assert checked > 12


@pytest.mark.parametrize(
    ("architecture", "layer", "goal"),
    [("weight_stationary", "gemm/1024", "energy"), ("weight_stationary", "gemm/1024", "edp")],
)
def test_agrees_with_the_search_on_shipped_layers(architecture: str, layer: str, goal: str):
    files = [SPECS / "architectures" / f"{architecture}.yaml", SPECS / "layers" / f"{layer}.yaml"]
    mapspace = perfect_mapspace(*files)
    options = Options((goal,))
    assert found(mapspace, (goal,)) == (map_by_bounds(mapspace, options).value,)


# ------------------------------------------------------------------------- interruptions


def test_stops_with_bounds_that_hold():
    for number, mapspace in enumerate(random_mapspaces(730, 12, 150)):
        objectives = OBJECTIVES[number % 3]
        best = enumerated(mapspace, objectives)
        calls = iter(range(1000))
        result = map_by_formulation(
            mapspace, Options(objectives), None, lambda own=calls, n=number: next(own) > n % 4
        )
        if result.status is Status.INFEASIBLE:
            assert best is None
        elif result.status is not Status.OPTIMAL:
            assert result.termination is Termination.INTERRUPTED
            assert best is None or result.bound <= best[0]
            assert result.value is None or result.value >= best[0]


@pytest.mark.parametrize("objective", ["energy", "edp"])
def test_stops_wherever_it_is_asked_to(objective: str):
    """Also while constraints and hints are added between two solves."""
    mapspace = next(own for own in random_mapspaces(700, 12, 200) if optima(own, [objective])[0])
    (best,) = optima(mapspace, [objective])
    asked = count()
    map_by_formulation(mapspace, Options((objective,)), None, lambda: next(asked) < 0)
    last = next(asked)
    for most in range(0, last, max(1, last // 60)):
        calls = count()
        result = map_by_formulation(
            mapspace, Options((objective,)), None, lambda own=calls, n=most: next(own) >= n
        )
        assert result.bound is not None and result.bound <= best[0]
        assert result.value is None or result.value >= best[0]


def test_no_time_at_all():
    (mapspace,) = random_mapspaces(731, 1, 200)
    result = map_by_formulation(mapspace, Options(("energy",), time_limit_s=0))
    assert (result.status, result.termination) == (Status.UNKNOWN, Termination.TIME_LIMIT)


def test_the_same_mapping_every_time_and_progress_on_the_way():
    seen: list[Progress] = []
    mapspace = random_mapspaces(732, 6, 400)[-1]
    results = [map_by_formulation(mapspace, Options(("energy",)), seen.append) for _ in range(2)]
    assert results[0].mapping == results[1].mapping
    assert all(own.bound is None or own.incumbent is None or own.bound <= own.incumbent for own in seen)


# ------------------------------------------------------------------------ planted faults


def dearer(self: Any, space: Any, number: int, price: int) -> Fraction:
    """Prices that are too high by half."""
    return Fraction(3 * price, 2)


FAULTS: dict[str, tuple[object, str, Callable[[Any], Any]]] = {
    "prices too high": (objective.CostTables, "_price", lambda own: dearer),
    "reads of first touches forgotten": (
        objective.View,
        "first_touches",
        lambda own: lambda self, reader, each=False: self._program.constant(0),
    ),
    "reuse never claimed": (
        objective.Reuse,
        "ends",
        lambda own: lambda self, level, dim: [(level, self._program.true)],
    ),
    "windows overstated": (
        windows,
        "covered_window",
        lambda own: lambda *given: 9 * own(*given),
    ),
    "steps of windows overstated": (
        objective,
        "fewest_in_steps",
        lambda own: lambda along: 3 * own(along),
    ),
    "capacities too small": (
        tables.Tables,
        "words_at_most",
        lambda own: lambda self, tiles, most, literal: own(self, tiles, most // 2, literal),
    ),
    "capacities forgotten": (
        constraints.Constraints,
        "_limit_tiles",
        lambda own: lambda self, constraint, literal: None,
    ),
    "meshes too small": (
        tables.Tables,
        "product_at_most",
        lambda own: lambda self, name, parts, most, literal: own(self, name, parts, 1, literal),
    ),
    "orders fixed": (
        variables.LoopOrder,
        "inside",
        lambda own: lambda self, one, other: own(self, one, other) if one in self._rank else one < other,
    ),
    "positions miscounted": (
        Chain,
        "_closed",
        lambda own: lambda self, extent, tallies, label: tuple(
            2 * n for n in own(self, extent, tallies, label)
        ),
    ),
    "all of a kind excluded": (
        Formulation,
        "_whole",
        lambda own: lambda self, candidate: own(self, candidate)[:1],
    ),
    "too much added": (
        Formulation,
        "_part",
        lambda own: lambda self, candidate, level, name: own(self, candidate, level, name)[:0],
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_caught(name: str, monkeypatch: pytest.MonkeyPatch):
    place, attribute, fault = FAULTS[name]
    monkeypatch.setattr(place, attribute, fault(getattr(place, attribute)))
    for number, mapspace in enumerate(random_mapspaces(750, 60, 80)):
        goal = OBJECTIVES[number % 3]
        try:
            result = map_by_formulation(mapspace, Options(goal))
        except ModelError:
            return
        if (None if result.value is None else (result.value,)) != enumerated(mapspace, goal):
            return
    pytest.fail("nobody noticed")


def no_loops(formulation: Formulation) -> None:
    """No loop at the outermost level."""
    slot, program = formulation.variables.slots[0], formulation.program
    program.model.add(program.sum_of([slot.live(dim) for dim in slot.dims]) <= 0)


def has_no_loops(mapspace: Mapspace, mapping: Mapping) -> bool:
    node = mapping.nodes[0]
    assert isinstance(node, StorageMapping)
    return all(loop.bound == 1 for loop in node.temporal)


def small_perimeter(formulation: Formulation) -> None:
    """One extent of the tiles at the innermost level is 2 at the most, all others are 1."""
    own, program = formulation.variables, formulation.program
    dims = formulation.mapspace.problem.dims
    total = own.chains[dims[0]].extent(own.positions[-1])
    for dim in dims[1:]:
        extent = own.chains[dim].extent(own.positions[-1])
        total = program.combined(total, extent, lambda one, other: one + other)
    too_long = program.holds(total, lambda length: length > len(dims) + 1)
    program.forbid([] if too_long is None else [too_long])


def has_small_perimeter(mapspace: Mapspace, mapping: Mapping) -> bool:
    extents = dict.fromkeys(mapspace.problem.dims, 1)
    for node in mapping.nodes[mapspace.architecture.storage_indices[-1] :]:
        for loop in node.temporal if isinstance(node, StorageMapping) else node.spatial:
            extents[loop.dim] *= loop.bound
    return sum(extents.values()) <= len(extents) + 1


@pytest.mark.parametrize(
    ("constrain", "keeps_to"), [(no_loops, has_no_loops), (small_perimeter, has_small_perimeter)]
)
def test_constraints_on_the_variables(constrain, keeps_to):
    """What the language of rules cannot say, against all mappings for which it holds."""
    seen = set()
    for number, mapspace in enumerate(random_mapspaces(700, 14, 150)):
        objective = OBJECTIVES[number % 2 * 2][0]
        pairs = ((own, evaluate_in(mapspace, own)) for own in enumerate_mappings(mapspace))
        values = [own.value(objective) for mapping, own in pairs if own.valid and keeps_to(mapspace, mapping)]
        result = map_by_formulation(mapspace, Options((objective,)), beginning=Beginning(constrain=constrain))
        assert result.value == min(values, default=None)
        assert result.status is (Status.OPTIMAL if values else Status.INFEASIBLE)
        seen.add((result.status, result.value == map_by_bounds(mapspace, Options((objective,))).value))
    assert {False} <= {is_free for _, is_free in seen}
