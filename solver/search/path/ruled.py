"""Words and orders by Timeloop's and AccelForge's rules, which do not count what an execution moves.

Both count the words of one instance, and no remainders, so that all instances do the same.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import cached_property

from model.architecture import Fanout
from model.cost.nest import Nest, build_nest
from model.cost.traffic import distinct_children
from model.counting.words import Vector, displacement, extents, fresh_words
from model.mapping import FanoutMapping, Loop, Mapping, NodeMapping, SpatialLoop, StorageMapping
from solver.search.path.costs import Above, BoundaryCosts, BoundaryPrice, BoundaryWords, Loads
from solver.search.path.orders import Dims, Orders, Slot
from solver.search.path.words import DimLoops
from solver.search.space.dataspaces import DataspaceView
from solver.search.space.keep_masks import Chain

PARTS = 10**12
"""Loads are one of so many parts less: by Timeloop's rule cycles are quotients of doubles."""


class RuledCosts(BoundaryCosts):
    """Words of one instance, and prices, by Timeloop's or AccelForge's rule; words of windows at least."""

    def _listed(self, place: int, chain: Chain) -> Iterator[BoundaryWords]:
        for part in super()._listed(place, chain):
            yield part._replace(by_order=part.boundary < len(self._space.levels) and self._tells(part))

    def _tells(self, part: BoundaryWords) -> bool:
        """Whether the order of loops matters to words of a part."""
        ends = part.place, part.boundary
        return self._space.reuses(*ends) or self._space.overlaps(*ends)

    def by_instance(self, part: BoundaryWords, lines: Sequence[DimLoops]) -> Iterator[BoundaryWords]:
        """The accesses of one instance, as all do the same."""
        yield part._replace(shares=(0,) * len(lines))

    def price(
        self, part: BoundaryWords, lines: Sequence[DimLoops], above: Above
    ) -> tuple[BoundaryPrice, int]:
        """Return what words of a part cost, and how many come whatever loops bring."""
        key = part, above, tuple(line.extents for line in lines)
        if key not in self._prices:
            words = math.prod(self._tile(part, lines)) * self._asked(part, lines)
            if not (part.by_order and self._space.by_order):
                words *= math.prod(own for line in lines for own in line.temporal[: part.boundary])
            self._prices[key] = self._price(part, lines), words
        return self._prices[key]

    def _tile(self, part: BoundaryWords, lines: Sequence[DimLoops]) -> Vector:
        """Extents of what comes to one instance."""
        tile = {dim: own.extents[part.boundary] for dim, own in zip(self._space.active, lines, strict=True)}
        return extents(self._space.problem.dataspaces[part.place], tile)

    def _asked(self, part: BoundaryWords, lines: Sequence[DimLoops]) -> int:
        """Accesses of one instance, or of all together, for each word that an instance of a boundary gets."""
        nest, architecture = self._nest(lines), self._space.architecture
        space, rule = self._space.problem.dataspaces[part.place], self._space.mapspace.counting_rule
        outer, inner = self._positions[part.level], self._positions[part.boundary]
        fanouts = (own for own in architecture.fanout_indices if outer < own < inner)
        served = math.prod(distinct_children(architecture, nest, space, own, rule.copies) for own in fanouts)
        return served * (nest.instances(outer) if part.shares is None else 1)

    def _firsts(self, part: BoundaryWords, lines: Sequence[DimLoops]) -> tuple[int, int]:
        """Words of an output that are touched for the first time, of one instance, or of all together."""
        if not self._space.views[part.place].read_write:
            return 0, 0
        nest, space = self._nest(lines), self._space.problem.dataspaces[part.place]
        touched = self._space.mapspace.counting_rule.touched(self._space.architecture, nest, space)
        position = self._positions[part.level]
        used = nest.instances(position) if part.shares is None else 1
        return touched(position, self._positions[part.boundary]) * used, touched(position, position) * used

    @cached_property
    def _positions(self) -> tuple[int, ...]:
        """Of the levels in the architecture, and of the compute."""
        architecture = self._space.architecture
        return (*architecture.storage_indices, len(architecture.nodes))

    def _nest(self, lines: Sequence[DimLoops]) -> Nest:
        """The loops, in any order; the last nest is remembered."""
        key = tuple(lines)
        if self._last_nest is None or self._last_nest[0] != key:
            problem, architecture = self._space.problem, self._space.architecture
            nodes = tuple(self._node(lines, place) for place in range(len(architecture.nodes)))
            self._last_nest = key, build_nest(problem, architecture, Mapping(nodes))
        return self._last_nest[1]

    _last_nest: tuple[tuple[DimLoops, ...], Nest] | None = None

    def _node(self, lines: Sequence[DimLoops], place: int) -> NodeMapping:
        pairs = list(zip(self._space.active, lines, strict=True))
        if isinstance(self._space.architecture.nodes[place], Fanout):
            loops = ((dim, own.bound) for dim, line in pairs for own in line.spatial if own.place == place)
            return FanoutMapping(tuple(SpatialLoop(dim, bound, "x") for dim, bound in loops))
        level = self._positions.index(place)
        return StorageMapping(tuple(Loop(dim, line.temporal[level]) for dim, line in pairs), frozenset())

    def _brought_by(
        self, part: BoundaryWords, lines: Sequence[DimLoops], level: int, orders: Sequence[Dims]
    ) -> tuple[int, ...]:
        brought = self._moved if self._space.by_order else self._kept_in_place
        asked, tile = self._asked(part, lines), self._tile(part, lines)
        return tuple(asked * brought(part, lines, tile, level, order) for order in orders)

    def _moves(self, part: BoundaryWords, lines: Sequence[DimLoops], level: int) -> dict[int, Vector]:
        """How far the loops of a level move a tile."""
        space, names = self._space.problem.dataspaces[part.place], self._space.active
        live = (d for d, line in enumerate(lines) if line.temporal[level] > 1)
        return {d: displacement(space, names[d], lines[d].strides[level]) for d in live}

    def _moved(
        self, part: BoundaryWords, lines: Sequence[DimLoops], tile: Vector, level: int, order: Dims
    ) -> int:
        """Words that loops of a level bring in an order, at least, by Timeloop's rule.

        Which loop farther in leads may be open: a loop keeps what overlaps if it goes on as any of them does.
        """
        position, leads = [0] * len(tile), set[Vector]()
        for inner in reversed(range(level + 1, part.boundary)):
            moves = self._moves(part, lines, inner).values()
            leads = leads or {move for move in moves if any(move)}
            position = [sum(column) for column in zip(position, *moves, strict=True)]
        own = self._moves(part, lines, level)
        left = math.prod(own for line in lines for own in line.temporal[: level + 1])
        total, whole = 0, math.prod(tile)
        for d in order:
            leads = leads or {move for move in (own[d],) if any(move)}
            jump = tuple(step - at for step, at in zip(own[d], position, strict=True))
            outside = left // lines[d].temporal[level]
            fresh = fresh_words(tile, jump) if jump in leads else whole
            total += (left - outside) * (fresh if any(jump) else 0)
            position = [at + step for at, step in zip(position, own[d], strict=True)]
            left = outside
        return total

    def _kept_in_place(
        self, part: BoundaryWords, lines: Sequence[DimLoops], tile: Vector, level: int, order: Dims
    ) -> int:
        """Words, below 0, that the innermost loop of all need not bring, by AccelForge's rule."""
        inner = range(level + 1, part.boundary)
        if not order or any(line.temporal[n] > 1 for line in lines for n in inner):
            return 0
        d = order[0]
        move = self._moves(part, lines, level)[d]
        if not any(move):
            return 0
        steps = math.prod(own for line in lines for own in line.temporal[: part.boundary])
        return -(steps - steps // lines[d].temporal[level]) * (math.prod(tile) - fresh_words(tile, move))

    @cached_property
    def units(self) -> tuple[int, ...]:
        """Per resource, what its loads count a cycle as."""
        return tuple(PARTS * own for own in super().units)

    @cached_property
    def besides(self) -> Loads:
        """What loads resources besides words, at least."""
        return tuple(own // PARTS * (PARTS - 1) for own in super().besides)

    def _rates_of(self, name: str, number: int) -> Iterator[tuple[int, int]]:
        for read, written in super()._rates_of(name, number):
            yield read // PARTS * (PARTS - 1), written // PARTS * (PARTS - 1)


class RuledOrders(Orders):
    """Orders that Timeloop's or AccelForge's rule tells apart."""

    def _seen(self, level: int, order: Dims) -> object:
        """What dataspaces with windows see: by AccelForge's rule only the innermost loop."""
        del level
        views = [view for view in self._space.views if view.window_dims]
        if not self._space.by_order:
            return tuple(order[:1] if view.window_dims.issuperset(order[:1]) else () for view in views)
        return tuple(map(gaps, (_until_ended(view, order) for view in views), (v.relevant for v in views)))

    def _is_settled(self, slot: Slot, views: Sequence[DataspaceView], first: Sequence[str]) -> bool:
        """Whether orders that begin so are all of one kind."""
        if not self._space.by_order:
            return bool(first) or not self._space.window_dims
        return super()._is_settled(slot, views, first)


def _until_ended(view: DataspaceView, order: Dims) -> Dims:
    """The innermost loops up to one that moves a tile to where nothing overlaps: all others multiply."""
    ending = view.relevant - view.window_dims
    ends = (n for n, d in enumerate(order) if d in ending)
    return order[: next(ends, len(order) - 1) + 1]


def gaps(order: Dims, axes: frozenset[int] | Sequence[int]) -> tuple[object, ...]:
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
