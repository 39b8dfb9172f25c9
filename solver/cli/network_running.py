"""What the commands that map whole networks share: executor, cache, progress, and their errors."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from model.wording import printable
from solver.cli.output import OutputError, write_stderr
from solver.cli.progress import interruptible, logged, status_text
from solver.cli.running import search_options

if TYPE_CHECKING:
    from solver.network import ResultCache
    from solver.network.executors import Executor
    from solver.network.run import NetworkProgress, ProgressCallback, Run
    from solver.result import Options

Answer = TypeVar("Answer")

OTHER = "--cache DIR names another directory"


def run_searches(
    arguments: argparse.Namespace, mapped: Callable[[Options, Run], Answer]
) -> tuple[Answer, bool]:
    """Call `mapped` with the options and the run that the arguments ask for.

    Returns
    -------
    tuple[Answer, bool]
        What it returned, and whether a signal interrupted it.

    Raises
    ------
    OutputError
        The directory of ``--cache`` cannot be used, or searches cannot run where they were to.
    """
    from solver.network import Run
    from solver.network.executors import ExecutorError

    cache, options = _cache(arguments), search_options(arguments)
    try:
        executor = _executor(arguments)
        with interruptible() as stop, _progress_bar(arguments.quiet) as on_progress:
            how = Run(cache, arguments.resume, on_progress, stop.is_set, executor)
            answer = mapped(options, how)
    except ExecutorError as error:
        raise OutputError(str(error)) from error
    if cache is not None and cache.failure is not None:
        _warn(_unwritable(cache.directory, cache.failure))
    return answer, stop.is_set()


def _cache(arguments: argparse.Namespace) -> ResultCache | None:
    """Return where results are kept; it is a warning only if the default directory cannot be used."""
    from solver.network import ResultCache

    if arguments.no_cache and arguments.resume:
        raise OutputError("--resume uses the results that are kept: it conflicts with --no-cache")
    if arguments.no_cache:
        return None
    try:
        directory = arguments.cache or default_cache()
        _check_cache(directory)
    except OutputError as error:
        if arguments.cache is not None:
            raise
        _warn(error)
        return None
    cache = ResultCache(directory)
    cache.remove_leftovers()
    return cache


def _warn(error: OutputError) -> None:
    write_stderr(f"warning: {printable(str(error))}\n")


def default_cache() -> Path:
    """Return the user's cache directory for this program.

    Raises
    ------
    OutputError
        The user has no home directory, as in some containers.
    """
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    try:
        return Path(base).expanduser() / "tilewright"
    except RuntimeError:
        message = f"there is no home directory to keep results in; {OTHER}"
        raise OutputError(message) from None


def _executor(arguments: argparse.Namespace) -> Executor:
    from solver.network import Processes, Serial
    from solver.network.executors import Cluster, silence_logs

    if arguments.cluster is not None:
        silence_logs()
        return Cluster(arguments.cluster)
    return Processes(arguments.jobs) if arguments.jobs > 1 else Serial()


def _check_cache(directory: Path) -> None:
    """Make the directory before a long search; `OutputError` if it cannot be written."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _unwritable(directory, error) from error
    if not os.access(directory, os.W_OK | os.X_OK):
        raise OutputError(
            f"cannot keep results in {directory}: permission denied; --cache DIR names another directory"
        )


def _unwritable(directory: Path, error: OSError) -> OutputError:
    return OutputError(
        f"cannot keep results in {directory}: {error.strerror}; --cache DIR names another directory"
    )


class _NetworkLine:
    """How many searches are done, and what was last heard of one."""

    def __init__(self) -> None:
        self._latest: NetworkProgress | None = None

    def update(self, progress: NetworkProgress) -> None:
        self._latest = progress

    def __str__(self) -> str:
        latest = self._latest
        return "starting" if latest is None else f"{latest.done}/{latest.searches}  {_layer_text(latest)}"


def _layer_text(progress: NetworkProgress) -> str:
    text, search = printable(progress.layer.name), progress.search
    if search is None:
        return text
    units = progress.layer.mapspace.architecture.units_per_pj
    return f"{text}  {status_text(search, search.seconds, units)}"


@contextmanager
def _progress_bar(quiet: bool) -> Iterator[ProgressCallback | None]:
    """Yield what feeds a bar over the Einsums on stderr, lines of it on no terminal, or None if `quiet`."""
    if quiet:
        yield None
        return
    if not sys.stderr.isatty():
        line = _NetworkLine()
        with logged(line.__str__):
            yield line.update
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = (MofNCompleteColumn(), BarColumn(), TextColumn("{task.description}", markup=False))
    with Progress(*columns, console=Console(stderr=True, markup=False), transient=True) as bar:
        task = bar.add_task("", total=None)

        def show(progress: NetworkProgress) -> None:
            text = _layer_text(progress)
            bar.update(task, completed=progress.done, total=progress.searches, description=text)

        yield show
