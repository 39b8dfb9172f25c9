"""Tiling strategies: along which dimensions a tensor is cut."""

from __future__ import annotations

from enum import Enum

AXES_OF_RANKS = {4: "NHWC", 2: "NC"}
"""Letters of a tensor's ranks by their number; N is the output features of weights."""


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
    """Return the strategy called `name`, with or without ``Dim``.

    Raises
    ------
    KeyError
        There is none.
    """
    return Strategy["NONE" if name == "None" else name.removeprefix("Dim")]
