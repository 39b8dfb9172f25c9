"""The command ``explain``: why nothing fits, or what each constraint costs."""

from __future__ import annotations

import argparse
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from model.text.source import places_of
from solver.cli.arguments import TIME_LIMIT_S
from solver.cli.output import STDOUT, check_outputs, deliver, report_steps
from solver.cli.progress import interruptible, live_progress
from solver.cli.running import load_unmapped, search_options
from solver.exit_codes import EXIT_INFEASIBLE, EXIT_OPTIMAL, EXIT_UNKNOWN
from solver.result import Phase, Progress, Reason, Status

if TYPE_CHECKING:
    from model.formats.timeloop import LoadedSpec
    from model.mapspace import Mapspace
    from solver.explain import CostReport
    from solver.report.document import Document


def explain_command(arguments: argparse.Namespace) -> int:
    """Diagnose a spec; price its constraints if it allows mappings.

    Raises
    ------
    OutputError, SpecError, TooLargeError
        What `solver.cli.main.main` says to users.
    """
    check_outputs((arguments.json,), arguments.specs)
    loaded = load_unmapped(arguments, refuse_infeasible=False)
    mapspace = loaded.mapspace
    reasons, costs = _explain(mapspace, arguments)
    printed = partial(_print, loaded, reasons, costs)
    document = partial(_document, mapspace, reasons, costs)
    deliver(report_steps(printed, document, arguments.json, silent=arguments.json == STDOUT))
    if costs is None:
        return EXIT_INFEASIBLE
    return EXIT_OPTIMAL if costs.baseline.mapping is not None else EXIT_UNKNOWN


def _document(mapspace: Mapspace, reasons: tuple[Reason, ...], report: CostReport | None) -> Document:
    from solver.report.constraint_costs import explanation_document

    return explanation_document(mapspace, reasons, report)


def _print(loaded: LoadedSpec, reasons: tuple[Reason, ...], report: CostReport | None) -> None:
    from solver.cli.console import report_console
    from solver.report.constraint_costs import print_costs
    from solver.report.notes import print_notes
    from solver.report.reasons import reason_lines

    with report_console() as console:
        print_notes(console, loaded.notes)
        for line in reason_lines(reasons, places_of(loaded.document)):
            console.print(line)
        if report is not None:
            print_costs(console, report)
        else:
            console.print("INFEASIBLE no mapping satisfies all constraints")


def _explain(
    mapspace: Mapspace, arguments: argparse.Namespace
) -> tuple[tuple[Reason, ...], CostReport | None]:
    """Return the reasons of an infeasible mapspace, or the costs of a feasible one."""
    from solver.explain import Verdict, constraint_costs, diagnose, explain_infeasible, reasons_time_s
    from solver.fallback import map_from

    with (
        interruptible() as stop,
        live_progress(mapspace.architecture.units_per_pj, quiet=False) as on_progress,
    ):
        if on_progress is not None:
            on_progress(Progress(Phase.EXPLANATION, 0.0, mapspace.objectives[0]))
        time_s = reasons_time_s(arguments.time_limit)
        diagnosis = diagnose(mapspace, stop.is_set, time_s)
        if diagnosis.verdict is Verdict.INFEASIBLE:
            return diagnosis.reasons, None
        options = search_options(arguments)
        if options.time_limit_s is None:
            options = replace(options, time_limit_s=TIME_LIMIT_S)
        report = constraint_costs(mapspace, options, map_from, on_progress, stop.is_set)
        if report.baseline.status is not Status.INFEASIBLE:
            return (), report
        # The search proves what the diagnosis could not decide in its time.
        return explain_infeasible(mapspace, stop.is_set, time_s), None
