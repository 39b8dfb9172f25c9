"""Worker processes: they leave signals to the process that they work for, and end with it."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing.connection import Connection
from multiprocessing.connection import wait as wait_for_any
from typing import Any, TypeVar

SIGNALS = (signal.SIGINT, signal.SIGTERM)
"""What asks a run to stop; it may reach worker processes as well, which leave it to the parent."""

Answer = TypeVar("Answer")


class Workers:
    """Processes that are new interpreters: a copy of one that has threads could wait for them forever.

    Parameters
    ----------
    count
        How many there are at most.
    prepare, arguments
        What each of them calls before its first task.
    """

    def __init__(self, count: int, prepare: Callable[..., None], *arguments: object) -> None:
        context = multiprocessing.get_context("spawn")
        leash, self._held = context.Pipe(duplex=False)
        self._pool = ProcessPoolExecutor(count, context, _begin, (leash, prepare, arguments))

    def submit(self, work: Callable[..., Answer], tasks: Sequence[tuple[Any, ...]]) -> list[Future[Answer]]:
        """Hand out tasks, the arguments of `work`.

        Raises
        ------
        OSError
            Processes cannot be started.
        BrokenProcessPool
            Processes were lost.
        """
        with _signals_blocked():  # the processes that this starts import before they ignore signals
            return [self._pool.submit(work, *task) for task in tasks]

    def finish(self) -> None:
        """Wait for all tasks, and for the processes to end on their own."""
        self._pool.shutdown()

    def end(self, wait: bool) -> None:
        """End the processes, whatever they are at and whichever are lost; `wait` until that is done.

        Parameters
        ----------
        wait
            Otherwise they are gone soon after.
        """
        self._held.close()
        self._pool.shutdown(wait=wait, cancel_futures=True)


@contextmanager
def _signals_blocked() -> Iterator[None]:
    if not hasattr(signal, "pthread_sigmask"):  # Windows, where processes inherit nothing of the kind
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _begin(leash: Connection, prepare: Callable[..., None], arguments: tuple[object, ...]) -> None:
    """Leave signals to the parent, and end with it or once it lets go of the leash."""
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, args=(leash,), daemon=True).start()
    prepare(*arguments)


def _end_with_parent(leash: Connection) -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None  # only workers get here
    wait_for_any([parent.sentinel, leash])
    os._exit(0)
