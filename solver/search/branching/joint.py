"""Several places of one memory, as branching sees them: room, loops and orders that they share.

Bounds charge the tiles at outer places of a memory as if they were as small as the one at hand. Branching
knows the tiles outside, and so what is left of the room.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Hashable, Sequence
from itertools import product

import numpy as np

from model.mapspace import JointRules
from model.rules import Locality, Rule
from solver.search.arrays import BoolArray, IntArray
from solver.search.branching.walk import InnerTiles, Node
from solver.search.space.keep_masks import KeepMask
from solver.search.space.search_space import SearchSpace
from solver.search.space.user_rules import TileRules, UnevenRule


class JointPlaces:
    """What the places of memories do together under one keep mask."""

    def __init__(self, space: SearchSpace, mask: KeepMask) -> None:
        self._space = space
        self._mask = mask
        self._rules = {level: rules for rules in space.mapspace.joint for level in rules.levels}
        self._tile_rules = defaultdict[int, list[tuple[Rule, int]]](list)
        for rules in space.mapspace.joint:
            self._look_up(rules)

    def _look_up(self, joint: JointRules) -> None:
        """Note at which place each rule about tiles is decided, with the place whose tile it is about.

        That is the innermost one of that place and those of the dataspaces that it asks for. With remainders
        extents are not known before the leaves: those are noted that may be decided at one place.
        """
        space = self._space
        name = space.levels[joint.levels[0]].component
        home = {view.name: {*space.chain(self._mask, view.place)} & {*joint.levels} for view in space.views}
        first, *inner = joint.levels
        used = [first, *(place for place in inner if any(place in own for own in home.values()))]
        for rule, place in product(space.mapspace.rules_on(Locality("tile", name)), used):
            asked = {own for dataspace in rule.dataspaces for own in home[dataspace]}
            if not space.uneven or asked <= {place}:
                self._tile_rules[max({place, *asked})].append((rule, place))

    def _kept(self, level: int) -> frozenset[int]:
        """Dataspaces whose tiles are at a level."""
        views = self._space.views
        return frozenset(view.place for view in views if level in self._space.chain(self._mask, view.place))

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
            possible[possible] = self._roomy(room_of, node, candidates.tiles[possible])
        for rule, place in self._tile_rules[node.level + 1]:
            possible[possible] = self._ruled(rule, place, node, candidates.tiles[possible])
        return possible

    def _ruled(self, rule: Rule, place: int, node: Node, tiles: IntArray) -> BoolArray:
        """Whether a rule about the tile at a place of a memory allows tiles inside a node.

        Tiles at places farther out are known.
        """
        space, level = self._space, node.level + 1
        if space.uneven:
            own = UnevenRule(rule, space.problem, space.levels[level])
            return space.may_satisfy(own, self._kept(level), tiles)

        def at(own: int) -> IntArray:
            return tiles if own == level else np.full(len(tiles), node.tiles[own])

        extents = {dim: space.lattice.extents[at(place), d] for d, dim in enumerate(space.active)}
        words = {
            view.name: space.tables[view.place].tile_words[at(own)]
            for view in space.views
            for own in space.chain(self._mask, view.place)
            if view.name in rule.dataspaces and own in self._rules[level].levels
        }
        judge = TileRules([rule], space.levels[level], words, extents)
        return judge.allow(len(tiles), space.stop)

    def finished(self, node: Node, factors: Sequence[int]) -> bool:
        """Whether the memory of the innermost level may have such loops there.

        With remainders only as far as other factors with the same tiles may, too.
        """
        rules = self._rules.get(node.level)
        return rules is None or bool(self._loops_possible(rules, node, np.array([factors]))[0])

    def multiply(self, dim: int, factors: Sequence[int]) -> bool:
        """Whether memories may have such loops over a dimension at all of their places together.

        Parameters
        ----------
        factors
            Of all levels, outermost first.
        """
        name = self._space.active[dim]
        return all(
            rules.allows_product(name, math.prod(factors[level] for level in rules.levels))
            for rules in self._space.mapspace.joint
        )

    def state(self, node: Node) -> Hashable:
        """All that this depends on for what lies inside of a node."""
        rules = self._rules.get(node.level)
        if rules is None or self._space.uneven:
            # With remainders the state of a node has all tiles and loops outside.
            return None
        outside = node.path[rules.levels[0] :] if _binds(rules) else ()
        if node.level == rules.levels[-1]:
            return 0, outside, ()
        inner = [level for level in rules.levels if level > node.level]
        ruled = any(self._tile_rules[level] for level in inner)
        tiles = node.tiles[rules.levels[0] :] if ruled else ()
        return int(self._taken(rules, node, self._space.lattice.extents)[0]), outside, tiles

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
        keep = self._space.mapspace.keep
        return bool(here and inside) and max(here) > min(inside) and keep[level] == keep[level + 1]

    def _allowed(self, rules: JointRules, node: Node, loops: IntArray, last: bool) -> bool:
        """Whether the loops of the places so far may go together; once all are known, whether they do.

        With remainders `multiply` has to tell of factors.
        """
        places = [_live(self._space.active, own) for own in (*node.path[rules.levels[0] :], loops.tolist())]
        if last and not self._space.uneven:
            return rules.allow(places)
        return all(rules.follows(outer, places[-1]) for outer in places[:-1])

    def _roomy(self, rules: JointRules, node: Node, tiles: IntArray) -> BoolArray:
        """Whether a memory has room for tiles inside a node; with remainders, for the least ones."""
        space, level = self._space, node.level + 1
        usable = space.levels[level].usable_words
        if usable is None:
            return np.ones(len(tiles), dtype=np.bool_)
        rest, least = self._least_inside(level), space.least_words(level)
        fits: BoolArray = self._with_inside(rules, node, tiles, space.lattice.extents) + rest <= usable
        if least and not rest:
            fits &= self._with_inside(rules, node, tiles, space.lattice.largest_extents) >= least
        return fits

    def _with_inside(self, rules: JointRules, node: Node, tiles: IntArray, extents: IntArray) -> IntArray:
        """Words that a memory's tiles take down to some inside a node, given the extents of all tiles."""
        level = node.level + 1
        before = self._taken(rules, node, extents) if level != rules.levels[0] else 0
        return before + self._space.size_words(level, self._mask[level], extents[tiles])

    def _least_inside(self, level: int) -> int:
        """Words that dataspaces at inner places take at least."""
        space, inner = self._space, [own for own in self._rules[level].levels if own > level]
        ones = np.ones((1, len(space.active)), dtype=np.int64)
        return sum(int(space.size_words(own, self._mask[own], ones)[0]) for own in inner)

    def _taken(self, rules: JointRules, node: Node, extents: IntArray) -> IntArray:
        """Words that a memory's tiles take down to the place of a node, given the extents of all tiles."""
        space = self._space
        total = np.zeros(1, dtype=np.int64)
        if space.levels[node.level].usable_words is None:
            return total
        for level in (own for own in rules.levels if own <= node.level):
            total += space.size_words(level, self._mask[level], extents[[node.tiles[level]]])
        return total


def _binds(rules: JointRules) -> bool:
    """Whether loops of the places depend on each other."""
    return bool(rules.temporal.factors or rules.temporal.inner or rules.temporal.outer)


def _live(dims: Sequence[str], loops: Sequence[int]) -> dict[str, int]:
    return {dim: bound for dim, bound in zip(dims, loops, strict=True) if bound > 1}
