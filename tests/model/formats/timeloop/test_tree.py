"""The architecture's tree and attributes."""

from __future__ import annotations

from decimal import Decimal

import pytest

from model.architecture import Fanout, StorageLevel
from model.formats.timeloop.tree import NO_ATTRIBUTES, read_attributes, read_variables
from model.text.composer import compose
from model.text.limits import Limits
from model.text.source import Document, SpecError
from tests.model.formats.timeloop.support import (
    ARRAY,
    BUFFER,
    DRAM,
    MAC,
    SPAD,
    architecture,
    assert_fails,
    constrained,
    failure,
    load,
    marked,
    spec,
)


def nodes_of(*nodes: str) -> list[str]:
    return [node.name for node in load(spec(arch=architecture(*nodes))).mapspace.architecture.nodes]


def test_nodes_flatten_in_order():
    arch = load(spec()).mapspace.architecture
    assert [type(node) for node in arch.nodes] == [StorageLevel, StorageLevel, Fanout, StorageLevel]
    assert [node.name for node in arch.nodes] == ["DRAM", "buffer", "PE", "spad"]
    assert (arch.fanouts[0].mesh_x, arch.fanouts[0].mesh_y) == (4, 2)
    assert arch.compute.name == "mac"


def test_the_fanout_of_a_component_lies_above_it():
    spad, mac = SPAD + "    spatial: {meshY: 3}\n", MAC + "    spatial: {meshX: 2}\n"
    assert nodes_of(DRAM, spad, mac) == ["DRAM", "spad", "spad", "mac"]
    arch = load(spec(arch=architecture(DRAM, spad, mac))).mapspace.architecture
    assert [type(node) for node in arch.nodes] == [StorageLevel, Fanout, StorageLevel, Fanout]
    assert arch.compute_instances == 6


def test_a_mesh_of_one_is_no_fanout():
    assert nodes_of(DRAM, "  - !Container {name: PE, spatial: {meshX: 1}}\n", MAC) == ["DRAM"]


def test_disabled_nodes_are_left_out():
    found = load(spec(arch=architecture(DRAM, BUFFER + "    enabled: false\n", MAC)))
    assert [node.name for node in found.mapspace.architecture.nodes] == ["DRAM"]
    (note,) = (note for note in map(str, found.notes) if "enabled" in note)
    assert note.endswith("`buffer` is not enabled and is left out")


def test_what_lacks_a_disabled_node_points_at_it():
    missing = failure(spec(arch=architecture(DRAM, MAC + "    enabled: false\n")))
    assert missing.message == "the architecture has no compute component"
    constraint = "constraints:\n  targets: [{target: buffer, type: temporal, permutation: [K]}]\n"
    unknown = failure(spec(constraint, arch=architecture(DRAM, BUFFER + "    enabled: false\n", MAC)))
    assert unknown.message == "unknown level `buffer`"
    for error in (missing, unknown):
        ((place, words),) = error.related
        assert place.source.line(place.line).strip() == "enabled: false"
        assert words.endswith("not enabled")


def test_expressions_see_the_attributes_of_their_branch_only():
    inner = "  - !Hierarchical\n    nodes:\n    - !Container {name: box, attributes: {depth: 8}}\n"
    inner += "    - !Component {name: a, class: SRAM, attributes: {width: 16, datawidth: 8},"
    inner += " energy: {read: 1, write: 1, leak: 0}}\n"
    outer = BUFFER.replace("depth: 256", "depth: depth * 2")
    container = "  - !Container {name: top, attributes: {depth: 32}}\n"
    levels = load(spec(arch=architecture(DRAM, container, inner, outer, MAC))).mapspace.architecture.levels
    assert [level.size_words for level in levels] == [None, 8 * 2, 64 * 4]


