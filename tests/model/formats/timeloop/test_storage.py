"""Attributes of storages, and attributes that nothing reads."""

from __future__ import annotations

import re
from fractions import Fraction

import pytest

from model.architecture import StorageLevel
from model.energy import ESTIMATED_ATTRIBUTES
from model.energy.estimator import Attributes, find_primitive, known_classes
from model.formats.timeloop.storage import SPARSE_ATTRIBUTES
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

USUAL = "{width: 64, depth: 256, datawidth: 16}"


def text_with(attributes: str, component_class: str = "SRAM", prefix: str = "") -> str:
    energy = "energy: {read: 1, write: 1, leak: 0}"
    node = f"  - !Component {{name: buffer, class: {component_class}, attributes: {attributes}, {energy}}}\n"
    return spec(arch=architecture(DRAM, prefix, node, MAC))


def level(attributes: str, component_class: str = "SRAM", prefix: str = "") -> StorageLevel:
    return load(text_with(attributes, component_class, prefix)).mapspace.architecture.levels[-1]


@pytest.mark.parametrize(
    ("attributes", "size", "block", "cluster"),
    [
        (USUAL, 1024, 4, 1),
        ("{memory_width: 64, memory_depth: 256, word_width: 16}", 1024, 4, 1),
        ("{data_storage_width: 64, data_storage_depth: 256, word-bits: 16}", 1024, 4, 1),
        ("{width: 64, depth: 256, datawidth: 16, cluster_size: 2}", 512, 2, 2),
        ("{width: 64, depth: 256, datawidth: 16, block_size: 2, cluster_size: 2}", 512, 2, 2),
        ("{block_size: 4, depth: 256, datawidth: 16}", 1024, 4, 1),
        ("{n_words: 4, depth: 256, datawidth: 16}", 1024, 4, 1),
        ("{width: 64, depth: 256, datawidth: 16, word_bits: 8 * 2}", 1024, 4, 1),
        ("{depth: 256, datawidth: 16}", 256, 1, 1),
        ("{depth: 256, datawidth: 16, cluster_size: 2}", 256, 1, 2),
        ("{width: 64, entries: 100, datawidth: 16}", 100, 4, 1),
        ("{width: 64, sizeKB: 1.5, datawidth: 16}", 768, 4, 1),
        ("{width: 64, depth: 256, datawidth: 16, sizeKB: 2}", 1024, 4, 1),
        ("{width: 64, depth: 128 * 2, datawidth: width // 4}", 1024, 4, 1),
    ],
)
def test_capacity_and_vector_width(attributes, size, block, cluster):
    found = level(attributes)
    assert (found.size_words, found.block_size, found.cluster_size) == (size, block, cluster)


def test_a_dram_without_depth_is_unlimited():
    assert level("{width: 64, datawidth: 16}", "DRAM").size_words is None
    assert level("{width: 64, datawidth: 16, depth: 4}", "DRAM").size_words == 16


@pytest.mark.parametrize("attribute", ["multiple_buffering: 2", "min_utilization: 0.5"])
def test_how_an_unlimited_capacity_is_used_changes_nothing(attribute):
    (note,) = map(str, load(text_with(f"{{width: 64, datawidth: 16, {attribute}}}", "DRAM")).notes)
    assert f"{attribute.split(':')[0]} of `buffer` has no effect: it has no limit" in note
    assert load(text_with(f"{{width: 64, datawidth: 16, depth: 4, {attribute}}}", "DRAM")).notes == ()


def test_numbers_are_exact():
    found = level(
        "{width: 64, depth: 256, datawidth: 16, read_bandwidth: 0.1, write_bandwidth: 1/4, "
        "shared_bandwidth: 16, multiple_buffering: 1.1, min_utilization: 1e-1, "
        "network_fill_latency: 3, network_drain_latency: 4}"
    )
    assert (found.read_bandwidth, found.write_bandwidth) == (Fraction(1, 10), Fraction(1, 4))
    assert found.shared_bandwidth == 16
    assert (found.multiple_buffering, found.min_utilization) == (Fraction(11, 10), Fraction(1, 10))
    assert found.usable_words == 930
    assert (found.network_fill_latency, found.network_drain_latency) == (3, 4)


