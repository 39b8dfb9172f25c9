"""Assignments as JSON documents; docs/assignment.md lists the keys."""

from __future__ import annotations

from fractions import Fraction
from importlib.metadata import version

from model.assignment import CostedLayer
from solver.assignment.array_search import ArrayChoice
from solver.assignment.assigner import Alternative, alternatives
from solver.assignment.result import RULES, Assignment, AssignResult, Decomposition
from solver.report.document import Document
from solver.report.reasons import reason_document


def assignment_document(result: AssignResult, array: ArrayChoice | None) -> Document:
    """Return the document of an assignment; figures that do not exist are None.

    Parameters
    ----------
    array
        The array that was chosen, None if there was no choice.

    Returns
    -------
    Document
        Costs in the network's unit, as doubles; those under names that end in ``_exact`` are texts.
    """
    network, best, second = result.network, result.best, result.runner_up
    return {
        "version": version("tilewright"),
        "network": network.name,
        "status": result.status.value,
        "termination": result.termination.value,
        "method_used": result.method_used,
        "unit": network.unit,
        "total": _number(result, result.total),
        "total_exact": _exact(result, result.total),
        "bound": _number(result, result.bound),
        "gap": result.gap,
        "execution": None if best is None else _number(result, sum(best.execution)),
        "transition": None if best is None else _number(result, sum(best.transition)),
        "assignment": _methods(result, best),
        "layers": None if best is None else _layers(result, best),
        "edges": None if best is None else _edges(result, best),
        "runner_up": None if second is None else _runner_up(result, second),
        "margin": _number(result, result.margin),
        "margin_exact": _exact(result, result.margin),
        "policies": [
            {
                "name": policy.name,
                "total": _number(result, policy.total),
                "layers_followed": policy.layers_followed,
                "known": policy.known,
            }
            for policy in result.policies
        ],
        "decomposition": _decomposition(result.decomposition),
        "array": None if array is None else _array(array),
        "seconds": result.seconds,
        "notes": list(map(str, network.notes)),
        "reasons": [reason_document(reason) for reason in result.reasons],
    }


def _number(result: AssignResult, steps: int | None) -> float | None:
    cost = result.in_unit(steps)
    return None if cost is None else float(cost)


def _exact(result: AssignResult, steps: int | None) -> str | None:
    """Return a cost as a decimal if it has a finite one, else as a fraction."""
    cost = result.in_unit(steps)
    return None if cost is None else exact_text(cost)


def exact_text(number: Fraction) -> str:
    """Return a non-negative number without rounding: ``0.156556``, or ``1/3``."""
    places, rest = 0, number.denominator
    for prime in (2, 5):
        power = 0
        while rest % prime == 0:
            rest //= prime
            power += 1
        places = max(places, power)
    if rest != 1:
        return str(number)
    digits = f"{int(number * 10**places):0{places + 1}d}"
    return f"{digits[: len(digits) - places]}.{digits[len(digits) - places :]}" if places else digits


def _methods(result: AssignResult, assignment: Assignment | None) -> dict[str, str] | None:
    if assignment is None:
        return None
    names = (layer.name for layer in result.network.layers)
    return dict(zip(names, assignment.methods(result.network), strict=True))


def _layers(result: AssignResult, best: Assignment) -> list[Document]:
    network = result.network
    others = (None,) * len(network.layers) if result.runner_up is None else result.runner_up.methods(network)
    instead = alternatives(result) or (None,) * len(network.layers)
    rows = zip(
        network.layers,
        best.methods(network),
        best.execution,
        best.incoming(network),
        others,
        instead,
        strict=True,
    )
    return [
        {
            "name": layer.name,
            "method": method,
            "execution": _number(result, execution),
            "transition": _number(result, transition),
            "runner_up": other,
            "alternative": _alternative(result, layer, alternative),
        }
        for layer, method, execution, transition, other, alternative in rows
    ]


def _alternative(
    result: AssignResult, layer: CostedLayer, alternative: Alternative | None
) -> Document | None:
    if alternative is None:
        return None
    return {"method": layer.methods[alternative.method], "margin": _number(result, alternative.margin)}


def _edges(result: AssignResult, best: Assignment) -> list[Document]:
    layers = result.network.layers
    return [
        {
            "from": layers[edge.source].name,
            "to": layers[edge.target].name,
            "transition": _number(result, steps),
        }
        for edge, steps in zip(result.network.edges, best.transition, strict=True)
    ]


def _runner_up(result: AssignResult, second: Assignment) -> Document:
    return {
        "total": _number(result, second.total),
        "is_proven": result.margin is not None,
        "assignment": _methods(result, second),
    }


def _decomposition(decomposition: Decomposition) -> Document:
    return {
        "structure": decomposition.structure,
        "rules": {rule: decomposition.count(rule) for rule in RULES},
        "steps": [list(step) for step in decomposition.steps],
        "kernels": [list(kernel) for kernel in decomposition.kernels],
    }


def _array(array: ArrayChoice) -> Document:
    return {
        "rows": array.rows,
        "columns": array.columns,
        "criterion": array.criterion,
        "value": float(array.result.network.in_unit(array.value)),
        "arrays": array.arrays,
        "assigned": array.assigned,
    }
