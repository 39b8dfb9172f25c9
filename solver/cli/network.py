"""The command ``network``: map every Einsum of a workload."""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from model.formats.cascade import read_network
from model.text.reader import parse_assignments
from model.text.source import places_of
from solver.cli.network_files import certificates_of, check_directories, check_files, mapping_file_steps
from solver.cli.network_running import run_searches
from solver.cli.options import EXIT_OF_STATUS
from solver.cli.output import STDOUT, check_outputs, deliver, report_steps, write_stderr, write_stdout
from solver.cli.running import load_options
from solver.exit_codes import EXIT_OPTIMAL, EXIT_UNCHECKED
from solver.result import Status

if TYPE_CHECKING:
    from model.formats.cascade.loader import LoadedNetwork
    from solver.network.run import NetworkResult
    from solver.report.document import Document

UNCHECKED = "interrupted: certificates are not checked; `prove CERT.json` checks those that are written"


def network_command(arguments: argparse.Namespace) -> int:
    """Map a network, write and print what came out, and have it checked where that is asked for.

    Raises
    ------
    OutputError, SpecError
        What `solver.cli.main.main` says to users.
    KeyboardInterrupt
        It was interrupted while certificates were checked.
    """
    check_outputs((arguments.json,), arguments.specs)
    check_directories(arguments)
    loaded = read_network(arguments.specs, parse_assignments(arguments.variables), load_options(arguments))
    from solver.network import map_network

    result, interrupted = run_searches(arguments, partial(map_network, loaded.network))
    silent = arguments.quiet or arguments.json == STDOUT
    report, document = partial(_print, result, loaded), partial(_document, result)
    deliver(
        [
            *report_steps(report, document, arguments.json, silent),
            *mapping_file_steps(result, arguments.mappings),
        ]
    )
    with certificates_of(result, arguments) as files:
        if arguments.check and interrupted:
            write_stderr(f"note: {UNCHECKED}\n")
            return EXIT_UNCHECKED
        code = _check(files, arguments, silent) if arguments.check else EXIT_OPTIMAL
    return code or EXIT_OF_STATUS[result.status]


def _check(files: dict[Path, str], arguments: argparse.Namespace, silent: bool) -> int:
    code, verdicts = check_files(files, arguments.check_time_limit)
    if not silent:
        write_stdout(verdicts)
    return code


def _print(result: NetworkResult, loaded: LoadedNetwork) -> None:
    from solver.cli.console import report_console
    from solver.report.network import print_network

    places = places_of(*loaded.documents) if result.status is Status.INFEASIBLE else {}
    with report_console() as console:
        print_network(console, result, places)


def _document(result: NetworkResult) -> Document:
    from solver.report.network import network_document

    return network_document(result)
