"""Where components that cannot be priced are wrong."""

import pytest

from tests.model.spec.timeloop.support import DRAM, MAC, architecture, assert_fails, load, spec

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
    assert_fails(text, f"cannot price `buffer`: {message}", mark)


def test_actions_without_an_energy_are_named():
    buffer = f"  - !Component {{name: buffer, {SRAM}}}, energy: {{read: 1, leak: 0}}}}\n"
    message = (
        "cannot price `fill` and `update` of `buffer`, whose energy is not given: the class `SRAM` needs"
    )
    assert_fails(spec(arch=architecture(DRAM, buffer, MAC)), message, "buffer")


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
