"""The checker's reading of densities: the chances that tiles of a tensor are empty, or have so many nonzeros.

Figures are doubles, in the stated order of operations: docs/certificates.md ("Sparse data").
"""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise, product
from math import prod

from solver.certificate.checker.claims import Json, need, remembered

EXACT_WORDS, MOST_CHANCES, MOST_STEPS, WIDEST, NEGLIGIBLE = 1024, 2048, 10_000, 24, 1e-25


Tile = tuple[int, ...]  # words per rank
Chances = tuple[tuple[int, float], ...]  # numbers of nonzeros, and their chances


class Even:
    """Every tile has its share of nonzeros, rounded down or up so that the mean is right."""

    monotone = True  # larger tiles are not empty more often

    def __init__(self, mean: float) -> None:
        self.mean = mean

    @staticmethod
    def parted(number: float) -> tuple[int, float]:
        """Whole part and rest."""
        return math.floor(number), number - math.floor(number)

    def chances(self, tile: Tile) -> Chances:
        """Pairs of a number of nonzeros and its chance, in ascending order."""
        low, rest = self.parted(prod(tile) * self.mean)
        return tuple(pair for pair in ((low, 1 - rest), (low + 1, rest)) if pair[1])

    def empty(self, tile: Tile, around: Tile | None = None, nonzeros: int = 0) -> float:
        """Chance of a tile to be empty; perhaps within one `around` it that has so many nonzeros."""
        number = prod(tile) * (self.mean if around is None else nonzeros / prod(around))
        return 1 - number if number < 1 else 0.0

    def most(self, tile: Tile, confidence: float = 1.0) -> int:
        """Nonzeros that a tile has at most in that share of the cases."""
        low, rest = self.parted(prod(tile) * self.mean)
        return low if confidence <= 1 - rest else low + 1

    def never_empty(self, tile: Tile) -> bool:
        """Whether all tiles have nonzeros."""
        return math.floor(math.floor(prod(tile) * self.mean) / prod(tile) * prod(tile)) > 0

    def pieces(self, tile: Tile, piece: Tile) -> int:
        """Pieces of a tile that are not empty, at most."""
        return min(math.ceil(prod(tile) / prod(piece)), self.most(tile))


class Anywhere:
    """A fixed number of nonzeros, all places alike."""

    monotone = True

    def __init__(self, nonzeros: int, words: int) -> None:
        self.nonzeros, self.words, self.mean = nonzeros, words, nonzeros / words

    def chances(self, tile: Tile) -> Chances:
        """Pairs of a number of nonzeros and its chance, in ascending order."""
        return drawn_chances(self.nonzeros, prod(tile), self.words)

    def empty(self, tile: Tile, around: Tile | None = None, nonzeros: int = 0) -> float:
        """Chance of a tile to be empty; perhaps within one `around` it that has so many nonzeros."""
        marked, words = (self.nonzeros, self.words) if around is None else (nonzeros, prod(around))
        return drawn_none(marked, prod(tile), words)

    def most(self, tile: Tile, confidence: float = 1.0) -> int:
        """Nonzeros that a tile has at most in that share of the cases, rounded away from the median."""
        if confidence >= 1:
            return min(prod(tile), self.nonzeros)
        chances, below = self.chances(tile), 0.0
        for number, chance in chances:
            if confidence < 0.5 and below + chance > confidence:
                return max(chances[0][0], number - 1)
            below += chance
            if confidence >= 0.5 and below >= confidence:
                return number
        return chances[-1][0]

    def never_empty(self, tile: Tile) -> bool:
        """Whether all tiles have nonzeros."""
        spare = prod(tile) - self.words + self.nonzeros
        return spare > 0 and math.floor(spare / prod(tile) * prod(tile)) > 0

    def pieces(self, tile: Tile, piece: Tile) -> int:
        """Pieces of a tile that are not empty, at most."""
        return min(math.ceil(prod(tile) / prod(piece)), self.most(tile))


