"""ONNX models to the canonical workload (the optional extra ``onnx``)."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import ModuleType
from typing import Any

from model.formats.foreign import ONNX_MODEL, foreign, format_of
from model.formats.onnx.inference import all_graphs, graphs_of, infer_shapes, known_shapes
from model.formats.onnx.operators import READERS, Node, UnknownError, Unmapped, Values
from model.formats.onnx.wire import without_weights
from model.note import Note
from model.text.fields import LONGEST_NAME
from model.text.files import display_name
from model.text.limits import Limits, raised_by
from model.text.source import SpecError, note_at
from model.wording import MAX_LISTED, printable
from model.workload import MOST_EINSUMS, Einsum, Workload

EXTRA = "onnx"
BITS = "BITS"
"""Variable that gives the bits of all values, in place of the model's types."""

_MOST_NODES = 50_000
_MOST_NAMED = 6
_SILENT = ("Constant", "Identity")
_STANDARD = ("", "ai.onnx", "ai.onnx.ml")
_BRANCH = "which branch runs is not known"
_BODY = "how often it runs is not known"
_TERMS = re.compile(r",|->")
_DIGITS = re.compile(r"\d+")
_BITS = {"FLOAT": 32, "DOUBLE": 64, "BOOL": 8}
"""Of the types whose names do not say it."""


@dataclass(frozen=True)
class LoadedModel:
    """A model's workload, notes on what of it is not mapped, and the variables that it has."""

    workload: Workload
    notes: tuple[Note, ...]
    variables: tuple[str, ...]


def load_onnx(path: Path, variables: Mapping[str, object], limits: Limits) -> LoadedModel:
    """Read a model's convolutions and matrix products as Einsums.

    Rank variables have the names of Timeloop's usual dimensions: N batch, K and C output and input
    channels (of a group, with G groups), P and Q output rows and columns (of a transposed convolution,
    input rows and columns), R and S of the filter. A matrix product has P rows, C summed and K columns.
    What is not mapped is listed in notes: multiply-accumulates with their share, and all other operators.

    Parameters
    ----------
    path
        The file, of ``limits.total_bytes`` at most without its weights, which are not read.
    variables
        Sizes that the model leaves open, by the name of the size (``batch``) or of the axis (``x[0]``);
        inputs of a single integer or truth value; and `BITS`. Others are ignored.

    Raises
    ------
    SpecError
        The extra is not installed, the model is malformed, or nothing can be mapped.
    """
    found = format_of(path)
    if found is not None and found != ONNX_MODEL:
        raise foreign(path, found)
    onnx = _import_onnx(path)
    try:
        return _load_model(onnx, path, variables, limits)
    except _DAMAGES as error:
        message = f"{display_name(path)} is a damaged ONNX model: {type(error).__name__}: {error}"
        raise SpecError(message, hint="export or download it again") from None


_DAMAGES = (ValueError, TypeError, OverflowError)
"""What Protobuf raises for fields that hold something else than they should, such as no UTF-8."""


def _load_model(onnx: ModuleType, path: Path, variables: Mapping[str, object], limits: Limits) -> LoadedModel:
    """Read a model; errors of what is damaged in it are those of the library."""
    model = _read_model(onnx, path, limits)
    _check_work(model, path)
    _check_written_first(model.graph, path)
    shapes, types = known_shapes(model.graph), _types(model.graph)
    axes = tuple(_open_axes(model.graph))
    _fix_sizes(axes, variables, path)
    scalars = _fix_scalars(onnx, model.graph, variables, path)
    # All nodes have names before some of them are computed.
    for graph in all_graphs(model.graph):
        for place, node in enumerate(graph.node):
            node.name = node.name or f"{node.op_type}_{place}"
    model = infer_shapes(onnx, model, path)
    known = (*dict.fromkeys(name for axis in axes for name in axis.names), *scalars, BITS)
    sizes = (axis.suggested for axis in axes if axis.dim.dim_value <= 0)
    size_hint = _variables_hint("the model leaves open", sizes)
    branch_hint = _variables_hint(
        "this may determine it", (name for name in scalars if name not in variables)
    )
    walk = _NodeReader(onnx, path, size_hint, branch_hint)
    # The model's word counts where nothing is inferred.
    bits = _bits_by_value(onnx, types | _types(model.graph), variables)
    walk.read(model.graph, shapes | known_shapes(model.graph), bits)
    return LoadedModel(walk.workload(), tuple(walk.notes()), known)


