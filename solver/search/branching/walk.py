"""The loops of one slot inside a node, seen by each dataspace for many tiles at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from solver.search.arrays import BoolArray, IntArray
from solver.search.bounds.boundary import Boundary, Led, ceil_div
from solver.search.bounds.lattice_bounds import AnyBounds
from solver.search.bounds.leads import component_of
from solver.search.bounds.rows import Row, Waiting
from solver.search.bounds.surcharges import led_surcharge
from solver.search.branching.node import Mover, Node, SlotMoves, loose_dims
from solver.search.space.dataspaces import Component, DataspaceView
from solver.search.space.lattice import INFINITY
from solver.search.space.orders import Group, OrderClass
from solver.search.space.search_space import SearchSpace
from solver.search.space.spatial import StageChoice
from solver.search.space.windows import Returns, led_words, meeting


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


def _subset_sums(moves: SlotMoves) -> set[int]:
    """Sums of the movements of any of some loops."""
    sums = {0}
    for move, _ in moves:
        sums |= {total + move for total in sums}
    return sums


class Walk:
    """Walks over the loops of one slot, innermost first, for many candidate tiles at once.

    ``runs[v]`` multiplies up the innermost loops that leave dataspace v in place, ``alive[v]`` tells
    whether that is all of them, ``leads[v, d]`` whether the loop over d may be the innermost one that
    moves v, and ``first`` numbers the group of the innermost loop, -1 for none. All have shape (candidates,).

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
        self.leads: dict[tuple[int, int], BoolArray] = {}
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
        if len(still) == len(dims):
            return
        moved = alive & (self._product([d for d in dims if d in view.relevant]) > 1)
        for d in (d for d in (*dims, *group.before) if d in view.window_dims):
            known = self.leads.get((place, d), False)
            self.leads[place, d] = known | (moved & (self.candidates.loops[:, d] > 1))
        self.alive[place] = alive & ~moved

    def delivered(self, boundary: Boundary, inward: int = 0) -> IntArray:
        """Words delivered per instance, a lower bound where windows slide, exact otherwise.

        `inward` leads from the candidates to the tiles of a boundary farther in.

        Returns
        -------
        IntArray
            Shape (candidates,), rounded up.
        """
        place = boundary.place
        tiles = self.candidates.tiles - inward
        tables = self.space.tables[place]
        irrelevant = tables.irrelevant_tiles[tiles] * boundary.unused_below(self.node.level + 1)
        instances = boundary.sub.above[boundary.level]
        words = tables.plain_words[tiles]
        if not self.space.reuses(place, boundary.level):
            return ceil_div(words * irrelevant, instances)
        for c, component in enumerate(self.space.views[place].components):
            if not component.sliding:
                continue
            least = self.space.sliding_words(place, c, boundary.unrolling)[tiles]
            carried = self._carried(place, c, tiles, least)
            words = np.where(self.alive[place], np.minimum(words, carried), words)
            for d in (d for d in component.dims if self._leads_anywhere(place, d)):
                led = self._led(place, c, self._lead(place, c, d), tiles, least)
                words = np.where(self.leads[place, d], np.minimum(words, led), words)
        return -(-(words * irrelevant) // (instances * self.runs[place]))

    def _leads_anywhere(self, place: int, dim: int) -> bool:
        """Whether the loop over `dim` may be the innermost one that moves some candidate's tile."""
        return (place, dim) in self.leads and bool(self.leads[place, dim].any())

    def _lead(self, place: int, c: int, dim: int) -> Mover:
        """The loop over `dim` in this slot as the innermost one that moves component `c`."""
        if (place, dim) not in self._known_leads:
            component, count = self.space.views[place].components[c], self.candidates.loops[:, dim]
            lead = Mover(c, count, None, None)
            if component.steady:
                lead = Mover(c, count, self._move(component, dim), self._returns(place, c, dim))
            self._known_leads[place, dim] = lead
        return self._known_leads[place, dim]

    def _carried(self, place: int, c: int, tiles: IntArray, least: IntArray) -> IntArray:
        """Words when all loops of this slot leave the dataspace in place."""
        leads = self.node.leads[place]
        if leads is None:
            return least
        words = self.space.tables[place].plain_words[tiles]
        for lead in leads:
            if lead.component == c:
                words = np.minimum(words, self._led(place, c, lead, tiles, least))
        return words

    def _led(self, place: int, c: int, lead: Mover, tiles: IntArray, least: IntArray) -> IntArray:
        """Words of all deliveries of `tiles` when `lead` is the innermost loop that moves the dataspace."""
        if lead.move is None or lead.returns is None:
            return least
        tables = self.space.tables[place]
        plain, box = tables.plain_words[tiles], tables.boxes[c][tiles]
        return led_words(plain, box, lead.count, lead.move, lead.returns, least)

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
            self._lead(place, c, d).only(candidate)
            for c, component in enumerate(view.components)
            for d in component.dims
            if (place, d) in self.leads and self.leads[place, d][candidate]
        )

    def _move(self, component: Component, dim: int) -> IntArray:
        """How far the component moves per iteration of this slot's loop over `dim`."""
        extent = self.space.lattice.extents[self.candidates.tiles, dim]
        moves: IntArray = extent * (self.candidates.member.factors[dim] * component.step(dim))
        return moves

    def _returns(self, place: int, c: int, dim: int) -> Returns:
        """Farther loops of component `c` that may be compared with an overlapping tile."""
        view = self.space.views[place]
        component = view.components[c]
        lead = self._move(component, dim)
        overlapping = lead < self.space.tables[place].boxes[c][self.candidates.tiles]
        others = [d for d in component.dims if d != dim]
        inside = self.candidates.loops[:, dim] * self.runs[place]
        return self._returning(view, component, lead, overlapping, lead, others, inside)

    def _returning(
        self,
        view: DataspaceView,
        component: Component,
        lead: IntArray,
        overlapping: BoolArray,
        passed: IntArray,
        others: Sequence[int],
        inside: IntArray | int,
    ) -> Returns:
        """Loops over `others` here, or any outside, that may meet a tile of a lead's again, as `meeting`.

        Such a loop moves by what all loops of the component inside it add up to, or by the leading
        loop's movement more if tiles overlap. Loops of other components in between rule it out. Of this
        slot's iterations, `inside` are those of the lead and of loops inside of it.
        """
        loops, apart = self.candidates.loops, view.apart(component)
        here = np.ones(len(lead), dtype=np.int64)
        moves = [np.where(loops[:, d] > 1, self._move(component, d), 0) for d in others]

        def inside_of(inner: int, outer: int) -> bool:
            return bool(self.order.inside(others[outer], others[inner : inner + 1]))

        for d, meets in zip(others, meeting(moves, lead, overlapping, passed, inside_of), strict=True):
            here *= np.where(meets & ~self._apart_inside(view, apart, d), loops[:, d], 1)
        moved = sum(moves, passed)
        farther = np.ones(len(lead), dtype=np.int64)
        for slot in self.node.moves_outside(view, component):
            for number, (own, count) in enumerate(slot):
                jumps = [own - summed - moved for summed in _subset_sums(slot[:number] + slot[number + 1 :])]
                meets = np.any([(jump == 0) | overlapping & (jump == lead) for jump in jumps], axis=0)
                farther *= np.where(meets, count, 1)
            moved = moved + sum(move for move, _ in slot)
        reached = self._product(apart) == 1
        # Where other loops than `inside` counts leave the window in place, nothing asks for its returns.
        between = np.maximum(loops.prod(axis=1) // inside, 1)
        return Returns(here, np.where(reached, farther, 1), between)

    def _apart_inside(self, view: DataspaceView, apart: Sequence[int], dim: int) -> BoolArray:
        """Where loops inside of the one over `dim` move the dataspace in ranks `apart`."""
        loose = self._product(loose_dims(view, apart, self.order))
        inside: BoolArray = (self._product(self.order.inside(dim, apart)) > 1) & (loose == 1)
        return inside

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
            applies = self._applies(row) & (cost < least)
            if not applies.any():
                continue
            for boundary in bounds.boundaries.due(row, level):
                cost = cost + self._ended(bounds, level, boundary)
            for waiting in row.waiting:
                cost = cost + self._slid(bounds, level, waiting)
            least = np.where(applies, np.minimum(least, cost), least)
        return least

    def _applies(self, row: Row) -> BoolArray:
        """Tiles whose innermost loop outside goes on as a row has it."""
        applies = np.ones(len(self.first), dtype=np.bool_) if row.place is None else self._stays(row.place)
        unmoved = (self.first < 0) & (self.node.signature is None)
        for waiting in row.waiting:
            if waiting.lead is None:
                applies = applies & (unmoved | ~self._stays(waiting.place))
        return applies

    def _ended(self, bounds: AnyBounds, level: int, boundary: Boundary) -> IntArray:
        """What a boundary costs whose dataspace stays in place inside of the candidates' tiles."""
        tiles = self.candidates.tiles
        cost = boundary.reused(level, tiles, self.runs[boundary.place])
        inward = bounds.boundaries.inward(level, boundary)
        if boundary.sliding and inward is not None:
            exact = boundary.extra(self.delivered(boundary, inward)) - boundary.surplus(tiles - inward)
            cost = np.maximum(cost, exact)
        return cost

    def _slid(self, bounds: AnyBounds, level: int, waiting: Waiting) -> IntArray | int:
        """What a boundary inside costs beyond its least, whose tile no loop inside moves."""
        boundary, tiles = bounds.boundaries.of(waiting), self.candidates.tiles
        inward = bounds.boundaries.inward(level, boundary)
        if inward is None:
            return 0
        if waiting.lead is not None:
            led = bounds.boundaries.led(waiting, level, tiles)
            return led_surcharge(boundary, level, tiles, led, self._returns_to(waiting.place, led))
        least = boundary.extra(boundary.unreused_words(tiles - inward, level=level))
        surcharge: IntArray = np.maximum(boundary.extra(self.delivered(boundary, inward)) - least, 0)
        return surcharge

    def _returns_to(self, place: int, led: Led) -> Returns:
        """Loops that may be compared with an overlapping tile of a lead inside."""
        view = self.space.views[place]
        c, component = component_of(view, led.dim)
        lead = self.space.lattice.extents[led.moved, led.dim] * component.step(led.dim)
        overlapping = lead < self.space.tables[place].boxes[c][led.tiles]
        passed = led.passed * lead
        returns = self._returning(view, component, lead, overlapping, passed, component.dims, 1)
        return replace(returns, onward=led.onward)

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
