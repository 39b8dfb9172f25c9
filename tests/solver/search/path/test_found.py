"""Mapspaces on which searches along paths once had a wrong optimum, or listed mappings of equal cost."""

from dataclasses import replace

import pytest

from model.architecture import AccessEnergy, Fanout, StorageLevel
from model.extents import ANY
from model.mapspace import FactorRule, KeepRules, Mapspace, SpatialRules, TemporalRules
from model.problem import Dataspace, Problem, Term
from solver.search.goal import Goal
from solver.search.path.search import EinsumSearch
from solver.search.space.search_space import SearchSpace
from tests.bruteforce import optimum
from tests.mapspaces import free_mapspace, matmul
from tests.slow import few
from tests.solver.search.path.alone import quiet, searched

OBJECTIVES = ("energy", "edp")


def check(mapspace: Mapspace) -> None:
    """Bound and value are the optimum of the enumeration."""
    for objective in OBJECTIVES:
        best = optimum(mapspace, objective)
        assert best is not None
        assert searched(mapspace, objective) == (best[0], best[0])


def fixed(*factors: tuple[str, int]) -> tuple[FactorRule, ...]:
    """Factors that are prescribed."""
    return tuple(FactorRule(dim, "=", factor) for dim, factor in factors)


def test_a_memory_between_fanouts_of_one_dimension():
    """Of 13 tiles on 3 times 2 children the last outer child has one: 5 instances are in use, not 6."""
    dram = StorageLevel("dram", energy=AccessEnergy(5, 1, 5))
    buffer = StorageLevel("buffer", 40, energy=AccessEnergy(100, 5, 20, 50))
    registers = StorageLevel("registers", 20, energy=AccessEnergy(1, 1, 1, 50))
    nodes = dram, Fanout("outer", 3, 1), buffer, Fanout("inner", 2, 1), registers
    mapspace = replace(
        free_mapspace(matmul(1, 13, 1), *nodes),
        factors=ANY,
        spatial=(SpatialRules(fixed(("N", 3))), SpatialRules(fixed(("N", 2)))),
        temporal=(TemporalRules(), TemporalRules(), TemporalRules(fixed(("N", 1)))),
    )
    check(mapspace)


def test_loops_that_bring_a_window_back_to_where_it_was():
    """The last position of P is the next one of R: a loop over K between them would fetch its words again."""
    spaces = (
        Dataspace("W", ((Term("K"),), (Term("R"),))),
        Dataspace("I", ((Term("P"), Term("R", 2)),)),
        Dataspace("O", ((Term("K"),), (Term("P"),)), read_write=True),
    )
    dram = StorageLevel("dram", energy=AccessEnergy(65_361, 65_361, 65_361))
    buffer = StorageLevel("buffer", 4, energy=AccessEnergy(12_143, 6_847, 1_526))
    problem = Problem("dilated", ("K", "P", "R"), (4, 4, 2), spaces)
    mapspace = replace(
        free_mapspace(problem, dram, buffer, Fanout("row", 2, 1)),
        factors=ANY,
        keep=(KeepRules(frozenset("WIO")), KeepRules(frozenset("WI"), frozenset("O"))),
    )
    check(mapspace)


def test_children_that_share_nothing_are_counted_in_one_round():
    """All sums that six columns make alone come at once; that is known before paths are listed."""
    dram = StorageLevel("dram", energy=AccessEnergy(3, 3, 3))
    registers = StorageLevel("registers", 6, energy=AccessEnergy(1, 1, 1))
    nodes = dram, Fanout("columns", 6, 1, no_multicast=frozenset("Z")), registers
    mapspace = replace(
        free_mapspace(matmul(2, 2, 6), *nodes), factors=ANY, spatial=(SpatialRules(fixed(("K", 6))),)
    )
    check(mapspace)
    assert rows(mapspace, "energy") == 0


def rows(mapspace: Mapspace, objective: str) -> int:
    """How many rows of tiles are looked into though a best mapping is known."""
    best = optimum(mapspace, objective)
    assert best is not None
    shared = quiet()
    search = EinsumSearch(SearchSpace(mapspace), Goal(objective, incumbent=best[0]), shared)
    assert search.run() == best[0]
    return shared.statistics.listed


@pytest.mark.parametrize("unit", few([10**15 + 37, 1, 10**9 + 7]))
@pytest.mark.parametrize("leak", [0, 1])
def test_mappings_of_equal_cost_end_a_search(unit: int, leak: int):
    """Whatever the unit of energy is: doubles do not tell all sums apart."""
    prices = [AccessEnergy(own * unit, own * unit, own * unit, leak * own) for own in (200, 6)]
    nodes = StorageLevel("dram", energy=prices[0]), StorageLevel("buffer", 24, energy=prices[1])
    mapspace = replace(free_mapspace(matmul(6, 6, 6), *nodes), factors=ANY)
    check(mapspace)
    assert rows(mapspace, "edp") == 0


@pytest.mark.parametrize(
    ("bounds", "children", "words", "leaks"),
    [
        ((13, 1), (2, 3), 16, (20, 0)),
        ((10, 3), (4, 2), 9, (0, 20)),
        ((8, 1), (2, 3), 9, (20, 0)),
        ((15, 2), (2, 3), 8, (20, 20)),
    ],
)
def test_a_row_says_which_children_work_and_how_much_room_tiles_take(
    bounds: tuple[int, int], children: tuple[int, int], words: int, leaks: tuple[int, int]
):
    """What all children inside take is a whole tile; where there are more tiles than children, all work."""
    dram = StorageLevel("dram", energy=AccessEnergy(200, 200, 200))
    buffer = StorageLevel("buffer", words, energy=AccessEnergy(6, 6, 6, leaks[0]))
    registers = StorageLevel("registers", 3, energy=AccessEnergy(1, 1, 1, leaks[1]))
    outer, inner = children
    nodes = dram, Fanout("outer", outer, 1), buffer, Fanout("inner", inner, 1), registers
    mapspace = replace(
        free_mapspace(matmul(bounds[0], 1, bounds[1]), *nodes),
        factors=ANY,
        spatial=(SpatialRules(fixed(("M", outer))), SpatialRules(fixed(("M", inner)))),
    )
    check(mapspace)
    assert rows(mapspace, "energy") == 0


def test_larger_tiles_that_fill_blocks():
    """Of 9 words the children have 5 and 4, in two blocks of 3 each; or 6 and 3, in three blocks together."""
    dram = StorageLevel("dram", energy=AccessEnergy(9, 9, 9))
    buffer = StorageLevel("buffer", 40, block_size=3, energy=AccessEnergy(100, 100, 100))
    mapspace = replace(
        free_mapspace(matmul(9, 1, 1), dram, Fanout("row", 2, 1), buffer),
        factors=ANY,
        spatial=(SpatialRules(fixed(("M", 2))),),
        temporal=(TemporalRules(fixed(("M", 1))), TemporalRules()),
        keep=(KeepRules(frozenset("ABZ")), KeepRules(frozenset("AZ"), frozenset("B"))),
    )
    check(mapspace)
