"""While a search runs: its progress on stderr, and what the first and second Ctrl-C do."""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING

from solver.cli.output import write_stderr
from solver.report.figures import objective_text, percent, seconds_text
from solver.result import Phase, Progress, ProgressCallback, StopCallback, relative_gap

if TYPE_CHECKING:
    from model.mapspace import Mapspace
    from solver.fusion import FusionProgress

LOG_PERIOD_S = 30.0
"""Seconds between two lines where stderr is no terminal; shorter searches write none."""


class StatusLine:
    """The text beside the spinner or of a log; its seconds advance between reports of the search."""

    def __init__(self, units_per_pj: int) -> None:
        self._units_per_pj = units_per_pj
        self._started = time.monotonic()
        self._latest: Progress | None = None

    def update(self, progress: Progress) -> None:
        """Take the search's latest report."""
        self._latest = progress

    def __rich__(self) -> str:
        """Return the line to show now."""
        return str(self)

    def __str__(self) -> str:
        return status_text(self._latest, time.monotonic() - self._started, self._units_per_pj)


def status_text(progress: Progress | None, seconds: float, units_per_pj: int) -> str:
    """Return label and phase, incumbent, bound and gap (unless of an explanation) and seconds in one line."""
    if progress is None:
        return f"starting  {seconds_text(seconds)}"
    parts = [f"{progress.label} {progress.phase}".lstrip()]
    if progress.phase == Phase.EXPLANATION:
        return "  ".join([*parts, seconds_text(seconds)])
    values = _value_texts(progress.objective, progress.incumbent, progress.bound, units_per_pj)
    return "  ".join([*parts, *values, seconds_text(seconds)])


def _value_texts(
    objective: str, incumbent: int | None, bound: int | None, units_per_pj: int
) -> Iterator[str]:
    """Yield incumbent, bound and gap, as far as they are known."""
    for name, quantity in (("incumbent", incumbent), ("bound", bound)):
        if quantity is not None:
            yield f"{name} {objective_text(objective, quantity, units_per_pj)}"
    gap = relative_gap(incumbent, bound)
    if gap is not None:
        yield f"gap {percent(gap)}"


def fusion_text(progress: FusionProgress, units_per_pj: int) -> str:
    """Return the progress of a search for a fused mapping, in one line."""
    cuts = f"{progress.cuts_settled} of {progress.cuts} cuts"
    parts = [progress.stage, cuts, f"{progress.states_open:,} states open"]
    parts += _value_texts(progress.objective, progress.incumbent, progress.bound, units_per_pj)
    return "  ".join([*parts, seconds_text(progress.seconds)])


@contextmanager
def watched(
    mapspace: Mapspace, quiet: bool = False
) -> Iterator[tuple[ProgressCallback | None, StopCallback]]:
    """Yield the callbacks of a search of one mapspace: live progress, and an interrupt that ends it early."""
    units = mapspace.architecture.units_per_pj
    with interruptible() as stop, live_progress(units, quiet) as on_progress:
        yield on_progress, stop.is_set


@contextmanager
def live_progress(units_per_pj: int, quiet: bool) -> Iterator[ProgressCallback | None]:
    """Yield the callback of a status line, or a line every `LOG_PERIOD_S` off a terminal; None if quiet."""
    if quiet:
        yield None
        return
    line = StatusLine(units_per_pj)
    if not sys.stderr.isatty():
        with logged(line.__str__):
            yield line.update
        return
    from rich.console import Console

    console = Console(stderr=True, markup=False)
    spinner = "dots" if console.encoding.startswith("utf") else "line"
    with console.status(line, spinner=spinner):
        yield line.update


@contextmanager
def logged(line: Callable[[], str]) -> Iterator[None]:
    """Write a line to stderr every `LOG_PERIOD_S`, also while the search reports nothing."""
    ended = threading.Event()

    def write() -> None:
        while not ended.wait(LOG_PERIOD_S):
            write_stderr(f"progress: {line()}\n")

    writer = threading.Thread(target=write, daemon=True)
    writer.start()
    try:
        yield
    finally:
        ended.set()
        writer.join()


SIGNALS = (signal.SIGINT, signal.SIGTERM)
SHOW_CURSOR = b"\x1b[?25h\n"

_UNSAID = "ignore::UserWarning:multiprocessing.resource_tracker"
"""After a second signal, what worker processes leave behind is cleaned up anyway; no warning is needed."""


@contextmanager
def interruptible() -> Iterator[threading.Event]:
    """Yield an event that the first SIGINT or SIGTERM sets; to be entered from the main thread.

    Python runs signal handlers between bytecodes of the main thread only, which a solver call can
    keep busy for long. So a thread reads the bytes that the interpreter's own handler writes, and
    sets the event at once; a second signal ends the process with 128 plus its number.
    """
    stop = threading.Event()
    receiver, sender = socket.socketpair()
    sender.setblocking(False)
    previous = {number: signal.signal(number, _leave_to_watcher) for number in SIGNALS}
    previous_fd = signal.set_wakeup_fd(sender.fileno())
    sys.warnoptions.append(_UNSAID)  # inherited by processes that start from here on
    watcher = threading.Thread(target=_watch, args=(receiver, stop), daemon=True)
    watcher.start()
    try:
        yield stop
    finally:
        sys.warnoptions.remove(_UNSAID)
        signal.set_wakeup_fd(previous_fd)
        for number, handler in previous.items():
            signal.signal(number, handler)
        sender.close()
        watcher.join()
        receiver.close()


def _leave_to_watcher(_number: int, _frame: FrameType | None) -> None:
    """Keep the default action away."""


def _watch(receiver: socket.socket, stop: threading.Event) -> None:
    while received := receiver.recv(1):
        if stop.is_set():
            _abandon(received[0])
        stop.set()


def _abandon(number: int) -> None:
    if os.isatty(2):
        os.write(2, SHOW_CURSOR)
    os._exit(128 + number)