def _import_onnx(path: Path) -> ModuleType:
    try:
        import onnx  # noqa: PLC0415 (an optional extra)
        import onnx.shape_inference  # noqa: F401, PLC0415 (used as an attribute)
    except ImportError:
        hint = f"pip install 'tilewright[{EXTRA}]'"
        raise SpecError(f"{display_name(path)}: ONNX models need the extra `{EXTRA}`", hint=hint) from None
    return onnx


def _read_model(onnx: ModuleType, path: Path, limits: Limits) -> Any:
    name = display_name(path)
    try:
        if path.exists() and not path.is_file():
            raise SpecError(f"{name} is not a regular file")
        return onnx.load_model_from_string(without_weights(path, limits.total_bytes))
    except OSError as error:
        raise SpecError(f"cannot read {name}: {error.strerror}") from None
    except OverflowError:
        message = f"{name} has more than {limits.total_bytes} bytes without its weights"
        raise SpecError(message, hint=raised_by("total_bytes")) from None
    except SpecError:
        raise
    except Exception as error:  # the errors of Protobuf share no base class with others.
        raise SpecError(f"{name} is not an ONNX model: {error}") from None


def _check_work(model: Any, path: Path) -> None:
    """Check that the model has no more nodes than are read, with its functions expanded wherever called."""
    functions = {(function.domain, function.name): function.node for function in model.functions}
    pending, count = [*model.graph.node], 0
    if sum(node.op_type in READERS for node in pending) > MOST_EINSUMS:
        raise SpecError(f"{display_name(path)} has more than {MOST_EINSUMS:,} nodes that would be mapped")
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
        pending += (inner for graph in graphs_of(node) for inner in graph.node)


def _equation(node: Any) -> str:
    texts = (item.s for item in node.attribute if item.name == "equation")
    return "".join(next(texts, b"").decode(errors="replace").split())


def _check_written_first(graph: Any, path: Path) -> None:
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


@dataclass(frozen=True)
class _Axis:
    """An axis of an input whose size the model leaves open."""

    names: tuple[str, ...]  # what gives its size: the name of the axis, then that of the size
    dim: Any

    @property
    def suggested(self) -> str:
        """The name to suggest: that of the size, unless it is a mere placeholder."""
        name = self.names[-1]
        return name if name.strip("?") and "=" not in name else self.names[0]


def _open_axes(graph: Any) -> Iterator[_Axis]:
    dims = (
        (f"{value.name}[{place}]", dim)
        for value in _free_inputs(graph)
        for place, dim in enumerate(value.type.tensor_type.shape.dim)
    )
    for name, dim in dims:
        if dim.dim_value <= 0:
            yield _Axis((name, dim.dim_param) if dim.dim_param else (name,), dim)


def _free_inputs(graph: Any) -> list[Any]:
    """Return the inputs that are no weights; old models list these as well."""
    constants = {tensor.name for tensor in graph.initializer}
    return [value for value in graph.input if value.name not in constants]


def _fix_sizes(axes: Iterable[_Axis], variables: Mapping[str, object], path: Path) -> None:
    """Put the sizes that the user gives in the place of open ones; that of an axis takes precedence."""
    for axis in axes:
        name = next((name for name in axis.names if name in variables), None)
        if name is not None:
            axis.dim.dim_value = _given_size(name, variables, path)
        elif not axis.dim.dim_param:
            axis.dim.Clear()  # Some exporters write -1 or 0.


def _given_size(name: str, variables: Mapping[str, object], path: Path) -> int:
    size = variables[name]
    if not isinstance(size, int) or isinstance(size, bool) or size < 1:
        raise SpecError(f"{display_name(path)}: the size of `{name}` is not a positive integer")
    return size


def _fix_scalars(
    onnx: ModuleType, graph: Any, variables: Mapping[str, object], path: Path
) -> tuple[str, ...]:
    """Make constants of the single numbers and truth values that the user gives; return all their names."""
    scalars = [value for value in _free_inputs(graph) if _is_scalar(onnx, value)]
    given = [value for value in scalars if value.name in variables]
    for value in given:
        number = variables[value.name]
        if not isinstance(number, int) or abs(number) >= 2**31:
            raise SpecError(
                f"{display_name(path)}: the value of `{value.name}` is not an integer or truth value"
            )
        kind = value.type.tensor_type
        shape = [dim.dim_value for dim in kind.shape.dim]
        graph.initializer.append(onnx.helper.make_tensor(value.name, kind.elem_type, shape, [number]))
    for value in given:
        graph.input.remove(value)
    return tuple(value.name for value in scalars)


