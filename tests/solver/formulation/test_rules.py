"""CP-SAT under user-defined rules, of all kinds, against complete enumeration."""

from dataclasses import replace
from random import Random

import pytest

from model.architecture import Fanout, StorageLevel
from model.cost import evaluate_in
from model.extents import ANY
from model.mapspace import Mapspace
from solver.formulation import Formulation, map_by_formulation
from solver.formulation.program import EmptyProgramError
from solver.result import Options, Status
from tests.bruteforce import count_mappings, optima
from tests.mapspaces import free_mapspace, matmul
from tests.random_rules import SPATIAL, TILE, WIDE, random_rule
from tests.strategies import random_mapspaces


def found(mapspace: Mapspace, objective: str) -> int | None:
    """Value of a proven optimum, None where nothing fits."""
    result = map_by_formulation(mapspace, Options((objective,)))
    assert result.status in (Status.OPTIMAL, Status.INFEASIBLE)
    if result.mapping is not None:
        assert evaluate_in(mapspace, result.mapping).valid
    return result.value


def ruled(random: Random, mapspace: Mapspace) -> Mapspace:
    """A mapspace with one or two rules of any kind."""
    kinds = (TILE, SPATIAL, WIDE, WIDE, WIDE)
    return mapspace.where(*(random_rule(random, mapspace, kinds) for _ in range(random.choice((1, 2)))))


@pytest.mark.parametrize(("seed", "factors"), [(1, "perfect"), (2, "perfect"), (3, ANY)])
def test_rules_of_all_kinds_against_enumeration(seed: int, factors: str):
    random, kinds = Random(seed), set()
    for number, drawn in enumerate(random_mapspaces(800 + seed, 8, 60)):
        mapspace = ruled(random, replace(drawn, factors=factors))
        if count_mappings(mapspace, 200, innermost_orders=False) > 200:
            continue
        objective = ("energy", "latency", "edp")[number % 3]
        (best,) = optima(mapspace, [objective])
        assert found(mapspace, objective) == (None if best is None else best[0]), mapspace.rules
        kinds.add(best is None)
    assert False in kinds


def levels() -> Mapspace:
    buffers = StorageLevel("buffer", size_words=30), StorageLevel("registers", size_words=12)
    return free_mapspace(matmul(4, 2, 4), StorageLevel("DRAM"), buffers[0], Fanout("PE", 4), buffers[1])


@pytest.mark.parametrize(
    "rule",
    [
        "tile(buffer, M) == 2 * tile(registers, M)",
        "spatial(PE, M) * temporal(DRAM, N) <= 4",
        "innermost(DRAM) in [M, K] and temporal(DRAM, M) >= 2",
        "words(buffer, A) + words(registers, Z) <= 9",
    ],
)
def test_rules_about_several_nodes_are_tables(rule: str):
    mapspace = levels().where(rule)
    formulation = Formulation(mapspace, timed=False)
    assert not formulation.rules.unstated
    (best,) = optima(mapspace, ["energy"])
    assert best is not None
    assert found(mapspace, "energy") == best[0]


def test_rules_about_costs_are_checked_afterwards():
    (best,) = optima(levels(), ["energy"])
    assert best is not None
    units = levels().architecture.units_per_pj
    mapspace = levels().where(f"energy > {best[0]} pJ / {units} or cycles % 7 == 1")
    assert Formulation(mapspace).rules.unstated == mapspace.rules
    (other,) = optima(mapspace, ["energy"])
    assert other is not None
    assert found(mapspace, "energy") == other[0]


def test_a_rule_that_no_mapping_satisfies():
    with pytest.raises(EmptyProgramError, match="tile"):
        Formulation(levels().where("tile(buffer, M) + tile(registers, M) > 8"))
    assert found(levels().where("tile(buffer, M) < tile(registers, M)"), "energy") is None
