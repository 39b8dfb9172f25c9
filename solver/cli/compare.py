"""The command ``compare``: mappers against the proven optimum."""

from __future__ import annotations

import argparse

from solver.cli.output import check_outputs
from solver.cli.running import load_mapspace
from solver.report.picture import check_plot


def compare_command(arguments: argparse.Namespace) -> int:
    """Prove the optimum, run the mappers, print and write how they did."""
    check_outputs((arguments.json, arguments.csv, arguments.plot), arguments.specs)
    check_plot(arguments.plot)
    mapspace = load_mapspace(arguments)
    from solver.cli.comparing import run_comparison  # noqa: PLC0415 (spec errors answer without numpy)

    return run_comparison(mapspace, arguments)
