"""The energy-latency front: for the terminal and as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from importlib.metadata import version

from rich.console import Console
from rich.table import Table
from rich.text import Text

from model.mapspace import Mapspace
from model.text.source import Places
from solver.pareto import Front, FrontPoint, OpenRange
from solver.report.document import Document, energy_sources
from solver.report.figures import count_text, counted, energy_text, percent, significant
from solver.report.notes import print_notes
from solver.report.reasons import reason_document, reason_lines
from solver.report.tables import plain_table
from solver.report.text import ENDINGS, STYLES, work_text
from solver.report.timeloop_mapping import mapping_targets
from solver.result import Status

PROVEN, NOT_PROVEN = "proven", "not proven"
LEAST_EDP = "least EDP"


def print_front(console: Console, mapspace: Mapspace, front: Front, places: Places) -> None:
    """Print the table of points, what is open, notes, reasons and the status line.

    Parameters
    ----------
    places
        Text of the constraints, for the reasons, where it is known.
    """
    name = mapspace.problem.name
    console.print(Text.assemble(("Energy-latency front", "bold"), f" of {name}" if name else ""))
    if front.points:
        console.print(front_table(front))
    for open_range in front.open_ranges:
        console.print(f"open: {range_text(open_range, front.units_per_pj)}")
    print_notes(console, mapspace.notes)
    for line in reason_lines(front.reasons, places):
        console.print(line)
    parts = [_outcome(front), ENDINGS[front.termination], work_text(front.statistics)]
    status = (front.status.value, STYLES[front.status])
    console.print(Text.assemble(status, " ", "; ".join(part for part in parts if part)))


def front_table(front: Front) -> Table:
    """Return a row per point, by rising cycles, with the distances from both ends of what is listed."""
    table = plain_table()
    for heading in ("Cycles", "of fastest", "Energy", "of least", "EDP (pJ*cycles)", "Utilization"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    fastest, thriftiest = front.points[0].evaluation, front.points[-1].evaluation
    best = least_edp(front)
    for point in front.points:
        cost = point.evaluation
        marks = [PROVEN if point.proven else NOT_PROVEN, *([LEAST_EDP] if point is best else [])]
        table.add_row(
            count_text(cost.cycles),
            _excess(cost.cycles, fastest.cycles),
            energy_text(cost.energy_pj),
            _excess(cost.energy, thriftiest.energy),
            significant(cost.edp_pj_cycles),
            percent(cost.utilization),
            ", ".join(marks),
        )
    return table


def least_edp(front: Front) -> FrontPoint | None:
    """Return the point of least EDP; None where one that was not found may have less.

    A mapping of least EDP that no other beats in energy or cycles is on the front: that is why the
    complete front has it.
    """
    if front.status is not Status.OPTIMAL:
        return None
    return min(front.points, key=lambda point: point.evaluation.edp)


def range_text(open_range: OpenRange, units_per_pj: int) -> str:
    """Return in words where points may be missing."""
    energy = energy_text(open_range.least_energy / units_per_pj)
    least = count_text(open_range.least_cycles)
    if open_range.most_cycles is None:
        cycles = f"{least} cycles and more"
    else:
        cycles = f"{least} to {count_text(open_range.most_cycles)} cycles"
    return f"{cycles}, where no mapping takes less than {energy}"


def front_document(mapspace: Mapspace, front: Front) -> Document:
    """Return the document of a front; docs/json.md lists the keys."""
    return {
        "version": version("tilewright"),
        "problem": mapspace.problem.name,
        "status": front.status.value,
        "termination": front.termination.value,
        "seconds": front.statistics.seconds,
        "units_per_pj": front.units_per_pj,
        "points": [_point(mapspace, point) for point in front.points],
        "open": [_open(open_range, front.units_per_pj) for open_range in front.open_ranges],
        "statistics": asdict(front.statistics),
        "energy_sources": energy_sources(mapspace.architecture),
        "notes": list(map(str, mapspace.notes)),
        "reasons": [reason_document(reason) for reason in front.reasons],
    }


def _point(mapspace: Mapspace, point: FrontPoint) -> Document:
    cost = point.evaluation
    return {
        "proven": point.proven,
        "cycles": cost.cycles,
        "energy": cost.energy,
        "energy_pj": cost.energy_pj,
        "edp_pj_cycles": cost.edp_pj_cycles,
        "utilization": cost.utilization,
        "mapping": mapping_targets(mapspace.problem, mapspace.architecture, point.mapping),
    }


def _open(open_range: OpenRange, units_per_pj: int) -> Document:
    return {
        "least_cycles": open_range.least_cycles,
        "most_cycles": open_range.most_cycles,
        "least_energy": open_range.least_energy,
        "least_energy_pj": open_range.least_energy / units_per_pj,
    }


def _outcome(front: Front) -> str:
    if front.status is Status.INFEASIBLE:
        return "no mapping satisfies all constraints"
    return ", ".join(_counts(front))


def _counts(front: Front) -> Iterator[str]:
    """Yield how many points there are, and how many of them are not proven."""
    complete = "the complete front, " if front.status is Status.OPTIMAL else ""
    yield f"{complete}{counted(len(front.points), 'point')}"
    unproven = sum(not point.proven for point in front.points)
    if unproven:
        yield f"{unproven} of them {NOT_PROVEN}"


def _excess(value: int, least: int) -> str:
    """Return by how much `value` is above `least`."""
    if value == least:
        return "least"
    return f"+{percent((value - least) / least)}" if least else "-"
