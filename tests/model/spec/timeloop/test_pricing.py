"""Where components that cannot be priced are wrong."""

import pytest

from tests.model.spec.timeloop.support import DRAM, MAC, architecture, assert_fails, spec


@pytest.mark.parametrize(
    ("component", "message", "mark"),
    [
        (
            "class: DRAM, attributes: {width: 64, datawidth: 8, type: DLPDR4}",
            "unknown DRAM type `DLPDR4`",
            "DLPDR4",
        ),
        (
            "class: SRAM_metadata, attributes: {width: 64, depth: 8, datawidth: 8}",
            "unknown component class",
            "SRAM_metadata",
        ),
        (
            "class: storage, subclass: noc, attributes: {width: 64, depth: 8, datawidth: 8}",
            "unknown component class",
            "noc",
        ),
        (
            "class: SRAM, attributes: {width: 64, depth: 8, datawidth: 8, technology: 1nm}",
            "technology 1 nm is outside",
            "1nm",
        ),
        (
            "class: SRAM, attributes: {memory_width: 64, depth: 8, datawidth: 8, technology: soon}",
            "attribute `technology` is 'soon', which is",
            "soon",
        ),
        (
            "class: SRAM, attributes: {width: 64, depth: 8, datawidth: 8}",
            "the class `SRAM` needs the attribute",
            "buffer",
        ),
    ],
)
def test_what_cannot_be_priced_is_marked(component, message, mark):
    text = spec(arch=architecture(DRAM, f"  - !Component {{name: buffer, {component}}}\n", MAC))
    assert_fails(text, f"cannot price `buffer`: {message}", mark)
