"""ONNX models as workloads."""

import math
import os
import sys
from pathlib import Path

import pytest

from model.formats.cascade import load_network
from model.formats.onnx.loader import load_onnx
from model.problem import Term
from model.text.limits import DEFAULT_LIMITS
from model.text.source import SpecError
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


def read(path: Path, **variables: object) -> tuple[Workload, tuple[str, ...], tuple[str, ...]]:
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


@pytest.mark.parametrize(
    ("mode", "kernel", "rows", "offset"),
    [
        ("SAME_UPPER", 3, 8, 0),
        ("SAME_LOWER", 3, 8, -1),
        ("SAME_UPPER", 5, 8, -1),
        ("SAME_LOWER", 5, 8, -2),
        ("SAME_UPPER", 1, 8, 0),
        ("VALID", 3, 7, 0),
    ],
)
def test_padding_to_the_same_size(tmp_path: Path, mode: str, kernel: int, rows: int, offset: int):
    """The rows are as many as the strides in the input; what is missing goes to both its ends."""
    einsum = convolution(tmp_path, (8, 4, kernel, kernel), strides=[2, 2], auto_pad=mode)
    assert (einsum.bounds["P"], einsum.bounds["Q"]) == (rows, rows)
    assert [index.offset for index in einsum.accesses[0].indices[2:]] == [offset, offset]
    assert einsum.is_box == (mode == "VALID" or kernel == 1)


@pytest.mark.parametrize("taps", [(3,), (3, 1, 2)])
def test_convolutions_in_one_and_three_dimensions(tmp_path: Path, taps: tuple[int, ...]):
    node = helper.make_node("Conv", ["x", "w"], ["y"], name="conv")
    image = [1, 4, *(9 for _ in taps)]
    path = write(tmp_path / "m.onnx", [node], {"x": image}, {"w": (8, 4, *taps)}, {"y": None})
    bounds = read(path)[0].einsum("conv").bounds
    assert [bounds[tap] for tap in "RST"[: len(taps)]] == list(taps)
    assert [bounds[row] for row in "PQO"[: len(taps)]] == [9 - tap + 1 for tap in taps]


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


IMAGE, FILTER = (1, 8, 16, 16), (4, 8, 3, 3)


@pytest.mark.parametrize(
    ("kind", "left", "right", "attributes", "message"),
    [
        ("Conv", IMAGE, FILTER, {"group": 0}, "has group = 0"),
        ("Conv", IMAGE, FILTER, {"group": 3}, "does not fit: group = 3"),
        ("Conv", IMAGE, (4, 5, 3, 3), {}, "does not fit: group = 1"),
        ("Conv", IMAGE, FILTER, {"strides": [2]}, "has strides = [2], but 2 of them are needed"),
        ("Conv", IMAGE, FILTER, {"strides": [0, 1]}, "has strides = [0, 1]"),
        ("Conv", IMAGE, FILTER, {"dilations": "ab"}, "has dilations = b'ab'"),
        ("Conv", IMAGE, FILTER, {"pads": [1, 1]}, "but 4 of them are needed"),
        ("Conv", IMAGE, FILTER, {"pads": [1, 1, 1, -1]}, "no integers from 0 on"),
        ("Conv", IMAGE, FILTER, {"auto_pad": "SOME"}, "unknown auto_pad b'SOME'"),
        ("Conv", IMAGE, FILTER, {"kernel_shape": [5, 5]}, "has kernel_shape = [5, 5]"),
        ("Conv", IMAGE, (4, 8, 30, 3), {}, "has a filter of 30 over 16 inputs"),
        ("Conv", IMAGE, (0, 8, 3, 3), {}, "`w`, which has no values"),
        ("Conv", IMAGE, (4, 8, 3), {}, "is no convolution in 1 to 3 dimensions"),
        ("Conv", (1, 8), (4, 8), {}, "is no convolution in 1 to 3 dimensions"),
        ("Gemm", (3, 4), (5, 6), {}, "sums over 4 values of its left input and 5 of its right one"),
        ("Gemm", (3, 4, 5), (5, 6), {}, "no two matrices"),
        ("MatMul", (3, 4), (5, 6), {}, "sums over 4 values"),
        ("MatMul", (2, 5, 7), (3, 7, 3), {}, "batches that do not fit"),
        ("MatMul", (), (4,), {}, "multiplies a single number"),
    ],
)
def test_nodes_that_contradict_themselves(tmp_path: Path, kind, left, right, attributes, message):
    node = helper.make_node(kind, ["x", "w"], ["y"], name="odd", **attributes)
    path = write(tmp_path / "m.onnx", [node], {"x": left}, {"w": right}, {"y": [1]})
    with pytest.raises(SpecError) as caught:
        read(path)
    assert "m.onnx: node `odd` " in caught.value.message
    assert message in caught.value.message


