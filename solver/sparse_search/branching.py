"""Branching: tiles and loop orders of one subproblem, from the outermost level inwards."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from itertools import chain, permutations, product
from typing import NamedTuple

import numpy as np

from model.cost.counting import displacement, extents
from model.cost.rules import rule_of
from model.mapping import FanoutMapping, Loop, Mapping, NodeMapping, StorageMapping
from model.sparse.fibers import has_ranks_for
from solver.sparse_search.bounds import LEAST, Subproblem, Useless, Weight, staying
from solver.sparse_search.choices import Chain, arrangements
from solver.sparse_search.goal import SparseGoal
from solver.sparse_search.grid import BoolArray, FloatArray, IntArray, TensorGrid, Vector
from solver.sparse_search.shares import Saver

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
    spent
        At all boundaries outside, at least: energy units and cycles of bandwidths, along `Branching.costs`.
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
    spent: tuple[float, ...]
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
        resources = range(len(self.shares.resources)) if goal.counts_cycles else ()
        energy: tuple[int | None, ...] = (None,) if goal.counts_energy else ()
        self.costs = (*energy, *resources)
        self.rule = rule_of(self.shares.mapspace.counting)
        self._orders: dict[tuple[int, Order], list[Order]] = {}
        self.nodes = 0

    @cached_property
    def root(self) -> Node:
        """The whole problem, at the outermost level."""
        places = range(len(self.sub.space.tensors))
        whole = np.array([self.grid.place(self.grid.bounds)])
        spent = (
            math.fsum(
                float(self.sub.served(place, weight, whole)[0])
                for place, weight in self.sub.weights(cost)[0]
                if weight.place == self.depth
            )
            for cost in self.costs
        )
        return Node(
            level=0,
            tile=self.grid.bounds,
            spent=tuple(spent),
            slots=(),
            loops=(),
            repeats=tuple(1 for _ in places),
            iterations=1,
            children=tuple(() for _ in places),
            useless=self._useless_at_first(),
        )

    def _useless_at_first(self) -> Useless:
        sub = self.sub
        return tuple(self.shares.useless_at_first(sub.mask, sub.unrolled.fanouts, sub.needed).items())

    @cached_property
    def rough(self) -> float:
        """Bound on the objective without a look at tiles."""
        return self._one(self._useless_at_first(), [self.sub.asked(cost) for cost in self.costs])

    @cached_property
    def bound(self) -> float:
        """Bound on the objective of all mappings here; infinite if there is none."""
        if not all(len(own) for own in self.sub.tiles):
            return math.inf
        place, bound = self.grid.place(self.grid.bounds), self.rough
        totals = [self.sub.asked(cost) for cost in self.costs]
        for number in range(len(self.costs)):
            if not self.goal.improves(bound):
                return bound
            totals[number] = max(totals[number], self._total(self.root, number, place))
            bound = self._one(self.root.useless, totals)
        return bound

    @property
    def is_bounded(self) -> bool:
        """Whether `bound` is known."""
        return "bound" in self.__dict__

    def _value(self, node: Node, place: int) -> float:
        """Bound on the objective of all mappings inside a node, whose tile has a place."""
        totals = [self._total(node, number, place) for number in range(len(self.costs))]
        return self._one(node.useless, totals)

    def _total(self, node: Node, number: int, place: int) -> float:
        """Bound on one of the costs."""
        cost = self.costs[number]
        joined = self._joined(node.level + 1, self._led(node), place, cost)
        return node.spent[number] + joined + self._behind(node, place, cost)

    def _one(self, useless: Useless, totals: Sequence[float]) -> float:
        return float(self._values(useless, [np.array([total]) for total in totals], 1)[0])

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
                ends = {**begun, **staying(row)}
                own += sum(self._due(node, *end, cost) for end in ends.items())
                least = min(least, own)
        return least

    def _due(self, node: Node, place: int, innermost: int, cost: int | None) -> float:
        """What is due for a dataspace that stays in place up to the node's loops, at least."""
        axes = self.sub.space.tensors[place].axes
        moved = math.prod(bound for axis, bound, _ in node.loops if axis in axes)
        return self.sub.due_once(place, node.level, innermost, node.repeats[place] / moved, cost)

    def _values(self, useless: Useless, totals: Sequence[FloatArray], count: int) -> FloatArray:
        """Bounds on the objective of so many parts; infinite where limits are broken."""
        arithmetic, steps = self.sub.computed(useless)
        cycles, energies = np.full(count, float(steps)), np.zeros(count)
        for cost, total in zip(self.costs, totals, strict=True):
            if cost is None:
                energies = total + arithmetic
            else:
                cycles = np.maximum(cycles, np.ceil(total * LEAST))
        if self.sub.leak_per_cycle:
            energies = energies + self.sub.leak_per_cycle * cycles
        return self.goal.values(energies, cycles + self.sub.latency)

    # ---------------------------------------------------------------------------------------- nodes

    def candidates(self, node: Node) -> tuple[IntArray, FloatArray]:
        """Tiles of the next level that may improve, the most promising ones first, and their bounds."""
        level = node.level
        places = self.grid.inside(node.tile, self.sub.factors[level], self.sub.space.slots[level])
        if level + 1 == self.depth:
            places = places[places == self.grid.place((1,) * len(self.grid.dims))]
            totals = [np.full(len(places), spent) for spent in node.spent]
        else:
            places = places[self.sub.is_tile[level + 1][places]]
            totals = [self._next(node, places, number) for number in range(len(self.costs))]
        values = self._values(node.useless, totals, len(places))
        order = np.argsort(values, kind="stable")
        order = order[np.isfinite(values[order])]
        return places[order], values[order]

    def _next(self, node: Node, places: IntArray, number: int) -> FloatArray:
        """One cost of all that is outside of a node, and inside of it with some tiles at the next level."""
        cost = self.costs[number]
        factors = np.array(self.sub.factors[node.level]) * self.grid.extents[places]
        loops = np.array(node.tile) // factors > 1
        repeated = {place: self._repeated(node, place, loops) for place in range(len(node.repeats))}
        none = ~loops.any(axis=1)
        least = np.full(len(places), np.inf)
        for kind, led in enumerate(self.sub.space.classes):
            within = self.sub.space.led_slots[node.level][kind]
            first = np.array([own <= {1} for own in within])
            possible = loops[:, list(led.axes)].any(axis=1) & ~(loops & first).any(axis=1)
            if self._led(node) in (None, kind):
                possible |= none
            if possible.any():
                total = self._of_class(node, kind, places, cost, repeated)
                least = np.minimum(least, np.where(possible, total, np.inf))
        return node.spent[number] + least

    def _of_class(
        self, node: Node, kind: int, places: IntArray, cost: int | None, repeated: dict[int, FloatArray]
    ) -> FloatArray:
        """Cost inside of a node with some tiles at the next level, and a class of loops right outside."""
        level, moved = node.level + 1, self.sub.space.classes[kind].moved
        tables = self.sub.tables(cost)
        own = sum((tables.at[n][kind][places] for n in self.sub.space.joined(level)), np.zeros(len(places)))
        least = np.full(len(places), np.inf)
        rows = ((row, values) for row, values in tables.inside[level].items())
        for row, values in ((row, own) for row, own in rows if row is None or row[0] not in moved):
            total = own + values[places]
            for place, innermost in {**self.sub.begun(level, kind), **staying(row)}.items():
                total = total + self.sub.due(place, node.level, innermost, repeated[place], cost)
            least = np.minimum(least, total)
        return least

    def _repeated(self, node: Node, place: int, loops: BoolArray) -> FloatArray:
        """How often loops outside of a slot deliver anew what stays in place in it, at least."""
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
                spent=node.spent,
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
        """Whether formats have ranks for all loops outside of what comes to a level, as far as is known."""
        return all(self._has_ranks(tensor, level, tile, slots) for tensor in self.sub.space.tensors)

    def _has_ranks(
        self, tensor: TensorGrid, level: int, tile: Vector, slots: Sequence[Sequence[tuple[int, int]]]
    ) -> bool:
        chain = self.sub.mask.chains[tensor.space.name]
        outer = max((keeper for keeper in chain if keeper < level), default=None)
        if outer is None or (level < self.depth and level not in chain):
            return True
        representation = self.shares.representation(outer, tensor.space.name)
        if representation is None or not representation.compressed:
            return True
        dims = self._moving_dims(tensor, outer, level, slots)
        return dims is None or has_ranks_for(representation, dims, self._copied_ranks(tensor, level, tile))

    def _moving_dims(
        self, tensor: TensorGrid, outer: int, inner: int, slots: Sequence[Sequence[tuple[int, int]]]
    ) -> list[str] | None:
        """Dimensions of the loops between two levels that move a dataspace, outermost first; None if open."""
        found: list[int] = []
        for level in range(outer, inner):
            found += [axis for axis, _ in reversed(slots[level]) if axis in tensor.axes]
            unrolled = (self.sub.unrolled.fanouts[fanout] for fanout in self.sub.space.stages[level])
            live = [[axis for axis in tensor.axes if factors[axis] > 1] for factors in unrolled]
            if any(len(axes) > 1 for axes in live):
                return None
            found += chain.from_iterable(live)
        return [self.grid.dims[axis] for axis in found]

    def _copied_ranks(self, tensor: TensorGrid, level: int, tile: Vector) -> int:
        """Ranks that a compressed level has in common with the next inner one, which has a tile."""
        if level == self.depth or tensor.words[self.grid.place(tile)] == 1:
            return 0
        inner = self.shares.representation(level, tensor.space.name)
        return 1 if inner is None else len(inner.ranks)

    def _outer_loops(self, node: Node, tile: Vector, slot: Sequence[tuple[int, int]]) -> Iterator[OuterLoop]:
        factors = self.sub.factors[node.level]
        for axis, bound in slot:
            yield axis, bound, tile[axis] * factors[axis]

    def _repeats(self, place: int, slot: Sequence[tuple[int, int]], before: int, iterations: int) -> int:
        axes = self.sub.space.tensors[place].axes
        first = next((n for n, (axis, _) in enumerate(slot) if axis in axes), None)
        return before if first is None else iterations * math.prod(bound for _, bound in slot[first:])

    def _known(self, useless: Useless, level: int, place: int) -> Useless:
        """What is known once the tile of a level is."""
        innermost = self.shares.innermost(self.sub.mask)
        return tuple(
            (name, min(known, self._seen(name, innermost[name], level, place))) for name, known in useless
        )

    def _seen(self, name: str, savers: Sequence[Saver], level: int, place: int) -> float:
        """What units save at most if they are right outside of a level, whose tile is known."""
        own, fanouts = self.sub.mask.chains[name], self.sub.unrolled.fanouts
        if self.shares.skips_instances or len({saver.place for saver in savers}) != 1:
            return 1.0
        if next((keeper for keeper in own if keeper > savers[0].place), None) != level:
            return 1.0
        return max(float(self.shares.useless(saver, own, fanouts)[place]) for saver in savers)

    def _charged(self, node: Node, place: int, tiles: IntArray) -> Node:
        """Add what the boundary of the node's own level costs."""
        delivered: dict[int, float] = {}
        weights = (self.sub.weights(cost)[node.level] for cost in self.costs)
        spent = tuple(
            before + sum(self._cost(node, *pair, delivered, place, tiles) for pair in pairs)
            for before, pairs in zip(node.spent, weights, strict=True)
        )
        return node._replace(spent=spent)

    def _cost(
        self,
        node: Node,
        number: int,
        weight: Weight,
        delivered: dict[int, float],
        place: int,
        tiles: IntArray,
    ) -> float:
        if weight.place == self.depth:
            return float(self.sub.served(number, weight, tiles)[0])
        if number not in delivered:
            delivered[number] = self._delivered(node, number, place)
        words = delivered[number]
        if weight.per_child:
            words *= math.prod(node.children[number][weight.outer : node.level])
        return max(
            0.0, max(words - weight.free, 0.0) * float(weight.table[place]) * weight.scale - weight.slack
        )

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
            goes_on = any(keeper > level for keeper in chain)
            if goes_on and tensor.simple:
                runs.append(run)
            elif goes_on:
                kind.append(_gaps(order, tensor.axes))
            moving = tuple(axis for axis in order if axis in tensor.axes)
            keeper = max((k for k in chain if k <= level), default=None)
            kind.append(() if keeper is None else moving[: self._told_apart(name, keeper, moving)])
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

    def _told_apart(self, name: str, keeper: int, moving: Sequence[int]) -> int | None:
        """Innermost loops of a node whose order shapes ranks of a level's tiles; None if all do.

        Ranks that are left over reach from the innermost loop outwards. Where a dimension has no loop at the
        node, a loop of bound 1 is innermost.
        """
        representation = self.shares.representation(keeper, name)
        if representation is None:
            return 0
        own = self.shares.tensors[name].space.dims
        joined = all(
            own <= {dim for group in rank.flattened for dim in group} and len(rank.flattened) == 1
            for rank in representation.ranks
        )
        if representation.inner_to_outer or not joined:
            return None
        return 1 if len(representation.ranks) > 1 and len(moving) == len(own) else 0

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
        mapspace, needed = self.shares.mapspace, self.sub.needed
        options = [
            arrangements(
                fanout,
                mapspace.spatial[number],
                self.grid,
                self.sub.unrolled.fanouts[number],
                needed is not None or self._is_crossed(number),
                needed is not None and not needed.needs_all(number),
            )
            for number, fanout in enumerate(mapspace.architecture.fanouts)
        ]
        return list(product(*options))

    def _is_crossed(self, fanout: int) -> bool:
        """Whether formats or units see the order of a fanout's loops."""
        return any(self._crosses(name, own, fanout) for name, own in self.sub.mask.chains.items())

    def _crosses(self, name: str, own: Chain, fanout: int) -> bool:
        units = {saver.place for saver in self.shares.savers(name, own)}
        factors = self.sub.unrolled.fanouts[fanout]
        moving = [axis for axis in self.shares.tensors[name].axes if factors[axis] > 1]
        return any(
            fanout in self.shares.fanouts_between(keeper, child)
            for keeper, child in zip(own, (*own[1:], self.depth), strict=True)
            if keeper in units or self._told_apart(name, keeper, moving) != 0
        )

    def _mapping(
        self, slots: Sequence[Sequence[tuple[int, int]]], fanouts: Sequence[FanoutMapping]
    ) -> Mapping:
        architecture, dims = self.shares.mapspace.architecture, self.grid.dims
        nodes: list[NodeMapping] = [FanoutMapping()] * len(architecture.nodes)
        for position, slot, kept in zip(architecture.storage_indices, slots, self.sub.mask.kept, strict=True):
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
