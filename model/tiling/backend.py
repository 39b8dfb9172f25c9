"""The backend that operators are tiled for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from model.tiling.strategy import DEFAULT_ORDER, Strategy


@dataclass(frozen=True)
class Backend:
    """An accelerator with one scratchpad per tensor, as its tiling sees it.

    Parameters
    ----------
    name
        For people.
    num_pes
        Processing elements; each works on another output feature.
    num_maccs_per_pe
        Channels that a processing element reduces at a time.
    vector_size
        Elements of a vector operation (pooling, batch normalisation).
    spad_bytes
        Capacity of each scratchpad.
    element_bytes
        Bytes of an element.
    alignment
        The last rank of a stored tensor is padded to a multiple of this many elements.
    preference
        Order in which strategies are tried, by operator; operators that are not named take
        `DEFAULT_ORDER`.
    """

    name: str
    num_pes: int
    num_maccs_per_pe: int
    vector_size: int
    spad_bytes: int
    element_bytes: int
    alignment: int
    preference: Mapping[str, tuple[Strategy, ...]] = field(default_factory=dict)

    @property
    def capacity(self) -> int:
        """Elements that a scratchpad holds: the maximum tile size."""
        return self.spad_bytes // self.element_bytes

    def order(self, operator: str) -> tuple[Strategy, ...]:
        """Order in which strategies are tried.

        Parameters
        ----------
        operator
            Name of the operator; a strategy that is not in its order is not used.
        """
        return self.preference.get(operator, DEFAULT_ORDER)
