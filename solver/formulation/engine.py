"""The search by the formulation alone: solve, price, tighten, and solve again until the bound is met."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from threading import Lock
from typing import Protocol

from model.cost import Evaluation, evaluate_in
from model.extents import PERFECT
from model.mapping import Mapping
from model.mapspace import Mapspace
from model.objective import EDP, ENERGY, LATENCY
from solver.cpsat import ModelError, Outcome, Settings
from solver.formulation.model import CandidateMapping, Formulation, Scaled, check_formulated
from solver.formulation.program import EmptyProgramError, UnfinishedError
from solver.heuristics.interface import Budget, BudgetSpent, MapperError
from solver.heuristics.local_search import GreedyDescent
from solver.heuristics.pricing import Pricing
from solver.result import (
    CP_SAT,
    Clock,
    Options,
    Phase,
    Priced,
    Progress,
    ProgressCallback,
    Result,
    Statistics,
    Status,
    StopCallback,
    Termination,
    is_within,
)

VARIABLES_PER_SLICE_S = 2000
"""Variables for which a first attempt has one of CP-SAT's deterministic seconds each."""

LARGE_MODEL = 5000
"""Variables above which a heuristic comes first: what no better mapping can use is excluded then."""

RELAXED_MODEL = 30_000
"""Variables above which all rows are part of the linear relaxation, without which CP-SAT has no bound for
long; with fewer ones it tries with few rows and with all of them in turn."""

LONGER = 2
"""How much longer an attempt is than one that proved nothing."""

CLOSE_QUANTA = 1000
"""Quanta between bound and incumbent below which the incumbent limits the objective exactly."""

CYCLE_ATTEMPTS = 6
"""How often CP-SAT looks for the fewest cycles before it minimises a product, at most."""

MOST_SOLVES = 25
"""Solves before leakage while the arithmetic waits is brought in."""

OWN_SEED = 1000
"""Added to the seed: descents of the search by bounds begin elsewhere."""

DESCENTS = 4
"""Descents of a heuristic."""


class Peer(Protocol):
    """Another search for the same optimum at the same time."""

    def found(self, mapping: Mapping) -> None:
        """Take a mapping, the best one so far."""

    def bounded(self, bound: int) -> None:
        """Take a bound on the first objective."""

    def better(self) -> Mapping | None:
        """Return the best mapping of the other search, if it is new."""


@dataclass(frozen=True)
class Beginning:
    """What is known before a search by CP-SAT begins.

    Parameters
    ----------
    limits
        The most that a mapping may cost: pairs of an objective and a value, inclusive.
    known
        A mapping.
    effort_s
        CP-SAT's deterministic seconds, at most.
    peer
        Told of mappings as they are found, and of bounds on the first objective, from any thread.
    constrain
        Called with every formulation, before it is solved, to add constraints on its variables. A `known`
        mapping has to satisfy them.
    """

    limits: tuple[tuple[str, int], ...] = ()
    known: Mapping | None = None
    effort_s: float = math.inf
    peer: Peer | None = None
    constrain: Callable[[Formulation], None] | None = None


FROM_NOTHING = Beginning()


def map_by_formulation(
    mapspace: Mapspace,
    options: Options = Options(),
    on_progress: ProgressCallback | None = None,
    should_stop: StopCallback | None = None,
    beginning: Beginning = FROM_NOTHING,
) -> Result:
    """Find the best mapping by CP-SAT alone, as `solver.map_einsum` does by bounds; same parameters.

    Parameters
    ----------
    mapspace, options, on_progress, should_stop
        See `solver.map_einsum`; mappings with remainders come at once, without a default limit.
    beginning
        What is known already.

    Raises
    ------
    ValueError
        The mapspace has what is not formulated, see `check_formulated`.
    TooLargeError
        A dimension has too many extents.
    ModelError
        CP-SAT contradicts the model: a defect, never an answer.
    """
    check_formulated(mapspace)
    return _Run(mapspace, options, on_progress, should_stop, beginning).minimise()


