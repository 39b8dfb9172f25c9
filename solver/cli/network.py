"""The command ``network``: map every Einsum of a workload."""

from __future__ import annotations

import argparse
from functools import partial

from model.spec.cascade import read_network
from model.spec.places import places_of
from model.spec.reader import parse_assignments
from solver.cli.network_running import run_searches
from solver.cli.options import EXIT_OF_STATUS
from solver.cli.output import STDOUT, check_outputs, write_output
from solver.cli.running import load_options
from solver.result import Status


def network_command(arguments: argparse.Namespace) -> int:
    """Map a network, write and print what came out."""
    check_outputs((arguments.json,), arguments.specs)
    loaded = read_network(arguments.specs, parse_assignments(arguments.variables), load_options(arguments))
    from solver.network import map_network  # noqa: PLC0415 (loads ortools)

    result = run_searches(arguments, partial(map_network, loaded.network))
    if not arguments.quiet and arguments.json != STDOUT:
        from solver.cli.console import report_console  # noqa: PLC0415 (spec errors answer without it)
        from solver.report.network import print_network  # noqa: PLC0415

        places = places_of(*loaded.documents) if result.status is Status.INFEASIBLE else {}
        with report_console() as console:
            print_network(console, result, places)
    if arguments.json is not None:
        from solver.report.document import json_text  # noqa: PLC0415
        from solver.report.network import network_document  # noqa: PLC0415

        write_output(arguments.json, json_text(network_document(result)))
    return EXIT_OF_STATUS[result.status]
