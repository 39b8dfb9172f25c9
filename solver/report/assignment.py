"""Assignments of methods to layers as JSON documents, whose keys docs/assignment.md lists."""

from __future__ import annotations

from fractions import Fraction

from model.assignment.network import ConvolutionShape
from solver.assignment.array_search import ArrayChoice
from solver.assignment.assigner import alternatives
from solver.assignment.mapped import Gain, MappedAssignment, MethodCost
from solver.assignment.result import RULES, Assignment, AssignResult
from solver.report.document import Document, picked, plain, reason_document


def assignment_document(
    result: AssignResult, array: ArrayChoice | None = None, mapped: MappedAssignment | None = None
) -> Document:
    """Return the document of an assignment: costs in the network's unit, null where there is none."""
    network, best, second = result.network, result.best, result.runner_up
    return {
        "kind": "assign",
        "network": network.name,
        **picked(result, "status", "termination", "method_used", "proof"),
        "unit": network.unit,
        "total": _cost_number(result, result.total),
        "total_exact": _exact_text(result, result.total),
        "bound": _cost_number(result, result.bound),
        "gap": result.gap,
        "execution": None if best is None else _cost_number(result, sum(best.execution)),
        "transition": None if best is None else _cost_number(result, sum(best.transition)),
        "usage": None
        if network.usage_limit is None
        else {
            "limit": network.usage_limit,
            "peak": None if best is None else network.peak_usage(best.choice),
        },
        "assignment": _methods(result, best),
        "layers": None if best is None else _layer_documents(result, best),
        "edges": None if best is None else _edges(result, best),
        "runner_up": second
        and {
            "total": _cost_number(result, second.total),
            "is_proven": result.margin is not None,
            "assignment": _methods(result, second),
        },
        "margin": _cost_number(result, result.margin),
        "margin_exact": _exact_text(result, result.margin),
        "policies": [
            {
                "name": policy.name,
                "total": _cost_number(result, policy.total),
                **picked(policy, "layers_followed", "known"),
            }
            for policy in result.policies
        ],
        "decomposition": {
            "structure": result.decomposition.structure,
            "rules": {rule: result.decomposition.count(rule) for rule in RULES},
            **picked(result.decomposition, "steps", "kernels"),
        },
        "array": array
        and {
            **picked(array, "rows", "columns", "criterion"),
            "value": float(array.result.network.in_unit(array.value)),
            **picked(array, "arrays", "assigned"),
        },
        "seconds": result.seconds,
        "notes": plain(network.notes),
        "reasons": list(map(reason_document, result.reasons)),
        **({} if mapped is None else _mapped_document(mapped)),
    }


def _cost_number(result: AssignResult, steps: int | None) -> float | None:
    cost = result.in_unit(steps)
    return None if cost is None else float(cost)


def _exact_text(result: AssignResult, steps: int | None) -> str | None:
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


def _layer_documents(result: AssignResult, best: Assignment) -> list[Document]:
    network = result.network
    others = (None,) * len(network.layers) if result.runner_up is None else result.runner_up.methods(network)
    instead = alternatives(result) or (None,) * len(network.layers)
    costs = best.methods(network), best.execution, best.incoming(network)
    rows = zip(network.layers, *costs, others, instead, strict=True)
    return [
        {
            "name": layer.name,
            "method": method,
            "execution": _cost_number(result, execution),
            "transition": _cost_number(result, transition),
            "runner_up": other,
            "alternative": alternative
            and {
                "method": layer.methods[alternative.method],
                "margin": _cost_number(result, alternative.margin),
            },
        }
        for layer, method, execution, transition, other, alternative in rows
    ]


def _edges(result: AssignResult, best: Assignment) -> list[Document]:
    layers = result.network.layers
    return [
        {
            "from": layers[edge.source].name,
            "to": layers[edge.target].name,
            "transition": _cost_number(result, steps),
        }
        for edge, steps in zip(result.network.edges, best.transition, strict=True)
    ]


def _mapped_document(mapped: MappedAssignment) -> Document:
    """Return the additional keys of a document whose costs a mapper found."""
    return {
        **picked(mapped, "objective", "unproven"),
        "gain": {
            "dataflow": _gain_document(mapped, mapped.dataflow_gain),
            "method": _gain_document(mapped, mapped.method_gain),
        },
        "costs": {
            layer.name: {
                method: _cost_document(mapped.costs[layer.shape, method]) for method in layer.methods
            }
            for layer in mapped.problem.shaped.layers
            if isinstance(layer.shape, ConvolutionShape)
        },
    }


def _gain_document(mapped: MappedAssignment, gain: Gain | None) -> Document | None:
    if gain is None:
        return None
    total = mapped.result.network.in_unit(gain.total)
    return {"name": gain.name, "total": float(total), "share": gain.share}


def _cost_document(cost: MethodCost) -> Document:
    return {
        "status": cost.status.value,
        "value": None if cost.value is None else float(cost.value),
        "bound": None if cost.bound is None else float(cost.bound),
    }
