"""Several places of one memory, as branching sees them: room, loops and orders that they share.

Bounds charge the tiles at outer places of a memory as if they were as small as the one at hand. Branching
knows the tiles outside, and so what is left of the room.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np

from model.mapspace import JointRules
from solver.search.arrays import BoolArray, IntArray
from solver.search.branching.walk import InnerTiles, Node
from solver.search.space.keep_masks import KeepMask
from solver.search.space.search_space import SearchSpace


class JointPlaces:
    """What the places of memories do together under one keep mask."""

    def __init__(self, space: SearchSpace, mask: KeepMask) -> None:
        self._space = space
        self._mask = mask
        self._rules = {level: rules for rules in space.mapspace.joint for level in rules.levels}

    def __bool__(self) -> bool:
        """Whether any memory has several places."""
        return bool(self._rules)

    def possible(self, node: Node, candidates: InnerTiles) -> BoolArray:
        """Candidates below a node that memories have room for, and whose loops their rules allow."""
        loops_of, room_of = self._rules.get(node.level), self._rules.get(node.level + 1)
        possible = np.ones(len(candidates.tiles), dtype=np.bool_)
        if loops_of is not None:
            possible &= self._loops_possible(loops_of, node, candidates.loops)
        if room_of is not None and possible.any():
            extents = self._space.lattice.extents[candidates.tiles[possible]]
            possible[possible] = self._roomy(room_of, node, extents)
        return possible

    def finished(self, node: Node, factors: Sequence[int]) -> bool:
        """Whether the memory of the innermost level may have such loops there."""
        rules = self._rules.get(node.level)
        return rules is None or bool(self._loops_possible(rules, node, np.array([factors]))[0])

    def state(self, node: Node) -> Hashable:
        """All that this depends on for what lies inside of a node."""
        rules = self._rules.get(node.level)
        if rules is None:
            return None
        taken = 0 if node.level == rules.levels[-1] else int(self._taken(rules, node)[0])
        outside = node.path[rules.levels[0] :] if _binds(rules) else ()
        return taken, outside

    def _loops_possible(self, rules: JointRules, node: Node, loops: IntArray) -> BoolArray:
        """Which loops the place of a node may have."""
        level, last = node.level, node.level == rules.levels[-1]
        possible = np.ones(len(loops), dtype=np.bool_)
        idle = (loops == 1).all(axis=1)
        if level != rules.levels[0] and not self._mask[level]:
            possible &= idle
        if not last and self._swaps(level):
            possible &= ~idle
        if not _binds(rules):
            return possible
        for row in np.flatnonzero(possible):
            possible[row] = self._allowed(rules, node, loops[row], last)
        return possible

    def _swaps(self, level: int) -> bool:
        """Whether equal tiles at a place and the next one stand for others the other way round."""
        here, inside = self._mask[level], self._mask[level + 1]
        return bool(here and inside) and max(here) > min(inside)

    def _allowed(self, rules: JointRules, node: Node, loops: IntArray, last: bool) -> bool:
        """Whether the loops of the places so far may go together; once all are known, whether they do."""
        places = [_live(self._space.active, own) for own in (*node.path[rules.levels[0] :], loops.tolist())]
        if last:
            return rules.allow(places)
        return all(rules.follows(outer, places[-1]) for outer in places[:-1])

    def _roomy(self, rules: JointRules, node: Node, extents: IntArray) -> BoolArray:
        """Whether a memory has room for tiles of some extents inside a node, shape (tiles, dimensions)."""
        space, level = self._space, node.level + 1
        usable = space.levels[level].usable_words
        if usable is None:
            return np.ones(len(extents), dtype=np.bool_)
        before = self._taken(rules, node) if level != rules.levels[0] else np.zeros(1, dtype=np.int64)
        taken = before + space.size_words(level, self._mask[level], extents)
        rest = self._least_inside(level)
        fits: BoolArray = taken + rest <= usable
        if not rest:
            fits &= taken >= space.least_words(level)
        return fits

    def _least_inside(self, level: int) -> int:
        """Words that dataspaces at inner places take at least."""
        space, inner = self._space, [own for own in self._rules[level].levels if own > level]
        ones = np.ones((1, len(space.active)), dtype=np.int64)
        return sum(int(space.size_words(own, self._mask[own], ones)[0]) for own in inner)

    def _taken(self, rules: JointRules, node: Node) -> IntArray:
        """Words that the tiles of a memory take down to the place of a node."""
        space = self._space
        total = np.zeros(1, dtype=np.int64)
        if space.levels[node.level].usable_words is None:
            return total
        for level in (own for own in rules.levels if own <= node.level):
            total += space.size_words(level, self._mask[level], self._tile(node, level))
        return total

    def _tile(self, node: Node, level: int) -> IntArray:
        """Extents of a tile of a node or outside of it, shape (1, dimensions)."""
        if level == node.level:
            return self._space.lattice.extents[[node.tile]]
        return np.array([node.path[level]], dtype=np.int64) * np.array([node.extents[level]], dtype=np.int64)


def _binds(rules: JointRules) -> bool:
    """Whether loops of the places depend on each other."""
    return bool(rules.temporal.factors or rules.temporal.inner or rules.temporal.outer)


def _live(dims: Sequence[str], loops: Sequence[int]) -> dict[str, int]:
    return {dim: bound for dim, bound in zip(dims, loops, strict=True) if bound > 1}
