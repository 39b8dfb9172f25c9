"""The command ``network``: map every Einsum of a workload."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from model.spec.cascade import load_network
from model.spec.reader import parse_assignments
from solver.cli.interrupt import interruptible
from solver.cli.options import EXIT_OF_STATUS
from solver.cli.output import STDOUT, OutputError, check_outputs, write_output
from solver.cli.progress import status_text
from solver.cli.running import load_options, search_options

if TYPE_CHECKING:
    from pathlib import Path

    from model.cascade import Network
    from solver.network.executors import Executor
    from solver.network.result import NetworkResult
    from solver.network.run import NetworkProgress, ProgressCallback


def network_command(arguments: argparse.Namespace) -> int:
    """Map a network, write and print what came out."""
    check_outputs((arguments.json,), arguments.specs)
    network = load_network(arguments.specs, parse_assignments(arguments.variables), load_options(arguments))
    _check_cache(arguments.cache)
    result = _mapped(network, arguments)
    if not arguments.quiet and arguments.json != STDOUT:
        from solver.cli.console import report_console  # noqa: PLC0415 (spec errors answer without it)
        from solver.report.network import print_network  # noqa: PLC0415

        with report_console() as console:
            print_network(console, result)
    if arguments.json is not None:
        from solver.report.document import json_text  # noqa: PLC0415
        from solver.report.network import network_document  # noqa: PLC0415

        write_output(arguments.json, json_text(network_document(result)))
    return EXIT_OF_STATUS[result.status]


def _mapped(network: Network, arguments: argparse.Namespace) -> NetworkResult:
    from solver.network import ResultCache, map_network  # noqa: PLC0415 (loads ortools)
    from solver.network.executors import ExecutorError  # noqa: PLC0415

    cache = ResultCache(arguments.cache)
    options = search_options(arguments)
    try:
        executor = _executor(arguments)
        with interruptible() as stop, _progress_bar(arguments.quiet) as on_progress:
            return map_network(network, options, cache, arguments.resume, on_progress, stop.is_set, executor)
    except ExecutorError as error:
        raise OutputError(str(error)) from error
    except OSError as error:
        raise _unwritable(arguments.cache, error) from error


def _executor(arguments: argparse.Namespace) -> Executor:
    from solver.network import Processes, Serial  # noqa: PLC0415 (loads ortools)
    from solver.network.cluster import Cluster  # noqa: PLC0415

    if arguments.cluster is not None:
        return Cluster(arguments.cluster)
    return Processes(arguments.jobs) if arguments.jobs > 1 else Serial()


def _check_cache(directory: Path) -> None:
    """Make the directory before a search takes its time; `OutputError` where that fails."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _unwritable(directory, error) from error
    if not os.access(directory, os.W_OK | os.X_OK):
        raise OutputError(f"cannot keep results in {directory}: permission denied; --cache DIR names another")


def _unwritable(directory: Path, error: OSError) -> OutputError:
    return OutputError(f"cannot keep results in {directory}: {error.strerror}; --cache DIR names another")


@contextmanager
def _progress_bar(quiet: bool) -> Iterator[ProgressCallback | None]:
    """Yield what feeds a bar over the Einsums on stderr, or None where nobody would see it."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console  # noqa: PLC0415 (start-up time)
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn  # noqa: PLC0415

    columns = (MofNCompleteColumn(), BarColumn(), TextColumn("{task.description}", markup=False))
    with Progress(*columns, console=Console(stderr=True, markup=False), transient=True) as bar:
        task = bar.add_task("", total=None)

        def show(progress: NetworkProgress) -> None:
            text, search = progress.layer.name, progress.search
            if search is not None:
                units = progress.layer.mapspace.architecture.units_per_pj
                text = f"{text}  {status_text(search, search.seconds, units)}"
            bar.update(task, completed=progress.done, total=progress.searches, description=text)

        yield show
