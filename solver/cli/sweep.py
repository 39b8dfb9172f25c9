"""The command ``sweep``: map networks on many variants of an architecture."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from model.formats.cascade.loader import load_variants
from model.formats.timeloop.overrides import parse_setting
from model.sweep import Variant
from model.text.reader import parse_assignments
from model.text.source import Places, places_of
from solver.cli.arguments import SETTING
from solver.cli.network_running import run_searches
from solver.cli.options import EXIT_OF_STATUS
from solver.cli.output import STDOUT, check_outputs, deliver, report_steps, say_undrawn, write_output
from solver.cli.running import load_options
from solver.report.picture import check_plot

if TYPE_CHECKING:
    from solver.network.sweep import SweepResult


def sweep_command(arguments: argparse.Namespace) -> int:
    """Map every point of a sweep, write and print what came out.

    Raises
    ------
    OutputError, PlotError, SpecError
        What `solver.cli.main.main` says to users.
    """
    inputs = (*arguments.specs, *arguments.workloads, *arguments.architectures)
    check_outputs((arguments.json, arguments.csv, arguments.plot), inputs)
    check_plot(arguments.plot)
    variants = load_variants(
        arguments.specs,
        arguments.workloads,
        arguments.architectures,
        [parse_setting(text, SETTING) for text in arguments.settings],
        parse_assignments(arguments.variables),
        load_options(arguments),
    )
    from solver.network.sweep import sweep

    result, _ = run_searches(arguments, partial(sweep, variants))
    documents = {variant.point: variant.documents for variant in variants}
    _deliver(result, arguments, lambda variant: places_of(*documents[variant.point]))
    return EXIT_OF_STATUS[result.status]


def _deliver(result: SweepResult, arguments: argparse.Namespace, places: Callable[[Variant], Places]) -> None:
    """Print and write the result."""
    from solver.report.sweep import sweep_csv, sweep_document

    silent = arguments.quiet or STDOUT in (arguments.json, arguments.csv)
    report, document = partial(_print, result, places), partial(sweep_document, result)
    steps = [*report_steps(report, document, arguments.json, silent)]
    if arguments.csv is not None:
        steps.append(lambda: write_output(arguments.csv, sweep_csv(result)))
    if arguments.plot is not None:
        steps.append(partial(_draw, result, arguments.plot))
    deliver(steps)


def _print(result: SweepResult, places: Callable[[Variant], Places]) -> None:
    from solver.cli.console import report_console
    from solver.report.sweep import print_sweep

    with report_console() as console:
        print_sweep(console, result, places)


def _draw(result: SweepResult, path: Path) -> None:
    """Draw the points with a mapping of every Einsum, if there are any."""
    if all(point.costs is None for point in result.points):
        say_undrawn(path, "point")
        return
    from solver.report.sweep_plot import draw_sweep

    draw_sweep(result, path)
