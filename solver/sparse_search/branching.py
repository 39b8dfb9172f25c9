"""Branching: tiles and loop orders of one subproblem, from the outermost level inwards."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from itertools import permutations, product
from typing import NamedTuple

import numpy as np

from model.cost.counting import displacement, extents
from model.cost.rules import rule_of
from model.mapping import FanoutMapping, Loop, Mapping, NodeMapping, StorageMapping
from model.sparse.fibers import has_ranks_for
from solver.sparse_search.bounds import LEAST, Subproblem, Useless, Weight
from solver.sparse_search.choices import arrangements
from solver.sparse_search.goal import SparseGoal
from solver.sparse_search.grid import BoolArray, FloatArray, IntArray, TensorGrid, Vector

Order = tuple[int, ...]
"""Active dimensions by their place, the innermost loop first."""

NODES_AT_ONCE = 64
"""Nodes between two looks at the clock."""

OuterLoop = tuple[int, int, int]
"""Of a temporal loop, its dimension, its bound, and the iterations of its dimension inside of it."""


class Node(NamedTuple):
    """Everything outside of a tile.

    Parameters
    ----------
    level, tile
        The storage level, and its tile.
    energy, loads
        Of all boundaries outside, at least: energy units, and cycles of each bandwidth.
    slots
        Loops of the levels outside, outermost level first, innermost loop first.
    loops
        All of them, innermost first.
    repeats
        By dataspace, iterations of the loops outside that deliver it anew, unless others come in between.
    iterations
        Of all temporal loops outside.
    children
        By dataspace, different tiles among the children below each level outside.
    useless
        As of `Subproblem.computed`, as far as it is known.
    """

    level: int
    tile: Vector
    energy: float
    loads: tuple[float, ...]
    slots: tuple[tuple[tuple[int, int], ...], ...]
    loops: tuple[OuterLoop, ...]
    repeats: tuple[int, ...]
    iterations: int
    children: tuple[tuple[int, ...], ...]
    useless: Useless


class Branching:
    """All mappings of a subproblem that may improve.

    Parameters
    ----------
    sub
        The subproblem.
    goal
        Its incumbent may become better meanwhile.
    check
        Called now and then; what it raises ends the search.
    """

    def __init__(self, sub: Subproblem, goal: SparseGoal, check: Callable[[], None]) -> None:
        self.sub, self.goal, self._check = sub, goal, check
        self.grid, self.shares = sub.grid, sub.shares
        self.depth = sub.space.depth
        self.resources = tuple(range(len(self.shares.resources))) if goal.counts_cycles else ()
        self.rule = rule_of(self.shares.mapspace.counting)
        self._orders: dict[tuple[int, Order], list[Order]] = {}
        self.nodes = 0

    @cached_property
    def root(self) -> Node:
        """The whole problem, at the outermost level."""
        places = range(len(self.sub.space.tensors))
        whole = self.grid.place(self.grid.bounds)
        energy, loads = 0.0, [0.0] * len(self.resources)
        for cost in (None, *self.resources):
            served = sum(
                float(self.sub.served(place, weight, np.array([whole]))[0])
                for place, weight in self.sub.weights(cost)[0]
            )
            if cost is None:
                energy = served
            else:
                loads[cost] = served
        return Node(
            level=0,
            tile=self.grid.bounds,
            energy=energy,
            loads=tuple(loads),
            slots=(),
            loops=(),
            repeats=tuple(1 for _ in places),
            iterations=1,
            children=tuple(() for _ in places),
            useless=self._useless_at_first(),
        )

    def _useless_at_first(self) -> Useless:
        savers = self.shares.innermost(self.sub.mask)
        return tuple(
            (name, max((self.shares.word_useless(saver) for saver in own), default=0.0))
            for name, own in savers.items()
            if own
        )

    @cached_property
    def rough(self) -> float:
        """Bound on the objective without a look at tiles."""
        arithmetic, steps = self.sub.computed(self._useless_at_first())
        loads = [self.sub.asked(resource) for resource in self.resources]
        cycles = max(steps, *map(math.ceil, (load * LEAST for load in loads)), 0)
        energy = arithmetic + self.sub.asked(None) + self.sub.leak_per_cycle * cycles
        return float(self.goal.values(np.array([energy]), np.array([cycles + self.sub.latency]))[0])

    @cached_property
    def bound(self) -> float:
        """Bound on the objective of all mappings here; infinite if there is none."""
        if not all(len(own) for own in self.sub.tiles):
            return math.inf
        return max(self.rough, self._value(self.root, self.grid.place(self.grid.bounds)))

    @property
    def is_bounded(self) -> bool:
        """Whether `bound` is known."""
        return "bound" in self.__dict__

    def _costs(self, node: Node) -> list[tuple[int | None, float]]:
        return [(None, node.energy), *zip(self.resources, node.loads, strict=True)]

    def _has_tables(self, cost: int | None) -> bool:
        return cost is None or cost in self.sub.space.shared

    def _value(self, node: Node, place: int) -> float:
        """Bound on the objective of all mappings inside a node, whose tile has a place."""
        totals = [
            spent
            + (
                self._joined(node.level + 1, self._led(node), place, cost) + self._behind(node, place, cost)
                if self._has_tables(cost)
                else self.sub.asked(cost, node.level + 1)
            )
            for cost, spent in self._costs(node)
        ]
        return float(self._values(node, np.array(totals[:1]), [np.array([own]) for own in totals[1:]])[0])

    def _led(self, node: Node) -> int | None:
        """Class of the innermost loop outside."""
        return self.sub.space.class_of(node.loops[0][0]) if node.loops else None

    def _joined(self, level: int, number: int | None, place: int, cost: int | None) -> float:
        """Cost at the levels from `level` on that are joined to the one outside."""
        total = 0.0
        while level < self.depth and self.sub.space.is_joined(level):
            at = self.sub.tables(cost).at[level]
            total += float(at[number][place]) if number is not None else min(float(own[place]) for own in at)
            level += 1
        return total

    def _behind(self, node: Node, place: int, cost: int | None) -> float:
        """Least cost from the next slot with loops on, and what is due for what the node's loops leave."""
        number, level = self._led(node), node.level
        begun = {} if number is None else self.sub.begun(level, number)
        least = math.inf
        for row, values in self.sub.tables(cost).inside[level].items():
            own = float(values[place])
            if own < least:
                ends = {**begun, **({} if row is None else dict([row]))}
                own += sum(self._due(node, *end, cost) for end in ends.items())
                least = min(least, own)
        return least

    def _due(self, node: Node, place: int, innermost: int, cost: int | None) -> float:
        """What is due for a dataspace that stays in place up to the node's loops, at least."""
        axes = self.sub.space.tensors[place].axes
        moved = math.prod(bound for axis, bound, _ in node.loops if axis in axes)
        return self.sub.due_once(place, node.level, innermost, node.repeats[place] / moved, cost)

    def _values(self, node: Node, energies: FloatArray, loads: Sequence[FloatArray]) -> FloatArray:
        """Bounds on the objective; infinite where limits are broken."""
        arithmetic, steps = self.sub.computed(node.useless)
        cycles = np.full(len(energies), float(steps))
        for load in loads:
            cycles = np.maximum(cycles, np.ceil(load * LEAST))
        leakage = self.sub.leak_per_cycle * cycles if self.sub.leak_per_cycle else 0.0
        total = energies + arithmetic + leakage
        return self.goal.values(total, cycles + self.sub.latency)

    # ---------------------------------------------------------------------------------------- nodes

    def candidates(self, node: Node) -> tuple[IntArray, FloatArray]:
        """Tiles of the next level that may improve, the most promising ones first, and their bounds."""
        level = node.level
        places = self.grid.inside(node.tile, self.sub.factors[level], self.sub.space.slots[level])
        if level + 1 == self.depth:
            places = places[places == self.grid.place((1,) * len(self.grid.dims))]
            totals = [np.full(len(places), spent) for _, spent in self._costs(node)]
        else:
            at = self.sub.tables().at[level + 1][0]
            places = places[np.isfinite(at[places])]
            totals = [self._next(node, places, cost, spent) for cost, spent in self._costs(node)]
        values = self._values(node, totals[0], totals[1:])
        order = np.argsort(values, kind="stable")
        order = order[np.isfinite(values[order])]
        return places[order], values[order]

    def _next(self, node: Node, places: IntArray, cost: int | None, spent: float) -> FloatArray:
        """Cost of all that is outside of a node, and inside of it with some tiles at the next level."""
        level = node.level + 1
        if not self._has_tables(cost):
            return np.full(len(places), spent + self.sub.asked(cost, level))
        factors = np.array(self.sub.factors[node.level]) * self.grid.extents[places]
        loops = np.array(node.tile) // factors > 1
        repeated = {place: self._repeated(node, place, loops) for place in range(len(node.repeats))}
        none = ~loops.any(axis=1)
        least = np.full(len(places), np.inf)
        for number, led in enumerate(self.sub.space.classes):
            within = self.sub.space.led_slots[node.level][number]
            first = np.array([own <= {1} for own in within])
            possible = loops[:, list(led.axes)].any(axis=1) & ~(loops & first).any(axis=1)
            if self._led(node) in (None, number):
                possible |= none
            own = self._joined_at(level, number, places, cost)
            for row, values in self.sub.tables(cost).inside[level].items():
                if row is not None and row[0] in led.moved:
                    continue
                total = own + values[places]
                ends = {**self.sub.begun(level, number), **({} if row is None else dict([row]))}
                for place, innermost in ends.items():
                    total = total + self.sub.due(place, node.level, innermost, repeated[place], cost)
                least = np.minimum(least, np.where(possible, total, np.inf))
        return spent + least

    def _joined_at(self, level: int, number: int, places: IntArray, cost: int | None) -> FloatArray:
        """Cost of tiles at the boundary of a level and of those joined to it, for a class of loops outside."""
        total = np.zeros(len(places))
        while True:
            total = total + self.sub.tables(cost).at[level][number][places]
            level += 1
            if level == self.depth or not self.sub.space.is_joined(level):
                return total

    def _repeated(self, node: Node, place: int, loops: BoolArray) -> FloatArray:
        """How often loops outside of the slot deliver a dataspace anew that stays in place in it, at least."""
        axes = self.sub.space.tensors[place].axes
        moved = math.prod(bound for axis, bound, _ in node.loops if axis in axes)
        ends = loops[:, list(axes)].any(axis=1)
        return np.where(ends, node.iterations / moved, node.repeats[place] / moved)

    def mappings(self, node: Node) -> Iterator[Mapping]:
        """Yield all mappings inside a node that may improve."""
        self.nodes += 1
        if self.nodes % NODES_AT_ONCE == 0:
            self._check()
        for place, value in zip(*self.candidates(node), strict=True):
            if not self.goal.improves(float(value)):
                return
            yield from self.through(node, int(place))

    def through(self, node: Node, place: int) -> Iterator[Mapping]:
        """Yield those with one tile at the next level."""
        tile = self.grid.tile(place)
        if node.level + 1 == self.depth:
            yield from self._leaves(node, tile)
            return
        inside = self._stepped(node, tile, place)
        for value, child in sorted(inside, key=lambda pair: pair[0]):
            if self.goal.improves(value):
                yield from self.mappings(child)

    def _slot(self, node: Node, tile: Vector) -> Vector:
        pairs = zip(node.tile, tile, self.sub.factors[node.level], strict=True)
        return tuple(outer // (inner * unrolled) for outer, inner, unrolled in pairs)

    def _stepped(self, node: Node, tile: Vector, place: int) -> Iterator[tuple[float, Node]]:
        """Yield the nodes with a tile at the next level, one for each order of the loops outside."""
        factors = self._slot(node, tile)
        level = node.level + 1
        children = tuple(
            (*own, self.sub.stage_children(p, node.level, tile)) for p, own in enumerate(node.children)
        )
        tiles = np.array([place])
        for order in self._orders_of(node.level, factors):
            slot = tuple((axis, factors[axis]) for axis in order)
            if not self._is_held(level, tile, (*node.slots, slot)):
                continue
            loops = (*self._outer_loops(node, tile, slot), *node.loops)
            repeats = tuple(
                self._repeats(p, slot, node.repeats[p], node.iterations) for p in range(len(children))
            )
            iterations = node.iterations * math.prod(factors)
            child = Node(
                level=level,
                tile=tile,
                energy=node.energy,
                loads=node.loads,
                slots=(*node.slots, slot),
                loops=loops,
                repeats=repeats,
                iterations=iterations,
                children=children,
                useless=self._known(node.useless, level, place),
            )
            child = self._charged(child, place, tiles)
            yield self._value(child, place), child

    def _is_held(self, level: int, tile: Vector, slots: Sequence[Sequence[tuple[int, int]]]) -> bool:
        """Whether the formats of what comes to a level have ranks for all loops outside, as far as is known."""
        for tensor in self.sub.space.tensors:
            chain = self.sub.mask.chains[tensor.space.name]
            outer = max((keeper for keeper in chain if keeper < level), default=None)
            if outer is None or (level < self.depth and level not in chain):
                continue
            representation = self.shares.representation(outer, tensor.space.name)
            if representation is None or not representation.compressed:
                continue
            dims = self._moving_dims(tensor, outer, level, slots)
            copied = self._copied_ranks(tensor, level, tile)
            if dims is not None and not has_ranks_for(representation, dims, copied):
                return False
        return True

    def _moving_dims(
        self, tensor: TensorGrid, outer: int, inner: int, slots: Sequence[Sequence[tuple[int, int]]]
    ) -> list[str] | None:
        """Dimensions of the loops between two levels that move a dataspace, outermost first; None if open."""
        found: list[str] = []
        for level in range(outer, inner):
            found += [self.grid.dims[axis] for axis, _ in reversed(slots[level]) if axis in tensor.axes]
            for fanout in self.sub.space.stages[level]:
                factors = self.sub.unrolled.fanouts[fanout]
                live = [axis for axis in tensor.axes if factors[axis] > 1]
                if len(live) > 1:
                    return None
                found += [self.grid.dims[axis] for axis in live]
        return found

    def _copied_ranks(self, tensor: TensorGrid, level: int, tile: Vector) -> int:
        """Ranks that a compressed level has in common with the next inner one, which has a tile."""
        if level == self.depth or tensor.words[self.grid.place(tile)] == 1:
            return 0
        inner = self.shares.representation(level, tensor.space.name)
        return 1 if inner is None else len(inner.ranks)

    def _outer_loops(
        self, node: Node, tile: Vector, slot: Sequence[tuple[int, int]]
    ) -> Iterator[OuterLoop]:
        factors = self.sub.factors[node.level]
        for axis, bound in slot:
            yield axis, bound, tile[axis] * factors[axis]

    def _repeats(self, place: int, slot: Sequence[tuple[int, int]], before: int, iterations: int) -> int:
        axes = self.sub.space.tensors[place].axes
        run = 1
        for n, (axis, bound) in enumerate(slot):
            if axis in axes:
                return iterations * math.prod(own for _, own in slot[n:])
            run *= bound
        return before

    def _known(self, useless: Useless, level: int, place: int) -> Useless:
        """What is known once the tile of a level is."""
        found = []
        for name, known in useless:
            chain = self.sub.mask.chains[name]
            own = self.shares.innermost(self.sub.mask)[name]
            child = next((k for k in chain if k > own[0].place), None)
            if child == level:
                known = min(known, max(float(self.shares.useless(saver, chain)[place]) for saver in own))
            found.append((name, known))
        return tuple(found)

    def _charged(self, node: Node, place: int, tiles: IntArray) -> Node:
        """Add what the boundary of the node's own level costs."""
        delivered: dict[int, float] = {}
        energy, loads = node.energy, list(node.loads)
        for cost in (None, *self.resources):
            total = 0.0
            for number, weight in self.sub.weights(cost)[node.level]:
                if weight.place == self.depth:
                    total += float(self.sub.served(number, weight, tiles)[0])
                    continue
                if number not in delivered:
                    delivered[number] = float(self._delivered(node, number, place))
                total += self._cost(node, number, weight, delivered[number], place)
            if cost is None:
                energy += total
            else:
                loads[cost] += total
        return node._replace(energy=energy, loads=tuple(loads))

    def _cost(self, node: Node, number: int, weight: Weight, words: float, place: int) -> float:
        if weight.per_child:
            words *= math.prod(node.children[number][weight.outer : node.level])
        return max(0.0, max(words - weight.free, 0.0) * float(weight.table[place]) * weight.scale - weight.slack)

    def _delivered(self, node: Node, number: int, place: int) -> float:
        """Words that one instance of the node's level receives of a dataspace."""
        tensor = self.sub.space.tensors[number]
        words = float(tensor.words[place])
        if tensor.space.name in self.shares.levels[node.level].no_temporal_reuse:
            return words * node.iterations
        if tensor.simple:
            return words * node.repeats[number]
        box = dict(zip(self.grid.dims, node.tile, strict=True))
        moves = [
            (bound, displacement(tensor.space, self.grid.dims[axis], inside))
            for axis, bound, inside in node.loops
        ]
        return float(self.rule.delivered_words(extents(tensor.space, box), moves))

    # --------------------------------------------------------------------------------------- orders

    def _orders_of(self, level: int, factors: Vector) -> list[Order]:
        """Orders of the loops of a slot that may cost less than all others."""
        live = tuple(axis for axis, factor in enumerate(factors) if factor > 1)
        key = level, live
        if key not in self._orders:
            self._orders[key] = self._undominated(level, live)
        return self._orders[key]

    def _undominated(self, level: int, live: Order) -> list[Order]:
        best: dict[object, list[tuple[tuple[frozenset[int], ...], Order]]] = {}
        for order in self._allowed(level, live):
            kind, runs = self._signature(level, order)
            known = best.setdefault(kind, [])
            if any(all(a <= b for a, b in zip(runs, other, strict=True)) for other, _ in known):
                continue
            known[:] = [
                (other, kept)
                for other, kept in known
                if not all(a <= b for a, b in zip(other, runs, strict=True))
            ]
            known.append((runs, order))
        return [order for known in best.values() for _, order in known]

    def _allowed(self, level: int, live: Order) -> Iterator[Order]:
        rules, dims = self.shares.mapspace.temporal[level], self.grid.dims
        inner = [dims.index(dim) for dim in rules.inner if dim in dims and dims.index(dim) in live]
        outer = [dims.index(dim) for dim in rules.outer if dim in dims and dims.index(dim) in live]
        for middle in permutations(axis for axis in live if axis not in (*inner, *outer)):
            yield (*inner, *middle, *outer)

    def _signature(self, level: int, order: Order) -> tuple[object, tuple[frozenset[int], ...]]:
        """What sets an order of a slot apart, and by simple dataspace the loops that leave it in place.

        Of orders that are alike in the first, one that leaves more in place is no worse.
        """
        kind: list[object] = []
        runs: list[frozenset[int]] = []
        for tensor in self.sub.space.tensors:
            name, chain = tensor.space.name, self.sub.mask.chains[tensor.space.name]
            run, mover = _run(order, tensor.axes)
            if any(keeper > level for keeper in chain):
                if tensor.simple:
                    runs.append(run)
                else:
                    kind.append(_gaps(order, tensor.axes))
            if self._shapes_ranks(name, level):
                kind.append(tuple(axis for axis in order if axis in tensor.axes))
            if self._is_seen(name, level):
                kind.append((run, mover))
        if level == self.depth - 1 and self._in_blocks:
            kind.append((order[:1], len(order)))
        return tuple(kind), tuple(runs)

    @cached_property
    def _in_blocks(self) -> bool:
        """Whether units see more than one word at a time of what serves the arithmetic."""
        return any(
            self.shares.levels[saver.place].packing_of(name).block_size > 1
            for name, chain in self.sub.mask.chains.items()
            for saver in self.shares.savers(name, chain)
        )

    def _shapes_ranks(self, name: str, level: int) -> bool:
        """Whether the order of a slot's loops shapes ranks of a dataspace."""
        keeper = max((k for k in self.sub.mask.chains[name] if k <= level), default=None)
        representation = None if keeper is None else self.shares.representation(keeper, name)
        if representation is None:
            return False
        own = {self.grid.dims[axis] for axis in self.shares.tensors[name].axes}
        joined = all(own <= {dim for group in rank.flattened for dim in group} and len(rank.flattened) == 1 for rank in representation.ranks)
        return representation.inner_to_outer or not joined

    def _is_seen(self, name: str, level: int) -> bool:
        """Whether units see which loops of a slot leave a dataspace in place."""
        chain = self.sub.mask.chains[name]
        for saver in self.shares.savers(name, chain):
            child = next((k for k in chain if k > saver.place), None)
            if child is not None and saver.place <= level < child:
                return True
        return False

    # --------------------------------------------------------------------------------------- leaves

    def _leaves(self, node: Node, tile: Vector) -> Iterator[Mapping]:
        factors = self._slot(node, tile)
        for order in self._orders_of(node.level, factors):
            slot = tuple((axis, factors[axis]) for axis in order)
            if not self._is_held(self.depth, tile, (*node.slots, slot)):
                continue
            for fanouts in self._arranged:
                yield self._mapping((*node.slots, slot), fanouts)

    @cached_property
    def _arranged(self) -> list[tuple[FanoutMapping, ...]]:
        """All ways to arrange the spatial loops that may differ."""
        mapspace, skips = self.shares.mapspace, self.shares.skips_instances
        options = [
            arrangements(
                fanout,
                mapspace.spatial[number],
                self.grid,
                self.sub.unrolled.fanouts[number],
                skips or self._is_crossed(number),
                skips,
            )
            for number, fanout in enumerate(mapspace.architecture.fanouts)
        ]
        return list(product(*options))

    def _is_crossed(self, fanout: int) -> bool:
        """Whether formats or units see the order of a fanout's loops."""
        for name, chain in self.sub.mask.chains.items():
            units = {saver.place for saver in self.shares.savers(name, chain)}
            for keeper, child in zip(chain, (*chain[1:], self.depth), strict=True):
                sees = keeper in units or self.shares.representation(keeper, name) is not None
                if sees and fanout in self.shares.fanouts_between(keeper, child):
                    return True
        return False

    def _mapping(
        self, slots: Sequence[Sequence[tuple[int, int]]], fanouts: Sequence[FanoutMapping]
    ) -> Mapping:
        architecture, dims = self.shares.mapspace.architecture, self.grid.dims
        nodes: list[NodeMapping] = [FanoutMapping()] * len(architecture.nodes)
        for position, slot, kept in zip(
            architecture.storage_indices, slots, self.sub.mask.kept, strict=True
        ):
            nodes[position] = StorageMapping(tuple(Loop(dims[axis], bound) for axis, bound in slot), kept)
        for position, fanout in zip(architecture.fanout_indices, fanouts, strict=True):
            nodes[position] = fanout
        return Mapping(tuple(nodes))


def _run(order: Order, axes: Sequence[int]) -> tuple[frozenset[int], int | None]:
    """The innermost loops that leave a dataspace in place, and the first one that does not."""
    for n, axis in enumerate(order):
        if axis in axes:
            return frozenset(order[:n]), axis
    return frozenset(order), None


def _gaps(order: Order, axes: Sequence[int]) -> tuple[object, ...]:
    """The loops that move a dataspace in order, and between them those that do not, in any order."""
    found: list[object] = []
    still: set[int] = set()
    for axis in order:
        if axis not in axes:
            still.add(axis)
            continue
        found += [frozenset(still), axis]
        still = set()
    return (*found, frozenset(still))
