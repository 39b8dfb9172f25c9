"""Networks for the mapper: methods, layouts and constraints, and what is refused, at which place."""

from pathlib import Path

import pytest

from model.assignment.methods import Copy
from model.assignment.network import ConvolutionShape, ShapedEdge
from model.formats.assignment.methods import load_method_network
from model.mapspace import FactorRule
from model.text.source import SpecError
from tests.conftest import REPOSITORY

DATA = REPOSITORY / "tests" / "solver" / "cli" / "data"
ARCHITECTURE, METHODS, NETWORK = (
    (DATA / f"mapped_{name}.yaml").read_text(encoding="utf-8")
    for name in ("architecture", "methods", "network")
)


@pytest.fixture
def load(working_directory):
    def load_texts(architecture=ARCHITECTURE, methods=METHODS, network=NETWORK):
        texts = {"a.yaml": architecture, "m.yaml": methods, "n.yaml": network}
        for name, text in texts.items():
            Path(name).write_text(text, encoding="utf-8")
        return load_method_network(["a.yaml", "n.yaml"], "m.yaml")

    return load_texts


def test_layers_offer_methods_and_tensors_layouts(load):
    problem = load()
    offered = {layer.name: layer.methods for layer in problem.shaped.layers}
    assert offered == {
        "image": ("rows",),
        "conv1": ("direct", "unfold", "shift"),
        "conv2": ("direct", "unfold"),
        "conv3": ("direct", "unfold", "shift"),
        "sum": ("rows", "channels"),
    }
    assert problem.dataflows == ("free", "weights", "sums")
    assert (problem.level.name, problem.units_per_pj) == ("DRAM", 100)
    assert len(problem.mapspaces) == 8


def test_constraints_and_lowerings_reach_the_mapspace(load):
    problem = load()
    shape = ConvolutionShape(2, 4, 2, 2, (2, 2))
    direct, shift = problem.mapspaces[shape, "direct"], problem.mapspaces[shape, "shift"]
    assert direct.keep[1].keep == {"Weights"}
    assert direct.keep[1].bypass == {"Inputs", "Outputs"}
    assert direct.problem.bound == {"R": 2, "S": 2, "P": 2, "Q": 2, "C": 2, "K": 4, "N": 1}
    assert shift.problem.bound == {"R": 2, "S": 2, "P": 4, "Q": 1, "C": 2, "K": 4, "N": 1}
    assert shift.temporal[0].outer == ("S", "R")
    assert {FactorRule("R", "=", 1), FactorRule("S", "=", 1)} <= set(shift.temporal[1].factors)
    ours = [(rule.dim, rule.relation, rule.value) for rule in shift.spatial[0].factors]
    assert ours == [("C", ">=", 2), ("S", "=", 1), ("R", "=", 1)]


def test_transitions_copy_what_changes_its_layout(load):
    problem = load()
    into_conv1, into_conv2, into_conv3, _, into_sum = problem.shaped.edges
    # 3 channels of 4 x 4 positions; the windows of 3 x 1 with stride 2 are 4 positions of 3 * 3 words.
    assert problem.transition(into_conv1) == {
        ("rows", "unfold"): Copy(36, 36),
        ("rows", "shift"): Copy(48, 48),
    }
    assert problem.transition(into_conv2) == {
        ("unfold", "direct"): Copy(24, 24),
        ("direct", "unfold"): Copy(24, 24),
        ("shift", "unfold"): Copy(24, 24),
    }
    # One of two channels; four windows of four words each, unfolded from whatever layout.
    assert problem.transition(into_conv3)["unfold", "unfold"] == Copy(4, 16)
    assert problem.transition(into_conv3)["unfold", "direct"] == Copy(4, 4)
    assert problem.transition(into_sum) == {
        ("direct", "channels"): Copy(16, 16),
        ("unfold", "rows"): Copy(16, 16),
        ("shift", "channels"): Copy(16, 16),
    }
    assert isinstance(into_sum, ShapedEdge)


def test_levels_leak_while_a_copy_takes_its_time(load):
    assert load().copy_leakage == 0
    problem = load(
        ARCHITECTURE.replace("12.25, leak: 0", "12.25, leak: 1.5").replace("2.5, leak: 0", "2.5, leak: 2")
    )
    assert problem.copy_leakage == (1.5 + 2) * problem.units_per_pj


def test_sections_for_other_cost_models_are_noted(load):
    network = NETWORK.replace("name: small", "name: small\n  unit: ms\n  cost_model: {name: other}")
    notes = [*map(str, load(network=network).notes)]
    assert [note.split(": ", 1)[1] for note in notes] == [
        "`cost_model` is not used; the mapper finds the costs",
        "`unit` is not used; the mapper finds the costs",
    ]


