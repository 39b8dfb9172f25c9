"""Operators of ONNX graphs as Einsums."""

import math
from pathlib import Path

import pytest

from model.problem import Term
from model.text.source import SpecError
from model.workload import Einsum
from tests.model.formats.onnx.models import helper, load, notes, read, write


def convolution(tmp_path: Path, weights: tuple[int, ...], **attributes: object) -> Einsum:
    node = helper.make_node("Conv", ["x", "w"], ["y"], name="conv", **attributes)
    channels = weights[1] * int(attributes.get("group", 1))
    path = write(tmp_path / "m.onnx", [node], {"x": [2, channels, 16, 16]}, {"w": weights}, {"y": None})
    return read(path).einsum("conv")


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
    bounds = read(path).einsum("conv").bounds
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
    einsum = read(path).einsum("product")
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
        ("Conv", IMAGE, FILTER, {"pads": [1, 1, 1, -1]}, "not integers of at least 0"),
        ("Conv", IMAGE, FILTER, {"auto_pad": "SOME"}, "unknown auto_pad b'SOME'"),
        ("Conv", IMAGE, FILTER, {"kernel_shape": [5, 5]}, "has kernel_shape = [5, 5]"),
        ("Conv", IMAGE, (4, 8, 30, 3), {}, "has a filter of 30 over 16 inputs"),
        ("Conv", IMAGE, (0, 8, 3, 3), {}, "`w`, which has no values"),
        ("Conv", IMAGE, (4, 8, 3), {}, "is not a convolution in 1 to 3 dimensions"),
        ("Conv", (1, 8), (4, 8), {}, "is not a convolution in 1 to 3 dimensions"),
        ("Gemm", (3, 4), (5, 6), {}, "sums over 4 values of its left input and 5 of its right one"),
        ("Gemm", (3, 4, 5), (5, 6), {}, "does not multiply two matrices"),
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


@pytest.mark.parametrize(("trans_a", "trans_b"), [(0, 0), (0, 1), (1, 0), (1, 1)])
def test_gemm(tmp_path: Path, trans_a: int, trans_b: int):
    node = helper.make_node("Gemm", ["x", "w"], ["y"], name="fc", transA=trans_a, transB=trans_b)
    left, right = ((7, 5) if trans_a else (5, 7)), ((3, 7) if trans_b else (7, 3))
    path = write(tmp_path / "m.onnx", [node], {"x": left}, {"w": right}, {"y": None})
    assert read(path).einsum("fc").bounds == {"P": 5, "C": 7, "K": 3}


QUANTIZED = {"x": [1, 3, 8, 8], "s": [], "z": []}


@pytest.mark.parametrize(
    ("kind", "inputs"),
    [
        ("ConvInteger", ["x", "w"]),
        ("QLinearConv", ["x", "s", "z", "w", "s", "z", "s", "z"]),
    ],
)
def test_convolutions_of_integers(tmp_path: Path, kind: str, inputs: list[str]):
    node = helper.make_node(kind, inputs, ["y"], name="conv")
    path = write(tmp_path / "m.onnx", [node], QUANTIZED, {"w": [4, 3, 3, 3]}, {"y": None})
    einsum = read(path, {"BITS": 8}).einsum("conv")
    assert einsum.bounds == {"N": 1, "C": 3, "K": 4, "P": 6, "R": 3, "Q": 6, "S": 3}
    assert [access.tensor for access in einsum.accesses] == ["x", "w", "y"]


@pytest.mark.parametrize(
    ("kind", "inputs"),
    [
        ("MatMulInteger", ["x", "w"]),
        ("QLinearMatMul", ["x", "s", "z", "w", "s", "z", "s", "z"]),
    ],
)
def test_products_of_integers(tmp_path: Path, kind: str, inputs: list[str]):
    node = helper.make_node(kind, inputs, ["y"], name="product")
    shapes = {"x": [4, 16], "s": [], "z": []}
    path = write(tmp_path / "m.onnx", [node], shapes, {"w": [16, 8]}, {"y": None})
    einsum = read(path, {"BITS": 8}).einsum("product")
    assert einsum.bounds == {"P": 4, "C": 16, "K": 8}
    assert [access.tensor for access in einsum.accesses] == ["x", "w", "y"]