@pytest.mark.parametrize("kind", ["Conv", "Gemm", "MatMul"])
def test_what_nodes_and_values_lack(tmp_path: Path, kind: str):
    sizes = IMAGE if kind == "Conv" else (4, 4)
    lonely = helper.make_node(kind, ["x"], ["y"], name="lonely")
    with pytest.raises(SpecError, match="node `lonely` has no input 2"):
        read(write(tmp_path / "m.onnx", [lonely], {"x": sizes}, {}, {"y": None}))
    weights = FILTER if kind == "Conv" else (4, 4)
    node = helper.make_node(kind, ["x", "w"], ["y"], name="odd")
    with pytest.raises(SpecError, match=r"makes a value of shape .* but `y` has \(9, 9\)"):
        read(write(tmp_path / "m.onnx", [node], {"x": sizes}, {"w": weights}, {"y": [9, 9]}))


@pytest.mark.parametrize(
    ("edges", "message"),
    [
        ([("b", "a"), ("a", "b")], "node `m0` reads `b` before it is written"),
        ([("a", "a")], "node `m0` reads `a` before it is written"),
        ([("a", "b"), ("x", "a")], "node `m0` reads `a` before it is written"),
        ([("x", "a"), ("x", "a")], "node `m1` writes `a`, which has a value already"),
        ([("x", "x")], "node `m0` writes `x`, which has a value already"),
    ],
)
def test_values_are_written_once_before_they_are_read(
    tmp_path: Path, edges: list[tuple[str, str]], message: str
):
    nodes = [
        helper.make_node("MatMul", [before, "w"], [after], name=f"m{number}")
        for number, (before, after) in enumerate(edges)
    ]
    path = write(tmp_path / "m.onnx", nodes, {"x": [4, 4]}, {"w": [4, 4]}, {edges[-1][1]: [4, 4]})
    with pytest.raises(SpecError, match=message):
        read(path)


def test_names_stay_apart(tmp_path: Path):
    nodes = [
        helper.make_node("MatMul", [before, "w"], [after], name=name)
        for before, after, name in (("x", "a", "m"), ("a", "b", "m#2"), ("b", "c", "m"), ("c", "y", "m#2"))
    ]
    path = write(tmp_path / "m.onnx", nodes, {"x": [4, 4]}, {"w": [4, 4]}, {"y": None})
    names = [einsum.name for einsum in read(path)[0].einsums]
    assert names[:2] == ["m", "m#2"]
    assert len(set(names)) == 4


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
    workload, (note,), _ = read(path)
    assert [einsum.name for einsum in workload.einsums] == ["MatMul_0", "MatMul_3"]
    assert note.text == "skipped: 2 Relu (relu1, relu2)"


def test_open_sizes_are_variables(tmp_path: Path):
    node = helper.make_node("MatMul", ["x", "w"], ["y"], name="product")
    path = write(tmp_path / "m.onnx", [node], {"x": ["batch", 4]}, {"w": [4, 3]}, {"y": ["batch", 3]})
    with pytest.raises(SpecError, match="node `product` uses `x`, whose shape is not known") as caught:
        read(path)
    assert caught.value.hint == "the model leaves open `batch`: `--set batch=VALUE`"
    assert read(path, batch=6)[0].einsum("product").bounds["P"] == 6
    with pytest.raises(SpecError, match="no positive integer"):
        read(path, batch="many")


