"""How many elements a tile takes in a scratchpad."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from model.tiling.operators import Shape


@dataclass(frozen=True, slots=True)
class TileShape:
    """A tile and the padding of its last rank.

    SMAUG pads the last rank of a stored tensor to the alignment. When it derives a tile of weights or
    outputs from the whole tensor, it keeps the whole tensor's padding: `counted` is the size that its
    decisions rest on, `stored` is what the tile takes.

    Parameters
    ----------
    dims
        Elements of each rank.
    alignment
        Elements to a multiple of which the last rank is stored.
    padding
        Elements that are counted on top of the last rank.
    """

    dims: Shape
    alignment: int
    padding: int

    @classmethod
    def aligned(cls, dims: Shape, alignment: int) -> TileShape:
        """A tensor, or a tile that is padded for itself."""
        return cls(dims, alignment, -dims[-1] % alignment)

    def shrunk(self, dims: Shape) -> TileShape:
        """A tile of this tensor that keeps the tensor's padding."""
        return replace(self, dims=dims)

    @property
    def counted(self) -> int:
        """Elements that the tile counts for."""
        return math.prod(self.dims[:-1]) * (self.dims[-1] + self.padding)

    @property
    def stored(self) -> int:
        """Elements that the tile takes in a scratchpad."""
        return math.prod(self.dims[:-1]) * (self.dims[-1] + -self.dims[-1] % self.alignment)

    def fits(self, capacity: int) -> bool:
        """Whether a scratchpad of `capacity` elements holds the tile, by either count."""
        return max(self.counted, self.stored) <= capacity
