"""Models without their weights, and files that are damaged."""

from pathlib import Path
from random import Random

import pytest

from model.formats.onnx import load_onnx
from model.formats.onnx.wire import MOST_BYTES, DamagedError, without_weights
from model.text.limits import DEFAULT_LIMITS, Limits
from model.text.source import SpecError
from tests.model.formats.onnx.models import FLOAT, helper, load, onnx, save

MOST = 1 << 25


def product(path: Path, rows: int, raw: bytes) -> Path:
    """Write a matrix product whose weights have contents."""
    weights = onnx.TensorProto(name="w", data_type=FLOAT, dims=[rows, 4], raw_data=raw)
    node = helper.make_node("MatMul", ["x", "w"], ["y"], name="product")
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("x", FLOAT, [2, rows])],
        [helper.make_tensor_value_info("y", FLOAT, [2, 4])],
        [weights],
    )
    return save(path, graph)


def test_small_tensors_are_copied_as_they_are(tmp_path: Path):
    path = product(tmp_path / "m.onnx", 8, bytes(128))
    assert onnx.load_model_from_string(without_weights(path, MOST)) == onnx.load(str(path))


def test_contents_of_large_tensors_are_left_out(tmp_path: Path):
    path = product(tmp_path / "m.onnx", 1 << 14, bytes(1 << 18))
    data = without_weights(path, MOST)
    (tensor,) = onnx.load_model_from_string(data).graph.initializer
    assert (tensor.name, list(tensor.dims), tensor.raw_data) == ("w", [1 << 14, 4], b"")
    assert len(data) < 200
    assert path.stat().st_size > MOST_BYTES


def test_a_model_larger_than_the_limit_needs_no_other(tmp_path: Path):
    path = product(tmp_path / "m.onnx", 1 << 14, bytes(1 << 18))
    loaded = load_onnx(path, {}, Limits(total_bytes=1000))
    assert loaded.workload.einsums[0].bounds == {"P": 2, "C": 1 << 14, "K": 4}
    with pytest.raises(SpecError, match="has more than 50 bytes without its weights"):
        load_onnx(path, {}, Limits(total_bytes=50))


def test_weights_of_constants_in_branches_are_left_out_too(tmp_path: Path):
    large = onnx.TensorProto(name="c", data_type=FLOAT, dims=[1 << 16], raw_data=bytes(1 << 18))
    inner = helper.make_graph([helper.make_node("Constant", [], ["c"], value=large)], "b", [], [])
    node = helper.make_node("If", ["flag"], ["y"], then_branch=inner, else_branch=inner)
    path = save(tmp_path / "m.onnx", helper.make_graph([node], "g", [], []))
    assert len(without_weights(path, MOST)) < 400


@pytest.mark.parametrize("content", [b"\x07", b"\x0a\xff\x01a", b"\x08", b"\x08" + b"\xff" * 11, b"\x02\x00"])
def test_what_is_no_message_is_refused(tmp_path: Path, content: bytes):
    path = tmp_path / "m.onnx"
    path.write_bytes(content)
    with pytest.raises(DamagedError):
        without_weights(path, MOST)
    with pytest.raises(SpecError, match="is not an ONNX model"):
        load(path)


def test_messages_that_lie_too_deep_are_refused(tmp_path: Path):
    graph = b""
    for _ in range(60):
        attribute = b"\x32" + _length(graph) + graph
        node = b"\x2a" + _length(attribute) + attribute
        graph = b"\x0a" + _length(node) + node
    path = tmp_path / "m.onnx"
    path.write_bytes(b"\x3a" + _length(graph) + graph)
    with pytest.raises(DamagedError, match="deep"):
        without_weights(path, MOST)


def _length(content: bytes) -> bytes:
    size, parts = len(content), bytearray()
    while size > 0x7F:
        parts.append(size & 0x7F | 0x80)
        size >>= 7
    return bytes((*parts, size))


@pytest.mark.parametrize("old", [b"product", b"w", b"x"])
def test_names_that_are_no_text_are_an_error_of_the_file(tmp_path: Path, old: bytes):
    path = product(tmp_path / "m.onnx", 8, bytes(128))
    path.write_bytes(path.read_bytes().replace(old, b"\xf0" * len(old)))
    with pytest.raises(SpecError, match=r"m\.onnx"):
        load(path)


@pytest.mark.parametrize("seed", range(40))
def test_damaged_models_end_in_a_message(tmp_path: Path, seed: int):
    random, path = Random(seed), product(tmp_path / "m.onnx", 8, bytes(16))
    content = bytearray(path.read_bytes())
    for _ in range(random.randint(1, 3)):
        content[random.randrange(len(content))] = random.randrange(256)
    path.write_bytes(content[: random.choice([len(content), random.randrange(1, len(content))])])
    try:
        load_onnx(path, {}, DEFAULT_LIMITS)
    except SpecError as error:
        assert "m.onnx" in error.message
