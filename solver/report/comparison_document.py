"""Comparisons of mappers as JSON documents, whose keys docs/compare.md lists, and as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from importlib.metadata import version

from model.objective import UNITS, in_reported_unit
from solver.comparison import MILESTONES_PERCENT, Comparison, Outcome, Point
from solver.report.document import Document
from solver.report.reasons import reason_document
from solver.report.timeloop_mapping import mapping_targets

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


def comparison_document(comparison: Comparison) -> Document:
    """Return the JSON document of a comparison.

    Returns
    -------
    Document
        Values in pJ, cycles or pJ * cycles.
    """
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
        "first_within": milestones(comparison, comparison.trace),
        "trace": [_point(comparison, point) for point in comparison.trace],
        "budget": {"seconds": comparison.budget.seconds, "evaluations": comparison.budget.evaluations},
        "seed": comparison.seed,
        "mappers": [_outcome(comparison, outcome) for outcome in comparison.outcomes],
        "left_out": list(comparison.left_out),
        "notes": list(map(str, comparison.mapspace.notes)),
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


def exact_outcome(comparison: Comparison) -> Outcome:
    """Return the exact search as one of the mappers; mappings it priced are not told apart."""
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
        "first_within": milestones(comparison, outcome.trace),
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
    exact = exact_outcome(comparison)
    for outcome in (exact, *comparison.outcomes):
        within = milestones(comparison, outcome.trace)
        yield shared | {
            "mapper": outcome.mapper,
            "value": _reported(comparison, outcome.value),
            "ratio": comparison.ratio(outcome.value),
            "seconds": outcome.seconds,
            "evaluations": outcome.evaluations,
            "valid": None if outcome is exact else outcome.valid,
            **{f"seconds_to_{percent}_percent": seconds for percent, seconds in within.items()},
            "remark": outcome.remark,
        }
