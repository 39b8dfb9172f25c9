"""The price of a component: from the user, else from an ERT, else estimated."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import product

from model.energy.components import Component, CompoundClasses, CompoundComponent, Library, PrimitiveComponent
from model.energy.estimator import (
    DEFAULT_DRAM,
    TABLES_NM,
    asks_for_placeholders,
    is_placeholder,
    parse_node,
)
from model.energy.figures import LARGEST_FIGURE, place, rounded, with_fewer_digits
from model.energy.given import EnergyTable, EnergyTables
from model.energy.request import CLASS, ComponentPrices, EnergyError, EnergyRequest, Figure, Kind
from model.numbers import EXACT
from model.text.arithmetic import calculated
from model.text.source import Span, SpecError
from model.wording import did_you_mean, listing

DEFAULT_CYCLE_SECONDS = 1e-9

FINEST_PJ = Decimal("1e-6")
"""An estimate of an access is not worth showing finer than to the attojoule."""

_SYNONYMS = {
    "width": ("memory_width", "data_storage_width"),
    "depth": ("memory_depth", "data_storage_depth"),
    "datawidth": ("word_bits", "word-bits", "word_width"),
}
# What each action of the cost model is called by users and classes, the best name first.
_NAMES: Mapping[Kind, Mapping[str, tuple[str, ...]]] = {
    "storage": {
        "read": ("read", "access"),
        "fill": ("fill", "write", "access"),
        "update": ("update", "write", "access"),
        "leak": ("leak",),
    },
    "compute": {"compute": ("compute", "mac", "mac_random")},
}
# What it is called in an ERT: Timeloop takes the first of these that a table has.
_TABLE_NAMES: Mapping[Kind, Mapping[str, tuple[str, ...]]] = {
    "storage": {
        "read": ("random_read", "read", "access"),
        "fill": ("random_fill", "random_write", "fill", "write", "access"),
        "update": ("random_update", "random_write", "update", "write", "access"),
        "leak": ("leak",),
    },
    "compute": {"compute": ("mac_random", "mult_random", "mac", "mult", "compute")},
}


def _sparse_storage_names() -> dict[str, tuple[str, ...]]:
    """Return what Timeloop looks for in an ERT, by action, the best name first."""
    names: dict[str, tuple[str, ...]] = {
        "decompression": ("decompression_count",),
        "compression": ("compression_count",),
    }
    for data, access in product(("", "metadata_"), ("read", "fill", "update")):
        stems = [data + access] if access == "read" else [data + access, data + "write"]
        gated = [f"gated_{stem}" for stem in stems]
        names[f"gated_{data}{access}"] = tuple(gated)
        names[f"skipped_{data}{access}"] = (*(f"skipped_{stem}" for stem in stems), *gated)
        if data:
            names[data + access] = (*(f"random_{stem}" for stem in stems), *stems)
    return names


_GATED_COMPUTE = ("mac_gated", "mult_gated", "compute_gated")
_SPARSE_NAMES: Mapping[Kind, Mapping[str, tuple[str, ...]]] = {
    "storage": _sparse_storage_names(),
    "compute": {
        "gated_compute": _GATED_COMPUTE,
        "skipped_compute": ("mac_skipped", "mult_skipped", "compute_skipped", *_GATED_COMPUTE),
    },
}
_GENERIC_CLASSES = frozenset({"storage", "compute"})


@dataclass(frozen=True)
class _Figures:
    """Figures by action, those of them that stand in the spec or its ERT, and remarks on them."""

    figures: Mapping[str, Figure]
    given: frozenset[str] = frozenset()
    remarks: tuple[str, ...] = ()
    area: Figure | None = None


def price_component(
    request: EnergyRequest,
    tables: EnergyTables,
    compound_classes: CompoundClasses,
    variables: Mapping[str, object],
) -> ComponentPrices:
    """Price one component; EnergyError, at the component, where that cannot be done.

    Action by action, a figure that the user gave comes first, then the ERT's, then the estimator's. Writes
    price fills, and updates where nothing else does. Where an ERT is given, the estimator is not asked: a
    component or action that the ERT lacks is an error, except for the leakage, which then counts as zero with
    a note. It also counts as zero, with a note, when the user gave all other energies and nothing says what
    leaks. Arithmetic does not leak here: where a figure of its leakage is given, a note says so.

    The attribute ``energy_scale`` multiplies what the user gave or the estimator says of accesses and
    operations, ``area_scale`` the area, unless the component's class declares them for itself; tables are
    used as they stand. ``global_cycle_seconds`` is 1 ns when nobody says otherwise.
    """
    try:
        return _price(_cleaned(request), tables, Library(compound_classes, _specified(variables)))
    except SpecError as error:
        message = f"cannot determine the energy of {_missing_prices(request)}: {error.message}"
        cause = () if error.span is None else ((error.span, "it is needed here"),)
        where = request.span if cause else _place_of(error, request, compound_classes)
        raise EnergyError(message, where, (*cause, *error.related), error.hint) from error


def _missing_prices(request: EnergyRequest) -> str:
    """Return what has no price: the component, or the actions that the user gave no energy of."""
    lacking = [
        action
        for action, names in _NAMES[request.kind].items()
        if not any(name in request.given for name in names)
    ]
    if not request.given or not lacking:
        return f"`{request.name}`"
    return f"{listing(lacking)} of `{request.name}`, which is not given"


def _place_of(error: SpecError, request: EnergyRequest, classes: CompoundClasses) -> Span | None:
    """Return where what an error is about is written, or the place of the component."""
    about = error.about if isinstance(error, EnergyError) else None
    if about is None or (about != CLASS and request.model_class in classes.by_name):
        return request.span
    names = (about, *_SYNONYMS.get(about, ()))
    return next((request.places[name] for name in names if name in request.places), request.span)


def _specified(values: Mapping[str, object]) -> dict[str, object]:
    return {name: value for name, value in values.items() if not is_placeholder(value)}


def _cleaned(request: EnergyRequest) -> EnergyRequest:
    """Drop placeholders among the attributes, and add the usual names of synonyms."""
    attributes = _specified(request.attributes)
    for name, synonyms in _SYNONYMS.items():
        written = [synonym for synonym in synonyms if synonym in attributes]
        if name not in attributes and written:
            attributes[name] = attributes[written[0]]
    return replace(request, attributes=attributes)


def _price(request: EnergyRequest, tables: EnergyTables, library: Library) -> ComponentPrices:
    given = _from_user(request, library)
    missing = tuple(action for action in _NAMES[request.kind] if action not in given.figures)
    rest = _figures_not_given(request, missing, tables, library) if missing else _Figures({})
    figures = {**given.figures, **rest.figures}
    area = given.area or tables.areas.get(request.name) or rest.area
    energies = {action: figures[action][0] for action in _NAMES[request.kind]}
    return ComponentPrices(
        **energies,
        area_um2=None if area is None else float(area[0]),
        area_source="" if area is None else area[1],
        sources={action: figures[action][1] for action in energies},
        given=given.given | rest.given,
        remarks=(*given.remarks, *rest.remarks, *_idle_arithmetic(request, tables)),
        further=dict(_sparse_figures(request, tables, library)) if request.sparse else {},
    )


def _sparse_figures(
    request: EnergyRequest, tables: EnergyTables, library: Library
) -> Iterator[tuple[str, Decimal]]:
    """Yield the energies of actions on sparse data that the user or the ERT gives."""
    table = tables.energies.get(request.name)
    listed = {} if table is None else table.actions
    for action, names in _SPARSE_NAMES[request.kind].items():
        if action in request.given:
            yield action, _scaled(request.given[action], action, request, library)[0]
            continue
        known = [listed[name][0] for name in names if name in listed]
        if known:
            yield action, known[0]


def _idle_arithmetic(request: EnergyRequest, tables: EnergyTables) -> tuple[str, ...]:
    """Note that what the user says of leaking arithmetic does not count."""
    table = tables.energies.get(request.name)
    listed = {} if table is None else table.actions
    energy, where = request.given.get("leak") or listed.get("leak") or (Decimal(0), "")
    if request.kind != "compute" or not energy:
        return ()
    return (
        f"the leakage of `{request.name}` ({where}) is ignored: leakage of compute units is not modelled",
    )


def _figures_not_given(
    request: EnergyRequest, missing: tuple[str, ...], tables: EnergyTables, library: Library
) -> _Figures:
    """Figures that the user did not give."""
    only_leak = missing == ("leak",)
    if only_leak and request.name not in tables.energies:
        return _no_leak(request, "only the other energies are given")
    if tables.ert_span is not None:
        return _from_table(request, missing, tables)
    return _estimated(request, missing, library)


def _no_leak(request: EnergyRequest, why: str) -> _Figures:
    remark = f"`{request.name}`: {why}; its leakage counts as zero"
    return _Figures({"leak": (Decimal(0), f"none ({why})")}, remarks=(remark,))


def _from_user(request: EnergyRequest, library: Library) -> _Figures:
    figures: dict[str, Figure] = {}
    for action, names in _NAMES[request.kind].items():
        known = [request.given[name] for name in names if name in request.given]
        if known:
            figures[action] = _scaled(known[0], action, request, library)
    area = request.given_area
    scaled = None if area is None else _scaled(area, "area", request, library)
    return _Figures(figures, frozenset(figures), area=scaled)


def _scaled(figure: Figure, what: str, request: EnergyRequest, library: Library) -> Figure:
    """Apply the component's ``energy_scale`` or ``area_scale``; leakage has none."""
    factor = _energy_scale(what, request, library)
    if factor is None:
        return figure
    product = EXACT.multiply(figure[0], factor)
    if product > LARGEST_FIGURE:
        message = f"`{_scale_key(what)}` makes {product:.3g} of {figure[0]:.3g}, more than {LARGEST_FIGURE:g}"
        raise EnergyError(message, about=_scale_key(what))
    return product, f"{figure[1]}, times {factor}"


