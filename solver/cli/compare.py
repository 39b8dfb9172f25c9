"""The command ``compare``: mappers against the proven optimum."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from model.text.source import ConflictError
from solver.cli.output import Step, check_outputs
from solver.cli.refusal import refuse
from solver.cli.running import load_mapspace
from solver.report.picture import check_plot


def compare_command(arguments: argparse.Namespace) -> int:
    """Prove the optimum, run the mappers, print and write how they did.

    Raises
    ------
    OutputError, PlotError, SpecError, TooLargeError
        What `solver.cli.main.main` says to users.
    """
    check_outputs((arguments.json, arguments.csv, arguments.plot), arguments.specs)
    check_plot(arguments.plot)
    try:
        mapspace = load_mapspace(arguments)
    except ConflictError as conflict:
        return refuse(conflict, _refusal(arguments))
    from solver.cli.comparing import run_comparison

    return run_comparison(mapspace, arguments)


def _refusal(arguments: argparse.Namespace) -> Iterator[Step]:
    """Yield what is written where constraints conflict plainly: no mapper is run."""
    if (arguments.json, arguments.csv, arguments.plot) == (None, None, None):
        return
    from solver.cli.comparing import refused_comparison, writing_steps

    yield from writing_steps(refused_comparison(arguments), arguments, silent=True)
