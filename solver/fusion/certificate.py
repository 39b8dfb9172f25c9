"""The certificate of a fused result: the cascade, the mapping as a tree, and what its bound rests on."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from importlib.metadata import version

from model.extents import PERFECT
from model.fused.cascade import Cascade, CascadeEinsum
from model.fused.check import accesses_of
from model.fused.mapping import Body, FusedMapping, Leaf
from model.mapping import Mapping, StorageMapping
from model.mapspace import Mapspace
from model.objective import OBJECTIVES
from model.problem import Term
from solver.certificate.canonical import (
    CertificateError,
    Json,
    canonical,
    canonical_mapping,
    canonical_sha256,
)
from solver.certificate.document import check_certifiable
from solver.fusion import FusedResult
from solver.fusion.evidence import EdgeClaim, LeastClaim
from solver.result import Status

FORMAT = "tilewright certificate fused 1"


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
        The result claims nothing: nothing was found or proven. Or loops that slide windows may be shared,
        which the checker does not know.
    """
    check_fused_certifiable(result.cascade)
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
        "versions": {name: version(name) for name in ("tilewright", "ortools", "numpy")}
        | {"python": platform.python_version()},
        "seed": seed,
        "command": list(command),
    }
    return {**document, "digest": canonical_sha256(document)}


def check_fused_certifiable(cascade: Cascade) -> None:
    """Raise a `CertificateError` for a cascade of which the checker does not know all fused mappings."""
    for tensor in cascade.intermediates:
        parts = [
            (rank, _part(einsum, terms, offset))
            for einsum, access in accesses_of(cascade, tensor)
            for rank, terms, offset in zip(
                access.ranks, einsum.space(access.dataspace).ranks, access.offsets, strict=True
            )
        ]
        unlike = [rank for rank, part in parts if part != dict(parts)[rank]]
        if unlike:
            text = f"Einsums access unlike parts of the rank {unlike[0]} of {tensor}"
            raise CertificateError(f"{text}: the checker does not know shared loops over such ranks")


def _part(einsum: CascadeEinsum, terms: Sequence[Term], offset: int) -> object:
    """Return what an access takes of a rank, the same for all loops that cut it alike."""
    if len(terms) == 1 and terms[0].coefficient == 1:
        return offset, einsum.problem.bound[terms[0].dim]
    return einsum.name, terms, offset


def _problem(result: FusedResult) -> Json:
    cascade, limits = result.cascade, result.limits
    tensors, scales = list(cascade.users), dict(cascade.room_scale)
    memory = cascade.einsums[0].mapspace.architecture.levels[1]
    may_store = limits.memories is None or memory.name in limits.memories
    return {
        "einsums": [_einsum(einsum, tensors) for einsum in cascade.einsums],
        "tensors": [
            {
                "name": name,
                "may_stay": may_store and name not in cascade.persistent | limits.no_fuse,
                "room_scale": _fraction(scales.get(name, Fraction(1))),
            }
            for name in tensors
        ],
        "room": memory.usable_words,
        "most_loops": limits.max_loops,
        "most_loops_per_rank": limits.max_loops_per_rank,
    }


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
        "mapspace": canonical(_perfect(einsum)),
        "accesses": accesses,
        "is_copy": einsum.is_copy,
        "n_instances": einsum.n_instances,
    }


def _perfect(einsum: CascadeEinsum) -> Mapspace:
    mapspace = replace(einsum.mapspace, factors=PERFECT)
    check_certifiable(mapspace)
    return mapspace


def _fraction(value: Fraction) -> list[int]:
    return [value.numerator, value.denominator]


def _mapping(cascade: Cascade, mapping: FusedMapping) -> Json:
    tensors = list(cascade.users)
    return {
        "tree": [_child(cascade, mapping, child) for child in mapping.children],
        "stored": [[tensors.index(stored.tensor), stored.depth] for stored in mapping.stored],
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
    stored = {a.dataspace for a in einsum.accesses if a.tensor in mapping.stored_at}
    above = stored | {tile.dataspace for tile in leaf.held}
    nests = [
        canonical_mapping(_perfect(einsum), _with_above(einsum, nest.mapping, above)) for nest in leaf.nests
    ]
    held = [[names.index(tile.dataspace), tile.depth] for tile in leaf.held]
    return {"einsum": place, "held": held, "nest": nests[0] if nests else None}


def _with_above(einsum: CascadeEinsum, nest: Mapping, above: set[str]) -> Mapping:
    """Return a nest in which tiles that are stored or held above it count as kept there, and not outside."""
    outer, inner = einsum.mapspace.architecture.storage_indices[:2]
    nodes = list(nest.nodes)
    for position, entry in ((outer, nodes[outer]), (inner, nodes[inner])):
        assert isinstance(entry, StorageMapping)
        keep = entry.keep | above if position == inner else entry.keep - above
        nodes[position] = replace(entry, keep=frozenset(keep))
    return Mapping(tuple(nodes))


def _numbers(einsum: CascadeEinsum, dataspaces: frozenset[str]) -> list[int]:
    return [n for n, space in enumerate(einsum.problem.dataspaces) if space.name in dataspaces]


def _least(cascade: Cascade, claim: LeastClaim) -> Json:
    einsum, trips = cascade.einsums[claim.place], dict(claim.trips)
    return {
        "einsum": claim.place,
        "trips": [trips.get(dim, 1) for dim in einsum.problem.dims],
        "exchanging": _numbers(einsum, claim.exchanging),
        "free": claim.free,
        "paid": claim.paid,
        "cycles": claim.cycles,
    }


def _edge(cascade: Cascade, claim: EdgeClaim) -> Json:
    einsum, trips = cascade.einsums[claim.kind.place], dict(claim.kind.trips)
    names = [space.name for space in einsum.problem.dataspaces]
    return {
        "einsum": claim.kind.place,
        "trips": [trips.get(dim, 1) for dim in einsum.problem.dims],
        "above": _numbers(einsum, claim.kind.above),
        "held": [[names.index(s.dataspace), s.moved, s.first] for s in claim.kind.shifts],
        "room": claim.room_words,
        "corners": [list(corner) for corner in claim.corners],
        "ruled": claim.is_ruled,
    }
