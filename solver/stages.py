"""How one Einsum is searched: a table of stages, read from top to bottom, and the one way through it.

Bounds lead the search, and say little about what fits: where the constraints leave hardly any mapping, or
none, they may take long. The feasibility model of `solver.explain` knows no costs, but decides that quickly.
CP-SAT searches what bounds do not know, and what they leave open for another reason than time.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar

from model.cost import evaluate_in
from model.extents import PERFECT
from model.mapping import Mapping
from model.mapspace import Mapspace
from model.objective import EDP, LATENCY
from model.orders import in_hardware_order, rearranged
from model.sparse import FIXED_POINT
from solver.result import (
    AUTO,
    BOUNDS,
    CP_SAT,
    HEURISTIC,
    MODEL,
    PATIENCE_S,
    REMAINDERS_S,
    Clock,
    Narrower,
    Options,
    Phase,
    Priced,
    Progress,
    ProgressCallback,
    Result,
    Statistics,
    Status,
    StopCallback,
    Stopwatch,
    Termination,
    TooLargeError,
    with_bound,
    with_gap,
    within_loop_limit,
)
from solver.search.drawn import drawn
from solver.search.mapper import DIVISORS, EVERYTHING, SCOPES, SearchScope, map_by_bounds
from solver.search.orders import map_orders
from solver.search.shared import ALONE, Partner
from solver.search.stopping import Stop
from solver.search.trivial import trivial_bound
from solver.simplest import simplified
from solver.sparse_search import judged, map_sparse_by_bounds, searchable, without_zeros

T = TypeVar("T")

RESERVE_S = 1.0
"""Seconds before the time limit (half of it, if it is shorter) that are kept for the feasibility check: a
search that has not begun to list paths by then has no time to find a mapping."""

MOST_EFFORT_S = 30.0
"""Deterministic seconds that CP-SAT has after bounds ended for another reason than time."""

AFTER_BOUNDS, ALONE_FOR_RULES = "after bounds", "alone: bounds do not support all constraints"
NOT_NEEDED = "not used: bounds needed no help"

UNSEARCHED = (Termination.MEMORY_LIMIT, Termination.CHOICES, Termination.LOOP_LIMIT)
"""How searches by bounds end that leave something to CP-SAT alone."""

FIRST_S = 0.5
"""Processor seconds in which a first mapping is looked for once time is over."""

WITHOUT_MAPPING = (Termination.MEMORY_LIMIT, Termination.CHOICES, Termination.REMAINDER_LIMIT)
"""How searches by bounds end that have not looked at all mappings, though there was time."""


SPARSE, ORDERS = "sparse data", "orders of memories"
"""The routes of questions about sparse data, and about memories in any order; others are the engines."""

EVERY_ROUTE = (SPARSE, ORDERS, BOUNDS, AUTO, CP_SAT)

# ------------------------------------------------------------------------- what is asked


@dataclass(frozen=True)
class EinsumQuestion:
    """What is searched and how, as `map_einsum` takes it."""

    mapspace: Mapspace
    options: Options
    on_progress: ProgressCallback | None = None
    should_stop: StopCallback | None = None
    wants_reasons: bool = True

    @property
    def objectives(self) -> tuple[str, ...]:
        """What is minimised."""
        return self.options.objectives_for(self.mapspace)

    @property
    def is_stopped(self) -> bool:
        """Whether the caller wants the search to end."""
        return self.should_stop is not None and self.should_stop()

    @property
    def route(self) -> str:
        """Which stages come, see `Stage.routes`."""
        if self.mapspace.sparsity is not None:
            return SPARSE
        if self.mapspace.free_order:
            return ORDERS
        return self.options.engine if self.mapspace.has_simple_rules else CP_SAT

    def within(self, clock: Clock, share: float = 1.0, most_s: float = math.inf) -> EinsumQuestion:
        """Return the question for a share of the time that a clock leaves, and so many seconds at most."""
        passed, left_s, told = clock.seconds, clock.left_s, self.on_progress

        def report(progress: Progress) -> None:
            assert told is not None
            told(replace(progress, seconds=progress.seconds + passed))

        limit_s = most_s if left_s is None else min(most_s, left_s * share)
        is_free = left_s is None and limit_s == math.inf
        options = replace(self.options, time_limit_s=None if is_free else limit_s)
        return replace(self, options=options, on_progress=None if told is None else report)

    def about(self, mapspace: Mapspace) -> EinsumQuestion:
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
    is_formulated
        Whether CP-SAT has searched.
    dense
        What was found for the same data without zeros.
    """

    answer: Any = None
    work: Statistics = field(default_factory=Statistics)
    known: Priced | None = None
    partner: Partner = ALONE
    is_stuck: bool = False
    is_formulated: bool = False
    dense: Result | None = None

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
    routes
        Of the questions for which it comes.
    search
        What it does.
    is_due
        Whether it comes as things are; always, unless given.
    scopes
        Which mappings it looks at, narrower ones first. Bounds measure what each of several scopes takes.
    share
        Of the time that is left, at most.
    most_s
        Seconds, at most.
    """

    name: str
    engine: str
    routes: tuple[str, ...]
    search: Callable[[EinsumQuestion, State], State]
    scopes: tuple[SearchScope, ...] = (EVERYTHING,)
    share: float = 1.0
    most_s: float = math.inf
    is_due: Callable[[EinsumQuestion, State], bool] | None = None


def through(stages: Sequence[Stage], question: EinsumQuestion, state: State) -> Any:
    """Go through the stages that are due, one after the other; return the answer with its statistics."""
    clock = Clock(question.options.time_limit_s)
    for stage in stages:
        if question.route not in stage.routes or (stage.is_due and not stage.is_due(question, state)):
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


def _without_zeros(question: EinsumQuestion, state: State) -> State:
    """Search dense data; their best mapping is the first one of sparse data."""
    options = replace(question.options, objectives=question.objectives)
    dense = map_by_bounds(without_zeros(question.mapspace), options, None, question.should_stop)
    every = [None if state.known is None else state.known.mapping, dense.mapping]
    priced = [judged(question.mapspace, own) for own in every if own is not None]
    best = _best_of(question.objectives, priced)
    return replace(state, known=best, dense=dense)


def _frugal(question: EinsumQuestion, state: State) -> State:
    """Search the least EDP; its mapping is another one to begin with."""
    mapspace, options = DIVISORS.of(question.mapspace), Options((EDP,), question.options.time_limit_s)
    known = None if state.known is None else judged(mapspace, state.known.mapping)
    found = map_sparse_by_bounds(mapspace, options, None, question.should_stop, known)
    return replace(state, known=_best_of(question.objectives, [state.known, found.found]))


def _on_sparse_data(question: EinsumQuestion, state: State) -> State:
    """Search sparse data by bounds; the feasibility model does not know their room."""
    answer = question.ask(map_sparse_by_bounds, state.known)
    return state.told(replace(answer, dense=state.dense))


def _over_orders(question: EinsumQuestion, state: State) -> State:
    """Search memories in any order, by bounds alone."""
    return state.told(question.ask(map_orders))


def _best_of(objectives: Sequence[str], every: Sequence[Priced | None]) -> Priced | None:
    found = (own for own in every if own is not None)
    return min(found, key=lambda own: [own.evaluation.value(name) for name in objectives], default=None)


# ---------------------------------------------------------------- bounds, and what fits at all


class Patience:
    """Follows a search, and stops it once it has looked for a mapping in vain for too long."""

    def __init__(self, question: EinsumQuestion, has_mapping: bool = False) -> None:
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


def patiently(
    search: Callable[[EinsumQuestion, State], Any], question: EinsumQuestion, state: State
) -> State:
    """Search until there is a mapping, or for as long as patience lasts."""
    patience = Patience(question, state.known is not None)
    followed = replace(question, on_progress=patience.hear, should_stop=patience.stop)
    answer = search(followed, state)
    gave_up = patience.is_over and answer.termination is Termination.INTERRUPTED
    found_nothing = answer.status is Status.UNKNOWN and answer.termination in WITHOUT_MAPPING
    return state.told(answer, is_stuck=gave_up or found_nothing)


def is_stuck(_: EinsumQuestion, state: State) -> bool:
    """Whether bounds have found nothing, and feasibility does not say that nothing fits."""
    return state.is_stuck


def feasibility(question: EinsumQuestion, state: State) -> State:
    """Decide whether anything fits: a mapping to begin with, or the reasons why not, if they are wanted."""
    late = state.answer.found  # between the decision to stop and the end of the search
    if late is not None:
        return replace(state, known=late)
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


def again(search: Callable[[EinsumQuestion, State], Any], question: EinsumQuestion, state: State) -> State:
    """Search again, with what feasibility has found."""
    answer = search(question, state)
    return state.told(answer.with_bound_of(state.answer))


def _by_bounds(question: EinsumQuestion, state: State) -> Result:
    """Search dense data by bounds, with a partner beside them."""
    return question.ask(map_by_bounds, state.known, state.partner)


def is_infeasible(question: EinsumQuestion, state: State) -> bool:
    """Whether reasons are wanted and not known; they know no limit on loops."""
    is_wanted = question.wants_reasons and question.mapspace.max_temporal_loops is None
    return is_wanted and state.answer.status is Status.INFEASIBLE and not state.answer.reasons


def reasons(question: EinsumQuestion, state: State) -> State:
    """Find the reasons why nothing fits."""
    from solver.explain import explain_infeasible, explain_sparse, reasons_time_s  # noqa: PLC0415 (rare)

    _report_explanation(question)
    explain = explain_sparse if question.route == SPARSE else explain_infeasible
    time_s = reasons_time_s(question.options.time_limit_s)
    found = explain(question.mapspace, question.should_stop, time_s)
    return replace(state, answer=replace(state.answer, reasons=found))


def _report_explanation(question: EinsumQuestion) -> None:
    if question.on_progress is not None:
        question.on_progress(Progress(Phase.EXPLANATION, 0.0, question.objectives[0]))


def _simplest(question: EinsumQuestion, state: State) -> State:
    """Return a simple mapping of the value, and what the result says of gap and loop limit."""
    mapspace = question.mapspace
    answer = with_gap(simplified(mapspace, state.answer), question.options.gap)
    return replace(state, answer=within_loop_limit(mapspace, answer))


# ------------------------------------------------------------------------------- CP-SAT


def _ended_early(question: EinsumQuestion, state: State) -> bool:
    """Whether bounds ended for another reason than time, and CP-SAT may go on."""
    if state.answer.termination not in UNSEARCHED or state.partner.is_refused:
        return False
    from solver.portfolio import is_worth_a_process  # noqa: PLC0415 (most searches are by bounds)

    limit_s = question.options.time_limit_s
    left_s = None if limit_s is None else max(0.0, limit_s - state.work.seconds)
    return is_worth_a_process(replace(question.options, time_limit_s=left_s))


def _leaves_divisors(question: EinsumQuestion, state: State) -> bool:
    """Whether bounds leave to CP-SAT mappings without remainders, too."""
    perfect = state.answer.perfect_factors
    is_open = perfect is not None and perfect.status not in (Status.OPTIMAL, Status.INFEASIBLE)
    return is_open and _ended_early(question, state)


def _formulated(question: EinsumQuestion, known: Mapping | None) -> Result:
    """Search by CP-SAT, within the default limit where loops may have remainders and there is no other.

    It has a process of its own where it is asked for: time and memory are kept to. After bounds, its effort
    is limited.
    """
    from solver.formulation.engine import Beginning, map_by_formulation  # noqa: PLC0415 (takes a second)
    from solver.portfolio import map_by_cp_sat  # noqa: PLC0415 (most searches are by bounds)

    options = question.options
    is_limited = question.mapspace.factors != PERFECT and options.time_limit_s is None
    if is_limited:
        question = replace(question, options=replace(options, time_limit_s=REMAINDERS_S))
    beginning = Beginning(known=known, effort_s=MOST_EFFORT_S if question.route == AUTO else math.inf)
    answer = question.ask(map_by_formulation if options.engine == BOUNDS else map_by_cp_sat, beginning)
    if is_limited and answer.termination is Termination.TIME_LIMIT:
        return replace(answer, termination=Termination.REMAINDER_LIMIT)
    return answer


def _on_divisors(question: EinsumQuestion, state: State) -> State:
    """Let CP-SAT search mappings without remainders, or improve on those of bounds; or bounds under rules."""
    first: Result | None = state.answer
    known = None if first is None else first.mapping
    if known is not None and not known.divides(question.mapspace.problem.bound):
        known = None
    narrow = question.about(DIVISORS.of(question.mapspace))
    state.partner.close()
    try:
        if first is None and narrow.mapspace.rules and narrow.mapspace.has_simple_rules:
            answer: Result = _simplest(narrow, State(narrow.ask(map_by_bounds))).answer
        else:
            answer = _formulated(narrow, known)
    except TooLargeError:
        if first is None:
            raise
        return state
    if first is None:  # with remainders, nothing is proven yet
        bound, ending = trivial_bound(question.mapspace, answer.objective), Termination.MEMORY_LIMIT
        first = Result(Status.UNKNOWN, ending, answer.objectives, answer.units_per_pj, bound=bound)
    best = first if answer.value is None or answer.value >= (first.value or math.inf) else answer
    improved = replace(
        first,
        status=Status.UNKNOWN if best.mapping is None else Status.FEASIBLE,
        value=best.value,
        mapping=best.mapping,
        evaluation=best.evaluation,
        perfect_factors=Narrower.of(answer),
    )
    work = state.work.together(replace(answer.statistics, settled_by=()))
    return replace(state, answer=improved, work=work, is_formulated=True)


def _by_cp_sat(question: EinsumQuestion, state: State) -> State:
    """Search all mappings by CP-SAT: alone, or from where bounds have ended."""
    first: Result | None = state.answer
    known = state.known if first is None else first.found
    state.partner.close()
    try:
        answer = _formulated(question, None if known is None else known.mapping)
    except TooLargeError as error:
        if first is None or (question.route == CP_SAT and first.mapping is None):
            raise
        return replace(state, work=state.work.together(Statistics(cp_sat=f"refused: {error}")))
    if first is not None:
        answer = replace(answer, perfect_factors=first.perfect_factors, even_tiles=first.even_tiles)
        answer = answer.with_bound_of(first)
    is_spent = answer.termination is Termination.INTERRUPTED and not question.is_stopped
    if first is not None and question.route == AUTO:
        told = replace(answer.statistics, cp_sat=AFTER_BOUNDS, cp_sat_seconds=answer.statistics.seconds)
        ending = first.termination if is_spent else answer.termination
        answer = replace(answer, termination=ending, statistics=told)
    return state.told(answer, is_formulated=True)


# ------------------------------------------------------------------------ once time is over


def first_result(mapspace: Mapspace, options: Options, stop: Stop, known: Result | None = None) -> Result:
    """Return a mapping that takes milliseconds to find, if there is one, with a bound.

    Parameters
    ----------
    mapspace, options
        See `map_einsum`.
    stop
        When not to look any further.
    known
        The result of a search without a mapping; none: it did not begin.

    Returns
    -------
    Result
        FEASIBLE, or `known` where no mapping is found.
    """
    objectives = options.objectives_for(mapspace)
    known = known or _unsearched(mapspace, objectives)
    found, ordered = _drawn(mapspace, objectives[0], options.seed, stop)
    if found is None:
        return known
    value, perfect = found.evaluation.value(objectives[0]), known.perfect_factors
    if perfect is not None and found.mapping.divides(mapspace.problem.bound):
        least = None if perfect.bound is None else min(perfect.bound, value)
        perfect = Narrower(Status.FEASIBLE, value, least)
    mapped = replace(
        known,
        status=Status.FEASIBLE,
        value=value,
        bound=None if known.bound is None else min(known.bound, value),
        mapping=found.mapping,
        evaluation=found.evaluation,
        perfect_factors=perfect,
        mapspace=ordered,
    )
    is_best = mapped.bound == value
    return with_bound(mapped, value) if is_best else with_gap(mapped, options.gap)


def _unsearched(mapspace: Mapspace, objectives: tuple[str, ...]) -> Result:
    """The result of a search that did not begin."""
    is_sparse = mapspace.sparsity is not None
    bound = 0 if is_sparse else trivial_bound(mapspace, objectives[0])
    units = mapspace.architecture.units_per_pj * (FIXED_POINT if is_sparse else 1)
    return Result(Status.UNKNOWN, Termination.INTERRUPTED, objectives, units, bound=bound)


def _drawn(
    mapspace: Mapspace, objective: str, seed: int, stop: Stop
) -> tuple[Priced | None, Mapspace | None]:
    """A mapping, and the mapspace of its order where memories may lie in any."""
    if mapspace.sparsity is not None:
        dense = drawn(without_zeros(mapspace), objective, seed, stop)
        return None if dense is None else judged(mapspace, dense.mapping), None
    if not mapspace.free_order:
        return drawn(mapspace, objective, seed, stop), None
    hardware = in_hardware_order(mapspace)
    found = drawn(hardware, objective, seed, stop)
    if found is None:
        return None, None
    ordered, mapping = rearranged(mapspace, hardware, found.mapping)
    return Priced(mapping, evaluate_in(ordered, mapping)), ordered


class Late:
    """Says when to end once `stop` answers True: some processor time later."""

    def __init__(self, stop: Stop, seconds: float = FIRST_S) -> None:
        self._stop, self._seconds = stop, seconds
        self._since: float | None = None

    def __call__(self) -> bool:
        """Whether to end."""
        if self._since is None and self._stop():
            self._since = time.process_time()
        return self._since is not None and time.process_time() - self._since > self._seconds


def _first(question: EinsumQuestion, state: State) -> State:
    """Take a mapping that takes milliseconds to find."""
    answer = first_result(question.mapspace, question.options, Late(lambda: True), state.answer)
    return replace(state, answer=answer)


def _is_unknown(_: EinsumQuestion, state: State) -> bool:
    """Whether there is no mapping so far, though there may be one."""
    answer = state.answer
    return answer.status is Status.UNKNOWN and answer.termination is not Termination.LOOP_LIMIT


# ---------------------------------------------------------------------------- the table


def _is_about_latency(question: EinsumQuestion, _: State) -> bool:
    """Whether latency comes first: bounds on energy lead to fast mappings, too."""
    return question.objectives[0] == LATENCY


def _has_remainders(question: EinsumQuestion, state: State) -> bool:
    return question.mapspace.factors != PERFECT and state.known is None


def _is_formulated(_: EinsumQuestion, state: State) -> bool:
    return state.is_formulated


STAGES = (
    Stage("dense data", BOUNDS, (SPARSE,), _without_zeros, (DIVISORS,), 0.25, 5.0),
    Stage("low EDP", BOUNDS, (SPARSE,), _frugal, (DIVISORS,), 0.25, 10.0, _is_about_latency),
    Stage("bounds", BOUNDS, (SPARSE,), _on_sparse_data, SCOPES),
    Stage("bounds", BOUNDS, (ORDERS,), _over_orders, SCOPES),
    Stage("bounds", BOUNDS, (BOUNDS, AUTO), partial(patiently, _by_bounds), SCOPES),
    Stage("feasibility", CP_SAT, (BOUNDS, AUTO), feasibility, most_s=60.0, is_due=is_stuck),
    Stage("bounds again", BOUNDS, (BOUNDS, AUTO), partial(again, _by_bounds), SCOPES, is_due=is_stuck),
    Stage("simple mapping", MODEL, (BOUNDS, AUTO), _simplest, ()),
    Stage("divisors", CP_SAT, (AUTO,), _on_divisors, (DIVISORS,), 0.5, is_due=_leaves_divisors),
    Stage("all mappings", CP_SAT, (AUTO,), _by_cp_sat, is_due=_ended_early),
    Stage("divisors", CP_SAT, (CP_SAT,), _on_divisors, (DIVISORS,), 0.5, is_due=_has_remainders),
    Stage("all mappings", CP_SAT, (CP_SAT,), _by_cp_sat),
    Stage("reasons", CP_SAT, (SPARSE, BOUNDS, AUTO, CP_SAT), reasons, (), is_due=is_infeasible),
    Stage("simple mapping", MODEL, (AUTO, CP_SAT), _simplest, (), is_due=_is_formulated),
    Stage("first mapping", HEURISTIC, EVERY_ROUTE, _first, (), is_due=_is_unknown),
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
        simple, what `solver.formulation.model.check_formulated` refuses; or CP-SAT alone is to search sparse
        data, or memories in any order.
    TooLargeError
        Words are too many to be counted in 64 bits, or extents too many for CP-SAT alone.
    ContradictionError, ModelError
        Parts of the program disagree: a defect, never an answer.
    """
    if mapspace.sparsity is not None and options.engine == CP_SAT:
        raise ValueError("CP-SAT does not search sparse data: the engine must be auto or bounds")
    if mapspace.free_order and options.engine == CP_SAT:
        raise ValueError("CP-SAT supports memories in the order of the hardware only: use auto or bounds")
    own = mapspace if mapspace.sparsity is None else searchable(mapspace)
    question = EinsumQuestion(own, options, on_progress, should_stop, reasons)
    with closing(_partner(question)) as partner:
        answer: Result = through(STAGES, question, State(known=known, partner=partner))
    work = answer.statistics
    if question.route == AUTO:
        remark, seconds = work.cp_sat or partner.remark or NOT_NEEDED, work.cp_sat_seconds + partner.seconds
        work = replace(work, cp_sat=remark, cp_sat_seconds=seconds)
    elif question.route == CP_SAT and options.engine == AUTO:
        work = replace(work, cp_sat=ALONE_FOR_RULES)
    return replace(answer, statistics=work)


def _partner(question: EinsumQuestion) -> Partner:
    """Return what searches beside bounds."""
    if question.route != AUTO:
        return ALONE
    from solver.portfolio import Companion  # noqa: PLC0415 (most searches are by bounds alone)

    return Companion(question.mapspace, question.options)
