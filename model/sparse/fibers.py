"""Tiles as trees of fibers: which loops form a rank, and the metadata of a tile."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

from model.sparse.density import Distribution, Extents, Within
from model.sparse.nest import FullLoop, FullNest, MappingError
from model.sparsity import Rank, Representation


class Units(NamedTuple):
    """Words of metadata, and of the payloads that lead to the next rank; possibly fractions."""

    metadata: float
    payload: float

    def times(self, factor: float) -> Units:
        """Return so many times as many."""
        return Units(self.metadata * factor, self.payload * factor)


NO_UNITS = Units(0.0, 0.0)


@dataclass(frozen=True)
class Fiber:
    """One rank of a tile, as the loops of a mapping shape it.

    Parameters
    ----------
    words
        Coordinates of one fiber; 1 for a rank without loops.
    tile
        Extents of what one fiber of the rank covers.
    """

    words: int
    tile: Extents


@dataclass(frozen=True)
class FiberTree:
    """The ranks of one dataspace's tile at one level.

    Parameters
    ----------
    fibers
        The lowest rank first.
    lowest
        Extents of what one coordinate of the lowest rank leads to.
    representation
        None for a tile that is stored as it is: all its loops form one rank.
    """

    fibers: tuple[Fiber, ...]
    lowest: Extents
    representation: Representation | None

    def metadata(self, within: Within, distribution: Distribution) -> tuple[Units, ...]:
        """Words of metadata per rank, the lowest first, of a tile with so many nonzeros."""
        assert self.representation is not None
        ranks = self.representation.ranks
        found: list[Units] = []
        count, tile = 1, within.extents
        known = within
        for place in reversed(range(len(ranks))):
            fiber = self.fibers[place]
            below = self.fibers[place - 1].tile if place else self.lowest
            idle = self._idle(place)
            found.append(
                NO_UNITS
                if idle
                else _units_of_rank(ranks[place], count, fiber, (tile, below), known, distribution)
            )
            count *= fiber.words
            tile = below
        return _without_data(found[::-1])

    def bits(self, place: int) -> tuple[int, int]:
        """Bits of one word of metadata and of one payload at a rank."""
        assert self.representation is not None
        rank = self.representation.ranks[place]
        return (0, 0) if self._idle(place) else (rank.metadata_bits, rank.payload_bits)

    def _idle(self, place: int) -> bool:
        """Whether a rank needs nothing: its fibers have one coordinate, and it is not the first one."""
        assert self.representation is not None
        first = 0 if self.representation.inner_to_outer else len(self.fibers) - 1
        return self.fibers[place].words == 1 and place != first


def _units_of_rank(
    rank: Rank,
    count: int,
    fiber: Fiber,
    tiles: tuple[Extents, Extents],
    known: Within,
    distribution: Distribution,
) -> Units:
    """Return the words of one rank with `count` fibers, empty ones included."""
    if rank.format == "UB":
        return Units(float(count * fiber.words), float(count * fiber.words))
    tile, below = tiles
    full = count * (1 - distribution.empty(tile, known))
    if rank.format == "UOP":
        return Units(0.0, full * (fiber.words + 1))
    filled = fiber.words * (1 - distribution.empty(below, known))
    if rank.format == "RLE":
        return Units(filled * full, filled * full)
    if rank.format == "CP":
        return Units(math.ceil(filled) * full, math.ceil(filled) * full)
    return Units(full * fiber.words, full * math.ceil(filled))


def _without_data(units: Sequence[Units]) -> tuple[Units, ...]:
    """Leave out the payloads of the lowest rank that has anything: they are the data."""
    last = next((place for place, unit in enumerate(units) if unit != NO_UNITS), None)
    return tuple(Units(u.metadata, 0.0) if place == last else u for place, u in enumerate(units))


def fiber_trees(
    nest: FullNest,
    dataspace: str,
    names: dict[int, str],
    representations: dict[int, Representation],
) -> dict[int, FiberTree]:
    """Return the ranks of a dataspace's tile at each level that keeps it.

    A compressed level is tiled for the next inner one: its lowest ranks are that level's ranks. At any other
    level the loops reach down to single words.

    Parameters
    ----------
    names
        Of the levels, by position.
    representations
        By position; other levels store the tile as it is.

    Raises
    ------
    MappingError
        If the loops need more ranks than a format has, or formats of two levels do not fit.
    """
    trees: dict[int, FiberTree] = {}
    for position in reversed(nest.kept[dataspace]):
        representation = representations.get(position)
        child = nest.child(dataspace, position)
        inner = None
        if child is not None and representation is not None and representation.compressed:
            inner = trees[child] if nest.words(dataspace, nest.box(child)) > 1 else None
        if inner is not None and representation is not None:
            _check_inner_format(names[position], dataspace, representation, inner)
        loops = _shaping_loops(nest, dataspace, position, reaches_down=inner is None)
        start = 0 if inner is None else len(inner.fibers)
        fibers, complete = _assigned(nest, dataspace, loops, representation, start)
        if not complete:
            raise MappingError(names[position], f"`{dataspace}` has more loops than its format has ranks")
        one = nest.tile(dataspace, dict.fromkeys(nest.problem.dims, 1))
        trees[position] = FiberTree(
            (*(inner.fibers if inner else ()), *fibers), inner.lowest if inner else one, representation
        )
    return trees


def _check_inner_format(name: str, dataspace: str, outer: Representation, inner: FiberTree) -> None:
    below = inner.representation
    if len(inner.fibers) > len(outer.ranks):
        message = f"`{dataspace}` has fewer ranks than at the next inner level, for which it is tiled"
        raise MappingError(name, message)
    if below is None or not below.compressed:
        return
    pairs = zip(outer.ranks, below.ranks, strict=False)
    if any(one.format != other.format for one, other in pairs):
        message = f"the lowest ranks of `{dataspace}` have other formats than at the next inner level"
        raise MappingError(name, message)


@dataclass(frozen=True)
class _Shaping:
    """A loop that may form a rank, with the box that it and all loops inside span."""

    loop: FullLoop
    tile: Extents


def _shaping_loops(nest: FullNest, dataspace: str, position: int, reaches_down: bool) -> list[_Shaping]:
    """Return the loops between a level and its child that move the tile, innermost first."""
    served = nest.served_by(dataspace, position)
    inner = nest.boxes[served.start - 1] if served.start else dict.fromkeys(nest.problem.dims, 1)
    factors = dict(inner) if reaches_down else {}
    dims = nest.space(dataspace).dims
    shaping: list[_Shaping] = []
    for index in served:
        loop = nest.loops[index]
        if loop.dim not in dims:
            continue
        bound = min(loop.bound * factors.pop(loop.dim, 1), nest.problem.bound[loop.dim])
        shaping.append(_Shaping(replace(loop, bound=bound), nest.tile(dataspace, nest.boxes[index])))
    return shaping


def _assigned(
    nest: FullNest,
    dataspace: str,
    shaping: Sequence[_Shaping],
    representation: Representation | None,
    start: int,
) -> tuple[list[Fiber], bool]:
    """Give loops to the ranks from number `start` on; False where loops are left over."""
    one = dict.fromkeys(nest.problem.dims, 1)
    idle = Fiber(1, shaping[0].tile if shaping else nest.tile(dataspace, one))
    live = [shape for shape in shaping if not shape.loop.trivial]
    if representation is None:
        return [_fiber(nest, dataspace, live[::-1]) if live else idle], True
    count = len(representation.ranks)
    if not representation.inner_to_outer:
        groups, left = _grouped(representation, live[::-1], reversed(range(start, count)))
        fibers = [_fiber(nest, dataspace, group) if group else idle for group in groups]
        return [*[idle] * (count - start - len(fibers)), *fibers[::-1]], not left
    groups, left = _grouped(representation, live, iter(range(start, count)))
    passed = Fiber(1, nest.tile(dataspace, one))
    fibers = [_fiber(nest, dataspace, group) if group else passed for group in groups]
    return [*fibers, *[idle] * (count - start - len(fibers))], not left


def _grouped(
    representation: Representation, loops: Sequence[_Shaping], places: Iterable[int]
) -> tuple[list[list[_Shaping]], Sequence[_Shaping]]:
    """Group loops by rank, in the order in which ranks take them; return those left over, too."""
    groups: list[list[_Shaping]] = []
    left = loops
    for size in _loops_by_rank(representation, [shape.loop.dim for shape in loops], places):
        groups.append(list(left[:size]))
        left = left[size:]
    return groups, left


def _loops_by_rank(
    representation: Representation, dims: Sequence[str], places: Iterable[int]
) -> Iterator[int]:
    """Yield how many loops over some dimensions each rank takes, as long as there are any.

    A rank that flattens other dimensions than the next loop's takes none.
    """
    taken = 0
    for place in places:
        if taken == len(dims):
            return
        rank = representation.ranks[place]
        together = rank.group_of(dims[taken])
        count = 0 if rank.flattened and not together else 1
        while 0 < count < len(dims) - taken and dims[taken + count] in together:
            count += 1
        yield count
        taken += count


def has_ranks_for(representation: Representation, dims: Sequence[str], copied: int) -> bool:
    """Whether a format has ranks for some loops.

    Parameters
    ----------
    representation
        The format.
    dims
        Dimensions of the loops, the outermost loop first.
    copied
        Its lowest ranks that are those of the next inner level.
    """
    places = range(copied, len(representation.ranks))
    if representation.inner_to_outer:
        return sum(_loops_by_rank(representation, dims[::-1], places)) == len(dims)
    return sum(_loops_by_rank(representation, dims, reversed(places))) == len(dims)


def _fiber(nest: FullNest, dataspace: str, group: Sequence[_Shaping]) -> Fiber:
    """Return the rank of some loops; its tile is that of the loop that was taken first."""
    bounds = dict.fromkeys(nest.problem.dims, 1)
    for shape in group:
        bounds[shape.loop.dim] *= shape.loop.bound
    return Fiber(nest.words(dataspace, bounds), group[0].tile)


@lru_cache(maxsize=4096)
def expected_metadata(
    tree: FiberTree, tile: Extents, distribution: Distribution, chances: tuple[tuple[int, float], ...]
) -> tuple[Units, ...]:
    """Return the expected words of metadata per rank over the numbers of nonzeros of a tile."""
    totals = [[0.0, 0.0] for _ in tree.fibers]
    for number, chance in chances:
        for total, unit in zip(totals, tree.metadata(Within(tile, number), distribution), strict=True):
            total[0] += unit.metadata * chance
            total[1] += unit.payload * chance
    return tuple(Units(*total) for total in totals)
