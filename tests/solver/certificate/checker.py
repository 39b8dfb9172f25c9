"""The checker as a module, and certificates for tests."""

import json
from typing import Any

from solver import Options, Result
from solver.certificate.canonical import canonical_sha256
from solver.certificate.checker import bounds, dataspaces, prove, tables
from solver.certificate.document import certificate
from solver.stages import map_einsum
from tests.conftest import REPOSITORY

SCRIPTS = REPOSITORY / "scripts"

__all__ = [
    "SCRIPTS",
    "bounds",
    "certified",
    "dataspaces",
    "digested",
    "prove",
    "solved",
    "tables",
    "verdict",
]


def solved(mapspace, *objectives: str) -> Result:
    """Map with the given objectives; certificates do not say why nothing fits."""
    return map_einsum(mapspace, Options(objectives=objectives), reasons=False)


def certified(mapspace, *objectives: str) -> dict[str, Any]:
    """Return the certificate of the optimum, as it is read back from a file."""
    return json.loads(json.dumps(certificate(mapspace, solved(mapspace, *objectives), ["python"])))


def digested(document: dict[str, Any]) -> dict[str, Any]:
    """Return a certificate with its digest computed anew."""
    content = {key: value for key, value in document.items() if key != "digest"}
    return {**content, "digest": canonical_sha256(content)}


def verdict(document: Any, folder) -> tuple[str, str]:
    """Return what the checker says of a certificate in a file."""
    path = folder / "certificate.json"
    path.write_text(json.dumps(document))
    return prove.verdict(path)
