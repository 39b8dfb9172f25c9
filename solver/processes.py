"""Worker processes: they leave signals to their parent, and end with it."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from multiprocessing.connection import wait as wait_for_any
from pathlib import Path
from typing import Any, TypeVar

SIGNALS = (signal.SIGINT, signal.SIGTERM)
"""Signals that ask a run to stop; a terminal sends them to worker processes as well."""

POLL_S = 0.05
"""How often other processes are looked at."""

SAFE_PATH = "PYTHONSAFEPATH"
"""The environment variable that keeps new interpreters from looking for modules in the working directory."""

Answer = TypeVar("Answer")


def memory_bytes() -> int:
    """The memory that this process has now; its peak, or 0, where the system does not tell."""
    with suppress(OSError, ValueError, IndexError):
        pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")
    return peak_memory_bytes()


def peak_memory_bytes() -> int:
    """The most memory that this process has had so far; 0 where the system does not tell."""
    with suppress(OSError, StopIteration, ValueError):
        # Linux: what `getrusage` says begins with the peak of the process that started this one.
        lines = Path("/proc/self/status").read_text(encoding="ascii", errors="replace").splitlines()
        return int(next(line for line in lines if line.startswith("VmHWM:")).split()[1]) << 10
    try:
        import resource  # noqa: PLC0415 (Windows has no such module)
    except ImportError:
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak << 10


class Workers:
    """At most `count` new interpreters, each of which calls ``prepare(*arguments)`` before its first task.

    Copies (forks) of a process that has threads could wait for those forever.
    """

    def __init__(self, count: int, prepare: Callable[..., None], *arguments: object) -> None:
        context = multiprocessing.get_context("spawn")
        leash, self._held = context.Pipe(duplex=False)
        with _safe_path():
            self._pool = ProcessPoolExecutor(
                count, context, _prepare_worker, (_Leash(leash), prepare, arguments)
            )

    def submit(self, work: Callable[..., Answer], tasks: Sequence[tuple[Any, ...]]) -> list[Future[Answer]]:
        """Call `work` with the arguments of each task; ``OSError`` if processes cannot be started."""
        # The processes that this starts begin before they ignore signals, and before they get our path.
        with _safe_path(), _signals_blocked():
            return [self._pool.submit(work, *task) for task in tasks]

    def finish(self) -> None:
        """Wait for all tasks, and for the processes to end by themselves."""
        self._pool.shutdown()

    def end(self, wait: bool) -> None:
        """End the processes, whatever they are doing, and `wait` for that; otherwise they end soon after."""
        self._held.close()
        self._pool.shutdown(wait=wait, cancel_futures=True)


@contextmanager
def _safe_path() -> Iterator[None]:
    """Let interpreters that start import no files of the working directory."""
    before = os.environ.get(SAFE_PATH)
    os.environ[SAFE_PATH] = "1"
    try:
        yield
    finally:
        os.environ.pop(SAFE_PATH, None)  # another thread may have been here
        if before is not None:
            os.environ[SAFE_PATH] = before


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


def _prepare_worker(_leash: object, prepare: Callable[..., None], arguments: tuple[object, ...]) -> None:
    prepare(*arguments)
