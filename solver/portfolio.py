"""Bounds, CP-SAT and a heuristic at one problem, beside each other; or CP-SAT alone, in a process of its own.

What each side finds, a mapping or a bound, it tells the others.
"""

from __future__ import annotations

import math
import time
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple

from model.cost import evaluate_in
from model.mapping import Mapping
from model.mapspace import Mapspace
from model.mapspace_size import keep_masks
from model.numbers import divisors
from solver.beside import Beside, descend, search_line
from solver.cpsat import RangeError
from solver.formulation.engine import FROM_NOTHING, Beginning, map_by_formulation
from solver.formulation.model import check_formulated
from solver.processes import POLL_S, peak_memory_bytes
from solver.result import (
    PATIENCE_S,
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
    is_within,
    with_bound,
)
from solver.search.goal import Goal
from solver.search.mapper import FEW_PRICES_FROM
from solver.search.priced import Priced
from solver.search.shared import Partner

FEWEST_LEFT_S = 3.0
"""CP-SAT is not asked if the time limit leaves less: its process takes a second or two to start."""

PROCESS_MIB = 384
"""Memory without which no process is started: all that the heuristic may have, and the least for CP-SAT."""

DESCEND_AFTER_S = 0.25
"""CPU seconds of a search before a heuristic is asked beside it: most are over by then.

Where tiles times keep masks are many (`solver.search.mapper.FEW_PRICES_FROM`), it is asked at once."""

GRACE_S = 1.0
"""Seconds that CP-SAT has to end after it is stopped, before its process is."""

Task = tuple[str, tuple[tuple[str, int], ...]]
"""An objective, and the most that a mapping may cost by others."""


# --------------------------------------------------------------------- CP-SAT's process


class _Question(NamedTuple):
    """What CP-SAT's process is asked."""

    mapspace: Mapspace
    options: Options
    beginning: Beginning


def _search_here(question: _Question) -> Result | None:
    """Search by CP-SAT, and tell of all that is found; None where the formulation refuses the problem."""
    end = search_line()
    beginning = replace(question.beginning, peer=end)
    try:
        result = map_by_formulation(
            question.mapspace, question.options, should_stop=lambda: end.is_stopped, beginning=beginning
        )
    except (TooLargeError, RangeError) as error:
        end.say("refused", str(error))
        return None
    if result.status is Status.INFEASIBLE:
        end.say("nothing")
    elif result.bound is not None:
        end.bounded(result.bound)
    return result


# ------------------------------------------------------------------------------ together


