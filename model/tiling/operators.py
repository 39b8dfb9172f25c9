"""Operators and the shapes of their tensors: NHWC for images, NC for vectors.

All of them raise `OperatorError` where the input has another number of ranks, a size is below 1, or no window
fits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

Shape = tuple[int, ...]
Padding = Literal["same", "valid"]

AXES_OF_RANKS = {4: "NHWC", 2: "NC"}
"""Letters of a tensor's ranks by their number; N is the output features of weights."""

INPUTS = "inputs"
SECOND_INPUTS = "second_inputs"
WEIGHTS = "weights"
OUTPUTS = "outputs"


class OperatorError(ValueError):
    """The shapes of an operator do not fit together; the message says how."""


@dataclass(frozen=True)
class Window:
    """A sliding window along one dimension.

    Parameters
    ----------
    field
        Elements that the window covers.
    stride
        Elements between two windows.
    before, after
        Zeros in front of and behind the tensor.
    """

    field: int
    stride: int
    before: int = 0
    after: int = 0

    @property
    def halo(self) -> int:
        """Elements that neighbouring tiles share; negative where they leave some out."""
        return self.field - self.stride

    def positions(self, extent: int) -> int:
        """Number of windows in a rank of `extent` elements and its padding; at most 0 if none fits."""
        return (extent + self.before + self.after - self.field) // self.stride + 1


@dataclass(frozen=True)
class Convolution:
    """A convolution of images with a filter.

    Parameters
    ----------
    input
        Shape of the inputs, ``(N, H, W, C)``.
    kernel
        Rows and columns of the filter; the weights have the shape ``(ofmaps, *kernel, C)``.
    ofmaps
        Output features.
    stride
        Elements between two windows, along rows and columns.
    padding
        ``same`` pads with field - 1 zeros along rows and columns, the larger half in front, whatever the
        stride is (so SMAUG does; TensorFlow pads less at larger strides); ``valid`` does not.
    """

    name: ClassVar[str] = "convolution"
    input: Shape
    kernel: tuple[int, int]
    ofmaps: int
    stride: tuple[int, int] = (1, 1)
    padding: Padding = "valid"

    def __post_init__(self) -> None:
        """Refuse shapes without any output."""
        _check_positive(self.name, (4,), self.input, (*self.kernel, self.ofmaps, *self.stride))
        _check_fields(self.name, self.input, self.windows)

    @property
    def windows(self) -> tuple[Window, Window]:
        """The windows along rows and columns."""
        rows, columns = (
            _padded_window(field, stride, self.padding)
            for field, stride in zip(self.kernel, self.stride, strict=True)
        )
        return rows, columns

    @property
    def shapes(self) -> dict[str, Shape]:
        """Shape of each tensor by its name."""
        batch, height, width, channels = self.input
        rows, columns = self.windows
        return {
            INPUTS: self.input,
            WEIGHTS: (self.ofmaps, *self.kernel, channels),
            OUTPUTS: (batch, rows.positions(height), columns.positions(width), self.ofmaps),
        }


@dataclass(frozen=True)
class InnerProduct:
    """A fully connected layer: inputs times weights of the shape ``(outputs, C)``, transposed.

    Parameters
    ----------
    input
        Shape of the inputs, ``(N, C)``.
    outputs
        Output features.
    """

    name: ClassVar[str] = "inner_product"
    input: Shape
    outputs: int

    def __post_init__(self) -> None:
        """Refuse shapes without any output."""
        _check_positive(self.name, (2,), self.input, (self.outputs,))

    @property
    def shapes(self) -> dict[str, Shape]:
        """Shape of each tensor by its name."""
        batch, channels = self.input
        return {INPUTS: self.input, WEIGHTS: (self.outputs, channels), OUTPUTS: (batch, self.outputs)}


