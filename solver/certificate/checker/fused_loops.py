"""Trips of the loops of a fused group, class by class: numbers that divide, or lists that leave remainders.

The loops of a class come to a number, any divisors of which may be loops one after the other. Where shared
loops may have remainders they are listed one by one, outermost first, and a place lies below the first few.
"""

from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

from solver.certificate.checker.claims import ceiling
from solver.certificate.checker.dataspaces import divisors
from solver.certificate.checker.fused_visits import Numbers
from solver.certificate.checker.remainders import numbers_of_tiles

Trips = int | Numbers  # of the loops of a class
Place = tuple[Any, ...]  # trips of each class above a place


def between(outer: Trips, inner: Trips) -> Numbers:
    """The loops of a class between two places."""
    if isinstance(inner, int) and isinstance(outer, int):
        return (inner // outer,) if inner != outer else ()
    assert isinstance(inner, tuple) and isinstance(outer, tuple)
    return inner[len(outer) :]


def further(at: Trips, trips: Trips) -> list[Trips]:
    """The trips that places may have from one on, which is the first of them, up to some `trips`."""
    if isinstance(trips, int) and isinstance(at, int):
        return [at * n for n in divisors(trips // at)]
    assert isinstance(trips, tuple) and isinstance(at, tuple)
    return [trips[:n] for n in range(len(at), len(trips) + 1)]


def none_of(trips: Place) -> Place:
    """What classes have above all loops."""
    return tuple(1 if isinstance(own, int) else () for own in trips)


class Cuttable(NamedTuple):
    """What loops of a class cut: the largest part, or what has to divide several ones.

    `is_any`: loops may leave remainders; `is_plain`: nothing but the extents of parts depends on the loops.
    """

    extent: int
    is_any: bool
    is_plain: bool

    @property
    def tiles(self) -> list[int]:
        """Extents of tiles that loops may cut, the largest first."""
        numbers = numbers_of_tiles(self.extent) if self.is_any else divisors(self.extent)
        return sorted({ceiling(self.extent, n) for n in numbers}, reverse=True)

    @property
    def whole(self) -> int | None:
        """The extent, if a single loop is as good as several ones that cut so."""
        return self.extent if self.is_plain else None

    def lists(self) -> list[Numbers]:
        """All lists of loops."""
        return [own for tile in self.tiles for own in chains(self.extent, tile, self.is_any)]


Ranges = tuple[tuple[Sequence[int], Numbers | None], ...]  # per class: extents of tiles, or loops


@lru_cache(1 << 14)
def chains(extent: int, tile: int, is_any: bool = True) -> tuple[Numbers, ...]:
    """The lists of loops that cut an extent into tiles, of which none is empty if all are the largest.

    Unless there may be `any`, loops divide what they cut.
    """
    if extent == tile:
        return ((),)
    numbers = numbers_of_tiles(extent) if is_any else divisors(extent)
    pairs = ((n, ceiling(extent, n)) for n in numbers if n > 1)
    return tuple((n, *rest) for n, size in pairs if size >= tile for rest in chains(size, tile, is_any))


def single(extent: int, tile: int) -> Numbers:
    """The loop that cuts an extent into tiles."""
    return (ceiling(extent, tile),) if tile < extent else ()


def is_single(extent: int, trips: Numbers) -> bool:
    """Whether no two loops, one after the other, cut an extent as a single loop does."""
    sizes = [extent := ceiling(extent, n) for n in trips]
    return all(outer % inner for outer, inner in pairwise(sizes))
