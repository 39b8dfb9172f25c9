"""The certificate of a mapping whose memories may lie in any order."""

from __future__ import annotations

from collections.abc import Sequence

from model.mapping import FanoutMapping, Loop, Mapping, SpatialLoop, StorageMapping
from model.mapspace import Mapspace
from solver.certificate.canonical import Json, node_places


def order_claim(mapspace: Mapspace, ordered: Mapspace, mapping: Mapping) -> Json:
    """Return a mapping: its tiles as pairs of a node and a dataspace, loops below each, and spatial loops.

    Parameters
    ----------
    mapspace
        What was searched: its nodes are those of the certificate.
    ordered, mapping
        The mapspace of the mapping's order, and the mapping.
    """
    names = [space.name for space in mapspace.problem.dataspaces]
    architecture, places = mapspace.architecture, node_places(mapspace)
    nodes = {
        level.name: places[position]
        for level, position in zip(architecture.levels, architecture.storage_indices, strict=True)
    }
    entries = [mapping.nodes[position] for position in ordered.architecture.storage_indices]
    order: list[list[int]] = []
    slots: list[list[list[int]]] = []
    for level, entry in zip(ordered.architecture.levels, entries, strict=True):
        assert isinstance(entry, StorageMapping)
        if slots and not entry.keep:
            continue  # it has no loops
        order += [[nodes[level.component], names.index(name)] for name in sorted(entry.keep) if slots]
        slots.append(_loops(mapspace, entry.temporal))
    spatial = [mapping.nodes[position] for position in ordered.architecture.fanout_indices]
    across = [own.spatial if isinstance(own, FanoutMapping) else () for own in spatial]
    return {"order": order, "slots": slots, "spatial": [_loops(mapspace, own) for own in across]}


def _loops(mapspace: Mapspace, loops: Sequence[Loop | SpatialLoop]) -> list[list[int]]:
    dims = mapspace.problem.dims
    return [[dims.index(loop.dim), loop.bound] for loop in loops if loop.bound > 1]
