"""Specs of Timeloop's versions 0.1 to 0.3: what they mean, and counts that Timeloop printed."""

import pytest

from model.architecture import Fanout, StorageLevel
from model.cost import Evaluation, evaluate
from model.formats.timeloop import LoadedSpec
from model.formats.timeloop.mapped import mapped_spec
from model.text.composer import compose
from model.text.limits import Limits
from model.text.source import Document, MappingNode
from model.text.writing import spec_text
from tests.model.formats.timeloop.support import assert_fails, failure, load, marked

PRODUCT = """\
problem:
  shape:
    name: product
    dimensions: [M, N, K]
    data-spaces:
    - {name: A, projection: [[[M]], [[K]]]}
    - {name: B, projection: [[[K]], [[N]]]}
    - {name: Z, projection: [[[M]], [[N]]], read-write: true}
  instance: {M: 8, N: 8, K: 16}
"""
TREE = """\
architecture:
  version: 0.3
  subtree:
  - name: board
    local:
    - {name: main, class: DRAM, attributes: {width: 64, word-bits: 16}}
    subtree:
    - name: chip
      attributes: {technology: 45nm}
      local:
      - {name: buffer, class: SRAM, attributes: {depth: 128, width: 64, block-size: 4, word-bits: 16}}
      subtree:
      - name: PE[0..15]
        local:
        - {name: regs, class: regfile, attributes: {depth: 8, width: 16, word-bits: 16, meshX: 8}}
        - {name: mac, class: intmac, attributes: {datawidth: 16, meshX: 8}}
"""


def read(text: str, **options: object) -> LoadedSpec:
    """Read a spec; its energies do not matter."""
    return load(text, objectives=("latency",), **options)


def mapped(text: str) -> Evaluation:
    """Price the mapping in a spec by Timeloop's rule."""
    loaded = read(text, require_mapping=True, counting="timeloop", refuse_unsearchable=False)
    assert loaded.mapping is not None
    return evaluate(loaded.mapspace.problem, loaded.mapspace.architecture, loaded.mapping, "timeloop")


def counts(found: Evaluation) -> dict[str, dict[str, tuple[int, int, int]]]:
    """Return reads, fills and updates of one instance, by level and dataspace."""
    return {
        level.name: {space.dataspace: (space.reads, space.fills, space.updates) for space in level.dataspaces}
        for level in found.levels
    }


def nodes(loaded: LoadedSpec) -> list[tuple[object, ...]]:
    """Return the nodes of an architecture: storages with their words and blocks, fanouts with their mesh."""
    return [
        (node.name, node.size_words, node.block_size, node.cluster_size)
        if isinstance(node, StorageLevel)
        else (node.name, node.mesh_x, node.mesh_y)
        for node in loaded.mapspace.architecture.nodes
    ]


def notes(loaded: LoadedSpec) -> str:
    return "\n".join(note.text for note in loaded.notes)


def test_trees_and_totals_become_nodes_and_fanouts():
    loaded = read(PRODUCT + TREE)
    assert nodes(loaded) == [("main", None, 4, 1), ("buffer", 512, 4, 1), ("PE", 8, 2), ("regs", 8, 1, 1)]
    assert loaded.mapspace.architecture.name == "board"
    assert "this architecture has version 0.3 of Timeloop's format" in notes(loaded)


@pytest.mark.parametrize(
    ("old", "new", "fanout"),
    [
        ("meshX: 8", "meshX: 4", ("PE", 4, 4)),
        (", meshX: 8", "", ("PE", 16, 1)),
        ("meshX: 8", "meshY: 8", ("PE", 2, 8)),
        ("meshX: 8", "meshX: 2, meshY: 8", ("PE", 2, 8)),
        ("PE[0..15]", "PE[16..31]", ("PE", 8, 2)),
        ("PE[0..15]", "PE[ 0 .. 15 ]", ("PE", 8, 2)),
        ("meshX: 8", "meshX: 4, instances: 32", ("PE", 4, 8)),
    ],
)
def test_how_all_instances_are_laid_out(old, new, fanout):
    assert nodes(read(PRODUCT + TREE.replace(old, new)))[2] == fanout


def test_ranges_of_components_and_trees_multiply():
    text = TREE.replace("name: regs,", 'name: "regs[0..3]",').replace("name: mac,", 'name: "mac[0..7]",')
    loaded = read(PRODUCT + text)
    assert nodes(loaded)[2:] == [("PE", 8, 8), ("regs", 8, 1, 1), ("inter_mac_spatial", 1, 2)]
    assert loaded.mapspace.architecture.compute.name == "mac"


