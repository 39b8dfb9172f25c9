"""What one dataspace's tile holds at each level: expected nonzeros and metadata, and the most of both."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from model.sparse.density import Chance, Distribution, Extents, Within
from model.sparse.fibers import FiberTree, Units, expected_metadata
from model.sparse.nest import Bounds, FullNest


@dataclass(frozen=True)
class Holding:
    """A dataspace's tile at one level.

    Parameters
    ----------
    tile
        Extents of the tile of dense data.
    tree
        Its ranks; None if it has no metadata.
    distribution
        Of the tensor's nonzeros.
    expected
        Nonzeros of a tile, on average over those that come here.
    density
        Share of nonzeros among the words of tiles that come here, short ones included.
    metadata
        Expected metadata, per rank.
    arriving
        Share of the words whose tiles come here: empty ones do not where the next outer level knows of them.
    """

    tile: Extents
    tree: FiberTree | None
    distribution: Distribution
    expected: float
    density: float
    metadata: tuple[Units, ...]
    arriving: float

    @property
    def words(self) -> int:
        """Words of the tile of dense data."""
        return math.prod(self.tile)

    @property
    def compressed(self) -> bool:
        """Whether empty parts are left out."""
        representation = None if self.tree is None else self.tree.representation
        return representation is not None and representation.compressed

    @property
    def format(self) -> str:
        """Formats of the ranks, the top one first."""
        representation = None if self.tree is None else self.tree.representation
        ranks = () if representation is None else representation.ranks
        return " ".join(rank.format for rank in reversed(ranks))

    def metadata_at(self, confidence: float) -> tuple[Units, ...]:
        """Metadata of a tile with the most nonzeros that it has in a share of the cases."""
        if self.tree is None:
            return ()
        most = self.distribution.most(self.tile, confidence)
        return self.tree.metadata(Within(self.tile, most), self.distribution)

    def bits(self, units: Iterable[tuple[float, float]]) -> float:
        """Bits of some metadata per rank."""
        total = 0.0
        for place, (metadata, payload) in enumerate(units):
            assert self.tree is not None
            metadata_bits, payload_bits = self.tree.bits(place)
            total += metadata * metadata_bits + payload * payload_bits
        return total


def holdings(
    nest: FullNest,
    dataspace: str,
    trees: Mapping[int, FiberTree],
    distribution: Distribution,
    defects: bool,
) -> dict[int, Holding]:
    """Return what each level that keeps a dataspace holds of it, by position.

    Parameters
    ----------
    trees
        Of the levels with metadata.
    defects
        Whether to take the first probability for that of an empty tile, as Timeloop does even where no tile
        is empty.
    """
    held: dict[int, Holding] = {}
    for position in nest.kept[dataspace]:
        box, tree = nest.box(position), trees.get(position)
        announced = nest.parent(dataspace, position) in trees

        def coming(box: Bounds, announced: bool = announced) -> tuple[tuple[Chance, ...], float]:
            tile = nest.tile(dataspace, box)
            if not announced or distribution.least(tile):
                return distribution.chances(tile), 1.0
            return _without_empty(distribution.chances(tile), defects)

        tile, (chances, of_whole) = nest.tile(dataspace, box), coming(box)
        metadata = () if tree is None else expected_metadata(tree, tile, distribution, chances)
        expected = _expected(chances)
        arriving, density = of_whole, expected / math.prod(tile)
        if nest.plain.remainder_dims:
            arriving = nest.mean(box, lambda own: coming(own)[1])
            density = nest.mean(box, lambda own: _nonzeros(distribution, nest.tile(dataspace, own)))
            density = density / arriving if arriving else 0.0
            metadata = tuple(unit.times(of_whole / arriving if arriving else 0.0) for unit in metadata)
        held[position] = Holding(tile, tree, distribution, expected, density, metadata, arriving)
    return held


def _nonzeros(distribution: Distribution, tile: Extents) -> float:
    """Expected share of nonzeros of a tile, be it empty or not."""
    return _expected(distribution.chances(tile)) / math.prod(tile)


def _expected(chances: Iterable[Chance]) -> float:
    total = 0.0
    for number, chance in chances:
        total += chance * number
    return total


def _without_empty(chances: tuple[Chance, ...], defects: bool) -> tuple[tuple[Chance, ...], float]:
    """Condition chances on a tile that is not empty; return the share of such tiles, too."""
    (first, empty), *others = chances
    if first and not defects:
        return chances, 1.0
    share = 1 - empty
    return tuple((number, chance / share) for number, chance in others), share
