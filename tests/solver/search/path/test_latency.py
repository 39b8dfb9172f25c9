"""The search along paths for latency, where bandwidths or the arithmetic decide."""

from dataclasses import replace
from fractions import Fraction

import pytest

from model.architecture import AccessEnergy, Fanout, StorageLevel
from model.extents import ANY
from model.mapspace import Mapspace
from tests.bruteforce import optimum
from tests.mapspaces import free_mapspace, matmul
from tests.slow import few
from tests.solver.search.path.alone import searched
from tests.strategies import random_mapspaces, random_mapspaces_with_remainders

ENERGY = AccessEnergy(1, 1, 1)


def scarce(mapspace: Mapspace) -> Mapspace:
    """Make every memory read and write slowly."""

    def slowed(level: StorageLevel) -> StorageLevel:
        return replace(level, read_bandwidth=Fraction(1, 3), write_bandwidth=Fraction(1, 2))

    architecture = mapspace.architecture
    nodes = tuple(slowed(node) if isinstance(node, StorageLevel) else node for node in architecture.nodes)
    return replace(mapspace, architecture=replace(architecture, nodes=nodes))


@pytest.mark.parametrize("draw", [random_mapspaces, random_mapspaces_with_remainders])
@pytest.mark.parametrize("seed", few(range(3)))
def test_optimum_where_bandwidths_are_scarce(draw, seed: int):
    for mapspace in map(scarce, draw(985 + seed, 5, 200)):
        best = optimum(mapspace, "latency")
        value = None if best is None else best[0]
        assert searched(mapspace, "latency") == (value, value)


def test_two_bandwidths_that_ask_for_different_tiles():
    """Large tiles of the buffer spare the DRAM, small ones the buffer: neither bound is attained."""
    dram = StorageLevel("dram", read_bandwidth=Fraction(1, 2), write_bandwidth=Fraction(1), energy=ENERGY)
    buffer = StorageLevel("buffer", 14, read_bandwidth=Fraction(1), energy=ENERGY)
    registers = StorageLevel("registers", 5, write_bandwidth=Fraction(1, 2), energy=ENERGY)
    mapspace = free_mapspace(matmul(5, 2, 3), dram, buffer, Fanout("array", 3, 1), registers)
    for own in (mapspace, replace(mapspace, factors=ANY)):
        best = optimum(own, "latency")
        assert best is not None
        assert searched(own, "latency") == (best[0], best[0])


def test_one_mapping_is_enough_where_the_arithmetic_decides():
    """A product of 60 x 60 x 60 has millions of mappings that take as long."""
    dram, buffer = StorageLevel("dram", energy=ENERGY), StorageLevel("buffer", 2000, energy=ENERGY)
    mapspace = free_mapspace(matmul(60, 60, 60), dram, buffer, Fanout("array", 7, 7))
    assert searched(replace(mapspace, factors=ANY), "latency") == (4860, 4860)