def test_bandwidth_scales_by_dataspace():
    scale = "per_dataspace_bandwidth_consumption_scale"
    found = level(USUAL.replace("}", f", {scale}: {{Inputs: 0.5}}}}"))
    assert (found.scale("Inputs"), found.scale("Weights")) == (Fraction(1, 2), 1)
    assert marked(failure(text_with(USUAL.replace("}", f", {scale}: {{Input: 0.5}}}}")))) == "Input"


@pytest.mark.parametrize(
    ("prefix", "attributes", "gating"),
    [
        ("", USUAL, None),
        (ARRAY, USUAL, None),
        (ARRAY + "    has_power_gating: true\n", USUAL, 1),
        (ARRAY + "    attributes: {has_power_gating: true}\n", USUAL, 1),
        (ARRAY + "    attributes: {has_power_gating: false}\n", USUAL, None),
        (ARRAY + "    has_power_gating: true\n", USUAL.replace("}", ", has_power_gating: true}"), None),
        ("  - !Container {name: chip, has_power_gating: true}\n" + ARRAY, USUAL, 0),
        (SPAD.replace("}", ", has_power_gating: true}", 1) + ARRAY, USUAL, 0),
        (ARRAY + SPAD.replace("}", ", has_power_gating: true}", 1), USUAL, 1),
        (SPAD.replace("}", ", has_power_gating: false}", 1) + ARRAY, USUAL, None),
        (ARRAY, USUAL.replace("}", ", power_gated_at: PE}"), 1),
        (ARRAY, USUAL.replace("}", ", power_gated_at: DRAM}"), 0),
        (ARRAY, USUAL.replace("}", ", power_gated_at: buffer}"), None),
    ],
)
def test_power_gating(prefix, attributes, gating):
    assert level(attributes, prefix=prefix).gating_fanouts == gating


@pytest.mark.parametrize(
    ("prefix", "noted"),
    [(ARRAY, True), (ARRAY + "    has_power_gating: true\n", False)],
)
def test_a_level_that_gates_itself_is_noted_where_nothing_else_gates_it(prefix: str, noted: bool):
    loaded = load(text_with(USUAL.replace("}", ", power_gated_at: buffer}"), prefix=prefix))
    assert loaded.mapspace.architecture.levels[-1].gating_fanouts is None
    notes = [note.text for note in loaded.notes]
    assert (
        notes
        == ["power_gated_at of `buffer` names the level itself and has no effect: no node above gates it"]
        * noted
    )


def test_other_attributes_go_to_the_estimator():
    attributes = "{width: 64, depth: 256, datawidth: 16, n_banks: 2, technology: 45nm, my_attribute: 3}"
    node = f"  - !Component {{name: buffer, class: SRAM, attributes: {attributes}}}\n"
    energy = load(spec(arch=architecture(DRAM, node, MAC))).mapspace.architecture.levels[-1].energy
    assert energy.read > 0
    assert "45 nm" in dict(energy.sources)["read"]


@pytest.mark.parametrize("flag", ["allow_overbooking: true", "reduction_supported: false"])
def test_attributes_without_effect_are_noted(flag):
    loaded = load(text_with(USUAL.replace("}", f", {flag}}}")))
    assert len(loaded.notes) == 1
    assert flag.split(":")[0] in loaded.notes[0].text


@pytest.mark.parametrize("name", SPARSE_ATTRIBUTES)
def test_a_place_for_metadata_changes_nothing_for_dense_data(name):
    (note,) = map(str, load(text_with(USUAL.replace("}", f", {name}: 4}}"))).notes)
    assert f"`{name}` of `buffer` has no effect: only sparse" in note
    assert load(text_with(USUAL.replace("}", f", {name}: false}}"))).notes == ()


