"""What components cost: as the architecture says, as a table of costs says, or as the estimator says."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path

from model.energy.estimator import Attributes, Estimate, find_primitive, known_classes
from model.energy.figures import place
from model.energy.request import EnergyError
from model.formats.accelforge.architecture import ACTIONS, WrittenNode
from model.formats.accelforge.numbers import finite, not_negative, positive
from model.formats.accelforge.sets import SetNames
from model.note import Note
from model.text.arithmetic import calculated
from model.text.fields import Names, as_mapping, as_name, given, keyed_mapping
from model.text.files import display_name
from model.text.limits import Limits
from model.text.reader import read_files
from model.text.source import MappingNode, Node, ScalarNode, Span, SpecError, TakeNote, note_at
from model.wording import listing, suggestion

_ENTRY_KEYS = ("leak_power_w", "area_m2", "actions")
_ACTION_KEYS = ("energy_j", "throughput_per_s", "bits_per_action")
_SQUARE_METRE_UM2 = 10**12
_PJ = Fraction(1, 10**12)
_DUMMY = "dummy"
DUMMY_SOURCE = "class Dummy"
ESTIMATED = "estimated"

_CLASSES = {"smartbuffersram": "smartbuffer_SRAM", "smartbufferrf": "smartbuffer_RF"}
_DRAM_FAMILIES = ("LPDDR", "DDR", "GDDR", "HBM")


@dataclass(frozen=True)
class TableAction:
    """An action in a table: joules and calls per second, None for infinitely many; bits that it moves."""

    energy_j: Fraction
    throughput_per_s: Fraction | None
    bits_per_action: Fraction | None
    span: Span


@dataclass(frozen=True)
class TableEntry:
    """A component in a table."""

    actions: Mapping[str, TableAction]
    leak_w: Fraction | None
    area_m2: Fraction | None
    span: Span


@dataclass(frozen=True)
class ComponentCosts:
    """Costs by component; a file may hold tables of several architectures, by the names of their files."""

    file: str
    entries: Mapping[str, TableEntry] = field(default_factory=dict)
    sections: Mapping[str, Mapping[str, TableEntry]] = field(default_factory=dict)

    def of(self, architecture: str) -> Mapping[str, TableEntry]:
        """Return the entries for an architecture; SpecError if the file has tables of others only."""
        if not self.sections:
            return self.entries
        if architecture in self.sections:
            return self.sections[architecture]
        hint = suggestion(architecture, self.sections, "it has tables of")
        raise SpecError(f"{self.file} has no costs of the architecture `{architecture}`", hint=hint)


class _NoSets:
    """Names for a file that knows no Einsum."""

    def find(self, name: str) -> None:
        return None

    def candidates(self) -> tuple[str, ...]:
        return ()

    def unknown(self) -> str:
        return "write a number"

    def everything(self, kind: object) -> object:
        raise TypeError("there are no sets here")

    def attribute(self, value: object, name: str) -> object:
        raise TypeError("there are no sets here")


_NO_SETS: SetNames = _NoSets()  # type: ignore[assignment]
_CONSTANTS: Names = {"inf": math.inf}


def load_costs(path: Path, limits: Limits, notes: list[Note]) -> ComponentCosts:
    """Read a table of costs, in joules, seconds, watts and square metres; SpecError for bad input."""
    top = read_files([path], {}, limits, notes=notes)
    shown = display_name(path)
    if all(_is_entry(value) for _, value in top.entries):
        return ComponentCosts(shown, _table_entries(top))
    sections = {key.text: _table_entries(as_mapping(value, f"`{key.text}`")) for key, value in top.entries}
    return ComponentCosts(shown, sections=sections)


def _is_entry(node: Node) -> bool:
    return isinstance(node, MappingNode) and any(key in node for key in _ENTRY_KEYS)


def _table_entries(node: MappingNode) -> dict[str, TableEntry]:
    return {key.text: _table_entry(key, value) for key, value in node.entries}


def _table_entry(key: ScalarNode, value: Node) -> TableEntry:
    what = f"the costs of `{key.text}`"
    node = keyed_mapping(value, what, _ENTRY_KEYS, ("actions",))
    actions = as_mapping(node.require("actions", what), f"`actions` of `{key.text}`")
    return TableEntry(
        actions={name.text: _action(name, action, key.text) for name, action in actions.entries},
        leak_w=_cost_under(node, "leak_power_w", key.text),
        area_m2=_cost_under(node, "area_m2", key.text),
        span=key.span,
    )


def _action(name: ScalarNode, value: Node, component: str) -> TableAction:
    what = f"`{name.text}` of `{component}`"
    known = tuple(dict.fromkeys(action for actions in ACTIONS.values() for action in actions))
    if name.text not in known:
        hint = suggestion(name.text, known, "known actions are")
        raise SpecError(f"unknown action `{name.text}` of `{component}`", name.span, hint=hint)
    node = keyed_mapping(value, what, _ACTION_KEYS, ("energy_j", "throughput_per_s"))
    for key in ("energy_j", "throughput_per_s"):
        node.require(key, what)
    throughput = node.require("throughput_per_s")
    rate = not_negative(throughput, f"the throughput of {what}", _NO_SETS, _CONSTANTS)
    if rate == 0:
        raise SpecError(f"the throughput of {what} must be above 0", throughput.span)
    return TableAction(
        energy_j=finite(node.require("energy_j"), f"the energy of {what}", _NO_SETS, _CONSTANTS),
        throughput_per_s=rate,
        bits_per_action=_cost_under(node, "bits_per_action", component),
        span=name.span,
    )


def _cost_under(node: MappingNode, key: str, component: str) -> Fraction | None:
    value = given(node, key)
    return None if value is None else finite(value, f"`{key}` of `{component}`", _NO_SETS, _CONSTANTS)


@dataclass(frozen=True)
class ActionCost:
    """What a call of an action costs; a throughput of None is unlimited."""

    energy_j: Fraction
    throughput_per_s: Fraction | None
    source: str


@dataclass(frozen=True)
class ComponentCost:
    """What a component costs: one instance, its parallel copies taken together."""

    actions: Mapping[str, ActionCost]
    leak_w: Fraction
    leak_source: str
    area_um2: float | None = None
    area_source: str = ""


@dataclass(frozen=True)
class Costing:
    """Where costs of one component come from, and how its expressions are evaluated.

    Parameters
    ----------
    entry, table
        What the table of costs says of it, and the table's file.
    attributes
        Evaluates ``extra_attributes_for_component_model``, those of all components included.
    bits, size_bits
        Bits that each action moves, and the size of a memory; None without one.
    """

    component: WrittenNode
    names: SetNames
    values: Names
    entry: TableEntry | None
    attributes: Callable[[], Mapping[str, object]]
    bits: Mapping[str, Fraction]
    size_bits: Fraction | None
    note: TakeNote

    def cost(self) -> ComponentCost:
        """Return all figures; SpecError where one is missing."""
        self._check_table()
        copies = self._scale("n_parallel_instances")
        leak_w, leak_source = self._leak()
        area_um2, area_source = self._area()
        return ComponentCost(
            actions={name: self._action(name, copies) for name in ACTIONS[self.component.kind]},
            leak_w=leak_w,
            leak_source=leak_source,
            area_um2=area_um2,
            area_source=area_source,
        )

    @property
    def _is_dummy(self) -> bool:
        return (self._class or "").casefold() == _DUMMY

    @property
    def _class(self) -> str | None:
        written = self.component.get("component_class")
        return None if written is None else as_name(written, "`component_class`")

    def _check_table(self) -> None:
        """Check that a table's actions move as many bits as the architecture's."""
        for name, action in ({} if self.entry is None else self.entry.actions).items():
            bits = self.bits.get(name)
            if action.bits_per_action is None or bits is None or action.bits_per_action == bits:
                continue
            message = (
                f"the table prices `{name}` of `{self.component.name}` for {float(action.bits_per_action):g} "
                f"bits, but here it moves {float(bits):g}"
            )
            raise SpecError(message, self._place(name), ((action.span, "the table"),))

    def _place(self, action: str) -> Span:
        written = self.component.action(action)
        return self.component.span if written is None else written.require("name").span

    def _scale(self, *keys: str, action: str | None = None) -> Fraction:
        """Return the product of factors that are written on the component, or on one of its actions."""
        node = self.component.node if action is None else self.component.action(action)
        factor = Fraction(1)
        for key in keys:
            value = None if node is None else given(node, key)
            what = f"`{key}` of `{self.component.name}`"
            factor *= 1 if value is None else positive(value, what, self.names, self.values)
        return factor

    def _written(self, action: str, key: str) -> Node | None:
        node = self.component.action(action)
        return None if node is None else given(node, key)

    def _action(self, name: str, copies: Fraction) -> ActionCost:
        energy, source = self._energy(name)
        return ActionCost(energy, self._throughput(name, copies), source)

    def _energy(self, name: str) -> tuple[Fraction, str]:
        written = self._written(name, "energy")
        scale = self._scale("energy_scale") * self._scale("energy_scale", action=name)
        if written is not None:
            what = f"the energy of `{name}` of `{self.component.name}`"
            return finite(written, what, self.names, self.values) * scale, f"given at {place(written.span)}"
        if self._is_dummy:
            return Fraction(0), DUMMY_SOURCE
        if self.entry is not None and name in self.entry.actions:
            action = self.entry.actions[name]
            return action.energy_j, place(action.span)
        estimate = self._estimate(f"the energy of `{name}`")
        return Fraction(calculated(estimate.access_pj)) * _PJ * scale, ESTIMATED

    def _throughput(self, name: str, copies: Fraction) -> Fraction | None:
        scale = copies * self._rate_scale(None) * self._rate_scale(name)
        what = f"the throughput of `{name}` of `{self.component.name}`"
        written, latency = self._written(name, "throughput"), self._written(name, "latency")
        if written is not None:
            rate = not_negative(written, what, self.names, self.values)
            if rate == 0:
                raise SpecError(f"{what} must be above 0, or `inf`", written.span)
            return None if rate is None else rate * scale
        if latency is not None:
            seconds = finite(latency, f"the latency of `{name}`", self.names, self.values)
            return None if seconds == 0 else scale / seconds
        if self._is_dummy:
            return None
        if self.entry is not None and name in self.entry.actions:
            return self.entry.actions[name].throughput_per_s
        if not self.needs_throughput:
            return None
        raise self._missing(what)

    @property
    def needs_throughput(self) -> bool:
        """Whether the latency depends on throughputs: not if an expression leaves them out."""
        written = self.component.get("total_latency")
        return not isinstance(written, ScalarNode) or "throughput" in written.text

    def _rate_scale(self, action: str | None) -> Fraction:
        return self._scale("throughput_scale", action=action) / self._scale("latency_scale", action=action)

    def _leak(self) -> tuple[Fraction, str]:
        written = self.component.get("leak_power")
        scale = self._scale("leak_power_scale", "n_parallel_instances")
        if written is not None:
            what = f"`leak_power` of `{self.component.name}`"
            return finite(written, what, self.names, self.values) * scale, f"given at {place(written.span)}"
        if self._is_dummy:
            return Fraction(0), DUMMY_SOURCE
        if self.entry is not None and self.entry.leak_w is not None:
            return self.entry.leak_w, place(self.entry.span)
        return Fraction(calculated(self._estimate("`leak_power`").leak_w)) * scale, ESTIMATED

    def _area(self) -> tuple[float | None, str]:
        """Return the area in square micrometres, None where nobody knows it: it costs nothing."""
        written = self.component.get("area")
        scale = self._scale("area_scale", "n_parallel_instances")
        if written is not None:
            area = finite(written, f"`area` of `{self.component.name}`", self.names, self.values)
            return float(area * scale * _SQUARE_METRE_UM2), f"given at {place(written.span)}"
        if self._is_dummy:
            return 0.0, DUMMY_SOURCE
        if self.entry is not None:
            area_m2 = self.entry.area_m2
            return (
                (None, "")
                if area_m2 is None
                else (float(area_m2 * _SQUARE_METRE_UM2), place(self.entry.span))
            )
        if self._class is None or find_primitive(_known_class(self._class)[0]) is None:
            return None, ""
        return self._estimate("`area`").area_um2 * float(scale), ESTIMATED

    def _missing(self, what: str) -> SpecError:
        hint = (
            "give it here, or the costs that AccelForge computed as `--costs TABLE.yaml` (docs/accelforge.md)"
        )
        return SpecError(f"{what} is missing", self.component.span, hint=hint)

    def _estimate(self, what: str) -> Estimate:
        """Return what the estimator says of the component; a note says so."""
        written = self.component.get("component_class")
        if self._class is None or written is None:
            raise self._missing(f"{what} of `{self.component.name}`")
        name, more = _known_class(self._class)
        primitive = find_primitive(name)
        if primitive is None:
            hint = (
                "give the figures here, or as `--costs TABLE.yaml` (docs/accelforge.md); the estimator knows "
                f"{listing(known_classes())}"
            )
            message = f"{what} is missing for `{self.component.name}`, whose class is `{self._class}`"
            raise SpecError(message, written.span, hint=hint)
        attributes = self.attributes()
        try:
            values = {**self._rows(attributes), **more, **attributes}
            estimate = primitive.estimate(Attributes(self._class, values))
        except EnergyError as error:
            message = f"cannot estimate {what} of `{self.component.name}`: {error.message}"
            raise SpecError(message, written.span, hint=error.hint) from None
        sentence = "figures of `{}` are estimated by Tilewright, not by AccelForge's component models"
        self.note(note_at(written.span, sentence, self.component.name))
        return estimate

    def _rows(self, attributes: Mapping[str, object]) -> dict[str, object]:
        """Return width and depth of a memory, and the technology as the estimator writes it."""
        rows: dict[str, object] = {}
        node = attributes.get("tech_node")
        if isinstance(node, (int, float, Fraction)):
            rows["technology"] = f"{float(node) * 1e9:g}nm"
        if "read" in self.bits:
            rows["width"] = float(self.bits["read"])
        if self.size_bits is not None and "read" in self.bits:
            rows["depth"] = float(max(1, math.ceil(self.size_bits / self.bits["read"])))
        return rows


def _known_class(name: str) -> tuple[str, dict[str, object]]:
    """Return the estimator's class of that name, with attributes that the name implies."""
    if name.upper().startswith(_DRAM_FAMILIES):
        return "DRAM", {"type": name.upper()}
    return _CLASSES.get(name.casefold(), name), {}
