"""Network files: what is read, what is refused, and at which place."""

from fractions import Fraction

import pytest

from model.assignment import FORBIDDEN, ConvolutionShape, SystolicModel, Tensor
from model.formats.assignment import load_assignment
from model.text.source import SpecError

TINY = """\
network:
  name: tiny
  unit: ms
  layers:
  - {name: conv1, methods: {im2col: 1.25, kn2row: 0.75}}
  - {name: conv2, methods: {im2col: 2.0, winograd: 1.5}}
  edges:
  - {from: conv1, to: conv2, transition: {im2col: {winograd: 0.5}, kn2row: {im2col: 0.25, winograd: inf}}}
"""
SHAPED = """\
network:
  cost_model: {name: systolic_array, rows: 9, columns: 7, cycles_per_ms: 200e3}
  layers:
  - {name: in, tensor: {channels: 3, height: 8, width: 6}}
  - {name: conv, conv: {in_channels: 3, out_channels: 4, height: 4, width: 3, kernel: [3, 1], stride: 2}}
  - {name: out, conv: {in_channels: 4, out_channels: 4, height: 4, width: 3, kernel: 3}, methods: [winograd]}
  edges: chain
"""


@pytest.fixture
def load(tmp_path):
    def load_text(text):
        path = tmp_path / "net.yaml"
        path.write_text(text)
        return load_assignment([path])

    return load_text


def test_explicit_costs(load):
    network = load(TINY).network
    assert (network.name, network.unit) == ("tiny", "ms")
    assert [layer.methods for layer in network.layers] == [("im2col", "kn2row"), ("im2col", "winograd")]
    assert [network.in_unit(int(cost)) for cost in network.layers[0].costs] == [
        Fraction("1.25"),
        Fraction("0.75"),
    ]
    (edge,) = network.edges
    scale = network.steps_per_unit
    assert edge.transition.tolist() == [[0, scale / 2], [scale / 4, FORBIDDEN]]
    assert (network.layers[1].place.line, edge.place.line) == (6, 8)


LONE = "  - {name: lone, methods: {im2col: 1}}\n"


@pytest.mark.parametrize(
    ("text", "notes"),
    [
        (
            TINY.replace("  edges:\n", f"{LONE}  edges:\n"),
            ["no edge joins layer `lone`, so it has no transition costs"],
        ),
        (TINY[: TINY.index("  edges:")] + LONE, []),
        (
            SHAPED.replace("chain", "[{from: conv, to: out}]"),
            ["no edge joins layer `in`, so it has no transition costs"],
        ),
        (SHAPED, []),
    ],
)
def test_a_layer_that_no_edge_reaches_is_noted(text, notes, load):
    loaded = load(text)
    found = (loaded.network or loaded.shaped).notes
    assert [str(note).partition(": ")[2] for note in found] == notes


@pytest.mark.parametrize("text", [TINY, SHAPED])
def test_variables_that_no_template_names_are_noted(text, tmp_path):
    path = tmp_path / "net.yaml"
    path.write_text(text)
    loaded = load_assignment([path], {"rows": 9})
    network = loaded.network or loaded.shaped
    assert [*map(str, network.notes)] == ["no template uses the variable `rows`"]


def test_decimals_are_read_exactly(load):
    text = TINY.replace("1.25", "0.1").replace("0.75", "0.30000000000000004")
    network = load(text).network
    first, second = (network.in_unit(int(cost)) for cost in network.layers[0].costs)
    assert second - 3 * first == Fraction("4e-17")


@pytest.mark.parametrize("word", ["inf", ".inf", "+.INF", "Infinity"])
def test_infinity_forbids(load, word):
    assert load(TINY.replace("1.25", word)).network.layers[0].costs[0] == FORBIDDEN


def test_chains_and_layers_without_edges(load):
    head = TINY.split("  edges:")[0]
    assert load(head).network.edges == ()
    (edge,) = load(head + "  edges: chain\n").network.edges
    assert (edge.source, edge.target, edge.transition) == (0, 1, None)


def test_an_architecture_asks_for_methods(load):
    with pytest.raises(SpecError) as caught:
        load(f"{TINY}architecture: {{nodes: []}}\n")
    assert caught.value.message == "a network with explicit costs needs no architecture"
    assert caught.value.hint.startswith("`--methods FILE`")


def test_an_architecture_is_no_network(load):
    with pytest.raises(SpecError) as caught:
        load("architecture: {nodes: []}\n")
    assert caught.value.message == "unknown key `architecture` in a network file, which lacks `network`"


def test_shapes(load):
    loaded = load(SHAPED)
    assert loaded.network is None
    tensor, conv, out = loaded.shaped.layers
    assert tensor.shape == Tensor(3, 8, 6)
    assert conv.shape == ConvolutionShape(3, 4, 4, 3, (3, 1), 2)
    assert conv.methods == ("im2col", "kn2row")
    assert out.methods == ("winograd",)
    assert loaded.hardware.array == (9, 7)
    assert loaded.hardware.model == SystolicModel()


def test_every_key_of_the_cost_model_counts(load):
    text = SHAPED.replace(
        "cycles_per_ms: 200e3",
        "cycles_per_ms: 1, bytes_per_ms: 2.5, element_bytes: 2, dataflows: [input_stationary], "
        "double_buffering: false, winograd: {m: 4, r: 5, kernel_tiles: whole}",
    )
    assert load(text).hardware.model == SystolicModel(
        Fraction(1), Fraction("2.5"), Fraction(2), ("input_stationary",), False, 4, 5, True
    )
    budget = load(SHAPED.replace("rows: 9, columns: 7", "dsp_budget: 50")).hardware
    assert (budget.array, budget.dsp_budget) == (None, 50)


