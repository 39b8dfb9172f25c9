"""Tiles: the box of words that a block of the iteration space touches, and how loops move it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from model.problem import Dataspace

Vector = tuple[int, ...]


def extents(space: Dataspace, bounds: Mapping[str, int]) -> Vector:
    """Extent per rank of the bounding box that a block of iterations touches.

    A rank spans ``1 + sum(|coefficient| * (bound - 1))`` words: the holes that a stride leaves
    count.

    Parameters
    ----------
    space
        The dataspace.
    bounds
        Iterations of each dimension, at least 1; dimensions that are missing stand still.

    Returns
    -------
    tuple of int
        Words, one entry per rank.
    """
    return tuple(
        1 + sum(abs(term.coefficient) * (bounds.get(term.dim, 1) - 1) for term in rank)
        for rank in space.ranks
    )


def tile_words(space: Dataspace, bounds: Mapping[str, int]) -> int:
    """Words in the bounding box of `extents`; same parameters."""
    return math.prod(extents(space, bounds))


def displacement(space: Dataspace, dim: str, stride: int) -> Vector:
    """How far a tile moves when a dimension advances.

    Parameters
    ----------
    space
        The dataspace.
    dim, stride
        The dimension, and by how much it advances.

    Returns
    -------
    tuple of int
        Words per rank, of either sign.
    """
    if dim not in space.dims:
        return (0,) * len(space.ranks)
    return tuple(sum(term.coefficient for term in rank if term.dim == dim) * stride for rank in space.ranks)


def fresh_words(tile: Sequence[int], move: Sequence[int]) -> int:
    """Words of a box that it did not cover before it moved."""
    overlap = math.prod(max(0, extent - abs(step)) for extent, step in zip(tile, move, strict=True))
    return math.prod(tile) - overlap