def test_variables_that_mean_nothing_for_a_model_are_noted(tmp_path: Path):
    node = helper.make_node("MatMul", ["x", "w"], ["y"], name="product")
    path = write(tmp_path / "m.onnx", [node], {"x": ["batch", 4]}, {"w": [4, 3]}, {"y": ["batch", 3]})
    eyeriss = REPOSITORY / "specs" / "architectures" / "eyeriss_like.yaml"
    notes = [*map(str, load_network([path, eyeriss], {"batch": 6, "BITS": 16, "bach": 6}).notes)]
    assert [note for note in notes if "variable `" in note] == [
        "no template uses the variable `bach`; did you mean `batch`?"
    ]


def test_bits(tmp_path: Path):
    node = helper.make_node("MatMul", ["x", "w"], ["y"], name="product")
    shapes = ([node], {"x": [4, 4]}, {"w": [4, 4]}, {"y": [4, 4]})
    for kind, bits in (("FLOAT16", 16), ("BFLOAT16", 16), ("DOUBLE", 64), ("INT8", 8), ("INT4", 4)):
        path = write(tmp_path / "m.onnx", *shapes, kind=onnx.TensorProto.DataType.Value(kind))
        assert {access.bits_per_value for access in read(path)[0].einsums[0].accesses} == {bits}
    path = write(tmp_path / "m.onnx", *shapes, kind=onnx.TensorProto.STRING)
    with pytest.raises(SpecError, match="`x`, whose type is not known"):
        read(path)
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


def function(name: str, *calls: str):
    """A function of a model that calls others one after the other, or does nothing."""
    names = ["a", *(f"t{place}" for place in range(1, len(calls))), "b"]
    nodes = [
        helper.make_node(called, [names[place]], [names[place + 1]], domain="own")
        for place, called in enumerate(calls)
    ]
    opsets = [helper.make_opsetid("", 13), helper.make_opsetid("own", 1)]
    return helper.make_function(
        "own", name, ["a"], ["b"], nodes or [helper.make_node("Relu", ["a"], ["b"])], opsets
    )


def test_functions_that_double_again_and_again(tmp_path: Path):
    path = tmp_path / "m.onnx"
    write(path, [helper.make_node("f0", ["x"], ["y"], domain="own")], {"x": [1]}, {}, {"y": None})
    model = onnx.load(str(path))
    model.opset_import.append(helper.make_opsetid("own", 1))
    model.functions.extend(function(f"f{n}", *([f"f{n + 1}"] * 2 if n < 40 else [])) for n in range(41))
    onnx.save(model, str(path))
    with pytest.raises(SpecError, match=r"more than 50,000 nodes, with functions written out"):
        read(path)


@pytest.mark.parametrize("equation", ["......", "a...b... -> a", ". .. ... ,a"])
def test_equations_that_the_library_never_ends_to_read(tmp_path: Path, equation: str):
    node = helper.make_node("Einsum", ["x"], ["y"], name="sum", equation=equation)
    with pytest.raises(SpecError, match="`sum` has an equation with two ellipses in a term"):
        read(write(tmp_path / "m.onnx", [node], {"x": [1]}, {}, {"y": None}))


def test_more_nodes_than_any_network_has(tmp_path: Path):
    nodes = [helper.make_node("MatMul", ["x", "x"], [f"y{place}"]) for place in range(10_001)]
    with pytest.raises(SpecError, match="more than 10,000 nodes of type Conv, Gemm, MatMul"):
        read(write(tmp_path / "m.onnx", nodes, {"x": [1, 1]}, {}, {"y0": None}))


def test_a_pipe_is_no_model(tmp_path: Path):
    os.mkfifo(tmp_path / "m.onnx")
    with pytest.raises(SpecError, match="is not a regular file"):
        read(tmp_path / "m.onnx")


def test_the_missing_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(SpecError, match="need the extra `onnx`") as caught:
        read(tmp_path / "m.onnx")
    assert caught.value.hint == "pip install 'tilewright[onnx]'"
