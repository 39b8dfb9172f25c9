"""The built-in estimator: rough analytic energies and areas of primitive components.

This is no circuit simulator and no CACTI. It is a handful of closed formulas, most with public figures
behind them, some with figures of our own, good for comparing mappings and for a first guess (expect a
factor of two to four either way); whoever has better figures gives them, or an ERT, and the estimator is
not asked.

Calibration, all at 45 nm (`model.energy.technology` scales to other nodes):

* Adders, multipliers and their areas: M. Horowitz, "Computing's energy problem (and what we can do
  about it)", ISSCC 2014. Between its operand widths: integer adders are linear in the width,
  integer multipliers and floating point follow the power law through the two published points.
* SRAM: the same source's caches (8 KiB 10 pJ, 32 KiB 20 pJ, 1 MiB 100 pJ for 64 bits), met within 15 %.
  Energy per bit of width is ``0.01 + 0.0006 * sqrt(bits)`` pJ. Our own assumptions: half of the root
  term is for lines inside of a bank, half for the wires between banks; a further port lengthens all
  wires by a quarter; areas are 0.4 square micrometres per bit, and 2 per bit along an edge of each bank.
* Registers, register files, comparators: figures of our own, with no publication behind them. Every row
  of a register file costs selection wires, so its energy is linear in depth.
* DRAM: `model.energy.dram`. No area, no leakage.
* Leakage: figures of our own for low-leakage processes, 3.2 pW per SRAM bit and 0.3 nW per square
  micrometre of logic; scaled with the node like energy, for want of a better rule.
* Wire: 0.08 pJ per bit and millimetre, assuming 0.2 pF/mm, 0.9 V, and that half of the bits
  toggle. Lengths such as ``2mm``, ``150um``; without a unit they are in millimetres.

Every energy grows with the width; that of SRAM and register files with the depth as well, that of a wire
with its length.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from model.energy.attributes import Attributes
from model.energy.dram import dram_pj_per_bit
from model.energy.request import EnergyError
from model.energy.technology import area_scale, energy_scale, parse_node

_SRAM_LEAK_W_PER_BIT = 3.2e-12
_LOGIC_LEAK_W_PER_UM2 = 0.3e-9
_REGISTER_PJ_PER_BIT = 0.0114
_REGISTER_UM2_PER_BIT = 6.0
_COMPARATOR_PJ_PER_BIT = 0.0018
_COMPARATOR_UM2_PER_BIT = 2.5
_WIRE_PJ_PER_BIT_MM = 0.08
_PORT_LENGTH_SHARE = 0.25
_SIGNIFICAND_BITS = {8: 4, 16: 11, 32: 24, 64: 53}


@dataclass(frozen=True)
class Estimate:
    """One component.

    Parameters
    ----------
    access_pj
        Energy of an access or operation, in picojoule.
    leak_w
        Leakage power, in watt.
    area_um2
        Area, in square micrometres.
    """

    access_pj: float
    leak_w: float
    area_um2: float

    def __add__(self, other: Estimate) -> Estimate:
        """Two components that are accessed together."""
        return Estimate(
            self.access_pj + other.access_pj, self.leak_w + other.leak_w, self.area_um2 + other.area_um2
        )

    def scaled(self, node_nm: float) -> Estimate:
        """The same component at another node than 45 nm; leakage scales as energy does."""
        energy, area = energy_scale(node_nm), area_scale(node_nm)
        return Estimate(self.access_pj * energy, self.leak_w * energy, self.area_um2 * area)


def _logic(access_pj: float, area_um2: float) -> Estimate:
    return Estimate(access_pj, area_um2 * _LOGIC_LEAK_W_PER_UM2, area_um2)


def _power_law(x: float, first: tuple[float, float], second: tuple[float, float]) -> float:
    """Evaluate the power law through two points."""
    exponent = math.log(second[1] / first[1]) / math.log(second[0] / first[0])
    return first[1] * math.pow(x / first[0], exponent)


def _int_adder(bits: float) -> Estimate:
    if bits == 0:
        return Estimate(0.0, 0.0, 0.0)
    return _logic(0.02 / 3 + 0.07 / 24 * bits, 2.0 + 4.2 * bits)


def _int_multiplier(bits_a: float, bits_b: float) -> Estimate:
    product = bits_a * bits_b
    return _logic(
        _power_law(product, (64.0, 0.2), (1024.0, 3.1)),
        _power_law(product, (64.0, 282.0), (1024.0, 3495.0)),
    )


def _float_adder(total_bits: float) -> Estimate:
    return _logic(
        _power_law(total_bits, (16.0, 0.4), (32.0, 0.9)),
        _power_law(total_bits, (16.0, 1360.0), (32.0, 4184.0)),
    )


def _float_multiplier(significand_bits: float) -> Estimate:
    return _logic(
        _power_law(significand_bits, (11.0, 1.1), (24.0, 3.7)),
        _power_law(significand_bits, (11.0, 1640.0), (24.0, 7700.0)),
    )


def _register(bits: float, rows: float) -> Estimate:
    area = bits * rows * _REGISTER_UM2_PER_BIT
    return _logic(bits * _REGISTER_PJ_PER_BIT, area)


def _sram(bits: float, rows: float, banks: float, ports: float) -> Estimate:
    capacity = bits * rows
    length = 1 + _PORT_LENGTH_SHARE * (ports - 1)
    per_bit = 0.01 + length * (0.0003 * math.sqrt(capacity / banks) + 0.0003 * math.sqrt(capacity))
    area = length**2 * (0.4 * capacity + 2.0 * math.sqrt(capacity * banks))
    return Estimate(bits * per_bit, capacity * _SRAM_LEAK_W_PER_BIT, area)


def _register_file(bits: float, rows: float, ports: float) -> Estimate:
    length = 1 + _PORT_LENGTH_SHARE * (ports - 1)
    return _logic(bits * (0.005 + 0.0005 * length * rows), length**2 * bits * rows * _REGISTER_UM2_PER_BIT)


def _address_bits(rows: float) -> float:
    return max(1, math.ceil(math.log2(rows)))


def _width(attributes: Attributes) -> float:
    return attributes.number("width", "datawidth", "n_bits", least=1)


def _operand_width(attributes: Attributes, *names: str) -> float:
    return attributes.number(*names, "width", "datawidth", "n_bits", "width_a")


def _depth(attributes: Attributes) -> float:
    return attributes.number("depth", least=1)


def _ports(attributes: Attributes) -> float:
    shared = attributes.number("n_rdwr_ports", "n_rw_ports", default=0)
    one_way = attributes.number("n_rd_ports", default=0) + attributes.number("n_wr_ports", default=0)
    return max(1.0, shared + one_way)


def _sram_model(attributes: Attributes) -> Estimate:
    banks = attributes.number("n_banks", default=1, least=1)
    return _sram(_width(attributes), _depth(attributes), banks, _ports(attributes))


def _register_file_model(attributes: Attributes) -> Estimate:
    return _register_file(_width(attributes), _depth(attributes), _ports(attributes))


def _with_address_generators(storage: Estimate, rows: float) -> Estimate:
    """Add one address generator for reads and one for writes; an access uses one of them."""
    adder = _int_adder(_address_bits(rows))
    both = Estimate(adder.access_pj, 2 * adder.leak_w, 2 * adder.area_um2)
    return storage + both


def _smartbuffer_sram_model(attributes: Attributes) -> Estimate:
    return _with_address_generators(_sram_model(attributes), _depth(attributes))


def _smartbuffer_rf_model(attributes: Attributes) -> Estimate:
    return _with_address_generators(_register_file_model(attributes), _depth(attributes))


def _register_model(attributes: Attributes) -> Estimate:
    """A register without a width is one flip-flop: compound classes count them by range."""
    bits = attributes.number("width", "datawidth", "n_bits", default=1, least=1)
    return _register(bits, attributes.number("depth", default=1, least=1))


def _dram_model(attributes: Attributes) -> Estimate:
    pj_per_bit = dram_pj_per_bit(attributes.lookup("type"))
    return Estimate(_width(attributes) * pj_per_bit, 0.0, 0.0)


def _int_adder_model(attributes: Attributes) -> Estimate:
    return _int_adder(_operand_width(attributes, "adder_width"))


def _int_multiplier_model(attributes: Attributes) -> Estimate:
    bits_a = attributes.number("width_a", "multiplier_width", "width", "datawidth", "n_bits", least=1)
    return _int_multiplier(bits_a, attributes.number("width_b", default=bits_a, least=1))


def _int_mac_model(attributes: Attributes) -> Estimate:
    bits = attributes.number("multiplier_width", "width", "datawidth", least=1)
    return _int_multiplier(bits, bits) + _int_adder(_operand_width(attributes, "adder_width"))


def _total_bits(attributes: Attributes) -> float:
    if attributes.lookup("mantissa") is None:
        return _width(attributes)
    return 1 + attributes.number("exponent", least=1) + attributes.number("mantissa", least=1)


def _significand_bits(attributes: Attributes) -> float:
    """Bits of the significand with its hidden one, of an IEEE format when only the width is known."""
    if attributes.lookup("mantissa") is not None:
        return 1 + attributes.number("mantissa", least=1)
    bits = _width(attributes)
    if bits not in _SIGNIFICAND_BITS:
        raise EnergyError(
            f"the class `{attributes.component_class}` knows no {bits:g}-bit floating point format",
            hint="give `exponent` and `mantissa`",
        )
    return _SIGNIFICAND_BITS[int(bits)]


def _float_adder_model(attributes: Attributes) -> Estimate:
    return _float_adder(_total_bits(attributes))


def _float_multiplier_model(attributes: Attributes) -> Estimate:
    return _float_multiplier(_significand_bits(attributes))


def _float_mac_model(attributes: Attributes) -> Estimate:
    return _float_multiplier_model(attributes) + _float_adder_model(attributes)


def _comparator_model(attributes: Attributes) -> Estimate:
    bits = attributes.number("n_bits", "comparator_width", "width", "datawidth")
    return _logic(bits * _COMPARATOR_PJ_PER_BIT, bits * _COMPARATOR_UM2_PER_BIT)


def _counter_model(attributes: Attributes) -> Estimate:
    bits = _operand_width(attributes)
    return _int_adder(bits) + _register(bits, 1)


def assumed_unit(name: str, attributes: Attributes) -> str | None:
    """Return a remark on the length of a wire that has no unit."""
    length = attributes.lookup("length")
    if name != "wire" or attributes.lookup("length_mm") is not None or not isinstance(length, (int, float)):
        return None
    return f"the `length` {length:g} of a wire is taken as millimetres; write {length:g}mm or {length:g}um"


def _wire_model(attributes: Attributes) -> Estimate:
    bits = attributes.number("datawidth", "width", "n_bits", least=1)
    length_mm = attributes.millimetres("length_mm", "length")
    return Estimate(bits * length_mm * _WIRE_PJ_PER_BIT_MM, 0.0, 0.0)


_STORAGE_ACTIONS = frozenset({"read", "write", "fill", "update"})
_OPERATIONS = frozenset({"compute", "read"})


@dataclass(frozen=True)
class Primitive:
    """A primitive class.

    Parameters
    ----------
    name
        As it is shown; letters of either case match.
    model
        Its figures at 45 nm; raises `EnergyError` when an attribute is missing or wrong.
    actions
        Those that cost one access or operation; ``leak`` is not among them.
    scales
        Whether the figures scale with the technology node; those of DRAM do not.
    """

    name: str
    model: Callable[[Attributes], Estimate]
    actions: frozenset[str]
    scales: bool = True

    def estimate(self, attributes: Attributes) -> Estimate:
        """Estimate one component at its technology node.

        Raises
        ------
        EnergyError
            When an attribute is missing or wrong.
        """
        estimate = self.model(attributes)
        if not self.scales:
            return estimate
        return estimate.scaled(parse_node(attributes.require("technology")))


_PRIMITIVES = (
    Primitive("DRAM", _dram_model, _STORAGE_ACTIONS, scales=False),
    Primitive("SRAM", _sram_model, _STORAGE_ACTIONS),
    Primitive("smartbuffer_SRAM", _smartbuffer_sram_model, _STORAGE_ACTIONS),
    Primitive("smartbuffer_RF", _smartbuffer_rf_model, _STORAGE_ACTIONS),
    Primitive("regfile", _register_file_model, _STORAGE_ACTIONS),
    Primitive("register", _register_model, _STORAGE_ACTIONS),
    Primitive("intadder", _int_adder_model, _OPERATIONS | {"add"}),
    Primitive("intmultiplier", _int_multiplier_model, _OPERATIONS | {"multiply"}),
    Primitive("intmac", _int_mac_model, _OPERATIONS | {"mac", "mac_random"}),
    Primitive("fpadder", _float_adder_model, _OPERATIONS | {"add"}),
    Primitive("fpmultiplier", _float_multiplier_model, _OPERATIONS | {"multiply"}),
    Primitive("fpmac", _float_mac_model, _OPERATIONS | {"mac", "mac_random"}),
    Primitive("comparator", _comparator_model, _OPERATIONS | {"compare"}),
    Primitive("counter", _counter_model, _OPERATIONS | {"count"}),
    Primitive("wire", _wire_model, _OPERATIONS | {"transfer", "transfer_random"}),
)
_ALIASES = {
    "aladdin_register": "register",
    "reg": "register",
    "adder": "intadder",
    "aladdin_adder": "intadder",
    "multiplier": "intmultiplier",
    "aladdin_multiplier": "intmultiplier",
    "aladdin_comparator": "comparator",
    "aladdin_counter": "counter",
    "mac": "intmac",
}
_BY_NAME = {primitive.name.casefold(): primitive for primitive in _PRIMITIVES}


ESTIMATED_ATTRIBUTES = frozenset(
    (
        *("technology", "global_cycle_seconds", "type"),
        *("width", "datawidth", "n_bits", "width_a", "width_b"),
        *("multiplier_width", "adder_width", "comparator_width", "exponent", "mantissa"),
        *("depth", "n_banks", "n_rd_ports", "n_wr_ports", "n_rdwr_ports", "n_rw_ports"),
        *("length", "length_mm"),
    )
)
"""Attributes that some class's model asks for."""


def find_primitive(component_class: str) -> Primitive | None:
    """Return the primitive class of that name or alias, in whatever case, None without one."""
    folded = component_class.casefold()
    return _BY_NAME.get(_ALIASES.get(folded, folded))


def known_classes() -> tuple[str, ...]:
    """Names and aliases of the primitive classes, sorted."""
    return tuple(sorted([*(primitive.name for primitive in _PRIMITIVES), *_ALIASES]))
