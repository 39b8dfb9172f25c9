"""Reads, fills and updates of one dataspace in a batch of mappings."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from model.architecture import Architecture, Fanout, StorageLevel
from model.cost.batch.encoding import Booleans, Integers
from model.cost.batch.nest import BatchNest
from model.cost.batch.space import SpaceIndex, extents_of
from model.cost.partition import partition_words
from model.problem import Dataspace


class BatchTraffic(NamedTuple):
    """Words of a dataspace per instance, each of shape ``(storage levels, mappings)``; 0 where bypassed."""

    tile_words: Integers
    reads: Integers
    fills: Integers
    updates: Integers


def kept_levels(architecture: Architecture, space: Dataspace, keep: Booleans) -> Booleans:
    """Levels that keep a dataspace in effect.

    With nothing kept farther out, a level with ``no_coalesce`` counts as bypassing.
    """
    kept = keep.copy()
    for level, storage in enumerate(architecture.levels):
        if space.name in storage.no_coalesce:
            kept[level] &= kept[:level].any(axis=0)
    return kept


def dataspace_traffic(nest: BatchNest, index: SpaceIndex, space: Dataspace, kept: Booleans) -> BatchTraffic:
    """Count accesses, walking from the compute outwards (see `model.cost.traffic`)."""
    architecture = nest.architecture
    tiles = [np.prod(extents_of(index, bounds), axis=0) for bounds in nest.bounds]
    parts = partition_words(architecture, tiles)
    counts: list[tuple[Integers, ...]] = []
    stream = nest.steps
    for position in reversed(range(len(architecture.nodes))):
        node = architecture.nodes[position]
        if isinstance(node, Fanout):
            stream = stream * _groups(nest, index, space, node, position)
            continue
        level = len(kept) - 1 - len(counts)
        here, filled = kept[level], kept[level] & kept[:level].any(axis=0)
        delivered = _delivered(nest, index, space, node, level) * filled if filled.any() else 0 * stream
        accesses = _counts(node, space, stream, delivered, parts[position])
        counts.append(tuple(words * here for words in (tiles[position], *accesses)))
        if space.name not in node.no_coalesce:
            stream = np.where(here, delivered, stream)
    return BatchTraffic(*(np.stack(words) for words in zip(*reversed(counts), strict=True)))


def _groups(nest: BatchNest, index: SpaceIndex, space: Dataspace, fanout: Fanout, position: int) -> Integers:
    if space.name in fanout.no_multicast:
        return nest.children(position)
    return nest.multicast(index, position)


def _delivered(
    nest: BatchNest, index: SpaceIndex, space: Dataspace, storage: StorageLevel, level: int
) -> Integers:
    if space.name not in storage.no_temporal_reuse:
        return nest.delivered(index, level)
    position = nest.architecture.storage_indices[level]
    words: Integers = np.prod(extents_of(index, nest.bounds[position]), axis=0) * nest.steps_above(position)
    return words


def _counts(
    level: StorageLevel,
    space: Dataspace,
    served: Integers,
    delivered: Integers,
    part: Integers,
) -> tuple[Integers, Integers, Integers]:
    """Reads, fills and updates where the level keeps the dataspace (see `model.cost.traffic`)."""
    if not space.read_write:
        return served, delivered, np.zeros_like(served)
    if space.name in level.no_coalesce:
        return served, served, served
    first = np.zeros_like(part) if space.name in level.rmw_first_update else part
    return np.maximum(served - first, 0), np.maximum(delivered - first, 0), served
