"""Words that one dataspace moves in a batch of mappings: tiles, deliveries, multicast, accesses."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import NamedTuple

import numpy as np

from model.architecture import Architecture, Fanout, StorageLevel
from model.cost.batch.mappings import BatchNest, Booleans, Integers
from model.counting.first_touches import free_share
from model.counting.words import connected, distinct_offsets, tile_words
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

    @cached_property
    def partitions(self) -> bool:
        """Whether tiles partition the tensor: every dimension indexes one rank alone, without gaps."""
        by_rank = np.count_nonzero(self.coefficients, axis=1)
        by_dim = np.count_nonzero(self.coefficients, axis=0)
        return bool((by_rank <= 1).all() and (by_dim <= 1).all() and (np.abs(self.coefficients) <= 1).all())

    @cached_property
    def slides(self) -> bool:
        """Whether several dimensions index one rank, so that neighbouring tiles may overlap."""
        return bool((np.count_nonzero(self.coefficients, axis=1) > 1).any())


def index_space(problem: Problem, space: Dataspace, rounded: bool = False) -> SpaceIndex:
    """Index `space` by the problem's dimensions.

    Raises
    ------
    OverflowError
        If its words, or their displacements, are so many that a count might not be exact in 64 bits or
        as a double. Counts that are `rounded` may be larger; there are no keys then, which only Timeloop's
        rule needs.
    """
    _check_size(problem, space, rounded)
    coefficients = np.zeros((len(space.ranks), len(problem.dims)), dtype=np.int64)
    keys = [0] * len(problem.dims)
    digit = 1
    for rank, terms in enumerate(space.ranks):
        for term in terms:
            dim = problem.dims.index(term.dim)
            coefficients[rank, dim] = term.coefficient
            keys[dim] += digit * term.coefficient
        digit *= 4 * sum(abs(term.coefficient) * problem.bound[term.dim] for term in terms) + 1
    if rounded:
        keys = [0] * len(keys)
    elif digit * max(problem.bounds) >= 2**62:
        raise OverflowError(f"dataspace {space.name!r} is too large for the batched cost model")
    return SpaceIndex(coefficients, np.array(keys, dtype=np.int64), _joined_ranks(coefficients))


def _joined_ranks(coefficients: Integers) -> tuple[tuple[int, ...], ...]:
    dims = [{int(dim) for dim in np.flatnonzero(rank)} for rank in coefficients]
    groups = (set[int]().union(*(dims[rank] for rank in ranks)) for ranks in connected(dims))
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


def distinct_children_of_each(index: SpaceIndex, bounds: Integers, strides: Integers) -> Integers:
    """Distinct tile positions among children (see `model.counting.words.distinct_offsets`).

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
    """Array form of `model.counting.words.distinct_sums` for two dimensions that meet in one rank."""
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


def _check_size(problem: Problem, space: Dataspace, rounded: bool) -> None:
    """Check that all counts are exact as doubles, and shares of partitions fit 64 bits.

    Of counts that are rounded, only tiles and steps without remainders have to fit 64 bits.
    """
    shared = space.read_write and not rounded and not _divides(space)
    squared = tile_words(space, problem.bound) ** 2 if shared else 0
    if most_words(problem, space) >= (2**62 if rounded else 2**53) or squared >= 2**63:
        raise OverflowError(f"dataspace {space.name!r} is too large for the batched cost model")


def _divides(space: Dataspace) -> bool:
    """Whether the words of tiles divide those of larger ones: each rank is one dimension of its own."""
    terms = [term for rank in space.ranks for term in rank]
    alone = all(len(rank) <= 1 for rank in space.ranks) and len({t.dim for t in terms}) == len(terms)
    return alone and all(abs(term.coefficient) == 1 for term in terms)


class BatchTraffic(NamedTuple):
    """Words of a dataspace per instance, each of shape ``(storage levels, mappings)``; 0 where bypassed."""

    tile_words: Integers
    reads: Integers
    fills: Integers
    updates: Integers


def kept_levels(architecture: Architecture, space: Dataspace, keep: Booleans) -> Booleans:
    """Levels that keep a dataspace in effect.

    With nothing kept farther out, a level that passes its stream on counts as bypassing.
    """
    kept = keep.copy()
    for level, storage in enumerate(architecture.levels):
        if space.name in storage.passing:
            kept[level] &= kept[:level].any(axis=0)
    return kept


Touches = Callable[[int, Integers], Integers]
"""Array form of `model.counting.Touched`; the inner nodes may differ by mapping."""


@dataclass(frozen=True)
class BatchRule:
    """Array form of a general counting rule; `model.cost.batch.rules` has one for each.

    Parameters
    ----------
    delivered
        Words delivered into one instance of a level, given the extents of tiles that slide.
    touches
        First touches of outputs, given the words of the tiles of each node.
    cycles
        Cycles that a level needs, given the dataspaces, the steps, and the words read and written.
    """

    delivered: Callable[[BatchNest, SpaceIndex, Integers, int], Integers]
    touches: Callable[[BatchNest, SpaceIndex, Sequence[Integers]], Touches]
    cycles: Callable[[StorageLevel, Sequence[str], Integers, Integers, Integers], Integers]