def test_the_compute_unit_is_innermost_wherever_it_stands():
    text = TREE.replace("        - {name: mac, class: intmac, attributes: {datawidth: 16, meshX: 8}}\n", "")
    mac = "        - {name: mac, class: mac, attributes: {datawidth: 16, meshX: 8}}\n"
    loaded = read(PRODUCT + text.replace("        - {name: regs", mac + "        - {name: regs"))
    assert nodes(loaded) == nodes(read(PRODUCT + TREE))


@pytest.mark.parametrize(
    ("old", "new", "message", "mark"),
    [
        (
            "meshX: 8}}\n        - {name: mac",
            "meshX: 5}}\n        - {name: mac",
            "which meshX 5 cannot lay out",
            "5",
        ),
        (
            "meshX: 8}}\n        - {name: mac",
            "meshX: 16}}\n        - {name: mac",
            "no multiple of the 16",
            "8",
        ),
        ("PE[0..15]", "PE[0..n]", "a range that is not two numbers", "PE[0..n]"),
        ("PE[0..15]", "PE[15..0]", "is empty", "PE[15..0]"),
        (
            "      subtree:\n      - name: PE",
            "      subtree:\n      - name: other\n      - name: PE",
            "several",
            None,
        ),
        ("class: intmac, ", "", "missing the key `class`", None),
    ],
)
def test_what_is_no_architecture_is_marked(old, new, message, mark):
    assert old in TREE
    assert_fails(PRODUCT + TREE.replace(old, new), message, mark)


def test_a_spatial_target_means_the_fanout_below():
    constraints = """\
architecture_constraints:
  targets:
  - {target: buffer, type: spatial, factors: M=1 K=8, permutation: KMN, split: 1}
  - {target: regs, type: bypass, keep: [B], bypass: [A, Z]}
mapspace_constraints:
- {target: main, type: temporal, permutation: KM N, factors: N=0}
- {target: buffer, type: datatype, keep: [A, Z]}
"""
    mapspace = read(PRODUCT + TREE + constraints).mapspace
    assert [str(rule.value) for rule in mapspace.spatial[0].factors] == ["1", "8"]
    assert mapspace.spatial[0].split == 1
    assert mapspace.keep[2].bypass == {"A", "Z"}
    assert mapspace.temporal[0].inner == ("K", "M", "N")
    assert mapspace.temporal[0].factors[0].value == 8


@pytest.mark.parametrize(
    "section",
    [
        "mapspace: {constraints: [%s]}\n",
        "mapspace: {template: uber, constraints: [%s]}\n",
        "mapspace: {targets: [%s]}\n",
        "mapspace: [%s]\n",
        "mapspace: {constraints: mine, constraints_mine: [%s]}\n",
        "arch_constraints: [%s]\n",
        "constraints: {version: 0.2, targets: [%s]}\n",
    ],
)
@pytest.mark.parametrize(
    "target",
    [
        "{target: regs, type: temporal, factors: K=4}",
        "{target: 0, type: temporal, factors: K4}",
        "{target: regs, constraints: [{type: temporal, factors: K=4}]}",
        "{target: regs, constraints: [{type: temporal, attributes: {factors: K=4}}]}",
        "{name: regs, type: temporal, factors: K = 4, permutation: , split: 3}",
    ],
)
def test_constraints_in_all_their_places(section, target):
    mapspace = read(PRODUCT + TREE + section % target).mapspace
    assert [(rule.dim, rule.value) for rule in mapspace.temporal[2].factors] == [("K", 4)]


def test_named_constraints_that_there_are_not():
    error = failure(PRODUCT + TREE + "mapspace: {constraints: mine}\n")
    assert error.message == "there are no constraints `constraints_mine`"


def test_factors_beyond_their_dimension_are_passed_over():
    text = PRODUCT + TREE + "constraints: [{target: regs, type: temporal, factors: K=64 M=2}]\n"
    loaded = read(text)
    assert [(rule.dim, rule.value) for rule in loaded.mapspace.temporal[2].factors] == [("M", 2)]
    assert "`K=64` of `regs` has no effect, as in Timeloop: K is only 16" in notes(loaded)


