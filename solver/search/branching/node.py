"""Partial mappings: the nodes that branching visits, and what they remember of the loops outside."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from solver.search.arrays import FloatArray, IntArray
from solver.search.space.dataspaces import Component, DataspaceView
from solver.search.space.orders import OrderClass
from solver.search.space.spatial import StageChoice
from solver.search.space.windows import Returns

SlotMoves = tuple[tuple[int, int], ...]
"""Words per iteration by which each loop of a slot moves a component, and its iterations, in no order."""


@dataclass(frozen=True)
class Mover:
    """A loop that may be the innermost one to move a dataspace.

    Arrays have an entry per tile of a walk; in a node all are scalars.

    Parameters
    ----------
    component
        The place of the component that it moves.
    count, move
        Its iterations, and by how many words each of them moves the component; `move` is None where that
        is in several ranks, or where loops move it both ways.
    returns
        Loops farther out that may return to its tiles; None as for `move`.
    """

    component: int
    count: IntArray | int
    move: IntArray | int | None
    returns: Returns | None

    def only(self, candidate: int) -> Mover:
        """The loop above one of the tiles."""
        if not isinstance(self.count, np.ndarray):
            return self
        count = int(self.count[candidate])
        if not isinstance(self.move, np.ndarray) or self.returns is None:
            return Mover(self.component, count, None, None)
        return Mover(self.component, count, int(self.move[candidate]), self.returns.only(candidate))


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
            tuple(self.moves_outside(view, c)) for view in views for c in view.components if c.sliding
        )
        return (self.level, self.tile, self.in_place, self.signature, self.leads, moves)

    def moves_outside(self, view: DataspaceView, component: Component) -> Iterator[SlotMoves]:
        """How far the loops outside of the tile move `component`, slot by slot outwards.

        It ends with the first slot that also moves the dataspace in other ranks.
        """
        apart = view.apart(component)
        slots = zip(reversed(self.path), reversed(self.orders), reversed(self.extents), strict=True)
        for loops, order, inner in slots:
            moving = [d for d in component.dims if loops[d] > 1]
            free = any(loops[d] > 1 for d in loose_dims(view, apart, order))
            near = [d for d in moving if free or all(loops[a] == 1 for a in order.inside(d, apart))]
            yield tuple((inner[d] * component.step(d), loops[d]) for d in near)
            if any(loops[d] > 1 for d in apart):
                return


def loose_dims(view: DataspaceView, apart: Sequence[int], order: OrderClass) -> list[int]:
    """Dimensions that may move a dataspace anywhere in a class of orders, but not in ranks `apart`."""
    return sorted((order.anywhere & view.relevant) - frozenset(apart))
