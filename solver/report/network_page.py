"""Reports of many Einsums: networks, common unrollings, sweeps; and why some of them have no mapping."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from model.objective import EDP, UNITS
from model.wording import listing
from solver.report.charts import (
    COMPUTE,
    COPY,
    MOST_BARS,
    Bar,
    Segment,
    bars_scene,
    energies_scene,
    first_of,
)
from solver.report.drawing import Scene
from solver.report.einsum_page import ENDINGS, violation_text
from solver.report.figures import (
    NOTHING,
    count_text,
    counted,
    energy_text,
    percent,
    seconds_text,
    significant,
)
from solver.report.page import (
    PAGE,
    Cell,
    ConflictReport,
    Fact,
    Figure,
    Page,
    Section,
    Table,
    count_cell,
    energy_cell,
    figure_cell,
    joined,
    si_facts,
    totals_section,
)
from solver.report.plots import sweep_scenes
from solver.report.reading import Value, optional, value_text
from solver.report.reasons import INDENT

MOST_CONFLICTS = 10
"""Conflicts that are shown with their lines."""

MOST_LIKE_IT = 10
"""Conflicts of the same lines that are listed below each."""


def network_page(document: Value) -> Page:
    """Return the report of ``network``: a row per Einsum, where the energy goes, totals."""
    facts = _totals(document)
    return Page(
        f"Network {document['network'].text()}",
        document["status"].text(),
        joined(_network_parts(document)),
        facts,
        (*_network_sections(document), totals_section(facts)),
        notes=brief(document["notes"].texts()),
        conflicts=_conflict_reports([(failure, "") for failure in document["infeasible"].entries()]),
        check=document.get("check").text(),
    )


def _network_parts(document: Value) -> Iterator[str]:
    layers, einsums = document["layers"].entries(), document["einsums"].count()
    yield f"{document['proven'].count()} of {einsums} Einsums proven"
    if len(layers) < einsums:
        yield f"stopped after {len(layers)}; --resume continues"
    infeasible = [layer["name"].text() for layer in layers if layer["status"].text() == "INFEASIBLE"]
    if infeasible:
        yield f"no mapping of {listing(infeasible)} satisfies the constraints"
    ended = [
        (layer["name"].text(), result["termination"].text())
        for layer, result in with_results(layers)
        if result
    ]
    too_large = [name for name, ending in ended if ending == "TOO_LARGE"]
    yield from _early_endings(Counter(ending for _, ending in ended), too_large)


def _early_endings(endings: Mapping[str, int], too_large: Sequence[str]) -> Iterator[str]:
    """Yield how many searches ended early, by what ended them."""
    for ending in ("TIME_LIMIT", "MEMORY_LIMIT"):
        if endings.get(ending):
            yield f"{endings[ending]} {ENDINGS[ending]} (`--{ending.lower().replace('_', '-')}`)"
    for ending in ("CHOICES", "GAP", "REMAINDER_LIMIT"):
        if endings.get(ending):
            yield f"{endings[ending]} {ENDINGS[ending]}"
    if endings.get("LOOP_LIMIT"):
        yield f"of {endings['LOOP_LIMIT']} {ENDINGS['LOOP_LIMIT']}"
    if too_large:
        yield f"too large for a search: {listing(too_large)}"


def _totals(document: Value) -> list[Fact]:
    """Return energy, cycles and EDP of a network, and how much of it is proven."""
    energy, cycles, edp = (optional(document[key]) for key in ("energy_pj", "cycles", "edp_pj_cycles"))
    layers, einsums = document["layers"].entries(), document["einsums"].count()
    searched = sum(layer["origin"].text() == "searched" for layer in layers)
    proven = document["proven"].count()
    return [
        ("Energy", NOTHING if energy is None else energy_text(energy), ""),
        ("Cycles", NOTHING if cycles is None else count_text(int(cycles)), ""),
        ("EDP", NOTHING if edp is None else significant(edp), f"{UNITS[EDP]}, of the totals"),
        *si_facts(document),
        ("Proven", f"{proven}/{einsums}", percent(proven / einsums) if einsums else NOTHING),
        ("Searched", f"{searched}/{einsums}", seconds_text(document["seconds"].number())),
    ]


def _network_sections(document: Value) -> Iterator[Section]:
    """Yield the costs of a network, Einsum by Einsum."""
    layers = document["layers"].entries()
    parts = energy_parts(layers)
    yield Section(
        "Energy by Einsum",
        "All instances of each Einsum, by level.",
        [Figure(partial(energies_scene, "Energy by Einsum and level", parts), first_of(parts))]
        if parts
        else (),
        where=PAGE,
    )
    cycles = (
        [Figure(partial(_cycles_scene, layers), first_of(layers))]
        if any(map(_cycles_or_none, layers))
        else ()
    )
    yield Section("Cycles by Einsum", figures=cycles, where=PAGE)
    yield Section(
        f"Network {document['network'].text()}",
        "Energies and cycles are for all runs, values for one; shapes omit dimensions of 1.",
        tables=[_einsums_table(layers)],
    )


def _einsums_table(layers: Sequence[Value]) -> Table:
    """Return a row per Einsum; the bound only where it is not the value."""
    pairs = with_results(layers)
    is_bounded = any(result and result["bound"].raw != result["value"].raw for _, result in pairs)
    bound = (">Bound",) if is_bounded else ()
    headings = (
        *("Einsum", "Shape", ">Runs", "Status", ">Value", *bound, ">Energy", ">Cycles"),
        *("Limited by", ">Utilization", ">Time", "From"),
    )
    optional_columns = ("Energy", "Cycles", "Limited by", "Shape", "Utilization", "From", "Time")
    return Table("Einsums", headings, [_layer_row(*pair, is_bounded) for pair in pairs], optional_columns)


def with_results(layers: Sequence[Value]) -> list[tuple[Value, Value]]:
    """Return the layers with their results, those of identical ones with that of the layer they repeat."""
    results = {layer["name"].text(): layer["result"] for layer in layers if layer["result"]}
    return [
        (layer, layer["result"] or results.get(layer["same_as"].text(), layer["result"])) for layer in layers
    ]


def _shape_text(layer: Value) -> str:
    """Return the dimensions above 1 with their bounds."""
    sizes = [(dim, bound.count()) for dim, bound in layer["shape"].items()]
    return ", ".join(f"{dim} {bound}" for dim, bound in sizes if bound > 1) or "1"


def _layer_row(layer: Value, result: Value, is_bounded: bool) -> Sequence[Cell]:
    origin, status = layer["origin"].text(), layer["status"].text()
    energy, cycles = optional(layer["energy_pj"]), optional(layer["cycles"])
    value = bound = utilization = seconds = NOTHING
    if result:
        units, gap = result["units"].text(), result["gap"]
        status += f", gap {percent(gap.number())}" if gap.raw else ""
        value = value_text(result["value"], units)
        bound = "" if result["bound"].raw == result["value"].raw else value_text(result["bound"], units)
        seconds = seconds_text(result["seconds"].number()) if origin == "searched" else NOTHING
        if result.get("utilization").raw is not None:
            utilization = percent(result["utilization"].number())
    return (
        layer["name"].text(),
        _shape_text(layer),
        count_cell(layer["n_instances"].count()),
        status,
        value,
        *((bound,) if is_bounded else ()),
        NOTHING if energy is None else energy_cell(energy),
        NOTHING if cycles is None else count_cell(cycles),
        layer["limited_by"].text() or ("nothing moves" if origin == "copy" and not energy else NOTHING),
        utilization,
        seconds,
        f"= {layer['same_as'].text()}" if origin == "identical" else origin,
    )


def _cycles_or_none(layer: Value) -> float | None:
    return optional(layer["cycles"])


def energy_parts(layers: Sequence[Value]) -> list[tuple[str, list[tuple[str, float]]]]:
    """Return per Einsum the energy of each level and of the computes, over all its runs."""
    found = []
    for layer, result in with_results(layers):
        runs, energy = layer["n_instances"].count(), optional(layer["energy_pj"])
        if result and result["levels"]:
            parts = [
                (level["name"].text(), level["energy_pj"].number() * runs)
                for level in result["levels"].entries()
            ]
            parts.append((COMPUTE, result["compute_energy_pj"].number() * runs))
            found.append((layer["name"].text(), parts))
        elif energy is not None:
            found.append((layer["name"].text(), [(COPY, energy)]))
    return found


def _cycles_scene(layers: Sequence[Value], width: float) -> Scene:
    bars = []
    for layer in layers[:MOST_BARS]:
        cycles, limited = _cycles_or_none(layer), layer["limited_by"].text()
        if cycles is not None:
            ink = "work" if limited == COMPUTE else "s1"
            bars.append(Bar(layer["name"].text(), [Segment(cycles, ink, limited)], count_text(int(cycles))))
    key = [("compute-bound", "work"), ("limited by a memory, or a copy", "s1")]
    return bars_scene("Cycles by Einsum", bars, width, key)


def common_page(document: Value) -> Page:
    """Return the report of ``network --same spatial``: the common loops, and what they cost each Einsum."""
    common, own = document["common"], document["own"]
    shown = common or own
    loops: list[Sequence[Cell]] = [
        (*(loop[key].text() for key in ("fanout", "axis", "dimension")), count_cell(loop["width"].count()))
        for loop in document["spatial"].entries()
    ]
    table = Table("Loops", ("Fanout", "Axis", "Dimension", ">Width"), loops)
    facts = _totals(shown)
    found = [
        Section(
            "Common spatial loops",
            "" if loops else "none",
            tables=[table] if loops else (),
        ),
        _prices_section(document),
    ]
    infeasible = [(failure, "") for failure in own["infeasible"].entries()]
    return Page(
        f"Network {document['network'].text()}, one spatial unrolling",
        document["status"].text(),
        joined(_common_parts(document)),
        facts,
        (*(found if common else ()), *_network_sections(shown), totals_section(facts)),
        notes=brief(own["notes"].texts()),
        conflicts=() if common else _conflict_reports(infeasible),
        check=document.get("check").text(),
    )


def _common_parts(document: Value) -> Iterator[str]:
    """Yield the price of a common unrolling."""
    objective = document["objective"].text()
    units = UNITS.get(objective, "")
    if document["value"].raw is None or document["own_value"].raw is None:
        is_proven = document["status"].text() == "INFEASIBLE"
        none = "no spatial unrolling fits all Einsums"
        yield none if is_proven else "no common spatial unrolling was found"
        return
    common, own, bound = (value_text(document[key], units) for key in ("value", "own_value", "bound"))
    price = document["price"]
    more = f"{percent(price.number())} more than" if price.raw else "as much as"
    yield f"{objective} {common} with one spatial unrolling, {more} the Einsums' own optima ({own})"
    if document["status"].text() == "FEASIBLE":
        gap = percent(optional(document["gap"]) or 0.0)
        yield f"another unrolling may reach {bound} (gap {gap})"


def _prices_section(document: Value) -> Section:
    """Return the cost of each Einsum alone and under the common unrolling."""
    own, common = (with_results(document[key]["layers"].entries()) for key in ("own", "common"))
    units = UNITS.get(document["objective"].text(), "")
    rows: list[Sequence[Cell]] = []
    for (layer, alone), (_, other) in zip(own, common, strict=True):
        if not alone or not other or other["value"].raw is None:
            continue
        value, least = other["value"].number(), optional(alone["value"]) or 0.0
        row = (
            value_text(alone["value"], units),
            _spatial_text(alone),
            value_text(other["value"], units),
            percent((value - least) / least if least else 0.0),
            percent(other["utilization"].number()),
        )
        rows.append(
            (layer["name"].text(), _shape_text(layer), count_cell(layer["n_instances"].count()), *row)
        )
    headings = (
        *(
            "Einsum",
            "Shape",
            ">Runs",
            ">Own optimum",
            "Own spatial loops",
            ">Common",
            ">Cost",
            ">Utilization",
        ),
    )
    columns = ("Own spatial loops", "Shape", "Utilization")
    table = Table("Costs", headings, rows, columns)
    return Section("Cost by Einsum", "Values for one run.", tables=[table] if rows else ())


def _spatial_text(result: Value) -> str:
    """Return the spatial loops of a mapping, outermost fanout first."""
    targets = [target for target in result["mapping"].entries() if target["type"].text() == "spatial"]
    factors = (factor.partition("=") for target in targets for factor in target["factors"].texts())
    return ", ".join(f"{dim} {text.partition(',')[0]}" for dim, _, text in factors if text != "1") or NOTHING


def brief(notes: Sequence[str]) -> list[str]:
    """Return notes; of those on one place that differ in names and figures only, the first with a count."""
    kinds: dict[Hashable, list[str]] = {}
    for note in notes:
        kinds.setdefault(_note_pattern(note), []).append(note)
    return [
        f"{first} (and {counted(len(others), 'similar note')})" if others else first
        for first, *others in kinds.values()
    ]


def _note_pattern(note: str) -> Hashable:
    """Return a note's place and its words without names and figures; the note itself if it has no place."""
    place = re.match(r"\S+:\d+:\d+: ", note)
    if place is None:
        return note
    return place.group(), *(word for word in note[place.end() :].split() if word.isalpha() and word != "and")