def test_words_are_of_16_bits_unless_something_says_otherwise():
    plain = TREE.replace(", word-bits: 16", "").replace("datawidth: 16, ", "")
    loaded = read(PRODUCT + plain)
    assert nodes(loaded) == nodes(read(PRODUCT + TREE))
    assert "the words of `main`, `buffer`, `regs` and `mac` have 16 bits" in notes(loaded)
    inherited = plain.replace("technology: 45nm", "technology: 45nm, word-bits: 8")
    assert nodes(read(PRODUCT + inherited))[3] == ("regs", 16, 2, 1)


@pytest.mark.parametrize(
    ("attributes", "node"),
    [
        ("depth: 8, width: 64, block-size: 1, word-bits: 16, meshX: 8", ("regs", 8, 1, 4)),
        ("depth: 8, width: 64, cluster-size: 2, word-bits: 16, meshX: 8", ("regs", 16, 2, 2)),
        ("depth: 8, width: 16, block-size: 1, cluster-size: 16, word-bits: 16, meshX: 8", ("regs", 8, 1, 16)),
        ("depth: 8, width: 24, cluster_size: 16, word_bits: 24, meshX: 8", ("regs", 8, 1, 16)),
        ("entries: 6, depth: 9, word-bits: 16, meshX: 8", ("regs", 6, 1, 1)),
        ("depth: 5, data_storage_depth: 9, width: 16, word-bits: 16, meshX: 8", ("regs", 5, 1, 1)),
        ("sizeKB: 1, word_width: 8, datawidth: 32, meshX: 8", ("regs", 1024, 1, 1)),
    ],
)
def test_attributes_count_as_in_timeloop(attributes, node):
    text = TREE.replace("depth: 8, width: 16, word-bits: 16, meshX: 8", attributes)
    assert nodes(read(PRODUCT + text))[3] == node


def test_what_is_left_out_is_noted():
    text = TREE.replace(
        "      - {name: buffer",
        "      - {name: noc, class: XY_NoC}\n      - {name: pads, class: io_pads}\n      - {name: buffer",
    ).replace("word-bits: 16}}", "word-bits: 16, network-word-bits: 8}}", 1)
    said = notes(read(PRODUCT + text + "model: {verbose: true}\n"))
    assert "networks are not modelled, so these have no effect: `main` and `noc`" in said
    assert "neither a storage nor a compute unit: `pads`" in said
    assert "`model` controls Timeloop's programs" in said


def test_truth_values_of_yaml_1_1():
    text = TREE.replace("meshX: 8}}", "meshX: 8, reduction_supported: yes}}", 1)
    assert nodes(read(PRODUCT + text)) == nodes(read(PRODUCT + TREE))


LIST = """\
arch:
  arithmetic: {name: MACs, instances: 16, meshX: 8, word-bits: 16}
  storage:
  - {name: regs, entries: 8, instances: 16, meshX: 8, word-bits: 16}
  - {name: buffer, sizeKB: 1, instances: 1, word-bits: 16, block-size: 4}
  - {name: main, technology: DRAM, instances: 1, word-bits: 16, block-size: 4}
  constraints:
  - {target: regs, type: utilization, min: 0.5}
"""


def test_lists_of_version_0_1():
    loaded = load(PRODUCT + LIST)
    mesh = ("inter_regs_spatial", 8, 2)
    assert nodes(loaded) == [("main", None, 4, 1), ("buffer", 512, 4, 1), mesh, ("regs", 8, 1, 1)]
    assert loaded.mapspace.architecture.compute.name == "MACs"
    assert loaded.mapspace.min_parallelism == 8
    assert "this architecture has version 0.1" in notes(loaded)
    assert "estimated for 45nm" in notes(loaded)


def test_ports_and_banks_of_version_0_1_have_no_effect():
    text = LIST.replace("entries: 8,", "entries: 8, num-ports: 2, num-banks: 8,")
    loaded = load(PRODUCT + text)
    assert nodes(loaded) == nodes(load(PRODUCT + LIST))
    assert "`num_ports` and `num_banks` of storages of version 0.1 have no effect" in notes(loaded)


def test_a_list_needs_instances():
    assert_fails(
        PRODUCT + LIST.replace("instances: 16, meshX: 8, word", "meshX: 8, word", 1), "how many", "MACs"
    )


