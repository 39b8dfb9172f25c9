"""The exact prices of the best loop orders of skeletons, whose factors are known."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import count, islice

import numpy as np

from model.cost import evaluate_in
from model.cost.nest import Nest, build_nest
from model.cost.prices import leaking_instances, paying_instances
from model.cost.traffic import distinct_children
from model.counting import Counting, rule_of
from model.counting.words import Move, displacement, extents, tile_words
from model.mapspace import TemporalRules
from solver.search.arrays import FloatArray, IntArray
from solver.search.goal import SLACK, Goal
from solver.search.priced import Order, Priced, Skeleton
from solver.search.space.dataspaces import DataspaceView
from solver.search.space.orders import allowed_orders
from solver.search.space.prices import Action, BoundaryPrice, PriceList, Spread
from solver.search.space.search_space import SearchSpace
from solver.search.stopping import Stop

Imprint = tuple[int, ...]
"""All that the deliveries of one dataspace depend on in the order of one level's loops."""


@dataclass(frozen=True)
class Ordered:
    """An order of the loops of a level, and all that dataspaces, in their order, can tell of it."""

    order: Order
    imprints: tuple[Imprint, ...]


def distinct_orders(
    rules: TemporalRules,
    factors: dict[str, int],
    active: Sequence[str],
    views: Sequence[DataspaceView],
    by_order: bool = True,
) -> tuple[Ordered, ...]:
    """One order of each kind that dataspaces can tell apart, of all that the rules allow.

    If nothing stays in place `by_order`, they tell innermost loops along their windows apart.
    """
    imprint_of = _imprint if by_order else _lead_imprint
    slides = any(view.window_dims for view in views)
    number = {dim: place for place, dim in enumerate(active)}
    every = frozenset(map(number.__getitem__, factors))
    loops = {number[dim]: factor for dim, factor in factors.items()}

    def settled(first: Sequence[str]) -> bool:
        if not by_order:
            return bool(first) or not slides
        done = frozenset(map(number.__getitem__, first))
        return all(_ended(view, done) or view.relevant.isdisjoint(every - done) for view in views)

    kinds: dict[tuple[Imprint, ...], Order] = {}
    for order in allowed_orders(rules, list(factors), settled):
        places = [number[dim] for dim in order]
        kinds.setdefault(tuple(imprint_of(view, places, loops) for view in views), order)
    return tuple(Ordered(order, imprints) for imprints, order in kinds.items())


def _lead_imprint(view: DataspaceView, order: Sequence[int], loops: dict[int, int]) -> Imprint:
    """What an order leaves where only the innermost loop may keep anything."""
    del loops
    return tuple(d for d in order[:1] if d in view.window_dims)


def _ended(view: DataspaceView, done: frozenset[int]) -> bool:
    """Whether a loop moves the tile to where nothing overlaps: from there on every loop multiplies."""
    return not done.isdisjoint(view.relevant - view.window_dims)


def _imprint(view: DataspaceView, order: Sequence[int], loops: dict[int, int]) -> Imprint:
    """What an order leaves on a dataspace.

    Until its tile has moved to where nothing overlaps, the loops along its windows count one by one and those
    in between by their product.
    """
    imprint = []
    run = 1
    for d in order:
        if d in view.irrelevant:
            run *= loops[d]
            continue
        imprint.append(run)
        if d not in view.window_dims:
            return tuple(imprint)
        imprint.append(-1 - d)
        run = 1
    return (*imprint, run)


LARGEST = 1 << 62
"""Words up to which 64 bits are enough for every step."""

_Step = tuple[int | IntArray, IntArray]
"""Bounds of loops, and their movements per rank: one per order, or one for all."""


