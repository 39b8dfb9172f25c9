"""Axes: the possible numbers of tiles along each dimension, and the steps that loops and children allow."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from model.extents import ANY
from model.numbers import divisors, prime_factors
from solver.search.arrays import TOGETHER, BoolArray, FloatArray, IntArray, among
from solver.search.space.search_space import SearchSpace

LONGEST_TABLE = 1 << 20
"""Iterations of a dimension up to which places of all numbers are looked up in a table."""

NOWHERE = -1
"""Place of numbers of tiles that there are none of."""


@dataclass(frozen=True, eq=False)
class TileAxis:
    """The possible numbers of tiles along one dimension, in the order of the lattice's tables.

    Parameters
    ----------
    bound
        Iterations of the dimension.
    numbers
        Numbers of tiles, shape (places,); the first one is `bound`, tiles of one iteration each. With
        remainders they fall, and tiles grow.
    divides
        Whether loops have divisors only.
    """

    bound: int
    numbers: IntArray
    divides: bool

    @cached_property
    def least(self) -> IntArray:
        """The least extent that results in each number of tiles, by place."""
        return -(-self.bound // self.numbers)

    @cached_property
    def longest(self) -> IntArray:
        """The largest extent that results in each number of tiles, by place."""
        if self.divides:
            return self.least
        fewer = np.maximum(self.numbers - 1, 1)
        return np.where(self.numbers == 1, self.bound, -(-self.bound // fewer) - 1)

    def place(self, numbers: IntArray) -> IntArray:
        """Places of numbers of tiles; `NOWHERE` for numbers that are not on the axis."""
        if self.bound <= LONGEST_TABLE:
            return self._places[numbers]
        following = self._following(numbers)
        return np.where(self.numbers[following] == numbers, following, NOWHERE)

    @cached_property
    def _places(self) -> IntArray:
        """The place of each number up to the bound."""
        places = np.full(self.bound + 1, NOWHERE, dtype=np.int64)
        places[self.numbers] = np.arange(len(self.numbers))
        return places

    def at_least(self, numbers: IntArray) -> IntArray:
        """The least numbers on the axis that are no less than these, which are within the bound."""
        following = self._next_places[numbers] if self.bound <= LONGEST_TABLE else self._following(numbers)
        return self.numbers[following]

    def at_most(self, numbers: IntArray) -> IntArray:
        """Places of the largest numbers of tiles that are no more than these; numbers fall along the axis."""
        return np.searchsorted(-self.numbers, -numbers)

    @cached_property
    def _next_places(self) -> IntArray:
        """For each number up to the bound, the place of the least number of tiles that is no less."""
        return self._following(np.arange(self.bound + 1))

    def _following(self, numbers: IntArray) -> IntArray:
        """Places of the least numbers of tiles that are no less than some numbers."""
        return self._ascending[np.searchsorted(self.numbers, numbers, sorter=self._ascending)]

    @cached_property
    def _ascending(self) -> IntArray:
        return np.argsort(self.numbers)

    def in_use(self, outer: IntArray, inner: IntArray, single: BoolArray) -> IntArray:
        """Least number of children of two nested stages that are in use at some time, by row.

        All of the outer stage have; and all of the inner one do inside of a whole tile.

        Parameters
        ----------
        outer, inner
            Children of both, more than 1 each.
        single
            Whether tiles inside of the inner one are single iterations.
        """
        base = int(inner.max()) + 1
        codes = (outer * base + inner) * 2 + single
        table = np.zeros(int(codes.max()) + 1, dtype=np.int64)
        for code in np.flatnonzero(np.bincount(codes)).tolist():
            pair = *divmod(code // 2, base), bool(code % 2)
            if pair not in self._used:
                self._used[pair] = self._in_use(*pair)
            table[code] = self._used[pair]
        used: IntArray = table[codes]
        return used

    @cached_property
    def _used(self) -> dict[tuple[int, int, bool], int]:
        return {}

    def _in_use(self, outer: int, inner: int, single: bool) -> int:
        """Children in use of two stages: what the last child has follows from the numbers of tiles."""
        least = [
            (outer - 1) * inner + min(inner, tiles - (outer - 1) * each)
            for tiles in ([self.bound] if single else self.numbers.tolist())
            for each in [(tiles - 1) // (outer - 1) // inner * inner]
            if 0 < tiles <= outer * each
        ]
        return min(least, default=outer * inner)

    def extents(self, numbers: IntArray, multiples: IntArray) -> IntArray:
        """The least multiples that are extents for these numbers of tiles; 0 where there are none.

        Loops and children inside of a tile make its extents a multiple of the children along a dimension.
        """
        places = self.place(numbers)
        least = -(-self.least[places] // multiples) * multiples
        found = np.where(numbers == 1, self.bound, least)
        return np.where(found <= self.longest[places], found, 0)

    def busiest(self, numbers: IntArray, children: IntArray, extents: IntArray) -> FloatArray:
        """Least number of iterations of the busiest child, given the least extents of the tiles."""
        rounds, longest = -(-numbers // children), self.longest[self.place(numbers)]
        # The last tile, which may be smaller, is the first child's if it is alone in the last round.
        last = np.maximum((rounds - 1) * extents, self.bound - (numbers - rounds) * longest)
        alone = (numbers % children == 1) & (numbers > 1)
        most = np.where(alone, last, np.minimum(rounds * extents, self.bound))
        busiest: FloatArray = np.maximum(most, self.bound / children)
        return busiest

    def prime_steps(self) -> tuple[tuple[int, int], ...]:
        """Pairs of places of which the first one has a prime factor more tiles; prime by prime, tiles rising.

        Where all divisors of the bound are numbers of tiles; else none.
        """
        rising = sorted(self.numbers.tolist())
        if rising != list(divisors(self.bound)):
            return ()
        return tuple(
            (int(self.place(np.array(number))), int(self.place(np.array(number // prime))))
            for prime, _ in prime_factors(self.bound)
            for number in rising
            if number % prime == 0
        )

    def rounds_of(self, children: IntArray, numbers: IntArray) -> IntArray:
        """Places of the rounds that a number of children takes for these numbers of tiles.

        With remainders there may be more children than tiles: under an outer fanout the last one of an inner
        fanout may have nothing to do.
        """
        rounds = self.place(-(-numbers // children))
        return np.where(numbers % children == 0, rounds, NOWHERE) if self.divides else rounds

    def reach(self, allowed: frozenset[int]) -> BoolArray:
        """Which numbers outside (rows) one loop with an allowed factor leaves of which inside (columns)."""
        inner, outer = self.numbers[None, :], self.numbers[:, None]
        if self.divides:
            exact = inner % outer == 0
            listed = np.array(sorted(allowed), dtype=np.int64)
            divides: BoolArray = exact & among(inner // outer, listed)
            return divides
        least = -(-inner // outer)
        most = np.where(outer == 1, inner, -(-inner // np.maximum(outer - 1, 1)) - 1)
        counts = np.zeros(int(self.numbers.max()) + 2, dtype=np.int64)
        listed = np.array([factor for factor in allowed if factor < len(counts) - 1], dtype=np.int64)
        counts[listed + 1] = 1
        upto = np.cumsum(counts)
        some: BoolArray = (outer <= inner) & (upto[np.maximum(most, least - 1) + 1] > upto[least])
        return some


class SlotLoops:
    """The numbers of tiles to which the loops of one slot lead, dimension by dimension."""

    def __init__(self, axes: Sequence[TileAxis], allowed: Sequence[frozenset[int]]) -> None:
        self.axes = tuple(axes)
        self.allowed = tuple(allowed)

    @cached_property
    def live(self) -> frozenset[int]:
        """Dimensions over which the slot may have a loop."""
        return frozenset(d for d, own in enumerate(self.allowed) if own != {1})

    @cached_property
    def may_be_empty(self) -> bool:
        """Whether it may have no loops at all."""
        return all(1 in own for own in self.allowed)

    @cached_property
    def reach(self) -> tuple[BoolArray, ...]:
        """By dimension, which numbers outside one loop leaves of which inside, see `Axis.reach`."""
        return tuple(axis.reach(own) for axis, own in zip(self.axes, self.allowed, strict=True))

    @cached_property
    def _runs(self) -> tuple[bool, ...]:
        """Along which dimensions a running minimum is as good: any factors, and tiles in order."""
        return tuple(
            not axis.divides and len(own) == axis.bound
            for axis, own in zip(self.axes, self.allowed, strict=True)
        )

    @cached_property
    def _steps(self) -> tuple[tuple[tuple[int, int], ...], ...]:
        """By dimension, steps that lead, one after the other, from numbers of tiles to all that loops leave.

        Where a loop may have any divisor those by one prime factor, else none.
        """
        return tuple(
            axis.prime_steps() if axis.divides and own.issuperset(divisors(axis.bound)) else ()
            for axis, own in zip(self.axes, self.allowed, strict=True)
        )

    def least(self, table: FloatArray, dims: Sequence[int] | None = None) -> FloatArray:
        """Per vector of numbers inside, the minimum over what loops leave outside of it.

        Along other dimensions than `dims` (None: all) there are no loops.
        """
        moving = range(len(self.axes)) if dims is None else dims
        still = (d for d in range(len(self.axes)) if d not in moving)
        if any(1 not in self.allowed[d] for d in still):
            return np.full_like(table, np.inf)
        return self.least_over(table, moving)

    def least_over(self, table: FloatArray, moving: Iterable[int]) -> FloatArray:
        """Per vector inside, the minimum over what loops over `moving` leave, whatever others do."""
        result = table
        for d in (d for d in moving if self.allowed[d] != {1}):
            if self._steps[d]:
                result = self._stepped(table.copy() if result is table else result, d)
            else:
                result = self._running(result, d) if self._runs[d] else self._along(result, d)
        return result

    def _stepped(self, table: FloatArray, dim: int) -> FloatArray:
        """Minima over what loops along one dimension leave, in place, by steps of prime factors."""
        running = np.moveaxis(table, dim, 0)
        for place, fewer in self._steps[dim]:
            np.minimum(running[place], running[fewer], out=running[place, ...])
        return table

    def _running(self, table: FloatArray, dim: int) -> FloatArray:
        """Minima over what loops along one dimension leave, by running minima."""
        axis = self.axes[dim]
        halves = axis.at_most(-(-axis.numbers // 2)).tolist()

        def fill(own: FloatArray, least: FloatArray) -> None:
            fewer = np.empty_like(own)
            _fill_running(own, range(len(own))[::-1], fewer)
            for place, half in enumerate(halves):
                np.minimum(own[place], fewer[half], out=least[place, ...])

        return _by_parts(table, dim, fill)

    def _along(self, table: FloatArray, dim: int) -> FloatArray:
        """Minima over what loops along one dimension leave, number by number."""
        moved = np.moveaxis(table, dim, 0)
        result = np.full_like(moved, np.inf)
        for inner, column in enumerate(self.reach[dim].T):
            outer = np.flatnonzero(column)
            if len(outer):
                result[inner] = moved[outer].min(axis=0)
        return np.moveaxis(result, 0, dim)


def running_minimum(table: FloatArray, dim: int, order: Sequence[int]) -> FloatArray:
    """Minima along one dimension over each place and all that come before it in an order."""
    return _by_parts(table, dim, lambda own, least: _fill_running(own, order, least))


def _fill_running(own: FloatArray, order: Sequence[int], least: FloatArray) -> None:
    """Fill a table with running minima of another one along its first axis."""
    least[order[0]] = own[order[0]]
    for before, place in pairwise(order):
        np.minimum(own[place], least[before], out=least[place, ...])


def _by_parts(table: FloatArray, dim: int, fill: Callable[[FloatArray, FloatArray], None]) -> FloatArray:
    """A table that is filled a part at a time, for the cache, along the first axis of each part."""
    parts = table.reshape(math.prod(table.shape[:dim]), table.shape[dim], -1)
    found, rows = np.empty_like(parts), max(1, TOGETHER // parts[0].size)
    for start in range(0, len(parts), rows):
        some = slice(start, start + rows)
        fill(parts[some].swapaxes(0, 1), found[some].swapaxes(0, 1))
    return found.reshape(table.shape)


def axes_of(space: SearchSpace) -> tuple[TileAxis, ...]:
    """The axes of a search space, in the order of its lattice."""
    lattice, divides = space.lattice, space.mapspace.factors != ANY
    return tuple(
        TileAxis(bound, lattice.tiles_along(d).reshape(-1).astype(np.int64), divides)
        for d, bound in enumerate(lattice.bounds)
    )
