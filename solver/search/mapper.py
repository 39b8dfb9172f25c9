"""The search by bounds: from a mapspace to a proven result, through narrower mapspaces first."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

from model.cost import evaluate_in
from model.cost.batch.counts import most_words
from model.extents import ANY, PERFECT, Factors
from model.mapspace import Mapspace
from model.places import gathered, on_places, tidied
from model.problem import Problem
from solver.result import (
    BOUNDS,
    CP_SAT,
    HEURISTIC,
    REMAINDERS_S,
    Clock,
    Evidence,
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
    is_within,
)
from solver.search.arrays import WITHIN_64_BITS
from solver.search.goal import NO_CAPS, UNLIMITED, Caps, Goal
from solver.search.hint import FEW_HINTED, MANY_HINTED, hint
from solver.search.path.frame import estimated_bytes
from solver.search.path.search import EinsumSearch
from solver.search.priced import Priced
from solver.search.shared import ALONE, Partner, Shared
from solver.search.space.lattice import coarsened
from solver.search.space.search_space import SearchSpace
from solver.search.space.spatial import MOST_CHOICES
from solver.search.stopping import Stopped
from solver.search.trivial import trivial_bound

MOST_KEEP_MASKS = 1 << 18
"""Choices of what each level keeps up to which they are searched."""

MOST_TOLD = 1 << 14
"""Keep masks of a search that is stopped up to which it is told what was done for each."""

FEW_PRICES_FROM, MANY_PRICES_FROM = 2 * 10**6, 10**8
"""Tiles times keep masks from which on a heuristic looks for a mapping first, by few prices or by many.