@pytest.mark.parametrize(
    "problem",
    [
        "problem: {shape: cnn-layer, R: 3, S: 1, P: 4, Q: 4, C: 2, K: 2, N: 1, Wstride: 2}\n",
        "problem: {shape: cnn_layer, R: 3, S: 1, P: 4, Q: 4, C: 2, K: 2, N: 1, Wstride: 2}\n",
        "problem: {R: 3, S: 1, P: 4, Q: 4, C: 2, K: 2, N: 1, Wstride: 2}\n",
        "shape: cnn-layer\ninstance: {R: 3, S: 1, P: 4, Q: 4, C: 2, K: 2, N: 1, Wstride: 2}\n",
        "problem:\n  version: 0.2\n  shape: cnn-layer\n"
        "  instance: {version: 0.3, R: 3, S: 1, P: 4, Q: 4, C: 2, K: 2, N: 1, Wstride: 2}\n",
    ],
)
def test_problems_in_all_their_places(problem):
    found = read(problem + TREE).mapspace.problem
    assert found.bound == {"R": 3, "S": 1, "P": 4, "Q": 4, "C": 2, "K": 2, "N": 1}
    assert [term.coefficient for term in found.dataspace("Inputs").ranks[2]] == [1, 2]


def test_data_spaces_beside_the_bounds():
    text = "problem:\n  dimensions: [M, K]\n  data-spaces:\n  - {name: A, projection: [[[M]], [[K]]]}\n"
    text += "  - {name: Z, projection: [[[M]]], read-write: true}\n  instance: {M: 4, K: 4}\n"
    assert read(text + TREE).mapspace.problem.bound == {"M": 4, "K": 4}
    top = text.replace("problem:\n", "").replace("\n  ", "\n")[2:]
    assert read(top + TREE).mapspace.problem.bound == {"M": 4, "K": 4}


def test_a_mapping_without_orders_follows_the_problem():
    text = PRODUCT + TREE + "mapping:\n- {target: main, type: temporal, factors: K2 N8 M8}\n"
    text += "- {target: buffer, type: spatial, factors: K8}\n"
    loaded = read(text, require_mapping=True)
    assert [loop.dim for loop in loaded.mapping.nodes[0].temporal] == ["M", "N", "K"]
    assert "they follow the problem's dimensions" in notes(loaded)


CONVOLUTION = """\
problem:
  shape:
    name: conv
    dimensions: [C, K, R, P]
    data-spaces:
    - {name: Weights, projection: [[[C]], [[K]], [[R]]]}
    - {name: Inputs, projection: [[[C]], [[R], [P]]]}
    - {name: Outputs, projection: [[[K]], [[P]]], read-write: True}
  instance: {C: 32, K: 32, R: 3, P: 16}
architecture:
  version: 0.2
  subtree:
  - name: s
    local: [{name: far, class: DRAM, attributes: {width: 256, block-size: 32, word-bits: 8}}]
    subtree:
    - name: c
      attributes: {technology: 40nm}
      local: [{name: near, class: SRAM, attributes: {depth: 8192, width: 256, block-size: 32, word-bits: 8}}]
      subtree:
      - name: p
        local:
        - {name: "rf[0..15]", class: regfile, attributes: {depth: 64, width: 8, block-size: 1, word-bits: 8}}
        - {name: "mac[0..15]", class: intmac, attributes: {datawidth: 8}}
mapping:
- {target: far, type: temporal, factors: R=1 P=1 K=1 C=1, permutation: PRKC}
- {target: near, type: temporal, factors: R=3 P=1 %s, permutation: PRKC}
- {target: near, type: spatial, factors: R=1 P=1 %s, permutation: PRKC}
- {target: rf, type: temporal, factors: R=1 P=16 K=1 C=1, permutation: RPKC}
"""


@pytest.mark.parametrize(
    ("temporal", "spatial", "inputs", "near", "rf"),
    [
        ("K=32 C=2", "K=1 C=16", (18432, 576, 0), (512, 1024), (2560, 3072)),
        ("K=2 C=32", "K=16 C=1", (1152, 576, 0), (15872, 16384), (3040, 3072)),
    ],
)
def test_counts_that_timeloop_printed_for_16_units(temporal, spatial, inputs, near, rf):
    """A published exercise of the tool's authors: dense, two levels and an array, both ways to unroll."""
    found = mapped(CONVOLUTION % (temporal, spatial))
    by_level = counts(found)
    assert found.cycles == 3072
    assert by_level["near"]["Weights"] == (3072, 3072, 0)
    assert by_level["near"]["Inputs"] == inputs
    assert by_level["rf"]["Weights"] == (3072, 192, 0)
    assert by_level["rf"]["Inputs"] == (3072, 1152, 0)
    # Timeloop of that time also counted first fills of outputs.
    assert [by_level[name]["Outputs"][::2] for name in ("near", "rf")] == [near, rf]


