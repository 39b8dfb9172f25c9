"""Leaves: the mappings of complete paths, with exact costs."""

from __future__ import annotations

import heapq
import math
import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import count

from model.cost import Evaluation, evaluate_in
from model.cost.limits import capacity_violations
from model.cost.prices import leaking_instances
from model.counting.words import tile_words
from model.mapping import Mapping
from solver.search.goal import Goal
from solver.search.path.costs import BoundaryCosts, BoundaryWords, Cost
from solver.search.path.counting import counted_by
from solver.search.path.factors import Chosen, Factors
from solver.search.path.orders import Dims, Orders, Slot
from solver.search.path.ruled import RuledCosts, RuledOrders
from solver.search.path.words import DimLoops, Lines
from solver.search.priced import Priced, Skeleton
from solver.search.space.keep_masks import KeepMask
from solver.search.space.search_space import SearchSpace
from solver.search.space.spatial import StageChoice
from solver.search.stopping import Stop

Leads = tuple[frozenset[int] | None, ...]
"""Per slot but the innermost, the dimensions of which one is innermost; None for any."""

Brought = tuple[Dims, tuple[int, ...]]
"""An order of a slot, and words of each part."""

CostOf = Callable[[int], Cost]
"""What so many words cost."""

DECIDED_BY_ORDER = frozenset(("energy", "cycles"))
"""Quantities of rules that depend on the order of loops."""


@dataclass(frozen=True)
class TilePath:
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


