"""Room over time: what follows prices, and how assignments are crossed."""

import random

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from solver.assignment.capacity import Capacity
from solver.assignment.crossover import Crossover, penalised
from solver.assignment.elimination import reduce_instance
from solver.assignment.instance import Instance, price
from solver.assignment.kernel_model import KernelRequest
from solver.assignment.result import CP_SAT
from solver.assignment.room import _even_prices, _follow_prices, _Search
from solver.result import Clock
from tests.solver.assignment.networks import GENERAL, crowded_networks, networks, totals

REQUEST = KernelRequest(engine=CP_SAT)


def never():
    return False


@settings(max_examples=60)
@given(crowded_networks())
def test_what_follows_prices_fits_and_bounds_all_that_does(network):
    capacity = Capacity.of(network)
    if capacity is None or capacity.is_hopeless or not capacity.usages:
        return
    instance = Instance.of(network)
    search = _Search(instance, capacity, Clock(None), None)
    _follow_prices(search, REQUEST, _even_prices(search, REQUEST))
    found = totals(network)
    if not found:
        assert search.choice is None
        return
    assert search.bound <= found[0]
    assert search.evidence is not None
    assert search.evidence.bound == search.bound
    if search.choice is not None:
        assert network.total(search.choice) == search.total >= found[0]


def test_prices_rise_where_room_is_exceeded():
    """Of two layers that are alive together, one has to take what occupies less: the one that loses least."""
    instance = Instance([np.array([100, 0]), np.array([30, 0])], {}, 1000)
    usages = {0: np.array([0, 6]), 1: np.array([0, 6])}
    spans = {0: (0, 1), 1: (0, 1)}
    capacity = Capacity(np.array([7], dtype=object), usages, spans, np.array([0]))
    search = _Search(instance, capacity, Clock(None), None)
    _follow_prices(search, REQUEST, np.array([1.0]))
    assert (search.choice, search.total) == ((1, 0), 30)
    assert 0 < search.bound <= 30


@settings(max_examples=60)
@given(networks(GENERAL, most_layers=6), st.randoms(use_true_random=False))
def test_crossed_assignments_are_no_worse(network, source):
    reduced = reduce_instance(Instance.of(network), 0)
    own = penalised(Instance.of(network))
    assert own.infinity > price(own, [0] * len(own.vectors))
    crossover = Crossover(own, random.Random(source.random()), never)
    drawn = [tuple(source.randrange(len(vector)) for vector in own.vectors) for _ in range(3)]
    best = min(price(own, choice) for choice in drawn)
    crossed = crossover.crossed(drawn)
    assert price(own, crossed) <= best
    assert all(value in values for value, *values in zip(crossed, *drawn, strict=True))
    for choice in drawn:
        assert price(own, crossover.improved(choice)) <= price(own, choice)
    if not reduced.kernels and (found := totals(network)) and found[0] < own.infinity >> 8:
        assert price(own, crossover.made()) == found[0]
