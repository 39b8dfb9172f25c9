"""A tiling: how each tensor of an operator is cut."""

from __future__ import annotations

from dataclasses import dataclass

from model.tiling.backend import Backend
from model.tiling.cuts import Grid
from model.tiling.operators import Operator, Shape
from model.tiling.strategy import Strategy


@dataclass(frozen=True)
class TensorTiling:
    """How one tensor is cut.

    Parameters
    ----------
    name
        ``inputs``, ``second_inputs``, ``weights`` or ``outputs``.
    shape
        The tensor's shape; of element-wise operators that of its storage, a single row.
    strategy
        Along which dimensions it may be cut; None where there is nothing to choose.
    tile
        The basic tile: all tiles but the first and the last along a rank have its sizes.
    tile_elements
        What the basic tile counts towards the use of the scratchpads, with channel padding.
    grid
        The tiles that the schedule goes through.
    listed
        The tiles that SMAUG lists. It differs from `grid` where SMAUG leaves some out.
    """

    name: str
    shape: Shape
    strategy: Strategy | None
    tile: Shape
    tile_elements: int
    grid: Grid
    listed: Grid


@dataclass(frozen=True)
class Tiling:
    """How all tensors of an operator are cut.

    Parameters
    ----------
    operator, backend
        What is tiled, and for what.
    tensors
        One entry per tensor that the operator has.
    remarks
        Remarks for people.
    """

    operator: Operator
    backend: Backend
    tensors: tuple[TensorTiling, ...]
    remarks: tuple[str, ...] = ()

    def __getitem__(self, name: str) -> TensorTiling:
        """Return the tiling of the tensor called `name`; `KeyError` if the operator has none."""
        for tensor in self.tensors:
            if tensor.name == name:
                return tensor
        raise KeyError(name)

    @property
    def total_elements(self) -> int:
        """Elements of one basic tile of every tensor, with channel padding: what the choice maximises."""
        return sum(tensor.tile_elements for tensor in self.tensors)
