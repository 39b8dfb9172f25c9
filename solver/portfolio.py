"""Bounds and CP-SAT at one problem: beside each other, or CP-SAT alone; CP-SAT has a process of its own.

That process is started late, gives way to others, and can be ended at any moment, whatever CP-SAT is doing.
What either side finds, a mapping or a bound, it tells the other one.
"""

from __future__ import annotations

import multiprocessing
import os
import threading
import time
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from dataclasses import replace
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Literal, NamedTuple

from model.cost import evaluate_in
from model.mapping import Mapping
from model.mapspace import Mapspace
from solver.cpsat import RangeError
from solver.formulation.engine import FROM_NOTHING, Beginning, map_by_formulation
from solver.formulation.model import check_formulated
from solver.processes import Workers, peak_memory_bytes
from solver.result import (
    Clock,
    ContradictionError,
    Options,
    Phase,
    Progress,
    ProgressCallback,
    Result,
    Statistics,
    Status,
    StopCallback,
    Termination,
    TooLargeError,
    bounded,
)
from solver.search.branching.completion import Priced
from solver.search.goal import Goal

START_AFTER_S = 5.0
"""Seconds of bounds and branching before CP-SAT is asked as well."""

FEWEST_LEFT_S = 3.0
"""CP-SAT is not asked if the time limit leaves less: its process takes a second or two to start."""

LEAST_MEMORY_MIB = 256
"""CP-SAT is not asked if the memory limit leaves less."""

COURTESY = 5
"""By how much CP-SAT's process gives way to others: bounds are hardly slower for it on busy cores."""

POLL_S = 0.05
MEMORY_PERIOD_S = 0.2
"""How often messages and the memory in use are looked at."""

MEMORY = "it takes more memory than --memory-limit leaves"

GRACE_S = 1.0
"""Seconds that CP-SAT has to end after it is stopped, before its process is."""

Kind = Literal["mapping", "bound", "nothing", "refused", "stop"]
Task = tuple[str, tuple[tuple[str, int], ...]]
"""An objective, and the most that a mapping may cost by others."""


class _Line:
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

    def mapping(self) -> Mapping | None:
        """The last mapping that came, once."""
        found, self._mapping = self._mapping, None
        return found

    def close(self) -> None:
        """Say and hear nothing more."""
        with suppress(OSError):
            self._connection.close()

    def _listen(self) -> None:
        with suppress(EOFError, OSError, TypeError):  # TypeError: it was closed while something was awaited
            while True:
                self._take(*self._connection.recv())
        self.is_open = False

    def _take(self, kind: Kind, value: object) -> None:
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


# --------------------------------------------------------------------- CP-SAT's process


class _Peer:
    """The search by bounds, as CP-SAT's process knows it."""

    def __init__(self, line: _Line) -> None:
        self._line = line

    def found(self, mapping: Mapping) -> None:
        """Tell of a mapping."""
        self._line.say("mapping", mapping)

    def bounded(self, bound: int) -> None:
        """Tell of a bound."""
        self._line.say("bound", bound)

    def better(self) -> Mapping | None:
        """The best mapping that bounds and branching have found, if it is new."""
        return self._line.mapping()


_LINES: list[_Line] = []


def _prepare(connection: Connection, most_bytes: int) -> None:
    """Begin CP-SAT's process: it gives way to others, and ends once it has too much memory."""
    _LINES[:] = [_Line(connection)]
    with suppress(AttributeError, OSError):
        os.nice(COURTESY)

    def watch() -> None:
        while peak_memory_bytes() <= most_bytes:
            time.sleep(MEMORY_PERIOD_S)
        _LINES[0].say("refused", MEMORY)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


class _Question(NamedTuple):
    """What CP-SAT's process is asked."""

    mapspace: Mapspace
    options: Options
    beginning: Beginning


def _answer(question: _Question) -> Result | None:
    """Search by CP-SAT, and tell of all that is found; None where the formulation refuses the problem."""
    line = _LINES[0]
    beginning = replace(question.beginning, peer=_Peer(line))
    try:
        result = map_by_formulation(
            question.mapspace, question.options, should_stop=lambda: line.is_stopped, beginning=beginning
        )
    except (TooLargeError, RangeError) as error:
        line.say("refused", str(error))
        return None
    if result.status is Status.INFEASIBLE:
        line.say("nothing")
    elif result.bound is not None:
        line.say("bound", result.bound)
    return result


class _Process:
    """CP-SAT at work in a process."""

    def __init__(self, question: _Question, memory_mib: int) -> None:
        here, there = multiprocessing.get_context("spawn").Pipe()
        self._workers = Workers(1, _prepare, there, memory_mib << 20)
        try:
            self.answer: Future[Result | None] = self._workers.submit(_answer, [(question,)])[0]
        finally:
            there.close()
        self.line = _Line(here)
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