@dataclass(frozen=True)
class _Failure:
    """Einsums that are the same problem and have no mapping, and where that is."""

    document: Value
    where: str

    @property
    def names(self) -> list[str]:
        return self.document["einsums"].texts()

    @property
    def texts(self) -> list[str]:
        """Why, without the lines."""
        reasons = (reason["text"].text() for reason in self.document["reasons"].entries())
        return [*reasons, *map(violation_text, self.document["violations"].entries())]

    @property
    def causes(self) -> Hashable:
        """Places in files, settings, and the levels that are too small."""
        reasons = self.document["reasons"].entries()
        places = {_without_value(source) for reason in reasons for source in reason["sources"].texts()}
        broken = self.document["violations"].entries()
        return frozenset(places), frozenset((own["node"].text(), own["kind"].text()) for own in broken)


def _without_value(source: str) -> str:
    """Return a place; of a setting, whose column is that of the value, without the column."""
    return re.sub(r":\d+$", "", source) if source.startswith("--") else source


def _conflict_reports(failures: Sequence[tuple[Value, str]]) -> Sequence[ConflictReport]:
    """Return why Einsums have no mapping; of several with the same causes, the first with its lines."""
    kinds: dict[Hashable, list[_Failure]] = {}
    for own in failures:
        failure = _Failure(*own)
        kinds.setdefault(failure.causes, []).append(failure)
    shown = [_conflict(*kind) for kind in list(kinds.values())[:MOST_CONFLICTS]]
    left = len(kinds) - MOST_CONFLICTS
    if left > 0:
        shown.append(
            ConflictReport("", (), [f"{counted(left, 'more conflict')} at other lines; --json lists all"])
        )
    return shown


