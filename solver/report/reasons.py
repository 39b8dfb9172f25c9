"""Why no mapping exists, with the user's own lines; and what constraints cost."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from rich.console import Console

from model.mapspace import Mapspace
from model.note import Note
from model.objective import UNITS
from model.text.source import Places, excerpts
from solver.report.document import FIGURES, Document, picked, plain, reason_document
from solver.report.figures import NOTHING, count_text, counted, energy_text, percent, significant
from solver.report.tables import ReportTable, plain_table
from solver.result import Lever, Reason, Result, Statement, Status

if TYPE_CHECKING:
    from solver.explain import CostReport
    from solver.explain.costs import ClauseCost

INDENT = "  "


def reason_lines(reasons: Sequence[Reason], places: Places) -> Iterator[str]:
    """Yield the report of an infeasible search, conflict by conflict, with the lines that `places` has."""
    for title, reason in titled(reasons):
        yield title
        for further in reason.shortfalls[1:]:
            yield f"{INDENT}{further.text}"
        yield from _statements(reason.constraints, places)
        yield from _levers(reason, others_left(reasons))
        yield ""


def titled(reasons: Sequence[Reason]) -> Iterator[tuple[str, Reason]]:
    """Yield conflicts with their first lines, numbered if there are several."""
    for number, reason in enumerate(reasons, start=1):
        yield f"Conflict{f' {number}' if len(reasons) > 1 else ''}: {reason.text}", reason


def others_left(reasons: Sequence[Reason]) -> str:
    """Return the end of a sentence about resolving one of several conflicts."""
    return ", once the other conflicts are resolved" if len(reasons) > 1 else ""


def _statements(statements: Sequence[Statement], places: Places) -> Iterator[str]:
    """Yield constraints with the lines that state them; those of one place together."""
    shown = [source for statement in statements for source in statement.sources]
    spans = {source: places[source] for source in shown if source in places}
    texts = dict(zip(spans, excerpts(spans.values()), strict=True))
    for sources, group in groupby(statements, key=lambda statement: statement.sources):
        yield from (f"{INDENT}{statement.text}" for statement in group)
        for source in sources:
            yield from (f"{INDENT}{line}" for line in texts.get(source, [f" --> {source}"]))


def _levers(reason: Reason, remaining: str) -> Iterator[str]:
    if not reason.constraints:
        return
    if not reason.irreducible:
        yield f"{INDENT}(stopped early: perhaps not all of these are needed)"
    if not reason.complete:
        yield f"{INDENT}(stopped early: perhaps there are other changes that suffice)"
    if not reason.levers:
        yield f"{INDENT}No single change was found that suffices{remaining}."
        return
    yield from change_lines(reason.levers, remaining)


def change_lines(levers: Iterable[Lever], remaining: str) -> Iterator[str]:
    """Yield single changes that suffice, each with its places; `remaining` as `others_left` words it."""
    yield f"{INDENT}Any one of these changes suffices{remaining}:"
    yield from (f"{INDENT * 2}{placed_text(lever)}" for lever in levers)


def placed_text(written: Statement | Lever) -> str:
    """Return a constraint or a change, followed by its places."""
    return written.text + "".join(f"  ({source})" for source in written.sources)


LONGEST_TEXT = 70
FREE = "none"
"""A cost of exactly nothing."""

OPEN = "unproven"
"""A cost of which nothing is known."""


def print_explanation(
    console: Console,
    notes: Iterable[Note],
    reasons: Sequence[Reason],
    costs: CostReport | None,
    places: Places,
) -> None:
    """Print notes, and why nothing fits or, if something does, what each constraint costs."""
    if costs is None:
        console.print("INFEASIBLE no mapping satisfies all constraints")
    for note in notes:
        console.print(f"note: {note}")
    for line in reason_lines(reasons, places):
        console.print(line)
    if costs is not None:
        print_costs(console, costs)


def print_costs(console: Console, report: CostReport) -> None:
    """Print the table of what each constraint costs."""
    console.print(costs_table(report))
    if report.baseline.mapping is None:
        console.print("\nUNKNOWN no mapping was found before the search was stopped")
        return
    first, *later = report.baseline.objectives
    otherwise = f", or else of {', then '.join(later)}" if later else ""
    console.print(f"\nCost: improvement of the best {first}{otherwise}, if only this constraint is dropped.")
    if report.baseline.status is not Status.OPTIMAL:
        console.print(
            "The mapping with all constraints is not proven optimal: costs are derived from bounds, "
            "not from the best mappings found."
        )
    elif not all(cost.proven for cost in report.clauses):
        console.print("Where a search was stopped, its bound limits the cost.")
    if any(map(_open_besides, report.clauses)):
        console.print(
            "Figures that are not proven are those of the best mapping found; the optimum may be lower."
        )
    if report.left_out:
        console.print(f"Interrupted: {counted(len(report.left_out), 'constraint')} left untried.")


def costs_table(report: CostReport) -> ReportTable:
    """Return the optimum with all constraints, and the one without each, the most costly first."""
    table = plain_table("Without", "At", ">Energy", ">Cycles", ">EDP", ">Cost")
    table.add_row("(with all constraints)", "", *_figures(report.baseline), NOTHING)
    for cost in report.clauses:
        places = ", ".join(map(str, cost.statement.sources)) or NOTHING
        table.add_row(_shortened(cost.statement.text), places, *_figures(cost.result), _cost_text(cost))
    return table


def explanation_document(
    mapspace: Mapspace, reasons: tuple[Reason, ...], report: CostReport | None
) -> Document:
    """Return the document of ``explain``: why nothing fits, or a `report` on what constraints cost."""
    baseline = None if report is None else report.baseline
    return {
        "kind": "explain",
        "problem": mapspace.problem.name,
        "counting": mapspace.counting,
        "status": Status.INFEASIBLE.value if baseline is None else baseline.status.value,
        **picked(baseline, "objective", "objectives"),
        "units": None if baseline is None else UNITS[baseline.objective],
        **costs_document(report),
        "reasons": list(map(reason_document, reasons)),
        "notes": plain(mapspace.notes),
    }


def costs_document(report: CostReport | None) -> Document:
    """Return what each constraint costs; nothing without a report."""
    return {
        "with_all": None if report is None else _outcome(report.baseline),
        "without": [] if report is None else list(map(_clause, report.clauses)),
        "left_out": [] if report is None else [statement.text for statement in report.left_out],
    }


def _figures(result: Result) -> Iterator[str]:
    evaluation = result.evaluation
    if evaluation is None:
        yield from (NOTHING,) * 3
        return
    yield energy_text(evaluation.energy_pj)
    yield count_text(evaluation.cycles)
    yield significant(evaluation.edp_pj_cycles)


def _cost_text(cost: ClauseCost) -> str:
    text = _range_text(cost.least, cost.most)
    if len(cost.result.objectives) > 1 and text not in (FREE, OPEN):
        text += f" of {cost.objective}"
    besides = _open_besides(cost)
    return f"{text}; {' and '.join(besides)} not proven" if besides else text


def _open_besides(cost: ClauseCost) -> tuple[str, ...]:
    """Return the objectives with unproven figures, except the one that the cost is a range of."""
    if cost.most is None and not cost.least:
        return ()
    return tuple(name for name in cost.unproven if cost.proven or name != cost.objective)


def _range_text(least: float, most: float | None) -> str:
    """Return what is proven of a cost."""
    if least == most:
        return _share_text(least)
    if most is None:
        return f"at least {_share_text(least)}" if least else OPEN
    return f"{_share_text(least)} to {_share_text(most)}" if least else f"at most {percent(most).strip('<')}"


def _share_text(share: float) -> str:
    """Return a share; exactly nothing does not read like what is rounded to it."""
    return percent(share) if share else FREE


def _shortened(text: str) -> str:
    return text if len(text) <= LONGEST_TEXT else f"{text[: LONGEST_TEXT - 3]}..."


def _clause(cost: ClauseCost) -> Document:
    return {
        **picked(cost.statement, "text", "sources"),
        **picked(cost, "share", "least", "most", "proven", "objective", "unproven"),
        **_outcome(cost.result),
    }


def _outcome(result: Result) -> Document:
    return {"value": result.reported_value, **picked(result.evaluation, *FIGURES)}
