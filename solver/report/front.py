"""The energy-latency front: for the terminal and as JSON."""

from __future__ import annotations

from dataclasses import asdict

from rich.console import Console
from rich.text import Text

from model.mapspace import Mapspace
from model.text.source import Places
from solver.pareto import Front, FrontPoint, OpenRange
from solver.report.document import Document, energy_sources, picked, plain, reason_document
from solver.report.figures import count_text, counted, energy_text, percent, significant
from solver.report.reasons import reason_lines
from solver.report.tables import ReportTable, plain_table
from solver.report.text import ENDINGS, print_notes, status_line, work_text
from solver.report.timeloop_mapping import mapping_targets
from solver.result import Status

PROVEN, NOT_PROVEN = "proven", "not proven"
LEAST_EDP = "least EDP"


def print_front(console: Console, mapspace: Mapspace, front: Front, places: Places) -> None:
    """Print the table of points, what is open, notes, reasons and the status line."""
    parts = [_outcome(front), ENDINGS[front.termination], work_text(front.statistics)]
    console.print(status_line(front.status, parts))
    name = mapspace.problem.name
    console.print(Text.assemble("\n", ("Energy-latency front", "bold"), f" of {name}" if name else ""))
    if front.points:
        console.print(front_table(front))
    for open_range in front.open_ranges:
        console.print(f"open: {range_text(open_range, front.units_per_pj)}")
    print_notes(console, mapspace.notes)
    for line in reason_lines(front.reasons, places):
        console.print(line)


def front_table(front: Front) -> ReportTable:
    """Return a row per point, by rising cycles, with the distances from both ends of what is listed."""
    figures = (">Cycles", ">vs. fastest", ">Energy", ">vs. least", ">EDP (pJ*cycles)", ">Utilization")
    table = plain_table(*figures, "", optional=("EDP (pJ*cycles)", "Utilization"))
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
    """Return the point of least EDP; None where a missing one may have less.

    A complete front contains it: a mapping that dominates one of least EDP has no more EDP.
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
    problem, architecture = mapspace.problem, mapspace.architecture
    figures = ("cycles", "energy", "energy_pj", "edp_pj_cycles", "utilization")
    return {
        "kind": "pareto",
        "problem": problem.name,
        "counting": mapspace.counting,
        **picked(front, "status", "termination"),
        "seconds": front.statistics.seconds,
        "units_per_pj": front.units_per_pj,
        "points": [
            {
                "proven": point.proven,
                **picked(point.evaluation, *figures),
                "mapping": mapping_targets(problem, architecture, point.mapping),
            }
            for point in front.points
        ],
        "open": [
            {
                **picked(open_range, "least_cycles", "most_cycles", "least_energy"),
                "least_energy_pj": open_range.least_energy / front.units_per_pj,
            }
            for open_range in front.open_ranges
        ],
        "statistics": asdict(front.statistics),
        "energy_sources": energy_sources(architecture),
        "notes": plain(mapspace.notes),
        "reasons": list(map(reason_document, front.reasons)),
    }


def _outcome(front: Front) -> str:
    """Return how many points there are, and how many of them are not proven."""
    if front.status is Status.INFEASIBLE:
        return "no mapping satisfies all constraints"
    complete = "the complete front, " if front.status is Status.OPTIMAL else ""
    unproven = sum(not point.proven for point in front.points)
    open_points = f", {unproven} of them {NOT_PROVEN}" if unproven else ""
    return f"{complete}{counted(len(front.points), 'point')}{open_points}"


def _excess(value: int, least: int) -> str:
    """Return by how much `value` is above `least`."""
    if value == least:
        return "least"
    return f"+{percent((value - least) / least)}" if least else "-"