class _Run:
    """The search for all objectives, one after the other."""

    def __init__(
        self,
        mapspace: Mapspace,
        options: Options,
        on_progress: ProgressCallback | None,
        should_stop: StopCallback | None,
        beginning: Beginning,
    ) -> None:
        self._mapspace = mapspace
        self._options = options
        self._on_progress = on_progress
        self._clock = Clock(options.time_limit_s, should_stop)
        self._statistics = Statistics()
        self._limits = [*beginning.limits, *mapspace.cost_limits]
        self._known, self._peer, self._constrain = beginning.known, beginning.peer, beginning.constrain
        self._effort_s = beginning.effort_s
        self._best: Priced | None = None
        self._lock = Lock()
        self._tried = False

    def minimise(self) -> Result:
        """Minimise the objectives lexicographically."""
        objectives = self._options.objectives_for(self._mapspace)
        bounds: list[int | None] = []
        if self._known is not None:
            self._price(self._known, objectives[0])
        if self._peer is not None:
            self.try_heuristic(objectives[0])
        for objective in objectives:
            bound = self._minimise(objective)
            bounds.append(bound)
            if self._best is None or bound != self._best.evaluation.value(objective):
                break
            self._limits.append((objective, bound))
        return self._result(objectives, bounds)

    def _result(self, objectives: Sequence[str], bounds: Sequence[int | None]) -> Result:
        clock, units = self._clock, self._mapspace.architecture.units_per_pj
        statistics = replace(self._statistics, seconds=clock.seconds)
        if self._best is None:
            empty = bounds[0] is None
            statistics.settled_by = (CP_SAT if empty else "",)
            return Result(
                Status.INFEASIBLE if empty else Status.UNKNOWN,
                Termination.PROVEN if empty else clock.termination or Termination.INTERRUPTED,
                tuple(objectives),
                units,
                bound=bounds[0],
                statistics=statistics,
            )
        evaluation = self._best.evaluation
        values = [evaluation.value(name) for name in objectives]
        proven = list(bounds) == values
        pairs = zip(bounds, values, strict=False)
        statistics.settled_by = tuple(CP_SAT if bound == value else "" for bound, value in pairs)
        return Result(
            Status.OPTIMAL if proven else Status.FEASIBLE,
            Termination.PROVEN if proven else clock.termination or Termination.INTERRUPTED,
            tuple(objectives),
            units,
            value=values[0],
            bound=bounds[0],
            later_bounds=tuple(bound for bound in bounds[1:] if bound is not None),
            mapping=self._best.mapping,
            evaluation=evaluation,
            statistics=statistics,
        )

    def _minimise(self, objective: str) -> int | None:
        """Find the best mapping within the limits; return its bound, None if there is no mapping at all."""
        if self._clock.stop():
            return 0
        bound = 0
        for waits, most_solves in self._stages(objective):
            try:
                search = self._formulated(objective, waits)
            except UnfinishedError:
                return bound
            if search is None and self._best is not None:
                raise ModelError("the formulation excludes a mapping that is allowed")
            found = None if search is None else search.bound(most_solves)
            if found is None or self._is_proven(objective, found) or self._clock.stop():
                return found if found is None else max(bound, found)
            bound = max(bound, found)
        return bound

    def _stages(self, objective: str) -> list[tuple[bool, int | None]]:
        """Whether leakage while the arithmetic waits is known to the tables, and how many solves there are.

        It is little as a rule, and its tables are large: they come in once a search without them gets stuck.
        """
        levels = self._mapspace.architecture.levels
        leaks = any(level.energy.leak_per_cycle for level in levels)
        if objective == LATENCY or not leaks or all(level.unlimited for level in levels):
            return [(False, None)]
        return [(False, MOST_SOLVES), (True, None)]

    def _is_proven(self, objective: str, bound: int) -> bool:
        return self._best is not None and bound >= self._best.evaluation.value(objective)

    def _formulated(self, objective: str, waits: bool) -> _ObjectiveSearch | None:
        """The search within the limits; None if nothing is allowed."""
        timed = waits or objective != ENERGY or any(name != ENERGY for name, _ in self._limits)
        try:
            formulation = Formulation(self._mapspace, timed, waits, self._clock.stop)
            if self._constrain is not None:
                self._constrain(formulation)
            for name, most in self._limits:
                self._limit(formulation, name, most)
        except EmptyProgramError:
            return None
        return _ObjectiveSearch(self, formulation, objective)

    @staticmethod
    def _limit(formulation: Formulation, objective: str, most: int) -> None:
        limits: dict[str, Callable[[int], None]] = {
            ENERGY: formulation.limit_energy,
            LATENCY: formulation.limit_cycles,
            EDP: formulation.limit_product,
        }
        limits[objective](most)

    def price(self, candidate: CandidateMapping, objective: str) -> Evaluation:
        """Price a mapping, which becomes the incumbent if it is the best within all limits."""
        return self._price(candidate.mapping, objective)

    def _price(self, mapping: Mapping, objective: str) -> Evaluation:
        evaluation = evaluate_in(self._mapspace, mapping)
        allowed = evaluation.valid and all(evaluation.value(name) <= most for name, most in self._limits)
        with self._lock:  # answers are priced in a thread of CP-SAT
            self._statistics.mappings_priced += 1
            best = self._best
            better = best is None or evaluation.value(objective) < best.evaluation.value(objective)
            if allowed and better:
                self._best = Priced(mapping, evaluation)
        if allowed and better and self._peer is not None:
            self._peer.found(mapping)
        return evaluation

    def bounded(self, objective: str, bound: int) -> None:
        """Tell the peer that no mapping within the limits is below a bound, but for the incumbent."""
        value = None if self._best is None else self._best.evaluation.value(objective)
        if self._peer is not None:
            self._peer.bounded(bound if value is None else min(bound, value))

    def listen(self, objective: str) -> None:
        """Price what the peer has found."""
        mapping = None if self._peer is None else self._peer.better()
        if mapping is not None:
            self._price(mapping, objective)

    def try_heuristic(self, objective: str) -> None:
        """Look for a mapping with a heuristic, once; it knows perfect factors, which are always allowed."""
        if self._tried or self._limits or self._constrain is not None:
            return
        self._tried = True
        left_s = self._clock.left_s
        budget = Budget(seconds=None if left_s is None else left_s / 10)
        mapspace = replace(self._mapspace, factors=PERFECT)
        try:
            pricing = Pricing(mapspace, (objective,), budget, self._options.seed + OWN_SEED, self._clock.stop)
        except MapperError:
            return
        with suppress(MapperError, BudgetSpent):
            if pricing.batched:
                GreedyDescent(descents=DESCENTS).find_mapping(mapspace, pricing)
        if pricing.best is not None:
            self._price(pricing.best.mapping, objective)

    @property
    def best(self) -> Priced | None:
        """The incumbent."""
        return self._best

    def settings(self, slice_s: float, linearization: int) -> Settings:
        """Parameters of CP-SAT for an attempt of so many deterministic seconds."""
        seconds = min(slice_s, self._effort_s)
        return Settings(seed=self._options.seed, linearization=linearization, deterministic_s=seconds)

    def stop(self) -> bool:
        """Whether to end."""
        return self._clock.stop() or self._effort_s <= 0

    def solved(self, formulation: Formulation, slice_s: float) -> None:
        """Note a solve that had so many deterministic seconds."""
        self._effort_s -= slice_s
        self._statistics.core_calls += 1
        variables = formulation.program.checked.variables
        self._statistics.core_variables = max(self._statistics.core_variables, variables)

    def report(self, objective: str, bound: int | None) -> None:
        """Tell the caller how far the search is."""
        value = None if self._best is None else self._best.evaluation.value(objective)
        bound = bound if value is None or bound is None else min(bound, value)
        if is_within(self._options.gap, value, bound):
            self._clock.end(Termination.GAP)
        if self._on_progress is not None:
            self._on_progress(Progress(Phase.FORMULATION, self._clock.seconds, objective, value, bound))