@dataclass(frozen=True)
class Arrivals:
    """The temporal loops above a tile of one dataspace, as it sees them.

    Parameters
    ----------
    counting
        The rule by which words are counted.
    tile
        Extent per rank.
    inner, outer
        Loops inside and outside of a slot, innermost first; those of bound 1 are left out.
    slot
        The slot's loops.
    orders
        Orders of the slot, as places in `slot`, innermost first; shape (orders, loops).
    """

    counting: Counting
    tile: tuple[int, ...]
    inner: tuple[Move, ...]
    slot: tuple[Move, ...]
    outer: tuple[Move, ...]
    orders: IntArray

    def words(self) -> list[int]:
        """Words of one instance for each order, as `model.counting` counts them."""
        steps = math.prod(bound for bound, _ in (*self.inner, *self.slot, *self.outer))
        if math.prod(self.tile) * steps < LARGEST:
            return list(map(int, self._counted(steps)))
        nests = ((*self.inner, *(self.slot[n] for n in own), *self.outer) for own in self.orders.tolist())
        return [rule_of(self.counting).delivered_words(self.tile, nest) for nest in nests]

    def _counted(self, repeats: int | IntArray) -> IntArray:
        """The same in 64 bits: step by step outwards, for all orders together."""
        count, whole = len(self.orders), math.prod(self.tile)
        extents = np.array(self.tile, dtype=np.int64)
        rule = rule_of(self.counting)
        if not rule.by_order:
            return self._placed(repeats, extents)
        total: IntArray = np.full(count, whole, dtype=np.int64)
        position = np.zeros((count, len(self.tile)), dtype=np.int64)
        lead = np.zeros_like(position)
        for bound, move in self._steps():
            lead = np.where(lead.any(axis=1, keepdims=True), lead, move)
            jump = move - position
            kept = np.maximum(extents - np.abs(jump), 0).prod(axis=1)
            if rule.looks_once:
                # Only the lead's own movement, or none at all, keeps anything.
                kept = np.where((jump == lead).all(axis=1) | ~jump.any(axis=1), kept, 0)
                position = position + move
            else:
                position = position + move * (np.asarray(bound) - 1)[..., None]
            total += (repeats - repeats // bound) * (whole - kept)
            repeats = repeats // bound
        return total

    def _placed(self, repeats: int | IntArray, extents: IntArray) -> IntArray:
        """The same by AccelForge's rule: the innermost loop alone keeps what overlaps."""
        total = np.full(len(self.orders), int(extents.prod()) * repeats, dtype=np.int64)
        for bound, move in islice(self._steps(), 1):
            kept = np.maximum(extents - np.abs(move), 0).prod(axis=-1) * move.any(axis=-1)
            total -= (repeats - repeats // bound) * kept
        return total

    def _steps(self) -> Iterator[_Step]:
        yield from self._fixed(self.inner)
        bounds = np.array([bound for bound, _ in self.slot], dtype=np.int64)
        moves = np.array([move for _, move in self.slot], dtype=np.int64).reshape(
            len(self.slot), len(self.tile)
        )
        for column in self.orders.T:
            yield bounds[column], moves[column]
        yield from self._fixed(self.outer)

    @staticmethod
    def _fixed(loops: Sequence[Move]) -> Iterator[_Step]:
        for bound, move in loops:
            yield bound, np.array(move, dtype=np.int64)


@dataclass(frozen=True)
class _Cost:
    """Energy units, and cycles of load per resource."""

    energy: int
    loads: FloatArray

    def __add__(self, other: _Cost) -> _Cost:
        return _Cost(self.energy + other.energy, self.loads + other.loads)


@dataclass(frozen=True)
class Completion:
    """The exact prices of a skeleton's orders, and the best of these."""

    skeleton: Skeleton

    @property
    def space(self) -> SearchSpace:
        """The search space of the skeleton."""
        return self.skeleton.space

    @cached_property
    def _nest(self) -> Nest:
        first = tuple(next(self.skeleton.orders(level)) for level in range(len(self.skeleton.temporal)))
        return build_nest(self.space.problem, self.space.architecture, self.skeleton.mapping(first))

    @cached_property
    def _prices(self) -> tuple[dict[int, BoundaryPrice], ...]:
        """Exact prices: unlike in a subproblem, the tiles of sliding windows are known here."""
        space, nest = self.space, self._nest
        architecture = space.architecture
        paying = tuple(
            paying_instances(level, total, nest.instances(position))
            for position, total, level in zip(
                architecture.storage_indices, space.instances, space.levels, strict=True
            )
        )
        table = PriceList(space.levels, paying, self.space.resources)
        return tuple(table.boundaries(view.name, self._actions(view.place)) for view in space.views)

    def _actions(self, place: int) -> Iterator[Action]:
        architecture, nest = self.space.architecture, self._nest
        space = self.space.problem.dataspaces[place]
        rule = rule_of(self.space.mapspace.counting)
        touched = rule.touched(architecture, nest, space)
        positions = (*architecture.storage_indices, len(architecture.nodes))
        groups = [
            distinct_children(architecture, nest, space, position, rule.copies)
            for position in architecture.fanout_indices
        ]
        distinct = [math.prod(groups[number] for number in below) for below in self.space.fanouts_below]
        spread = Spread(tuple(distinct), (0,) * len(self.space.levels))
        for access in self.space.accesses(place, self.space.chain(self.skeleton.mask, place)):
            first = (
                touched(positions[access.level], positions[access.boundary]) if access.first_touch_free else 0
            )
            yield replace(spread.action(access), minus=math.floor(first * access.free_share))

    def _due(self, level: int) -> list[int]:
        """Dataspaces with a boundary at `level` (``len(levels)``: at the compute)."""
        return [place for place, prices in enumerate(self._prices) if level in prices]

    def _cost(self, level: int, words: dict[int, int]) -> _Cost:
        loads: FloatArray = np.zeros((1, len(self.space.resources)))
        energy = 0
        for place, delivered in words.items():
            energy += self._prices[place][level].exact(delivered)
            self._prices[place][level].add_loads(np.array([delivered]), loads)
        return _Cost(energy, loads[0])

    def _costs(self, above: tuple[Ordered, ...], last: int, spent: _Cost) -> tuple[list[int], FloatArray]:
        """Energies and loads with the boundaries up to level `last`, for each order of the first open slot.

        Slots farther in, down to `last`, have one order only. The first slots cost `spent`.
        """
        first = len(above) + 1
        options = len(self._distinct_orders[first - 1])
        energies, loads = [spent.energy] * options, np.repeat(spent.loads[None, :], options, axis=0)
        pairs = ((place, level) for level in range(first, last + 1) for place in self._due(level))
        for place, level in pairs:
            words, price = self._delivered(place, level, above), self._prices[place][level]
            exact = {delivered: price.exact(delivered) for delivered in set(words)}
            energies = [energy + exact[delivered] for energy, delivered in zip(energies, words, strict=True)]
            price.add_loads(np.array(words), loads)
        return energies, loads

    def _delivered(self, place: int, level: int, above: tuple[Ordered, ...]) -> list[int]:
        """Words delivered to one instance of `level`, for every order of the first slot that is open."""
        key = (place, level, tuple(option.imprints[place] for option in above))
        if key not in self._known_words:
            self._known_words[key] = self._count(place, level, tuple(option.order for option in above))
        return self._known_words[key]

    @cached_property
    def _known_words(self) -> dict[tuple[int, int, tuple[Imprint, ...]], list[int]]:
        return {}

    def _count(self, place: int, level: int, above: tuple[Order, ...]) -> list[int]:
        nest, slot = self._nest, len(above)
        space = self.space.problem.dataspaces[place]
        position = self.space.architecture.storage_indices[level]
        options = self._distinct_orders[slot]
        if not self.space.reuses(place, level) and not self.space.overlaps(place, level):
            return [tile_words(space, nest.bounds[position]) * nest.steps(position)] * len(options)
        inside = [(number, self._distinct_orders[number][0].order) for number in range(slot + 1, level)]
        outside = list(enumerate(above))
        orders, alike = self._told_apart(place, slot)
        words = Arrivals(
            self.space.mapspace.counting,
            extents(space, nest.bounds[position]),
            tuple(self._move(place, number, dim) for number, order in reversed(inside) for dim in order),
            tuple(self._move(place, slot, dim) for dim in sorted(options[0].order)),
            tuple(self._move(place, number, dim) for number, order in reversed(outside) for dim in order),
            orders,
        ).words()
        return [words[number] for number in alike]

    def _told_apart(self, place: int, slot: int) -> tuple[IntArray, list[int]]:
        """Orders of a slot that a dataspace tells apart, as places of its loops, and for all orders which."""
        key = place, slot
        if key not in self._known_orders:
            options = self._distinct_orders[slot]
            first = {option.imprints[place]: option.order for option in options}
            numbers = {imprint: number for number, imprint in enumerate(first)}
            loops = {dim: number for number, dim in enumerate(sorted(options[0].order))}
            orders = np.array([[loops[dim] for dim in order] for order in first.values()], dtype=np.int64)
            self._known_orders[key] = orders, [numbers[option.imprints[place]] for option in options]
        return self._known_orders[key]

    @cached_property
    def _known_orders(self) -> dict[tuple[int, int], tuple[IntArray, list[int]]]:
        return {}

    def _move(self, place: int, slot: int, dim: str) -> Move:
        """A loop of one slot as a dataspace sees it."""
        (loop,) = (
            own
            for own in self._nest.temporal[self.space.architecture.storage_indices[slot]]
            if own.dim == dim
        )
        return loop.bound, displacement(self.space.problem.dataspaces[place], dim, loop.stride)

    def _floor(self, level: int) -> _Cost:
        """Lower bound on the cost at the boundary of `level` over all orders.

        The innermost loop above decides which dataspaces are reused at all; those are at best
        delivered once per combination of the loops that index them.
        """
        words = {place: self._least_delivered(place, level) for place in self._due(level)}
        everything = frozenset(words)
        classes = self.space.reuse_classes if self._moves_above(level) else [everything]
        costs = [
            self._cost(level, {p: reused if p in members else plain for p, (reused, plain) in words.items()})
            for members in classes
        ]
        return _Cost(min(c.energy for c in costs), np.min([c.loads for c in costs], axis=0))

    def _moves_above(self, level: int) -> bool:
        """Whether any temporal loop lies above `level`."""
        return any(factor > 1 for factors in self.skeleton.temporal[:level] for factor in factors)

    def _least_delivered(self, place: int, level: int) -> tuple[int, int]:
        """Least words per instance with all reuse there can be, and with no temporal reuse."""
        space, nest = self.space, self._nest
        position = space.architecture.storage_indices[level]
        extents = [nest.bounds[position][dim] for dim in space.active]
        tile, instances = space.lattice.index(extents), nest.instances(position)
        numbers = [-(-bound // own) for bound, own in zip(space.lattice.bounds, extents, strict=True)]
        irrelevant = math.prod(numbers[d] for d in space.views[place].irrelevant)
        unrolling = space.unrolling([stage.factors for stage in self.skeleton.spatial[:level]])
        words = space.relevant_words(place, level, unrolling)
        repeated, begun = int(words.repeated[tile]), int(words.begun[tile])
        view = space.views[place]
        unused = math.prod(view.unused(stage.factors) for stage in self.skeleton.spatial[:level])
        floor = int(space.floor_words(place, level, unrolling)[tile]) * unused
        plain = -(-max(repeated * irrelevant + (begun - repeated) * unused, floor) // instances)
        return (-(-floor // instances) if space.reuses(place, level) else plain), plain

    def best(self, goal: Goal, stop: Stop) -> Iterator[Priced]:
        """Complete mappings, best first, as long as they can improve on the incumbent.

        What the levels cost that are ordered so far, plus a floor for those inside, is a lower bound: so
        the first mapping that comes out complete is the best one.
        """
        depth = len(self.skeleton.temporal)
        floors = [_Cost(0, np.zeros(len(self.space.resources)))] * (depth + 1)
        for level in range(depth - 1, 0, -1):
            floors[level] = floors[level + 1] + self._floor(level)
        ticket = count()
        fixed = self._fixed
        heap: list[tuple[int, int, int, tuple[Ordered, ...], _Cost]] = [(0, 0, next(ticket), (), fixed)]
        while heap:
            *_, above, spent = heapq.heappop(heap)
            level = len(above) + 1
            if stop():
                return
            if not any(self._hopeful_among(goal, [spent.energy], spent.loads[None, :], floors[level])):
                continue
            if level == depth:
                # No boundary lies inside the innermost level, so the order of its loops is free.
                orders = tuple(option.order for option in above)
                mapping = self.skeleton.mapping((*orders, next(self.skeleton.orders(depth - 1))))
                yield Priced(mapping, evaluate_in(self.space.mapspace, mapping))
                continue
            last = self._next_choice(level)
            settled = tuple(self._distinct_orders[slot][0] for slot in range(level, last))
            energies, loads = self._costs(above, last, spent)
            for place, value, least in self._hopeful_among(goal, energies, loads, floors[last + 1]):
                cost = _Cost(energies[place], loads[place])
                longer = (*above, self._distinct_orders[level - 1][place], *settled)
                heapq.heappush(heap, (value, least, -next(ticket), longer, cost))

    def _hopeful_among(
        self, goal: Goal, energies: Sequence[int], loads: FloatArray, floor: _Cost
    ) -> Iterator[tuple[int, int, int]]:
        """Places of costs that may improve together with `floor`, with bounds on objective and energy."""
        busiest = (loads + floor.loads).max(axis=1, initial=0.0).tolist()
        known = {load: self._waiting(load) for load in set(busiest)}
        limits = {
            load: goal.energy_limit(cycles) - leak - floor.energy for load, (leak, cycles) in known.items()
        }
        for place, (energy, load) in enumerate(zip(energies, busiest, strict=True)):
            if energy < limits[load]:
                leak, cycles = known[load]
                least = energy + floor.energy + leak
                yield place, goal.value(least, cycles), least

    def _next_choice(self, level: int) -> int:
        """The first level from `level` on whose slot has several orders, or the innermost one."""
        last = level
        while last < len(self._distinct_orders) and len(self._distinct_orders[last]) == 1:
            last += 1
        return last

    def _waiting(self, load: float) -> tuple[int, int]:
        """What leaks beyond the compute's steps, and all cycles, if a resource is loaded with so many."""
        per_cycle, steps = self.space.ticks_per_cycle, self._steps
        ticks = max(steps * per_cycle, math.ceil(load * SLACK * per_cycle))
        rounded = len(self.space.levels) if per_cycle > 1 else 0  # what leaks is rounded level by level
        leak = self._leak_per_cycle * (ticks - steps * per_cycle) // per_cycle - rounded
        return max(0, leak), -(-ticks // per_cycle) + self.space.latency

    @cached_property
    def _steps(self) -> int:
        return self._nest.steps()

    @cached_property
    def _distinct_orders(self) -> tuple[tuple[Ordered, ...], ...]:
        """Per level but the innermost, one order of its loops of each kind that dataspaces can tell apart."""
        space, by_level = self.space, []
        for level, factors in enumerate(self.skeleton.temporal[:-1]):
            live = {dim: factor for dim, factor in zip(space.active, factors, strict=True) if factor > 1}
            rules = space.mapspace.temporal[level]
            by_level.append(distinct_orders(rules, live, space.active, space.views, space.by_order))
        return tuple(by_level)

    @cached_property
    def _leak_per_cycle(self) -> int:
        architecture, nest = self.space.architecture, self._nest
        total = 0
        for position, level in zip(architecture.storage_indices, self.space.levels, strict=True):
            total += level.energy.leak_per_cycle * leaking_instances(architecture, position, nest.instances)
        return total

    @cached_property
    def _fixed(self) -> _Cost:
        """Cost that no order changes: compute, its operands, leakage for the least cycles."""
        space, innermost = self.space, len(self.space.levels)
        steps = self._steps
        operands = self._cost(innermost, dict.fromkeys(self._due(innermost), steps))
        compute = space.problem.computes * space.architecture.compute.energy
        leak = self._leak_per_cycle * steps
        return _Cost(compute + operands.energy + leak, operands.loads)
