"""Energies of storages, and errors of components that cannot be priced."""

from fractions import Fraction

import pytest

from tests.model.formats.timeloop.support import DRAM, MAC, architecture, assert_fails, failure, load, spec

SRAM = "class: SRAM, attributes: {width: 64, depth: 8, datawidth: 8"


@pytest.mark.parametrize(
    ("component", "message", "mark"),
    [
        ("class: DRAM, attributes: {width: 8, datawidth: 8, type: DLPDR4}", "unknown DRAM type", "DLPDR4"),
        (SRAM.replace("SRAM", "SRAM_metadata") + "}", "unknown component class", "SRAM_metadata"),
        (SRAM.replace("SRAM", "storage, subclass: noc") + "}", "unknown component class", "noc"),
        (SRAM + ", technology: 1nm}", "technology 1 nm is outside", "1nm"),
        (SRAM + ", technology: soon}", "attribute `technology` is 'soon', which is", "soon"),
        (SRAM + "}", "the class `SRAM` needs the attribute", "buffer"),
    ],
)
def test_what_cannot_be_priced_is_marked(component, message, mark):
    text = spec(arch=architecture(DRAM, f"  - !Component {{name: buffer, {component}}}\n", MAC))
    assert_fails(text, f"cannot determine the energy of `buffer`: {message}", mark)


def test_actions_without_an_energy_are_named():
    buffer = f"  - !Component {{name: buffer, {SRAM}}}, energy: {{read: 1, leak: 0}}}}\n"
    message = (
        "cannot determine the energy of `fill` and `update` of `buffer`, "
        "which is not given: the class `SRAM` needs"
    )
    assert_fails(spec(arch=architecture(DRAM, buffer, MAC)), message, "buffer")


def read_energy(attributes: str, component: str = "class: SRAM", classes: str = "") -> Fraction:
    """Return the picojoules of a read of a buffer with such attributes."""
    attributes = f"{attributes}, datawidth: 8, technology: 45nm"
    buffer = f"  - !Component {{name: buffer, {component}, attributes: {{{attributes}}}}}\n"
    own = load(classes + spec(arch=architecture(DRAM, buffer, MAC))).mapspace.architecture
    return Fraction(own.levels[1].energy.read, own.units_per_pj)


@pytest.mark.parametrize(
    "attributes",
    [
        *("block_size: 8, depth: 256", "block_size: 4, cluster_size: 2, depth: 256"),
        *("width: 64, entries: 2048", "width: 64, sizeKB: 2", "n_words: 8, entries: 2041"),
    ],
)
def test_rows_are_priced_however_they_are_written(attributes: str):
    assert read_energy(attributes) == read_energy("width: 64, depth: 256")


def test_a_dram_is_priced_by_what_an_access_moves():
    energy = {
        row: read_energy(f"type: LPDDR4, {row}", "class: DRAM")
        for row in ("width: 64", "block_size: 8", "block_size: 1")
    }
    assert energy["width: 64"] == energy["block_size: 8"] == 8 * energy["block_size: 1"]


BANK = """\
components:
  classes:
  - name: bank
    attributes: {width: 16, depth: 256, technology: 45nm}
    subcomponents: [{name: array, class: SRAM, attributes: {width: width, depth: depth}}]
    actions:
    - {name: read, subcomponents: [{name: array, actions: [{name: read}]}]}
    - {name: write, subcomponents: [{name: array, actions: [{name: write}]}]}
"""


def test_a_class_of_the_spec_has_a_width_of_its_own():
    bank = read_energy("block_size: 8, depth: 256", "class: storage, subclass: bank", BANK)
    assert bank == read_energy("width: 16, depth: 256")


LABELLED = """\
components:
  classes:
  - name: cell_macro
    attributes: {technology: must_specify}
    subcomponents: []
    actions: [{name: compute, subcomponents: []}]
"""


def test_a_compound_class_may_have_a_technology_of_its_own_making():
    mac = (
        "  - !Component {name: mac, class: compute, subclass: cell_macro, attributes: {technology: analog}}\n"
    )
    compute = load(LABELLED + spec(arch=architecture(DRAM, mac))).mapspace.architecture.compute
    assert (compute.energy, compute.energy_source) == (0, "estimator: cell_macro (compound), analog")


def with_energies(read: str, write: str) -> str:
    """Return a spec whose buffer has such energies."""
    buffer = f"  - !Component {{name: buffer, {SRAM}}}, energy: {{read: {read}, write: {write}, leak: 0}}}}\n"
    return spec(arch=architecture(DRAM, buffer, MAC))


