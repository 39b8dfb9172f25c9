"""The report of a sweep: a row per point, remarks on energies, why points fail, JSON and CSV."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.text import Text

from model.note import Note
from model.objective import UNITS
from model.sweep import Variant
from model.text.source import Places
from model.wording import listing
from solver.network.sweep import SweepPoint, SweepResult, energy_remarks
from solver.report.document import Document, picked, plain
from solver.report.figures import NOTHING, count_text, counted, energy_text, seconds_text, significant
from solver.report.network import (
    MOST_CONFLICTS,
    Failure,
    failure_document,
    failure_lines,
    failures,
    likewise_lines,
    lines_of,
    more_line,
)
from solver.report.tables import ReportTable, plain_table
from solver.report.text import brief_notes, print_notes
from solver.report.text import status_line as common_status_line

FRONT = "*"
"""Marks the points of the front."""

FRONT_NOTE = f"{FRONT} not dominated in energy and cycles by any other point of the same workload"

MOST_POINTS = 3
"""Points that are named where they have no values in common."""

MOST_VALUES = 8
"""Values of an attribute that are named."""

PlacesOf = Callable[[Variant], Places]
"""Finds the text that a variant was read from."""

FIGURE_COLUMNS = ("status", "energy_pj", "cycles", "edp_pj_cycles", "area_mm2", "proven", "einsums", "front")


def print_sweep(console: Console, result: SweepResult, places: PlacesOf) -> None:
    """Print the points, remarks on energies, notes of the specs, why points fail, and the status line."""
    console.print(points_table(result))
    if result.front:
        console.print(FRONT_NOTE)
    print_notes(console, energy_remarks([point.variant for point in result.points]))
    print_notes(console, brief_notes(spec_notes(result)))
    lines = list(why_lines(result, places))
    for line in ["", *lines] if lines else []:
        console.print(line)
    console.print(status_line(result))


def points_table(result: SweepResult) -> ReportTable:
    """Return a row per point: workload, architecture, attributes, and the totals of its network."""
    attributes = (f">{name}" for name in result.attributes)
    figures = ("Status", ">Energy", ">Cycles", ">EDP (pJ*cycles)", ">Area", ">Proven", "Front")
    optional = ("Status", "Proven", "Area", "EDP (pJ*cycles)")
    table = plain_table("Workload", "Architecture", *attributes, *figures, optional=optional)
    front = result.front
    for place, point in enumerate(result.points):
        variant, network = point.variant, point.result
        table.add_row(
            variant.workload,
            variant.architecture,
            *(value for _, value in variant.settings),
            network.status.value,
            *_figures(point),
            f"{network.proven}/{len(network.network.layers)}",
            FRONT if place in front else "",
        )
    return table


def _figures(point: SweepPoint) -> tuple[str, str, str, str]:
    """Return energy, cycles, EDP and area."""
    area = NOTHING if point.area_mm2 is None else f"{significant(point.area_mm2)} mm2"
    if point.costs is None or point.edp_pj_cycles is None:
        return NOTHING, NOTHING, NOTHING, area
    energy_pj, cycles = point.costs
    return energy_text(energy_pj), count_text(cycles), significant(point.edp_pj_cycles), area


def spec_notes(result: SweepResult) -> list[Note]:
    """Return what the user should know about the reading of the specs, each note once."""
    return list(dict.fromkeys(note for point in result.points for note in point.variant.network.notes))


def status_line(result: SweepResult) -> Text:
    """Return the status of the sweep in one line."""
    proven = sum(point.result.proven for point in result.points)
    einsums = sum(len(point.result.network.layers) for point in result.points)
    parts = [counted(len(result.points), "point"), f"{proven} of {einsums} Einsums proven"]
    if any(len(point.result.layers) < len(point.result.network.layers) for point in result.points):
        parts.append("stopped; --resume continues")
    too_large = dict.fromkeys(name for point in result.points for name in point.result.too_large)
    if too_large:
        parts.append(f"too large for a search: {listing(tuple(too_large))}")
    parts.append(f"{counted(result.searched, 'search', 'searches')}, {seconds_text(result.seconds)}")
    return common_status_line(result.status, parts)


def sweep_document(result: SweepResult) -> Document:
    """Return the JSON document of a sweep; docs/sweep.md lists the keys."""
    return {
        "status": result.status.value,
        "units": dict(UNITS),
        "seconds": result.seconds,
        "searches": result.searched,
        "points": _rows(result),
        "remarks": list(energy_remarks([point.variant for point in result.points])),
        "notes": plain(spec_notes(result)),
    }


def sweep_csv(result: SweepResult) -> str:
    """Return a CSV table with a row per point and a column per attribute."""
    names = result.attributes
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["workload", "architecture", *names, *FIGURE_COLUMNS])
    for point, row in zip(result.points, _rows(result), strict=True):
        values = [value for _, value in point.variant.settings]
        writer.writerow(
            [row["workload"], row["architecture"], *values, *(row[column] for column in FIGURE_COLUMNS)]
        )
    return text.getvalue()


def _rows(result: SweepResult) -> list[Document]:
    front = result.front
    return [_row(point, place in front) for place, point in enumerate(result.points)]


def _row(point: SweepPoint, is_on_front: bool) -> Document:
    energy_pj, cycles = point.costs or (None, None)
    return {
        **picked(point.variant, "workload", "architecture"),
        "attributes": dict(point.variant.settings),
        "status": point.result.status.value,
        "energy_pj": energy_pj,
        "cycles": cycles,
        **picked(point, "edp_pj_cycles", "area_mm2"),
        "proven": point.result.proven,
        "einsums": len(point.result.network.layers),
        "front": is_on_front,
        "infeasible": [failure_document(failure) for failure in failures(point.result)],
    }


@dataclass(frozen=True)
class _Shared:
    """A failure and the points that have it."""

    failure: Failure
    points: tuple[SweepPoint, ...]


def why_lines(result: SweepResult, places: PlacesOf) -> Iterator[str]:
    """Yield why points have no mapping, equal failures once.

    Of those with the same lines, at other values or in other Einsums, only the first is shown with the lines.
    """
    kinds = _kinds(result)
    labels = _Labels(result)
    for first, *others in kinds[:MOST_CONFLICTS]:
        yield f"No mapping of {listing(first.failure.names)}{labels.at(first.points)}"
        yield from failure_lines(first.failure, places(first.points[0].variant))
        yield from likewise_lines([(shared.failure, labels.at(shared.points)) for shared in others])
    yield from more_line(len(kinds))


def _kinds(result: SweepResult) -> list[list[_Shared]]:
    """Return the failures of all points: equal ones once, those that the same lines lead to together."""
    points: dict[Failure, list[SweepPoint]] = {}
    for point in result.points:
        for failure in failures(point.result):
            points.setdefault(failure, []).append(point)
    kinds: dict[Hashable, list[_Shared]] = {}
    for failure, places in points.items():
        kinds.setdefault(lines_of(failure), []).append(_Shared(failure, tuple(places)))
    return list(kinds.values())


class _Labels:
    """Names points of a sweep by what distinguishes them from all others."""

    def __init__(self, result: SweepResult) -> None:
        self._prefixes = ("", "", *(f"{name}=" for name in result.attributes))
        self._values = _values(result.points)

    def at(self, points: Sequence[SweepPoint]) -> str:
        """Return where `points` are; nothing if they are all of the sweep."""
        values = _values(points)
        if math.prod(map(len, values)) == len(points):
            named = self._range(values)
            return f" at {named}" if named else ""
        named = "; ".join(self._range(_values([point])) for point in points[:MOST_POINTS])
        more = len(points) - MOST_POINTS
        return f" at {named} and {more} more" if more > 0 else f" at {named}"

    def _range(self, point_values: Sequence[Sequence[str]]) -> str:
        """Name all points with these values of workload, architecture and attributes."""
        return ", ".join(
            f"{prefix}{','.join(values[:MOST_VALUES])}{',...' if len(values) > MOST_VALUES else ''}"
            for prefix, values, every in zip(self._prefixes, point_values, self._values, strict=True)
            if len(values) < len(every)
        )


def _values(points: Sequence[SweepPoint]) -> list[tuple[str, ...]]:
    """Return the workloads, the architectures, and the values of each attribute that `points` have."""
    variants = [point.variant for point in points]
    rows = (
        (variant.workload, variant.architecture, *(value for _, value in variant.settings))
        for variant in variants
    )
    return [tuple(dict.fromkeys(column)) for column in zip(*rows, strict=True)]
