"""ONNX models as workloads (the optional extra ``onnx``): convolutions and matrix products."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from model.problem import Term
from model.spec.files import display_name
from model.spec.limits import Limits
from model.spec.source import SpecError
from model.workload import Einsum, RankIndex, TensorAccess, Workload

if TYPE_CHECKING:
    from types import ModuleType

EXTRA = "onnx"
SUFFIX = ".onnx"
BITS = "BITS"
"""Variable that gives the bits of all values, in place of the model's own types."""

_WINDOW = (("P", "R"), ("Q", "S"), ("O", "T"))
_NAMED_SKIPS = 24


@dataclass
class _Graph:
    """What the nodes of a graph are read with."""

    path: Path
    shapes: dict[str, tuple[int, ...]]
    bits: dict[str, int]
    notes: list[str] = field(default_factory=list)

    def shape(self, name: str, node: str) -> tuple[int, ...]:
        """Return a value's shape; SpecError where it is not known."""
        if name not in self.shapes:
            message = f"the shape of `{name}`, which node `{node}` uses, is not known"
            hint = "sizes that the model leaves open are given by `--set NAME=VALUE`"
            raise SpecError(f"{display_name(self.path)}: {message}", hint=hint)
        return self.shapes[name]


def load_onnx(
    path: Path, variables: Mapping[str, object], limits: Limits
) -> tuple[Workload, tuple[str, ...]]:
    """Read a model's ``Conv``, ``Gemm`` and ``MatMul`` nodes as Einsums.

    Rank variables have the names of Timeloop's usual dimensions: N batch, K and C output and input
    channels (of a group, with G groups), P and Q output rows and columns, R and S of the filter. A
    matrix product has P rows, C summed and K columns. Other nodes are left out, and named in a note.

    Parameters
    ----------
    path
        The model. Data outside of the file is not read.
    variables
        Sizes that the model leaves open, by their names; ``BITS``, the bits of all values.
    limits
        `Limits.total_bytes` counts.

    Raises
    ------
    SpecError
        The extra is not installed, the file is no model, or a shape is not known.
    """
    onnx = _library(path)
    model = _read(onnx, path, limits)
    _fix_sizes(model.graph, variables, path)
    try:
        model = onnx.shape_inference.infer_shapes(model)
    except Exception as error:  # The library raises whatever its C++ part does.
        raise SpecError(f"{display_name(path)}: shapes cannot be inferred: {error}") from None
    graph = _Graph(path, _shapes(model.graph), _bits(onnx, model.graph, variables))
    readers = {"Conv": _convolution, "Gemm": _gemm, "MatMul": _matrix_product}
    einsums: dict[str, Einsum] = {}
    skipped: dict[str, list[str]] = {}
    for place, node in enumerate(model.graph.node):
        name = node.name or f"{node.op_type}_{place}"
        if node.op_type not in readers or node.domain not in ("", "ai.onnx"):
            skipped.setdefault(node.op_type, []).append(name)
            continue
        label = f"{name}#{place}" if name in einsums else name
        einsums[label] = readers[node.op_type](onnx, node, label, graph)
    if not einsums:
        raise SpecError(f"{display_name(path)} has no Conv, Gemm or MatMul node")
    notes = [*graph.notes, *_skips(skipped)]
    return Workload(path.stem, tuple(einsums.values())), tuple(dict.fromkeys(notes))


def _library(path: Path) -> ModuleType:
    try:
        import onnx  # noqa: PLC0415 (an optional extra)
        import onnx.shape_inference  # noqa: PLC0415
    except ImportError:
        hint = f"pip install 'tilewright[{EXTRA}]'"
        raise SpecError(f"{display_name(path)}: ONNX models need the extra `{EXTRA}`", hint=hint) from None
    return onnx


def _read(onnx: ModuleType, path: Path, limits: Limits) -> Any:
    try:
        if path.stat().st_size > limits.total_bytes:
            raise SpecError(f"{display_name(path)} is larger than {limits.total_bytes} bytes")
        return onnx.load(str(path), load_external_data=False)
    except OSError as error:
        raise SpecError(f"cannot read {display_name(path)}: {error.strerror}") from None
    except SpecError:
        raise
    except Exception as error:  # Protobuf's own errors share no base class with others.
        raise SpecError(f"{display_name(path)} is no ONNX model: {error}") from None


