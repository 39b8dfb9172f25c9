"""The search: subproblems in order of their bounds, until none can improve on the incumbent."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count, product

from solver.search.bounds import LatticeBounds
from solver.search.branch import Branching
from solver.search.completion import Priced
from solver.search.goal import Goal
from solver.search.lattice import INFINITY
from solver.search.orders import slot_orders
from solver.search.space import SearchSpace, keep_masks
from solver.search.subproblem import Subproblem


@dataclass
class Counters:
    """Work done so far."""

    states: int = 0
    subproblems: int = 0
    priced: int = 0
    expanded: int = 0


class Search:
    """Minimises one objective over a search space."""

    def __init__(self, space: SearchSpace, goal: Goal, stop: Callable[[], bool]) -> None:
        self.space = space
        self.goal = goal
        self.stop = stop
        self.best: Priced | None = None
        self.counters = Counters()
        self.orders = tuple(
            slot_orders(rules, space.active, space.views) for rules in space.mapspace.temporal
        )

    def run(self) -> int | None:
        """Search to the end; return the proven bound, or a weaker one when stopped."""
        heap = []
        ticket = count()
        for sub in self._subproblems():
            heapq.heappush(heap, (self._value(sub, sub.constant), next(ticket), sub, None))
        bound = None
        while heap:
            bound, _, sub, bounds = heapq.heappop(heap)
            if self.goal.incumbent is not None and bound >= self.goal.incumbent:
                return self.goal.incumbent
            if self.stop():
                return bound
            if bounds is None:
                bounds = LatticeBounds(sub)
                self.counters.states += bounds.states
                self.counters.subproblems += 1
                if bounds.least < INFINITY:
                    value = self._value(sub, bounds.least)
                    heapq.heappush(heap, (value, next(ticket), sub, bounds))
                continue
            self._exhaust(bounds)
            if self.stop():
                return bound
        return self.goal.incumbent

    def _value(self, sub: Subproblem, energy: int) -> int:
        return self.goal.value(energy * sub.quantum, sub.least_cycles)

    def _subproblems(self) -> Iterator[Subproblem]:
        least_units = self.space.mapspace.min_parallelism
        for mask in keep_masks(self.space):
            for spatial in product(*self.space.stages):
                sub = Subproblem(self.space, mask, spatial)
                if sub.above[-1] >= least_units:
                    yield sub

    def _exhaust(self, bounds: LatticeBounds) -> None:
        branching = Branching(bounds, self.goal, self.orders, self.stop)
        for skeleton in branching.skeletons():
            for priced in skeleton.complete(self.goal):
                self.counters.priced += 1
                evaluation = priced.evaluation
                if evaluation.valid and self.goal.improves(evaluation.energy, evaluation.cycles):
                    self.goal.incumbent = self.goal.value(evaluation.energy, evaluation.cycles)
                    self.best = priced
        self.counters.expanded += branching.expanded
