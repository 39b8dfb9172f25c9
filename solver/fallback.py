"""Searches that begin with a known mapping, and fall back on a feasibility check where they find none.

Bounds lead the search, and say little about what fits: where the constraints leave hardly any mapping, or
none, it may take long. The feasibility model of `solver.explain` knows no costs, but decides that quickly.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from model.extents import PERFECT
from model.mapspace import Mapspace
from solver.pareto import Front, pareto_front
from solver.result import (
    REMAINDERS_S,
    Narrower,
    Options,
    Phase,
    Progress,
    ProgressCallback,
    Reason,
    Result,
    Statistics,
    Status,
    StopCallback,
    Termination,
    TooLargeError,
    bounded,
    with_gap,
    within_loop_limit,
)
from solver.search.mapper import NARROWER_SHARE, SharedSearch
from solver.search.priced import Priced
from solver.search.shared import ALONE, Partner
from solver.search.trivial import trivial_bound
from solver.simplest import simplified

if TYPE_CHECKING:
    from solver.formulation.engine import Beginning

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

MOST_CHECK_S = 60.0
"""Seconds that the feasibility check may take."""


@dataclass(frozen=True)
class _Question:
    """What is searched and how, as `solver.map_einsum` takes it."""

    mapspace: Mapspace
    options: Options
    on_progress: ProgressCallback | None
    should_stop: StopCallback | None
    known: Priced | None = None
    wants_reasons: bool = True

    def report_explanation(self, seconds: float) -> None:
        """Report that the search for reasons begins, `seconds` after the start."""
        if self.on_progress is not None:
            objective, *_ = self.options.objectives or self.mapspace.objectives
            self.on_progress(Progress(Phase.EXPLANATION, seconds, objective))

    def after(self, seconds: float) -> _Question:
        """Return the question for the time that is left after so many seconds."""

        def report(progress: Progress) -> None:
            if self.on_progress is not None:
                self.on_progress(replace(progress, seconds=progress.seconds + seconds))

        options = self.options
        if options.time_limit_s is not None:
            options = replace(options, time_limit_s=max(0.0, options.time_limit_s - seconds))
        return replace(self, options=options, on_progress=report)


def map_from(
    mapspace: Mapspace,
    options: Options = Options(),
    on_progress: ProgressCallback | None = None,
    should_stop: StopCallback | None = None,
    known: Priced | None = None,
) -> Result:
    """Find the best mapping as `solver.map_einsum` does; a `known` mapping is the first incumbent."""
    return _presented(mapspace, options, _minimise(mapspace, options, on_progress, should_stop, known))


def _presented(mapspace: Mapspace, options: Options, result: Result) -> Result:
    """Return a result with a simple mapping of its value, and with what it says of gap and loop limit."""
    return within_loop_limit(mapspace, with_gap(simplified(mapspace, result), options.gap))


def map_by_any(
    mapspace: Mapspace,
    options: Options = Options(),
    on_progress: ProgressCallback | None = None,
    should_stop: StopCallback | None = None,
    known: Priced | None = None,
) -> Result:
    """Find the best mapping as `map_from` does, or by CP-SAT under rules that bounds do not know."""
    if mapspace.has_simple_rules:
        return map_from(mapspace, options, on_progress, should_stop, known)
    from solver.formulation.engine import map_by_formulation  # noqa: PLC0415 (takes a second)

    question = _Question(mapspace, options, on_progress, should_stop, known)
    return _presented(mapspace, options, _in_stages(question, map_by_formulation))


def _in_stages(question: _Question, formulate: Callable[..., Result]) -> Result:
    """Search by CP-SAT; where loops may have remainders, the best mapping without any comes first."""
    from solver.formulation.engine import Beginning  # noqa: PLC0415 (takes a second)

    if question.mapspace.factors == PERFECT or question.known is not None:
        known = None if question.known is None else question.known.mapping
        return _formulated(question, formulate, Beginning(known=known))
    first = _without_remainders(question, formulate)
    left = question.after(first.statistics.seconds)
    try:
        answer = _formulated(left, formulate, Beginning(known=first.mapping))
    except TooLargeError as error:
        if first.mapping is None:
            raise
        answer = _unproven(question, first, str(error))
    work = replace(first.statistics, settled_by=()).together(answer.statistics)
    return replace(answer, perfect_factors=Narrower.of(first), statistics=work)


def _without_remainders(question: _Question, formulate: Callable[..., Result]) -> Result:
    """Search mappings without remainders, by bounds if only these know all rules."""
    mapspace = replace(question.mapspace, factors=PERFECT)
    limit_s = question.options.time_limit_s
    options = replace(question.options, time_limit_s=None if limit_s is None else limit_s * NARROWER_SHARE)
    search = map_from if mapspace.rules and mapspace.has_simple_rules else formulate
    return search(mapspace, options, question.on_progress, question.should_stop)


def _unproven(question: _Question, first: Result, refusal: str) -> Result:
    """Return the best mapping without remainders where the formulation with them is too large."""
    return replace(
        first,
        status=Status.FEASIBLE,
        termination=Termination.MEMORY_LIMIT,
        bound=trivial_bound(question.mapspace, first.objective),
        later_bounds=(),
        evidence=(),
        statistics=Statistics(cp_sat=f"refused: {refusal}"),
    )


def _formulated(question: _Question, formulate: Callable[..., Result], beginning: Beginning) -> Result:
    """Search by CP-SAT, within the default limit where loops may have remainders and there is no other."""
    mapspace, options = question.mapspace, question.options
    is_limited = mapspace.factors != PERFECT and options.time_limit_s is None
    options = replace(options, time_limit_s=REMAINDERS_S) if is_limited else options
    answer = formulate(mapspace, options, question.on_progress, question.should_stop, beginning)
    if is_limited and answer.termination is Termination.TIME_LIMIT:
        return replace(answer, termination=Termination.REMAINDER_LIMIT)
    return answer


def map_or_explain(
    mapspace: Mapspace,
    options: Options = Options(),
    on_progress: ProgressCallback | None = None,
    should_stop: StopCallback | None = None,
    known: Priced | None = None,
    *,
    reasons: bool = True,
    partner: Partner = ALONE,
) -> Result:
    """Find the best mapping as `map_from` does, or say why there is none, if `reasons` are wanted.

    The search is interrupted if it has no mapping after `PATIENCE_S`, or still surveys shortly before the
    time limit, or runs out of memory before it begins. The feasibility model is asked then: either nothing
    fits, or the search begins again with a mapping that does. Rules that bounds do not know go to CP-SAT.
    """
    question = _Question(mapspace, options, on_progress, should_stop, known, reasons)
    if not mapspace.has_simple_rules:
        return _with_reasons(question, map_by_any(mapspace, options, on_progress, should_stop, known))
    search = _minimise if partner is ALONE else partial(_minimise, partner=partner)
    return _presented(mapspace, options, _with_fallback(search, question))


def formulate_or_explain(
    mapspace: Mapspace,
    options: Options = Options(),
    on_progress: ProgressCallback | None = None,
    should_stop: StopCallback | None = None,
) -> Result:
    """Find the best mapping as `solver.portfolio.map_by_cp_sat` does, or say why there is none."""
    from solver.portfolio import map_by_cp_sat  # noqa: PLC0415 (most searches are by bounds)

    question = _Question(mapspace, options, on_progress, should_stop)
    answer = _with_reasons(question, _in_stages(question, map_by_cp_sat))
    return _presented(mapspace, options, answer)


def map_by_all(
    mapspace: Mapspace,
    options: Options = Options(),
    on_progress: ProgressCallback | None = None,
    should_stop: StopCallback | None = None,
) -> Result:
    """Find the best mapping by bounds and, where they leave a gap, by CP-SAT, or say why there is none.

    With several jobs CP-SAT works beside bounds; with one it does not. What bounds do not know goes to CP-SAT
    alone: rules that are not simple, `Mapspace.max_temporal_loops` where it cuts off the optimum, and
    mapspaces too large for lattices.

    Raises
    ------
    ValueError
        There are rules that bounds do not know, and what the formulation does not state.
    """
    from solver.portfolio import Companion  # noqa: PLC0415 (most searches are by bounds alone)

    if not mapspace.has_simple_rules:
        answer = formulate_or_explain(mapspace, options, on_progress, should_stop)
        return replace(answer, statistics=replace(answer.statistics, cp_sat=ALONE_FOR_RULES))
    with Companion(mapspace, options) as companion:
        answer = map_or_explain(mapspace, options, on_progress, should_stop, partner=companion)
    remark = companion.remark or NOT_NEEDED
    asked = replace(answer.statistics, cp_sat=remark, cp_sat_seconds=companion.seconds)
    answer = replace(answer, statistics=asked)
    if answer.termination not in UNSEARCHED or companion.is_refused:
        return answer
    return _afterwards(_Question(mapspace, options, on_progress, should_stop), answer)


def _afterwards(question: _Question, first: Result) -> Result:
    """Let CP-SAT go on where bounds end for another reason than time."""
    from solver.formulation.engine import Beginning  # noqa: PLC0415 (rarely needed)
    from solver.portfolio import is_worth_a_process, map_by_cp_sat  # noqa: PLC0415

    left = question.after(first.statistics.seconds)
    if not is_worth_a_process(left.options):
        return first
    first = _divisors_first(left, first)
    left = question.after(first.statistics.seconds)
    if not is_worth_a_process(left.options):
        return first
    beginning = Beginning(known=first.mapping, effort_s=MOST_EFFORT_S)
    try:
        answer = _formulated(left, map_by_cp_sat, beginning)
    except TooLargeError as error:
        return replace(first, statistics=replace(first.statistics, cp_sat=f"refused: {error}"))
    told = replace(answer.statistics, cp_sat=AFTER_BOUNDS, cp_sat_seconds=answer.statistics.seconds)
    answer = replace(
        answer,
        perfect_factors=first.perfect_factors,
        even_tiles=first.even_tiles,
        statistics=first.statistics.together(told),
    )
    if answer.termination is Termination.INTERRUPTED and not _is_asked(question):
        answer = replace(answer, termination=first.termination)  # CP-SAT's effort was spent
    answer = _with_reasons(question, _with_bound_of(answer, first))
    return _presented(question.mapspace, question.options, answer)


def _divisors_first(question: _Question, first: Result) -> Result:
    """Let CP-SAT improve on the best mapping without remainders, where that is not proven."""
    from solver.formulation.engine import Beginning  # noqa: PLC0415 (rarely needed)
    from solver.portfolio import map_by_cp_sat  # noqa: PLC0415

    perfect, mapping = first.perfect_factors, first.mapping
    if perfect is None or perfect.status in (Status.OPTIMAL, Status.INFEASIBLE):
        return first
    known = mapping if mapping is not None and mapping.divides(question.mapspace.problem.bound) else None
    beginning = Beginning(known=known, effort_s=MOST_EFFORT_S)
    left_s = question.options.time_limit_s
    options = replace(question.options, time_limit_s=None if left_s is None else left_s * NARROWER_SHARE)
    narrow = replace(question.mapspace, factors=PERFECT)
    try:
        answer = map_by_cp_sat(narrow, options, question.on_progress, question.should_stop, beginning)
    except TooLargeError:
        return first
    best = first if answer.value is None or answer.value >= (first.value or math.inf) else answer
    return replace(
        first,
        status=Status.UNKNOWN if best.mapping is None else Status.FEASIBLE,
        value=best.value,
        mapping=best.mapping,
        evaluation=best.evaluation,
        perfect_factors=Narrower.of(answer),
        statistics=first.statistics.together(answer.statistics),
    )


def _is_asked(question: _Question) -> bool:
    """Whether the caller wants the search to end."""
    return question.should_stop is not None and question.should_stop()


def front_or_explain(
    mapspace: Mapspace,
    options: Options = Options(),
    on_progress: ProgressCallback | None = None,
    should_stop: StopCallback | None = None,
) -> Front:
    """Find the front as `pareto_front` does, or say why there is none; see `map_or_explain`."""
    front = _with_fallback(pareto_front, _Question(mapspace, options, on_progress, should_stop))
    most = mapspace.max_temporal_loops
    if most is None or all(point.mapping.temporal_loops <= most for point in front.points):
        return front
    # What takes the place of a point with too many loops is not known, nor what that would dominate.
    return replace(
        front, status=Status.UNKNOWN, termination=Termination.LOOP_LIMIT, points=(), open_ranges=()
    )


Answer = TypeVar("Answer", Result, Front)

Search = Callable[
    [Mapspace, Options, "ProgressCallback | None", "StopCallback | None", "Priced | None"], Answer
]
"""A search, with a mapping to begin with, if there is one."""


def _minimise(
    mapspace: Mapspace,
    options: Options,
    on_progress: ProgressCallback | None,
    should_stop: StopCallback | None,
    known: Priced | None,
    partner: Partner = ALONE,
) -> Result:
    """Search with a known mapping, whatever its number of temporal loops."""
    search = SharedSearch(mapspace, options, on_progress, should_stop, partner)
    return search.minimise(options.objectives or mapspace.objectives, known=known)


def _with_fallback(search: Search[Answer], question: _Question) -> Answer:
    """Search, with a feasibility check where needed; add the reasons why nothing fits, if asked for."""
    patience = _Patience(question)
    answer = search(question.mapspace, question.options, patience.hear, patience.stop, question.known)
    gave_up = patience.is_over and answer.termination is Termination.INTERRUPTED
    endings = (Termination.MEMORY_LIMIT, Termination.CHOICES, Termination.REMAINDER_LIMIT)
    found_nothing = answer.status is Status.UNKNOWN and answer.termination in endings
    if gave_up or found_nothing:
        answer = _after_check(search, question, answer)
    return _with_reasons(question, answer)


def _with_reasons(question: _Question, answer: Answer) -> Answer:
    """Add the reasons why nothing fits, if asked for; they know no limit on loops."""
    is_explained = question.mapspace.max_temporal_loops is None and question.wants_reasons
    if answer.status is not Status.INFEASIBLE or answer.reasons or not is_explained:
        return answer
    from solver.explain import explain_infeasible, reasons_time_s  # noqa: PLC0415 (rarely needed)

    spent_s = answer.statistics.seconds
    question.report_explanation(spent_s)
    time_s = reasons_time_s(question.options.time_limit_s, spent_s)
    return replace(answer, reasons=explain_infeasible(question.mapspace, question.should_stop, time_s))


class _Patience:
    """Follows a search, and stops it once it has looked for a mapping in vain for too long."""

    def __init__(self, question: _Question) -> None:
        limit_s = question.options.time_limit_s or math.inf
        self._question = question
        self._survey_ends = time.monotonic() + limit_s - min(RESERVE_S, limit_s / 2)
        self._search_since: float | None = None
        self._has_mapping = question.known is not None
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
        if self._question.should_stop is not None and self._question.should_stop():
            return True
        if not self._has_mapping:
            ends = self._survey_ends if self._search_since is None else self._search_since + PATIENCE_S
            self.is_over = time.monotonic() > ends
        return self.is_over


def _after_check(search: Search[Answer], question: _Question, first: Answer) -> Answer:
    """Check whether anything fits, and search again in the time that is left."""
    start = time.monotonic()
    late = _late_mapping(first)
    found = late or _feasibility(question, first)
    spent = replace(
        first.statistics,
        seconds=first.statistics.seconds + time.monotonic() - start,
        mappings_priced=first.statistics.mappings_priced + (late is None and isinstance(found, Priced)),
    )
    if isinstance(found, tuple):
        return replace(_nothing_fits(first), reasons=found, statistics=spent)
    left = question.after(spent.seconds)
    answer = search(question.mapspace, left.options, left.on_progress, question.should_stop, found)
    answer = replace(answer, statistics=spent.together(answer.statistics))
    return _with_bound_of(answer, first)


def _with_bound_of(answer: Answer, first: Answer) -> Answer:
    """Return an answer with the bound of the search before it, where that is the higher one.

    A mapping that meets it is proven to be the best, unless later objectives are still open.
    """
    if not isinstance(answer, Result) or not isinstance(first, Result) or first.bound is None:
        return answer
    if answer.status not in (Status.FEASIBLE, Status.UNKNOWN) or first.bound <= (answer.bound or 0):
        return answer
    return replace(bounded(answer, first.bound), evidence=first.evidence)


def _late_mapping(first: Result | Front) -> Priced | None:
    """Return a mapping that was found between the decision to stop and the end of the search."""
    results = first.points if isinstance(first, Front) else (first,)
    for result in results:
        if result.mapping is not None and result.evaluation is not None:
            return Priced(result.mapping, result.evaluation)
    return None


def _feasibility(question: _Question, first: Result | Front) -> Priced | tuple[Reason, ...] | None:
    """Return a mapping, or the reasons why there is none, if asked for; None if that is not decided."""
    from solver.explain import Verdict, diagnose  # noqa: PLC0415 (most searches end otherwise)

    question.report_explanation(first.statistics.seconds)
    left_s = question.after(first.statistics.seconds).options.time_limit_s
    limit_s = MOST_CHECK_S if left_s is None else min(MOST_CHECK_S, left_s)
    diagnosis = diagnose(question.mapspace, question.should_stop, limit_s, question.wants_reasons)
    if diagnosis.verdict is Verdict.INFEASIBLE:
        return diagnosis.reasons
    witness = diagnosis.witness
    return None if witness is None else Priced(witness.mapping, witness.evaluation)


def _nothing_fits(first: Answer) -> Answer:
    """Return the answer of a search that was cut short, once it is known that there is no mapping."""
    if isinstance(first, Front):
        return replace(first, status=Status.INFEASIBLE, termination=Termination.PROVEN, open_ranges=())
    return replace(first, status=Status.INFEASIBLE, termination=Termination.PROVEN, bound=None)
