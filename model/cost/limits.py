"""Hardware limits that a mapping must respect."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from model.architecture import Architecture, Fanout, StorageLevel
from model.cost.report import LevelCost, Violation
from model.mapping import FanoutMapping, Mapping


def capacity_violations(level: StorageLevel, size_words: int) -> Iterator[Violation]:
    """Check that the kept tiles fit a level and fill it enough.

    Parameters
    ----------
    level
        A level without a capacity holds everything.
    size_words
        What the tiles of one instance take together, in words of the level.

    Yields
    ------
    Violation
        Of kind ``capacity`` or ``min_utilization``.
    """
    limit = level.usable_words
    if limit is None:
        return
    if size_words > limit:
        yield Violation(level.name, "capacity", size_words, limit)
    if size_words < level.least_words:
        yield Violation(level.name, "min_utilization", size_words, level.least_words)


def memory_violations(architecture: Architecture, costs: Sequence[LevelCost]) -> Iterator[Violation]:
    """Check that the tiles of all places of each memory fit it together, and fill it enough.

    Parameters
    ----------
    architecture
        Its memories.
    costs
        Along ``architecture.levels``.
    """
    for places in architecture.memories:
        level = architecture.levels[places[0]]
        tiles = [
            (space.dataspace, costs[place].name, space.size_words)
            for place in places
            for space in costs[place].dataspaces
        ]
        parts = tuple(tiles) if len(places) > 1 else ()
        for violation in capacity_violations(level, sum(size for _, _, size in tiles)):
            yield violation._replace(node=level.component, parts=parts)


def mesh_violations(architecture: Architecture, mapping: Mapping) -> Iterator[Violation]:
    """Check along each axis of each fanout that the spatial loops find enough children.

    Raises
    ------
    ValueError
        If the mapping has another number of nodes than the architecture.
    """
    for node, entry in zip(architecture.nodes, mapping.nodes, strict=True):
        if not isinstance(node, Fanout) or not isinstance(entry, FanoutMapping):
            continue
        columns = math.prod(loop.bound for loop in entry.spatial if loop.axis == "x")
        rows = math.prod(loop.bound for loop in entry.spatial if loop.axis == "y")
        if columns > node.mesh_x:
            yield Violation(node.name, "mesh_x", columns, node.mesh_x)
        if rows > node.mesh_y:
            yield Violation(node.name, "mesh_y", rows, node.mesh_y)
