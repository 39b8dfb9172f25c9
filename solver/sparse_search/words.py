"""Words of dense data of all instances together; by Timeloop's rule, at least, without remainders."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import cached_property

from model.cost.nest import Nest, build_nest
from model.cost.traffic import distinct_children
from model.counting.words import displacement, extents, fresh_words
from model.mapping import FanoutMapping, Loop, Mapping, NodeMapping, SpatialLoop, StorageMapping
from model.sparse import FIXED_POINT
from solver.search.path.costs import Above, Part, PartCosts, PartPrice
from solver.search.path.orders import Dims
from solver.search.path.words import Line


class SparseCosts(PartCosts):
    """Words of all instances together; loads are counted in `FIXED_POINT` parts of a cycle."""

    def by_instance(self, part: Part, lines: Sequence[Line]) -> Iterator[Part]:
        """All instances together."""
        del lines
        yield part

    @cached_property
    def units(self) -> tuple[int, ...]:
        """Parts of a cycle, by resource."""
        return (FIXED_POINT,) * len(self._space.resources)


class PartitionedCosts(SparseCosts):
    """The same for Timeloop's rule: windows may move less than these say, and words are counted per instance.

    Of a loop farther out, Timeloop says that it brings the whole tile unless it goes on as the innermost
    one does; here it always keeps what overlaps.
    """

    def price(self, part: Part, lines: Sequence[Line], above: Above) -> tuple[PartPrice, int]:
        """Return what words of a part cost, and how many come whatever loops bring."""
        key = part, above, tuple(line.extents for line in lines)
        if key not in self._prices:
            words = math.prod(self._tile(part, lines)) * self._asked(part, lines)
            if not part.by_order:
                words *= math.prod(own for line in lines for own in line.temporal[: part.boundary])
            self._prices[key] = self._price(part, lines), words
        return self._prices[key]

    def _tile(self, part: Part, lines: Sequence[Line]) -> tuple[int, ...]:
        """Extents of what comes to one instance."""
        space = self._space.problem.dataspaces[part.place]
        return tuple(extents(space, self._nest(lines).bounds[self._positions[part.boundary]]))

    def _asked(self, part: Part, lines: Sequence[Line]) -> int:
        """Accesses of all instances of a level for each word that one instance of a boundary gets."""
        nest, architecture = self._nest(lines), self._space.architecture
        space, used = self._space.problem.dataspaces[part.place], nest.instances(self._positions[part.level])
        between = range(self._positions[part.level], self._positions[part.boundary])
        fanouts = (own for own in architecture.fanout_indices if own in between)
        return used * math.prod(distinct_children(architecture, nest, space, own) for own in fanouts)

    def _firsts(self, part: Part, lines: Sequence[Line]) -> tuple[int, int]:
        """Of an output, the partitions of all instances of a level."""
        if not self._space.views[part.place].read_write:
            return 0, 0
        nest, space = self._nest(lines), self._space.problem.dataspaces[part.place]
        position = self._positions[part.level]
        touched = self._space.mapspace.counting_rule.touched(self._space.architecture, nest, space)
        held = touched(position, position) * nest.instances(position)
        return held, held

    @cached_property
    def _positions(self) -> tuple[int, ...]:
        """Of the levels in the architecture, and of the compute."""
        architecture = self._space.architecture
        return (*architecture.storage_indices, len(architecture.nodes))

    def _nest(self, lines: Sequence[Line]) -> Nest:
        """The loops, in any order."""
        key = tuple(lines)
        if key not in self._nests:
            problem, architecture = self._space.problem, self._space.architecture
            nodes = tuple(self._node(lines, place) for place in range(len(architecture.nodes)))
            self._nests[key] = build_nest(problem, architecture, Mapping(nodes))
        return self._nests[key]

    def _node(self, lines: Sequence[Line], place: int) -> NodeMapping:
        pairs = list(zip(self._space.active, lines, strict=True))
        if place in self._positions:
            level = self._positions.index(place)
            return StorageMapping(tuple(Loop(dim, line.temporal[level]) for dim, line in pairs), frozenset())
        loops = ((dim, own.bound) for dim, line in pairs for own in line.spatial if own.place == place)
        return FanoutMapping(tuple(SpatialLoop(dim, bound, "x") for dim, bound in loops))

    @cached_property
    def _nests(self) -> dict[tuple[Line, ...], Nest]:
        return {}

    def _brought_by(
        self, part: Part, lines: Sequence[Line], level: int, orders: Sequence[Dims]
    ) -> tuple[int, ...]:
        asked = self._asked(part, lines)
        return tuple(asked * self._moved(part, lines, level, own) for own in orders)

    def _moved(self, part: Part, lines: Sequence[Line], level: int, order: Dims) -> int:
        """Words that one order brings to one instance."""
        space, tile = self._space.problem.dataspaces[part.place], self._tile(part, lines)
        moves = [displacement(space, dim, 1) for dim in self._space.active]
        position = [0] * len(tile)
        for inner in range(level + 1, part.boundary):
            for line, move in zip(lines, moves, strict=True):
                steps = line.strides[inner] if line.temporal[inner] > 1 else 0
                position = [at + steps * own for at, own in zip(position, move, strict=True)]
        left = math.prod(own for line in lines for own in line.temporal[: level + 1])
        total = 0
        for d in order:
            step = [lines[d].strides[level] * own for own in moves[d]]
            jump = [own - at for own, at in zip(step, position, strict=True)]
            outside = left // lines[d].temporal[level]
            total += (left - outside) * (fresh_words(tile, jump) if any(jump) else 0)
            position = [at + own for at, own in zip(position, step, strict=True)]
            left = outside
        return total