@lru_cache(1 << 16)
def drawn_none(marked: int, drawn: int, words: int) -> float:
    """Chance that none of `drawn` words is one of those marked."""
    if marked + drawn > words:
        return 0.0
    if words <= EXACT_WORDS:
        return math.comb(words - marked, drawn) / math.comb(words, drawn)
    few, many = min(marked, drawn), max(marked, drawn)
    step, chance = -(-few // MOST_STEPS), 1.0
    for at in range(0, few, step):
        n = min(step, few - at)
        chance *= (1 - many / (words - at - (n - 1) / 2)) ** n
        if not chance:
            break
    return chance


@lru_cache(1 << 12)
def drawn_chances(marked: int, drawn: int, words: int) -> Chances:
    """Pairs of a number of marked words among those drawn and its chance, in ascending order."""
    low, high = max(0, marked + drawn - words), min(marked, drawn)
    if words <= EXACT_WORDS:
        whole = math.comb(words, drawn)
        ways = (
            (k, math.comb(marked, k) * math.comb(words - marked, drawn - k)) for k in range(low, high + 1)
        )
        return tuple((k, n / whole) for k, n in ways)
    share = marked / words
    spread = math.sqrt(drawn * share * (1 - share) * (1 - drawn / words)) + 1
    step = max(1, math.floor(WIDEST * spread / MOST_CHANCES))
    middle = min(high, max(low, (marked + 1) * (drawn + 1) // (words + 2)))
    weights, rest = {middle: 1.0}, words - marked - drawn
    for way in (-1, 1):
        k, weight = middle, 1.0
        while low <= k + way * step <= high and weight > NEGLIGIBLE:
            at = (k if way > 0 else k - step) + (step - 1) / 2
            weight *= ((marked - at) * (drawn - at) / ((at + 1) * (rest + at + 1))) ** (way * step)
            k += way * step
            weights[k] = weight
    total = math.fsum(weights.values())
    return tuple((k, weights[k] / total) for k in sorted(weights))


class Band:
    """A square matrix with nonzeros at most so far from its diagonal; its tiles are those of a regular grid.

    Groups of rows count until the first that the ends of the band do not reach: that one stands for all in
    the middle, those before it for the last ones as well.
    """

    monotone = False

    def __init__(self, size: int, width: int) -> None:
        self.size, self.width = size, width
        self.mean = (size + sum(2 * (size - off) for off in range(1, width + 1))) / size**2

    def nonzeros(self, top: int, left: int, bottom: int, right: int) -> int:
        """Nonzeros of a block."""
        ends = ((max(left, r - self.width, 0), min(right, r + self.width + 1)) for r in range(top, bottom))
        return sum(max(0, end - start) for start, end in ends)

    def tiles(self, rows: int, columns: int) -> Iterator[tuple[int, int, int]]:
        """Yield (row group, top, left) of the tiles that are looked at, up to the first beyond the band."""
        lead = -(-self.width // rows)
        for group in range(min(self.size // rows, lead + 1)):
            end = (group + 1) * rows - 1 + self.width
            lefts = range(0, self.size // columns * columns, columns)
            yield from ((group, group * rows, left) for left in lefts if left <= end or left - columns <= end)

    @remembered
    def counted(self, rows: int, columns: int) -> Chances:
        """Pairs of a number of nonzeros and its chance, always with an entry for zero nonzeros."""
        groups, across, lead = self.size // rows, self.size // columns, -(-self.width // rows)
        counts = Counter({0: 0})
        for group, top, left in self.tiles(rows, columns):
            weight = max(groups - 2 * lead, 0) if group >= lead else 1 if lead == groups else 2
            beyond = left > top + rows - 1 + self.width
            own = 0 if beyond else self.nonzeros(top, left, top + rows, left + columns)
            counts[own] += weight * (across - left // columns if beyond else 1)
        return tuple((k, counts[k] / (groups * across)) for k in sorted(counts))

    def within(self, tile: Tile) -> Chances:
        """The distribution of a tile; what a block of words meets may reach beyond the matrix."""
        return self.counted(*(min(n, self.size) for n in tile))

    def chances(self, tile: Tile) -> Chances:
        """Pairs of a number of nonzeros and its chance, in ascending order."""
        return tuple(pair for pair in self.within(tile) if pair[1])

    def empty(self, tile: Tile, around: Tile | None = None, nonzeros: int = 0) -> float:
        """Chance of a tile to be empty; the first of those around it with so many nonzeros is for all."""
        if around is None:
            return dict(self.within(tile))[0]
        (high, wide), (rows, columns) = around, tile
        pairs = ((top, left) for _, top, left in self.tiles(high, wide))
        top, left = next((t, w) for t, w in pairs if self.nonzeros(t, w, t + high, w + wide) == nonzeros)
        places = product(
            range(top, top + high - rows + 1, rows), range(left, left + wide - columns + 1, columns)
        )
        found = [not self.nonzeros(r, c, r + rows, c + columns) for r, c in places]
        return sum(found) / len(found)

    def most(self, tile: Tile, confidence: float = 1.0) -> int:
        """Nonzeros that a tile has at most in that share of the cases."""
        descending, left = self.chances(tile)[::-1], 1.0
        for (k, _), (_, below) in pairwise(descending):
            if left <= confidence:
                return k
            left -= below
        return descending[-1][0]

    def never_empty(self, tile: Tile) -> bool:
        """Whether all tiles have nonzeros."""
        return math.floor(self.within(tile)[0][0] / prod(tile) * prod(tile)) > 0

    def pieces(self, tile: Tile, piece: Tile) -> int:
        """Pieces of a tile that are not empty, at most."""
        return math.ceil(prod(tile) / prod(piece) * (1 - self.empty(piece, tile, self.most(tile))))


def tensor(doc: Json, lengths: Sequence[int]) -> Even | Anywhere | Band:
    """The distribution of a tensor with so many words per rank."""
    share, kind = float(Fraction(*doc["share"])), doc["kind"]
    need(0 <= share <= 1, "densities are from 0 to 1")
    if kind == "fixed_structured":
        return Even(share)
    if kind == "hypergeometric":
        return Anywhere(math.ceil(share * prod(lengths)), prod(lengths))
    need(kind == "banded", "distributions are of a known kind")
    need(len(lengths) == 2 and lengths[0] == lengths[1], "bands are those of square matrices")
    return Band(lengths[0], doc["band_width"])
