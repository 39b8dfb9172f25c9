"""The entry point of the search for fused mappings: from a cascade to a proven result."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from model.extents import ANY
from model.fused.cascade import Cascade
from model.fused.check import FusedMappingError, check_held_spread, check_spread
from model.fused.cost import evaluate_fused
from model.fused.mapping import Body, FusedMapping, Held, Leaf, Stored
from model.fused.report import FusedEvaluation
from model.objective import objective_value
from model.wording import listing
from solver.fusion.bounds import Remainders
from solver.fusion.evidence import FusionEvidence, evidence_of
from solver.fusion.labels import Step, StoredTile, room_of
from solver.fusion.least import LeastCosts
from solver.fusion.limits import FusionLimits
from solver.fusion.path import Counts, PathSearch
from solver.fusion.points import Point
from solver.fusion.pricing import EdgePricer
from solver.fusion.space import FusionSpace
from solver.fusion.spreading import agreed, is_open
from solver.fusion.stores import Spread
from solver.result import (
    REMAINDERS_S,
    Clock,
    ContradictionError,
    Narrower,
    Options,
    Status,
    StopCallback,
    Termination,
    refuse_gap,
    relative_gap,
)

LONGEST = (3, 5)
"""Einsums of the bodies that paths look at which are to give good mappings soon."""

WIDTH = 4
"""Bodies of each span that such paths look at."""

ROUNDS = 4
"""Such paths; edges are settled in between."""

EVEN_NESTS = "tiles that are neither stored nor held have one place in {memories} below shared loops"
PERFECT_LOOPS = "loops have no remainders"
PERFECT_SHARED_LOOPS = "shared loops have no remainders"
PERFECT_STORES = (
    "nests of Einsums that store tensors in memories which exist several times have no remainders"
)
PERFECT_PARTS = (
    "nests of Einsums that store or hold something in {memory}, which exists several times, have no "
    "remainders"
)
WHOLE_WINDOWS = (
    "Einsums that store or hold something in {memory} do not part dimensions of windows among its instances"
)
COPIES_INSIDE = "tensors with copies are stored below all loops that their Einsums share"


@dataclass(frozen=True, slots=True)
class FusionProgress:
    """How far a search is: values in the units of `FusedResult.value`."""

    seconds: float
    objective: str
    cuts_settled: int
    cuts: int
    states_open: int
    incumbent: int | None
    bound: int | None


ProgressCallback = Callable[[FusionProgress], None]


@dataclass(frozen=True, slots=True)
class FusionStatistics:
    """How much work a search did.

    Parameters
    ----------
    edges, floors, mapped, searches
        Edges bounded in closed form, bounds on mapspaces without a search, edges that were mapped exactly
        (those that differ in names alone once), and searches for that and for bounds.
    paths, states, dominated
        Shortest paths found, states expanded for them, and states that others dominated.
    """

    seconds: float
    edges: int
    floors: int
    mapped: int
    searches: int
    paths: int
    states: int
    dominated: int


@dataclass(frozen=True)
class FusedResult:
    """The result of a search for a fused mapping.

    Parameters
    ----------
    value, bound
        In energy units, cycles, or their product. No mapping of the space is below the bound.
    mapping, evaluation
        The best mapping found, and its cost by the cost model.
    unfused
        The best mapping without bodies and stored tensors, if that was found.
    restrictions
        What the space leaves out of all fused mappings, as phrases.
    limits
        What narrows it besides.
    evidence
        What the bound rests on, for certificates.
    perfect_factors, equal_parts
        Where there may be remainders, what is known of the mappings without any, and of those where shared
        loops have none.
    """

    status: Status
    termination: Termination
    objective: str
    cascade: Cascade
    value: int | None
    bound: int | None
    mapping: FusedMapping | None
    evaluation: FusedEvaluation | None
    unfused: FusedEvaluation | None
    statistics: FusionStatistics
    restrictions: tuple[str, ...]
    limits: FusionLimits = FusionLimits()
    evidence: FusionEvidence = field(default_factory=FusionEvidence)
    perfect_factors: Narrower | None = None
    equal_parts: Narrower | None = None

    @property
    def units_per_pj(self) -> int:
        """Energy units in a picojoule."""
        return self.cascade.einsums[0].mapspace.architecture.units_per_pj

    @property
    def gap(self) -> float | None:
        """Relative distance between value and bound."""
        return relative_gap(self.value, self.bound)


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
    return _Search(cascade, objective, options, limits, on_progress, should_stop).run()


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
    ) -> None:
        self.cascade, self.objective, self.limits = cascade, objective, limits
        self.clock = Clock(options.time_limit_s, should_stop)
        self.space = FusionSpace(cascade, limits)
        self.pricer = EdgePricer(self.space, objective, options, self.clock)
        self.perfect_pricer: EdgePricer | None = None  # as it was before there were remainders everywhere
        self.counts = Counts()
        self.bounds: dict[object, LeastCosts] = {}
        self.paths = 0
        self.agreed = set[object]()
        self.on_progress = on_progress
        self.incumbent: int | None = None  # of all spaces
        self.is_any = any(einsum.mapspace.factors == ANY for einsum in cascade.einsums)
        remainders = self.is_any and not limits.equal_parts
        self.widest = replace(self.space, remainders=True) if remainders else self.space

    def run(self) -> FusedResult:
        """Search without fusion first, then with; then with remainders in nests where there may be any."""
        self.pricer.clock = self.clock.share(2) if self.is_any else self.clock
        unfused, perfect, even = self._unfused(_Best()), None, None
        best = replace(unfused.best)
        outcome = self._fused(best)
        if self.is_any:
            perfect = Narrower(self._status(outcome), best.value, outcome.bound)
            unfused, outcome = self._with_remainders(best)
        if self.widest is not self.space:
            even = Narrower(self._status(outcome), best.value, outcome.bound)
            outcome = self._in_unlike_parts(best)
        if not outcome.proven:
            self.clock.end(self._ending(outcome))
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
            tuple(self._restrictions()),
            self.limits,
            evidence_of(self.pricer, self.perfect_pricer),
            perfect,
            even,
        )

    def _unfused(self, best: _Best) -> _Outcome:
        """Map each Einsum alone, with all tensors outside."""
        alone = FusionLimits(0, None, frozenset(self.cascade.intermediates))
        return self._solve(replace(self.space, limits=alone), best)

    def _fused(self, best: _Best) -> _Outcome:
        """Search with tensors in the outermost on-chip memory first, where others may store them, too."""
        outermost, allowed = self.space.memory.name, self.limits.memories
        if self.space.is_deep and (allowed is None or outermost in allowed):
            with self._half_of_time():
                self._looped(replace(self.limits, memories=frozenset([outermost])), best)
        return self._looped(self.limits, best)

    def _looped(self, limits: FusionLimits, best: _Best) -> _Outcome:
        """Search with each rank looped once on a path, then without that limit."""
        space = self.space if limits == self.limits else replace(self.space, limits=limits)
        if limits.max_loops_per_rank is None:
            once = replace(space, limits=replace(limits, max_loops_per_rank=1))
            with self._half_of_time():
                self._dive(once, best)
                self._solve(once, best)
        else:
            self._dive(space, best)
        return self._solve(space, best)

    @contextmanager
    def _half_of_time(self) -> Iterator[None]:
        """Leave half of the time that is left to what comes after."""
        clock = self.pricer.clock
        self.pricer.clock = clock.share(2)
        yield
        self.pricer.clock = clock

    def _with_remainders(self, best: _Best) -> tuple[_Outcome, _Outcome]:
        """Search nests with remainders, too: of Einsums alone first, then of all."""
        self.pricer.clock, self.pricer.remainders = self.clock, Remainders.ALONE
        self._map_alone()
        unfused = self._unfused(_Best())
        best.take_of(unfused.best)
        self.pricer.clock = self._clock_of_stage(0.3)
        self._solve(self.space, best)
        self.perfect_pricer = self.pricer
        self.pricer = replace(
            self.pricer,
            remainders=Remainders.EVERYWHERE,
            clock=self._clock_of_stage(0.5 if self.widest is not self.space else 1.0),
        )
        self._refit(best)
        return unfused, self._solve(self.space, best)

    def _in_unlike_parts(self, best: _Best) -> _Outcome:
        """Search shared loops with remainders, too."""
        self.pricer = self.pricer.without_unlike_visits()
        self.pricer.clock = self._clock_of_stage(1.0)
        with self._half_of_time():
            self._dive(self.widest, best)
        return self._solve(self.widest, best)

    def _clock_of_stage(self, share: float) -> Clock:
        """A clock with a share of the time that is left for remainders, or with the default limit."""
        left_s = self.clock.left_s
        return Clock(REMAINDERS_S if left_s is None else share * left_s, self.clock.stop)

    def _map_alone(self) -> None:
        """Map each Einsum with remainders as if it were alone, those that differ in names alone once."""
        places = [place for place, einsum in enumerate(self.cascade.einsums) if not einsum.is_copy]
        edges = [self.pricer.edge(self.space.stores.alone(place, remainders=True)) for place in places]
        distinct = {id(edge.core): edge for edge in edges}.values()
        for number, edge in enumerate(distinct):
            left_s = self.clock.left_s
            self.pricer.search_s = REMAINDERS_S if left_s is None else left_s / (len(distinct) - number + 1)
            self.pricer.refine(edge, None)

    def _refit(self, best: _Best) -> None:
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
        left = _rooms_left(search, steps)
        left_s = self.pricer.clock.left_s
        self.pricer.search_s = REMAINDERS_S if left_s is None else left_s / (2 * len(steps))
        for _ in range(2):  # a floor, then a search
            self._refine(steps, left)
        self._try(self.space, steps, left, best)

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
        )

    def _restrictions(self) -> Iterator[str]:
        architecture = self.cascade.einsums[0].mapspace.architecture
        yield from self.limits.phrases()
        if self.widest is self.space:
            yield PERFECT_SHARED_LOOPS if self.is_any else PERFECT_LOOPS
        first = self.cascade.einsums[0]
        even = [level.name for level in architecture.on_chip if level.name not in first.uneven]
        if even and not first.mapspace.counting_rule.has_places:
            yield EVEN_NESTS.format(memories=listing(even))
        homes = {level for levels in self.space.homes.values() for level in levels if level > 1}
        if self.is_any and any(map(self.space.stores.outside, homes)):
            yield PERFECT_STORES
        if self.space.stores.least and self.space.copies.accessed:
            yield COPIES_INSIDE
        yield from self._restrictions_of_instances()

    def _restrictions_of_instances(self) -> Iterator[str]:
        """Yield what is left out where the outermost on-chip memory exists several times."""
        if not self.space.is_parted:
            return
        memory = listing([self.space.memory.name])
        if self.is_any:
            yield PERFECT_PARTS.format(memory=memory)
        spaces = ((e.mapspace, own) for e in self.cascade.einsums for own in e.problem.dataspaces)
        if any(mapspace.has_windows(own) for mapspace, own in spaces):
            yield WHOLE_WINDOWS.format(memory=memory)

    def _solve(self, space: FusionSpace, best: _Best) -> _Outcome:
        """Search one space, from a known mapping on; edges are priced where a shortest path needs them."""
        search = self._paths(space)
        bound = 0
        while True:
            search.tighten(best.value)
            path, value = search.path(best.value)
            self.paths += 1
            bound = max(bound, value or 0)
            if path is None and value is None:
                return _Outcome(best, best.value, proven=True)
            if path is None:
                return _Outcome(best, bound, proven=False)
            self._report(best, bound)
            if self._settle(search, path, best):
                complete = not self.pricer.clock.stop()
                self._improve(space, best, bound)
                return _Outcome(best, bound, best.value == bound, complete)

    def _paths(self, space: FusionSpace, longest: int | None = None, as_paid: bool = False) -> PathSearch:
        """Search paths of a space; bounds on Einsums do not depend on how many loops it allows."""
        self.pricer.space = space
        is_estimate = longest is not None
        homes = tuple(sorted(space.homes.items()))
        key = homes, space.limits.max_loops == 0, is_estimate, self.pricer.remainders, space.remainders
        if key not in self.bounds:
            self.bounds[key] = LeastCosts(space, self.pricer, is_estimate)
        search = PathSearch(space, self.pricer, self.objective, self.counts, longest, as_paid=as_paid)
        search.least = self.bounds[key]
        return search

    def _improve(self, space: FusionSpace, best: _Best, bound: int) -> None:
        """Find a better mapping, where bounds on visits that differ do not tell: by what their nests cost."""
        if best.value == bound:
            return
        search = self._paths(space, as_paid=True)
        while not self.pricer.clock.stop():
            search.tighten(best.value)
            path, _ = search.path(best.value)
            if path is None or self._settle(search, path, best):
                return

    def _dive(self, space: FusionSpace, best: _Best) -> None:
        """Find good mappings first, by paths that look at a few bodies of each span."""
        spans = [end - start for start in range(len(space.einsums)) for end in space.ends(start)]
        shorter = (0, *LONGEST)
        for longest in (
            own for own, less in zip(LONGEST, shorter, strict=False) if max(spans, default=0) > less
        ):
            search = self._paths(space, longest)
            rounds = (self._look(search, best) for _ in range(ROUNDS))
            any(rounds)  # until one of them is the last

    def _look(self, search: PathSearch, best: _Best) -> bool:
        """Settle a path that looks at a few bodies; whether there is nothing more to find."""
        search.tighten(best.value, WIDTH)
        path, _ = search.path(best.value, WIDTH)
        return path is None or self._settle(search, path, best)

    def _settle(self, search: PathSearch, path: Sequence[Step], best: _Best) -> bool:
        """Settle and price the edges of a path; whether all of them were, or the search has to stop."""
        left = _rooms_left(search, path)
        steps = [self._mapped(search, step, own) for step, own in zip(path, left, strict=True)]
        if not any(map(_is_open, steps)):
            if self._price(search.space, steps, [_point_of(step) for step in steps], best):
                return True
            self._part(search, steps)
            return self.pricer.clock.stop()
        is_stuck = not self._refine(steps, left)
        self._try(search.space, steps, left, best)
        self._agree(search, steps, best)
        self._report(best, None)
        return is_stuck or self.pricer.clock.stop()

    def _agree(self, search: PathSearch, steps: Sequence[Step], best: _Best) -> None:
        """Find a mapping whose Einsums spread what a path stores alike, where the path leaves that open."""
        key = tuple((step.frames, step.stores, step.held) for step in steps)
        if key in self.agreed or not any(is_open(search, step) for step in steps):
            return
        self.agreed.add(key)
        for _ in range(ROUNDS):
            path = agreed(search, steps, best.value)
            if path is None or self.pricer.clock.stop():
                return
            left = _rooms_left(search, path)
            is_settled = not self._refine(path, left)
            self._try(search.space, path, left, best)
            if is_settled:
                return

    def _part(self, search: PathSearch, steps: Sequence[Step]) -> None:
        """Have tensors looked at spread by spread whose Einsums do not spread them alike.

        The same of what Einsums hold, as far as it is open how spatial loops part it.
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

    def _mapped(self, search: PathSearch, step: Step, left: _Left) -> Step:
        """The step with a mapping that has room and costs no more than its bound, if one is known."""
        if step.kind is None or step.choice is None or not _is_open(step):
            return step
        for known in self.pricer.edge(step.kind).choices(search.as_paid):
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
        cuts = len(self.cascade.einsums)
        self.on_progress(
            FusionProgress(
                self.clock.seconds,
                self.objective,
                self.counts.settled,
                cuts,
                self.counts.open,
                self.incumbent,
                bound if self.pricer.space is self.widest else None,
            )
        )

    def _refine(self, steps: Sequence[Step], left: Sequence[_Left]) -> bool:
        """Settle what edges of a path cost that are only bounded; whether anything was learned."""
        done, learned = set[tuple[int, int | None]](), False
        for step, (room, _) in zip(steps, left, strict=True):
            if step.kind is None or not _is_open(step) or self.pricer.clock.stop():
                continue
            edge = self.pricer.edge(step.kind)
            if (id(edge.core), room) not in done:
                done.add((id(edge.core), room))
                learned |= self.pricer.refine(edge, room)
        return learned

    def _try(self, space: FusionSpace, steps: Sequence[Step], left: Sequence[_Left], best: _Best) -> None:
        """Price a path with the best mappings of its edges that are known."""
        points: list[Point | None] = []
        for step, room in zip(steps, left, strict=True):
            if step.kind is None:
                points.append(None)
                continue
            known = ((c, c.point) for c in self.pricer.edge(step.kind).choices() if c.point is not None)
            fitting = [(choice, point) for choice, point in known if room.has_room(point)]
            if not fitting:
                return
            _, chosen = min(
                fitting, key=lambda own: objective_value(self.objective, own[0].energy, own[0].cycles)
            )
            points.append(chosen)
        self._price(space, steps, points, best)

    def _price(
        self, space: FusionSpace, steps: Sequence[Step], points: Sequence[Point | None], best: _Best
    ) -> bool:
        """Price a path by the cost model, and keep it if it is better.

        Returns
        -------
        bool
            Whether it is a mapping that costs what the path says: its Einsums may spread a tensor differently
            that they all access, and held tiles may move more words, where that is open.
        """
        mapping = _fused_mapping(space, self.pricer, steps, points)
        is_loose = any(step.kind is not None and space.stores.is_open(step.kind) for step in steps)
        is_open = is_loose or any(tile.spread is None for step in steps for tile in step.stores)
        if is_open and not _is_spread_alike(self.cascade, mapping):
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
            times = self.cascade.einsums[step.place].n_instances
            shift = 0 if step.kind is None else self.pricer.edge(step.kind).space.shift_energy
            own = point or step.choice
            if own is not None:
                energy += (own.energy + shift) * times
                cycles += own.cycles * times
        return objective_value(self.objective, energy, cycles if self.pricer.timed else 0)


