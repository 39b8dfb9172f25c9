"""What constraints cost: the optimum with all of them compared with the optimum without each."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from model.mapspace import Mapspace
from model.places import gathered, spread_like
from solver.explain.constraints import droppable, without_parts
from solver.explain.wording import clause_text
from solver.formulation.requirements import (
    Constraint,
    FactorLimit,
    Mesh,
    TemporalOrder,
    UserRule,
    constraints_of,
    temporal_orders,
    user_rules,
)
from solver.result import (
    ContradictionError,
    Options,
    ProgressCallback,
    Result,
    Search,
    Statement,
    Status,
    StopCallback,
    with_bound,
)
from solver.search.priced import Priced

Clause = tuple[Constraint | TemporalOrder | UserRule, ...]
"""ConstraintSet that are written at one place and dropped together."""


@dataclass(frozen=True)
class ClauseCost:
    """The optimum without one clause."""

    statement: Statement
    result: Result  # the best mapping known without the clause, with a bound on all of them
    share: float  # improvement of the first objective that improves, or may, relative to the baseline
    least: float  # proven limits on the improvement of the optimum
    most: float | None  # None if unknown
    objective: str  # the name of that objective, or of the first one if none improves
    unproven: tuple[str, ...] = ()  # objectives that may improve further, since a search was stopped

    @property
    def proven(self) -> bool:
        """Whether the cost is exact."""
        return self.least == self.most


@dataclass(frozen=True)
class CostReport:
    """The optimum with all constraints, and the cost of each clause."""

    baseline: Result  # its bound may come from a search without a clause
    clauses: tuple[ClauseCost, ...] = ()  # the most costly first
    left_out: tuple[Statement, ...] = ()  # not examined because of an interrupt


def constraint_costs(
    mapspace: Mapspace,
    options: Options,
    search: Search,
    on_progress: ProgressCallback | None = None,
    should_stop: StopCallback | None = None,
    baseline: Result | None = None,
) -> CostReport:
    """Search for the optimum with all constraints, then without each clause; a time limit is that of each.

    A `baseline` is the result of the first of these searches, where that is known.
    The sizes of fanouts are not dropped, since the energy of the components around them depends on them.
    A dropped capacity keeps its energy per access.
    """
    if baseline is None:
        baseline = search(mapspace, options, on_progress, should_stop, None)
    if baseline.mapping is None:
        return CostReport(baseline)
    answers: list[tuple[Statement, list[Result]]] = []
    left_out: list[Statement] = []
    even = gathered(mapspace)  # constraints are those of memories, whatever places they have
    groups = clauses(even)
    for number, clause in enumerate(groups, start=1):
        if should_stop is not None and should_stop():
            left_out.append(_statement(clause, even))
            continue
        report = _numbered(on_progress, f"{number}/{len(groups)}")
        spaces = () if _is_idle(clause, even) else without_parts(even, clause)
        results: list[Result] = []
        for space in (spread_like(mapspace, own) for own in spaces):
            known = _best_without(baseline, results)
            # A memory that may keep more has more places: mappings of it have other nodes.
            fits = len(known.mapping.nodes) == len(space.architecture.nodes)
            results.append(search(space, options, report, should_stop, known if fits else None))
        answers.append((_statement(clause, even), results))
    baseline = _with_best_bound(baseline, [results for _, results in answers])
    costs = [_clause_cost(statement, baseline, results) for statement, results in answers]
    names = baseline.objectives
    costs.sort(key=lambda cost: [-cost.share if name == cost.objective else 0.0 for name in names])
    return CostReport(baseline, tuple(costs), tuple(left_out))


def _with_best_bound(baseline: Result, answers: Iterable[Sequence[Result]]) -> Result:
    """Return the baseline with the best bound: a bound without a constraint also holds with it."""
    if baseline.status is Status.OPTIMAL or baseline.value is None:
        return baseline
    floors = [_floor(_feasible(results), ()) or 0 for results in answers if results]
    return with_bound(baseline, int(min(baseline.value, max((*floors, baseline.bound or 0)))))


def _best_without(baseline: Result, results: Iterable[Result]) -> Priced:
    """Return the best known mapping without a clause; the limits that are lifted do not change its costs.

    Of several mapspaces it need not be in the one that is searched next, but it bounds the best of all.
    """
    best = min((baseline, *results), key=_objective_values)
    assert best.mapping is not None
    assert best.evaluation is not None
    return Priced(best.mapping, best.evaluation)


def clauses(mapspace: Mapspace) -> list[Clause]:
    """Return the constraints grouped by the place they are written at."""
    groups: dict[object, list[Constraint | TemporalOrder | UserRule]] = {}
    constraints = (c for c in constraints_of(mapspace) if droppable(c) and not isinstance(c, Mesh))
    for part in (*constraints, *temporal_orders(mapspace), *user_rules(mapspace)):
        groups.setdefault(part.sources[0] if part.sources else part, []).append(part)
    return list(map(tuple, groups.values()))


def _is_idle(clause: Clause, mapspace: Mapspace) -> bool:
    """Whether a clause only limits dimensions of bound 1, whose factors are 1 anyway."""
    bound = mapspace.problem.bound
    return all(isinstance(part, FactorLimit) and bound[part.rule.dim] == 1 for part in clause)


def _statement(clause: Clause, mapspace: Mapspace) -> Statement:
    sources = dict.fromkeys(source for part in clause for source in part.sources[:1])
    return Statement(clause_text(clause, mapspace), tuple(sources))


def _numbered(on_progress: ProgressCallback | None, prefix: str) -> ProgressCallback | None:
    """Add the number of the clause to each progress report."""
    if on_progress is None:
        return None
    return lambda progress: on_progress(replace(progress, label=prefix))


def _clause_cost(statement: Statement, baseline: Result, results: list[Result]) -> ClauseCost:
    """Compare the baseline with the results of the mapspaces that together allow what a clause forbids."""
    names, today = baseline.objectives, _objective_values(baseline)
    if not results:
        return ClauseCost(statement, baseline, 0.0, 0.0, 0.0, names[0])
    left = _feasible(results)
    if all(_known_bounds(result) > today[: len(_known_bounds(result))] for result in left):
        raise ContradictionError(f"without {statement.text}, the search excludes the best mapping with it")
    best = min((baseline, *results), key=_objective_values)
    values = _objective_values(best)
    floors = [_floor(left, values[:place]) for place in range(len(names))]
    pairs = enumerate(zip(floors, values, strict=True))
    proven = next((place for place, (floor, value) in pairs if floor is None or floor < value), len(names))
    # The first objective that improves, or may.
    place = next((place for place, new in enumerate(values) if new < today[place] or place == proven), 0)
    floor, known = floors[place], _known_bounds(baseline)
    return ClauseCost(
        statement,
        best,
        share=_relative_saving(today[place], values[place]),
        least=max(0.0, _relative_saving(known[place], values[place])) if place < len(known) else 0.0,
        most=None if floor is None else _relative_saving(today[place], min(floor, values[place])),
        objective=names[place],
        unproven=names[proven:],
    )


def _feasible(results: Iterable[Result]) -> list[Result]:
    return [result for result in results if result.status is not Status.INFEASIBLE]


def _floor(results: Iterable[Result], best: tuple[float, ...]) -> float | None:
    """Return a bound on the next objective of mappings that are `best` in earlier ones, None if unknown."""
    floor = math.inf
    for result in results:
        bounds = _known_bounds(result)
        if bounds[: len(best)] > best[: len(bounds)]:
            continue  # it has no such mapping
        if len(bounds) <= len(best):
            return None
        floor = min(floor, bounds[len(best)])
    return floor


def _relative_saving(value: float, least: float) -> float:
    return (value - least) / value if value else 0.0


def _known_bounds(result: Result) -> tuple[float, ...]:
    """Return the known bounds on objectives, each on mappings that are best in earlier ones."""
    return () if result.bound is None else (result.bound, *result.later_bounds)


def _objective_values(result: Result) -> tuple[float, ...]:
    """Return the objectives in order, infinite without a mapping."""
    if result.evaluation is None:
        return (math.inf,) * len(result.objectives)
    return tuple(map(result.evaluation.value, result.objectives))
