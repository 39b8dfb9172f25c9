"""Processes beside a search for the same optimum: they tell it of mappings and bounds that they find.

They are started late, give way to others, and can be ended at any moment, whatever they are doing. One that
runs a heuristic begins early, so that the incumbent of a long search is hardly ever worse than what the
heuristic finds by itself in the same time.
"""

from __future__ import annotations

import multiprocessing
import os
import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any, Generic, Literal, TypeVar

from model.mapping import Mapping
from model.mapspace import Mapspace
from solver.heuristics.interface import Budget, BudgetSpent, MapperError
from solver.heuristics.local_search import GreedyDescent
from solver.heuristics.pricing import Pricing
from solver.processes import POLL_S, Workers, peak_memory_bytes

EQUAL_S = 2.0
"""CPU seconds after which greedy descents give way to others."""

COURTESY = 5
"""By how much a process gives way: a search by bounds is hardly slower for it on busy cores."""

MEMORY = "it takes more memory than --memory-limit leaves"

Answer = TypeVar("Answer")

Kind = Literal["mapping", "bound", "nothing", "refused", "stop"]


class PipeEnd:
    """One end of a pipe. A thread reads what the other side says, so that neither has to wait."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._sending = threading.Lock()
        self._mapping: Mapping | None = None
        self.bound: int | None = None
        self.is_empty = False
        self.is_stopped = False
        self.refusal = ""
        self.is_open = True
        threading.Thread(target=self._listen, daemon=True).start()

    def say(self, kind: Kind, value: object = None) -> None:
        """Send a message; nothing happens if the other side is gone."""
        with self._sending, suppress(OSError, ValueError):
            self._connection.send((kind, value))

    def found(self, mapping: Mapping) -> None:
        """Tell of a mapping."""
        self.say("mapping", mapping)

    def bounded(self, bound: int) -> None:
        """Tell of a bound."""
        self.say("bound", bound)

    def better(self) -> Mapping | None:
        """The last mapping that came, once."""
        found, self._mapping = self._mapping, None
        return found

    def close(self) -> None:
        """Say and hear nothing more."""
        # Not closed here: the thread would go on to read from whatever file is opened next.
        with suppress(OSError), socket.socket(fileno=os.dup(self._connection.fileno())) as own:
            own.shutdown(socket.SHUT_RDWR)

    def _listen(self) -> None:
        with suppress(EOFError, OSError), self._connection:
            while True:
                self._take_message(*self._connection.recv())
        self.is_open = False

    def _take_message(self, kind: Kind, value: object) -> None:
        if isinstance(value, Mapping):
            self._mapping = value
        elif isinstance(value, int):
            self.bound = value if self.bound is None else max(self.bound, value)
        elif kind == "nothing":
            self.is_empty = True
        elif kind == "stop":
            self.is_stopped = True
        else:
            self.refusal = str(value)


_LINES: list[PipeEnd] = []


def search_line() -> PipeEnd:
    """The end of the pipe to the search, in a process beside it."""
    return _LINES[0]


def _give_way() -> None:
    """Let other processes go first."""
    with suppress(AttributeError, OSError):
        os.nice(COURTESY)


def _prepare(connection: Connection, most_bytes: int, gives_way: bool) -> None:
    """Begin a process, which ends once it has too much memory."""
    _LINES[:] = [PipeEnd(connection)]
    if gives_way:
        _give_way()

    def watch() -> None:
        while peak_memory_bytes() <= most_bytes:
            time.sleep(POLL_S)
        _LINES[0].say("refused", MEMORY)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


class Beside(Generic[Answer]):
    """A process that works at one question.

    Parameters
    ----------
    work
        What it does; `search_line` is its end of the pipe.
    question
        The argument of `work`.
    memory_mib
        Memory that it may have.
    gives_way
        Whether other processes go first.

    Raises
    ------
    OSError, BrokenProcessPool
        It cannot be started.
    """

    def __init__(
        self, work: Callable[[Any], Answer], question: object, memory_mib: int, gives_way: bool = True
    ) -> None:
        here, there = multiprocessing.get_context("spawn").Pipe()
        self._workers = Workers(1, _prepare, there, memory_mib << 20, gives_way)
        try:
            self.answer: Future[Answer] = self._workers.submit(work, [(question,)])[0]
        finally:
            there.close()
        self.line = PipeEnd(here)
        self._begun = time.monotonic()

    @property
    def seconds(self) -> float:
        """Time since the start."""
        return time.monotonic() - self._begun

    @property
    def is_over(self) -> bool:
        """Whether it has answered, or is lost."""
        return self.answer.done()

    def ending(self) -> str:
        """How it ended without a proof; a defect is raised."""
        with suppress(BrokenProcessPool):
            self.answer.result()
            return "ended without a proof"
        return "its process was lost"

    def end(self) -> None:
        """End the process, whatever it is doing."""
        self._workers.end(wait=False)
        self.line.close()


def descend(question: tuple[Mapspace, str, int]) -> None:
    """Tell of ever better mappings that greedy descents find, until the search has enough of them.

    At first, while a search by bounds has work for one process only, they do not give way to it.

    Parameters
    ----------
    question
        A mapspace, an objective, and the seed, from which the descents of `compare` begin as well.
    """
    mapspace, objective, seed = question
    told, end, equal = 0, search_line(), True

    def tell() -> bool:
        nonlocal told, equal
        if equal and time.process_time() > EQUAL_S:
            equal = False
            _give_way()
        if len(pricing.trace) > told:
            told = len(pricing.trace)
            end.found(pricing.trace[-1].mapping)
        return end.is_stopped

    try:
        pricing = Pricing(mapspace, (objective,), Budget(None, None), seed, tell)
        GreedyDescent().find_mapping(mapspace, pricing)
    except (BudgetSpent, MapperError, ValueError):
        return  # it does not know such a mapspace, or finds nothing that is allowed
