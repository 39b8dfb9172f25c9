"""ONNX models as workloads."""

import math
import os
import shlex
import sys
from pathlib import Path

import pytest

from model.formats.cascade import load_network
from model.text.reader import parse_assignments
from model.text.source import SpecError
from tests.conftest import REPOSITORY
from tests.model.formats.onnx.models import FLOAT, INT64, helper, notes, onnx, read, save, write


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
    names = [einsum.name for einsum in read(path).einsums]
    assert names[:2] == ["m", "m#2"]
    assert len(set(names)) == 4


def test_other_nodes_are_listed_by_operator(tmp_path: Path):
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"]),
        helper.make_node("Relu", ["a"], ["b"], name="relu1"),
        helper.make_node("Relu", ["b"], ["c"], name="relu2"),
        helper.make_node("MatMul", ["c", "v"], ["y"]),
    ]
    path = write(tmp_path / "m.onnx", nodes, {"x": [4, 4]}, {"w": [4, 4], "v": [4, 4]}, {"y": [4, 4]})
    assert [einsum.name for einsum in read(path).einsums] == ["MatMul_0", "MatMul_3"]
    assert notes(path) == ["skipped, without multiply-accumulates: 2 Relu"]


def test_open_sizes_are_variables(tmp_path: Path):
    node = helper.make_node("MatMul", ["x", "w"], ["y"], name="product")
    path = write(tmp_path / "m.onnx", [node], {"x": ["batch", 4]}, {"w": [4, 3]}, {"y": ["batch", 3]})
    with pytest.raises(SpecError, match="node `product` uses `x`, whose shape is not known") as caught:
        read(path)
    assert caught.value.hint == "the model leaves open: `--set batch=VALUE`"
    assert read(path, {"batch": 6}).einsum("product").bounds["P"] == 6
    with pytest.raises(SpecError, match="not a positive integer"):
        read(path, {"batch": "many"})


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
        assert {access.bits_per_value for access in read(path).einsums[0].accesses} == {bits}
    path = write(tmp_path / "m.onnx", *shapes, kind=onnx.TensorProto.STRING)
    with pytest.raises(SpecError, match="`x`, whose type is not known"):
        read(path)
    assert {access.bits_per_value for access in read(path, {"BITS": 8}).einsums[0].accesses} == {8}
    with pytest.raises(SpecError, match="`BITS` is not a positive integer"):
        read(path, {"BITS": "x"})


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
    with pytest.raises(SpecError, match="more than 10,000 nodes that would be mapped"):
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


def convolution_of(tmp_path: Path, *image: object) -> Path:
    node = helper.make_node("Conv", ["x", "w"], ["y"], name="conv")
    return write(tmp_path / "m.onnx", [node], {"x": list(image)}, {"w": [4, 3, 3, 3]}, {"y": None})


@pytest.mark.parametrize(
    ("image", "hint", "assignments"),
    [
        (("p2o.DynamicDimension.0", 3, 8, 8), "--set p2o.DynamicDimension.0=VALUE", None),
        (("batch size", 3, 8, 8), "--set 'batch size=VALUE'", None),
        ((1, 3, "?", "?"), "--set 'x[2]=VALUE' --set 'x[3]=VALUE'", None),
        ((1, 3, "?", "?"), "--set 'x[2]=VALUE' --set 'x[3]=VALUE'", ["?=8"]),
        ((1, 3, "h=w", "h=w"), "--set 'x[2]=VALUE' --set 'x[3]=VALUE'", None),
        ((1, 3, None, 8), "--set 'x[2]=VALUE'", None),
        ((1, 3, -1, 0), "--set 'x[2]=VALUE' --set 'x[3]=VALUE'", None),
        (("n", 3, "h", "h"), "--set n=VALUE --set h=VALUE", None),
    ],
)
def test_sizes_are_set_by_the_names_that_the_hint_suggests(tmp_path, image, hint, assignments):
    path = convolution_of(tmp_path, *image)
    with pytest.raises(SpecError, match="node `conv` uses `x`, whose shape is not known") as caught:
        read(path)
    assert caught.value.hint == f"the model leaves open: `{hint}`"
    names = [word.removesuffix("=VALUE") for word in shlex.split(hint) if word != "--set"]
    sizes = {"n": 1, "h": 8, "x[2]": 8, "x[3]": 8}
    given = parse_assignments(assignments or [f"{name}={sizes.get(name, 1)}" for name in names])
    (einsum,) = read(path, given).einsums
    assert math.prod(einsum.bounds.values()) == 4 * 36 * 27


def test_axes_that_share_a_name_are_set_apart(tmp_path: Path):
    path = convolution_of(tmp_path, 1, 3, "?", "?")
    bounds = read(path, {"?": 8, "x[3]": 6}).einsum("conv").bounds
    assert (bounds["P"], bounds["Q"]) == (6, 4)