@pytest.mark.parametrize(
    ("attributes", "offset", "is_box"),
    [
        ({}, 0, True),
        ({"pads": [1, 1, 1, 1]}, -1, False),
        ({"output_shape": [15, 15]}, -1, False),
        ({"output_shape": [16, 16], "auto_pad": "SAME_UPPER"}, 0, False),
        ({"output_shape": [16, 16], "auto_pad": "SAME_LOWER"}, -1, False),
        ({"auto_pad": "SAME_UPPER"}, 0, False),
        ({"auto_pad": "VALID"}, 0, True),
    ],
)
def test_a_transposed_convolution(tmp_path: Path, attributes: dict, offset: int, is_box: bool):
    """It writes where a convolution reads."""
    node = helper.make_node("ConvTranspose", ["x", "w"], ["y"], name="up", strides=[2, 2], **attributes)
    path = write(tmp_path / "m.onnx", [node], {"x": [1, 6, 8, 8]}, {"w": [6, 5, 3, 3]}, {"y": None})
    einsum = read(path).einsum("up")
    assert einsum.bounds == {"N": 1, "C": 6, "K": 5, "P": 8, "R": 3, "Q": 8, "S": 3}
    read_index, written = einsum.accesses[0].indices[2], einsum.accesses[2].indices[2]
    assert read_index.terms == (Term("P"),)
    assert written.terms == (Term("P", 2), Term("R"))
    assert (written.offset, einsum.is_box) == (offset, is_box)
    assert [einsum.size_values(access) for access in einsum.accesses] == [6 * 64, 6 * 5 * 9, 5 * 17 * 17]


def test_a_transposed_convolution_in_groups(tmp_path: Path):
    node = helper.make_node("ConvTranspose", ["x", "w"], ["y"], name="up", group=2)
    shapes = {"x": [1, 6, 8, 8]}, {"w": [6, 5, 2, 2]}, {"y": [1, 10, 9, 9]}
    einsum = read(write(tmp_path / "m.onnx", [node], *shapes)).einsum("up")
    assert einsum.bounds == {"N": 1, "G": 2, "C": 3, "K": 5, "P": 8, "R": 2, "Q": 8, "S": 2}
    assert einsum.accesses[0].indices[1].terms == (Term("G", 3), Term("C"))
    assert einsum.accesses[1].indices[0].terms == (Term("G", 3), Term("C"))
    assert einsum.accesses[2].indices[1].terms == (Term("G", 5), Term("K"))


@pytest.mark.parametrize(
    ("equation", "left", "right", "bounds"),
    [
        ("ij,jk->ik", (4, 5), (5, 6), {"P": 4, "C": 5, "K": 6}),
        ("ij , jk", (4, 5), (5, 6), {"P": 4, "C": 5, "K": 6}),
        ("bij,bjk->bik", (2, 4, 5), (2, 5, 6), {"N": 2, "P": 4, "C": 5, "K": 6}),
        ("bhid,bhjd->bhij", (2, 3, 4, 5), (2, 3, 6, 5), {"N": 6, "P": 4, "C": 5, "K": 6}),
        ("abc,cd->abd", (2, 3, 4), (4, 5), {"P": 6, "C": 4, "K": 5}),
        ("...ij,...jk->...ik", (2, 3, 4, 5), (3, 5, 6), {"N": 3, "P": 8, "C": 5, "K": 6}),
        ("...ij,...jk", (3, 4, 5), (3, 5, 6), {"N": 3, "P": 4, "C": 5, "K": 6}),
        ("i,i->", (4,), (4,), {"P": 1, "C": 4, "K": 1}),
    ],
)
def test_einsums(tmp_path: Path, equation: str, left: tuple, right: tuple, bounds: dict):
    node = helper.make_node("Einsum", ["x", "w"], ["y"], name="sum", equation=equation)
    einsum = read(write(tmp_path / "m.onnx", [node], {"x": left, "w": right}, {}, {"y": None})).einsum("sum")
    assert einsum.bounds == bounds
    assert einsum.size_values(einsum.accesses[0]) == math.prod(left)
    assert einsum.size_values(einsum.accesses[1]) == math.prod(right)


def product_beside(tmp_path: Path, node: object, inputs: dict, weights: dict) -> list[str]:
    """The notes on a node in a model that has a matrix product of 64 MACs, too."""
    nodes = [helper.make_node("MatMul", ["a", "b"], ["c"], name="product"), node]
    inputs = {**inputs, "a": [4, 4], "b": [4, 4]}
    return notes(write(tmp_path / "m.onnx", nodes, inputs, weights, {"c": None}))


