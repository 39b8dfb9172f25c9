"""Hardware limits that a mapping must respect."""

from __future__ import annotations

import math
from collections.abc import Iterator

from model.architecture import Architecture, Fanout, StorageLevel
from model.cost.report import Violation
from model.mapping import FanoutMapping, Mapping


def capacity_violations(level: StorageLevel, tile_words: int) -> Iterator[Violation]:
    """Check that the kept tiles, `tile_words` together, fit `level` and fill it enough."""
    limit = level.usable_words
    if limit is None:
        return
    least = limit * level.min_utilization
    if tile_words > limit:
        yield Violation(level.name, "capacity", tile_words, limit)
    if tile_words < least:
        yield Violation(level.name, "min_utilization", tile_words, least)


def mesh_violations(architecture: Architecture, mapping: Mapping) -> Iterator[Violation]:
    """Check along each axis of each fanout that the spatial loops find enough children."""
    for node, entry in zip(architecture.nodes, mapping.nodes, strict=True):
        if not isinstance(node, Fanout) or not isinstance(entry, FanoutMapping):
            continue
        columns = math.prod(loop.bound for loop in entry.spatial if loop.axis == "x")
        rows = math.prod(loop.bound for loop in entry.spatial if loop.axis == "y")
        if columns > node.mesh_x:
            yield Violation(node.name, "mesh_x", columns, node.mesh_x)
        if rows > node.mesh_y:
            yield Violation(node.name, "mesh_y", rows, node.mesh_y)
