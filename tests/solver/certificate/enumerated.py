"""Certificates of optima that are found by pricing every mapping: no search has a part in them."""

from __future__ import annotations

import json
from typing import Any

from model.cost import evaluate_in
from model.mapspace import Mapspace
from solver import Result, Status, Termination
from solver.certificate.document import certificate
from tests.bruteforce import Optimum, optima


def claimed(mapspace: Mapspace, objectives: tuple[str, ...], optimum: Optimum) -> dict[str, Any]:
    """Return a certificate that claims `optimum`: a value per objective, a mapping; None if there is none."""
    values, mapping = ((), None) if optimum is None else optimum
    assert isinstance(values, tuple)
    result = Result(
        status=Status.INFEASIBLE if mapping is None else Status.OPTIMAL,
        termination=Termination.PROVEN,
        objectives=objectives,
        units_per_pj=mapspace.architecture.units_per_pj,
        value=values[0] if values else None,
        bound=values[0] if values else None,
        later_bounds=values[1:],
        mapping=mapping,
        evaluation=None if mapping is None else evaluate_in(mapspace, mapping),
    )
    return json.loads(json.dumps(certificate(mapspace, result, ["enumerated"])))


def enumerated(mapspace: Mapspace, *objectives: str) -> dict[str, Any]:
    """Return the certificate of the optimum among all mappings."""
    return claimed(mapspace, objectives, optima(mapspace, [objectives])[0])
