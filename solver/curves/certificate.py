"""The certificate of curves: the problem of each, and a mapping for each of its points.

Points of fused cascades rest on certificates of fused mappings, which it contains.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from solver.certificate.canonical import (
    CertificateError,
    Json,
    canonical,
    canonical_mapping,
    canonical_sha256,
)
from solver.certificate.document import sealed
from solver.curves.einsum import Curve
from solver.curves.fused import FusedPoint, word_bits
from solver.curves.network import LayerCurve
from solver.fusion import FusedResult
from solver.fusion.certificate import fused_certificate
from solver.result import Status

FORMAT = "tilewright certificate curves 1"
WITH_FUSED = "tilewright certificate curves 2"
"""With points of fused cascades."""


def curves_certificate(
    layers: Sequence[LayerCurve], command: Sequence[str], fused: Sequence[tuple[str, FusedPoint]] = ()
) -> Json:
    """Return the certificate of the curves of layers, each of those that are the same once.

    Parameters
    ----------
    layers
        Those whose curves are known.
    command
        The words of the command that reproduces them.
    fused
        Points with the names of their cascades, see `certified_points`.

    Raises
    ------
    CertificateError
        There is no curve, and no point.
    """
    if not layers and not fused:
        raise CertificateError("there is no curve")
    alike: dict[int, list[LayerCurve]] = {}
    for layer in layers:
        alike.setdefault(id(layer.curve), []).append(layer)
    curves = [{"layers": [layer.name for layer in own], **_claim(own[0].curve)} for own in alike.values()]
    if not fused:
        return sealed({"format": FORMAT, "curves": curves}, command, 0)
    claims = _fused_claims(fused, command)
    return sealed({"format": WITH_FUSED, "curves": curves, **claims}, command, 0)


def certified_points(
    points: Sequence[FusedPoint],
) -> tuple[list[FusedPoint], list[tuple[FusedPoint, str]]]:
    """Return the points of a fused curve that have a certificate, and the others, each with the reason."""
    certified, others = list[FusedPoint](), list[tuple[FusedPoint, str]]()
    for point in points:
        reason = _lack(point)
        if reason:
            others.append((point, reason))
        else:
            certified.append(point)
    return certified, others


def _lack(point: FusedPoint) -> str:
    """Why a point has no certificate; nothing if it has one."""
    if point.status is not Status.OPTIMAL or point.found_by is None or point.bounded_by is None:
        return "not proven"
    try:
        for result in (point.found_by, point.bounded_by):
            _proof(result, ())
    except CertificateError as error:
        return str(error)
    return ""


def _fused_claims(points: Sequence[tuple[str, FusedPoint]], command: Sequence[str]) -> Json:
    """Points of fused cascades: words of the buffer, traffic, and the proofs of bound and mapping."""
    proofs: dict[int, Json] = {}
    claims: list[Json] = []
    for name, point in points:
        known = list[int]()
        for result in (point.bounded_by, point.found_by):
            assert result is not None  # the point is proven
            proofs.setdefault(id(result), _proof(result, command))
            known.append(list(proofs).index(id(result)))
        assert point.found_by is not None
        words = point.capacity_bits // word_bits(point.found_by.cascade)
        claims.append(
            {"name": name, "point": [words, point.value_bits], "bound": known[0], "mapping": known[1]}
        )
    return {"fused": claims, "proofs": list(proofs.values())}


def _proof(result: FusedResult, command: Sequence[str]) -> Json:
    """The certificate of a search; what is below its bound by less than a word is not searched."""
    if result.status is Status.OPTIMAL and result.value is not None:
        least = max(0, result.value - word_bits(result.cascade) + 1)
        status = Status.OPTIMAL if least == result.value else Status.FEASIBLE
        result = replace(result, status=status, bound=least)
    return fused_certificate(result, command)


def _claim(curve: Curve) -> Json:
    problem = canonical(curve.design.mapspace)
    return {
        "problem": problem,
        "problem_sha256": canonical_sha256(problem),
        "points": list(_points(curve)),
    }


def _points(curve: Curve) -> Iterator[list[object]]:
    """Yield the capacity and the traffic of each point in words, and its mapping."""
    for point in curve.points:
        yield [point.capacity, point.traffic, canonical_mapping(curve.design.mapspace, point.mapping)]