def _conflict(first: _Failure, *others: _Failure) -> ConflictReport:
    violations = [f"{INDENT}{violation_text(own)}" for own in first.document["violations"].entries()]
    lines = [*violations, *([""] if violations else [])]
    for failure in others[:MOST_LIKE_IT]:
        lines.append(f"Likewise {listing(failure.names)}{failure.where}")
        lines += [f"{INDENT}{text}" for text in failure.texts]
    if len(others) > MOST_LIKE_IT:
        lines.append(f"Likewise {len(others) - MOST_LIKE_IT} more; --json lists all")
    head = f"No mapping of {listing(first.names)}{first.where}"
    return ConflictReport(head, first.document["reasons"].entries(), [*lines, *([""] if others else [])])


FRONT = "*"
"""Marks the points of the front."""

FRONT_NOTE = f"{FRONT} not dominated in energy and cycles by any other point of the same workload"

MOST_POINTS = 3
"""Points that are named where they have no values in common."""

MOST_VALUES = 8
"""Values of an attribute that are named."""


def sweep_page(document: Value) -> Page:
    """Return the report of ``sweep``: energy against cycles of all points, and a table of them."""
    points = document["points"].entries()
    ring = (
        "Filled circles are the front; open circles are points that "
        "another one dominates in energy and cycles."
    )
    return Page(
        f"Sweep over {counted(len(points), 'point')}",
        document["status"].text(),
        joined(_sweep_parts(document)),
        (),
        (
            Section(
                "Energy against cycles and area",
                ring,
                [Figure(draw, workload) for workload, draw in sweep_scenes(document)],
                where=PAGE,
            ),
            _points_section(points),
        ),
        notes=[*document["remarks"].texts(), *brief(document["notes"].texts())],
        conflicts=_conflict_reports(list(_shared_failures(points))),
    )


