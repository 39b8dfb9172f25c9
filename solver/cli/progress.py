"""Live progress of a search on stderr, for people on a terminal only."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from solver.report.figures import objective_text, percent, seconds_text
from solver.result import Progress, ProgressCallback


class StatusLine:
    """The text beside the spinner; its seconds run on between two reports of the search."""

    def __init__(self, units_per_pj: int) -> None:
        self._units_per_pj = units_per_pj
        self._started = time.monotonic()
        self._latest: Progress | None = None

    def update(self, progress: Progress) -> None:
        """Take the search's latest report."""
        self._latest = progress

    def __rich__(self) -> str:
        """Return the line to show now."""
        return status_text(self._latest, time.monotonic() - self._started, self._units_per_pj)


def status_text(progress: Progress | None, seconds: float, units_per_pj: int) -> str:
    """Return label and phase, incumbent, bound, gap and seconds in one line.

    Parameters
    ----------
    progress
        The latest report, None if there was none.
    seconds
        Since the start.
    units_per_pj
        The architecture's energy units in a picojoule.
    """
    if progress is None:
        return f"starting  {seconds_text(seconds)}"
    parts = [f"{progress.label} {progress.phase}".lstrip()]
    for name, quantity in (("incumbent", progress.incumbent), ("bound", progress.bound)):
        shown = "-" if quantity is None else objective_text(progress.objective, quantity, units_per_pj)
        parts.append(f"{name} {shown}")
    parts.append("gap -" if progress.gap is None else f"gap {percent(progress.gap)}")
    parts.append(seconds_text(seconds))
    return "  ".join(parts)


@contextmanager
def live_progress(units_per_pj: int, quiet: bool) -> Iterator[ProgressCallback | None]:
    """Yield a callback that feeds a status line, or None where nobody would see it.

    Parameters
    ----------
    units_per_pj
        The architecture's energy units in a picojoule.
    quiet
        Whether nothing is to be shown; nor is it where stderr is no terminal.
    """
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console

    line, console = StatusLine(units_per_pj), Console(stderr=True, markup=False)
    spinner = "dots" if console.encoding.startswith("utf") else "line"
    with console.status(line, spinner=spinner):
        yield line.update
