from decimal import Decimal

import pytest

from model.energy import (
    CompoundClasses,
    EnergyError,
    EnergyRequest,
    EnergyTables,
    load_tables,
    price_component,
)
from model.energy.components import load_compound_classes
from model.text.reader import read_files
from model.text.source import Span
from tests.conftest import SHARED

DESIGNS = SHARED / "reference" / "designs" / "example_designs"
SRAM = {"width": 64, "depth": 1024, "technology": "45nm", "global_cycle_seconds": 1e-9}
PLACE = Span("arch.yaml", 7, 3, 7, 9)

ERT = """\
ERT:
  tables:
    - name: top.glb[1..1]
      actions:
        - {name: read, energy: 1.5}
        - {name: write, energy: 2.5}
        - {name: leak, energy: 0.125}
    - name: top.mac[1..4]
      actions: [{name: compute, energy: 0.25}]
ART: {tables: [{name: top.glb, area: 99.5}]}
"""


def ask(component_class="SRAM", attributes=SRAM, kind="storage", name="glb", **more):
    return EnergyRequest(
        name, component_class, more.pop("subclass", None), attributes, kind, span=PLACE, **more
    )


def prices_of(request, tables=None, variables=None):
    return price_component(request, tables or EnergyTables(), CompoundClasses(), variables or {})


@pytest.fixture
def load(parse):
    def load(text=ERT):
        root = parse(text)
        return load_tables(root.get("ERT"), root.get("ART"))

    return load


def figure(text):
    return Decimal(text), f"given at arch.yaml:{text}"


def test_given_figures_come_first_then_the_ert_action_by_action(load):
    prices = prices_of(ask(given={"read": figure("0.1")}, given_area=figure("7")), load())
    assert (prices.read, prices.fill, prices.update, prices.leak) == tuple(
        map(Decimal, ("0.1", "2.5", "2.5", "0.125"))
    )
    assert prices.sources == {
        "read": "given at arch.yaml:0.1",
        "fill": "ERT.yaml:6",
        "update": "ERT.yaml:6",
        "leak": "ERT.yaml:7",
    }
    assert (prices.area_um2, prices.area_source) == (7, "given at arch.yaml:7")
    assert prices.remarks == ()


def test_the_ert_comes_before_the_estimator(load):
    from_table, estimated = prices_of(ask(), load()), prices_of(ask())
    assert from_table.read == Decimal("1.5")
    assert from_table.area_um2 == 99.5
    assert from_table.area_source == "ERT.yaml:10"
    assert estimated.read != from_table.read
    assert estimated.sources["read"] == "estimator: SRAM, 45 nm"
    assert estimated.area_source == "estimator: SRAM, 45 nm"


def test_given_figures_complete_the_estimate():
    prices = prices_of(ask(given={"write": figure("3")}))
    assert prices.fill == prices.update == 3
    assert prices.sources["read"].startswith("estimator")
    assert prices.read > 0


def test_fills_and_updates_of_their_own_are_preferred_to_writes(load):
    text = ERT.replace(
        "- {name: leak",
        "- {name: fill, energy: 3}\n        - {name: update, energy: 4}\n        - {name: leak",
    )
    prices = prices_of(ask(), load(text))
    assert (prices.read, prices.fill, prices.update) == (Decimal("1.5"), 3, 4)


STORAGE_ACTIONS = {
    "read": ("random_read", "read"),
    "fill": ("random_fill", "random_write", "fill", "write"),
    "update": ("random_update", "random_write", "update", "write"),
}


def table_of(load, name, actions):
    """Return the ERT with this table alone; the energy of an action is its place, counted from 1."""
    entries = ", ".join(f"{{name: {action}, energy: {place}}}" for place, action in enumerate(actions, 1))
    return load(f"ERT: {{tables: [{{name: {name}, actions: [{entries}]}}]}}")


@pytest.mark.parametrize(("action", "names"), STORAGE_ACTIONS.items())
def test_the_first_name_that_timeloop_knows_counts_in_a_table(load, action, names):
    given = {other: figure("9") for other in ("read", "fill", "update") if other != action}
    for place in range(len(names)):
        prices = prices_of(ask(given=given), table_of(load, "glb", names[place:]))
        assert getattr(prices, action) == 1
        turned = prices_of(ask(given=given), table_of(load, "glb", names[place:][::-1]))
        assert getattr(turned, action) == len(names) - place


def test_the_first_operation_that_timeloop_knows_counts_in_a_table(load):
    names = ("mac_random", "mult_random", "mac", "mult", "compute")
    for place in range(len(names)):
        tables = table_of(load, "mac", names[place:][::-1])
        assert prices_of(ask("intmac", {}, "compute", "mac"), tables).compute == len(names) - place


def test_a_missing_table_is_an_error_with_the_place_of_the_ert(load):
    with pytest.raises(EnergyError, match="the ERT has no table of the component `glbb`") as caught:
        prices_of(ask(name="glbb"), load())
    assert caught.value.span is PLACE
    assert caught.value.related[0][0].file.endswith("ERT.yaml")
    assert caught.value.hint == "did you mean `glb`?"


