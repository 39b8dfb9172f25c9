"""What ``map --pareto`` does: find the energy-latency front, print and write it."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from model.mapspace import Mapspace
from model.text.source import ConflictError, places_of
from solver.cli.options import EXIT_OF_STATUS
from solver.cli.output import (
    STDOUT,
    OutputError,
    Step,
    check_outputs,
    deliver,
    report_steps,
    say_undrawn,
    write_document,
)
from solver.cli.progress import interruptible, live_progress
from solver.cli.refusal import refuse, refused_reasons
from solver.cli.running import load_mapspace, load_unmapped, search_options
from solver.report.picture import check_plot
from solver.result import Status, Termination

if TYPE_CHECKING:
    from model.formats.timeloop import LoadedSpec
    from solver.pareto import Front
    from solver.report.document import Document

SINGLE = ("objective", "mapping", "mapped-spec", "certificate", "sensitivity")
"""Options that speak of one best mapping."""


def pareto_command(arguments: argparse.Namespace) -> int:
    """Find the front, print and write it; return the exit code.

    Raises
    ------
    OutputError, PlotError, SpecError, TooLargeError
        What `solver.cli.main.main` says to users; an option that speaks of a single mapping is one.
    """
    for name in SINGLE:
        if getattr(arguments, name.replace("-", "_")):
            raise OutputError(f"--{name} is of one best mapping, --pareto finds all that are best in a way")
    check_outputs((arguments.json, arguments.plot), arguments.specs)
    check_plot(arguments.plot)
    try:
        loaded = load_unmapped(arguments)
    except ConflictError as conflict:
        return refuse(conflict, _refusal(arguments))
    mapspace = loaded.mapspace
    front = search_front(mapspace, arguments)
    silent = arguments.quiet or arguments.json == STDOUT
    report, document = partial(_print, loaded, front), partial(_document, mapspace, front)
    steps = [*report_steps(report, document, arguments.json, silent)]
    if arguments.plot is not None:
        steps.append(partial(_draw, front, mapspace, arguments))
    deliver(steps)
    return EXIT_OF_STATUS[front.status]


def _refusal(arguments: argparse.Namespace) -> Iterator[Step]:
    """Yield what is written where constraints conflict plainly."""
    if arguments.json is not None:
        mapspace = load_mapspace(arguments, refuse_infeasible=False)
        reasons = refused_reasons(mapspace, arguments.time_limit)
        from solver.pareto import Front

        units = mapspace.architecture.units_per_pj
        front = Front(Status.INFEASIBLE, Termination.PROVEN, units, reasons=reasons)
        yield partial(write_document, arguments.json, partial(_document, mapspace, front))
    if arguments.plot is not None:
        yield partial(say_undrawn, arguments.plot, "point")


def _print(loaded: LoadedSpec, front: Front) -> None:
    from solver.cli.console import report_console
    from solver.report.front import print_front

    with report_console() as console:
        print_front(console, loaded.mapspace, front, places_of(loaded.document) if front.reasons else {})


def _document(mapspace: Mapspace, front: Front) -> Document:
    from solver.report.front import front_document

    return front_document(mapspace, front)


def search_front(mapspace: Mapspace, arguments: argparse.Namespace) -> Front:
    """Find the front as the command line says, with live progress; an interrupt ends it early."""
    from solver.fallback import front_or_explain

    units = mapspace.architecture.units_per_pj
    with interruptible() as stop, live_progress(units, arguments.quiet) as on_progress:
        return front_or_explain(mapspace, search_options(arguments), on_progress, stop.is_set)


def _draw(front: Front, mapspace: Mapspace, arguments: argparse.Namespace) -> None:
    """Draw the points, if there are any."""
    if not front.points:
        say_undrawn(arguments.plot, "point")
        return
    from solver.report.front_plot import draw_front

    title = mapspace.problem.name or " ".join(path.stem for path in arguments.specs)
    draw_front(front, title, arguments.plot)
