"""Partial mappings: the nodes that branching visits, and what they remember of the loops outside."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from solver.search.arrays import FloatArray, IntArray
from solver.search.space.dataspaces import Component, DataspaceView
from solver.search.space.orders import OrderClass
from solver.search.space.spatial import StageChoice
from solver.search.space.windows import Movement

SlotMoves = tuple[tuple[int, int], ...]
"""Words per iteration by which each loop of a slot moves a component, and its iterations, in no order."""


class Mover(NamedTuple):
    """A loop that may be the innermost one to move a dataspace.

    Arrays have an entry per tile of a walk; in a node all are scalars.

    Parameters
    ----------
    component
        The place of the component that it moves.
    every
        Positions of the tile in that component.
    movement
        How it and other loops move the component.
    """

    component: int
    every: IntArray | int
    movement: Movement

    def only(self, candidate: int) -> Mover:
        """The loop above one of the tiles."""

        def one(figure: IntArray | int) -> int:
            return int(figure[candidate]) if isinstance(figure, np.ndarray) else figure

        return Mover(self.component, one(self.every), Movement(*map(one, self.movement)))


NodeState = tuple[
    int,
    int,
    tuple[int, ...],
    frozenset[int] | None,
    tuple[tuple[Mover, ...] | None, ...],
    tuple[tuple[SlotMoves, ...], ...],
]
"""Level, tile, ``in_place``, ``signature`` and ``leads`` of a node, and the moves of its windows outside."""


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
    leads
        Per dataspace, the loops that may be the innermost ones that move it outside of the tile; None if no
        loop moves it so far, or if its windows are not known to overlap.
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
    leads: tuple[tuple[Mover, ...] | None, ...]

    def state(self, views: Sequence[DataspaceView]) -> NodeState:
        """All that the bounds of what lies inside depend on."""
        moves = tuple(
            tuple(self.moves_outside(view, c)) for view in views for c in view.components if c.slides_in_line
        )
        return (self.level, self.tile, self.in_place, self.signature, self.leads, moves)

    def moves_outside(self, view: DataspaceView, component: Component) -> Iterator[SlotMoves]:
        """How far the loops outside of the tile move `component`, slot by slot outwards.

        It ends with the first slot that also moves the dataspace to where nothing overlaps.
        """
        for loops, inner in zip(reversed(self.path), reversed(self.extents), strict=True):
            moving = (d for d in component.dims if loops[d] > 1)
            yield tuple((inner[d] * component.coefficient(d), loops[d]) for d in moving)
            if any(loops[d] > 1 for d in view.apart):
                return
