"""Progress that is told regularly, also while a search is busy with one long step."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

P = TypeVar("P")

LONGEST_SILENCE_S = 0.8
"""Seconds after which the last progress is told again, so that users hear of a search every second."""


class _Heartbeat(Generic[P]):
    """Passes progress on, and repeats the last one when nothing new has come for a while."""

    def __init__(self, told: Callable[[P], None], first: P | None, repeated: Callable[[P, float], P]) -> None:
        self._told, self._last, self._repeated = told, first, repeated
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._began = self._told_at = time.monotonic()
        self._failure: BaseException | None = None

    def hear(self, progress: P) -> None:
        """Pass on what the search reports; raise what the callback raised in the meantime."""
        with self._lock:
            self.check()
            self._last, self._told_at = progress, time.monotonic()
            self._told(progress)

    def check(self) -> None:
        """Raise what the callback raised while it was told again."""
        if self._failure is not None:
            raise self._failure

    def end(self) -> None:
        """Tell nothing any more."""
        self._ended.set()

    def beat(self) -> None:
        """Repeat the last progress until the end; runs in a thread of its own."""
        while not self._ended.wait(max(0.0, self._told_at + LONGEST_SILENCE_S - time.monotonic())):
            with self._lock:
                self._repeat()

    def _repeat(self) -> None:
        now = time.monotonic()
        if self._ended.is_set() or now < self._told_at + LONGEST_SILENCE_S:
            return
        self._told_at = now
        if self._last is None:
            return
        try:
            self._told(self._repeated(self._last, now - self._began))
        except BaseException as error:  # the search's own thread raises it
            self._failure = error
            self._ended.set()


@contextmanager
def regular(
    told: Callable[[P], None] | None, first: P | None, repeated: Callable[[P, float], P]
) -> Iterator[Callable[[P], None] | None]:
    """Yield a callback that passes progress on to `told`, which is called at least every second.

    Parameters
    ----------
    told
        The user's callback; calls never overlap, but some come from another thread. None: nobody listens.
    first
        What is told before the search reports anything; None: nothing.
    repeated
        Returns progress as it is after so many seconds.
    """
    if told is None:
        yield None
        return
    heartbeat = _Heartbeat(told, first, repeated)
    thread = threading.Thread(target=heartbeat.beat, name="progress", daemon=True)
    thread.start()
    try:
        yield heartbeat.hear
    finally:
        heartbeat.end()
        thread.join()
    heartbeat.check()
