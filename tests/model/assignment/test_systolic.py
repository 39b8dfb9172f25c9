"""The published cost model against the published figures, and against itself on small arrays."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from model.assignment import (
    ConvolutionShape,
    PricedArrays,
    ShapedEdge,
    ShapedLayer,
    ShapedNetwork,
    SystolicModel,
    Tensor,
    arrays_within,
    method_times,
    price_network,
    transition_ms,
)
from model.assignment.network import IM2COL, KN2ROW, METHODS, TENSOR, WINOGRAD
from model.assignment.systolic import DATAFLOWS
from tests.model.assignment.dynamap import MODULES, module_sum, notebook_sum, reference

MODEL = SystolicModel()


def test_sum_of_the_published_notebook():
    published = reference()["googlenet_notebook"]
    # The published sums were added up in floating point.
    expected = pytest.approx(published["sum_of_min_node_costs_ms"], rel=1e-14)
    assert float(notebook_sum(92, 66)) == expected
    assert float(module_sum(MODULES[0], 92, 66)) == pytest.approx(published["inception_3a_sum_ms"], rel=1e-14)


def least(method, shape, rows, columns, model):
    return min(time.milliseconds(rows, columns) for time in method_times(method, shape, model))


def test_node_costs_of_the_published_instance():
    instance = reference()["inception_3a_instance"]
    model = SystolicModel(dataflows=DATAFLOWS[:2])
    shapes = {
        4: ConvolutionShape(96, 128, 28, 28, (3, 3)),
        5: ConvolutionShape(16, 32, 28, 28, (5, 5)),
        1: ConvolutionShape(192, 96, 28, 28),
        2: ConvolutionShape(192, 16, 28, 28),
        3: ConvolutionShape(192, 64, 28, 28),
        6: ConvolutionShape(192, 32, 28, 28),
    }
    for node, shape in shapes.items():
        found = [least(method, shape, 92, 64, model) for method in shape.usual_methods()]
        assert [round(float(cost), 6) for cost in found] == instance["nodes"][node]


def test_every_formula_by_hand():
    """A 6x4 map, 5 to 7 channels, 3x3 filter, on 4 x 3 multipliers; 10 cycles and 100 bytes a ms."""
    model = SystolicModel(cycles_per_ms=Fraction(10), bytes_per_ms=Fraction(100), element_bytes=Fraction(2))
    shape = ConvolutionShape(5, 7, 6, 4, (3, 3))
    times = {
        method: [time.milliseconds(4, 3) for time in method_times(method, shape, model)] for method in METHODS
    }
    load = Fraction(2 * (24 * 45 + 45 * 7), 100)
    assert times[IM2COL] == [
        Fraction(6 * 3 * 45, 10) + load,
        Fraction(12 * 3 * 24, 10) + load,
        Fraction(12 * 8 * 7, 10) + load,
    ]
    assert times[KN2ROW] == [
        Fraction(6 * 3 * 5 * 9, 10),
        Fraction(2 * 3 * 24 * 9, 10),
        Fraction(2 * 8 * 7 * 9, 10),
    ]
    transform = Fraction(16 * 3, 10)
    assert times[WINOGRAD] == [
        Fraction(2 * 3 * 5 * 16, 10) + transform,
        Fraction(2 * 3 * 6 * 16, 10) + transform,
        Fraction(2 * 2 * 7 * 16, 10) + transform,
    ]


@pytest.mark.parametrize(("whole", "tiles"), [(False, Fraction(25, 9)), (True, 4)])
def test_a_larger_filter_takes_tiles_of_winograds_filter(whole, tiles):
    assert SystolicModel(whole_kernel_tiles=whole).kernel_tiles(5) == tiles
    assert SystolicModel(whole_kernel_tiles=whole).kernel_tiles(6) == 4


@pytest.mark.parametrize(
    ("source", "target", "words"),
    [
        (IM2COL, IM2COL, 28 * 28 * 9 * 96),
        (KN2ROW, KN2ROW, 28 * 28 * 96),
        (WINOGRAD, KN2ROW, 28 * 28 * 96),
        (TENSOR, WINOGRAD, 28 * 28 * 4 * (96 + 4)),
        (WINOGRAD, WINOGRAD, 28 * 28 * 4 * 96 // 4),
    ],
)
def test_transitions_move_the_targets_input(source, target, words):
    layer = ShapedLayer("l", ConvolutionShape(96, 128, 28, 28, (3, 3)), METHODS)
    assert transition_ms(source, target, layer, ShapedEdge(0, 1), MODEL) == Fraction(words, 64_000_000)


def test_a_strided_layer_unfolds_its_windows_and_loads_its_whole_input():
    layer = ShapedLayer("l", ConvolutionShape(8, 8, 5, 5, (3, 3), 2), (IM2COL, KN2ROW))
    words = [
        transition_ms(KN2ROW, method, layer, ShapedEdge(0, 1), MODEL) * 64_000_000 for method in METHODS[:2]
    ]
    assert words == [25 * 9 * 8, 100 * 8]


def test_a_tensor_restores_winograds_layout_and_takes_its_branch_only():
    layer = ShapedLayer("l", Tensor(256, 28, 28), (TENSOR,))
    whole, branch = ShapedEdge(0, 1), ShapedEdge(0, 1, channels=64)
    assert transition_ms(WINOGRAD, TENSOR, layer, whole, MODEL) == Fraction(28 * 28 * 4 * 260, 64_000_000)
    assert transition_ms(IM2COL, TENSOR, layer, branch, MODEL) == Fraction(28 * 28 * 64, 64_000_000)


def test_double_buffering_ends_where_the_edges_take_in_more_than_the_bandwidth():
    assert MODEL.is_double_buffered(160, 160)
    assert not MODEL.is_double_buffered(160, 161)
    assert not SystolicModel(double_buffering=False).is_double_buffered(1, 1)
    shaped = ShapedNetwork(
        "n",
        (
            ShapedLayer("a", Tensor(8, 4, 4), (TENSOR,)),
            ShapedLayer("b", ConvolutionShape(8, 8, 4, 4), (IM2COL,)),
        ),
        (ShapedEdge(0, 1),),
    )
    costs = [
        network.in_unit(int(network.edges[0].transition[0, 0]))
        for network in (price_network(shaped, MODEL, *size) for size in ((160, 160), (160, 161)))
    ]
    assert costs == [Fraction(128, 64_000_000), Fraction(256, 64_000_000)]


@pytest.mark.parametrize(
    ("shape", "methods"),
    [
        (ConvolutionShape(4, 4, 8, 8), (IM2COL,)),
        (ConvolutionShape(4, 4, 8, 8, (2, 2)), (IM2COL, KN2ROW)),
        (ConvolutionShape(4, 4, 8, 8, (1, 7)), (IM2COL, KN2ROW)),
        (ConvolutionShape(4, 4, 8, 8, (3, 3)), METHODS),
        (ConvolutionShape(4, 4, 8, 8, (3, 3), 2), (IM2COL, KN2ROW)),
    ],
)
def test_usual_methods(shape, methods):
    assert shape.usual_methods() == methods


def test_an_unsuitable_method_is_refused():
    with pytest.raises(ValueError, match="not a method"):
        method_times(WINOGRAD, ConvolutionShape(4, 4, 8, 8, (1, 7)), MODEL)


def test_arrays_within_a_budget():
    rows, columns = arrays_within(12)
    found = list(zip(rows.tolist(), columns.tolist(), strict=True))
    assert found == [(p, q) for p in range(1, 13) for q in range(1, 13) if p * q <= 12]


shapes = st.builds(
    ConvolutionShape,
    in_channels=st.integers(1, 40),
    out_channels=st.integers(1, 40),
    height=st.integers(1, 15),
    width=st.integers(1, 15),
    kernel=st.sampled_from(((1, 1), (3, 3), (5, 5), (1, 7))),
)


@settings(max_examples=40)
@given(st.lists(shapes, min_size=1, max_size=4), st.sampled_from((1, 7, 30)), st.booleans())
def test_many_arrays_at_once_cost_what_each_costs(convolutions, budget, wide):
    """Vectorised integers against fractions; a frequency of many digits takes them beyond 64 bits."""
    model = SystolicModel(cycles_per_ms=Fraction("314159.2653589793") if wide else Fraction(300_000))
    layers = tuple(
        ShapedLayer(str(number), shape, shape.usual_methods()) for number, shape in enumerate(convolutions)
    )
    edges = tuple(ShapedEdge(number, number + 1) for number in range(len(layers) - 1))
    priced = PricedArrays(ShapedNetwork("n", layers, edges), model, *arrays_within(budget))
    for place in {0, len(priced.rows) // 2, len(priced.rows) - 1}:
        size = int(priced.rows[place]), int(priced.columns[place])
        network = priced.network(place)
        for layer, own in zip(layers, network.layers, strict=True):
            expected = [least(method, layer.shape, *size, model) for method in layer.methods]
            assert [network.in_unit(int(steps)) for steps in own.costs] == expected


def test_costs_of_plain_shapes_take_64_bits():
    shaped = ShapedNetwork("n", (ShapedLayer("a", ConvolutionShape(64, 64, 56, 56, (3, 3)), METHODS),), ())
    assert price_network(shaped, MODEL, 92, 66).layers[0].costs.dtype == np.int64