# ------------------------------------------------------------------------------ together


class Companion:
    """CP-SAT beside a search by bounds: its `solver.search.shared.Partner`, and a context.

    Parameters
    ----------
    mapspace, options
        As of the search by bounds.

    Attributes
    ----------
    remark
        Whether CP-SAT was asked, and why not or how that ended.
    seconds
        How long it worked.
    """

    def __init__(self, mapspace: Mapspace, options: Options) -> None:
        self._mapspace = mapspace
        self._options = options
        self._clock = Clock(options.time_limit_s)
        self._task: Task | None = None
        self._process: _Process | None = None
        self._best: Priced | None = None
        self._told: Priced | None = None
        self._limit: int | None = None
        self._seconds = 0.0
        self.remark = _refusal(mapspace)
        self._is_willing = not self.remark
        if self._is_willing and options.jobs == 1:
            self.remark, self._is_willing = "not asked: it takes a second worker", False

    @property
    def is_refused(self) -> bool:
        """Whether the formulation does not state the problem."""
        return self.remark.startswith("refused")

    def __enter__(self) -> Companion:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    @property
    def seconds(self) -> float:
        """How long CP-SAT has worked."""
        return self._seconds + (0.0 if self._process is None else self._process.seconds)

    def exchange(self, goal: Goal, best: Priced | None) -> Priced | None:
        """Tell of the best mapping of a goal, and return a better one of CP-SAT's, if there is any.

        Raises
        ------
        ContradictionError
            One side has a bound above the value of the other side's mapping: a defect.
        """
        task = (goal.objective, goal.limits)
        if task != self._task:
            self._end()
            self._task = task
        self._limit, self._best = goal.incumbent, best
        self._start()
        if self._process is None:
            return None
        if best is not self._told and best is not None:
            self._told = best
            self._process.line.say("mapping", best.mapping)
        return self._heard(goal)

    def _heard(self, goal: Goal) -> Priced | None:
        """Return a better mapping that CP-SAT has found, priced here."""
        assert self._process is not None
        line = self._process.line
        if line.refusal:
            self._give_up(f"refused: {line.refusal}")
            return None
        mapping = line.mapping()
        if mapping is not None:
            evaluation = evaluate_in(self._mapspace, mapping)
            if evaluation.valid and goal.improves(evaluation.energy, evaluation.cycles):
                self._limit = goal.value(evaluation.energy, evaluation.cycles)
                return Priced(mapping, evaluation)
        if self._limit is not None and (line.bound or 0) > self._limit:
            raise ContradictionError("CP-SAT's bound is above the value of a mapping")
        if self._process.is_over and not self.has_settled():
            self._give_up(self._process.ending())
        return None

    @property
    def bound(self) -> int | None:
        """What no mapping within the limits is below, as far as CP-SAT knows."""
        return None if self._process is None else self._process.line.bound

    def has_settled(self) -> bool:
        """Whether CP-SAT's bound meets the incumbent, or it knows that there is no mapping.

        Called often: CP-SAT is started once it is time for that.
        """
        self._start()
        if self._process is None:
            return False
        line = self._process.line
        return line.is_empty or (self._limit is not None and (line.bound or 0) >= self._limit)

    @property
    def is_empty(self) -> bool:
        """Whether CP-SAT has proven that there is no mapping within the limits."""
        return self._process is not None and self._process.line.is_empty

    def _start(self) -> None:
        """Start CP-SAT if it is time for that."""
        is_due = self._is_willing and self._task is not None and self._process is None
        if not is_due or self._clock.seconds < START_AFTER_S:
            return
        left_s = self._clock.left_s
        memory_mib = self._options.memory_limit_mib - (peak_memory_bytes() >> 20)
        if left_s is not None and left_s < FEWEST_LEFT_S:
            self._give_up("not asked: too little time was left")
        elif memory_mib < LEAST_MEMORY_MIB:
            self._give_up("not asked: too little memory was left")
        else:
            self._begin(memory_mib)

    def _begin(self, memory_mib: int) -> None:
        assert self._task is not None  # or it would not be due
        (objective, limits), best = self._task, self._best
        options = replace(self._options, objectives=(objective,), time_limit_s=self._clock.left_s)
        known = None if best is None else best.mapping
        question = _Question(self._mapspace, options, Beginning(limits, known))
        self._told = best
        try:
            self._process = _Process(question, memory_mib)
        except (OSError, BrokenProcessPool) as error:
            self._give_up(f"not asked: {error}")
            return
        self.remark = "asked beside bounds"

    def _give_up(self, remark: str) -> None:
        self._end()
        self.remark, self._is_willing = remark, False

    def _end(self) -> None:
        if self._process is not None:
            self._seconds += self._process.seconds
            self._process.end()
        self._process = None


