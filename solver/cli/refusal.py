"""Constraints that conflict so plainly that reading refuses them: the message, and what outputs say of it."""

from __future__ import annotations

import argparse
from collections.abc import Iterable

from model.mapspace import Mapspace
from model.text.source import ConflictError
from solver.cli.output import Step, deliver, write_stderr
from solver.cli.progress import interruptible
from solver.cli.running import load_mapspace
from solver.exit_codes import EXIT_INFEASIBLE
from solver.result import Reason, Result, Status, Termination

EXPLAIN = "`python -m solver explain` with the same specs lists the changes that suffice"


def say_conflict(conflict: ConflictError) -> None:
    """Say which constraints conflict."""
    write_stderr(f"{conflict.render()}\nhelp: {EXPLAIN}\n")


def refuse(conflict: ConflictError, steps: Iterable[Step]) -> int:
    """Say which constraints conflict, then write the documents that say so; return the exit code.

    Raises
    ------
    OutputError, PlotError or BrokenPipeError
        As of `deliver`.
    """
    say_conflict(conflict)
    deliver(steps)
    return EXIT_INFEASIBLE


def refused_result(arguments: argparse.Namespace) -> tuple[Mapspace, Result]:
    """Return the empty mapspace of specs that were refused, and a result that says why it is empty."""
    mapspace = load_mapspace(arguments, refuse_infeasible=False)
    objectives = arguments.objective or mapspace.objectives
    units = mapspace.architecture.units_per_pj
    reasons = refused_reasons(mapspace, arguments.time_limit)
    return mapspace, Result(Status.INFEASIBLE, Termination.PROVEN, objectives, units, reasons=reasons)


def refused_reasons(mapspace: Mapspace, time_limit_s: float | None = None) -> tuple[Reason, ...]:
    """Return why a mapspace is empty that was refused; an interrupt ends that with what is known."""
    from solver.explain import explain_infeasible, reasons_time_s

    with interruptible() as stop:
        return explain_infeasible(mapspace, stop.is_set, reasons_time_s(time_limit_s))
