"""The command ``network``: map every Einsum of a workload."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from model.spec.cascade import read_network
from model.spec.places import places_of
from model.spec.reader import parse_assignments
from solver.cli.network_running import run_searches
from solver.cli.options import EXIT_OF_STATUS
from solver.cli.output import STDOUT, check_outputs, deliver, write_output
from solver.cli.running import load_options
from solver.result import Status

if TYPE_CHECKING:
    from model.spec.cascade.loader import LoadedNetwork
    from solver.network.result import NetworkResult


def network_command(arguments: argparse.Namespace) -> int:
    """Map a network, write and print what came out."""
    check_outputs((arguments.json,), arguments.specs)
    loaded = read_network(arguments.specs, parse_assignments(arguments.variables), load_options(arguments))
    from solver.network import map_network

    result = run_searches(arguments, partial(map_network, loaded.network))
    steps: list[Callable[[], None]] = []
    if not arguments.quiet and arguments.json != STDOUT:
        steps.append(partial(_print, result, loaded))
    if arguments.json is not None:
        steps.append(partial(_write_document, arguments.json, result))
    deliver(steps)
    return EXIT_OF_STATUS[result.status]


def _print(result: NetworkResult, loaded: LoadedNetwork) -> None:
    from solver.cli.console import report_console
    from solver.report.network import print_network

    places = places_of(*loaded.documents) if result.status is Status.INFEASIBLE else {}
    with report_console() as console:
        print_network(console, result, places)


def _write_document(path: Path, result: NetworkResult) -> None:
    from solver.report.document import json_text
    from solver.report.network import network_document

    write_output(path, json_text(network_document(result)))
