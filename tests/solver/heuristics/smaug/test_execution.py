"""The tiles' schedule, executed on arrays, gives the tensor of the untiled operator."""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import assume, given, settings

from model.formats.backends import load_backend
from model.tiling.operators import INPUTS, OUTPUTS, BatchNorm, Convolution, InnerProduct, Pooling, Unary
from solver.heuristics.smaug import CannotTile, tile
from tests.model.tiling.execution import run_tiled, steps, untiled
from tests.solver.heuristics.smaug.cases import (
    BATCH_NORMS,
    ELTWISES,
    INNER_PRODUCTS,
    SOFTMAXES,
    UNALIGNED,
    UNARIES,
    convolutions,
    poolings,
    random_operands,
)

SMV = load_backend("smv")
RUNS = pytest.mark.parametrize(
    "run", [run_tiled, lambda tiling, operands: untiled(tiling.operator, operands)], ids=["tiled", "untiled"]
)


def _check(operator, backend, function=None):
    try:
        tiling = tile(operator, backend)
    except CannotTile:
        assume(False)
    operands = random_operands(operator, seed=1)
    whole = untiled(operator, operands, function)
    assert whole.shape == operator.shapes[OUTPUTS]
    np.testing.assert_array_equal(run_tiled(tiling, operands, function), whole)
    for tensor in tiling.tensors:
        *others, last = tensor.grid.largest
        stored = math.prod(others) * (last + -last % backend.alignment)
        assert stored <= backend.capacity


@settings(max_examples=150)
@given(convolutions(), UNALIGNED)
def test_convolution(operator, backend):
    _check(operator, backend)


@settings(max_examples=80)
@given(poolings(), UNALIGNED)
def test_pooling(operator, backend):
    _check(operator, backend)


@settings(max_examples=80)
@given(INNER_PRODUCTS, UNALIGNED)
def test_inner_product(operator, backend):
    _check(operator, backend)


@settings(max_examples=60)
@given(BATCH_NORMS, UNALIGNED)
def test_batch_norm(operator, backend):
    _check(operator, backend)


@settings(max_examples=40)
@given(UNARIES, UNALIGNED)
def test_unary(operator, backend):
    _check(operator, backend, lambda inputs: np.maximum(inputs, 0))


@settings(max_examples=40)
@given(ELTWISES, UNALIGNED)
def test_eltwise(operator, backend):
    _check(operator, backend, np.add)


@settings(max_examples=40)
@given(SOFTMAXES, UNALIGNED)
def test_softmax(operator, backend):
    _check(operator, backend)


@pytest.mark.parametrize(
    "operator",
    [
        # Inputs whole, weights cut along channels.
        Convolution((1, 8, 8, 256), (3, 3), 256, (1, 1), "same"),
        # Rows and channels cut, two images.
        Convolution((2, 32, 32, 192), (4, 4), 32, (1, 1), "same"),
        # A stride larger than the filter, with padding: SMAUG's own tiles miss a row here.
        Convolution((2, 13, 100, 512), (3, 5), 20, (4, 4), "same"),
        InnerProduct((2, 32768), 256),
        Pooling((1, 64, 64, 128), (16, 16), (16, 16)),
        Pooling((1, 68, 68, 32), (3, 3), (2, 2)),
        BatchNorm((1, 64, 64, 128)),
        BatchNorm((9, 6000)),
    ],
    ids=str,
)
def test_smv_at_full_size(operator):
    _check(operator, SMV)


@RUNS
def test_an_elementwise_operator_needs_a_function(run):
    operator = Unary((1, 2, 2, 8))
    with pytest.raises(ValueError, match="needs a function"):
        run(tile(operator, SMV), random_operands(operator, seed=1))


@RUNS
def test_operands_of_other_shapes_are_refused(run):
    operator = InnerProduct((1, 8), 8)
    operands = random_operands(operator, seed=1)
    with pytest.raises(ValueError, match=r"inner_product takes operands of the shapes .* not \{'inputs'"):
        run(tile(operator, SMV), {**operands, "weights": operands["weights"].T[:4]})


@settings(max_examples=60)
@given(convolutions(), UNALIGNED)
def test_a_sum_is_finished_before_the_next_one_begins(operator, backend):
    try:
        schedule = list(steps(tile(operator, backend)))
    except CannotTile:
        assume(False)
    for before, after in pairwise(schedule):
        assert after.first != (after.outputs == before.outputs and after.region == before.region)
    assert schedule[0].first
    summed: dict = {}
    for step in schedule:
        summed[step.region] = summed.get(step.region, 0) + step.channels.size
    assert set(summed.values()) == {operator.shapes[INPUTS][3]}
