"""The search: subproblems in order of their bounds, until none can improve on the incumbent."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import count, islice

import numpy as np

from solver.result import Options
from solver.search.bounds import LatticeBounds, Stopped
from solver.search.branch import Branching
from solver.search.completion import Priced, Skeleton, SkeletonKey
from solver.search.core import Core, fits_core
from solver.search.goal import UNLIMITED, Goal
from solver.search.loads import LoadBounds
from solver.search.orders import slot_orders
from solver.search.space import KeepMask, keep_masks
from solver.search.subproblem import Subproblem
from solver.search.survey import Survey
from solver.search.workers import Bounder


@dataclass
class Counters:
    """Work done so far."""

    states: int = 0
    masks: int = 0
    spatial_classes: int = 0
    subproblems: int = 0
    core_variables: int = 0
    core_calls: int = 0
    priced: int = 0


@dataclass(frozen=True)
class Candidate:
    """A subproblem in the queue: surveyed (and the next of `rest` follows it), or bounded already.

    Once its bounds are sharp, `loads` bounds the load of each bandwidth too.
    """

    sub: Subproblem
    rest: Iterator[tuple[int, Subproblem]]
    bounds: LatticeBounds | None = None
    loads: tuple[LoadBounds, ...] = ()


ROUND = 32
"""Subproblems that are bounded at a time, against the same incumbent, however many workers there are."""

FIRST_NODES = 200
"""Nodes that are branched before a subproblem's bounds are sharpened."""

Report = Callable[[str, Goal, int | None], None]


