"""How one Einsum is searched: a table of stages, read from top to bottom, and the one way through it.

Bounds lead the search, and say little about what fits: where the constraints leave hardly any mapping, or
none, they may take long. The feasibility model of `solver.explain` knows no costs, but decides that quickly.
CP-SAT searches what bounds do not know, and what they leave open for another reason than time.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar

from model.extents import PERFECT
from model.mapspace import Mapspace
from model.objective import EDP, LATENCY
from solver.result import (
    AUTO,
    BOUNDS,
    CP_SAT,
    MODEL,
    REMAINDERS_S,
    Clock,
    Narrower,
    Options,
    Phase,
    Progress,
    ProgressCallback,
    Result,
    Statistics,
    Status,
    StopCallback,
    Stopwatch,
    Termination,
    TooLargeError,
    with_gap,
    within_loop_limit,
)
from solver.search.mapper import DIVISORS, EVERYTHING, SCOPES, Scope, map_by_bounds
from solver.search.priced import Priced
from solver.search.shared import ALONE, Partner
from solver.search.trivial import trivial_bound
from solver.simplest import simplified
from solver.sparse_search import judged, map_sparse_by_bounds, searchable, without_zeros

T = TypeVar("T")

PATIENCE_S = 5.0
"""Seconds without any mapping, once all keep masks are bounded, after which feasibility is checked."""

RESERVE_S = 1.0
"""Seconds before the time limit (half of it, if it is shorter) that are kept for the feasibility check: a
search that has not begun to list paths by then has no time to find a mapping."""

MOST_EFFORT_S = 30.0
"""Deterministic seconds that CP-SAT has after bounds ended for another reason than time."""

AFTER_BOUNDS, ALONE_FOR_RULES = "asked after bounds", "asked alone: bounds do not know all rules"
NOT_NEEDED = "not asked: bounds needed no help"

UNSEARCHED = (Termination.MEMORY_LIMIT, Termination.CHOICES, Termination.LOOP_LIMIT)
"""How searches by bounds end that leave something to CP-SAT alone."""

WITHOUT_MAPPING = (Termination.MEMORY_LIMIT, Termination.CHOICES, Termination.REMAINDER_LIMIT)
"""How searches by bounds end that have not looked at all mappings, though there was time."""


# ------------------------------------------------------------------------- what is asked


@dataclass(frozen=True)
class Question:
    """What is searched and how, as `map_einsum` takes it."""

    mapspace: Mapspace
    options: Options
    on_progress: ProgressCallback | None = None
    should_stop: StopCallback | None = None
    wants_reasons: bool = True

    @property
    def objectives(self) -> tuple[str, ...]:
        """What is minimised."""
        return self.options.objectives or self.mapspace.objectives

    @property
    def is_stopped(self) -> bool:
        """Whether the caller wants the search to end."""
        return self.should_stop is not None and self.should_stop()

    @property
    def is_sparse(self) -> bool:
        """Whether data are sparse."""
        return self.mapspace.sparsity is not None

    @property
    def by_bounds(self) -> bool:
        """Whether bounds search all mappings, of dense data."""
        is_known = self.mapspace.has_simple_rules and self.options.engine != CP_SAT
        return is_known and not self.is_sparse

    @property
    def by_cp_sat(self) -> bool:
        """Whether CP-SAT searches alone."""
        return not self.by_bounds and not self.is_sparse

    @property
    def is_shared(self) -> bool:
        """Whether CP-SAT helps bounds."""
        return self.by_bounds and self.options.engine == AUTO

    def within(self, clock: Clock, share: float = 1.0, most_s: float = math.inf) -> Question:
        """Return the question for a share of the time that a clock leaves, and so many seconds at most."""
        passed, left_s = clock.seconds, clock.left_s

        def report(progress: Progress) -> None:
            if self.on_progress is not None:
                self.on_progress(replace(progress, seconds=progress.seconds + passed))

        limit_s = most_s if left_s is None else min(most_s, left_s * share)
        is_free = left_s is None and limit_s == math.inf
        options = replace(self.options, time_limit_s=None if is_free else limit_s)
        return replace(self, options=options, on_progress=report)

    def about(self, mapspace: Mapspace) -> Question:
        """Return the question about other mappings."""
        return replace(self, mapspace=mapspace)

    def ask(self, search: Callable[..., T], *further: object) -> T:
        """Search, with further arguments by position."""
        return search(self.mapspace, self.options, self.on_progress, self.should_stop, *further)


@dataclass(frozen=True)
class State:
    """What is known between two stages.

    Parameters
    ----------
    answer
        A `Result`, or a front.
    work
        Of all stages so far.
    known
        The mapping that the next stage begins with.
    partner
        What searches beside bounds.
    is_stuck
        Whether bounds have found nothing, and feasibility decides.
    dense
        What was found for the same data without zeros.
    divisors
        What CP-SAT alone knows of mappings without remainders.
    """

    answer: Any = None
    work: Statistics = field(default_factory=Statistics)
    known: Priced | None = None
    partner: Partner = ALONE
    is_stuck: bool = False
    is_formulated: bool = False
    dense: Result | None = None
    divisors: Result | None = None

    def told(self, answer: Any, **changes: Any) -> State:
        """Return the state with the answer of a further search, and its work."""
        return replace(self, answer=answer, work=self.work.together(answer.statistics), **changes)


@dataclass(frozen=True)
class Stage:
    """A row of the table.

    Parameters
    ----------
    name
        For people.
    engine
        Who searches.
    is_due
        Whether the stage comes, as the question and the stages before have it.
    search
        What it does.
    scopes
        Which mappings it looks at, narrower ones first. Bounds measure what each of several scopes takes.
    share
        Of the time that is left, at most.
    most_s
        Seconds, at most.
    """

    name: str
    engine: str
    is_due: Callable[[Question, State], bool]
    search: Callable[[Question, State], State]
    scopes: tuple[Scope, ...] = (EVERYTHING,)
    share: float = 1.0
    most_s: float = math.inf


def through(stages: Sequence[Stage], question: Question, state: State) -> Any:
    """Go through the stages that are due, one after the other; return the answer with its statistics."""
    clock = Clock(question.options.time_limit_s)
    for stage in stages:
        if not stage.is_due(question, state):
            continue
        watch = Stopwatch()
        with watch.during(stage.name, stage.engine):
            state = stage.search(question.within(clock, stage.share, stage.most_s), state)
        costs = () if len(stage.scopes) > 1 else watch.costs
        work = state.work.together(Statistics(stages=costs))
        seconds = clock.seconds if stage.scopes else work.seconds
        state = replace(state, work=replace(work, seconds=seconds))
    return replace(state.answer, statistics=state.work)


# ----------------------------------------------------------------------------- sparse data


def _is_sparse(question: Question, _: State) -> bool:
    return question.is_sparse


def _is_sparse_and_fast(question: Question, _: State) -> bool:
    """Whether bounds on energy lead to a fast mapping, too, where latency alone has many equal ones."""
    return question.is_sparse and question.objectives[0] == LATENCY


def _without_zeros(question: Question, state: State) -> State:
    """Search dense data; their best mapping is the first one of sparse data."""
    options = replace(question.options, objectives=question.objectives)
    dense = map_by_bounds(without_zeros(question.mapspace), options, None, question.should_stop)
    every = [None if state.known is None else state.known.mapping, dense.mapping]
    priced = [judged(question.mapspace, own) for own in every if own is not None]
    best = _best(question.objectives, priced)
    return replace(state, known=best, dense=dense)


def _frugal(question: Question, state: State) -> State:
    """Search the least EDP; its mapping is another one to begin with."""
    mapspace, options = DIVISORS.of(question.mapspace), Options((EDP,), question.options.time_limit_s)
    known = None if state.known is None else judged(mapspace, state.known.mapping)
    found = map_sparse_by_bounds(mapspace, options, None, question.should_stop, known)
    return replace(state, known=_best(question.objectives, [state.known, _priced(found)]))


def _on_sparse_data(question: Question, state: State) -> State:
    """Search sparse data by bounds; the feasibility model does not know their room."""
    answer = question.ask(map_sparse_by_bounds, state.known)
    return state.told(replace(answer, dense=state.dense))


def _best(objectives: Sequence[str], every: Sequence[Priced | None]) -> Priced | None:
    found = (own for own in every if own is not None)
    return min(found, key=lambda own: [own.evaluation.value(name) for name in objectives], default=None)


def _priced(result: Result) -> Priced | None:
    """Return the mapping of a result, if it has one."""
    if result.mapping is None or result.evaluation is None:
        return None
    return Priced(result.mapping, result.evaluation)


# ---------------------------------------------------------------- bounds, and what fits at all


class Patience:
    """Follows a search, and stops it once it has looked for a mapping in vain for too long."""

    def __init__(self, question: Question, has_mapping: bool = False) -> None:
        limit_s = question.options.time_limit_s or math.inf
        self._question = question
        self._survey_ends = time.monotonic() + limit_s - min(RESERVE_S, limit_s / 2)
        self._search_since: float | None = None
        self._has_mapping = has_mapping
        self.is_over = False

    def hear(self, progress: Progress) -> None:
        """Note whether there is a mapping, and pass the progress on."""
        self._has_mapping |= progress.incumbent is not None
        if self._search_since is None and progress.phase != Phase.SURVEY:
            self._search_since = time.monotonic()
        if self._question.on_progress is not None:
            self._question.on_progress(progress)

    def stop(self) -> bool:
        """Whether the search must end: as the caller wishes, or because it finds nothing."""
        if self._question.is_stopped:
            return True
        if not self._has_mapping:
            ends = self._survey_ends if self._search_since is None else self._search_since + PATIENCE_S
            self.is_over = time.monotonic() > ends
        return self.is_over


def patiently(search: Callable[[Question, State], Any], question: Question, state: State) -> State:
    """Search until there is a mapping, or for as long as patience lasts."""
    patience = Patience(question, state.known is not None)
    followed = replace(question, on_progress=patience.hear, should_stop=patience.stop)
    answer = search(followed, state)
    gave_up = patience.is_over and answer.termination is Termination.INTERRUPTED
    found_nothing = answer.status is Status.UNKNOWN and answer.termination in WITHOUT_MAPPING
    return state.told(answer, is_stuck=gave_up or found_nothing)


def is_stuck(_: Question, state: State) -> bool:
    """Whether bounds have found nothing, and feasibility does not say that nothing fits."""
    return state.is_stuck


def feasibility(question: Question, state: State) -> State:
    """Decide whether anything fits: a mapping to begin with, or the reasons why not, if they are wanted."""
    late = state.answer.found  # between the decision to stop and the end of the search
    if late is not None:
        return replace(state, known=Priced(*late))
    from solver.explain import Verdict, diagnose  # noqa: PLC0415 (most searches end otherwise)

    _report_explanation(question)
    limit_s = question.options.time_limit_s
    assert limit_s is not None  # the table says how much at most
    diagnosis = diagnose(question.mapspace, question.should_stop, limit_s, question.wants_reasons)
    if diagnosis.verdict is Verdict.INFEASIBLE:
        return replace(state, answer=state.answer.nothing_fits(diagnosis.reasons), is_stuck=False)
    if diagnosis.witness is None:
        return state
    known = Priced(diagnosis.witness.mapping, diagnosis.witness.evaluation)
    return replace(state, known=known, work=state.work.together(Statistics(mappings_priced=1)))


def again(search: Callable[[Question, State], Any], question: Question, state: State) -> State:
    """Search again, with what feasibility has found."""
    answer = search(question, state)
    return state.told(answer.with_bound_of(state.answer))


def _by_bounds(question: Question, state: State) -> Result:
    """Search dense data by bounds, with a partner beside them."""
    return question.ask(map_by_bounds, state.known, state.partner)


def is_infeasible(question: Question, state: State) -> bool:
    """Whether reasons are wanted and not known; they know no limit on loops."""
    is_wanted = question.wants_reasons and question.mapspace.max_temporal_loops is None
    return is_wanted and state.answer.status is Status.INFEASIBLE and not state.answer.reasons


def reasons(question: Question, state: State) -> State:
    """Find the reasons why nothing fits."""
    from solver.explain import explain_infeasible, explain_sparse, reasons_time_s  # noqa: PLC0415 (rare)

    _report_explanation(question)
    explain = explain_sparse if question.is_sparse else explain_infeasible
    time_s = reasons_time_s(question.options.time_limit_s)
    found = explain(question.mapspace, question.should_stop, time_s)
    return replace(state, answer=replace(state.answer, reasons=found))


def _report_explanation(question: Question) -> None:
    if question.on_progress is not None:
        question.on_progress(Progress(Phase.EXPLANATION, 0.0, question.objectives[0]))


def _simplest(question: Question, state: State) -> State:
    """Return a simple mapping of the value, and what the result says of gap and loop limit."""
    mapspace = question.mapspace
    answer = with_gap(simplified(mapspace, state.answer), question.options.gap)
    return replace(state, answer=within_loop_limit(mapspace, answer))


# ------------------------------------------------------------------------------- CP-SAT


def _formulated(question: Question, beginning: object) -> Result:
    """Search by CP-SAT, within the default limit where loops may have remainders and there is no other.

    It has a process of its own where it is asked for: time and memory are kept to.
    """
    from solver.formulation.engine import map_by_formulation  # noqa: PLC0415 (takes a second)
    from solver.portfolio import map_by_cp_sat  # noqa: PLC0415 (most searches are by bounds)

    mapspace, options = question.mapspace, question.options
    is_limited = mapspace.factors != PERFECT and options.time_limit_s is None
    if is_limited:
        question = replace(question, options=replace(options, time_limit_s=REMAINDERS_S))
    answer = question.ask(map_by_formulation if options.engine == BOUNDS else map_by_cp_sat, beginning)
    if is_limited and answer.termination is Termination.TIME_LIMIT:
        return replace(answer, termination=Termination.REMAINDER_LIMIT)
    return answer


def _is_alone(question: Question, _: State) -> bool:
    return question.by_cp_sat


def _is_alone_with_remainders(question: Question, state: State) -> bool:
    return question.by_cp_sat and question.mapspace.factors != PERFECT and state.known is None


def _alone_on_divisors(question: Question, state: State) -> State:
    """Search mappings without remainders, by bounds if only these know all rules."""
    from solver.formulation.engine import FROM_NOTHING  # noqa: PLC0415 (takes a second)

    question = question.about(DIVISORS.of(question.mapspace))
    if question.mapspace.rules and question.mapspace.has_simple_rules:
        found = State(question.ask(map_by_bounds))
        first: Result = _simplest(question, found).answer
    else:
        first = _formulated(question, FROM_NOTHING)
    work = state.work.together(replace(first.statistics, settled_by=()))
    return replace(state, work=work, divisors=first, known=_priced(first))


def _alone(question: Question, state: State) -> State:
    """Search all mappings by CP-SAT alone."""
    from solver.formulation.engine import Beginning  # noqa: PLC0415 (takes a second)

    first = state.divisors
    known = None if state.known is None else state.known.mapping
    try:
        answer = _formulated(question, Beginning(known=known))
    except TooLargeError as error:
        if first is None or first.mapping is None:
            raise
        answer = replace(
            first,
            status=Status.FEASIBLE,
            termination=Termination.MEMORY_LIMIT,
            bound=trivial_bound(question.mapspace, first.objective),
            later_bounds=(),
            evidence=(),
            statistics=Statistics(cp_sat=f"refused: {error}"),
        )
    perfect = None if first is None else Narrower.of(first)
    return state.told(replace(answer, perfect_factors=perfect), is_formulated=True)


def _is_left_to_cp_sat(question: Question, state: State) -> bool:
    """Whether bounds ended for another reason than time, and CP-SAT may go on."""
    ended_early = question.is_shared and state.answer.termination in UNSEARCHED
    if not ended_early or state.partner.is_refused:
        return False
    from solver.portfolio import is_worth_a_process  # noqa: PLC0415 (most searches are by bounds)

    limit_s = question.options.time_limit_s
    left_s = None if limit_s is None else max(0.0, limit_s - state.work.seconds)
    return is_worth_a_process(replace(question.options, time_limit_s=left_s))


def _has_open_divisors(question: Question, state: State) -> bool:
    """Whether bounds leave to CP-SAT mappings without remainders, too."""
    if not _is_left_to_cp_sat(question, state):
        return False
    perfect = state.answer.perfect_factors
    return perfect is not None and perfect.status not in (Status.OPTIMAL, Status.INFEASIBLE)


def _after_bounds_on_divisors(question: Question, state: State) -> State:
    """Let CP-SAT improve on the best mapping without remainders."""
    from solver.formulation.engine import Beginning  # noqa: PLC0415 (rarely needed)

    first: Result = state.answer
    known = first.mapping
    if known is not None and not known.divides(question.mapspace.problem.bound):
        known = None
    state.partner.end()
    narrow = question.about(DIVISORS.of(question.mapspace))
    try:
        answer = _formulated(narrow, Beginning(known=known, effort_s=MOST_EFFORT_S))
    except TooLargeError:
        return state
    best = first if answer.value is None or answer.value >= (first.value or math.inf) else answer
    improved = replace(
        first,
        status=Status.UNKNOWN if best.mapping is None else Status.FEASIBLE,
        value=best.value,
        mapping=best.mapping,
        evaluation=best.evaluation,
        perfect_factors=Narrower.of(answer),
    )
    return replace(state, answer=improved, work=state.work.together(answer.statistics))


def _after_bounds(question: Question, state: State) -> State:
    """Let CP-SAT go on where bounds end for another reason than time."""
    from solver.formulation.engine import Beginning  # noqa: PLC0415 (rarely needed)

    first: Result = state.answer
    state.partner.end()
    try:
        answer = _formulated(question, Beginning(known=first.mapping, effort_s=MOST_EFFORT_S))
    except TooLargeError as error:
        return replace(state, work=state.work.together(Statistics(cp_sat=f"refused: {error}")))
    told = replace(answer.statistics, cp_sat=AFTER_BOUNDS, cp_sat_seconds=answer.statistics.seconds)
    answer = replace(
        answer, perfect_factors=first.perfect_factors, even_tiles=first.even_tiles, statistics=told
    )
    if answer.termination is Termination.INTERRUPTED and not question.is_stopped:
        answer = replace(answer, termination=first.termination)  # CP-SAT's effort was spent
    return state.told(answer.with_bound_of(first), is_formulated=True)


# ---------------------------------------------------------------------------- the table


def _is_by_bounds(question: Question, _: State) -> bool:
    return question.by_bounds


def _is_formulated(_: Question, state: State) -> bool:
    return state.is_formulated


STAGES = (
    Stage("dense data", BOUNDS, _is_sparse, _without_zeros, (DIVISORS,), share=0.25, most_s=5.0),
    Stage("low EDP", BOUNDS, _is_sparse_and_fast, _frugal, (DIVISORS,), share=0.25, most_s=10.0),
    Stage("bounds", BOUNDS, _is_sparse, _on_sparse_data, SCOPES),
    Stage("bounds", BOUNDS, _is_by_bounds, partial(patiently, _by_bounds), SCOPES),
    Stage("feasibility", CP_SAT, is_stuck, feasibility, most_s=60.0),
    Stage("bounds again", BOUNDS, is_stuck, partial(again, _by_bounds), SCOPES),
    Stage("divisors", CP_SAT, _is_alone_with_remainders, _alone_on_divisors, (DIVISORS,), share=0.5),
    Stage("all mappings", CP_SAT, _is_alone, _alone),
    Stage("simple mapping", MODEL, _is_by_bounds, _simplest, ()),
    Stage("divisors", CP_SAT, _has_open_divisors, _after_bounds_on_divisors, (DIVISORS,), share=0.5),
    Stage("all mappings", CP_SAT, _is_left_to_cp_sat, _after_bounds),
    Stage("reasons", CP_SAT, is_infeasible, reasons, ()),
    Stage("simple mapping", MODEL, _is_formulated, _simplest, ()),
)
"""The stages of a search for the best mapping of an Einsum, in order."""


def map_einsum(
    mapspace: Mapspace,
    options: Options = Options(),
    on_progress: ProgressCallback | None = None,
    should_stop: StopCallback | None = None,
    known: Priced | None = None,
    *,
    reasons: bool = True,
) -> Result:
    """Find the best mapping of an Einsum, through the `STAGES` that are due, or say why there is none.

    Parameters
    ----------
    mapspace
        The problem, the architecture, and what the user allows.
    options
        Objectives (default: those of the mapspace), limits, seed, engine.
    on_progress
        Called from time to time with incumbent and bound.
    should_stop
        Asked often; once it answers True the incumbent is returned with its bound.
    known
        A mapping to begin with.
    reasons
        Whether an INFEASIBLE result says why.

    Returns
    -------
    Result
        OPTIMAL only if the bound meets the value of the mapping by the plain cost model, in integers. Of
        sparse data, see `solver.sparse_search.map_sparse_by_bounds`.

    Raises
    ------
    ValueError
        The mapspace has what searches do not know, see `Mapspace.check_searchable`; under rules that are not
        simple, what `solver.formulation.model.check_formulated` refuses.
    TooLargeError
        Words are too many to be counted in 64 bits, or extents too many for CP-SAT alone.
    ContradictionError, ModelError
        Parts of the program disagree: a defect, never an answer.
    """
    own = mapspace if mapspace.sparsity is None else searchable(mapspace)
    question = Question(own, options, on_progress, should_stop, reasons)
    with _beside(question) as partner:
        answer: Result = through(STAGES, question, State(known=known, partner=partner))
    work = answer.statistics
    if question.is_shared:
        remark, seconds = work.cp_sat or partner.remark or NOT_NEEDED, work.cp_sat_seconds + partner.seconds
        work = replace(work, cp_sat=remark, cp_sat_seconds=seconds)
    elif question.by_cp_sat and options.engine == AUTO:
        work = replace(work, cp_sat=ALONE_FOR_RULES)
    return replace(answer, statistics=work)


@contextmanager
def _beside(question: Question) -> Iterator[Partner]:
    """Return what searches beside bounds, until the end."""
    if not question.is_shared:
        yield ALONE
        return
    from solver.portfolio import Companion  # noqa: PLC0415 (most searches are by bounds alone)

    with Companion(question.mapspace, question.options) as companion:
        yield companion