class _ObjectiveSearch:
    """The search for one objective, with one formulation."""

    def __init__(self, run: _Run, formulation: Formulation, objective: str) -> None:
        self._run = run
        self._formulation = formulation
        self._objective = objective
        variables = formulation.program.checked.variables
        self._slice_s = variables / VARIABLES_PER_SLICE_S
        self._is_close = False
        self._is_large = variables > RELAXED_MODEL
        self._linearization = 2 if self._is_large else 1
        self._solves_left: int | None = None
        self._reached = 0
        if variables > LARGE_MODEL:
            run.try_heuristic(objective)

    def _value(self) -> int | None:
        """The incumbent's value."""
        best = self._run.best
        return None if best is None else best.evaluation.value(self._objective)

    def _is_over(self) -> bool:
        """Whether to end after a step."""
        if self._solves_left is not None:
            self._solves_left -= 1
        return self._solves_left == 0 or self._run.stop()

    def _room(self) -> int | None:
        """The most that a mapping which improves may cost."""
        value = self._value()
        return None if value is None else value - 1

    def bound(self, most_solves: int | None) -> int | None:
        """Search until nothing is left, or time or solves are over; return the bound, if anything fits."""
        self._solves_left = most_solves
        try:
            return self._product() if self._objective == EDP else self._least()
        except EmptyProgramError:  # nothing is better than the incumbent
            return self._value()
        except UnfinishedError:  # time was over while constraints or hints were added
            return self._reached

    def _least(self) -> int | None:
        """Minimise energy or cycles."""
        bound = 0
        while True:
            scale = self._formulation.minimise(self._objective, self._room(), self._is_close)
            found = self._solve_once(scale, bound)
            value = self._value()
            if found is None or (value is not None and found >= value):
                return value
            self._reached = bound = found
            self._run.report(self._objective, bound)
            if self._is_over():
                return bound

    def _product(self) -> int | None:
        """Minimise energy times cycles: the least energy under falling limits on the cycles.

        Once no mapping within the limit takes less than E, one that improves on the product U takes at most
        (U - 1) / E cycles.
        """
        formulation, fewest = self._formulation, self._fewest_cycles()
        if fewest is None:
            return self._value()
        energy, known = 0, None
        while True:
            room = self._room()
            if room is not None and room != known:
                formulation.limit_product(room)
                formulation.limit_cycles(room // max(1, energy))
            known = room
            most = None if room is None else room // fewest
            found = self._solve_once(formulation.minimise_energy(most, self._is_close), energy, fewest)
            value = self._value()
            if found is None or (value is not None and found * fewest >= value):
                return value
            energy, self._reached = found, found * fewest
            self._run.report(EDP, self._reached)
            if value is not None and energy > 0:
                formulation.limit_cycles((value - 1) // energy)
            if self._is_over():
                return self._reached

    def _fewest_cycles(self) -> int | None:
        """A bound on the cycles, for which CP-SAT has a few attempts; None if there is no mapping."""
        fewest, slice_s = max(1, self._formulation.fewest_cycles), self._slice_s
        for _ in range(CYCLE_ATTEMPTS):
            scale = self._formulation.minimise_cycles(None)
            solved = self._solve(scale, slice_s)
            if solved is None:
                return None
            outcome, _ = solved
            fewest = max(fewest, math.ceil(scale.value(outcome.bound)))
            if outcome.is_proven or self._run.stop():
                break
            slice_s *= LONGER
        return fewest

    def _solve(
        self, scale: Scaled, slice_s: float, on_bound: Callable[[int], None] | None = None
    ) -> tuple[Outcome, list[tuple[CandidateMapping, Evaluation]]] | None:
        """Solve once and price what is found; None if there is nothing left."""
        run, formulation = self._run, self._formulation
        settings = run.settings(slice_s, self._linearization)
        known: dict[Mapping, Evaluation] = {}

        def price(candidate: CandidateMapping) -> None:
            known[candidate.mapping] = run.price(candidate, self._objective)

        outcome, candidates = formulation.solve(settings, run.stop, price, on_bound)
        run.solved(formulation, slice_s)
        if outcome.is_infeasible:
            return None
        for candidate in candidates:
            if candidate.mapping not in known:
                price(candidate)
        priced = [(candidate, known[candidate.mapping]) for candidate in candidates]
        self._check(priced)
        return outcome, priced

    def _check(self, priced: Sequence[tuple[CandidateMapping, Evaluation]]) -> None:
        """Raise `ModelError` for answers that break what the program states."""
        formulation = self._formulation
        if not formulation.tables.rounded and any(own.violations for _, own in priced):
            raise ModelError("an answer violates a limit of the hardware")
        broken = {own.rule for _, evaluation in priced for own in evaluation.broken_rules}
        if any(not rule.limits_costs for rule in broken.difference(formulation.rules.unstated)):
            raise ModelError("an answer violates a rule")

    def _solve_once(self, scale: Scaled, bound: int, times: int = 1) -> int | None:
        """Solve once, and exclude what is found; return the bound, None if nothing is left.

        The objective is at least so many `times` what is minimised.
        """

        def tell(quanta: int) -> None:
            reached = math.ceil(max(scale.least, scale.value(quanta)))
            self._run.bounded(self._objective, max(bound, reached) * times)

        self._run.listen(self._objective)
        if self._run.best is not None:
            self._formulation.hint(self._run.best.mapping)
        solved = self._solve(scale, self._slice_s, tell)
        if solved is None:
            return None
        outcome, priced = solved
        self._formulation.tighten(priced)
        for candidate, _ in priced:
            self._formulation.exclude(candidate)
        lower = math.ceil(max(scale.least, scale.value(outcome.bound)))
        if not outcome.is_proven:
            self._run.try_heuristic(self._objective)
            self._slice_s *= LONGER
            self._linearization = 2 if self._linearization == 1 or self._is_large else 1
        elif lower > self._minimised(priced[-1][1]):
            raise ModelError("a mapping costs less than the tables of the formulation say")
        best = self._run.best
        known = None if best is None else self._minimised(best.evaluation)
        self._is_close = known is not None and known - lower < CLOSE_QUANTA * scale.quantum
        return max(bound, lower)

    def _minimised(self, evaluation: Evaluation) -> int:
        """What a solve minimises of a mapping."""
        return evaluation.cycles if self._objective == LATENCY else evaluation.energy