class Companion(Partner):
    """CP-SAT and a heuristic beside a search by bounds.

    The heuristic makes greedy descents, as `compare` does with the same seed, from soon after the start on.
    It knows no limits, and so ends with the first objective.

    Parameters
    ----------
    mapspace, options
        Those of the search by bounds.
    """

    def __init__(self, mapspace: Mapspace, options: Options) -> None:
        self._mapspace = mapspace
        self._options = options
        self._clock = Clock(options.time_limit_s)
        self._task: Task | None = None
        self._process: Beside[Result | None] | None = None
        self._best: Priced | None = None
        self._told: Priced | None = None
        self._limit: int | None = None
        self._seconds = 0.0
        self.remark = _why_not_stated(mapspace)
        self._is_willing = not self.remark
        if self._is_willing and options.jobs == 1:
            self.remark, self._is_willing = "not used: it needs a second worker", False
        self._descents: Beside[None] | None = None
        self._may_descend, self._begun_s = options.jobs > 1, time.process_time()
        self._is_slow = self._may_descend and _most_subproblems(mapspace) >= FEW_PRICES_FROM

    @property
    def is_refused(self) -> bool:
        """Whether the formulation does not state the problem."""
        return self.remark.startswith("refused")

    def close(self) -> None:
        """End both processes; no further one begins."""
        self._may_descend = self._is_willing = False
        self._end_descents()
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
        better = self._descended(goal)
        if self._process is None:
            return better
        known = better or best
        if known is not self._told and known is not None:
            self._told = known
            self._process.line.found(known.mapping)
        return self._heard(goal) or better

    def _descended(self, goal: Goal) -> Priced | None:
        """Return a better mapping of the heuristic's, if it has one for this goal."""
        if self._descents is not None and goal.limits:
            self._end_descents()
        mapping = None if self._descents is None else self._descents.line.better()
        return None if mapping is None else self._better(goal, mapping)

    def _better(self, goal: Goal, mapping: Mapping) -> Priced | None:
        """Price a mapping that comes from a process here; None if it is no better."""
        evaluation = evaluate_in(self._mapspace, mapping)
        value = goal.value(evaluation.energy, evaluation.cycles)
        is_better = self._limit is None or value < self._limit
        if not (is_better and evaluation.valid and goal.improves(evaluation.energy, evaluation.cycles)):
            return None
        self._limit = value
        return Priced(mapping, evaluation)

    def _heard(self, goal: Goal) -> Priced | None:
        """Return a better mapping that CP-SAT has found."""
        assert self._process is not None
        line = self._process.line
        if line.refusal:
            self._give_up(f"refused: {line.refusal}")
            return None
        mapping = line.better()
        better = None if mapping is None else self._better(goal, mapping)
        if better is not None:
            return better
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
        """Whether CP-SAT's bound meets the incumbent up to the gap, or it knows that there is no mapping.

        Called often: CP-SAT is started once it is time for that.
        """
        self._start()
        if self._process is None:
            return False
        line = self._process.line
        if line.is_empty or self._limit is None:
            return line.is_empty
        bound = line.bound or 0
        return bound >= self._limit or is_within(self._options.gap, self._limit, bound)

    @property
    def is_empty(self) -> bool:
        """Whether CP-SAT has proven that there is no mapping within the limits."""
        return self._process is not None and self._process.line.is_empty

    def _start(self) -> None:
        """Start the heuristic, and CP-SAT, if it is time for that."""
        if self._may_descend and self._should_descend():
            self._descend()
        is_due = self._is_willing and self._task is not None and self._process is None
        if not is_due or self._clock.seconds < PATIENCE_S:
            return
        left_s = self._clock.left_s
        memory_mib = self._memory_left_mib - (0 if self._descents is None else PROCESS_MIB)
        if left_s is not None and left_s < FEWEST_LEFT_S:
            self._give_up("not used: too little time was left")
        elif memory_mib < PROCESS_MIB:
            self._give_up("not used: too little memory was left")
        else:
            self._begin(memory_mib)

    def _should_descend(self) -> bool:
        """Whether it is time for the heuristic."""
        return self._is_slow or time.process_time() - self._begun_s >= DESCEND_AFTER_S

    @property
    def _memory_left_mib(self) -> int:
        return self._options.memory_limit_mib - (peak_memory_bytes() >> 20)

    def _descend(self) -> None:
        """Start the heuristic, once."""
        self._may_descend = False
        if self._memory_left_mib < 2 * PROCESS_MIB:
            return
        objective, *_ = self._options.objectives_for(self._mapspace)
        question = (self._mapspace, objective, self._options.seed)
        with suppress(OSError, BrokenProcessPool):
            self._descents = Beside(descend, question, PROCESS_MIB, gives_way=False)

    def _end_descents(self) -> None:
        if self._descents is not None:
            self._descents.end()
        self._descents = None

    def _begin(self, memory_mib: int) -> None:
        assert self._task is not None  # or it would not be due
        (objective, limits), best = self._task, self._best
        options = replace(self._options, objectives=(objective,), time_limit_s=self._clock.left_s)
        known = None if best is None else best.mapping
        question = _Question(self._mapspace, options, Beginning(limits, known))
        self._told = best
        try:
            self._process = Beside(_search_here, question, memory_mib)
        except (OSError, BrokenProcessPool) as error:
            self._give_up(f"not used: {error}")
            return
        self.remark = "in parallel with bounds"

    def _give_up(self, remark: str) -> None:
        self._end()
        self.remark, self._is_willing = remark, False

    def _end(self) -> None:
        if self._process is not None:
            self._seconds += self._process.seconds
            self._process.end()
        self._process = None


def _most_subproblems(mapspace: Mapspace) -> int:
    """Tiles with perfect factors times keep masks."""
    tiles = math.prod(len(divisors(bound)) for bound in mapspace.problem.bounds)
    return tiles * keep_masks(mapspace)


def _why_not_stated(mapspace: Mapspace) -> str:
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
    return has_time and options.memory_limit_mib >= PROCESS_MIB


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
        See `map_by_formulation`.
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
        self._objectives = options.objectives_for(mapspace)
        self._limits = beginning.limits
        self._best: Priced | None = None
        self._stopped_s: float | None = None
        if beginning.known is not None:
            self._consider(beginning.known)
        question = _Question(mapspace, options, beginning)
        self._process = Beside(_search_here, question, options.memory_limit_mib)

    def result(self) -> Result:
        """Wait for the result; one that does not come in time is made of what was told."""
        try:
            while not self._process.is_over and not self._is_late():
                time.sleep(POLL_S)
                self._hear()
            answer = self._answer_of_process()
        finally:
            self._process.end()
        if answer is None:
            return self._told()
        if answer.termination is Termination.INTERRUPTED and self._clock.termination is not None:
            return replace(answer, termination=self._clock.termination)
        return answer

    def _answer_of_process(self) -> Result | None:
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
        mapping = self._process.line.better()
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
        return known if value is None or bound < value else with_bound(known, value)