@pytest.mark.parametrize(
    ("action", "missing"),
    [("read", "`random_read` or `read`"), ("write", "`random_fill` or `random_write` or `fill` or `write`")],
)
def test_a_missing_action_is_an_error_with_the_place_of_the_table(load, action, missing):
    text = ERT.replace(f"{{name: {action},", "{name: other,")
    with pytest.raises(EnergyError) as caught:
        prices_of(ask(), load(text))
    assert f"the ERT's table of `glb` lacks the action {missing}" in caught.value.message
    assert caught.value.span is PLACE
    assert caught.value.related[0][0].line == 3


def test_a_figure_for_the_missing_action_may_be_given(load):
    text = ERT.replace("{name: read,", "{name: other,")
    assert prices_of(ask(given={"read": figure("5")}), load(text)).read == 5


def test_a_table_without_leakage_is_noted(load):
    prices = prices_of(ask(), load(ERT.replace("{name: leak,", "{name: other,")))
    assert prices.leak == 0
    assert prices.sources["leak"] == "none (no leak at ERT.yaml:3)"
    assert prices.remarks == ("`glb`: no leak at ERT.yaml:3; its leakage counts as zero",)


def test_leakage_is_not_estimated_beside_given_energies():
    given = {"read": figure("1"), "write": figure("2")}
    prices = prices_of(ask("storage", {}, given=given))
    assert (prices.read, prices.fill, prices.update, prices.leak) == (1, 2, 2, 0)
    assert "its leakage counts as zero" in prices.remarks[0]
    assert prices_of(ask("storage", {}, given={**given, "leak": figure("3")})).remarks == ()


def test_the_tables_leakage_completes_given_energies(load):
    given = {"read": figure("1"), "write": figure("2")}
    prices = prices_of(ask(given=given), load())
    assert (prices.leak, prices.sources["leak"]) == (Decimal("0.125"), "ERT.yaml:7")


def test_compute_has_one_price(load):
    prices = prices_of(ask("intmac", {}, "compute", "mac"), load())
    assert prices.compute == Decimal("0.25")
    assert prices.sources == {"compute": "ERT.yaml:9"}
    attributes = {"multiplier_width": 8, "adder_width": 32, "technology": 45}
    assert prices_of(ask("compute", attributes, "compute", subclass="intmac")).compute == Decimal("0.3")


@pytest.mark.parametrize("energy", ["0", "5"])
def test_leaking_arithmetic_is_noted(load, energy):
    noted = "the leakage of `mac` ({}) is ignored: leakage of compute units is not modelled"
    given = {"compute": figure("1"), "leak": figure(energy)}
    own = prices_of(ask("intmac", {}, "compute", "mac", given=given))
    listed = prices_of(
        ask("intmac", {}, "compute", "mac"),
        load(ERT.replace("energy: 0.25}]", f"energy: 0.25}}, {{name: leak, energy: {energy}}}]")),
    )
    assert (own.leak, listed.leak) == (0, 0)
    expected = [("given at arch.yaml:5",), ("ERT.yaml:9",)] if energy == "5" else [(), ()]
    assert [own.remarks, listed.remarks] == [tuple(map(noted.format, places)) for places in expected]


def test_energy_and_area_scales_apply_to_given_and_estimated_figures_only(load):
    scaled = {**SRAM, "energy_scale": 2, "area_scale": 0.5}
    base, doubled = prices_of(ask()), prices_of(ask(attributes=scaled))
    assert doubled.read == 2 * base.read
    assert doubled.leak == base.leak
    assert doubled.area_um2 == pytest.approx(base.area_um2 / 2)
    assert doubled.sources["read"] == "estimator: SRAM, 45 nm, times 2"
    assert prices_of(ask(attributes=scaled, given={"read": figure("3")})).read == 6
    as_it_stands = prices_of(ask(attributes=scaled), load())
    assert as_it_stands.read == Decimal("1.5")
    assert "does not apply to the ERT" in as_it_stands.remarks[0]


def test_scaled_estimates_are_no_longer_than_they_are_good_for():
    scaled = {
        scale: prices_of(ask(attributes={**SRAM, "energy_scale": scale})) for scale in (1, 1 / 3, 1e-15)
    }
    third, tiny = scaled[1 / 3].read, scaled[1e-15].read
    assert third == round(scaled[1].read / 3, 12)
    assert tiny == scaled[1].read * Decimal("1e-15") > 0
    assert prices_of(
        ask(attributes={**SRAM, "energy_scale": 0.1 * 3}, given={"read": figure("7e-20")})
    ).read == (Decimal("2.1e-20"))


def test_a_scale_does_not_lead_beyond_what_figures_may_be():
    request = ask(attributes={**SRAM, "energy_scale": 1e15}, given={"read": figure("2e15")})
    with pytest.raises(EnergyError, match=r"`energy_scale` makes 2.00e\+30 of 2e\+15, more than 1e\+30"):
        prices_of(request)


def test_estimates_have_six_significant_digits():
    prices = prices_of(ask(attributes={**SRAM, "width": 61, "depth": 1003, "technology": "28nm"}))
    for value in (prices.read, prices.fill, prices.leak):
        assert 0 < len(value.normalize().as_tuple().digits) <= 6


