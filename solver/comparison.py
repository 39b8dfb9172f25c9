"""Heuristic mappers against the proven optimum: how close each comes, and when."""

from __future__ import annotations

import math
import traceback
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from model.mapspace import Mapspace
from model.places import gathered
from solver import stages
from solver.heuristics.interface import Budget, BudgetSpent, MapperError
from solver.heuristics.pricing import Incumbent, Pricing
from solver.heuristics.registry import Mapper
from solver.result import (
    ContradictionError,
    Options,
    Phase,
    Progress,
    ProgressCallback,
    Result,
    Status,
    StopCallback,
)

MILESTONES_PERCENT = (10, 1, 0)
"""Distances from the optimum whose times are reported."""


@dataclass(frozen=True, slots=True)
class Improvement:
    """A better value of the first objective, and when it was found."""

    seconds: float  # since the run began
    value: int  # exact, in units of the objective
    evaluations: int | None = None  # mappings priced by then; None for the exact search


@dataclass(frozen=True)
class MapperRun:
    """One mapper's run."""

    mapper: str  # its name
    seconds: float
    evaluations: int  # mappings it had priced
    valid: int  # those of them that are allowed
    trace: tuple[
        Improvement, ...
    ] = ()  # incumbents, each better than the one before in all objectives in order
    best: Incumbent | None = None  # the last of them
    remark: str = ""  # such as why there is no mapping
    failure: str = ""  # the traceback of an exception in a mapper

    @property
    def value(self) -> int | None:
        """Exact value of the first objective, None if no mapping was found."""
        return self.trace[-1].value if self.trace else None


@dataclass(frozen=True)
class Comparison:
    """What the mappers and the exact search found for one mapspace."""

    case: str  # a name for people
    mapspace: Mapspace
    result: Result  # of the exact search
    trace: tuple[Improvement, ...]  # incumbents of the exact search
    outcomes: tuple[MapperRun, ...]  # one per mapper that ran, in order
    budget: Budget  # of each mapper
    seed: int
    left_out: tuple[str, ...] = ()  # mappers that did not run because of an interrupt

    @property
    def proven(self) -> bool:
        """Whether the reference is the proven optimum, not only a bound."""
        return self.result.status is Status.OPTIMAL

    @property
    def reference(self) -> int | None:
        """What values are compared with: the proven optimum, or else the bound, if there is one."""
        return self.result.bound

    def ratio(self, value: int | None) -> float | None:
        """Value over the reference; None if either is missing, or the reference is 0 and the value is not."""
        if value is None or self.reference is None or (self.reference == 0 and value > 0):
            return None
        return value / self.reference if self.reference else 1.0

    def first_within(self, trace: Sequence[Improvement], percent: int) -> float | None:
        """Seconds until a value was within `percent` of the reference, None if it never was."""
        if self.reference is None:
            return None
        most = self.reference * (100 + percent)
        return next((point.seconds for point in trace if point.value * 100 <= most), None)


def compare(
    mapspace: Mapspace,
    mappers: Iterable[tuple[str, Mapper]],
    options: Options,
    budget: Budget,
    on_progress: ProgressCallback | None = None,
    should_stop: StopCallback | None = None,
    case: str = "",
) -> Comparison:
    """Prove the optimum, then run one mapper after the other within `budget`, until stopped.

    Where memories may have several places, mappers look for the best even tiles, unless their attribute
    `knows_places` says otherwise. Of sparse data they are told expected costs.

    `ContradictionError` if a mapper finds a mapping that is better than the proven optimum: a defect of this
    program.
    """
    result, trace = _prove(mapspace, options, on_progress, should_stop)
    comparison = Comparison(case, mapspace, result, trace, (), budget, options.seed)
    for name, mapper in mappers:
        if should_stop is not None and should_stop():
            comparison = replace(comparison, left_out=(*comparison.left_out, name))
            continue
        outcome = _run_mapper(name, mapper, comparison, on_progress, should_stop)
        _check_not_better(outcome, result)
        comparison = replace(comparison, outcomes=(*comparison.outcomes, outcome))
    return comparison


