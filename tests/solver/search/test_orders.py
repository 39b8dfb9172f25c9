"""The search over orders of memories against complete enumerations."""

from dataclasses import replace
from functools import cache
from random import Random

import pytest

from model.objective import objective_value
from model.orders import in_order, orders
from solver.result import Options, Status, Termination
from solver.search.mapper import map_by_bounds
from solver.search.orders import map_orders
from solver.stages import map_einsum
from tests.orders import priced, random_orders, small_orders
from tests.slow import few

MOST = 2000
"""Mappings of a case that are enumerated."""

OBJECTIVES = (("energy",), ("latency",), ("edp",), ("latency", "energy"))


@pytest.mark.parametrize("seed", few(range(40), 6))
def test_optima_are_those_of_a_complete_enumeration(seed: int):
    mapspace = small_orders(Random(seed), MOST)
    every = priced(mapspace)
    for objectives in OBJECTIVES:
        values = [tuple(objective_value(name, *cost) for name in objectives) for cost in every]
        result = map_einsum(mapspace, Options(jobs=1, objectives=objectives))
        if not values:
            assert result.status is Status.INFEASIBLE
            continue
        assert result.status is Status.OPTIMAL
        assert tuple(result.evaluation.value(name) for name in objectives) == min(values)
        assert result.mapspace.architecture.has_own_order
        if result.hardware_order.value is not None:
            assert result.hardware_order.value >= result.value


@cache
def gaining() -> tuple:
    """A mapspace in which another order than the hardware's is better, and both results."""
    mapspace = random_orders(Random(37))  # the first one of them that has 12 orders at most
    result = map_orders(mapspace, Options(objectives=("energy",)))
    assert result.hardware_order.value > result.value
    return mapspace, result


def test_a_search_that_is_stopped_has_a_bound_that_holds():
    mapspace, result = gaining()
    left = iter(range(40))
    stopped = map_orders(
        mapspace, Options(objectives=("energy",)), should_stop=lambda: next(left, None) is None
    )
    assert stopped.termination is Termination.INTERRUPTED
    assert stopped.bound <= result.value <= (stopped.value or result.value)


def test_other_searches_refuse_a_free_order():
    mapspace, result = gaining()
    with pytest.raises(ValueError, match="memories in the order of the hardware only"):
        map_by_bounds(mapspace)
    with pytest.raises(ValueError, match="memories in the order of the hardware only"):
        map_by_bounds(replace(result.mapspace, joint=()))
    with pytest.raises(ValueError, match="CP-SAT supports memories in the order of the hardware only"):
        map_einsum(mapspace, Options(engine="cp-sat"))


def test_the_result_has_the_order_of_its_mapping():
    mapspace, result = gaining()
    assert any(in_order(mapspace, own) == result.mapspace for own in orders(mapspace))
