"""Tiling of element-wise operators and softmax: there is nothing to choose but the size."""

from __future__ import annotations

from model.tiling.operators import INPUTS, OUTPUTS, Softmax, Unary
from model.tiling.tilings import Backend, Strategy, Tiling
from solver.heuristics.smaug.enumeration import CannotTile
from solver.heuristics.smaug.sizes import TileShape
from solver.heuristics.smaug.tensors import plain_tensor


def tile_elementwise(operator: Unary, backend: Backend) -> Tiling:
    """Tile an operator on single elements: the storage as one row, in pieces that fill a scratchpad.

    Raises
    ------
    CannotTile
        If not even one aligned vector fits.
    """
    largest = backend.capacity - backend.capacity % backend.alignment
    if largest == 0:
        raise CannotTile(
            f"a scratchpad of {backend.capacity} elements holds no {backend.alignment} aligned ones"
        )
    elements = TileShape.aligned(operator.input, backend.alignment).stored
    row = TileShape.aligned((1, elements), backend.alignment)
    tile = row.shrunk((1, min(elements, largest)))
    return Tiling(operator, backend, tuple(plain_tensor(name, row, None, tile) for name in operator.shapes))


def tile_softmax(operator: Softmax, backend: Backend) -> Tiling:
    """Tile a softmax by batches: each of its rows needs all channels at a time.

    Raises
    ------
    CannotTile
        If a row does not fit.
    """
    tensor = TileShape.aligned(operator.input, backend.alignment)
    items, channels = operator.input
    per_item = tensor.stored // items
    if per_item > backend.capacity:
        raise CannotTile(
            f"a row of {per_item} elements must fit into a scratchpad of {backend.capacity}: "
            "softmax is cut by batches only"
        )
    tile = tensor.shrunk((min(items, backend.capacity // per_item), channels))
    strategy = Strategy.NONE if tile.dims[0] == items else Strategy.N
    return Tiling(
        operator, backend, tuple(plain_tensor(name, tensor, strategy, tile) for name in (INPUTS, OUTPUTS))
    )
