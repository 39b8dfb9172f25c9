"""The least tile within a given one that still exceeds a capacity: ruling it out rules out the most."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from model.architecture import StorageLevel
from model.cost.counting import tile_words
from model.numbers import divisors
from model.problem import Problem


@dataclass(frozen=True)
class Tile:
    """Tiles of some dataspaces in one level, over the same extents.

    Parameters
    ----------
    kept
        Names of the dataspaces.
    extents
        Of each dimension.
    words
        What they take together, in the level's words.
    """

    kept: frozenset[str]
    extents: Mapping[str, int]
    words: int


def least_oversize(
    problem: Problem, storage: StorageLevel, limit: int, kept: Iterable[str], extents: Mapping[str, int]
) -> Tile:
    """Return a tile within a given one that exceeds a limit as well, and that nothing can be taken from."""
    sizes = {name: storage.packing_of(name).size_per_value for name in kept}
    spaces = {name: problem.dataspace(name) for name in sizes}

    def words(names: Iterable[str], bounds: Mapping[str, int]) -> int:
        return sum(sizes[name] * tile_words(spaces[name], bounds) for name in names)

    left, least = set(sizes), dict(extents)
    for name in sorted(sizes, key=lambda own: (words((own,), extents), own)):
        left -= {name} if words(left - {name}, least) > limit else set()
    open_ = [dim for dim, extent in least.items() if extent > 1]
    while open_:
        # Step by step in turns: a tile of even extents is part of more tiles than a narrow one.
        smaller = {dim: _below(problem.bound[dim], least[dim]) for dim in open_}
        open_ = [dim for dim in open_ if words(left, {**least, dim: smaller[dim]}) > limit]
        for dim in open_:
            fits = words(left, {**least, dim: smaller[dim]}) <= limit
            least[dim] = least[dim] if fits else smaller[dim]
        open_ = [dim for dim in open_ if least[dim] > 1]
    return Tile(frozenset(left), least, words(left, least))


def _below(bound: int, extent: int) -> int:
    """Return the next smaller divisor of a bound."""
    extents = divisors(bound)
    return extents[extents.index(extent) - 1]