def test_a_mapping_of_the_architecture_is_noted(load):
    (note,) = map(str, load(architecture=ARCHITECTURE + "mapping: []\n").notes)
    assert note.endswith("the `mapping` of the architecture does not constrain the layers of a network")


def test_the_objective_of_the_architecture_is_noted(load):
    own = "mapper: {optimization_metrics: [latency]}\n"
    (note,) = map(str, load(architecture=ARCHITECTURE + own).notes)
    assert note.endswith("`mapper` does not choose the objective of an assignment")


def test_variables_that_no_file_uses_are_noted(load):
    load()
    Path("m.yaml").write_text("# {{ depth }}\n" + METHODS, encoding="utf-8")
    problem = load_method_network(["a.yaml", "n.yaml"], "m.yaml", {"depth": 1, "dept": 2})
    (note,) = problem.notes
    assert note.text == "no template uses the variable `dept`; did you mean `depth`?"


def test_constraints_of_the_architecture_stay(load):
    own = "constraints: [{target: DRAM, type: temporal, factors: [K=1]}]\n"
    problem = load(architecture=ARCHITECTURE + own)
    for mapspace in problem.mapspaces.values():
        rules = [(rule.dim, rule.relation, rule.value) for rule in mapspace.temporal[0].factors]
        assert ("K", "=", 1) in rules


@pytest.mark.parametrize(
    ("changed", "old", "new", "message", "place"),
    [
        ("methods", "lowering: direct", "lowering: dirct", "unknown lowering `dirct`", "m.yaml:8:30"),
        ("methods", "dataflow: weights,", "dataflow: none,", "unknown dataflow `none`", "m.yaml:8:48"),
        ("methods", "output_layout: rows}", "output_layout: row}", "unknown layout `row`", "m.yaml:8:92"),
        ("methods", "name: unfold", "name: direct", "two methods are named `direct`", "m.yaml:9:5"),
        ("methods", "layouts: [rows, channels]", "layouts: []", "`layouts` must not be empty", "m.yaml:2:12"),
        ("methods", "free: []", "free: 1", "dataflow `free` must be a list of constraints", "m.yaml:4:11"),
        ("methods", "target: PE", "target: PA", "unknown level `PA`", "m.yaml:6:21"),
        ("methods", "dataflow: weights, ", "", "method `direct` is missing the key `dataflow`", "m.yaml:8:5"),
        ("methods", "methods:", "method:", "unknown key `method` in a file of methods", "m.yaml:1:1"),
        ("network", "methods: [rows]", "methods: [columns]", "unknown layout `columns`", "n.yaml:4:73"),
        ("network", "kernel: 2}", "kernel: 2}, methods: [wino]", "unknown method `wino`", "n.yaml:7:102"),
        ("network", "in_channels: 2", "in_channels: 0", "`in_channels` of layer `conv3`", "n.yaml:7:39"),
        (
            "network",
            "height: 2, width: 3",
            "height: 99999, width: 99999",
            "makes a dimension of",
            "n.yaml:6:5",
        ),
        ("network", "network:", "problem:", "no network is given", ""),
        ("architecture", "architecture:", "architectur:", "unknown top-level key", "a.yaml:1:1"),
        (
            "architecture",
            "architecture:",
            "problem: {}\narchitecture:",
            "`problem` does not belong here",
            "a.yaml:1:1",
        ),
        ("architecture", "architecture:", "network:", "no architecture is given", ""),
    ],
)
def test_bad_input_is_shown_where_it_is(load, changed, old, new, message, place):
    texts = {"architecture": ARCHITECTURE, "methods": METHODS, "network": NETWORK}
    assert old in texts[changed]
    with pytest.raises(SpecError) as error:
        load(**{changed: texts[changed].replace(old, new, 1)})
    assert message in str(error.value)
    assert place in str(error.value)


def test_an_order_that_kn2row_would_break_is_refused(load):
    own = "constraints: [{target: DRAM, type: temporal, permutation: [R, S, P, Q, C, K, N]}]\n"
    with pytest.raises(SpecError) as error:
        load(architecture=ARCHITECTURE + own)
    assert "method `shift` cannot run its products one after the other: the order of `R` at `DRAM`" in str(
        error.value
    )
    assert "m.yaml:10:5" in str(error.value)


def test_a_network_without_layers_to_map_is_refused(load):
    network = "network:\n  layers:\n  - {name: a, tensor: {channels: 1, height: 1, width: 1}}\n"
    with pytest.raises(SpecError, match="no layer to map"):
        load(network=network)
