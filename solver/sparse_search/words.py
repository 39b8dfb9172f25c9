"""Words of dense data of all instances together; by Timeloop's rule, at least, without remainders."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import cached_property

from model.architecture import Fanout
from model.cost.counting import Move, displacement, distinct_offsets, extents, fresh_words
from model.cost.partition import partition_words
from model.problem import Dataspace
from model.sparse import FIXED_POINT
from solver.search.path.costs import Above, Costs, Part, Price
from solver.search.path.orders import Dims
from solver.search.path.words import Line


class SparseCosts(Costs):
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

    def price(self, part: Part, lines: Sequence[Line], above: Above) -> tuple[Price, int]:
        """Return what words of a part cost, and how many come whatever loops bring."""
        key = part, above, tuple(line.extents for line in lines)
        if key not in self._prices:
            space = self._space.problem.dataspaces[part.place]
            words = self._tile(space, part.boundary, lines) * self._asked(part, lines)
            if not part.by_order:
                words *= math.prod(own for line in lines for own in line.temporal[: part.boundary])
            self._prices[key] = self._price(part, lines), words
        return self._prices[key]

    def _tile(self, space: Dataspace, level: int, lines: Sequence[Line]) -> int:
        return math.prod(self._extents(space, level, lines))

    def _extents(self, space: Dataspace, level: int, lines: Sequence[Line]) -> tuple[int, ...]:
        box = {**dict.fromkeys(self._space.problem.dims, 1)}
        box.update(zip(self._space.active, (line.extents[level] for line in lines), strict=True))
        return tuple(extents(space, box))

    def _asked(self, part: Part, lines: Sequence[Line]) -> int:
        """Accesses of all instances of a level for each word that one instance of a boundary gets."""
        architecture = self._space.architecture
        positions = (*architecture.storage_indices, len(architecture.nodes))
        first, last = positions[part.level], positions[part.boundary]
        used = math.prod(line.instances[first] for line in lines)
        if part.level == part.boundary:
            return used
        space, total = self._space.problem.dataspaces[part.place], used
        for position in range(first, last):
            node = architecture.nodes[position]
            if isinstance(node, Fanout):
                moves = list(self._spatial_moves(space, position, lines))
                apart = space.name in node.no_multicast
                total *= math.prod(bound for bound, _ in moves) if apart else distinct_offsets(moves)
        return total

    def _spatial_moves(self, space: Dataspace, position: int, lines: Sequence[Line]) -> Iterator[Move]:
        for dim, line in zip(self._space.active, lines, strict=True):
            for loop in (loop for loop in line.spatial if loop.place == position):
                yield loop.bound, displacement(space, dim, loop.stride)

    def _firsts(self, part: Part, lines: Sequence[Line]) -> tuple[int, int]:
        """Of an output, the partitions of all instances of a level."""
        if not self._space.views[part.place].read_write:
            return 0, 0
        architecture = self._space.architecture
        space, position = self._space.problem.dataspaces[part.place], architecture.storage_indices[part.level]
        words = partition_words(architecture, list(self._by_node(space, lines)))[position]
        held = words * math.prod(line.instances[position] for line in lines)
        return held, held

    def _by_node(self, space: Dataspace, lines: Sequence[Line]) -> Iterator[int]:
        """Words that the loops at or below each node touch, and a single computation."""
        architecture, level = self._space.architecture, -1
        for position, node in enumerate(architecture.nodes):
            if not isinstance(node, Fanout):
                level += 1
                yield self._tile(space, level, lines)
                continue
            box = {**dict.fromkeys(self._space.problem.dims, 1)}
            for dim, line in zip(self._space.active, lines, strict=True):
                own = (loop.bound for loop in line.spatial if loop.place >= position)
                inside = math.prod(line.temporal[level + 1 :])
                box[dim] = inside * math.prod(own)
            yield math.prod(extents(space, box))
        yield 1

    def _brought_by(
        self, part: Part, lines: Sequence[Line], level: int, orders: Sequence[Dims]
    ) -> tuple[int, ...]:
        space = self._space.problem.dataspaces[part.place]
        tile, asked = self._extents(space, part.boundary, lines), self._asked(part, lines)
        levels = level, part.boundary
        return tuple(asked * self._moved(space, tile, lines, levels, order) for order in orders)

    def _moved(
        self,
        space: Dataspace,
        tile: Sequence[int],
        lines: Sequence[Line],
        levels: tuple[int, int],
        order: Dims,
    ) -> int:
        """The same for one order, and one instance."""
        level, boundary = levels
        moves = [displacement(space, dim, 1) for dim in self._space.active]
        position = [0] * len(tile)
        for inner in range(level + 1, boundary):
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
