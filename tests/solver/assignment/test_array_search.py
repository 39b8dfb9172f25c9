"""The best array within a budget, against trying all, and against the published one."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from model.assignment import (
    ConvolutionShape,
    ShapedEdge,
    ShapedLayer,
    ShapedNetwork,
    SystolicModel,
    arrays_within,
    price_network,
)
from model.formats.assignment import load_assignment
from model.objective import CRITERIA, LAYERS, METHODS, TOTAL
from solver.assignment import AssignOptions, array_search, assign
from solver.assignment.array_search import assign_costed, choose_array
from solver.result import Status, Termination
from tests.conftest import REPOSITORY
from tests.model.assignment.dynamap import NOTEBOOK, notebook_network, reference

GOOGLENET, INCEPTION = (
    load_assignment([REPOSITORY / "specs" / "networks" / f"{name}.yaml"])
    for name in ("googlenet", "inception_3a")
)


def test_published_array():
    """The notebook takes the array that suits all methods of all layers, not the chosen ones."""
    published = reference()["googlenet_notebook"]
    found = choose_array(notebook_network(), NOTEBOOK, 6083, METHODS)
    assert [found.rows, found.columns] == published["best_P1_P2_by_exhaustive_search"]


def test_the_whole_network_takes_the_published_array_as_well():
    model = GOOGLENET.hardware.model
    found = choose_array(GOOGLENET.shaped, model, 6083, TOTAL)
    assert (found.rows, found.columns) == (92, 66)
    assert found.result.status is Status.OPTIMAL
    assert found.value == found.result.total == assign(price_network(GOOGLENET.shaped, model, 92, 66)).total


def slow_value(criterion, shaped, model, rows, columns):
    network = price_network(shaped, model, rows, columns)
    if criterion == TOTAL:
        own = assign(network)
        return own.in_unit(own.total)
    pick = min if criterion == LAYERS else sum
    return network.in_unit(sum(pick(layer.costs.tolist()) for layer in network.layers))


shapes = st.builds(
    ConvolutionShape,
    in_channels=st.integers(1, 20),
    out_channels=st.integers(1, 20),
    height=st.integers(1, 9),
    width=st.integers(1, 9),
    kernel=st.sampled_from(((1, 1), (3, 3), (5, 5))),
)


@settings(max_examples=25)
@given(st.lists(shapes, min_size=1, max_size=4), st.integers(1, 24), st.sampled_from(CRITERIA), st.booleans())
def test_agrees_with_trying_all_arrays(convolutions, budget, criterion, tight):
    layers = tuple(ShapedLayer(str(i), own, own.usual_methods()) for i, own in enumerate(convolutions))
    edges = tuple(ShapedEdge(i, i + 1) for i in range(len(layers) - 1))
    shaped = ShapedNetwork("n", layers, edges)
    # With little bandwidth, only small arrays are double buffered.
    model = (
        SystolicModel()
        if not tight
        else replace(SystolicModel(), bytes_per_ms=SystolicModel().cycles_per_ms * 8)
    )
    found = choose_array(shaped, model, budget, criterion)
    sizes = [tuple(pair) for pair in np.stack(arrays_within(budget), axis=1).tolist()]
    values = {size: slow_value(criterion, shaped, model, *size) for size in sizes}
    least = min(values.values())
    equals = [size for size in sizes if values[size] == least]
    assert found.result.in_unit(found.value) == least
    assert (found.rows, found.columns) == min(equals, key=lambda size: (size[0] * size[1], size[0]))


def test_a_stopped_search_claims_nothing():
    found = choose_array(
        INCEPTION.shaped, INCEPTION.hardware.model, 500, TOTAL, AssignOptions(time_limit_s=0)
    )
    assert found.result.status is Status.FEASIBLE
    assert found.result.termination is Termination.TIME_LIMIT
    best = choose_array(INCEPTION.shaped, INCEPTION.hardware.model, 500, TOTAL)
    assert found.result.bound <= best.value <= found.value


def test_every_assignment_ends_with_the_search(monkeypatch):
    asked = []

    def watched(network, options, should_stop):
        asked.append((options.time_limit_s, should_stop()))
        return assign(network, options, should_stop)

    monkeypatch.setattr(array_search, "assign", watched)
    shaped, model = INCEPTION.shaped, INCEPTION.hardware.model
    choose_array(shaped, model, 50, TOTAL, AssignOptions(time_limit_s=3600))
    assert asked[0][0] <= 3600
    asked.clear()
    choose_array(shaped, model, 50, TOTAL, should_stop=lambda: True)
    assert all(stopped for _, stopped in asked)


def test_costs_come_from_the_network_the_array_or_a_chosen_one():
    shaped, hardware = INCEPTION.shaped, INCEPTION.hardware
    costed = price_network(shaped, hardware.model, 9, 7)
    own, none = assign_costed(costed)
    fixed, neither = assign_costed(shaped, replace(hardware, array=(9, 7), dsp_budget=None))
    assert (none, neither) == (None, None)
    assert own.total == fixed.total == assign(costed).total
    result, array = assign_costed(shaped, replace(hardware, array=None, dsp_budget=50), LAYERS)
    assert (result, array.criterion) == (array.result, LAYERS)
    assert array.rows * array.columns <= 50
    with pytest.raises(ValueError, match="on an array only"):
        assign_costed(shaped)
