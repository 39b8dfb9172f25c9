"""The visits of an Einsum as loop nests, each with the tiles that lie above it in a place of their own."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import TypeVar

from model.architecture import Architecture, Fanout, StorageLevel, with_order, with_places
from model.cost.nest import Nest, build_nest, check_keeps, check_places
from model.cost.order import check_order, seen_by
from model.extents import tiles_of
from model.fused.check import FusedMappingError
from model.fused.mapping import Leaf, PrivateNest
from model.fused.visits import Visits, path_dims
from model.mapping import FanoutMapping, Loop, Mapping, NodeMapping, SpatialLoop, StorageMapping
from model.problem import Problem

AnyLoop = TypeVar("AnyLoop", Loop, SpatialLoop)


@dataclass(frozen=True)
class Seen:
    """A visit as one dataspace sees it: with fanouts where the dataspace meets them.

    `positions` has the place here of each node of the nest.
    """

    architecture: Architecture
    mapping: Mapping
    nest: Nest
    positions: dict[int, int]

    def places(self, memory: str) -> list[int]:
        """The nodes that are places of a memory, outermost first."""
        levels = zip(self.architecture.storage_indices, self.architecture.levels, strict=True)
        return [position for position, level in levels if level.component == memory]

    def home(self, memory: str, dataspace: str) -> int:
        """The outermost place of a memory that has a dataspace: that of what is stored or held above."""
        entries = ((position, self.mapping.nodes[position]) for position in self.places(memory))
        return next(n for n, own in entries if isinstance(own, StorageMapping) and dataspace in own.keep)


@dataclass(frozen=True)
class VisitKind:
    """The visits of an Einsum that cover equal parts of its dimensions.

    Parameters
    ----------
    count
        How many there are.
    counts
        Of the parts of each looped dimension with this extent; their product is `count`.
    first
        Dimensions along which no kind with another extent comes before.
    problem, architecture, mapping, nest
        The Einsum in one visit. Each memory that stores or holds a tile above the nest has it in a further
        place, outside of all others; the loops of the outermost memory stand there.
    private
        The nest as the fused mapping has it.
    mapping_is_whole
        Whether none of its loops ends early.
    """

    count: int
    counts: dict[str, int]
    first: frozenset[str]
    problem: Problem
    architecture: Architecture
    mapping: Mapping
    nest: Nest
    private: PrivateNest
    mapping_is_whole: bool

    def seen(self, dataspace: str) -> Seen:
        """The visit as a dataspace sees it."""
        if dataspace not in self._seen:
            self._seen[dataspace] = self._see(dataspace)
        return self._seen[dataspace]

    def first_place(self, memory: str) -> int:
        """The outermost node that is a place of a memory."""
        levels = zip(self.architecture.storage_indices, self.architecture.levels, strict=True)
        return next(position for position, level in levels if level.component == memory)

    def _see(self, dataspace: str) -> Seen:
        if not self.architecture.has_own_order:
            same = {position: position for position in range(len(self.architecture.nodes))}
            return Seen(self.architecture, self.mapping, self.nest, same)
        own = seen_by(self.architecture, self.mapping, dataspace)
        nest = build_nest(self.problem, own.architecture, own.mapping)
        positions = {position: place for place, position in enumerate(own.positions)}
        return Seen(own.architecture, own.mapping, nest, positions)

    @cached_property
    def _seen(self) -> dict[str, Seen]:
        return {}


def visit_kinds(visits: Visits, place: int) -> tuple[VisitKind, ...]:
    """Return the kinds of visits of an Einsum that is not a copy.

    Raises
    ------
    FusedMappingError
        If a nest covers the bounds of no visit, two cover the same, or none covers those of some visit.
    """
    einsum, path = visits.cascade.einsums[place], visits.mapping.paths[place]
    nests = _nests_by_bounds(einsum.problem, path.leaf)
    only = path.leaf.nests[0] if len(path.leaf.nests) == 1 and path.leaf.nests[0].bounds is None else None
    dims = path_dims(path, len(path.loops))
    extents = [visits.extents(place, dim, len(path.loops)) for dim in dims]
    kinds: list[VisitKind] = []
    for chosen in product(*(counter.items() for counter in extents)):
        counts = {dim: count for dim, (_, count) in zip(dims, chosen, strict=True)}
        bound = {**einsum.problem.bound, **{d: size for d, (size, _) in zip(dims, chosen, strict=True)}}
        bounds = tuple(bound.values())
        private = nests.pop(bounds, only)
        if private is None or not _reaches(private, einsum.problem, bounds):
            wanted = ", ".join(f"{dim}={size}" for dim, size in bound.items())
            raise FusedMappingError(f"`{einsum.name}` has no nest for its visits with {wanted}", path.leaf)
        first = frozenset(
            dim
            for dim, counter, (size, _) in zip(dims, extents, chosen, strict=True)
            if next(iter(counter)) == size
        )
        kinds.append(_visit_cost(visits, place, private, bounds, counts, first))
    unused = [nest for nest in nests.values() if nest is not only]
    if only is not None and not any(kind.mapping_is_whole for kind in kinds):
        unused.append(only)
    for nest in unused:
        raise FusedMappingError(f"no visit of `{einsum.name}` has the bounds that a nest covers", nest)
    return tuple(kinds)


def _nests_by_bounds(problem: Problem, leaf: Leaf) -> dict[tuple[int, ...], PrivateNest]:
    nests: dict[tuple[int, ...], PrivateNest] = {}
    for nest in leaf.nests:
        bounds = nest_bounds(problem, nest)
        if bounds in nests:
            raise FusedMappingError(f"two nests of `{leaf.einsum}` cover the same bounds", nest)
        nests[bounds] = nest
    return nests


def nest_bounds(problem: Problem, nest: PrivateNest) -> tuple[int, ...]:
    """Return the bounds that a nest is for, or that its loops multiply to, in the order of the dimensions."""
    loops = [loop for entry in nest.mapping.nodes for loop in _loops_of_entry(entry)]
    given = dict(nest.bounds or ())
    return tuple(
        given[dim] if dim in given else math.prod(loop.bound for loop in loops if loop.dim == dim)
        for dim in problem.dims
    )


def _reaches(nest: PrivateNest, problem: Problem, bounds: Sequence[int]) -> bool:
    """Whether the loops of a nest go as far as some bounds, or beyond."""
    whole = nest_bounds(problem, replace(nest, bounds=None))
    return all(size <= own for size, own in zip(bounds, whole, strict=True))


def cut_short(nest: Mapping, problem: Problem) -> Mapping:
    """Return a nest whose outermost loops end where the bounds of a visit do."""
    strides = dict.fromkeys(problem.dims, 1)

    def shorter(loop: AnyLoop) -> AnyLoop:
        left = tiles_of(problem.bound[loop.dim], strides[loop.dim])
        strides[loop.dim] *= loop.bound
        return replace(loop, bound=min(loop.bound, left))

    nodes: list[NodeMapping] = []
    for entry in reversed(nest.nodes):
        if isinstance(entry, FanoutMapping):
            nodes.append(FanoutMapping(tuple(map(shorter, entry.spatial))))
        else:
            nodes.append(replace(entry, temporal=tuple(map(shorter, entry.temporal))))
    return Mapping(tuple(reversed(nodes)))


def _loops_of_entry(entry: NodeMapping) -> Iterator[Loop | SpatialLoop]:
    yield from entry.spatial if isinstance(entry, FanoutMapping) else entry.temporal


def _visit_cost(
    visits: Visits,
    place: int,
    private: PrivateNest,
    bounds: tuple[int, ...],
    counts: dict[str, int],
    first: frozenset[str],
) -> VisitKind:
    einsum = visits.cascade.einsums[place]
    problem = replace(einsum.problem, bounds=bounds)
    above = _above(visits, place)
    own = replace(private, mapping=cut_short(private.mapping, problem))
    architecture, mapping = _with_above(einsum.mapspace.architecture, own, above)
    try:
        nest = build_nest(problem, architecture, mapping)
        check_keeps(problem, mapping)
        check_places(architecture, mapping)
        if architecture.has_own_order:
            _check_own_order(problem, architecture, mapping, nest)
    except ValueError as error:
        raise FusedMappingError(f"the nest of `{einsum.name}`: {error}", private) from None
    _check_shares(architecture, nest, above, private)
    count = math.prod(counts.values())
    whole = own.mapping == private.mapping
    return VisitKind(count, counts, first, problem, architecture, mapping, nest, private, whole)


def _check_shares(
    architecture: Architecture, nest: Nest, above: dict[str, frozenset[str]], private: PrivateNest
) -> None:
    """Refuse memories whose instances get unequal parts of what is stored or held above the nest."""
    for position, node in enumerate(architecture.nodes):
        if isinstance(node, Fanout) or node.component not in above:
            continue
        cut = {loop.dim for loops in nest.spatial[:position] for loop in loops} & nest.remainder_dims
        if cut:
            text = f"a spatial loop over {min(cut)} has a remainder outside of tiles that stay in"
            raise FusedMappingError(f"{text} `{node.component}`, which is not modelled", private)


def _above(visits: Visits, place: int) -> dict[str, frozenset[str]]:
    """Per memory, the dataspaces that have their tile there above the nests of an Einsum."""
    einsum, leaf = visits.cascade.einsums[place], visits.mapping.paths[place].leaf
    outermost = einsum.mapspace.architecture.on_chip[0].name if leaf.held else ""
    homes = {tile.dataspace: outermost for tile in leaf.held}
    for access in einsum.accesses:
        stored = visits.mapping.stored_at.get(access.tensor)
        homes |= {access.dataspace: stored.memory} if stored is not None else {}
    return {
        memory: frozenset(name for name, home in homes.items() if home == memory) for memory in homes.values()
    }


def _check_own_order(problem: Problem, architecture: Architecture, mapping: Mapping, nest: Nest) -> None:
    """Refuse what is not counted of a nest whose memories lie in an order of its own."""
    if nest.remainder_dims:
        raise ValueError("remainders are not counted in an order of nests")
    check_order(problem, architecture, mapping)
    for space in problem.dataspaces:
        seen_by(architecture, mapping, space.name)


def _with_above(
    hardware: Architecture, private: PrivateNest, above: dict[str, frozenset[str]]
) -> tuple[Architecture, Mapping]:
    """Return a nest with further places, as far outside as memories around allow, for what is above it.

    Those of the outermost memory on chip take the loops of the outermost memory.
    """
    names = [level.name for level in hardware.levels]
    placed = private.placed(hardware)
    every = zip(placed.nodes, private.mapping.nodes, strict=True)
    entries = [(node.component, entry) for node, entry in every if isinstance(node, StorageLevel)]
    top = next((level.name for level in hardware.on_chip), "")
    for memory in sorted(above, key=names.index):
        outer = names[: names.index(memory)]
        place = 1 + max(n for n, (name, _) in enumerate(entries) if name in outer)
        loops: tuple[Loop, ...] = ()
        if memory == top:
            (outermost, first), *_ = entries
            assert isinstance(first, StorageMapping)
            loops, entries[0] = first.temporal, (outermost, replace(first, temporal=()))
        entries.insert(place, (memory, StorageMapping(loops, above[memory])))
    if private.order is not None:
        architecture = with_order(hardware, [memory for memory, _ in entries[1:]])
    else:
        counts = Counter(memory for memory, _ in entries)
        architecture = with_places(hardware, counts)
    fanouts = iter([entry for entry in private.mapping.nodes if isinstance(entry, FanoutMapping)])
    stores = iter(entries)
    nodes = [next(fanouts) if isinstance(node, Fanout) else next(stores)[1] for node in architecture.nodes]
    return architecture, Mapping(tuple(nodes))