ROWS = """\
problem:
  shape:
    name: conv
    dimensions: [C, M, R, S, N, P, Q]
    data-spaces:
    - {name: Weights, projection: [[[C]], [[M]], [[R]], [[S]]]}
    - {name: Inputs, projection: [[[N]], [[C]], [[R], [P]], [[S], [Q]]]}
    - {name: Outputs, projection: [[[N]], [[M]], [[Q]], [[P]]], read-write: True}
  instance: {C: 256, M: 384, R: 3, S: 3, N: 4, P: 13, Q: 13}
architecture:
  version: 0.3
  subtree:
  - name: rows
    attributes: {technology: 45nm}
    local:
    - {name: far, class: DRAM, attributes: {width: 64, datawidth: 16, block-size: 4}}
    - name: glb
      class: smartbuffer_metadata
      attributes: {data_storage_depth: 12800, data_storage_width: 64, block-size: 4,
        read_bandwidth: 16, write_bandwidth: 16}
    - {name: "column[0..13]", class: storage, subclass: SRAM,
      attributes: {entries: 0, depth: 0, width: 16, datawidth: 16, meshX: 14}}
    subtree:
    - name: PE[0..167]
      local:
      - {name: i, class: smartbuffer,
        attributes: {data_storage_depth: 12, data_storage_width: 17, datawidth: 17, meshX: 14}}
      - {name: w, class: smartbuffer,
        attributes: {data_storage_depth: 224, data_storage_width: 16, datawidth: 16, meshX: 14}}
      - {name: o, class: smartbuffer,
        attributes: {data_storage_depth: 24, data_storage_width: 16, datawidth: 16, meshX: 14}}
      - {name: macs, class: mac, attributes: {datawidth: 16, meshX: 14}}
mapping:
- {target: far, type: temporal, factors: R=1 S=1 P=1 C=64 M=6 N=1 Q=1, permutation: RSP CMNQ}
- {target: glb, type: spatial, factors: N=1 C=1 P=1 R=1 S=1 Q=0 M=1, permutation: NCPRSQM, split: 7}
- {target: glb, type: temporal, factors: Q=1 R=1 S=1 P=0 C=1 N=4 M=1, permutation: QRSC PNM}
- {target: glb, type: bypass, bypass: [Weights], keep: [Inputs, Outputs]}
- {target: column, type: bypass, bypass: [Inputs, Outputs, Weights]}
- {target: column, type: spatial, factors: N=1 P=1 Q=1 R=1 S=0 C=1 M=4, permutation: NPQR SCM, split: 4}
- {target: i, type: bypass, bypass: [Weights, Outputs], keep: [Inputs]}
- {target: w, type: temporal, factors: N=1 M=1 P=1 Q=1 S=1 R=0 C=4, permutation: NMPQS CR}
- {target: w, type: bypass, bypass: [Inputs, Outputs], keep: [Weights]}
- {target: o, type: temporal, factors: N=1 C=1 R=1 S=1 P=1 Q=1 M=16, permutation: NCPQRS M}
- {target: o, type: bypass, bypass: [Inputs, Weights], keep: [Outputs]}
"""


def test_counts_that_timeloop_printed_for_a_row_stationary_array():
    """A published artifact of other authors: a dense layer of AlexNet on an array of 14 x 12."""
    found = mapped(ROWS)
    by_level = counts(found)
    assert found.cycles == 3_833_856
    assert by_level["o"]["Outputs"][::2] == (3_828_864, 3_833_856)
    assert by_level["w"]["Weights"] == (3_833_856, 73_728, 0)
    assert by_level["i"]["Inputs"] == (3_833_856, 92_160, 0)
    assert by_level["glb"]["Inputs"][0] == 3_594_240
    assert by_level["column"] == {}


