"""Assignments of methods to layers: for the terminal, and as JSON, whose keys docs/assignment.md lists."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction

from rich.console import Console
from rich.text import Text

from model.assignment.network import Convolution, ShapedLayer
from model.objective import LAYERS, METHODS, TOTAL
from solver.assignment.array_search import ArrayChoice
from solver.assignment.assigner import Alternatives, alternatives
from solver.assignment.mapped import Gain, MappedAssignment, MethodCost
from solver.assignment.result import RULES, Assignment, AssignResult, Decomposition
from solver.report.document import Document, picked, plain, reason_document
from solver.report.figures import NOTHING, cost_text, count_text, counted, percent, seconds_text
from solver.report.reasons import INDENT, change_lines, others_left, placed_text, titled
from solver.report.tables import ReportTable, plain_grid, plain_table
from solver.report.text import ENDINGS, print_notes, status_line
from solver.result import Reason, Status

RULES_TEXT = {
    "split": ("edge", "split into costs of the two layers"),
    "R0": ("layer", "without a neighbour"),
    "RI": ("layer", "folded into one neighbour"),
    "RII": ("layer", "folded into the edge between two neighbours"),
    "bucket": ("layer", "folded into a table over three or more neighbours"),
}
"""What each of `solver.assignment.result.RULES` is applied to, and what it does."""

SHORT_DECOMPOSITION = 12
"""Steps up to which a decomposition is always printed in full."""

CRITERIA_TEXT = {
    TOTAL: "least total of the assignment",
    LAYERS: "least sum of the layers' cheapest methods",
    METHODS: "least sum over all methods of all layers",
}


def print_assignment(
    console: Console,
    result: AssignResult,
    array: ArrayChoice | None = None,
    mapped: MappedAssignment | None = None,
    all_steps: bool = False,
) -> None:
    """Print layers, totals, naive rules, decomposition, notes, reasons and the status line."""
    console.print(status_line(result.status, _status_parts(result)))
    console.print()
    if mapped is not None:
        _print_costs(console, mapped)
    network = result.network
    title = f" of {network.name}" if network.name else ""
    console.print(Text.assemble(("Assignment", "bold"), title, f" (costs in {network.unit})"))
    if result.best is not None:
        others = alternatives(result)
        console.print(_layers_table(result, result.best, others))
        if others is not None:
            console.print("Runner-up: the best other method of a layer, and how much it raises the total")
        elif result.runner_up is not None:
            console.print("Runner-up: the method of a layer in the second-best assignment, where it differs")
        console.print(_totals_table(result, result.best))
    if result.policies:
        console.print(Text.assemble("\n", ("Naive rules", "bold")))
        console.print(_policies_table(result))
    for line in _gain_lines(mapped) if mapped is not None else ():
        console.print(line)
    console.print(Text.assemble("\n", ("Decomposition", "bold")))
    for line in _decomposition_lines(result.decomposition, all_steps):
        console.print(line)
    print_notes(console, network.notes)
    if array is not None:
        tried = f"{counted(array.arrays, 'array')}, {counted(array.assigned, 'assignment')} solved"
        console.print(f"note: array chosen by the {CRITERIA_TEXT[array.criterion]}: {tried}")
    for line in _reason_lines(result.reasons):
        console.print(line)


def _layers_table(result: AssignResult, best: Assignment, others: Alternatives | None) -> ReportTable:
    """Return a row per layer: method, costs, and its best other method or the second-best assignment's."""
    margin = () if others is None else (">Margin",)
    table = plain_table("Layer", "Method", ">Execution", ">Transition", "Runner-up", *margin)
    network = result.network
    methods = best.methods(network)
    ends = _second_best(result, methods) if others is None else _other_methods(result, others)
    rows = zip(network.layers, methods, best.execution, best.incoming(network), ends, strict=True)
    for layer, method, execution, transition, end in rows:
        table.add_row(layer.name, method, _cost(result, execution), _cost(result, transition), *end)
    return table


