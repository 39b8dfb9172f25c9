"""The energy-latency front of one Einsum: every mapping that no other dominates, each proven.

The front is walked from its slow end, by the epsilon-constraint method: the least energy, then the least
latency at that energy, then the same below that latency, until the least latency of all is reached. That one
is proven before the walk, with the mapping of least energy as incumbent: with a known end no search has to
prove that nothing is left, and each starts from a mapping within its cap.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import final

from model.cost import Evaluation
from model.mapping import Mapping
from model.mapspace import Mapspace
from solver.result import (
    BOUNDS,
    CP_SAT,
    ENGINES,
    Options,
    ProgressCallback,
    Reason,
    Result,
    Statistics,
    Status,
    StopCallback,
    Termination,
    refuse_gap,
)
from solver.search.goal import NO_CAPS, Caps
from solver.search.mapper import DIVISORS, SCOPES, SharedSearch
from solver.search.priced import Priced
from solver.search.trivial import trivial_bound
from solver.sparse_search import sparse_search
from solver.stages import (
    SPARSE,
    EinsumQuestion,
    Stage,
    State,
    again,
    feasibility,
    is_infeasible,
    is_stuck,
    patiently,
    reasons,
    through,
)


@dataclass(frozen=True)
class FrontPoint:
    """A mapping and its costs: if `proven`, no mapping dominates it, otherwise none that was found."""

    mapping: Mapping
    evaluation: Evaluation
    proven: bool = True


@dataclass(frozen=True, slots=True)
class OpenRange:
    """Where points of the front may exist that were not found."""

    least_cycles: int
    most_cycles: int | None  # None: any number
    least_energy: int  # in the front's energy units


@final
@dataclass(frozen=True)
class Front:
    """The energy-latency front of a mapspace."""

    status: Status  # OPTIMAL if complete and proven, FEASIBLE if something is open, UNKNOWN without points
    termination: Termination
    units_per_pj: int
    points: tuple[FrontPoint, ...] = ()  # by rising cycles, and so by falling energy
    open_ranges: tuple[OpenRange, ...] = ()  # by rising cycles
    statistics: Statistics = field(default_factory=Statistics)
    reasons: tuple[Reason, ...] = ()

    @property
    def found(self) -> Priced | None:
        """A mapping with its costs, if there is one."""
        return next((Priced(point.mapping, point.evaluation) for point in self.points), None)

    def nothing_fits(self, reasons: tuple[Reason, ...]) -> Front:
        """Return the front of a walk that was cut short, once it is known that there is no mapping."""
        ending = Status.INFEASIBLE, Termination.PROVEN
        return replace(self, status=ending[0], termination=ending[1], open_ranges=(), reasons=reasons)

    def with_bound_of(self, _: Front) -> Front:
        """Return the front: what is open in it says all that is known."""
        return self


def pareto_front(
    mapspace: Mapspace,
    options: Options = Options(),
    on_progress: ProgressCallback | None = None,
    should_stop: StopCallback | None = None,
) -> Front:
    """Find the complete energy-latency front of a mapspace, each point proven, or say why there is none.

    When stopped, it has the points that were proven so far, other mappings that were found, and open ranges.
    """
    refuse_gap(options, "a front")
    question = EinsumQuestion(mapspace, options, on_progress, should_stop)
    front: Front = through(STAGES, question, State())
    most = mapspace.max_temporal_loops
    if most is None or all(point.mapping.temporal_loops <= most for point in front.points):
        return front
    # What takes the place of a point with too many loops is not known, nor what that would dominate.
    return replace(
        front, status=Status.UNKNOWN, termination=Termination.LOOP_LIMIT, points=(), open_ranges=()
    )


def _walked(question: EinsumQuestion, state: State) -> Front:
    """Walk along the front of dense data."""
    walk = _FrontWalk(question.ask(SharedSearch))
    return walk.run(state.known)


def _walked_over_sparse_data(question: EinsumQuestion, state: State) -> State:
    """Walk along the front of sparse data, without remainders."""
    walk = _FrontWalk(question.about(DIVISORS.of(question.mapspace)).ask(sparse_search))
    return state.told(walk.run(state.known))


STAGES = (
    Stage("bounds", BOUNDS, (SPARSE,), _walked_over_sparse_data, SCOPES),
    Stage("bounds", BOUNDS, ENGINES, partial(patiently, _walked), SCOPES),
    Stage("feasibility", CP_SAT, ENGINES, feasibility, most_s=60.0, is_due=is_stuck),
    Stage("bounds again", BOUNDS, ENGINES, partial(again, _walked), SCOPES, is_due=is_stuck),
    Stage("reasons", CP_SAT, (SPARSE, *ENGINES), reasons, (), is_due=is_infeasible),
)
"""The stages of a search for a front, in order."""


class _FrontWalk:
    """The walk from the slow end of the front to the fast one."""

    def __init__(self, search: SharedSearch) -> None:
        self._search = search
        self._points: list[FrontPoint] = []
        self._found: list[FrontPoint] = []

    def run(self, known: Priced | None) -> Front:
        """Walk as far as time allows, with a mapping to begin with, if there is one."""
        last = self._next_point(NO_CAPS, known)
        if last.status is Status.INFEASIBLE:
            return self._front(last)
        if last.status is not Status.OPTIMAL:
            return self._front(last, self._open(last, 1, None))
        fast = self._search.minimise(("latency",), known=last.found)
        self._found.extend(_front_points(fast, proven=False))
        least_cycles = fast.bound or 1
        if fast.status is not Status.OPTIMAL:
            return self._front(fast, self._open(last, least_cycles, _evaluation_of(last).cycles - 1))
        while _evaluation_of(last).cycles > least_cycles:
            cap = _evaluation_of(last).cycles - 1
            step = self._next_point(Caps(cycles=cap), fast.found)
            if step.status is not Status.OPTIMAL:
                return self._front(step, self._open(step, least_cycles, cap, _evaluation_of(last).energy))
            last = step
        return self._front(last)

    def _next_point(self, caps: Caps, known: Priced | None = None) -> Result:
        """Find the next point: the least energy within `caps`, and the least latency at that energy."""
        result = self._search.minimise(("energy", "latency"), caps, known)
        proven = result.status is Status.OPTIMAL
        (self._points if proven else self._found).extend(_front_points(result, proven))
        return result

    def _open(
        self, bounded: Result, least_cycles: int, most_cycles: int | None, least_energy: int = 0
    ) -> tuple[OpenRange, ...]:
        """The cycles at which the front is not known, with the bound that a search for energy left.

        Where the least energy is proven, a mapping that takes longer than the one found is dominated.
        """
        mapspace = self._search.mapspace
        if mapspace.sparsity is None:
            least_cycles = max(least_cycles, trivial_bound(mapspace, "latency"))
            least_energy = max(least_energy, trivial_bound(mapspace, "energy"))
        least_energy = max(least_energy, bounded.bound or 0)
        if bounded.evaluation is not None and bounded.bound == bounded.value:
            faster = bounded.evaluation.cycles - 1
            most_cycles = faster if most_cycles is None else min(most_cycles, faster)
        if most_cycles is not None and most_cycles < least_cycles:
            return ()
        return (OpenRange(least_cycles, most_cycles, least_energy),)

    def _front(self, last: Result, open_ranges: tuple[OpenRange, ...] = ()) -> Front:
        points = undominated([*self._points, *self._found])
        return Front(last.status, last.termination, last.units_per_pj, points, open_ranges, last.statistics)


def undominated(points: Sequence[FrontPoint]) -> tuple[FrontPoint, ...]:
    """Return the points that no other one dominates, by rising cycles; of equal ones the first."""
    front: list[FrontPoint] = []
    for point in sorted(points, key=lambda own: (own.evaluation.cycles, own.evaluation.energy)):
        if not front or point.evaluation.energy < front[-1].evaluation.energy:
            front.append(point)
    return tuple(front)


def _front_points(result: Result, proven: bool) -> list[FrontPoint]:
    if result.mapping is None or result.evaluation is None:
        return []
    return [FrontPoint(result.mapping, result.evaluation, proven)]


def _evaluation_of(result: Result) -> Evaluation:
    assert result.evaluation is not None  # a proven optimum has one
    return result.evaluation