def _fix_sizes(graph: Any, variables: Mapping[str, object], path: Path) -> None:
    """Put the sizes that the user gives in the place of open ones."""
    for value in graph.input:
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_param and dim.dim_param in variables:
                size = variables[dim.dim_param]
                if not isinstance(size, int) or isinstance(size, bool) or size < 1:
                    message = f"the size of `{dim.dim_param}` is no positive integer"
                    raise SpecError(f"{display_name(path)}: {message}")
                dim.dim_value = size
    del graph.value_info[:]


def _values(graph: Any) -> Iterator[Any]:
    yield from graph.input
    yield from graph.value_info
    yield from graph.output


def _shapes(graph: Any) -> dict[str, tuple[int, ...]]:
    """Return the shapes that are known in full."""
    found = {tensor.name: tuple(tensor.dims) for tensor in graph.initializer}
    for value in _values(graph):
        sizes = tuple(dim.dim_value for dim in value.type.tensor_type.shape.dim)
        if value.type.tensor_type.HasField("shape") and all(size > 0 for size in sizes):
            found.setdefault(value.name, sizes)
    return found


def _bits(onnx: ModuleType, graph: Any, variables: Mapping[str, object]) -> dict[str, int]:
    types = {tensor.name: tensor.data_type for tensor in graph.initializer}
    types |= {value.name: value.type.tensor_type.elem_type for value in _values(graph)}
    given = variables.get(BITS)
    if given is not None:
        if not isinstance(given, int) or isinstance(given, bool) or given < 1:
            raise SpecError(f"`{BITS}` is no positive integer")
        return dict.fromkeys(types, given)
    return {name: _bits_of(onnx, kind) for name, kind in types.items()}


def _bits_of(onnx: ModuleType, kind: int) -> int:
    name = onnx.TensorProto.DataType.Name(kind)
    if name.endswith("INT4"):
        return 4
    try:
        return 8 * int(onnx.helper.tensor_dtype_to_np_dtype(kind).itemsize)
    except (KeyError, TypeError, ValueError):
        return 8


def _skips(skipped: Mapping[str, Sequence[str]]) -> Iterator[str]:
    for kind, names in skipped.items():
        shown = ", ".join(names[:_NAMED_SKIPS])
        more = f" and {len(names) - _NAMED_SKIPS} more" if len(names) > _NAMED_SKIPS else ""
        yield f"skipped: {len(names)} {kind} ({shown}{more})"


def _attributes(onnx: ModuleType, node: Any) -> dict[str, Any]:
    return {attribute.name: onnx.helper.get_attribute_value(attribute) for attribute in node.attribute}


@dataclass
class _Builder:
    """Collects the rank variables and accesses of one Einsum."""

    name: str
    graph: _Graph
    sizes: dict[str, int] = field(default_factory=dict)
    accesses: list[TensorAccess] = field(default_factory=list)

    def access(self, tensor: str, *indices: RankIndex, output: bool = False) -> None:
        kept = tuple(index for index in indices if index.terms)
        self.accesses.append(TensorAccess(tensor, kept, output, self.graph.bits.get(tensor, 8)))

    def einsum(self, is_box: bool = True) -> Einsum:
        """Return the Einsum; its accesses are input, weight and output."""
        roles = zip(("input", "weight", "output"), self.accesses, strict=True)
        return Einsum(
            name=self.name,
            rank_variables=tuple(self.sizes),
            ranges=tuple(range(size) for size in self.sizes.values()),
            accesses=tuple(self.accesses),
            tensor_renames=tuple((role, (access.tensor,)) for role, access in roles),
            is_box=is_box,
        )


def _index(rank: str, *terms: tuple[str, int], offset: int = 0) -> RankIndex:
    return RankIndex(rank, tuple(Term(name, factor) for name, factor in terms), offset)


