"""Energies and areas that a spec gives: on components, or in Accelergy's reference tables (ERT, ART)."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from operator import itemgetter

from model.energy.figures import exact_decimal, place
from model.energy.request import Figure, Kind
from model.sparsity import COMPUTE_ACTIONS, STORAGE_ACTIONS
from model.text.arithmetic import calculated
from model.text.expressions import evaluate_expression
from model.text.fields import add_once, as_name, items_of, keyed_mapping
from model.text.source import MappingNode, Node, ScalarNode, Span, SpecError
from model.wording import did_you_mean

_ACTIONS: Mapping[Kind, tuple[str, ...]] = {
    "storage": ("read", "write", "fill", "update", "leak", *STORAGE_ACTIONS),
    "compute": ("compute", "leak", *COMPUTE_ACTIONS),
}
_ACTION_KEYS = ("energy", "name")

GIVEN_KEYS = frozenset({"actions", "energy", "area", "vector_access_energy", "energy_per_op"})
"""Keys of a component, or of its attributes, that `read_given` understands."""


@dataclass(frozen=True)
class GivenPrices:
    """What a user wrote about a component's energy and area."""

    # Picojoule per vector access, operation or cycle (``leak``), by action.
    energies: Mapping[str, Figure] = field(default_factory=dict)
    # Square micrometres of one instance; None if they are not written.
    area: Figure | None = None


def read_given(
    kind: Kind, component: MappingNode, attributes: MappingNode | None, names: Mapping[str, object]
) -> GivenPrices:
    """Read what a user wrote about energy and area, on the component or among its attributes.

    Energies are in picojoule per vector access, per operation (``compute``) or per cycle (``leak``), areas
    in square micrometres: ``energy: {read: 2.5, write: 3}``; ``energy: 0.5`` of a compute component;
    ``actions: [{name: read, energy: 2.5}]``; ``vector_access_energy: 2.5`` for every access of a storage;
    ``energy_per_op: 0.5``; ``area: 1200``. A figure is a number, kept exactly, or an expression over `names`.
    Keys other than `GIVEN_KEYS` are passed over.
    """
    entries = component.entries if attributes is None else (*component.entries, *attributes.entries)
    figures: dict[str | None, Figure] = {}
    spans: dict[str | None, Span] = {}
    for action, where, node in _given_figures(kind, entries):
        what = "area" if action is None else action
        if action is not None and action not in _ACTIONS[kind]:
            known = _ACTIONS[kind]
            usual = [name for name in known if name not in (*STORAGE_ACTIONS, *COMPUTE_ACTIONS)]
            hint = did_you_mean(action, known) or f"its actions: {', '.join(usual)}"
            raise SpecError(f"unknown action `{action}` of a {kind} component", where.span, hint=hint)
        add_once(spans, action, node.span, f"`{what}` is given twice", "the first figure is here")
        figure = _given_figure(node, "`area`" if action is None else f"the energy of `{action}`", names)
        figures[action] = (figure, f"given at {place(node.span)}")
    area = figures.pop(None, None)
    return GivenPrices({action: figure for action, figure in figures.items() if action is not None}, area)


Written = tuple[str | None, Node, Node]
"""An action, None for the area; where it is named; and its figure."""


def _given_figures(kind: Kind, entries: Iterable[tuple[ScalarNode, Node]]) -> Iterator[Written]:
    for key, node in entries:
        name = key.text.replace("-", "_")
        if name in GIVEN_KEYS:
            yield from _written_under(name, kind, key, node)


def _written_under(name: str, kind: Kind, key: ScalarNode, node: Node) -> Iterator[Written]:
    """Yield what stands under one of `GIVEN_KEYS`."""
    if name == "area":
        yield None, key, node
    elif name == "actions":
        yield from (_listed_action(item) for item in items_of(node, "`actions`"))
    elif name == "energy" and isinstance(node, MappingNode):
        yield from ((action.text, action, value) for action, value in node.entries)
    elif name == "energy" and kind == "storage":
        hint = "write energy: {read: 2.5, write: 2.5}"
        raise SpecError("`energy` of a storage must be a mapping", node.span, hint=hint)
    elif name == "vector_access_energy":
        _require_kind("storage", kind, key)
        yield from ((action, key, node) for action in ("read", "write"))
    else:
        _require_kind("compute", kind, key)
        yield "compute", key, node


