"""A search from outside: its options, clock and progress, and its result, with reasons if nothing fits."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from enum import Enum, StrEnum
from numbers import Real
from typing import TYPE_CHECKING, Any

from model.objective import OBJECTIVES, in_reported_unit
from model.wording import nearest

if TYPE_CHECKING:
    from model.cost import Evaluation
    from model.mapping import Mapping
    from model.mapspace import Mapspace
    from model.source_ref import SourceRef


class ContradictionError(RuntimeError):
    """Two parts of the product disagree on a fact: a defect, never an answer."""


class TooLargeError(Exception):
    """A problem with more words than the search's tables can count."""


class Status(Enum):
    """What is known about the mapspace when a search ends."""

    OPTIMAL = "OPTIMAL"
    """The mapping is proven to be the best: value and bound are the same integer."""
    FEASIBLE = "FEASIBLE"
    """A mapping was found, but a better one is not excluded; the bound says by how much at most."""
    INFEASIBLE = "INFEASIBLE"
    """No mapping satisfies all constraints; this is proven."""
    UNKNOWN = "UNKNOWN"
    """The search stopped before it found a mapping or a proof that there is none."""


class Termination(Enum):
    """Why a search ended."""

    PROVEN = "PROVEN"
    TIME_LIMIT = "TIME_LIMIT"
    INTERRUPTED = "INTERRUPTED"
    MEMORY_LIMIT = "MEMORY_LIMIT"
    CHOICES = "CHOICES"
    """There are more choices of what levels keep, or of spatial loops, than bounds are computed for."""
    TOO_LARGE = "TOO_LARGE"
    """Of networks: the layer has more words than a search counts."""
    BOUND = "BOUND"
    """Of fused cascades: no bound on Einsums whose visits differ is closer."""
    REMAINDER_LIMIT = "REMAINDER_LIMIT"
    """`REMAINDERS_S` are over, the default where loops may have remainders."""
    GAP = "GAP"
    """Value and bound are as close as `Options.gap` asks for."""
    LOOP_LIMIT = "LOOP_LIMIT"
    """The best mapping has more temporal loops than the mapspace allows, which the search does not model."""


REMAINDERS_S = 10.0
"""Seconds per Einsum that mappings with remainders are searched at most, if there is no time limit."""

PATIENCE_S = 5.0
"""Seconds of bounds before CP-SAT is asked as well or, without any mapping, before feasibility is checked."""

AUTO, BOUNDS, CP_SAT = ENGINES = ("auto", "bounds", "cp-sat")
"""Search engines: `auto` is bounds, with CP-SAT in parallel where bounds leave a gap."""

HEURISTIC, MODEL = "heuristic", "cost model"
"""Further engines that stages of a search use."""


