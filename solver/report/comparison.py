"""Comparisons of mappers: tables, JSON documents, whose keys docs/compare.md lists, and CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence

from rich.console import Console

from model.objective import UNITS, in_reported_unit
from model.places import gathered
from solver.comparison import MILESTONES_PERCENT, Comparison, Outcome, Point, geometric_mean
from solver.report.document import Document, outcome_document, picked, plain, reason_document
from solver.report.figures import NOTHING, count_text, objective_text, percent, seconds_text
from solver.report.tables import ReportTable, plain_table
from solver.report.text import print_notes, status_line, status_parts
from solver.report.timeloop_mapping import mapping_targets

EXACT = "tilewright"
"""Name of the exact search among the mappers."""


def print_comparison(console: Console, comparison: Comparison) -> None:
    """Print the table of a comparison, notes, and what is known about the optimum."""
    result = comparison.result
    console.print(status_line(result.status, status_parts(result)))
    console.print()
    console.print(comparison_table(comparison))
    for outcome in comparison.outcomes:
        for remark in filter(None, (_later_remark(comparison, outcome), outcome.remark)):
            console.print(f"{outcome.mapper}: {remark}")
    if comparison.left_out:
        console.print(f"interrupted before {', '.join(comparison.left_out)}")
    print_notes(console, comparison.mapspace.notes)
    if comparison.reference is not None and not comparison.proven:
        console.print("note: the optimum is not proven; ratios and times refer to its bound")


def _later_remark(comparison: Comparison, outcome: Outcome) -> str:
    """Return what a mapper is behind in that has the proven optimum of the first objective; else nothing."""
    result = comparison.result
    if not comparison.proven or result.evaluation is None or outcome.best is None:
        return ""
    pairs = zip(result.objectives, outcome.best.values, strict=True)
    name, value = next((pair for pair in pairs if pair[1] != result.evaluation.value(pair[0])), ("", 0))
    if name in ("", result.objective):
        return ""
    least = objective_text(name, result.evaluation.value(name), result.units_per_pj)
    return f"{name} {objective_text(name, value, result.units_per_pj)}, where the least is {least}"


def comparison_table(comparison: Comparison) -> ReportTable:
    """Return a row per mapper, the exact search first.

    Ratios are to the optimum, or to its bound if it is not proven; times are those to come so close to it.
    """
    figures = (f">{comparison.result.objective}", ">Ratio", ">Time", ">Evaluations", ">Valid")
    table = plain_table("Mapper", *figures, *_milestone_headings(), optional=("Evaluations", "Valid"))
    for outcome in (exact_outcome(comparison), *comparison.outcomes):
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


def summary_table(comparisons: Sequence[Comparison]) -> ReportTable:
    """Return a row per mapper and objective over many comparisons, with geometric means.

    Means are over the proven cases that the mapper mapped; shares within a milestone, over all proven ones.
    """
    figures = (">Cases", ">Mapped", ">Ratio", ">Worst", ">Time", ">Evaluations")
    table = plain_table("Mapper", "Objective", *figures, *_milestone_headings())
    runs: dict[tuple[str, str], list[tuple[Comparison, Outcome]]] = {}
    for each in comparisons:
        for outcome in (exact_outcome(each), *each.outcomes):
            cases = [(each, outcome)] if each.proven else []
            runs.setdefault((outcome.mapper, each.result.objective), []).extend(cases)
    for (mapper, objective), cases in runs.items():
        table.add_row(mapper, objective, *_summary_cells(cases))
    return table


def _milestone_headings() -> list[str]:
    return [f">{distance} %" for distance in MILESTONES_PERCENT]


def _value_texts(comparison: Comparison, value: int | None) -> tuple[str, str]:
    ratio = comparison.ratio(value)
    result = comparison.result
    shown = objective_text(result.objective, value, result.units_per_pj)
    return shown, NOTHING if ratio is None else f"{ratio:.4f}"


def _milestone_texts(comparison: Comparison, trace: Sequence[Point]) -> Iterator[str]:
    for seconds in milestones(comparison, trace).values():
        yield NOTHING if seconds is None else seconds_text(seconds)


def _summary_cells(cases: Sequence[tuple[Comparison, Outcome]]) -> list[str]:
    ratios = [ratio for each, outcome in cases if (ratio := each.ratio(outcome.value)) is not None]
    mean = geometric_mean(ratios)
    seconds = geometric_mean(max(outcome.seconds, 1e-6) for _, outcome in cases)
    evaluations = geometric_mean(outcome.evaluations for _, outcome in cases if outcome.evaluations)
    reached = [
        sum(each.first_within(outcome.trace, percent) is not None for each, outcome in cases)
        for percent in MILESTONES_PERCENT
    ]
    return [
        count_text(len(cases)),
        count_text(sum(outcome.value is not None for _, outcome in cases)),
        NOTHING if mean is None else f"{mean:.4f}",
        f"{max(ratios):.4f}" if ratios else NOTHING,
        NOTHING if seconds is None else seconds_text(seconds),
        NOTHING if evaluations is None else count_text(round(evaluations)),
        *(f"{count}/{len(cases)}" for count in reached),
    ]


def comparison_document(comparison: Comparison) -> Document:
    """Return the JSON document of a comparison; values are in pJ, cycles or pJ * cycles."""
    result, mapspace = comparison.result, comparison.mapspace
    return {
        "kind": "compare",
        "case": comparison.case,
        "problem": mapspace.problem.name,
        "counting": mapspace.counting,
        "factors": mapspace.factors,
        "architecture": mapspace.architecture.name,
        **outcome_document(result),
        **picked(result, "status", "termination"),
        "proven": comparison.proven,
        "seconds": result.statistics.seconds,
        "first_within": milestones(comparison, comparison.trace),
        "trace": [_point(comparison, point) for point in comparison.trace],
        "budget": picked(comparison.budget, "seconds", "evaluations"),
        "seed": comparison.seed,
        "mappers": [_outcome(comparison, outcome) for outcome in comparison.outcomes],
        "left_out": list(comparison.left_out),
        "notes": plain(mapspace.notes),
        "reasons": list(map(reason_document, result.reasons)),
    }


def comparisons_csv(comparisons: Sequence[Comparison]) -> str:
    """Return a CSV table with a row per comparison and mapper, the exact search first."""
    text = io.StringIO()
    rows = [row for comparison in comparisons for row in _csv_rows(comparison)]
    writer = csv.DictWriter(text, rows[0], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def exact_outcome(comparison: Comparison) -> Outcome:
    """Return the exact search as one of the mappers; it does not count valid mappings."""
    statistics = comparison.result.statistics
    return Outcome(EXACT, statistics.seconds, statistics.mappings_priced, 0, comparison.trace)


def milestones(comparison: Comparison, trace: Sequence[Point]) -> dict[str, float | None]:
    """Return the seconds after which a mapper first came within so many percent of the optimum."""
    return {str(percent): comparison.first_within(trace, percent) for percent in MILESTONES_PERCENT}


def _reported(comparison: Comparison, value: int | None) -> float | int | None:
    """Return an exact value of the first objective in the unit that people read."""
    result = comparison.result
    return None if value is None else in_reported_unit(result.objective, value, result.units_per_pj)


def _point(comparison: Comparison, point: Point) -> Document:
    return {**picked(point, "seconds", "evaluations"), "value": _reported(comparison, point.value)}


def _outcome(comparison: Comparison, outcome: Outcome) -> Document:
    problem, architecture = comparison.mapspace.problem, gathered(comparison.mapspace).architecture
    best = outcome.best
    return {
        "name": outcome.mapper,
        "value": _reported(comparison, outcome.value),
        "ratio": comparison.ratio(outcome.value),
        **picked(outcome, "seconds", "evaluations", "valid"),
        "first_within": milestones(comparison, outcome.trace),
        "trace": [_point(comparison, point) for point in outcome.trace],
        **picked(None if best is None else best.evaluation, "energy_pj", "cycles"),
        "mapping": None if best is None else mapping_targets(problem, architecture, best.mapping),
        "remark": outcome.remark,
    }


def _csv_rows(comparison: Comparison) -> Iterator[dict[str, object]]:
    result = comparison.result
    exact = exact_outcome(comparison)
    for outcome in (exact, *comparison.outcomes):
        within = milestones(comparison, outcome.trace)
        yield {
            "case": comparison.case,
            "problem": comparison.mapspace.problem.name,
            "architecture": comparison.mapspace.architecture.name,
            "objective": result.objective,
            "units": UNITS[result.objective],
            "mapper": outcome.mapper,
            "value": _reported(comparison, outcome.value),
            "ratio": comparison.ratio(outcome.value),
            "proven": comparison.proven,
            "seconds": outcome.seconds,
            "evaluations": outcome.evaluations,
            "valid": None if outcome is exact else outcome.valid,
            **{f"seconds_to_{percent}_percent": seconds for percent, seconds in within.items()},
            "remark": outcome.remark,
        }
