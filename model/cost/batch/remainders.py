"""Words that a batch of mappings with remainders moves: the array form of `model.cost.remainders`.

Every dimension has a few kinds of instances, each with its share and its number: at most three times as many
below a fanout as above it. Kinds that no mapping has are left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import NamedTuple

import numpy as np

from model.architecture import BANDWIDTHS, Architecture, StorageLevel
from model.cost.batch.counts import (
    BatchTraffic,
    SpaceIndex,
    access_counts,
    extents_of,
    kept_levels,
)
from model.cost.batch.mappings import Booleans, Integers, MappingBatch
from model.cost.traffic import reuses, sharing_fanouts
from model.problem import Dataspace, Problem


class Kind(NamedTuple):
    """Instances with equal shares: iterations of one and their number, each of shape ``(mappings,)``."""

    iterations: Integers
    instances: Integers


Kinds = Sequence[Kind]


class _Turn(NamedTuple):
    """Steps of one kind: their number, and how a tile moves and is cut (see `model.cost.shares.Turn`)."""

    times: Integers
    shift: Integers
    before: Integers
    after: Integers
    anew: Booleans


@dataclass
class _Inside:
    """What the loops over one dimension inside of a place come to, for one kind of instance.

    Parameters
    ----------
    tiles, short
        Tiles of the share, and the extent of the last one.
    period, back
        Tiles that the loops inside run through, and how far the last one of them is from the first.
    left, position
        The last tile's number without its digits inside, and how far these digits take it.
    at_first
        Whether a loop inside is in its first iteration at the last tile.
    """

    tiles: Integers
    short: Integers
    period: Integers
    back: Integers
    left: Integers
    position: Integers
    at_first: Booleans

    def enter(self, bound: Integers, stride: Integers) -> None:
        """Take in one more loop."""
        self.at_first = self.at_first | (bound > 1) & (self.left % bound == 0)
        self.position = self.position + self.left % bound * stride
        self.left = self.left // bound
        self.back = self.back + (bound - 1) * stride
        self.period = self.period * bound

    def turns(self, full: Integers, bound: Integers, stride: Integers, own: Booleans) -> Iterator[_Turn]:
        """Yield the turns when a loop of this bound and stride advances, over this dimension where `own`."""
        rounds = -(-self.tiles // self.period)
        at_once = self.tiles - (rounds - 1) * self.period == 1
        after = np.where(at_once, self.short, full)
        before_last = rounds - 1 - -(-(rounds - 1) // bound)
        all_own = rounds - -(-rounds // bound)
        forward = np.where(own, stride, 0) - self.back
        yield _Turn(np.where(own, before_last, rounds - 1), forward, full, full, np.zeros_like(own))
        last = np.where(own, forward, -self.position), np.where(own, full, self.short), after
        yield _Turn(np.where(own, all_own - before_last, 1), *last, self.at_first & ~own)


@dataclass(frozen=True, eq=False)
class RemainderNest:
    """Loops of mappings with remainders.

    Parameters
    ----------
    problem, architecture
        What the mappings are of.
    factors, order
        See `model.cost.batch.mappings.BatchNest`.
    strides
        Shape ``(nodes + 1, dims, mappings)``: products of the factors at or below each node.
    """

    problem: Problem
    architecture: Architecture
    factors: Integers
    order: Integers
    strides: Integers

    @classmethod
    def of(cls, problem: Problem, architecture: Architecture, batch: MappingBatch) -> RemainderNest:
        """Lay out the loops of a batch that has been checked."""
        factors = np.ascontiguousarray(batch.factors.transpose(1, 2, 0))
        strides = np.ones((len(factors) + 1, *factors.shape[1:]), dtype=np.int64)
        np.cumprod(factors[::-1], axis=0, out=strides[-2::-1])
        order = np.ascontiguousarray(batch.order.transpose(1, 2, 0))
        return cls(problem, architecture, factors, order, strides)

    @cached_property
    def bounds(self) -> Integers:
        """Iterations of a full tile at or below each node, shape as of `strides`."""
        whole: Integers = np.minimum(self.strides, np.array(self.problem.bounds)[:, None])
        return whole

    def kinds(self, dim: int, position: int) -> Kinds:
        """The instances of a node by their shares of a dimension; the first instance is the first kind."""
        size = self.factors.shape[2]
        whole = Kind(np.full(size, self.problem.bounds[dim]), np.ones(size, dtype=np.int64))
        return self.dealt(dim, [whole], -1, position, frozenset())

    def dealt(self, dim: int, kinds: Kinds, outer: int, inner: int, shared: frozenset[int]) -> Kinds:
        """Deal shares out over the fanouts between two nodes; of those in `shared`, to the first children."""
        for place in self.architecture.fanout_indices:
            if outer < place < inner:
                bound, stride = self.factors[place, dim], self.strides[place + 1, dim]
                parts = (
                    _kinds_of_children(kind, bound, stride, only_first=place in shared) for kind in kinds
                )
                kinds = [own for part in parts for own in part]
        return kinds

    def steps(self, position: int) -> Integers:
        """Steps of the temporal loops above a node, shape ``(mappings,)``: those of its first instance."""
        fanouts = frozenset(self.architecture.fanout_indices)
        ones: Integers = np.ones(self.factors.shape[2], dtype=np.int64)
        steps = ones
        for dim, bound in enumerate(self.problem.bounds):
            (share,) = self.dealt(dim, [Kind(ones * bound, ones)], -1, position, fanouts)
            steps = steps * -(-share.iterations // self.bounds[position, dim])
        return steps

    def instances(self, position: int) -> Integers:
        """Instances of a node that are ever in use, shape ``(mappings,)``."""
        instances = np.ones(self.factors.shape[2], dtype=np.int64)
        for dim in range(len(self.problem.dims)):
            used = np.stack([own.instances * (own.iterations > 0) for own in self.kinds(dim, position)])
            instances *= used.sum(axis=0)
        return instances

    def children(self, position: int) -> Integers:
        """Places that the loops of a fanout take, shape ``(mappings,)``."""
        places: Integers = np.prod(self.factors[position], axis=0)
        return places


def _kinds_of_children(kind: Kind, bound: Integers, stride: Integers, only_first: bool) -> Iterator[Kind]:
    """Yield the kinds of children of a spatial loop that some mapping has."""
    rounds, rest = np.divmod(kind.iterations, bound * stride)
    full = rest // stride
    if only_first:
        yield Kind(rounds * stride + np.minimum(rest, stride), kind.instances)
        return
    yield Kind(rounds * stride + np.minimum(rest, stride), kind.instances * np.maximum(full, 1))
    for child, times in ((full, full > 0), (bound - 1, bound - full - 1)):
        own = rounds * stride + np.clip(rest - child * stride, 0, stride)
        instances = kind.instances * np.where(own > 0, times, 0)
        if instances.any():
            yield Kind(own, instances)


def needs_one_by_one(nest: RemainderNest, spaces: Sequence[tuple[Dataspace, SpaceIndex]]) -> Booleans:
    """Mappings whose words are counted by the plain model, shape ``(mappings,)``.

    These are all where instances pay for blocks or share accesses in clusters, or outputs have windows;
    those whose windows are unrolled along two dimensions by one fanout; those that use more instances than
    there are; and those whose windows are dealt out unequally where the busiest instance counts: one with
    fewer tiles may bring whole ones more often than the first.
    """
    size = nest.factors.shape[2]
    if _pays_by_instance(nest.architecture) or any(s.read_write and not i.partitions for s, i in spaces):
        return np.ones(size, dtype=np.bool_)
    if any(len(group) > 2 for _, index in spaces for group in index.groups):
        return np.ones(size, dtype=np.bool_)
    singly = np.zeros(size, dtype=np.bool_)
    for group in (group for _, index in spaces for group in index.groups):
        unrolled = nest.factors[list(nest.architecture.fanout_indices)][:, list(group)] > 1
        singly |= (unrolled.sum(axis=1) > 1).any(axis=0)
    windows = {dim for _, index in spaces for group in index.groups if len(group) > 1 for dim in group}
    limited = [
        place for place, level in _levels_inside(nest.architecture) if any(map(level.bandwidth, BANDWIDTHS))
    ]
    for dim, position in product(windows, limited):
        singly |= _differ(nest.kinds(dim, position))
    for position in nest.architecture.storage_indices:
        singly |= nest.instances(position) > nest.architecture.instances_above(position)
    return singly


def _pays_by_instance(architecture: Architecture) -> bool:
    """Whether instances that differ have to be priced one by one."""
    inside = [level for _, level in _levels_inside(architecture)]
    if any(share not in (0, 1) for level in inside for _, share in level.free_first_touches):
        return True  # words of each instance are rounded
    blocks = [level.block_size for level in inside]
    blocks += [packing.block_size for level in inside for packing in level.packing]
    return any(block > 1 for block in blocks) or any(level.cluster_size > 1 for level in inside)


def _differ(kinds: Kinds) -> Booleans:
    """Mappings where instances in use have different shares."""
    first, *others = kinds
    differ = np.zeros(first.iterations.shape, dtype=np.bool_)
    for own in others:
        differ |= (own.instances > 0) & (own.iterations > 0) & (own.iterations != first.iterations)
    return differ


def _levels_inside(architecture: Architecture) -> list[tuple[int, StorageLevel]]:
    """Levels that may have several instances, and their positions."""
    return [
        (position, level)
        for position, level in zip(architecture.storage_indices, architecture.levels, strict=True)
        if any(place < position for place in architecture.fanout_indices)
    ]


@dataclass(frozen=True, eq=False)
class _Route:
    """The array form of `model.cost.remainders.Route`."""

    nest: RemainderNest
    index: SpaceIndex
    space: Dataspace
    outer: int
    inner: int

    @cached_property
    def _shared(self) -> frozenset[int]:
        return sharing_fanouts(self.nest.architecture, self.space, self.outer, self.inner)

    @cached_property
    def _groups(self) -> tuple[tuple[int, ...], ...]:
        idle = set(range(len(self.nest.problem.dims))).difference(self.index.relevant)
        return (*self.index.groups, *((dim,) for dim in sorted(idle)))

    def brought_words(self, first_only: bool) -> Integers:
        """Words into the asking nodes under the first instance of the level, or under all."""
        full = self.nest.bounds[self.inner]
        kinds = [self._kinds(dim, first_only) for dim in range(len(full))]
        if not reuses(self.nest.architecture, self.space, self.inner):
            turns = [
                [turn for own in of_dim for turn in _every(own, full[dim])]
                for dim, of_dim in enumerate(kinds)
            ]
            return self._words(turns)[0]
        starts = [[_start_turn(own, full[dim]) for own in of_dim] for dim, of_dim in enumerate(kinds)]
        return self._words(starts)[0] + self._fresh(kinds, full)

    def _kinds(self, dim: int, first_only: bool) -> Kinds:
        kinds = self.nest.kinds(dim, self.outer)
        if first_only:
            kinds = [Kind(kinds[0].iterations, np.ones_like(kinds[0].instances))]
        shared = frozenset() if dim in self.index.relevant else self._shared
        return self.nest.dealt(dim, kinds, self.outer, self.inner, shared)

    def _fresh(self, kinds: Sequence[Kinds], full: Integers) -> Integers:
        """What the temporal loops bring, from the innermost one above the asking node outwards."""
        inside = [[_begin_share(own, full[dim]) for own in of_dim] for dim, of_dim in enumerate(kinds)]
        total = np.zeros(full.shape[1], dtype=np.int64)
        storage = self.nest.architecture.storage_indices
        above = [level for level, node in enumerate(storage) if node < self.inner]
        every = [(dim, one) for dim, loops in enumerate(inside) for one in loops]
        for level, slot in product(reversed(above), range(len(full))):
            node, dims = storage[level], self.nest.order[level, slot]
            bound = np.take_along_axis(self.nest.factors[node], dims[None], axis=0)[0]
            stride = np.take_along_axis(self.nest.strides[node + 1], dims[None], axis=0)[0]
            turns = [
                [
                    turn._replace(times=turn.times * own.instances)
                    for own, loops in zip(kinds[dim], inside[dim], strict=True)
                    for turn in loops.turns(full[dim], bound, stride, dims == dim)
                ]
                for dim in range(len(full))
            ]
            whole, kept = self._words(turns)
            total += whole - kept
            for dim, one in every:
                one.enter(np.where(dims == dim, bound, 1), stride)
        return total

    def _words(self, turns: Sequence[Sequence[_Turn]]) -> tuple[Integers, Integers]:
        """Words of the tiles after some steps, and those of them that were there before."""
        sums = [_group_words(self.index, group, [turns[dim] for dim in group]) for group in self._groups]
        whole = np.prod(np.stack([words for words, _ in sums]), axis=0)
        return whole, np.prod(np.stack([words for _, words in sums]), axis=0)


def _group_words(
    index: SpaceIndex, group: tuple[int, ...], turns: Sequence[Sequence[_Turn]]
) -> tuple[Integers, Integers]:
    """Words after some steps, and those there before, along ranks that one group of dimensions indexes."""
    ranks = np.flatnonzero(index.coefficients[:, list(group)].any(axis=1))
    whole = kept = np.zeros_like(turns[0][0].times)
    for chosen in product(*turns):
        times: Integers = np.prod(np.stack([turn.times for turn in chosen]), axis=0)
        if not times.any():
            continue
        words = both = times
        for rank in ranks:
            weights = [int(c) for c in index.coefficients[rank, list(group)]]
            own, common = _rank_words(weights, chosen)
            words, both = words * own, both * common
        whole, kept = whole + words, kept + both
    return whole, kept


def _rank_words(weights: Sequence[int], turns: Sequence[_Turn]) -> tuple[Integers, Integers]:
    """Words of a tile along one rank, and those that it has in common with the tile before."""
    low, high = _ends_of_box(weights, [turn.after for turn in turns])
    low_held, high_held = _ends_of_box(weights, [turn.before for turn in turns])
    moved = sum(weight * turn.shift for weight, turn in zip(weights, turns, strict=True))
    common = np.minimum(high, high_held - moved) - np.maximum(low, low_held - moved) + 1
    common = np.where(np.any(np.stack([turn.anew for turn in turns]), axis=0), 0, common)
    return high - low + 1, np.maximum(common, 0)


def _ends_of_box(weights: Sequence[int], extents: Sequence[Integers]) -> tuple[Integers, Integers]:
    """First and last word of a box along a rank, its first iteration being at 0."""
    zero = np.zeros_like(extents[0])
    reaches = [weight * (extent - 1) for weight, extent in zip(weights, extents, strict=True)]
    return sum((np.minimum(r, 0) for r in reaches), zero), sum((np.maximum(r, 0) for r in reaches), zero)


def _begin_share(kind: Kind, full: Integers) -> _Inside:
    tiles, short = _tiles_of_share(kind, full)
    zero = np.zeros_like(tiles)
    at_first = np.zeros(tiles.shape, dtype=np.bool_)
    return _Inside(tiles, short, np.ones_like(tiles), zero, tiles - 1, zero, at_first)


def _tiles_of_share(kind: Kind, full: Integers) -> tuple[Integers, Integers]:
    """Tiles of a share and the extent of the last one; one of a full extent where there is no share."""
    iterations = np.maximum(kind.iterations, 1)
    tiles: Integers = -(-iterations // full)
    return tiles, iterations - (tiles - 1) * full


def _start_turn(kind: Kind, full: Integers) -> _Turn:
    tile = np.minimum(np.maximum(kind.iterations, 1), full)
    return _Turn(kind.instances, np.zeros_like(tile), tile, tile, np.ones(tile.shape, dtype=np.bool_))


def _every(kind: Kind, full: Integers) -> Iterator[_Turn]:
    tiles, short = _tiles_of_share(kind, full)
    zero, anew = np.zeros_like(tiles), np.ones(tiles.shape, dtype=np.bool_)
    yield _Turn(kind.instances * (tiles - 1), zero, full, full, anew)
    yield _Turn(kind.instances, zero, short, short, anew)


def words_with_remainders(
    nest: RemainderNest, index: SpaceIndex, space: Dataspace, keep: Booleans
) -> tuple[BatchTraffic, BatchTraffic]:
    """Words of a dataspace in the first instance of every level, and in all instances together."""
    architecture = nest.architecture
    kept = kept_levels(architecture, space, keep)
    levels = len(architecture.levels)
    asking = np.full(keep.shape[1], levels)
    found: list[list[tuple[Integers, ...]]] = [[], []]
    for level in reversed(range(levels)):
        node, position = architecture.levels[level], architecture.storage_indices[level]
        tile: Integers = np.prod(extents_of(index, nest.bounds[position]), axis=0) * (not node.tolls)
        here, filled = kept[level], kept[level] & kept[:level].any(axis=0)
        for counts, first_only in zip(found, (True, False), strict=True):
            served = _served(nest, index, space, (level, asking), here, first_only)
            received = _Route(nest, index, space, position, position).brought_words(first_only) * filled
            firsts = _touched(nest, index, position, first_only)
            own = access_counts(node, space, served, received, (firsts, firsts))
            counts.append(tuple(words * here for words in (tile, *own)))
        if space.name not in node.passing:
            asking = np.where(here, level, asking)
    one, every = (
        BatchTraffic(*(np.stack(words) for words in zip(*reversed(counts), strict=True))) for counts in found
    )
    return one, every


def _served(
    nest: RemainderNest,
    index: SpaceIndex,
    space: Dataspace,
    asked: tuple[int, Integers],
    here: Booleans,
    first_only: bool,
) -> Integers:
    """Words that a level hands to whatever asks it, which differs by mapping."""
    level, asking = asked
    places = (*nest.architecture.storage_indices, len(nest.architecture.nodes))
    served = np.zeros(len(asking), dtype=np.int64)
    for inner in range(level + 1, len(places)):
        asks = here & (asking == inner)
        if asks.any():
            way = _Route(nest, index, space, places[level], places[inner])
            served = np.where(asks, way.brought_words(first_only), served)
    return served


def _touched(nest: RemainderNest, index: SpaceIndex, position: int, first_only: bool) -> Integers:
    """Distinct words of a partitioned dataspace under the first instance of a node, or under each of all."""
    size = nest.factors.shape[2]
    words = np.ones(size, dtype=np.int64)
    for dim in range(len(nest.problem.dims)):
        kinds = nest.kinds(dim, position)
        if first_only:
            words = words * (kinds[0].iterations if dim in index.relevant else 1)
            continue
        weights = (own.iterations if dim in index.relevant else own.iterations > 0 for own in kinds)
        words = words * sum(own.instances * weight for own, weight in zip(kinds, weights, strict=True))
    return words
