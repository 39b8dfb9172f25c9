"""A fused mapping: a tree of bodies with shared loops, stored and held tiles, and the nests of Einsums."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from model.architecture import Architecture, Fanout, with_order, with_places
from model.mapping import FanoutMapping, NodeMapping, StorageMapping
from model.mapping import Mapping as NestMapping


@dataclass(frozen=True, slots=True)
class SharedLoop:
    """A temporal loop of a body, outside the outermost on-chip memory.

    Parameters
    ----------
    trips
        Iterations, at least 2.
    dims
        Pairs of an Einsum below and the dimension of its problem that the loop runs over.
    """

    trips: int
    dims: tuple[tuple[str, str], ...]

    def dim(self, einsum: str) -> str:
        """Return the dimension that the loop runs over in an Einsum; ``KeyError`` if it is not below."""
        return dict(self.dims)[einsum]


@dataclass(frozen=True, slots=True)
class Stored:
    """A tensor that is stored in an on-chip memory, with nothing in the outermost memory.

    `depth` is the number of shared loops above its place, counted from the root.
    """

    tensor: str
    memory: str
    depth: int


@dataclass(frozen=True, slots=True)
class Held:
    """A tile of one dataspace of an Einsum that the outermost on-chip memory holds above shared loops.

    Parameters
    ----------
    depth
        Number of shared loops above its place, counted from the root.
    keeps_overlap
        Whether what overlaps stays while the innermost of these loops slides the tile, by AccelForge's
        counting rule: each of its iterations fetches the new part only.
    """

    dataspace: str
    depth: int
    keeps_overlap: bool = False

    @property
    def fetch_depth(self) -> int:
        """Number of shared loops that fetch all of what they select in each iteration."""
        return self.depth - self.keeps_overlap


@dataclass(frozen=True, slots=True)
class PrivateNest:
    """What an Einsum does in one visit, below all shared loops.

    Parameters
    ----------
    mapping
        Onto the architecture, with `places` of its memories (`model.architecture.with_places`). The
        outermost memory keeps every dataspace that is not stored on chip. Tiles that are stored or held
        are not kept in the memory that has them: they have their own place there, above all others.
    places
        Memories with more than one place, and their number.
    order
        Memories of all places on chip, outermost first, where they lie in an order of the nest's own
        (`model.architecture.with_order`); None in the order of the hardware.
    bounds
        Pairs of a dimension and its extent in the visits that the nest is for; None for what its loops
        multiply to or, if it is the Einsum's only nest, for all visits. Its loops may have remainders.
    """

    mapping: NestMapping
    places: tuple[tuple[str, int], ...] = ()
    bounds: tuple[tuple[str, int], ...] | None = None
    order: tuple[str, ...] | None = None

    def placed(self, architecture: Architecture) -> Architecture:
        """Return an architecture with the places that its mapping is on."""
        if self.order is not None:
            return with_order(architecture, self.order)
        return with_places(architecture, dict(self.places))


def nest_in_order(
    architecture: Architecture,
    places: Sequence[tuple[str, StorageMapping]],
    across: Mapping[str, FanoutMapping],
    bounds: tuple[tuple[str, int], ...] | None = None,
) -> PrivateNest:
    """Return a nest whose memories lie in an order of its own.

    Parameters
    ----------
    places
        Memory and entry of each place on chip, outermost first, behind those of the outermost memory.
    across
        Entries of fanouts, by name.
    bounds
        See `PrivateNest`.
    """
    order, stores = tuple(memory for memory, _ in places[1:]), iter([entry for _, entry in places])
    nodes: list[NodeMapping] = []
    for node in with_order(architecture, order).nodes:
        if isinstance(node, Fanout):
            nodes.append(across.get(node.name, FanoutMapping()))
        elif nodes and node.component not in order:
            nodes.append(StorageMapping())
        else:
            nodes.append(next(stores))
    return PrivateNest(NestMapping(tuple(nodes)), bounds=bounds, order=order)


@dataclass(frozen=True, slots=True)
class Leaf:
    """An Einsum.

    Parameters
    ----------
    nests
        One for each set of bounds that its visits have: one where all visits are alike, none for a copy.
    held
        At most one per dataspace.
    """

    einsum: str
    nests: tuple[PrivateNest, ...]
    held: tuple[Held, ...] = ()


@dataclass(frozen=True, slots=True)
class Body:
    """Two or more neighbouring Einsums under shared loops, outermost first."""

    loops: tuple[SharedLoop, ...]
    children: tuple[Body | Leaf, ...]


@dataclass(frozen=True, slots=True)
class LeafPath:
    """A leaf and the loops above it, outermost first; `bodies` says per loop which body it belongs to."""

    leaf: Leaf
    loops: tuple[SharedLoop, ...]
    bodies: tuple[int, ...]

    def shared(self, other: LeafPath) -> int:
        """Return the number of loops that two leaves have in common."""
        for depth, (a, b) in enumerate(zip(self.bodies, other.bodies, strict=False)):
            if a != b:
                return depth
        return min(len(self.bodies), len(other.bodies))


@dataclass(frozen=True)
class FusedMapping:
    """A mapping of a whole cascade.

    Parameters
    ----------
    children
        Leaves in the order of the cascade, and the bodies that they are in.
    stored
        At most one per tensor.
    """

    children: tuple[Body | Leaf, ...]
    stored: tuple[Stored, ...] = ()

    @cached_property
    def bodies(self) -> tuple[tuple[Body, int], ...]:
        """All bodies, outer before inner ones, each with the number of shared loops above it."""
        return tuple(_bodies(self.children, 0))

    @cached_property
    def paths(self) -> tuple[LeafPath, ...]:
        """The leaves from the first to the last."""
        numbers = {id(body): number for number, (body, _) in enumerate(self.bodies)}
        return tuple(_leaf_paths(self.children, numbers, (), ()))

    @cached_property
    def stored_at(self) -> Mapping[str, Stored]:
        """What is stored, by tensor."""
        return {stored.tensor: stored for stored in self.stored}


def leaves(child: Body | Leaf) -> Iterator[Leaf]:
    """Yield the leaves of a part of the tree."""
    if isinstance(child, Leaf):
        yield child
        return
    for below in child.children:
        yield from leaves(below)


def _bodies(children: tuple[Body | Leaf, ...], depth: int) -> Iterator[tuple[Body, int]]:
    for child in children:
        if isinstance(child, Body):
            yield child, depth
            yield from _bodies(child.children, depth + len(child.loops))


def _leaf_paths(
    children: tuple[Body | Leaf, ...],
    numbers: Mapping[int, int],
    loops: tuple[SharedLoop, ...],
    bodies: tuple[int, ...],
) -> Iterator[LeafPath]:
    for child in children:
        if isinstance(child, Leaf):
            yield LeafPath(child, loops, bodies)
            continue
        below = (*bodies, *(numbers[id(child)] for _ in child.loops))
        yield from _leaf_paths(child.children, numbers, (*loops, *child.loops), below)
