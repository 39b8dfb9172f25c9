from decimal import Decimal

import pytest

from model.energy import EnergyError, EnergyRequest, EnergyTables, load_compound_classes, price_component
from model.energy.components import CompoundClasses, Library
from model.text.reader import read_files
from model.text.source import SpecError, source_ref
from tests.conftest import SHARED

COMPONENTS = SHARED / "reference" / "designs" / "example_designs" / "_components"
PROCESS = {"technology": "45nm", "global_cycle_seconds": 1e-9}

PAIR = """\
components:
  version: 0.4
  classes:
  - name: pair
    attributes:
      technology: must_specify
      width: must_specify
      half: width / 2
      share: 0.5
    subcomponents:
    - name: adder[1..half]
      class: intadder
      area_scale: share
      attributes: {width: width}
    - name: multiplier
      class: intmultiplier
      attributes: {width: width}
    actions:
    - name: read
      subcomponents:
      - name: adder[1..half]
        actions: [{name: add, energy_scale: share}]
      - name: multiplier
        actions: [{name: multiply}, {name: multiply}]
    - name: write
      arguments: {data_delta: 0..3}
      subcomponents:
      - name: adder[0]
        actions: [{name: add, energy_scale: data_delta}]
"""


def classes_of(root):
    nodes = (root.get(key) for key in ("components", "compound_components"))
    return load_compound_classes([node for node in nodes if node is not None], lambda _: None)


def build(classes, component_class, **attributes):
    return Library(classes, PROCESS).instantiate(component_class, attributes)


def test_subcomponents_are_counted_scaled_and_summed(parse):
    pair = build(classes_of(parse(PAIR)), "pair", width=8)
    adder = build(CompoundClasses(), "intadder", width=8)
    multiplier = build(CompoundClasses(), "intmultiplier", width=8)
    expected_pj = 4 * 0.5 * adder.energy_pj("add") + 2 * multiplier.energy_pj("multiply")
    assert pair.energy_pj("read") == pytest.approx(expected_pj)
    assert pair.area_um2() == pytest.approx(4 * 0.5 * adder.area_um2() + multiplier.area_um2())
    assert pair.energy_pj("leak") is None


def test_placeholders_count_for_each_subcomponent(parse):
    dummy = build(classes_of(parse(PAIR)), "pair", width=8, technology=-1)
    assert (dummy.energy_pj("read"), dummy.area_um2()) == (4 * 0.5 + 2, 4 * 0.5 + 1)
    assert dummy.has_placeholders
    assert not build(classes_of(parse(PAIR)), "pair", width=8).has_placeholders


def test_the_scale_of_a_subcomponent_multiplies_its_actions_but_leakage(parse):
    leak = "    - name: leak\n      subcomponents: [{name: multiplier, actions: [{name: leak}]}]\n"
    text = PAIR.replace("class: intmultiplier", "class: intmultiplier\n      energy_scale: width / 16") + leak
    scaled, plain = (build(classes_of(parse(given)), "pair", width=8) for given in (text, PAIR + leak))
    multiplier = build(CompoundClasses(), "intmultiplier", width=8)
    assert plain.energy_pj("read") - scaled.energy_pj("read") == pytest.approx(
        multiplier.energy_pj("multiply")
    )
    assert scaled.energy_pj("leak") == plain.energy_pj("leak")
    assert scaled.area_um2() == plain.area_um2()


def test_shares_are_older_names_of_scales(parse):
    today = build(classes_of(parse(PAIR)), "pair", width=8)
    older = PAIR.replace("area_scale:", "area_share:").replace("energy_scale: share", "action_share: share")
    found = build(classes_of(parse(older.replace("energy_scale:", "repeat:"))), "pair", width=8)
    assert [found.energy_pj(action) for action in ("read", "write")] == [
        today.energy_pj(action) for action in ("read", "write")
    ]
    assert found.area_um2() == today.area_um2()
    with pytest.raises(SpecError, match="two names for the same key"):
        classes_of(parse(PAIR.replace("area_scale: share", "area_scale: share\n      area_share: share")))


def test_lists_of_classes_stand_for_what_they_hold(parse):
    text = "components:\n  classes:\n  - [{name: a}, [{name: b}]]\n  - {name: c}\n"
    assert sorted(classes_of(parse(text)).by_name) == ["a", "b", "c"]


def test_lists_and_mappings_among_attributes_serve_expressions(parse):
    tables = """\
      halves: [width / 2, 4]
      shares: {adding: [0.25, 0.5]}
      half: halves[0]
      share: shares["adding"][1]
"""
    text = PAIR.replace("      half: width / 2\n      share: 0.5\n", tables)
    text = text.replace("attributes: {width: width}", "attributes:\n        width: width\n        all: [1]")
    pair, plain = (build(classes_of(parse(given)), "pair", width=8) for given in (text, PAIR))
    assert pair.energy_pj("read") == plain.energy_pj("read")
    assert pair.area_um2() == plain.area_um2()
    replaced = build(classes_of(parse(text)), "pair", width=8, shares={"adding": [1, 0]})
    assert replaced.energy_pj("read") < plain.energy_pj("read")