def _shortened(figure: Figure) -> Figure:
    return with_fewer_digits(figure[0]), figure[1]


def _scale_key(what: str) -> str:
    return "area_scale" if what == "area" else "energy_scale"


def _energy_scale(what: str, request: EnergyRequest, library: Library) -> Decimal | None:
    key = _scale_key(what)
    value = request.attributes.get(key)
    compound = library.classes.by_name.get(request.model_class)
    if what == "leak" or value is None or (compound is not None and compound.declares(key)):
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < float("inf"):
        raise EnergyError(f"attribute `{key}` is {value!r}, but must be a number of at least 0", about=key)
    return calculated(value)


def _from_table(request: EnergyRequest, missing: tuple[str, ...], tables: EnergyTables) -> _Figures:
    assert tables.ert_span is not None
    table = tables.energies.get(request.name)
    if table is None:
        raise EnergyError(
            f"the ERT has no table of the component `{request.name}`",
            related=((tables.ert_span, "the ERT is here"),),
            hint=did_you_mean(request.name, tables.energies) or "complete the ERT, or give the energies",
        )
    figures: dict[str, Figure] = {}
    remarks: tuple[str, ...] = ()
    if "energy_scale" in request.attributes:
        remarks = (f"`{request.name}`: its `energy_scale` does not apply to the ERT's energies",)
    given: frozenset[str] = frozenset()
    for action in missing:
        figure = _table_figure(request, action, table)
        figures.update(figure.figures)
        given |= figure.given
        remarks += figure.remarks
    return _Figures(figures, given, remarks)


