"""The report of a sweep: a row per point, remarks on energies, JSON and CSV."""

from __future__ import annotations

import csv
import io
from importlib.metadata import version

from rich.console import Console
from rich.table import Table
from rich.text import Text

from model.note import Note
from model.objective import UNITS
from model.wording import listing
from solver.network.sweep import SweepPoint, SweepResult, energy_remarks
from solver.report.document import Document
from solver.report.failures import failure_document, failures
from solver.report.figures import count_text, counted, energy_text, seconds_text, significant
from solver.report.notes import brief_notes, print_notes
from solver.report.sweep_failures import PlacesOf, why_lines
from solver.report.tables import NOTHING, plain_table
from solver.report.text import STYLES

FRONT = "*"
"""Marks the points of the front."""

FRONT_NOTE = (
    f"{FRONT} no other point of the same workload has less energy or cycles without more of the other"
)

FIGURE_COLUMNS = ("status", "energy_pj", "cycles", "edp_pj_cycles", "area_mm2", "proven", "einsums", "front")


def print_sweep(console: Console, result: SweepResult, places: PlacesOf) -> None:
    """Print the points, remarks on energies, notes of the specs, why points fail, and the status line.

    Parameters
    ----------
    places
        Finds the text that a variant was read from, for the reasons.
    """
    console.print(points_table(result))
    if result.front:
        console.print(FRONT_NOTE)
    print_notes(console, energy_remarks([point.variant for point in result.points]))
    print_notes(console, brief_notes(spec_notes(result)))
    lines = list(why_lines(result, places))
    for line in ["", *lines] if lines else []:
        console.print(line)
    console.print(status_line(result))


def points_table(result: SweepResult) -> Table:
    """Return a row per point: workload, architecture, attributes, and the totals of its network."""
    table = plain_table("Workload", "Architecture")
    for name in result.attributes:
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("Status", no_wrap=True)
    for heading in ("Energy", "Cycles", "EDP (pJ*cycles)", "Area", "Proven"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("Front", no_wrap=True)
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
    status = result.status
    return Text.assemble((status.value, STYLES[status]), " ", "; ".join(parts))


def sweep_document(result: SweepResult) -> Document:
    """Return the JSON document of a sweep; docs/sweep.md lists the keys."""
    return {
        "version": version("tilewright"),
        "status": result.status.value,
        "units": dict(UNITS),
        "seconds": result.seconds,
        "searches": result.searched,
        "points": _rows(result),
        "remarks": list(energy_remarks([point.variant for point in result.points])),
        "notes": list(map(str, spec_notes(result))),
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
        "workload": point.variant.workload,
        "architecture": point.variant.architecture,
        "attributes": dict(point.variant.settings),
        "status": point.result.status.value,
        "energy_pj": energy_pj,
        "cycles": cycles,
        "edp_pj_cycles": point.edp_pj_cycles,
        "area_mm2": point.area_mm2,
        "proven": point.result.proven,
        "einsums": len(point.result.network.layers),
        "front": is_on_front,
        "infeasible": [failure_document(failure) for failure in failures(point.result)],
    }
