"""The children of a node, as arrays: most are never visited, and only those that are become nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from solver.search.boundary import Boundary
from solver.search.lattice import FloatArray, IntArray
from solver.search.node import Node
from solver.search.walk import Walk


@dataclass(frozen=True, eq=False)
class Family:
    """Children with one spatial choice and one class of orders; all arrays have an entry per child."""

    walk: Walk
    energy: IntArray
    least: IntArray
    values: FloatArray
    busiest: FloatArray
    loads: FloatArray
    delivered: tuple[tuple[Boundary, IntArray], ...]

    def child(self, position: int) -> Node:
        """Return one of the children."""
        walk, node, found = self.walk, self.walk.node, self.walk.candidates
        factors, tile = found.member.factors, int(found.tiles[position])
        extents = walk.space.lattice.vector(tile)
        delivered = ((b.place, b.level, int(words[position])) for b, words in self.delivered)
        return Node(
            node.level + 1,
            tile,
            int(self.energy[position]),
            int(self.least[position]),
            float(self.values[position]),
            float(self.busiest[position]),
            self.loads[position],
            (*node.delivered, *delivered),
            tuple(int(run[position]) for run in walk.runs),
            walk.signature(position),
            (*node.path, tuple(int(t) for t in found.loops[position])),
            (*node.orders, walk.order),
            (*node.spatial, found.member),
            (*node.extents, tuple(e * f for e, f in zip(extents, factors, strict=True))),
            walk.leading(position),
        )


def best_first(families: Sequence[Family], limit: Callable[[], int]) -> Iterator[Node]:
    """Yield the children by rising value, then energy; orders that make no difference yield one child.

    `limit` is asked anew for every child: it has none that takes as much or more.
    """
    if not families:
        return
    numbers = np.repeat(np.arange(len(families)), [len(own.least) for own in families])
    positions = np.concatenate([np.arange(len(own.least)) for own in families])
    values = np.concatenate([own.values for own in families])
    least = np.concatenate([own.least for own in families])
    seen = set()
    for place in np.lexsort((least, values)).tolist():
        if least[place] >= limit():
            continue
        family = families[numbers[place]]
        child = family.child(int(positions[place]))
        key = (child.spatial[-1], child.energy, child.state(family.walk.space.views))
        if key not in seen:
            seen.add(key)
            yield child
