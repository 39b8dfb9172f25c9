"""ONNX models as workloads."""

import math
import sys
from pathlib import Path

import pytest

from model.problem import Term
from model.spec.cascade import load_network
from model.spec.cascade.onnx_model import load_onnx
from model.spec.limits import DEFAULT_LIMITS
from model.spec.source import SpecError
from model.workload import Einsum, Workload
from tests.conftest import REPOSITORY

onnx = pytest.importorskip("onnx")
helper = onnx.helper
FLOAT = onnx.TensorProto.FLOAT


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
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)]), str(path))
    return path


def read(path: Path, **variables: object) -> tuple[Workload, tuple[str, ...]]:
    return load_onnx(path, variables, DEFAULT_LIMITS)


def convolution(tmp_path: Path, weights: tuple[int, ...], **attributes: object) -> Einsum:
    node = helper.make_node("Conv", ["x", "w"], ["y"], name="conv", **attributes)
    channels = weights[1] * int(attributes.get("group", 1))
    path = write(tmp_path / "m.onnx", [node], {"x": [2, channels, 16, 16]}, {"w": weights}, {"y": None})
    return read(path)[0].einsum("conv")


def test_a_convolution(tmp_path: Path):
    einsum = convolution(tmp_path, (8, 4, 3, 5), strides=[2, 1], pads=[1, 2, 1, 2], dilations=[1, 2])
    assert einsum.bounds == {"N": 2, "C": 4, "K": 8, "P": 8, "R": 3, "Q": 12, "S": 5}
    image = einsum.accesses[0].indices
    assert [index.terms for index in image[2:]] == [
        (Term("P", 2), Term("R")),
        (Term("Q"), Term("S", 2)),
    ]
    assert [index.offset for index in image[2:]] == [-1, -2]
    assert not einsum.is_box
    assert dict(einsum.tensor_renames) == {"input": ("x",), "weight": ("w",), "output": ("y",)}
    assert [access.bits_per_value for access in einsum.accesses] == [32, 32, 32]


def test_a_depthwise_convolution(tmp_path: Path):
    einsum = convolution(tmp_path, (6, 1, 3, 3), group=6)
    assert einsum.bounds == {"N": 2, "G": 6, "P": 14, "R": 3, "Q": 14, "S": 3}
    assert einsum.is_box
    assert [access.rank_variables for access in einsum.accesses] == [
        {"N", "G", "P", "Q", "R", "S"},
        {"G", "R", "S"},
        {"N", "G", "P", "Q"},
    ]


def test_groups_index_channels_with_their_place_in_the_group(tmp_path: Path):
    einsum = convolution(tmp_path, (8, 3, 1, 1), group=2)
    assert einsum.accesses[0].indices[1].terms == (Term("G", 3), Term("C"))
    assert einsum.accesses[2].indices[1].terms == (Term("G", 4), Term("K"))
    assert [einsum.size_values(access) for access in einsum.accesses] == [2 * 6 * 256, 8 * 3, 2 * 8 * 256]


@pytest.mark.parametrize(
    ("left", "right", "bounds", "output"),
    [
        ((5, 7), (7, 3), {"P": 5, "C": 7, "K": 3}, (5, 3)),
        ((2, 4, 5, 7), (7, 3), {"P": 40, "C": 7, "K": 3}, (40, 3)),
        ((2, 4, 5, 7), (2, 4, 7, 3), {"N": 2, "N1": 4, "P": 5, "C": 7, "K": 3}, (2, 4, 5, 3)),
        ((2, 4, 5, 7), (4, 7, 3), {"N": 4, "P": 10, "C": 7, "K": 3}, (4, 10, 3)),
        ((5, 7), (4, 7, 3), {"N": 4, "P": 5, "C": 7, "K": 3}, (4, 5, 3)),
        ((7,), (7, 3), {"P": 1, "C": 7, "K": 3}, (1, 3)),
        ((5, 7), (7,), {"P": 5, "C": 7, "K": 1}, (5, 1)),
    ],
)
def test_matrix_products(tmp_path: Path, left, right, bounds, output):
    node = helper.make_node("MatMul", ["x", "w"], ["y"], name="product")
    path = write(tmp_path / "m.onnx", [node], {"x": left, "w": right}, {}, {"y": None})
    einsum = read(path)[0].einsum("product")
    assert einsum.bounds == bounds
    assert tuple(len(einsum.extent(index)) for index in einsum.accesses[2].indices) == output
    assert einsum.size_values(einsum.accesses[0]) == math.prod(left)
    assert einsum.size_values(einsum.accesses[1]) == math.prod(right)