def test_sizes_reach_the_network(tmp_path: Path):
    eyeriss = REPOSITORY / "specs" / "architectures" / "eyeriss_like.yaml"
    path = convolution_of(tmp_path, 1, 3, "?", "?")
    network = load_network([path, eyeriss], {"?": 8, "x[3]": 6, "BITS": 16})
    assert network.layers[0].mapspace.problem.bound["Q"] == 4
    with pytest.raises(SpecError, match=r"`x\[4\]` is not the name of a variable") as caught:
        load_network([path, eyeriss], {"x[2]": 8, "x[3]": 6, "x[4]": 16})
    assert caught.value.hint is not None
    assert caught.value.hint.startswith("did you mean `x[")


def reshaped(tmp_path: Path) -> Path:
    """A reshape whose target is computed from the shape of the input, and two products."""
    nodes = [
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("Gather", ["shape", "zero"], ["batch"], axis=0),
        helper.make_node("Unsqueeze", ["batch", "axes"], ["batches"]),
        helper.make_node("Concat", ["batches", "rest"], ["target"], axis=0),
        helper.make_node("Reshape", ["x", "target"], ["y"]),
        helper.make_node("MatMul", ["y", "w"], ["o"], name="fc"),
        helper.make_node("Conv", ["x", "wc"], ["c"], name="conv"),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", FLOAT, ["batch", 4, 2, 2])],
        [helper.make_tensor_value_info(name, FLOAT, None) for name in ("o", "c")],
        [
            helper.make_tensor("zero", INT64, [], [0]),
            helper.make_tensor("axes", INT64, [1], [0]),
            helper.make_tensor("rest", INT64, [2], [2, 8]),
            helper.make_tensor("w", FLOAT, [8, 3], [0.0] * 24),
            helper.make_tensor("wc", FLOAT, [5, 4, 1, 1], [0.0] * 20),
        ],
    )
    return save(tmp_path / "m.onnx", graph)


def test_shapes_that_are_computed_from_shapes(tmp_path: Path):
    einsums = read(reshaped(tmp_path), {"batch": 1}).einsums
    assert [math.prod(einsum.bounds.values()) for einsum in einsums] == [48, 80]


def test_what_has_an_unknown_shape_is_left_out(tmp_path: Path):
    nodes = [
        helper.make_node("Conv", ["x", "w1"], ["c1"], name="conv1"),
        helper.make_node("NonZero", ["c1"], ["places"]),
        helper.make_node("Cast", ["places"], ["numbers"], to=FLOAT),
        helper.make_node("Transpose", ["numbers"], ["t"], perm=[1, 0]),
        helper.make_node("MatMul", ["t", "w2"], ["o"], name="head"),
    ]
    weights = {"w1": [4, 3, 3, 3], "w2": [4, 5]}
    path = write(tmp_path / "m.onnx", nodes, {"x": [1, 3, 8, 8]}, weights, {"o": None})
    assert [einsum.name for einsum in read(path).einsums] == ["conv1"]
    said = notes(path)
    assert said[0].startswith("mapped: 1 of 2 nodes with multiply-accumulates, 100% of the MACs")
    assert said[1] == "not mapped: 1 MatMul (head): it uses `t`, whose shape is not known"


def test_shapes_that_only_the_model_gives(tmp_path: Path):
    """The library knows nothing of what other operators make; the model may."""
    nodes = [
        helper.make_node("Odd", ["x"], ["a"], domain="com.microsoft"),
        helper.make_node("MatMul", ["a", "w"], ["y"], name="product"),
    ]
    path = write(tmp_path / "m.onnx", nodes, {"x": [1]}, {"w": [4, 3]}, {"y": None})
    with pytest.raises(SpecError, match="uses `a`, whose shape is not known"):
        read(path)
    model = onnx.load(str(path))
    model.graph.value_info.append(helper.make_tensor_value_info("a", FLOAT, [2, 4]))
    onnx.save(model, str(path))
    assert read(path).einsum("product").bounds == {"P": 2, "C": 4, "K": 3}


def branching(tmp_path: Path, *nodes: object, condition: str = "p") -> Path:
    """A convolution in one of the branches of an ``If``."""
    output = [helper.make_tensor_value_info("inner", FLOAT, [1, 4, 6, 6])]
    inner = helper.make_node("Conv", ["x", "w"], ["inner"], name="conv")
    other = helper.make_node("Relu", ["z"], ["inner"])
    choice = helper.make_node(
        "If",
        [condition],
        ["y"],
        name="if",
        then_branch=helper.make_graph([inner], "then", [], output),
        else_branch=helper.make_graph([other], "else", [], output),
    )
    graph = helper.make_graph(
        [*nodes, choice],
        "g",
        [
            helper.make_tensor_value_info("x", FLOAT, [1, 3, 8, 8]),
            helper.make_tensor_value_info("z", FLOAT, [1, 4, 6, 6]),
            helper.make_tensor_value_info("p", onnx.TensorProto.BOOL, []),
        ],
        [helper.make_tensor_value_info("y", FLOAT, [1, 4, 6, 6])],
        [helper.make_tensor("w", FLOAT, [4, 3, 3, 3], [0.0] * 108)],
    )
    return save(tmp_path / "m.onnx", graph)