@dataclass(frozen=True, slots=True)
class Options:
    """Options of a search; none of them changes which mapping is optimal.

    Parameters
    ----------
    objectives
        Names out of `model.objective.OBJECTIVES`, compared lexicographically, or one text with commas between
        them; None: those of the mapspace.
    time_limit_s
        Seconds after which the search returns the incumbent; `math.inf` is no limit. None, the default, is
        no limit, except that mappings with remainders are searched for at most `REMAINDERS_S` after the
        best mapping without remainders is proven.
    jobs
        Number of processes; it does not affect the value. With several, CP-SAT and a heuristic may run in
        parallel with the search, in new interpreters that import the main module: a script that uses
        several must guard its code with ``if __name__ == "__main__":``.
    seed
        Random seed of CP-SAT, if that is the engine.
    memory_limit_mib
        Limit on the estimated size of the search tables in each worker. If the tables would be larger, the
        search considers fewer tile sizes and proves nothing.
    gap
        Relative gap, from 0 to below 1, at which the search may end. The status is then FEASIBLE, with
        `Termination.GAP`, and no mapping is better by more than this share of the value. With 0, the
        default, the search runs until proven.
    engine
        The search engine, out of `ENGINES`. Constraints that bounds do not support go to CP-SAT in any
        case. Sparse data is searched by bounds; CP-SAT alone refuses it.

    Raises
    ------
    ValueError
        An objective is unknown, named twice or missing, the engine is unknown, or a limit out of its range;
        the message says which.
    """

    objectives: str | tuple[str, ...] | None = None
    time_limit_s: float | None = None
    jobs: int = 1
    seed: int = 0
    memory_limit_mib: int = 1536
    gap: float = 0.0
    engine: str = BOUNDS

    def __post_init__(self) -> None:
        """Check the ranges; ``ValueError`` says which option is wrong."""
        if self.engine not in ENGINES:
            raise ValueError(f"unknown engine {self.engine!r}; choose from {', '.join(ENGINES)}")
        if isinstance(self.objectives, str):
            names = tuple(name.strip() for name in self.objectives.split(","))
            object.__setattr__(self, "objectives", names)
        elif self.objectives is not None:
            object.__setattr__(self, "objectives", tuple(self.objectives))
        unknown = [name for name in self.objectives or () if name not in OBJECTIVES]
        if unknown:
            folded = str(unknown[0]).lower()
            meant = folded if folded in OBJECTIVES else nearest(folded, OBJECTIVES)
            known = f"did you mean {meant!r}?" if meant else f"choose from {', '.join(OBJECTIVES)}"
            raise ValueError(f"unknown objective {unknown[0]!r}; {known}")
        if self.objectives is not None and len(set(self.objectives)) != max(1, len(self.objectives)):
            raise ValueError("objectives must be named once each, and at least one of them")
        numbers = {
            "the time limit": 0 if self.time_limit_s is None else self.time_limit_s,
            "jobs": self.jobs,
            "the memory limit": self.memory_limit_mib,
            "the gap": self.gap,
        }
        for what, number in numbers.items():
            if not isinstance(number, Real) or math.isnan(number):
                raise ValueError(f"{what} must be a number, but is {number!r}")
        if self.time_limit_s is not None and self.time_limit_s < 0:
            raise ValueError("the time limit must not be negative")
        if self.jobs < 1 or self.memory_limit_mib < 1:
            raise ValueError("jobs and the memory limit must be at least 1")
        if not 0 <= self.gap < 1:
            raise ValueError("the gap must be at least 0 and less than 1")

    def objectives_for(self, mapspace: Mapspace) -> tuple[str, ...]:
        """Return the names of the objectives, those of a mapspace where none are given."""
        named = self.objectives or mapspace.objectives
        return (named,) if isinstance(named, str) else named


def refuse_gap(options: Options, searched: str) -> None:
    """Refuse `Options.gap` for what is searched to its end; ``ValueError`` says so."""
    if options.gap:
        raise ValueError(f"{searched}: a gap applies to searches for the best mapping of one Einsum")


@dataclass(frozen=True, slots=True)
class StageCost:
    """The time of one stage of a search, without the stages inside it."""

    stage: str
    engine: str  # who searched
    seconds: float  # wall-clock time


def merged(costs: Iterable[StageCost]) -> tuple[StageCost, ...]:
    """Return what stages took, each of them once, in the order in which they come first."""
    seconds: dict[tuple[str, str], float] = {}
    for own in costs:
        key = own.stage, own.engine
        seconds[key] = seconds.get(key, 0.0) + own.seconds
    return tuple(StageCost(*key, own) for key, own in seconds.items())


@dataclass(slots=True)
class Statistics:
    """The work of a search so far."""

    seconds: float = 0.0  # wall-clock time
    states: int = 0  # tiles that were bounded, with one spatial choice or with several together
    masks: int = 0  # keep masks, counted once per objective
    spatial_choices: int = 0  # combinations of spatial choices that costs tell apart
    listed: int = 0  # tiles with a spatial choice of which complete paths were listed
    core_variables: int = 0  # of the largest CP-SAT model
    core_calls: int = 0
    mappings_priced: int = 0  # by the cost model; of those that a heuristic tries, the best one
    settled_by: tuple[str, ...] = ()  # `BOUNDS` or `CP_SAT`, by objective; empty where a gap is left
    cp_sat: str = ""  # whether CP-SAT was asked on the whole problem, and why not or how that ended
    cp_sat_seconds: float = 0.0  # that it worked, beside bounds or after them
    stages: tuple[StageCost, ...] = ()  # of the search, in the order in which they begin

    def together(self, other: Statistics) -> Statistics:
        """Return the work of two searches of one mapspace, which look at the same masks and choices."""
        return Statistics(
            seconds=self.seconds + other.seconds,
            states=self.states + other.states,
            masks=max(self.masks, other.masks),
            spatial_choices=max(self.spatial_choices, other.spatial_choices),
            listed=self.listed + other.listed,
            core_variables=max(self.core_variables, other.core_variables),
            core_calls=self.core_calls + other.core_calls,
            mappings_priced=self.mappings_priced + other.mappings_priced,
            settled_by=other.settled_by or self.settled_by,
            cp_sat=other.cp_sat or self.cp_sat,
            cp_sat_seconds=self.cp_sat_seconds + other.cp_sat_seconds,
            stages=merged((*self.stages, *other.stages)),
        )


