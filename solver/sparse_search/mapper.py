"""The search by bounds for sparse data: from a mapspace to a proven result."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cached_property

from model.extents import PERFECT
from model.mapping import Mapping
from model.mapspace import Mapspace
from model.objective import ENERGY, LATENCY
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
from solver.search.mapper import Minimum, ScopeSearch, SharedSearch
from solver.search.path.search import EinsumSearch
from solver.search.priced import Priced
from solver.search.space.search_space import SearchSpace
from solver.sparse_search.paths import SparseData, SparsePaths, without_capacities
from solver.sparse_search.shares import skips_instances


def map_sparse_by_bounds(
    mapspace: Mapspace,
    options: Options = Options(),
    on_progress: ProgressCallback | None = None,
    should_stop: StopCallback | None = None,
    known: Priced | None = None,
) -> Result:
    """Find the best mapping of sparse data under expected counts, with a bound that says how good it is.

    Parameters
    ----------
    mapspace
        Its data are sparse. Loops have no remainders where `lack_of_remainders` says why.
    options
        Objectives (default: those of the mapspace) and limits. The search is one process. The best mapping
        without remainders is searched first.
    on_progress
        Called from time to time with incumbent and bound, in the architecture's energy units.
    should_stop
        Asked often; once it answers True the incumbent is returned with its bound.
    known
        A mapping to begin with.

    Returns
    -------
    Result
        OPTIMAL only if no bound is below the value of the mapping by the model of sparse data. Energies of
        values and bounds are whole numbers of parts (`model.sparse.FIXED_POINT`) of the architecture's
        units, and the evaluation has totals in place of costs by level; `detailed` has these.

    Raises
    ------
    ValueError
        The data are dense, or the mapspace has what only the cost model knows.
    """
    search = sparse_search(mapspace, options, on_progress, should_stop)
    return search.minimise(options.objectives_for(mapspace), known=known)


def detailed(mapspace: Mapspace, mapping: Mapping | None) -> SparseEvaluation | None:
    """Return what a mapping costs on sparse data; None if it is not allowed, or there is none."""
    if mapping is None or judged(mapspace, mapping) is None:
        return None
    return evaluate_sparse_in(mapspace, mapping)


def first_mapping(mapspace: Mapspace, clock: Clock) -> Status:
    """Say whether sparse data have a mapping at all: FEASIBLE, INFEASIBLE, or UNKNOWN once time is over."""
    options = Options(time_limit_s=math.inf)
    search = SharedSearch(searchable(mapspace), options, None, clock.stop, kind=_AnyMapping)
    result = search.minimise((ENERGY,))
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


def without_zeros(mapspace: Mapspace) -> Mapspace:
    """Return dense data with divisors, under those rules that their search knows and that mean the same."""
    rules = (rule for rule in mapspace.rules if rule.is_simple and not rule.limits_costs and not rule.sized)
    return replace(mapspace, sparsity=None, factors=PERFECT, rules=tuple(rules))


def judged(mapspace: Mapspace, mapping: Mapping) -> Priced | None:
    """Return a mapping as searches compare it; None if it is not allowed, or formats cannot hold it."""
    most = mapspace.max_temporal_loops
    if most is not None and mapping.temporal_loops > most:
        return None
    if mapspace.factors == PERFECT and not mapping.divides(mapspace.problem.bound):
        return None
    totals = evaluate_totals(mapspace, mapping)
    return Priced(mapping, totals) if totals is not None and totals.valid else None


def searchable(mapspace: Mapspace) -> Mapspace:
    """Return the mapspace without the remainders that are not searched; ``ValueError`` if none of it is."""
    if mapspace.sparsity is None:
        raise ValueError("the data is dense")
    if mapspace.joint:
        raise ValueError("memories with several places are not searched with sparse data")
    if any(space.given for space in mapspace.problem.dataspaces):
        raise ValueError("sparse data are not searched where first values of outputs are given")
    return mapspace if lack_of_remainders(mapspace) is None else replace(mapspace, factors=PERFECT)


def sparse_search(
    mapspace: Mapspace,
    options: Options = Options(),
    on_progress: ProgressCallback | None = None,
    should_stop: StopCallback | None = None,
) -> SharedSearch:
    """Return searches of one mapspace, one after the other, within one time limit.

    Parameters are those of `map_sparse_by_bounds`.
    """

    def report(progress: Progress) -> None:
        assert on_progress is not None
        scale = 1 if progress.objective == LATENCY else FIXED_POINT
        incumbent, bound = (
            None if own is None else own // scale for own in (progress.incumbent, progress.bound)
        )
        on_progress(replace(progress, incumbent=incumbent, bound=bound))

    told = None if on_progress is None else report
    return SharedSearch(searchable(mapspace), options, told, should_stop, kind=SparseSearch)


class SparseSearch(ScopeSearch):
    """Searches of one mapspace of sparse data, in parts of energy units (`model.sparse.FIXED_POINT`)."""

    def judged(self, mapping: Mapping) -> Priced | None:
        """Return a mapping with its costs; None if it is not allowed, or formats cannot hold it."""
        return judged(self.mapspace, mapping)

    def _check(self) -> None:
        without_zeros(self.mapspace).check_searchable(simple_rules=True)

    @property
    def _units_per_pj(self) -> int:
        return self.mapspace.architecture.units_per_pj * FIXED_POINT

    @property
    def _cost_limits(self) -> tuple[tuple[str, int], ...]:
        """The limits on costs with a part more of an energy unit, to which values are rounded."""
        parts = replace(self.mapspace.architecture, units_per_pj=self._units_per_pj)
        every = replace(self.mapspace, architecture=parts).cost_limits
        return tuple((name, min(UNLIMITED, most + (name == ENERGY))) for name, most in every)

    def _known_bound(self, objective: str) -> int:
        """Nothing."""
        del objective
        return 0

    @cached_property
    def _space(self) -> SearchSpace:
        return without_capacities(self.mapspace, self.stop)

    @cached_property
    def _data(self) -> SparseData:
        return SparseData(self.mapspace, self.judged, self._space)

    def _paths(self, goal: Goal, best: Priced | None) -> EinsumSearch:
        return SparsePaths(self._space, goal, self._resources, best, data=self._data)

    def _evidence(self, paths: EinsumSearch) -> tuple[Evidence, ...]:
        """Nothing: a checker of sparse data relies on the problem alone."""
        del paths
        return ()

    def _first(self, goal: Goal) -> None:
        """No heuristic knows zeros."""

    def _descended(self, goal: Goal, best: Priced | None) -> Priced | None:
        """No heuristic knows zeros."""
        del goal
        return best


class _AnyMapping(SparseSearch):
    """Ends with the first mapping."""

    def judged(self, mapping: Mapping) -> Priced | None:
        """End if there is one."""
        priced = super().judged(mapping)
        if priced is not None:
            self._clock.end(Termination.INTERRUPTED)
        return priced

    def _searched(self, goal: Goal, best: Priced | None) -> Minimum:
        if best is None:
            return super()._searched(goal, best)
        self._clock.end(Termination.INTERRUPTED)
        return Minimum(best, 0)