def _is_scalar(onnx: ModuleType, value: Any) -> bool:
    kind, types = value.type.tensor_type, onnx.TensorProto
    is_single = kind.HasField("shape") and all(dim.dim_value == 1 for dim in kind.shape.dim)
    return is_single and kind.elem_type in (types.BOOL, types.INT32, types.INT64)


def _variables_hint(what: str, names: Iterable[str]) -> str | None:
    """Return a hint on the variables that the user may set, None without any."""
    settings = [f"--set {shlex.quote(f'{name}=VALUE')}" for name in dict.fromkeys(names)]
    more = " ..." if len(settings) > MAX_LISTED else ""
    return f"{what}: `{' '.join(settings[:MAX_LISTED])}{more}`" if settings else None


@dataclass(frozen=True)
class _Left:
    """A node of multiply-accumulates that is not mapped."""

    operator: str
    name: str
    macs: int | None
    why: str


@dataclass
class _NodeReader:
    """Reads the nodes of a model."""

    onnx: ModuleType
    path: Path
    size_hint: str | None
    branch_hint: str | None
    _einsums: dict[str, Einsum] = field(default_factory=dict)
    _left: list[_Left] = field(default_factory=list)
    _others: dict[str, int] = field(default_factory=dict)
    _errors: list[UnknownError] = field(default_factory=list)
    _shown: dict[str, str] = field(default_factory=dict)

    def read(self, graph: Any, shapes: Mapping[str, tuple[int, ...]], bits: Mapping[str, int]) -> None:
        """Read the nodes of the model's graph, given what is known of its values."""
        values = Values(self.path, shapes, bits, self._name, self.size_hint)
        for node in graph.node:
            if not self._is_work(node):
                self._pass(node, None)
                continue
            self._map(node.op_type, _node_of(self.onnx, node, _free_name(node.name, self._einsums), values))

    def workload(self) -> Workload:
        """Return the workload of what is mapped."""
        if self._einsums:
            return Workload(printable(self.path.stem), tuple(self._einsums.values()))
        if self._errors:
            raise self._errors[0]
        if not self._left:
            raise SpecError(f"{display_name(self.path)} has no convolution and no matrix product")
        what = "; ".join(note.text for note in self._left_notes())
        is_in_branch = any(left.why == _BRANCH for left in self._left)
        raise SpecError(
            f"{display_name(self.path)}: nothing can be mapped; {what}",
            hint=self.branch_hint if is_in_branch else None,
        )

    def notes(self) -> Iterator[Note]:
        """Yield notes on what is not mapped: the work with its share, then all other operators."""
        if self._left:
            yield self._summary()
            yield from self._left_notes()
        for hint in dict.fromkeys(error.hint for error in self._errors):
            if hint is not None:
                yield note_at(None, "{}", hint)
        if self.branch_hint and any(left.why == _BRANCH for left in self._left):
            yield note_at(None, "{}", self.branch_hint)
        if self._others:
            listed = [f"{count} {kind}" for kind, count in self._others.items()]
            more = [f"{len(listed) - MAX_LISTED} more kinds"] if len(listed) > MAX_LISTED else []
            names = ", ".join([*listed[:MAX_LISTED], *more])
            yield note_at(None, "skipped, without multiply-accumulates: {}", names)

    def _map(self, operator: str, node: Node) -> None:
        try:
            read = READERS[operator](node)
        except UnknownError as error:
            self._errors.append(error)
            reason = error.message.partition("` uses ")[2]
            self._left.append(_Left(operator, node.name, None, f"it uses {reason}"))
            return
        if not isinstance(read, Unmapped):
            parts = (read,) if isinstance(read, Einsum) else read
            for part in parts:
                name = _free_name(part.name, self._einsums)
                self._einsums[name] = replace(part, name=name)
        elif read.macs == 0:
            self._others[operator] = self._others.get(operator, 0) + 1
        else:
            self._left.append(_Left(operator, node.name, read.macs, read.why))

    def _pass(self, node: Any, inside: str | None) -> None:
        """Note a node that is no work of the graph, or any node inside of another one."""
        kind = node.op_type if node.domain in _STANDARD else f"{node.domain}.{node.op_type}"
        if self._is_work(node) and inside is not None:
            self._left.append(
                _Left(f"{kind} in {inside}", _short(node.name), None, _BRANCH if inside == "If" else _BODY)
            )
        elif node.domain not in _STANDARD:
            self._left.append(_Left(kind, _short(node.name), None, "ONNX does not define this operator"))
        elif kind not in _SILENT and not graphs_of(node):
            self._others[kind] = self._others.get(kind, 0) + 1
        for inner in (inner for graph in graphs_of(node) for inner in graph.node):
            self._pass(inner, inside or kind)

    def _is_work(self, node: Any) -> bool:
        return node.op_type in READERS and node.domain in _STANDARD

    def _name(self, value: str) -> str:
        """Return what a value is called: printable and short, and no other value is called so."""
        if value not in self._shown:
            self._shown[value] = _free_name(value, set(self._shown.values()))
        return self._shown[value]

    def _summary(self) -> Note:
        mapped, left, unknown = self._macs()
        total = len(self._einsums) + len(self._left)
        known = len(self._einsums), total, _percent_text(mapped, mapped + left)
        sentence = "mapped: {} of {} nodes with multiply-accumulates, {} of the MACs that are known"
        if unknown:
            return note_at(None, f"{sentence} (those of {{}} are not)", *known, unknown)
        return note_at(None, sentence, *known)

    def _macs(self) -> tuple[int, int, int]:
        """Return the MACs that are mapped and that are not, and the number of nodes of unknown ones."""
        einsums = self._einsums.values()
        mapped = sum(math.prod(einsum.bounds.values()) * einsum.n_instances for einsum in einsums)
        counts = [left.macs for left in self._left]
        return mapped, sum(count for count in counts if count is not None), counts.count(None)

    def _left_notes(self) -> Iterator[Note]:
        mapped, known, _ = self._macs()
        by_kind: dict[str, list[_Left]] = {}
        for left in self._left:
            by_kind.setdefault(left.operator, []).append(left)
        for kind, lefts in by_kind.items():
            names = ", ".join(left.name for left in lefts[:_MOST_NAMED])
            more = f" and {len(lefts) - _MOST_NAMED} more" if len(lefts) > _MOST_NAMED else ""
            macs = sum(left.macs or 0 for left in lefts)
            work = f", {macs:,} MACs, {_percent_text(macs, mapped + known)} of those known" if macs else ""
            reasons = [*dict.fromkeys(left.why for left in lefts)]
            further = ", ..." if len(reasons) > 1 else ""
            sentence = "not mapped: {} {} ({}{}){}: {}{}"
            yield note_at(None, sentence, len(lefts), kind, names, more, work, reasons[0], further)


