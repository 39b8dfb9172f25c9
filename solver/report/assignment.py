"""Assignments for people: a table of layers, totals, naive rules, and how the graph was taken apart."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from solver.assignment.array_search import ArrayChoice
from solver.assignment.assigner import Alternatives, alternatives
from solver.assignment.result import RULES, Assignment, AssignResult, Decomposition
from solver.criteria import LAYERS, METHODS, TOTAL
from solver.report.figures import cost_text, count_text, counted, percent, seconds_text
from solver.report.notes import print_notes
from solver.report.reasons import INDENT, change_lines, others_left, placed_text, titled
from solver.report.tables import NOTHING, plain_table
from solver.report.text import ENDINGS, STYLES
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
"""Steps up to which a decomposition is printed in full unasked."""

CRITERIA_TEXT = {
    TOTAL: "least total of the assignment",
    LAYERS: "least sum of the layers' cheapest methods",
    METHODS: "least sum over all methods of all layers",
}


def print_assignment(
    console: Console,
    result: AssignResult,
    array: ArrayChoice | None,
    all_steps: bool,
    remarks: Sequence[str] = (),
) -> None:
    """Print layers, totals, naive rules, decomposition, notes, reasons and the status line.

    Parameters
    ----------
    array
        The array that was chosen, None if there was no choice.
    all_steps
        Whether every step of a decomposition of more than `SHORT_DECOMPOSITION` is printed as well.
    remarks
        Lines that stand behind the naive rules.
    """
    network = result.network
    title = f" of {network.name}" if network.name else ""
    console.print(Text.assemble(("Assignment", "bold"), title, f" (costs in {network.unit})"))
    if result.best is not None:
        others = alternatives(result)
        console.print(_layers_table(result, result.best, others))
        if others is not None:
            console.print("Runner-up: a layer's best other method, and by how much the total is higher then")
        elif result.runner_up is not None:
            console.print("Runner-up: a layer's method in the second-best assignment, where it differs")
        console.print(_totals_table(result, result.best))
    if result.policies:
        console.print(Text.assemble("\n", ("Naive rules", "bold")))
        console.print(_policies_table(result))
    for remark in remarks:
        console.print(remark)
    console.print(Text.assemble("\n", ("Decomposition", "bold")))
    for line in _decomposition_lines(result.decomposition, all_steps):
        console.print(line)
    print_notes(console, network.notes)
    if array is not None:
        tried = f"{counted(array.arrays, 'array')}, {counted(array.assigned, 'assignment')} solved"
        console.print(f"note: array chosen by the {CRITERIA_TEXT[array.criterion]}: {tried}")
    for line in _reason_lines(result.reasons):
        console.print(line)
    status = (result.status.value, STYLES[result.status])
    console.print(Text.assemble(status, " ", "; ".join(_status_parts(result))))


def _layers_table(result: AssignResult, best: Assignment, others: Alternatives | None) -> Table:
    """Return a row per layer: method, costs, and its best other method or the second-best assignment's."""
    table = plain_table("Layer", "Method")
    for heading in ("Execution", "Transition"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("Runner-up", no_wrap=True)
    if others is not None:
        table.add_column("Margin", justify="right", no_wrap=True)
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


def _totals_table(result: AssignResult, best: Assignment) -> Table:
    """Return the total with its parts, and the runner-up with its margin."""
    table = Table.grid(padding=(0, 2))
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
        return "as good: the best assignment is not unique"
    return f"margin {_cost(result, result.margin)}"


def _policies_table(result: AssignResult) -> Table:
    """Return what the naive rules cost, and how much more than the assignment that is."""
    table = plain_table("Rule")
    for heading in ("Total", "Over the assignment", "Layers"):
        table.add_column(heading, justify="right", no_wrap=True)
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
    if ENDINGS[result.termination]:
        yield ENDINGS[result.termination]
    yield f"by {result.method_used}, {seconds_text(result.seconds)}"


def _cost(result: AssignResult, steps: int | None) -> str:
    cost = result.in_unit(steps)
    return NOTHING if cost is None else cost_text(cost)
