"""The certificate of one spatial unrolling for all layers: their problems, mappings, and what bounds them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from model.mapspace import Mapspace
from solver.certificate.canonical import (
    CertificateError,
    Json,
    canonical,
    canonical_mapping,
    canonical_sha256,
    canonical_text,
    has_sparse_data,
)
from solver.certificate.document import check_certifiable, sealed
from solver.network.common import CommonProof, CommonRegion, CommonResult, Range, SpatialSlot
from solver.result import Status

FORMAT = "tilewright certificate same 1"


def common_certificate(result: CommonResult, command: Sequence[str], seed: int = 0) -> Json:
    """Return the certificate of the best common unrolling; docs/certificates.md lists its keys.

    Parameters
    ----------
    result
        Proven: the unrolling is optimal, or there is none.
    command, seed
        The words of the command that reproduces it, and the seed of the searches.

    Raises
    ------
    CertificateError
        The result is not proven, or a layer has what the checker does not know.
    """
    if result.status not in (Status.OPTIMAL, Status.INFEASIBLE):
        raise CertificateError("only a proven unrolling is certified")
    proof, is_optimal = result.proof, result.status is Status.OPTIMAL
    problem = _mapspaces_json(proof)
    document: Json = {
        "format": FORMAT,
        "problem": problem,
        "problem_sha256": canonical_sha256(problem),
        "status": result.status.value,
        "objective": result.objective,
        "bound": result.bound if is_optimal else None,
        "loops": _common_loop_rows(result) if is_optimal else None,
        "mappings": list(_mappings(result)) if is_optimal else None,
        "cost": result.value if is_optimal else None,
        "regions": _region(proof.whole, {}),
        "claims": list(_claims(proof)),
    }
    return sealed(document, command, seed)


def _mapspaces_json(proof: CommonProof) -> Json:
    """Return the mapspaces, each once, and the layers that have them."""
    numbers: dict[str, int] = {}
    mapspaces: list[Json] = []
    layers: list[Json] = []
    for layer in proof.layers.values():
        own = canonical(_certifiable(layer.mapspace))
        if numbers.setdefault(canonical_text(own), len(mapspaces)) == len(mapspaces):
            mapspaces.append(own)
        number = numbers[canonical_text(own)]
        layers.append({"name": layer.name, "mapspace": number, "n_instances": layer.n_instances})
    units = (layer.mapspace.architecture.units_per_pj for layer in proof.layers.values())
    return {"mapspaces": mapspaces, "layers": layers, "units_per_pj": math.lcm(*units)}


def _certifiable(mapspace: Mapspace) -> Mapspace:
    if has_sparse_data(mapspace):
        raise CertificateError("the checker supports common unrollings of dense data only")
    check_certifiable(mapspace)
    return mapspace


def _common_loop_rows(result: CommonResult) -> list[list[object]]:
    fanouts = [own.name for own in next(iter(result.proof.layers.values())).mapspace.architecture.fanouts]
    return [[fanouts.index(loop.fanout), loop.dim, loop.width] for loop in result.loops]


def _mappings(result: CommonResult) -> Iterator[Json]:
    assert result.common is not None
    for n, layer in result.proof.layers.items():
        found = result.common.layers[n].result
        assert found is not None
        assert found.mapping is not None
        yield canonical_mapping(layer.mapspace, found.mapping)


def _range_rows(ranges: Mapping[SpatialSlot, Range]) -> list[list[object]]:
    return [[slot.fanout, slot.dim, low, high] for slot, (low, high) in ranges.items()]


def _region(region: CommonRegion, outer: Mapping[SpatialSlot, Range]) -> Json:
    """Return the ranges that differ from those of the region around, and the parts."""
    changed = {slot: own for slot, own in region.ranges.items() if outer and outer[slot] != own}
    return {"ranges": _range_rows(changed), "parts": [_region(part, region.ranges) for part in region.parts]}


def _claims(proof: CommonProof) -> Iterator[Json]:
    numbers = {n: number for number, n in enumerate(proof.layers)}
    for claim in proof.claims:
        yield {"layer": numbers[claim.layer], "ranges": _range_rows(dict(claim.ranges)), "bound": claim.bound}