def geometric_mean(numbers: Iterable[float]) -> float | None:
    """Return the geometric mean of positive numbers, None if there are none."""
    logarithms = [math.log(number) for number in numbers]
    return math.exp(math.fsum(logarithms) / len(logarithms)) if logarithms else None


def _prove(
    mapspace: Mapspace,
    options: Options,
    on_progress: ProgressCallback | None,
    should_stop: StopCallback | None,
) -> tuple[Result, tuple[Improvement, ...]]:
    trace: list[Improvement] = []
    first = options.objectives_for(mapspace)[0]

    def listen(progress: Progress) -> None:
        value = progress.incumbent
        if progress.objective == first and value is not None and (not trace or value < trace[-1].value):
            trace.append(Improvement(progress.seconds, value))
        if on_progress is not None:
            on_progress(progress)

    # Of sparse data, whole energy units are reported.
    told = listen if mapspace.sparsity is None else on_progress
    result = stages.map_einsum(mapspace, options, told, should_stop, reasons=False)
    if result.value is not None and (not trace or result.value < trace[-1].value):
        trace.append(Improvement(result.statistics.seconds, result.value))
    return result, tuple(trace)


def _run_mapper(
    name: str,
    mapper: Mapper,
    comparison: Comparison,
    on_progress: ProgressCallback | None,
    should_stop: StopCallback | None,
) -> MapperRun:
    objectives, mapspace = comparison.result.objectives, comparison.mapspace
    if not getattr(mapper, "knows_places", False):
        mapspace = gathered(mapspace)

    def stop() -> bool:
        if on_progress is not None:
            incumbent = pricing.best.values[0] if pricing.best else None
            known = (objectives[0], incumbent, comparison.reference)
            on_progress(Progress(Phase.MAPPER, pricing.seconds, *known, label=name))
        return should_stop is not None and should_stop()

    try:
        pricing = Pricing(mapspace, objectives, comparison.budget, comparison.seed, stop)
    except MapperError as error:
        return MapperRun(name, seconds=0.0, evaluations=0, valid=0, remark=str(error))
    remark, failure = _remark_of_run(mapper, pricing)
    even = "even tiles only" if mapspace != comparison.mapspace and pricing.best else ""
    return MapperRun(
        mapper=name,
        seconds=pricing.seconds,
        evaluations=pricing.evaluations,
        valid=pricing.valid,
        trace=tuple(
            Improvement(incumbent.seconds, incumbent.values[0], incumbent.evaluations)
            for incumbent in pricing.trace
        ),
        best=pricing.best,
        remark="; ".join(filter(None, (remark, even, *pricing.notes))),
        failure=failure,
    )


def _remark_of_run(mapper: Mapper, pricing: Pricing) -> tuple[str, str]:
    """Run a mapper; return a remark for people, and the traceback if it failed."""
    try:
        answer = mapper.find_mapping(pricing.mapspace, pricing)
        broken = None if answer is None else pricing.offer(answer)
    except BudgetSpent:
        return "", ""
    except MapperError as error:
        return str(error), ""
    except ContradictionError:
        raise
    except (Exception, SystemExit) as error:  # a user's mapper may fail in any way, the others still count
        return f"failed: {type(error).__name__}: {error}", traceback.format_exc()
    return f"its answer violates {broken}" if broken else "", ""


def _check_not_better(outcome: MapperRun, result: Result) -> None:
    """Raise `ContradictionError` if a mapping is better than what the exact search proved."""
    if outcome.best is None:
        return
    if result.status is Status.INFEASIBLE:
        raise ContradictionError(f"{outcome.mapper} found a mapping where none was proven to exist")
    bounds = () if result.bound is None else (result.bound, *result.later_bounds)
    if outcome.best.values[: len(bounds)] < bounds:
        raise ContradictionError(f"{outcome.mapper} found a mapping below the bound of the exact search")
    if result.status is Status.OPTIMAL and result.evaluation is not None:
        values = tuple(map(result.evaluation.value, result.objectives))
        if outcome.best.values < values:
            raise ContradictionError(f"{outcome.mapper} found a mapping better than the proven optimum")
