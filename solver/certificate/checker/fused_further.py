"""Bounds on visits whose loops may have remainders, whatever further shared loops cut them.

Shared loops over a nest with remainders are no loops of a nest of the whole: three rows in passes of two,
over two visits, are tiles of 2, 1, 2 and 1 rows. So tables know a point of a nest by the number T of tiles of
as many iterations that the whole would have there. docs/certificates.md explains why they hold.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache, partial
from math import inf
from typing import Any

from solver.certificate.checker.claims import MOST_NUMBERS, Mask, Number, Query, ceiling
from solver.certificate.checker.remainder_bounds import (
    Carried,
    TileCharge,
    TileTables,
    halves,
    limited_bandwidths,
    split,
)
from solver.certificate.checker.remainders import Space, leaving, numbers_of_tiles


class Further(TileTables):
    """Tables of the visits that further shared loops leave, of any numbers that divide the bounds.

    Loops of a visit end where it does: the next T is then the number of visits, which divides the bound.
    """

    def fixed_dims(self) -> list[bool]:
        """Cells stand for tiles at their own point."""
        return [False for _ in self.space.every]

    @staticmethod
    def children(number: Number, factors: Sequence[int]) -> Number:
        """Of several spatial loops, which a visit may end in, the largest one counts."""
        return split(number, [max(factors, default=1)])

    def whole(self, charge: TileCharge, n: int, cell: Sequence[Number]) -> Number:
        """Words of all tiles that come, at least as many as iterations: more tiles have more holes."""
        words = 1
        for ((d, _),) in self.spaces[charge.v].ranks:
            words = words * self.space.bounds[d]
        return words

    def lefts(self, p: int, d: int, number: int, factors: range) -> Iterable[int]:
        """Numbers of tiles that a loop makes of as many, and of visits that it may end."""
        return looped(self.space.bounds[d], number, factors)

    def joins(self, p: int, d: int) -> dict[int, list[int]]:
        """The loops of a node over a dimension as pairs of places."""
        return joins(self.space.bounds[d], self.space.factors[p][d])


class CarriedFurther(Carried, Further):
    """Tables of the words that a bandwidth carries, of visits that further shared loops leave."""


@lru_cache(1 << 12)
def joins(bound: int, factors: range) -> dict[int, list[int]]:
    """The loops over a dimension as places in the list of all numbers of tiles."""
    numbers = numbers_of_tiles(bound)
    place = {number: i for i, number in enumerate(numbers)}
    found = {i: [place[left] for left in looped(bound, number, factors)] for i, number in enumerate(numbers)}
    return {i: lefts for i, lefts in found.items() if lefts}


def ending(bound: int, number: int, factors: range) -> Iterator[int]:
    """Yield each number of visits that a loop over so many tiles of the whole may end."""
    if number == 1:
        return
    least, most = ceiling(bound, number), (bound - 1) // (number - 1)  # iterations of a tile
    for visits in (n for n in range(1, number) if bound % n == 0):
        own = range(max(2, ceiling(bound // visits, most)), ceiling(bound // visits, least) + 1)
        if max(own.start, factors.start) < min(own.stop, factors.stop):
            yield visits


def looped(bound: int, number: int, factors: range) -> list[int]:
    """Numbers of tiles that a loop makes of as many, and of visits that it may end."""
    return [*dict.fromkeys((*leaving(number, factors), *ending(bound, number, factors)))]


def floor(
    space: Space, energy: int | float = inf, cycles: int | float = inf, is_further: bool = False
) -> int | float:
    """The least energy or cycles of all mappings; at most what is given.

    If there may be any further shared loops, it holds however these cut.
    """
    kinds = (Further, CarriedFurther) if is_further else (TileTables, Carried)
    for mask in space.masks():
        energy, cycles = floor_kept(space, mask, energy, cycles, *kinds)
    return min(energy, cycles)


def floor_kept(
    space: Space, mask: Mask, energy: int | float, cycles: int | float, plain: Any, carried: Any
) -> tuple[int | float, int | float]:
    """The least energy or cycles, whichever is given, for one choice of levels that keep the dataspaces."""
    stack = [space.spatial] if len(space.spatial) else []
    known: dict[int, dict[Any, Any]] = defaultdict(dict)
    ways = [partial(carried, way) for way in limited_bandwidths(space) if energy == inf] or [plain]
    while stack and min(energy, cycles) > 0:
        rows = stack.pop()
        tables, query = [], Query(energy - 1, cycles - 1)
        for number, way in enumerate(ways):
            known[number] = {} if len(known[number]) > MOST_NUMBERS // len(space.nodes) else known[number]
            tables += [way(space, mask, rows, query, known[number])] if len(rows) else []
            rows = tables[-1].left
        if len(rows) > 1:
            stack += halves(rows)
        elif len(rows) and not tables[0].single and plain is TileTables:
            stack.append(rows)
        elif len(rows) and energy < inf:
            energy = tables[0].least_energy
        elif len(rows):
            cycles = max(own.least_cycles for own in tables)
    return energy, cycles