def test_all_that_describes_metadata_is_noted_at_once():
    attributes = USUAL.replace("}", ", metadata_storage_width: 8, metadata_storage_depth: 4}")
    (note,) = map(str, load(text_with(attributes)).notes)
    assert "`metadata_storage_depth` and `metadata_storage_width` of `buffer` have no effect" in note


def test_a_row_of_no_width_holds_one_word():
    (note,) = map(str, load(text_with("{depth: 256, datawidth: 16}")).notes)
    assert "neither `width` nor `block_size`: an access moves one word" in note


def test_the_old_bandwidth_is_halved_between_reads_and_writes():
    text = text_with(USUAL.replace("}", ", bandwidth: 5, write_bandwidth: 4}"))
    loaded = load(text)
    found = loaded.mapspace.architecture.levels[-1]
    assert (found.read_bandwidth, found.write_bandwidth) == (Fraction(5, 2), 4)
    assert "`bandwidth` of `buffer` counts half for reads" in loaded.notes[0].text


@pytest.mark.parametrize(
    ("attributes", "message", "mark"),
    [
        ("{width: 64, depth: 256}", "lacks `datawidth`", "buffer"),
        (
            "{width: 64, depth: 256, datawidth: 16, instances: 4}",
            "`instances` is not an attribute",
            "instances",
        ),
        ("{width: 64, datawidth: 16}", "only a DRAM may be unlimited", "buffer"),
        ("{width: 60, depth: 256, datawidth: 16}", "whole number of words", "60"),
        ("{width: 64, depth: 256, datawidth: 16, cluster_size: 3}", "whole number of words", "64"),
        ("{width: 64, depth: 2, datawidth: 16, block_size: 2, cluster_size: 1}", "contradicts", "2"),
        ("{width: 64, depth: 2, datawidth: 16, block_size: 2}", "no cluster_size is given, which", "2"),
        ("{width: 64, depth: 256, datawidth: 16, entries: 5}", "`entries` gives 5 words", "5"),
        ("{width: 64, memory_width: 32, depth: 1, datawidth: 16}", "two names for the same", "memory_width"),
        ("{width: 64, depth: 256, datawidth: 16, read_bandwith: 4}", "unknown attribute", "read_bandwith"),
        ("{width: 64, depht: 256, datawidth: 16}", "unknown attribute", "depht"),
        ("{width: 64, depth: 256, data_width: 16}", "unknown attribute `data_width`", "data_width"),
        ("{width: 64, depth: -1, datawidth: 16}", "must be at least 0", "-1"),
        ("{width: 64, depth: 2.5, datawidth: 16}", "must be a whole number", "2.5"),
        ("{width: 64, depth: .inf, datawidth: 16}", "must be a whole number", ".inf"),
        ("{width: 64, depth: big, datawidth: 16}", "`big` is not defined", "big"),
        ("{width: 64, depth: 4, datawidth: 16, read_bandwidth: 0}", "must be positive", "0"),
        ("{width: 64, depth: 4, datawidth: 16, read_bandwidth: .inf}", "finite number", ".inf"),
        ("{width: 64, depth: 4, datawidth: 16, multiple_buffering: 0.5}", "must be at least 1", "0.5"),
        ("{width: 64, depth: 4, datawidth: 16, min_utilization: 2}", "between 0 and 1", "2"),
        ("{width: 64, depth: 4, datawidth: 16, energy_per_hop: 2}", "networks", "energy_per_hop"),
        ("{width: 64, depth: 4, datawidth: 16, power_gated_at: mac}", "is not above it", "mac"),
        ("{width: 64, depth: 4, datawidth: 16, max_utilization: 0.5}", "is not modelled", "max_utilization"),
        ("{width: '64', depth: 4, datawidth: 16}", "but is the text `64`", "'64'"),
        ("{width: 64, depth: 4, datawidth: 16, read_bandwidth: '4'}", "but is the text `4`", "'4'"),
        ("[64, 4, 16]", "must be a mapping", "[64, 4, 16]"),
    ],
)
def test_mistakes_are_marked(attributes, message, mark):
    assert_fails(text_with(attributes), message, mark)


