import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.energy import EnergyError
from model.energy.estimator import (
    DRAM_PJ_PER_BIT,
    Attributes,
    area_scale,
    energy_scale,
    find_primitive,
    known_classes,
    parse_node,
)

WIDTHS = st.integers(1, 2048)
DEPTHS = st.integers(1, 1 << 20)
BUFFERS = ["SRAM", "smartbuffer_SRAM", "smartbuffer_RF", "regfile"]
OPERATORS = [
    "intadder",
    "intmultiplier",
    "intmac",
    "fpadder",
    "comparator",
    "counter",
    "aladdin_adder",
    "aladdin_multiplier",
    "adder",
    "multiplier",
]


def estimate(component_class, **attributes):
    primitive = find_primitive(component_class)
    values = {"technology": "45nm", "adder_width": 16, **attributes}
    return primitive.estimate(Attributes(component_class, values))


@pytest.mark.parametrize(
    ("component_class", "attributes", "energy_pj", "tolerance"),
    [
        ("intadder", {"adder_width": 8}, 0.03, 1e-9),
        ("intadder", {"adder_width": 32}, 0.1, 1e-9),
        ("intmultiplier", {"width": 8}, 0.2, 1e-9),
        ("intmultiplier", {"width_a": 32, "width_b": 32}, 3.1, 1e-9),
        ("fpadder", {"width": 16}, 0.4, 1e-9),
        ("fpadder", {"exponent": 8, "mantissa": 23}, 0.9, 1e-9),
        ("fpmultiplier", {"width": 16}, 1.1, 1e-9),
        ("fpmultiplier", {"width": 32}, 3.7, 1e-9),
        ("fpmac", {"width": 32}, 4.6, 1e-9),
        ("intmac", {"multiplier_width": 8, "adder_width": 8}, 0.23, 1e-9),
        ("SRAM", {"width": 64, "depth": 1024}, 10, 0.15),
        ("SRAM", {"width": 64, "depth": 4096}, 20, 0.15),
        ("SRAM", {"width": 64, "depth": 131072}, 100, 0.15),
        ("DRAM", {"width": 64, "type": "LPDDR4"}, 512, 1e-9),
        ("DRAM", {"width": 64, "type": "lpddr4", "technology": "7nm"}, 512, 1e-9),
        ("wire", {"width": 10, "length_mm": 2}, 1.6, 1e-9),
        ("wire", {"width": 10, "length": 2}, 1.6, 1e-9),
        ("wire", {"width": 10, "length": "2mm"}, 1.6, 1e-9),
        ("wire", {"width": 10, "length": "2000 um"}, 1.6, 1e-9),
        ("wire", {"width": 10, "length": "2e6nm"}, 1.6, 1e-9),
        ("wire", {"width": 10, "length": ".002 m"}, 1.6, 1e-9),
    ],
)
def test_the_models_meet_the_figures_that_they_are_calibrated_with(
    component_class, attributes, energy_pj, tolerance
):
    assert estimate(component_class, **attributes).access_pj == pytest.approx(energy_pj, rel=tolerance)


@pytest.mark.parametrize("component_class", BUFFERS)
@given(width=WIDTHS, depth=DEPTHS, extra=st.integers(1, 512), ports=st.integers(1, 4))
def test_buffers_cost_more_when_they_are_wider_or_deeper(component_class, width, depth, extra, ports):
    base = estimate(component_class, width=width, depth=depth, n_rdwr_ports=ports)
    wider = estimate(component_class, width=width + extra, depth=depth, n_rdwr_ports=ports)
    deeper = estimate(component_class, width=width, depth=depth + extra, n_rdwr_ports=ports)
    for larger in (wider, deeper):
        assert larger.access_pj > base.access_pj > 0
        assert larger.leak_w > base.leak_w > 0
        assert larger.area_um2 > base.area_um2 > 0


@pytest.mark.parametrize("component_class", OPERATORS)
@given(width=st.integers(1, 256), extra=st.integers(1, 64))
def test_operators_cost_more_when_they_are_wider(component_class, width, extra):
    base, wider = (
        estimate(component_class, width=bits, multiplier_width=bits, adder_width=bits)
        for bits in (width, width + extra)
    )
    assert wider.access_pj > base.access_pj > 0
    assert wider.area_um2 > base.area_um2 > 0