def test_what_follows_a_branch_inherits_the_attributes_of_its_containers():
    box = "!Container {name: box, attributes: {technology: 45, depth: 8}}"
    inner = f"  - !Hierarchical\n    nodes:\n    - {box}\n"
    outer = BUFFER.replace("depth: 256, ", "")
    mac = "  - !Component {name: mac, class: intmac, attributes: {datawidth: 8}}\n"
    arch = load(spec(arch=architecture(DRAM, inner, outer, mac))).mapspace.architecture
    assert arch.levels[1].size_words == 8 * 4
    assert arch.compute.energy_source == "estimator: intmac, 45 nm"


def test_what_follows_a_branch_is_gated_by_its_containers():
    inner = (
        "  - !Hierarchical\n    nodes:\n    - !Container {name: box, attributes: {has_power_gating: true}}\n"
    )
    levels = load(spec(arch=architecture(DRAM, inner, ARRAY, SPAD, MAC))).mapspace.architecture.levels
    assert [level.gating_fanouts for level in levels] == [None, 0]


def test_variables_and_sibling_attributes_stand_in_expressions():
    buffer = BUFFER.replace("depth: 256, ", "depth: rows, rows: ceil(size / width), size: 2**KIB, ")
    text = spec("variables: {version: 0.4, KIB: 5 * 2}\n", arch=architecture(DRAM, buffer, MAC))
    assert load(text).mapspace.architecture.levels[1].size_words == 16 * 4


def test_attributes_and_meshes_of_nodes_above_stand_in_expressions():
    asked = 'DRAM.attributes["width"] // buffer.attributes.datawidth + buffer.spatial.meshY'
    buffer = BUFFER.replace("{width", "\n      width").replace("256, ", "SHARES.rows[1]\n      ")
    buffer = buffer.replace(", depth", "\n      depth").replace("16}", "DRAM.attributes.datawidth")
    array = f"  - !Container\n    name: grid\n    spatial:\n      meshX: {asked}\n"
    fixed = "    constraints: {temporal: {factors: [C=grid.spatial.meshY]}}\n"
    text = spec(
        "variables: {KIB: 2, SHARES: {rows: [2, KIB * 2, KiB (each)]}}\n",
        arch=architecture(DRAM, buffer, array, SPAD + fixed, MAC),
    )
    architecture_read = load(text).mapspace.architecture
    assert architecture_read.levels[1].size_words == 4 * 4
    assert architecture_read.fanouts[0].mesh_x == 64 // 16 + 1


def test_a_fanout_stands_in_attributes_meshes_and_constraints():
    buffer = BUFFER.replace("depth: 256", "depth: 16 * PE.get_fanout()")
    inner = "  - !Container {name: lane, spatial: {meshX: PE.get_fanout() // 4}}\n"
    spad = constrained(SPAD, "{temporal: {factors: [('C=' + str(lane.get_fanout()))]}}")
    mapspace = load(spec(arch=architecture(DRAM, ARRAY, buffer, inner, spad, MAC))).mapspace
    assert mapspace.architecture.levels[1].size_words == 16 * 8 * 4
    assert mapspace.architecture.fanouts[1].mesh_x == 2
    assert [(rule.dim, rule.value) for rule in mapspace.temporal[2].factors] == [("C", 2)]


def test_names_of_nodes_stay_texts_where_nothing_is_asked_of_them():
    buffer = BUFFER.replace("depth: 256", "depth: 256, action_name: DRAM")
    notes = [*map(str, load(spec(arch=architecture(DRAM, buffer, MAC))).notes)]
    assert any("action_name" in note for note in notes)


def test_attributes_that_need_each_other_are_an_error():
    buffer = BUFFER.replace("depth: 256", "depth: rows, rows: depth")
    error = failure(spec(arch=architecture(DRAM, buffer, MAC)))
    assert error.message == "attributes depend on each other: depth -> rows -> depth"


def test_prices_are_integers_of_one_unit_with_their_sources():
    arch = load(spec()).mapspace.architecture
    assert arch.units_per_pj == 1000
    buffer = arch.levels[1]
    assert (buffer.energy.read, buffer.energy.fill, buffer.energy.update) == (18180, 14100, 15000)
    assert buffer.energy.leak_per_cycle == 5
    assert Decimal(arch.compute.energy) / arch.units_per_pj == Decimal("0.5")
    assert dict(buffer.energy.sources)["read"] == "given at spec.yaml:25"


