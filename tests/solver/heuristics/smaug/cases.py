"""Random operators and backends."""

import numpy as np
from hypothesis import assume
from hypothesis import strategies as st

from model.tiling.operators import (
    BatchNorm,
    Convolution,
    Eltwise,
    InnerProduct,
    Operator,
    OperatorError,
    Pooling,
    Softmax,
    Unary,
)
from model.tiling.tilings import Backend, Strategy

CHOOSING = ("convolution", "inner_product", "pooling", "batch_norm")
ORDERS = st.permutations(tuple(Strategy)).map(lambda order: dict.fromkeys(CHOOSING, tuple(order)))

UNALIGNED = st.builds(
    Backend,
    name=st.just("unaligned"),
    num_pes=st.sampled_from((1, 2, 3, 8)),
    num_maccs_per_pe=st.sampled_from((1, 2, 4, 32)),
    vector_size=st.sampled_from((1, 2, 8)),
    spad_bytes=st.sampled_from((32, 50, 64, 100, 200, 512, 1024, 3000)),
    element_bytes=st.sampled_from((1, 2, 4)),
    alignment=st.sampled_from((1, 2, 3, 8)),
    preference=st.just({}) | ORDERS,
)


def _sizes(*largest: int):
    return st.tuples(*(st.integers(1, size) for size in largest))


def _image(channels: int = 30):
    return _sizes(3, 13, 13, channels)


@st.composite
def convolutions(draw) -> Convolution:
    try:
        return Convolution(
            draw(_image()),
            draw(_sizes(5, 5)),
            draw(st.integers(1, 20)),
            draw(_sizes(4, 4)),
            draw(st.sampled_from(("same", "valid"))),
        )
    except OperatorError:
        assume(False)
        raise


@st.composite
def poolings(draw) -> Pooling:
    try:
        return Pooling(draw(_image(20)), draw(_sizes(4, 4)), draw(_sizes(4, 4)), draw(st.booleans()))
    except OperatorError:
        assume(False)
        raise


INNER_PRODUCTS = st.builds(InnerProduct, _sizes(6, 90), st.integers(1, 50))
BATCH_NORMS = st.builds(BatchNorm, _image(20) | _sizes(8, 200))
UNARIES = st.builds(Unary, _image(9) | _sizes(9, 90))
ELTWISES = st.builds(Eltwise, _image(9) | _sizes(9, 90))
SOFTMAXES = st.builds(Softmax, _sizes(20, 40))


def random_operands(operator: Operator, seed: int) -> dict[str, np.ndarray]:
    """Operands by name: small integers, as text-book sums of them have no rounding."""
    random = np.random.default_rng(seed)
    dtype = float if isinstance(operator, (BatchNorm, Softmax)) else int
    return {
        name: random.integers(-9, 10, size=shape).astype(dtype)
        for name, shape in operator.shapes.items()
        if name != "outputs"
    }
