"""Pairs of tiles whose windows a loop inside of the slot leads: what the slot's loops tell of it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from solver.search.arrays import BoolArray, IntArray
from solver.search.bounds.boundary import Led
from solver.search.bounds.leads import MOST_LED_PAIRS, SlotPairs, component_of
from solver.search.space.dataspaces import Component
from solver.search.space.search_space import SearchSpace
from solver.search.space.windows import ALWAYS, OFTEN, Returns, Unrolling, led_words, meeting


@dataclass(frozen=True)
class LedPairs:
    """The pairs of a slot, for a dataspace whose windows a loop inside of it leads.

    Parameters
    ----------
    place
        Of the dataspace.
    lead
        The lead, with tiles for each pair.
    """

    pairs: SlotPairs
    place: int
    lead: Led

    @cached_property
    def component(self) -> Component:
        """The component that the lead moves."""
        return component_of(self.pairs.space.views[self.place], self.lead.dim)[1]

    @cached_property
    def _movement(self) -> IntArray:
        """How far the lead moves it per iteration."""
        extents = self.pairs.space.lattice.extents[self.lead.moved, self.lead.dim]
        movement: IntArray = extents * self.component.step(self.lead.dim)
        return movement

    @cached_property
    def _overlapping(self) -> BoolArray:
        """Pairs where that is less than a tile."""
        c, _ = component_of(self.pairs.space.views[self.place], self.lead.dim)
        overlapping: BoolArray = (
            self._movement < self.pairs.space.tables[self.place].boxes[c][self.lead.tiles]
        )
        return overlapping

    @cached_property
    def _passed(self) -> IntArray:
        """How far all loops inside of the slot do."""
        return self.lead.passed * self._movement

    @cached_property
    def returns(self) -> Returns:
        """Loops, of the slot or farther out, that may return to the lead's tiles.

        How often is bounded from above, in arrays of shape (pairs,).
        """
        pairs, component, lead = self.pairs, self.component, self._movement
        view = pairs.space.views[self.place]
        here = pairs.meeting(component, lead, self._overlapping, self._passed, component.dims)
        passed = self._passed + pairs.moved(component, component.dims)
        nowhere = pairs.moving(view.apart(component))
        nowhere = nowhere | pairs.beyond(component, passed, lead, self._overlapping)
        every = math.prod(pairs.loops(d) for d in range(len(pairs.space.active)))
        return Returns(here, np.where(nowhere, 1, OFTEN), every, self.lead.onward)

    @property
    def going_on(self) -> IntArray:
        """Iterations of the loop over the lead's own dimension, where it may go on with the lead's row."""
        leading = (self.lead.dim,)
        return self.pairs.meeting(self.component, self._movement, self._overlapping, self._passed, leading)

    def onward(self) -> Iterator[tuple[int, int, BoolArray]]:
        """Pairs whose only loop is over the lead's own dimension and goes on past its tiles.

        It comes neither back to them nor along their row, and leaves it open whether loops farther out do.
        """
        pairs, dim = self.pairs, self.lead.dim
        if len(pairs.targets) > MOST_LED_PAIRS:
            return
        count, movement = pairs.loops(dim), pairs.move(self.component, dim) // self._movement
        open_yet = np.asarray(self.returns.farther) > 1
        only = pairs.only_over((dim,)) & (count > 1) & (self.going_on == 1) & open_yet
        for both in np.unique(np.stack([count, movement])[:, only], axis=1).T:
            yield *map(int, both), only & (count == both[0]) & (movement == both[1])

    @property
    def returns_around(self) -> BoolArray:
        """Pairs where a loop over another dimension may return around the one over the lead's own."""
        own, dims = self.component.dims.index(self.lead.dim), self.component.dims
        found = meeting(
            [self.pairs.moves(self.component, d) for d in dims],
            self._movement,
            self._overlapping,
            self._passed,
            lambda inner, outer: inner == own != outer,
        )
        around: BoolArray = np.logical_or.reduce([meets for n, meets in enumerate(found) if n != own])
        return around


def led_twice(
    space: SearchSpace, place: int, led: Led, unrolling: Unrolling, returns: Returns
) -> tuple[IntArray, IntArray]:
    """Words of all deliveries if a loop leads: the least, and as few as `returns` leave."""
    view, table = space.views[place], space.tables[place]
    c, component = component_of(view, led.dim)
    plain, box = table.plain_words[led.tiles], table.boxes[c][led.tiles]
    move = space.lattice.extents[led.moved, led.dim] * component.step(led.dim)
    least = space.sliding_words(place, c, unrolling)[led.tiles]
    fewest, words = (led_words(plain, box, led.count, move, often, least) for often in (ALWAYS, returns))
    return np.minimum(fewest, plain), np.minimum(words, plain)
