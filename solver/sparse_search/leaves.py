"""From complete paths to mappings of sparse data, judged by the model of expected costs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import product

import numpy as np

from model.cost.prices import leaking_instances
from model.mapping import FanoutMapping, Loop, Mapping, NodeMapping, StorageMapping
from model.mapspace import EXACT, Mapspace
from solver.search.goal import Goal
from solver.search.path.costs import Costs, Part, Price
from solver.search.path.factors import Factors
from solver.search.path.leaves import Path, best_of, beyond_fewest, by_rising_bounds, covers
from solver.search.path.words import Line, Lines
from solver.search.priced import Priced
from solver.search.space.choices import Choice, choice_of
from solver.search.space.keep_masks import KeepMask
from solver.search.space.search_space import SearchSpace
from solver.search.stopping import Stop
from solver.sparse_search.charges import LEAST, Chosen, Each, SparseCharges, Tiles
from solver.sparse_search.choices import arrangements
from solver.sparse_search.orders import Order, SparseOrders
from solver.sparse_search.words import PartitionedCosts

Judge = Callable[[Mapping], Priced | None]
"""Prices a mapping; None if it is not allowed, or formats cannot hold it."""

Slots = tuple[Order, ...]
"""Orders of the loops of all levels, outermost level first."""


class SparseLeaves:
    """Prices complete paths.

    Parameters
    ----------
    space, mapspace
        What the paths are of: the space knows no capacities.
    charges
        Of a keep mask.
    judge
        The cost model.
    goal
        Its incumbent is read anew for each call, and not changed.
    stop
        Asked often; once it answers True, what was found so far is returned.

    Attributes
    ----------
    priced
        Number of mappings that the cost model judged.
    """

    def __init__(
        self,
        space: SearchSpace,
        mapspace: Mapspace,
        charges: Callable[[KeepMask], SparseCharges],
        judge: Judge,
        goal: Goal,
        stop: Stop,
    ) -> None:
        self._space, self._mapspace = space, mapspace
        self._charges, self._judge = charges, judge
        self._goal, self._stop = goal, stop
        exact = mapspace.counting == EXACT
        self._lines, self._costs = Lines(space), Costs(space) if exact else PartitionedCosts(space)
        self._factors = EveryFactors(space, goal.counts_cycles)
        self._orders: dict[KeepMask, SparseOrders] = {}
        self._words: dict[object, tuple[int, ...]] = {}
        self.priced = 0
        self.overloaded: set[int] = set()

    def improve(self, paths: Sequence[Path]) -> Priced | None:
        """Return the best mapping of all these paths that improves on the incumbent, None if none does."""
        return best_of(paths, self._of_path, self._goal, self._stop)

    def _of_path(self, path: Path, goal: Goal) -> Iterator[Priced]:
        """Mappings of a path, each better than the one before."""
        charges = self._charges(path.mask)
        if path.mask not in self._orders:
            views = self._space.views
            self._orders[path.mask] = SparseOrders(charges.figures.shares, charges.named, views)
        fanouts = [choice.factors for stage in path.spatial for choice in stage.choices]
        for temporal, steps in () if self._space.excluded else self._temporal(path, charges, goal):
            if self._stop():
                return
            lines = tuple(
                self._lines.line(d, own, tuple(factors[d] for factors in fanouts))
                for d, own in enumerate(temporal)
            )
            if not self._parallel_enough(lines):
                continue
            orders = self._orders[path.mask]
            bones = _Bones(self._space, self._costs, charges, orders, path, lines, steps, self._words)
            yield from self._improving(bones, goal)

    def _improving(self, bones: _Bones, goal: Goal) -> Iterator[Priced]:
        """Mappings with some factors, each better than the one before."""
        every = bones.best_first(goal, self._stop)
        for mapping in (mapping for orders in every for mapping in bones.mappings(self._mapspace, orders)):
            self.priced += 1
            priced = self._judge(mapping)
            if priced is not None and goal.improves(priced.evaluation.energy, priced.evaluation.cycles):
                yield priced

    def _parallel_enough(self, lines: Sequence[Line]) -> bool:
        """Whether so many units are in use as must be."""
        return math.prod(line.instances[-1] for line in lines) >= self._mapspace.min_parallelism

    def _temporal(
        self, path: Path, charges: SparseCharges, goal: Goal
    ) -> Iterator[tuple[tuple[tuple[int, ...], ...], int]]:
        """Yield factors by dimension and level that lead to the path's tiles, and steps if data are dense."""
        if not self._space.uneven:
            factors = self._perfect(path)
            units = math.prod(math.prod(stage.factors) for stage in path.spatial)
            if factors is not None:
                yield tuple(zip(*factors, strict=True)), self._space.problem.computes // units
            return
        if not covers(self._space, path):
            return
        chosen, latency = Chosen(path.spatial), self._space.latency
        energy = math.floor(max(float(np.min(charges.arithmetic(chosen))), 0.0) * LEAST)
        first = charges.first
        tiles = np.array([path.tiles[first]]) if first < len(path.tiles) else None

        def hopeful(steps: int) -> bool:
            least = charges.steps(np.array([float(steps)]), chosen, tiles)[0]
            return bool(np.isfinite(least)) and goal.improves(energy, int(least) + latency)

        spatial = [stage.factors for stage in path.spatial]
        for choices, steps in self._factors.chosen(path.tiles, spatial, hopeful):
            yield tuple(own.factors for own in choices), steps

    def _perfect(self, path: Path) -> list[tuple[int, ...]] | None:
        """Factors of the loops of all levels; None if no divisors lead to the path's tiles."""
        whole = tuple(self._space.problem.bound[dim] for dim in self._space.active)
        found = []
        steps = zip(path.tiles, (*path.tiles[1:], whole), path.spatial, self._space.slots, strict=True)
        for outer, inner, stage, slot in steps:
            rows = zip(outer, inner, stage.factors, slot.allowed, strict=True)
            factors = [(n // (o * s), n % (o * s), allowed) for o, n, s, allowed in rows]
            if any(rest or factor not in allowed for factor, rest, allowed in factors):
                return None
            found.append(tuple(factor for factor, _, _ in factors))
        return found


class EveryFactors(Factors):
    """All choices: what sparse data leave may be less with larger tiles."""

    def _best(
        self, dim: int, tiles: Sequence[int], spatial: Sequence[int], factors: Sequence[Sequence[int]]
    ) -> Sequence[Choice]:
        del tiles
        every = (choice_of(self._bounds[dim], own, spatial) for own in product(*factors))
        return [own for own in every if self._may_have(dim, own)]


@dataclass(frozen=True, eq=False)
class _Bones:
    """All factors of a mapping, and bounds on what its orders of loops cost.

    Parameters
    ----------
    charges, orders
        Of the path's keep mask.
    path
        The mapping is of.
    lines
        The loops of each dimension.
    steps
        Of the arithmetic if data are dense.
    known
        Words that levels bring, of all mappings.
    """

    space: SearchSpace
    costs: Costs
    charges: SparseCharges
    orders: SparseOrders
    path: Path
    lines: tuple[Line, ...]
    steps: int
    known: dict[object, tuple[int, ...]]

    @property
    def depth(self) -> int:
        """Number of levels."""
        return len(self.space.levels)

    @cached_property
    def chosen(self) -> Chosen:
        """The spatial choice."""
        return Chosen(self.path.spatial)

    @cached_property
    def options(self) -> list[list[Order]]:
        """Per level, the orders that may cost less than all others."""
        found = []
        for level in range(self.depth):
            live = tuple(d for d, line in enumerate(self.lines) if line.temporal[level] > 1)
            leads = self.path.leads[level] if level < len(self.path.leads) else None
            moving = frozenset(d for d, line in enumerate(self.lines) if line.moves[level])
            every = self.orders.options(level, live, moving if self.space.uneven else None)
            found.append([own for own in every if leads is None or not own or own[0] in leads])
        return found

    # ------------------------------------------------------------------------------------------ bounds

    def best_first(self, goal: Goal, stop: Stop) -> Iterator[Slots]:
        """Yield orders of all levels by rising bounds, as long as they may improve."""
        if all(self.options):
            beyond = beyond_fewest(self.options, self._brought)
            yield from by_rising_bounds(goal, stop, self._fewest, beyond, self._least, self._is_held)

    def _is_held(self, above: Slots) -> bool:
        """Whether formats have ranks for the loops of the outermost levels."""
        level = len(above)
        slots = [[(d, self.lines[d].temporal[n]) for d in order] for n, order in enumerate(above)]
        tile = tuple(line.extents[level] for line in self.lines)
        return self.orders.are_held(level, tile, slots, self.chosen.fanouts)

    def _least(self, words: Sequence[int]) -> tuple[int, int]:
        """Energy and cycles, at least, of mappings with so many words."""
        energy, loads = self._besides
        loads = [*loads]
        for price, own in zip(self._prices, words, strict=True):
            energy += price.add(own, loads)
        busy = max(self._steps, math.ceil(max(loads, default=0.0) * LEAST))
        energy += self._leak * busy
        return math.floor(max(energy, 0.0) * LEAST), busy + self.space.latency

    @cached_property
    def _besides(self) -> tuple[float, list[float]]:
        space, charges = self.space, self.charges
        loads = (float(own.besides(space.levels)) - charges.lost(r) for r, own in enumerate(space.resources))
        return float(np.min(charges.arithmetic(self.chosen))), list(loads)

    @cached_property
    def _steps(self) -> int:
        """Cycles of the arithmetic."""
        dense = np.array([float(self.steps)])
        first = self.charges.first
        tiles = np.array([self.path.tiles[first]]) if first < self.depth else None
        return int(self.charges.steps(dense, self.chosen, tiles)[0])

    @cached_property
    def _leak(self) -> float:
        """What all instances in use leak per cycle, at least."""
        total, architecture, one = 0.0, self.space.architecture, np.ones(1)
        used = [math.prod(own) for own in zip(*(line.instances for line in self.lines), strict=True)]
        places = zip(architecture.storage_indices, self.space.levels, strict=True)
        for number, (position, level) in enumerate(places):
            if not level.energy.leak_per_cycle:
                continue
            fanouts = (own for own in architecture.fanout_indices if own < position)
            above = [Fraction(used[own + 1], used[own]) for own in fanouts]
            instances = one * float(leaking_instances(architecture, level, above))
            leaking = self.charges.leaking(number, instances, np.ones(1, dtype=np.int64), one)
            total += level.energy.leak_per_cycle * float(leaking[0])
        return total

    @cached_property
    def _parts(self) -> list[Part]:
        """All accesses."""
        chains = enumerate(self.charges.chains)
        return [part for place, chain in chains for part in self.costs.parts(place, chain)]

    @cached_property
    def _above(self) -> tuple[tuple[int, ...], ...]:
        """Per level, and for the arithmetic, what lies outside of it, by dimension."""
        return tuple(zip(*(line.above for line in self.lines), strict=True)) or ((),) * (self.depth + 1)

    @cached_property
    def _starts(self) -> list[tuple[Price, int]]:
        """What the words of each part cost if data are dense, and how many come at the start."""
        return [self.costs.price(part, self.lines, self._above[part.boundary]) for part in self._parts]

    @cached_property
    def _prices(self) -> list[_Sparse]:
        """What dense words of each part cost, at least."""
        pairs = zip(self._parts, self._starts, strict=True)
        return [_Sparse(price, tuple(self._each(part))) for part, (price, _) in pairs]

    def _each(self, part: Part) -> Iterator[Each]:
        """What a word costs that is read, filled or updated."""
        level = part.level if part.boundary == self.depth else part.boundary
        numbers, extents = self.path.tiles[level], tuple(line.extents[level] for line in self.lines)
        for action in ("read", "fill", "update"):
            charge = self.charges.of_part(part.place, part.level, part.boundary, action)
            if charge is None:
                yield 0.0, ()
            elif self.space.uneven:
                tiles = Tiles(np.array([numbers]), np.array([extents]))
                yield self.charges.each_exactly(charge, tiles, self.chosen)
            else:
                yield self.charges.each(charge, numbers, self.chosen)

    @cached_property
    def _brought(self) -> list[list[tuple[int, ...]]]:
        """Per part, words that each level outside of its boundary brings in each of its orders."""
        return [
            [
                self._of_level(part, level, tuple(own))
                for level, own in enumerate(self.options[: part.boundary])
            ]
            for part in self._parts
        ]

    def _of_level(self, part: Part, level: int, orders: Slots) -> tuple[int, ...]:
        if not part.by_order:
            return (0,) * len(orders)
        key = part, self._above[part.boundary], level, orders
        if key not in self.known:
            ends = part.place, part.level, part.boundary
            self.known[key] = self.costs.words_of(ends, self.lines, level, orders)
        return self.known[key]

    @cached_property
    def _fewest(self) -> tuple[int, ...]:
        """Words of each part in the orders that are best for it alone."""
        pairs = zip(self._starts, self._brought, strict=True)
        return tuple(words + sum(map(min, brought)) for (_, words), brought in pairs)

    # ---------------------------------------------------------------------------------------- mappings

    def mappings(self, mapspace: Mapspace, orders: Slots) -> Iterator[Mapping]:
        """Yield the mappings with these orders, in all arrangements of spatial loops that may differ."""
        grid = self.charges.figures.shares.grid
        vectors, needed = self.chosen.fanouts, self.charges.needed(self.chosen.fanouts)
        rows = zip(mapspace.architecture.fanouts, mapspace.spatial, vectors, strict=True)
        options = [
            arrangements(
                fanout,
                rules,
                grid,
                vector,
                needed is not None or self.orders.is_crossed(number, vector),
                needed is not None and not needed.needs_all(number),
            )
            for number, (fanout, rules, vector) in enumerate(rows)
        ]
        for fanouts in product(*options):
            yield self._mapping(mapspace, orders, fanouts)

    def _mapping(self, mapspace: Mapspace, orders: Slots, fanouts: Sequence[FanoutMapping]) -> Mapping:
        architecture, dims = mapspace.architecture, self.space.active
        nodes: list[NodeMapping] = [FanoutMapping()] * len(architecture.nodes)
        kept = self.charges.named.kept
        for level, position in enumerate(architecture.storage_indices):
            loops = tuple(Loop(dims[d], self.lines[d].temporal[level]) for d in orders[level])
            nodes[position] = StorageMapping(loops, kept[level])
        for position, fanout in zip(architecture.fanout_indices, fanouts, strict=True):
            nodes[position] = fanout
        return Mapping(tuple(nodes))


@dataclass(frozen=True)
class _Sparse:
    """What dense words of a part cost, at least.

    Parameters
    ----------
    price
        It says how many words are read, filled and updated.
    each
        Of these, energy and cycles of a word of all instances together.
    """

    price: Price
    each: tuple[Each, ...]

    def add(self, words: int, loads: list[float]) -> float:
        """Return the energy, and add cycles by resource."""
        total = 0.0
        for number, (energy, cycles) in zip(self.price.counts(words), self.each, strict=True):
            total += number * energy
            for resource, own in cycles:
                loads[resource] += number * own / self.price.used
        return total