def _is_spread_alike(cascade: Cascade, mapping: FusedMapping) -> bool:
    try:
        for stored in mapping.stored:
            check_spread(cascade, mapping, stored)
        check_held_spread(cascade, mapping)
    except FusedMappingError:
        return False
    return True


def _is_open(step: Step) -> bool:
    return step.kind is not None and (step.choice is None or step.choice.point is None)


def _point_of(step: Step) -> Point | None:
    return None if step.choice is None else step.choice.point


def _shared(one: Step, other: Step) -> int:
    """Segments that two Einsums have in common."""
    total = 0
    for a, b in zip(one.frames, other.frames, strict=False):
        if a != b or not a.start <= other.place < a.end:
            break
        total += len(a.segments)
    return total


class _Left(NamedTuple):
    """Room that is left for own tiles: of the outermost on-chip memory, and of those farther in."""

    words: int | None
    inner: tuple[int | None, ...]

    def has_room(self, point: Point) -> bool:
        """Whether a mapping has enough of it."""
        pairs = zip((self.words, *self.inner), (point.need_words, *point.inner_words), strict=True)
        return all(room is None or need <= room for room, need in pairs)


def _rooms_left(search: PathSearch, steps: Sequence[Step]) -> list[_Left]:
    """Room of the on-chip memories that is left for each Einsum's own tiles."""
    rooms = {1: search.space.memory.usable_words, **search.space.rooms}

    def left(level: int, step: Step) -> int | None:
        room = rooms.get(level)
        return None if room is None else room - _taken(search, steps, step, level)

    return [_Left(left(1, step), tuple(left(level, step) for level in search.space.inner)) for step in steps]