def test_open_arguments_take_the_value_that_costs_most(parse):
    classes = classes_of(parse(PAIR))
    add_pj = build(CompoundClasses(), "intadder", width=8).energy_pj("add")
    assert build(classes, "pair", width=8).energy_pj("write") == pytest.approx(3 * add_pj)
    assert build(classes, "pair", width=8, data_delta=1).energy_pj("write") == pytest.approx(add_pj)


def test_attributes_of_the_component_replace_the_defaults(parse):
    classes = classes_of(parse(PAIR))
    default, doubled = (build(classes, "pair", width=8, **extra) for extra in ({}, {"half": 8}))
    assert doubled.energy_pj("read") > default.energy_pj("read")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("class: intadder", "class: intader", "unknown component class `intader`"),
        ("{name: add, energy_scale: share}", "{name: subtract}", "has no action `subtract`"),
        ("energy_scale: share", "energy_scale: 0 - share", "must not be negative"),
        ("half: width / 2", "half: width / 3", "must be a whole number"),
        ("half: width / 2", "half: many", "must be a number"),
        ("data_delta: 0..3", "data_delta: 3..1", "the range `3..1` of the argument `data_delta` is empty"),
        ("data_delta: 0..3", "data_delta: 0..width-9", "is empty"),
        (
            "- name: adder[1..half]\n        actions",
            "- name: adder[0..4]\n        actions",
            "of which there are 4",
        ),
        (
            "- name: adder[1..half]\n        actions",
            "- name: addder\n        actions",
            "no subcomponent `addder`",
        ),
        (
            "width: must_specify",
            "width: must_specify\n      banks: must_specify",
            "needs the attribute `banks`",
        ),
    ],
)
def test_classes_that_cannot_be_expanded_are_refused(parse, old, new, message):
    assert old in PAIR
    request = EnergyRequest("buffer", "pair", None, {"width": 8}, "storage")
    with pytest.raises(EnergyError) as caught:
        price_component(request, EnergyTables(), classes_of(parse(PAIR.replace(old, new, 1))), PROCESS)
    assert message in caught.value.message
    assert "cannot determine the energy of `buffer`" in caught.value.message


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("- name: pair\n    attributes", "- attributes", "a component class is missing the key `name`"),
        (
            "subcomponents:\n    - name: adder",
            "subcomponent:\n    - name: adder",
            "unknown key `subcomponent`",
        ),
        (
            "- name: multiplier\n      class",
            "- name: adder\n      class",
            "two subcomponents are named `adder`",
        ),
        ("- name: write", "- name: read", "two actions are named `read`"),
        ("adder[1..half]", "adder[1..half", "is not a name of a subcomponent"),
        ("attributes: {width: width}", "attributes: [width]", "`attributes` must be a mapping"),
        ("energy_scale: share", "energy_scale: [share]", "`energy_scale` must be a number"),
    ],
)
def test_malformed_classes_are_refused_at_their_place(parse, old, new, message):
    assert old in PAIR
    with pytest.raises(SpecError) as caught:
        classes_of(parse(PAIR.replace(old, new, 1)))
    assert message in caught.value.message
    assert caught.value.span is not None


def test_a_class_that_contains_itself_is_refused(parse):
    text = PAIR.replace("class: intadder", "class: pair").replace("[{name: add,", "[{name: read,", 1)
    with pytest.raises(EnergyError, match="contains itself"):
        build(classes_of(parse(text)), "pair", width=8).energy_pj("read")


def test_classes_that_multiply_without_end_are_refused(parse):
    twice = "subcomponents: [{name: next, class: C}]\n    actions:\n    - name: read\n      subcomponents:\n"
    twice += "      - {name: next, actions: [{name: read}, {name: read}, {name: read}, {name: read}]}\n"
    chain = "".join(f"  - name: c{i}\n    {twice.replace('C', f'c{i + 1}')}" for i in range(12))
    text = f"components:\n  classes:\n{chain}  - {{name: c12, actions: [{{name: read}}]}}\n"
    with pytest.raises(EnergyError, match="the expansion takes more than"):
        build(classes_of(parse(text)), "c0").energy_pj("read")


def test_of_two_classes_of_one_name_the_later_counts(parse):
    first = parse(PAIR).get("components")
    second = parse("components: {classes: [{name: pair, actions: []}]}").get("components")
    notes = []
    later = load_compound_classes([first, second], notes.append).by_name["pair"]
    assert dict(later.actions) == {}
    earlier = source_ref(load_compound_classes([first], notes.append).by_name["pair"].span)
    (note,) = map(str, notes)
    assert note.endswith(f"`pair` is defined twice: this definition is used, not that at {earlier}")
    assert note.startswith(f"{source_ref(later.span)}: ")
    load_compound_classes([first, first], notes.append)
    assert notes[-1].text == "component class `pair` is listed twice"