Where extents are left out for want of memory, it is by many."""

MOST_DESCENTS = 3
"""Times that the heuristic looks for a mapping at most, where nothing is searched by bounds."""

PROGRESS_PERIOD_S = 0.1
"""Progress is reported no more often."""


class _Clock(Clock):
    """Says when to stop, and why; reports progress from time to time."""

    def __init__(
        self,
        options: Options,
        factors: Factors,
        on_progress: ProgressCallback | None,
        should_stop: StopCallback | None,
    ) -> None:
        super().__init__(options.time_limit_s, should_stop)
        self._remainders_s = REMAINDERS_S if factors == ANY and options.time_limit_s is None else None
        self._remainders_since: float | None = None
        self._on_progress = on_progress
        self._reported = -math.inf

    @contextmanager
    def on_remainders(self) -> Iterator[None]:
        """Count the time meanwhile against the default limit on mappings with remainders, if it applies."""
        self._remainders_since = began = self.seconds
        yield
        self._remainders_since = None
        if self._remainders_s is not None:
            self._remainders_s -= self.seconds - began

    def stop(self) -> bool:
        """Whether the search must end now."""
        most, since = self._remainders_s, self._remainders_since
        if most is not None and since is not None and self.seconds - since >= most:
            self.end(Termination.REMAINDER_LIMIT)
        return super().stop()

    def report(self, phase: Phase, goal: Goal, bound: int | None) -> None:
        """Tell the caller how far the search is, at most once per period."""
        if self._on_progress is None or self.seconds - self._reported < PROGRESS_PERIOD_S:
            return
        self._reported = self.seconds
        self._on_progress(Progress(phase, self.seconds, goal.objective, goal.incumbent, bound))


@dataclass(frozen=True)
class SearchScope:
    """Which mappings of a mapspace one stage of a search looks at.

    Parameters
    ----------
    name
        For people.
    divisors
        Whether loops have no remainders.
    one_place
        Whether every memory has one place.
    share
        Of the time that the stage after it has, at most.
    """

    name: str
    divisors: bool = False
    one_place: bool = False
    share: float = 1.0

    def of(self, mapspace: Mapspace) -> Mapspace:
        """Return the mapspace with these mappings alone."""
        own = replace(mapspace, factors=PERFECT) if self.divisors else mapspace
        return gathered(own) if self.one_place else own


EVEN_TILES = SearchScope("even tiles", divisors=True, one_place=True, share=0.5)
DIVISORS = SearchScope("divisors", divisors=True, share=0.5)
EVERYTHING = SearchScope("all mappings")


SCOPES = (EVEN_TILES, DIVISORS, EVERYTHING)
"""Each hands its best mapping on to the next one."""


def scopes(mapspace: Mapspace) -> tuple[SearchScope, ...]:
    """Return the scopes that bounds go through, one after the other."""
    if not mapspace.counting_rule.by_order:
        return (EVERYTHING,)  # one place for all dataspaces says little where places decide what stays
    idle = {EVEN_TILES: not mapspace.joint, DIVISORS: mapspace.factors == PERFECT}
    return tuple(scope for scope in SCOPES if not idle.get(scope))


def map_by_bounds(
    mapspace: Mapspace,
    options: Options = Options(),
    on_progress: ProgressCallback | None = None,
    should_stop: StopCallback | None = None,
    known: Priced | None = None,
    partner: Partner = ALONE,
) -> Result:
    """Find the best mapping by bounds alone, whatever its number of temporal loops.

    Parameters
    ----------
    mapspace, options, on_progress, should_stop
        See `solver.stages.map_einsum`; the data are dense.
    known
        A mapping to begin with.
    partner
        It searches at the same time.

    Returns
    -------
    Result
        OPTIMAL only if the bound meets the value of the mapping by the plain cost model, in integers.

    Raises
    ------
    ValueError
        The mapspace has what only the cost model knows, see `Mapspace.check_searchable`.
    TooLargeError
        Words are too many to be counted in 64 bits.
    ContradictionError, ModelError
        Parts of the program disagree: a defect, never an answer.
    """
    search = SharedSearch(mapspace, options, on_progress, should_stop, partner)
    return search.minimise(options.objectives_for(mapspace), known=known)


class Minimum(NamedTuple):
    """What minimising one objective comes to: a bound of None says that there is no mapping."""

    best: Priced | None
    bound: int | None
    evidence: tuple[Evidence, ...] = ()


class SharedSearch:
    """Searches of one mapspace, one after the other, that share its spaces and time limit.

    Parameters are those of `map_by_bounds`, and the class of the search within a scope.

    Raises
    ------
    ValueError
        The mapspace has what only the cost model knows, see `Mapspace.check_searchable`.
    TooLargeError
        Words are too many to be counted in 64 bits.
    """

    def __init__(
        self,
        mapspace: Mapspace,
        options: Options = Options(),
        on_progress: ProgressCallback | None = None,
        should_stop: StopCallback | None = None,
        partner: Partner = ALONE,
        kind: type[ScopeSearch] | None = None,
    ) -> None:
        self.mapspace = mapspace
        self._is_begun = False
        every = scopes(mapspace)
        self._watch = Stopwatch([(scope.name, BOUNDS) for scope in every])
        self._stages: list[tuple[SearchScope, ScopeSearch]] = []
        limit_s, stop = options.time_limit_s, should_stop
        for scope in reversed(every):
            if self._stages:
                share = scope.share if self._is_searched(*self._stages[0]) else 1.0
                limit_s = None if limit_s is None else limit_s * share
                stop, partner = self._stages[0][1].stop, ALONE
            own = replace(options, time_limit_s=limit_s)
            search = (kind or ScopeSearch)(scope.of(mapspace), own, on_progress, stop, partner, self._watch)
            self._stages.insert(0, (scope, search))

    def _is_searched(self, scope: SearchScope, search: ScopeSearch) -> bool:
        """Whether the search of a scope does not end at once, and leaves those before it all the time."""
        with self._watch.during(scope.name, BOUNDS):
            return search.obstacle is None

    def minimise(
        self, objectives: Sequence[str], caps: Caps = NO_CAPS, known: Priced | None = None
    ) -> Result:
        """Find the lexicographically best mapping within `caps`.

        Parameters
        ----------
        objectives
            Names out of `model.objective.OBJECTIVES`, one at least.
        caps
            The most that the mapping may cost.
        known
            A mapping within `caps`, to begin with. From the second call on, no narrower scope comes first
            then.

        Returns
        -------
        Result
            See `map_by_bounds`; INFEASIBLE means within `caps`. Statistics and seconds include those of
            all searches before.

        Raises
        ------
        ValueError
            No objective is named.
        KeyError
            There is no such objective.
        """
        if not objectives:
            raise ValueError("there is nothing to minimise: at least one objective must be named")
        is_short, self._is_begun = known is not None and self._is_begun, True
        before: dict[SearchScope, Narrower] = {}
        result: Result | None = None
        for scope, search in self._stages[-1:] if is_short else self._stages:
            best = known if scope is EVERYTHING else _in_narrower(search.mapspace, known)
            if result is not None:
                best = _better(objectives, best, _widened(search.mapspace, result))
            with self._watch.during(scope.name, BOUNDS):
                result = search.minimise(objectives, caps, best)
            before[scope] = Narrower.of(result)
        assert result is not None  # there is a scope
        return replace(
            result,
            statistics=self._work(result.statistics),
            perfect_factors=before.get(DIVISORS),
            even_tiles=before.get(EVEN_TILES),
        )

    def _work(self, own: Statistics) -> Statistics:
        """The work of all scopes, of which the last one has its `own`."""
        work = own
        for _, search in self._stages[:-1]:
            work = search.statistics.together(work)
        return replace(work, seconds=own.seconds, settled_by=own.settled_by, stages=self._watch.costs)


class ScopeSearch:
    """Searches of the mappings of one scope, one after the other."""

    def __init__(
        self,
        mapspace: Mapspace,
        options: Options,
        on_progress: ProgressCallback | None,
        should_stop: StopCallback | None,
        partner: Partner,
        watch: Stopwatch,
    ) -> None:
        self.mapspace = mapspace
        self._check()
        self._options = options
        self._clock = _Clock(options, mapspace.factors, on_progress, should_stop)
        self._partner, self._watch = partner, watch
        self.statistics = Statistics()

    def _check(self) -> None:
        """Refuse what the search does not know, as the constructor of `SharedSearch` says."""
        self.mapspace.check_searchable(simple_rules=True, by_bounds=True)
        _check_counts(self.mapspace.problem)

    @property
    def _units_per_pj(self) -> int:
        """Parts of a picojoule that energies are whole numbers of."""
        return self.mapspace.architecture.units_per_pj

    @property
    def _cost_limits(self) -> tuple[tuple[str, int], ...]:
        """The most that rules let mappings cost, by objective."""
        return self.mapspace.cost_limits

    def _known_bound(self, objective: str) -> int:
        """A bound that is known at once."""
        return trivial_bound(self.mapspace, objective)

    @cached_property
    def _space(self) -> SearchSpace:
        """The whole space, or as much of it as fits."""
        return _affordable(self.mapspace, self._options.memory_limit_mib << 20, self.stop)

    @cached_property
    def _resources(self) -> Shared:
        return Shared(self._options, self.stop, self._clock.report, self.statistics, self._partner)

    @cached_property
    def obstacle(self) -> Termination | None:
        """Why nothing is searched by bounds, if that is so, as far as it is known at once."""
        space = self._space
        if space.most_keep_masks > MOST_KEEP_MASKS:
            return Termination.CHOICES
        # Numbers of tiles cannot be left out as extents can.
        is_too_large = space.has_remainders and estimated_bytes(space) > self._options.memory_limit_mib << 20
        return Termination.MEMORY_LIMIT if is_too_large else None

    def stop(self) -> bool:
        """Whether to end: out of time, or because the partner has settled everything."""
        return self._clock.stop() or self._partner.has_settled()

    def minimise(self, objectives: Sequence[str], caps: Caps, known: Priced | None) -> Result:
        """Find the best mapping of the scope, see `SharedSearch.minimise`."""
        with self._clock.on_remainders():
            return self._minimise_all(objectives, caps, known)

    def _minimise_all(self, objectives: Sequence[str], caps: Caps, best: Priced | None) -> Result:
        """Minimise the objectives, one after the other."""
        own = ((name, min(UNLIMITED, most)) for name, most in self._cost_limits)
        limits = (*caps.limits, *own)
        bounds: list[int | None] = []
        evidence: list[Evidence] = []
        for objective in objectives:
            goal = Goal(objective, limits)
            best, bound, grounds = self._with_partner(goal, best)
            bounds.append(bound)
            evidence += grounds
            if goal.incumbent is None or bound != goal.incumbent:
                break
            limits = (*limits, (objective, goal.incumbent))
        if self._space.coarse:
            # Only a part of the mapspace was searched: what was found stands, what was proven does not.
            self._clock.end(Termination.MEMORY_LIMIT)
            bounds, evidence = [self._known_bound(objectives[0])], []
        best = _tidied(self.mapspace, best)
        return replace(self._result(tuple(objectives), best, bounds), evidence=tuple(evidence))

    def _with_partner(self, goal: Goal, best: Priced | None) -> Minimum:
        """Best mapping for one objective, and its bound, together with what the partner knows."""
        if best is not None:
            goal.incumbent = goal.value(best.evaluation.energy, best.evaluation.cycles)
        self._partner.exchange(goal, best)
        best, bound, grounds = self._searched(goal, best)
        better = self._partner.exchange(goal, best)
        if better is not None:
            best, goal.incumbent = better, goal.value(better.evaluation.energy, better.evaluation.cycles)
        known = None if self._partner.is_empty else self._partner.bound
        settled = bound is None or bound == goal.incumbent
        if bound is None or settled or not (self._partner.is_empty or (known or 0) > bound):
            self.statistics.settled_by += (BOUNDS if settled else "",)
            self._end_within_gap(goal, bound)
            return Minimum(best, bound, grounds)
        if known is not None and goal.incumbent is not None:
            known = min(known, goal.incumbent)
        self._end_within_gap(goal, known)
        self.statistics.settled_by += (CP_SAT if known == goal.incumbent else "",)
        return Minimum(best, known)

    def _end_within_gap(self, goal: Goal, bound: int | None) -> None:
        """Note that the search ends because value and bound are as close as requested, if they are."""
        if is_within(self._options.gap, goal.incumbent, bound):
            self._clock.end(Termination.GAP)

    def _searched(self, goal: Goal, best: Priced | None) -> Minimum:
        """Best mapping for one objective, and its bound."""
        space = self._space
        best = self._first(goal) if best is None else best
        with suppress(Stopped):
            if self.obstacle is None and space.spatial_choices <= MOST_CHOICES:
                self.statistics.masks += len(space.keep_masks)
                self.statistics.spatial_choices = space.spatial_choices
                paths = self._paths(goal, best)
                bound = paths.run()
                return Minimum(paths.best, bound, self._evidence(paths))
        if self.obstacle is not None or not self._partner.has_settled():
            best = self._descended(goal, best)
            # The first reason is kept: without any there are too many spatial choices.
            self._clock.end(self.obstacle or Termination.CHOICES)
        return Minimum(best, self._known_bound(goal.objective))

    def _paths(self, goal: Goal, best: Priced | None) -> EinsumSearch:
        """The search for one objective."""
        return EinsumSearch(self._space, goal, self._resources, best)

    def _evidence(self, paths: EinsumSearch) -> tuple[Evidence, ...]:
        """What the bound rests on; there is no time for that when a search of many masks is stopped."""
        is_told = len(self._space.keep_masks) <= MOST_TOLD or not self.stop()
        return (paths.evidence(),) if is_told else ()

    def _first(self, goal: Goal) -> Priced | None:
        """A heuristic's mapping, where it may take long until the search has one."""
        space = self._space
        size = MANY_PRICES_FROM if space.coarse else space.most_keep_masks * space.lattice.size
        if size < FEW_PRICES_FROM or space.has_remainders or goal.limits or self.obstacle is not None:
            return None
        more = () if size < MANY_PRICES_FROM else (MANY_HINTED,)
        best: Priced | None = None
        for evaluations in (FEW_HINTED, *more):
            for priced in self._hinted(goal, evaluations, 0):
                best, goal.incumbent = priced, priced.evaluation.value(goal.objective)
                self._clock.report(Phase.SURVEY, goal, None)
        return best

    def _descended(self, goal: Goal, best: Priced | None) -> Priced | None:
        """The best mapping that a heuristic finds where nothing is searched by bounds."""
        for seed in () if goal.limits else range(1, 1 + MOST_DESCENTS):
            known = best
            for priced in self._hinted(goal, MANY_HINTED, seed):
                best = _better((goal.objective,), known, priced)
            if best is known:
                break
            goal.incumbent = None if best is None else best.evaluation.value(goal.objective)
            self._clock.report(Phase.SURVEY, goal, None)
        return best

    def _hinted(self, goal: Goal, evaluations: int, seed: int) -> list[Priced]:
        """The best mapping that a heuristic finds, or nothing."""
        with self._watch.during("first mappings", HEURISTIC):
            return hint(self.mapspace, goal.objective, evaluations, seed, self.stop)

    def _result(self, objectives: tuple[str, ...], best: Priced | None, bounds: list[int | None]) -> Result:
        clock, units = self._clock, self._units_per_pj
        statistics = replace(self.statistics, seconds=clock.seconds)
        termination = clock.termination or Termination.PROVEN
        if best is None:
            status = Status.UNKNOWN if clock.termination else Status.INFEASIBLE
            return Result(status, termination, objectives, units, bound=bounds[0], statistics=statistics)
        evaluation = best.evaluation
        values = [evaluation.value(name) for name in objectives]
        proven = len(bounds) == len(values) and all(b == v for b, v in zip(bounds, values, strict=True))
        return Result(
            Status.OPTIMAL if proven else Status.FEASIBLE,
            Termination.PROVEN if proven else termination,
            objectives,
            units,
            value=values[0],
            bound=bounds[0],
            later_bounds=tuple(b for b in bounds[1:] if b is not None),
            mapping=best.mapping,
            evaluation=evaluation,
            statistics=statistics,
        )