def _taken(search: PathSearch, steps: Sequence[Step], running: Step, level: int) -> int:
    """Words that stored and held tiles take of a memory while an Einsum runs."""
    cascade, total = search.space.cascade, 0
    around = _around(steps, running) if level == 1 else ()
    held = ((step, name, depth) for step in around for name, depth in step.held)
    for step, name, depth in held:
        if step is running or _shared(step, running) > depth:
            tile = next(t for t in search.space.tiles[step.place] if t.space.name == name)
            cut = search.space.cuts(step.frames, step.place)[depth]
            total += search.space.held_words(tile, cut, () if step.kind is None else step.kind.shares)
    waiting: list[StoredTile] = []
    for stored in (tile for step in steps for tile in step.stores if tile.level == level):
        users = cascade.users[stored.tensor]
        waits = any(_shared(steps[user], running) > stored.depth for user in users)
        waiting += [stored] if users[0] <= running.place <= users[-1] or waits else []
    roots = {tile.tensor: tile.root for step in steps for tile in step.stores if tile.root}
    return total + room_of(tile._replace(root=_root_of(tile.tensor, roots)) for tile in waiting)


def _root_of(tensor: str, roots: Mapping[str, str]) -> str:
    """The first tensor whose room another one takes; steps may name one that takes that of a third."""
    root = roots.get(tensor, "")
    while roots.get(root, root) != root:
        root = roots[root]
    return root


