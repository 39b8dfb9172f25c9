"""Shapes of the values of an ONNX model, inferred in a process of limited time and memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

from model.text.files import display_name
from model.text.source import SpecError

MOST_SECONDS = 10
"""Processor time for one attempt to infer shapes."""

MOST_BYTES = 1 << 30
"""Memory for it, beyond what this process has already."""

MOST_ELEMENTS = 4096
"""Of a value that is computed: shapes, axes, bounds of slices, conditions. Larger ones are weights."""

_MOST_ROUNDS = 20
_EXTERNAL = 1

# fmt: off
_COMPUTED = frozenset((
    "Add", "And", "Cast", "Ceil", "Concat", "Constant", "ConstantOfShape", "Div", "Equal", "Expand",
    "Flatten", "Floor", "Gather", "Greater", "GreaterOrEqual", "Identity", "Less", "LessOrEqual", "Max",
    "Min", "Mod", "Mul", "Neg", "Not", "Or", "Range", "ReduceMax", "ReduceMin", "ReduceProd",
    "ReduceSum", "Reshape", "Shape", "Size", "Slice", "Split", "Squeeze", "Sub", "Tile", "Transpose",
    "Unsqueeze", "Where", "Xor",
))
# fmt: on
"""Operators that models compute shapes and conditions with."""


def infer_shapes(onnx: ModuleType, model: Any, path: Path) -> Any:
    """Return a model with the shapes of its values, without the contents of its weights.

    Calls of the model's functions are expanded, what depends on constants and shapes only is computed, and
    an ``If`` whose condition is known is replaced by its branch, unless that takes too long, or fails.
    """
    from model.text.sandbox import StoppedError, run_confined  # noqa: PLC0415 (brings Jinja2)

    _drop_weights(model)
    del model.graph.value_info[:]
    for infer in (_computed, _plain):
        try:
            # The library is compiled code that trusts its input: it may loop, fill the memory or crash.
            data, _ = run_confined(partial(infer, onnx, model), MOST_SECONDS, MOST_BYTES)
            return onnx.load_model_from_string(data)
        except StoppedError:
            reason = "this takes too much time or memory"
        except Exception as error:  # The library raises whatever its C++ part does.
            reason = str(error) or "this takes too much memory"
    raise SpecError(f"{display_name(path)}: shapes cannot be inferred: {reason}")


def all_graphs(graph: Any) -> Iterator[Any]:
    """Yield a graph and those inside its nodes."""
    pending = [graph]
    while pending:
        current = pending.pop()
        yield current
        pending += (inner for node in current.node for inner in graphs_of(node))


def graphs_of(node: Any) -> tuple[Any, ...]:
    """Return the branches or bodies of a node, none for most operators."""
    return tuple(
        graph
        for attribute in node.attribute
        for graph in (*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs)
    )


def known_shapes(graph: Any) -> dict[str, tuple[int, ...]]:
    """Return the shapes of a graph's values that are known in full."""
    shapes = {tensor.name: tuple(tensor.dims) for tensor in graph.initializer}
    for value in (*graph.input, *graph.value_info, *graph.output):
        sizes = tuple(dim.dim_value for dim in value.type.tensor_type.shape.dim)
        if value.type.tensor_type.HasField("shape") and all(size > 0 for size in sizes):
            shapes.setdefault(value.name, sizes)
    return shapes


def _drop_weights(model: Any) -> None:
    """Drop the contents of large tensors, and the names of files that hold contents."""
    for tensor in _tensors(model.graph):
        if tensor.data_location == _EXTERNAL or _elements(tensor.dims) > MOST_ELEMENTS:
            slim = type(tensor)(name=tensor.name, data_type=tensor.data_type, dims=tensor.dims)
            tensor.CopyFrom(slim)


def _tensors(model_graph: Any) -> Iterator[Any]:
    for graph in all_graphs(model_graph):
        yield from graph.initializer
        yield from (item.t for node in graph.node for item in node.attribute if item.HasField("t"))


def _elements(shape: Any) -> int:
    count = 1
    for size in shape:
        count *= size
    return count


def _plain(onnx: ModuleType, model: Any) -> bytes:
    inferred: bytes = onnx.shape_inference.infer_shapes(model).SerializeToString()
    return inferred


