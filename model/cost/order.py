"""Nests in an order of their own, in which inner memories have tiles above those of outer ones.

Time has one order, that of the nest's temporal loops. Each dataspace goes through its memories in the order
of the hardware. So it sees a nest in which the fanouts lie where the hardware has them: inside of its tiles
in memories outside of them, and outside of its tiles in memories inside.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from model.architecture import Architecture, Fanout
from model.cost.nest import Nest
from model.mapping import FanoutMapping, Mapping, StorageMapping
from model.problem import Problem


@dataclass(frozen=True)
class SeenNest:
    """A mapping as one dataspace sees it.

    Parameters
    ----------
    architecture, mapping
        With fanouts where the dataspace meets them.
    positions
        By position here, that of the node in the nest.
    """

    architecture: Architecture
    mapping: Mapping
    positions: tuple[int, ...]


def seen_by(architecture: Architecture, mapping: Mapping, space: str) -> SeenNest:
    """Return a mapping as a dataspace sees it.

    Each fanout lies right above the first level inside of it that keeps the dataspace.

    Parameters
    ----------
    architecture, mapping
        With one entry of the mapping per node.
    space
        Name of the dataspace.

    Raises
    ------
    ValueError
        If a tile of the dataspace lies below one in a memory inside.
    """
    left = list(architecture.fanout_indices)
    order: list[int] = []
    for position, kept in zip(architecture.storage_indices, kept_by(architecture, mapping), strict=True):
        passed = len(architecture.fanouts) - len(left)
        above = architecture.fanouts_above(position) if space in kept else passed
        if above < passed:
            name = architecture.nodes[position].name
            raise ValueError(f"the tile of {space!r} in {name!r} lies below one in a memory inside of it")
        order += (*left[: above - passed], position)
        del left[: above - passed]
    order += left
    nodes = [architecture.nodes[position] for position in order]
    placed = tuple(node if isinstance(node, Fanout) else replace(node, fanouts_above=None) for node in nodes)
    return SeenNest(
        replace(architecture, nodes=placed),
        Mapping(tuple(mapping.nodes[position] for position in order)),
        tuple(order),
    )


def kept_by(architecture: Architecture, mapping: Mapping) -> list[frozenset[str]]:
    """What each storage level keeps, outermost first."""
    entries = (mapping.nodes[position] for position in architecture.storage_indices)
    return [entry.keep if isinstance(entry, StorageMapping) else frozenset() for entry in entries]


def crossed_slots(
    architecture: Architecture, kept: Sequence[Collection[str]], fanout: int, spaces: Collection[str]
) -> range:
    """Storage levels without loops over a dimension that a fanout unrolls, for the sake of whole tiles.

    A memory inside of the fanout has its share of each tile along the dimension. If a loop over it lay
    inside of a tile in such a memory, and outside of one in a memory that lies outside of the fanout, then
    the latter would be made of pieces, one of each share.

    Parameters
    ----------
    architecture
        The nodes of a nest.
    kept
        What each storage level keeps, outermost first.
    fanout
        Its number, from the outermost.
    spaces
        The dataspaces that the dimension indexes.

    Returns
    -------
    range
        The levels, from the first one inside of the fanout that keeps such a dataspace up to before the last
        one outside of it that does: empty where the fanout lies between these.
    """
    keeping = [number for number, own in enumerate(kept) if not frozenset(spaces).isdisjoint(own)]
    above = [architecture.fanouts_above(position) for position in architecture.storage_indices]
    inside = (number for number in keeping if above[number] > fanout)
    outside = (number for number in keeping if above[number] <= fanout)
    return range(min(inside, default=len(above)), max(outside, default=0))


def check_order(problem: Problem, architecture: Architecture, mapping: Mapping) -> None:
    """Check that the tiles of a nest in an order of its own are whole, see `crossed_slots`.

    Raises
    ------
    ValueError
        If one is made of pieces.
    """
    kept = kept_by(architecture, mapping)
    fanouts = enumerate(architecture.fanout_indices)
    for number, dim in ((n, dim) for n, own in fanouts for dim in sorted(_dims_of(mapping, [own]))):
        spaces = [space.name for space in problem.dataspaces if dim in space.dims]
        slots = crossed_slots(architecture, kept, number, spaces)
        if dim in _dims_of(mapping, [architecture.storage_indices[slot] for slot in slots]):
            name = architecture.fanouts[number].name
            raise ValueError(f"a tile is made of pieces along {dim!r}, which {name!r} unrolls")


def _dims_of(mapping: Mapping, positions: Sequence[int]) -> set[str]:
    """Dimensions of the loops of some nodes."""
    entries = (mapping.nodes[position] for position in positions)
    every = (own.spatial if isinstance(own, FanoutMapping) else own.temporal for own in entries)
    return {loop.dim for loops in every for loop in loops if loop.bound > 1}


def instances_in_use(architecture: Architecture, nest: Nest, position: int) -> int:
    """Instances of a node that are ever in use, as `Nest.instances`, in an order of nests, too."""
    if not architecture.has_own_order:
        return nest.instances(position)
    above = architecture.fanout_indices[: architecture.fanouts_above(position)]
    return math.prod(map(nest.children, above))
