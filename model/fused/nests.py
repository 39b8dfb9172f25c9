"""The visits of an Einsum as loop nests, each with the tiles that lie above it in a place of their own."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import TypeVar

from model.architecture import Architecture, Fanout, with_places
from model.cost.nest import Nest, build_nest, check_keeps, check_places
from model.extents import tiles_of
from model.fused.check import FusedMappingError
from model.fused.mapping import Leaf, PrivateNest
from model.fused.visits import Visits, path_dims
from model.mapping import FanoutMapping, Loop, Mapping, NodeMapping, SpatialLoop, StorageMapping
from model.problem import Problem

AnyLoop = TypeVar("AnyLoop", Loop, SpatialLoop)


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
    architecture = with_places(
        einsum.mapspace.architecture,
        {
            level.name: dict(private.places).get(level.name, 1) + (level.name in above)
            for level in einsum.mapspace.architecture.levels
        },
    )
    own = replace(private, mapping=cut_short(private.mapping, problem))
    mapping = Mapping(tuple(_entries_with_places(architecture, own, above)))
    try:
        nest = build_nest(problem, architecture, mapping)
        check_keeps(problem, mapping)
        check_places(architecture, mapping)
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


def _entries_with_places(
    architecture: Architecture, private: PrivateNest, above: dict[str, frozenset[str]]
) -> Iterator[NodeMapping]:
    """Yield the entries of a nest and of the further places, the first of which takes the outermost loops."""
    entries = iter(private.mapping.nodes)
    outermost = next(entries)
    assert isinstance(outermost, StorageMapping)
    waiting, seen = outermost.temporal, set[str]()
    top = architecture.on_chip[0].component if architecture.on_chip else ""
    if top not in above:
        yield outermost
        waiting = ()
    else:
        yield replace(outermost, temporal=())
    for position in range(1, len(architecture.nodes)):
        level = architecture.nodes[position]
        name = getattr(level, "component", "")
        if name in above and name not in seen:
            seen.add(name)
            yield StorageMapping(waiting if name == top else (), above[name])
            continue
        yield next(entries)