def _computed(onnx: ModuleType, model: Any) -> bytes:
    """Infer shapes and compute values from them in turns, until nothing is added."""
    import onnx.inliner  # type: ignore[import-not-found,unused-ignore] # noqa: PLC0415 (an optional extra)

    if model.functions:
        model = onnx.inliner.inline_local_functions(model)
    model.ir_version = max(model.ir_version, 4)  # Before that, constants had to be inputs.
    model = onnx.shape_inference.infer_shapes(model, data_prop=True)
    for _ in range(_MOST_ROUNDS):
        if not _Evaluator(onnx, model).replace():
            break
        del model.graph.value_info[:]
        model = onnx.shape_inference.infer_shapes(model, data_prop=True)
    data: bytes = model.SerializeToString()
    return data


class _Evaluator:
    """Replaces nodes of a graph whose values follow from constants and shapes."""

    def __init__(self, onnx: ModuleType, model: Any) -> None:
        self._onnx = onnx
        self._graph = model.graph
        self._opsets = {opset.domain: opset.version for opset in model.opset_import}
        self._shapes = known_shapes(model.graph)
        self._values = dict[str, Any]()
        for tensor in model.graph.initializer:
            # Without its contents a tensor has no value.
            with suppress(Exception):
                self._values[tensor.name] = onnx.numpy_helper.to_array(tensor)

    def replace(self) -> bool:
        """Replace what is known, and return whether there was anything."""
        left = [node for node in self._graph.node if not self._compute(node)]
        branches = {place: self._branch(node) for place, node in enumerate(left) if node.op_type == "If"}
        if len(left) == len(self._graph.node) and not any(branches.values()):
            return False
        kept = [node for place, old in enumerate(left) for node in branches.get(place) or [old]]
        del self._graph.node[:]
        self._graph.node.extend(kept)
        return True

    def _compute(self, node: Any) -> bool:
        """Compute the values of a node, and make them constants of the graph."""
        if node.domain or node.op_type not in _COMPUTED or graphs_of(node):
            return False
        results = self._results(node)
        for name, value in zip(node.output, results, strict=False):
            self._values[name] = value
            self._graph.initializer.append(self._onnx.numpy_helper.from_array(value, name))
        return bool(results)

    def _results(self, node: Any) -> list[Any]:
        shapes = [self._shapes.get(name) for name in node.output if name]
        if any(shape is None or _elements(shape) > MOST_ELEMENTS for shape in shapes):
            return []
        try:
            feeds = self._feeds(node)
            return [] if feeds is None else self._evaluated(node, feeds)
        except Exception:  # The evaluator raises whatever NumPy does; the node stays as it is.
            return []

    def _evaluated(self, node: Any, feeds: Mapping[str, Any]) -> list[Any]:
        from onnx.reference import ReferenceEvaluator  # noqa: PLC0415 (an optional extra)

        make = self._onnx.helper.make_empty_tensor_value_info
        outputs = [make(name) for name in node.output if name]
        graph = self._onnx.helper.make_graph([node], "node", [make(name) for name in feeds], outputs)
        return list(ReferenceEvaluator(graph, opsets=self._opsets).run(None, dict(feeds)))

    def _feeds(self, node: Any) -> dict[str, Any] | None:
        """Return the values of a node's inputs, None where one is not known."""
        if node.op_type in ("Shape", "Size"):
            return self._shaped(node.input[0])
        names = [name for name in node.input if name]
        return {name: self._values[name] for name in names} if self._values.keys() >= set(names) else None

    def _shaped(self, name: str) -> dict[str, Any] | None:
        """Return a value of the right shape, which takes no memory."""
        import numpy as np  # noqa: PLC0415 (in the child only)

        shape = self._shapes.get(name)
        return None if shape is None else {name: np.broadcast_to(np.zeros((), np.int8), shape)}

    def _branch(self, node: Any) -> list[Any]:
        """Return the nodes of the branch that an ``If`` takes, none where that is not known."""
        condition = self._values.get(node.input[0]) if node.input else None
        if node.domain or condition is None or condition.size != 1:
            return []
        taken = "then_branch" if condition.item() else "else_branch"
        branch = next((attribute.g for attribute in node.attribute if attribute.name == taken), None)
        if branch is None or len(branch.output) != len(node.output) or not self._is_apart(branch):
            return []
        self._graph.initializer.extend(branch.initializer)
        identity = partial(self._onnx.helper.make_node, "Identity")
        pairs = zip(branch.output, node.output, strict=True)
        return [*branch.node, *(identity([inner.name], [outer]) for inner, outer in pairs)]

    def _is_apart(self, branch: Any) -> bool:
        """Whether no value of a branch is named like one of the graph."""
        known = {value.name for value in (*self._graph.input, *self._graph.initializer)}
        known.update(name for node in self._graph.node for name in node.output)
        names = [tensor.name for tensor in branch.initializer]
        names += (name for node in branch.node for name in node.output)
        return known.isdisjoint(name for name in names if name)
