"""Partial mappings, and the loops of one slot inside them, seen by each dataspace for many tiles at once."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from solver.search.arrays import BoolArray, FloatArray, IntArray
from solver.search.bounds.boundary import Boundary, ceil_div
from solver.search.bounds.lattice_bounds import AnyBounds
from solver.search.space.dataspaces import Component, DataspaceView
from solver.search.space.lattice import INFINITY
from solver.search.space.orders import Group, OrderClass
from solver.search.space.search_space import SearchSpace
from solver.search.space.spatial import StageChoice
from solver.search.space.windows import (
    NOWHERE,
    Along,
    Lead,
    Words,
    least_jumps,
    least_jumps_outside,
    least_words,
)

SlotMoves = tuple[tuple[int, int], ...]
"""Words per iteration by which each loop of a slot moves a component, and its iterations, in no order."""


class Moved(NamedTuple):
    """How the loops outside of a tile move a dataspace along its windows.

    Parameters
    ----------
    first
        Dimensions over which the innermost of them may run that moves the dataspace at all.
    parts
        Per component along which tiles may overlap, the tile's positions along it and the loops that may be
        the innermost to move it so, all figures scalars. Slots outside of one that moves the dataspace to
        where nothing overlaps do not count.
    repeats
        Iterations of loops, up to such a slot, that repeat deliveries; 0 if there is no such slot.
    """

    first: frozenset[int]
    parts: tuple[tuple[int, tuple[Lead, ...]], ...]
    repeats: int = 0


def unmoved(view: DataspaceView) -> Moved:
    """No loop moves the dataspace."""
    return Moved(frozenset(), ((1, ()),) * sum(c.sliding for c in view.components))


NodeState = tuple[object, ...]
"""Level, tile, ``in_place``, ``signature`` and ``moved`` of a node, and the moves of its windows outside."""


Loops = frozenset[tuple[int, int]]
"""Loops by level and dimension."""


class Movers(NamedTuple):
    """Loops that move a tile between two deliveries.

    Parameters
    ----------
    level
        Of the innermost ones.
    loops
        One of them is inside of all others of their slot that move the tile.
    farther
        The same of slots outside, whose loops move it between deliveries that loops outside of all repeat.
    """

    level: int
    loops: Loops
    farther: tuple[Loops, ...]


Delivered = tuple[tuple[int, int, int], ...]
"""(dataspace, level, words of one instance) of the boundaries outside of a tile."""


@dataclass(frozen=True)
class Node:
    """A partial mapping: everything outside of the tile of `level` is decided.

    Parameters
    ----------
    level, tile
        The level, and the lattice index of its tile.
    spent, least
        Cost of the boundaries of `level` and outside, exactly but for sliding windows, and a lower bound
        on that of all boundaries; both in quanta beyond what `LatticeBounds.constant` counts.
    value, busiest
        Lower bounds on the objective, rounded, and on the load of any resource, in cycles.
    loads
        Load of each resource by the boundaries of `level` and outside, and by the compute, in cycles.
    delivered
        What each of these boundaries gets, a lower bound like `spent`.
    in_place, signature
        Per dataspace, the product of the loops directly outside of the tile that leave it in place; and the
        dataspaces that the innermost of these loops leaves in place (None: no loop yet).
    path, orders, spatial
        Per level outside, iterations of its loops per dimension, the class of their orders, and the
        spatial choice below it.
    extents
        Per level outside, what one iteration of its loops spans: the tile inside, times the spatial factors
        between.
    moved
        Per dataspace, how the loops outside of the tile move it.
    tiles
        Lattice indices of the tiles of all levels so far.
    held, movers, farther
        Only with remainders. Per dataspace, the loops (level, dimension) directly outside of the tile that
        leave it in place; those that move the tile between two deliveries, and those that do so for any tile
        farther in, the innermost first.
    """

    level: int
    tile: int
    spent: int
    least: int
    value: float
    busiest: float
    loads: FloatArray
    delivered: Delivered
    in_place: tuple[int, ...]
    signature: frozenset[int] | None
    path: tuple[tuple[int, ...], ...]
    orders: tuple[OrderClass, ...]
    spatial: tuple[StageChoice, ...]
    extents: tuple[tuple[int, ...], ...]
    moved: tuple[Moved, ...]
    tiles: tuple[int, ...]
    held: tuple[frozenset[tuple[int, int]], ...] = ()
    movers: tuple[Movers | None, ...] = ()
    farther: tuple[tuple[Loops, ...], ...] = ()

    def state(self, views: Sequence[DataspaceView]) -> NodeState:
        """All that the bounds of what lies inside depend on."""
        moves = tuple(
            tuple(self.moves_outside(view, c)) for view in views for c in view.components if c.slides_in_line
        )
        if self.held:
            spatial = tuple(choice.factors for choice in self.spatial)
            return (self.tiles, self.held, self.movers, self.farther, self.signature, self.path, spatial)
        return (self.level, self.tile, self.in_place, self.signature, self.moved, moves)

    def moves_outside(self, view: DataspaceView, component: Component) -> Iterator[SlotMoves]:
        """How far the loops outside of the tile move `component`, slot by slot outwards.

        It ends with the first slot that also moves the dataspace to where nothing overlaps.
        """
        for loops, inner in zip(reversed(self.path), reversed(self.extents), strict=True):
            moving = (d for d in component.dims if loops[d] > 1)
            yield tuple((inner[d] * component.coefficient(d), loops[d]) for d in moving)
            if any(loops[d] > 1 for d in view.apart):
                return


@dataclass(frozen=True)
class InnerTiles:
    """Tiles one level inside a node that may come next, with one spatial choice.

    Parameters
    ----------
    places, tiles
        Places in the stage's tables and lattice indices, shape (tiles,).
    loops
        Iterations of the loops between the node's tile and each of them, shape (tiles, dimensions).
    member
        The spatial choice.
    """

    places: IntArray
    tiles: IntArray
    loops: IntArray
    member: StageChoice

    def only(self, chosen: BoolArray) -> InnerTiles:
        """The tiles where `chosen`, shape (tiles,), is true."""
        return InnerTiles(self.places[chosen], self.tiles[chosen], self.loops[chosen], self.member)


def lonely_tiles(tiles: IntArray, factor: IntArray, inside: IntArray) -> tuple[IntArray, BoolArray]:
    """Tiles that are the only one of their pass of a loop, and whether the last of all tiles is one.

    Each iteration of the loop has `inside` tiles, one per child.
    """
    rounds, more = tiles // inside, tiles % inside
    first = rounds % factor == 0  # whether the last, partial round is the first of a pass
    before = (rounds - 1) % factor == 0
    alone = more * first + np.where(rounds > 0, (inside - more) * before, 0)
    last = np.where(more > 0, first, before)
    return np.where(factor > 1, alone, 0), last & (factor > 1)


class Walk:
    """Walks over the loops of one slot, innermost first, for many candidate tiles at once.

    ``runs[v]`` multiplies up the innermost loops that leave dataspace v in place, ``alive[v]`` tells
    whether that is all of them, and ``first`` numbers the group of the innermost loop, -1 for none. All have
    shape (candidates,).

    Parameters
    ----------
    node
        What lies outside of the slot.
    candidates
        Tiles inside of it.
    order
        Class of the orders of its loops.
    together
        Whether each other loop has one of the innermost group inside that moves windows elsewhere, if it has
        such loops; see `SlotPairs.split`.
    """

    def __init__(
        self,
        space: SearchSpace,
        node: Node,
        candidates: InnerTiles,
        order: OrderClass,
        together: bool = True,
    ) -> None:
        count = len(candidates.tiles)
        self.space = space
        self.node = node
        self.candidates = candidates
        self.order = order
        self.together = together
        self.runs = [np.ones(count, dtype=np.int64) for _ in space.views]
        self.alive = [np.ones(count, dtype=np.bool_) for _ in space.views]
        self.first = np.full(count, -1, dtype=np.int64)
        self._known_parts: dict[int, tuple[tuple[IntArray, tuple[Lead, ...]], ...]] = {}
        self.kept_in_place = [np.zeros((count, len(space.active)), dtype=np.bool_) for _ in space.views]
        for number, group in enumerate(order.groups):
            moving = self._product(group.dims) > 1
            self.first[(self.first < 0) & moving] = number
            for view in space.views if space.by_order else ():
                self._step(view, group)
        if not space.by_order:
            self.alive = [self.first < 0 for _ in space.views]
            return
        for place, (run, alive) in enumerate(zip(self.runs, self.alive, strict=True)):
            run[alive] *= node.in_place[place]
            if not together:
                run[~alive] //= self._shortened(place)[~alive]

    def _product(self, dims: Sequence[int]) -> IntArray:
        product: IntArray = self.candidates.loops[:, list(dims)].prod(axis=1)
        return product

    def _step(self, view: DataspaceView, group: Group) -> None:
        place, dims = view.place, group.dims
        alive = self.alive[place]
        still = [d for d in dims if d in view.irrelevant]
        if still:
            self.runs[place][alive] *= self._product(still)[alive]
            self.kept_in_place[place][:, still] |= alive[:, None]
        if len(still) < len(dims):
            moved = alive & (self._product([d for d in dims if d in view.relevant]) > 1)
            self.alive[place] = alive & ~moved

    def may_lead(self, view: DataspaceView, dim: int) -> BoolArray:
        """Candidates whose loop over `dim` may be the innermost one of the slot that moves a dataspace.

        In an order that the class stands for, a dataspace that the innermost group moves is moved by the
        innermost loop; that is one of the group, or one that moves everything. Other orders are not known.
        By AccelForge's rule it is the innermost loop or none.
        """
        if not self.space.by_order:
            groups = [n for n, group in enumerate(self.order.groups) if dim in group.dims]
            innermost: BoolArray = np.isin(self.first, groups) & (self.candidates.loops[:, dim] > 1)
            return innermost
        lead = ~self.alive[view.place] & (self.candidates.loops[:, dim] > 1)
        if not self.space.left_in_place(dim):
            return lead
        for number, group in enumerate(self.order.groups):
            if view.place not in group.signature and dim not in group.dims:
                lead = lead & (self.first != number)
        return lead

    def delivered(self, boundary: Boundary) -> IntArray:
        """Words delivered per instance, a lower bound where windows slide, exact otherwise.

        Returns
        -------
        IntArray
            Shape (candidates,), rounded up.
        """
        place, tiles, tables = boundary.place, self.candidates.tiles, self.space.tables[boundary.place]
        irrelevant, instances = tables.irrelevant_tiles[tiles], boundary.sub.above[boundary.level]
        if self.space.overlaps(place, boundary.level):
            return ceil_div(self._words(place, tiles).repeated * irrelevant, instances)
        if not self.space.reuses(place, boundary.level):
            return ceil_div(tables.plain_words[tiles] * irrelevant, instances)
        runs = self.runs[place]
        if not boundary.sliding:
            return -(-tables.plain_words[tiles] * irrelevant // (instances * runs))
        repeated, begun = self._words(place, tiles)
        unused = boundary.sub.unused_above(place, boundary.level)
        outside = -(-irrelevant // (unused * runs))
        inside = self._repeats(place, outside)
        total = (repeated * (inside - 1) + begun) * (outside // inside)
        return np.maximum(ceil_div(total * unused, instances), boundary.once_words)

    def held(self, candidate: int) -> tuple[frozenset[tuple[int, int]], ...]:
        """Per dataspace, the loops directly outside of a candidate's tile that leave it in place."""
        result = []
        for view in self.space.views:
            dims = np.flatnonzero(self.kept_in_place[view.place][candidate]).tolist()
            here = frozenset((self.node.level, d) for d in dims)
            alive = self.alive[view.place][candidate]
            result.append(here | self.node.held[view.place] if alive else here)
        return tuple(result)

    def movers(self, candidate: int) -> tuple[Movers | None, ...]:
        """Per dataspace, the loops outside of a tile that move it between two deliveries."""
        return tuple(
            outer
            if self.alive[view.place][candidate]
            else Movers(self.node.level, self._leading(view, candidate), self._all_moving(view, candidate))
            for view, outer in zip(self.space.views, self.node.movers, strict=True)
        )

    def _all_moving(self, view: DataspaceView, candidate: int) -> tuple[Loops, ...]:
        """Loops that move a dataspace between deliveries of loops outside of the slot."""
        live = (d for d in sorted(view.relevant) if self.candidates.loops[candidate, d] > 1)
        return (*(frozenset(((self.node.level, d),)) for d in live), *self.node.farther[view.place])

    def farther(self, candidate: int) -> tuple[tuple[Loops, ...], ...]:
        """Per dataspace, loops that also move its tiles farther in."""
        return tuple(self._farther(view, candidate) for view in self.space.views)

    def _farther(self, view: DataspaceView, candidate: int) -> tuple[Loops, ...]:
        """None outside of a loop that repeats deliveries."""
        outer = self.node.farther[view.place]
        if self.kept_in_place[view.place][candidate].any():
            return ()
        if self.repeating(view)[candidate]:
            outer = ()
        moved = not self.alive[view.place][candidate]
        return (self._leading(view, candidate), *outer) if moved else outer

    def repeating(self, view: DataspaceView) -> BoolArray:
        """Candidates with loops of the slot that repeat deliveries of a dataspace."""
        still = sorted(view.irrelevant)
        live = (self.candidates.loops[:, still] > 1) & ~self.kept_in_place[view.place][:, still]
        repeating: BoolArray = np.logical_or.reduce(live, axis=1)
        return repeating

    def _leading(self, view: DataspaceView, candidate: int) -> Loops:
        """Loops (level, dimension) of the slot that may be the first to move a dataspace."""
        dims = (d for d in view.relevant if self.may_lead(view, d)[candidate])
        return frozenset((self.node.level, d) for d in dims)

    def _repeats(self, place: int, outside: IntArray) -> IntArray:
        """Iterations, of those `outside`, that repeat deliveries until a loop begins with a whole tile."""
        known = self._within(self.space.views[place])
        return np.where(known > 0, known, outside)

    def _within(self, view: DataspaceView) -> IntArray:
        """The same; 0 where that may be all."""
        outside = self.node.moved[view.place].repeats
        still = self._product(sorted(view.irrelevant)) // self.runs[view.place]
        here = still
        if self.together:
            here = np.where(self._led_elsewhere(view), 1, still)
        # Loops that left the tile outside in place repeat what this slot's loops deliver.
        moved = np.where(self._elsewhere(view), here, still * outside * self.node.in_place[view.place])
        return np.where(self.alive[view.place], outside, moved)

    @cached_property
    def splits(self) -> BoolArray:
        """Candidates with a loop that may lie inside of the innermost group, see `SlotPairs.split`."""
        splits = np.zeros(len(self.first), dtype=np.bool_)
        everywhere = [d for d in range(len(self.space.active)) if not self.space.left_in_place(d)]
        inner = self._product(everywhere) > 1
        for number, group in enumerate(self.order.groups):
            live = (self.candidates.loops[:, list(group.dims)] > 1).sum(axis=1)
            others = self.candidates.loops.prod(axis=1) > self._product(group.dims)
            splits |= (self.first == number) & ((live > 1) | (live > 0) & inner) & others
        return splits & (self._fewest_elsewhere > 1)

    @cached_property
    def _fewest_elsewhere(self) -> IntArray:
        """Iterations of the innermost group's loops that move a window elsewhere, see `SlotPairs`."""
        fewest = np.full(len(self.first), NOWHERE, dtype=np.int64)
        for number, group in enumerate(self.order.groups):
            loose = (v for v in self.space.views if v.window_dims and v.place not in group.signature)
            for view in loose:
                moves = self._product(sorted(view.apart.intersection(group.dims)))
                fewer = (self.first == number) & (moves > 1)
                fewest = np.where(fewer, np.minimum(fewest, moves), fewest)
        return np.where(fewest < NOWHERE, fewest, 1)

    def _shortened(self, place: int) -> IntArray:
        """By what factor reuse of a dataspace is shorter in such an order."""
        shortened = np.ones(len(self.first), dtype=np.int64)
        for number, group in enumerate(self.order.groups):
            if place in group.signature and self.space.views[place].irrelevant <= set(group.dims):
                chosen = (self.first == number) & self.splits
                shortened = np.where(chosen, self._fewest_elsewhere, shortened)
        return shortened

    def _words(self, place: int, tiles: IntArray) -> Words:
        """Least words of all deliveries of a dataspace's windows."""
        view, tables, alive = self.space.views[place], self.space.tables[place], self.alive[place]
        outside = self.node.moved[place].first

        def first(lead: Lead) -> BoolArray:
            carried: BoolArray = lead.live & alive if lead.dim in outside else np.zeros_like(alive)
            return carried | lead.live & self.may_lead(view, lead.dim)

        boxes = (tables.boxes[n][tiles] for n, c in enumerate(view.components) if c.sliding)
        parts = [Along(box, *part) for box, part in zip(boxes, self._parts(view), strict=True)]
        return least_words(tables.plain_words[tiles], parts, first)

    def _elsewhere(self, view: DataspaceView) -> BoolArray:
        """Candidates whose loops move a dataspace to where nothing overlaps."""
        return self._product(sorted(view.apart)) > 1

    def _led_elsewhere(self, view: DataspaceView) -> BoolArray:
        """Candidates whose innermost group moves a dataspace to where nothing overlaps."""
        elsewhere = np.zeros(len(self.first), dtype=np.bool_)
        for number, group in enumerate(self.order.groups):
            if view.place not in group.signature:
                moved = self._product(sorted(view.apart.intersection(group.dims))) > 1
                elsewhere |= (self.first == number) & moved
        return elsewhere

    def _parts(self, view: DataspaceView) -> tuple[tuple[IntArray, tuple[Lead, ...]], ...]:
        """Per sliding component, positions of the tiles along it and the loops that may lead there."""
        if view.place not in self._known_parts:
            sliding = [component for component in view.components if component.sliding]
            outside = self.node.moved[view.place].parts
            self._known_parts[view.place] = tuple(
                self._part(view, component, *part) for component, part in zip(sliding, outside, strict=True)
            )
        return self._known_parts[view.place]

    def _part(
        self, view: DataspaceView, component: Component, every: int, leads: tuple[Lead, ...]
    ) -> tuple[IntArray, tuple[Lead, ...]]:
        inside, elsewhere = self._product(component.dims), self._elsewhere(view)
        carried = tuple(lead._replace(live=(inside == 1) & ~elsewhere) for lead in leads)
        loops = self.candidates.loops
        here = tuple(self._lead(view, component, d) for d in component.dims if (loops[:, d] > 1).any())
        if self.together:
            # What lies outside of the innermost group begins with a whole tile.
            led_elsewhere = self._led_elsewhere(view)
            here = tuple(lead._replace(back=np.where(led_elsewhere, NOWHERE, lead.back)) for lead in here)
        return np.where(elsewhere, inside, inside * every), (*here, *carried)

    def _lead(self, view: DataspaceView, component: Component, dim: int) -> Lead:
        """The slot's loop over `dim` as the innermost one that moves a component."""
        bound = self.candidates.loops[:, dim]
        if not component.linear:
            return Lead(dim, bound > 1, bound, 0, 0, 0)
        along, back = self._least_jumps(view, component, dim)
        return Lead(dim, bound > 1, bound, np.abs(self._moves(component, dim)), along, back)

    def moved(self, candidate: int) -> tuple[Moved, ...]:
        """Per dataspace, how the loops outside of a candidate's tile move it."""
        return tuple(self._moved(view, candidate) for view in self.space.views)

    def _moved(self, view: DataspaceView, candidate: int) -> Moved:
        if not view.window_dims:
            return self.node.moved[view.place]
        first = self.node.moved[view.place].first
        repeats = int(self._within(view)[candidate]) if self.space.by_order else 0
        if not self.alive[view.place][candidate]:
            first = frozenset(d for _, d in view.windows if self.may_lead(view, d)[candidate])
        parts = tuple(
            (int(every[candidate]), tuple(lead.at(candidate) for lead in leads if lead.live[candidate]))
            for every, leads in self._parts(view)
        )
        return Moved(first, parts, repeats)

    def _moves(self, component: Component, dim: int) -> IntArray:
        """How far the component moves per iteration of this slot's loop over `dim`."""
        extent = self.space.lattice.extents[self.candidates.tiles, dim]
        moves: IntArray = extent * (self.candidates.member.factors[dim] * component.coefficient(dim))
        return moves

    def _least_jumps(self, view: DataspaceView, component: Component, lead: int) -> tuple[IntArray, IntArray]:
        """Words by which other loops than the `lead` move the component, at least: along it, and back.

        Once a loop has moved the dataspace to where nothing overlaps, those farther out do not matter.
        """
        moves = {d: self._moves(component, d) for d in component.dims}
        loops = {d: self.candidates.loops[:, d] for d in component.dims}
        counting = self.space.mapspace.counting
        along, back, past = least_jumps(moves, loops, lead, counting)
        apart = self._product(sorted(view.apart)) > 1
        slots = self.node.moves_outside(view, component)
        outside = least_jumps_outside(slots, past, moves[lead], counting)
        farther_along, farther_back = (np.where(apart, NOWHERE, jump) for jump in outside)
        return np.minimum(along, farther_along), np.minimum(back, farther_back)

    def inside(self, bounds: AnyBounds, level: int, places: IntArray) -> IntArray:
        """Lower bound on the cost of all boundaries inside the tiles of `level`, at `places` there.

        Returns
        -------
        IntArray
            In quanta of that cost beyond its constant, shape (candidates,); `INFINITY` where nothing is left.
        """
        least = np.full(len(places), INFINITY, dtype=np.int64)
        for row, table in bounds.inside[level].items():
            cost = table[places]
            applies = cost < least if row.place is None else self._stays(row.place) & (cost < least)
            if row.alone is not None:
                applies = applies & self._led_alone[:, row.alone]
            else:
                applies = applies & np.logical_and.reduce([self._stays(own) for own in sorted(row.still)])
            if not applies.any():
                continue
            for boundary in bounds.boundaries.due(row, level):
                cost = cost + self._ended(boundary, level, row.repeats)
            least = np.where(applies, np.minimum(least, cost), least)
        return least

    def _ended(self, boundary: Boundary, level: int, repeats: int) -> IntArray:
        """What a boundary costs whose dataspace the loops outside of the tiles at `level` leave in place."""
        tiles, place = self.candidates.tiles, boundary.place
        if not boundary.alone:
            return boundary.ended(level, tiles, repeats, self.runs[place])
        repeated, lattice = np.full(len(tiles), boundary.least_repeated), self.space.lattice
        for dim, children, alone in self._movers_alone[place]:
            for own in (own for own in boundary.alone if own.dim == dim):
                less = boundary.repeated(own, level, (children,))[lattice.places[tiles, dim]]
                repeated = np.where(alone, np.minimum(repeated, less), repeated)
        return boundary.delivered(boundary.times(level, tiles, self.runs[place]), repeated)

    @cached_property
    def _movers_alone(self) -> tuple[list[tuple[int, int, BoolArray]], ...]:
        """Per dataspace, loops that may move it first: dimension, children, whether tiles stay alone."""
        return tuple([*self._movers_of(view)] for view in self.space.views)

    def _movers_of(self, view: DataspaceView) -> Iterator[tuple[int, int, BoolArray]]:
        node, alive, factors = self.node, self.alive[view.place], self.candidates.member.factors
        for dim in sorted(view.relevant):
            yield dim, factors[dim], self.may_lead(view, dim) & self._alone_here(dim)
        movers = node.movers[view.place]
        for outer, dim in sorted(movers.loops) if movers is not None else ():
            yield dim, self._unrolled(outer, dim), alive & self._alone_outside(outer, dim)

    def _unrolled(self, level: int, dim: int) -> int:
        """Children that run side by side in an iteration of a loop outside."""
        own = self.candidates.member.factors[dim]
        return own * math.prod(choice.factors[dim] for choice in self.node.spatial[level:])

    @cached_property
    def _led_alone(self) -> BoolArray:
        """Whether the next loop outside may run over each dimension, with passes of one iteration."""
        led = np.zeros((len(self.first), len(self.space.active)), dtype=np.bool_)
        for number, group in enumerate(self.order.groups):
            for dim in group.dims:
                led[:, dim] |= (self.first == number) & self._alone_here(dim)
        outer = next(
            (n for n in reversed(range(self.node.level)) if max(self.node.path[n], default=1) > 1), None
        )
        if outer is None:
            return led
        loops = self.node.path[outer]
        innermost = next(g for g in self.node.orders[outer].groups if any(loops[d] > 1 for d in g.dims))
        for dim in (d for d in innermost.dims if loops[d] > 1):
            led[:, dim] |= (self.first < 0) & self._alone_outside(outer, dim)
        return led

    def _alone_here(self, dim: int) -> BoolArray:
        return self._alone(dim, self.candidates.loops[:, dim], self.candidates.member.factors[dim])

    def _alone_outside(self, level: int, dim: int) -> BoolArray:
        """The same for a loop of a slot outside."""
        factor = np.full(len(self.first), self.node.path[level][dim])
        return self._alone(dim, factor, self._unrolled(level, dim))

    def _alone(self, dim: int, factor: IntArray, children: int) -> BoolArray:
        """Whether loops have passes in which some child has one tile only, farther in too."""
        rounds = -(-self.space.lattice.tiles[self.candidates.tiles, dim] // children)
        last = rounds - factor * (-(-rounds // factor) - 1)
        alone: BoolArray = (factor > 1) & (last <= max(self.space.left(dim)))
        return alone

    def _stays(self, place: int) -> BoolArray:
        """Tiles whose innermost loop outside leaves dataspace `place` as it is."""
        stays = np.zeros(len(self.first), dtype=np.bool_)
        for number in range(-1, len(self.order.groups)):
            signature = self._signature(number)
            if signature is None or place in signature:
                stays |= self.first == number
        return stays

    def _signature(self, number: int) -> frozenset[int] | None:
        return self.node.signature if number < 0 else self.order.groups[number].signature

    def signature(self, candidate: int) -> frozenset[int] | None:
        """Dataspaces that the innermost loop outside of a candidate's tile leaves in place."""
        return self._signature(int(self.first[candidate])) if self.space.by_order else None
