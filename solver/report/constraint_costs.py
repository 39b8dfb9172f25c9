"""What constraints cost, as a table and as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import version

from rich.console import Console
from rich.table import Table

from model.mapspace import Mapspace
from model.objective import UNITS
from solver.explain import CostReport
from solver.explain.costs import ClauseCost
from solver.report.document import Document
from solver.report.figures import count_text, energy_text, percent, significant
from solver.report.reasons import reason_document
from solver.report.tables import NOTHING, plain_table
from solver.result import Reason, Result, Status

LONGEST_TEXT = 70
FREE = "none"
"""The cost of what could stay as well: exactly nothing."""

OPEN = "unproven"
"""The cost of which nothing is known."""


def print_costs(console: Console, report: CostReport) -> None:
    """Print the table of what each clause costs."""
    console.print(costs_table(report))
    if report.baseline.mapping is None:
        console.print("\nUNKNOWN no mapping was found before the search was stopped")
        return
    first, *later = report.baseline.objectives
    otherwise = f"; where it does not, {', then '.join(later)}" if later else ""
    console.print(f"\nCost: by which share the best {first} falls without the constraint alone{otherwise}.")
    if report.baseline.status is not Status.OPTIMAL:
        console.print(
            "The mapping with all constraints is not proven optimal: costs are what bounds say of them, "
            "not how far the best mappings found lie apart."
        )
    elif not all(cost.proven for cost in report.clauses):
        console.print("Where a search was stopped, the cost is within what its bound leaves.")
    if any(map(_open_besides, report.clauses)):
        console.print("What is not proven is that of the best mapping found: it may be less.")
    if report.left_out:
        console.print(f"Interrupted before {len(report.left_out):,} more constraints were looked into.")


def costs_table(report: CostReport) -> Table:
    """Return the optimum with all constraints, and the one without each, the dearest first."""
    table = plain_table("Without", "At")
    for heading in ("Energy", "Cycles", "EDP", "Cost"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_row("(with all constraints)", "", *_figures(report.baseline), NOTHING)
    for cost in report.clauses:
        places = ", ".join(map(str, cost.statement.sources)) or NOTHING
        table.add_row(_shortened(cost.statement.text), places, *_figures(cost.result), _cost_text(cost))
    return table


def explanation_document(
    mapspace: Mapspace, reasons: tuple[Reason, ...], report: CostReport | None
) -> Document:
    """Return the document of ``explain``; docs/explain.md lists the keys.

    Parameters
    ----------
    reasons
        Why nothing fits; none if something does.
    report
        None if nothing fits.
    """
    baseline = None if report is None else report.baseline
    return {
        "version": version("tilewright"),
        "problem": mapspace.problem.name,
        "status": Status.INFEASIBLE.value if baseline is None else baseline.status.value,
        "objective": None if baseline is None else baseline.objective,
        "objectives": None if baseline is None else list(baseline.objectives),
        "units": None if baseline is None else UNITS[baseline.objective],
        "with_all": None if baseline is None else _outcome(baseline),
        "without": [] if report is None else [_clause(cost) for cost in report.clauses],
        "left_out": [] if report is None else [statement.text for statement in report.left_out],
        "reasons": [reason_document(reason) for reason in reasons],
        "notes": list(map(str, mapspace.notes)),
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
    """Return the objectives whose figures are not proven, but for the one that the cost is a range of."""
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
    """Return a share; what is nothing at all does not read like what is rounded to it."""
    return percent(share) if share else FREE


def _shortened(text: str) -> str:
    return text if len(text) <= LONGEST_TEXT else f"{text[: LONGEST_TEXT - 3]}..."


def _clause(cost: ClauseCost) -> Document:
    return {
        "text": cost.statement.text,
        "sources": list(map(str, cost.statement.sources)),
        "share": cost.share,
        "least": cost.least,
        "most": cost.most,
        "proven": cost.proven,
        "objective": cost.objective,
        "unproven": list(cost.unproven),
        **_outcome(cost.result),
    }


def _outcome(result: Result) -> Document:
    evaluation = result.evaluation
    return {
        "value": result.reported_value,
        "energy_pj": None if evaluation is None else evaluation.energy_pj,
        "cycles": None if evaluation is None else evaluation.cycles,
        "edp_pj_cycles": None if evaluation is None else evaluation.edp_pj_cycles,
    }
