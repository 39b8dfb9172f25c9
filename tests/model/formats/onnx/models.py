"""Small ONNX models, written and read."""

from pathlib import Path

import pytest

from model.formats.onnx import LoadedModel, load_onnx
from model.text.limits import DEFAULT_LIMITS
from model.workload import Workload

onnx = pytest.importorskip("onnx")
helper = onnx.helper
FLOAT, INT64 = onnx.TensorProto.FLOAT, onnx.TensorProto.INT64


def write(path: Path, nodes: list, inputs: dict, weights: dict, outputs: dict, kind: int = FLOAT) -> Path:
    """Write a model; shapes by name."""
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info(name, kind, shape) for name, shape in inputs.items()],
        [helper.make_tensor_value_info(name, kind, shape) for name, shape in outputs.items()],
        [
            onnx.TensorProto(name=name, data_type=kind, dims=shape, raw_data=b"")
            for name, shape in weights.items()
        ],
    )
    return save(path, graph)


def save(path: Path, graph: object) -> Path:
    opsets = [helper.make_opsetid("", 13), helper.make_opsetid("com.microsoft", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets), str(path))
    return path


def load(path: Path, variables: dict[str, object] | None = None) -> LoadedModel:
    return load_onnx(path, variables or {}, DEFAULT_LIMITS)


def read(path: Path, variables: dict[str, object] | None = None) -> Workload:
    return load(path, variables).workload


def notes(path: Path, variables: dict[str, object] | None = None) -> list[str]:
    return [note.text for note in load(path, variables).notes]