@pytest.mark.parametrize(
    ("old", "new", "message", "marked"),
    [
        ("1.25", "nan", "must be a number or `inf`, but is `nan`", "nan"),
        ("1.25", ".nan", "must be a number or `inf`, but is `.nan`", ".nan"),
        ("1.25", "-1.25", "cost of `im2col` in layer `conv1` must not be negative, but is -1.25", "-1.25"),
        ("1.25", "-.inf", "must not be negative", "-.inf"),
        ("1.25", "", "cost of `im2col` in layer `conv1` is missing", None),
        ("1.25", "null", "is missing", "null"),
        ("1.25", "fast", "must be a number or `inf`, but is `fast`", "fast"),
        ("1.25", '"1.25"', "must be a number or `inf`", '"1.25"'),
        ("1.25", "true", "must be a number or `inf`, but is `true`", "true"),
        ("1.25", "[1]", "must be a number, but is a list", "[1]"),
        ("1.25", "1e16", "from 1e-15 to 1e+15", "1e16"),
        ("1.25", "1e400", "too large", "1e400"),
        ("1.25", "1e-999999999", "too small for a number", "1e-999999999"),
        ("{im2col: 1.25, kn2row: 0.75}", "{}", "offers no method", "{}"),
        ("methods: {im2col: 1.25", "method: {im2col: 1.25", "unknown key `method`", "method"),
        ("name: conv2", "name: conv1", "two layers are named `conv1`", "conv1"),
        ("name: conv2, ", "", "a layer is missing the key `name`", None),
        ("name: conv2", "x: 1", "unknown key `x` in a layer, which lacks `name`", "x"),
        ("to: conv2", "to: conv3", "unknown layer `conv3`", "conv3"),
        ("to: conv2", "to: conv1", "two different layers", None),
        ("kn2row: {im2col", "kn2raw: {im2col", "the source of `conv1` -> `conv2` does not offer", "kn2raw"),
        ("winograd: inf", "kn2row: inf", "the target of `conv1` -> `conv2` does not offer", "kn2row"),
        ("winograd: inf", "winograd: -3", "transition from `kn2row` to `winograd` in `conv1`", "-3"),
        ("kn2row: {im2col: 0.25, winograd: inf}", "kn2row: 3", "must be a mapping", "3"),
        ("  edges:\n", "  edges:\n  - {from: conv2, to: conv1}\n", "form a cycle: ", None),
        ("  edges:\n", "  edges:\n  - {from: conv1, to: conv2}\n", "joined twice", None),
        ("network:", "networks:", "unknown key `networks`", "networks"),
        ("unit: ms", "units: ms", "unknown key `units`", "units"),
    ],
)
def test_wrong_tables_show_the_place(load, old, new, message, marked):
    check_refused(load, TINY, old, new, message, marked)


@pytest.mark.parametrize(
    ("old", "new", "message", "marked"),
    [
        ("name: systolic_array", "name: systolic", "unknown cost model `systolic`", "systolic"),
        ("rows: 9, ", "", "needs `rows` and `columns`", None),
        ("rows: 9", "rows: 0", "at least 1", "0"),
        ("rows: 9", "dsp_budget: 100", "so `columns` does not belong here", "columns"),
        ("rows: 9, columns: 7", "dsp_budget: 20001", "at most 20000", "20001"),
        ("200e3", "0", "must be positive and finite", "0"),
        ("200e3", "inf", "must be positive and finite", "inf"),
        ("200e3", "200e3, dataflows: []", "`dataflows` must not be empty", "[]"),
        ("200e3", "200e3, dataflows: [os]", "unknown dataflow `os`", "os"),
        ("200e3", "200e3, winograd: {m: 2}", "is missing the key `r`", None),
        ("network:", "network:\n  unit: us", "gives costs in `ms`", "us"),
        ("tensor: {channels: 3", "tensor: {channel: 3", "unknown key `channel`", "channel"),
        ("kernel: [3, 1]", "kernel: [3]", "height and width", "[3]"),
        ("stride: 2", "stride: 1.5", "whole number", "1.5"),
        ("[winograd]", "[winograd, winograd]", "listed twice", "winograd"),
        ("[winograd]", "[]", "offers no method", "[]"),
        ("kernel: 3}", "kernel: 1}", "Winograd's method needs", "winograd"),
        ("stride: 2}", "stride: 2}, tensor: {}", "has either `conv` or `tensor`", None),
        ("edges: chain", "edges: line", "`edges` must be a list", "line"),
        ("edges: chain", "edges: [{from: in, to: conv, channels: 0}]", "at least 1", "0"),
        ("edges: chain", "edges: [{from: in, to: conv, channels: 4}]", "but layer `conv` takes in 3", "4"),
    ],
)
def test_wrong_shapes_show_the_place(load, old, new, message, marked):
    check_refused(load, SHAPED, old, new, message, marked)


def check_refused(load, text, old, new, message, marked):
    assert old in text
    with pytest.raises(SpecError) as raised:
        load(text.replace(old, new, 1))
    shown = raised.value.render()
    assert message in shown
    assert "^" in shown
    if marked is not None:
        source, carets = (line.split("|", 1)[1] for line in shown.splitlines()[3:5])
        assert source[carets.index("^") : carets.rindex("^") + 1] == marked
