"""Assignments of random networks against complete enumeration."""

from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from model.assignment import CostedLayer, CostedNetwork, Edge, EdgeCosts, LayerCosts, build_network
from solver import toulbar
from solver.assignment import AssignOptions, assign, assigner, elimination
from solver.assignment.elimination import reduce_instance
from solver.assignment.kernel_model import CP_SAT, KernelRequest
from solver.result import Status, Termination
from tests.model.assignment.dynamap import reference
from tests.solver.assignment.networks import GENERAL, crowded_networks, networks, totals


def assert_agrees_with_enumeration(network):
    best_first = totals(network)
    result = assign(network)
    assert result.termination is Termination.PROVEN
    if not best_first:
        assert result.status is Status.INFEASIBLE
        assert result.reasons
        return
    assert result.status is Status.OPTIMAL
    assert result.total == result.bound == best_first[0] == network.total(result.best.choice)
    if len(best_first) == 1:
        assert result.runner_up is result.margin is None
        return
    assert result.runner_up.choice != result.best.choice
    assert result.runner_up.total == best_first[1] == network.total(result.runner_up.choice)
    assert result.margin == best_first[1] - best_first[0]


@settings(max_examples=300)
@given(networks())
def test_any_graph_agrees_with_enumeration(network):
    assert_agrees_with_enumeration(network)


@settings(max_examples=100)
@given(networks(GENERAL, most_layers=6))
def test_dense_graphs_agree_with_enumeration(network):
    assert_agrees_with_enumeration(network)


@settings(max_examples=150)
@given(crowded_networks())
def test_room_over_time_agrees_with_enumeration(network):
    best_first = totals(network)
    result = assign(network)
    assert result.termination is Termination.PROVEN
    if not best_first:
        assert result.status is Status.INFEASIBLE
        assert result.reasons
        return
    assert result.status is Status.OPTIMAL
    assert result.total == result.bound == best_first[0] == network.total(result.best.choice)


@pytest.fixture
def no_buckets(monkeypatch):
    """Leave every rest to a search."""
    monkeypatch.setattr(assigner, "reduce_instance", partial(reduce_instance, most_entries=0))


@pytest.fixture
def cp_sat_only(monkeypatch, no_buckets):
    """Leave every rest to CP-SAT."""
    monkeypatch.setattr(assigner, "KernelRequest", partial(KernelRequest, engine=CP_SAT))


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(network=networks(GENERAL, most_layers=6))
def test_searched_rests_agree_with_enumeration(network, no_buckets):
    assert_agrees_with_enumeration(network)


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(network=networks(GENERAL, most_layers=6))
def test_rests_left_to_cp_sat_agree_with_enumeration(network, cp_sat_only):
    assert_agrees_with_enumeration(network)


@pytest.mark.parametrize(
    ("edges", "structure", "method"),
    [
        ((), "chain", "chain"),
        (((0, 1), (1, 2)), "chain", "chain"),
        (((0, 1), (2, 1), (3, 1)), "tree", "reductions"),
        (((0, 1), (0, 2), (1, 3), (2, 3)), "series-parallel", "reductions"),
        (((0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)), "general", "bucket-elimination"),
    ],
)
def test_structures_are_recognised(edges, structure, method):
    costs = np.random.default_rng(1)
    layers = tuple(CostedLayer(str(i), ("a", "b"), costs.integers(0, 9, 2)) for i in range(4))
    arcs = tuple(Edge(*ends, costs.integers(0, 99, (2, 2))) for ends in edges)
    result = assign(CostedNetwork("n", "ms", 1, layers, arcs))
    assert (result.decomposition.structure, result.method_used) == (structure, method)
    assert result.total == totals(result.network)[0]


def test_published_instance():
    instance = reference()["inception_3a_instance"]
    names = {len(algorithms): algorithms for algorithms in instance["node_algorithms"].values()}
    layers = [
        LayerCosts(
            str(node),
            {
                names.get(len(costs), [f"copy{k}" for k in range(len(costs))])[k]: Fraction(str(cost))
                for k, cost in enumerate(costs)
            },
        )
        for node, costs in instance["nodes"].items()
    ]
    methods = {layer.name: list(layer.costs) for layer in layers}
    edges = []
    for source, target, matrix in instance["edges"]:
        pairs = [(a, b) for a in methods[str(source)] for b in methods[str(target)]]
        costs = (Fraction(str(cost)) for cost in matrix)
        edges.append(EdgeCosts(str(source), str(target), dict(zip(pairs, costs, strict=True))))
    result = assign(build_network("3a", "ms", layers, edges))
    assert result.status is Status.OPTIMAL
    assert result.in_unit(result.total) == Fraction(str(instance["optimum"]["cost"]))
    chosen = dict(zip(methods, result.best.methods(result.network), strict=True))
    for node, method in instance["optimum"]["choice"].items():
        assert chosen[str(node)] == method