def test_energies_of_many_digits_are_exact():
    figure = "123456789012345678901234567890.123456789012"
    arch = load(spec(arch=architecture(DRAM, MAC.replace("0.5", figure)))).mapspace.architecture
    assert (arch.compute.energy, arch.units_per_pj) == (int(figure.replace(".", "")), 10**12)
    scaled = MAC.replace("0.5", figure.replace(".", "")[:30] + ".5") + "    attributes: {energy_scale: 3}\n"
    arch = load(spec(arch=architecture(DRAM, scaled))).mapspace.architecture
    assert Decimal(arch.compute.energy) == 3 * int(figure.replace(".", "")[:30]) * 10 + 15


def test_an_energy_table_prices_components():
    energy = "\n    energy: {read: 18.18, write: 14.1, update: 15, leak: 0.005}"
    assert energy in BUFFER
    ert = """\
    ERT:
      version: 0.4
      tables:
      - name: top.buffer[1..1]
        actions:
        - {name: read, energy: 2.5, arguments: {}}
        - {name: write, energy: 3, arguments: {}}
    """
    nodes = (DRAM, BUFFER.replace(energy, ""), MAC)
    loaded = load(spec(ert, arch=architecture(*nodes)))
    assert loaded.mapspace.architecture.levels[1].energy.read == 25
    error = failure(spec(ert.replace("name: read", "name: raed"), arch=architecture(*nodes)))
    assert (marked(error), "lacks the action `random_read` or `read`" in error.message) == ("buffer", True)


@pytest.mark.parametrize(
    ("nodes", "message", "mark"),
    [
        ((DRAM, BUFFER), "no compute component", None),
        ((MAC,), "no storage component", None),
        ((DRAM, MAC, MAC.replace("mac\n", "mac2\n", 1)), "two compute components", "mac2"),
        ((DRAM, MAC, BUFFER), "`buffer` is below the compute component", "buffer"),
        ((ARRAY, DRAM, MAC), "fanout `PE` has no storage above it", "PE"),
        ((DRAM, BUFFER, BUFFER, MAC), "two nodes are named `buffer`", "buffer"),
        ((DRAM, "  - !Componnet {name: x}\n", MAC), "unknown tag `!Componnet`", None),
        ((DRAM, "  - {name: x}\n", MAC), "needs a tag", None),
        ((DRAM, "  - !Pipelined {nodes: []}\n", MAC), "not modelled", None),
        ((DRAM, BUFFER.replace("class: SRAM", "class: adder"), MAC), "neither a storage nor", "adder"),
        ((DRAM, BUFFER.replace("class: SRAM", "clas: SRAM"), MAC), "unknown key `clas`", "clas"),
        (
            (DRAM, BUFFER.replace("256", "attributes.rows"), MAC),
            "not defined",
            "attributes.rows",
        ),
        ((DRAM, BUFFER.replace("256", "depth * 2"), MAC), "`depth` is not defined", "depth"),
        (
            (DRAM, BUFFER.replace("name: buffer", "name: buffer[0..3]"), MAC),
            "range of instances",
            "buffer[0..3]",
        ),
        ((DRAM, BUFFER.replace("    name: buffer\n", ""), MAC), "is missing the key `name`", None),
        ((DRAM, BUFFER.replace("depth: 256", "meshX: 4"), MAC), "`meshX` is not an attribute", "meshX"),
        ((DRAM, ARRAY.replace("meshX", "meshx"), MAC), "unknown key `meshx`", "meshx"),
        ((DRAM, ARRAY.replace("4", "0"), MAC), "`meshX` must be at least 1", "0"),
        ((DRAM, ARRAY.replace("4", "[4]"), MAC), "must be a single value", "[4]"),
        (("  - !Parallel\n    nodes:\n    - !Container {name: a}\n", DRAM, MAC), "cannot be a branch", None),
        ((DRAM, BUFFER, "  - !Nothing {name: buffer}\n", MAC), "two nodes are named `buffer`", "buffer"),
    ],
)
def test_mistakes_are_marked(nodes, message, mark):
    assert_fails(spec(arch=architecture(*nodes)), message, mark)


