"""The best other method of each layer against complete enumeration."""

from itertools import product

from hypothesis import given, settings

from model.assignment import EdgeCosts, LayerCosts, build_network
from solver.assignment import assign
from solver.assignment.assigner import MOST_SOLVED_AGAIN, Alternative, alternatives
from solver.result import Status
from tests.solver.assignment.networks import networks


def by_enumeration(network, best):
    """Per layer, the least margin of all assignments that take another method there, and those methods."""
    found = [(None, set()) for _ in network.layers]
    for choice in product(*(range(len(layer.methods)) for layer in network.layers)):
        total = network.total(choice)
        if total is None:
            continue
        margin = total - best.total
        for layer, method in enumerate(choice):
            least, methods = found[layer]
            if method == best.choice[layer] or (least is not None and margin > least):
                continue
            found[layer] = (margin, {method} | (methods if margin == least else set()))
    return found


@settings(max_examples=150)
@given(networks())
def test_margins_of_layers_are_those_of_enumeration(network):
    result = assign(network)
    found = alternatives(result)
    if result.status is not Status.OPTIMAL or result.decomposition.kernels:
        assert found is None
        return
    for own, (margin, methods) in zip(found, by_enumeration(network, result.best), strict=True):
        if margin is None:
            assert own is None
        else:
            assert own.margin == margin
            assert own.method in methods


@settings(max_examples=60)
@given(networks())
def test_the_least_margin_of_a_layer_is_that_of_the_network(network):
    result = assign(network)
    found = alternatives(result)
    if found is None:
        return
    margins = [own.margin for own in found if own is not None]
    assert (min(margins) if margins else None) == result.margin


def ladder(count, is_ring):
    """Layers in a row, cheap under `x`; the last is joined to the first as well."""
    layers = [LayerCosts(f"l{i}", {"x": 1, "y": 3}) for i in range(count)]
    ends = [(i, i + 1) for i in range(count - 1)] + ([(0, count - 1)] if is_ring else [])
    edges = [EdgeCosts(f"l{i}", f"l{j}", {("x", "y"): 5, ("y", "x"): 7}) for i, j in ends]
    return build_network("ladder", "ms", layers, edges)


def test_a_long_chain_takes_one_pass():
    found = alternatives(assign(ladder(MOST_SOLVED_AGAIN + 100, is_ring=False)))
    # A layer that disagrees pays 2, and 5 and 7 at its sides; at the ends one side is missing.
    assert found[0] == Alternative(1, 2 + 7)
    assert found[-1] == Alternative(1, 2 + 5)
    assert found[150] == Alternative(1, 2 + 5 + 7)


def test_rings_are_solved_again_up_to_a_size():
    found = alternatives(assign(ladder(MOST_SOLVED_AGAIN, is_ring=True)))
    assert found[0] == Alternative(1, 2 + 7 + 7)
    assert found[-1] == Alternative(1, 2 + 5 + 5)
    assert set(found[1:-1]) == {Alternative(1, 2 + 5 + 7)}
    assert alternatives(assign(ladder(MOST_SOLVED_AGAIN + 1, is_ring=True))) is None
