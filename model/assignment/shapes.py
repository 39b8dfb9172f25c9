"""Networks described by the shapes of their layers, to be priced by a cost model."""

from __future__ import annotations

from dataclasses import dataclass

from model.note import Note
from model.source_ref import SourceRef

IM2COL, KN2ROW, WINOGRAD = METHODS = ("im2col", "kn2row", "winograd")
TENSOR = "tensor"
"""The one layout of a layer that computes nothing: a fork, a concatenation, a sum."""


@dataclass(frozen=True)
class Convolution:
    """A convolution; a fully connected layer is one with a single output position.

    Parameters
    ----------
    in_channels, out_channels
        Channels of the input and of the output.
    height, width
        Output positions. The input has `stride` times as many along each side.
    kernel
        Height and width of the filter.
    stride
        Distance of two windows along both sides.
    """

    in_channels: int
    out_channels: int
    height: int
    width: int
    kernel: tuple[int, int] = (1, 1)
    stride: int = 1

    @property
    def positions(self) -> int:
        """Output positions of one channel."""
        return self.height * self.width

    @property
    def window(self) -> int:
        """Positions of the filter."""
        return self.kernel[0] * self.kernel[1]

    def usual_methods(self) -> tuple[str, ...]:
        """Return the methods that are tried unless the user says otherwise.

        A filter of one position has nothing to lower but a matrix product. Winograd's transforms need
        a square filter of at least three positions a side, and windows that touch (stride 1).
        """
        high, wide = self.kernel
        if high == wide == 1:
            return (IM2COL,)
        if self.allows_winograd and high > 2:
            return METHODS
        return (IM2COL, KN2ROW)

    @property
    def allows_winograd(self) -> bool:
        """Whether Winograd's method can compute it."""
        return self.kernel[0] == self.kernel[1] > 1 and self.stride == 1


@dataclass(frozen=True)
class Tensor:
    """A layer that only holds a tensor: it costs nothing and has one layout."""

    channels: int
    height: int
    width: int


@dataclass(frozen=True)
class ShapedLayer:
    """A layer by its shape, with the methods to choose from."""

    name: str
    shape: Convolution | Tensor
    methods: tuple[str, ...]
    place: SourceRef | None = None

    @property
    def channels(self) -> int:
        """Channels that go in."""
        return self.shape.in_channels if isinstance(self.shape, Convolution) else self.shape.channels

    @property
    def out_channels(self) -> int:
        """Channels that come out."""
        return self.shape.out_channels if isinstance(self.shape, Convolution) else self.shape.channels


@dataclass(frozen=True)
class ShapedEdge:
    """A tensor that goes from layer `source` to layer `target` (positions).

    `channels` is how many of the target's input channels it carries; None is all of them.
    """

    source: int
    target: int
    channels: int | None = None
    place: SourceRef | None = None


@dataclass(frozen=True)
class ShapedNetwork:
    """A network of layers by their shapes; `notes` are for people."""

    name: str
    layers: tuple[ShapedLayer, ...]
    edges: tuple[ShapedEdge, ...]
    notes: tuple[Note, ...] = ()
