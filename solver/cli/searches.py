"""Many searches in one run: where results are kept, where they run, and their progress."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from model.wording import printable
from solver.cli.output import (
    OutputError,
    check_directory,
    write_stderr,
)
from solver.cli.progress import interruptible, logged, status_text
from solver.cli.running import (
    search_options,
)
from solver.report.figures import seconds_text

if TYPE_CHECKING:
    from solver.network.cache import ResultCache
    from solver.network.executors import Executor
    from solver.network.run import NetworkProgress, ProgressCallback, Run
    from solver.result import Options

Outcome = TypeVar("Outcome")


KEEP = "cannot cache results in"


OTHER = "--cache DIR selects another directory"


def run_searches(
    arguments: argparse.Namespace, mapped: Callable[[Options, Run], Outcome]
) -> tuple[Outcome, bool]:
    """Run `mapped` with options, cache, progress and executor; return also whether an interrupt ended it."""
    from solver.network import Run
    from solver.network.executors import ExecutorError

    cache, options = _opened_cache(arguments), search_options(arguments)
    try:
        executor = _executor(arguments)
        with interruptible() as stop, _progress_bar(arguments.quiet) as on_progress:
            outcome = mapped(options, Run(cache, arguments.resume, on_progress, stop.is_set, executor))
    except ExecutorError as error:
        raise OutputError(str(error)) from error
    if cache is not None and cache.failure is not None:
        _warn(OutputError(f"{KEEP} {cache.directory}: {cache.failure.strerror}; {OTHER}"))
    return outcome, stop.is_set()


def _opened_cache(arguments: argparse.Namespace) -> ResultCache | None:
    """Return where results are kept, if anywhere; a default directory that cannot be used is a warning."""
    from solver.network import ResultCache

    directory = arguments.cache
    if arguments.no_cache and arguments.resume:
        raise OutputError("--resume uses cached results and cannot be combined with --no-cache")
    if arguments.no_cache:
        return None
    try:
        place = directory or _default_cache()
        check_directory(place, KEEP, f"; {OTHER}")
    except OutputError as error:
        if directory is not None:
            raise
        _warn(error)
        return None
    cache = ResultCache(place)
    cache.remove_leftovers()
    return cache


def _default_cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    try:
        return Path(base).expanduser() / "tilewright"
    except RuntimeError:
        message = f"there is no home directory to cache results in; {OTHER}"
        raise OutputError(message) from None


def _warn(error: OutputError) -> None:
    write_stderr(f"warning: {printable(str(error))}\n")


def _executor(arguments: argparse.Namespace) -> Executor:
    from solver.network import Processes, Serial
    from solver.network.executors import Cluster, silence_logs

    if arguments.cluster is not None:
        silence_logs()
        return Cluster(arguments.cluster)
    return Processes(arguments.jobs) if arguments.jobs > 1 else Serial()


class _Pace:
    """How long a run has taken, and when it will end if it goes on at its pace."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._latest: NetworkProgress | None = None
        self._kept = 0  # searches that were done when the run began

    def hear(self, progress: NetworkProgress) -> None:
        """Take the run's latest report."""
        if self._latest is None:
            self._kept = progress.done
        self._latest = progress

    def __str__(self) -> str:
        return pace_text(self._latest, self._kept, time.monotonic() - self._began, datetime.now())


def pace_text(progress: NetworkProgress | None, kept: int, elapsed_s: float, now: datetime) -> str:
    """Return the time elapsed, and as soon as a search has ended the time remaining, and when that is."""
    elapsed = f"elapsed {seconds_text(elapsed_s)}"
    done = 0 if progress is None else progress.done - kept
    if progress is None or not done:
        return elapsed
    left_s = elapsed_s / done * (progress.searches - progress.done)
    ends = now + timedelta(seconds=left_s)
    return f"{elapsed}, remaining {seconds_text(left_s)}, ETA {ends:%H:%M:%S}"


def _layer_text(progress: NetworkProgress) -> str:
    text, search = printable(progress.layer.name), progress.search
    if search is None:
        return text
    units = progress.layer.mapspace.architecture.units_per_pj
    return f"{text}  {status_text(search, search.seconds, units)}"


@contextmanager
def _progress_bar(quiet: bool) -> Iterator[ProgressCallback | None]:
    """Yield the callback of a progress bar on stderr, or of lines off a terminal; None if `quiet`."""
    if quiet:
        yield None
        return
    pace = _Pace()
    if not sys.stderr.isatty():
        line = "starting"

        def hear(progress: NetworkProgress) -> None:
            nonlocal line
            pace.hear(progress)
            line = f"{progress.done}/{progress.searches}  {_layer_text(progress)}"

        with logged(lambda: f"{line}  {pace}"):
            yield hear
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn
    from rich.text import Text

    class PaceColumn(ProgressColumn):
        """Advances between reports."""

        def render(self, task: Task) -> Text:
            return Text(str(pace))

    columns = (
        MofNCompleteColumn(),
        BarColumn(),
        PaceColumn(),
        TextColumn("{task.description}", markup=False),
    )
    with Progress(*columns, console=Console(stderr=True, markup=False), transient=True) as bar:
        task = bar.add_task("", total=None)

        def show(progress: NetworkProgress) -> None:
            pace.hear(progress)
            text = _layer_text(progress)
            bar.update(task, completed=progress.done, total=progress.searches, description=text)

        yield show
