"""From an operator and a backend to a tiling."""

from __future__ import annotations

from model.tiling.cuts import TooManyTilesError
from model.tiling.operators import BatchNorm, Convolution, InnerProduct, Operator, Pooling, Softmax
from model.tiling.tilings import Backend, Tiling
from solver.heuristics.smaug.batch_norm import tile_batch_norm
from solver.heuristics.smaug.convolution import tile_convolution
from solver.heuristics.smaug.elementwise import tile_elementwise, tile_softmax
from solver.heuristics.smaug.enumeration import CannotTile
from solver.heuristics.smaug.inner_product import tile_inner_product
from solver.heuristics.smaug.pooling import tile_pooling


def tile(operator: Operator, backend: Backend) -> Tiling:
    """Choose strategies and tile shapes, and cut the tensors.

    Parameters
    ----------
    operator
        What is computed, with the shapes of its tensors.
    backend
        The accelerator.

    Returns
    -------
    Tiling
        Every tile fits into a scratchpad of ``backend.capacity`` elements.

    Raises
    ------
    CannotTile
        If no strategy, or no combination of tile shapes, fits, or the tiles are too many to list.
    """
    try:
        return _tile(operator, backend)
    except TooManyTilesError as error:
        raise CannotTile(str(error)) from error


def _tile(operator: Operator, backend: Backend) -> Tiling:
    if isinstance(operator, Convolution):
        return tile_convolution(operator, backend)
    if isinstance(operator, InnerProduct):
        return tile_inner_product(operator, backend)
    if isinstance(operator, Pooling):
        return tile_pooling(operator, backend)
    if isinstance(operator, BatchNorm):
        return tile_batch_norm(operator, backend)
    if isinstance(operator, Softmax):
        return tile_softmax(operator, backend)
    return tile_elementwise(operator, backend)
