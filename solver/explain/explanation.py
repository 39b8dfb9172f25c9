"""Why no mapping exists: conflicts of constraints, their arithmetic, and what would resolve them."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction

from model.mapspace import Mapspace
from model.source_ref import SourceRef
from solver.explain.conflict import Conflict, find_conflicts
from solver.explain.constraints import (
    Capacity,
    Constraint,
    FactorLimit,
    Keeping,
    Mesh,
    Parallelism,
    Utilization,
    constraints_of,
    droppable,
    twins_of,
)
from solver.explain.feasibility import Feasibility, Verdict, Witness
from solver.explain.levers import levers
from solver.explain.nearest import Nearest, nearest
from solver.explain.wording import shortfall, statement_text
from solver.result import Clock, ContradictionError, Reason, Shortfall, Statement, StopCallback

MOST_CONFLICTS = 3
"""Conflicts that share no constraint, of which as many are looked for."""

DEFAULT_TIME_LIMIT_S = 60.0

LEAST_TIME_S = 2.0
"""Seconds for the reasons, however short the time limit is: most conflicts are found in that time."""

NOT_FOUND = Reason("the conflict between the constraints was not found in the time given")

MOST_TELLING = (Capacity, Utilization, Parallelism, Mesh)
"""Whose arithmetic makes the headline."""


@dataclass(frozen=True)
class Diagnosis:
    """Whether a mapspace allows a mapping: one that it allows, or why not, with one reason per conflict.

    Parameters
    ----------
    verdict
        UNKNOWN if there was no time to decide.
    reasons
        One at least if INFEASIBLE, and they were asked for.
    witness
        If FEASIBLE.
    """

    verdict: Verdict
    reasons: tuple[Reason, ...] = ()
    witness: Witness | None = None


def reasons_time_s(time_limit_s: float | None, spent_s: float = 0.0) -> float:
    """Return the seconds for reasons: what a search left of its limit, if any, but enough for cheap ones."""
    if time_limit_s is None:
        return DEFAULT_TIME_LIMIT_S
    return min(DEFAULT_TIME_LIMIT_S, max(LEAST_TIME_S, time_limit_s - spent_s))


def diagnose(
    mapspace: Mapspace,
    should_stop: StopCallback | None = None,
    time_limit_s: float = DEFAULT_TIME_LIMIT_S,
    with_reasons: bool = True,
) -> Diagnosis:
    """Find out whether `mapspace` allows a mapping at all, and why it does not.

    Parameters
    ----------
    should_stop
        Asked often; once it answers True, what was found so far is returned.
    time_limit_s
        Seconds after which the same happens; once it is known that nothing fits, the reasons have
        `LEAST_TIME_S` at the least.
    with_reasons
        Whether to look for the conflict if there is no mapping.

    Raises
    ------
    ContradictionError
        As of `find_conflict`.
    """
    clock = Clock(time_limit_s, should_stop)
    constraints = constraints_of(mapspace)
    feasibility = Feasibility(mapspace, constraints, clock.stop)
    answer = feasibility.decide(constraints)
    if answer.verdict is not Verdict.INFEASIBLE:
        return Diagnosis(answer.verdict, witness=answer.witness)
    if not with_reasons:
        return Diagnosis(answer.verdict)
    clock = Clock(max(LEAST_TIME_S, time_limit_s - clock.seconds), should_stop)
    feasibility = feasibility.until(clock.stop)
    conflicts = find_conflicts(feasibility, constraints, MOST_CONFLICTS)
    reasons = tuple(_reasons(feasibility, constraints, conflicts, clock))
    return Diagnosis(answer.verdict, reasons or (NOT_FOUND,))


def explain_infeasible(
    mapspace: Mapspace,
    should_stop: StopCallback | None = None,
    time_limit_s: float = DEFAULT_TIME_LIMIT_S,
) -> tuple[Reason, ...]:
    """Return why a mapspace that is known to allow no mapping does not.

    Parameters
    ----------
    mapspace
        One that was proven to be empty.
    should_stop, time_limit_s
        As for `diagnose`.

    Returns
    -------
    tuple[Reason, ...]
        One at least: `NOT_FOUND` where there was no time.

    Raises
    ------
    ContradictionError
        There is a mapping after all, or as of `find_conflict`.
    """
    diagnosis = diagnose(mapspace, should_stop, time_limit_s)
    if diagnosis.verdict is Verdict.FEASIBLE:
        raise ContradictionError("the search found no mapping, but there is one")
    return diagnosis.reasons or (NOT_FOUND,)


def _reasons(
    feasibility: Feasibility,
    constraints: Collection[Constraint],
    conflicts: Collection[Conflict],
    clock: Clock,
) -> Iterator[Reason]:
    """Yield each conflict with its arithmetic and its levers, all within its share of the time."""
    mapspace = feasibility.mapspace
    for told, conflict in enumerate(conflicts):
        own = clock.share(len(conflicts) - told)
        model = feasibility.until(own.stop)
        others = {c for other in conflicts if other is not conflict for c in other.constraints}
        others |= {twin for c in others for twin in twins_of(c, constraints)}
        rest = [c for c in constraints if c not in others]
        given = [c for c in constraints if not droppable(c)]
        asked = [c for c in constraints if isinstance(c, Keeping)]
        shortfalls = _shortfalls(model, given, conflict.constraints, asked)
        together = [*given, *conflict.constraints]
        statements = tuple(
            Statement(statement_text(c, mapspace), _places(model, together, c)) for c in conflict.constraints
        )
        changes, complete = levers(model, rest, conflict.constraints, own)
        yield Reason(
            text=_headline(conflict, shortfalls, mapspace),
            sources=tuple(dict.fromkeys(source for s in statements for source in s.sources)),
            constraints=statements,
            irreducible=conflict.irreducible,
            shortfalls=shortfalls,
            levers=changes,
            complete=complete,
        )


def _places(
    feasibility: Feasibility, together: Collection[Constraint], constraint: Constraint
) -> tuple[SourceRef, ...]:
    """Return where one of the constraints in conflict `together` is written.

    Without the line of a multiple buffering there may be as little room for the others.
    """
    if not isinstance(constraint, Capacity) or constraint.storage.multiple_buffering == 1:
        return constraint.sources
    single = Capacity(constraint.level, replace(constraint.storage, multiple_buffering=Fraction(1)))
    others = [c for c in together if c != constraint]
    is_buffering_idle = feasibility.decide([*others, single]).verdict is Verdict.INFEASIBLE
    return constraint.sources[:1] if is_buffering_idle else constraint.sources


def _shortfalls(
    feasibility: Feasibility,
    given: Collection[Constraint],
    conflict: Collection[Constraint],
    asked: Collection[Keeping],
) -> tuple[Shortfall, ...]:
    """Return the arithmetic of a conflict: what is needed if only its other constraints and `given` hold.

    Where that leaves open what a level keeps, it is told of a mapping that keeps what is `asked` for.
    """
    together = [*given, *conflict]
    shortfalls = tuple(_missing(feasibility, together, conflict, asked))
    # Nobody limits an axis of a single child, but it may be what has no room.
    return shortfalls or tuple(_missing(feasibility, together, given, asked))


def _missing(
    feasibility: Feasibility,
    together: Collection[Constraint],
    blamed: Collection[Constraint],
    asked: Collection[Keeping],
) -> Iterator[Shortfall]:
    """Yield for each of `blamed`, in conflict `together`, by how much it is too small for the others."""
    for constraint in (c for kind in MOST_TELLING for c in blamed if isinstance(c, kind)):
        if any(_is_share_of(constraint, other) for other in together):
            continue
        others = [c for c in together if c != constraint]
        suffices = nearest(feasibility, others, constraint)
        if suffices is None or not suffices.exact:
            continue
        if isinstance(constraint, Capacity):
            suffices = _keeping(feasibility, [*others, *asked], constraint, suffices)
        missing = shortfall(constraint, suffices, feasibility.mapspace)
        if missing is not None:
            yield missing


def _keeping(
    feasibility: Feasibility, wishes: Collection[Constraint], capacity: Capacity, suffices: Nearest
) -> Nearest:
    """Return `suffices` with a mapping that has all `wishes` at this capacity, where there is one."""
    storage = replace(capacity.storage, size_words=suffices.value, multiple_buffering=Fraction(1))
    witness = feasibility.decide([*wishes, Capacity(capacity.level, storage)]).witness
    return suffices if witness is None else replace(suffices, witness=witness)


def _is_share_of(hardware: Constraint, asked: Constraint) -> bool:
    """Whether `asked` is a share of `hardware`, and grows with it: no larger size is needed then."""
    match hardware, asked:
        case Mesh(), Parallelism():
            return True
        case Capacity(level=level), Utilization(level=filled):
            return level == filled
    return False


def _headline(conflict: Conflict, shortfalls: Collection[Shortfall], mapspace: Mapspace) -> str:
    for missing in shortfalls:
        return missing.text
    if not conflict.constraints:
        return "the hierarchy allows no mapping, whatever the constraints are"
    limits = [c for c in conflict.constraints if isinstance(c, FactorLimit)]
    dims = {c.rule.dim for c in limits}
    if len(limits) == len(conflict.constraints) and len(dims) == 1:
        (dim,) = dims
        bound = mapspace.problem.bound[dim]
        return f"the factors of {dim} that these lines allow cannot have its bound {bound:,} as their product"
    count = len(conflict.constraints)
    return "this cannot hold" if count == 1 else f"these {count} constraints cannot hold together"
