"""The loop nest of a mapping: strides, and the block of iterations that each node covers."""

from __future__ import annotations

import math
from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass

from model.architecture import Architecture, Fanout
from model.cost.shares import LoopsAbove, RowLoop, Share, deal, first
from model.counting.words import Move, displacement
from model.extents import tiles_of
from model.mapping import Axis, FanoutMapping, Loop, Mapping, SpatialLoop, StorageMapping
from model.problem import Dataspace, Problem


@dataclass(frozen=True, slots=True)
class NestLoop:
    """A loop of bound above 1.

    Parameters
    ----------
    dim, bound
        Its dimension and its iterations.
    stride
        How far the dimension advances per iteration: the product of the bounds of all loops over it
        farther in.
    axis
        Where a spatial loop lies, None for a temporal one.
    """

    dim: str
    bound: int
    stride: int
    axis: Axis | None = None


@dataclass(frozen=True)
class Nest:
    """The loops of a mapping, node by node.

    Parameters
    ----------
    temporal, spatial
        Per node (outermost first), its loops innermost first; empty for nodes of the other kind.
    bounds
        Per node, how many iterations of each dimension a full tile at or below it has; one more entry
        for the compute, where every dimension has 1.
    remainder_dims
        Dimensions whose loops have remainders.
    """

    temporal: tuple[tuple[NestLoop, ...], ...]
    spatial: tuple[tuple[NestLoop, ...], ...]
    bounds: tuple[dict[str, int], ...]
    remainder_dims: frozenset[str] = frozenset()

    def steps(self, position: int | None = None) -> int:
        """Steps of the temporal loops above a node, those in which no instance has anything to do left out.

        Parameters
        ----------
        position
            Of the node, counted from the outermost; None for all loops: the cycles of an unhindered compute.
        """
        if self.remainder_dims:
            return math.prod(self._steps_of(dim, position) for dim in self.bounds[0])
        return math.prod(loop.bound for loops in self.temporal[:position] for loop in loops)

    def _steps_of(self, dim: str, position: int | None) -> int:
        """Steps of one dimension: the first instance takes part in all of them."""
        row = self.row(dim, len(self.temporal) if position is None else position)
        (share,) = first([Share(self.bounds[0][dim], 1)], row.spatial)
        return tiles_of(share.iterations, row.extent)

    def children(self, position: int) -> int:
        """Children in use per instance of the fanout at `position`."""
        return math.prod(loop.bound for loop in self.spatial[position])

    def instances(self, position: int) -> int:
        """Instances of a node that are ever in use.

        Parameters
        ----------
        position
            Of the node, counted from the outermost; the number of nodes for the compute.
        """
        if self.remainder_dims:
            return math.prod(
                sum(share.instances for share in self.shares(dim, position)) for dim in self.bounds[0]
            )
        return math.prod(map(self.children, range(position)))

    def row(self, dim: str, position: int) -> LoopsAbove:
        """The loops over a dimension above the node at `position`."""
        above = self.loops_above(position)
        temporal = (RowLoop(n, loop.bound, loop.stride) for n, loop in enumerate(above) if loop.dim == dim)
        spatial = (
            RowLoop(place, loop.bound, loop.stride)
            for place, loops in enumerate(self.spatial[:position])
            for loop in reversed(loops)
            if loop.dim == dim
        )
        return LoopsAbove(self.bounds[position][dim], tuple(temporal), tuple(spatial))

    def shares(self, dim: str, position: int) -> tuple[Share, ...]:
        """Iterations of a dimension that the instances of a node execute; the largest share comes first."""
        return deal([Share(self.bounds[0][dim], 1)], self.row(dim, position).spatial)

    def loops_above(self, position: int) -> list[NestLoop]:
        """The temporal loops above the node at `position`, innermost first."""
        return [loop for loops in reversed(self.temporal[:position]) for loop in loops]

    def moves_above(self, space: Dataspace, position: int) -> Iterator[Move]:
        """Yield the temporal loops above the node at `position`, innermost first, as `space` sees them."""
        for loops in reversed(self.temporal[:position]):
            yield from _moves_of_loops(space, loops)

    def spatial_moves(self, space: Dataspace, position: int) -> Iterator[Move]:
        """Spatial loops of the fanout at `position`, innermost first, as `space` sees them."""
        return _moves_of_loops(space, self.spatial[position])


def _moves_of_loops(space: Dataspace, loops: tuple[NestLoop, ...]) -> Iterator[Move]:
    return ((loop.bound, displacement(space, loop.dim, loop.stride)) for loop in loops)