def test_a_cluster_that_nobody_wrote_is_proposed():
    row = "{width: 64, depth: 2, datawidth: 16, block_size: 2}"
    error = failure(text_with(row))
    assert error.message.startswith("block_size 2 contradicts width 64, datawidth 16; no cluster_size")
    assert error.hint == "write `cluster_size: 2` if 2 instances share a row"
    assert failure(text_with(row.replace("block_size: 2", "block_size: 3"))).hint is None


def test_a_dram_has_no_clusters():
    assert "DRAM" in failure(text_with("{width: 64, datawidth: 16, cluster_size: 2}", "DRAM")).message


def test_the_least_tiles_must_fit():
    node = SPAD.replace("depth: 32", "depth: 4") + (
        "    constraints: {dataspace: {keep: [Weights, Inputs]}, temporal: {factors: [R=3]}}\n"
    )
    error = failure(spec(arch=architecture(DRAM, node, MAC)))
    assert error.message == "Weights 3 + Inputs 3 = at least 6 words, `spad` holds 4: 2 too few"
    assert marked(error) == "spad"
    texts = [text for _, text in error.related]
    assert texts == ["`Weights` is kept here", "`Inputs` is kept here", "`R=3` at `spad`", "the capacity"]


COMPOUND = """\
components:
  classes:
  - name: banked_SRAM
    attributes: {banks: 2}
    subcomponents: [{name: b, class: SRAM, attributes: {width: width, depth: depth / banks, technology: 45}}]
    actions:
    - {name: read, subcomponents: [{name: b, actions: [{name: read}]}]}
    - {name: write, subcomponents: [{name: b, actions: [{name: write, energy_scale: factor}]}]}
"""


def unread(*nodes: str, sections: str = "") -> list[str]:
    notes = [*map(str, load(spec(sections, arch=architecture(*nodes))).notes)]
    return [note.partition(": ")[2] for note in notes if "nothing reads" in note]


def with_attribute(node: str, attribute: str) -> str:
    assert "attributes: {" in node
    return node.replace("attributes: {", f"attributes: {{{attribute}, ")


@pytest.mark.parametrize(
    ("attribute", "said"),
    [
        ("zzqx: 5", "nothing reads `zzqx` of `buffer`"),
        ("double_buffering: true", "nothing reads `double_buffering` of `buffer`"),
        ("zzqx: [1, 2]", "nothing reads `zzqx` of `buffer`"),
        ("energy-per-access: 20", "nothing reads `energy-per-access` of `buffer`; energies are given as"),
    ],
)
def test_attributes_of_storages(attribute, said):
    (note,) = unread(DRAM, with_attribute(BUFFER, attribute), MAC)
    assert note.startswith(said)


@pytest.mark.parametrize("attribute", ["zzqx: null", "n_banks: 4", "vector-access-energy: 3"])
def test_attributes_that_are_known_or_empty(attribute):
    buffer = BUFFER.replace("    energy: {read: 18.18, write: 14.1, update: 15, leak: 0.005}\n", "")
    variables = "variables: {technology: 45nm}\n"
    assert unread(DRAM, with_attribute(buffer, attribute), MAC, sections=variables) == []


def test_attributes_that_expressions_name():
    rows = with_attribute(BUFFER, "rows: 256").replace("depth: 256", "depth: rows")
    assert unread(DRAM, rows, MAC) == []
    tile = constrained(with_attribute(BUFFER, "tile: 4"), "{temporal: {factors: [P<=tile]}}")
    assert unread(DRAM, tile, MAC) == []

    assert unread(DRAM, with_attribute(BUFFER, "rows: 256, note: 'rows'"), MAC) == [
        "nothing reads `rows` of `buffer`",
        "nothing reads `note` of `buffer`",
    ]


def test_attributes_of_compound_classes():
    buffer = BUFFER.replace("class: SRAM", "class: banked_SRAM").partition("    energy:")[0]
    own = with_attribute(buffer, "banks: 4, factor: 2, zzqx: 5")
    assert unread(DRAM, own, MAC, sections=COMPOUND) == ["nothing reads `zzqx` of `buffer`"]