def _listed_action(item: Node) -> Written:
    entry = keyed_mapping(item, "an action", _ACTION_KEYS, ("name", "energy"))
    name_node = entry.require("name", "an action")
    return as_name(name_node, "the action's `name`"), name_node, entry.require("energy", "an action")


def _require_kind(wanted: Kind, kind: Kind, key: ScalarNode) -> None:
    if kind != wanted:
        raise SpecError(f"`{key.text}` is for {wanted} components, this is {kind}", key.span)


def _given_figure(node: Node, what: str, names: Mapping[str, object]) -> Decimal:
    if not isinstance(node, ScalarNode) or node.quoted or not isinstance(node.value, str):
        return exact_decimal(node, what)
    value = evaluate_expression(node, names)
    if isinstance(value, str):
        raise SpecError(f"{what} must be a number", node.span)
    figure = calculated(value) if isinstance(value, float) and math.isfinite(value) else value
    return exact_decimal(ScalarNode(value, str(figure), False, node.span), what)


_TABLES_KEYS = ("tables", "version")
# Accelergy can also print which estimator it asked; those entries explain and say nothing more.
_EXPLANATIONS = ("primitive_estimation", "primitive_estimation(s)", "primitive_estimations")
_ENERGY_KEYS = ("actions", "name", *_EXPLANATIONS)
_TABLE_ACTION_KEYS = ("arguments", "energy", "name", *_EXPLANATIONS)
_AREA_KEYS = ("area", "name", *_EXPLANATIONS)
_INSTANCES = re.compile(r"\[[^\]]*\]")


@dataclass(frozen=True)
class EnergyTable:
    """Energies of one component."""

    span: Span  # of the table's name
    # Picojoule by action; one that is listed several times, with different arguments, has the largest.
    actions: Mapping[str, Figure]


@dataclass(frozen=True)
class EnergyTables:
    """What an ERT and an ART say, by component name."""

    energies: Mapping[str, EnergyTable] = field(default_factory=dict)
    # Square micrometres, from the ART.
    areas: Mapping[str, Figure] = field(default_factory=dict)
    ert_span: Span | None = None  # of the ERT, None without one; an ERT without tables is one all the same


def component_name(table_name: str) -> str:
    """Return the component that a table like ``system_top_level.shared_glb[1..1]`` is about."""
    return _INSTANCES.sub("", table_name).rsplit(".", 1)[-1].strip()


def load_tables(ert_node: Node | None, art_node: Node | None) -> EnergyTables:
    """Read Accelergy's tables, the values of ``ERT`` and ``ART``, either of which may be missing."""
    energies = {
        name: EnergyTable(span, _table_actions(actions))
        for name, span, actions in _tables(ert_node, "ERT", _ENERGY_KEYS, "actions")
    }
    areas = {
        name: (exact_decimal(area, f"the area of `{name}`"), place(area.span))
        for name, _, area in _tables(art_node, "ART", _AREA_KEYS, "area")
    }
    return EnergyTables(energies, areas, None if ert_node is None else ert_node.span)


def _tables(
    node: Node | None, owner: str, keys: tuple[str, ...], content: str
) -> Iterator[tuple[str, Span, Node]]:
    """Yield the component of each table, where it is named, and what is under the key `content`."""
    if node is None:
        return
    tables = keyed_mapping(node, f"the {owner}", _TABLES_KEYS, ("tables",)).require("tables")
    spans: dict[str, Span] = {}
    for item in items_of(tables, f"`tables` of the {owner}"):
        entry = keyed_mapping(item, f"a table of the {owner}", keys, ("name", content))
        name_node = entry.require("name")
        name = component_name(as_name(name_node, "the table's `name`"))
        message = f"two tables for the component `{name}`"
        add_once(spans, name, name_node.span, message, "the first one is here")
        yield name, name_node.span, entry.require(content)


def _table_actions(actions: Node) -> dict[str, Figure]:
    figures: dict[str, Figure] = {}
    for item in items_of(actions, "`actions`"):
        entry = keyed_mapping(item, "an action of the ERT", _TABLE_ACTION_KEYS, ("name", "energy"))
        action, energy = as_name(entry.require("name"), "the action's `name`"), entry.require("energy")
        figure = (exact_decimal(energy, f"the energy of `{action}`"), place(energy.span))
        figures[action] = max(figures.get(action, figure), figure, key=itemgetter(0))
    return figures