def test_a_class_in_other_case_is_a_slip_of_one():
    error = failure(spec(arch=architecture(DRAM, BUFFER.replace("SRAM", "sram"), MAC)))
    assert (error.hint or "").startswith("did you mean `SRAM`?")


def test_sections_that_are_left_empty_say_nothing():
    empty = (
        "mapping: []\nmapper:\nmapspace:\nERT: {tables: []}\nART:\ncomponents:\nvariables:\nconstraints:\n"
    )
    assert load(spec(empty)).mapping is None
    assert load(spec(empty)).mapspace == load(spec()).mapspace


def test_a_fanout_inside_parallel_is_an_error():
    branch = "  - !Parallel\n    nodes:\n    - !Hierarchical\n      nodes:\n"
    branch += "      - !Container {name: a, spatial: {meshX: 2}}\n"
    error = failure(spec(arch=architecture(DRAM, branch, MAC)))
    assert error.message == "a spatial fanout cannot be inside `!Parallel`"
    assert len(error.related) == 1


def test_a_compute_inside_parallel_is_an_error():
    branch = "  - !Parallel\n    nodes:\n    - !Component {name: m, class: intmac, energy: 1}\n"
    assert "inside `!Parallel`" in failure(spec(arch=architecture(DRAM, branch))).message


@pytest.mark.parametrize(
    ("section", "message", "mark"),
    [
        ("architectur: {}\n", "unknown top-level key `architectur`", "architectur"),
        ("mapspace: {template: rubi}\n", "only the mapspace templates `uber`", "rubi"),
        (
            "sparse_optimizations: {targets: [{name: DRAM}]}\n",
            "does not support sparse data",
            "sparse_optimizations",
        ),
        ("variables: 1\n", "must be a mapping", "1"),
        ("variables: [1]\n", "must be a mapping", "1"),
        ("dumped_by_timeloop_front_end: true\n", "flattened", "dumped_by_timeloop_front_end"),
    ],
)
def test_wrong_sections_are_marked(section, message, mark):
    assert_fails(spec(section), message, mark)


def test_sections_that_only_hold_anchors_or_say_nothing_are_read_over():
    text = spec(
        "anchors_ignored: {a: &a 1}\nsparse_optimizations: {version: 0.4}\nmapspace: {template: uber}\n"
    )
    assert load(text).notes == ()


@pytest.mark.parametrize(
    ("variables", "counting"),
    [
        ("{TIMELOOP_HIDE_INCONSEQUENTIAL_STATS: 1, TIMELOOP_DISABLE_LINK_TRANSFERS: 1}", ()),
        ("{TIMELOOP_ENABLE_FIRST_READ_ELISION: 1, TIMELOOP_RUN_LAST_ITERATION: 0}", ()),
        ("{A: 0, TIMELOOP_RUN_LAST_ITERATION: 1}", ("TIMELOOP_RUN_LAST_ITERATION",)),
        ("[]", ()),
    ],
)
def test_environments_that_make_timeloop_count_otherwise_are_noted(variables, counting):
    general, *notes = map(
        str, load(spec(f"globals: {{version: 0.4, environment_variables: {variables}}}\n")).notes
    )
    assert "`globals` controls Timeloop's programs" in general
    assert len(notes) == len(counting)
    assert all(
        f"`{name}` changes what Timeloop counts" in note for name, note in zip(counting, notes, strict=True)
    )


