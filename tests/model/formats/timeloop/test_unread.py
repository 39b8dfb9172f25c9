"""Attributes that nothing reads are noted; those that an expression or a class of components uses are not."""

import pytest

from model.energy import ESTIMATED_ATTRIBUTES
from model.energy.estimator import Attributes, find_primitive, known_classes
from tests.model.formats.timeloop.support import (
    ARRAY,
    BUFFER,
    DRAM,
    MAC,
    SPAD,
    architecture,
    constrained,
    load,
    spec,
)

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