def build_nest(problem: Problem, architecture: Architecture, mapping: Mapping) -> Nest:
    """Lay out the loops of a mapping.

    Parameters
    ----------
    problem, architecture
        What the mapping is of.
    mapping
        Loops of bound 1 may be missing or there, and leave no trace. The bounds of a dimension's loops
        multiply to the problem's bound, or the outermost one is what the others leave of it, rounded up.

    Returns
    -------
    Nest
        One entry per node, outermost first.

    Raises
    ------
    ValueError
        If the mapping does not fit the architecture's nodes or the problem's dimensions, if a bound is
        below 1, or if the loops over a dimension do not cover it, or go beyond.
    """
    check_nodes(architecture, mapping)
    inner = dict.fromkeys(problem.dims, 1)
    bounds = [dict(inner)]
    temporal: list[tuple[NestLoop, ...]] = []
    spatial: list[tuple[NestLoop, ...]] = []
    for node, entry in zip(reversed(architecture.nodes), reversed(mapping.nodes), strict=True):
        node_loops = entry.temporal if isinstance(entry, StorageMapping) else entry.spatial
        loops = tuple(_advance(inner, node_loops))
        temporal.append(() if isinstance(node, Fanout) else loops)
        spatial.append(loops if isinstance(node, Fanout) else ())
        bounds.append(dict(inner))
    remainder_dims = frozenset(dim for dim, value in inner.items() if value != problem.bound[dim])
    _check_cover(problem, inner, [loop for loops in (*temporal, *spatial) for loop in loops], remainder_dims)
    if remainder_dims:
        bounds = [{dim: min(own[dim], problem.bound[dim]) for dim in own} for own in bounds]
    return Nest(tuple(reversed(temporal)), tuple(reversed(spatial)), tuple(reversed(bounds)), remainder_dims)


def _check_cover(
    problem: Problem, products: dict[str, int], loops: Iterable[NestLoop], remainder_dims: Iterable[str]
) -> None:
    """Check that the outermost loops over dimensions with remainders are as long as they have to be."""
    outermost: dict[str, NestLoop] = {}
    for loop in loops:
        known = outermost.get(loop.dim, loop)
        outermost[loop.dim] = loop if loop.stride >= known.stride else known
    wrong = {
        dim: products[dim]
        for dim in remainder_dims
        if dim not in outermost or outermost[dim].bound != tiles_of(problem.bound[dim], outermost[dim].stride)
    }
    if wrong:
        raise ValueError(f"loop bounds multiply to {wrong}, which is not the problem's bound")


def _advance(inner: dict[str, int], loops: Iterable[Loop | SpatialLoop]) -> Iterator[NestLoop]:
    """Multiply the bounds of `loops` into `inner`, yielding the loops that iterate at all."""
    for loop in loops:
        check_loop(loop, inner)
        if loop.bound > 1:
            yield NestLoop(
                loop.dim, loop.bound, inner[loop.dim], loop.axis if isinstance(loop, SpatialLoop) else None
            )
            inner[loop.dim] *= loop.bound


def check_nodes(architecture: Architecture, mapping: Mapping) -> None:
    """Check that a mapping has one entry of the right kind per node.

    Raises
    ------
    ValueError
        If it has not.
    """
    if len(mapping.nodes) != len(architecture.nodes):
        raise ValueError(f"mapping has {len(mapping.nodes)} nodes, architecture {len(architecture.nodes)}")
    for node, entry in zip(reversed(architecture.nodes), reversed(mapping.nodes), strict=True):
        if isinstance(node, Fanout) != isinstance(entry, FanoutMapping):
            raise ValueError(f"mapping of node {node.name!r} is of the wrong kind")


def check_loop(loop: Loop | SpatialLoop, dims: Container[str]) -> None:
    """Check that a loop is over a dimension of the problem, and iterates at least once.

    Raises
    ------
    ValueError
        If it is not, or does not.
    """
    if loop.dim not in dims:
        raise ValueError(f"loop over {loop.dim!r}, which is not a dimension of the problem")
    if loop.bound < 1:
        raise ValueError(f"loop over {loop.dim!r} with the bound {loop.bound}")


def check_keeps(problem: Problem, mapping: Mapping) -> None:
    """Check that levels keep none but dataspaces of the problem.

    Raises
    ------
    ValueError
        If one keeps anything else.
    """
    known = {space.name for space in problem.dataspaces}
    for entry in mapping.nodes:
        unknown = entry.keep - known if isinstance(entry, StorageMapping) else frozenset()
        if unknown:
            raise ValueError(f"mapping keeps unknown dataspaces {sorted(unknown)}")


def check_places(architecture: Architecture, mapping: Mapping) -> None:
    """Check that no dataspace is kept at several places of one memory.

    Raises
    ------
    ValueError
        If one is.
    """
    for places in architecture.memories:
        entries = [mapping.nodes[architecture.storage_indices[place]] for place in places]
        kept = [name for entry in entries if isinstance(entry, StorageMapping) for name in entry.keep]
        twice = sorted({name for name in kept if kept.count(name) > 1})
        if twice:
            name = architecture.levels[places[0]].component
            raise ValueError(f"mapping keeps {twice} at several places of {name!r}")
