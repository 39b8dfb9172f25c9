"""toulbar2 behind checks: the only module that starts it.

toulbar2 (https://toulbar2.github.io) proves optima of cost function networks: variables with finite domains,
costs of values and of pairs of values. It counts in whole numbers that come in as doubles, so only numbers
below 2^53 may be passed on. It runs in a process of its own, as its calls cannot be interrupted.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import pickle
import queue
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solver.processes import POLL_S
from solver.result import ContradictionError

PACKAGE = "pytoulbar2"
CHILD = Path(__file__).with_name("toulbar_child.py")

LARGEST = 1 << 52
"""No sum of costs may reach this: doubles still tell all whole numbers apart."""

MOST_FOR_VAC = 1 << 21
"""Entries of matrices above which virtual arc consistency takes longer than it saves. On instance S of the
iopddl contest (2.7 million) its total is 610 million after 66 CPU s, and 349 million without it after 6."""


def is_available() -> bool:
    """Whether toulbar2 is installed; it has packages for Linux and macOS."""
    return sys.platform != "win32" and importlib.util.find_spec(PACKAGE) is not None


def name() -> str:
    """Return the name of the program with its version."""
    return f"toulbar2 {importlib.metadata.version(PACKAGE)}"


@dataclass(frozen=True)
class Row:
    """A sum over values of some variables that must not exceed a limit."""

    weights: dict[int, NDArray[np.int64]]  # per variable, what each of its values adds; none negative
    most: int


@dataclass(frozen=True)
class Found:
    """What a search found below its top."""

    choice: tuple[int, ...] | None  # the best values, if any
    total: int | None  # what they cost, by toulbar2's word; None where it did not say that in full
    is_done: bool  # whether `choice` is the best; without one, whether there is none
    bound: int | None  # by toulbar2's word: nothing is below it; None where it said none


class Problem:
    """A problem in a process, which searches it as often as it is asked to; a context manager.

    Parameters
    ----------
    vectors
        Per variable the cost of each value.
    matrices
        Per pair of variables the costs of pairs of values.
    seed
        Of toulbar2's random numbers.
    is_brief
        Whether a good answer soon is worth more than a proof: without virtual arc consistency.
    """

    def __init__(
        self,
        vectors: Sequence[NDArray[Any]],
        matrices: dict[tuple[int, int], NDArray[Any]],
        seed: int = 0,
        is_brief: bool = False,
    ) -> None:
        self._sizes = [len(vector) for vector in vectors]
        # A session of its own: Ctrl-C in a terminal is for us alone.
        self._process = subprocess.Popen(
            [sys.executable, "-P", str(CHILD)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self._messages: queue.SimpleQueue[tuple[str, Any] | None] = queue.SimpleQueue()
        threading.Thread(target=self._listen, daemon=True).start()
        self._send(
            {
                "sizes": self._sizes,
                "unary": _doubles(vectors),
                "pairs": list(matrices),
                "binary": _doubles(list(matrices.values())),
                "seed": seed + 1,  # 0 is one that toulbar2 draws
                "vac": int(not is_brief and sum(matrix.size for matrix in matrices.values()) <= MOST_FOR_VAC),
            }
        )

    def __enter__(self) -> Problem:
        """Return the problem itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            with suppress(OSError):
                assert stream is not None  # both are pipes
                stream.close()

    def search(
        self,
        top: int,
        stop: Callable[[], bool],
        added: Sequence[NDArray[Any]] | None = None,
        rows: Sequence[Row] = (),
        backtracks: int | None = None,
        on_news: Callable[[Found], None] | None = None,
    ) -> Found:
        """Find the values of the least total below `top`, until `stop`, which is asked all the time.

        Parameters
        ----------
        added
            Costs of values to add for this search.
        rows
            What must hold besides.
        backtracks
            Give up after so many.
        on_news
            Is told of better values and bounds while the search runs.
        """
        self._send(
            {
                "top": top,
                "unary": b"" if added is None else _doubles(added),
                "rows": [self._row_text(row) for row in rows],
                "backtracks": backtracks,
            }
        )
        found, result = Found(None, None, False, None), (False, None)
        is_stopping = False
        while True:
            if not is_stopping and stop():
                is_stopping = True
                self._send({})
            kind, value = self._next()
            if kind == "choice":
                found = replace(found, total=value[0], choice=self._checked(value[1]))
            elif kind == "bound" and value is not None:
                found = replace(found, bound=value if found.bound is None else max(found.bound, value))
            elif kind == "result":
                result = value
            elif kind == "end":
                return _ended(found, value and not is_stopping, *result)
            if on_news is not None and kind in ("choice", "bound"):
                on_news(found)

    def _next(self) -> tuple[str, Any]:
        """Return the next message; one that says nothing after a while."""
        try:
            message = self._messages.get(timeout=POLL_S)
        except queue.Empty:
            return "nothing", None
        if message is None:
            raise ContradictionError("toulbar2's process ended by itself")
        return message

    def _checked(self, values: Sequence[int]) -> tuple[int, ...]:
        if not all(0 <= value < size for value, size in zip(values, self._sizes, strict=True)):
            raise ContradictionError("toulbar2's answer leaves the domains")
        return tuple(values)

    def _row_text(self, row: Row) -> tuple[list[int], str]:
        """Return a row in toulbar2's form: what is not used up adds to the least that must be left."""
        spare = {variable: int(own.max()) - own for variable, own in row.weights.items()}
        least = sum(int(own.max()) for own in row.weights.values()) - row.most
        words = [str(least)]
        for own in spare.values():
            kept = np.flatnonzero(own)
            words += [str(len(kept)), *(f"{k} {own[k]}" for k in kept.tolist())]
        return list(spare), " ".join(words)

    def _send(self, message: object) -> None:
        body = pickle.dumps(message)
        stream = self._process.stdin
        assert stream is not None  # it is a pipe
        with suppress(BrokenPipeError):  # the listener tells that the process is gone
            stream.write(struct.pack("<q", len(body)) + body)
            stream.flush()

    def _listen(self) -> None:
        stream = self._process.stdout
        assert stream is not None  # it is a pipe
        with suppress(EOFError, OSError, ValueError):
            while len(head := stream.read(8)) == 8:
                self._messages.put(pickle.loads(stream.read(struct.unpack("<q", head)[0])))
        self._messages.put(None)


def _ended(found: Found, is_failed: bool, is_done: bool, last: int | None) -> Found:
    """Return all that was found, with the last bound."""
    if is_failed:
        raise MemoryError("toulbar2 ended without an answer")
    if is_done or last is None:
        return replace(found, is_done=is_done)
    return replace(found, bound=last if found.bound is None else max(found.bound, last))


def _doubles(arrays: Sequence[NDArray[Any]]) -> bytes:
    """Return whole numbers as doubles, one array after the other; ValueError if one is too large."""
    if not arrays:
        return b""
    flat = np.concatenate([np.ravel(array) for array in arrays])
    if flat.size and int(flat.max()) >= LARGEST:
        raise ValueError("costs are too large for doubles")
    return flat.astype(np.float64).tobytes()