def test_branches(tmp_path: Path):
    path = branching(tmp_path)
    with pytest.raises(SpecError, match=r"not mapped: 1 Conv in If \(conv\): which branch runs") as caught:
        read(path)
    assert caught.value.hint == "this may determine it: `--set p=VALUE`"
    assert math.prod(read(path, {"p": True}).einsum("conv").bounds.values()) == 3888
    with pytest.raises(SpecError, match="has no convolution and no matrix product"):
        read(path, {"p": False})
    with pytest.raises(SpecError, match="the value of `p` is not an integer or truth value"):
        read(path, {"p": "yes"})


def test_conditions_that_are_computed_from_shapes(tmp_path: Path):
    nodes = [
        helper.make_node("Size", ["z"], ["size"]),
        helper.make_node("Constant", [], ["most"], value=helper.make_tensor("most", INT64, [], [144])),
        helper.make_node("Equal", ["size", "most"], ["is_full"]),
    ]
    path = branching(tmp_path, *nodes, condition="is_full")
    assert [einsum.name for einsum in read(path).einsums] == ["conv"]
    assert notes(path) == []


def test_loops(tmp_path: Path):
    value = helper.make_tensor_value_info
    body = helper.make_graph(
        [
            helper.make_node("Identity", ["go"], ["goes"]),
            helper.make_node("MatMul", ["state", "w"], ["next"], name="inner"),
        ],
        "body",
        [value("i", INT64, []), value("go", onnx.TensorProto.BOOL, []), value("state", FLOAT, [4, 4])],
        [value("goes", onnx.TensorProto.BOOL, []), value("next", FLOAT, [4, 4])],
    )
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"], name="outer"),
        helper.make_node("Loop", ["", "", "a"], ["y"], body=body),
    ]
    path = write(tmp_path / "m.onnx", nodes, {"x": [4, 4]}, {"w": [4, 4]}, {"y": [4, 4]})
    assert [einsum.name for einsum in read(path).einsums] == ["outer"]
    assert notes(path)[1] == "not mapped: 1 MatMul in Loop (inner): how often it runs is not known"


def test_products_in_functions(tmp_path: Path):
    opsets = [helper.make_opsetid("", 13)]
    node = helper.make_node("MatMul", ["a", "b"], ["c"], name="inner")
    own = helper.make_function("own", "twice", ["a", "b"], ["c"], [node], opsets)
    calls = [
        helper.make_node("twice", ["x", "w"], ["h"], domain="own"),
        helper.make_node("twice", ["h", "w"], ["y"], domain="own"),
    ]
    path = write(tmp_path / "m.onnx", calls, {"x": [4, 4]}, {"w": [4, 4]}, {"y": None})
    model = onnx.load(str(path))
    model.opset_import.append(helper.make_opsetid("own", 1))
    model.functions.append(own)
    onnx.save(model, str(path))
    assert [math.prod(einsum.bounds.values()) for einsum in read(path).einsums] == [64, 64]


def test_names_that_a_terminal_would_act_upon(tmp_path: Path):
    names = ["\x1b[31mEVIL\n[red]x", "\x9b[31mEVIL\r[red]x", "x" * 10_000, "a\u202eb"]
    nodes = [
        helper.make_node("MatMul", [f"v{place}\n", "w"], [f"v{place + 1}\n"], name=name)
        for place, name in enumerate(names)
    ]
    path = tmp_path / "m\n.onnx"
    write(path, nodes, {"v0\n": [4, 4]}, {"w": [4, 4]}, {f"v{len(names)}\n": None})
    workload = read(path)
    tensors = [access.tensor for einsum in workload.einsums for access in einsum.accesses]
    shown = [workload.name, *(einsum.name for einsum in workload.einsums), *tensors]
    assert all(name.isprintable() and len(name) <= 200 for name in shown)
    assert len({einsum.name for einsum in workload.einsums}) == len(names)
    assert len(set(tensors)) == len(names) + 2


def test_values_whose_names_differ_in_control_characters_stay_apart(tmp_path: Path):
    nodes = [
        helper.make_node("MatMul", ["x", "w\x01"], ["a"], name="first"),
        helper.make_node("MatMul", ["a", "w\x02"], ["y"], name="second"),
    ]
    path = write(tmp_path / "m.onnx", nodes, {"x": [4, 4]}, {"w\x01": [4, 4], "w\x02": [4, 4]}, {"y": None})
    weights = [einsum.accesses[1].tensor for einsum in read(path).einsums]
    assert weights[0] != weights[1]
