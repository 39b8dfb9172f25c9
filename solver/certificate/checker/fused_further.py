"""Bounds on visits whose loops may have remainders, whatever further shared loops cut them.

Shared loops over a nest with remainders are no loops of a nest of the whole: three rows in passes of two,
over two visits, are tiles of 2, 1, 2 and 1 rows. So tables know a point of a nest by the number T of tiles of
as many iterations that the whole would have there. docs/certificates.md explains why they hold.
"""

from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from math import ceil, inf

import numpy as np

from solver.certificate.checker.bounds import Charge, Choice, Choices, Measure, Words, bandwidths, split
from solver.certificate.checker.claims import Array, Mask, Number, Query, ceiling
from solver.certificate.checker.remainders import Space, leaving


class Further(Words):
    """Words of the visits that further shared loops leave, of any numbers that divide the bounds.

    Loops of a visit end where it does: the next T is then the number of visits, which divides the bound.
    """

    @staticmethod
    def children(number: Number, factors: Sequence[Number]) -> Number:
        """Of several spatial loops, which a visit may end in, the largest one counts."""
        return split(number, [np.maximum.reduce(factors) if factors else 1])

    def tiles(self, p: int, cell: Sequence[Number]) -> list[Number]:
        """Cells stand for tiles at their own point."""
        return [*cell]

    def extents(self, p: int, cell: Sequence[Number]) -> list[Number]:
        """The fewest iterations of a tile."""
        return [ceiling(n, number) for n, number in zip(self.space.bounds, cell, strict=True)]

    def whole(self, charge: Charge, cell: Sequence[Number]) -> Number:
        """Words of all tiles that come, at least as many as iterations: more tiles have more holes."""
        words = 1
        for ((d, _),) in self.spaces[charge.access.v].ranks:
            words = words * self.space.bounds[d]
        return words


class FurtherChoices(Further, Choices):
    """What the choices of spatial factors cost at least, however further shared loops cut."""


class FurtherChoice(Further, Choice):
    """Tables of the visits that further shared loops leave."""

    def number(self, p: int, d: int, cell: int) -> int:
        """What loops of a node split."""
        return cell

    def leaves(self, p: int, d: int, number: int) -> Iterable[int]:
        """Numbers of tiles that a loop makes of as many, and of visits that it may end."""
        return looped(self.space.bounds[d], number, self.space.factors[p][d])

    def unrolled(self, p: int, table: Array) -> Array:
        """The table inside of a fanout, whose loops may end a visit as well."""
        for d, factor in enumerate(self.used[p]):
            along, found = np.moveaxis(table, d, 0), np.full(np.moveaxis(table, d, 0).shape, inf)
            for i, number in enumerate(self.numbers[d]):
                lefts = (
                    looped(self.space.bounds[d], number, range(factor, factor + 1))
                    if factor > 1
                    else [number]
                )
                found[i] = along[[self.place[d][left] for left in lefts]].min(axis=0, initial=inf)
            table = np.moveaxis(found, 0, d)
        return table


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
    choices, choice = (FurtherChoices(space), FurtherChoice) if is_further else (Choices(space), Choice)
    for mask in space.masks():
        energy, cycles = floor_kept(choices, choice, mask, energy, cycles)
    return min(energy, cycles)


def floor_kept(
    choices: Choices, choice: type[Choice], mask: Mask, energy: int | float, cycles: int | float
) -> tuple[int | float, int | float]:
    """The least energy or cycles, whichever is given, for one choice of levels that keep the dataspaces."""
    space = choices.space
    measures: Sequence[Measure] = (bandwidths(space) if energy == inf else ()) or (None,)
    least = choices.cycles(choices.floors(mask, measure) for measure in bandwidths(space))
    floors = choices.floors(mask, None) if energy < inf else least
    for i in np.argsort(floors, kind="stable"):
        if not floors[i] < min(energy, cycles):
            break
        query, low = Query(energy - 1, cycles - 1), int(least[i])
        tables = choice(choices, mask, int(i), query, low, cycles - 1, measures)
        if tables.open and energy < inf:
            energy = tables.spent(tables.origin) + space.arithmetic + tables.leakage(low - space.latency)
        elif tables.open:
            cycles = max(low, *least_cycles(tables, measures))
    return energy, cycles


def least_cycles(tables: Choice, measures: Sequence[Measure]) -> Iterator[int]:
    """Yield what each bandwidth takes at the least, and what networks add, where all costs are cycles."""
    words = (tables.to_go(tables.origin) + tables.direct).tolist()
    for measure, ratio, n in zip(measures, tables.units, words, strict=True):
        yield ceil(int(n) * Fraction(*ratio) + tables.held(measure)) + tables.space.latency
