"""The entry point: from a mapspace of sparse data to a proven result."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property

from model.extents import PERFECT
from model.mapping import Mapping
from model.mapspace import Mapspace
from model.objective import EDP, ENERGY, LATENCY
from model.sparse import FIXED_POINT, SparseEvaluation, evaluate_sparse_in, evaluate_totals
from solver.result import (
    Clock,
    Evidence,
    Options,
    Progress,
    ProgressCallback,
    Result,
    Status,
    StopCallback,
    Termination,
)
from solver.search.goal import UNLIMITED, Goal
from solver.search.mapper import Minimum, SharedSearch, map_einsum
from solver.search.path.search import PathSearch
from solver.search.priced import Priced as Totals
from solver.search.space.search_space import SearchSpace
from solver.sparse_search.paths import SparseData, SparsePaths, unlimited
from solver.sparse_search.shares import skips_instances

DENSE_SHARE = 0.25
"""Share of the time in which the best mapping of dense data is searched, at most."""

DENSE_S = 5.0
"""Seconds that this may take."""

FRUGAL_S = 10.0
"""Seconds in which a mapping of low energy and latency is searched before latency alone, at most."""


@dataclass(frozen=True)
class Priced:
    """A mapping with its expected costs."""

    mapping: Mapping
    evaluation: SparseEvaluation


@dataclass(frozen=True)
class SparseResult(Result):
    """The result of a search for the best mapping of sparse data.

    Energies of values and bounds are whole numbers of parts (`model.sparse.FIXED_POINT`) of the
    architecture's units, and the evaluation has totals in place of costs by level.

    Parameters
    ----------
    best
        The best mapping found, with its costs; None if there is none.
    dense
        What was found for the same data without zeros: the best mapping, if it was proven, is another
        one in general.
    dense_best
        That mapping on sparse data; None if there is none, or formats cannot hold it.
    """

    best: Priced | None = None
    dense: Result | None = None
    dense_best: Priced | None = None

    @classmethod
    def of(cls, mapspace: Mapspace, result: Result, dense: Result | None = None) -> SparseResult:
        """Add what mappings cost in detail."""
        return cls(
            **{own.name: getattr(result, own.name) for own in fields(Result)},
            best=_priced(mapspace, result.mapping),
            dense=dense,
            dense_best=None if dense is None else _priced(mapspace, dense.mapping),
        )


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
        Objectives (default: those of the mapspace) and limits. The search is one process. The best mapping
        without remainders is searched first.
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
    search = sparse_search(mapspace, options, on_progress, should_stop)
    objectives = options.objectives or mapspace.objectives
    dense = search.without_zeros(objectives)
    every = (search.judged(own) for own in (known, dense.mapping) if own is not None)
    found = [own for own in every if own is not None]
    if objectives[0] == LATENCY:
        found += search.frugal(found)
    return SparseResult.of(mapspace, search.minimise(objectives, known=_best(objectives, found)), dense)


def map_totals(
    mapspace: Mapspace,
    options: Options = Options(),
    on_progress: ProgressCallback | None = None,
    should_stop: StopCallback | None = None,
    known: Totals | None = None,
) -> Result:
    """Find the best mapping of sparse data as `map_sparse` does: a `solver.result.Search`."""
    return map_sparse(mapspace, options, on_progress, should_stop, None if known is None else known.mapping)


def first_mapping(mapspace: Mapspace, clock: Clock) -> Status:
    """Say whether sparse data have a mapping at all: FEASIBLE, INFEASIBLE, or UNKNOWN once time is over."""
    any_mapping = _AnyMapping(_searchable(mapspace), Options(time_limit_s=math.inf), None, clock.stop)
    result = any_mapping.minimise((ENERGY,))
    return result.status if result.mapping is None else Status.FEASIBLE


def lack_of_remainders(mapspace: Mapspace) -> str | None:
    """Return why loops over sparse data have no remainders even where any factors may be; None if not."""
    assert mapspace.sparsity is not None
    rule = mapspace.counting_rule
    if not rule.remainders:
        return f"by {rule.title}"
    if skips_instances(mapspace):
        return "where units skip children of an array"
    names = (space.name for space in mapspace.problem.dataspaces)
    if any(mapspace.sparsity.density(name).distribution == "banded" for name in names):
        return "where nonzeros are in a band"
    return None


def _without_zeros(mapspace: Mapspace) -> Mapspace:
    """The same of dense data, under those rules that its search knows and that mean the same of them."""
    rules = (rule for rule in mapspace.rules if rule.is_simple and not rule.limits_costs and not rule.sized)
    return replace(mapspace, sparsity=None, rules=tuple(rules))


def _best(objectives: Sequence[str], every: Sequence[Totals]) -> Totals | None:
    return min(every, key=lambda own: [own.evaluation.value(name) for name in objectives], default=None)


def _totals(mapspace: Mapspace, mapping: Mapping) -> Totals | None:
    """A mapping as searches compare it; None if it is not allowed, or formats cannot hold it."""
    most = mapspace.max_temporal_loops
    if most is not None and mapping.temporal_loops > most:
        return None
    if mapspace.factors == PERFECT and not mapping.divides(mapspace.problem.bound):
        return None
    totals = evaluate_totals(mapspace, mapping)
    return Totals(mapping, totals) if totals is not None and totals.valid else None


def _priced(mapspace: Mapspace, mapping: Mapping | None) -> Priced | None:
    """A mapping with its costs in detail, if there is one, and it is allowed."""
    if mapping is None or _totals(mapspace, mapping) is None:
        return None
    return Priced(mapping, evaluate_sparse_in(mapspace, mapping))


def _searchable(mapspace: Mapspace) -> Mapspace:
    """The same without the remainders that are not searched."""
    if mapspace.sparsity is None:
        raise ValueError("the data are dense")
    return mapspace if lack_of_remainders(mapspace) is None else replace(mapspace, factors=PERFECT)


def sparse_search(
    mapspace: Mapspace,
    options: Options = Options(),
    on_progress: ProgressCallback | None = None,
    should_stop: StopCallback | None = None,
) -> SparseSearch:
    """Return searches of one mapspace, one after the other, within one time limit.

    Parameters are those of `map_sparse`. Progress is told in the architecture's energy units.
    """

    def report(progress: Progress) -> None:
        assert on_progress is not None
        scale = 1 if progress.objective == LATENCY else FIXED_POINT
        incumbent, bound = (
            None if own is None else own // scale for own in (progress.incumbent, progress.bound)
        )
        on_progress(replace(progress, incumbent=incumbent, bound=bound))

    return SparseSearch(_searchable(mapspace), options, None if on_progress is None else report, should_stop)


class SparseSearch(SharedSearch):
    """Searches of one mapspace of sparse data, in parts of energy units (`model.sparse.FIXED_POINT`)."""

    def without_zeros(self, objectives: tuple[str, ...]) -> Result:
        """Search for the best mapping of dense data without remainders, for a while."""
        mapspace = _without_zeros(replace(self.mapspace, factors=PERFECT))
        options = replace(self._options, objectives=objectives, time_limit_s=self._share_s(DENSE_S))
        return map_einsum(mapspace, options, None, self._stop)

    def frugal(self, known: Sequence[Totals]) -> list[Totals]:
        """The mapping of least EDP found in a while: bounds on energy lead to fast ones, too."""
        mapspace = replace(self.mapspace, factors=PERFECT)
        search = SparseSearch(mapspace, Options(time_limit_s=self._share_s(FRUGAL_S)), None, self._stop)
        found = search.minimise((EDP,), known=_best((EDP,), known))
        if found.mapping is None or found.evaluation is None:
            return []
        return [Totals(found.mapping, found.evaluation)]

    def judged(self, mapping: Mapping) -> Totals | None:
        """Return a mapping with its costs; None if it is not allowed, or formats cannot hold it."""
        return _totals(self.mapspace, mapping)

    def _share_s(self, most_s: float) -> float:
        """A share of the time that is left, of so many seconds at most."""
        left_s = self._clock.left_s
        return most_s if left_s is None else min(most_s, left_s * DENSE_SHARE)

    def _check(self) -> None:
        if self.mapspace.joint:
            raise ValueError("memories with several places are not searched with sparse data")
        if any(space.given for space in self.mapspace.problem.dataspaces):
            raise ValueError("sparse data are not searched where first values of outputs are given")
        _without_zeros(replace(self.mapspace, factors=PERFECT)).check_searchable(simple_rules=True)

    @property
    def _units_per_pj(self) -> int:
        return self.mapspace.architecture.units_per_pj * FIXED_POINT

    @property
    def _cost_limits(self) -> tuple[tuple[str, int], ...]:
        """The same with a part more of an energy unit, to which values are rounded."""
        parts = replace(self.mapspace.architecture, units_per_pj=self._units_per_pj)
        every = replace(self.mapspace, architecture=parts).cost_limits
        return tuple((name, min(UNLIMITED, most + (name == ENERGY))) for name, most in every)

    def _known_bound(self, objective: str) -> int:
        """Nothing."""
        del objective
        return 0

    @cached_property
    def _space(self) -> SearchSpace:
        return unlimited(self.mapspace, self._stop)

    @cached_property
    def _data(self) -> SparseData:
        return SparseData(self.mapspace, self.judged, self._space)

    def _paths(self, goal: Goal, best: Totals | None) -> PathSearch:
        return SparsePaths(self._space, goal, self._shared, best, data=self._data)

    def _evidence(self, paths: PathSearch) -> tuple[Evidence, ...]:
        """Nothing: a checker of sparse data relies on the problem alone."""
        del paths
        return ()

    def _first(self, goal: Goal) -> None:
        """No heuristic knows zeros."""

    def _descended(self, goal: Goal, best: Totals | None) -> Totals | None:
        """No heuristic knows zeros."""
        del goal
        return best


class _AnyMapping(SparseSearch):
    """Ends with the first mapping."""

    def judged(self, mapping: Mapping) -> Totals | None:
        """End if there is one."""
        priced = super().judged(mapping)
        if priced is not None:
            self._clock.end(Termination.INTERRUPTED)
        return priced

    def _searched(self, goal: Goal, best: Totals | None) -> Minimum:
        if best is None:
            return super()._searched(goal, best)
        self._clock.end(Termination.INTERRUPTED)
        return Minimum(best, 0)