def _refusal(mapspace: Mapspace) -> str:
    """Why the formulation does not state a problem; empty if it does."""
    try:
        check_formulated(mapspace)
    except ValueError as error:
        return f"refused: {error}"
    return ""


# --------------------------------------------------------------------------------- alone


def is_worth_a_process(options: Options) -> bool:
    """Whether time and memory suffice for a process of CP-SAT."""
    has_time = options.time_limit_s is None or options.time_limit_s >= FEWEST_LEFT_S
    return has_time and options.memory_limit_mib >= LEAST_MEMORY_MIB


def map_by_cp_sat(
    mapspace: Mapspace,
    options: Options = Options(),
    on_progress: ProgressCallback | None = None,
    should_stop: StopCallback | None = None,
    beginning: Beginning = FROM_NOTHING,
) -> Result:
    """Search as `map_by_formulation` does, in a process of its own: time and memory are kept to.

    Raises
    ------
    ValueError, TooLargeError, ModelError
        As of `map_by_formulation`.
    """
    check_formulated(mapspace)
    waiting = _Waiting(mapspace, options, Clock(options.time_limit_s, should_stop), on_progress, beginning)
    return waiting.result()


class _Waiting:
    """A search by CP-SAT in a process, watched from here."""

    def __init__(
        self,
        mapspace: Mapspace,
        options: Options,
        clock: Clock,
        on_progress: ProgressCallback | None,
        beginning: Beginning,
    ) -> None:
        self._mapspace, self._clock, self._on_progress = mapspace, clock, on_progress
        self._objectives = options.objectives or mapspace.objectives
        self._limits = beginning.limits
        self._best: Priced | None = None
        self._stopped_s: float | None = None
        if beginning.known is not None:
            self._consider(beginning.known)
        self._process = _Process(_Question(mapspace, options, beginning), options.memory_limit_mib)

    def result(self) -> Result:
        """Wait for the result; one that does not come in time is made of what was told."""
        try:
            while not self._process.is_over and not self._is_late():
                time.sleep(POLL_S)
                self._hear()
            answer = self._answer()
        finally:
            self._process.end()
        if answer is None:
            return self._told()
        if answer.termination is Termination.INTERRUPTED and self._clock.termination is not None:
            return replace(answer, termination=self._clock.termination)
        return answer

    def _answer(self) -> Result | None:
        """The result of the process; None if it is lost, or has none yet."""
        if not self._process.is_over:
            return None
        try:
            answer = self._process.answer.result()
        except BrokenProcessPool:
            return None
        if answer is None:
            raise TooLargeError(self._process.line.refusal)
        return answer

    def _is_late(self) -> bool:
        """Whether the process was told to stop, and has not ended since."""
        if self._stopped_s is None and self._clock.stop():
            self._process.line.say("stop")
            self._stopped_s = self._clock.seconds
        return self._stopped_s is not None and self._clock.seconds - self._stopped_s > GRACE_S

    def _hear(self) -> None:
        """Take what the process has found, and report it."""
        mapping = self._process.line.mapping()
        if mapping is not None:
            self._consider(mapping)
        if self._on_progress is not None:
            value, bound = self._value, self._process.line.bound
            bound = bound if value is None or bound is None else min(value, bound)
            seconds, objective = self._clock.seconds, self._objectives[0]
            self._on_progress(Progress(Phase.FORMULATION, seconds, objective, value, bound))

    def _consider(self, mapping: Mapping) -> None:
        """Keep a mapping that is allowed; those of the process only get better."""
        evaluation = evaluate_in(self._mapspace, mapping)
        if evaluation.valid and all(evaluation.value(name) <= most for name, most in self._limits):
            self._best = Priced(mapping, evaluation)

    @property
    def _value(self) -> int | None:
        return None if self._best is None else self._best.evaluation.value(self._objectives[0])

    def _told(self) -> Result:
        """What is known without the process."""
        self._hear()
        if self._process.line.refusal:
            self._clock.end(Termination.MEMORY_LIMIT)
        value, bound = self._value, self._process.line.bound or 0
        known = Result(
            Status.UNKNOWN if self._best is None else Status.FEASIBLE,
            self._clock.termination or Termination.MEMORY_LIMIT,
            tuple(self._objectives),
            self._mapspace.architecture.units_per_pj,
            value=value,
            bound=bound if value is None else min(bound, value),
            mapping=None if self._best is None else self._best.mapping,
            evaluation=None if self._best is None else self._best.evaluation,
            statistics=Statistics(seconds=self._clock.seconds),
        )
        return known if value is None or bound < value else bounded(known, value)
