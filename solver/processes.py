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
        self._pool = ProcessPoolExecutor(count, context, _begin, (_Leash(leash), prepare, arguments))

    def submit(self, work: Callable[..., Answer], tasks: Sequence[tuple[Any, ...]]) -> list[Future[Answer]]:
        """Hand out tasks, the arguments of `work`.

        Raises
        ------
        OSError
            Processes cannot be started.
        BrokenProcessPool
            Processes were lost.
        """
        with _signals_blocked():  # the processes that this starts begin before they ignore signals
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


class _Leash:
    """The end of a pipe that the parent holds; whoever unpickles it ends once the parent lets go, or is gone.

    It is the first argument that workers unpickle. What follows takes them seconds to import under load.
    """

    def __init__(self, end: Connection) -> None:
        self._end = end

    def __reduce__(self) -> tuple[Callable[..., Connection], tuple[Connection]]:
        return _end_with_parent, (self._end,)


def _end_with_parent(leash: Connection) -> Connection:
    """Leave signals to the parent, and end this process once it lets go of the leash."""
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)

    def wait_for_parent() -> None:
        wait_for_any([leash])
        os._exit(0)

    threading.Thread(target=wait_for_parent, daemon=True).start()
    return leash


def _begin(_leash: object, prepare: Callable[..., None], arguments: tuple[object, ...]) -> None:
    prepare(*arguments)