def _in_narrower(mapspace: Mapspace, known: Priced | None) -> Priced | None:
    """A mapping as one of a narrower mapspace, if it is one."""
    if known is None or len(known.mapping.nodes) != len(mapspace.architecture.nodes):
        return None
    is_one = mapspace.factors != PERFECT or known.mapping.divides(mapspace.problem.bound)
    return known if is_one else None


def _better(objectives: Sequence[str], known: Priced | None, first: Priced | None) -> Priced | None:
    """The better one of two mappings within the same limits."""
    if known is None or first is None:
        return known or first
    values = ([own.evaluation.value(name) for name in objectives] for own in (first, known))
    return first if next(values) < next(values) else known


def _widened(mapspace: Mapspace, result: Result) -> Priced | None:
    """The mapping of a search of fewer mappings, if it has one, as one of the mapspace."""
    own = result.found
    if own is None or not mapspace.joint or len(own.mapping.nodes) == len(mapspace.architecture.nodes):
        return own
    mapping = on_places(mapspace, own.mapping)
    return Priced(mapping, evaluate_in(mapspace, mapping))


def _tidied(mapspace: Mapspace, best: Priced | None) -> Priced | None:
    """The best mapping with as few places as it needs."""
    if best is None or not mapspace.joint:
        return best
    mapping = tidied(mapspace, best.mapping)
    return Priced(mapping, evaluate_in(mapspace, mapping))


def _check_counts(problem: Problem) -> None:
    """Refuse a problem whose words the tables would count wrong."""
    words = sum(most_words(problem, space) for space in problem.dataspaces)
    if words >= WITHIN_64_BITS:
        size = math.floor(math.log10(words))
        raise TooLargeError(f"the words of all tensors total about 1e{size}, more than a search can count")


def _affordable(mapspace: Mapspace, most_bytes: int, stop: StopCallback) -> SearchSpace:
    """The whole search space, or as much of it as fits: with fewer extents of the finest dimensions."""
    space = SearchSpace(mapspace, stop=stop)
    while estimated_bytes(space) > most_bytes and not space.has_remainders:
        lattice = space.lattice
        finest = max(range(len(space.active)), key=lambda d: lattice.counts[d], default=None)
        if finest is None or lattice.counts[finest] <= 2:
            return space  # each dimension has 1 and its bound
        coarser = {**dict(space.coarse), space.active[finest]: coarsened(lattice.steps(finest))}
        space = SearchSpace(mapspace, tuple(coarser.items()), stop)
    return space