def batch_traffic(
    nest: BatchNest, index: SpaceIndex, space: Dataspace, kept: Booleans, rule: BatchRule
) -> BatchTraffic:
    """Count accesses, walking from the compute outwards (see `model.cost.traffic`)."""
    architecture = nest.architecture
    tiles = [np.prod(extents_of(index, bounds), axis=0) for bounds in nest.bounds]
    touches = rule.touches(nest, index, tiles) if space.read_write else _untouched
    counts: list[tuple[Integers, ...]] = []
    stream, asking = nest.steps, np.full(len(nest.steps), len(architecture.nodes))
    for position in reversed(range(len(architecture.nodes))):
        node = architecture.nodes[position]
        if isinstance(node, Fanout):
            stream = stream * _handed_out(nest, index, space, node, position)
            continue
        level = len(kept) - 1 - len(counts)
        here, filled = kept[level], kept[level] & kept[:level].any(axis=0)
        delivered = _delivered(nest, index, space, node, level, rule) * filled if filled.any() else 0 * stream
        firsts = touches(position, asking), touches(position, np.full_like(asking, position))
        accesses = access_counts(node, space, stream, delivered, firsts)
        tile = 0 * stream if node.tolls else tiles[position]
        counts.append(tuple(words * here for words in (tile, *accesses)))
        if space.name not in node.passing:
            stream, asking = np.where(here, delivered, stream), np.where(here, position, asking)
    return BatchTraffic(*(np.stack(words) for words in zip(*reversed(counts), strict=True)))


def _untouched(outer: int, inner: Integers) -> Integers:
    return np.zeros_like(inner)


def _handed_out(
    nest: BatchNest, index: SpaceIndex, space: Dataspace, fanout: Fanout, position: int
) -> Integers:
    if space.name in fanout.no_multicast:
        return nest.children(position)
    return distinct_children_of_each(index, nest.factors[position], nest.bounds[position + 1])


def _delivered(
    nest: BatchNest,
    index: SpaceIndex,
    space: Dataspace,
    storage: StorageLevel,
    level: int,
    rule: BatchRule,
) -> Integers:
    """Words delivered into one instance of a level."""
    position = nest.architecture.storage_indices[level]
    extents = extents_of(index, nest.bounds[position])
    if space.name in storage.no_temporal_reuse:
        words: Integers = np.prod(extents, axis=0) * nest.steps_above(position)
        return words
    if not index.slides:
        return _delivered_whole(nest, index, extents, level)
    return rule.delivered(nest, index, extents, level)


def _delivered_whole(nest: BatchNest, index: SpaceIndex, extents: Integers, level: int) -> Integers:
    """Where tiles never overlap: whole tiles, from the innermost loop on that moves them."""
    relevant = np.zeros(index.coefficients.shape[1], dtype=np.bool_)
    relevant[list(index.relevant)] = True
    moved = np.zeros(extents.shape[1], dtype=np.bool_)
    times: Integers = np.ones(extents.shape[1], dtype=nest.repeats.dtype)
    for outer in reversed(range(level)):
        moves = relevant[nest.order[outer]] & (nest.repeats[outer] > 0)
        for moving, repeats in zip(moves, nest.repeats[outer], strict=True):
            moved |= moving
            times += repeats * moved
    whole: Integers = np.prod(extents, axis=0) * times
    return whole


def access_counts(
    level: StorageLevel,
    space: Dataspace,
    served: Integers,
    delivered: Integers,
    firsts: tuple[Integers, Integers],
) -> tuple[Integers, Integers, Integers]:
    """Reads, fills and updates where the level keeps the dataspace (see `model.cost.traffic`)."""
    if level.tolls:
        return _paid_in_passing(level, space, served, firsts[0])
    if not space.read_write:
        return served, delivered, np.zeros_like(served)
    if space.name in level.no_coalesce:
        return served, served, served
    served_first, filled_first = firsts
    free = free_share(level, space)
    return _without_firsts(served, served_first, free), _without_firsts(delivered, filled_first, free), served


def _paid_in_passing(
    level: StorageLevel, space: Dataspace, served: Integers, firsts: Integers
) -> tuple[Integers, Integers, Integers]:
    none = np.zeros_like(served)
    down = _without_firsts(served, firsts, free_share(level, space))
    return (
        down if level.charges(space.name, "down") else none,
        none,
        served if space.read_write and level.charges(space.name, "up") else none,
    )


def _without_firsts(words: Integers, firsts: Integers, free: Fraction) -> Integers:
    """Words without the free share of first touches, to the nearest whole number, halves upwards."""
    whole, rest = np.divmod(firsts, free.denominator)
    paid = free.denominator - free.numerator
    paid_firsts = whole * paid + (2 * rest * paid + free.denominator) // (2 * free.denominator)
    left: Integers = np.maximum(words - firsts + paid_firsts, 0)
    return left