def _second_best(result: AssignResult, methods: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Yield the second-best assignment's methods where they differ."""
    second = methods if result.runner_up is None else result.runner_up.methods(result.network)
    for method, other in zip(methods, second, strict=True):
        yield (other if other != method else NOTHING,)


def _other_methods(result: AssignResult, others: Alternatives) -> Iterator[tuple[str, ...]]:
    """Yield each layer's best other method and its margin."""
    for layer, alternative in zip(result.network.layers, others, strict=True):
        if alternative is None:
            yield NOTHING, NOTHING
        else:
            yield layer.methods[alternative.method], _cost(result, alternative.margin)


def _totals_table(result: AssignResult, best: Assignment) -> ReportTable:
    """Return the total with its parts, and the runner-up with its margin."""
    table = plain_grid()
    table.add_row("Total", _cost(result, best.total))
    for name, steps in (("execution", sum(best.execution)), ("transition", sum(best.transition))):
        share = f"{percent(steps / best.total)} of the total" if best.total else ""
        table.add_row(f"  {name}", _cost(result, steps), share)
    if result.runner_up is not None:
        table.add_row("Runner-up", _cost(result, result.runner_up.total), _margin_text(result))
    elif result.status is Status.OPTIMAL:
        table.add_row("Runner-up", NOTHING, "no other assignment is allowed")
    return table


def _margin_text(result: AssignResult) -> str:
    if result.margin is None:
        return "not proven to be the second best"
    if result.margin == 0:
        return "equally good: the best assignment is not unique"
    return f"margin {_cost(result, result.margin)}"


def _policies_table(result: AssignResult) -> ReportTable:
    """Return what the naive rules cost, and how much more than the assignment that is."""
    table = plain_table("Rule", ">Total", ">vs. assignment", ">Layers")
    count = count_text(len(result.network.layers))
    for policy in result.policies:
        total = "forbidden" if policy.total is None else _cost(result, policy.total)
        if not policy.known:
            total = "?" if policy.total is None else f"{total} ?"
        more = NOTHING
        if policy.total is not None and result.total:
            more = percent((policy.total - result.total) / result.total)
        table.add_row(policy.name, total, more, f"{count_text(policy.layers_followed)}/{count}")
    return table


def _decomposition_lines(decomposition: Decomposition, all_steps: bool) -> Iterator[str]:
    yield decomposition.structure
    for rule, (what, done) in RULES_TEXT.items():
        if count := decomposition.count(rule):
            yield f"  {rule:6} {counted(count, what)} {done}"
    if decomposition.steps and (all_steps or len(decomposition.steps) <= SHORT_DECOMPOSITION):
        yield "step by step:"
        for rule, layer, *others in decomposition.steps:
            word = "from" if rule == RULES[0] else "into"
            yield f"  {rule:6} {layer}" + (f" {word} {', '.join(others)}" if others else "")
    for kernel in decomposition.kernels:
        yield f"  left to search: {', '.join(kernel)}"


def _reason_lines(reasons: Sequence[Reason]) -> Iterator[str]:
    for title, reason in titled(reasons):
        yield title
        yield from (f"{INDENT}{placed_text(statement)}" for statement in reason.constraints)
        if not reason.irreducible:
            yield f"{INDENT}(stopped early: perhaps not all of these are needed)"
        elif not reason.complete:
            yield f"{INDENT}(stopped early: perhaps there are other conflicts)"
        else:
            yield from _lever_lines(reason, others_left(reasons))


def _lever_lines(reason: Reason, remaining: str) -> Iterator[str]:
    """Yield what of a conflict is enough to leave out."""
    if len(reason.levers) == len(reason.constraints):
        which = "any one of them" if len(reason.levers) > 1 else "it"
        yield f"{INDENT}Without {which} there is an assignment{remaining}."
    elif reason.levers:
        yield from change_lines(reason.levers, remaining)
    else:
        yield f"{INDENT}No single change suffices{remaining}."


def _status_parts(result: AssignResult) -> Iterator[str]:
    unit = result.network.unit
    if result.status is Status.INFEASIBLE:
        yield "no assignment is allowed"
    else:
        parts = [f"bound {_cost(result, result.bound)} {unit}"]
        if result.total is not None:
            parts.insert(0, f"total {_cost(result, result.total)} {unit}")
        if result.gap is not None:
            parts.append(f"gap {percent(result.gap)}")
        yield ", ".join(parts)
    yield ENDINGS[result.termination]
    yield f"by {result.method_used}, {seconds_text(result.seconds)}"


def _cost(result: AssignResult, steps: int | None) -> str:
    cost = result.in_unit(steps)
    return NOTHING if cost is None else cost_text(cost)


def _print_costs(console: Console, mapped: MappedAssignment) -> None:
    """Print what each method costs each layer that is mapped."""
    unit = mapped.result.network.unit
    console.print(Text.assemble(("Methods", "bold"), f" (optima of the mapper, in {unit})"))
    console.print(_costs_table(mapped))
    if mapped.unproven:
        searches = counted(mapped.unproven, "search", "searches")
        console.print(f"{searches} ended without a proof (*) or without any mapping (?)")
    console.print()


def _costs_table(mapped: MappedAssignment) -> ReportTable:
    """Return a row per layer and a column per method."""
    table = plain_table("Layer", *(f">{method}" for method in mapped.problem.methods))
    for layer in mapped.problem.shaped.layers:
        if isinstance(layer.shape, Convolution):
            table.add_row(layer.name, *(_cell(mapped, layer, method) for method in mapped.problem.methods))
    return table


def _cell(mapped: MappedAssignment, layer: ShapedLayer, method: str) -> str:
    assert isinstance(layer.shape, Convolution)  # only those have a row
    if method not in layer.methods:
        return NOTHING
    cost = mapped.costs[layer.shape, method]
    if cost.status is Status.INFEASIBLE:
        return "no mapping"
    if cost.value is None:
        return "?"
    return cost_text(Fraction(cost.value)) + ("" if cost.status is Status.OPTIMAL else " *")


def _gain_lines(mapped: MappedAssignment) -> Iterator[str]:
    """Yield how much the assignment saves against the best single dataflow and the best single method."""
    unit = mapped.result.network.unit
    hedge = ", by the mappings found" if mapped.unproven else ""
    for gain in (mapped.dataflow_gain, mapped.method_gain):
        if gain is not None:
            total = cost_text(mapped.result.network.in_unit(gain.total))
            other = f"the best single {gain.kind}, {gain.name} ({total} {unit})"
            yield f"Gain {percent(gain.share)} over {other}{hedge}"


def assignment_document(
    result: AssignResult, array: ArrayChoice | None = None, mapped: MappedAssignment | None = None
) -> Document:
    """Return the document of an assignment: costs in the network's unit, null where there is none."""
    network, best, second = result.network, result.best, result.runner_up
    return {
        "kind": "assign",
        "network": network.name,
        **picked(result, "status", "termination", "method_used"),
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
        "runner_up": second
        and {
            "total": _number(result, second.total),
            "is_proven": result.margin is not None,
            "assignment": _methods(result, second),
        },
        "margin": _number(result, result.margin),
        "margin_exact": _exact(result, result.margin),
        "policies": [
            {
                "name": policy.name,
                "total": _number(result, policy.total),
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
    costs = best.methods(network), best.execution, best.incoming(network)
    rows = zip(network.layers, *costs, others, instead, strict=True)
    return [
        {
            "name": layer.name,
            "method": method,
            "execution": _number(result, execution),
            "transition": _number(result, transition),
            "runner_up": other,
            "alternative": alternative
            and {"method": layer.methods[alternative.method], "margin": _number(result, alternative.margin)},
        }
        for layer, method, execution, transition, other, alternative in rows
    ]


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


def _mapped_document(mapped: MappedAssignment) -> Document:
    """Return what is known besides if a mapper found the costs."""
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
            if isinstance(layer.shape, Convolution)
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
