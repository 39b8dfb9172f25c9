"""Irreducible conflicts: constraints that cannot hold together, of which none is there in vain."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from solver.explain.constraints import (
    Capacity,
    Constraint,
    FactorLimit,
    Keeping,
    Mesh,
    Parallelism,
    SpatialOrder,
    Split,
    Utilization,
    Whole,
    droppable,
    written_together,
)
from solver.explain.feasibility import Feasibility, Verdict
from solver.result import ContradictionError

LEAST_TELLING_FIRST = (
    Mesh,
    Capacity,
    Utilization,
    Parallelism,
    SpatialOrder,
    Split,
    Keeping,
    Whole,
    FactorLimit,
)
"""In which order constraints are tried to be left out: a conflict among factors alone says most."""


@dataclass(frozen=True)
class Conflict:
    """Constraints that cannot hold together.

    ``irreducible`` is whether the rest was found feasible without each of them in turn; a search that
    was stopped may leave some undecided.
    """

    constraints: tuple[Constraint, ...]
    irreducible: bool


def find_conflict(feasibility: Feasibility, constraints: Collection[Constraint]) -> Conflict | None:
    """Return an irreducible conflict among `constraints`, None if they hold together or nobody knows.

    Constraints that cannot be dropped are always asked for, and never part of the conflict. A deletion
    filter tries to do without whole kinds first, then without each line in turn, and what several nodes
    share of one; what it leaves is decided once more by a model that holds nothing else.

    Raises
    ------
    ContradictionError
        The second model finds a mapping; or no constraint is to blame, though the outermost level could
        keep everything then, and have all loops.

    References
    ----------
    docs/explain.md, "How it works".
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
    lines = _lines(c for block in _blocks(open_) for c in block)
    lines, irreducible = _filtered(feasibility, given, lines)
    # A line may ask for more than matters, of several nodes: say what of it does.
    single = [line[0] for line in lines if len(line) == 1]
    several = [[c] for line in lines if len(line) > 1 for c in line]
    told, is_exact = _filtered(feasibility, [*given, *single], several)
    needed = [*single, *(c for line in told for c in line)]
    passed_on = any(level.no_coalesce for level in feasibility.mapspace.architecture.levels)
    if not (needed or passed_on or any(isinstance(c, Keeping) for c in given)):
        raise ContradictionError("no mapping is found where nothing is asked for")
    _verify(feasibility, given, needed)
    return Conflict(tuple(c for c in constraints if c in needed), irreducible and is_exact)


def _lines(constraints: Iterable[Constraint]) -> list[list[Constraint]]:
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
    feasibility: Feasibility, given: Collection[Constraint], lines: Sequence[list[Constraint]]
) -> tuple[list[list[Constraint]], bool]:
    """Leave out each line without which `given` and the other lines still contradict each other."""
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


def find_conflicts(
    feasibility: Feasibility, constraints: Collection[Constraint], most: int
) -> tuple[Conflict, ...]:
    """Return up to `most` conflicts that share no constraint, and no place of the text.

    Parameters
    ----------
    most
        Fewer are found where what is left holds together, or `feasibility` is stopped.

    Raises
    ------
    ContradictionError
        As of `find_conflict`.
    """
    return tuple(_disjoint_conflicts(feasibility, list(constraints), most))


def _disjoint_conflicts(
    feasibility: Feasibility, constraints: list[Constraint], most: int
) -> Iterator[Conflict]:
    for _ in range(most):
        conflict = find_conflict(feasibility, constraints)
        if conflict is None:
            return
        yield conflict
        places = {source for c in conflict.constraints for source in c.sources}
        constraints = [
            c for c in constraints if c not in conflict.constraints and places.isdisjoint(c.sources)
        ]
        if not conflict.constraints:
            return


def _blocks(constraints: Iterable[Constraint]) -> list[list[Constraint]]:
    """Group constraints by kind, in the order in which the deletion filter tries them.

    What a level bypasses comes before what it keeps, as one follows from the other in a ``!Parallel``.
    """
    in_order = sorted(constraints, key=lambda c: isinstance(c, Keeping) and c.verb == "keep")
    blocks = [[c for c in in_order if isinstance(c, kind)] for kind in LEAST_TELLING_FIRST]
    return [block for block in blocks if block]


def _verify(feasibility: Feasibility, given: list[Constraint], conflict: list[Constraint]) -> None:
    """Decide a conflict once more, by a model of its own and another seed."""
    fresh = feasibility.alone([*given, *conflict])
    if fresh.decide([*given, *conflict]).verdict is Verdict.FEASIBLE:
        raise ContradictionError("a conflict between constraints does not stand up to a second solve")
