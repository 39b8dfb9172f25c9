"""The certificate of a fused result: the cascade, the mapping as a tree, and what its bound rests on."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial

from model.architecture import Fanout, StorageLevel
from model.counting.words import tile_words
from model.fused.cascade import Cascade, CascadeEinsum
from model.fused.mapping import Body, FusedMapping, Leaf
from model.fused.nests import VisitKind, cut_short, visit_kinds
from model.fused.visits import Visits
from model.mapping import FanoutMapping, Loop, Mapping, NodeMapping, SpatialLoop, StorageMapping
from model.mapspace import Mapspace
from model.objective import OBJECTIVES
from solver.certificate.canonical import (
    CertificateError,
    Json,
    canonical,
    canonical_mapping,
    canonical_sha256,
    node_places,
)
from solver.certificate.document import check_certifiable, order_claim, sealed
from solver.fusion import FusedResult
from solver.fusion.edges import with_places_of
from solver.fusion.evidence import EdgeClaim, LeastClaim
from solver.fusion.space import FusionSpace, Parts
from solver.result import Status

FORMAT = "tilewright certificate fused 6"


def fused_certificate(result: FusedResult, command: Sequence[str], seed: int = 0) -> Json:
    """Return the certificate of a search for a fused mapping; docs/certificates.md lists its keys.

    Parameters
    ----------
    result
        The result of the search.
    command
        The words of the command that reproduces it.
    seed
        Seed of the search.

    Raises
    ------
    CertificateError
        The result claims nothing: nothing was found or proven. Or the checker does not know the problem.
    """
    if result.status is Status.UNKNOWN or (result.status is Status.FEASIBLE and result.bound is None):
        raise CertificateError(f"a result that is {result.status.value} without a bound claims nothing")
    problem, evaluation = _problem(result), result.evaluation
    document: Json = {
        "format": FORMAT,
        "problem": problem,
        "problem_sha256": canonical_sha256(problem),
        "status": result.status.value,
        "objective": result.objective,
        "bound": None if result.status is Status.INFEASIBLE else result.bound,
        "mapping": None if result.mapping is None else _mapping(result.cascade, result.mapping),
        "cost": None if evaluation is None else {name: evaluation.value(name) for name in OBJECTIVES},
        "least": [_least(result.cascade, claim) for claim in result.evidence.least],
        "edges": [_edge(result.cascade, claim) for claim in result.evidence.edges],
    }
    return sealed(document, command, seed)


def _problem(result: FusedResult) -> Json:
    cascade, limits = result.cascade, result.limits
    space = FusionSpace(cascade, limits)
    tensors, scales = list(cascade.users), dict(cascade.room_scale)
    return {
        "einsums": [_einsum(einsum, tensors) for einsum in _with_sizes(cascade)],
        "tensors": [
            {
                "name": name,
                "may_stay": list(space.homes.get(name, ())),
                "room_scale": _fraction(scales.get(name, Fraction(1))),
            }
            for name in tensors
        ],
        "rooms": [
            None if number in space.stores.unlike else level.usable_words
            for number, level in space.stores.levels.items()
        ],
        "most_loops": limits.max_loops,
        "most_loops_per_rank": limits.max_loops_per_rank,
        "shared_factors": result.shared_factors,
    }


def _with_sizes(cascade: Cascade) -> list[CascadeEinsum]:
    """Give memories on chip without a limit one size, which all that an Einsum accesses has room in."""
    levels = cascade.einsums[0].mapspace.architecture.on_chip
    unlimited = {level.name for level in levels if level.size_words is None}
    every = [own for einsum in cascade.einsums for own in _whole_words(einsum, unlimited)]
    size = max(every, default=0)

    def sized(node: StorageLevel | Fanout) -> StorageLevel | Fanout:
        if isinstance(node, Fanout) or node.name not in unlimited:
            return node
        return replace(node, size_words=size, multiple_buffering=Fraction(1))

    def with_sizes(einsum: CascadeEinsum) -> CascadeEinsum:
        architecture = einsum.mapspace.architecture
        architecture = replace(architecture, nodes=tuple(map(sized, architecture.nodes)))
        return replace(einsum, mapspace=replace(einsum.mapspace, architecture=architecture))

    return [*map(with_sizes, cascade.einsums)]


def _whole_words(einsum: CascadeEinsum, memories: Collection[str]) -> Iterator[int]:
    """Yield what all that an Einsum accesses takes of some memories."""
    problem = einsum.problem
    for level in (own for own in einsum.mapspace.architecture.levels if own.name in memories):
        sizes = ((space, level.packing_of(space.name).size_per_value) for space in problem.dataspaces)
        yield sum(tile_words(space, problem.bound) * own for space, own in sizes)


def _einsum(einsum: CascadeEinsum, tensors: Sequence[str]) -> Json:
    accesses = [
        {
            "tensor": tensors.index(access.tensor),
            "ranks": list(access.ranks),
            "offsets": list(access.offsets),
        }
        for access in einsum.accesses
    ]
    return {
        "name": einsum.name,
        "mapspace": canonical(_searched(einsum), states_order=True),
        "accesses": accesses,
        "is_copy": einsum.is_copy,
        "n_instances": einsum.n_instances,
        "cycle_length": einsum.cycle_length,
    }


def _searched(einsum: CascadeEinsum) -> Mapspace:
    """Return the mapspace of an Einsum's nests."""
    mapspace = with_places_of(einsum, einsum.mapspace)
    check_certifiable(mapspace)
    return mapspace