@dataclass(frozen=True, slots=True)
class MaskEvidence:
    """For how many spatial choices of a keep mask bounds, or lists of paths, prove that none is better.

    ``keep`` lists the storage levels (0 is the outermost) that keep each dataspace, in the problem's order.
    """

    keep: tuple[tuple[int, ...], ...]
    by_bounds: int
    by_listing: int = 0


@dataclass(frozen=True, slots=True)
class Evidence:
    """The basis of the bound on one objective, by keep mask."""

    objective: str
    masks: tuple[MaskEvidence, ...]


def relative_gap(value: int | None, bound: int | None) -> float | None:
    """Return ``(value - bound) / value``, 0 for a value of 0, None unless both are known."""
    if value is None or bound is None:
        return None
    return (value - bound) / value if value else 0.0


def is_within(gap: float, value: int | None, bound: int | None) -> bool:
    """Whether value and bound differ, and by no more than a relative gap."""
    known = relative_gap(value, bound)
    return known is not None and 0 < known <= gap


class Phase(StrEnum):
    """The current phase of a search; the values are texts to display."""

    FIRST = "first mapping"  # a random one, that there is one once time is over
    SURVEY = "first bounds"  # on bypass choices and spatial choices
    PATHS = "paths"  # the best of them by tables, and mappings
    FORMULATION = "CP-SAT"  # the whole problem as one model
    MAPPER = "mapper"  # a heuristic
    EXPLANATION = "explanation"  # whether anything fits, and why not


@dataclass(frozen=True, slots=True)
class Progress:
    """A snapshot of a running search; ``ValueError`` if there is no such phase."""

    phase: str  # a `Phase`, or its value
    seconds: float  # since the start
    objective: str
    incumbent: int | None = None  # exact, in the units of `Result.value`
    bound: int | None = None
    label: str = ""  # which of several searches, for people

    def __post_init__(self) -> None:
        """Refuse an unknown phase."""
        Phase(self.phase)

    @property
    def gap(self) -> float | None:
        """Relative distance between incumbent and bound, None unless both are known."""
        return relative_gap(self.incumbent, self.bound)


ProgressCallback = Callable[[Progress], None]
StopCallback = Callable[[], bool]
Search = Callable[..., "Result"]
"""A search such as `solver.stages.map_einsum`, called with its first five arguments by position."""


class Clock:
    """Measures a search against its time limit (None: none), and asks whether it was interrupted."""

    def __init__(
        self, limit_s: float | None, should_stop: StopCallback | None = None, whole: Clock | None = None
    ) -> None:
        self.whole = whole or self  # the one of which this is a share, if it is
        self._start = time.monotonic()
        self._limit = limit_s
        self._should_stop = should_stop
        self.termination: Termination | None = None

    @property
    def seconds(self) -> float:
        """Time since the start."""
        return time.monotonic() - self._start

    @property
    def left_s(self) -> float | None:
        """Seconds until the limit, 0 once it has passed; None if there is none."""
        return None if self._limit is None else max(0.0, self._limit - self.seconds)

    def share(self, parts: float) -> Clock:
        """Return a clock that has one of `parts` equal shares of the time left, and ends with this one."""
        left_s = self.left_s
        return Clock(None if left_s is None else left_s / parts, self.stop, self.whole)

    def stop(self) -> bool:
        """Whether the search must end now."""
        if self.termination is None and self._limit is not None and self.seconds >= self._limit:
            self.end(Termination.TIME_LIMIT)
        if self.termination is None and self._should_stop is not None and self._should_stop():
            self.end(Termination.INTERRUPTED)
        return self.termination is not None

    def end(self, reason: Termination) -> None:
        """Stop the search; the first reason given is kept."""
        self.termination = self.termination or reason


class Stopwatch:
    """Measures what stages of a search take; one inside of another counts for itself alone.

    Parameters
    ----------
    expected
        Stages and engines that come first among the costs, in this order.
    """

    def __init__(self, expected: Sequence[tuple[str, str]] = ()) -> None:
        self._costs = [StageCost(*own, 0.0) for own in expected]
        self._inside_s = 0.0  # that stages inside of the one that runs have taken

    @contextmanager
    def during(self, stage: str, engine: str) -> Iterator[None]:
        """Measure a stage, which may run several times."""
        began, outside_s, self._inside_s = time.monotonic(), self._inside_s, 0.0
        try:
            yield
        finally:
            spent_s = time.monotonic() - began
            self._costs.append(StageCost(stage, engine, max(0.0, spent_s - self._inside_s)))
            self._inside_s = outside_s + spent_s

    @property
    def costs(self) -> tuple[StageCost, ...]:
        """What was measured, in the order in which stages ended first."""
        return tuple(own for own in merged(self._costs) if own.seconds)


