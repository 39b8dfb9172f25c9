"""What operators compute, on whole tensors or on tiles."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import product

import numpy as np

from model.tiling.arrays import Array
from model.tiling.operators import (
    INPUTS,
    OUTPUTS,
    SECOND_INPUTS,
    WEIGHTS,
    BatchNorm,
    Convolution,
    InnerProduct,
    Operator,
    Pooling,
    Softmax,
    Window,
)

Elementwise = Callable[..., Array]
Windows = tuple[Window, Window]


def untiled(operator: Operator, tensors: Mapping[str, Array], function: Elementwise | None = None) -> Array:
    """Return the outputs of an operator, computed at once.

    Parameters
    ----------
    operator
        What is computed.
    tensors
        The operands by name, of the shapes ``operator.shapes``; they are not changed.
    function
        What an element-wise operator does with its one or two operands.

    Returns
    -------
    ndarray
        Of the shape ``operator.shapes["outputs"]``.

    Raises
    ------
    ValueError
        If an operand is missing or of another shape, or an element-wise operator is given no function.
    """
    check_operands(operator, tensors)
    inputs = tensors[INPUTS]
    if isinstance(operator, Convolution):
        rows, columns = operator.windows
        margins = ((0, 0), (rows.before, rows.after), (columns.before, columns.after), (0, 0))
        return convolve(np.pad(inputs, margins), tensors[WEIGHTS], operator.windows)
    if isinstance(operator, InnerProduct):
        return inner_product(inputs, tensors[WEIGHTS])
    if isinstance(operator, Pooling):
        return pool(inputs, operator.windows, operator.average)
    if isinstance(operator, BatchNorm):
        return normalise(inputs, tensors[WEIGHTS])
    if isinstance(operator, Softmax):
        return softmax(inputs)
    return applied(function, [tensors[name] for name in (INPUTS, SECOND_INPUTS) if name in tensors])


def check_operands(operator: Operator, tensors: Mapping[str, Array]) -> None:
    """Check the operands of an operator.

    Raises
    ------
    ValueError
        One is missing, too many, or of another shape.
    """
    wanted = {name: shape for name, shape in operator.shapes.items() if name != OUTPUTS}
    shapes = {name: tensor.shape for name, tensor in tensors.items()}
    if shapes != wanted:
        raise ValueError(f"{operator.name} takes operands of the shapes {wanted}, not {shapes}")


def applied(function: Elementwise | None, operands: Sequence[Array]) -> Array:
    """Apply what an element-wise operator does.

    Raises
    ------
    ValueError
        `function` is None.
    """
    if function is None:
        raise ValueError("an element-wise operator needs a function")
    return function(*operands)


def convolve(padded: Array, weights: Array, windows: Windows) -> Array:
    """Correlate images with a filter."""
    parts = [part @ weights[:, row, column, :].T for (row, column), part in _parts(padded, windows)]
    total: Array = np.add.reduce(parts)
    return total


def inner_product(inputs: Array, weights: Array) -> Array:
    """Multiply vectors with a matrix."""
    products: Array = inputs @ weights.T
    return products


def pool(inputs: Array, windows: Windows, average: bool) -> Array:
    """Return the maximum or the average of each window."""
    parts = np.stack([part for _, part in _parts(inputs, windows)])
    pooled: Array = parts.mean(axis=0) if average else parts.max(axis=0)
    return pooled


def normalise(inputs: Array, weights: Array) -> Array:
    """Return ``gamma * (inputs - mean) * scale + beta`` along the last rank."""
    mean, scale, gamma, beta = weights
    normalised: Array = gamma * ((inputs - mean) * scale) + beta
    return normalised


def softmax(inputs: Array) -> Array:
    """Return the softmax of each row of inputs of the shape ``(N, C)``."""
    powers = np.exp(inputs - inputs.max(axis=1, keepdims=True))
    shares: Array = powers / powers.sum(axis=1, keepdims=True)
    return shares


def _parts(inputs: Array, windows: Windows) -> list[tuple[tuple[int, int], Array]]:
    """Return, per place in the window, the elements that stand there in each window."""
    rows, columns = (
        Window(window.field, window.stride).positions(extent)
        for window, extent in zip(windows, inputs.shape[1:3], strict=True)
    )
    down, across = windows
    return [
        (
            (row, column),
            inputs[:, row :: down.stride, column :: across.stride][:, :rows, :columns],
        )
        for row, column in product(range(down.field), range(across.field))
    ]
