"""Specs with a mapping written into them: what is removed, what stays, and their costs."""

import re
import textwrap

import pytest

from model.formats.timeloop import LoadOptions, load_timeloop
from model.formats.timeloop.document import LEFT_OUT
from model.formats.timeloop.loops import CHOICES
from model.formats.timeloop.mapped import mapped_spec
from model.text.source import MappingNode, to_plain
from tests.conftest import REPOSITORY
from tests.model.formats.timeloop.support import (
    ARRAY,
    BUFFER,
    DRAM,
    MAC,
    PROBLEM,
    SPAD,
    architecture,
    constrained,
    load,
    spec,
)

SPECS = REPOSITORY / "specs"


def mapped(text, **options):
    return to_plain(mapped_spec(load(text, **options)))


def leaf(document, name):
    return next(node for node in document["architecture"]["nodes"] if node["name"] == name)


def arch_with(node, constraints):
    nodes = (
        constrained(own, constraints) if own is node else own for own in (DRAM, BUFFER, ARRAY, SPAD, MAC)
    )
    return architecture(*nodes)


@pytest.mark.parametrize(
    "choice",
    [
        "factors: [P=1]",
        "permutation: [P, R]",
        "factors_only: [P=4]",
        "no_iteration_over_dataspaces: [Weights]",
        "must_iterate_over_dataspaces: [Weights]",
        "maximize_dims: [[K]], maximize_dims_capacity: 4",
        "default_max_factor: 4",
        "default_min_factor: 1",
        "remainders: 1",
    ],
)
def test_choices_go_and_flags_stay(choice):
    flagged = arch_with(BUFFER, f"{{temporal: {{{choice}, no_reuse: [Inputs]}}}}")
    assert leaf(mapped(spec(arch=flagged)), "buffer")["constraints"] == {"temporal": {"no_reuse": ["Inputs"]}}
    bare = mapped(spec(arch=arch_with(BUFFER, f"{{temporal: {{{choice}}}}}")))
    assert "constraints" not in leaf(bare, "buffer")


def test_a_fanout_keeps_its_flags():
    asked = "factors: [K=4], permutation: [K, C], split: 1, no_reuse: [Inputs], no_link_transfer: '*'"
    found = mapped(spec(arch=arch_with(ARRAY, f"{{spatial: {{{asked}}}}}")))
    assert leaf(found, "PE")["constraints"] == {"spatial": {"no_reuse": ["Inputs"], "no_link_transfer": "*"}}
    assert leaf(found, "PE")["spatial"] == {"meshX": 4, "meshY": 2}


def test_kept_dataspaces_stay():
    asked = "{dataspace: {keep_only: [Weights], no_coalesce: []}, temporal: , min_parallelism: }"
    found = mapped(spec(arch=arch_with(SPAD, asked)))
    assert leaf(found, "spad")["constraints"] == {"dataspace": {"keep_only": ["Weights"], "no_coalesce": []}}


def test_the_least_parallelism_goes_wherever_it_stands():
    asked = "{parallelism: {min: 0.5}, max_overbooked_proportion: {proportion: 0.1}}"
    assert "constraints" not in leaf(mapped(spec(arch=arch_with(SPAD, asked))), "spad")
    sections = """\
    constraints: {min_parallelism: 0.5, targets: []}
    constraints_II: [{target: spad, type: max_overbooked_proportion, proportion: 0.1}]
    """
    found = mapped(spec(sections))
    assert (found["constraints"], found["constraints_II"]) == ({"targets": []}, [])


def test_sections_of_targets_keep_what_counts():
    sections = """\
    architecture_constraints:
      version: 0.4
      targets:
      - {target: buffer, type: temporal, factors: [P=1]}
      - {target: buffer, type: temporal, permutation: [R, P], rmw_first_update: [Outputs]}
      - {target: PE, type: spatial, split: 1, version: 0.4}
      - {target: spad, type: bypass, keep: [Weights], bypass: [Inputs]}
      - {target: inter_PE_spatial, type: temporal, factors: [P=1], permutation: [P]}
    mapspace_constraints:
    """
    found = mapped(spec(sections))
    assert found["architecture_constraints"] == {
        "version": 0.4,
        "targets": [
            {"target": "buffer", "type": "temporal", "rmw_first_update": ["Outputs"]},
            {"target": "spad", "type": "bypass", "keep": ["Weights"], "bypass": ["Inputs"]},
        ],
    }
    assert found["mapspace_constraints"] is None


