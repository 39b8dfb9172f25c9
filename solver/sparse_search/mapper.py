"""The entry point: from a mapspace of sparse data to a proven result."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from model.cost.nest import build_nest
from model.extents import ANY, PERFECT
from model.mapping import Mapping
from model.mapspace import EXACT, Mapspace
from model.objective import EDP, ENERGY, LATENCY
from model.sparse import FIXED_POINT, MappingError, SparseEvaluation, evaluate_sparse_in
from solver.result import (
    REMAINDERS_S,
    Clock,
    Evidence,
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
    is_within,
    relative_gap,
)
from solver.search.goal import NO_CAPS, UNLIMITED, Caps, Goal
from solver.search.mapper import MOST_KEEP_MASKS, MOST_SPATIAL_CHOICES, map_einsum
from solver.search.path.tables import estimated_bytes
from solver.search.priced import Priced as IncumbentMapping
from solver.search.shared import Shared
from solver.search.stopping import Stopped
from solver.sparse_search.paths import SparseData, SparsePaths, unlimited
from solver.sparse_search.shares import skips_instances

DENSE_SHARE = 0.25
"""Share of the time in which the best mapping of dense data is searched, at most."""

DENSE_S = 5.0
"""Seconds that this may take."""

FRUGAL_S = 10.0
"""Seconds in which a mapping of low energy and latency is searched before latency alone, at most."""

NARROWER_SHARE = 0.5
"""Share of the time, at most, in which mappings without remainders are searched first."""

PROGRESS_PERIOD_S = 0.1
"""Progress is reported no more often."""


@dataclass(frozen=True)
class Priced:
    """A mapping with its expected costs."""

    mapping: Mapping
    evaluation: SparseEvaluation


@dataclass(frozen=True)
class SparseResult:
    """The result of a search for the best mapping of sparse data.

    Parameters
    ----------
    status, termination, objectives, bound, later_bounds, statistics
        As of `solver.result.Result`.
    units_per_pj
        Parts of a picojoule that energies of `value` and `bound` are whole numbers of: those of
        `model.sparse.FIXED_POINT` in each of the architecture's units.
    value
        Exact value of the mapping, as of `SparseEvaluation.value`.
    best
        The best mapping found, with its costs; None if there is none.
    dense
        What was found for the same data without zeros: the best mapping, if it was proven, is another
        one in general.
    dense_best
        That mapping on sparse data; None if there is none, or formats cannot hold it.
    perfect_factors
        Where loops may have remainders, what is known of the mappings without any.
    """

    status: Status
    termination: Termination
    objectives: tuple[str, ...]
    units_per_pj: int
    value: int | None = None
    bound: int | None = None
    later_bounds: tuple[int, ...] = ()
    best: Priced | None = None
    dense: Result | None = None
    dense_best: Priced | None = None
    statistics: Statistics = field(default_factory=Statistics)
    perfect_factors: Narrower | None = None

    @property
    def objective(self) -> str:
        """The first objective."""
        return self.objectives[0]

    @property
    def gap(self) -> float | None:
        """Relative distance between value and bound, None unless both are known."""
        return relative_gap(self.value, self.bound)

    @property
    def mapping(self) -> Mapping | None:
        """The best mapping found."""
        return None if self.best is None else self.best.mapping

    @property
    def evaluation(self) -> SparseEvaluation | None:
        """Its costs."""
        return None if self.best is None else self.best.evaluation

    @property
    def totals(self) -> Result:
        """The same for what compares values and bounds alone, with totals in place of costs by level."""
        return Result(
            self.status,
            self.termination,
            self.objectives,
            self.units_per_pj,
            value=self.value,
            bound=self.bound,
            later_bounds=self.later_bounds,
            mapping=self.mapping,
            evaluation=None if self.evaluation is None else self.evaluation.totals,
            statistics=self.statistics,
            perfect_factors=self.perfect_factors,
        )

    @property
    def reasons(self) -> tuple[Reason, ...]:
        """Nothing: `explain` looks for reasons."""
        return ()

    @property
    def evidence(self) -> tuple[Evidence, ...]:
        """Nothing: a checker of sparse data relies on the problem alone."""
        return ()


def map_sparse(
    mapspace: Mapspace,
    options: Options = Options(),
    on_progress: ProgressCallback | None = None,
    should_stop: StopCallback | None = None,
    known: Mapping | None = None,
) -> SparseResult:
    """Find the best mapping of sparse data under expected counts, with a bound that says how good it is.

    Parameters
    ----------
    mapspace
        Its data are sparse. Loops have no remainders where `lack_of_remainders` says why.
    options
        Objectives (default: those of the mapspace) and the time limit. The search is one process. The best
        mapping without remainders is searched first.
    on_progress
        Called from time to time with incumbent and bound.
    should_stop
        Asked often; once it answers True the incumbent is returned with its bound.
    known
        A mapping to begin with; it may break limits.

    Returns
    -------
    SparseResult
        OPTIMAL only if no bound is below the value of the mapping by the model of sparse data.

    Raises
    ------
    ValueError
        The data are dense, or the mapspace has what only the cost model knows.
    """
    if mapspace.sparsity is None:
        raise ValueError("the data are dense")
    if mapspace.joint:
        raise ValueError("memories with several places are not searched with sparse data")
    perfect = replace(mapspace, factors=PERFECT)
    _without_zeros(perfect).check_searchable(simple_rules=True)
    if not _may_have_remainders(mapspace):
        return _without_remainders(perfect, options, on_progress, should_stop, known)
    whole = Clock(options.time_limit_s, should_stop)
    left_s = whole.left_s
    shorter = replace(options, time_limit_s=None if left_s is None else left_s * NARROWER_SHARE)
    first = _without_remainders(perfect, shorter, on_progress, should_stop, known)
    left_s = whole.left_s
    limit_s, kind = (REMAINDERS_S, _RemainderClock) if left_s is None else (left_s, Clock)
    clock = kind(limit_s, should_stop, whole)
    search = SparseSearch(mapspace, clock, on_progress, options)
    found = (*search.beginning(known), *(() if first.best is None else (first.best,)))
    result = search.minimise(first.objectives, found)
    work = first.statistics.together(result.statistics)
    return replace(
        result,
        dense=first.dense,
        dense_best=first.dense_best,
        perfect_factors=Narrower(first.status, first.value, first.bound),
        statistics=replace(work, seconds=whole.seconds),
    )


class _RemainderClock(Clock):
    """A clock with the default limit on mappings with remainders."""

    def end(self, reason: Termination) -> None:
        """See `Clock`: its own limit is not one that was asked for."""
        super().end(Termination.REMAINDER_LIMIT if reason is Termination.TIME_LIMIT else reason)


def lack_of_remainders(mapspace: Mapspace) -> str | None:
    """Return why loops over sparse data have no remainders even where any factors may be; None if not."""
    assert mapspace.sparsity is not None
    if mapspace.counting != EXACT:
        return "by Timeloop's rule"
    if skips_instances(mapspace):
        return "where units skip children of an array"
    names = (space.name for space in mapspace.problem.dataspaces)
    if any(mapspace.sparsity.density(name).distribution == "banded" for name in names):
        return "where nonzeros are in a band"
    return None


def _without_remainders(
    mapspace: Mapspace,
    options: Options,
    on_progress: ProgressCallback | None,
    should_stop: StopCallback | None,
    known: Mapping | None,
) -> SparseResult:
    """The best mapping with perfect factors."""
    dense = _without_zeros(mapspace)
    clock = Clock(options.time_limit_s, should_stop)
    objectives = options.objectives or mapspace.objectives
    left_s = clock.left_s
    limit_s = DENSE_S if left_s is None else min(DENSE_S, left_s * DENSE_SHARE)
    of_dense = map_einsum(
        dense, replace(options, objectives=objectives, time_limit_s=limit_s), None, clock.stop
    )
    search = SparseSearch(mapspace, clock, on_progress, options)
    of_zeros = None if of_dense.mapping is None else search.priced(of_dense.mapping)
    found = [*search.beginning(known), *(() if of_zeros is None else (of_zeros,))]
    if objectives[0] == LATENCY:
        found += _frugal(mapspace, clock, found)
    return replace(search.minimise(objectives, found), dense=of_dense, dense_best=of_zeros)


def _without_zeros(mapspace: Mapspace) -> Mapspace:
    """The same of dense data, under those rules that its search knows and that mean the same of them."""
    rules = (rule for rule in mapspace.rules if rule.is_simple and not rule.limits_costs and not rule.sized)
    return replace(mapspace, sparsity=None, rules=tuple(rules))


def _limits_of_rules(mapspace: Mapspace) -> tuple[tuple[str, int], ...]:
    """The most that rules let mappings cost; a part more of an energy unit, to which values are rounded."""
    parts = replace(mapspace.architecture, units_per_pj=mapspace.architecture.units_per_pj * FIXED_POINT)
    every = replace(mapspace, architecture=parts).cost_limits
    return tuple((name, min(UNLIMITED, most + (name == ENERGY))) for name, most in every)


def _frugal(mapspace: Mapspace, clock: Clock, known: Sequence[Priced]) -> list[Priced]:
    """The mapping of least EDP that is found in a while; bounds on energy lead to such that are fast, too."""
    left_s = clock.left_s
    limit_s = FRUGAL_S if left_s is None else min(FRUGAL_S, left_s * DENSE_SHARE)
    best = SparseSearch(mapspace, Clock(limit_s, clock.stop), None).minimise((EDP,), known).best
    return [] if best is None else [best]


def map_totals(
    mapspace: Mapspace,
    options: Options = Options(),
    on_progress: ProgressCallback | None = None,
    should_stop: StopCallback | None = None,
    known: IncumbentMapping | None = None,
) -> Result:
    """Find the best mapping of sparse data as `map_sparse` does; return values and bounds alone.

    It is a `solver.result.Search`.
    """
    mapping = None if known is None else known.mapping
    return map_sparse(mapspace, options, on_progress, should_stop, mapping).totals


def first_mapping(mapspace: Mapspace, clock: Clock) -> Status:
    """Say whether sparse data have a mapping at all: FEASIBLE, INFEASIBLE, or UNKNOWN once time is over."""
    status = Status.INFEASIBLE
    for factors in (PERFECT, ANY) if _may_have_remainders(mapspace) else (PERFECT,):
        if status is Status.INFEASIBLE:
            search = SparseSearch(replace(mapspace, factors=factors), clock, None)
            status = search.minimise((ENERGY,), first_only=True).status
    return status


def _may_have_remainders(mapspace: Mapspace) -> bool:
    return mapspace.factors != PERFECT and lack_of_remainders(mapspace) is None


class FrontSearch:
    """Searches of one mapspace of sparse data, one after the other, within one time limit.

    Parameters
    ----------
    mapspace, options, on_progress, should_stop
        As of `map_sparse`; loops have no remainders, whatever the mapspace says of factors.
    """

    def __init__(
        self,
        mapspace: Mapspace,
        options: Options = Options(),
        on_progress: ProgressCallback | None = None,
        should_stop: StopCallback | None = None,
    ) -> None:
        self.mapspace = replace(mapspace, factors=PERFECT)
        self._search = SparseSearch(self.mapspace, Clock(options.time_limit_s, should_stop), on_progress)

    def minimise(
        self, objectives: Sequence[str], caps: Caps = NO_CAPS, known: IncumbentMapping | None = None
    ) -> Result:
        """Find the lexicographically best mapping within `caps`; return totals, as `map_totals` does."""
        first = self._search.beginning(None if known is None else known.mapping)
        return self._search.minimise(objectives, first, caps.limits).totals


class SparseSearch:
    """Searches of one mapspace, one objective after the other.

    Parameters
    ----------
    mapspace
        Its data are sparse.
    clock
        When they end.
    options
        Gap at which they may end, and room for tables.
    """

    def __init__(
        self,
        mapspace: Mapspace,
        clock: Clock,
        on_progress: ProgressCallback | None,
        options: Options = Options(),
    ) -> None:
        self.mapspace = mapspace
        self._options = options
        self.clock = clock
        self.statistics = Statistics()
        self._on_progress = on_progress
        self._reported = -math.inf

    def priced(self, mapping: Mapping) -> Priced | None:
        """A mapping with its costs; None if it is not allowed or formats cannot hold it."""
        self.statistics.mappings_priced += 1
        most = self.mapspace.max_temporal_loops
        if most is not None and mapping.temporal_loops > most:
            return None
        try:
            evaluation = evaluate_sparse_in(self.mapspace, mapping)
        except MappingError:
            return None
        return Priced(mapping, evaluation) if evaluation.valid else None

    def beginning(self, mapping: Mapping | None) -> tuple[Priced, ...]:
        """A mapping that is known, with its costs, if it is one of those that are searched."""
        problem, architecture = self.mapspace.problem, self.mapspace.architecture
        if mapping is None:
            return ()
        if self.mapspace.factors == PERFECT and build_nest(problem, architecture, mapping).uneven:
            return ()
        priced = self.priced(mapping)
        return () if priced is None else (priced,)

    def minimise(
        self,
        objectives: Sequence[str],
        known: Sequence[Priced] = (),
        limits: tuple[tuple[str, int], ...] = (),
        first_only: bool = False,
    ) -> SparseResult:
        """The lexicographically best mapping within some limits, from known ones on; or any first one."""
        limits = (*limits, *_limits_of_rules(self.mapspace))
        first = Goal(objectives[0], limits)
        fitting = (own for own in known if first.improves(own.evaluation.fixed_energy, own.evaluation.cycles))
        best = min(fitting, key=lambda own: [own.evaluation.value(name) for name in objectives], default=None)
        bounds: list[int | None] = []
        for objective in objectives:
            goal = Goal(objective, limits, None if best is None else best.evaluation.value(objective))
            best, bound = self._searched(goal, best, first_only)
            bounds.append(bound)
            if best is None or bound != goal.incumbent:
                break
            limits = (*limits, (objective, best.evaluation.value(objective)))
        return self._result(tuple(objectives), best, bounds)

    def _searched(
        self, goal: Goal, best: Priced | None, first_only: bool
    ) -> tuple[Priced | None, int | None]:
        """The best mapping for one objective, and its bound."""
        known = None if best is None else IncumbentMapping(best.mapping, best.evaluation.totals)

        def stop() -> bool:
            return self.clock.stop() or (first_only and search.best is not None)

        try:
            if self._is_too_large:
                self.clock.end(self._is_too_large)
                return best, 0
            shared = Shared(self._options, stop, self._report, self.statistics)
            search = SparsePaths(self.data.space, goal, shared, known, data=self.data)
            bound = search.run()
        except Stopped:
            # The first reason is kept: without any there are too many spatial choices.
            self.clock.end(Termination.CHOICES)
            return best, 0
        if is_within(self._options.gap, goal.incumbent, bound):
            self.clock.end(Termination.GAP)
        if search.best is None or search.best is known:
            return best, bound
        return self.priced(search.best.mapping), bound

    @cached_property
    def data(self) -> SparseData:
        """What all searches share."""
        space = unlimited(self.mapspace, self.clock.stop)
        self.statistics.masks = len(space.keep_masks)
        return SparseData(self.mapspace, self._judged, space)

    @cached_property
    def _is_too_large(self) -> Termination | None:
        """What there is too much of for tables over all numbers of tiles, with remainders."""
        if self.mapspace.factors == PERFECT or not self.data.space.active:
            return None
        space = self.data.space
        if space.most_keep_masks > MOST_KEEP_MASKS or space.spatial_choices > MOST_SPATIAL_CHOICES:
            return Termination.CHOICES
        memory_bytes = self._options.memory_limit_mib << 20
        return Termination.MEMORY_LIMIT if estimated_bytes(space) > memory_bytes else None

    def _judged(self, mapping: Mapping) -> IncumbentMapping | None:
        priced = self.priced(mapping)
        return None if priced is None else IncumbentMapping(mapping, priced.evaluation.totals)

    def _result(
        self, objectives: tuple[str, ...], best: Priced | None, bounds: list[int | None]
    ) -> SparseResult:
        self.statistics.seconds = self.clock.seconds
        units = self.mapspace.architecture.units_per_pj * FIXED_POINT
        ended = self.clock.termination
        if best is None:
            status = Status.UNKNOWN if ended else Status.INFEASIBLE
            termination = ended or Termination.PROVEN
            return SparseResult(
                status, termination, objectives, units, bound=bounds[0], statistics=self.statistics
            )
        values = [best.evaluation.value(name) for name in objectives]
        proven = len(bounds) == len(values) and bounds == values
        return SparseResult(
            Status.OPTIMAL if proven else Status.FEASIBLE,
            Termination.PROVEN if proven else ended or Termination.TIME_LIMIT,
            objectives,
            units,
            value=values[0],
            bound=bounds[0],
            later_bounds=tuple(bound for bound in bounds[1:] if bound is not None),
            best=best,
            statistics=self.statistics,
        )

    def _report(self, phase: Phase, goal: Goal, bound: int | None) -> None:
        """Tell the caller how far the search is."""
        seconds = self.clock.whole.seconds
        if self._on_progress is None or seconds - self._reported < PROGRESS_PERIOD_S:
            return
        self._reported = seconds
        scale = 1 if goal.objective == LATENCY else FIXED_POINT
        incumbent = None if goal.incumbent is None else goal.incumbent // scale
        floor = None if bound is None else bound // scale
        if floor is not None and incumbent is not None:
            floor = min(floor, incumbent)
        self._on_progress(Progress(phase, seconds, goal.objective, incumbent, floor))