@pytest.mark.parametrize("energy", ["3.6e-12", "3e-30", "0.12345678901234567", "0.00010599999999999999"])
def test_given_energies_are_exact(energy: str):
    own = load(with_energies(energy, "1e6"))
    level, units = own.mapspace.architecture.levels[1], own.mapspace.architecture.units_per_pj
    assert (Fraction(level.energy.read, units), Fraction(level.energy.fill, units)) == (
        Fraction(energy),
        10**6,
    )
    assert not [note for note in own.notes if "rounded" in note.text]


def test_energies_that_are_all_zero_are_noted():
    nothing, free = MAC.replace("0.5", "0"), DRAM.replace("512", "0")
    for dram, noted in ((free, True), (free.replace("read: 0", "read: 1"), False)):
        notes = load(spec(arch=architecture(dram, nothing))).notes
        assert any("all energies are 0" in note.text for note in notes) == noted


def test_energies_of_very_many_digits_are_rounded_with_a_note():
    digits = "0." + "3" * 60
    own = load(with_energies(digits, "1e-20"))
    level, units = own.mapspace.architecture.levels[1], own.mapspace.architecture.units_per_pj
    assert abs(Fraction(level.energy.read, units) - Fraction(digits)) < Fraction(1, 10**30)
    assert Fraction(level.energy.fill, units) == Fraction(1, 10**20)
    (note,) = [note for note in own.notes if "rounded" in note.text]
    assert note.text.startswith("energies are rounded to 1e-40 pJ")


def test_energies_without_a_common_unit_are_refused():
    message = "energies of `buffer` have no unit in common: 1e-30 pJ and 1e+30 pJ are too far apart"
    assert_fails(with_energies("1e-30", "1e30"), message, "buffer")
    assert_fails(
        with_energies("1e-30", "1").replace("read: 512", "read: 1e20"), "`buffer` and `DRAM`", "buffer"
    )


def test_a_latency_needs_no_energies():
    cell = "  - !Component {name: cell, class: compute, subclass: optical_dot}\n"
    text = spec("mapper: {optimization_metrics: [delay]}\n", arch=architecture(DRAM, cell))
    (note,) = map(str, load(text).notes)
    assert (
        "unknown component class `optical_dot`; its energies count as 0, since a latency objective needs none"
        in note
    )
    assert load(text).mapspace.architecture.compute.energy == 0
    error = failure(text, objectives=("latency", "energy"))
    assert "an ERT; `technology: -1`" in error.hint
    assert load(text.replace("delay", "edp"), objectives=("latency",)).notes == load(text).notes


CLOCK = "global_cycle_seconds"


@pytest.mark.parametrize(
    ("variables", "attributes", "nanoseconds"),
    [
        ("", "", None),
        ("1e-9", "", 1),
        ("'2.5e-9'", "", Fraction(5, 2)),
        ("1 / 4e8", "", Fraction(5, 2)),
        ("", "1e-9", 1),
        ("4e-9", CLOCK, 4),
        ("1e-9", "2e-9", None),
        ("", "must_specify", None),
        ("-1", "", None),
    ],
)
def test_a_clock_is_one_number_wherever_it_stands(variables, attributes, nanoseconds):
    node = MAC.replace("class: intmac", f"class: intmac\n    attributes: {{{CLOCK}: {attributes}}}")
    mac = node if attributes else MAC
    section = f"variables: {{{CLOCK}: {variables}}}\n" if variables else ""
    loaded = load(section + spec(arch=architecture(DRAM, mac)))
    cycle_s = loaded.mapspace.architecture.cycle_s
    assert cycle_s == (None if nanoseconds is None else Fraction(nanoseconds, 10**9))
    noted = "latencies are in cycles only" in " ".join(map(str, loaded.notes))
    assert noted == (cycle_s is None and bool(variables or attributes))


def test_what_keeps_nothing_needs_no_energies():
    sizes = "attributes: {width: 8, depth: 8, datawidth: 8}"
    buffer = f"  - !Component {{name: buffer, class: unheard_storage, {sizes}}}\n"
    bare = architecture(DRAM, buffer, MAC)
    assert "unknown component class" in failure(spec(arch=bare)).message
    idle = buffer.replace("}}\n", "}, constraints: {dataspace: {bypass: [Weights, Inputs, Outputs]}}}\n")
    loaded = load(spec(arch=architecture(DRAM, idle, MAC)))
    assert loaded.mapspace.architecture.levels[1].energy.leak_per_cycle == 0
    assert "as it keeps nothing, its energies and leakage count as 0" in " ".join(map(str, loaded.notes))
