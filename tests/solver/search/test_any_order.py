"""Floors over all orders of memories at once, against all mappings of small mapspaces."""

from random import Random

import pytest

from solver.search.orders import order_floors
from tests.orders import priced, small_orders
from tests.slow import few


@pytest.mark.parametrize("seed", few(range(60), 5))
def test_no_mapping_in_any_order_is_below(seed: int):
    mapspace = small_orders(Random(f"any order {seed}"), 800)
    every = priced(mapspace)
    energy, cycles = order_floors(mapspace, lambda: False)
    for own in every:
        assert energy <= own[0]
        assert cycles <= own[1]


def test_floors_may_be_attained():
    mapspace = small_orders(Random("any 2"), 1200)
    every = priced(mapspace)
    assert order_floors(mapspace, lambda: False) == (min(e for e, *_ in every), min(c for _, c, *_ in every))


def test_a_stop_leaves_no_floor():
    mapspace = small_orders(Random("any 2"), 1200)
    assert order_floors(mapspace, lambda: True) == (0, 0)
