"""Rules of the user's own in specs."""

import pytest

from model.cost import evaluate_in
from model.formats.timeloop.mapped import mapped_spec
from model.text.source import SpecError
from model.text.writing import spec_text
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

RULED = architecture(
    DRAM,
    constrained(
        BUFFER,
        '{tile: ["K % 2 == 0", words(Weights) <= 0.5 * capacity], temporal: {factors: [R=1], rules: P >= 2}}',
    ),
    constrained(ARRAY, '{spatial: ["C <= 2 * K"]}'),
    constrained(SPAD, '{temporal: ["innermost in [P, K]"]}'),
    MAC,
)
MAPSPACE = 'mapspace: {rules: ["energy <= 1 mJ", "tile(buffer, C) <= LANES"]}\nvariables: {LANES: 4}\n'
MAPPING = """
mapping:
- {target: DRAM, type: temporal, factors: [P=8]}
- {target: buffer, type: temporal, factors: [P=2, K=4], permutation: [K, P]}
- {target: PE, type: spatial, factors: [C=4]}
- {target: spad, type: temporal, factors: [R=3, K=2], permutation: [R, K]}
"""


def test_rules_are_read_where_they_stand():
    loaded = load(spec(MAPSPACE, arch=RULED), refuse_unsearchable=False)
    rules = loaded.mapspace.rules
    assert [str(rule) for rule in rules] == [
        "tile of buffer: K % 2 == 0",
        "tile of buffer: words(Weights) <= 0.5 * capacity",
        "temporal of buffer: P >= 2",
        "spatial of PE: C <= 2 * K",
        "temporal of spad: innermost in [P, K]",
        "energy <= 1 mJ",
        "tile(buffer, C) <= LANES",
    ]
    assert [factor.dim for factor in loaded.mapspace.temporal[1].factors] == ["R"]
    assert all(rule.source for rule in rules)


def test_a_mapping_is_judged():
    loaded = load(spec(MAPSPACE, MAPPING, arch=RULED), refuse_unsearchable=False)
    evaluation = evaluate_in(loaded.mapspace, loaded.mapping)
    assert not evaluation.valid
    assert [
        (found.rule.text, [value for _, value in found.figures]) for found in evaluation.broken_rules
    ] == [
        ("C <= 2 * K", [4, 1]),
        ("innermost in [P, K]", ["R"]),
    ]


def test_searches_refuse_rules_across_levels_at_their_place():
    error = failure(spec('mapspace: {rules: ["tile(spad, C) == tile(buffer, C)"]}\n'))
    assert marked(error) == '"tile(spad, C) == tile(buffer, C)"'
    assert error.message == "this rule is not searched yet"
    local = 'mapspace: {template: ruby, rules: ["tile(buffer, C) <= 2"]}\n'
    assert load(spec(local)).mapspace.rules


@pytest.mark.parametrize(
    ("constraints", "message", "mark"),
    [
        ("{tile: [K % 16 = 0]}", "is not an expression", None),
        ("{tile: [Kk % 16 == 0]}", "`Kk` is not defined here", "Kk"),
        ("{tile: [words(Weihgts) <= 4]}", "there is no dataspace `Weihgts`", "Weihgts"),
        ("{tile: [[K, C]]}", "a rule in `tile` must be a single value", None),
        ("{spatial: [K <= 2]}", "a spatial rule has no effect on `buffer`, which has no fanout", None),
        ("{tiles: [K <= 2]}", "unknown key `tiles`", "tiles"),
    ],
)
def test_wrong_rules_are_refused_with_their_place(constraints, message, mark):
    assert_fails(
        spec(arch=architecture(DRAM, constrained(BUFFER, constraints), ARRAY, SPAD, MAC)), message, mark
    )


def test_a_rule_about_tiles_has_no_effect_on_a_container():
    arch = architecture(DRAM, BUFFER, constrained(ARRAY, "{tile: [K <= 2]}"), SPAD, MAC)
    assert_fails(spec(arch=arch), "a tile rule has no effect on `PE`, which stores nothing", None)


def test_too_many_rules_are_refused():
    rules = ", ".join(['"tile(buffer, C) <= 2"'] * 257)
    assert_fails(spec(f"mapspace: {{rules: [{rules}]}}\n"), "at most 256 rules", None)


def test_a_mapped_spec_lacks_rules_and_lists_them():
    text = spec_text(mapped_spec(load(spec(MAPSPACE, arch=RULED), refuse_unsearchable=False)))
    assert "rules of mapspace" in text
    assert "tile of buffer" in text
    assert "rules of buffer (temporal)" in text
    assert "K % 2" not in text
    assert "energy <=" not in text


def test_energy_rules_need_energies():
    bare = SPAD.replace("    energy: {read: 0.25, write: 0.25, leak: 0}\n", "").replace("regfile", "mystery")
    text = spec('mapspace: {rules: ["energy <= 1 mJ"]}\n', arch=architecture(DRAM, BUFFER, ARRAY, bare, MAC))
    with pytest.raises(SpecError):
        load(text, objectives=("latency",), refuse_unsearchable=False)
