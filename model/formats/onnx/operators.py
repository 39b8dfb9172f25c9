"""Operators of ONNX graphs as Einsums: convolutions and products of matrices."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from model.text.files import display_name
from model.text.source import SpecError
from model.workload import Einsum, RankIndex, TensorAccess

Shape = tuple[int, ...]

WINDOW = (("P", "R"), ("Q", "S"), ("O", "T"))
"""Output position and filter tap of each dimension that a convolution slides along."""

SAME_UPPER, SAME_LOWER, VALID, EXPLICIT = b"SAME_UPPER", b"SAME_LOWER", b"VALID", b"NOTSET"


class UnknownError(SpecError):
    """The shape or type of an operand is not known, so that its node cannot be mapped."""


@dataclass(frozen=True)
class Unmapped:
    """A node of multiply-accumulates that no Einsum stands for: how many, and why."""

    macs: int | None
    why: str = "this operator is not mapped"


@dataclass(frozen=True)
class Values:
    """What is known of the values in a graph: shapes, and bits of an element, by name."""

    path: Path
    shapes: Mapping[str, Shape]
    bits: Mapping[str, int]
    shown: Callable[[str], str]  # of each value's name: what reports and constraints call it
    hint: str | None = None  # how to give the sizes that the model leaves open


@dataclass(frozen=True)
class Node:
    """A node of a graph, with what is known of all values of the graph."""

    name: str
    inputs: tuple[str, ...]  # empty texts for operands that are left out
    output: str  # the first one
    attributes: Mapping[str, object]  # integers, lists, texts as bytes
    values: Values

    def error(self, message: str) -> SpecError:
        """Return an error that names the model and the node."""
        return SpecError(self._sentence(message))

    def unknown(self, message: str, hint: str | None) -> UnknownError:
        """Return the error for an operand of which something is not known."""
        return UnknownError(self._sentence(message), hint=hint)

    def _sentence(self, message: str) -> str:
        return f"{display_name(self.values.path)}: node `{self.name}` {message}"

    def operand(self, place: int) -> Shape:
        """Return the shape of an input."""
        if place >= len(self.inputs) or not self.inputs[place]:
            raise self.error(f"has no input {place + 1}")
        name = self.inputs[place]
        shape = self.values.shapes.get(name)
        if shape is None:
            raise self.unknown(f"uses `{name}`, whose shape is not known", self.values.hint)
        if min(shape, default=1) < 1:
            raise self.error(f"uses `{name}`, which has no values: its shape is {shape}")
        return shape

    def bits(self, name: str) -> int:
        """Return the bits of an element; an output of unknown type has that of the first input."""
        bits = self.values.bits.get(name, self.values.bits.get(self.inputs[0]))
        if bits is None:
            raise self.unknown(f"uses `{name}`, whose type is not known", "give the bits: `--set BITS=8`")
        return bits

    def integer(self, attribute: str, default: int, least: int) -> int:
        """Return an attribute that is one integer."""
        value = self.attributes.get(attribute, default)
        if not isinstance(value, int) or value < least:
            raise self.error(f"has {attribute} = {value}, which is not an integer of at least {least}")
        return value

    def integers(self, attribute: str, count: int, default: int, least: int) -> Sequence[int]:
        """Return an attribute that is a list of integers; missing or empty, all have the default."""
        values = self.attributes.get(attribute) or [default] * count
        if not isinstance(values, list) or not all(
            isinstance(value, int) and value >= least for value in values
        ):
            raise self.error(f"has {attribute} = {values}, which are not integers of at least {least}")
        if len(values) != count:
            raise self.error(f"has {attribute} = {values}, but {count} of them are needed")
        return values

    def check_result(self, shape: Shape) -> None:
        """Check that a model says of the output what follows from the inputs."""
        known = self.values.shapes.get(self.output, shape)
        if known != shape:
            raise self.error(f"makes a value of shape {shape}, but `{self.output}` has {known}")


Reader = Callable[[Node], Einsum | tuple[Einsum, ...] | Unmapped]


@dataclass
class _Builder:
    """Collects the rank variables and accesses of one Einsum."""

    node: Node
    sizes: dict[str, int] = field(default_factory=dict)
    accesses: list[TensorAccess] = field(default_factory=list)

    def access(self, tensor: str, indices: Iterable[RankIndex], output: bool = False) -> None:
        kept = tuple(index for index in indices if index.terms)
        name = self.node.values.shown(tensor)
        self.accesses.append(TensorAccess(name, kept, output, self.node.bits(tensor)))

    def einsum(self, is_box: bool = True) -> Einsum:
        """Return the Einsum; its accesses are input, weight and output."""
        roles = zip(("input", "weight", "output"), self.accesses, strict=True)
        return Einsum(
            name=self.node.name,
            rank_variables=tuple(self.sizes),
            ranges=tuple(range(size) for size in self.sizes.values()),
            accesses=tuple(self.accesses),
            tensor_renames=tuple((role, (access.tensor,)) for role, access in roles),
            is_box=is_box,
        )


@dataclass(frozen=True)
class _Window:
    """One dimension that a filter slides along: its positions, its taps, and where they read or write."""

    rows: int
    taps: int
    stride: int
    dilation: int
    before: int
    after: int

    def index(self, row: str, tap: str) -> RankIndex:
        return RankIndex.of(f"I{row}", (row, self.stride), (tap, self.dilation), offset=-self.before)


@dataclass(frozen=True)
class _Filter:
    """A convolution or a transposed one, which writes where the other one reads."""

    node: Node
    weights: str
    batch: int
    groups: int
    channels: Mapping[str, int]  # in a group, of input and output
    windows: tuple[_Window, ...]
    is_transposed: bool = False

    def einsum(self) -> Einsum:
        """Return the Einsum; it is no box if it is padded or cropped."""
        # A depthwise convolution has one channel per group, which needs no rank variable.
        looped = {dim: size for dim, size in self.channels.items() if size > 1 or self.groups == 1}
        groups = {"G": self.groups} if self.groups > 1 else {}
        slid = [(*names, window) for names, window in zip(WINDOW, self.windows, strict=False)]
        build = _Builder(self.node)
        build.sizes |= {"N": self.batch, **groups, **looped}
        for row, tap, window in slid:
            build.sizes |= {row: window.rows, tap: window.taps}
        within = {dim: [(dim, 1)] if dim in looped else [] for dim in self.channels}
        overall = {dim: [("G", size)] if groups else [] for dim, size in self.channels.items()}
        whole = {dim: RankIndex.of(dim, *overall[dim], *within[dim]) for dim in self.channels}
        batch = RankIndex.of("N", ("N", 1))
        moved = [window.index(row, tap) for row, tap, window in slid]
        plain = [RankIndex.of(row, (row, 1)) for row, _, _ in slid]
        taps = [RankIndex.of(tap, (tap, 1)) for _, tap, _ in slid]
        first, second = ("C", "K") if self.is_transposed else ("K", "C")
        read, written = (plain, moved) if self.is_transposed else (moved, plain)
        build.access(self.node.inputs[0], [batch, whole["C"], *read])
        build.access(self.weights, [whole[first], RankIndex.of(second, *within[second]), *taps])
        build.access(self.node.output, [batch, whole["K"], *written], output=True)
        return build.einsum(is_box=not any(window.before or window.after for window in self.windows))


def convolution(node: Node, weights_at: int = 1) -> Einsum:
    """Read ``Conv``, ``ConvInteger`` or ``QLinearConv``, in one to three dimensions."""
    image, weights = node.operand(0), node.operand(weights_at)
    groups = _convolution_groups(node, image, weights)
    if image[1] != weights[1] * groups or weights[0] % groups:
        raise _misfit(node, groups, image, weights)
    windows = tuple(_windows(node, image[2:], weights[2:]))
    node.check_result((image[0], weights[0], *(window.rows for window in windows)))
    channels = {"C": weights[1], "K": weights[0] // groups}
    return _Filter(node, node.inputs[weights_at], image[0], groups, channels, windows).einsum()


def transposed_convolution(node: Node) -> Einsum:
    """Read ``ConvTranspose``, which adds the filter, times an input value, to a window of the output."""
    image, weights = node.operand(0), node.operand(1)
    groups = _convolution_groups(node, image, weights)
    if image[1] != weights[0] or weights[0] % groups:
        raise _misfit(node, groups, image, weights)
    windows = tuple(_transposed_windows(node, image[2:], weights[2:]))
    channels = {"C": weights[0] // groups, "K": weights[1]}
    return _Filter(node, node.inputs[1], image[0], groups, channels, windows, is_transposed=True).einsum()


def _misfit(node: Node, groups: int, image: Shape, weights: Shape) -> SpecError:
    return node.error(f"does not fit: group = {groups}, an input {image}, weights {weights}")


def _convolution_groups(node: Node, image: Shape, weights: Shape) -> int:
    """Return the number of groups of a convolution, whose operands have as many dimensions as each other."""
    count = len(weights) - 2
    if not 1 <= count <= len(WINDOW) or len(image) != len(weights):
        raise node.error(f"is not a convolution in 1 to {len(WINDOW)} dimensions: {image} with {weights}")
    if tuple(node.integers("kernel_shape", count, 1, 1)) != weights[2:] and "kernel_shape" in node.attributes:
        raise node.error(f"has kernel_shape = {node.attributes['kernel_shape']}, but weights {weights}")
    return node.integer("group", 1, 1)


def _padding(node: Node) -> object:
    mode = node.attributes.get("auto_pad", EXPLICIT)
    if mode not in (SAME_UPPER, SAME_LOWER, VALID, EXPLICIT):
        raise node.error(f"has an unknown auto_pad {mode!r}")
    return mode


def _windows(node: Node, sizes: Shape, taps: Shape) -> Iterator[_Window]:
    count = len(sizes)
    strides = node.integers("strides", count, 1, 1)
    dilations = node.integers("dilations", count, 1, 1)
    pads = node.integers("pads", 2 * count, 0, 0)
    mode = _padding(node)
    for place, (size, tap) in enumerate(zip(sizes, taps, strict=True)):
        stride, dilation = strides[place], dilations[place]
        reach = dilation * (tap - 1) + 1
        before, after = (pads[place], pads[place + count]) if mode == EXPLICIT else (0, 0)
        if mode in (SAME_UPPER, SAME_LOWER):
            missing = max(0, ((size - 1) // stride) * stride + reach - size)
            less, more = missing // 2, missing - missing // 2
            before, after = (less, more) if mode == SAME_UPPER else (more, less)
        if size + before + after < reach:
            raise node.error(f"has a filter of {reach} over {size + before + after} inputs")
        rows = (size + before + after - reach) // stride + 1
        yield _Window(rows, tap, stride, dilation, before, after)


def _transposed_windows(node: Node, sizes: Shape, taps: Shape) -> Iterator[_Window]:
    """Yield the windows of a transposed convolution, without what is cropped; sizes as ONNX defines them."""
    count = len(sizes)
    strides = node.integers("strides", count, 1, 1)
    dilations = node.integers("dilations", count, 1, 1)
    pads = node.integers("pads", 2 * count, 0, 0)
    further = node.integers("output_padding", count, 0, 0)
    outputs = node.integers("output_shape", count, 0, 0)
    mode = _padding(node)
    for place, (size, tap) in enumerate(zip(sizes, taps, strict=True)):
        stride, dilation = strides[place], dilations[place]
        before, after = (pads[place], pads[place + count]) if mode == EXPLICIT else (0, 0)
        wanted = outputs[place] or (size * stride if mode in (SAME_UPPER, SAME_LOWER) else 0)
        if wanted:
            reach = stride * (size - 1) + dilation * (tap - 1) + 1 + further[place]
            cropped = max(0, reach - wanted)
            before = cropped // 2 if mode == SAME_UPPER else cropped - cropped // 2
            after = cropped - before
        yield _Window(size, tap, stride, dilation, before, after)


def general_product(node: Node) -> Einsum:
    """Read ``Gemm``: two matrices, each of which may be transposed; what is added to them is left out."""
    left, right = node.operand(0), node.operand(1)
    if len(left) != 2 or len(right) != 2:
        raise node.error(f"does not multiply two matrices: {left} and {right}")
    rows, summed = left[::-1] if node.integer("transA", 0, 0) else left
    depth, columns = right[::-1] if node.integer("transB", 0, 0) else right
    _check_summed(node, summed, depth)
    node.check_result((rows, columns))
    return _matrix_product(node, 1, ((), ()), (rows, summed, columns))


def matrix_product(node: Node, right_at: int = 1) -> Einsum:
    """Read ``MatMul`` and its kin: matrices or vectors, with batch dimensions before them."""
    left, right = node.operand(0), node.operand(right_at)
    if not left or not right:
        raise node.error("multiplies a single number")
    rows, columns = left[-2:-1], right[-1:] if len(right) > 1 else ()
    _check_summed(node, left[-1], right[-2] if len(right) > 1 else right[0])
    depth = max(len(left), len(right), 2) - 2
    batches = _broadcast(left[:-2], depth), _broadcast(right[:-2], depth)
    if any(1 not in pair and pair[0] != pair[1] for pair in zip(*batches, strict=True)):
        raise node.error(f"multiplies batches that do not fit: {left} and {right}")
    node.check_result((*map(max, *batches), *rows, *columns))
    return _matrix_product(node, right_at, batches, (*(rows or (1,)), left[-1], *(columns or (1,))))


def _check_summed(node: Node, left: int, right: int) -> None:
    if left != right:
        raise node.error(f"sums over {left} values of its left input and {right} of its right one")


def _matrix_product(
    node: Node, right_at: int, batches: tuple[Shape, Shape], sizes: tuple[int, ...]
) -> Einsum:
    """Return a matrix product per batch index; batch dimensions that the right operand lacks join P."""
    build = _Builder(node)
    left, right = batches
    rows, summed, columns = sizes
    shared = [place for place, size in enumerate(right) if size > 1]
    rows *= math.prod(size for place, size in enumerate(left) if place not in shared)
    names = {place: "N" if number == 0 else f"N{number}" for number, place in enumerate(shared)}
    build.sizes |= {dim: right[place] for place, dim in names.items()}
    build.sizes |= {"P": rows, "C": summed, "K": columns}
    batch = {place: RankIndex.of(dim, (dim, 1)) for place, dim in names.items()}
    row, depth, column = (RankIndex.of(dim, (dim, 1)) for dim in ("P", "C", "K"))
    build.access(node.inputs[0], [*(index for place, index in batch.items() if left[place] > 1), row, depth])
    build.access(node.inputs[right_at], [*batch.values(), depth, column])
    build.access(node.output, [*batch.values(), row, column], output=True)
    return build.einsum()


def _broadcast(batch: Shape, length: int) -> Shape:
    return (1,) * (length - len(batch)) + batch


def summation(node: Node) -> Einsum | Unmapped:
    """Read ``Einsum`` of two operands as a matrix product of batch, row, summed and column indices."""
    text = node.attributes.get("equation")
    equation = "".join(text.decode(errors="replace").split()) if isinstance(text, bytes) else ""
    terms, arrow, result = equation.partition("->")
    operands = [_labelled(node, term, place) for place, term in enumerate(terms.split(","))]
    sizes = _label_sizes(node, operands)
    macs = math.prod(sizes.values())
    if len(operands) != 2:
        return Unmapped(macs if len(operands) > 2 else 0, "only products of two operands are mapped")
    output = _output_labels(result if arrow else None, terms, sizes)
    left, right = ({label for label, size in labels if size > 1} for labels in operands)
    looped = {label for label, size in sizes.items() if size > 1}
    kept = looped & output
    is_repeated = any(len(labels) != len(dict(labels)) for labels in operands)
    if is_repeated or looped - (left & right) - kept:
        return Unmapped(macs, "only products of whole matrices are mapped")
    classes = (kept & left & right, kept - right, looped - kept, kept - left)
    batch, rows, summed, columns = (math.prod(sizes[label] for label in labels) for labels in classes)
    return _matrix_product(node, 1, ((batch,), (batch,)), (rows, summed, columns))


_Labels = list[tuple[str, int]]
"""The index of each dimension of an operand, and its size; those of an ellipsis are named by place."""


def _labelled(node: Node, term: str, place: int) -> _Labels:
    shape = node.operand(place)
    before, dots, after = term.partition("...")
    hidden = len(shape) - len(before) - len(after)
    if hidden < 0 or (hidden and not dots):
        raise node.error(f"has `{term}` for an operand of shape {shape}")
    labels = [*before, *(f".{number}" for number in range(hidden, 0, -1)), *after]
    return list(zip(labels, shape, strict=True))


def _label_sizes(node: Node, operands: Iterable[_Labels]) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for label, size in (pair for labels in operands for pair in labels):
        known = sizes.get(label, size)
        if known != size and not (label.startswith(".") and 1 in (known, size)):
            raise node.error(f"has an index `{label}` of size {known} and of size {size}")
        sizes[label] = max(known, size)
    return sizes


def _output_labels(result: str | None, terms: str, sizes: Mapping[str, int]) -> set[str]:
    """Return the indices of the output; those that appear once, where the equation does not name them."""
    hidden = {label for label in sizes if label.startswith(".")}
    if result is None:
        return hidden | {label for label in sizes if terms.count(label) == 1}
    return set(result.replace("...", "")) | (hidden if "..." in result else set())


def recurrence(node: Node) -> tuple[Einsum, ...]:
    """Read ``LSTM``, ``GRU`` or ``RNN`` as two products for all gates: with the inputs, and with the state.

    The inputs of all steps are known at once. The state is that of the step before, so its product runs
    once per step.
    """
    inputs, weights, recurrent = node.operand(0), node.operand(1), node.operand(2)
    fits = len(inputs) == len(weights) == len(recurrent) == 3 and weights[:2] == recurrent[:2]
    if not fits or weights[2] != inputs[2] or weights[1] % recurrent[2]:
        raise node.error(f"does not fit: inputs {inputs}, weights {weights} and {recurrent}")
    is_batch_first = node.integer("layout", 0, 0) == 1
    batch, steps = inputs[:2] if is_batch_first else inputs[1::-1]
    directions, gates, width = recurrent
    both = (directions,), (directions,)
    of_inputs = _part(node, "inputs", node.inputs[0], node.inputs[1])
    of_state = _part(node, "state", f"{node.output}.state", node.inputs[2])
    return (
        _matrix_product(of_inputs, 1, ((1,), both[1]), (steps * batch, inputs[2], gates)),
        replace(_matrix_product(of_state, 1, both, (batch, width, gates)), n_instances=steps),
    )


def _part(node: Node, what: str, read: str, weights: str) -> Node:
    """Return a node for one product of a recurrence; its values have the bits of the input."""
    output, bits = f"{node.output}.{what}.gates", node.bits(node.inputs[0])
    values = replace(node.values, bits={read: bits, output: bits, **node.values.bits})
    return Node(f"{node.name}.{what}", (read, weights), output, {}, values)


def deformed_convolution(node: Node) -> Unmapped:
    """Count ``DeformConv``: for each output, the products of a filter."""
    shape = node.values.shapes.get(node.output)
    return Unmapped(None if shape is None else math.prod(shape) * math.prod(node.operand(1)[1:]))


def attention(_: Node) -> Unmapped:
    """Name ``Attention``, whose products are not counted."""
    return Unmapped(None)


READERS: Mapping[str, Reader] = {
    "Conv": convolution,
    "ConvInteger": convolution,
    "QLinearConv": partial(convolution, weights_at=3),
    "ConvTranspose": transposed_convolution,
    "Gemm": general_product,
    "MatMul": matrix_product,
    "MatMulInteger": matrix_product,
    "QLinearMatMul": partial(matrix_product, right_at=3),
    "Einsum": summation,
    "LSTM": recurrence,
    "GRU": recurrence,
    "RNN": recurrence,
    "DeformConv": deformed_convolution,
    "Attention": attention,
}
"""The operators whose work is multiply-accumulates, by type."""