class Search:
    """Minimises one objective over a search space."""

    def __init__(
        self,
        survey: Survey,
        goal: Goal,
        stop: Callable[[], bool],
        quantum: int,
        options: Options,
        counters: Counters,
        report: Report,
        bounder: Bounder,
        best: Priced | None = None,
    ) -> None:
        self.survey = survey
        self.space = space = survey.space
        self.goal = goal
        self.stop = stop
        self.quantum = quantum
        self.best = best
        self.options = options
        self.counters = counters
        self.report = report
        self.bounder = bounder
        self.orders = tuple(
            slot_orders(rules, space.active, space.views) for rules in space.mapspace.temporal
        )
        self._queue: list[tuple[int, int, Candidate]] = []
        self._ticket = count()
        self._lowest: int | None = None
        self._completed: set[SkeletonKey] = set()

    def run(self) -> int | None:
        """Search to the end; return the proven bound, or a weaker one when stopped."""
        self.counters.spatial_classes = len(self.survey.grid)
        for mask in keep_masks(self.space):
            self.counters.masks += 1
            self._advance(self._surveyed(mask))
        while self._queue:
            bound, _, candidate = heapq.heappop(self._queue)
            if self.goal.incumbent is not None and bound >= self.goal.incumbent:
                return self.goal.incumbent
            self.report("lattice" if candidate.bounds is None else "branching", self.goal, bound)
            if self.stop():
                return bound
            if candidate.bounds is None:
                self._refine(self._round(candidate))
            else:
                self._exhaust(candidate, candidate.bounds)
            if self.stop():
                return bound
        return self.goal.incumbent

    def _push(self, value: int, candidate: Candidate) -> None:
        # Of equal bounds the latest goes first: it is the one whose tables are at hand.
        heapq.heappush(self._queue, (value, -next(self._ticket), candidate))

    def _advance(self, rest: Iterator[tuple[int, Subproblem]]) -> None:
        following = next(rest, None)
        if following is not None:
            self._push(following[0], Candidate(following[1], rest))

    def _round(self, first: Candidate) -> list[Candidate]:
        """`first` and the surveyed candidates that come next, as long as an incumbent limits them."""
        found = [first]
        self._advance(first.rest)
        while self.goal.incumbent is not None and len(found) < ROUND and self._queue:
            value, _, candidate = self._queue[0]
            if candidate.bounds is not None or value >= self.goal.incumbent:
                break
            heapq.heappop(self._queue)
            self._advance(candidate.rest)
            found.append(candidate)
        return found

    def _refine(self, candidates: list[Candidate]) -> None:
        """Bound surveyed subproblems by their lattices; those that stay open go back into the queue."""
        limits = [self.goal.energy_limit(candidate.sub.least_cycles) for candidate in candidates]
        found = self.bounder.bound([candidate.sub for candidate in candidates], limits, self.stop)
        # When stopped, the rest has no bounds: the one of the round's first candidate holds for all.
        for candidate, bounds in zip(candidates, found, strict=False):
            self.counters.states += bounds.states
            self.counters.subproblems += 1
            if bounds.empty:
                continue
            value = self.goal.value(bounds.least, bounds.least_cycles)
            if self._lowest is None or value < self._lowest:
                self._lowest = value
                self._dive(bounds)
            self._push(value, Candidate(candidate.sub, candidate.rest, bounds))

    def _surveyed(self, mask: KeepMask) -> Iterator[tuple[int, Subproblem]]:
        """Subproblems of `mask` in order of a first bound on the objective."""
        grid = self.survey.grid
        values = self.goal.values(*self.survey.bounds(mask))
        for number in np.argsort(values, kind="stable"):
            if not np.isfinite(values[number]):
                return
            sub = Subproblem(self.space, mask, grid.spatial(int(number)), self.quantum)
            yield max(0, int(values[number])), sub

    def _dive(self, bounds: LatticeBounds) -> None:
        """Follow the bounds to one mapping: a good incumbent makes all later tables small."""
        nodes = self.options.branch_nodes
        budget = nodes if self.goal.incumbent is None else min(FIRST_NODES, nodes)
        branching = Branching(bounds, self.goal, self.orders, self.stop, budget)
        for skeleton in islice(branching.skeletons(), 1):
            self._complete(skeleton)

    def _exhaust(self, candidate: Candidate, bounds: LatticeBounds) -> None:
        """Branch until nothing can improve; what is open after the budget goes to CP-SAT if it is small."""
        nodes = self.options.branch_nodes
        if not bounds.sharp:
            if not self._branch(bounds, min(FIRST_NODES, nodes)) and not self.stop():
                with suppress(Stopped):
                    self._sharpen(candidate)
            return
        if self._branch(bounds, nodes, candidate.loads) or self.stop():
            return
        limit = self.goal.energy_limit(bounds.sub.least_cycles)
        rest = LatticeBounds(bounds.sub, limit)
        if rest.empty:
            return
        if not fits_core(rest):
            self._branch(bounds, None, candidate.loads)
            return
        core = Core(rest, rest.room(limit), self.options.seed)
        self.counters.core_variables = max(self.counters.core_variables, core.variables)
        for skeleton in core.skeletons(self.stop):
            if skeleton is not None:
                self._complete(skeleton)
        self.counters.core_calls += core.calls

    def _sharpen(self, candidate: Candidate) -> None:
        """Bound a subproblem as well as can be; if it stays open it goes back into the queue."""
        sub = candidate.sub
        bounds = LatticeBounds(sub, self.goal.energy_limit(sub.least_cycles), sharp=True, stop=self.stop)
        if bounds.empty:
            return
        loads = []
        most = self.goal.cycles_limit(bounds.least)
        for resource in range(len(sub.base_loads)) if most < UNLIMITED else ():
            loads.append(LoadBounds(sub, resource, most, self.stop))
            if loads[-1].empty:
                return
        cycles = sub.cycles(np.array([own.least for own in loads]))
        value = self.goal.value(bounds.least, max(cycles, bounds.least_cycles))
        self._push(value, Candidate(sub, candidate.rest, bounds, tuple(loads)))

    def _branch(self, bounds: LatticeBounds, budget: int | None, loads: Sequence[LoadBounds] = ()) -> bool:
        """Branch at most `budget` nodes (None: all); return whether that was enough."""
        branching = Branching(bounds, self.goal, self.orders, self.stop, budget, loads)
        for skeleton in branching.skeletons():
            self._complete(skeleton)
        return not branching.exhausted_budget

    def _complete(self, skeleton: Skeleton) -> None:
        """Price a skeleton's best orders, once: that the incumbent only gets better settles it."""
        if skeleton.key in self._completed:
            return
        self._completed.add(skeleton.key)
        for priced in skeleton.complete(self.goal, self.stop):
            self._consider(priced)

    def _consider(self, priced: Priced) -> None:
        self.counters.priced += 1
        evaluation = priced.evaluation
        if evaluation.valid and self.goal.improves(evaluation.energy, evaluation.cycles):
            self.goal.incumbent = self.goal.value(evaluation.energy, evaluation.cycles)
            self.best = priced
