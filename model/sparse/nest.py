"""The whole loop nest, loops of bound 1 included, and where each dataspace is kept in it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import product

from model.architecture import Architecture, Fanout
from model.cost.nest import Nest, build_nest
from model.cost.traffic import kept_positions
from model.counting.words import extents
from model.mapping import Axis, Loop, Mapping, NodeMapping, SpatialLoop, StorageMapping
from model.problem import Dataspace, Problem
from model.sparse.density import Extents

Bounds = dict[str, int]
"""Iterations per dimension."""


class MappingError(ValueError):
    """A mapping that is not priced on sparse data, or that formats cannot hold; `level` is where."""

    def __init__(self, level: str, message: str) -> None:
        super().__init__(f"{level}: {message}")
        self.level = level
        self.reason = message


@dataclass(frozen=True, slots=True)
class FullLoop:
    """A loop of the nest.

    Parameters
    ----------
    position
        Of its node in ``architecture.nodes``.
    dim, bound, axis
        See `model.cost.nest.NestLoop`; the bound may be 1.
    """

    position: int
    dim: str
    bound: int
    axis: Axis | None = None

    @property
    def trivial(self) -> bool:
        """Whether it has a single iteration."""
        return self.bound == 1


@dataclass(frozen=True)
class FullNest:
    """All loops, innermost first.

    A storage level has a temporal loop over every dimension. A fanout has a spatial one over every
    dimension, and temporal ones of bound 1 outside of them: Timeloop takes it for a level that keeps nothing.
    Dimensions that a node's mapping does not name stand innermost, in the problem's order, as where mappings
    are written.

    Parameters
    ----------
    loops
        Innermost first.
    boxes
        Along `loops`, the iterations at and below each loop, per dimension: products of factors.
    plain
        The loops of bound above 1.
    """

    problem: Problem
    plain: Nest
    loops: tuple[FullLoop, ...]
    boxes: tuple[Bounds, ...]
    kept: dict[str, tuple[int, ...]]

    @cached_property
    def _starts(self) -> dict[int, tuple[int, int]]:
        """First loop of each node, and the first one outside of it."""
        starts: dict[int, tuple[int, int]] = {}
        for index, loop in enumerate(self.loops):
            first, _ = starts.get(loop.position, (index, index))
            starts[loop.position] = first, index + 1
        return starts

    def level(self, position: int) -> range:
        """Loops of the node at `position`."""
        return range(*self._starts[position])

    def served_by(self, dataspace: str, position: int) -> range:
        """Loops between the level at `position` and the next inner one that keeps a dataspace."""
        child = self.child(dataspace, position)
        start = 0 if child is None else self._starts[child][1]
        return range(start, self._starts[position][1])

    def child(self, dataspace: str, position: int) -> int | None:
        """Return the next inner level that keeps a dataspace; None for the arithmetic."""
        return next((p for p in self.kept[dataspace] if p > position), None)

    def parent(self, dataspace: str, position: int) -> int | None:
        """Return the next outer level that keeps a dataspace."""
        return next((p for p in reversed(self.kept[dataspace]) if p < position), None)

    def keeper(self, dataspace: str, position: int) -> int | None:
        """Return the level at `position` if it keeps a dataspace, else the next outer one that does."""
        return next((p for p in reversed(self.kept[dataspace]) if p <= position), None)

    def space(self, dataspace: str) -> Dataspace:
        """Return the dataspace of a name."""
        return self.problem.dataspace(dataspace)

    def tile(self, dataspace: str, box: Bounds) -> Extents:
        """Extents of what a box of iterations touches, as far as there are so many."""
        if self.plain.remainder_dims:
            box = {dim: min(own, self.problem.bound[dim]) for dim, own in box.items()}
        return extents(self.space(dataspace), box)

    def words(self, dataspace: str, box: Bounds) -> int:
        """Words of what a box of iterations touches."""
        return math.prod(self.tile(dataspace, box))

    def mean(
        self,
        box: Bounds,
        figure: Callable[[Bounds], float],
        loops: Collection[FullLoop] | None = None,
        once: Collection[str] = (),
    ) -> float:
        """Average of a figure of boxes over all iterations: the last box along a dimension may be short.

        Parameters
        ----------
        box
            The largest of them.
        loops
            Those of bound above 1 that go through a box; None for the innermost ones.
        once
            Dimensions along which each box counts once, however long it is.
        """
        if not self.plain.remainder_dims:
            return figure(box)
        cuts = (self._parts_of(dim, box[dim], loops) for dim in self.problem.dims)
        every = (dict(zip(self.problem.dims, own, strict=True)) for own in product(*cuts))
        weights, total = 0, 0.0
        for own in every:
            weight = math.prod(
                iterations // extent if dim in once else iterations
                for dim, (extent, iterations) in own.items()
            )
            total += weight * figure({dim: extent for dim, (extent, _) in own.items()})
            weights += weight
        return total / weights

    def _parts_of(
        self, dim: str, extent: int, loops: Collection[FullLoop] | None
    ) -> Iterable[tuple[int, int]]:
        if loops is None:
            return _parts_of(self.problem.bound[dim], extent)
        digits = tuple(
            (loop.bound, box[dim] // loop.bound)
            for loop, box in zip(self.loops, self.boxes, strict=True)
            if loop.dim == dim and not loop.trivial and loop not in loops
        )
        return _agreeing(self.problem.bound[dim], digits)

    def box(self, position: int) -> Bounds:
        """Iterations at and below the node at `position`."""
        return self.boxes[self._starts[position][1] - 1]

    def below(self, position: int) -> Bounds:
        """Iterations below the node at `position`."""
        first = self._starts[position][0]
        return dict.fromkeys(self.problem.dims, 1) if first == 0 else self.boxes[first - 1]


def _parts_of(bound: int, extent: int) -> Iterator[tuple[int, int]]:
    """Yield the extents of the parts of a dimension, each with the iterations of all that have it."""
    extent = min(bound, extent)
    rest = bound % extent
    yield extent, bound - rest
    if rest:
        yield rest, rest


@lru_cache(maxsize=4096)
def _agreeing(bound: int, loops: tuple[tuple[int, int], ...]) -> tuple[tuple[int, int], ...]:
    """How many iterations agree in the digits of some loops, and how often: pairs of a bound and a stride."""
    sizes = Counter(tuple(own // stride % factor for factor, stride in loops) for own in range(bound))
    found = Counter[int]()
    for size in sizes.values():
        found[size] += size
    return tuple(found.items())


def full_nest(problem: Problem, architecture: Architecture, mapping: Mapping) -> FullNest:
    """Lay out all loops of a mapping.

    Raises
    ------
    ValueError
        If `model.cost.nest.build_nest` raises one.
    """
    plain = build_nest(problem, architecture, mapping)
    loops = tuple(_full_loops(problem, architecture, mapping))
    kept = {space.name: kept_positions(architecture, mapping, space.name) for space in problem.dataspaces}
    return FullNest(problem, plain, loops, tuple(_boxes_outwards(problem, loops)), kept)


def _full_loops(problem: Problem, architecture: Architecture, mapping: Mapping) -> Iterator[FullLoop]:
    for position in reversed(range(len(architecture.nodes))):
        yield from _of_node(problem, position, mapping.nodes[position])
        if isinstance(architecture.nodes[position], Fanout):
            yield from (FullLoop(position, dim, 1) for dim in problem.dims)


def _of_node(problem: Problem, position: int, entry: NodeMapping) -> Iterator[FullLoop]:
    written: Sequence[Loop | SpatialLoop]
    written = entry.temporal if isinstance(entry, StorageMapping) else entry.spatial
    named = {loop.dim for loop in written}
    unnamed: Axis | None = None if isinstance(entry, StorageMapping) else "x"
    yield from (FullLoop(position, dim, 1, unnamed) for dim in problem.dims if dim not in named)
    for loop in written:
        yield FullLoop(position, loop.dim, loop.bound, loop.axis if isinstance(loop, SpatialLoop) else None)


def _boxes_outwards(problem: Problem, loops: Iterable[FullLoop]) -> Iterator[Bounds]:
    inner = dict.fromkeys(problem.dims, 1)
    for loop in loops:
        inner = {**inner, loop.dim: inner[loop.dim] * loop.bound}
        yield inner