def _fraction(value: Fraction) -> list[int]:
    return [value.numerator, value.denominator]


def _mapping(cascade: Cascade, mapping: FusedMapping) -> Json:
    tensors = list(cascade.users)
    memories = [level.name for level in cascade.einsums[0].mapspace.architecture.on_chip]
    return {
        "tree": [_child(cascade, mapping, child) for child in mapping.children],
        "stored": [
            [tensors.index(stored.tensor), stored.depth, memories.index(stored.memory) + 1]
            for stored in mapping.stored
        ],
    }


def _child(cascade: Cascade, mapping: FusedMapping, child: Body | Leaf) -> Json:
    if isinstance(child, Leaf):
        return _leaf(cascade, mapping, child)
    loops = [
        {
            "trips": loop.trips,
            "over": [[cascade.place(name), _dim(cascade, name, dim)] for name, dim in loop.dims],
        }
        for loop in child.loops
    ]
    return {"loops": loops, "children": [_child(cascade, mapping, below) for below in child.children]}


def _dim(cascade: Cascade, einsum: str, dim: str) -> int:
    return cascade.einsums[cascade.place(einsum)].problem.dims.index(dim)


def _leaf(cascade: Cascade, mapping: FusedMapping, leaf: Leaf) -> Json:
    place = cascade.place(leaf.einsum)
    einsum = cascade.einsums[place]
    names = [space.name for space in einsum.problem.dataspaces]
    home, stored_at = einsum.mapspace.architecture.on_chip[0].name, mapping.stored_at
    stored = {a.dataspace: stored_at[a.tensor].memory for a in einsum.accesses if a.tensor in stored_at}
    above = stored | {tile.dataspace: home for tile in leaf.held}
    kinds = () if einsum.is_copy else visit_kinds(Visits(cascade, mapping), place)
    nest = partial(_nest_in_order if einsum.mapspace.free_order else _nest, einsum)
    nests = [{"bounds": list(kind.problem.bounds), **nest(kind, above)} for kind in kinds]
    held = [[names.index(tile.dataspace), tile.depth, tile.fetch_depth] for tile in leaf.held]
    return {"einsum": place, "held": held, "nests": nests}


def _nest(einsum: CascadeEinsum, kind: VisitKind, above: dict[str, str]) -> Json:
    """Return the nest of visits with all places of memories.

    Tiles that are stored or held above it count as kept at the first place of their memory, and not outside.
    """
    mapspace, nest = _searched(einsum), cut_short(kind.private.mapping, kind.problem)
    entries, nodes, places = iter(nest.nodes), list[NodeMapping](), dict(kind.private.places)
    for node in einsum.mapspace.architecture.nodes:
        if isinstance(node, Fanout):
            nodes.append(next(entries))
            continue
        own = places.get(node.name, 1)
        every = sum(level.component == node.name for level in mapspace.architecture.levels)
        nodes += [next(entries) for _ in range(own)]
        nodes += [StorageMapping() for _ in range(every - own)]
    components = [_component(node) for node in mapspace.architecture.nodes]
    for position in {0, *map(components.index, above.values())}:
        entry = nodes[position]
        assert isinstance(entry, StorageMapping)
        here = {name for name, memory in above.items() if memory == components[position]}
        keep = entry.keep | here if position else entry.keep - above.keys()
        nodes[position] = replace(entry, keep=frozenset(keep))
    return canonical_mapping(mapspace, Mapping(tuple(nodes)))


