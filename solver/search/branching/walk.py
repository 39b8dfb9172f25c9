"""The loops of one slot inside a node, seen by each dataspace for many tiles at once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from solver.search.arrays import BoolArray, IntArray
from solver.search.bounds.boundary import Boundary, ceil_div
from solver.search.bounds.lattice_bounds import AnyBounds
from solver.search.branching.node import Mover, Node
from solver.search.space.dataspaces import Component, DataspaceView
from solver.search.space.lattice import INFINITY
from solver.search.space.orders import Group, OrderClass
from solver.search.space.search_space import SearchSpace
from solver.search.space.spatial import StageChoice
from solver.search.space.windows import NOWHERE, Movement, least_jumps, least_jumps_outside, moved_words


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
    """

    def __init__(self, space: SearchSpace, node: Node, candidates: InnerTiles, order: OrderClass) -> None:
        count = len(candidates.tiles)
        self.space = space
        self.node = node
        self.candidates = candidates
        self.order = order
        self.runs = [np.ones(count, dtype=np.int64) for _ in space.views]
        self.alive = [np.ones(count, dtype=np.bool_) for _ in space.views]
        self.first = np.full(count, -1, dtype=np.int64)
        self._known_leads: dict[tuple[int, int], Mover] = {}
        for number, group in enumerate(order.groups):
            moving = self._product(group.dims) > 1
            self.first[(self.first < 0) & moving] = number
            for view in space.views:
                self._step(view, group)
        for run, alive, outside in zip(self.runs, self.alive, node.in_place, strict=True):
            run[alive] *= outside

    def _product(self, dims: Sequence[int]) -> IntArray:
        product: IntArray = self.candidates.loops[:, list(dims)].prod(axis=1)
        return product

    def _step(self, view: DataspaceView, group: Group) -> None:
        place, dims = view.place, group.dims
        alive = self.alive[place]
        still = [d for d in dims if d in view.irrelevant]
        if still:
            self.runs[place][alive] *= self._product(still)[alive]
        if len(still) < len(dims):
            moved = alive & (self._product([d for d in dims if d in view.relevant]) > 1)
            self.alive[place] = alive & ~moved

    def _may_lead(self, view: DataspaceView, dim: int) -> BoolArray:
        """Candidates whose loop over `dim` may be the innermost one of the slot that moves a dataspace.

        In an order that the class stands for, a dataspace that the innermost group moves is moved by the
        innermost loop; that is one of the group, or one that moves everything. Other orders are not known.
        """
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
        words = tables.plain_words[tiles]
        if not self.space.reuses(place, boundary.level):
            return ceil_div(words * irrelevant, instances)
        if not boundary.sliding:
            return self._repeated(words * irrelevant, place, instances)
        words = np.where(
            self.alive[place], self._carried(place, tiles, words), self._led_here(place, tiles, words)
        )
        return np.maximum(self._repeated(words * irrelevant, place, instances), boundary.once_words)

    def _repeated(self, words: IntArray, place: int, instances: int) -> IntArray:
        """What one of several instances gets of words that the innermost loops leave in place."""
        repeated: IntArray = -(-words // (instances * self.runs[place]))
        return repeated

    def _led_here(self, place: int, tiles: IntArray, plain: IntArray) -> IntArray:
        """Words of all deliveries of `tiles` if a loop of this slot is the innermost one that moves them."""
        view, words = self.space.views[place], plain
        for number, d in view.windows:
            leads = self._may_lead(view, d)
            if leads.any():
                led = self._led(place, self._lead(place, number, d), tiles, plain)
                words = np.where(leads, np.minimum(words, led), words)
        return words

    def _carried(self, place: int, tiles: IntArray, plain: IntArray) -> IntArray:
        """The same if all loops of this slot leave the dataspace in place."""
        words = plain
        for lead in self.node.leads[place] or ():
            words = np.minimum(words, self._led(place, lead, tiles, plain))
        return words

    def _led(self, place: int, lead: Mover, tiles: IntArray, plain: IntArray) -> IntArray:
        """Words of all deliveries of `tiles` when `lead` is the innermost loop that moves the dataspace."""
        box = self.space.tables[place].boxes[lead.component][tiles]
        return moved_words(plain, box, lead.every, lead.movement)

    def _lead(self, place: int, number: int, dim: int) -> Mover:
        """The loop over `dim` in this slot as the innermost one that moves a component."""
        if (place, dim) not in self._known_leads:
            view, count = self.space.views[place], self.candidates.loops[:, dim]
            component = view.components[number]
            outside = math.prod(loops[d] for loops in self.node.path for d in component.dims)
            every = self._product(component.dims) * outside
            movement = Movement(count, 0, 0, 0)
            if component.linear:
                along, back = self._least_jumps(view, component, dim)
                movement = Movement(count, np.abs(self._moves(component, dim)), along, back)
            self._known_leads[place, dim] = Mover(number, every, movement)
        return self._known_leads[place, dim]

    def leading(self, candidate: int) -> tuple[tuple[Mover, ...] | None, ...]:
        """Per dataspace, the loops that may be the innermost ones moving a candidate's tile.

        None if no loop outside moves it, or its windows are not known to overlap.
        """
        return tuple(self._leading(view, candidate) for view in self.space.views)

    def _leading(self, view: DataspaceView, candidate: int) -> tuple[Mover, ...] | None:
        place = view.place
        if not view.window_dims:
            return None
        if self.alive[place][candidate]:
            return self.node.leads[place]
        return tuple(
            self._lead(place, number, d).only(candidate)
            for number, d in view.windows
            if self._may_lead(view, d)[candidate]
        )

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
        along, back, past = least_jumps(moves, loops, lead)
        apart = self._product(sorted(view.apart)) > 1
        outside = least_jumps_outside(self.node.moves_outside(view, component), past)
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
            if not applies.any():
                continue
            for boundary in bounds.boundaries.due(row, level):
                cost = cost + boundary.reused(level, self.candidates.tiles, self.runs[boundary.place])
            least = np.where(applies, np.minimum(least, cost), least)
        return least

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
        return self._signature(int(self.first[candidate]))
