"""Energies and areas that a spec gives: on components, or in Accelergy's reference tables (ERT, ART)."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal

from model.energy.figures import exact_decimal, items_of, keyed_mapping, place
from model.energy.request import Kind
from model.text.arithmetic import calculated
from model.text.expressions import evaluate
from model.text.fields import as_name
from model.text.source import MappingNode, Node, ScalarNode, Span, SpecError, did_you_mean

_ACTIONS: Mapping[Kind, tuple[str, ...]] = {
    "storage": ("read", "write", "fill", "update", "leak"),
    "compute": ("compute", "leak"),
}
_ACTION_KEYS = frozenset({"name", "energy"})

GIVEN_KEYS = frozenset({"actions", "energy", "area", "vector_access_energy", "energy_per_op"})
"""Keys of a component, or of its attributes, that `read_given` understands."""


@dataclass(frozen=True)
class Given:
    """What a user wrote about a component's energy and area.

    Parameters
    ----------
    energies
        By action: picojoule per vector access, operation or cycle (``leak``), and where it is written.
    area
        Square micrometres of one instance, and where they are written; None if they are not.
    """

    energies: Mapping[str, tuple[Decimal, str]] = field(default_factory=dict)
    area: tuple[Decimal, str] | None = None


def read_given(
    kind: Kind, component: MappingNode, attributes: MappingNode | None, names: Mapping[str, object]
) -> Given:
    """Read what a user wrote about energy and area, on the component or among its attributes.

    Energies are in picojoule per vector access, per operation (``compute``) or per cycle
    (``leak``), areas in square micrometres. Understood are ``energy: {read: 2.5, write: 3}``; for
    a compute component also ``energy: 0.5``; ``actions: [{name: read, energy: 2.5}]``;
    ``vector_access_energy: 2.5`` for every access of a storage; ``energy_per_op: 0.5``; and
    ``area: 1200``. A figure is a number, kept exactly, or an expression over `names`, see
    `model.text.arithmetic.calculated`.

    Parameters
    ----------
    kind
        Of the component: which actions it has.
    component, attributes
        The component, and its ``attributes``, if it has any; keys but `GIVEN_KEYS` are passed over.
    names
        Values of variables and attributes, for expressions.

    Raises
    ------
    SpecError
        A figure that is no finite, non-negative number, an unknown action, a key that does not
        fit `kind`, or one figure given twice.
    """
    reader = _Reader(kind, names)
    written = component.entries if attributes is None else (*component.entries, *attributes.entries)
    for key, node in written:
        name = key.text.replace("-", "_")
        if name in GIVEN_KEYS:
            reader.read(name, key, node)
    return Given(reader.energies, reader.area)


class _Reader:
    """Collects figures, refusing the second of any."""

    def __init__(self, kind: Kind, names: Mapping[str, object]) -> None:
        self._kind = kind
        self._names = names
        self._nodes: dict[str, Node] = {}
        self.energies: dict[str, tuple[Decimal, str]] = {}
        self.area: tuple[Decimal, str] | None = None

    def read(self, name: str, key: ScalarNode, node: Node) -> None:
        """Read the value of one of `GIVEN_KEYS`."""
        readers: dict[str, Callable[[ScalarNode, Node], None]] = {
            "actions": self._read_actions,
            "energy": self._read_energy,
            "area": self._read_area,
            "vector_access_energy": self._read_every_access,
            "energy_per_op": self._read_operation,
        }
        readers[name](key, node)

    def _read_energy(self, key: ScalarNode, node: Node) -> None:
        if isinstance(node, MappingNode):
            for action, value in node.entries:
                self._add(action.text, action, value)
        elif self._kind == "compute":
            self._add("compute", key, node)
        else:
            raise SpecError(
                "`energy` of a storage must be a mapping",
                node.span,
                hint="write energy: {read: 2.5, write: 2.5}",
            )

    def _read_actions(self, _key: ScalarNode, node: Node) -> None:
        for item in items_of(node, "`actions`"):
            entry = keyed_mapping(item, "an action", _ACTION_KEYS, ("name", "energy"))
            name_node = entry.require("name", "an action")
            action = as_name(name_node, "the action's `name`")
            self._add(action, name_node, entry.require("energy", "an action"))

    def _read_every_access(self, key: ScalarNode, node: Node) -> None:
        self._require_kind("storage", key)
        for action in ("read", "write"):
            self._add(action, key, node)

    def _read_operation(self, key: ScalarNode, node: Node) -> None:
        self._require_kind("compute", key)
        self._add("compute", key, node)

    def _read_area(self, _key: ScalarNode, node: Node) -> None:
        self._refuse_second("area", node)
        self.area = (self._figure(node, "`area`"), _source(node))

    def _require_kind(self, kind: Kind, key: ScalarNode) -> None:
        if self._kind != kind:
            raise SpecError(f"`{key.text}` is for {kind} components, this is {self._kind}", key.span)

    def _add(self, action: str, where: Node, node: Node) -> None:
        known = _ACTIONS[self._kind]
        if action not in known:
            raise SpecError(
                f"unknown action `{action}` of a {self._kind} component",
                where.span,
                hint=did_you_mean(action, known) or f"its actions: {', '.join(known)}",
            )
        self._refuse_second(action, node)
        self.energies[action] = (self._figure(node, f"the energy of `{action}`"), _source(node))

    def _refuse_second(self, what: str, node: Node) -> None:
        if what in self._nodes:
            earlier = self._nodes[what]
            raise SpecError(
                f"`{what}` is given twice", node.span, related=((earlier.span, "the first figure is here"),)
            )
        self._nodes[what] = node

    def _figure(self, node: Node, what: str) -> Decimal:
        if not isinstance(node, ScalarNode) or node.quoted or not isinstance(node.value, str):
            return exact_decimal(node, what)
        value = evaluate(node, self._names)
        if isinstance(value, str):
            raise SpecError(f"{what} must be a number", node.span)
        figure = calculated(value) if isinstance(value, float) and math.isfinite(value) else value
        return exact_decimal(ScalarNode(value, str(figure), False, node.span), what)


def _source(node: Node) -> str:
    return f"given at {place(node.span)}"


_TABLES_KEYS = frozenset({"version", "tables"})
# Accelergy can also print which estimator it asked; those entries explain and say nothing more.
_EXPLANATIONS = frozenset({"primitive_estimation", "primitive_estimations", "primitive_estimation(s)"})
_ENERGY_KEYS = frozenset({"name", "actions"}) | _EXPLANATIONS
_TABLE_ACTION_KEYS = frozenset({"name", "arguments", "energy"}) | _EXPLANATIONS
_AREA_KEYS = frozenset({"name", "area"}) | _EXPLANATIONS
_INSTANCES = re.compile(r"\[[^\]]*\]")


@dataclass(frozen=True)
class EnergyTable:
    """Energies of one component.

    Parameters
    ----------
    component
        Its name, see `component_name`.
    span
        Of the table's name.
    actions
        Picojoule by action, each with its place. An action that is listed several times, with
        different arguments, has the largest energy.
    """

    component: str
    span: Span
    actions: Mapping[str, tuple[Decimal, str]]


@dataclass(frozen=True)
class EnergyTables:
    """What an ERT and an ART say, by component name.

    Parameters
    ----------
    energies
        Tables of the ERT.
    areas
        Areas of the ART in square micrometres, each with its place.
    ert_span
        Of the ERT, None without one; an ERT without tables is one all the same.
    """

    energies: Mapping[str, EnergyTable] = field(default_factory=dict)
    areas: Mapping[str, tuple[Decimal, str]] = field(default_factory=dict)
    ert_span: Span | None = None


def component_name(table_name: str) -> str:
    """Return the component that a table is about.

    Tables are named by the path to the component with its instances, as in
    ``system_top_level.shared_glb[1..1]``; component names are unique, so the last part is enough.
    """
    return _INSTANCES.sub("", table_name).rsplit(".", 1)[-1].strip()


def load_tables(ert_node: Node | None, art_node: Node | None) -> EnergyTables:
    """Read Accelergy's tables.

    Parameters
    ----------
    ert_node, art_node
        The values of the top-level keys ``ERT`` and ``ART``; either may be missing.

    Raises
    ------
    SpecError
        A malformed table, two tables of one component, or a figure that is no finite,
        non-negative number.
    """
    energies = {} if ert_node is None else _load_energies(ert_node)
    areas = {} if art_node is None else _load_areas(art_node)
    return EnergyTables(
        energies,
        areas,
        None if ert_node is None else ert_node.span,
    )


def _load_energies(ert_node: Node) -> dict[str, EnergyTable]:
    content = keyed_mapping(ert_node, "the ERT", _TABLES_KEYS, ("tables",))
    tables: dict[str, EnergyTable] = {}
    spans: dict[str, Span] = {}
    for item in items_of(content.require("tables", "the ERT"), "`tables` of the ERT"):
        table = _load_energy_table(item)
        _refuse_second_table(table.component, table.span, spans)
        tables[table.component] = table
        spans[table.component] = table.span
    return tables


def _load_energy_table(node: Node) -> EnergyTable:
    entry = keyed_mapping(node, "a table of the ERT", _ENERGY_KEYS, ("name", "actions"))
    name_node = entry.require("name", "a table of the ERT")
    name = component_name(as_name(name_node, "the table's `name`"))
    actions: dict[str, tuple[Decimal, str]] = {}
    for item in items_of(entry.require("actions", f"the ERT's table `{name}`"), "`actions`"):
        action, energy_pj, where = _load_table_action(item)
        if action not in actions or energy_pj > actions[action][0]:
            actions[action] = (energy_pj, where)
    return EnergyTable(name, name_node.span, actions)


def _load_table_action(node: Node) -> tuple[str, Decimal, str]:
    entry = keyed_mapping(node, "an action of the ERT", _TABLE_ACTION_KEYS, ("name", "energy"))
    action = as_name(entry.require("name", "an action of the ERT"), "the action's `name`")
    energy = entry.require("energy", f"the ERT's action `{action}`")
    return action, exact_decimal(energy, f"the energy of `{action}`"), place(energy.span)


def _load_areas(art_node: Node) -> dict[str, tuple[Decimal, str]]:
    content = keyed_mapping(art_node, "the ART", _TABLES_KEYS, ("tables",))
    areas: dict[str, tuple[Decimal, str]] = {}
    spans: dict[str, Span] = {}
    for item in items_of(content.require("tables", "the ART"), "`tables` of the ART"):
        entry = keyed_mapping(item, "a table of the ART", _AREA_KEYS, ("name", "area"))
        name_node = entry.require("name", "a table of the ART")
        name = component_name(as_name(name_node, "the table's `name`"))
        _refuse_second_table(name, name_node.span, spans)
        area = entry.require("area", f"the ART's table `{name}`")
        areas[name] = (exact_decimal(area, f"the area of `{name}`"), place(area.span))
        spans[name] = name_node.span
    return areas


def _refuse_second_table(name: str, span: Span, earlier: Mapping[str, Span]) -> None:
    if name in earlier:
        raise SpecError(
            f"two tables for the component `{name}`",
            span,
            related=((earlier[name], "the first one is here"),),
        )