def _table_figure(request: EnergyRequest, action: str, table: EnergyTable) -> _Figures:
    names = _TABLE_NAMES[request.kind][action]
    known = [table.actions[name] for name in names if name in table.actions]
    if known:
        return _Figures({action: known[0]}, frozenset({action}))
    if action == "leak":
        return _no_leak(request, f"no leak at {place(table.span)}")
    raise EnergyError(
        f"the ERT's table of `{request.name}` lacks the action {' or '.join(f'`{name}`' for name in names)}",
        related=((table.span, f"the table is here; its actions: {', '.join(table.actions) or 'none'}"),),
    )


def _estimated(request: EnergyRequest, missing: tuple[str, ...], library: Library) -> _Figures:
    generic = request.model_class in _GENERIC_CLASSES and request.model_class not in library.classes.by_name
    if generic and not asks_for_placeholders(_technology(request, library)):
        raise EnergyError(
            f"the class `{request.model_class}` is too general for an estimate",
            hint="give a subclass, such as SRAM, regfile or intmac, or the energies, or an ERT",
            about=CLASS,
        )
    request, assumption = _with_cycle(request, library)
    component = library.instantiate(request.model_class, request.attributes)
    source = f"estimator: {_description(request, component, library)}"
    figures: dict[str, Figure] = {}
    remarks = _assumed_type(request, component) + _placeholders(request, component)
    remarks += _extrapolated(request, component, library)
    for action in missing:
        figure = _estimated_figure(request, action, component, source)
        figures.update(figure.figures)
        remarks += figure.remarks
    if "leak" in figures and figures["leak"][0]:
        figures["leak"] = (figures["leak"][0], figures["leak"][1] + assumption)
    scaled = {
        action: _shortened(_scaled(figure, action, request, library)) for action, figure in figures.items()
    }
    area = _scaled((rounded(component.area_um2()), source), "area", request, library)
    remarks += tuple(f"`{request.name}`: {remark}" for remark in library.remarks)
    return _Figures(scaled, remarks=remarks, area=area)