def test_branches_are_looked_into():
    inner = textwrap.indent(constrained(SPAD, "{temporal: {factors: [P=1]}}"), "    ")
    nested = architecture(DRAM, f"  - !Hierarchical\n    nodes:\n{inner}", MAC)
    (_, branch, _) = mapped(spec(arch=nested))["architecture"]["nodes"]
    assert [list(node) for node in branch["nodes"]] == [["name", "class", "attributes", "energy"]]


def test_mappings_and_anchors_go_and_other_sections_stay():
    sections = """\
    ignore_this: {a: 1}
    mapping: []
    mapper: {optimization_metrics: [energy], num_threads: 8}
    variables: {WIDTH: 4 * 2}
    """
    found = mapped(spec(sections))
    assert list(found) == ["problem", "architecture", "mapper", "variables", "ERT", "ART"]
    assert found["variables"] == {"WIDTH": "4 * 2"}


def test_tags_stay():
    nodes = mapped_spec(load(spec())).get("architecture").get("nodes")
    assert [node.tag for node in nodes.items] == [
        "!Component",
        "!Component",
        "!Container",
        *["!Component"] * 2,
    ]


def test_a_shape_that_is_named_is_written_out():
    loaded = load_timeloop([SPECS / "architectures" / "smv_like.yaml", SPECS / "problems" / "gemm.yaml"])
    found = to_plain(mapped_spec(loaded))["problem"]
    assert found["shape"]["name"] == "gemm"
    assert found["instance"] == to_plain(loaded.document)["problem"]["instance"]


def test_the_stride_that_was_meant_is_the_one_that_is_written():
    merged = PROBLEM.replace(
        "  instance: {R: 3, P: 16, C: 4, K: 8}\n",
        "  instance: {<<: *defaults, R: 3, P: 16, C: 4, K: 8, STRIDE: 2, H: 7}\n",
    )
    loaded = load(f"ignore: &defaults {{Stride: 1, Dilation: 1}}\n{merged}{architecture()}")
    found = to_plain(mapped_spec(loaded))["problem"]["instance"]
    assert found == {"R": 3, "P": 16, "C": 4, "K": 8, "H": 7, "Stride": 2, "Dilation": 1}


def test_nothing_else_is_changed():
    loaded = load(spec())
    assert mapped_spec(loaded).entries[:-2] == loaded.document.entries


@pytest.mark.parametrize("path", sorted((SPECS / "architectures").glob("*.yaml")), ids=lambda path: path.stem)
def test_shipped_architectures_are_left_without_choices(path):
    loaded = load_timeloop(
        [path, SPECS / "layers" / "resnet18" / "21_fc.yaml"], options=LoadOptions(refuse_infeasible=False)
    )
    assert not set(_keys(mapped_spec(loaded).get("architecture"))) & set(CHOICES)


def _keys(node):
    if isinstance(node, MappingNode):
        for key, value in node.entries:
            yield key.text
            yield from _keys(value)
    for item in getattr(node, "items", ()):
        yield from _keys(item)


def test_prices_replace_those_of_the_spec():
    table = "{name: buffer, actions: [{name: read, energy: 3}, {name: write, energy: 4}]}"
    node = re.sub("    energy: .*\n", "", BUFFER)
    others = "{name: wires, actions: []}"
    text = spec(f"ERT: {{version: 0.4, tables: [{table}, {others}]}}\n", arch=architecture(DRAM, node, MAC))
    found = mapped(text)
    assert {entry["name"] for entry in found["ERT"]["tables"]} == {"DRAM", "buffer", "mac"}
    (buffer,) = (entry for entry in found["ERT"]["tables"] if entry["name"] == "buffer")
    energies = {action["name"]: action["energy"] for action in buffer["actions"]}
    assert energies == {"read": 3, "write": 4, "update": 4, "leak": 0}
    assert found["ART"]["tables"] == [{"name": "unknown_areas", "area": 0}]


def test_unknown_prices_are_no_zeros():
    cell = "  - !Component {name: cell, class: compute, subclass: optical_dot}\n"
    text = spec("mapper: {optimization_metrics: [delay]}\n", arch=architecture(DRAM, cell))
    assert [entry["name"] for entry in mapped(text)["ERT"]["tables"]] == ["DRAM"]


def test_what_is_left_out_is_listed():
    arch = architecture(DRAM, constrained(BUFFER, "{temporal: {factors: [R=3], permutation: [R]}}"), MAC)
    targets = "[{target: buffer, type: dataspace, keep: [Inputs]}]"
    found = mapped(spec(f"constraints: {{min_parallelism: 0.1, targets: {targets}}}\n", arch=arch))
    assert found[LEFT_OUT] == [
        "factors of buffer (temporal)",
        "permutation of buffer (temporal)",
        "min_parallelism",
    ]
    assert LEFT_OUT not in mapped(spec())