@pytest.mark.parametrize("component_class", ["fpadder", "fpmultiplier", "fpmac"])
@given(mantissa=st.integers(1, 64), extra=st.integers(1, 32))
def test_floating_point_costs_more_with_a_longer_mantissa(component_class, mantissa, extra):
    base, longer = (estimate(component_class, exponent=8, mantissa=m) for m in (mantissa, mantissa + extra))
    assert longer.access_pj > base.access_pj > 0


@given(st.floats(3, 179), st.floats(0.01, 1))
def test_larger_nodes_cost_more(node_nm, extra):
    assert energy_scale(node_nm + extra) > energy_scale(node_nm) > 0
    assert area_scale(node_nm + extra) > area_scale(node_nm) > 0


def test_the_reference_node_scales_nothing():
    assert energy_scale(45) == pytest.approx(1)
    assert area_scale(45) == pytest.approx(1)
    assert area_scale(90) == pytest.approx(2.8)


@pytest.mark.parametrize("written", ["45nm", "45 nm", "45", 45, 45.0, "45NM"])
def test_the_technology_may_be_written_in_several_ways(written):
    assert parse_node(written) == 45


@pytest.mark.parametrize("written", ["SOI", "", True, 0, 1000, "2nm", None])
def test_other_technologies_are_refused(written):
    with pytest.raises(EnergyError, match="technology"):
        parse_node(written)


def test_banks_save_energy_and_ports_cost():
    plain = estimate("SRAM", width=64, depth=16384)
    assert estimate("SRAM", width=64, depth=16384, n_banks=32).access_pj < plain.access_pj
    assert estimate("SRAM", width=64, depth=16384, n_rdwr_ports=2).access_pj > plain.access_pj
    two_one_way = estimate("SRAM", width=64, depth=16384, n_rd_ports=1, n_wr_ports=1)
    assert two_one_way == estimate("SRAM", width=64, depth=16384, n_rdwr_ports=2)


@pytest.mark.parametrize(
    ("component_class", "attributes", "message"),
    [
        ("SRAM", {"depth": 4}, "needs the attribute `width`"),
        ("SRAM", {"width": 4}, "needs the attribute `depth`"),
        ("SRAM", {"width": 0, "depth": 4}, "`width` of the class `SRAM` is 0"),
        ("SRAM", {"width": "wide", "depth": 4}, "`width` of the class `SRAM` is 'wide'"),
        ("SRAM", {"width": float("nan"), "depth": 4}, "`width` of the class `SRAM` is nan"),
        ("SRAM", {"width": 10**400, "depth": 4}, "`width` of the class `SRAM` is"),
        ("SRAM", {"width": True, "depth": 4}, "`width` of the class `SRAM` is True"),
        ("SRAM", {"width": 4, "depth": 4, "technology": "SET ME"}, "needs the attribute `technology`"),
        ("DRAM", {"width": 64, "type": "DDR9"}, "unknown DRAM type `DDR9`"),
        ("fpmac", {"width": 24}, "no 24-bit floating point format"),
    ],
)
def test_missing_and_wrong_attributes_are_named(component_class, attributes, message):
    with pytest.raises(EnergyError) as caught:
        estimate(component_class, **attributes)
    assert message in caught.value.message


def test_types_of_dram_are_listed_beside_a_suggestion():
    with pytest.raises(EnergyError) as caught:
        estimate("DRAM", width=64, type="LPDDR5")
    assert caught.value.hint.startswith("did you mean `LPDDR`? known types: DDR3,")


def test_classes_are_found_whatever_their_case_and_by_their_aliases():
    assert find_primitive("sram") is find_primitive("SRAM")
    assert find_primitive("aladdin_register") is find_primitive("register")
    assert find_primitive("flux_capacitor") is None
    assert all(find_primitive(name) is not None for name in known_classes())


def test_dram_energies_are_per_bit():
    for kind, per_bit in DRAM_PJ_PER_BIT.items():
        assert estimate("DRAM", width=32, type=kind).access_pj == pytest.approx(32 * per_bit)


def test_an_adder_of_two_operand_widths_has_the_first():
    assert estimate("aladdin_adder", width_a=8, width_b=8) == estimate("aladdin_adder", width=8)
