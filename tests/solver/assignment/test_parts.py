"""Single parts of the solvers: paths, reductions, digits, conflicts, naive rules."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from model.assignment import FORBIDDEN, EdgeCosts, LayerCosts, build_network
from solver.assignment import AssignOptions, assign, conflicts
from solver.assignment.assigner import CHEAPEST, naive_policies
from solver.assignment.bounds import Sweeps, verified_bound
from solver.assignment.conflicts import find_conflicts
from solver.assignment.elimination import find_paths, reduce_instance, split_matrix
from solver.assignment.instance import Instance, price
from solver.assignment.kernel import solve_kernel
from solver.assignment.kernel_model import CP_SAT, KernelRequest, digits_of_sum
from solver.cpsat import CheckedModel, ModelError, Settings
from solver.result import Clock, Status
from tests.solver.assignment.networks import GENERAL, networks, totals
from tests.solver.planted import WRONG, in_floating_point, infeasible, plant


def instance(count, *pairs):
    matrix = np.array([[0, 1], [2, 5]])
    return Instance([np.array([0, 1])] * count, dict.fromkeys(pairs, matrix), 1000)


@pytest.mark.parametrize(
    ("own", "paths"),
    [
        (instance(1), [[0]]),
        (instance(4, (0, 2), (1, 2)), [[0, 2, 1], [3]]),
        (instance(3, (0, 1), (1, 2), (0, 2)), None),
        (instance(4, (0, 1), (0, 2), (0, 3)), None),
        (instance(5, (0, 1), (2, 3), (3, 4), (2, 4)), None),
    ],
)
def test_paths(own, paths):
    assert find_paths(own) == paths


def test_reductions_leave_the_kernel_alone():
    complete = [(i, j) for i in range(4) for j in range(i + 1, 4)]
    reduced = reduce_instance(instance(7, *complete, (3, 4), (4, 5)), most_entries=15)
    assert [own.variable for own in reduced.eliminations] == [6, 5, 4]
    assert [len(own.links) for own in reduced.eliminations] == [0, 1, 1]
    assert reduced.kernels == [[0, 1, 2, 3]]


@given(
    st.lists(st.integers(0, 9), min_size=1, max_size=4), st.lists(st.integers(0, 9), min_size=1, max_size=4)
)
def test_sums_of_rows_and_columns_split(rows, columns):
    matrix = np.add.outer(np.array(rows), np.array(columns))
    own_rows, own_columns = split_matrix(matrix, 1000)
    assert (np.add.outer(own_rows, own_columns) == matrix).all()
    assert min(own_rows.min(), own_columns.min()) >= 0


def test_other_matrices_do_not_split():
    assert split_matrix(np.array([[0, 1], [1, 0]]), 1000) is None
    assert split_matrix(np.array([[1000, 1000], [1, 0]]), 1000) is None


@settings(max_examples=40)
@given(st.lists(st.lists(st.integers(0, 10**30), min_size=2, max_size=3), min_size=1, max_size=4), st.data())
def test_digits_make_the_least_sum(choices, data):
    """Choices with a coupling, so that digits pull against each other."""
    checked = CheckedModel()
    model = checked.model
    literals = [[model.new_bool_var("") for _ in costs] for costs in choices]
    for own in literals:
        model.add_exactly_one(own)
    first = data.draw(st.integers(0, 1))
    for own in literals[1:]:
        model.add(own[first] + literals[0][0] <= 1)
    terms = [
        (x, cost)
        for own, costs in zip(literals, choices, strict=True)
        for x, cost in zip(own, costs, strict=True)
    ]
    allowed = [min(costs) for costs in choices[1:]]
    barred = [min(cost for k, cost in enumerate(costs) if k != first) for costs in choices[1:]]
    expected = min(choices[0][0] + sum(barred), min(choices[0][1:]) + sum(allowed))
    assert least_sum(checked, terms) == expected


def least_sum(checked, terms):
    found = 0
    for digit in digits_of_sum(checked, terms):
        checked.model.minimize(digit.sum)
        outcome = checked.solve(Settings(), lambda: False)
        assert outcome.answer is not None
        assert outcome.is_proven
        found += outcome.bound * digit.weight
        checked.model.add(digit.sum == outcome.bound)
    return found


@pytest.mark.parametrize("terms", [2, 3, 4, 64])
def test_carries_may_be_as_large_as_all_terms_make_them(terms):
    """Bits of the costs are all set, so that their digits are the largest, whatever the base."""
    checked = CheckedModel()
    literals = [checked.model.new_bool_var("") for _ in range(terms)]
    checked.model.add_bool_and(literals)
    cost = (1 << 90) - 1
    assert least_sum(checked, [(literal, cost) for literal in literals]) == terms * cost


def test_many_large_costs_stay_small_in_each_digit():
    checked = CheckedModel()
    terms = [(checked.model.new_bool_var(""), (1 << 60) - 1 - k) for k in range(5000)]
    digits = digits_of_sum(checked, terms)
    assert len(digits) > 1
    assert digits[-1].weight == 1
    for digit in digits:
        checked.model.minimize(digit.sum)
        checked.check()


def looped(unit=1):
    """Three layers, each beside the other two, of which two must agree: no sweep closes the gap."""
    vectors = [np.array(own, dtype=object) * unit for own in ([3, 9], [1, 4], [7, 2])]
    matrix = np.array([[20, 1], [0, 30]], dtype=object) * unit
    return Instance(vectors, dict.fromkeys([(0, 1), (1, 2), (0, 2)], matrix), 1000 * unit)


ALL_DEFAULTS = KernelRequest()
CP_SAT_ONLY = KernelRequest(engine=CP_SAT)
"""What remains where toulbar2 is not installed."""


@pytest.mark.parametrize("unit", [1, 10**20 + 1], ids=["one digit", "several"])
@pytest.mark.parametrize("lie", WRONG)
def test_wrong_answers_of_cp_sat_are_errors(unit, lie, monkeypatch):
    own = looped(unit)
    assert solve_kernel(own, CP_SAT_ONLY, Clock(None)).is_proven
    plant(monkeypatch, WRONG[lie])
    with pytest.raises(ModelError):
        solve_kernel(own, CP_SAT_ONLY, Clock(None))


def test_floating_point_is_read_as_the_whole_number_that_is_meant(monkeypatch):
    own = looped()
    expected = solve_kernel(own, CP_SAT_ONLY, Clock(None))
    plant(monkeypatch, in_floating_point)
    assert solve_kernel(own, CP_SAT_ONLY, Clock(None)) == expected


def test_infeasible_is_not_believed_where_an_assignment_is_known(monkeypatch):
    plant(monkeypatch, infeasible)
    own = looped()
    with pytest.raises(ModelError, match="infeasible"):
        solve_kernel(own, CP_SAT_ONLY, Clock(None))
    assert solve_kernel(own, replace(CP_SAT_ONLY, limit=-1), Clock(None)).bound is None


def assert_kernel_agrees_with_enumeration(network, data, request=ALL_DEFAULTS):
    """Whole instances instead of kernels; then the best assignment but one, with a limit on it."""
    assume(len(network.layers) > 1)
    own = Instance.of(network)
    best_first = totals(network)
    answer = solve_kernel(own, request, Clock(None))
    if not best_first:
        assert answer.choice is answer.bound is None
        return
    assert answer.is_proven
    assert answer.total == best_first[0]
    limit = data.draw(st.sampled_from(best_first)) + data.draw(st.integers(-1, 1))
    other = solve_kernel(own, replace(request, limit=limit, excluded=answer.choice), Clock(None))
    within = [total for total in best_first[1:] if total <= limit]
    assert other.total == (within[0] if within else None)
    assert other.is_proven


@settings(max_examples=60)
@given(networks(GENERAL, most_layers=6), st.data())
def test_toulbar_agrees_with_enumeration(network, data):
    assert_kernel_agrees_with_enumeration(network, data)


def test_the_best_assignment_stays_in_the_model():
    """All that it costs above the bound is paid by a single value."""
    own = Instance([np.array([12, 13]), np.array([0, 3])], {(0, 1): np.array([[0, 5], [6, 2]])}, 100)
    assert price(Sweeps(own, 13).rest(12), (0, 0)) == 12


@settings(max_examples=30)
@given(networks(GENERAL, most_layers=5), st.integers(1, 2), st.data())
def test_cp_sat_alone_agrees_with_enumeration(network, jobs, data):
    assert_kernel_agrees_with_enumeration(network, data, replace(CP_SAT_ONLY, jobs=jobs))


@settings(max_examples=100)
@given(networks(GENERAL, most_layers=4), st.lists(st.booleans(), max_size=4), st.data())
def test_sweeps_keep_totals_below_the_limit(network, directions, data):
    """Whatever moves, assignments cost the same; only what reaches the limit may cost more."""
    own = Instance.of(network)
    limit = data.draw(st.sampled_from([own.infinity, *totals(network)])) + 1
    swept = Sweeps(own, limit)
    for is_forward in directions:
        swept.sweep(is_forward)
    moved = swept.rest(limit - 1)
    for choice in product(*(range(vector.size) for vector in own.vectors)):
        total = price(own, choice)
        assert price(moved, choice) + swept.floor >= min(total, limit, own.infinity)
        if total < min(limit, own.infinity):
            assert price(moved, choice) + swept.floor == total
    bound = verified_bound(own, swept.moved)
    assert swept.floor <= bound
    assert all(bound <= total for total in totals(network))


@settings(max_examples=50)
@given(networks(GENERAL, most_layers=4), st.randoms())
def test_whatever_is_claimed_to_have_moved_bounds_all_totals(network, source):
    own = Instance.of(network)
    moved = {
        (i, j): np.array([source.randrange(-(10**9), 10**9) for _ in own.vectors[i]])
        for pair in own.matrices
        for i, j in (pair, pair[::-1])
    }
    assert all(verified_bound(own, moved) <= total for total in totals(network))


@pytest.mark.parametrize("forged", [{(0, 2): np.zeros(2)}, {(0, 1): np.zeros(3)}])
def test_what_fits_no_matrix_is_refused(forged):
    with pytest.raises(ValueError, match="nothing can move"):
        verified_bound(instance(3, (0, 1)), forged)


def conflict(layers, edges=()):
    network = build_network("n", "ms", [LayerCosts(name, costs) for name, costs in layers.items()], edges)
    assert not totals(network)
    return [statement.text for statement in find_conflicts(network)[0].constraints]


def test_a_layer_without_allowed_method_is_named_alone():
    layers = {"a": {"x": None}, "b": {"x": None, "y": 1}, "c": {"x": None}}
    assert conflict(layers) == ["layer a forbids all of its methods"]


def test_an_edge_without_allowed_pair_is_named():
    layers = {"a": {"x": 1}, "b": {"x": 1, "y": 1}}
    edges = [EdgeCosts("b", "a", {("x", "x"): None, ("y", "x"): None})]
    assert conflict(layers, edges) == ["edge b -> a forbids all pairs of methods"]


def test_only_what_matters_is_named():
    layers = {name: {"x": 1, "y": 1} for name in "abcdefgh"}
    layers["c"] = {"x": 1, "y": None}
    layers["h"] = {"x": None, "y": 1}
    barred = {("x", "x"): None}
    edges = [EdgeCosts(first, second, barred) for first, second in ("ab", "cd", "gh")]
    edges += [
        EdgeCosts("d", "e", {("y", "y"): None}),
        EdgeCosts("e", "f", {("x", "x"): None, ("x", "y"): None}),
    ]
    assert conflict(layers, edges) == [
        "layer c allows only x",
        "edge c -> d forbids x to x",
        "edge d -> e forbids y to y",
        "edge e -> f forbids x to x, x to y",
    ]


def test_a_conflict_in_a_long_chain_is_looked_for_where_it_is(monkeypatch):
    tried = []
    is_infeasible = conflicts._is_infeasible
    monkeypatch.setattr(
        conflicts,
        "_is_infeasible",
        lambda rules, clock: tried.append(len(rules)) or is_infeasible(rules, clock),
    )
    layers = {f"l{i}": {"x": 1, "y": 1} for i in range(1000)}
    same = {("x", "y"): None, ("y", "x"): None}
    layers["l510"] = {"x": 1, "y": None}
    layers["l500"] = {"x": None, "y": 1}
    edges = [EdgeCosts(f"l{i}", f"l{i + 1}", same) for i in range(999)]
    network = build_network("n", "ms", [LayerCosts(name, own) for name, own in layers.items()], edges)
    assert [statement.text for statement in find_conflicts(network)[0].constraints] == [
        "layer l500 allows only y",
        "layer l510 allows only x",
        *(f"edge l{i} -> l{i + 1} forbids x to y, y to x" for i in range(500, 510)),
    ]
    whole = [size for size in tried if size > 64]
    assert len(whole) == 1 + 12  # whether there is another conflict, and whether each part suffices


@settings(max_examples=60)
@given(networks(most_layers=5, most_methods=2))
def test_conflicts_are_irreducible_and_their_levers_suffice(network):
    if totals(network):
        return
    reasons = find_conflicts(network)
    named = [{words(statement) for statement in reason.constraints} for reason in reasons]
    assert len(named) == 3 or totals(relaxed(network, set().union(*named)))
    everything = {*map(layer_words, network.layers), *(edge_words(network, own) for own in network.edges)}
    for reason, conflict in zip(reasons, named, strict=True):
        assert reason.irreducible
        assert not totals(relaxed(network, everything - conflict))
        assert all(totals(relaxed(network, everything - conflict | {spared})) for spared in conflict)
        others = set().union(*named) - conflict
        suffices = [own for own in reason.constraints if totals(relaxed(network, others | {words(own)}))]
        assert [f"without this: {own.text}" for own in suffices] == [own.text for own in reason.levers]


def words(statement):
    return tuple(statement.text.split()[:4])


def relaxed(network, dropped):
    """The network without the forbidden choices of layers and edges with these first words."""
    layers = tuple(
        replace(own, costs=np.maximum(own.costs, 0)) if layer_words(own) in dropped else own
        for own in network.layers
    )
    edges = tuple(
        replace(own, transition=np.maximum(own.transition, 0))
        if own.transition is not None and edge_words(network, own) in dropped
        else own
        for own in network.edges
    )
    return replace(network, layers=layers, edges=edges)


def layer_words(layer):
    is_closed = (layer.costs == FORBIDDEN).all()
    return ("layer", layer.name, "forbids", "all") if is_closed else ("layer", layer.name, "allows", "only")


def edge_words(network, edge):
    return ("edge", *network.edge_name(edge).split())


def test_naive_rules():
    network = build_network(
        "n",
        "ms",
        [LayerCosts("a", {"x": 1, "y": 3}), LayerCosts("b", {"y": 5, "z": 2}), LayerCosts("c", {"only": 1})],
        [EdgeCosts("a", "b", {("x", "z"): 10, ("x", "y"): None})],
    )
    assert [(own.name, own.total, own.layers_followed) for own in naive_policies(network)] == [
        (CHEAPEST, 14, 3),
        ("x everywhere", 14, 1),
        ("y everywhere", 9, 2),
        ("z everywhere", 14, 1),
    ]
    assert assign(network, AssignOptions()).total == 6
    assert assign(network).status is Status.OPTIMAL
