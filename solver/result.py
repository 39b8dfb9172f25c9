"""What a search is asked for, what it reports while it runs, and what it returns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import Enum, StrEnum
from typing import TYPE_CHECKING

from model.objective import OBJECTIVES, in_reported_unit

if TYPE_CHECKING:
    from model.cost import Evaluation
    from model.mapping import Mapping
    from model.mapspace import Mapspace
    from solver.reasons import Reason


class ContradictionError(RuntimeError):
    """Two parts of the product disagree on a fact: a defect, never an answer."""


class TooLargeError(Exception):
    """A problem whose counts of words are beyond what the search's tables hold."""


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
    TOO_LARGE = "TOO_LARGE"
    """Of networks: the layer has more words than a search counts."""
    LOOP_LIMIT = "LOOP_LIMIT"
    """The best mapping has more temporal loops than the mapspace allows, which the search does not model."""


@dataclass(frozen=True, slots=True)
class Options:
    """How to search; none of it changes which mapping is optimal.

    Parameters
    ----------
    objectives
        Names out of `model.objective.OBJECTIVES`, compared lexicographically; None takes the mapspace's own.
    time_limit_s
        Seconds after which the incumbent is returned; None is no limit.
    jobs
        Number of workers. The answer does not depend on it. They are new interpreters, which import the
        main module: a script that asks for more than one does so under ``if __name__ == "__main__":``.
    seed
        Seed of the CP-SAT core.
    branch_nodes
        Nodes that are branched in one subproblem before the CP-SAT core takes over.
    memory_limit_mib
        Budget for the tables of the search, by an estimate, in each worker: if they do not fit, dimensions
        have fewer tiles, and nothing is proven.

    Raises
    ------
    ValueError
        An objective is unknown, named twice or missing, or a limit out of its range; the message says which.
    """

    objectives: tuple[str, ...] | None = None
    time_limit_s: float | None = None
    jobs: int = 1
    seed: int = 0
    branch_nodes: int = 50_000
    memory_limit_mib: int = 1536

    def __post_init__(self) -> None:
        """Check the ranges; ``ValueError`` says which option is wrong."""
        unknown = [name for name in self.objectives or () if name not in OBJECTIVES]
        if unknown:
            raise ValueError(f"unknown objective {unknown[0]!r}; known are {', '.join(OBJECTIVES)}")
        if self.objectives is not None and len(set(self.objectives)) != max(1, len(self.objectives)):
            raise ValueError("objectives must be named once each, and at least one of them")
        if self.time_limit_s is not None and self.time_limit_s < 0:
            raise ValueError("the time limit must not be negative")
        if self.jobs < 1 or self.memory_limit_mib < 1:
            raise ValueError("jobs and the memory limit must be at least 1")
        if self.branch_nodes < 0:
            raise ValueError("the nodes to branch must not be negative")


@dataclass(frozen=True, slots=True)
class Statistics:
    """How much work a search did.

    Parameters
    ----------
    seconds
        Wall-clock time of the search.
    states
        Tiles that fit and were not ruled out before, over all storage levels but the outermost one and all
        lattices that were bounded.
    masks
        Keep masks looked at, for each objective anew.
    spatial_classes
        Combinations of spatial classes, one class per stage.
    subproblems
        Bounds by a lattice: of a pair of both that the survey did not settle, or of several pairs together.
    core_variables, core_calls
        Variables of the largest CP-SAT core, and the number of times CP-SAT was called.
    mappings_priced
        Mappings that the cost model evaluated; of those that a heuristic tries, the best one.
    """

    seconds: float = 0.0
    states: int = 0
    masks: int = 0
    spatial_classes: int = 0
    subproblems: int = 0
    core_variables: int = 0
    core_calls: int = 0
    mappings_priced: int = 0

    def together(self, other: Statistics) -> Statistics:
        """Return the work of two searches of one mapspace, which look at the same masks and classes."""
        return Statistics(
            seconds=self.seconds + other.seconds,
            states=self.states + other.states,
            masks=max(self.masks, other.masks),
            spatial_classes=max(self.spatial_classes, other.spatial_classes),
            subproblems=self.subproblems + other.subproblems,
            core_variables=max(self.core_variables, other.core_variables),
            core_calls=self.core_calls + other.core_calls,
            mappings_priced=self.mappings_priced + other.mappings_priced,
        )


