"""Partial mappings: the nodes that branching visits, and what they remember of the loops outside."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from solver.search.arrays import FloatArray
from solver.search.space.dataspaces import Component, DataspaceView
from solver.search.space.orders import OrderClass
from solver.search.space.spatial import StageChoice
from solver.search.space.windows import Lead

SlotMoves = tuple[tuple[int, int], ...]
"""Words per iteration by which each loop of a slot moves a component, and its iterations, in no order."""


class Moved(NamedTuple):
    """How the loops outside of a tile move a dataspace along its windows.

    Parameters
    ----------
    first
        Dimensions over which the innermost of them may run that moves the dataspace at all.
    parts
        Per component along which tiles may overlap, the tile's positions along it and the loops that may be
        the innermost to move it so, all figures scalars. Slots outside of one that moves the dataspace to
        where nothing overlaps do not count.
    repeats
        Iterations of loops, up to such a slot, that repeat deliveries; 0 if there is no such slot.
    """

    first: frozenset[int]
    parts: tuple[tuple[int, tuple[Lead, ...]], ...]
    repeats: int = 0


def unmoved(view: DataspaceView) -> Moved:
    """No loop moves the dataspace."""
    return Moved(frozenset(), ((1, ()),) * sum(c.sliding for c in view.components))


NodeState = tuple[
    int,
    int,
    tuple[int, ...],
    frozenset[int] | None,
    tuple[Moved, ...],
    tuple[tuple[SlotMoves, ...], ...],
]
"""Level, tile, ``in_place``, ``signature`` and ``moved`` of a node, and the moves of its windows outside."""


Delivered = tuple[tuple[int, int, int], ...]
"""(dataspace, level, words of one instance) of the boundaries outside of a tile."""


@dataclass(frozen=True)
class Node:
    """A partial mapping: everything outside of the tile of `level` is decided.

    Parameters
    ----------
    level, tile
        The level, and the lattice index of its tile.
    spent, least
        Cost of the boundaries of `level` and outside, exactly but for sliding windows, and a lower bound
        on that of all boundaries; both in quanta beyond what `LatticeBounds.constant` counts.
    value, busiest
        Lower bounds on the objective, rounded, and on the load of any resource, in cycles.
    loads
        Load of each resource by the boundaries of `level` and outside, and by the compute, in cycles.
    delivered
        What each of these boundaries gets, a lower bound like `spent`.
    in_place, signature
        Per dataspace, the product of the loops directly outside of the tile that leave it in place; and the
        dataspaces that the innermost of these loops leaves in place (None: no loop yet).
    path, orders, spatial
        Per level outside, iterations of its loops per dimension, the class of their orders, and the
        spatial choice below it.
    extents
        Per level outside, what one iteration of its loops spans: the tile inside, times the spatial factors
        between.
    moved
        Per dataspace, how the loops outside of the tile move it.
    """

    level: int
    tile: int
    spent: int
    least: int
    value: float
    busiest: float
    loads: FloatArray
    delivered: Delivered
    in_place: tuple[int, ...]
    signature: frozenset[int] | None
    path: tuple[tuple[int, ...], ...]
    orders: tuple[OrderClass, ...]
    spatial: tuple[StageChoice, ...]
    extents: tuple[tuple[int, ...], ...]
    moved: tuple[Moved, ...]

    def state(self, views: Sequence[DataspaceView]) -> NodeState:
        """All that the bounds of what lies inside depend on."""
        moves = tuple(
            tuple(self.moves_outside(view, c)) for view in views for c in view.components if c.slides_in_line
        )
        return (self.level, self.tile, self.in_place, self.signature, self.moved, moves)

    def moves_outside(self, view: DataspaceView, component: Component) -> Iterator[SlotMoves]:
        """How far the loops outside of the tile move `component`, slot by slot outwards.

        It ends with the first slot that also moves the dataspace to where nothing overlaps.
        """
        for loops, inner in zip(reversed(self.path), reversed(self.extents), strict=True):
            moving = (d for d in component.dims if loops[d] > 1)
            yield tuple((inner[d] * component.coefficient(d), loops[d]) for d in moving)
            if any(loops[d] > 1 for d in view.apart):
                return
