"""The bound that holds without a look at any tile: below the optimum, and near it where little is open."""

from dataclasses import replace
from fractions import Fraction

import pytest

from model.architecture import AccessEnergy, Compute, Fanout, Packing, StorageLevel
from model.mapspace import KeepRules, Mapspace
from solver.result import Options, Status
from solver.search import map_by_bounds
from solver.search.trivial import trivial_bound
from tests.bruteforce import optima
from tests.mapspaces import free_mapspace, matmul
from tests.reference import OBJECTIVES
from tests.slow import few
from tests.strategies import random_mapspaces

MAC = 7

DRAM = StorageLevel("dram", energy=AccessEnergy(100, 100, 100))
REGISTERS = StorageLevel("registers", energy=AccessEnergy(3, 1, 2))


def mapspace_of(*nodes: StorageLevel | Fanout, keep: bool = True) -> Mapspace:
    """A matrix product of 4 x 3 x 2, all of whose levels keep everything, or what they like."""
    mapspace = free_mapspace(matmul(4, 3, 2), *nodes, keep=keep)
    return replace(mapspace, architecture=replace(mapspace.architecture, compute=Compute("mac", energy=MAC)))


@pytest.mark.parametrize("seed", few(range(8), 2))
def test_no_mapping_is_below(seed: int):
    for mapspace in random_mapspaces(340 + seed, 20, 500):
        for objective, best in zip(OBJECTIVES, optima(mapspace, OBJECTIVES), strict=True):
            assert best is None or trivial_bound(mapspace, objective) <= best[0]


@pytest.mark.parametrize(
    ("nodes", "keep", "operands"),
    [
        ((DRAM,), True, 100 + 100 + 100),
        ((DRAM, REGISTERS), True, 3 + 3 + 2),
        ((DRAM, Fanout("mesh", 4), REGISTERS), True, 3 + 3 + 2),
        # One read of the DRAM may serve a thousand computes.
        ((DRAM, Fanout("mesh", 1000), REGISTERS), False, Fraction(3, 10)),
        ((DRAM, Fanout("mesh", 1000, no_multicast=frozenset("A")), REGISTERS), False, 3 + Fraction(2, 10)),
        ((DRAM, Fanout("mesh", 2), replace(REGISTERS, block_size=4, cluster_size=2)), True, Fraction(8, 8)),
        # Seven instances are one whole cluster of four: one of them pays for all.
        ((DRAM, Fanout("mesh", 7), replace(REGISTERS, cluster_size=4)), True, Fraction(8, 7)),
        ((DRAM, replace(REGISTERS, cluster_size=4)), True, 3 + 3 + 2),
        (
            (DRAM, replace(REGISTERS, packing=(Packing("A", 2, accesses_per_block=5),))),
            True,
            Fraction(15, 2) + 3 + 2,
        ),
    ],
)
def test_every_operand_counts(nodes: tuple[StorageLevel | Fanout, ...], keep: bool, operands: int | Fraction):
    computes = 4 * 3 * 2
    assert trivial_bound(mapspace_of(*nodes, keep=keep), "energy") == int(computes * (MAC + operands))


def test_clusters_that_do_not_divide_the_instances():
    """Seven instances of a level whose clusters have four: one pays, for all seven."""
    registers = StorageLevel("registers", cluster_size=4, energy=AccessEnergy(10, 10, 10))
    mapspace = free_mapspace(matmul(7, 1, 1), StorageLevel("dram"), Fanout("mesh", 7), registers)
    result = map_by_bounds(mapspace, Options(objectives=("energy",)))
    assert result.status is Status.OPTIMAL
    assert (result.value, result.bound) == (50, 50)


def test_levels_outside_of_one_that_keeps_do_not_count():
    mapspace = mapspace_of(DRAM, REGISTERS)
    free = replace(mapspace, keep=(mapspace.keep[0], KeepRules(frozenset("A"), frozenset("B"))))
    # Z, read and updated, is kept by the registers or not.
    assert trivial_bound(free, "energy") == 24 * (MAC + 3 + 100 + 2)


def test_streams_that_pass_through_do_not_count_as_kept():
    """Where nothing is kept farther out, a level that does not coalesce keeps nothing."""
    level = replace(DRAM, no_coalesce=frozenset("Z"))
    assert trivial_bound(mapspace_of(REGISTERS, level), "energy") == 24 * (MAC + 100 + 100 + 2)


def test_latency_and_edp():
    mapspace = mapspace_of(DRAM, Fanout("mesh", 5))
    assert trivial_bound(mapspace, "latency") == 5
    assert trivial_bound(mapspace, "edp") == 5 * trivial_bound(mapspace, "energy")
