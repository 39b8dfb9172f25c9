"""Extents of a dimension: what tiles may cover of it, and the loops that lead from one extent to the next."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from model.numbers import divisors

Factors = Literal["any", "perfect"]
ANY: Factors = "any"
PERFECT: Factors = "perfect"
FACTORS: tuple[Factors, ...] = (ANY, PERFECT)
"""Whether the last iteration of a loop may be cut short (any factor), or factors divide what they split."""


def tiles_of(bound: int, extent: int) -> int:
    """Number of tiles of an extent, at least 1, that cover `bound` iterations, at least 0."""
    return -(-bound // extent)


def remainder_of(bound: int, inner: int, factor: int) -> int:
    """Iterations of a loop in the last pass over its dimension, 1 up to its factor.

    Parameters
    ----------
    bound, inner, factor
        Of the dimension; the product of the factors inside of the loop; and the loop's.
    """
    return 1 + (bound - 1) // inner % factor


@dataclass(frozen=True, slots=True)
class Extents:
    """The extents that tiles of one dimension may have, and what lies between two of them.

    A chain of loops, innermost first, makes ever larger tiles: each loop multiplies the extent by its
    factor, until the tile is the whole dimension. With remainders the last factor is what is left,
    rounded up: tiles start at multiples of their extents, and only the last one is short.

    Parameters
    ----------
    bound
        Iterations of the dimension, at least 1.
    kind
        ``perfect``: every extent divides the bound. ``any``: the last tile may be short.
    """

    bound: int
    kind: Factors = PERFECT

    @property
    def values(self) -> Sequence[int]:
        """The extents of tiles, ascending: the divisors of the bound, or all up to it."""
        return self.factors(1)

    def tiles(self, extent: int) -> int:
        """Tiles of an extent that cover the dimension."""
        return tiles_of(self.bound, extent)

    def factors(self, extent: int) -> Sequence[int]:
        """Factors, ascending, that a loop around a tile of this extent may have."""
        tiles = self.tiles(extent)
        return divisors(tiles) if self.kind == PERFECT else range(1, tiles + 1)

    def least_factors(self, extent: int) -> Sequence[int]:
        """Those of `factors` that leave fewer tiles outside than any lower one, ascending."""
        tiles = self.tiles(extent)
        if self.kind == PERFECT:
            return divisors(tiles)
        found = [1]
        while (left := tiles_of(tiles, found[-1])) > 1:
            found.append(tiles_of(tiles, left - 1))
        return found

    def grown(self, extent: int, factor: int) -> int:
        """The extent outside of a loop with one of the `factors` around a tile of `extent`."""
        return min(extent * factor, self.bound)

    def between(self, inner: int, outer: int) -> int | None:
        """The factor of the one loop that leads from an extent to another, None if there is no such loop."""
        factor = tiles_of(outer, inner)
        fits = factor in self.factors(inner) and self.grown(inner, factor) == outer
        return factor if fits else None

    def chains(self, loops: int, extent: int = 1) -> Iterator[tuple[int, ...]]:
        """Yield the factors of all chains of so many loops around a tile, innermost first."""
        if loops == 1:
            yield (self.tiles(extent),)
            return
        for factor in self.factors(extent):
            for outer in self.chains(loops - 1, self.grown(extent, factor)):
                yield (factor, *outer)