@dataclass(frozen=True)
class Pooling:
    """Maximum or average of images over windows, without padding.

    Parameters
    ----------
    input
        Shape of the inputs, ``(N, H, W, C)``.
    pool, stride
        Rows and columns of a window, and elements between two windows.
    average
        Whether it is the average, else the maximum.
    """

    name: ClassVar[str] = "pooling"
    input: Shape
    pool: tuple[int, int]
    stride: tuple[int, int]
    average: bool = False

    def __post_init__(self) -> None:
        """Refuse shapes without any output."""
        _check_positive(self.name, (4,), self.input, (*self.pool, *self.stride))
        _check_fields(self.name, self.input, self.windows)

    @property
    def windows(self) -> tuple[Window, Window]:
        """The windows along rows and columns."""
        return Window(self.pool[0], self.stride[0]), Window(self.pool[1], self.stride[1])

    @property
    def shapes(self) -> dict[str, Shape]:
        """Shape of each tensor by its name."""
        batch, height, width, channels = self.input
        rows, columns = self.windows
        return {
            INPUTS: self.input,
            OUTPUTS: (batch, rows.positions(height), columns.positions(width), channels),
        }


@dataclass(frozen=True)
class _OfInputs:
    """An operator that the shape of its inputs describes; outputs have the same shape."""

    name: ClassVar[str]
    layouts: ClassVar[tuple[int, ...]] = (2, 4)
    input: Shape

    def __post_init__(self) -> None:
        """Refuse other layouts."""
        _check_positive(self.name, self.layouts, self.input)

    @property
    def shapes(self) -> dict[str, Shape]:
        """Shape of each tensor by its name."""
        return {INPUTS: self.input, OUTPUTS: self.input}


@dataclass(frozen=True)
class BatchNorm(_OfInputs):
    """Batch normalisation after a convolution (NHWC) or an inner product (NC).

    The weights are four rows: mean, scale (the inverse of the standard deviation), gamma and beta of each
    channel.
    """

    name: ClassVar[str] = "batch_norm"

    @property
    def shapes(self) -> dict[str, Shape]:
        """Shape of each tensor by its name."""
        return {INPUTS: self.input, WEIGHTS: (4, self.input[-1]), OUTPUTS: self.input}


@dataclass(frozen=True)
class Unary(_OfInputs):
    """An operator that maps each element alone (ReLU, tanh, ...)."""

    name: ClassVar[str] = "unary"


@dataclass(frozen=True)
class Eltwise(Unary):
    """An operator that maps each pair of elements of two tensors of one shape (add, multiply, ...)."""

    name: ClassVar[str] = "eltwise"

    @property
    def shapes(self) -> dict[str, Shape]:
        """Shape of each tensor by its name."""
        return {INPUTS: self.input, SECOND_INPUTS: self.input, OUTPUTS: self.input}


@dataclass(frozen=True)
class Softmax(_OfInputs):
    """Softmax of each row of NC inputs."""

    name: ClassVar[str] = "softmax"
    layouts: ClassVar[tuple[int, ...]] = (2,)


Operator = Convolution | InnerProduct | Pooling | BatchNorm | Unary | Eltwise | Softmax


def _padded_window(field: int, stride: int, padding: Padding) -> Window:
    total = field - 1 if padding == "same" else 0
    return Window(field, stride, before=total - total // 2, after=total // 2)


def _check_positive(name: str, ranks: tuple[int, ...], shape: Shape, others: Shape = ()) -> None:
    if len(shape) not in ranks:
        layouts = " or ".join(",".join(AXES_OF_RANKS[number]) for number in ranks)
        raise OperatorError(f"{name} takes inputs {layouts}, not {len(shape)} numbers")
    if min(*shape, *others) < 1:
        raise OperatorError(f"{name}: all sizes must be at least 1")


def _check_fields(name: str, shape: Shape, windows: tuple[Window, Window]) -> None:
    for extent, window, what in zip(shape[1:3], windows, ("rows", "columns"), strict=True):
        padded = extent + window.before + window.after
        if padded < window.field:
            raise OperatorError(f"{name}: a window of {window.field} {what} does not fit into {padded}")
