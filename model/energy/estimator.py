"""The built-in estimator: rough analytic energies and areas of primitive components.

This is no circuit simulator and no CACTI. It is a handful of closed formulas, most with public figures
behind them, some with figures of our own, good for comparing mappings and for a first guess (expect a
factor of two to four either way); whoever has better figures gives them, or an ERT, and the estimator is
not asked.

Calibration, all at 45 nm (scaled to other nodes, see below):

* Adders, multipliers and their areas: M. Horowitz, "Computing's energy problem (and what we can do
  about it)", ISSCC 2014. Between its operand widths: integer adders are linear in the width,
  integer multipliers and floating point follow the power law through the two published points.
* SRAM: the same source's caches (8 KiB 10 pJ, 32 KiB 20 pJ, 1 MiB 100 pJ for 64 bits), met within 15 %.
  Energy per bit of width is ``0.01 + 0.0006 * sqrt(bits)`` pJ. Our own assumptions: half of the root
  term is for lines inside of a bank, half for the wires between banks; a further port lengthens all
  wires by a quarter; areas are 0.4 square micrometres per bit, and 2 per bit along an edge of each bank.
* Registers, register files, comparators: figures of our own, with no publication behind them. Every row
  of a register file costs selection wires, so its energy is linear in depth.
* DRAM: the energy per bit at the interface, independent of the node; no area, no leakage. DDR3 and LPDDR:
  K. Malladi et al., ISCA 2012; GDDR5 and HBM2: M. O'Connor et al., MICRO 2017; DDR4: Micron, Hot Chips
  2011 (309 mW per GB/s); LPDDR4: 512 pJ for 64 bits, as in the tables that Accelergy computed for
  Timeloop's example designs.
* Leakage: figures of our own for low-leakage processes, 3.2 pW per SRAM bit and 0.3 nW per square
  micrometre of logic; scaled with the node like energy, for want of a better rule.
* Wire: 0.08 pJ per bit and millimetre, assuming 0.2 pF/mm, 0.9 V, and that half of the bits
  toggle. Lengths such as ``2mm``, ``150um``; without a unit they are in millimetres.

Every energy grows with the width; that of SRAM and register files with the depth as well, that of a wire
with its length.

The scale factors follow A. Stillmaker and B. Baas, "Scaling equations for the accurate prediction
of CMOS device performance from 180 nm to 7 nm", Integration 58 (2017): their quadratic fit of
energy over the supply voltage, evaluated at a usual supply of each node, and their area factors
for the 45 nm node. Between the nodes of the tables we interpolate linearly in the logarithms of
node and factor; down to 3 nm and up to 180 nm the slope of the outermost pair is continued, which
is a guess.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise

from model.energy.request import EnergyError
from model.wording import did_you_mean

LARGEST_ATTRIBUTE = 1e15
PROCESS_ATTRIBUTES = ("technology", "global_cycle_seconds")
_MILLIMETRES = {"m": 1e3, "mm": 1.0, "um": 1e-3, "µm": 1e-3, "nm": 1e-6}
_LENGTH = re.compile(rf"(\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+)\s*({'|'.join(_MILLIMETRES)})?")
_PLACEHOLDERS = frozenset({"setme", "mustspecify"})


def is_placeholder(value: object) -> bool:
    """Whether a value only marks that there should be one: ``SET ME``, ``must_specify``."""
    return isinstance(value, str) and value.casefold().replace(" ", "").replace("_", "") in _PLACEHOLDERS


def missing_attribute(name: str, component_class: str) -> EnergyError:
    """Return the error for an attribute that nobody specified; the caller raises it."""
    hint = None
    if name in PROCESS_ATTRIBUTES:
        hint = f"give `{name}` on the component, on a container around it, or in the top-level variables"
    return EnergyError(f"the class `{component_class}` needs the attribute `{name}`", hint=hint)


@dataclass(frozen=True)
class Attributes:
    """Evaluated attributes of one component."""

    component_class: str  # name of its class, for messages
    # By name. Missing values are left out, None, or placeholders such as ``SET ME``.
    values: Mapping[str, object]

    def lookup(self, *names: str) -> object | None:
        """Return the value of the first of `names` that is specified, None without any."""
        for name in names:
            value = self.values.get(name)
            if value is not None and not is_placeholder(value):
                return value
        return None

    def require(self, *names: str) -> object:
        """Return the value of the first of `names` that is specified."""
        value = self.lookup(*names)
        if value is None:
            raise missing_attribute(names[0], self.component_class)
        return value

    def number(self, *names: str, default: float | None = None, least: float = 0.0) -> float:
        """Return a number, of the first of some names that is specified."""
        written = self.lookup(*names)
        if written is None and default is not None:
            return default
        value = _to_number(self.require(*names))
        if value is None or not least <= value <= LARGEST_ATTRIBUTE:
            given_name = next(name for name in names if self.lookup(name) is not None)
            raise EnergyError(
                f"attribute `{given_name}` of the class `{self.component_class}` is {written!r}, "
                f"but must be a number from {least:g} to {LARGEST_ATTRIBUTE:g}",
                about=given_name,
            )
        return value

    def millimetres(self, *names: str) -> float:
        """Return a length such as ``2mm`` or ``150 um``; a bare number is in millimetres."""
        match = _LENGTH.fullmatch(str(self.lookup(*names)).strip())
        if match is None or match[2] is None:
            return self.number(*names)
        given_name = next(name for name in names if self.lookup(name) is not None)
        length = float(match[1]) * _MILLIMETRES[match[2]]
        return Attributes(self.component_class, {given_name: length}).number(given_name)


def _to_number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        return float(value)
    except (ValueError, OverflowError):
        return None


REFERENCE_NM = 45.0
SMALLEST_NM = 3.0
LARGEST_NM = 180.0
PLACEHOLDER_TECHNOLOGY = -1

_NODE = re.compile(r"(\d+(?:\.\d+)?)\s*(?:nm)?", re.IGNORECASE)

# Node in nm: supply in V, the coefficients of V**2, V and 1 in the energy fit, and area relative to 45 nm.
_NODES: Mapping[float, tuple[float, float, float, float, float]] = {
    130.0: (1.2, 7.171, -6.709, 2.904, 6.4),
    90.0: (1.1, 4.762, -4.781, 2.092, 2.8),
    65.0: (1.1, 3.755, -4.398, 1.975, 1.5),
    45.0: (0.9, 1.103, -0.362, 0.2767, 1.0),
    32.0: (0.9, 0.9559, -0.7823, 0.471, 0.46),
    20.0: (0.8, 0.373, -0.1582, 0.04104, 0.21),
    16.0: (0.8, 0.2958, -0.1241, 0.03024, 0.19),
    14.0: (0.8, 0.2363, -0.09675, 0.02239, 0.17),
    10.0: (0.75, 0.2068, -0.09311, 0.02375, 0.10),
    7.0: (0.7, 0.1776, -0.09097, 0.02447, 0.059),
}
_ENERGY: Mapping[float, float] = {
    node: square * volt**2 + linear * volt + constant
    for node, (volt, square, linear, constant, _) in _NODES.items()
}
_AREA: Mapping[float, float] = {node: figures[-1] for node, figures in _NODES.items()}

TABLES_NM = min(_NODES), max(_NODES)
"""The nodes between which figures are interpolated; beyond them they are extrapolated."""


def asks_for_placeholders(technology: object) -> bool:
    """Whether a technology asks for placeholder figures, as ``-1`` does in Accelergy."""
    return technology == PLACEHOLDER_TECHNOLOGY


def parse_node(technology: object) -> float:
    """Return the node in nanometres of ``45``, ``"45"``, ``"45nm"`` or ``"45 nm"``."""
    match = None if isinstance(technology, bool) else _NODE.fullmatch(str(technology).strip())
    if match is None:
        raise EnergyError(
            f"attribute `technology` is {technology!r}, which is not a technology node",
            hint="write 45nm, for example",
            about="technology",
        )
    node_nm = float(match[1])
    if not SMALLEST_NM <= node_nm <= LARGEST_NM:
        raise EnergyError(
            f"technology {node_nm:g} nm is outside the estimator's range, "
            f"{SMALLEST_NM:g} nm to {LARGEST_NM:g} nm",
            hint="give the energies yourself, or an ERT",
            about="technology",
        )
    return node_nm


def energy_scale(node_nm: float) -> float:
    """Energy at a node relative to 45 nm, by the fit of Stillmaker and Baas (see the module)."""
    return _interpolated(_ENERGY, node_nm) / _ENERGY[REFERENCE_NM]


def area_scale(node_nm: float) -> float:
    """Area at a node relative to 45 nm, by the table of Stillmaker and Baas (see the module)."""
    return _interpolated(_AREA, node_nm)


def _interpolated(table: Mapping[float, float], node_nm: float) -> float:
    """Interpolate (beyond the ends: extrapolate) linearly in log-log space."""
    nodes = sorted(table)
    pairs = list(pairwise(nodes))
    low, high = next((pair for pair in pairs if node_nm <= pair[1]), pairs[-1])
    share = math.log(node_nm / low) / math.log(high / low)
    return math.exp((1 - share) * math.log(table[low]) + share * math.log(table[high]))


DRAM_PJ_PER_BIT: Mapping[str, float] = {
    "LPDDR": 40.0,
    "LPDDR4": 8.0,
    "DDR3": 70.0,
    "DDR4": 39.0,
    "GDDR5": 14.0,
    "HBM2": 3.9,
}
DEFAULT_DRAM = "LPDDR4"
_DRAM_WORDS = ("DRAM", "DDR", "HBM")
_DRAM_TYPES = ", ".join(sorted(DRAM_PJ_PER_BIT))


def dram_pj_per_bit(written: object) -> float:
    """Return the energy per bit of a DRAM, in picojoule."""
    kind = DEFAULT_DRAM if written is None else str(written).upper()
    if kind not in DRAM_PJ_PER_BIT:
        known = f"known types: {_DRAM_TYPES}; for others give the energies, or an ERT"
        hint = " ".join(filter(None, (did_you_mean(kind, DRAM_PJ_PER_BIT), known)))
        raise EnergyError(f"unknown DRAM type `{written}`", hint=hint, about="type")
    return DRAM_PJ_PER_BIT[kind]


def dram_hint(component_class: str) -> str | None:
    """Return how a DRAM is written, where an unknown class is named like one (``LPDDR5``); else None."""
    if not any(word in component_class.upper() for word in _DRAM_WORDS):
        return None
    return f"a DRAM has `class: DRAM` and a `type` ({_DRAM_TYPES}; others need energies or an ERT);"


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
    """One component."""

    access_pj: float  # energy of an access or operation, in picojoule
    leak_w: float  # leakage power, in watt
    area_um2: float  # area, in square micrometres

    def __add__(self, other: Estimate) -> Estimate:
        """Two components that are accessed together."""
        return Estimate(
            self.access_pj + other.access_pj, self.leak_w + other.leak_w, self.area_um2 + other.area_um2
        )

    def scaled(self, node_nm: float) -> Estimate:
        """The component at a node other than 45 nm; leakage scales as energy does."""
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


def _register(bits: float, rows: float) -> Estimate:
    area = bits * rows * _REGISTER_UM2_PER_BIT
    return _logic(bits * _REGISTER_PJ_PER_BIT, area)


def _width_of(attributes: Attributes) -> float:
    return attributes.number("width", "datawidth", "n_bits", least=1)


def _operand_width(attributes: Attributes, *names: str) -> float:
    return attributes.number(*names, "width", "datawidth", "n_bits", "width_a")


def _depth_of(attributes: Attributes) -> float:
    return attributes.number("depth", least=1)


def _ports(attributes: Attributes) -> float:
    shared = attributes.number("n_rdwr_ports", "n_rw_ports", default=0)
    one_way = attributes.number("n_rd_ports", default=0) + attributes.number("n_wr_ports", default=0)
    return max(1.0, shared + one_way)


def _wire_length(attributes: Attributes) -> float:
    """Return how much longer the wires of a memory are than with a single port."""
    return 1 + _PORT_LENGTH_SHARE * (_ports(attributes) - 1)


def _unless_absent(model: Callable[[Attributes], Estimate]) -> Callable[[Attributes], Estimate]:
    """Return a model of storages by which one of no rows and no bits, a part that is left out, is free."""

    def estimate(attributes: Attributes) -> Estimate:
        absent = all(_to_number(attributes.lookup(name)) == 0 for name in ("width", "depth"))
        return Estimate(0.0, 0.0, 0.0) if absent else model(attributes)

    return estimate


def _sram_model(attributes: Attributes) -> Estimate:
    bits, banks = _width_of(attributes), attributes.number("n_banks", default=1, least=1)
    capacity, length = bits * _depth_of(attributes), _wire_length(attributes)
    per_bit = 0.01 + length * (0.0003 * math.sqrt(capacity / banks) + 0.0003 * math.sqrt(capacity))
    area = length**2 * (0.4 * capacity + 2.0 * math.sqrt(capacity * banks))
    return Estimate(bits * per_bit, capacity * _SRAM_LEAK_W_PER_BIT, area)


def _register_file_model(attributes: Attributes) -> Estimate:
    bits, rows, length = _width_of(attributes), _depth_of(attributes), _wire_length(attributes)
    return _logic(bits * (0.005 + 0.0005 * length * rows), length**2 * bits * rows * _REGISTER_UM2_PER_BIT)


def _with_address_generators(storage: Estimate, rows: float) -> Estimate:
    """Add one address generator for reads and one for writes; an access uses one of them."""
    adder = _int_adder(max(1, math.ceil(math.log2(rows))))
    return storage + Estimate(adder.access_pj, 2 * adder.leak_w, 2 * adder.area_um2)


def _smartbuffer_sram_model(attributes: Attributes) -> Estimate:
    return _with_address_generators(_sram_model(attributes), _depth_of(attributes))


def _smartbuffer_rf_model(attributes: Attributes) -> Estimate:
    return _with_address_generators(_register_file_model(attributes), _depth_of(attributes))


def _register_model(attributes: Attributes) -> Estimate:
    """A register without a width is one flip-flop: compound classes count them by range."""
    bits = attributes.number("width", "datawidth", "n_bits", default=1, least=1)
    return _register(bits, attributes.number("depth", default=1, least=1))


def _dram_model(attributes: Attributes) -> Estimate:
    pj_per_bit = dram_pj_per_bit(attributes.lookup("type"))
    return Estimate(_width_of(attributes) * pj_per_bit, 0.0, 0.0)


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
        return _width_of(attributes)
    return 1 + attributes.number("exponent", least=1) + attributes.number("mantissa", least=1)


def _significand_bits(attributes: Attributes) -> float:
    """Bits of the significand with its hidden one, of an IEEE format when only the width is known."""
    if attributes.lookup("mantissa") is not None:
        return 1 + attributes.number("mantissa", least=1)
    bits = _width_of(attributes)
    if bits not in _SIGNIFICAND_BITS:
        raise EnergyError(
            f"the class `{attributes.component_class}` has no {bits:g}-bit floating point format",
            hint="give `exponent` and `mantissa`",
        )
    return _SIGNIFICAND_BITS[int(bits)]


def _float_adder_model(attributes: Attributes) -> Estimate:
    bits = _total_bits(attributes)
    return _logic(
        _power_law(bits, (16.0, 0.4), (32.0, 0.9)), _power_law(bits, (16.0, 1360.0), (32.0, 4184.0))
    )


def _float_multiplier_model(attributes: Attributes) -> Estimate:
    bits = _significand_bits(attributes)
    return _logic(
        _power_law(bits, (11.0, 1.1), (24.0, 3.7)), _power_law(bits, (11.0, 1640.0), (24.0, 7700.0))
    )


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


_STORAGE_ACTIONS = frozenset({"read", "write", "fill", "update", "access"})
_OPERATIONS = frozenset({"compute", "read"})
_ADDITIONS = _OPERATIONS | {"add", "add_random", "count"}
_MULTIPLICATIONS = _OPERATIONS | {"multiply", "multiply_random", "mult", "mult_random"}
"""Actions with the names of older files too, where an adder counts addresses."""


@dataclass(frozen=True)
class Primitive:
    """A primitive class."""

    name: str  # as it is shown; letters of either case match
    # Its figures at 45 nm; raises `EnergyError` when an attribute is missing or wrong.
    model: Callable[[Attributes], Estimate]
    actions: frozenset[str]  # those that cost one access or operation; ``leak`` is not among them
    scales: bool = True  # whether the figures scale with the technology node; those of DRAM do not

    def estimate(self, attributes: Attributes) -> Estimate:
        """Estimate one component at its technology node."""
        estimate = self.model(attributes)
        if not self.scales:
            return estimate
        return estimate.scaled(parse_node(attributes.require("technology")))


_PRIMITIVES = (
    Primitive("DRAM", _dram_model, _STORAGE_ACTIONS, scales=False),
    Primitive("SRAM", _unless_absent(_sram_model), _STORAGE_ACTIONS),
    Primitive("smartbuffer_SRAM", _unless_absent(_smartbuffer_sram_model), _STORAGE_ACTIONS),
    Primitive("smartbuffer_RF", _unless_absent(_smartbuffer_rf_model), _STORAGE_ACTIONS),
    Primitive("regfile", _unless_absent(_register_file_model), _STORAGE_ACTIONS),
    Primitive("register", _register_model, _STORAGE_ACTIONS),
    Primitive("intadder", _int_adder_model, _ADDITIONS),
    Primitive("intmultiplier", _int_multiplier_model, _MULTIPLICATIONS),
    Primitive("intmac", _int_mac_model, _OPERATIONS | {"mac", "mac_random"}),
    Primitive("fpadder", _float_adder_model, _ADDITIONS),
    Primitive("fpmultiplier", _float_multiplier_model, _MULTIPLICATIONS),
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