@pytest.fixture(scope="module")
def reference_classes():
    if not COMPONENTS.is_dir():
        pytest.skip("the reference components under ../shared are absent")
    nodes = [read_files([path]).get("compound_components") for path in sorted(COMPONENTS.glob("*.yaml"))]
    return load_compound_classes(nodes, lambda _: None)


@pytest.mark.parametrize(
    ("component_class", "attributes"),
    [
        ("smartbuffer_SRAM", {"width": 64, "depth": 16384}),
        ("smartbuffer_RF", {"width": 16, "depth": 12}),
        ("regfile", {"width": 16, "depth": 12}),
        (
            "regfile_metadata",
            {"width": 8, "depth": 4, "metadata_storage_width": 2, "metadata_storage_depth": 4},
        ),
    ],
)
def test_the_reference_storages_expand_to_primitives(reference_classes, component_class, attributes):
    request = EnergyRequest("buffer", component_class, None, attributes, "storage")
    prices = price_component(request, EnergyTables(), reference_classes, PROCESS)
    assert min(prices.read, prices.fill, prices.leak) > 0
    assert prices.fill == prices.update
    assert prices.area_um2 > 0
    assert set(prices.sources.values()) == {f"estimator: {component_class} (compound), 45 nm"}


def test_the_reference_multiplier_accumulator_is_the_sum_of_its_parts(reference_classes):
    request = EnergyRequest("mac", "intmac", None, {"multiplier_width": 8, "adder_width": 32}, "compute")
    prices = price_component(request, EnergyTables(), reference_classes, PROCESS)
    assert prices.compute == Decimal("0.3")
    assert "leak" not in prices.sources


def test_the_reference_buffer_is_a_memory_and_an_address_generator(reference_classes):
    buffer = build(reference_classes, "smartbuffer_SRAM", width=64, depth=16384)
    memory = build(CompoundClasses(), "SRAM", width=64, depth=16384)
    adder = build(CompoundClasses(), "intadder", width=14)
    assert buffer.energy_pj("read") == pytest.approx(memory.energy_pj("read") + adder.energy_pj("add"))
    assert buffer.energy_pj("leak") == pytest.approx(memory.energy_pj("leak") + 2 * adder.energy_pj("leak"))
    builtin = build(CompoundClasses(), "smartbuffer_SRAM", width=64, depth=16384)
    assert builtin.energy_pj("read") == pytest.approx(buffer.energy_pj("read"))
    assert builtin.area_um2() == pytest.approx(buffer.area_um2())


def test_small_register_files_are_scaled_down_from_the_smallest_macro(reference_classes):
    small, larger = (build(reference_classes, "smartbuffer_RF", width=16, depth=depth) for depth in (12, 48))
    assert small.energy_pj("read") < larger.energy_pj("read")
    assert small.area_um2() < larger.area_um2()


def test_the_cycle_time_scales_the_leakage(reference_classes):
    fast, slow = (
        build(reference_classes, "regfile", width=16, depth=12, global_cycle_seconds=seconds)
        for seconds in (1e-9, 2e-9)
    )
    assert slow.energy_pj("leak") == pytest.approx(2 * fast.energy_pj("leak"))
    assert slow.energy_pj("read") == fast.energy_pj("read")


def test_technology_must_come_from_somewhere(reference_classes):
    request = EnergyRequest("glb", "smartbuffer_SRAM", None, {"width": 64, "depth": 1024}, "storage")
    with pytest.raises(EnergyError, match="needs the attribute `technology`") as caught:
        price_component(
            request, EnergyTables(), reference_classes, {"technology": "SET ME", "global_cycle_seconds": 1e-9}
        )
    assert "top-level variables" in caught.value.hint


@pytest.mark.parametrize(
    ("length", "notes"),
    [
        ("2", ("`link`: the `length` 2 of a wire is taken as millimetres; write 2mm or 2um",)),
        ("2mm", ()),
        ("'2000um'", ()),
    ],
)
def test_the_length_of_a_wire_has_a_unit_or_a_note(parse, length, notes):
    text = f"""\
components:
  classes:
  - name: link
    attributes: {{width: 16, link_length: {length}}}
    subcomponents:
    - {{name: wire, class: wire, attributes: {{length: link_length, width: width}}}}
    actions:
    - {{name: compute, subcomponents: [{{name: wire, actions: [{{name: transfer}}]}}]}}
"""
    request = EnergyRequest("link", "link", None, {"width": 16}, "compute")
    prices = price_component(request, EnergyTables(), classes_of(parse(text)), PROCESS)
    assert prices.compute == Decimal("2.56")
    assert prices.remarks[: len(notes)] == notes
    assert not [note for note in prices.remarks[len(notes) :] if "wire" in note]
