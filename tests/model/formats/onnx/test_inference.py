"""Shapes inferred in a process with limited time and memory."""

import os
import signal
from pathlib import Path

import pytest

from model.formats.onnx import inference
from model.text.source import SpecError
from tests.model.formats.onnx.models import FLOAT, INT64, helper, read, save, write


def enlarged(tmp_path: Path, nodes: list, length: int) -> Path:
    """A product beside integers from a vector of a given length."""
    value = helper.make_tensor_value_info
    product = helper.make_node("MatMul", ["x", "w"], ["y"], name="product")
    graph = helper.make_graph(
        [*nodes, product],
        "g",
        [value("x", FLOAT, [4, 4]), value("v0", INT64, [length])],
        [value("y", FLOAT, [4, 4])],
        [helper.make_tensor("w", FLOAT, [4, 4], [0.0] * 16)],
    )
    return save(tmp_path / "m.onnx", graph)


@pytest.mark.parametrize(
    "nodes",
    [
        [helper.make_node("Cast", ["v0"], ["v1"], to=INT64)],
        [helper.make_node("Concat", [f"v{n}", f"v{n}"], [f"v{n + 1}"], axis=0) for n in range(40)],
    ],
    ids=["a long vector", "doubled again and again"],
)
def test_values_that_fill_the_memory(tmp_path: Path, nodes: list):
    """The library holds each value of vectors of integers; without that, shapes are known as well."""
    path = enlarged(tmp_path, nodes, 2**40 if len(nodes) == 1 else 1000)
    assert read(path).einsum("product").bounds == {"P": 4, "C": 4, "K": 4}


def test_values_too_large_to_compute(tmp_path: Path):
    nodes = [
        helper.make_node("Constant", [], ["size"], value=helper.make_tensor("s", INT64, [1], [2**40])),
        helper.make_node("ConstantOfShape", ["size"], ["zeros"]),
        helper.make_node("Size", ["zeros"], ["count"]),
    ]
    assert len(read(enlarged(tmp_path, nodes, 4)).einsums) == 1


def test_contents_in_other_files_are_not_read(tmp_path: Path):
    """A file may name any other one, as the contents of a shape."""
    (tmp_path / "secret").write_bytes((4).to_bytes(8, "little") * 2)
    nodes = [
        helper.make_node("Reshape", ["v0", "target"], ["v1"]),
        helper.make_node("MatMul", ["v1", "v1"], ["v2"], name="reshaped"),
    ]
    path = enlarged(tmp_path, nodes, 16)
    import onnx  # noqa: PLC0415

    model = onnx.load(str(path))
    target = model.graph.initializer.add(name="target", data_type=INT64, dims=[2])
    target.data_location = onnx.TensorProto.EXTERNAL
    target.external_data.add(key="location", value=str(tmp_path / "secret"))
    path.write_bytes(model.SerializeToString())
    assert [einsum.name for einsum in read(path).einsums] == ["product"]


def test_a_library_that_crashes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    node = helper.make_node("MatMul", ["x", "w"], ["y"], name="product")
    path = write(tmp_path / "m.onnx", [node], {"x": [4, 4]}, {"w": [4, 4]}, {"y": None})

    def crash(*_: object) -> bytes:
        os.kill(os.getpid(), signal.SIGKILL)
        return b""

    monkeypatch.setattr(inference, "_computed", crash)
    assert len(read(path).einsums) == 1
    monkeypatch.setattr(inference, "_plain", crash)
    with pytest.raises(SpecError, match="shapes cannot be inferred: this takes too much"):
        read(path)
