"""The operators on whole tensors, against plain loops."""

from itertools import product

import numpy as np
import pytest

from model.tiling.operators import BatchNorm, Convolution, InnerProduct, OperatorError, Pooling, Softmax
from tests.model.tiling.execution import untiled

RANDOM = np.random.default_rng(7)


@pytest.mark.parametrize(("padding", "stride"), [("same", (1, 2)), ("valid", (3, 1)), ("same", (4, 4))])
def test_convolution(padding, stride):
    operator = Convolution((2, 7, 6, 3), (4, 3), 5, stride, padding)
    inputs, weights = (RANDOM.integers(-9, 9, operator.shapes[name]) for name in ("inputs", "weights"))
    top, left = (2, 1) if padding == "same" else (0, 0)
    expected = np.zeros(operator.shapes["outputs"], int)
    for (n, p, q, k), (r, s, c) in product(np.ndindex(expected.shape), np.ndindex(4, 3, 3)):
        row, column = p * stride[0] - top + r, q * stride[1] - left + s
        if 0 <= row < 7 and 0 <= column < 6:
            expected[n, p, q, k] += inputs[n, row, column, c] * weights[k, r, s, c]
    np.testing.assert_array_equal(untiled(operator, {"inputs": inputs, "weights": weights}), expected)


@pytest.mark.parametrize("average", [False, True])
def test_pooling(average):
    operator = Pooling((2, 7, 6, 3), (3, 2), (2, 1), average)
    inputs = RANDOM.integers(-9, 9, operator.input)
    expected = np.zeros(operator.shapes["outputs"])
    for n, p, q, c in np.ndindex(expected.shape):
        part = inputs[n, 2 * p : 2 * p + 3, q : q + 2, c]
        expected[n, p, q, c] = part.mean() if average else part.max()
    np.testing.assert_allclose(untiled(operator, {"inputs": inputs}), expected, rtol=1e-15)


def test_inner_product_multiplies_with_transposed_weights():
    inputs, weights = np.array([[1, 2]]), np.array([[3, 4], [5, 6], [7, 8]])
    outputs = untiled(InnerProduct((1, 2), 3), {"inputs": inputs, "weights": weights})
    assert outputs.tolist() == [[11, 17, 23]]


def test_batch_norm_takes_the_inverse_deviation():
    weights = np.array([[1.0, 2.0], [0.5, 0.25], [3.0, 1.0], [0.0, -1.0]])
    outputs = untiled(BatchNorm((1, 2)), {"inputs": np.array([[5.0, 10.0]]), "weights": weights})
    assert outputs.tolist() == [[6.0, 1.0]]


def test_softmax_sums_to_one():
    outputs = untiled(Softmax((2, 3)), {"inputs": np.array([[0.0, 0.0, 0.0], [1000.0, 0.0, 0.0]])})
    np.testing.assert_allclose(outputs, [[1 / 3] * 3, [1.0, 0.0, 0.0]])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Convolution((1, 4, 4), (3, 3), 8), "takes inputs N,H,W,C, not 3 numbers"),
        (lambda: Convolution((1, 2, 9, 3), (3, 3), 8), "a window of 3 rows does not fit into 2"),
        (lambda: Pooling((1, 9, 2, 3), (3, 3), (1, 1)), "a window of 3 columns does not fit into 2"),
        (lambda: InnerProduct((1, 2), 0), "at least 1"),
        (lambda: Softmax((1, 2, 3, 4)), "takes inputs N,C"),
        (lambda: BatchNorm((1, 2, 3)), "takes inputs N,C or N,H,W,C, not 3 numbers"),
    ],
)
def test_shapes_that_do_not_fit_are_refused(make, message):
    with pytest.raises(OperatorError, match=message):
        make()