def test_sparse_optimizations_can_be_ignored():
    nodes = (DRAM, BUFFER + "    sparse_optimizations: {action_optimization: [{type: gating}]}\n", MAC)
    assert "does not support sparse data" in failure(spec(arch=architecture(*nodes))).message
    loaded = load(spec(arch=architecture(*nodes)), ignore_sparse=True)
    assert len(loaded.notes) == 1


def test_constraints_on_a_container_that_stores_nothing_are_an_error():
    array = constrained(ARRAY, "{temporal: {factors: [R=1]}}")
    error = failure(spec(arch=architecture(DRAM, array, MAC)))
    assert "a container stores nothing" in error.message


def test_variables_may_stand_in_a_list_of_mappings():
    node = "  - !Container {name: PE, spatial: {meshX: COLUMNS}}\n"
    text = spec(
        "variables: [{version: 0.4}, {HALF: 4}, {COLUMNS: 2 * HALF}]\n", arch=architecture(DRAM, node, MAC)
    )
    assert load(text).mapspace.architecture.fanouts[0].mesh_x == 8
    twice = text.replace("{HALF: 4}", "{HALF: 4}, {HALF: 5}")
    assert "`HALF` is given a second value" in failure(twice).message


@pytest.mark.parametrize(
    ("key", "hint"),
    [
        ("arch", "`--einsum NAME` chooses one of their Einsums"),
        ("ERT_summary", "the key `ERT`"),
        ("ART_summary", "the key `ART`"),
        ("workload", "the command `network`"),
    ],
)
def test_sections_of_other_files_of_the_same_tools_have_hints(key, hint):
    error = failure(spec(f"{key}: {{version: 0.4}}\n"))
    assert error.message == f"unknown top-level key `{key}`"
    assert hint in error.hint


def test_networks_are_refused_by_name():
    node = "  - !Component {name: noc, class: SimpleMulticast, attributes: {datawidth: 16}}\n"
    assert_fails(
        spec(arch=architecture(DRAM, node, MAC)), "networks, such as `SimpleMulticast`", "SimpleMulticast"
    )


@pytest.mark.parametrize("name", ["wire_energy", "router_energy", "energy-per-ingress"])
def test_energies_of_networks_are_refused_wherever_they_stand(name):
    array = ARRAY + f"    attributes: {{{name}: 0.25}}\n"
    for nodes in ((DRAM, array, MAC), (DRAM, array, SPAD, MAC)):
        text = spec(arch=architecture(*nodes))
        assert_fails(text, f"`{name}`: the energy of networks is not modelled", name)
        assert load(text.replace("0.25", "0")).notes == ()


def test_area_share_is_another_name_of_area_scale():
    areas = []
    for key in ("area_scale", "area_share"):
        node = BUFFER + f"    area: 100\n    {key}: 1/4\n"
        areas.append(load(spec(arch=architecture(DRAM, node, MAC))).mapspace.architecture.levels[1].area_um2)
    assert areas == [25, 25]
    both = BUFFER + "    area: 100\n    area_scale: 2\n    area_share: 2\n"
    assert "two names for the same key" in failure(spec(arch=architecture(DRAM, both, MAC))).message


@pytest.mark.parametrize(
    ("keys", "mark"),
    [
        ("spatial: {meshX: 4}", "spatial"),
        ("energy: {read: 1}", "energy"),
        ("actions: [{name: read, energy: 1}]", "actions"),
        ("area: 5", "area"),
        ("energy_scale: 2", "energy_scale"),
    ],
)
def test_nothing_has_no_mesh_and_no_price(keys, mark):
    nothing = f"  - !Component {{name: gap, class: nothing, {keys}}}\n"
    message = f"`{mark}` has no effect on `gap`, which has the class `nothing`"
    assert_fails(spec(arch=architecture(DRAM, nothing, MAC)), message, mark)


def test_attributes_of_nothing_are_noted():
    nothing = "  - !Component {name: gap, class: nothing, spatial: {meshX: 1}, attributes: {width: 8}}\n"
    (note,) = map(str, load(spec(arch=architecture(DRAM, nothing, MAC))).notes)
    assert "nothing reads `width` of `gap`" in note


