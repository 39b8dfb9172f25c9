"""From priced components to the canonical architecture in one integer energy unit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction

from model.architecture import AccessEnergy, Architecture, Compute, Fanout, StorageLevel
from model.energy import (
    AREA_SCALES,
    ComponentPrices,
    CompoundClasses,
    EnergyError,
    EnergyRequest,
    EnergyTables,
    price_component,
    read_given,
)
from model.energy.figures import SpreadError, energy_units, exact_units, to_units
from model.energy.request import CLASS, Kind
from model.formats.timeloop.context import Context
from model.formats.timeloop.storage import SYNONYMS
from model.formats.timeloop.tree import ArchLeaf, values_of
from model.note import Note
from model.text.fields import Names, as_fraction, one_of
from model.text.source import MappingNode, Span, SpecError, note_at
from model.wording import listing, printable

_WIRES = ("wire", "Wire")
_TRANSFER = "transfer_random"
ROOMLESS = "none (size 0)"
CLOCK = "global_cycle_seconds"
SHORTEST_S, LONGEST_S = 1e-15, 1e3
UNKNOWN = "unknown"
"""The source of energies that count as 0 as nobody knows them."""


@dataclass(frozen=True)
class PriceLists:
    """Where prices come from, besides the components themselves."""

    tables: EnergyTables
    classes: CompoundClasses


def refuse_wires(tables: EnergyTables, context: Context) -> None:
    """Check that an ERT does not price the wires of networks, as its tables ``wire`` and ``Wire`` do.

    Beside an older architecture a note says that this has no effect, as of the networks themselves.
    """
    for name in _WIRES:
        table = tables.energies.get(name)
        if table is None or name in context.leaves:
            continue
        energy, _ = table.actions.get(_TRANSFER, (0, ""))
        if energy > 0 and context.is_older:
            sentence = "networks are not modelled, so the ERT's table `{}` has no effect"
            context.note(note_at(table.span, sentence, name))
        elif energy > 0:
            hint = f"leave the table out, or give `{_TRANSFER}` the energy 0"
            message = f"the ERT's table `{name}`: the energy of networks is not modelled"
            raise SpecError(message, table.span, hint=hint)


def priced(
    leaf: ArchLeaf, lists: PriceLists, context: Context, level: StorageLevel | None = None
) -> ComponentPrices:
    """Price one component; a storage without any room is free unless a table says otherwise."""
    if level is not None and level.size_words == 0 and leaf.name not in lists.tables.energies:
        return ComponentPrices(sources=dict.fromkeys(("read", "fill", "update", "leak"), ROOMLESS))
    names = context.names_at(leaf)
    required = leaf.node.get("required_actions")
    if required is not None:
        context.note(note_at(required.span, "required_actions is not needed: all actions have energies"))
    attributes = {**values_of(leaf.attributes), **_scales(leaf, names)}
    node = leaf.node.get("attributes")
    kind: Kind = "storage" if leaf.role == "storage" else "compute"
    given = read_given(kind, leaf.node, node if isinstance(node, MappingNode) else None, names)
    request = EnergyRequest(
        name=leaf.name,
        component_class=leaf.component_class,
        subclass=leaf.subclass,
        attributes=attributes,
        kind=kind,
        given=given.energies,
        given_area=given.area,
        span=leaf.span,
        places=_attribute_places(leaf),
        sparse=context.optimizes_sparse,
    )
    if level is not None:
        request = replace(request, attributes={**_shape_entries(level, request, lists.classes), **attributes})
    prices = price_component(request, lists.tables, lists.classes, context.variables)
    for remark in prices.remarks:
        context.note(Note(printable(remark)))
    return prices


def priced_or_free(
    leaf: ArchLeaf, lists: PriceLists, context: Context, level: StorageLevel | None = None
) -> ComponentPrices:
    """Price one component; where that fails its energies count as 0, and a note says why."""
    try:
        return priced(leaf, lists, context, level)
    except EnergyError as error:
        place = leaf.span if error.span is None else error.span
        sentence = "{}; its energies count as 0, since a latency objective needs none"
        context.note(note_at(place, sentence, error.message))
        return _unknown()


def priced_if_known(
    leaf: ArchLeaf, lists: PriceLists, context: Context, level: StorageLevel
) -> ComponentPrices:
    """Price a level that keeps nothing: where nobody knows energies and leakage, they count as 0."""
    try:
        return priced(leaf, lists, context, level)
    except EnergyError:
        sentence = "`{}` has no energies; as it keeps nothing, its energies and leakage count as 0"
        context.note(note_at(leaf.span, sentence, leaf.name))
        return _unknown()


def _unknown() -> ComponentPrices:
    return ComponentPrices(sources=dict.fromkeys(("read", "fill", "update", "leak", "compute"), UNKNOWN))


def _shape_entries(
    level: StorageLevel, request: EnergyRequest, classes: CompoundClasses
) -> dict[str, object]:
    """Return width and depth where attributes give them otherwise; classes of the spec have their own."""
    if request.model_class in classes.by_name:
        return {}
    rows: dict[str, object] = {"width": level.word_bits * level.block_size * level.cluster_size}
    if level.size_words is not None:
        rows["depth"] = -(-level.size_words // level.block_size)
    written = request.attributes.keys()
    return {name: value for name, value in rows.items() if written.isdisjoint(SYNONYMS[name])}


def _attribute_places(leaf: ArchLeaf) -> dict[str, Span]:
    """Return where the attributes of a component are written, and its subclass, or its class without one."""
    places = {name: attribute.node.span for name, attribute in leaf.attributes.items()}
    written = leaf.node.get("class" if leaf.subclass is None else "subclass")
    return places if written is None else {**places, CLASS: written.span}


def _scales(leaf: ArchLeaf, names: Names) -> dict[str, object]:
    """Return ``energy_scale`` and ``area_scale`` where they stand on the component itself."""
    return {
        spellings[0]: float(as_fraction(found[1], f"`{found[0].text}`", names))
        for spellings in (("energy_scale",), AREA_SCALES)
        if (found := one_of(leaf.node, spellings, f"component `{leaf.name}`")) is not None
    }


def build_architecture(
    nodes: Iterable[StorageLevel | Fanout],
    compute: ArchLeaf,
    prices: Mapping[str, ComponentPrices],
    context: Context,
) -> Architecture:
    """Return the architecture with its energies as integers of one unit."""
    units = _units_per_pj(prices, context)
    if not any(figure for price in prices.values() for figure in _prices_of(price)):
        context.note(Note("all energies are 0, so every mapping has energy and EDP 0"))
    unit = prices[compute.name]
    return Architecture(
        name=context.tree.name,
        nodes=tuple(
            _with_energy(node, prices[node.name], units) if isinstance(node, StorageLevel) else node
            for node in nodes
        ),
        compute=Compute(
            name=compute.name,
            energy=to_units(unit.compute, units),
            energy_source=unit.sources.get("compute", ""),
            is_given="compute" in unit.given,
            area_um2=unit.area_um2,
            area_source=unit.area_source,
        ),
        units_per_pj=units,
        cycle_s=_clock(context),
    )


def _clock(context: Context) -> Fraction | None:
    """Return the seconds of a cycle, None where nobody says, or where parts say different things."""
    written = [leaf.attributes[CLOCK].value for leaf in context.tree.leaves if CLOCK in leaf.attributes]
    written += [context.variables[CLOCK]] if CLOCK in context.variables else []
    found = dict.fromkeys(map(_positive, written))
    known = [seconds for seconds in found if seconds is not None]
    if len(known) > 1:
        shown = listing(f"{float(seconds):g}" for seconds in known)
        context.note(Note("`{}` has several values ({}): latencies are in cycles only", (CLOCK, shown)))
    elif not known and written:
        sentence = "`{}` is `{}`, no number above 0: latencies are in cycles only"
        context.note(Note(sentence, (CLOCK, printable(str(written[0])))))
    return known[0] if len(known) == 1 else None


def _positive(value: object) -> Fraction | None:
    """Return seconds, of a number or of a text with one; None where they are no time that a cycle takes."""
    try:
        seconds = float(str(value))
    except ValueError:
        return None
    return Fraction(repr(seconds)) if SHORTEST_S <= seconds <= LONGEST_S else None


def _prices_of(prices: ComponentPrices) -> tuple[Decimal, ...]:
    return (prices.read, prices.fill, prices.update, prices.leak, prices.compute, *prices.further.values())


def _units_per_pj(prices: Mapping[str, ComponentPrices], context: Context) -> int:
    by_name = {name: _prices_of(price) for name, price in prices.items()}
    figures = [figure for of_component in by_name.values() for figure in of_component]
    try:
        units = energy_units(figures)
    except SpreadError as error:
        most = max(by_name, key=lambda name: max(by_name[name]))
        least = min(by_name, key=lambda name: min(filter(None, by_name[name]), default=Decimal("inf")))
        whose = f"of `{least}`" if most == least else f"of `{least}` and `{most}`"
        raise SpecError(
            f"energies {whose} have no unit in common: {error}",
            context.leaves[least].span,
            related=() if most == least else ((context.leaves[most].span, "the largest one is here"),),
            hint="write 0 for small ones that do not matter",
        ) from None
    if units < exact_units(figures):
        sentence = "energies are rounded to 1e-{} pJ: they have more digits than exact sums can hold"
        context.note(Note(sentence, (len(str(units)) - 1,)))
    return units


def _with_energy(level: StorageLevel, prices: ComponentPrices, units: int) -> StorageLevel:
    energy = AccessEnergy(
        read=to_units(prices.read, units),
        fill=to_units(prices.fill, units),
        update=to_units(prices.update, units),
        leak_per_cycle=to_units(prices.leak, units),
        sources=tuple(prices.sources.items()),
        given=prices.given,
    )
    return replace(level, energy=energy, area_um2=prices.area_um2, area_source=prices.area_source)
