"""Where the counting rule of `model.cost` and an execution may differ, found by geometry alone.

The rule takes a tile for the bounding box of its words, looks at the second iteration of each temporal
loop only, and compares how far the tile moved with how far it moved before. An execution looks at the
words. The two can differ only where a tile has holes, or where, at the wrap of a loop outside the
innermost one that moves the tile, the new tile overlaps the old one, or the rule takes it to.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from model.mapping import Mapping, StorageMapping
from model.problem import Dataspace, Problem

Vector = tuple[int, ...]


@dataclass(frozen=True)
class TileMoves:
    """How the tile of `space` in one instance of the node at `position` moves.

    ``extents`` is its bounding box. ``vectors`` holds, per temporal loop outside of it, innermost first,
    the tile's displacement when that loop advances, and ``bounds`` that loop's bound.
    """

    extents: Vector
    has_holes: bool
    vectors: tuple[Vector, ...]
    bounds: tuple[int, ...]

    @property
    def words(self) -> int:
        """Size of the bounding box."""
        return math.prod(self.extents)

    def shared(self, move: Vector) -> int:
        """Words that the bounding box has in common with itself displaced by `move`."""
        return math.prod(max(0, extent - abs(by)) for extent, by in zip(self.extents, move, strict=True))

    def savings(self) -> list[tuple[int, int]]:
        """Per wrap of a loop outside the innermost moving one: words that the rule and a run do not move."""
        moving = [j for j, vector in enumerate(self.vectors) if any(vector)]
        found: list[tuple[int, int]] = []
        if not moving:
            return found
        innermost = self.vectors[moving[0]]
        for j in range(moving[0] + 1, len(self.vectors)):
            inner = list(zip(self.vectors[:j], self.bounds[:j], strict=True))
            supposed = _minus(self.vectors[j], [(vector, 1) for vector, _ in inner])
            actual = _minus(self.vectors[j], [(vector, bound - 1) for vector, bound in inner])
            if not any(supposed):
                by_rule = self.words
            else:
                by_rule = self.shared(innermost) if supposed == innermost else 0
            found.append((by_rule, self.shared(actual)))
        return found


def _minus(vector: Vector, others: list[tuple[Vector, int]]) -> Vector:
    return tuple(value - sum(times * other[i] for other, times in others) for i, value in enumerate(vector))


def tile_moves(problem: Problem, mapping: Mapping, space: Dataspace, position: int) -> TileMoves:
    """Follow the tile of `space` at `position` (``len(mapping.nodes)``: at the arithmetic)."""
    stride = dict.fromkeys(problem.dims, 1)
    extent = dict.fromkeys(problem.dims, 1)
    vectors: list[Vector] = []
    bounds: list[int] = []
    for node in reversed(range(len(mapping.nodes))):
        part = mapping.nodes[node]
        temporal = isinstance(part, StorageMapping)
        for loop in part.temporal if isinstance(part, StorageMapping) else part.spatial:
            if node >= position:
                extent[loop.dim] *= loop.bound
            elif temporal:
                vectors.append(
                    tuple(
                        sum(t.coefficient * stride[t.dim] for t in rank if t.dim == loop.dim)
                        for rank in space.ranks
                    )
                )
                bounds.append(loop.bound)
            stride[loop.dim] *= loop.bound
    extents = tuple(1 + sum(t.coefficient * (extent[t.dim] - 1) for t in rank) for rank in space.ranks)
    touched = []
    for rank in space.ranks:
        indices = {0}
        for term in rank:
            indices = {at + term.coefficient * i for at in indices for i in range(extent[term.dim])}
        touched.append(len(indices))
    return TileMoves(extents, math.prod(touched) < math.prod(extents), tuple(vectors), tuple(bounds))
