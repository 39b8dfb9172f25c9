"""What a mapper found for an assignment: costs of layers by methods, and what the assignment gains."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from rich.console import Console
from rich.table import Table
from rich.text import Text

from model.assignment.network import Convolution, ShapedLayer
from solver.assignment.mapped import Gain, MappedAssignment, MethodCost
from solver.report.document import Document
from solver.report.figures import cost_text, counted, percent
from solver.report.tables import NOTHING, plain_table
from solver.result import Status


def print_costs(console: Console, mapped: MappedAssignment) -> None:
    """Print what each method costs each layer that is mapped."""
    unit = mapped.result.network.unit
    console.print(Text.assemble(("Methods", "bold"), f" (optima of the mapper, in {unit})"))
    console.print(_costs_table(mapped))
    if mapped.unproven:
        searches = counted(mapped.unproven, "search", "searches")
        console.print(f"{searches} ended unproven (*), or without any mapping (?)")
    console.print()


def _costs_table(mapped: MappedAssignment) -> Table:
    """Return a row per layer and a column per method."""
    table = plain_table("Layer")
    for method in mapped.problem.methods:
        table.add_column(method, justify="right", no_wrap=True)
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


def gain_lines(mapped: MappedAssignment) -> Iterator[str]:
    """Yield how much the assignment saves against the best single dataflow and the best single method."""
    unit = mapped.result.network.unit
    hedge = ", by the mappings found" if mapped.unproven else ""
    for gain in (mapped.dataflow_gain, mapped.method_gain):
        if gain is not None:
            total = cost_text(mapped.result.network.in_unit(gain.total))
            other = f"the best single {gain.kind}, {gain.name} ({total} {unit})"
            yield f"Gain {percent(gain.share)} over {other}{hedge}"


def mapped_document(mapped: MappedAssignment) -> Document:
    """Return what a document of an assignment has besides if a mapper found its costs.

    Returns
    -------
    Document
        Costs in the network's unit, as doubles; shares of 1.
    """
    return {
        "objective": mapped.objective,
        "unproven": mapped.unproven,
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
