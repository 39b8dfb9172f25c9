"""The clock of a search: when to stop, and why."""

from __future__ import annotations

import time

from solver.result import StopCallback, Termination


class Clock:
    """Counts the seconds of a search against its limit, and asks whether it was interrupted.

    Parameters
    ----------
    limit_s
        Seconds from now on; None is no limit.
    should_stop
        Asked at every `stop`, until something ends it.
    """

    def __init__(self, limit_s: float | None, should_stop: StopCallback | None = None) -> None:
        self._start = time.monotonic()
        self._limit = limit_s
        self._should_stop = should_stop
        self.termination: Termination | None = None

    @property
    def seconds(self) -> float:
        """Time since the start."""
        return time.monotonic() - self._start

    @property
    def left_s(self) -> float | None:
        """Seconds until the limit, 0 once it has passed; None if there is none."""
        return None if self._limit is None else max(0.0, self._limit - self.seconds)

    def share(self, parts: int) -> Clock:
        """Return a clock for the first of `parts` that have the time which is left; it ends with this one."""
        left_s = self.left_s
        return Clock(None if left_s is None else left_s / parts, self.stop)

    def stop(self) -> bool:
        """Whether the search must end now."""
        if self.termination is None and self._limit is not None and self.seconds >= self._limit:
            self.end(Termination.TIME_LIMIT)
        if self.termination is None and self._should_stop is not None and self._should_stop():
            self.end(Termination.INTERRUPTED)
        return self.termination is not None

    def end(self, reason: Termination) -> None:
        """Let everything that follows stop; the first reason stands."""
        self.termination = self.termination or reason
