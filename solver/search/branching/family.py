"""The children of a node, as arrays: most are never visited, and only those that are become nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from solver.search.arrays import FloatArray, IntArray
from solver.search.bounds.boundary import Boundary
from solver.search.branching.node import Node
from solver.search.branching.walk import Walk


@dataclass(frozen=True, eq=False)
class Family:
    """Children with one spatial choice and one class of orders; all arrays have an entry per child.

    Parameters
    ----------
    spent, least
        As of `Node`, in quanta.
    values, busiest
        As of `Node`: the objective, and cycles.
    loads
        In cycles, shape (children, resources).
    delivered
        Words of one instance of each boundary at the level of the children.
    """

    walk: Walk
    spent: IntArray
    least: IntArray
    values: FloatArray
    busiest: FloatArray
    loads: FloatArray
    delivered: tuple[tuple[Boundary, IntArray], ...]

    def child(self, position: int) -> Node:
        """Return one of the children."""
        walk, node, candidates = self.walk, self.walk.node, self.walk.candidates
        factors, tile = candidates.member.factors, int(candidates.tiles[position])
        extents = walk.space.lattice.vector(tile)
        delivered = ((b.place, b.level, int(words[position])) for b, words in self.delivered)
        return Node(
            level=node.level + 1,
            tile=tile,
            spent=int(self.spent[position]),
            least=int(self.least[position]),
            value=float(self.values[position]),
            busiest=float(self.busiest[position]),
            loads=self.loads[position],
            delivered=(*node.delivered, *delivered),
            in_place=tuple(int(run[position]) for run in walk.runs),
            signature=walk.signature(position),
            path=(*node.path, tuple(int(t) for t in candidates.loops[position])),
            orders=(*node.orders, walk.order),
            spatial=(*node.spatial, candidates.member),
            extents=(*node.extents, tuple(e * f for e, f in zip(extents, factors, strict=True))),
            moved=walk.moved(position),
        )


def best_first(families: Sequence[Family], limit: Callable[[], int]) -> Iterator[Node]:
    """Yield the children by rising value, then cost; orders that make no difference yield one child.

    `limit` is asked anew for every child: it has none that takes as much or more.
    """
    if not families:
        return
    numbers = np.repeat(np.arange(len(families)), [len(family.least) for family in families])
    positions = np.concatenate([np.arange(len(family.least)) for family in families])
    values = np.concatenate([family.values for family in families])
    least = np.concatenate([family.least for family in families])
    seen = set()
    for place in np.lexsort((least, values)).tolist():
        if least[place] >= limit():
            continue
        family = families[numbers[place]]
        child = family.child(int(positions[place]))
        key = (child.spatial[-1], child.delivered, child.state(family.walk.space.views))
        if key not in seen:
            seen.add(key)
            yield child
