"""The entry point of the search for fused mappings: from a cascade to a proven result."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate, chain
from types import MappingProxyType

from model.fused.cascade import Cascade
from model.fused.cost import evaluate_fused
from model.fused.mapping import FusedMapping, Leaf
from model.fused.report import FusedEvaluation
from model.objective import objective_value
from solver.fusion.assembly import fused_mapping, is_spread_alike, rooms_left
from solver.fusion.bodies import BodyBounds
from solver.fusion.edges import Choice, EdgeKind, Left, Point
from solver.fusion.evidence import evidence_of
from solver.fusion.labels import Label, Step
from solver.fusion.least import EdgePricer, Effort
from solver.fusion.limits import FusionLimits, in_hardware_order
from solver.fusion.one_buffer import good_mapping, is_known
from solver.fusion.path import Counts, PathSearch
from solver.fusion.result import (
    FusedResult,
    FusionProgress,
    FusionStatistics,
    ProgressCallback,
    has_any_factors,
    restrictions,
)
from solver.fusion.space import FusionSpace
from solver.fusion.ways import Given
from solver.processes import memory_bytes
from solver.result import (
    BOUNDS,
    REMAINDERS_S,
    Clock,
    ContradictionError,
    Narrower,
    Options,
    Status,
    StopCallback,
    Stopwatch,
    Termination,
    refuse_gap,
)
from solver.search.orders import HARDWARE
from solver.search.stopping import Stopped

LONGEST = (3, 5)
"""Einsums of the bodies that paths look at which are to give good mappings soon."""

WIDTH = 4
"""Bodies of each span that such paths look at."""

ROUNDS = 4
"""Such paths; edges are settled in between."""

MOST_TO_FIND = 0.75
"""Share of the time in which good mappings are looked for, at most: without one, bounds look at too much."""

MOST = 500
"""Labels at a cut that are looked at where Einsums are to spread tensors alike."""

FIRST_S = 1.0
"""Processor seconds in which first mappings are found even once time is over: also on busy machines."""

LATE_S = 0.5
"""Seconds for a bound in closed form once the search is over."""

HEARTBEAT = 32
"""Questions whether to stop between looks at the memory in use and reports of progress."""

MEMORY_SHARE = 0.9
"""Share of the memory limit at which a search ends: its result takes some as well."""


@dataclass
class _Best:
    """The best mapping so far."""

    value: int | None = None
    mapping: FusedMapping | None = None
    evaluation: FusedEvaluation | None = None
    steps: tuple[Step, ...] = ()

    def take(
        self, value: int, mapping: FusedMapping, evaluation: FusedEvaluation, steps: Sequence[Step]
    ) -> None:
        """Keep a mapping if it is better."""
        if self.value is None or value < self.value:
            self.value, self.mapping, self.evaluation, self.steps = value, mapping, evaluation, tuple(steps)

    def take_of(self, other: _Best) -> None:
        """Keep another best mapping if it is better."""
        if other.value is not None and other.mapping is not None and other.evaluation is not None:
            self.take(other.value, other.mapping, other.evaluation, other.steps)


def fuse_cascade(
    cascade: Cascade,
    objective: str,
    options: Options = Options(),
    limits: FusionLimits = FusionLimits(),
    on_progress: ProgressCallback | None = None,
    should_stop: StopCallback | None = None,
    grain: int = 1,
) -> FusedResult:
    """Find the fused mapping of a cascade with the least energy, latency or EDP, and prove it.

    Parameters
    ----------
    cascade
        What is computed, with the mapspace of each Einsum.
    objective
        One of `model.objective.OBJECTIVES`.
    options
        The time limit holds for the whole search.
    limits
        What narrows the space.
    on_progress, should_stop
        Called from time to time; once `should_stop` answers True the best mapping is returned with its bound.
    grain
        What the caller knows all costs to be multiples of: bounds that leave less to save are a proof.

    Returns
    -------
    FusedResult
        OPTIMAL only if the bound meets the value of the mapping by `model.fused.cost`, in integers.

    Raises
    ------
    ValueError
        A gap is requested.
    NotSearchedError
        A ValueError: the cascade has what the search does not know.
    LimitError
        A ValueError: `limits` names what is not there.
    ContradictionError
        Parts of the program disagree: a defect.
    """
    refuse_gap(options, "a fused cascade")
    return _Search(cascade, objective, options, limits, on_progress, should_stop, grain).run()


@dataclass
class _Outcome:
    """What a search of one space came to."""

    best: _Best
    bound: int | None  # None: no path
    proven: bool
    complete: bool = False  # all that the shortest path needs is settled


class _Search:
    def __init__(
        self,
        cascade: Cascade,
        objective: str,
        options: Options,
        limits: FusionLimits,
        on_progress: ProgressCallback | None,
        should_stop: StopCallback | None,
        grain: int = 1,
    ) -> None:
        self.cascade, self.objective, self.limits, self.grain = cascade, objective, limits, grain
        self.options, self.should_stop, self.questions = options, should_stop, 0
        self.clock, self.watch = Clock(options.time_limit_s, self._is_interrupted), Stopwatch()
        self.alone = self.clock.share(2)
        self.space = FusionSpace(cascade, limits, stop=lambda: self.pricer.clock.stop())
        self.space.check()
        self.pricer = EdgePricer(self.space, objective, options, self.clock)
        self.perfect_pricer: EdgePricer | None = None  # as it was before there were remainders everywhere
        self.counts = Counts()
        self.bounds: dict[object, BodyBounds] = {}
        self.paths, self.stage = 0, ""
        self.agreed = set[object]()
        self.on_progress = on_progress
        self.incumbent: int | None = None  # of all spaces
        self.bound: int | None = None  # on the result, as far as it was told
        self.is_any = has_any_factors(cascade)
        self.widest = self.space if limits.equal_parts else replace(self.space, remainders=True)

    def run(self) -> FusedResult:
        """Search without fusion first, then with; then with remainders in nests where there may be any."""
        hardware = self._in_hardware_order()
        if hardware is not None:
            self.alone = self.clock.share(1 / MOST_TO_FIND)
        with self._during("each Einsum alone"):
            first = self._unfused_at_once()
        best = replace(first)
        if (few := self._dearest(best)) is not None:
            with self._during("divisors"), suppress(Stopped):
                self._find_soon(replace(self.space, limits=few), best)
        with self._during("each Einsum alone"):
            self.pricer.clock = self.clock.share(2) if self.is_any else self.clock
            unfused, perfect, even = self._alone(first), None, None
        best.take_of(unfused.best)
        if hardware is not None and hardware.mapping is not None:
            self._take_found(best, self.objective, hardware.value, hardware.mapping)
        with suppress(Stopped):
            self._try_formulas(best)
        with self._during("divisors"):
            outcome = self._fused(best)
        if self.is_any:
            perfect = Narrower(self._status(outcome), best.value, outcome.bound)
            with self._during("remainders in nests"):
                unfused, outcome = self._with_remainders(best)
        if self.widest is not self.space:
            even = Narrower(self._status(outcome), best.value, outcome.bound)
            with self._during("remainders of shared loops"):
                outcome = self._with_shared_remainders(best)
        if not outcome.proven:
            self.clock.end(self._ending(outcome))
        perfect, even = _at_least(outcome.bound, perfect), _at_least(outcome.bound, even)
        return FusedResult(
            self._status(outcome),
            Termination.PROVEN if outcome.proven else self.clock.termination or Termination.TIME_LIMIT,
            self.objective,
            self.cascade,
            best.value,
            outcome.bound,
            best.mapping,
            best.evaluation,
            unfused.best.evaluation if unfused.proven or unfused.complete else None,
            self._statistics(),
            tuple(restrictions(self.space)),
            self.limits,
            evidence_of(self.pricer, self.perfect_pricer),
            perfect,
            even,
            None if hardware is None else Narrower(hardware.status, hardware.value, hardware.bound),
        )

    def _in_hardware_order(self) -> FusedResult | None:
        """Search the mappings in the order of the hardware, where memories may lie in others as well."""
        if (cascade := in_hardware_order(self.cascade)) is None:
            return None
        options = replace(self.options, time_limit_s=self.clock.share(4).left_s)
        with self._during(HARDWARE):
            return fuse_cascade(
                cascade, self.objective, options, self.limits, self._report_narrower, self.should_stop
            )

    def _report_narrower(self, progress: FusionProgress) -> None:
        """Tell of the progress of a search of fewer mappings: its bound is none on the result."""
        if self.on_progress is not None:
            stage = f"{self.stage}: {progress.stage}"
            self.on_progress(replace(progress, seconds=self.clock.seconds, stage=stage, bound=None))

    @contextmanager
    def _during(self, stage: str) -> Iterator[None]:
        """Measure a stage, and tell of it."""
        self.stage = stage
        self._report(_Best(), None)
        with self.watch.during(stage, BOUNDS):
            yield

    def _take_found(self, best: _Best, objective: str, value: int | None, mapping: FusedMapping) -> None:
        """Take a mapping that was found elsewhere, if it costs what was said."""
        cost = evaluate_fused(self.cascade, mapping)
        if not cost.valid or cost.value(objective) != value:
            raise ContradictionError(f"a mapping of {value} costs {cost.value(objective)}")
        best.take(cost.value(self.objective), mapping, cost, ())
        self._report(best, None)

    def _is_interrupted(self) -> bool:
        """Whether to end, whatever the time; now and then, look at memory and tell of progress."""
        self.questions += 1
        if self.questions % HEARTBEAT == 0:
            if memory_bytes() > self.options.memory_limit_mib * MEMORY_SHARE * (1 << 20):
                self.clock.end(Termination.MEMORY_LIMIT)
            self._report(_Best(), self.bound)
        if self.should_stop is not None and self.should_stop():
            self.clock.end(Termination.INTERRUPTED)
        return self.clock.termination not in {None, Termination.TIME_LIMIT}

    @cached_property
    def _unfused_space(self) -> FusionSpace:
        return replace(self.space, limits=FusionLimits(0, None, frozenset(self.cascade.intermediates)))

    def _unfused_at_once(self) -> _Best:
        """Map each Einsum alone before there are any bounds: so there is a mapping once time is over."""
        self.pricer.clock, best = self.alone, _Best()
        search = self._paths(self._unfused_space)
        steps = [self._step_alone(search, place) for place in range(len(self.cascade.einsums))]
        if all(step.kind is not None or step.choice is not None for step in steps):
            left = rooms_left(search.space, steps)
            first = self._first_points(steps, left)
            self._price_path(search.space, steps, left, best, first)
            self._report(best, None)
            products = self._least_products(steps, left)
            if self._refine_one_by_one(steps, left) or products:
                self._price_path(search.space, steps, left, best, first | products)
                self._report(best, None)
        return best

    def _first_points(self, steps: Sequence[Step], left: Sequence[Left]) -> dict[int, Point]:
        """A mapping of each Einsum that takes a moment to find, by the edge's core, also if time is over."""
        found: dict[int, Point] = {}
        for step, room in zip(steps, left, strict=True):
            if step.kind is None or id((edge := self.pricer.edge(step.kind)).core) in found:
                continue
            point = self.pricer.drawn(edge, room.words, self._has_no_time_for_first)
            if point is not None:
                found[id(edge.core)] = point
        return found

    def _least_products(self, steps: Sequence[Step], left: Sequence[Left]) -> dict[int, Point]:
        """The mapping of each Einsum with the least EDP, where its memories may lie in any order.

        Searches take long there, and those of a front look for the least energy and latency first.
        """
        if self.objective != "edp" or in_hardware_order(self.cascade) is None:
            return {}
        found: dict[int, Point] = {}
        edges = [None if step.kind is None else self.pricer.edge(step.kind) for step in steps]
        kinds = {
            id(edge.core): (edge, room) for edge, room in zip(edges, left, strict=True) if edge is not None
        }
        for number, (core, (edge, room)) in enumerate(kinds.items()):
            left_s = self.alone.left_s
            most_s = math.inf if left_s is None else left_s / (len(kinds) - number)
            point = self.pricer.least_product(edge, room.words, most_s)
            found |= {} if point is None else {core: point}
        return found

    def _refine_one_by_one(self, steps: Sequence[Step], left: Sequence[Left]) -> bool:
        """Map each Einsum alone, in its share of the time; whether anything was learned."""
        learned, kinds = (
            False,
            {
                id(self.pricer.edge(step.kind).core): (step, room)
                for step, room in zip(steps, left, strict=True)
                if step.kind is not None
            },
        )
        for number, (step, room) in enumerate(kinds.values()):
            left_s = self.alone.left_s
            self.pricer.step_s = math.inf if left_s is None else left_s / (len(kinds) - number)
            learned |= self._refine([step], [room])
        self.pricer.step_s = math.inf
        return learned

    def _try_formulas(self, best: _Best) -> None:
        """Price a good mapping onto one buffer that formulas find, where they know the cascade."""
        if best.mapping is None or best.evaluation is None or not is_known(self.space):
            return
        leaves = [own for own in best.mapping.children if isinstance(own, Leaf)]
        energies = [cost.energy * cost.n_instances for cost in best.evaluation.einsums]
        self._take_found(best, "energy", *good_mapping(self.space, leaves, energies, self.clock.stop))

    def _step_alone(self, search: PathSearch, place: int) -> Step:
        """An Einsum with all tensors outside; without a choice, a copy that may not be so."""
        if not self.cascade.einsums[place].is_copy:
            return Step(place, (), self.space.stores.alone(place), None, (), ())
        cost = self.space.copies.transfer(place, {})
        may_be = search.successors.may_write(place, {})
        return Step(place, (), None, Choice(*cost, 0, None) if may_be else None, (), ())

    def _alone(self, best: _Best) -> _Outcome:
        """What Einsums alone come to that are mapped: each at its least cost, unless two costs matter."""
        if best.value is None or self.objective == "edp":
            return self._unfused(best)
        edges = [self.pricer.edge(step.kind) for step in best.steps if step.kind is not None]
        is_complete = all(edge.core.solved for edge in edges)
        is_proven = is_complete and all(edge.is_settled for edge in edges)
        return _Outcome(best, best.value if is_proven else None, is_proven, is_complete)

    def _unfused(self, best: _Best) -> _Outcome:
        """Map each Einsum alone, with all tensors outside."""
        return self._solve(self._unfused_space, best, is_patient=False)

    def _fused(self, best: _Best) -> _Outcome:
        """Search without shared loops first, then with them."""
        if self.space.storable and self.limits.max_loops != 0:
            with self._within_share_of_time(), suppress(Stopped):
                self._find_whole(best)
        return self._looped_by_memories(best)

    def _find_soon(self, space: FusionSpace, best: _Best) -> None:
        """Find a good mapping by bounds that take no time first, then by those that other paths use."""
        pricer, bounds, clock = self.pricer, self.bounds, self.clock.share(2)
        self.pricer, self.bounds = replace(pricer, in_closed_form=True, edges={}, clock=clock), {}
        try:
            self._settle_rough_path(self._paths(space, LONGEST[0]), best)
        finally:
            pricer.searches = self.pricer.searches
            self.pricer, self.bounds = pricer, bounds
        self.pricer.clock = clock
        self._find_good_mappings(space, best)

    def _dearest(self, best: _Best) -> FusionLimits | None:
        """Limits by which those tensors alone are stored that cause half of the traffic, if they are few.

        They promise most: looked at before all others, they give a good mapping soon.
        """
        if best.evaluation is None or self.limits.max_loops == 0:
            return None
        words = Counter[str]()
        for einsum, cost in zip(self.cascade.einsums, best.evaluation.einsums, strict=True):
            for own in () if einsum.is_copy else cost.memories[0].dataspaces:
                moved = own.total_reads + own.total_updates
                words[einsum.access(own.dataspace).tensor] += moved * einsum.n_instances
        storable = sorted(self.space.storable, key=lambda tensor: (-words[tensor], tensor))
        sums = accumulate(words[tensor] for tensor in storable)
        few = 1 + sum(own < sum(words[tensor] for tensor in storable) / 2 for own in sums)
        if 2 * few > len(storable):
            return None
        others = self.limits.no_fuse.union(storable[few:])
        outermost = frozenset([self.space.memory.name])
        memories = outermost if self.limits.memories is None else outermost & self.limits.memories
        loops = self.limits.max_loops_per_rank or 1
        return replace(self.limits, no_fuse=others, memories=memories, max_loops_per_rank=loops)

    def _find_whole(self, best: _Best) -> None:
        """Find a good mapping without shared loops: tensors are stored as a whole, or not at all."""
        search = self._paths(replace(self.space, limits=replace(self.limits, max_loops=0)), longest=1)
        for _ in range(ROUNDS):
            path, _ = self._path(search, best)
            if path is None or self._settle(search, path, best):
                return

    def _looped_by_memories(self, best: _Best) -> _Outcome:
        """Search with tensors in the outermost on-chip memory first, where others may store them, too."""
        outermost, allowed = self.space.memory.name, self.limits.memories
        if self.space.is_deep and (allowed is None or outermost in allowed):
            with self._within_share_of_time():
                self._looped(replace(self.limits, memories=frozenset([outermost])), best)
        return self._looped(self.limits, best)

    def _looped(self, limits: FusionLimits, best: _Best) -> _Outcome:
        """Search for good mappings first, whose paths loop each rank once, then to the proof."""
        space = self.space if limits == self.limits else replace(self.space, limits=limits)
        once = replace(limits, max_loops_per_rank=limits.max_loops_per_rank or 1)
        with self._within_share_of_time(MOST_TO_FIND), suppress(Stopped):
            self._find_good_mappings(replace(space, limits=once), best)
        return self._solve(space, best)

    @contextmanager
    def _within_share_of_time(self, share: float = 0.5) -> Iterator[None]:
        """Leave the rest of the time that is left to what comes after."""
        clock = self.pricer.clock
        self.pricer.clock = clock.share(1 / share)
        try:
            yield
        finally:
            self.pricer.clock = clock

    def _with_remainders(self, best: _Best) -> tuple[_Outcome, _Outcome]:
        """Search nests with remainders, too: of Einsums alone first, then of the best path, then of all."""
        self.perfect_pricer = self.pricer
        self.pricer = replace(self.pricer, remainders=True, clock=self.clock)
        with suppress(Stopped):
            self._bound_by_floors(best)
        with self._within_share_of_time(), suppress(Stopped):
            self._map_alone()
        unfused = self._unfused(_Best())
        best.take_of(unfused.best)
        self.pricer.clock = self._clock_of_stage(0.5 if self.widest is not self.space else 1.0)
        with suppress(Stopped):
            self._map_best_path_again(best)
        return unfused, self._solve(self.space, best)

    def _with_shared_remainders(self, best: _Best) -> _Outcome:
        """Search shared loops with remainders, too."""
        self.pricer = replace(self.pricer, clock=self._clock_of_stage(1.0))
        with self._within_share_of_time(), suppress(Stopped):
            self._find_good_mappings(self.widest, best)
        return self._solve(self.widest, best)

    def _clock_of_stage(self, share: float) -> Clock:
        """A clock with a share of the time that is left for remainders, or with the default limit."""
        left_s = self.clock.left_s
        return Clock(REMAINDERS_S if left_s is None else share * left_s, self.clock.stop)

    def _bound_by_floors(self, best: _Best) -> None:
        """Bound each Einsum by floors first, so that there is a bound whatever time its searches take.

        Those that cost most in the best mapping come first: there may not be time for all of them.
        """
        search = self._paths(self.space)
        for place in self._dearest_first(best.evaluation):
            search.bodies.lower((), place, Given((), 0))
        self._report(best, search.value(search.start(0, frozenset())))

    def _dearest_first(self, cost: FusedEvaluation | None) -> list[int]:
        """Einsums by what the others cost without them."""
        places = range(len(self.cascade.einsums))
        if cost is None:
            return list(places)
        energy, cycles = cost.energy, cost.cycles

        def others(place: int) -> int:
            own, (times, of_cycles) = cost.einsums[place], self.cascade.einsums[place].times
            rest = energy - own.energy * times, cycles - own.cycles * of_cycles
            return objective_value(self.objective, *rest)

        return sorted(places, key=others)

    def _map_alone(self) -> None:
        """Map each Einsum with remainders as if it were alone, those that differ in names alone once."""
        self.pricer.heed()
        places = [place for place, einsum in enumerate(self.cascade.einsums) if not einsum.is_copy]
        edges = [self.pricer.edge(self.space.stores.alone(place, remainders=True)) for place in places]
        distinct = {id(edge.core): edge for edge in edges}.values()
        for number, edge in enumerate(distinct):
            left_s = self.pricer.clock.left_s
            self.pricer.search_s = REMAINDERS_S if left_s is None else left_s / (len(distinct) - number)
            self.pricer.heed()
            self.pricer.least(edge.space.kind, Effort.ONE_STEP)

    def _map_best_path_again(self, best: _Best) -> None:
        """Map the Einsums of the best path again, with remainders."""
        search = self._paths(self.space)
        steps = [
            step
            if step.kind is None
            else step._replace(
                kind=replace(
                    step.kind, remainders=self.space.stores.may_leave(step.kind.deeper, step.kind.above)
                ),
                choice=None,
            )
            for step in best.steps
        ]
        if not steps or self.clock.stop():
            return
        left = rooms_left(search.space, steps)
        left_s = self.pricer.clock.left_s
        self.pricer.search_s = REMAINDERS_S if left_s is None else left_s / (2 * len(steps))
        self._refine(steps, left, Effort.ROOM_LEFT)
        self._price_path(self.space, steps, left, best)

    def _ending(self, outcome: _Outcome) -> Termination:
        """Why a search ended whose result is not proven."""
        if outcome.complete and not self.pricer.is_cut_short:
            return Termination.BOUND
        return Termination.TIME_LIMIT if self.clock.left_s is not None else Termination.REMAINDER_LIMIT

    def _status(self, outcome: _Outcome) -> Status:
        if outcome.best.value is None:
            return Status.INFEASIBLE if outcome.proven else Status.UNKNOWN
        return Status.OPTIMAL if outcome.proven else Status.FEASIBLE

    def _statistics(self) -> FusionStatistics:
        pricer = self.pricer
        return FusionStatistics(
            self.clock.seconds,
            len(pricer.edges),
            pricer.floors,
            sum(any(known.points for known in core.solved) for core in pricer.cores.values()),
            pricer.searches,
            self.paths,
            self.counts.expanded,
            self.counts.dominated,
            self.watch.costs,
        )

    def _solve(self, space: FusionSpace, best: _Best, is_patient: bool = True) -> _Outcome:
        """Search one space, from a known mapping on; edges are priced where a shortest path needs them.

        Searches that were cut short are tried again if this `is_patient`, once nothing else is left to do.
        """
        self.pricer.is_patient = False
        search = self._paths(space)
        self._report(best, None)
        bound = 0
        while True:
            path, value = self._path(search, best)
            bound = max(bound, value or 0)
            if path is None and value is None:
                return _Outcome(best, best.value, proven=True)
            if path is None:
                return _Outcome(best, bound, proven=False)
            self._report(best, bound)
            is_last = self._settle(search, path, best)
            if is_last and is_patient and not self.pricer.is_patient and best.value != bound:
                self.pricer.is_patient = True
                continue
            if is_last:
                complete = not self.pricer.clock.stop()
                self._improve_by_nests(space, best, bound)
                return _Outcome(best, bound, best.value == bound, complete)

    def _path(self, search: PathSearch, best: _Best) -> tuple[list[Step] | None, int | None]:
        """The best path by what is known, if it is below the best mapping, see `PathSearch.path`."""
        self.paths += 1
        with suppress(Stopped):
            search.tighten(self._limit(best))
        try:
            return search.path(self._limit(best))
        except Stopped:
            return None, self._bound_at_once(search)

    def _limit(self, best: _Best) -> int | None:
        """What a better mapping is below: it costs less by a grain."""
        return None if best.value is None else best.value - self.grain + 1

    def _has_no_time_for_first(self) -> bool:
        """Whether first mappings take too long once the time for each Einsum alone is over."""
        return self.alone.stop() and time.process_time() - self._late_from_s > FIRST_S

    @cached_property
    def _late_from_s(self) -> float:
        """Processor time when it was over."""
        return time.process_time()

    @cached_property
    def _last(self) -> Clock:
        """Time for a bound once the search is over, or was interrupted; it begins when it is asked for."""
        return Clock(LATE_S)

    def _is_last(self, space: FusionSpace) -> bool:
        """Whether a bound on a space is one on the result: it is the widest one, with all remainders."""
        return space is self.widest and self.pricer.remainders == self.is_any

    def _bound_at_once(self, search: PathSearch) -> int:
        """A bound on all paths that takes little time: by what is known of each Einsum alone.

        Bounds on other spaces than the last one are none on the result: they are worth no time.
        """
        if not self._is_last(search.space):
            return 0
        clock, self.pricer.clock = self.pricer.clock, self.clock
        if self.clock.stop():
            self.pricer.clock, self.pricer.in_closed_form = self._last, True
        try:
            found = [self._least_alone(search, place) for place in range(len(self.cascade.einsums))]
        finally:
            self.pricer.clock = clock
        energy, cycles = sum(own[0] for own in found), sum(own[1] for own in found)
        return objective_value(self.objective, energy, cycles)

    def _least_alone(self, search: PathSearch, place: int) -> tuple[int, int]:
        """Least energy and cycles of an Einsum; by its arithmetic if there is no time for more."""
        try:
            return search.bodies.lower((), place, Given((), 0))
        except Stopped:
            least, (times, of_cycles) = self.pricer.arithmetic(place), self.cascade.einsums[place].times
            return int(least.paid) * times, int(least.cycles) * of_cycles

    def _paths(self, space: FusionSpace, longest: int | None = None, as_paid: bool = False) -> PathSearch:
        """Search paths of a space; bounds on Einsums do not depend on how many loops it allows."""
        self.pricer.space = space
        is_estimate = longest is not None
        homes = tuple(sorted(space.homes.items()))
        key = homes, space.limits.max_loops == 0, is_estimate, self.pricer.remainders, space.remainders
        if key not in self.bounds:
            self.bounds[key] = BodyBounds(space, self.pricer, is_estimate)
        search = PathSearch(space, self.pricer, self.objective, self.counts, longest, as_paid=as_paid)
        search.bodies = self.bounds[key]
        return search

    def _improve_by_nests(self, space: FusionSpace, best: _Best, bound: int) -> None:
        """Find a better mapping, where bounds on visits that differ do not tell: by what their nests cost."""
        if best.value == bound:
            return
        search = self._paths(space, as_paid=True)
        while not self.pricer.clock.stop():
            path, _ = self._path(search, best)
            if path is None or self._settle(search, path, best):
                return

    def _find_good_mappings(self, space: FusionSpace, best: _Best) -> None:
        """Find good mappings first, by paths that look at a few bodies of each span."""
        spans = [end - start for start, end in space.bodies()]
        shorter = (0, *LONGEST)
        for longest in (
            own for own, less in zip(LONGEST, shorter, strict=False) if max(spans, default=0) > less
        ):
            search = self._paths(space, longest)
            rounds = (self._settle_rough_path(search, best) for _ in range(ROUNDS))
            any(rounds)  # until one of them is the last

    def _settle_rough_path(self, search: PathSearch, best: _Best) -> bool:
        """Settle a path that looks at a few bodies; whether there is nothing more to find."""
        search.tighten(self._limit(best), WIDTH)
        path, _ = search.path(self._limit(best), WIDTH)
        return path is None or self._settle(search, path, best)

    def _settle(self, search: PathSearch, path: Sequence[Step], best: _Best) -> bool:
        """Settle and price the edges of a path; whether all of them were, or the search has to stop."""
        try:
            return self._settle_in_time(search, path, best)
        except Stopped:
            return True

    def _settle_in_time(self, search: PathSearch, path: Sequence[Step], best: _Best) -> bool:
        left = rooms_left(search.space, path)
        steps = [self._with_known_mapping(search, step, own) for step, own in zip(path, left, strict=True)]
        if not any(map(_is_open, steps)):
            if self._price(search.space, steps, [_point_of(step) for step in steps], best):
                return True
            self._tell_spreads_apart(search, steps)
            return self.pricer.clock.stop()
        is_stuck = not self._refine(steps, left)
        self._price_path(search.space, steps, left, best)
        self._spread_alike(search, steps, best)
        self._report(best, None)
        return is_stuck or self.pricer.clock.stop()

    def _spread_alike(self, search: PathSearch, steps: Sequence[Step], best: _Best) -> None:
        """Find a mapping whose Einsums spread what a path stores alike, where the path leaves that open."""
        key = tuple((step.frames, step.stores, step.held) for step in steps)
        if key in self.agreed or not any(_leaves_open(search, step) for step in steps):
            return
        self.agreed.add(key)
        for _ in range(ROUNDS):
            path = _spread_path(search, steps, best.value)
            if path is None or self.pricer.clock.stop():
                return
            left = rooms_left(search.space, path)
            is_settled = not self._refine(path, left)
            self._price_path(search.space, path, left, best)
            if is_settled:
                return

    def _tell_spreads_apart(self, search: PathSearch, steps: Sequence[Step]) -> None:
        """Look spread by spread at tensors that Einsums do not spread alike, and at held tiles likewise.

        At held tiles as far as it is open how spatial loops part them.
        """
        open_ = {
            (tile.tensor, tile.level, step.frames)
            for step in steps
            for tile in step.stores
            if tile.spread is None
        }
        holding = (own for own in steps if own.kind is not None and search.space.stores.is_open(own.kind))
        open_.update((self.cascade.einsums[own.place].name, 0, own.frames) for own in holding)
        if open_ <= search.by_spread:
            raise ContradictionError("a path's mapping is not valid, whatever is known of its tensors")
        search.by_spread |= open_

    def _with_known_mapping(self, search: PathSearch, step: Step, left: Left) -> Step:
        """The step with a mapping that has room and costs no more than its bound, if one is known."""
        if step.kind is None or step.choice is None or not _is_open(step):
            return step
        for known in self.pricer.least(step.kind, as_paid=search.as_paid):
            cheap = known.energy <= step.choice.energy and known.cycles <= step.choice.cycles
            is_known = left.words is None or known.room_words <= left.words
            if known.point is not None and is_known and left.has_room(known.point) and cheap:
                return step._replace(choice=known)
        return step

    def _report(self, best: _Best, bound: int | None) -> None:
        """Tell of progress; bounds of narrower spaces are none on the result."""
        if self.on_progress is None:
            return
        known = [value for value in (self.incumbent, best.value) if value is not None]
        self.incumbent = min(known, default=None)
        self.bound = bound if self._is_last(self.pricer.space) else None
        cuts = len(self.cascade.einsums)
        self.on_progress(
            FusionProgress(
                self.clock.seconds,
                self.objective,
                self.stage,
                self.counts.settled,
                cuts,
                self.counts.open,
                self.incumbent,
                self.bound,
            )
        )

    def _refine(self, steps: Sequence[Step], left: Sequence[Left], effort: Effort = Effort.ONE_STEP) -> bool:
        """Take a step on edges of a path that are only bounded; whether anything was learned."""
        done, learned = set[tuple[int, int | None]](), False
        for step, (room, _) in zip(steps, left, strict=True):
            if step.kind is None or not _is_open(step) or self.pricer.clock.stop():
                continue
            key = id(self.pricer.edge(step.kind).core), room
            if key not in done:
                learned |= self._learns_of(step.kind, effort, room)
            done.add(key)
        return learned

    def _learns_of(self, kind: EdgeKind, effort: Effort, room: int | None) -> bool:
        """Take a step on an edge; whether anything was learned."""
        try:
            return self.pricer.refine(kind, effort, room)
        except Stopped:
            return False

    def _price_path(
        self,
        space: FusionSpace,
        steps: Sequence[Step],
        left: Sequence[Left],
        best: _Best,
        first: Mapping[int, Point] = MappingProxyType({}),
    ) -> None:
        """Price a path with the best mappings of its edges that are known, or else with `first` ones."""
        points: list[Point | None] = []
        for step, room in zip(steps, left, strict=True):
            if step.kind is None:
                points.append(None)
                continue
            edge = self.pricer.edge(step.kind)
            known = chain(edge.points, filter(None, (first.get(id(edge.core)),)))
            shift, fitting = edge.space.shift_energy, [own for own in known if room.has_room(own)]
            if not fitting:
                return
            points.append(
                min(fitting, key=lambda own: objective_value(self.objective, own.energy + shift, own.cycles))
            )
        self._price(space, steps, points, best)

    def _price(
        self, space: FusionSpace, steps: Sequence[Step], points: Sequence[Point | None], best: _Best
    ) -> bool:
        """Price a path by the cost model, and keep it if it is better.

        Returns
        -------
        bool
            Whether it is a mapping that costs what the path says: its Einsums may spread a tensor differently
            that they all access, and held tiles and copies may cost more, where that is open.
        """
        mapping = fused_mapping(space, self.pricer, steps, points)
        unknown = {tile.tensor for step in steps for tile in step.stores if tile.spread is None}
        is_loose = any(step.kind is not None and space.stores.is_open(step.kind) for step in steps)
        is_loose |= not unknown.isdisjoint(space.copies.accessed)
        is_open = is_loose or bool(unknown)
        if is_open and not is_spread_alike(self.cascade, mapping):
            return False
        cost = evaluate_fused(self.cascade, mapping)
        if not cost.valid and is_open:
            return False
        if not cost.valid:
            raise ContradictionError(f"a path's mapping is not valid: {cost.violations}")
        value = cost.value(self.objective)
        expected = self._expected(steps, points)
        mixed = any(point is not None and point.paid is not None for point in points)
        if (value < expected if is_loose else value != expected) and not mixed:
            raise ContradictionError(f"a path's mapping costs {value}, not {expected}")
        best.take(value, mapping, cost, steps)
        return not is_loose or value <= expected

    def _expected(self, steps: Sequence[Step], points: Sequence[Point | None]) -> int:
        energy = cycles = 0
        for step, point in zip(steps, points, strict=True):
            times, of_cycles = self.cascade.einsums[step.place].times
            shift = 0 if step.kind is None else self.pricer.edge(step.kind).space.shift_energy
            own = point or step.choice
            if own is not None:
                energy += (own.energy + shift) * times
                cycles += own.cycles * of_cycles
        return objective_value(self.objective, energy, cycles if self.pricer.timed else 0)