@pytest.mark.parametrize(("trans_a", "trans_b"), [(0, 0), (0, 1), (1, 0), (1, 1)])
def test_gemm(tmp_path: Path, trans_a: int, trans_b: int):
    node = helper.make_node("Gemm", ["x", "w"], ["y"], name="fc", transA=trans_a, transB=trans_b)
    left, right = ((7, 5) if trans_a else (5, 7)), ((3, 7) if trans_b else (7, 3))
    path = write(tmp_path / "m.onnx", [node], {"x": left}, {"w": right}, {"y": None})
    assert read(path)[0].einsum("fc").bounds == {"P": 5, "C": 7, "K": 3}


def test_other_nodes_are_named(tmp_path: Path):
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"]),
        helper.make_node("Relu", ["a"], ["b"], name="relu1"),
        helper.make_node("Relu", ["b"], ["c"], name="relu2"),
        helper.make_node("MatMul", ["c", "v"], ["y"]),
    ]
    path = write(tmp_path / "m.onnx", nodes, {"x": [4, 4]}, {"w": [4, 4], "v": [4, 4]}, {"y": [4, 4]})
    workload, notes = read(path)
    assert [einsum.name for einsum in workload.einsums] == ["MatMul_0", "MatMul_3"]
    assert notes == ("skipped: 2 Relu (relu1, relu2)",)


def test_open_sizes_are_variables(tmp_path: Path):
    node = helper.make_node("MatMul", ["x", "w"], ["y"], name="product")
    path = write(tmp_path / "m.onnx", [node], {"x": ["batch", 4]}, {"w": [4, 3]}, {"y": ["batch", 3]})
    with pytest.raises(SpecError, match="the shape of `x`, which node `product` uses, is not known"):
        read(path)
    assert read(path, batch=6)[0].einsum("product").bounds["P"] == 6
    with pytest.raises(SpecError, match="no positive integer"):
        read(path, batch="many")


def test_bits(tmp_path: Path):
    node = helper.make_node("MatMul", ["x", "w"], ["y"], name="product")
    shapes = ([node], {"x": [4, 4]}, {"w": [4, 4]}, {"y": [4, 4]})
    path = write(tmp_path / "m.onnx", *shapes, kind=onnx.TensorProto.FLOAT16)
    assert {access.bits_per_value for access in read(path)[0].einsums[0].accesses} == {16}
    assert {access.bits_per_value for access in read(path, BITS=8)[0].einsums[0].accesses} == {8}
    with pytest.raises(SpecError, match="`BITS` is no positive integer"):
        read(path, BITS="x")


def test_a_model_on_an_architecture(tmp_path: Path):
    node = helper.make_node("Conv", ["x", "w"], ["y"], name="conv", pads=[1, 1, 1, 1])
    path = write(tmp_path / "m.onnx", [node], {"x": [1, 64, 56, 56]}, {"w": [64, 64, 3, 3]}, {"y": None})
    eyeriss = REPOSITORY / "specs" / "architectures" / "eyeriss_like.yaml"
    layer = REPOSITORY / "specs" / "layers" / "resnet18" / "02_conv2_block1_a.yaml"
    own = load_network([path, eyeriss], {"BITS": 16}).layers[0].mapspace
    other = load_network([layer, eyeriss]).layers[0].mapspace
    assert own.problem.bound == other.problem.bound
    assert own.architecture.levels == other.architecture.levels
    with pytest.raises(SpecError, match="no architecture"):
        load_network([path])
    with pytest.raises(SpecError, match="one network at a time"):
        load_network([path, layer, eyeriss])


@pytest.mark.parametrize("content", [b"", b"not a model", b"\x08\x07"])
def test_what_is_no_model(tmp_path: Path, content: bytes):
    path = tmp_path / "m.onnx"
    path.write_bytes(content)
    with pytest.raises(SpecError, match=r"m\.onnx"):
        read(path)
    with pytest.raises(SpecError, match="cannot read"):
        read(tmp_path / "absent.onnx")


def test_the_missing_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(SpecError, match="need the extra `onnx`") as caught:
        read(tmp_path / "m.onnx")
    assert caught.value.hint == "pip install 'tilewright[onnx]'"
