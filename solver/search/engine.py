"""The search: subproblems in order of their bounds, until none can improve on the incumbent."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import count, islice

from solver.result import Phase, is_within
from solver.search.agenda import Agenda
from solver.search.bounds.lattice_bounds import AnyBounds, LatticeBounds
from solver.search.branching.branch import Branching, LoadBounds
from solver.search.branching.completion import Completion, Priced, Skeleton, SkeletonKey
from solver.search.branching.uneven import UnevenSkeleton
from solver.search.candidates import (
    Bounded,
    Candidate,
    Coming,
    Surveyed,
    Unopened,
    decided_by,
    of_one,
    tightened,
)
from solver.search.goal import Goal
from solver.search.hint import FIRST_HINTED, helps, hint
from solver.search.ledger import Ledger
from solver.search.shared import Shared
from solver.search.space.orders import slot_orders
from solver.search.stopping import Stopped
from solver.search.subproblems.loads import Searchable, loaded
from solver.search.survey.survey import Survey
from solver.search.vicinity import Place, Vicinity

ROUND = 16
"""Subproblems that are bounded at a time, against the same incumbent, however many workers there are."""

NODES_BEFORE_HINT = 500
"""Nodes that are branched before a heuristic is asked for a better incumbent."""

FIRST_NODES = 20
"""Nodes that are branched before a subproblem is bounded once more, at most."""

FIRST_DIVE_NODES = 50_000
"""Nodes that a dive may branch while no mapping is known."""

FIRST_SKELETONS = 10
"""Skeletons that are completed at once in the most promising subproblem so far."""

MORE_NODES = 20
"""Nodes that are branched for those after the first, at most."""

FEW_NODES = 20
"""Nodes that are branched before energy and loads are bounded together."""

PLACED_NODES = 500
"""Instead of `FIRST_NODES` and `FEW_NODES` where the order of loops decides little: nodes are cheap there."""

NODES = 20
"""Nodes of branching that take as long as a round of subproblems, about."""

FIRST_AROUND = 8
"""Rounds before neighbours of the incumbent's subproblem are looked at."""

FIRST_HINT = 24
"""Rounds before a heuristic is asked for a better incumbent; after four times as many it is asked again."""

FIRST_OPEN = 2
"""With remainders, where rounds take long: open subproblems of one round before a heuristic is asked."""

CLOSER = 4
"""Rounds that take as long as bounding an open subproblem once more, about."""

MANY = 1 << 18
"""Subproblems from which on it is asked at once: a mapping spares more of the survey than that takes."""


