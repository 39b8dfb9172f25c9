"""The first Ctrl-C or SIGTERM asks a search to stop; the second one ends the program."""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM)
SHOW_CURSOR = b"\x1b[?25h\n"

_UNSAID = "ignore::UserWarning:multiprocessing.resource_tracker"
"""What a second signal leaves of worker processes is given back all the same; nobody need hear of it."""


@contextmanager
def interruptible() -> Iterator[threading.Event]:
    """Yield an event that the first SIGINT or SIGTERM sets.

    Python runs signal handlers between bytecodes of the main thread only, which a solver call can
    keep busy for long. So a thread reads the bytes that the interpreter's own handler writes, and
    sets the event at once; a second signal ends the process with 128 plus its number.

    Must be entered from the main thread. The previous handlers come back on exit.

    Raises
    ------
    ValueError
        It is entered from another thread.
    """
    stop = threading.Event()
    receiver, sender = socket.socketpair()
    sender.setblocking(False)
    previous = {number: signal.signal(number, _leave_to_watcher) for number in SIGNALS}
    previous_fd = signal.set_wakeup_fd(sender.fileno())
    sys.warnoptions.append(_UNSAID)  # processes that begin from here on have the same options
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