def _sweep_parts(document: Value) -> Iterator[str]:
    points = document["points"].entries()
    proven, einsums = (sum(point[key].count() for point in points) for key in ("proven", "einsums"))
    yield counted(len(points), "point")
    yield f"{proven} of {einsums} Einsums proven"
    if document["is_stopped"].flag():
        yield "stopped; --resume continues"
    endings = {ending: number.count() for ending, number in document["terminations"].items()}
    yield from _early_endings(endings, document["too_large"].texts())
    searches, seconds = document["searches"].count(), seconds_text(document["seconds"].number())
    yield f"{counted(searches, 'search', 'searches')}, {seconds}"


def _points_section(points: Sequence[Value]) -> Section:
    """Return a row per point: workload, architecture, attributes, and the totals of its network."""
    attributes = list(dict.fromkeys(name for point in points for name, _ in point["attributes"].items()))
    is_timed = any(point.get("latency_s").raw is not None for point in points)
    headings = (
        *("Workload", "Architecture", *(f">{name}" for name in attributes), "Status"),
        *(">Energy", ">Cycles", *((">Seconds",) if is_timed else ()), ">EDP (pJ*cycles)", ">Area"),
        *(">Proven", "Front"),
    )
    rows = [_point_row(point, attributes, is_timed) for point in points]
    table = Table("Points", headings, rows, ("Status", "Proven", "Area", "EDP (pJ*cycles)"))
    has_front = any(point["front"].flag() for point in points)
    return Section("Points", tables=[table], remarks=[FRONT_NOTE] if has_front else ())