@dataclass(frozen=True, slots=True)
class MaskEvidence:
    """Which step of a search shows for how many spatial classes of a keep mask that none is below the bound.

    Parameters
    ----------
    keep
        Per dataspace, in the problem's order, the storage levels (0 is the outermost) that keep it.
    by_survey, by_lattice, by_branching, by_core
        Number of classes, by the last step that was needed; bounds on neighbouring levels are the survey's.
    survey_bound
        Least bound of the classes that the survey settles, as the objective counts; None if no tile of
        theirs fits, or if there are none.
    states
        States of the divisor lattice that were bounded.
    tiles_left
        Tiles that the lattices left, per storage level but the outermost.
    nodes
        Nodes that were branched.
    core_variables, core_solves
        Variables of the CP-SAT cores, and how often they were solved until nothing was left in them.
    """

    keep: tuple[tuple[int, ...], ...]
    by_survey: int
    by_lattice: int = 0
    by_branching: int = 0
    by_core: int = 0
    survey_bound: int | None = None
    states: int = 0
    tiles_left: tuple[int, ...] = ()
    nodes: int = 0
    core_variables: int = 0
    core_solves: int = 0


@dataclass(frozen=True, slots=True)
class Evidence:
    """What the bound on one objective rests on, keep mask by keep mask."""

    objective: str
    masks: tuple[MaskEvidence, ...]


def relative_gap(value: int | None, bound: int | None) -> float | None:
    """Return ``(value - bound) / value``, 0 for a value of 0, None unless both are known."""
    if value is None or bound is None:
        return None
    return (value - bound) / value if value else 0.0


class Phase(StrEnum):
    """What a search is at; the values are for people."""

    SURVEY = "survey"
    """All spatial choices get a first bound; nothing is looked for yet."""
    LATTICE = "lattice"
    BRANCHING = "branching"
    MAPPER = "mapper"
    """A heuristic one, which proves nothing."""
    EXPLANATION = "explanation"
    """Whether anything fits, and why not."""


@dataclass(frozen=True, slots=True)
class Progress:
    """A snapshot of a running search.

    Parameters
    ----------
    phase
        A `Phase`, or its value.
    seconds
        Since the start.
    objective, incumbent, bound
        The latter two are exact integers of `objective`, in the units of `Result.value`.
    label
        For people: which one of several searches this is of.

    Raises
    ------
    ValueError
        There is no such phase.
    """

    phase: str
    seconds: float
    objective: str
    incumbent: int | None = None
    bound: int | None = None
    label: str = ""

    def __post_init__(self) -> None:
        """Refuse what is no phase."""
        Phase(self.phase)

    @property
    def gap(self) -> float | None:
        """Relative distance between incumbent and bound, None unless both are known."""
        return relative_gap(self.incumbent, self.bound)


ProgressCallback = Callable[[Progress], None]
StopCallback = Callable[[], bool]


@dataclass(frozen=True)
class Result:
    """The answer of a search.

    Parameters
    ----------
    status, termination
        What is known, and why the search ended.
    objectives
        Names out of `model.objective.OBJECTIVES`; `value` and `bound` belong to the first one.
    units_per_pj
        The architecture's energy units in a picojoule.
    value
        Exact value of the mapping: energy units, cycles, or energy units times cycles.
    bound
        No allowed mapping is below it; None if nothing is known.
    later_bounds
        For the second and later objectives, a bound on them among the mappings that are best in
        all objectives before; as far as the search came.
    mapping, evaluation
        The best mapping found, and what the cost model says about it; None if there is none.
    statistics
        How much work it was.
    reasons
        For INFEASIBLE, why.
    evidence
        What the bounds rest on, for each objective that was searched.

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

    def __post_init__(self) -> None:
        """Hold the statuses apart."""
        has_mapping = self.status in (Status.OPTIMAL, Status.FEASIBLE)
        parts = (self.value, self.mapping, self.evaluation)
        if any((part is not None) != has_mapping for part in parts):
            raise ValueError(f"{self.status.name} does not fit the presence of value, mapping, evaluation")
        if self.status is Status.OPTIMAL and self.bound != self.value:
            raise ValueError("OPTIMAL needs a bound equal to the value")
        if self.value is not None and self.bound is not None and self.bound > self.value:
            raise ValueError("the bound is above the value")
        if len(self.later_bounds) >= len(self.objectives):
            raise ValueError("more bounds than objectives")
        proven = self.status in (Status.OPTIMAL, Status.INFEASIBLE)
        if proven != (self.termination is Termination.PROVEN):
            raise ValueError(f"{self.status.name} does not fit {self.termination.name}")

    @property
    def objective(self) -> str:
        """The first objective, which `value`, `bound` and `gap` speak of."""
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


def within_loop_limit(mapspace: Mapspace, result: Result) -> Result:
    """Return the result of a search, which does not know `Mapspace.max_temporal_loops`.

    A mapping within the limit is the best under it too. One with more loops is not allowed: the result is
    UNKNOWN then, and its bound holds.
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
