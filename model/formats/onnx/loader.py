"""ONNX models as workloads (the optional extra ``onnx``): convolutions and matrix products."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from model.formats.onnx.operators import READERS, Node, Values
from model.note import Note
from model.text.files import display_name
from model.text.limits import Limits
from model.text.source import SpecError, note_at
from model.workload import MOST_EINSUMS, Einsum, Workload

if TYPE_CHECKING:
    from types import ModuleType


EXTRA = "onnx"
SUFFIX = ".onnx"
BITS = "BITS"
"""Variable that gives the bits of all values, in place of the model's own types."""

_MOST_NODES = 50_000
_NAMED_SKIPS = 24
_TERMS = re.compile(r",|->")
_DIGITS = re.compile(r"\d+")
_BITS = {"FLOAT": 32, "DOUBLE": 64, "BOOL": 8}
"""Of the types whose names do not say it."""


def load_onnx(
    path: Path, variables: Mapping[str, object], limits: Limits
) -> tuple[Workload, tuple[Note, ...], tuple[str, ...]]:
    """Read a model's ``Conv``, ``Gemm`` and ``MatMul`` nodes as Einsums.

    Rank variables have the names of Timeloop's usual dimensions: N batch, K and C output and input
    channels (of a group, with G groups), P and Q output rows and columns, R and S of the filter. A
    matrix product has P rows, C summed and K columns. Other nodes are left out, and named in a note.

    Raises
    ------
    SpecError
        The extra is not installed, the file is no model, a shape is not known, a node's shapes do not fit
        each other, a value is written twice, or read before it is written, or shapes would take too long.
    """
    onnx = _library(path)
    model = _read(onnx, path, limits)
    _check_work(model, path)
    _check_order(model.graph, path)
    variable_names = (*_open_sizes(model.graph), BITS)
    _fix_sizes(model.graph, variables, path)
    try:
        model = onnx.shape_inference.infer_shapes(model)
    except Exception as error:  # The library raises whatever its C++ part does.
        raise SpecError(f"{display_name(path)}: shapes cannot be inferred: {error}") from None
    values = Values(path, _shapes(model.graph), _bits(onnx, model.graph, variables), _open_sizes(model.graph))
    einsums: dict[str, Einsum] = {}
    skipped: dict[str, list[str]] = {}
    for place, node in enumerate(model.graph.node):
        name = node.name or f"{node.op_type}_{place}"
        if node.op_type not in READERS or node.domain not in ("", "ai.onnx"):
            skipped.setdefault(node.op_type, []).append(name)
            continue
        while name in einsums:
            name = f"{name}#{place}"
        einsums[name] = READERS[node.op_type](_node(onnx, node, name, values))
    if not einsums:
        raise SpecError(f"{display_name(path)} has no node of type {', '.join(READERS)}")
    return Workload(path.stem, tuple(einsums.values())), tuple(_skips(skipped)), variable_names


def _library(path: Path) -> ModuleType:
    try:
        import onnx  # noqa: PLC0415 (an optional extra)
        import onnx.shape_inference  # noqa: F401, PLC0415 (used as an attribute)
    except ImportError:
        hint = f"pip install 'tilewright[{EXTRA}]'"
        raise SpecError(f"{display_name(path)}: ONNX models need the extra `{EXTRA}`", hint=hint) from None
    return onnx


def _read(onnx: ModuleType, path: Path, limits: Limits) -> Any:
    try:
        if path.exists() and not path.is_file():
            raise SpecError(f"{display_name(path)} is not a regular file")
        if path.stat().st_size > limits.total_bytes:
            hint = "`--limit total_bytes=N` lets more through; weights may also lie in files beside it"
            raise SpecError(f"{display_name(path)} is larger than {limits.total_bytes} bytes", hint=hint)
        return onnx.load(str(path), load_external_data=False)
    except OSError as error:
        raise SpecError(f"cannot read {display_name(path)}: {error.strerror}") from None
    except SpecError:
        raise
    except Exception as error:  # Protobuf's own errors share no base class with others.
        raise SpecError(f"{display_name(path)} is no ONNX model: {error}") from None


def _check_work(model: Any, path: Path) -> None:
    """Check that the library infers shapes soon: it expands functions wherever they are called."""
    functions = {(own.domain, own.name): own.node for own in model.functions}
    pending, count = [*model.graph.node], 0
    if sum(node.op_type in READERS for node in pending) > MOST_EINSUMS:
        raise SpecError(
            f"{display_name(path)} has more than {MOST_EINSUMS:,} nodes of type {', '.join(READERS)}"
        )
    while pending:
        node = pending.pop()
        count += 1
        if count + len(pending) > _MOST_NODES:
            most = f"more than {_MOST_NODES:,} nodes, with functions written out"
            raise SpecError(f"{display_name(path)} has {most}")
        # The library looks for a second ellipsis without end.
        if any(term.count("...") > 1 for term in _TERMS.split(_equation(node))):
            raise SpecError(
                f"{display_name(path)}: node `{node.name}` has an equation with two ellipses in a term"
            )
        pending += functions.get((node.domain, node.op_type), ())
        graphs = (graph for own in node.attribute for graph in (own.g, *own.graphs))
        pending += (inner for graph in graphs for inner in graph.node)