@pytest.mark.parametrize(
    ("equation", "shapes", "note"),
    [
        ("ij->ji", [(4, 5)], "skipped, without multiply-accumulates: 1 Einsum"),
        ("ij,jk,kl->il", [(4, 4), (4, 4), (4, 3)], "192 MACs, 75.0%"),
        ("ii,ij->j", [(4, 4), (4, 4)], "16 MACs, 20.0%"),
        ("ij,jk->k", [(4, 4), (4, 4)], "64 MACs, 50.0%"),
    ],
)
def test_einsums_that_are_no_product_of_two_matrices(tmp_path: Path, equation: str, shapes: list, note: str):
    names = [f"x{place}" for place in range(len(shapes))]
    node = helper.make_node("Einsum", names, ["y"], name="sum", equation=equation)
    assert note in product_beside(tmp_path, node, dict(zip(names, shapes, strict=True)), {})[-1]


@pytest.mark.parametrize(
    ("kind", "inputs", "weights", "note"),
    [
        (
            "DeformConv",
            {"x": [1, 3, 8, 8], "offset": [1, 18, 6, 6]},
            {"w": [4, 3, 3, 3]},
            "1 DeformConv (other)",
        ),
        ("Attention", {"x": [1, 2, 4, 8]}, {"w": [1, 2, 4, 8], "r": [1, 2, 4, 8]}, "1 Attention (other):"),
    ],
)
def test_work_that_is_not_mapped_is_counted(
    tmp_path: Path, kind: str, inputs: dict, weights: dict, note: str
):
    order = ["x", "w", "offset"] if kind == "DeformConv" else ["x", "w", "r"]
    node = helper.make_node(kind, order, ["y"], name="other")
    said = product_beside(tmp_path, node, inputs, weights)
    assert said[0].startswith("mapped: 1 of 2 nodes with multiply-accumulates, ")
    assert said[1].startswith(f"not mapped: {note}")
    assert len(said) == 2


@pytest.mark.parametrize(
    ("kind", "inputs", "weights", "layout", "of_inputs", "of_state", "macs"),
    [
        ("LSTM", [5, 2, 8], ([1, 24, 8], [1, 24, 6]), 0, (10, 8, 24), (2, 6, 24), 3360),
        ("GRU", [5, 2, 8], ([1, 18, 8], [1, 18, 6]), 0, (10, 8, 18), (2, 6, 18), 2520),
        ("RNN", [5, 1, 8], ([2, 6, 8], [2, 6, 6]), 0, (5, 8, 6), (1, 6, 6), 840),
        ("LSTM", [2, 5, 8], ([1, 24, 8], [1, 24, 6]), 1, (10, 8, 24), (2, 6, 24), 3360),
    ],
)
def test_recurrent_layers_are_two_products(
    tmp_path: Path,
    kind: str,
    inputs: list,
    weights: tuple,
    layout: int,
    of_inputs: tuple,
    of_state: tuple,
    macs: int,
):
    node = helper.make_node(kind, ["x", "w", "r"], ["y"], name="cell", hidden_size=6, layout=layout)
    named = dict(zip(("w", "r"), weights, strict=True))
    path = write(tmp_path / "m.onnx", [node], {"x": inputs}, named, {"y": None})
    first, second = load(path).workload.einsums
    sizes = [tuple(einsum.bounds[dim] for dim in ("P", "C", "K")) for einsum in (first, second)]
    assert sizes == [of_inputs, of_state]
    assert (first.name, second.name) == ("cell.inputs", "cell.state")
    assert (first.n_instances, second.n_instances) == (1, 5)
    assert "w" in first.tensors
    assert "r" in second.tensors
    work = [math.prod(einsum.bounds.values()) * einsum.n_instances for einsum in (first, second)]
    assert sum(work) == macs


def test_a_recurrent_layer_that_does_not_fit(tmp_path: Path):
    node = helper.make_node("LSTM", ["x", "w", "r"], ["y"], name="cell", hidden_size=6)
    weights = {"w": [1, 24, 9], "r": [1, 24, 6]}
    with pytest.raises(SpecError):
        load(write(tmp_path / "m.onnx", [node], {"x": [5, 2, 8]}, weights, {"y": None}))


def test_operators_that_onnx_does_not_define(tmp_path: Path):
    node = helper.make_node("FusedConv", ["x", "w"], ["y"], name="fused", domain="com.microsoft")
    said = product_beside(tmp_path, node, {"x": [1, 3, 8, 8]}, {"w": [4, 3, 3, 3]})
    assert said[0] == (
        "mapped: 1 of 2 nodes with multiply-accumulates, 100% of the MACs that are known (those of 1 are not)"
    )
    assert said[1] == "not mapped: 1 com.microsoft.FusedConv (fused): ONNX does not define this operator"
