"""The certificate of a result: what is claimed, and all that is needed to doubt it."""

from __future__ import annotations

import json
import platform
from collections.abc import Sequence
from dataclasses import asdict
from importlib.metadata import version

from model.cost import Evaluation
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
from solver.certificate.classes import count_spatial_choices
from solver.result import Evidence, Result, Status

FORMAT = "tilewright certificate 4"


def certificate(mapspace: Mapspace, result: Result, command: Sequence[str], seed: int = 0) -> Json:
    """Return the certificate of a search's result; docs/certificates.md lists its keys.

    An OPTIMAL result claims its values. A FEASIBLE one claims its bound on the first objective and no
    more. An INFEASIBLE one claims that no mapping exists.

    Parameters
    ----------
    mapspace
        What was searched.
    result
        What was found.
    command
        The words of the command that reproduces it.
    seed
        Seed of the search.

    Raises
    ------
    CertificateError
        If the result claims nothing: no mapping was found, and none was excluded.
    """
    if result.status is Status.UNKNOWN or (result.status is Status.FEASIBLE and result.bound is None):
        raise CertificateError(f"a result that is {result.status.value} without a bound claims nothing")
    problem = canonical(mapspace)
    document: Json = {
        "format": FORMAT,
        "problem": problem,
        "problem_sha256": canonical_sha256(problem),
        "status": result.status.value,
        "objectives": list(result.objectives),
        "bounds": _bounds(result),
        "mapping": None if result.mapping is None else canonical_mapping(mapspace, result.mapping),
        "cost": None if result.evaluation is None else _cost(result.evaluation),
        "spatial_choices": count_spatial_choices(mapspace),
        "evidence": [_evidence(mapspace, evidence) for evidence in result.evidence],
        "versions": {
            "tilewright": version("tilewright"),
            "ortools": version("ortools"),
            "numpy": version("numpy"),
            "python": platform.python_version(),
        },
        "seed": seed,
        "command": list(command),
    }
    return {**document, "digest": canonical_sha256(document)}


def certificate_text(document: Json) -> str:
    """Return the certificate as JSON text, one top-level key a line."""
    lines = (f"{json.dumps(key)}: {json.dumps(value, allow_nan=False)}" for key, value in document.items())
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _bounds(result: Result) -> list[int]:
    """Bounds that are claimed: each counts among the mappings that reach the ones before."""
    if result.bound is None:
        return []
    return [result.bound, *result.later_bounds] if result.status is Status.OPTIMAL else [result.bound]


def _cost(evaluation: Evaluation) -> Json:
    return {name: evaluation.value(name) for name in OBJECTIVES}


def _evidence(mapspace: Mapspace, evidence: Evidence) -> Json:
    """What the bound on an objective rests on, with levels as nodes of the canonical problem."""
    places = node_places(mapspace)
    storage = [places[index] for index in mapspace.architecture.storage_indices]
    masks = [
        {**asdict(mask), "keep": [[storage[level] for level in levels] for levels in mask.keep]}
        for mask in evidence.masks
    ]
    return {"objective": evidence.objective, "masks": masks}
