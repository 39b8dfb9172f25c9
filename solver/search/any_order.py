"""Floors of one spatial choice over all orders of memories at once.

By AccelForge's counting rule, what a tile costs depends on the point of the nest where it lies, and the room
that is left to it on which others of its memory lie above it. So a table of least costs is known by what lies
above a point, whatever the order of that: it is the least over what may be the last of it.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass, field
from functools import cached_property, reduce
from itertools import product

import numpy as np

from model.mapspace import Mapspace
from model.orders import Held, Unrolling, held_sets, in_order, nexts, order_of, orders_of, unrolled
from solver.search.arrays import FloatArray
from solver.search.path.charges import ENERGY, Charges, Price
from solver.search.path.floors import InVisits, MaskFloors
from solver.search.path.frame import TileFrame
from solver.search.path.inside import price_of
from solver.search.path.masked import fewest_steps
from solver.search.space.search_space import SearchSpace
from solver.search.stopping import Stop, heeding

Left = frozenset[Held]


def floor_of_choice(
    mapspace: Mapspace, unrolling: Unrolling, stop: Stop, timed: bool = True
) -> tuple[float, float]:
    """Return energy units and cycles that no mapping with one spatial choice is below, in any order.

    Parameters
    ----------
    mapspace
        Its memories may lie in any order; words are counted by place.
    unrolling
        The spatial choice.
    timed
        Whether bandwidths count.
    """
    energy = cycles = math.inf
    for held in heeding(stop, held_sets(mapspace)):
        order = next(orders_of(mapspace, held), None)
        if order is None:
            continue
        ordered = in_order(mapspace, order)
        space = SearchSpace(unrolled(ordered, unrolling), stop=stop)
        if space.excluded or not space.active or any(len(own.places) > 1 for own in space.stages):
            return 0.0, 0.0
        frame = TileFrame(space)
        every = InVisits(frame, tuple(np.zeros(1, dtype=np.int64) for _ in space.stages), 1)
        steps = fewest_steps(every)
        for mask in space.keep_masks:
            floors = _Floors(frame, Charges(space, mask, {}), every, mapspace, unrolling, ordered)
            own = floors.cycles(steps, timed)
            cycles = min(cycles, float(own.min()))
            energy = min(energy, float(floors.energies(own, steps).min()))
    return energy, cycles


@dataclass(frozen=True)
class _Floors(MaskFloors):
    """What mappings cost at least that hold the same in any order; `ordered` has one of the orders."""

    mapspace: Mapspace
    unrolling: Unrolling
    ordered: Mapspace
    tables: dict[Left, FloatArray] = field(default_factory=dict)

    @cached_property
    def _boundaries(self) -> dict[Held, int]:
        """What is held, and the levels of the order."""
        order = order_of(self.mapspace, self.ordered)
        kept = [number for number, rules in enumerate(self.ordered.keep) if number and rules.keep]
        return dict(zip(order, kept, strict=True))

    @cached_property
    def _reached(self) -> list[list[list[int]]]:
        """By axis and place, the places of numbers of tiles outside that loops may lead from."""
        numbers = [axis.numbers.tolist() for axis in self.frame.axes]
        return [
            [[place for place, outer in enumerate(own) if number % outer == 0] for number in own]
            for own in numbers
        ]

    @cached_property
    def _prices(self) -> tuple[Price, ...]:
        """What tables count at once: energy, and the load of each resource."""
        return (ENERGY, *(Price(0.0, ((r, 1.0),)) for r in range(len(self.frame.space.resources))))

    def _words(self, price: Price) -> FloatArray:
        """What all words cost."""
        depth = self._inside.depth
        paid = tuple(own for own in self.charges.at(depth) if any(price.of(own)))
        operands = self._least_words_cost(depth, frozenset(), paid, price) if paid else np.zeros(1)
        innermost = tuple(int(axis.place(np.array([axis.bound]))[0]) for axis in self.frame.axes)
        found: FloatArray = operands + self._below(frozenset())[(self._prices.index(price), *innermost)]
        return found

    def _below(self, left: Left) -> FloatArray:
        """Least costs outside of each point below the loops of a tile, where some tiles are to come."""
        if left in self.tables:
            return self.tables[left]
        self.frame.heed()
        begun = self._boundaries.keys() - left
        table = np.full((len(self._prices), *self.frame.shape), np.inf)
        for own in () if begun else table:
            own[self.frame.whole] = 0.0
        lasts = (own for own in begun if own in nexts(self.mapspace, sorted(left | {own})))
        table = reduce(np.minimum, (self._right_below(left | {own}, own) for own in lasts), table)
        free = {*range(len(self.frame.axes))} - self._still(begun, left)
        self.tables[left] = reduce(self._looped, sorted(free), table)
        return self.tables[left]

    def _right_below(self, left: Left, own: Held) -> FloatArray:
        """Least costs outside of each point right below a tile, the first one of those to come."""
        beside = {name for level, name in self._boundaries.keys() - left if level == own[0]} | {own[1]}
        tenants = frozenset(view.place for view in self.frame.space.views if view.name in beside)
        fits = self.frame.fits(self._boundaries[own], tenants)
        return np.where(fits, self._below(left) + self._costs[own], np.inf)

    @cached_property
    def _costs(self) -> dict[Held, FloatArray]:
        """What the words of each tile cost at each point."""
        return {own: self._cost(boundary) for own, boundary in self._boundaries.items()}

    def _cost(self, boundary: int) -> FloatArray:
        """What the words that come to a boundary cost at each point."""
        total = np.zeros((len(self._prices), *self.frame.shape))
        for charge in self.charges.at(boundary):
            words = ENERGY.paid(charge, self._delivered(charge.place), self._free(charge))
            total += np.stack([price_of(charge, price, self.every)[..., 0] * words for price in self._prices])
        return total

    def _delivered(self, place: int) -> FloatArray:
        """Words of the tiles of a dataspace, of which nothing stays, at each point."""
        view = self.frame.space.views[place]
        again = self.frame.words.of(place, self.frame.space.no_unrolling, view.relevant).again
        return np.broadcast_to(again * self.frame.times(place), self.frame.shape)

    def _looped(self, table: FloatArray, axis: int) -> FloatArray:
        """The table inside of a loop over a dimension."""
        along, reached = np.moveaxis(table, axis + 1, 0), self._reached[axis]
        if all(len(own) == place + 1 for place, own in enumerate(reached)):
            return np.moveaxis(np.minimum.accumulate(along, axis=0), 0, axis + 1)
        if all(len(own) == place + 1 for place, own in enumerate(reversed(reached))):
            return np.moveaxis(np.minimum.accumulate(along[::-1], axis=0)[::-1], 0, axis + 1)
        return np.moveaxis(np.stack([along[own].min(axis=0) for own in reached]), 0, axis + 1)

    def _still(self, begun: Collection[Held], left: Left) -> set[int]:
        """Dimensions without a loop here: a fanout unrolls them, and tiles inside of it have begun."""
        found, dims = set[int](), enumerate(self.frame.space.active)
        for (fanout, factors), (d, dim) in product(enumerate(self.unrolling), dims):
            if factors.get(dim, 1) > 1:
                inside = any(self._above(level) > fanout for level, name in begun if self._moves(dim, name))
                outside = any(self._above(level) <= fanout for level, name in left if self._moves(dim, name))
                found |= {d} if inside and outside else set()
        return found

    def _moves(self, dim: str, name: str) -> bool:
        return dim in self.mapspace.problem.dataspace(name).dims

    def _above(self, level: int) -> int:
        architecture = self.mapspace.architecture
        return architecture.fanouts_above(architecture.storage_indices[level])