def _types(graph: Any) -> dict[str, int]:
    types = {tensor.name: tensor.data_type for tensor in graph.initializer}
    values = (*graph.input, *graph.value_info, *graph.output)
    kinds = ((value.name, value.type.tensor_type.elem_type) for value in values)
    return types | {name: kind for name, kind in kinds if kind}


def _bits_by_value(
    onnx: ModuleType, types: Mapping[str, int], variables: Mapping[str, object]
) -> dict[str, int]:
    wanted = variables.get(BITS)
    if wanted is not None:
        if not isinstance(wanted, int) or isinstance(wanted, bool) or wanted < 1:
            raise SpecError(f"`{BITS}` is not a positive integer")
        return dict.fromkeys(types, wanted)
    known = ((name, _bits_of_type(onnx, kind)) for name, kind in types.items())
    return {name: bits for name, bits in known if bits is not None}


def _percent_text(part: int, whole: int) -> str:
    if not 0 < part < whole:
        return "100%" if part else "0%"
    percent = min(max(100 * part / whole, 0.1), 99.9)
    return f"{percent:.1f}%"


def _short(name: str) -> str:
    shown = printable(name)
    return shown if len(shown) <= LONGEST_NAME else f"{shown[: LONGEST_NAME - 3]}..."


def _free_name(name: str, taken: Container[str]) -> str:
    """Return a name, printable and short, with a number where it is taken."""
    free, number = _short(name), 1
    while free in taken:
        number += 1
        free = f"{_short(name)}#{number}"
    return free


def _bits_of_type(onnx: ModuleType, kind: int) -> int | None:
    """Return the bits of a type, None for texts and types that this version of the library does not know."""
    try:
        name = onnx.TensorProto.DataType.Name(kind)
    except ValueError:
        return None
    digits = _DIGITS.search(name)
    return int(digits[0]) if digits else _BITS.get(name)


def _node_of(onnx: ModuleType, node: Any, name: str, values: Values) -> Node:
    attributes = {attribute.name: onnx.helper.get_attribute_value(attribute) for attribute in node.attribute}
    return Node(name, tuple(node.input), next(iter(node.output), ""), attributes, values)