@dataclass(frozen=True, slots=True)
class Statement:
    """One constraint in words, and where it is written; no sources if no line of the specs states it."""

    text: str
    sources: tuple[SourceRef, ...] = ()


@dataclass(frozen=True, slots=True)
class Shortfall:
    """A demand against a limit, both in `unit`."""

    text: str
    demand: int
    limit: int
    unit: str

    @property
    def gap(self) -> int:
        """Distance between demand and limit."""
        return abs(self.demand - self.limit)


@dataclass(frozen=True, slots=True)
class Lever:
    """A single change that allows a mapping, to the nearest value that does.

    Both figures are in the unit of the constraint: words, children, arithmetic units, dimensions, a factor.
    """

    text: str
    current: int | None = None
    needed: int | None = None  # None: the constraint has to be dropped
    sources: tuple[SourceRef, ...] = ()


@dataclass(frozen=True, slots=True)
class Reason:
    """Why no mapping exists."""

    text: str  # one line for people
    sources: tuple[SourceRef, ...] = ()  # all places that it mentions
    constraints: tuple[Statement, ...] = ()  # those in conflict
    irreducible: bool = False  # a mapping exists as soon as any one of the constraints is dropped
    shortfalls: tuple[Shortfall, ...] = ()  # the arithmetic of the conflict, most important first
    levers: tuple[Lever, ...] = ()  # single changes that suffice once other reasons are resolved
    complete: bool = True  # whether there was time to look for all of this


@dataclass(frozen=True)
class Priced:
    """A complete mapping with what the cost model says of it."""

    mapping: Mapping
    evaluation: Evaluation


@dataclass(frozen=True, slots=True)
class Narrower:
    """What the search of fewer mappings came to that went first.

    Parameters
    ----------
    status
        OPTIMAL, FEASIBLE, INFEASIBLE or UNKNOWN.
    value, bound
        See `Result`; of the first objective.
    """

    status: Status
    value: int | None
    bound: int | None

    @classmethod
    def of(cls, result: Result) -> Narrower:
        """What a search came to."""
        return cls(result.status, result.value, result.bound)


class WithTotals:
    """A result with the totals of its mapping."""

    if TYPE_CHECKING:
        evaluation: Any
        units_per_pj: Any

    @property
    def energy_pj(self) -> float | None:
        """Energy of the mapping in picojoules, None without one."""
        return None if self.evaluation is None else self.evaluation.energy / self.units_per_pj

    @property
    def cycles(self) -> int | None:
        """Cycles of the mapping, None without one."""
        return None if self.evaluation is None else self.evaluation.cycles

    @property
    def edp_pj_cycles(self) -> float | None:
        """Energy of the mapping in picojoules times its cycles, None without one."""
        found = self.evaluation
        return None if found is None else found.energy * found.cycles / self.units_per_pj