def _nest_in_order(einsum: CascadeEinsum, kind: VisitKind, above: dict[str, str]) -> Json:
    """Return the nest of visits whose memories lie in any order: see `solver.certificate.document`.

    What is above it in the outermost memory on chip has no tile in the nest.
    """
    mapspace, entries = einsum.mapspace, zip(kind.architecture.nodes, kind.mapping.nodes, strict=True)
    home = mapspace.architecture.on_chip[0].name
    tiles: list[tuple[str, str]] = []
    slots: list[list[Loop]] = [[]]
    spatial: list[Sequence[SpatialLoop]] = []
    for node, entry in entries:
        if isinstance(entry, FanoutMapping):
            spatial.append(entry.spatial)
            continue
        assert isinstance(node, StorageLevel)
        if slots[1:] or node is not kind.architecture.nodes[0]:
            own = [(node.component, name) for name in sorted(entry.keep)]
            own = [tile for tile in own if tile[0] != home or above.get(tile[1]) != home]
            tiles, slots = [*tiles, *own], [*slots, *([] for _ in own)]
        slots[-1] += entry.temporal
    return order_claim(mapspace, tiles, map(_joined, slots), spatial)


def _joined(loops: Iterable[Loop]) -> list[Loop]:
    """Return one loop over each dimension: below a tile their order does not matter."""
    bounds: dict[str, int] = {}
    for loop in loops:
        bounds[loop.dim] = bounds.get(loop.dim, 1) * loop.bound
    return [Loop(dim, bound) for dim, bound in bounds.items()]


def _component(node: StorageLevel | Fanout) -> str:
    return "" if isinstance(node, Fanout) else node.component


def _numbers(einsum: CascadeEinsum, dataspaces: frozenset[str]) -> list[int]:
    return [n for n, space in enumerate(einsum.problem.dataspaces) if space.name in dataspaces]


def _visits(
    einsum: CascadeEinsum, trips: Iterable[tuple[str, int]], parts: Iterable[tuple[str, Parts]]
) -> Json:
    """Return the bounds of equal visits, and how many there are, per dimension."""
    counts = dict(trips)
    sizes = {dim: size for dim, ((size, _),) in parts}
    bounds = einsum.problem.bound
    return {
        "bounds": [sizes.get(dim, bounds[dim] // counts.get(dim, 1)) for dim in bounds],
        "trips": [counts.get(dim, 1) for dim in bounds],
    }


def _least(cascade: Cascade, claim: LeastClaim) -> Json:
    einsum = cascade.einsums[claim.place]
    return {
        "einsum": claim.place,
        **_visits(einsum, claim.trips, claim.parts),
        "exchanging": _numbers(einsum, claim.exchanging),
        "deeper": _deeper(einsum, claim.deeper),
        "free": claim.free,
        "paid": claim.paid,
        "cycles": claim.cycles,
    }


def _edge(cascade: Cascade, claim: EdgeClaim) -> Json:
    einsum, kind = cascade.einsums[claim.kind.place], claim.kind
    names = [space.name for space in einsum.problem.dataspaces]
    return {
        "einsum": kind.place,
        **_visits(einsum, kind.trips, kind.parts),
        "above": _numbers(einsum, kind.above),
        "deeper": _deeper(einsum, kind.deeper),
        "held": [[names.index(s.dataspace), s.moved, s.first] for s in kind.shifts],
        "later": [einsum.problem.dims.index(dim) for dim in sorted(kind.later)],
        "homes": None if kind.homes is None else _homes(einsum, kind.homes),
        "loose": claim.is_loose,
        "room": claim.room_words,
        "rooms": [list(own) for own in sorted(kind.rooms)],
        "undivided": sorted(map(einsum.problem.dims.index, kind.undivided)),
        "fills": [list(own) for own in sorted(kind.least)],
        "shares": [[fanout, _shares(einsum, loops)] for fanout, loops in sorted(kind.shares)],
        "corners": [list(corner) for corner in claim.corners],
        "ruled": claim.is_ruled,
    }


def _deeper(einsum: CascadeEinsum, deeper: Iterable[tuple[str, int]]) -> list[list[int]]:
    """Return what is stored in memories farther in, and the numbers of these among the on-chip ones."""
    names = [space.name for space in einsum.problem.dataspaces]
    return sorted([names.index(name), level] for name, level in deeper)


def _shares(einsum: CascadeEinsum, loops: Iterable[tuple[str, int]]) -> list[list[int]]:
    """Return spatial loops that spread what is stored: dimensions and children."""
    return sorted([einsum.problem.dims.index(dim), count] for dim, count in loops if count > 1)


def _homes(einsum: CascadeEinsum, levels: Iterable[int]) -> list[int]:
    """Return the first nodes of the memories of some levels."""
    mapspace = _searched(einsum)
    nodes, own = mapspace.architecture.nodes, einsum.mapspace.architecture.levels
    firsts = {name: place for place, node in reversed([*enumerate(nodes)]) if (name := _component(node))}
    places = node_places(mapspace)
    return sorted(places[firsts[own[level].name]] for level in levels)
