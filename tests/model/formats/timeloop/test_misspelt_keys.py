"""A required key that is misspelt beyond recognition: the message names it, and the keys that are given."""

import pytest

from tests.model.formats.timeloop.support import (
    ARRAY,
    BUFFER,
    DRAM,
    MAC,
    architecture,
    assert_fails,
    failure,
    load,
    spec,
)
from tests.solver.golden import assert_golden

SPEC = spec()


@pytest.mark.parametrize(
    ("old", "message"),
    [
        ("problem", "unknown top-level key `zzqx`, and the spec is missing `problem`"),
        ("architecture", "unknown top-level key `zzqx`, and the spec is missing `architecture`"),
        ("shape", "unknown key `zzqx` in `problem`, which lacks `shape`"),
        ("instance", "unknown key `zzqx` in `problem`, which lacks `instance`"),
        ("dimensions", "unknown key `zzqx` in `shape`, which lacks `dimensions`"),
        ("data-spaces", "unknown key `zzqx` in `shape`, which lacks `data_spaces`"),
        ("projection", "unknown key `zzqx` in a dataspace, which lacks `projection`"),
        ("C", "unknown key `zzqx` in `instance`, which lacks `C`"),
        ("nodes", "`!Component` does not belong under `zzqx`"),
        ("class", "unknown key `zzqx` in this `!Component`, which lacks `class`"),
        ("depth", "storage `buffer` lacks `depth`; only a DRAM may be unlimited"),
        ("datawidth", "storage `DRAM` lacks `datawidth` (the bits of a word)"),
    ],
)
def test_both_are_named_at_the_unknown_key(old, message):
    assert SPEC.count(f"{old}:") > 0
    assert_fails(SPEC.replace(f"{old}:", "zzqx:", 1), message, "zzqx")


@pytest.mark.parametrize(
    ("written", "moved", "message", "mark", "hint"),
    [
        (
            "  shape:",
            "  dimensions: [C]\n  shape:",
            "unknown key `dimensions` in `problem`",
            "dimensions",
            "shape",
        ),
        ("    class: DRAM", "    class: DRAM\n    depth: 8", "unknown key `depth` in", "depth", "attributes"),
        (
            "    class: DRAM",
            "    class: DRAM\n    temporal: {}",
            "unknown key `temporal` in",
            "temporal",
            "constraints",
        ),
        ("    class: DRAM", "    class: DRAM\n    meshX: 8", "unknown key `meshX` in", "meshX", "spatial"),
    ],
)
def test_a_key_one_level_too_far_out(written, moved, message, mark, hint):
    assert SPEC.count(f"{written}") > 0
    error = failure(SPEC.replace(written, moved, 1))
    assert message in error.message
    assert error.hint == f"`{mark}` belongs under `{hint}`"


def test_a_missing_section_may_stand_in_another_file():
    error = failure(SPEC[SPEC.index("architecture:") :])
    assert error.message == "the spec is missing the key `problem`"
    assert error.hint == "give a file with `problem:` as well"


@pytest.mark.parametrize(
    ("node", "message"),
    [
        (DRAM, "unknown key `zzqx` in this `!Component`, which lacks `name`"),
        (ARRAY, "unknown key `zzqx` in this `!Container`, which lacks `name`"),
    ],
)
def test_names_of_nodes(node, message):
    changed = node.replace("name:", "zzqx:")
    assert_fails(SPEC.replace(node, changed), message, "zzqx")


def test_what_is_not_missing_is_not_named():
    assert_fails(SPEC.replace("  shape:", "  zzqx: 1\n  shape:"), "unknown key `zzqx` in `problem`", "zzqx")
    assert "lacks" not in failure(SPEC.replace("  shape:", "  zzqx: 1\n  shape:")).message
    assert "lacks" not in failure(SPEC + "zzqx: 1\n").message


def test_a_key_that_resembles_one_is_a_slip_of_that():
    error = failure(SPEC.replace("shape:", "shpae:", 1))
    assert (error.message, error.hint) == ("unknown key `shpae` in `problem`", "did you mean `shape`?")


def test_attributes_that_the_estimator_knows_are_not_blamed():
    known = BUFFER.replace("depth: 256", "technology: 45nm, n_banks: 2")
    error = failure(spec(arch=architecture(DRAM, known, MAC)))
    assert (str(error.span), error.hint) == ("spec.yaml:22:11", None)


def test_what_may_be_the_width_is_refused_where_there_is_none():
    text = spec(arch=architecture(DRAM, BUFFER.replace("width: 64", "zzqx: 64"), MAC))
    assert_fails(text, "storage `buffer` lacks `width`, and no storage has an attribute `zzqx`", "zzqx")
    for changed in ("n_banks: 2", "zzqx: 15", "zzqx: true", "zzqx: wide"):
        nodes = architecture(DRAM, BUFFER.replace("width: 64", changed), MAC)
        assert any("an access moves one word" in note.text for note in load(spec(arch=nodes)).notes)


def rendered(text: str) -> str:
    return f"{failure(text).render()}\n"


def test_the_whole_messages():
    nodes = SPEC.replace("  nodes:", "  zzqx:")
    shape = SPEC.replace("  shape:", "  zzqx:")
    depth = SPEC.replace("depth: 256", "zzqx: 256")
    top = SPEC.replace("architecture:", "zzqx:")
    assert_golden("misspelt_keys.txt", "\n".join(map(rendered, (nodes, shape, depth, top))))
