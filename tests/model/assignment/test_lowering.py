"""Lowerings compute the original convolution, and copies count the words that they move."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.architecture import AccessEnergy, StorageLevel
from model.assignment.methods import DIRECT, IM2COL, KN2ROW, LOWERINGS, Copy, lower
from model.assignment.network import ConvolutionShape

shapes = st.builds(
    ConvolutionShape,
    in_channels=st.integers(1, 3),
    out_channels=st.integers(1, 3),
    height=st.integers(1, 3),
    width=st.integers(1, 3),
    kernel=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    stride=st.integers(1, 2),
)


def executed(problem, weights, inputs):
    """Run an Einsum point by point on dictionaries of words."""
    outputs = {}
    for point in product(*map(range, problem.bounds)):
        values = dict(zip(problem.dims, point, strict=True))
        place = {
            space.name: tuple(
                sum(values[term.dim] * term.coefficient for term in rank) for rank in space.ranks
            )
            for space in problem.dataspaces
        }
        term = weights[place["Weights"]] * inputs[place["Inputs"]]
        outputs[place["Outputs"]] = outputs.get(place["Outputs"], 0) + term
    return outputs


def convolved(shape, weights, image):
    """The convolution by its definition, channels last."""
    result = np.zeros((shape.height, shape.width, shape.out_channels), dtype=int)
    for p, q in product(range(shape.height), range(shape.width)):
        rows, columns = (
            slice(at * shape.stride, at * shape.stride + k)
            for at, k in zip((p, q), shape.kernel, strict=True)
        )
        result[p, q] = np.einsum("rsc,kcrs->k", image[rows, columns], weights)
    return result


@given(shapes, st.integers(0, 2**32 - 1))
def test_every_lowering_computes_the_convolution(shape, seed):
    source = np.random.default_rng(seed)
    (high, wide), stride = shape.kernel, shape.stride
    extents = ((shape.height - 1) * stride + high, (shape.width - 1) * stride + wide)
    image = source.integers(-9, 9, (*extents, shape.in_channels))
    weights = source.integers(-9, 9, (shape.out_channels, shape.in_channels, high, wide))
    expected = convolved(shape, weights, image)
    window = list(product(range(high), range(wide)))
    at = [(p * stride, q * stride) for p, q in product(range(shape.height), range(shape.width))]
    channels = range(shape.in_channels)
    own = {(c, k, r, s): weights[k, c, r, s] for k, c, r, s in np.ndindex(*weights.shape)}
    inputs = {
        DIRECT: {(0, c, y, x): image[y, x, c] for y, x, c in np.ndindex(*image.shape)},
        IM2COL: {
            (0, c * len(window) + place, row): image[y + r, x + s, c]
            for row, (y, x) in enumerate(at)
            for place, (r, s) in enumerate(window)
            for c in channels
        },
        KN2ROW: {
            (0, c, r, s, row): image[y + r, x + s, c]
            for row, (y, x) in enumerate(at)
            for r, s in window
            for c in channels
        },
    }
    lowered_weights = {(c * len(window) + r * wide + s, k, 0, 0): word for (c, k, r, s), word in own.items()}
    for lowering in LOWERINGS:
        problem = lower(shape, lowering).problem
        found = executed(problem, lowered_weights if lowering == IM2COL else own, inputs[lowering])
        assert len(found) == expected.size
        for (_, k, q, p), word in found.items():
            row = p * shape.width + q if lowering == DIRECT else p
            assert word == expected.reshape(-1, shape.out_channels)[row, k]


def test_products_of_filter_positions_run_in_turn():
    shape = ConvolutionShape(3, 4, 5, 6, (3, 1), 2)
    assert lower(shape, KN2ROW).outermost == ("R",)
    assert lower(ConvolutionShape(1, 1, 1, 1, (2, 2)), KN2ROW).outermost == ("S", "R")
    assert lower(shape, IM2COL).outermost == ()
    with pytest.raises(ValueError, match="winograd is not a lowering"):
        lower(shape, "winograd")


def test_copies_pay_whole_vectors_and_the_narrowest_bandwidth():
    energy = AccessEnergy(read=10, fill=1, update=7)
    level = StorageLevel(
        "DRAM", block_size=4, energy=energy, read_bandwidth=Fraction(3), write_bandwidth=Fraction(2)
    )
    copy = Copy(read_words=9, write_words=13)
    assert copy.energy(level) == 3 * 10 + 4 * 7
    assert copy.cycles(level) == 7
    shared = StorageLevel("DRAM", read_bandwidth=Fraction(100), shared_bandwidth=Fraction(5, 2))
    assert copy.cycles(shared) == 9
    assert copy.cycles(StorageLevel("DRAM")) == 0
