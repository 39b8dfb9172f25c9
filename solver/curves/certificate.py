"""The certificate of curves: the problem of each, and a mapping for each of its points."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from solver.certificate.canonical import (
    CertificateError,
    Json,
    canonical,
    canonical_mapping,
    canonical_sha256,
)
from solver.certificate.document import sealed
from solver.curves.einsum import Curve
from solver.curves.network import LayerCurve

FORMAT = "tilewright certificate curves 1"


def curves_certificate(layers: Sequence[LayerCurve], command: Sequence[str]) -> Json:
    """Return the certificate of the curves of layers, each of those that are the same once.

    Parameters
    ----------
    layers
        Those whose curves are known.
    command
        The words of the command that reproduces them.

    Raises
    ------
    CertificateError
        There is no curve.
    """
    if not layers:
        raise CertificateError("there is no curve")
    alike: dict[int, list[LayerCurve]] = {}
    for layer in layers:
        alike.setdefault(id(layer.curve), []).append(layer)
    curves = [{"layers": [layer.name for layer in own], **_claim(own[0].curve)} for own in alike.values()]
    return sealed({"format": FORMAT, "curves": curves}, command, 0)


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