ERT = """\
ERT:
  version: 0.4
  tables:
  - {name: chip.DRAM, actions: [{name: read, energy: 1}, {name: write, energy: 1}, {name: leak, energy: 0}]}
  - {name: chip.mac, actions: [{name: compute, energy: 1}]}
  - {name: chip.wire, actions: [{name: transfer_random, energy: 0.3}]}
"""


@pytest.mark.parametrize("name", ["wire", "Wire"])
def test_wires_that_an_ert_prices_are_refused(name):
    text = spec(ERT.replace("wire", name), arch=architecture(DRAM, MAC))
    assert_fails(text, f"the ERT's table `{name}`: the energy of networks is not modelled", f"chip.{name}")
    for free in (text.replace("0.3", "0"), text.replace("transfer_random", "transfer")):
        assert load(free).notes == ()
    own = architecture(DRAM, MAC.replace("name: mac", f"name: {name}"))
    assert load(spec(ERT.replace("wire", name).replace("transfer_random", "compute"), arch=own))


@pytest.mark.parametrize("name", ["LPDDR5", "hbm3", "Dram"])
def test_what_is_named_like_a_dram_is_told_its_class(name):
    hint = failure(spec(arch=architecture(DRAM.replace("class: DRAM", f"class: {name}"), MAC))).hint or ""
    assert hint.startswith("a DRAM has `class: DRAM` and a `type` (DDR3, ")


def test_compute_classes_may_be_in_upper_case():
    loaded = load(spec(arch=architecture(DRAM, MAC.replace("intmac", "NMA_MAC"))))
    assert loaded.mapspace.architecture.compute.name == "mac"
    slip = BUFFER.replace("SRAM", "Sram_MAC")
    assert "neither a storage" in failure(spec(arch=architecture(DRAM, slip, MAC))).message


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("5 if 3 > 2 else 7", 5),
        ("0 or 10", 10),
        ("8 if not 1 else 4 and 6", 6),
        ("2 * 1e3 if 2 > 1e-3 else 3", 2000),
        ("rows if 2 > 1 else 0", 4),
        ("10 in", "10 in"),
        ("not", "not"),
        ("2 or more", "2 or more"),
        ("45nm", "45nm"),
        ("2 * 1e3x", "2 * 1e3x"),
    ],
)
def test_operators_and_exponents_name_nothing(text, value):
    node = compose(Document.of("attributes.yaml", f"depth: {text}\nrows: 4\n"), Limits())
    assert read_attributes(node, NO_ATTRIBUTES, {})["depth"].value == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("([1] * 15)", [1] * 15),
        ("([0] * 7 + [1] * 8)", [0] * 7 + [1] * 8),
        ("SIZES", [4, 8]),
        ("2 * SIZES", [4, 8, 4, 8]),
        ("SIZES + [16]", [4, 8, 16]),
        ("SIZES[0] * SIZES[1]", 32),
    ],
)
def test_variables_may_be_lists_and_calculate_with_them(text, value):
    node = compose(Document.of("v.yaml", f"FOUND: {text}\nSIZES: [4, 8]\nLATER: FOUND\n"), Limits())
    found = read_variables(node)
    assert (found["FOUND"], found["LATER"]) == (value, value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("([1] * 99999999)", "the result is longer than"),
        ("([1] * 9999)", "a list of more than 2000 items"),
        ("SIZES * SIZES", "a list is repeated a whole number of times, not a list"),
    ],
)
def test_lists_have_limits(text, message):
    node = compose(Document.of("v.yaml", f"FOUND: {text}\nSIZES: [4, 8]\n"), Limits())
    with pytest.raises(SpecError, match=message):
        read_variables(node)


def test_a_list_is_no_size():
    node = BUFFER.replace("depth: 256", "depth: SIZES")
    text = spec("variables: {SIZES: [64, 128]}\n", arch=architecture(DRAM, node, MAC))
    assert_fails(text, "the expression gives a list, not a number or a text", "SIZES")
