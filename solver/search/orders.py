"""The search over the orders of memories: parts of a mapspace by rising bounds, each searched by itself.

A part is one order with one choice of spatial factors, and so a mapspace without fanouts (`model.orders`).
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations, count, islice, pairwise, product
from typing import NamedTuple

from model.choices import keep_options
from model.cost import evaluate_in
from model.extents import Extents
from model.mapping import FanoutMapping, Mapping, SpatialLoop
from model.mapspace import Mapspace
from model.orders import (
    Order,
    Unrolling,
    check_orders,
    in_hardware_order,
    in_order,
    orders,
    rearranged,
    unrolled,
    with_spatial,
)
from model.places import gathered
from solver.result import (
    BOUNDS,
    Clock,
    ContradictionError,
    Narrower,
    Options,
    Phase,
    Priced,
    Progress,
    ProgressCallback,
    Result,
    Statistics,
    Status,
    StopCallback,
    Stopwatch,
    Termination,
    is_within,
)
from solver.search.any_order import floor_of_choice
from solver.search.goal import NO_CAPS, Caps, Goal
from solver.search.mapper import SharedSearch
from solver.search.path.floors import cost_floors
from solver.search.path.search import EinsumSearch
from solver.search.shared import Shared
from solver.search.space.search_space import SearchSpace
from solver.search.space.spatial import FanoutChoice, fanout_choices
from solver.search.space.user_rules import factors_allowed
from solver.search.stopping import Stopped
from solver.search.trivial import trivial_bound

MOST_PARTS = 1 << 16
"""Orders times spatial choices up to which they are searched."""

FEW_ORDERS = 4
"""Orders of a spatial choice from which on they are bounded together first."""

MOST_CHOICES = 64
"""Spatial choices of which floors are made that know all orders."""

HARDWARE_SHARE = 0.25
"""Of the time, what the search in the order of the hardware has at most."""

SHARE_KEPT = 1 - 1e-9
"""Sums in floating point err by less."""

HARDWARE, ORDERS = "order of the hardware", "orders of memories"
"""The stages."""

Spatial = tuple[FanoutChoice, ...]
"""What each fanout unrolls, from the outermost."""


class _Part(NamedTuple):
    """Mappings of one order with one spatial choice."""

    order: Order
    spatial: Spatial


@dataclass(frozen=True)
class Ordered:
    """A mapping, and the mapspace of its order."""

    mapspace: Mapspace
    priced: Priced

    def value(self, objective: str) -> int:
        """What it costs."""
        return self.priced.evaluation.value(objective)


def map_orders(
    mapspace: Mapspace,
    options: Options = Options(),
    on_progress: ProgressCallback | None = None,
    should_stop: StopCallback | None = None,
) -> Result:
    """Find the best mapping of a mapspace whose memories may lie in any order.

    Parameters
    ----------
    mapspace, options, on_progress, should_stop
        See `solver.stages.map_einsum`.

    Returns
    -------
    Result
        OPTIMAL only if the bound meets the value of the mapping by the plain cost model, in integers. Its
        mapping is one of `Result.mapspace`, whose nodes are in the order of the nest.

    Raises
    ------
    ValueError
        The mapspace has what is known in the order of the hardware only, see `model.orders.check_orders`.
    ContradictionError
        Parts of the program disagree: a defect, never an answer.
    """
    return OrderSearch(mapspace, options, on_progress, should_stop).minimise(options.objectives_for(mapspace))


class OrderSearch:
    """Searches of one mapspace, one after the other, in the time of one; see `map_orders`."""

    def __init__(
        self,
        mapspace: Mapspace,
        options: Options = Options(),
        on_progress: ProgressCallback | None = None,
        should_stop: StopCallback | None = None,
    ) -> None:
        check_orders(mapspace)
        self._mapspace, self._options, self._on_progress = mapspace, options, on_progress
        self._objectives: tuple[str, ...] = ()
        self._clock = Clock(options.time_limit_s, should_stop)
        self._watch = Stopwatch()
        self._work = Statistics()
        self._best: Ordered | None = None

    def minimise(
        self, objectives: Sequence[str], caps: Caps = NO_CAPS, known: Ordered | None = None
    ) -> Result:
        """Find the lexicographically best mapping within `caps`, as `SharedSearch.minimise` does.

        Parameters
        ----------
        known
            A mapping within `caps`, to begin with: then the order of the hardware is not searched first.
        """
        self._objectives, self._best = tuple(objectives), known
        limits = dict(caps.limits)
        hardware = self._in_hardware_order(caps) if known is None else None
        parts = self._parts
        bounds: list[int | None] = []
        for objective in self._objectives:
            with self._watch.during(ORDERS, BOUNDS):
                bounds.append(self._minimised(objective, limits, parts))
            if self._best is None or bounds[-1] != self._best.value(objective):
                break
            limits[objective] = self._best.value(objective)
        return self._told(bounds, hardware)

    def _in_hardware_order(self, caps: Caps) -> Result:
        """Search the mappings in the order of the hardware, which are some of all."""
        mapspace = in_hardware_order(self._mapspace)
        left_s = self._clock.left_s
        limit_s = None if left_s is None else left_s * HARDWARE_SHARE
        options = replace(self._options, objectives=self._objectives, time_limit_s=limit_s)
        with self._watch.during(HARDWARE, BOUNDS):
            search = SharedSearch(mapspace, options, self._on_progress, self._clock.stop)
            result = search.minimise(self._objectives, caps)
        self._work = replace(result.statistics, settled_by=(), stages=())
        if result.mapping is not None:
            own, mapping = rearranged(self._mapspace, mapspace, result.mapping)
            self._keep(own, mapping, result)
        return result

    def _keep(self, mapspace: Mapspace, mapping: Mapping, found: Result) -> None:
        """Take a mapping of an order for the best one; as part of another mapspace it costs as much."""
        evaluation = evaluate_in(mapspace, mapping)
        known = found.evaluation
        is_equal = known is not None and (known.energy, known.cycles) == (
            evaluation.energy,
            evaluation.cycles,
        )
        if not (is_equal and evaluation.valid):
            raise ContradictionError("a mapping costs something else where memories are in the nest's order")
        self._best = Ordered(mapspace, Priced(mapping, evaluation))

    @cached_property
    def _parts(self) -> list[_Part]:
        """All parts; none where they are too many."""
        every = product(orders(self._mapspace), spatial_choices(self._mapspace))
        parts = [_Part(*own) for own in islice(every, MOST_PARTS + 1)]
        if len(parts) > MOST_PARTS:
            self._clock.end(Termination.CHOICES)
            return []
        self._work.masks = len({part.order for part in parts})
        self._work.spatial_choices = len(parts) // max(1, self._work.masks)
        return parts

    def _minimised(self, objective: str, limits: dict[str, int], parts: Sequence[_Part]) -> int | None:
        """Minimise one objective within limits on others; return the bound, None if there is no mapping."""
        open_bound = float(trivial_bound(self._mapspace, objective))
        if self._clock.termination is not None:
            return self._at_most(int(open_bound), objective)
        try:
            for bound, part in self._by_bounds(objective, limits, parts):
                open_bound = max(open_bound, bound)
                self._search(objective, limits, part, open_bound)
        except Stopped:
            return self._at_most(_whole(open_bound), objective)
        return None if self._best is None else self._best.value(objective)

    def _at_most(self, bound: int, objective: str) -> int:
        return bound if self._best is None else min(bound, self._best.value(objective))

    def _settles(self, bound: float, objective: str) -> bool:
        """Whether no part with a bound is better than the best mapping."""
        return math.isinf(bound) or (self._best is not None and bound >= float(self._best.value(objective)))

    def _by_bounds(
        self, objective: str, limits: dict[str, int], parts: Sequence[_Part]
    ) -> Iterator[tuple[float, _Part | None]]:
        """Yield the parts that may be better, with rising bounds; None before orders are told apart."""
        choices: dict[int, list[_Part]] = {}
        for part in parts:
            choices.setdefault(id(part.spatial), []).append(part)
        queue: list[tuple[float, int, list[_Part]]] = []
        for number, own in enumerate(choices.values()):
            queue.append((self._floor(objective, own), number, own))
        heapq.heapify(queue)
        numbers = count(len(queue))
        while queue:
            bound, _, own = heapq.heappop(queue)
            if self._settles(bound, objective):
                return
            yield bound, own[0] if len(own) == 1 else None
            for part in own if len(own) > 1 else ():
                least = max(bound, self._least(objective, limits, part))
                heapq.heappush(queue, (least, next(numbers), [part]))

    def _floor(self, objective: str, parts: Sequence[_Part]) -> float:
        """At least what mappings with one spatial choice have of an objective, in any order."""
        if len(parts) < FEW_ORDERS or self._mapspace.counting_rule.by_order:
            return 0.0
        unrolling = _unrolling(self._mapspace, parts[0].spatial)
        energy, cycles = floor_of_choice(self._mapspace, unrolling, self._clock.stop)
        floors = {"energy": energy, "latency": cycles, "edp": energy * cycles}
        return floors[objective] * SHARE_KEPT

    def _least(self, objective: str, limits: dict[str, int], part: _Part) -> float:
        """At least what mappings of a part have of an objective, within limits on others."""
        if self._clock.stop():
            raise Stopped
        goal_limits = tuple({**limits, **self._better(objective)}.items())
        ordered = in_order(self._mapspace, part.order)
        space = SearchSpace(unrolled(ordered, _unrolling(self._mapspace, part.spatial)))
        shared = Shared(self._options, self._clock.stop, lambda *_: None, Statistics())
        return EinsumSearch(space, Goal(objective, goal_limits), shared).least()

    def _better(self, objective: str) -> dict[str, int]:
        """The most that a better mapping may cost."""
        return {} if self._best is None else {objective: self._best.value(objective) - 1}

    def _search(self, objective: str, limits: dict[str, int], part: _Part | None, bound: float) -> None:
        """Search a part to its end, or raise `Stopped`: no part that is left is below a bound.

        Without a part there is none to search yet.
        """
        value = None if self._best is None else self._best.value(objective)
        if is_within(self._options.gap, value, _whole(bound)):
            self._clock.end(Termination.GAP)
            raise Stopped
        self._report(objective, bound)
        if part is None:
            return
        ordered = in_order(self._mapspace, part.order)
        own = unrolled(ordered, _unrolling(self._mapspace, part.spatial))
        options = replace(self._options, time_limit_s=self._clock.left_s)
        most = {**limits, **self._better(objective)}
        caps = Caps(most.get("energy"), most.get("latency"), most.get("edp"))
        result = SharedSearch(own, options, None, self._clock.stop).minimise((objective,), caps)
        self._count(result.statistics)
        if result.mapping is not None:
            spatial = _spatial_loops(self._mapspace, part.spatial)
            self._keep(ordered, with_spatial(ordered, result.mapping, spatial), result)
        if result.status not in (Status.OPTIMAL, Status.INFEASIBLE):
            self._clock.end(result.termination)
            raise Stopped

    def _count(self, work: Statistics) -> None:
        """Add the work of a part."""
        self._work.states += work.states
        self._work.listed += work.listed
        self._work.mappings_priced += work.mappings_priced

    def _report(self, objective: str, bound: float) -> None:
        if self._on_progress is not None:
            value = None if self._best is None else self._best.value(objective)
            known = self._at_most(_whole(bound), objective)
            self._on_progress(Progress(Phase.PATHS, self._clock.seconds, objective, value, known))

    def _told(self, bounds: list[int | None], hardware: Result | None) -> Result:
        """The result of all objectives."""
        proven = self._best is not None and bounds == list(map(self._best.value, self._objectives))
        termination = Termination.PROVEN if proven else self._clock.termination or Termination.PROVEN
        work = replace(self._work, seconds=self._clock.seconds, stages=self._watch.costs)
        work.settled_by = tuple(
            BOUNDS if self._best is None or own == self._best.value(name) else ""
            for name, own in zip(self._objectives, bounds, strict=False)
        )
        units = self._mapspace.architecture.units_per_pj
        if self._best is None:
            status = Status.UNKNOWN if self._clock.termination else Status.INFEASIBLE
            return Result(status, termination, self._objectives, units, bound=bounds[0], statistics=work)
        return Result(
            Status.OPTIMAL if proven else Status.FEASIBLE,
            termination,
            self._objectives,
            units,
            value=self._best.value(self._objectives[0]),
            bound=bounds[0],
            later_bounds=tuple(own for own in bounds[1:] if own is not None),
            mapping=self._best.priced.mapping,
            evaluation=self._best.priced.evaluation,
            statistics=work,
            hardware_order=None if hardware is None else Narrower.of(hardware),
            mapspace=self._best.mapspace,
        )


def with_any_order(mapspace: Mapspace) -> Mapspace | None:
    """Return a mapspace with its memories in any order; None where that adds nothing, or is not searched.

    Parameters
    ----------
    mapspace
        Its memories are in the order of the hardware.
    """
    even = gathered(mapspace)
    names = [level.name for level in even.architecture.levels]
    free = replace(even, free_order=frozenset(names[1:]))
    kept = [
        {space.name for space in even.problem.dataspaces if True in keep_options(rules, level, space.name)}
        for level, rules in enumerate(even.keep)
    ]
    pairs = combinations(kept[1:], 2)
    is_one_order = all(len(outer | inner) < 2 or not (outer and inner) for outer, inner in pairs)
    if even.free_order or is_one_order or not even.counting_rule.has_places:
        return None
    try:
        check_orders(free)
    except ValueError:
        return None
    return free


def least_in_any_order(mapspace: Mapspace) -> tuple[float, float]:
    """Return energy units and cycles that no mapping with memories in any order is below, without a search.

    What words cost between two memories depends on the tile inside alone, wherever it lies in the nest.
    """
    energy, cycles = cost_floors(in_hardware_order(mapspace), lambda: False)
    return energy * SHARE_KEPT, cycles * SHARE_KEPT


def order_floors(mapspace: Mapspace, stop: StopCallback, timed: bool = True) -> tuple[int, int]:
    """Return energy units and cycles that no mapping is below, as `cost_floors`, in any order of memories.

    Where spatial choices are many, that of the order of the hardware, whose boundaries stand by themselves.
    """
    choices = list(islice(spatial_choices(mapspace), MOST_CHOICES + 1))
    if not 0 < len(choices) <= MOST_CHOICES or mapspace.counting_rule.by_order:
        return cost_floors(in_hardware_order(mapspace), stop, timed)
    try:
        pairs = [floor_of_choice(mapspace, _unrolling(mapspace, own), stop, timed) for own in choices]
    except Stopped:
        return 0, 0
    energy, cycles = (min(column) * SHARE_KEPT for column in zip(*pairs, strict=True))
    return (0, 0) if math.isinf(energy + cycles) else (math.ceil(energy), math.ceil(cycles))


def spatial_choices(mapspace: Mapspace) -> Iterator[Spatial]:
    """Yield what fanouts may unroll, one of all choices that cost and allow the same."""
    bound, active = mapspace.problem.bound, SearchSpace(mapspace).active
    extents = [Extents(bound[dim]) for dim in active]
    options = (
        fanout_choices(
            fanout,
            rules,
            mapspace.problem.dims,
            active,
            extents,
            allows=factors_allowed(mapspace, fanout, active),
        )
        for fanout, rules in zip(mapspace.architecture.fanouts, mapspace.spatial, strict=True)
    )
    seen: set[tuple[tuple[int, ...], ...]] = set()
    for chosen in product(*map(list, options)):
        every = [math.prod(own.factors[d] for own in chosen) for d in range(len(active))]
        if any(bound[dim] % factor for dim, factor in zip(active, every, strict=True)):
            continue
        key = _told_apart(mapspace, chosen)
        if math.prod(every) >= mapspace.min_parallelism and key not in seen:
            seen.add(key)
            yield chosen


def _told_apart(mapspace: Mapspace, chosen: Spatial) -> tuple[tuple[int, ...], ...]:
    """Products of the factors of fanouts that lie between the same memories and gates."""
    architecture = mapspace.architecture
    gates = (level.gating_fanouts for level in architecture.levels)
    depths = {architecture.fanouts_above(position) for position in architecture.storage_indices}
    cuts = sorted({0, len(chosen), *depths, *(own for own in gates if own is not None)})
    return tuple(
        tuple(math.prod(column) for column in zip(*(own.factors for own in chosen[first:last]), strict=True))
        for first, last in pairwise(cuts)
    )


def _unrolling(mapspace: Mapspace, spatial: Spatial) -> Unrolling:
    """The factors of a spatial choice."""
    active = [dim for dim in mapspace.problem.dims if mapspace.problem.bound[dim] > 1]
    return tuple(dict(zip(active, choice.factors, strict=True)) for choice in spatial)


def _spatial_loops(mapspace: Mapspace, spatial: Spatial) -> list[FanoutMapping]:
    active = [dim for dim in mapspace.problem.dims if mapspace.problem.bound[dim] > 1]
    return [
        FanoutMapping(
            tuple(
                SpatialLoop(dim, factor, "x" if d in choice.along_x else "y")
                for d, (dim, factor) in enumerate(zip(active, choice.factors, strict=True))
                if factor > 1
            )
        )
        for choice in spatial
    ]


def _whole(bound: float) -> int:
    """A bound as an integer; large doubles may have been rounded up."""
    return int(min(bound if bound < 2.0**53 else math.nextafter(bound, 0.0), 1e300))
