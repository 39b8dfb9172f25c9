"""Why no mapping exists: conflicts of constraints, their arithmetic, and what would resolve them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from model.cost import evaluate_in
from model.extents import ANY, PERFECT
from model.mapspace import Mapspace
from model.places import gathered, on_places, tidied
from model.source_ref import SourceRef
from solver.explain.constraints import droppable, twins_of, written_together
from solver.explain.feasibility import Feasibility, Verdict, Witness
from solver.explain.levers import Nearest, levers, nearest_sufficient
from solver.explain.user_rules import any_mapping, rules_reason
from solver.explain.wording import shortfall, statement_text
from solver.formulation.integers import LARGEST_BOUND
from solver.formulation.requirements import (
    AxisSplit,
    Constraint,
    ConstraintSet,
    FactorLimit,
    KeptOrBypassed,
    Mesh,
    Parallelism,
    SpatialOrder,
    TileCapacity,
    Utilization,
    Whole,
    constraints_of,
)
from solver.result import (
    Clock,
    ContradictionError,
    Reason,
    Shortfall,
    Statement,
    Status,
    StopCallback,
)

MOST_CONFLICTS = 3
"""The number of conflicts without a common constraint that are reported."""

DEFAULT_TIME_LIMIT_S = 60.0
"""Seconds for the reasons, of all layers of a network together; later layers are marked as not examined."""

LEAST_TIME_S = 2.0
"""Seconds for the reasons, however short the time limit is: most conflicts are found in that time."""

NOT_FOUND = Reason("the conflicting constraints were not identified within the time limit")

HEADLINE_ORDER = (TileCapacity, Utilization, Parallelism, Mesh)
"""Kinds of constraints with arithmetic, the best headline first."""

DROPPED_FIRST = (
    Mesh,
    TileCapacity,
    Utilization,
    Parallelism,
    SpatialOrder,
    AxisSplit,
    KeptOrBypassed,
    Whole,
    FactorLimit,
)
"""The order in which kinds are dropped from a conflict: one among factors alone is the most informative."""


@dataclass(frozen=True)
class Diagnosis:
    """Whether a mapspace allows a mapping, and why it does not."""

    verdict: Verdict  # UNKNOWN if there was no time to decide
    reasons: tuple[Reason, ...] = ()  # one per conflict, at least one if INFEASIBLE and asked for
    witness: Witness | None = None  # a mapping, if FEASIBLE


@dataclass(frozen=True)
class Conflict:
    """Constraints that cannot hold together."""

    constraints: tuple[Constraint, ...]
    irreducible: bool  # whether each was found to be necessary: a search that was stopped may not know


def reasons_time_s(time_limit_s: float | None, spent_s: float = 0.0) -> float:
    """Return the seconds for reasons: what a search left of its time limit, but at least `LEAST_TIME_S`."""
    if time_limit_s is None:
        return DEFAULT_TIME_LIMIT_S
    return min(DEFAULT_TIME_LIMIT_S, max(LEAST_TIME_S, time_limit_s - spent_s))


def diagnose(
    mapspace: Mapspace,
    should_stop: StopCallback | None = None,
    time_limit_s: float = DEFAULT_TIME_LIMIT_S,
    with_reasons: bool = True,
) -> Diagnosis:
    """Decide whether `mapspace` allows a mapping at all, and find out why it does not.

    Once `should_stop` returns True, or the time is over, the results so far are returned; once infeasibility
    is proven, the reasons have at least `LEAST_TIME_S`. With remainders, bounds above `LARGEST_BOUND` are
    UNKNOWN. Rules of the user's own may leave open whether there is a mapping; a conflict is one among the
    other constraints.
    """
    if mapspace.rules:
        free = replace(mapspace, rules=())
        return _under_rules(mapspace, diagnose(free, should_stop, time_limit_s, with_reasons))
    if mapspace.joint:
        even = diagnose(gathered(mapspace), should_stop, time_limit_s, with_reasons)
        return _with_places(mapspace, even, Clock(time_limit_s, should_stop))
    if mapspace.factors == ANY and max(mapspace.problem.bounds) > LARGEST_BOUND:
        return Diagnosis(Verdict.UNKNOWN)
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
    conflicts = tuple(find_conflicts(feasibility, constraints, MOST_CONFLICTS))
    reasons = tuple(_reasons(feasibility, constraints, conflicts, clock))
    return Diagnosis(answer.verdict, reasons or (NOT_FOUND,))


def _with_places(mapspace: Mapspace, even: Diagnosis, clock: Clock) -> Diagnosis:
    """Return the diagnosis for memories with several places, given that for `even` tiles.

    Where neither fits, the reasons are those of even tiles: what resolves them is enough.
    """
    if even.witness is not None:
        mapping = tidied(mapspace, on_places(mapspace, even.witness.mapping))
        return replace(even, witness=Witness(mapping, evaluate_in(mapspace, mapping)))
    if even.verdict is not Verdict.INFEASIBLE:
        return Diagnosis(Verdict.UNKNOWN)
    found = any_mapping(mapspace, clock)
    if found.mapping is not None and found.evaluation is not None:
        return Diagnosis(Verdict.FEASIBLE, witness=Witness(found.mapping, found.evaluation))
    if found.status is not Status.INFEASIBLE:
        return Diagnosis(Verdict.UNKNOWN)
    reasons = (replace(reason, text=f"with even tiles: {reason.text}") for reason in even.reasons)
    return replace(even, reasons=tuple(reasons))


def _under_rules(mapspace: Mapspace, found: Diagnosis) -> Diagnosis:
    """Return the diagnosis of a mapspace, given what was `found` without its rules."""
    if found.witness is None:
        return found
    evaluation = evaluate_in(mapspace, found.witness.mapping)
    if not evaluation.valid:
        return Diagnosis(Verdict.UNKNOWN)
    return replace(found, witness=replace(found.witness, evaluation=evaluation))


def explain_infeasible(
    mapspace: Mapspace, should_stop: StopCallback | None = None, time_limit_s: float = DEFAULT_TIME_LIMIT_S
) -> tuple[Reason, ...]:
    """Return why a mapspace that is proven to be empty allows no mapping; `NOT_FOUND` if time runs out."""
    clock = Clock(time_limit_s, should_stop)
    diagnosis = diagnose(replace(mapspace, rules=()), should_stop, time_limit_s)
    if diagnosis.verdict is Verdict.FEASIBLE and mapspace.rules:
        clock = Clock(max(LEAST_TIME_S, time_limit_s - clock.seconds), should_stop)
        return (rules_reason(mapspace, clock),)
    if diagnosis.verdict is Verdict.FEASIBLE:
        raise ContradictionError("the search found no mapping, but one exists")
    return diagnosis.reasons or (NOT_FOUND,)


def _reasons(
    feasibility: Feasibility, constraints: ConstraintSet, conflicts: Collection[Conflict], clock: Clock
) -> Iterator[Reason]:
    """Yield each conflict with its arithmetic and its levers, all within its share of the time."""
    mapspace = feasibility.mapspace
    for done, conflict in enumerate(conflicts):
        share = clock.share(len(conflicts) - done)
        model = feasibility.until(share.stop)
        others = {c for other in conflicts if other is not conflict for c in other.constraints}
        others |= {twin for c in others for twin in twins_of(c, constraints)}
        rest = [c for c in constraints if c not in others]
        given = [c for c in constraints if not droppable(c)]
        asked = [c for c in constraints if isinstance(c, KeptOrBypassed)]
        shortfalls = _shortfalls(model, given, conflict.constraints, asked)
        together = [*given, *conflict.constraints]
        statements = tuple(
            Statement(statement_text(c, mapspace), _sources_of(model, together, c))
            for c in conflict.constraints
        )
        changes, complete = levers(model, rest, conflict.constraints, share)
        yield Reason(
            text=_conflict_headline(conflict, shortfalls, mapspace),
            sources=tuple(dict.fromkeys(source for s in statements for source in s.sources)),
            constraints=statements,
            irreducible=conflict.irreducible,
            shortfalls=shortfalls,
            levers=changes,
            complete=complete,
        )


def _sources_of(
    feasibility: Feasibility, together: ConstraintSet, constraint: Constraint
) -> tuple[SourceRef, ...]:
    """Return where a constraint of the conflict `together` is written, multiple buffering if it matters."""
    if not isinstance(constraint, TileCapacity) or constraint.storage.multiple_buffering == 1:
        return constraint.sources
    single = TileCapacity(constraint.level, replace(constraint.storage, multiple_buffering=Fraction(1)))
    others = [c for c in together if c != constraint]
    is_buffering_idle = feasibility.decide([*others, single]).verdict is Verdict.INFEASIBLE
    return constraint.sources[:1] if is_buffering_idle else constraint.sources


def _shortfalls(
    feasibility: Feasibility, given: ConstraintSet, conflict: ConstraintSet, asked: Collection[KeptOrBypassed]
) -> tuple[Shortfall, ...]:
    """Return the arithmetic of a conflict: what its other constraints and `given` require.

    Where that leaves open what a level keeps, the figures are those of a mapping that keeps what is `asked`.
    """
    together = [*given, *conflict]
    shortfalls = tuple(_missing(feasibility, together, conflict, asked))
    # An axis of a single child is never a constraint, but it may be the one without room.
    return shortfalls or tuple(_missing(feasibility, together, given, asked))


def _missing(
    feasibility: Feasibility,
    together: ConstraintSet,
    blamed: ConstraintSet,
    asked: Collection[KeptOrBypassed],
) -> Iterator[Shortfall]:
    """Yield by how much each of `blamed` is too small for the other constraints in `together`."""
    for constraint in (c for kind in HEADLINE_ORDER for c in blamed if isinstance(c, kind)):
        if any(_is_share_of(constraint, other) for other in together):
            continue
        others = [c for c in together if c != constraint]
        suffices = nearest_sufficient(feasibility, others, constraint)
        if suffices is None or not suffices.exact:
            continue
        if isinstance(constraint, TileCapacity):
            suffices = _with_wishes(feasibility, [*others, *asked], constraint, suffices)
        yield shortfall(constraint, suffices.value, suffices.witness, feasibility.mapspace)


def _with_wishes(
    feasibility: Feasibility, wishes: ConstraintSet, capacity: TileCapacity, suffices: Nearest
) -> Nearest:
    """Return `suffices` with a mapping that fulfils all `wishes` at this capacity, where there is one."""
    storage = replace(capacity.storage, size_words=suffices.value, multiple_buffering=Fraction(1))
    witness = feasibility.decide([*wishes, TileCapacity(capacity.level, storage)]).witness
    return suffices if witness is None else replace(suffices, witness=witness)


def _is_share_of(hardware: Constraint, asked: Constraint) -> bool:
    """Whether `asked` is a share of `hardware` and grows with it, so that no larger size would suffice."""
    match hardware, asked:
        case Mesh(), Parallelism():
            return True
        case TileCapacity(level=level), Utilization(level=filled):
            return level == filled
    return False


def _conflict_headline(conflict: Conflict, shortfalls: Collection[Shortfall], mapspace: Mapspace) -> str:
    for missing in shortfalls:
        return missing.text
    if not conflict.constraints:
        return "the hierarchy allows no mapping, even without any constraints"
    limits = [c for c in conflict.constraints if isinstance(c, FactorLimit)]
    dims = {c.rule.dim for c in limits}
    if len(limits) == len(conflict.constraints) and len(dims) == 1:
        (dim,) = dims
        bound = mapspace.problem.bound[dim]
        reach = (
            "cannot multiply to its bound {:,}"
            if mapspace.factors == PERFECT
            else "cover less than its bound {:,}, or more"
        )
        return f"the factors of {dim} that these lines allow {reach.format(bound)}"
    count = len(conflict.constraints)
    return "this cannot be satisfied" if count == 1 else f"these {count} constraints cannot hold together"


def find_conflict(feasibility: Feasibility, constraints: ConstraintSet) -> Conflict | None:
    """Return an irreducible conflict among `constraints`, None if they hold together or it is unknown.

    A deletion filter drops whole kinds first, then each line in turn, then single constraints of a line; a
    second model that holds only the result confirms it (docs/explain.md, "How it works").
    """
    given = [c for c in constraints if not droppable(c)]
    loose = [c for c in constraints if droppable(c)]
    if feasibility.decide([*given, *loose]).verdict is not Verdict.INFEASIBLE:
        return None
    open_ = loose
    for block in _blocks(open_):
        rest = [c for c in open_ if c not in block]
        if feasibility.decide([*given, *rest]).verdict is Verdict.INFEASIBLE:
            open_ = rest
    lines = _written_together(c for block in _blocks(open_) for c in block)
    lines, irreducible = _filtered(feasibility, given, lines)
    # A line may apply to several nodes of which only some matter.
    single = [line[0] for line in lines if len(line) == 1]
    several = [[c] for line in lines if len(line) > 1 for c in line]
    parts, is_exact = _filtered(feasibility, [*given, *single], several)
    needed = [*single, *(c for line in parts for c in line)]
    passed_on = any(level.no_coalesce for level in feasibility.mapspace.architecture.levels)
    if not (needed or passed_on or any(isinstance(c, KeptOrBypassed) for c in given)):
        raise ContradictionError("no mapping was found for a mapspace without constraints")
    fresh = feasibility.alone([*given, *needed])
    if fresh.decide([*given, *needed]).verdict is Verdict.FEASIBLE:
        raise ContradictionError("a second solve does not confirm a conflict between constraints")
    return Conflict(tuple(c for c in constraints if c in needed), irreducible and is_exact)


def _written_together(constraints: Iterable[Constraint]) -> list[list[Constraint]]:
    """Group constraints that are written together: deleting their line drops all of them."""
    lines: list[list[Constraint]] = []
    for constraint in constraints:
        line = next((known for known in lines if written_together(known[0], constraint)), None)
        if line is None:
            lines.append([constraint])
        else:
            line.append(constraint)
    return lines


def _filtered(
    feasibility: Feasibility, given: ConstraintSet, lines: Sequence[list[Constraint]]
) -> tuple[list[list[Constraint]], bool]:
    """Drop each line without which `given` and the other lines still conflict; also whether this is exact."""
    needed: list[list[Constraint]] = []
    irreducible = True
    for place, line in enumerate(lines):
        others = [c for other in (*needed, *lines[place + 1 :]) for c in other]
        verdict = feasibility.decide([*given, *others]).verdict
        if verdict is Verdict.INFEASIBLE:
            continue
        irreducible &= verdict is Verdict.FEASIBLE
        needed.append(line)
    return needed, irreducible


def find_conflicts(feasibility: Feasibility, constraints: ConstraintSet, most: int) -> Iterator[Conflict]:
    """Yield up to `most` conflicts that share no constraint and no place in the text."""
    for _ in range(most):
        conflict = find_conflict(feasibility, constraints)
        if conflict is None:
            return
        yield conflict
        if not conflict.constraints:
            return
        found = conflict.constraints
        places = {source for c in found for source in c.sources}
        constraints = [c for c in constraints if c not in found and places.isdisjoint(c.sources)]


def _blocks(constraints: Iterable[Constraint]) -> list[list[Constraint]]:
    """Group constraints by kind, in the order in which the deletion filter drops them."""
    # Bypasses come before keeps, since in a !Parallel one implies the other.
    in_order = sorted(constraints, key=lambda c: isinstance(c, KeptOrBypassed) and c.verb == "keep")
    blocks = [[c for c in in_order if isinstance(c, kind)] for kind in DROPPED_FIRST]
    return [block for block in blocks if block]