def _assumed_type(request: EnergyRequest, component: Component) -> tuple[str, ...]:
    """Note that a DRAM of no type is priced as the one that Accelergy takes."""
    dram = isinstance(component, PrimitiveComponent) and not component.primitive.scales
    if not dram or "type" in request.attributes:
        return ()
    return (f"`{request.name}` has no `type`: its energies are those of {DEFAULT_DRAM}",)


def _placeholders(request: EnergyRequest, component: Component) -> tuple[str, ...]:
    if not component.has_placeholders:
        return ()
    return (
        f"`{request.name}` has figures of `technology: -1`, which are placeholders: "
        "1 pJ per action, no leakage, 1 um² each",
    )


def _extrapolated(request: EnergyRequest, component: Component, library: Library) -> tuple[str, ...]:
    """Note that figures are beyond the nodes of the estimator's tables."""
    technology = _technology(request, library)
    scales = not isinstance(component, PrimitiveComponent) or component.primitive.scales
    if not scales or technology is None or asks_for_placeholders(technology):
        return ()
    try:
        node_nm = parse_node(technology)
    except EnergyError:  # a compound class may define its own
        return ()
    if TABLES_NM[0] <= node_nm <= TABLES_NM[1]:
        return ()
    least, most = TABLES_NM
    return (
        f"figures of `{request.name}` at {node_nm:g} nm are extrapolated: the estimator's tables are for "
        f"{least:g} nm to {most:g} nm",
    )


def _technology(request: EnergyRequest, library: Library) -> object:
    return request.attributes.get("technology", library.variables.get("technology"))


def _with_cycle(request: EnergyRequest, library: Library) -> tuple[EnergyRequest, str]:
    if "global_cycle_seconds" in {**library.variables, **request.attributes}:
        return request, ""
    attributes = {**request.attributes, "global_cycle_seconds": DEFAULT_CYCLE_SECONDS}
    return replace(request, attributes=attributes), ", 1 ns cycle assumed"


def _description(request: EnergyRequest, component: Component, library: Library) -> str:
    parts = [request.model_class]
    if isinstance(component, CompoundComponent):
        parts[0] += " (compound)"
    if isinstance(component, PrimitiveComponent) and not component.primitive.scales:
        return f"{parts[0]} {request.attributes.get('type', f'{DEFAULT_DRAM}, assumed')}"
    technology = _technology(request, library)
    if asks_for_placeholders(technology):
        parts.append("placeholder")
    elif technology is not None:
        parts.append(_node_name(technology, component))
    return ", ".join(parts)


def _node_name(technology: object, component: Component) -> str:
    """Return the technology for people; a compound class may define its own."""
    try:
        return f"{parse_node(technology):g} nm"
    except EnergyError:
        if isinstance(component, CompoundComponent):
            return str(technology)
        raise


def _estimated_figure(request: EnergyRequest, action: str, component: Component, source: str) -> _Figures:
    names = _NAMES[request.kind][action]
    for name in names:
        energy_pj = component.energy_pj(name)
        if energy_pj is not None:
            finest = None if action == "leak" else FINEST_PJ
            return _Figures({action: (rounded(energy_pj, finest), source)})
    if action == "leak":
        return _no_leak(request, f"the class `{request.model_class}` has no leak")
    raise EnergyError(
        f"the class `{request.model_class}` has no action {' or '.join(f'`{name}`' for name in names)}",
        hint=f"its actions: {', '.join(component.actions) or 'none'}",
        about=CLASS,
    )