def dense(count, methods, seed=0, largest=10**6):
    costs = np.random.default_rng(seed)
    names = tuple(f"m{k}" for k in range(methods))
    return CostedNetwork(
        "dense",
        "ms",
        1,
        tuple(CostedLayer(f"l{i}", names, costs.integers(0, largest, methods)) for i in range(count)),
        tuple(
            Edge(i, j, costs.integers(0, largest, (methods, methods)))
            for i in range(count)
            for j in range(i + 1, count)
        ),
    )


@pytest.mark.skipif(not toulbar.is_available(), reason="toulbar2 is not installed")
def test_dense_graphs_are_proven():
    """Enumeration is out of reach; 20 s of CP-SAT alone had a gap of a fifth."""
    result = assign(dense(16, 4))
    assert (result.status, result.method_used) == (Status.OPTIMAL, "toulbar2")
    assert result.margin > 0


def test_narrow_graphs_are_eliminated_however_long():
    costs = np.random.default_rng(0)
    layers = tuple(CostedLayer(str(i), ("a", "b", "c"), costs.integers(0, 99, 3)) for i in range(400))
    pairs = [(i, j) for j in range(400) for i in range(max(0, j - 4), j)]
    result = assign(
        CostedNetwork(
            "n", "ms", 1, layers, tuple(Edge(*pair, costs.integers(0, 99, (3, 3))) for pair in pairs)
        )
    )
    assert (result.status, result.method_used) == (Status.OPTIMAL, "bucket-elimination")
    assert result.decomposition.count("bucket") > 390
    assert not result.decomposition.kernels


def test_tables_are_folded_in_blocks():
    """Three layers of 300 methods, each beside the other two: 27 million sums."""
    costs = np.random.default_rng(5)
    size = 300
    assert size**3 > elimination.LARGEST_BLOCK
    vectors = costs.integers(0, 900, (3, size))
    joint = {pair: costs.integers(0, 9000, (size, size)) for pair in ((0, 1), (1, 2), (0, 2))}
    layers = tuple(CostedLayer(str(n), tuple(map(str, range(size))), own) for n, own in enumerate(vectors))
    result = assign(
        CostedNetwork("n", "ms", 1, layers, tuple(Edge(*pair, own) for pair, own in joint.items()))
    )
    rest = vectors[1] + joint[1, 2].T + vectors[2][:, None]
    least = min((vectors[0][m] + joint[0, 1][m] + joint[0, 2][m][:, None] + rest).min() for m in range(size))
    assert result.status is Status.OPTIMAL
    assert result.total == least


def test_a_time_limit_leaves_an_assignment_with_its_bound():
    result = assign(dense(20, 6), AssignOptions(time_limit_s=0.5))
    assert result.status is Status.FEASIBLE
    assert result.termination is Termination.TIME_LIMIT
    assert 0 < result.bound < result.total == result.network.total(result.best.choice)
    assert result.margin is None


def test_no_time_at_all_leaves_what_descent_finds():
    result = assign(dense(16, 4), AssignOptions(time_limit_s=0))
    assert result.status is Status.FEASIBLE
    assert result.bound <= result.total


def test_an_interrupt_ends_the_search():
    result = assign(dense(20, 6), should_stop=lambda: True)
    assert result.status is Status.FEASIBLE
    assert result.termination is Termination.INTERRUPTED


def test_ties_are_told():
    layers = [LayerCosts("a", {"x": 1, "y": 1})]
    result = assign(build_network("n", "ms", layers, []))
    assert result.margin == 0
    assert result.runner_up.choice != result.best.choice


def test_a_long_chain_needs_no_recursion():
    costs = np.random.default_rng(0)
    names = ("a", "b", "c")
    layers = tuple(CostedLayer(str(i), names, costs.integers(0, 99, 3)) for i in range(3000))
    edges = tuple(Edge(i, i + 1, costs.integers(0, 99, (3, 3))) for i in range(2999))
    network = CostedNetwork("n", "ms", 1, layers, edges)
    result = assign(network)
    distances = layers[0].costs
    for layer, edge in zip(layers[1:], edges, strict=True):
        distances = (distances[:, None] + edge.transition).min(axis=0) + layer.costs
    assert result.total == distances.min()


@pytest.mark.parametrize("options", [{"time_limit_s": -1}, {"jobs": 0}])
def test_options_out_of_range_are_refused(options):
    with pytest.raises(ValueError, match="must"):
        AssignOptions(**options)


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("solvers", ["no_buckets", "cp_sat_only"])
def test_the_second_best_may_leave_a_kernel_or_what_was_eliminated(solvers, seed, request):
    """Four layers that only a search takes apart, and two that hang on them, in competition."""
    request.getfixturevalue(solvers)
    costs = np.random.default_rng(seed)
    names = ("a", "b", "c")
    layers = tuple(CostedLayer(str(i), names, costs.integers(0, 99, 3)) for i in range(6))
    pairs = [*((i, j) for j in range(4) for i in range(j)), (0, 4), (3, 4), (2, 5)]
    edges = tuple(Edge(*pair, costs.integers(0, 40, (3, 3))) for pair in pairs)
    assert_agrees_with_enumeration(CostedNetwork("n", "ms", 1, layers, edges))