def _convolution(onnx: ModuleType, node: Any, name: str, graph: _Graph) -> Einsum:
    weights, result = graph.shape(node.input[1], name), graph.shape(node.output[0], name)
    attributes = _attributes(onnx, node)
    window = _WINDOW[: len(weights) - 2]
    if len(window) != len(weights) - 2 or len(result) != len(weights):
        message = f"node `{name}` convolves in {len(weights) - 2} dimensions"
        raise SpecError(f"{display_name(graph.path)}: {message}")
    groups = int(attributes.get("group", 1))
    strides = attributes.get("strides") or [1] * len(window)
    dilations = attributes.get("dilations") or [1] * len(window)
    pads = attributes.get("pads") or [0] * (2 * len(window))
    kernels, channels = weights[0] // groups, weights[1]
    build = _Builder(name, graph)
    build.sizes["N"] = result[0]
    grouped = {"G": groups} if groups > 1 else {}
    build.sizes |= grouped
    build.sizes |= {"C": channels} if channels > 1 or groups == 1 else {}
    build.sizes |= {"K": kernels} if kernels > 1 or groups == 1 else {}
    for (row, tap), rows, taps in zip(window, result[2:], weights[2:], strict=True):
        build.sizes |= {row: rows, tap: taps}
    inner = [(dim, 1) for dim in ("C",) if dim in build.sizes]
    outer = [(dim, 1) for dim in ("K",) if dim in build.sizes]
    spatial = [
        _index(f"I{row}", (row, int(stride)), (tap, int(dilation)), offset=-int(pad))
        for (row, tap), stride, dilation, pad in zip(
            window, strides, dilations, pads[: len(window)], strict=True
        )
    ]
    group_in = [("G", channels)] if grouped else []
    group_out = [("G", kernels)] if grouped else []
    build.access(node.input[0], _index("N", ("N", 1)), _index("C", *group_in, *inner), *spatial)
    build.access(
        node.input[1],
        _index("K", *group_out, *outer),
        _index("C", *inner),
        *(_index(tap, (tap, 1)) for _, tap in window),
    )
    build.access(
        node.output[0],
        _index("N", ("N", 1)),
        _index("K", *group_out, *outer),
        *(_index(row, (row, 1)) for row, _ in window),
        output=True,
    )
    padded = any(pads) or attributes.get("auto_pad", b"NOTSET") not in (b"NOTSET", b"VALID")
    return build.einsum(is_box=not padded)


def _gemm(onnx: ModuleType, node: Any, name: str, graph: _Graph) -> Einsum:
    attributes = _attributes(onnx, node)
    left, result = graph.shape(node.input[0], name), graph.shape(node.output[0], name)
    summed = left[0] if attributes.get("transA", 0) else left[1]
    return _product(node, name, graph, ((), (), ()), (result[0], summed, result[1]))


def _matrix_product(_: ModuleType, node: Any, name: str, graph: _Graph) -> Einsum:
    left, right = graph.shape(node.input[0], name), graph.shape(node.input[1], name)
    rows = left[-2] if len(left) > 1 else 1
    columns = right[-1] if len(right) > 1 else 1
    depth = max(len(left), len(right), 2) - 2
    batches = (left[:-2], right[:-2], graph.shape(node.output[0], name)[:depth])
    return _product(node, name, graph, batches, (rows, left[-1], columns))


def _product(
    node: Any,
    name: str,
    graph: _Graph,
    batches: tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]],
    sizes: tuple[int, int, int],
) -> Einsum:
    """Return a matrix product for each combination of batch indices; an operand may lack some of them.

    Batch dimensions that the right operand has none of are rows like the others, so they join P.
    """
    build = _Builder(name, graph)
    left, right, result = (_aligned(batch, len(batches[2])) for batch in batches)
    shared = [place for place, size in enumerate(right) if size > 1]
    rows = sizes[0] * math.prod(size for place, size in enumerate(result) if place not in shared)
    names = {place: "N" if number == 0 else f"N{number}" for number, place in enumerate(shared)}
    build.sizes |= {dim: result[place] for place, dim in names.items()}
    build.sizes |= {"P": rows, "C": sizes[1], "K": sizes[2]}
    batch = {place: _index(dim, (dim, 1)) for place, dim in names.items()}
    row, depth, column = (_index(dim, (dim, 1)) for dim in ("P", "C", "K"))
    build.access(node.input[0], *(own for place, own in batch.items() if left[place] > 1), row, depth)
    build.access(node.input[1], *batch.values(), depth, column)
    build.access(node.output[0], *batch.values(), row, column, output=True)
    return build.einsum()


def _aligned(batch: tuple[int, ...], length: int) -> tuple[int, ...]:
    return (1,) * (length - len(batch)) + batch
