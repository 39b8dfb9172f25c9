"""The process in which toulbar2 runs: it takes a problem and requests, and answers, on its standard streams.

toulbar2 holds the interpreter while it searches. So this process only waits: each search is a copy (fork) of
it, made when the problem is in memory already, and ended at any moment. The end of the input ends them both.
Nothing but the standard library and toulbar2 is imported, as this is started as a script for each problem.
"""

from __future__ import annotations

import math
import os
import pickle
import select
import signal
import struct
from itertools import pairwise
from typing import Any, BinaryIO

from pytoulbar2 import CFN

OPTIMALITY_GAP, NEW_SOLUTION, RESULT = "Optimality gap: [", "New solution: ", "RESULT "
"""How lines begin that toulbar2 prints, and our last one."""

ROUNDING = 1e-6
"""Bounds come as doubles, though they are whole."""


def receive() -> Any:
    """Return the next message on the standard input, None at its end."""
    head = _read_bytes(8)
    if len(head) < 8:
        return None
    return pickle.loads(_read_bytes(struct.unpack("<q", head)[0]))


def _read_bytes(count: int) -> bytes:
    """Read without a buffer, so that `select` knows of all that is unread."""
    parts = []
    while count > 0 and (part := os.read(0, min(count, 1 << 24))):
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


def send(stream: BinaryIO, message: object) -> None:
    """Write a message."""
    body = pickle.dumps(message)
    stream.write(struct.pack("<q", len(body)) + body)
    stream.flush()


def load(
    sizes: list[int], unary: bytes, pairs: list[tuple[int, int]], binary: bytes, seed: int, vac: int
) -> CFN:
    """Build a problem: costs are doubles, one table after the other."""
    problem = CFN(vac=vac, seed=seed, verbose=0)
    problem.Option.showSolutions = 1  # a line of values after each one
    own, joint = memoryview(unary).cast("d"), memoryview(binary).cast("d")
    inside = problem.CFN.wcsp
    for number, size in enumerate(sizes):
        inside.makeEnumeratedVariable(f"x{number}", 0, size - 1)
    add_unary(problem, sizes, own)
    start = 0
    for i, j in pairs:
        size = sizes[i] * sizes[j]
        inside.postBinaryConstraint(i, j, joint[start : start + size])
        start += size
    return problem


def add_unary(problem: CFN, sizes: list[int], costs: memoryview[float]) -> None:
    """Add costs to the values of all variables."""
    ends = [0]
    for size in sizes:
        ends.append(ends[-1] + size)
    for number, (start, end) in enumerate(pairwise(ends)):
        problem.CFN.wcsp.postUnaryConstraint(number, costs[start:end])


def search(problem: CFN, sizes: list[int], request: dict[str, Any]) -> None:
    """Search below ``request["top"]``, and print what toulbar2 prints, then whether it is done."""
    inside = problem.CFN.wcsp
    if request["backtracks"] is not None:
        problem.Option.backtrackLimit = request["backtracks"]
    try:
        if request["unary"]:
            add_unary(problem, sizes, memoryview(request["unary"]).cast("d"))
        for scope, text in request["rows"]:
            inside.postKnapsackConstraint(scope, text, False, 1)
        inside.updateDUb(float(request["top"]))  # `updateUb` has the shift of costs below zero in it
        inside.sortConstraints()
        problem.CFN.solve()
    except problem.Contradiction:
        pass  # nothing is below the top
    except problem.SolverOut:
        pass  # as `limited` says
    is_done = not problem.Option.limited
    print(f"{RESULT}{int(is_done)} {math.ceil(problem.CFN.getDDualBound() - ROUNDING)}", flush=True)


class Searching:
    """A search in a copy of this process, and what it has printed so far."""

    def __init__(self, problem: CFN, sizes: list[int], request: dict[str, Any]) -> None:
        self._size = len(sizes)
        self.lines, end = os.pipe()
        self.process = os.fork()
        if self.process == 0:
            os.dup2(end, 1)
            os.close(self.lines)
            status = 1
            try:
                search(problem, sizes, request)
                status = 0
            finally:
                os._exit(status)
        os.close(end)
        self._rest = b""
        # What the last line about a solution said, and whether its values come next.
        self._total: int | None = None
        self._is_next = False

    def read(self) -> list[tuple[str, Any]] | None:
        """Return what was printed since, None at the end: bounds, totals with values, the result."""
        data = os.read(self.lines, 1 << 20)
        if not data:
            return None
        *lines, self._rest = (self._rest + data).split(b"\n")
        told = [self._understood(line.decode("ascii", "replace")) for line in lines]
        return [message for message in told if message is not None]

    def _understood(self, line: str) -> tuple[str, Any] | None:
        if line.startswith(OPTIMALITY_GAP):
            return "bound", _printed_integer(line[len(OPTIMALITY_GAP) :].split(",")[0])
        if line.startswith(NEW_SOLUTION):
            self._total = _printed_integer(line[len(NEW_SOLUTION) :].split(" ")[0])
            self._is_next = True
            return None
        if line.startswith(RESULT):
            is_done, bound = line[len(RESULT) :].split()
            return "result", (is_done == "1", int(bound))
        values = line.split()
        if self._is_next and len(values) == self._size:
            self._is_next = False
            return "choice", (self._total, tuple(map(int, values)))
        return None

    def end(self) -> int:
        """End the process if it still runs, and return how it ended."""
        os.kill(self.process, signal.SIGKILL)
        _, status = os.waitpid(self.process, 0)
        os.close(self.lines)
        return status


def _printed_integer(text: str) -> int | None:
    """Return a number that was printed in full; None for one with an exponent."""
    return int(text) if text.lstrip("-").isdigit() else None


def main() -> None:
    """Load a problem, then answer requests until the input ends."""
    told = os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    first = receive()
    if first is None:
        return
    problem = load(**first)
    while (request := receive()) is not None:
        if not _serve(Searching(problem, first["sizes"], request), told):
            return


def _serve(searching: Searching, told: BinaryIO) -> bool:
    """Pass on what a search says until it is done, or until anything comes in; whether to go on."""
    while True:
        ready, _, _ = select.select([0, searching.lines], [], [])
        messages = searching.read() if searching.lines in ready else []
        if messages is None:
            status = searching.end()
            send(told, ("end", status))
            return True
        if 0 in ready:
            searching.end()
            is_asked = receive() is not None
            send(told, ("end", 0))
            return is_asked
        for message in messages:
            send(told, message)


if __name__ == "__main__":
    main()
