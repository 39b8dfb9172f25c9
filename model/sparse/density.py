"""Distributions of nonzeros: how many a tile has, and how probable it is that it has none."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple, Protocol

from model.sparsity import Density

Extents = tuple[int, ...]
"""Words of a tile per rank of its tensor."""

Chance = tuple[int, float]
"""A number of nonzeros, and its probability."""

EXACT_WORDS = 1024
"""Probabilities in tensors up to this size are correctly rounded quotients of whole numbers."""
_MOST_CHANCES = 2048
"""Numbers of nonzeros that are told apart in one tile; in large ones a number stands for its neighbours."""
_MOST_STEPS = 10_000
"""Factors of a probability of no nonzeros; of long products neighbours are taken together."""
_WIDEST_DEVIATIONS = 24
"""Standard deviations beyond which numbers of nonzeros are negligible, in all."""
_NEGLIGIBLE = 1e-25


class Within(NamedTuple):
    """What is known of a tile around a smaller one: its extents, and its nonzeros."""

    extents: Extents
    nonzeros: int


class Distribution(Hashable, Protocol):
    """How the nonzeros of one tensor are distributed. Tiles are anywhere on a regular grid of tiles."""

    @property
    def mean(self) -> float:
        """Expected share of nonzeros of the tensor."""
        ...

    def chances(self, tile: Extents) -> tuple[Chance, ...]:
        """Numbers of nonzeros in a tile in rising order, those without a probability left out."""
        ...

    def empty(self, tile: Extents, within: Within | None = None) -> float:
        """Probability that a tile has no nonzeros, given those of a tile around it."""
        ...

    def most(self, tile: Extents, confidence: float = 1.0) -> int:
        """Nonzeros that a tile does not exceed in a share `confidence` of the cases."""
        ...

    def least(self, tile: Extents) -> int:
        """Nonzeros that every tile has."""
        ...

    def most_pieces(self, tile: Extents, piece: Extents) -> int:
        """The most pieces of a tile that are not empty."""
        ...


@dataclass(frozen=True)
class FixedStructured:
    """Every tile has its share of nonzeros, rounded down or up so that the mean is right."""

    mean: float

    def chances(self, tile: Extents) -> tuple[Chance, ...]:
        """See `Distribution`."""
        low, above = _floor_and_rest(math.prod(tile) * self.mean)
        both = ((low, 1 - above), (low + 1, above))
        return tuple(chance for chance in both if chance[1] != 0)

    def empty(self, tile: Extents, within: Within | None = None) -> float:
        """See `Distribution`; the nonzeros of a tile around are spread evenly."""
        share = self.mean if within is None else within.nonzeros / math.prod(within.extents)
        nonzeros = math.prod(tile) * share
        return 1 - nonzeros if nonzeros < 1 else 0.0

    def most(self, tile: Extents, confidence: float = 1.0) -> int:
        """See `Distribution`."""
        low, above = _floor_and_rest(math.prod(tile) * self.mean)
        return low if confidence <= 1 - above else low + 1

    def least(self, tile: Extents) -> int:
        """See `Distribution`."""
        words = math.prod(tile)
        return math.floor(math.floor(words * self.mean) / words * words)

    def most_pieces(self, tile: Extents, piece: Extents) -> int:
        """See `Distribution`."""
        return _most_pieces(self, tile, piece)


def _most_pieces(distribution: Distribution, tile: Extents, piece: Extents) -> int:
    """Return how many pieces of a tile its nonzeros can lie in."""
    return min(math.ceil(math.prod(tile) / math.prod(piece)), distribution.most(tile))


def _floor_and_rest(nonzeros: float) -> tuple[int, float]:
    low = math.floor(nonzeros)
    return low, nonzeros - low


@dataclass(frozen=True)
class Hypergeometric:
    """A fixed number of nonzeros lies anywhere in a tensor of `words`, all places alike."""

    nonzeros: int
    words: int

    @property
    def mean(self) -> float:
        """See `Distribution`."""
        return self.nonzeros / self.words

    def chances(self, tile: Extents) -> tuple[Chance, ...]:
        """See `Distribution`; in large tiles a number stands for itself and its neighbours."""
        return _hypergeometric(self.nonzeros, math.prod(tile), self.words)

    def empty(self, tile: Extents, within: Within | None = None) -> float:
        """See `Distribution`."""
        if within is None:
            return _none_drawn(self.nonzeros, math.prod(tile), self.words)
        return _none_drawn(within.nonzeros, math.prod(tile), math.prod(within.extents))

    def most(self, tile: Extents, confidence: float = 1.0) -> int:
        """See `Distribution`."""
        words = math.prod(tile)
        if confidence >= 1:
            return min(words, self.nonzeros)
        return _quantile(_hypergeometric(self.nonzeros, words, self.words), confidence)

    def least(self, tile: Extents) -> int:
        """See `Distribution`."""
        words = math.prod(tile)
        spare = words - self.words + self.nonzeros
        return math.floor(spare / words * words) if spare > 0 else 0

    def most_pieces(self, tile: Extents, piece: Extents) -> int:
        """See `Distribution`."""
        return _most_pieces(self, tile, piece)


def _quantile(chances: tuple[Chance, ...], confidence: float) -> int:
    """Nonzeros whose share of cases is `confidence`, rounded away from the median."""
    below = 0.0
    for number, chance in chances:
        if confidence < 0.5 and below + chance > confidence:
            return max(chances[0][0], number - 1)
        below += chance
        if confidence >= 0.5 and below >= confidence:
            return number
    return chances[-1][0]


@lru_cache(maxsize=65536)
def _none_drawn(marked: int, drawn: int, words: int) -> float:
    """Probability that none of `drawn` words is one of `marked`, out of `words`."""
    if marked + drawn > words:
        return 0.0
    if words <= EXACT_WORDS:
        return math.comb(words - marked, drawn) / math.comb(words, drawn)
    fewer, more = sorted((marked, drawn))
    step = -(-fewer // _MOST_STEPS)
    chance = 1.0
    for taken in range(0, fewer, step):
        together = min(step, fewer - taken)
        chance *= (1 - more / (words - taken - (together - 1) / 2)) ** together
        if not chance:
            break
    return chance


@lru_cache(maxsize=4096)
def _hypergeometric(marked: int, drawn: int, words: int) -> tuple[Chance, ...]:
    least, most = max(0, marked + drawn - words), min(marked, drawn)
    if words <= EXACT_WORDS:
        return tuple(_exact_chances(marked, drawn, words, least, most))
    return _relative_chances(marked, drawn, words, least, most)


def _exact_chances(marked: int, drawn: int, words: int, least: int, most: int) -> Iterator[Chance]:
    ways = math.comb(marked, least) * math.comb(words - marked, drawn - least)
    in_all = math.comb(words, drawn)
    for number in range(least, most + 1):
        yield number, ways / in_all
        ways = ways * (marked - number) * (drawn - number)
        ways //= (number + 1) * (words - marked - drawn + number + 1)


def _relative_chances(marked: int, drawn: int, words: int, least: int, most: int) -> tuple[Chance, ...]:
    """Chances from the most probable number outwards, until they are negligible, some in place of all."""
    spread = math.sqrt(drawn * (marked / words) * (1 - marked / words) * (1 - drawn / words)) + 1
    step = max(1, math.floor(_WIDEST_DEVIATIONS * spread / _MOST_CHANCES))
    rest = words - marked - drawn
    middle = min(most, max(least, (marked + 1) * (drawn + 1) // (words + 2)))

    def outwards(sign: int) -> Iterator[Chance]:
        number, weight = middle, 1.0
        while least <= number + sign * step <= most and weight > _NEGLIGIBLE:
            low = (number if sign > 0 else number - step) + (step - 1) / 2
            ratio = (marked - low) * (drawn - low) / ((low + 1) * (rest + low + 1))
            weight *= ratio ** (sign * step)
            number += sign * step
            yield number, weight

    found = [*reversed(list(outwards(-1))), (middle, 1.0), *outwards(1)]
    total = math.fsum(weight for _, weight in found)
    return tuple((number, weight / total) for number, weight in found)


@dataclass(frozen=True)
class Banded:
    """A square matrix with nonzeros at most `width` from its diagonal.

    Row groups are looked at until the first one that the ends of the band do not reach; that one stands for
    all others, and those before it count for the last ones as well.

    Parameters
    ----------
    size, width
        Rows and columns of the matrix; the greatest distance of a nonzero from the diagonal.
    defects
        Whether to count as Timeloop does: a tile around a smaller one from twice its offset, and empty
        pieces of a fiber in place of the others.
    """

    size: int
    width: int
    defects: bool = False

    @property
    def mean(self) -> float:
        """See `Distribution`."""
        nonzeros = self.size + sum(2 * (self.size - off) for off in range(1, self.width + 1))
        return nonzeros / self.size**2

    def chances(self, tile: Extents) -> tuple[Chance, ...]:
        """See `Distribution`."""
        return tuple(chance for chance in self._counted(tile) if chance[1] != 0)

    def empty(self, tile: Extents, within: Within | None = None) -> float:
        """See `Distribution`; the first tile around that has so many nonzeros stands for all."""
        if within is None:
            return dict(self._counted(tile))[0]
        row, column = self._first(within)
        (rows, columns), (high, wide) = tile, within.extents
        again = (row, column) if self.defects else (0, 0)
        none = total = 0
        for r in range(row, row + high - rows + 1, rows):
            for c in range(column, column + wide - columns + 1, columns):
                none += not self._nonzeros(r + again[0], c + again[1], r + rows, c + columns)
                total += 1
        return none / total

    def most(self, tile: Extents, confidence: float = 1.0) -> int:
        """See `Distribution`."""
        counted = self.chances(tile)[::-1]
        place, left = 0, 1.0
        while left > confidence and place + 1 < len(counted):
            place += 1
            left -= counted[place][1]
        return counted[place][0]

    def least(self, tile: Extents) -> int:
        """See `Distribution`."""
        words = math.prod(tile)
        return math.floor(self._counted(tile)[0][0] / words * words)

    def most_pieces(self, tile: Extents, piece: Extents) -> int:
        """See `Distribution`; Timeloop counts the empty pieces instead."""
        empty = self.empty(piece, Within(tile, self.most(tile)))
        return math.ceil(math.prod(tile) / math.prod(piece) * (empty if self.defects else 1 - empty))

    def _nonzeros(self, top: int, left: int, bottom: int, right: int) -> int:
        reach = (
            (max(left, row - self.width, 0), min(right, row + self.width + 1)) for row in range(top, bottom)
        )
        return sum(max(0, end - start) for start, end in reach)

    def _scanned(self, tile: Extents) -> Iterator[tuple[int, int, int]]:
        """Yield the tiles of the first row groups up to the end of the band: row group, row, column."""
        rows, columns = tile
        for group in range(min(self.size // rows, self._lead(rows) + 1)):
            end = (group + 1) * rows - 1 + self.width
            lefts = range(0, self.size // columns * columns, columns)
            beyond = next((left for left in lefts if left > end), None)
            reached = (left for left in lefts if beyond is None or left <= beyond)
            yield from ((group, group * rows, left) for left in reached)

    def _lead(self, rows: int) -> int:
        return -(-self.width // rows)

    def _first(self, within: Within) -> tuple[int, int]:
        """Return the first tile with so many nonzeros."""
        rows, columns = within.extents
        for _, top, left in self._scanned(within.extents):
            if self._nonzeros(top, left, top + rows, left + columns) == within.nonzeros:
                return top, left
        raise ValueError(f"no tile of {rows} x {columns} has {within.nonzeros} nonzeros")

    def _counted(self, tile: Extents) -> tuple[Chance, ...]:
        # What a whole block of words meets may reach beyond the matrix.
        return _counted_band(self, tuple(min(extent, self.size) for extent in tile))


@lru_cache(maxsize=4096)
def _counted_band(band: Banded, tile: Extents) -> tuple[Chance, ...]:
    """Numbers of nonzeros with their shares, in rising order; zero is always among them."""
    rows, columns = tile
    groups, across, lead = band.size // rows, band.size // columns, band._lead(rows)
    counts = {0: 0}
    for group, top, left in band._scanned(tile):
        weight = max(groups - 2 * lead, 0) if group >= lead else 1 if lead == groups else 2
        beyond = left > top + rows - 1 + band.width
        nonzeros = 0 if beyond else band._nonzeros(top, left, top + rows, left + columns)
        tiles = across - left // columns if beyond else 1
        counts[nonzeros] = counts.get(nonzeros, 0) + weight * tiles
    return tuple((number, counts[number] / (groups * across)) for number in sorted(counts))


def distribution_of(density: Density, tensor: Extents, defects: bool = False) -> Distribution:
    """Return the distribution of a tensor's nonzeros.

    Parameters
    ----------
    density
        How the tensor's density is written.
    tensor
        Its extents; a square matrix for a band.
    defects
        Whether to count as Timeloop does where that is wrong.

    Raises
    ------
    ValueError
        A band of what is no square matrix.
    """
    if density.distribution == "fixed_structured":
        return FixedStructured(float(density.share))
    if density.distribution == "hypergeometric":
        words = math.prod(tensor)
        return Hypergeometric(math.ceil(float(density.share) * words), words)
    if len(tensor) != 2 or tensor[0] != tensor[1]:
        raise ValueError("a band needs a square matrix")
    return Banded(tensor[0], density.band_width, defects)
