"""Reads, fills and updates of one dataspace at every level that keeps it."""

from __future__ import annotations

import math
from dataclasses import dataclass

from model.architecture import Architecture, Fanout, StorageLevel
from model.cost.delivery import delivered_words, distinct_offsets
from model.cost.nest import Nest
from model.cost.partition import partition_words
from model.cost.tiles import extents, tile_words
from model.mapping import Mapping, StorageMapping
from model.problem import Dataspace


@dataclass(frozen=True, slots=True)
class Traffic:
    """Words per instance of the level at node ``position`` (see `model.cost.report.DataspaceCost`)."""

    position: int
    tile_words: int
    partition_words: int
    reads: int
    fills: int
    updates: int


def kept_positions(architecture: Architecture, mapping: Mapping, space: str) -> tuple[int, ...]:
    """Nodes that keep `space`, outermost first.

    A level with ``no_coalesce`` only passes its own stream on, so with nothing kept farther out it
    counts as bypassing.
    """
    kept: list[int] = []
    for position, (node, entry) in enumerate(zip(architecture.nodes, mapping.nodes, strict=True)):
        if not isinstance(entry, StorageMapping) or not isinstance(node, StorageLevel):
            continue
        if space in entry.keep and (kept or space not in node.no_coalesce):
            kept.append(position)
    return tuple(kept)


def delivered_to(nest: Nest, level: StorageLevel, position: int, space: Dataspace) -> int:
    """Words of `space` delivered into one instance of `level` if every level kept it."""
    tile = extents(space, nest.bounds[position])
    if space.name not in level.no_temporal_reuse:
        return delivered_words(tile, nest.moves_above(space, position))
    return math.prod(tile) * nest.steps(position)


def multicast_groups(nest: Nest, fanout: Fanout, position: int, space: Dataspace) -> int:
    """Accesses above `fanout` per word that each used child receives."""
    if space.name not in fanout.no_multicast:
        return distinct_offsets(nest.spatial_moves(space, position))
    return nest.children(position)


def dataspace_traffic(
    architecture: Architecture, mapping: Mapping, nest: Nest, space: Dataspace
) -> tuple[Traffic, ...]:
    """Count the accesses to `space` at the levels that keep it, outermost first.

    The walk goes from the compute outwards with the stream of words that one instance asks from
    above. A fanout multiplies it by the number of distinct words among its children. A level that
    keeps the dataspace serves the stream and asks for what must be delivered into itself instead;
    with ``no_coalesce`` it serves the stream but passes it on.

    Raises
    ------
    ValueError
        If no level keeps `space`.
    """
    kept = kept_positions(architecture, mapping, space.name)
    if not kept:
        raise ValueError(f"no level keeps dataspace {space.name!r}")
    tiles = [tile_words(space, bounds) for bounds in nest.bounds]
    parts = partition_words(architecture, tiles)
    found: list[Traffic] = []
    stream = nest.steps()
    for position in range(len(architecture.nodes) - 1, kept[0] - 1, -1):
        node = architecture.nodes[position]
        if isinstance(node, Fanout):
            stream *= multicast_groups(nest, node, position, space)
            continue
        if position not in kept:
            continue
        outermost = position == kept[0]
        delivered = 0 if outermost else delivered_to(nest, node, position, space)
        reads, fills, updates = _counts(node, space, stream, delivered, parts[position], outermost)
        found.append(Traffic(position, tiles[position], parts[position], reads, fills, updates))
        stream = stream if space.name in node.no_coalesce else delivered
    return tuple(reversed(found))


def _counts(
    level: StorageLevel, space: Dataspace, served: int, delivered: int, part: int, outermost: bool
) -> tuple[int, int, int]:
    """Reads, fills and updates of one instance that serves `served` words.

    The first touch of each of the `part` words of a produced tensor writes without reading, so it
    needs no read here and no fill from above.
    """
    if not space.read_write:
        return served, delivered, 0
    if space.name in level.no_coalesce:
        return served, served, served
    if space.name in level.rmw_first_update:
        return served, delivered, served
    return served - part, 0 if outermost else delivered - part, served