def test_process_attributes_come_from_the_variables_when_the_component_has_none():
    attributes = {"memory_width": 64, "memory_depth": 1024, "technology": "SET ME"}
    variables = {"technology": "45nm", "global_cycle_seconds": 1e-9}
    assert prices_of(ask(attributes=attributes), variables=variables) == prices_of(ask())


def test_an_unknown_cycle_time_is_taken_as_one_nanosecond_and_shown():
    attributes = {name: value for name, value in SRAM.items() if name != "global_cycle_seconds"}
    prices = prices_of(ask(attributes=attributes))
    assert prices.leak == prices_of(ask()).leak
    assert prices.sources["leak"] == "estimator: SRAM, 45 nm, 1 ns cycle assumed"
    assert prices.sources["read"] == "estimator: SRAM, 45 nm"


def test_dram_says_its_type():
    prices = prices_of(ask("DRAM", {"type": "HBM2", "width": 64}))
    assert prices.read == Decimal("249.6")
    assert (prices.leak, prices.area_um2) == (0, 0)
    assert prices.sources["read"] == "estimator: DRAM HBM2"
    assert prices.remarks == ()


def test_a_dram_of_no_type_is_an_lpddr4():
    prices, written = (prices_of(ask("DRAM", {"width": 64, **more})) for more in ({}, {"type": "LPDDR4"}))
    assert prices.read == written.read
    assert prices.sources["read"] == "estimator: DRAM LPDDR4, assumed"
    assert prices.remarks == ("`glb` has no `type`: its energies are those of LPDDR4",)


@pytest.mark.parametrize(
    ("component_class", "subclass", "message", "hint"),
    [
        ("smart_buffer_SRAM", None, "unknown component class `smart_buffer_SRAM`", "`smartbuffer_SRAM`"),
        ("storage", "flux", "unknown component class `flux`", "known classes: "),
        (
            "LPDDR5_DRAM",
            None,
            "unknown component class `LPDDR5_DRAM`",
            "a DRAM has `class: DRAM` and a `type`",
        ),
        ("storage", None, "is too general for an estimate", "subclass"),
    ],
)
def test_unknown_classes_are_refused_with_the_known_ones(component_class, subclass, message, hint):
    with pytest.raises(EnergyError) as caught:
        prices_of(ask(component_class, subclass=subclass))
    assert message in caught.value.message
    assert hint in caught.value.hint
    assert caught.value.span is PLACE


def test_a_known_class_is_listed_once_though_files_define_it_too(parse):
    root = parse("components: {classes: [{name: intmac, subcomponents: []}]}")
    classes = load_compound_classes([root.get("components")], lambda _: None)
    with pytest.raises(EnergyError) as caught:
        price_component(ask("flux"), EnergyTables(), classes, {})
    names = caught.value.hint.removeprefix("known classes: ").partition(";")[0].split(", ")
    assert len(names) == len(set(names))


@pytest.mark.parametrize("component_class", ["SRAM", "DRAM", "storage", "flux"])
def test_technology_minus_one_asks_for_placeholders(component_class):
    prices = prices_of(ask(component_class, {"technology": -1}))
    assert (prices.read, prices.fill, prices.update, prices.leak, prices.area_um2) == (1, 1, 1, 0, 1)
    assert prices.sources["read"] == f"estimator: {component_class}, placeholder"
    (remark,) = prices.remarks
    assert "`glb` has figures of `technology: -1`, which are placeholders" in remark


def test_given_energies_come_before_placeholders():
    given = {action: figure("3") for action in ("read", "write", "leak")}
    prices = prices_of(ask("flux", {}, given=given), variables={"technology": -1})
    assert (prices.read, prices.remarks) == (3, ())


@pytest.mark.parametrize("value", [-1, "two", True, float("inf")])
def test_scales_must_be_numbers(value):
    with pytest.raises(EnergyError, match="energy_scale"):
        prices_of(ask(attributes={**SRAM, "energy_scale": value}))


@pytest.mark.parametrize(
    ("design", "name", "expected"),
    [
        ("eyeriss_like", "shared_glb", ("18.1838", "14.1379", "14.1379", "0.00565154")),
        ("eyeriss_like", "psum_spad", ("0.315775", "0.275033", "0.275033", "0.000169297")),
        ("simple_output_stationary", "pe_spad", ("0.660171", "1.56261", "1.56261", "0.0000211778")),
        ("simple_output_stationary", "weight_reg", ("0.182195", "0", "0", "0")),
    ],
)
def test_the_reference_designs_are_priced_by_their_tables(design, name, expected):
    folder = DESIGNS / design
    if not folder.is_dir():
        pytest.skip("the reference designs under ../shared are absent")
    root = read_files([folder / "ERT.yaml", folder / "ART.yaml"])
    prices = prices_of(ask("flux", {}, name=name), load_tables(root.get("ERT"), root.get("ART")))
    assert (prices.read, prices.fill, prices.update, prices.leak) == tuple(map(Decimal, expected))
    assert prices.sources["read"].startswith("ERT.yaml:")
    assert prices.area_um2 > 0
