"""Nodes of ONNX graphs as Einsums: convolutions and matrix products."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from model.problem import Term
from model.text.files import display_name
from model.text.source import SpecError
from model.wording import listing
from model.workload import Einsum, RankIndex, TensorAccess

Shape = tuple[int, ...]

WINDOW = (("P", "R"), ("Q", "S"), ("O", "T"))
"""Output position and filter tap of each dimension that a convolution slides along."""

SAME_UPPER, SAME_LOWER, VALID, EXPLICIT = b"SAME_UPPER", b"SAME_LOWER", b"VALID", b"NOTSET"


@dataclass(frozen=True)
class Values:
    """What is known of the values in a graph.

    Parameters
    ----------
    path
        The model.
    shapes, bits
        Shape, and bits of an element, by name, where they are known in full.
    open_sizes
        Names of sizes that the model leaves open and nobody has given.
    """

    path: Path
    shapes: Mapping[str, Shape]
    bits: Mapping[str, int]
    open_sizes: tuple[str, ...]


@dataclass(frozen=True)
class Node:
    """A node of a graph.

    Parameters
    ----------
    name
        One that no other node has.
    inputs
        Names of values; empty for an operand that is left out.
    output
        Name of its first output.
    attributes
        As ONNX gives them: integers, lists, texts as bytes.
    values
        What is known of all values of the graph.
    """

    name: str
    inputs: tuple[str, ...]
    output: str
    attributes: Mapping[str, object]
    values: Values

    def error(self, message: str, hint: str | None = None) -> SpecError:
        """Return an error that names the model and the node."""
        return SpecError(f"{display_name(self.values.path)}: node `{self.name}` {message}", hint=hint)

    def operand(self, place: int) -> Shape:
        """Return the shape of an input.

        Raises
        ------
        SpecError
            There is no such input, its shape is not known, or it has no elements.
        """
        if place >= len(self.inputs) or not self.inputs[place]:
            raise self.error(f"has no input {place + 1}")
        name = self.inputs[place]
        shape = self.values.shapes.get(name)
        if shape is None:
            sizes = self.values.open_sizes
            hint = f"the model leaves open {listing(sizes)}: `--set {sizes[0]}=VALUE`" if sizes else None
            raise self.error(f"uses `{name}`, whose shape is not known", hint)
        if min(shape, default=1) < 1:
            raise self.error(f"uses `{name}`, which has no values: its shape is {shape}")
        return shape

    def bits(self, name: str) -> int:
        """Return the bits of each of a value's elements; an output is of the type of the inputs.

        Raises
        ------
        SpecError
            Neither the type of the value nor that of the first input is known.
        """
        bits = self.values.bits.get(name, self.values.bits.get(self.inputs[0]))
        if bits is None:
            raise self.error(f"uses `{name}`, whose type is not known", "give the bits: `--set BITS=8`")
        return bits

    def integer(self, attribute: str, default: int, least: int) -> int:
        """Return an attribute that is one integer.

        Parameters
        ----------
        attribute
            Its name.
        default
            What a missing one counts as.
        least
            The least value allowed.

        Raises
        ------
        SpecError
            It is anything else.
        """
        value = self.attributes.get(attribute, default)
        if not isinstance(value, int) or value < least:
            raise self.error(f"has {attribute} = {value}, which is no integer from {least} on")
        return value

    def integers(self, attribute: str, count: int, default: int, least: int) -> Sequence[int]:
        """Return an attribute that is a list of integers.

        Parameters
        ----------
        attribute
            Its name.
        count
            How many there have to be.
        default
            What each counts as where the attribute is missing or empty.
        least
            The least value allowed of each.

        Raises
        ------
        SpecError
            It is anything else.
        """
        values = self.attributes.get(attribute) or [default] * count
        if not isinstance(values, list) or not all(
            isinstance(value, int) and value >= least for value in values
        ):
            raise self.error(f"has {attribute} = {values}, which are no integers from {least} on")
        if len(values) != count:
            raise self.error(f"has {attribute} = {values}, but {count} of them are needed")
        return values

    def check_result(self, shape: Shape) -> None:
        """Check that a model says of the output what follows from the inputs.

        Raises
        ------
        SpecError
            The model says something else.
        """
        known = self.values.shapes.get(self.output, shape)
        if known != shape:
            raise self.error(f"makes a value of shape {shape}, but `{self.output}` has {known}")


Reader = Callable[[Node], Einsum]


@dataclass
class _Builder:
    """Collects the rank variables and accesses of one Einsum."""

    node: Node
    sizes: dict[str, int] = field(default_factory=dict)
    accesses: list[TensorAccess] = field(default_factory=list)

    def access(self, tensor: str, *indices: RankIndex, output: bool = False) -> None:
        kept = tuple(index for index in indices if index.terms)
        self.accesses.append(TensorAccess(tensor, kept, output, self.node.bits(tensor)))

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


def _index(rank: str, *terms: tuple[str, int], offset: int = 0) -> RankIndex:
    return RankIndex(rank, tuple(Term(name, factor) for name, factor in terms), offset)


@dataclass(frozen=True)
class _Window:
    """One dimension that a filter slides along: its outputs, its taps, and where they read."""

    rows: int
    taps: int
    stride: int
    dilation: int
    before: int
    after: int

    def index(self, row: str, tap: str) -> RankIndex:
        """Return where the input is read."""
        return _index(f"I{row}", (row, self.stride), (tap, self.dilation), offset=-self.before)


def convolution(node: Node) -> Einsum:
    """Read ``Conv``, in one to three dimensions; a depthwise one has a channel per group.

    Returns
    -------
    Einsum
        See `model.formats.onnx.loader.load_onnx` for the rank variables. It is no box if it is padded.

    Raises
    ------
    SpecError
        Shapes or attributes that do not fit each other, or are not known.
    """
    image, weights = node.operand(0), node.operand(1)
    groups = _groups(node, image, weights)
    channels = {"C": weights[1], "K": weights[0] // groups}
    windows = tuple(_windows(node, image[2:], weights[2:]))
    node.check_result((image[0], weights[0], *(window.rows for window in windows)))
    slid = [(*names, window) for names, window in zip(WINDOW, windows, strict=False)]
    # A depthwise convolution has one channel per group, which needs no rank variable of its own.
    looped = {dim: size for dim, size in channels.items() if size > 1 or groups == 1}
    build = _Builder(node)
    build.sizes |= {"N": image[0], **({"G": groups} if groups > 1 else {}), **looped}
    for row, tap, window in slid:
        build.sizes |= {row: window.rows, tap: window.taps}
    batch = _index("N", ("N", 1))
    within = {dim: [(dim, 1)] if dim in looped else [] for dim in channels}
    group = {dim: [("G", size)] if groups > 1 else [] for dim, size in channels.items()}
    read = (window.index(row, tap) for row, tap, window in slid)
    build.access(node.inputs[0], batch, _index("C", *group["C"], *within["C"]), *read)
    kernel = _index("K", *group["K"], *within["K"])
    taps = (_index(tap, (tap, 1)) for _, tap, _ in slid)
    build.access(node.inputs[1], kernel, _index("C", *within["C"]), *taps)
    written = (_index(row, (row, 1)) for row, _, _ in slid)
    build.access(node.output, batch, kernel, *written, output=True)
    return build.einsum(is_box=not any(window.before or window.after for window in windows))


def _groups(node: Node, image: Shape, weights: Shape) -> int:
    """Return the number of groups of a convolution, whose operands must fit each other."""
    count = len(weights) - 2
    if not 1 <= count <= len(WINDOW) or len(image) != len(weights):
        raise node.error(f"is no convolution in 1 to {len(WINDOW)} dimensions: {image} with {weights}")
    if tuple(node.integers("kernel_shape", count, 1, 1)) != weights[2:] and "kernel_shape" in node.attributes:
        raise node.error(f"has kernel_shape = {node.attributes['kernel_shape']}, but weights {weights}")
    groups = node.integer("group", 1, 1)
    if image[1] != weights[1] * groups or weights[0] % groups:
        raise node.error(f"does not fit: group = {groups}, an input {image}, weights {weights}")
    return groups


def _windows(node: Node, sizes: Shape, taps: Shape) -> Iterator[_Window]:
    count = len(sizes)
    strides = node.integers("strides", count, 1, 1)
    dilations = node.integers("dilations", count, 1, 1)
    pads = node.integers("pads", 2 * count, 0, 0)
    mode = node.attributes.get("auto_pad", EXPLICIT)
    if mode not in (SAME_UPPER, SAME_LOWER, VALID, EXPLICIT):
        raise node.error(f"has an unknown auto_pad {mode!r}")
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


def general_product(node: Node) -> Einsum:
    """Read ``Gemm``: two matrices, each of which may be transposed. What is added to the product is left out.

    Raises
    ------
    SpecError
        Shapes that do not fit each other, or are not known.
    """
    left, right = node.operand(0), node.operand(1)
    if len(left) != 2 or len(right) != 2:
        raise node.error(f"multiplies what are no two matrices: {left} and {right}")
    rows, summed = left[::-1] if node.integer("transA", 0, 0) else left
    depth, columns = right[::-1] if node.integer("transB", 0, 0) else right
    _check_summed(node, summed, depth)
    node.check_result((rows, columns))
    return _product(node, ((), ()), (rows, summed, columns))


def matrix_product(node: Node) -> Einsum:
    """Read ``MatMul``: matrices or vectors, for each combination of the batch dimensions before them.

    Raises
    ------
    SpecError
        Shapes that do not fit each other, or are not known.
    """
    left, right = node.operand(0), node.operand(1)
    if not left or not right:
        raise node.error("multiplies a single number")
    rows, columns = left[-2:-1], right[-1:] if len(right) > 1 else ()
    _check_summed(node, left[-1], right[-2] if len(right) > 1 else right[0])
    depth = max(len(left), len(right), 2) - 2
    batches = _aligned(left[:-2], depth), _aligned(right[:-2], depth)
    if any(1 not in pair and pair[0] != pair[1] for pair in zip(*batches, strict=True)):
        raise node.error(f"multiplies batches that do not fit: {left} and {right}")
    node.check_result((*map(max, *batches), *rows, *columns))
    return _product(node, batches, (*(rows or (1,)), left[-1], *(columns or (1,))))


def _check_summed(node: Node, left: int, right: int) -> None:
    if left != right:
        raise node.error(f"sums over {left} values of its left input and {right} of its right one")


def _product(node: Node, batches: tuple[Shape, Shape], sizes: tuple[int, ...]) -> Einsum:
    """Return a matrix product for each combination of batch indices; an operand may lack some of them.

    Batch dimensions that the right operand has none of are rows like the others, so they join P.
    """
    build = _Builder(node)
    left, right = batches
    rows, summed, columns = sizes
    shared = [place for place, size in enumerate(right) if size > 1]
    rows *= math.prod(size for place, size in enumerate(left) if place not in shared)
    names = {place: "N" if number == 0 else f"N{number}" for number, place in enumerate(shared)}
    build.sizes |= {dim: right[place] for place, dim in names.items()}
    build.sizes |= {"P": rows, "C": summed, "K": columns}
    batch = {place: _index(dim, (dim, 1)) for place, dim in names.items()}
    row, depth, column = (_index(dim, (dim, 1)) for dim in ("P", "C", "K"))
    build.access(node.inputs[0], *(index for place, index in batch.items() if left[place] > 1), row, depth)
    build.access(node.inputs[1], *batch.values(), depth, column)
    build.access(node.output, *batch.values(), row, column, output=True)
    return build.einsum()


def _aligned(batch: Shape, length: int) -> Shape:
    return (1,) * (length - len(batch)) + batch


READERS: Mapping[str, Reader] = {"Conv": convolution, "Gemm": general_product, "MatMul": matrix_product}
"""By the type of the operator."""