@dataclass(frozen=True)
class Result(WithTotals):
    """The result of a search.

    Parameters
    ----------
    status, termination
        What is known, and why the search ended.
    objectives
        Names out of `model.objective.OBJECTIVES`; `value` and `bound` belong to the first one.
    units_per_pj
        The architecture's energy units per picojoule.
    value
        Exact value of the mapping: energy units, cycles, or energy units times cycles.
    bound
        No allowed mapping is below it; None if nothing is known.
    later_bounds
        Bounds on the second and later objectives among the mappings that are best in all earlier ones, as far
        as the search got.
    mapping, evaluation
        The best mapping found, and its costs by the cost model; None if there is none.
    statistics
        How much work it was.
    reasons
        For INFEASIBLE, why.
    evidence
        What the bounds rest on, for each objective that was searched.
    perfect_factors
        Where loops may have remainders, what is known of the mappings without any.
    even_tiles
        Where memories may have several places, what is known of the mappings with one place each, and
        without remainders.
    dense
        Of sparse data, what was found for the same data without zeros: the best mapping, if it was proven, is
        another one in general.
    hardware_order
        Where memories may lie in any order, what is known of the mappings in the order of the hardware.
    mapspace
        The mapspace of the mapping's order then; None where it is the one that was searched.

    Raises
    ------
    ValueError
        If status, value, bound and mapping contradict each other.
    """

    status: Status
    termination: Termination
    objectives: tuple[str, ...]
    units_per_pj: int
    value: int | None = None
    bound: int | None = None
    later_bounds: tuple[int, ...] = ()
    mapping: Mapping | None = None
    evaluation: Evaluation | None = None
    statistics: Statistics = field(default_factory=Statistics)
    reasons: tuple[Reason, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    perfect_factors: Narrower | None = None
    even_tiles: Narrower | None = None
    dense: Result | None = None
    hardware_order: Narrower | None = None
    mapspace: Mapspace | None = None

    def __post_init__(self) -> None:
        """Check that the status agrees with the other fields."""
        has_mapping = self.status in (Status.OPTIMAL, Status.FEASIBLE)
        parts = (self.value, self.mapping, self.evaluation)
        if any((part is not None) != has_mapping for part in parts):
            raise ValueError(f"{self.status.name} contradicts the presence of value, mapping, evaluation")
        if self.status is Status.OPTIMAL and self.bound != self.value:
            raise ValueError("OPTIMAL needs a bound equal to the value")
        if self.value is not None and self.bound is not None and self.bound > self.value:
            raise ValueError("the bound is above the value")
        if len(self.later_bounds) >= len(self.objectives):
            raise ValueError("more bounds than objectives")
        proven = self.status in (Status.OPTIMAL, Status.INFEASIBLE)
        if proven != (self.termination is Termination.PROVEN):
            raise ValueError(f"{self.status.name} contradicts {self.termination.name}")

    @property
    def objective(self) -> str:
        """The first objective, that of `value`, `bound` and `gap`."""
        return self.objectives[0]

    @property
    def gap(self) -> float | None:
        """Relative distance between value and bound, None unless both are known."""
        return relative_gap(self.value, self.bound)

    @property
    def reported_value(self) -> float | int | None:
        """`value` in pJ, cycles or pJ * cycles."""
        return self._reported(self.value)

    @property
    def reported_bound(self) -> float | int | None:
        """`bound` in pJ, cycles or pJ * cycles."""
        return self._reported(self.bound)

    def _reported(self, quantity: int | None) -> float | int | None:
        if quantity is None:
            return None
        return in_reported_unit(self.objective, quantity, self.units_per_pj)

    @property
    def found(self) -> Priced | None:
        """The mapping with its costs, if there is one."""
        if self.mapping is None or self.evaluation is None:
            return None
        return Priced(self.mapping, self.evaluation)

    def nothing_fits(self, reasons: tuple[Reason, ...]) -> Result:
        """Return the result of a search that was cut short, once it is known that there is no mapping."""
        ending = Status.INFEASIBLE, Termination.PROVEN
        return replace(self, status=ending[0], termination=ending[1], bound=None, reasons=reasons)

    def with_bound_of(self, first: Result) -> Result:
        """Return the result with the bound of a search before it, where that is the higher one.

        A mapping that meets it is proven to be the best, unless later objectives are still open.
        """
        is_open = self.status in (Status.FEASIBLE, Status.UNKNOWN)
        if not is_open or first.bound is None or first.bound <= (self.bound or 0):
            return self
        return replace(with_bound(self, first.bound), evidence=first.evidence)


def with_bound(result: Result, bound: int) -> Result:
    """Return a result with a higher bound, optimal if that is the value and no later objective is open."""
    raised = replace(result, bound=bound)
    if bound != result.value or len(result.objectives) > 1:
        return raised
    return replace(raised, status=Status.OPTIMAL, termination=Termination.PROVEN)


def with_gap(result: Result, gap: float) -> Result:
    """Return a result that says so if it is within the gap that was requested, whatever ended the search."""
    if result.status is not Status.FEASIBLE or not is_within(gap, result.value, result.bound):
        return result
    return replace(result, termination=Termination.GAP)


def within_loop_limit(mapspace: Mapspace, result: Result) -> Result:
    """Return the result of a search, which does not know `Mapspace.max_temporal_loops`.

    A mapping within the limit is the best under it too. With more loops, it is UNKNOWN; the bound holds.
    """
    most = mapspace.max_temporal_loops
    if most is None or result.mapping is None or result.mapping.temporal_loops <= most:
        return result
    return replace(
        result,
        status=Status.UNKNOWN,
        termination=Termination.LOOP_LIMIT,
        value=None,
        mapping=None,
        evaluation=None,
    )
