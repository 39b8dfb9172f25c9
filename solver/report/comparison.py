"""Reports of a comparison of mappers: tables, JSON and CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from importlib.metadata import version

from rich.console import Console
from rich.table import Table
from rich.text import Text

from solver.heuristics.comparison import MILESTONES_PERCENT, Comparison, Outcome, Point, geometric_mean
from solver.report.document import UNITS, Document
from solver.report.figures import count_text, objective_text, percent, seconds_text
from solver.report.reasons import reason_document
from solver.report.tables import NOTHING, plain_table
from solver.report.text import STYLES, status_parts
from solver.report.timeloop_mapping import mapping_targets
from solver.result import in_reported_unit

EXACT = "tilewright"
"""Name of the exact search among the mappers."""

CSV_COLUMNS = (
    "case",
    "problem",
    "architecture",
    "objective",
    "units",
    "mapper",
    "value",
    "ratio",
    "proven",
    "seconds",
    "evaluations",
    "valid",
    *(f"seconds_to_{percent}_percent" for percent in MILESTONES_PERCENT),
    "remark",
)


def print_comparison(console: Console, comparison: Comparison) -> None:
    """Print the table of a comparison, notes, and what is known about the optimum."""
    result = comparison.result
    console.print(comparison_table(comparison))
    for outcome in comparison.outcomes:
        if outcome.remark:
            console.print(f"{outcome.mapper}: {outcome.remark}")
    if comparison.left_out:
        console.print(f"interrupted before {', '.join(comparison.left_out)}")
    for note in comparison.mapspace.notes:
        console.print(f"note: {note}")
    if comparison.reference is not None and not comparison.proven:
        console.print("note: the optimum is not proven; ratios and times refer to its bound")
    console.print(
        Text.assemble((result.status.value, STYLES[result.status]), " ", "; ".join(status_parts(result)))
    )


def comparison_table(comparison: Comparison) -> Table:
    """Return a row per mapper, the exact search first.

    Ratio is value over optimum (or its bound, if it is not proven); the last columns are the times at
    which the mapper first came within so many percent of it.
    """
    table = plain_table("Mapper")
    for heading in (comparison.result.objective, "Ratio", "Time", "Evaluations", "Valid"):
        table.add_column(heading, justify="right", no_wrap=True)
    for distance in MILESTONES_PERCENT:
        table.add_column(f"{distance} %", justify="right", no_wrap=True)
    for outcome in (_exact(comparison), *comparison.outcomes):
        share = percent(outcome.valid / outcome.evaluations) if outcome.evaluations else NOTHING
        valid = NOTHING if outcome.mapper == EXACT else share
        work = (seconds_text(outcome.seconds), count_text(outcome.evaluations), valid)
        table.add_row(
            outcome.mapper,
            *_value_texts(comparison, outcome.value),
            *work,
            *_milestone_texts(comparison, outcome.trace),
        )
    return table


def summary_table(comparisons: Sequence[Comparison]) -> Table:
    """Return a row per mapper and objective over many comparisons, with geometric means.

    The means are over the cases in which the optimum is proven and the mapper found a mapping; so are
    the shares of cases that came within so many percent of the optimum, but over all proven ones.
    """
    table = plain_table("Mapper", "Objective")
    for heading in ("Cases", "Mapped", "Ratio", "Worst", "Time", "Evaluations"):
        table.add_column(heading, justify="right", no_wrap=True)
    for distance in MILESTONES_PERCENT:
        table.add_column(f"{distance} %", justify="right", no_wrap=True)
    runs: dict[tuple[str, str], list[tuple[Comparison, Outcome]]] = {}
    for each in comparisons:
        for own in (_exact(each), *each.outcomes):
            cases = [(each, own)] if each.proven else []
            runs.setdefault((own.mapper, each.result.objective), []).extend(cases)
    for (mapper, objective), cases in runs.items():
        table.add_row(mapper, objective, *_summary_cells(cases))
    return table


def comparison_document(comparison: Comparison) -> Document:
    """Return the JSON document of a comparison; docs/compare.md lists the keys."""
    result, architecture = comparison.result, comparison.mapspace.architecture
    return {
        "version": version("tilewright"),
        "case": comparison.case,
        "problem": comparison.mapspace.problem.name,
        "architecture": architecture.name,
        "objective": result.objective,
        "objectives": list(result.objectives),
        "units": UNITS[result.objective],
        "status": result.status.value,
        "termination": result.termination.value,
        "value": result.reported_value,
        "bound": result.reported_bound,
        "proven": comparison.proven,
        "seconds": result.statistics.seconds,
        "first_within": _milestones(comparison, comparison.trace),
        "trace": [_point(comparison, point) for point in comparison.trace],
        "budget": {"seconds": comparison.budget.seconds, "evaluations": comparison.budget.evaluations},
        "seed": comparison.seed,
        "mappers": [_outcome(comparison, outcome) for outcome in comparison.outcomes],
        "left_out": list(comparison.left_out),
        "notes": list(comparison.mapspace.notes),
        "reasons": [reason_document(reason) for reason in result.reasons],
    }


def comparisons_csv(comparisons: Sequence[Comparison]) -> str:
    """Return a CSV table with a row per comparison and mapper, the exact search first."""
    text = io.StringIO()
    writer = csv.DictWriter(text, CSV_COLUMNS, lineterminator="\n")
    writer.writeheader()
    for comparison in comparisons:
        writer.writerows(_csv_rows(comparison))
    return text.getvalue()


def _reported(comparison: Comparison, value: int | None) -> float | int | None:
    """Return an exact value of the first objective in the unit that people read."""
    result = comparison.result
    return None if value is None else in_reported_unit(result.objective, value, result.units_per_pj)


def _exact(comparison: Comparison) -> Outcome:
    """Return the exact search as one of the mappers; mappings it priced are not told apart."""
    statistics = comparison.result.statistics
    return Outcome(EXACT, statistics.seconds, statistics.mappings_priced, 0, comparison.trace)


def _value_texts(comparison: Comparison, value: int | None) -> tuple[str, str]:
    ratio = comparison.ratio(value)
    result = comparison.result
    shown = NOTHING if value is None else objective_text(result.objective, value, result.units_per_pj)
    return shown, NOTHING if ratio is None else f"{ratio:.4f}"


def _milestone_texts(comparison: Comparison, trace: Sequence[Point]) -> Iterator[str]:
    for seconds in _milestones(comparison, trace).values():
        yield NOTHING if seconds is None else seconds_text(seconds)


def _milestones(comparison: Comparison, trace: Sequence[Point]) -> dict[str, float | None]:
    return {str(percent): comparison.first_within(trace, percent) for percent in MILESTONES_PERCENT}


def _summary_cells(cases: Sequence[tuple[Comparison, Outcome]]) -> list[str]:
    ratios = [ratio for each, own in cases if (ratio := each.ratio(own.value)) is not None]
    mean = geometric_mean(ratios)
    seconds = geometric_mean(max(own.seconds, 1e-6) for _, own in cases)
    evaluations = geometric_mean(own.evaluations for _, own in cases if own.evaluations)
    reached = [
        sum(each.first_within(own.trace, percent) is not None for each, own in cases)
        for percent in MILESTONES_PERCENT
    ]
    return [
        count_text(len(cases)),
        count_text(sum(own.value is not None for _, own in cases)),
        NOTHING if mean is None else f"{mean:.4f}",
        f"{max(ratios):.4f}" if ratios else NOTHING,
        NOTHING if seconds is None else seconds_text(seconds),
        NOTHING if evaluations is None else count_text(round(evaluations)),
        *(f"{count}/{len(cases)}" for count in reached),
    ]


def _point(comparison: Comparison, point: Point) -> Document:
    value = _reported(comparison, point.value)
    return {"seconds": point.seconds, "evaluations": point.evaluations, "value": value}


def _outcome(comparison: Comparison, outcome: Outcome) -> Document:
    problem, architecture = comparison.mapspace.problem, comparison.mapspace.architecture
    best = outcome.best
    return {
        "name": outcome.mapper,
        "value": _reported(comparison, outcome.value),
        "ratio": comparison.ratio(outcome.value),
        "seconds": outcome.seconds,
        "evaluations": outcome.evaluations,
        "valid": outcome.valid,
        "first_within": _milestones(comparison, outcome.trace),
        "trace": [_point(comparison, point) for point in outcome.trace],
        "energy_pj": None if best is None else best.evaluation.energy_pj,
        "cycles": None if best is None else best.evaluation.cycles,
        "mapping": None if best is None else mapping_targets(problem, architecture, best.mapping),
        "remark": outcome.remark,
    }


def _csv_rows(comparison: Comparison) -> Iterator[dict[str, object]]:
    result = comparison.result
    shared: dict[str, object] = {
        "case": comparison.case,
        "problem": comparison.mapspace.problem.name,
        "architecture": comparison.mapspace.architecture.name,
        "objective": result.objective,
        "units": UNITS[result.objective],
        "proven": comparison.proven,
    }
    exact = _exact(comparison)
    for outcome in (exact, *comparison.outcomes):
        milestones = _milestones(comparison, outcome.trace)
        yield shared | {
            "mapper": outcome.mapper,
            "value": _reported(comparison, outcome.value),
            "ratio": comparison.ratio(outcome.value),
            "seconds": outcome.seconds,
            "evaluations": outcome.evaluations,
            "valid": None if outcome is exact else outcome.valid,
            **{f"seconds_to_{percent}_percent": seconds for percent, seconds in milestones.items()},
            "remark": outcome.remark,
        }