def _fans_out(stage: StageChoice, tiles: Sequence[int]) -> bool:
    """Whether there are so many tiles for the loops of all fanouts."""
    for choice in reversed(stage.choices):
        if any(map(operator.gt, choice.factors, tiles)):
            return False
        tiles = [-(-own // factor) for own, factor in zip(tiles, choice.factors, strict=True)]
    return True


def covers(space: SearchSpace, path: TilePath) -> bool:
    """Whether no spatial loop has more iterations than there are tiles inside."""
    whole = tuple(space.problem.bound[dim] for dim in space.active)
    return all(map(_fans_out, path.spatial, (*path.tiles[1:], whole)))


def best_of(
    paths: Sequence[TilePath], mappings: Callable[[TilePath, Goal], Iterator[Priced]], goal: Goal, stop: Stop
) -> Priced | None:
    """Return the best mapping of some paths that improves on a goal's incumbent, None if none does.

    Parameters
    ----------
    paths
        Looked at one after the other, until `stop` answers True.
    mappings
        Yields those of a path that improve, each better than the one before.
    """
    goal, best = replace(goal), None
    for path in paths:
        if stop():
            break
        for priced in mappings(path, goal):
            best = priced
            goal.incumbent = goal.value(priced.evaluation.energy, priced.evaluation.cycles)
    return best


def by_rising_bounds(
    goal: Goal,
    stop: Stop,
    fewest: tuple[int, ...],
    beyond: Sequence[Sequence[Brought]],
    least: Callable[[Sequence[int]], tuple[int, int]],
    allowed: Callable[[tuple[Dims, ...]], bool] = lambda _: True,
) -> Iterator[tuple[Dims, ...]]:
    """Yield orders of all slots by rising bounds, as long as they may improve.

    Parameters
    ----------
    goal, stop
        The search ends at a bound that does not improve, and once `stop` answers True.
    fewest, beyond
        Words of each part at least, and per slot its orders with those that they bring beyond.
    least
        Energy and cycles of mappings with so many words.
    allowed
        Whether the outermost slots may have some orders.
    """
    ticket = count()
    heap: list[tuple[int, int, int, tuple[Dims, ...], tuple[int, ...]]] = []

    def push(above: tuple[Dims, ...], words: tuple[int, ...]) -> None:
        energy, cycles = least(words)
        if goal.improves(energy, cycles):
            heapq.heappush(heap, (goal.value(energy, cycles), -len(above), next(ticket), above, words))

    push((), fewest)
    while heap:
        value, _, _, above, words = heapq.heappop(heap)
        if stop() or (goal.incumbent is not None and value >= goal.incumbent):
            return
        if len(above) == len(beyond):
            yield above
            continue
        able = (own for own in beyond[len(above)] if allowed((*above, own[0])))
        for order, more in able:
            push((*above, order), tuple(map(operator.add, words, more)))


def beyond_fewest(
    options: Sequence[Sequence[Dims]], by_part: Sequence[Sequence[tuple[int, ...]]]
) -> list[list[Brought]]:
    """Return, per slot, its orders, and how many words of each part they bring beyond the fewest.

    Parameters
    ----------
    options
        Orders of each slot.
    by_part
        Per part, the words that each slot outside of its boundary brings in each of its orders.
    """
    found = []
    for level, orders in enumerate(options):
        rows = [own[level] if level < len(own) else (0,) * len(orders) for own in by_part]
        least = list(map(min, rows))
        more = (tuple(row[n] - few for row, few in zip(rows, least, strict=True)) for n in range(len(orders)))
        found.append(list(zip(orders, more, strict=True)))
    return found


class Leaves:
    """Evaluates the mappings of complete paths.

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
    overloaded
        Resources whose loads kept mappings from improving that do not cost too much energy.
    """

    def __init__(self, space: SearchSpace, goal: Goal, stop: Stop) -> None:
        self._space = space
        self._goal = goal
        self._stop = stop
        self._factors = Factors(space, goal.counts_cycles)
        self._lines = Lines(space)
        is_executed = space.mapspace.counting_rule.is_executed
        self._costs = BoundaryCosts(space) if is_executed else RuledCosts(space)
        self._orders = Orders(space) if is_executed else RuledOrders(space)
        self._counted = counted_by(space)
        self._priced_alike: set[object] = set()
        self._tile_words: dict[tuple[int, tuple[int, ...]], int] = {}
        self.priced = 0
        self.overloaded: set[int] = set()

    def improve(self, paths: Sequence[TilePath]) -> Priced | None:
        """Return the best mapping of all these paths that improves on the incumbent, None if none does."""
        return best_of(paths, self._of_path, self._goal, self._stop)

    def _of_path(self, path: TilePath, goal: Goal) -> Iterator[Priced]:
        """Mappings of a path, each better than the one before."""
        space, alike = self._space, self._alike(path)
        if space.excluded or not covers(space, path):
            return
        if alike is not None and alike in self._priced_alike:
            return
        spatial = [stage.factors for stage in path.spatial]
        for chosen, steps in self._factors.chosen(path.tiles, spatial, self._hopeful(path, goal)):
            if self._stop():
                return
            bones = self._bones(path, self._lines_of(path, chosen), steps)
            if not self._allowed(bones):
                continue
            self._priced_alike.add(alike)
            yield from self._improving(bones, goal)

    def _alike(self, path: TilePath) -> object:
        """What mappings have in common that cost the same, whatever their orders: None if these matter."""
        space = self._space
        if not self._counted.merges:
            return None
        # Places of a memory cost the same, in whatever order loops lie between them.
        times = tuple(
            tuple(
                (min(space.places_to[level]), math.prod(path.tiles[level][d] for d in view.irrelevant))
                for level in space.chain(path.mask, view.place)
            )
            for view in space.views
        )
        return path.spatial, times

    def _hopeful(self, path: TilePath, goal: Goal) -> Callable[[int], bool]:
        """Whether mappings whose arithmetic takes so many steps may improve."""
        del path
        latency, computes = self._space.latency, self._space.problem.computes
        energy = computes * self._space.architecture.compute.energy
        return lambda steps: goal.improves(energy, steps + latency)

    def _lines_of(self, path: TilePath, chosen: Chosen) -> tuple[DimLoops, ...]:
        fanouts = [choice.factors for stage in path.spatial for choice in stage.choices]
        return tuple(
            self._lines.line(d, own.factors, tuple(factors[d] for factors in fanouts))
            for d, own in enumerate(chosen)
        )

    def _bones(self, path: TilePath, lines: tuple[DimLoops, ...], steps: int) -> Bones:
        return Bones(self._space, self._costs, self._orders, path, lines, steps)

    def _allowed(self, bones: Bones) -> bool:
        """Whether limits and rules that no order changes allow these factors."""
        space = self._space
        units = math.prod(line.instances[-1] for line in bones.lines)
        return (
            units >= space.mapspace.min_parallelism
            and all(self._fits(bones, places) for places in space.architecture.memories)
            and all(self._keep_where_loops_are(bones, rules.levels) for rules in space.mapspace.joint)
            and all(
                rules.allow([bones.live(level) for level in rules.levels]) for rules in space.mapspace.joint
            )
        )

    def _fits(self, bones: Bones, places: Sequence[int]) -> bool:
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
    def _keep_where_loops_are(bones: Bones, places: Sequence[int]) -> bool:
        """Whether no place of a memory but the first has loops and keeps nothing."""
        return not any(bones.live(place) and not bones.path.mask[place] for place in places[1:])

    def _improving(self, bones: Bones, goal: Goal) -> Iterator[Priced]:
        for priced in self._judged(bones, goal):
            self.priced += 1
            if priced is None:
                continue
            if not self._may_be_valid(priced.evaluation):
                return
            evaluation = priced.evaluation
            if evaluation.valid and goal.improves(evaluation.energy, evaluation.cycles):
                yield priced

    def _judged(self, bones: Bones, goal: Goal) -> Iterator[Priced | None]:
        """What the cost model says of mappings that may improve; None of those that there are not."""
        return map(bones.priced, self._ordered(bones, goal))

    def _ordered(self, bones: Bones, goal: Goal) -> Iterator[tuple[Dims, ...]]:
        """Orders of all slots that may improve, by rising bounds."""
        if not all(bones.options):
            return
        if not bones.may_improve(goal):
            self.overloaded.update(bones.overloaded(goal))
            return
        yield from bones.best_first(goal, self._stop)

    @staticmethod
    def _may_be_valid(evaluation: Evaluation) -> bool:
        """Whether other orders of the same loops may be valid."""
        broken = (own.rule for own in evaluation.broken_rules)
        fixed = (DECIDED_BY_ORDER.isdisjoint(asked.kind for asked in rule.quantities) for rule in broken)
        return not evaluation.violations and not any(fixed)


@dataclass(frozen=True, eq=False)
class Bones:
    """All factors of a mapping, and bounds on what its orders of loops cost.

    Parameters
    ----------
    costs, orders
        What words cost, and in which orders loops may be.
    path
        It is of.
    lines
        The loops of each dimension.
    steps
        Cycles of the arithmetic.
    """

    space: SearchSpace
    costs: BoundaryCosts
    orders: Orders
    path: TilePath
    lines: tuple[DimLoops, ...]
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
                frozenset(own.place for own in self._ordered if own.boundary > level),
                self._sliding(level),
            )
            for level, leads in enumerate(self._leads)
        )

    @property
    def _leads(self) -> Leads:
        """By slot."""
        return self.path.leads

    def _sliding(self, level: int) -> frozenset[int]:
        """Dimensions of windows that have loops in slots farther in, outside of the innermost boundary."""
        inner = range(level + 1, len(self.path.leads))
        return frozenset(
            d for d in self.space.window_dims if any(self.lines[d].temporal[slot] > 1 for slot in inner)
        )

    def priced(self, orders: Sequence[Dims]) -> Priced:
        """The mapping with these orders, and what the cost model says of it."""
        inner = len(self.slots)
        live = [d for d, line in enumerate(self.lines) if line.temporal[inner] > 1]
        mapping = self.mapping((*orders, self.orders.any(inner, live)))
        return Priced(mapping, evaluate_in(self.space.mapspace, mapping))

    def mapping(self, orders: Sequence[Dims]) -> Mapping:
        """The mapping with these orders of the loops of all levels."""
        names = self.space.active
        return self.skeleton.mapping(tuple(tuple(names[d] for d in order) for order in orders))

    def best_first(self, goal: Goal, stop: Stop) -> Iterator[tuple[Dims, ...]]:
        """Yield orders of all slots by rising bounds, as long as they may improve."""
        yield from by_rising_bounds(goal, stop, self._fewest, self._beyond, self._least_with, self._may_have)

    def _may_have(self, above: tuple[Dims, ...]) -> bool:
        """Whether the outermost slots may have some orders."""
        del above
        return True

    @cached_property
    def options(self) -> list[tuple[Dims, ...]]:
        """Orders of each slot."""
        return list(map(self.orders.options, self.slots))

    def _least_with(self, words: Sequence[int]) -> tuple[int, int]:
        """Energy and cycles of mappings with so many words."""
        return self._least_costs(self._cost(words))

    def may_improve(self, goal: Goal) -> bool:
        """Whether the best orders for each part alone may improve: some parts may be too dear alone."""
        return all(goal.improves(*self._least_costs(total)) for total in self._totals())

    def _totals(self) -> Iterator[Cost]:
        """Yield costs of ever more parts, each in the orders that are best for it alone."""
        total = self._fixed
        yield total
        for part in self._ordered:
            cost_of, words = self._price(part)
            total = total.plus(cost_of(words + sum(map(min, self._brought(part)))))
            yield total

    def overloaded(self, goal: Goal) -> Iterator[int]:
        """Yield the busiest resource if nothing but its load keeps the best orders from improving."""
        if not goal.counts_cycles and not self._leak:
            return
        total = self._fixed
        for total in self._totals():
            if not goal.improves(*self._least_costs(total.without_loads)):
                return
        loads = [load / unit for load, unit in zip(total.loads, self.costs.units, strict=True)]
        yield loads.index(max(loads))

    def _least_costs(self, cost: Cost) -> tuple[int, int]:
        """Energy and cycles of mappings with such a cost."""
        per_cycle, loads = self.space.ticks_per_cycle, zip(cost.loads, self.costs.units, strict=True)
        busy = max((-(-load * per_cycle // unit) for load, unit in loads), default=0)
        ticks = max(self.steps * per_cycle, busy)
        rounded = len(self.space.levels) if per_cycle > 1 else 0  # what leaks is rounded level by level
        leaked = max(self._leak * self.steps, self._leak * ticks // per_cycle - rounded)
        return cost.energy + leaked, -(-ticks // per_cycle) + self.space.latency

    @cached_property
    def _leak(self) -> int:
        """What all instances leak per cycle."""
        leaking = ((own.energy.leak_per_cycle, place) for place, own in enumerate(self.space.levels))
        return sum(per_cycle * self._leaking(place) for per_cycle, place in leaking if per_cycle)

    def _leaking(self, place: int) -> int:
        """Instances of a level that leak."""
        architecture = self.space.architecture
        return leaking_instances(
            architecture, architecture.storage_indices[place], self._instances.__getitem__
        )

    @cached_property
    def _instances(self) -> list[int]:
        """Instances in use of each node, and of the compute."""
        if not self.lines:
            return [1] * (len(self.space.architecture.nodes) + 1)
        return [math.prod(own) for own in zip(*(line.instances for line in self.lines), strict=True)]

    @cached_property
    def _parts(self) -> list[BoundaryWords]:
        """All accesses."""
        every = (part for place, chain in enumerate(self.chains) for part in self.costs.parts(place, chain))
        return [own for part in every for own in self.costs.by_instance(part, self.lines)]

    @cached_property
    def _ordered(self) -> list[BoundaryWords]:
        """Those that the order of loops changes; outer levels, whose words are dearest, come first."""
        return sorted((part for part in self._parts if part.by_order), key=lambda own: own.level)

    @cached_property
    def _prices(self) -> list[tuple[CostOf, int]]:
        """What their words cost, and how many come at the start."""
        return list(map(self._price, self._ordered))

    def _price(self, part: BoundaryWords) -> tuple[CostOf, int]:
        """What words of a part cost, and how many come at the start."""
        price, words = self.costs.price(part, self.lines, self._above[part.boundary])
        return price.of, words

    @cached_property
    def _above(self) -> tuple[tuple[int, ...], ...]:
        """Per level, and for the compute, what lies outside of it, by dimension."""
        none: tuple[tuple[int, ...], ...] = ((),) * (len(self.space.levels) + 1)
        return tuple(zip(*(line.above for line in self.lines), strict=True)) or none

    @cached_property
    def _fixed(self) -> Cost:
        """What no order changes."""
        total = self._without_words
        for part in (own for own in self._parts if not own.by_order):
            cost_of, words = self._price(part)
            total = total.plus(cost_of(words))
        return total

    @property
    def _without_words(self) -> Cost:
        """What the arithmetic costs, and what loads resources besides."""
        computes = self.space.problem.computes
        return Cost(computes * self.space.architecture.compute.energy, self.costs.besides)

    def _cost(self, words: Sequence[int]) -> Cost:
        """What all words come to."""
        total = self._fixed
        for (cost_of, _), own in zip(self._prices, words, strict=True):
            total = total.plus(cost_of(own))
        return total

    def _brought(self, part: BoundaryWords) -> Iterator[tuple[int, ...]]:
        """Words that each slot outside of a part's boundary brings in each of its orders."""
        above = self._above[part.boundary]
        options = enumerate(self.options[: part.boundary])
        return (self.costs.of_slot(part, self.lines, above, level, own) for level, own in options)

    @cached_property
    def _fewest(self) -> tuple[int, ...]:
        """Words of each part in the orders that are best for it alone."""
        pairs = zip(self._ordered, self._prices, strict=True)
        return tuple(words + sum(map(min, self._brought(part))) for part, (_, words) in pairs)

    @cached_property
    def _beyond(self) -> list[list[tuple[Dims, tuple[int, ...]]]]:
        """Per slot, its orders, and how many words of each part they bring beyond the fewest."""
        by_part = [list(self._brought(part)) for part in self._ordered]
        return beyond_fewest(self.options, by_part)
