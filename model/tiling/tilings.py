"""Tilings: the strategies to cut by, the backend with its scratchpads, and how each tensor is cut."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from model.tiling.cuts import Grid
from model.tiling.operators import Operator, Shape


class Strategy(Enum):
    """The dimensions along which a tensor may be cut, named as SMAUG names them."""

    NONE = "None"
    N = "DimN"
    NC = "DimNC"
    NH = "DimNH"
    NW = "DimNW"
    NHW = "DimNHW"
    NCH = "DimNCH"
    NCW = "DimNCW"

    @property
    def axes(self) -> str:
        """Letters of the dimensions, in the order of the name."""
        return "" if self is Strategy.NONE else self.value.removeprefix("Dim")

    def cuts(self, axis: str) -> bool:
        """Whether tensors are cut along `axis`, a letter of `AXES_OF_RANKS`."""
        return axis in self.axes


DEFAULT_ORDER = tuple(Strategy)
"""The SMV backend's order of preference: whole channels first, then whole rows."""


def strategy_named(name: str) -> Strategy:
    """Return the strategy called `name`, with or without ``Dim``; `KeyError` if there is none."""
    return Strategy["NONE" if name == "None" else name.removeprefix("Dim")]


@dataclass(frozen=True)
class Backend:
    """An accelerator with one scratchpad per tensor, as its tiling sees it."""

    name: str
    num_pes: int  # processing elements; each works on another output feature
    num_maccs_per_pe: int  # channels that a processing element reduces at a time
    vector_size: int  # elements of a vector operation (pooling, batch normalisation)
    spad_bytes: int  # capacity of each scratchpad
    element_bytes: int  # bytes of an element
    alignment: int  # the last rank of a stored tensor is padded to a multiple of this many elements
    # Order in which strategies are tried, by operator; operators that are not named take `DEFAULT_ORDER`.
    preference: Mapping[str, tuple[Strategy, ...]] = field(default_factory=dict)

    @property
    def capacity(self) -> int:
        """Elements that a scratchpad holds: the maximum tile size."""
        return self.spad_bytes // self.element_bytes

    def order(self, operator: str) -> tuple[Strategy, ...]:
        """Return the order in which strategies are tried for an operator; those not in it are not used."""
        return self.preference.get(operator, DEFAULT_ORDER)


@dataclass(frozen=True)
class TensorTiling:
    """How one tensor is cut."""

    name: str  # ``inputs``, ``second_inputs``, ``weights`` or ``outputs``
    shape: Shape  # the tensor's shape; of element-wise operators that of its storage, a single row
    strategy: Strategy | None  # along which dimensions it may be cut; None where there is nothing to choose
    tile: Shape  # the basic tile: all tiles but the first and the last along a rank have its sizes
    tile_elements: int  # what the basic tile counts towards the use of the scratchpads, with channel padding
    grid: Grid  # the tiles that the schedule goes through
    listed: Grid  # the tiles that SMAUG lists. It differs from `grid` where SMAUG leaves some out.


@dataclass(frozen=True)
class Tiling:
    """How all tensors of an operator are cut.

    Parameters
    ----------
    operator, backend
        What is tiled, and for what.
    tensors
        One entry per tensor of the operator.
    remarks
        For the report.
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
