from fractions import Fraction

import pytest

from model.architecture import StorageLevel
from model.formats.timeloop.storage_attributes import SPARSE_ATTRIBUTES
from tests.model.formats.timeloop.support import (
    ARRAY,
    DRAM,
    MAC,
    SPAD,
    architecture,
    assert_fails,
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
    assert f"{attribute.split(':')[0]} of `buffer` changes nothing: it has no limit" in note
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
        == ["power_gated_at of `buffer` names the level itself and changes nothing: no node above gates it"]
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
    assert f"`{name}` of `buffer` changes nothing: nothing is compressed" in note
    assert load(text_with(USUAL.replace("}", f", {name}: false}}"))).notes == ()


def test_all_that_describes_metadata_is_noted_at_once():
    attributes = USUAL.replace("}", ", metadata_storage_width: 8, metadata_storage_depth: 4}")
    (note,) = map(str, load(text_with(attributes)).notes)
    assert "`metadata_storage_depth` and `metadata_storage_width` of `buffer` change nothing" in note


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
        ("{width: 64, depth: 256, datawidth: 16, instances: 4}", "`instances` is no attribute", "instances"),
        ("{width: 64, datawidth: 16}", "only a DRAM may be unlimited", "buffer"),
        ("{width: 60, depth: 256, datawidth: 16}", "whole number of words", "60"),
        ("{width: 64, depth: 256, datawidth: 16, cluster_size: 3}", "whole number of words", "64"),
        ("{width: 64, depth: 2, datawidth: 16, block_size: 2, cluster_size: 1}", "contradicts", "2"),
        ("{width: 64, depth: 2, datawidth: 16, block_size: 2}", "no cluster_size is given, which", "2"),
        ("{width: 64, depth: 256, datawidth: 16, entries: 5}", "`entries` gives 5 words", "5"),
        ("{width: 64, memory_width: 32, depth: 1, datawidth: 16}", "two names of one", "memory_width"),
        ("{width: 64, depth: 256, datawidth: 16, read_bandwith: 4}", "unknown attribute", "read_bandwith"),
        ("{width: 64, depht: 256, datawidth: 16}", "unknown attribute", "depht"),
        ("{width: 64, depth: 256, data_width: 16}", "unknown attribute `data_width`", "data_width"),
        ("{width: 64, depth: 0, datawidth: 16}", "must be at least 1", "0"),
        ("{width: 64, depth: 2.5, datawidth: 16}", "must be a whole number", "2.5"),
        ("{width: 64, depth: .inf, datawidth: 16}", "must be a whole number", ".inf"),
        ("{width: 64, depth: big, datawidth: 16}", "`big` is not defined", "big"),
        ("{width: 64, depth: 4, datawidth: 16, read_bandwidth: 0}", "must be positive", "0"),
        ("{width: 64, depth: 4, datawidth: 16, read_bandwidth: .inf}", "finite number", ".inf"),
        ("{width: 64, depth: 4, datawidth: 16, multiple_buffering: 0.5}", "must be at least 1", "0.5"),
        ("{width: 64, depth: 4, datawidth: 16, min_utilization: 2}", "between 0 and 1", "2"),
        ("{width: 64, depth: 4, datawidth: 16, energy_per_hop: 2}", "networks", "energy_per_hop"),
        ("{width: 64, depth: 4, datawidth: 16, power_gated_at: mac}", "does not lie above it", "mac"),
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
