"""From complete paths to mappings with exact prices."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import count

from model.cost import Evaluation, evaluate_in
from model.cost.counting import tile_words
from model.cost.limits import capacity_violations
from model.cost.prices import leaking_instances
from model.mapspace import EXACT
from solver.search.branching.completion import Completion, Ordered, Priced, Skeleton
from solver.search.goal import SLACK, Goal
from solver.search.path.costs import Cost, Costs
from solver.search.path.factors import Chosen, Factors
from solver.search.path.orders import Option, Orders, Seen, Slot
from solver.search.path.words import Line, Lines
from solver.search.space.keep_masks import KeepMask
from solver.search.space.search_space import SearchSpace
from solver.search.space.spatial import StageChoice
from solver.search.stopping import Stop

Leads = tuple[frozenset[int] | None, ...]
"""Per slot but the innermost, the dimensions of which one is innermost; None for any."""

DECIDED_BY_ORDER = frozenset(("energy", "cycles"))
"""Quantities of rules that depend on the order of loops."""


@dataclass(frozen=True)
class Path:
    """Numbers of tiles at every level, spatial factors of every stage, what is kept, and which loops lead.

    Parameters
    ----------
    mask
        What each level keeps.
    tiles
        Numbers of tiles per level, outermost first, along the active dimensions; level 0 has one of each.
    spatial
        Per stage, outermost first.
    leads
        Per slot but the innermost: dimensions one of which the innermost loop must run over, if there is
        any loop. None for all.
    """

    mask: KeepMask
    tiles: tuple[tuple[int, ...], ...]
    spatial: tuple[StageChoice, ...]
    leads: Leads


@dataclass(frozen=True)
class _LedCompletion(Completion):
    """The best orders of a skeleton in which certain loops lead."""

    leads: Leads = ()

    @cached_property
    def _distinct_orders(self) -> tuple[tuple[Ordered, ...], ...]:
        every = super()._distinct_orders
        return tuple(
            own if leads is None else tuple(option for option in own if self._leads(option, leads))
            for own, leads in zip(every, self.leads, strict=True)
        )

    def _leads(self, option: Ordered, leads: frozenset[int]) -> bool:
        return not option.order or self.space.active.index(option.order[0]) in leads


class Leaves:
    """Prices complete paths.

    Parameters
    ----------
    space
        What the paths are of.
    goal
        Its incumbent is read anew for each call, and not changed.
    stop
        Asked often; once it answers True, what was found so far is returned.

    Attributes
    ----------
    priced
        Number of mappings that the cost model judged.
    """

    def __init__(self, space: SearchSpace, goal: Goal, stop: Stop) -> None:
        self._space = space
        self._goal = goal
        self._stop = stop
        self._factors = Factors(space, goal.counts_cycles)
        self._lines = Lines(space)
        self._orders = Orders(space)
        self._costs = Costs(space)
        self._tile_words: dict[tuple[int, tuple[int, ...]], int] = {}
        self.priced = 0

    def improve(self, paths: Sequence[Path]) -> Priced | None:
        """Return the best mapping of all these paths that improves on the incumbent, None if none does."""
        goal, best = replace(self._goal), None
        for path in paths:
            if self._stop():
                break
            for priced in self._of_path(path, goal):
                best = priced
                goal.incumbent = goal.value(priced.evaluation.energy, priced.evaluation.cycles)
        return best

    def _of_path(self, path: Path, goal: Goal) -> Iterator[Priced]:
        """Mappings of a path, each better than the one before."""
        space = self._space
        if space.excluded or not self._covers(path):
            return
        latency = space.latency
        compute = space.problem.computes * space.architecture.compute.energy

        def hopeful(steps: int) -> bool:
            return goal.improves(compute, steps + latency)

        spatial = [stage.factors for stage in path.spatial]
        for chosen, steps in self._factors.chosen(path.tiles, spatial, hopeful):
            if self._stop():
                return
            bones = self._bones(path, chosen, steps)
            if self._allowed(bones):
                yield from self._improving(bones, goal)

    def _covers(self, path: Path) -> bool:
        """Whether no spatial loop has more iterations than there are tiles inside."""
        whole = tuple(self._space.problem.bound[dim] for dim in self._space.active)
        for stage, inside in zip(path.spatial, (*path.tiles[1:], whole), strict=True):
            left = inside
            for choice in reversed(stage.choices):
                if any(factor > tiles for factor, tiles in zip(choice.factors, left, strict=True)):
                    return False
                left = tuple(-(-tiles // factor) for factor, tiles in zip(choice.factors, left, strict=True))
        return True

    def _bones(self, path: Path, chosen: Chosen, steps: int) -> _Bones:
        fanouts = [choice.factors for stage in path.spatial for choice in stage.choices]
        lines = tuple(
            self._lines.line(d, own.factors, tuple(factors[d] for factors in fanouts))
            for d, own in enumerate(chosen)
        )
        return _Bones(self._space, self._orders, self._costs, path, lines, steps)

    def _allowed(self, bones: _Bones) -> bool:
        """Whether limits and rules that no order changes allow these factors."""
        space, levels = self._space, range(len(self._space.levels))
        units = math.prod(line.instances[len(levels)] for line in bones.lines)
        return (
            units >= space.mapspace.min_parallelism
            and all(self._fits(bones, places) for places in space.architecture.memories)
            and all(self._joined(bones, rules.levels) for rules in space.mapspace.joint)
            and all(
                rules.allow([bones.live(level) for level in rules.levels]) for rules in space.mapspace.joint
            )
        )

    def _fits(self, bones: _Bones, places: Sequence[int]) -> bool:
        space = self._space
        level = space.levels[places[0]]
        if level.usable_words is None:
            return True
        words = sum(
            self._words(view.place, [line.extents[place] for line in bones.lines])
            * space.levels[place].packing_of(view.name).size_per_value
            for view in space.views
            for place in places
            if place in bones.chains[view.place] and not space.levels[place].tolls
        )
        return not any(capacity_violations(level, words))

    def _words(self, place: int, extents: Sequence[int]) -> int:
        view = self._space.views[place]
        key = place, tuple(extent for d, extent in enumerate(extents) if d in view.relevant)
        if key not in self._tile_words:
            whole = {**dict.fromkeys(self._space.problem.dims, 1)}
            whole.update(zip(self._space.active, extents, strict=True))
            self._tile_words[key] = tile_words(self._space.problem.dataspaces[place], whole)
        return self._tile_words[key]

    @staticmethod
    def _joined(bones: _Bones, places: Sequence[int]) -> bool:
        """Whether no place of a memory but the first has loops and keeps nothing."""
        return not any(bones.live(place) and not bones.path.mask[place] for place in places[1:])

    def _improving(self, bones: _Bones, goal: Goal) -> Iterator[Priced]:
        if self._space.mapspace.counting != EXACT:
            found = _LedCompletion(bones.skeleton, leads=bones.path.leads).best(goal, self._stop)
        else:
            found = map(bones.priced, bones.best_first(goal, self._stop))
        for priced in found:
            self.priced += 1
            if not self._may_be_valid(priced.evaluation):
                return
            evaluation = priced.evaluation
            if evaluation.valid and goal.improves(evaluation.energy, evaluation.cycles):
                yield priced

    @staticmethod
    def _may_be_valid(evaluation: Evaluation) -> bool:
        """Whether other orders of the same loops may be valid."""
        broken = (own.rule for own in evaluation.broken_rules)
        fixed = (DECIDED_BY_ORDER.isdisjoint(asked.kind for asked in rule.quantities) for rule in broken)
        return not evaluation.violations and not any(fixed)


@dataclass(frozen=True, eq=False)
class _Bones:
    """All factors of a mapping, and bounds on what its orders of loops cost.

    Parameters
    ----------
    path
        It is of.
    lines
        The loops of each dimension.
    steps
        Cycles of the arithmetic.
    """

    space: SearchSpace
    orders: Orders
    costs: Costs
    path: Path
    lines: tuple[Line, ...]
    steps: int

    @cached_property
    def chains(self) -> tuple[tuple[int, ...], ...]:
        """Levels that keep each dataspace."""
        return self.space.chains(self.path.mask)

    @cached_property
    def skeleton(self) -> Skeleton:
        """The factors alone."""
        temporal = tuple(zip(*(line.temporal for line in self.lines), strict=True))
        depth = len(self.space.levels)
        return Skeleton(self.space, self.path.mask, temporal or ((),) * depth, self.path.spatial)

    def live(self, level: int) -> dict[str, int]:
        """Loops of a level, by dimension."""
        pairs = zip(self.space.active, self.lines, strict=True)
        return {dim: line.temporal[level] for dim, line in pairs if line.temporal[level] > 1}

    @cached_property
    def slots(self) -> tuple[Slot, ...]:
        """The slots outside of boundaries."""
        return tuple(
            Slot(
                level,
                tuple(d for d, line in enumerate(self.lines) if line.temporal[level] > 1),
                frozenset(d for d, line in enumerate(self.lines) if line.moves[level]),
                leads,
            )
            for level, leads in enumerate(self.path.leads)
        )

    def priced(self, options: Sequence[Option]) -> Priced:
        """The mapping with these orders, and what the cost model says of it."""
        names, inner = self.space.active, len(self.slots)
        live = [d for d, line in enumerate(self.lines) if line.temporal[inner] > 1]
        orders = [*(option.order for option in options), self.orders.any(inner, live)]
        mapping = self.skeleton.mapping(tuple(tuple(names[d] for d in order) for order in orders))
        return Priced(mapping, evaluate_in(self.space.mapspace, mapping))

    def best_first(self, goal: Goal, stop: Stop) -> Iterator[tuple[Option, ...]]:
        """Yield orders of all slots by rising bounds, as long as they may improve."""
        depth, ticket = len(self.slots), count()
        heap: list[tuple[int, int, int, tuple[Option, ...], Cost]] = []

        def push(above: tuple[Option, ...], spent: Cost) -> None:
            energy, cycles = self._least(spent.plus(self._inside[len(above)]))
            if goal.improves(energy, cycles):
                value = goal.value(energy, cycles)
                heapq.heappush(heap, (value, -len(above), next(ticket), above, spent))

        push((), self._fixed)
        while heap:
            value, _, _, above, spent = heapq.heappop(heap)
            if stop():
                return
            if goal.incumbent is not None and value >= goal.incumbent:
                return
            if len(above) == depth:
                yield above
                continue
            for option in self.orders.options(self.slots[len(above)]):
                longer = (*above, option)
                push(longer, spent.plus(self._at(longer)))

    def _least(self, cost: Cost) -> tuple[int, int]:
        """Energy and cycles of mappings with such a cost."""
        busy = max(self.steps, math.ceil(max(cost.loads, default=0.0) * SLACK))
        return cost.energy + self._leak * busy, busy + self.space.latency

    @cached_property
    def _leak(self) -> int:
        """What all instances leak per cycle."""
        total, architecture = 0, self.space.architecture
        for place, level in enumerate(self.space.levels):
            if level.energy.leak_per_cycle:
                leaking = leaking_instances(architecture, level, self._children(place))
                total += level.energy.leak_per_cycle * leaking
        return total

    def _children(self, place: int) -> list[Fraction]:
        """Average number of children in use of each fanout above a level."""
        position = self.space.architecture.storage_indices[place]
        above = [own for own in self.space.architecture.fanout_indices if own < position]
        used = [math.prod(line.instances_at(own) for line in self.lines) for own in above]
        inside = [math.prod(line.instances_at(own + 1) for line in self.lines) for own in above]
        return [Fraction(after, before) for before, after in zip(used, inside, strict=True)]

    @cached_property
    def _boundaries(self) -> list[tuple[int, int]]:
        """Pairs of a dataspace and a level, or the compute, that gets words of it."""
        places = (view.place for view in self.space.views)
        return [(place, own) for place in places for own in self.costs.boundaries(place, self.chains[place])]

    @cached_property
    def _ordered(self) -> tuple[list[tuple[int, int]], ...]:
        """Per number of slots, those whose words their orders decide."""
        due: tuple[list[tuple[int, int]], ...] = tuple([] for _ in range(len(self.slots) + 1))
        for place, boundary in self._boundaries:
            if self.costs.depends(place, boundary):
                due[boundary].append((place, boundary))
        return due

    @cached_property
    def _fixed(self) -> Cost:
        """What no order changes."""
        space = self.space
        besides = tuple(float(own.besides(space.levels)) for own in space.resources)
        total = Cost(space.problem.computes * space.architecture.compute.energy, besides)
        for place, boundary in self._boundaries:
            if boundary == 0 or not self.costs.depends(place, boundary):
                total = total.plus(self.costs.at(place, self.chains[place], boundary, self.lines, ()))
        return total

    @cached_property
    def _inside(self) -> tuple[Cost, ...]:
        """Per number of slots in order, what all boundaries farther in cost at least."""
        floors = [self.costs.none]
        for due in reversed(self._ordered[1:]):
            total = floors[-1]
            for place, boundary in due:
                total = total.plus(self._floor(place, boundary))
            floors.append(total)
        return tuple(reversed(floors))

    def _floor(self, place: int, boundary: int) -> Cost:
        """What the words of a boundary cost at least, if their orders were for one dataspace alone."""
        chain = self.chains[place]
        every = [
            self.costs.at(place, chain, boundary, self.lines, loops)
            for loops in self._sequences(place, boundary)
        ]
        if not every:
            return self.costs.none
        loads = tuple(map(min, zip(*(cost.loads for cost in every), strict=True)))
        return Cost(min(cost.energy for cost in every), loads)

    def _sequences(self, place: int, boundary: int) -> Iterator[tuple[int, ...]]:
        """Loops outside of a boundary in the orders that are best for one dataspace."""
        if boundary == 0:
            yield ()
            return
        for seen in self.orders.fewest(place, self.slots[boundary - 1]):
            if seen.ended:
                yield (*seen.order, *self._whatever(boundary - 1))
                continue
            yield from ((*seen.order, *outer) for outer in self._sequences(place, boundary - 1))

    def _whatever(self, slots: int) -> Iterator[int]:
        """The loops of the first slots in any order."""
        return (d for slot in reversed(self.slots[:slots]) for d in slot.live)

    def _at(self, above: tuple[Option, ...]) -> Cost:
        """What the boundaries cost right inside of some slots."""
        total = self.costs.none
        for place, boundary in self._ordered[len(above)]:
            loops = self._loops([option.seen[place] for option in above])
            total = total.plus(self.costs.at(place, self.chains[place], boundary, self.lines, loops))
        return total

    def _loops(self, above: Sequence[Seen]) -> tuple[int, ...]:
        """Loops of some slots, innermost first, as a dataspace sees them."""
        loops: list[int] = []
        for number in reversed(range(len(above))):
            loops += above[number].order
            if above[number].ended:
                return (*loops, *self._whatever(number))
        return tuple(loops)
