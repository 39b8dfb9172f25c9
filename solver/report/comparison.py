"""Tables of a comparison of mappers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from solver.comparison import MILESTONES_PERCENT, Comparison, Outcome, Point, geometric_mean
from solver.report.comparison_document import EXACT, exact_outcome, milestones
from solver.report.figures import count_text, objective_text, percent, seconds_text
from solver.report.notes import print_notes
from solver.report.tables import NOTHING, plain_table
from solver.report.text import STYLES, status_parts


def print_comparison(console: Console, comparison: Comparison) -> None:
    """Print the table of a comparison, notes, and what is known about the optimum."""
    result = comparison.result
    console.print(comparison_table(comparison))
    for outcome in comparison.outcomes:
        for remark in filter(None, (_later_remark(comparison, outcome), outcome.remark)):
            console.print(f"{outcome.mapper}: {remark}")
    if comparison.left_out:
        console.print(f"interrupted before {', '.join(comparison.left_out)}")
    print_notes(console, comparison.mapspace.notes)
    if comparison.reference is not None and not comparison.proven:
        console.print("note: the optimum is not proven; ratios and times refer to its bound")
    console.print(
        Text.assemble((result.status.value, STYLES[result.status]), " ", "; ".join(status_parts(result)))
    )


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
        for outcome in (exact_outcome(each), *each.outcomes):
            cases = [(each, outcome)] if each.proven else []
            runs.setdefault((outcome.mapper, each.result.objective), []).extend(cases)
    for (mapper, objective), cases in runs.items():
        table.add_row(mapper, objective, *_summary_cells(cases))
    return table


def _value_texts(comparison: Comparison, value: int | None) -> tuple[str, str]:
    ratio = comparison.ratio(value)
    result = comparison.result
    shown = NOTHING if value is None else objective_text(result.objective, value, result.units_per_pj)
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