def _point_row(point: Value, attributes: Sequence[str], is_timed: bool) -> Sequence[Cell]:
    values = dict(point["attributes"].items())
    energy, cycles, edp, area = (
        optional(point[key]) for key in ("energy_pj", "cycles", "edp_pj_cycles", "area_mm2")
    )
    energy_j, latency_s = (optional(point.get(key)) for key in ("energy_j", "latency_s"))
    if energy is None and energy_j is not None:
        energy = energy_j * 1e12
    seconds = (NOTHING if latency_s is None else (f"{latency_s:.6g}", latency_s),) if is_timed else ()
    return (
        point["workload"].text(),
        point["architecture"].text(),
        *(values[name].text() if name in values else NOTHING for name in attributes),
        point["status"].text(),
        NOTHING if energy is None else energy_cell(energy),
        NOTHING if cycles is None else count_cell(cycles),
        *seconds,
        NOTHING if edp is None else figure_cell(edp),
        NOTHING if area is None else (f"{significant(area)} mm2", area),
        f"{point['proven'].count()}/{point['einsums'].count()}",
        FRONT if point["front"].flag() else "",
    )


def _shared_failures(points: Sequence[Value]) -> Iterator[tuple[Value, str]]:
    """Yield the failures of all points, equal ones once, each with the points that have it."""
    where: dict[str, list[Value]] = {}
    first: dict[str, Value] = {}
    for point in points:
        for failure in point["infeasible"].entries():
            key = json.dumps(failure.raw, sort_keys=True)
            first.setdefault(key, failure)
            where.setdefault(key, []).append(point)
    every = _attribute_values(points)
    for key, failure in first.items():
        yield failure, _points_label(where[key], every)


def _points_label(points: Sequence[Value], every: Sequence[Sequence[str]]) -> str:
    """Return where points are, by what distinguishes them from `every` one; nothing if they are all."""
    values = _attribute_values(points)
    prefixes = ("", "", *(f"{name}=" for name, _ in points[0]["attributes"].items()))
    if math.prod(map(len, values)) == len(points):
        named = _points_text(values, every, prefixes)
        return f" at {named}" if named else ""
    named = "; ".join(
        _points_text(_attribute_values([point]), every, prefixes) for point in points[:MOST_POINTS]
    )
    more = len(points) - MOST_POINTS
    return f" at {named} and {more} more" if more > 0 else f" at {named}"


def _points_text(
    values: Sequence[Sequence[str]], every: Sequence[Sequence[str]], prefixes: Sequence[str]
) -> str:
    """Name all points with these values of workload, architecture and attributes."""
    return ", ".join(
        f"{prefix}{','.join(own[:MOST_VALUES])}{',...' if len(own) > MOST_VALUES else ''}"
        for prefix, own, all_of in zip(prefixes, values, every, strict=True)
        if len(own) < len(all_of)
    )


def _attribute_values(points: Sequence[Value]) -> list[tuple[str, ...]]:
    """Return the workloads, the architectures, and the values of each attribute that points have."""
    rows = (
        (
            point["workload"].text(),
            point["architecture"].text(),
            *(value.text() for _, value in point["attributes"].items()),
        )
        for point in points
    )
    return [tuple(dict.fromkeys(column)) for column in zip(*rows, strict=True)]
