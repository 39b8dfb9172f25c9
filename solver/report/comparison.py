"""Comparisons of mappers as JSON documents, whose keys docs/compare.md lists, and as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence

from model.objective import UNITS, in_reported_unit
from model.places import gathered
from solver.comparison import MILESTONES_PERCENT, Comparison, Improvement, MapperRun
from solver.report.document import (
    FIGURES,
    Document,
    evaluation_si_figures,
    outcome_document,
    picked,
    plain,
    reason_document,
)
from solver.report.figures import objective_text
from solver.report.timeloop_mapping import mapping_targets

EXACT = "tilewright"
"""Name of the exact search among the mappers."""


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
        "later_bounds": [
            in_reported_unit(objective, bound, result.units_per_pj)
            for objective, bound in zip(result.objectives[1:], result.later_bounds, strict=False)
        ],
        "gap": result.gap,
        "ratio": comparison.ratio(exact_outcome(comparison).value),
        **picked(result.evaluation, *FIGURES),
        **({} if result.evaluation is None else evaluation_si_figures(result.evaluation)),
        **picked(result, "status", "termination"),
        "proven": comparison.proven,
        "seconds": result.statistics.seconds,
        "evaluations": result.statistics.mappings_priced,
        "first_within": milestones(comparison, comparison.trace),
        "trace": [_point(comparison, point) for point in comparison.trace],
        "budget": picked(comparison.budget, "seconds", "evaluations"),
        "seed": comparison.seed,
        "mappers": [_run_document(comparison, outcome) for outcome in comparison.outcomes],
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


def exact_outcome(comparison: Comparison) -> MapperRun:
    """Return the exact search as one of the mappers; it does not count valid mappings."""
    statistics = comparison.result.statistics
    return MapperRun(EXACT, statistics.seconds, statistics.mappings_priced, 0, comparison.trace)


def milestones(comparison: Comparison, trace: Sequence[Improvement]) -> dict[str, float | None]:
    """Return the seconds after which a mapper first came within so many percent of the optimum."""
    return {str(percent): comparison.first_within(trace, percent) for percent in MILESTONES_PERCENT}


def _reported(comparison: Comparison, value: int | None) -> float | int | None:
    """Return an exact value of the first objective in the unit that people read."""
    result = comparison.result
    return None if value is None else in_reported_unit(result.objective, value, result.units_per_pj)


def _point(comparison: Comparison, point: Improvement) -> Document:
    return {**picked(point, "seconds", "evaluations"), "value": _reported(comparison, point.value)}


def _run_document(comparison: Comparison, outcome: MapperRun) -> Document:
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
        "behind": later_remark(comparison, outcome),
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


def later_remark(comparison: Comparison, outcome: MapperRun) -> str:
    """Return the objective in which a mapper is worse, if it has the optimum of the first; else nothing."""
    result = comparison.result
    if not comparison.proven or result.evaluation is None or outcome.best is None:
        return ""
    pairs = zip(result.objectives, outcome.best.values, strict=True)
    name, value = next((pair for pair in pairs if pair[1] != result.evaluation.value(pair[0])), ("", 0))
    if name in ("", result.objective):
        return ""
    least = objective_text(name, result.evaluation.value(name), result.units_per_pj)
    return f"{name} {objective_text(name, value, result.units_per_pj)}, where the optimum is {least}"