def _at_least(bound: int | None, own: Narrower | None) -> Narrower | None:
    """What the search of a part came to, with a bound on the whole: if it had no time for a better one."""
    if own is None or own.bound is None or bound is None:
        return own
    return replace(own, bound=max(own.bound, bound))


def _is_open(step: Step) -> bool:
    """Whether no mapping of a step's edge is chosen yet."""
    return step.kind is not None and (step.choice is None or step.choice.point is None)


def _point_of(step: Step) -> Point | None:
    return None if step.choice is None else step.choice.point


# Paths whose Einsums spread tensors alike


def _leaves_open(search: PathSearch, step: Step) -> bool:
    """Whether a step leaves open how a tensor is spread, or a held tile parted."""
    has_open = step.kind is not None and search.space.stores.is_open(step.kind)
    return has_open or any(tile.spread is None for tile in step.stores)


def _spread_path(search: PathSearch, steps: Sequence[Step], limit: int | None) -> list[Step] | None:
    """The best path with the bodies, and the stored and held tiles, of another one, that leaves nothing open.

    By what is known of the edges, and if it is below a limit; None where there is none.
    """
    einsums = search.space.einsums
    keys = {(tile.tensor, tile.level, step.frames) for step in steps for tile in step.stores}
    keys.update((einsums[step.place].name, 0, step.frames) for step in steps if step.held)
    successors = replace(search.successors, by_spread=keys)

    def value(label: Label) -> int:
        return objective_value(search.objective, label.energy, label.cycles)

    labels = [search.start(0, frozenset())]
    for step in steps:
        best: dict[object, Label] = {}
        opened = (_opened(search, label, step) for label in labels)
        following = (own for label in opened for own in successors.of(label) if _has_same(own.step, step))
        for label in following:
            known = best.get(label.key)
            best[label.key] = label if known is None or value(label) < value(known) else known
        labels = sorted(best.values(), key=value)[:MOST]
    if not labels or (limit is not None and value(labels[0]) >= limit):
        return None
    return labels[0].steps()


def _opened(search: PathSearch, label: Label, step: Step) -> Label:
    """A label with the bodies that begin with a step."""
    for frame in step.frames[len(label.frames) :]:
        label = search.with_body(label, frame, (1,))
    return label


def _has_same(one: Step | None, other: Step) -> bool:
    if one is None or (one.frames, one.held) != (other.frames, other.held):
        return False
    return [tile[:2] + tile[3:5] for tile in one.stores] == [tile[:2] + tile[3:5] for tile in other.stores]
