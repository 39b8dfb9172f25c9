"""One dataspace in a batch of mappings: tiles, deliveries and multicast, as arrays."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from model.cost.batch.encoding import Integers
from model.cost.delivery import distinct_offsets
from model.cost.tiles import tile_words
from model.problem import Dataspace, Problem


@dataclass(frozen=True, eq=False)
class SpaceIndex:
    """How a dataspace is indexed, by position instead of by name.

    Parameters
    ----------
    coefficients
        Shape ``(ranks, dims)``.
    keys
        Shape ``(dims,)``: a step of each dimension as one number. Numbers of different
        displacements differ: they are digits of a base that no sum of steps exceeds.
    groups
        Positions of the relevant dimensions, those that meet in a rank together.
    """

    coefficients: Integers
    keys: Integers
    groups: tuple[tuple[int, ...], ...]

    @cached_property
    def relevant(self) -> tuple[int, ...]:
        """Positions of the dimensions that move the tile."""
        return tuple(dim for group in self.groups for dim in group)


def index_space(problem: Problem, space: Dataspace) -> SpaceIndex:
    """Index `space` by the problem's dimensions.

    Raises
    ------
    OverflowError
        If its words, or their displacements, are so many that a count might not be exact in 64 bits or
        as a double.
    """
    _check_size(problem, space)
    coefficients = np.zeros((len(space.ranks), len(problem.dims)), dtype=np.int64)
    keys = [0] * len(problem.dims)
    digit = 1
    for rank, terms in enumerate(space.ranks):
        for term in terms:
            dim = problem.dims.index(term.dim)
            coefficients[rank, dim] = term.coefficient
            keys[dim] += digit * term.coefficient
        digit *= 4 * sum(abs(term.coefficient) * problem.bound[term.dim] for term in terms) + 1
    if digit * max(problem.bounds) >= 2**62:
        raise OverflowError(f"dataspace {space.name!r} is too large for the batched cost model")
    return SpaceIndex(coefficients, np.array(keys, dtype=np.int64), _groups(coefficients))


def _groups(coefficients: Integers) -> tuple[tuple[int, ...], ...]:
    groups: list[set[int]] = []
    for rank in coefficients:
        members = {int(dim) for dim in np.flatnonzero(rank)}
        meeting = [group for group in groups if group & members]
        groups = [group for group in groups if not group & members] + [members.union(*meeting)]
    return tuple(tuple(sorted(group)) for group in groups if group)


def extents_of(index: SpaceIndex, bounds: Integers) -> Integers:
    """Extent per rank of the bounding boxes that blocks of iterations touch."""
    widths = np.abs(index.coefficients)
    extents = np.ones((len(widths), bounds.shape[1]), dtype=np.int64)
    for rank, dim in zip(*np.nonzero(widths), strict=True):
        extents[rank] += widths[rank, dim] * (bounds[dim] - 1)
    return extents


def fresh_by_dim(index: SpaceIndex, extents: Integers, strides: Integers) -> Integers:
    """New words in a tile after a step of each dimension on its own."""
    fresh = np.zeros_like(strides)
    words = np.prod(extents, axis=0)
    for dim in index.relevant:
        overlap = np.ones_like(words)
        for rank, width in enumerate(np.abs(index.coefficients[:, dim])):
            overlap *= np.maximum(extents[rank] - width * strides[dim], 0) if width else extents[rank]
        fresh[dim] = words - overlap
    return fresh


def distinct_children(index: SpaceIndex, bounds: Integers, strides: Integers) -> Integers:
    """Distinct tile positions among children (see `model.cost.delivery.distinct_offsets`).

    Parameters
    ----------
    index
        The dataspace.
    bounds, strides
        Shape ``(dims, mappings)``: spatial loops, and how far each advances its dimension.

    Returns
    -------
    array
        Shape ``(mappings,)``.
    """
    groups = np.ones(bounds.shape[1], dtype=np.int64)
    for dims in index.groups:
        ranks = np.flatnonzero(index.coefficients[:, dims].any(axis=1))
        if len(dims) == 1:
            groups *= bounds[dims[0]]
        elif len(dims) == 2 and len(ranks) == 1:
            groups *= _distinct_sums(index.coefficients[ranks[0]], dims, bounds, strides)
        else:
            members = list(dims)
            coefficients = index.coefficients[ranks][:, members]
            groups *= _distinct_by_row(coefficients, bounds[members], strides[members])
    return groups


def _distinct_sums(
    coefficients: Integers, dims: tuple[int, ...], bounds: Integers, strides: Integers
) -> Integers:
    """Array form of `model.cost.delivery.distinct_sums` for two dimensions that meet in one rank."""
    first, second = dims
    step_a = np.abs(coefficients[first]) * strides[first]
    step_b = np.abs(coefficients[second]) * strides[second]
    divisor = np.gcd(step_a, step_b)
    repeated_a = np.maximum(bounds[first] - step_b // divisor, 0)
    repeated_b = np.maximum(bounds[second] - step_a // divisor, 0)
    distinct: Integers = bounds[first] * bounds[second] - repeated_a * repeated_b
    return distinct


def _distinct_by_row(coefficients: Integers, bounds: Integers, strides: Integers) -> Integers:
    """Count row by row, each different row once, where several dimensions or ranks are entangled."""
    rows, inverse = np.unique(np.concatenate([bounds, strides]), axis=1, return_inverse=True)
    count = len(bounds)
    found = [
        distinct_offsets(
            (int(row[dim]), tuple(int(c) * int(row[count + dim]) for c in coefficients[:, dim]))
            for dim in range(count)
        )
        for row in rows.T
    ]
    distinct: Integers = np.array(found, dtype=np.int64)[inverse.reshape(-1)]
    return distinct


def most_words(problem: Problem, space: Dataspace) -> int:
    """An upper bound on all counts of words of a dataspace, at one instance of any level.

    Parameters
    ----------
    problem
        Its bounds.
    space
        One of its dataspaces.

    Returns
    -------
    int
        The problem's computes, stretched by every coefficient, and by the bound of a dimension for
        every further rank that it indexes.
    """
    indexing = [term.dim for rank in space.ranks for term in rank]
    stretch = math.prod(abs(term.coefficient) for rank in space.ranks for term in rank)
    diagonals: int = math.prod(problem.bound[dim] ** (indexing.count(dim) - 1) for dim in set(indexing))
    return problem.computes * stretch * diagonals


def _check_size(problem: Problem, space: Dataspace) -> None:
    """Check that all counts are exact as doubles, and shares of partitions fit 64 bits."""
    shared = space.read_write and not _divides(space)
    squared = tile_words(space, problem.bound) ** 2 if shared else 0
    if most_words(problem, space) >= 2**53 or squared >= 2**63:
        raise OverflowError(f"dataspace {space.name!r} is too large for the batched cost model")


def _divides(space: Dataspace) -> bool:
    """Whether the words of tiles divide those of larger ones: each rank is one dimension of its own."""
    terms = [term for rank in space.ranks for term in rank]
    alone = all(len(rank) <= 1 for rank in space.ranks) and len({t.dim for t in terms}) == len(terms)
    return alone and all(abs(term.coefficient) == 1 for term in terms)
