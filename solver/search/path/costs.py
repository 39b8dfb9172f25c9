"""What the words of one boundary cost: energy, and the load of every bandwidth, both at least."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

from model.cost.prices import access_energy, paying_instances
from model.cost.traffic import accesses, in_passing
from solver.search.path.words import Line, Words
from solver.search.space.keep_masks import Chain
from solver.search.space.search_space import SearchSpace

Loads = tuple[float, ...]
"""Cycles by resource."""


class Cost(NamedTuple):
    """Energy units, and cycles by resource."""

    energy: int
    loads: Loads

    def plus(self, other: Cost) -> Cost:
        """Both together."""
        return Cost(
            self.energy + other.energy, tuple(a + b for a, b in zip(self.loads, other.loads, strict=True))
        )


class Part(NamedTuple):
    """Accesses of a level whose words follow from those of one boundary.

    Parameters
    ----------
    level
        That is accessed.
    boundary
        The level that gets the words, or the compute: the same one for what fills it.
    """

    level: int
    boundary: int


class Costs:
    """The costs of boundaries, remembered by all that they depend on.

    Energies and cycles are exact where all instances of a level pay for what they do, and do the same;
    elsewhere words of all of them together are priced as if they were.

    Parameters
    ----------
    space
        Its problem and its architecture.
    """

    def __init__(self, space: SearchSpace) -> None:
        self._space = space
        self._words = Words(space)
        self._parts: dict[tuple[int, Chain], dict[int, list[Part]]] = {}
        self._known: dict[object, Cost] = {}
        self.none = Cost(0, (0.0,) * len(space.resources))

    def boundaries(self, place: int, chain: Chain) -> Sequence[int]:
        """Levels, and the compute, whose words decide what a dataspace costs."""
        return tuple(self._parts_of(place, chain))

    def _parts_of(self, place: int, chain: Chain) -> dict[int, list[Part]]:
        if (place, chain) not in self._parts:
            self._parts[place, chain] = self._listed(place, chain)
        return self._parts[place, chain]

    def _listed(self, place: int, chain: Chain) -> dict[int, list[Part]]:
        levels, name = self._space.levels, self._space.views[place].name
        parts: dict[int, list[Part]] = {}
        asking = len(levels)
        for level in reversed(chain):
            parts.setdefault(asking, []).append(Part(level, asking))
            if level != chain[0] and not levels[level].tolls:
                parts.setdefault(level, []).append(Part(level, level))
            if name not in levels[level].passing:
                asking = level
        return parts

    def depends(self, place: int, boundary: int) -> bool:
        """Whether words of a boundary depend on the order of loops."""
        return self._words.reuses(place, boundary)

    def at(
        self, place: int, chain: Chain, boundary: int, lines: Sequence[Line], loops: Sequence[int]
    ) -> Cost:
        """Cost of a dataspace's words across a boundary.

        Parameters
        ----------
        chain
            Levels that keep it.
        lines
            Of all dimensions.
        loops
            Dimensions of the temporal loops outside of the boundary, innermost first.
        """
        key = place, chain, boundary, tuple(line.above[boundary] for line in lines), tuple(loops)
        if key not in self._known:
            total = self.none
            for part in self._parts_of(place, chain)[boundary]:
                total = total.plus(self._cost(place, part, lines, loops))
            self._known[key] = total
        return self._known[key]

    def _cost(self, place: int, part: Part, lines: Sequence[Line], loops: Sequence[int]) -> Cost:
        space, level = self._space.problem.dataspaces[place], self._space.levels[part.level]
        words = self._words.brought(place, part.level, part.boundary, lines, loops)
        firsts = self._firsts(place, part, lines)
        used = prod(line.instances[part.level] for line in lines)
        if part.level == part.boundary:
            counts = accesses(level, space, 0, (words, 0), firsts)
        elif level.tolls:
            traffic = in_passing(part.level, level, space, words, firsts[0])
            counts = traffic.reads, 0, traffic.updates
        else:
            counts = accesses(level, space, words, (0, 0), firsts)
        if level.free_share(space.name) not in (0, 1):
            # Each instance rounds.
            reads, fills, updates = counts
            counts = max(0, reads - used), max(0, fills - used), updates
        return Cost(
            self._energy(place, part.level, counts, used), self._loads(place, part.level, counts, used)
        )

    def _firsts(self, place: int, part: Part, lines: Sequence[Line]) -> tuple[int, int]:
        if not self._space.views[place].read_write:
            return 0, 0
        held = self._words.touched(place, part.level, part.level, lines)
        if part.level == part.boundary:
            return held, held
        return self._words.touched(place, part.level, part.boundary, lines), held

    def _energy(self, place: int, number: int, counts: tuple[int, int, int], used: int) -> int:
        level = self._space.levels[number]
        energy = access_energy(level, level.packing_of(self._space.views[place].name), *counts)
        return energy * paying_instances(level, self._space.instances[number], used) // used

    def _loads(self, place: int, number: int, counts: tuple[int, int, int], used: int) -> Loads:
        scale = self._space.levels[number].scale(self._space.views[place].name)
        reads, fills, updates = counts
        return tuple(
            float((reads * own.read_cycles + (fills + updates) * own.write_cycles) * scale / used)
            if number in own.levels
            else 0.0
            for own in self._space.resources
        )