class Search:
    """Minimises one objective over a search space, from `best` on if there is a mapping already.

    Parameters
    ----------
    goal
        Its incumbent changes as better mappings are found; that of ``best``, if there is one.
    quantum
        Energy units per unit of the tables.
    shared
        Options, limits and workers.
    """

    def __init__(
        self, survey: Survey, goal: Goal, quantum: int, shared: Shared, best: Priced | None = None
    ) -> None:
        self.survey = survey
        self.space = space = survey.space
        self.goal = goal
        self.quantum = quantum
        self.best = best
        self.options, self.stop, self.report = shared.options, shared.stop, shared.report
        self.statistics, self.bounder = shared.statistics, shared.bounder
        self.partner = shared.partner
        self.ledger = Ledger(survey)
        self.agenda = Agenda(survey, goal, quantum)
        self.orders = tuple(
            slot_orders(rules, space.active, space.views, space.by_order) for rules in space.mapspace.temporal
        )
        self.resources = range(len(space.resources))
        self._queue: list[tuple[int, int, Candidate]] = []
        self._ticket = count()
        self._lowest: int | None = None
        self._completed: set[SkeletonKey] = set()
        self._vicinity = Vicinity(survey, self.agenda.survey_bounds)
        self._neighbours: Iterator[Place] = iter(())
        self._nodes, self._rounds, self._hints = 0, 0, 0
        self._turns = self.agenda.turns()
        self._latest: Coming | None = None

    def run(self, capped: Callable[[], bool]) -> int | None:
        """Search to the end; return the proven bound, or a weaker one when stopped.

        `capped` tells whether prices are cut off below what the incumbent takes: such a search proves little.

        Returns
        -------
        int | None
            In units of the objective; None if it is proven that no mapping is within the goal's limits.
        """
        judged = self.goal.incumbent
        masks = len(self.space.keep_masks)
        self.statistics.masks += masks
        if self.goal.incumbent is None and masks * len(self.survey.grid) >= MANY:
            self._take_hint()
            self.report(Phase.SURVEY, self.goal, None)
        self._advance()
        if self.stop():
            return self.agenda.least
        while self._queue:
            bound, _, candidate = heapq.heappop(self._queue)
            if self.goal.incumbent is not None and bound >= self.goal.incumbent:
                return self.goal.incumbent
            branched = isinstance(candidate, Bounded)
            self.report(Phase.BRANCHING if branched else Phase.LATTICE, self.goal, bound)
            if self.stop() or (self.goal.incumbent != judged and capped()):
                return bound
            if is_within(self.options.gap, self.goal.incumbent, bound) and not capped():
                return bound
            judged = self.goal.incumbent
            if isinstance(candidate, Surveyed):
                self._refine(self._round(candidate))
            elif isinstance(candidate, Unopened):
                self._advance()
            else:
                self._exhaust(candidate)
            with suppress(Stopped):
                self._look_around()
            self._exchange()
            if self.stop():
                return bound
        return self.goal.incumbent

    def _exchange(self) -> None:
        """Tell another engine of the best mapping, and take a better one."""
        better = self.partner.exchange(self.goal, self.best)
        if better is not None:
            self._consider(better)

    def _push(self, value: int, candidate: Candidate) -> None:
        # Of equal bounds the latest goes first: it is the one whose tables are at hand.
        heapq.heappush(self._queue, (value, -next(self._ticket), candidate))

    def _advance(self) -> None:
        """Queue the agenda's next turn. As turns have rising bounds, one at a time is enough."""
        following = None
        # When stopped, nothing follows: `run` returns the bound that holds for all that is left.
        with suppress(Stopped):
            following = next(self._turns, None)
        if following is not None:
            value, self._latest = following
            self._push(value, self._latest)

    def _follow_up(self, candidate: Candidate) -> None:
        if candidate is self._latest:
            self._advance()

    def _round(self, first: Surveyed) -> list[Surveyed]:
        """`first` and the surveyed candidates that come next, as long as an incumbent limits them."""
        candidates = [first]
        self._follow_up(first)
        while self.goal.incumbent is not None and len(candidates) < ROUND and self._queue:
            value, _, candidate = self._queue[0]
            if not isinstance(candidate, Surveyed) or value >= self.goal.incumbent:
                break
            heapq.heappop(self._queue)
            self._follow_up(candidate)
            candidates.append(candidate)
        return candidates

    def _refine(self, candidates: list[Surveyed]) -> None:
        """Bound surveyed subproblems by their lattices; those that stay open go back into the queue."""
        if not self.goal.counts_energy:
            self._refine_loads(candidates)
            return
        subs = [candidate.sub for candidate in candidates]
        limits = [sub.limit(self.goal) for sub in subs]
        within = [candidate.within for candidate in candidates]
        bounded = self.bounder.bound(subs, limits, self.stop, within)
        # When stopped, the rest has no bounds: the one of the round's first candidate holds for all.
        open_candidates, still_open = [], 0
        for candidate, bounds in zip(candidates, bounded, strict=False):
            self.statistics.states += bounds.states
            self.statistics.subproblems += 1
            self.ledger.surveyed(candidate.sub.mask, candidate.numbers)
            self.ledger.bounded(bounds)
            self.agenda.bounded(candidate, bounds)
            if not of_one(bounds):
                self._part(candidate, bounds)
            elif not bounds.empty:
                open_candidates.append(Bounded(bounds.sub, bounds))
            still_open += not bounds.empty
            if self.space.uneven and not self._hints and still_open == FIRST_OPEN:
                self._take_hint()
        self._follow(open_candidates)

    def _look_around(self) -> None:
        """Bound some neighbours of the incumbent's subproblem: as many as are bounded in order."""
        self._rounds += 1
        rounds = self._rounds + self._nodes // NODES
        if rounds < FIRST_AROUND:
            return
        if rounds >= FIRST_HINT << 2 * self._hints:
            self._take_hint()
        incumbent = None
        while self.goal.incumbent != incumbent and not self.stop():
            incumbent = self.goal.incumbent
            candidates = (self.agenda.single(*place) for place in self._neighbours)
            nearby = list(islice(filter(None, candidates), ROUND))
            if nearby:
                self._refine(nearby)

    def _take_hint(self) -> None:
        """Let a heuristic look for a better incumbent; it does not know of limits of earlier objectives."""
        seed, objective = self._hints, self.goal.objective
        self._hints += 1
        if seed == 0 and self.partner.descends and self.goal.incumbent is not None and not self.space.uneven:
            return  # the partner begins with the same descents
        if not self.goal.limits and helps(self.space):
            for priced in hint(self.space.mapspace, objective, FIRST_HINTED << seed, seed, self.stop):
                self._consider(priced)

    def _part(self, group: Surveyed, bounds: AnyBounds) -> None:
        for value, part in self.agenda.parts(group, bounds):
            self._push(value, part)

    def _refine_loads(self, candidates: list[Surveyed]) -> None:
        """The same where only cycles count: by the load of one resource after the other."""
        self.statistics.subproblems += len(candidates)
        known: list[list[LoadBounds] | None] = [[] for _ in candidates]
        for resource in (*self.resources, None):
            # Where no bandwidth decides the cycles of a subproblem, any of its mappings will do.
            still = (n for n, own in enumerate(known) if (own == [] if resource is None else own is not None))
            due = {number: loaded(candidates[number].single, resource, self.goal) for number in still}
            due = {number: sub for number, sub in due.items() if not sub.idle(self.goal)}
            limits = [sub.limit(self.goal) for sub in due.values()]
            within = [own[-1].bounds.survivors if (own := known[number]) else None for number in due]
            bounded = self.bounder.bound(list(due.values()), limits, self.stop, within)
            for (number, sub), bounds in zip(due.items(), bounded, strict=False):
                self.statistics.states += bounds.states
                self.ledger.bounded(bounds)
                known[number] = None if bounds.empty else [*(known[number] or ()), LoadBounds(sub, bounds)]
            if self.stop():
                return
        for candidate in candidates:
            self.ledger.surveyed(candidate.sub.mask, candidate.numbers)
        pairs = zip(candidates, known, strict=True)
        self._follow([decided_by(candidate.single, loads) for candidate, loads in pairs if loads is not None])

    def _follow(self, candidates: Sequence[Bounded]) -> None:
        """Queue bounded candidates; look for mappings at once in the best of them, and in the best so far."""
        values = [candidate.value(self.goal) for candidate in candidates]
        for candidate, value in zip(candidates, values, strict=True):
            best_so_far = self._lowest is None or value < self._lowest
            if best_so_far or value == min(values):
                self._dive(value, candidate, FIRST_NODES if best_so_far else MORE_NODES)
            if best_so_far:
                self._lowest = value
            self._push(value, candidate.without_loads())

    def _dive(self, value: int, candidate: Bounded, most_nodes: int) -> None:
        """Follow the bounds, `value` or more, to a few mappings: a good incumbent makes tables small."""
        budget = FIRST_DIVE_NODES if self.goal.incumbent is None else most_nodes
        branching = Branching(candidate.bounds, self.goal, self.orders, self.stop, budget, candidate.loads)
        for skeleton in islice(branching.skeletons(), FIRST_SKELETONS):
            self._complete(skeleton)
            if self.goal.incumbent is not None and value >= self.goal.incumbent:
                return
            branching.limit_nodes(MORE_NODES)

    def _exhaust(self, candidate: Bounded) -> None:
        """Branch until nothing can improve."""
        if not candidate.tightened:
            with suppress(Stopped):
                self._begin(candidate)
            return
        if self._hints == 0 and self._nodes > NODES_BEFORE_HINT:
            # Branching may take long, and be in vain with a poor incumbent.
            self._take_hint()
        self._branch(candidate.bounds, None, candidate.loads)

    def _begin(self, candidate: Bounded) -> None:
        """Branch a little; if that is not enough, bound the candidate once more and queue it again."""
        unsettled = self._settled_soon(candidate)
        if unsettled is None or self.stop():
            return
        self._rounds += CLOSER
        narrowed = tightened(unsettled, self.goal, True, self.stop)
        if narrowed is not None:
            self._push(narrowed.value(self.goal), narrowed)

    def _settled_soon(self, candidate: Bounded) -> Bounded | None:
        """What is left of a candidate after a few nodes, and bounds of energy and loads where cycles count.

        None if nothing is, or if it is back in the queue as another one is more promising.
        """
        if self.goal.counts_cycles:
            few = FEW_NODES if self.space.by_order else PLACED_NODES
            if (candidate.within is None and self._branch(candidate.bounds, few)) or self.stop():
                return None
            narrowed = tightened(candidate, self.goal, False, self.stop)
            if narrowed is None:
                return None
            candidate, value = narrowed, narrowed.value(self.goal)
            if self._queue and value > self._queue[0][0]:
                self._push(value, candidate.without_loads())
                return None
        first = FIRST_NODES if self.space.by_order else PLACED_NODES
        return None if self._branch(candidate.bounds, first, candidate.loads) else candidate

    def _branch(
        self, bounds: LatticeBounds[Searchable], budget: int | None, loads: Sequence[LoadBounds] = ()
    ) -> bool:
        """Branch at most `budget` nodes (None: all); return whether that was enough."""
        branching = Branching(bounds, self.goal, self.orders, self.stop, budget, loads)
        for skeleton in branching.skeletons():
            self._complete(skeleton)
        self.ledger.branched(bounds.sub, branching.expanded)
        self._nodes += branching.expanded
        return not branching.exhausted_budget

    def _complete(self, skeleton: Skeleton) -> None:
        """Price a skeleton's best orders, once: that the incumbent only gets better settles it."""
        if skeleton.key in self._completed:
            return
        self._completed.add(skeleton.key)
        completion = skeleton if isinstance(skeleton, UnevenSkeleton) else Completion(skeleton)
        for priced in completion.best(self.goal, self.stop):
            self._consider(priced)

    def _consider(self, priced: Priced) -> None:
        self.statistics.mappings_priced += 1
        evaluation = priced.evaluation
        if evaluation.valid and self.goal.improves(evaluation.energy, evaluation.cycles):
            self.goal.incumbent = self.goal.value(evaluation.energy, evaluation.cycles)
            self.best = priced
            self._neighbours = self._vicinity.around(priced.mapping)