SQUARE = """\
problem:
  shape:
    name: conv
    dimensions: [C, M, R, S, N, P, Q]
    data-spaces:
    - {name: Weights, projection: [[[C]], [[M]], [[R]], [[S]]]}
    - {name: Inputs, projection: [[[N]], [[C]], [[R], [P]], [[S], [Q]]]}
    - {name: Outputs, projection: [[[N]], [[M]], [[Q]], [[P]]], read-write: true}
  instance: {C: 512, M: 2112, N: 1, P: 7, Q: 7, R: 1, S: 1}
architecture:
  bank: 1
  version: 0.3
  subtree:
  - name: s
    local:
    - {name: far, class: DRAM,
      attributes: {block-size: 1, width: 8, word-bits: 8, read_bandwidth: 21.73, write_bandwidth: 10.83}}
    subtree:
    - name: simd
      attributes: {technology: 40nm}
      local: [{name: L2, class: regfile,
        attributes: {depth: 883993600, width: 8, word-bits: 8, read_bandwidth: 64, write_bandwidth: 32}}]
      subtree:
      - name: core
        local: [{name: L1, class: regfile,
          attributes: {depth: 250890000, data_storage_depth: 640, width: 8, word-bits: 8}}]
        subtree:
        - name: row[0..31]
          subtree:
          - name: PE[0..31]
            local:
            - {name: buffer, class: regfile, attributes: {depth: 25089000, width: 8, word-bits: 8}}
            - {name: mac, class: intmac, attributes: {datawidth: 8}}
mapping:
- {target: far, type: temporal, factors: M=2, permutation: NCPMSQR}
- {target: L2, type: temporal, factors: M=33 C=16, permutation: NCMRQPS}
- {target: L1, type: temporal, factors: M=1 C=1, permutation: SRQPCMN}
- {target: L1, type: spatial, factors: M=32 C=32, permutation: SRPQCMN}
- {target: buffer, type: temporal, factors: P=7 Q=7, permutation: SRQPCMN}
"""


def test_cycles_that_timeloop_printed_for_1024_units():
    """A published design of a third group: ranges of two trees, and no mesh: all units lie along X."""
    found = mapped(SQUARE)
    assert found.cycles == 51_744
    loaded = read(SQUARE, require_mapping=True)
    fanouts = [node for node in loaded.mapspace.architecture.nodes if isinstance(node, Fanout)]
    assert [(node.name, node.mesh_x, node.mesh_y) for node in fanouts] == [("PE", 1024, 1)]
    assert "nothing reads `bank` of the architecture" in notes(loaded)


def test_a_mapped_spec_has_version_0_4():
    text = PRODUCT + TREE + "mapspace: {targets: [{target: regs, type: temporal, factors: K=2}]}\n"
    loaded = load(text)
    written = spec_text(mapped_spec(loaded))
    assert "subtree" not in written
    assert "0.3" not in written
    top = compose(Document.of("mapped.yaml", written), Limits())
    assert isinstance(top, MappingNode)
    again = load(written)
    assert nodes(again) == nodes(loaded)
    assert again.mapspace.architecture.units_per_pj == loaded.mapspace.architecture.units_per_pj


def test_messages_point_at_the_text_of_the_user():
    error = failure(PRODUCT + TREE.replace("depth: 128", "depth: -1"))
    assert (error.message, marked(error)) == ("`depth` must be at least 0, but is -1", "-1")


def test_flattened_specs_are_read():
    assert nodes(read("dumped_by_timeloop_front_end: true\n" + PRODUCT + TREE)) == nodes(read(PRODUCT + TREE))


def test_a_table_of_wires_beside_an_older_architecture():
    table = "ERT: {version: 0.3, tables: [{name: wire, actions: [{name: transfer_random, energy: 0.3}]}]}\n"
    assert "the ERT's table `wire` has no effect" in notes(read(PRODUCT + TREE + table))


@pytest.mark.parametrize("size", ["depth: 0, width: 16", "entries: 0", "sizeKB: 0", "depth: 0, width: 0"])
def test_a_storage_of_size_0_keeps_nothing(size):
    text = TREE.replace("depth: 8, width: 16", size)
    loaded = load(PRODUCT + text + "constraints: [{target: regs, type: bypass, bypass: [A, B, Z]}]\n")
    level = loaded.mapspace.architecture.levels[2]
    assert (level.size_words, level.energy.read, level.energy.leak_per_cycle) == (0, 0, 0)
    error = failure(PRODUCT + text + "constraints: [{target: regs, type: bypass, bypass: [A, B]}]\n")
    assert (error.message, marked(error)) == ("`regs` has the size 0, but may keep `Z`", "0")
    assert "bypass all dataspaces" in (error.hint or "")


