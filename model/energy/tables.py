"""Accelergy's energy and area reference tables (ERT, ART), read as they stand."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal

from model.energy.figures import exact_decimal, items_of, keyed_mapping, place
from model.text.fields import as_name
from model.text.source import Node, Span, SpecError

_TABLES_KEYS = frozenset({"version", "tables"})
# Accelergy can also print which estimator it asked; those entries explain and say nothing more.
_EXPLANATIONS = frozenset({"primitive_estimation", "primitive_estimations", "primitive_estimation(s)"})
_ENERGY_KEYS = frozenset({"name", "actions"}) | _EXPLANATIONS
_ACTION_KEYS = frozenset({"name", "arguments", "energy"}) | _EXPLANATIONS
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
        _refuse_second(table.component, table.span, spans)
        tables[table.component] = table
        spans[table.component] = table.span
    return tables


def _load_energy_table(node: Node) -> EnergyTable:
    entry = keyed_mapping(node, "a table of the ERT", _ENERGY_KEYS, ("name", "actions"))
    name_node = entry.require("name", "a table of the ERT")
    name = component_name(as_name(name_node, "the table's `name`"))
    actions: dict[str, tuple[Decimal, str]] = {}
    for item in items_of(entry.require("actions", f"the ERT's table `{name}`"), "`actions`"):
        action, energy_pj, where = _load_action(item)
        if action not in actions or energy_pj > actions[action][0]:
            actions[action] = (energy_pj, where)
    return EnergyTable(name, name_node.span, actions)


def _load_action(node: Node) -> tuple[str, Decimal, str]:
    entry = keyed_mapping(node, "an action of the ERT", _ACTION_KEYS, ("name", "energy"))
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
        _refuse_second(name, name_node.span, spans)
        area = entry.require("area", f"the ART's table `{name}`")
        areas[name] = (exact_decimal(area, f"the area of `{name}`"), place(area.span))
        spans[name] = name_node.span
    return areas


def _refuse_second(name: str, span: Span, earlier: Mapping[str, Span]) -> None:
    if name in earlier:
        raise SpecError(
            f"two tables for the component `{name}`",
            span,
            related=((earlier[name], "the first one is here"),),
        )