def test_attributes_of_containers_and_compute_units():
    container = "  - !Container {name: chip, attributes: {rows: 256, zzqx: 5}}\n"
    mac = MAC.replace("energy: 0.5", "attributes: {multipler_width: 8, datawidth: 8, technology: 45nm}")
    nodes = (DRAM, container, BUFFER.replace("depth: 256", "depth: rows"), mac)
    assert unread(*nodes) == ["nothing reads `zzqx` of `chip`", "nothing reads `multipler_width` of `mac`"]


OF_STORAGES = [
    *("read_bandwidth", "cluster_size", "network_fill_latency", "multiple_buffering", "min_utilization"),
    *("compression_supported", "power_gated_at", "has_power_gating", "block-size"),
]


@pytest.mark.parametrize("name", OF_STORAGES)
def test_attributes_of_storages_elsewhere(name):
    mac = MAC.replace("energy: 0.5", f"energy: 0.5\n    attributes: {{{name}: 1}}")
    assert unread(DRAM, mac) == [f"nothing reads `{name}` of `mac`"]
    container = f"  - !Container {{name: chip, attributes: {{{name}: 1}}}}\n"
    assert unread(DRAM, container, MAC) == [f"nothing reads `{name}` of `chip`"]


def test_energies_of_networks_on_compute_units():
    mac = MAC.replace("energy: 0.5", "energy: 0.5\n    attributes: {energy_per_hop: 1}")
    assert unread(DRAM, mac) == ["nothing reads `energy_per_hop` of `mac`"]


def test_attributes_that_a_container_hands_on_to_a_storage():
    container = "  - !Container {name: chip, has_power_gating: true, attributes: {multiple_buffering: 1}}\n"
    assert unread(DRAM, container, BUFFER, MAC) == []
    assert unread(DRAM, container, MAC) == [
        "nothing reads `multiple_buffering` of `chip`",
        "nothing reads `has_power_gating` of `chip`",
    ]


@pytest.mark.parametrize("name", ["width", "memory_width", "word-bits", "word_width"])
def test_the_shape_of_a_compute_unit_goes_to_the_estimator(name):
    mac = MAC.replace("energy: 0.5", f"attributes: {{{name}: 8, datawidth: 8, technology: 45nm}}")
    assert unread(DRAM, mac) == []


def test_one_attribute_of_several_nodes_is_noted_once():
    common = "ignore: {zzqx: &common {zzqx: 5}}\n"
    merged = [node.replace("attributes: {", "attributes: {<<: *common, ") for node in (BUFFER, SPAD)]
    text = common + spec(arch=architecture(DRAM, merged[0], ARRAY, merged[1], MAC))
    (note,) = [note for note in map(str, load(text).notes) if "nothing reads" in note]
    assert note == "spec.yaml:1:25: nothing reads `zzqx` of `buffer` and `spad`"


class Asked(dict[str, object]):
    """Attributes that record which of them are asked for."""

    def __init__(self) -> None:
        super().__init__(technology=45)
        self.names: set[str] = set()

    def get(self, name: str, default: object = None) -> object:
        self.names.add(name)
        return super().get(name, 8)


@pytest.mark.parametrize("name", known_classes())
def test_all_that_the_estimator_asks_for_is_known(name):
    primitive, asked = find_primitive(name), Asked()
    assert primitive is not None
    if name == "DRAM":
        asked.update(type="DDR4")
    primitive.estimate(Attributes(name, asked))
    assert asked.names <= ESTIMATED_ATTRIBUTES


@pytest.mark.parametrize("name", ["depth", "datawidth"])
def test_what_is_empty_is_called_empty(name):
    node = re.sub(f"{name}: [0-9]+", f"{name}: ", BUFFER)
    assert_fails(spec(arch=architecture(DRAM, node, MAC)), f"`{name}` of storage `buffer` is empty", name)
