"""Sliding windows over one slot whose tiles inside and outside are both known: which loop leads."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from solver.search.arrays import BoolArray, IntArray
from solver.search.space.dataspaces import Component, DataspaceView
from solver.search.space.search_space import SearchSpace
from solver.search.space.windows import OFTEN, Returns, Unrolling, led_words, meeting

MOST_PAIRS = 1 << 20
"""Pairs of tiles that are looked at together, whether loops connect them or not."""

MOST_LED_PAIRS = 1 << 17
"""Pairs of tiles up to which it is followed outwards which loop leads."""


@dataclass(frozen=True)
class Lead:
    """A loop that may be the innermost one that moves a dataspace; an array has one entry per pair.

    Parameters
    ----------
    partners, apart
        Dimensions along which it may be returned to, and those of other ranks: once a loop over one of
        these has moved the dataspace, nothing returns.
    straight, may_be_straight
        Words of all deliveries if no loop returns inside of the slot, and the pairs where that may be.
    returning, may_return
        Words if one does, before any loop over `apart`, and the pairs where that may be.
    """

    partners: Sequence[int]
    apart: Sequence[int]
    straight: IntArray
    may_be_straight: BoolArray
    returning: IntArray
    may_return: BoolArray


@dataclass(frozen=True)
class SlotPairs:
    """Pairs of a tile inside and a tile outside of a slot that its loops connect; arrays have one entry each.

    Parameters
    ----------
    tiles
        Lattice indices of the tiles inside, before spatial unrolling.
    sources
        What one iteration of the slot's loops spans: the same tiles, times a spatial choice.
    targets
        The tiles outside.
    inner
        Dimensions whose loops are the innermost ones of the slot, in this order, as the user has it.
    """

    space: SearchSpace
    tiles: IntArray
    sources: IntArray
    targets: IntArray
    inner: tuple[int, ...]

    @cached_property
    def _loops(self) -> dict[int, IntArray]:
        return {}

    @cached_property
    def _leaving(self) -> dict[tuple[int, ...], BoolArray]:
        return {}

    def only_over(self, dims: Collection[int]) -> BoolArray:
        """Pairs whose loops all run over `dims`, shape (pairs,); also those without any loop."""
        return ~self.moving([d for d in range(len(self.space.active)) if d not in dims])

    def loops(self, dim: int) -> IntArray:
        """Iterations of the loop over `dim`.

        Returns
        -------
        IntArray
            Shape (pairs,); 1 where there is no loop.
        """
        if dim not in self._loops:
            extents = self.space.lattice.extents[:, dim]
            self._loops[dim] = extents[self.targets] // extents[self.sources]
        return self._loops[dim]

    def moving(self, dims: Sequence[int]) -> BoolArray:
        """Pairs with a loop over one of `dims`, shape (pairs,)."""
        moving = np.zeros(len(self.targets), dtype=np.bool_)
        for d in dims:
            moving |= self.loops(d) > 1
        return moving

    def alone(self, place: int, inward: int) -> Iterator[tuple[int, int, BoolArray]]:
        """Dimensions along which windows slide, iterations, and the pairs that only such a loop moves.

        Pairs are left out to whose tiles no loop farther out can return: their words are known. These are
        the tiles of the slot, less `inward`.
        """
        if len(self.targets) > MOST_LED_PAIRS:
            return
        view, boxes = self.space.views[place], self.space.tables[place].boxes
        steady = [
            (c, own, d)
            for c, own in enumerate(view.components)
            for d in own.dims
            if own.sliding and own.steady
        ]
        for c, component, d in steady:
            move = self.move(component, d)
            only = ~self.moving(sorted(view.relevant - {d}))
            only &= ~self.beyond(component, move, move, move < boxes[c][self.tiles - inward])
            for count in np.unique(self.loops(d)[only & (self.loops(d) > 1)]):
                yield d, int(count), only & (self.loops(d) == count)

    def meeting(
        self,
        component: Component,
        lead: IntArray,
        overlapping: BoolArray,
        passed: IntArray,
        dims: Sequence[int],
    ) -> IntArray:
        """Iterations of this slot's loops over `dims` that may return to tiles of a lead, as `meeting`."""
        found = meeting([self.moves(component, d) for d in dims], lead, overlapping, passed)
        pairs = zip(dims, found, strict=True)
        return math.prod(
            (np.where(meets, self.loops(d), 1) for d, meets in pairs), start=np.ones_like(self.targets)
        )

    def moved(self, component: Component, dims: Iterable[int]) -> IntArray:
        """How far one iteration of each of this slot's loops over `dims` moves the component in all."""
        return sum((self.moves(component, d) for d in dims), np.zeros_like(self.targets))

    def moves(self, component: Component, dim: int) -> IntArray:
        """How far this slot's loop over `dim` moves the component per iteration, 0 if there is none."""
        return np.where(self.loops(dim) > 1, self.move(component, dim), 0)

    def beyond(
        self, component: Component, passed: IntArray, lead: IntArray, overlapping: BoolArray
    ) -> BoolArray:
        """Pairs after which no loop farther out can move as far as those so far, or a lead farther.

        So far, loops have moved the component by `passed` in all. What overlaps is as for `meeting`.
        """
        lattice = self.space.lattice
        extents = {d: lattice.extents[self.targets, d] for d in component.dims}
        # What loops over a dimension farther out may add up to, one iteration each.
        room = {d: (lattice.bounds[d] - extent) * component.step(d) for d, extent in extents.items()}
        # All of them are multiples of what their tiles are.
        units = [np.where(room[d] > 0, extent * component.step(d), 0) for d, extent in extents.items()]
        unit = np.maximum(np.gcd.reduce(units), 1)
        between: BoolArray = (passed % unit > 0) & ~(overlapping & ((passed + lead) % unit == 0))
        beyond = np.ones(len(self.targets), dtype=np.bool_)
        for d, own in extents.items():
            most = lattice.bounds[d] // lattice.least_prime(d) * component.step(d)
            least = own * component.step(d) - sum(room[other] for other in room if other != d)
            beyond &= (room[d] == 0) | (most < passed) | (least - passed > lead)
        return beyond | between

    def leaving(self, members: frozenset[int]) -> BoolArray:
        """Pairs whose innermost loop may be one of those that a reuse class is about."""
        key = tuple(sorted(members))
        if key not in self._leaving:
            self._leaving[key] = self._leaves(members)
        return self._leaving[key]

    def _leaves(self, members: frozenset[int]) -> BoolArray:
        dims, fitting = range(len(self.space.active)), self.space.leading(members)
        possible = self.moving(fitting) | ~self.moving(dims)
        settled = np.zeros_like(possible)
        for d in self.inner:
            moves = self.loops(d) > 1
            if d not in fitting:
                possible &= settled | ~moves
            settled |= moves
        return possible

    def words(
        self, place: int, unrolling: Unrolling, inward: int = 0, leading: Sequence[int] | None = None
    ) -> IntArray:
        """Least words of all deliveries of tiles that cover dataspace `place` once.

        It holds where a loop of this slot is the innermost one that moves the dataspace, over one of
        the dimensions `leading` (None: any). Its tiles are those of the slot, less `inward`.

        Returns
        -------
        IntArray
            A lower bound in words of all instances, shape (pairs,); where none of these loops may lead, tiles
            are delivered whole.
        """
        view, table, tiles = self.space.views[place], self.space.tables[place], self.tiles - inward
        plain = table.plain_words[tiles]
        words = plain
        for c, component in enumerate(view.components):
            if not component.sliding:
                continue
            least = self.space.sliding_words(place, c, unrolling)[tiles]
            box = table.boxes[c][tiles]
            for d in (d for d in component.dims if leading is None or d in leading):
                led = self._led(view, component, d, plain, box, least)
                words = np.where(self._leads(view, d), np.minimum(words, led), words)
        return words

    def leads(self, place: int, unrolling: Unrolling, inward: int, leading: Sequence[int]) -> Iterator[Lead]:
        """Loops of this slot that may be the innermost one that moves the dataspace, by dimension.

        As for `words`. Nothing is known of loops that move windows in several ranks or both ways: they
        count as straight ones, of the least words there may be.
        """
        view, own, tiles = self.space.views[place], self.space.tables[place], self.tiles - inward
        plain = own.plain_words[tiles]
        sliding = (
            (c, component, d)
            for c, component in enumerate(view.components)
            for d in component.dims
            if component.sliding and d in leading
        )
        for c, component, d in sliding:
            least = self.space.sliding_words(place, c, unrolling)[tiles]
            may_lead = self._leads(view, d)
            if not component.steady:
                yield Lead((), (), least, may_lead, least, np.zeros_like(may_lead))
                continue
            box, move = own.boxes[c][tiles], self.move(component, d)
            apart, partners = view.apart(component), [other for other in component.dims if other != d]
            away, returns = self.moving(apart), self.moving(partners)
            passed = self.moved(component, component.dims)
            outside = ~(away | self.beyond(component, passed, move, move < box))
            some = self._led(view, component, d, plain, box, least)
            farther = Returns(farther=np.where(outside, OFTEN, 1))
            straight = led_words(plain, box, self.loops(d), move, farther, least)
            yield Lead(partners, apart, straight, may_lead & (away | ~returns), some, may_lead & returns)

    def grown(self, dims: Sequence[int]) -> IntArray:
        """Lattice indices of the tiles that the loops over `dims` make of those inside.

        Returns
        -------
        IntArray
            Shape (pairs,).
        """
        lattice = self.space.lattice
        grown = self.sources
        for d in dims:
            more = lattice.places[self.targets, d] - lattice.places[self.sources, d]
            grown = grown + more * lattice.dim_strides[d]
        return grown

    def _leads(self, view: DataspaceView, dim: int) -> BoolArray:
        """Where the loop over `dim` may be the innermost one that moves the dataspace."""
        before = self.inner[: self.inner.index(dim)] if dim in self.inner else self.inner
        leads: BoolArray = (self.loops(dim) > 1) & ~self.moving([d for d in before if d in view.relevant])
        return leads

    def _led(
        self,
        view: DataspaceView,
        component: Component,
        dim: int,
        plain: IntArray,
        box: IntArray,
        least: IntArray,
    ) -> IntArray:
        """Words when the loop over `dim` is the innermost one that moves `component`."""
        if not component.steady:
            return least
        returns = self._returns(view, component, dim, box)
        return led_words(plain, box, self.loops(dim), self.move(component, dim), returns, least)

    def move(self, component: Component, dim: int) -> IntArray:
        """How far one iteration over `dim` would move the component, whether there is a loop or not."""
        extents = self.space.lattice.extents[self.sources, dim]
        move: IntArray = extents * component.step(dim)
        return move

    def _returns(self, view: DataspaceView, component: Component, dim: int, box: IntArray) -> Returns:
        """Loops of the component farther out that may be compared with an overlapping tile.

        Loops outside of the slot may, unless a loop of this slot moves the dataspace elsewhere.
        """
        lead = self.move(component, dim)
        passed = self.moved(component, component.dims)
        nowhere = self.moving(view.apart(component)) | self.beyond(component, passed, lead, lead < box)
        others = [d for d in component.dims if d != dim]
        here = self.meeting(component, lead, lead < box, lead, others)
        every = math.prod(self.loops(d) for d in others)
        return Returns(here, np.where(nowhere, 1, OFTEN), every)


def component_of(view: DataspaceView, dim: int) -> tuple[int, Component]:
    """The component of `dim`, and its number.

    Raises
    ------
    StopIteration
        If `dim` does not index the dataspace.
    """
    return next((c, component) for c, component in enumerate(view.components) if dim in component.dims)
