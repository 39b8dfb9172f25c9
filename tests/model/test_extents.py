"""Extents of dimensions, and chains of loops, against counting one by one."""

from dataclasses import replace
from itertools import product
from random import Random

import pytest

from model.extents import ANY, FACTORS, PERFECT, Extents, remainder_of
from model.mapspace_size import mapspace_size
from model.numbers import divisors
from tests.bruteforce import enumerate_mappings, ordered_factorizations
from tests.mapspaces import free_mapspace, matmul
from tests.model.cost.nests import BUFFER, DRAM


def covers(bound: int, factors: tuple[int, ...]) -> bool:
    """Whether every loop is needed, the last one being as long as it has to be."""
    extent = 1
    for place, factor in enumerate(factors):
        outermost = place == len(factors) - 1
        left = -(-bound // extent)
        if factor > left or (outermost and factor != left):
            return False
        extent *= factor
    return extent >= bound


@pytest.mark.parametrize("bound", [1, 2, 7, 12, 13])
@pytest.mark.parametrize("loops", [1, 2, 3])
def test_chains_are_all_those_that_cover_the_dimension(bound: int, loops: int):
    every = product(range(1, bound + 1), repeat=loops)
    expected = {factors for factors in every if covers(bound, factors)}
    chains = list(Extents(bound, ANY).chains(loops))
    assert len(chains) == len(set(chains))
    assert set(chains) == expected
    perfect = set(Extents(bound, PERFECT).chains(loops))
    assert perfect == set(ordered_factorizations(bound, loops)) <= expected


@pytest.mark.parametrize("kind", FACTORS)
@pytest.mark.parametrize("bound", [1, 6, 7, 12])
def test_between_is_the_loop_that_leads_from_one_extent_to_another(kind, bound: int):
    extents = Extents(bound, kind)
    for inner, outer in product(extents.values, repeat=2):
        factors = [f for f in extents.factors(inner) if extents.grown(inner, f) == outer]
        assert extents.between(inner, outer) == (factors[0] if factors else None)
        assert len(factors) <= 1


def test_perfect_extents_are_the_divisors():
    assert tuple(Extents(12).values) == divisors(12)
    assert Extents(12).between(4, 6) is None
    assert Extents(12, ANY).between(5, 12) == 3
    assert Extents(12, ANY).between(5, 11) is None


def test_remainders_are_the_digits_of_the_last_iteration():
    # 7 iterations as 4 of 2: the last iteration is number 6, digits 3 and 0.
    assert [remainder_of(7, 1, 2), remainder_of(7, 2, 4)] == [1, 4]
    for bound in range(1, 30):
        for chain in Extents(bound, ANY).chains(3):
            last, inner = 0, 1
            for factor in chain:
                last += inner * (remainder_of(bound, inner, factor) - 1)
                inner *= factor
            assert last == bound - 1


def test_mapspaces_with_remainders_have_as_many_factorizations_as_are_enumerated():
    random = Random(1)
    for _ in range(20):
        mapspace = free_mapspace(matmul(*(random.randint(1, 5) for _ in range(3))), DRAM, BUFFER)
        wider = replace(mapspace, factors=ANY)
        found = sum(1 for _ in enumerate_mappings(wider, innermost_orders=False))
        orders = {
            tuple(frozenset((loop.dim, loop.bound) for loop in node.temporal) for node in mapping.nodes)
            for mapping in enumerate_mappings(wider)
        }
        assert mapspace_size(wider).factorizations == len(orders) <= found
