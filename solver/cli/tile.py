"""The command ``tile``: tile one operator and print how."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from solver.cli.options import EXIT_INFEASIBLE, EXIT_OPTIMAL
from solver.cli.output import STDOUT, check_outputs, write_output
from solver.cli.tile_arguments import described_operator

if TYPE_CHECKING:
    from model.tiling.result import Tiling


def tile_command(arguments: argparse.Namespace) -> int:
    """Tile the operator that the arguments describe; write and print the tiling."""
    operator = described_operator(arguments)
    check_outputs((arguments.json,), ())
    from model.spec.backends import load_backend  # noqa: PLC0415 (wrong arguments answer without it)

    backend = load_backend(arguments.backend)
    from solver.cli.console import report_console  # noqa: PLC0415
    from solver.heuristics.smaug import CannotTile, tile  # noqa: PLC0415
    from solver.report.document import json_text  # noqa: PLC0415
    from solver.report.tiling import print_tiling, tiling_document  # noqa: PLC0415

    outcome: Tiling | CannotTile
    try:
        outcome = tile(operator, backend)
    except CannotTile as error:
        outcome = error
    if arguments.json != STDOUT:
        with report_console() as console:
            print_tiling(console, operator, backend, outcome)
    if arguments.json is not None:
        write_output(arguments.json, json_text(tiling_document(operator, backend, outcome)))
    return EXIT_INFEASIBLE if isinstance(outcome, CannotTile) else EXIT_OPTIMAL