def _equation(node: Any) -> str:
    texts = (own.s for own in node.attribute if own.name == "equation")
    return "".join(next(texts, b"").decode(errors="replace").split())


def _check_order(graph: Any, path: Path) -> None:
    """Check that each value is written once, before it is read, as the format has it."""
    ever = {value for node in graph.node for value in node.output if value}
    written = {value.name for value in (*graph.input, *graph.initializer)}
    for place, node in enumerate(graph.node):
        where = f"{display_name(path)}: node `{node.name or f'{node.op_type}_{place}'}`"
        early = [value for value in node.input if value in ever and value not in written]
        if early:
            raise SpecError(f"{where} reads `{early[0]}` before it is written")
        outputs = [value for value in node.output if value]
        twice = [value for value in outputs if value in written]
        if twice:
            raise SpecError(f"{where} writes `{twice[0]}`, which has a value already")
        written.update(outputs)


def _fix_sizes(graph: Any, variables: Mapping[str, object], path: Path) -> None:
    """Put the sizes that the user gives in the place of open ones."""
    for dim in _input_dims(graph):
        if dim.dim_param and dim.dim_param in variables:
            dim.dim_value = _given_size(dim.dim_param, variables, path)
    del graph.value_info[:]


def _given_size(name: str, variables: Mapping[str, object], path: Path) -> int:
    size = variables[name]
    if not isinstance(size, int) or isinstance(size, bool) or size < 1:
        raise SpecError(f"{display_name(path)}: the size of `{name}` is no positive integer")
    return size


def _input_dims(graph: Any) -> Iterator[Any]:
    return (dim for value in graph.input for dim in value.type.tensor_type.shape.dim)


def _values(graph: Any) -> Iterator[Any]:
    yield from graph.input
    yield from graph.value_info
    yield from graph.output


def _shapes(graph: Any) -> dict[str, tuple[int, ...]]:
    """Return the shapes that are known in full."""
    shapes = {tensor.name: tuple(tensor.dims) for tensor in graph.initializer}
    for value in _values(graph):
        sizes = tuple(dim.dim_value for dim in value.type.tensor_type.shape.dim)
        if value.type.tensor_type.HasField("shape") and all(size > 0 for size in sizes):
            shapes.setdefault(value.name, sizes)
    return shapes


def _open_sizes(graph: Any) -> tuple[str, ...]:
    """Return the names of the inputs' sizes that nobody has given."""
    return tuple(dict.fromkeys(dim.dim_param for dim in _input_dims(graph) if dim.dim_param))


def _bits(onnx: ModuleType, graph: Any, variables: Mapping[str, object]) -> dict[str, int]:
    types = {tensor.name: tensor.data_type for tensor in graph.initializer}
    types |= {value.name: value.type.tensor_type.elem_type for value in _values(graph)}
    wanted = variables.get(BITS)
    if wanted is not None:
        if not isinstance(wanted, int) or isinstance(wanted, bool) or wanted < 1:
            raise SpecError(f"`{BITS}` is no positive integer")
        return dict.fromkeys(types, wanted)
    known = ((name, _bits_of(onnx, kind)) for name, kind in types.items())
    return {name: bits for name, bits in known if bits is not None}


def _bits_of(onnx: ModuleType, kind: int) -> int | None:
    """Return the bits of a type, None for texts and types that this version of the library does not know."""
    try:
        name = onnx.TensorProto.DataType.Name(kind)
    except ValueError:
        return None
    digits = _DIGITS.search(name)
    return int(digits[0]) if digits else _BITS.get(name)


def _skips(skipped: Mapping[str, Sequence[str]]) -> Iterator[Note]:
    for kind, names in skipped.items():
        shown = ", ".join(names[:_NAMED_SKIPS])
        more = f" and {len(names) - _NAMED_SKIPS} more" if len(names) > _NAMED_SKIPS else ""
        yield note_at(None, "skipped: {} {} ({}{})", len(names), kind, shown, more)


def _node(onnx: ModuleType, node: Any, name: str, values: Values) -> Node:
    attributes = {attribute.name: onnx.helper.get_attribute_value(attribute) for attribute in node.attribute}
    return Node(name, tuple(node.input), next(iter(node.output), ""), attributes, values)
