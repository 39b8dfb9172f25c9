"""The certificate of an assignment: the costs, the assignment, and what its bound rests on."""

from __future__ import annotations

from collections.abc import Sequence

from model.assignment import CostedNetwork
from solver.assignment.result import AssignResult
from solver.certificate.canonical import CertificateError, Json, canonical_sha256
from solver.certificate.document import sealed
from solver.result import Status

FORMAT = "tilewright certificate assignment 1"


def assignment_certificate(result: AssignResult, command: Sequence[str], seed: int = 0) -> Json:
    """Return the certificate of an assignment.

    Its bound is the one that can be checked, and its status follows from that: where only a library proves
    that an assignment is best, the certificate claims less.

    Parameters
    ----------
    result
        What `assign` returned.
    command
        The words of the command that reproduces it.
    seed
        Of the search.

    Raises
    ------
    CertificateError
        Nothing that can be checked is known; the message says who claims more.
    """
    evidence = result.evidence
    if evidence is None or (result.status is Status.INFEASIBLE and _rests_on_library(result)):
        raise CertificateError(f"that there is no assignment is known by the word of {result.proof} only")
    problem = _problem(result.network)
    total = result.total
    bound = None if result.status is Status.INFEASIBLE else max(0, evidence.bound)
    if bound is not None and total is not None:
        bound = min(bound, total)
    is_closed = bound is not None and bound == total
    status = Status.OPTIMAL if is_closed else Status.UNKNOWN if total is None else Status.FEASIBLE
    return sealed(
        {
            "format": FORMAT,
            "problem": problem,
            "problem_sha256": canonical_sha256(problem),
            "status": (status if bound is not None else Status.INFEASIBLE).name,
            "choice": None if result.best is None else list(result.best.choice),
            "total": total,
            "bound": bound,
            "order": list(evidence.order),
            "moved": [[i, j, costs.tolist()] for (i, j), costs in evidence.moved.items() if costs.any()],
            "prices": sorted([moment, price] for moment, price in evidence.prices.items()),
            "scale": evidence.scale,
        },
        command,
        seed,
    )


def _rests_on_library(result: AssignResult) -> bool:
    return result.proof not in ("exact", "checked")


def _problem(network: CostedNetwork) -> Json:
    """Return the costs in steps; -1 is a forbidden choice. Edges without costs are left out."""
    return {
        "unit": network.unit,
        "steps_per_unit": network.steps_per_unit,
        "layers": [layer.costs.tolist() for layer in network.layers],
        "edges": [
            [edge.source, edge.target, edge.transition.tolist()]
            for edge in network.edges
            if edge.transition is not None
        ],
        "usages": [
            [number, [*layer.interval, layer.usages.tolist()]]
            for number, layer in enumerate(network.layers)
            if layer.usages is not None and network.usage_limit is not None
        ],
        "usage_limit": network.usage_limit,
    }