def _around(steps: Sequence[Step], running: Step) -> Sequence[Step]:
    """The Einsums in one body with another one."""
    if not running.frames:
        return [running]
    return steps[running.frames[0].start : running.frames[0].end]


# Paths as fused mappings


def _fused_mapping(
    space: FusionSpace, pricer: EdgePricer, steps: Sequence[Step], points: Sequence[Point | None]
) -> FusedMapping:
    spreads = {tile.tensor: tile.spread or () for step in steps for tile in step.stores}
    leaves = [_leaf(space, pricer, step, point, spreads) for step, point in zip(steps, points, strict=True)]
    children = tuple(_children(space, steps, leaves, 0, len(steps), 0))
    memories = space.einsums[0].mapspace.architecture.on_chip
    stored = tuple(
        Stored(tile.tensor, memories[tile.level - 1].name, space.loops_above(step.frames, tile.depth))
        for step in steps
        for tile in step.stores
    )
    return FusedMapping(children, stored)


def _children(
    space: FusionSpace, steps: Sequence[Step], leaves: Sequence[Leaf], start: int, end: int, level: int
) -> Iterator[Body | Leaf]:
    """Yield the parts between two Einsums, inside of `level` bodies."""
    place = start
    while place < end:
        frames = steps[place].frames
        if len(frames) <= level:
            yield leaves[place]
            place += 1
            continue
        frame = frames[level]
        below = tuple(_children(space, steps, leaves, place, frame.end, level + 1))
        yield Body(space.loops(frame), below)
        place = frame.end


def _leaf(
    space: FusionSpace, pricer: EdgePricer, step: Step, point: Point | None, spreads: Mapping[str, Spread]
) -> Leaf:
    name = space.einsums[step.place].name
    if step.kind is None or point is None:
        return Leaf(name, ())
    held = tuple(Held(space_, space.loops_above(step.frames, depth)) for space_, depth in step.held)
    nests = (space.stores.aligned(step.kind, nest, spreads) for nest in pricer.edge(step.kind).nests(point))
    return Leaf(name, tuple(nests), held)