def test_a_mapping_may_say_what_a_storage_of_size_0_bypasses():
    text = PRODUCT + TREE.replace("depth: 8", "depth: 0") + "mapping:\n"
    text += "- {target: buffer, type: temporal, factors: M8 N8 K16, permutation: KMN}\n"
    found = mapped(text + "- {target: regs, type: bypass, bypass: [A, B, Z]}\n")
    assert found.cycles == 1024
    assert failure(text, require_mapping=True, counting="timeloop").message.startswith(
        "`regs` has the size 0"
    )


SIZES = "bitwidths: {A: 4, B: 2, Z: 16}"
SIZED = PRODUCT.replace("K: 16}", f"K: 16, {SIZES}}}")
"""Registers of 16 bits a row, where each dataspace has values of its own size."""


def packings(loaded: LoadedSpec, level: str) -> list[tuple[object, ...]]:
    """Return what values of A, B and Z take of a level: a row, words, and accesses."""
    found = next(each for each in loaded.mapspace.architecture.levels if each.name == level)
    packing = [found.packing_of(name) for name in ("A", "B", "Z")]
    return [(each.block_size, each.size_per_value, each.accesses_per_block) for each in packing]


@pytest.mark.parametrize(
    "place",
    [
        ("K: 16}", f"K: 16, {SIZES}}}"),
        ("K: 16}", f"K: 16, {SIZES.replace('bitwidths', 'bit_widths')}}}"),
        ("  instance", f"  {SIZES}\n  instance"),
    ],
)
def test_values_of_each_dataspace_have_their_own_bits(place):
    text = PRODUCT.replace(*place)
    assert text != PRODUCT
    loaded = read(text + TREE)
    assert packings(loaded, "regs") == [(4, 2, 1), (8, 1, 1), (1, 8, 1)]
    assert packings(loaded, "buffer") == [(16, 2, 1), (32, 1, 1), (4, 8, 1)]
    assert [level.size_words for level in loaded.mapspace.architecture.levels] == [None, 4096, 64]


@pytest.mark.parametrize(
    ("sizes", "message", "mark"),
    [
        ("bitwidths: {A: 4, B: 2}", "`bitwidths` lacks `Z`", "bitwidths"),
        ("bitwidths: {A: 4, B: 2, Z: 16, Q: 1}", "unknown dataspace `Q`", "Q"),
        ("bitwidths: {A: 4, B: 0, Z: 16}", "bits of `B`", "0"),
        ("bitwidths: {A: 4, B: 2.5, Z: 16}", "bits of `B`", "2.5"),
        ("bitwidths: {A: 4, B: 2, Z: 5000}", "bits of `Z`", "5000"),
        ("bitwidths: 8", "`bitwidths`", "8"),
        (f"{SIZES}, bit_widths: {{A: 4, B: 2, Z: 16}}", "given twice", "bit_widths"),
    ],
)
def test_bits_that_are_no_bits(sizes, message, mark):
    assert_fails(SIZED.replace(SIZES, sizes) + TREE, message, mark)


def test_bits_beside_sparse_data():
    text = SIZED.replace("instance: {", "instance: {densities: {A: 0.5}, ") + TREE
    assert "not modelled beside sparse data" in failure(text, model_sparse=True).message
    assert packings(read(text, ignore_sparse=True), "regs") == packings(read(SIZED + TREE), "regs")


BLANKS = "constraints: [{target: buffer, type: temporal, permutation: %s}]\n"


@pytest.mark.parametrize("order", ["KM N", "K  MN", " KMN ", '"K MN"', "K M N", "[K, M, N]", '"K, M, N"'])
def test_blanks_in_permutations_do_not_count(order):
    for text in (PRODUCT + TREE, PRODUCT + TREE.replace("0.3", "0.2")):
        assert read(text + BLANKS % order).mapspace.temporal[1].inner == ("K", "M", "N")


def test_blanks_separate_names_of_several_letters():
    text = PRODUCT.replace("[M, N, K]", "[M, N, KM]").replace("[[K]]", "[[KM]]").replace("K: 16", "KM: 16")
    assert read(text + TREE + BLANKS % "KM N M").mapspace.temporal[1].inner == ("KM", "N", "M")
    said = notes(read(text + TREE + BLANKS % "KMN M"))
    assert "no dimension `KMN`; constraints on it have no effect; `KMN`: did you mean `KM`?" in said
