"""What a network accepts, and what an assignment of it costs."""

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.assignment import FORBIDDEN, CostedLayer, CostedNetwork, Edge, EdgeCosts, LayerCosts, build_network
from model.assignment.network import find_cycle


def layer(name, *costs):
    return CostedLayer(name, tuple(f"m{k}" for k in range(len(costs))), np.array(costs, dtype=np.int64))


def network(*edges, layers=(("a", 1, 2), ("b", 3, 4))):
    return CostedNetwork("n", "ms", 1, tuple(layer(*own) for own in layers), edges)


def test_total_adds_execution_and_transitions():
    own = network(Edge(0, 1, np.array([[10, 20], [FORBIDDEN, 40]])))
    assert own.total((0, 1)) == 1 + 4 + 20
    assert own.total((1, 1)) == 2 + 4 + 40
    assert own.total((1, 0)) is None


def test_an_edge_without_matrix_costs_nothing():
    assert network(Edge(0, 1)).total((1, 1)) == 6


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: network(layers=()), "at least one layer"),
        (lambda: network(layers=(("a", 1), ("a", 2))), "the same name"),
        (lambda: network(layers=(("a",),)), "methods must be given"),
        (lambda: network(layers=(("a", -2),)), "negative"),
        (lambda: network(Edge(0, 2)), "does not exist"),
        (lambda: network(Edge(0, 1, np.zeros((2, 1), dtype=np.int64))), r"shape \(2, 2\)"),
        (lambda: network(Edge(0, 1, np.zeros((2, 2)))), "exact integers"),
        (lambda: network(Edge(0, 1, np.full((2, 2), 0.5, dtype=object))), "exact integers"),
        (lambda: network(Edge(0, 1), Edge(1, 0)), "cycle: "),
        (lambda: network(Edge(0, 0)), "cycle: a -> a"),
    ],
)
def test_what_is_no_network_is_refused(build, message):
    with pytest.raises(ValueError, match=message):
        build()


@given(st.integers(1, 7), st.data())
def test_a_cycle_is_found_where_there_is_one(count, data):
    pairs = [(i, j) for i in range(count) for j in range(count)]
    edges = data.draw(st.lists(st.sampled_from(pairs), unique=True, max_size=10))
    cycle = find_cycle(edges)
    if cycle:
        assert cycle[0] == cycle[-1]
        assert all(pair in edges for pair in pairwise(cycle))
        return
    reached = {(i, j) for i, j in edges}
    for _ in range(count):
        reached |= {(i, k) for i, j in reached for jj, k in reached if j == jj}
    assert all(i != j for i, j in reached)


def test_costs_become_whole_steps():
    own = build_network(
        "n",
        "ms",
        [LayerCosts("a", {"x": Fraction(1, 3), "y": None}), LayerCosts("b", {"z": Fraction("0.25")})],
        [EdgeCosts("a", "b", {("x", "z"): 2})],
    )
    assert own.steps_per_unit == 12
    assert own.layers[0].costs.tolist() == [4, FORBIDDEN]
    assert own.in_unit(own.total((0, 0))) == Fraction(1, 3) + Fraction(1, 4) + 2


def test_costs_beyond_64_bits_stay_exact():
    tiny, huge = Fraction(1, 10**15), 10**15
    own = build_network("n", "ms", [LayerCosts("a", {"x": huge + tiny, "y": huge})], [])
    assert own.layers[0].costs.dtype == object
    assert own.in_unit(own.total((0,))) - own.in_unit(own.total((1,))) == tiny


@pytest.mark.parametrize(
    ("layers", "edges", "message"),
    [
        ([LayerCosts("a", {"x": -1})], [], "negative"),
        ([LayerCosts("a", {"x": 0.5})], [], "a Fraction"),
        ([LayerCosts("a", {"x": 1})], [EdgeCosts("a", "b", {})], "layer b"),
        (
            [LayerCosts("a", {"x": 1}), LayerCosts("b", {"x": 1})],
            [EdgeCosts("a", "b", {("x", "y"): 1})],
            "no pair of methods x, y",
        ),
    ],
)
def test_costs_that_do_not_fit_are_refused(layers, edges, message):
    with pytest.raises(ValueError, match=message):
        build_network("n", "ms", layers, edges)
