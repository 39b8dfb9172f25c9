"""The report of a whole network: a row per layer, totals, JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from importlib.metadata import version

from rich.console import Console
from rich.table import Table
from rich.text import Text

from model.cost.report import Evaluation
from model.objective import EDP, UNITS
from model.problem import Problem
from model.text.source import Places
from model.wording import listing
from solver.network.run import LayerResult, NetworkResult
from solver.report.document import Document, result_document, violation_document
from solver.report.failures import (
    MOST_CONFLICTS,
    Failure,
    failure_lines,
    failures,
    likewise_lines,
    lines_of,
    more_line,
)
from solver.report.figures import count_text, energy_text, objective_text, percent, seconds_text, significant
from solver.report.notes import brief_notes, print_notes
from solver.report.tables import NOTHING, plain_table
from solver.report.text import ENDINGS, STYLES
from solver.result import Result, Status, Termination

ARITHMETIC = "arithmetic"

MOST_ROWS = 1000
"""Layers up to which each has a row; a row takes a millisecond or two."""


def print_network(console: Console, result: NetworkResult, places: Places | None = None) -> None:
    """Print the layers, the totals, notes, why layers have no mapping, and the status line.

    Parameters
    ----------
    places
        Text of the constraints, for the reasons, where it is known.
    """
    console.print(Text.assemble(("Network", "bold"), f" {result.network.name}"))
    console.print(layers_table(result))
    unlisted = len(result.layers) - len(_listed(result))
    if unlisted:
        console.print(f"{unlisted:,} Einsums identical to these are not listed; `--json` has all of them.")
    console.print(Text.assemble("\n", ("Totals", "bold")))
    console.print(totals_table(result))
    print_notes(console, brief_notes(result.network.notes))
    if result.status is Status.INFEASIBLE:
        console.print()
    for line in why_lines(result, places or {}):
        console.print(line)
    console.print(status_line(result))


def layers_table(result: NetworkResult) -> Table:
    """Return a row per layer; energy and cycles are of all its instances."""
    table = plain_table("Einsum", "Shape")
    table.add_column("Runs", justify="right", no_wrap=True)
    table.add_column("Status", no_wrap=True)
    for heading in ("Value", "Bound", "Energy", "Cycles"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("Limited by", no_wrap=True)
    for heading in ("Utilization", "Time"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("From", no_wrap=True)
    for outcome in _listed(result):
        table.add_row(
            outcome.layer.name,
            shape_text(outcome.layer.mapspace.problem),
            count_text(outcome.layer.n_instances),
            _status(outcome),
            *_figures(outcome),
            _origin(outcome),
        )
    return table


def _listed(result: NetworkResult) -> Sequence[LayerResult]:
    """Return the layers that have rows; of very many, identical ones only once."""
    if len(result.layers) <= MOST_ROWS:
        return result.layers
    return [outcome for outcome in result.layers if outcome.origin != "identical"]


def _status(outcome: LayerResult) -> str:
    """Return the status, with the gap where there is one: five digits may not show it."""
    gap = None if outcome.result is None else outcome.result.gap
    return f"{outcome.status.value}, gap {percent(gap)}" if gap else outcome.status.value


def shape_text(problem: Problem) -> str:
    """Return the dimensions above 1 with their bounds."""
    sizes = [f"{dim} {bound}" for dim, bound in problem.bound.items() if bound > 1]
    return ", ".join(sizes) or "1"


def _figures(outcome: LayerResult) -> tuple[str, ...]:
    """Return optimum, bound, energy, cycles, bottleneck, utilization and time."""
    result = outcome.result
    if result is None:
        return _copy_figures(outcome)
    bound = _shown(result, result.bound)
    seconds = seconds_text(result.statistics.seconds) if outcome.origin == "searched" else NOTHING
    evaluation = result.evaluation
    if evaluation is None or outcome.energy is None or outcome.cycles is None:
        return (NOTHING, bound, NOTHING, NOTHING, NOTHING, NOTHING, seconds)
    return (
        _shown(result, result.value),
        bound,
        energy_text(outcome.energy / result.units_per_pj),
        count_text(outcome.cycles),
        bottleneck(evaluation),
        percent(evaluation.utilization),
        seconds,
    )


def _copy_figures(outcome: LayerResult) -> tuple[str, ...]:
    transfer, units = outcome.layer.transfer, outcome.layer.mapspace.architecture.units_per_pj
    if transfer is None:
        return ("0", "0", "0 pJ", "0", "nothing moves", NOTHING, NOTHING)
    if outcome.energy is None or outcome.cycles is None:
        return (NOTHING,) * 7
    spent = energy_text(outcome.energy / units), count_text(outcome.cycles)
    return (NOTHING, NOTHING, *spent, transfer.limited_by or NOTHING, NOTHING, NOTHING)


def _shown(result: Result, quantity: int | None) -> str:
    return NOTHING if quantity is None else objective_text(result.objective, quantity, result.units_per_pj)


def _origin(outcome: LayerResult) -> str:
    return f"= {outcome.same_as}" if outcome.origin == "identical" else outcome.origin


def bottleneck(evaluation: Evaluation) -> str:
    """Return what decides the latency: the level with the slowest transfers, or the arithmetic."""
    slowest = max(evaluation.levels, key=lambda level: level.cycles)
    return slowest.name if slowest.cycles > evaluation.compute_cycles else ARITHMETIC


def totals_table(result: NetworkResult) -> Table:
    """Return energy, cycles and EDP of the network, and how much of it is proven."""
    table = Table.grid(padding=(0, 2))
    for name, shown, note in _totals(result):
        table.add_row(name, shown, note)
    return table


def _totals(result: NetworkResult) -> Iterator[tuple[str, str, str]]:
    energy, cycles, edp = result.energy, result.cycles, result.edp
    units = result.units_per_pj
    yield "Energy", NOTHING if energy is None else energy_text(energy / units), ""
    yield "Cycles", NOTHING if cycles is None else count_text(cycles), ""
    yield "EDP", NOTHING if edp is None else significant(edp / units), f"{UNITS[EDP]}, of the totals"
    layers, searched = (
        len(result.network.layers),
        sum(outcome.origin == "searched" for outcome in result.layers),
    )
    share = percent(result.proven / layers) if layers else NOTHING
    yield "Proven", f"{result.proven}/{layers}", share
    yield "Searched", f"{searched}/{layers}", seconds_text(result.seconds)


def why_lines(result: NetworkResult, places: Places) -> Iterator[str]:
    """Yield why layers have no mapping; those that the same lines lead to are named with the first."""
    kinds: dict[Hashable, list[Failure]] = {}
    for failure in failures(result):
        kinds.setdefault(lines_of(failure), []).append(failure)
    for first, *others in list(kinds.values())[:MOST_CONFLICTS]:
        yield f"No mapping of {listing(first.names)}"
        yield from failure_lines(first, places)
        yield from likewise_lines([(failure, "") for failure in others])
    yield from more_line(len(kinds))


def status_line(result: NetworkResult) -> Text:
    """Return the status of the network in one line."""
    parts = [f"{result.proven} of {len(result.network.layers)} Einsums proven"]
    if len(result.layers) < len(result.network.layers):
        parts.append(f"stopped after {len(result.layers)}; --resume continues")
    infeasible = [outcome.layer.name for outcome in result.layers if outcome.status is Status.INFEASIBLE]
    if infeasible:
        parts.append(f"no mapping of {listing(infeasible)} satisfies the constraints")
    stopped = Counter(outcome.result.termination for outcome in result.layers if outcome.result is not None)
    for ending in (Termination.TIME_LIMIT, Termination.MEMORY_LIMIT):
        if stopped[ending]:
            parts.append(
                f"{stopped[ending]} {ENDINGS[ending]} (`--{ending.value.lower().replace('_', '-')}`)"
            )
    if stopped[Termination.LOOP_LIMIT]:
        parts.append(f"of {stopped[Termination.LOOP_LIMIT]} {ENDINGS[Termination.LOOP_LIMIT]}")
    if result.too_large:
        parts.append(f"too large for a search: {listing(result.too_large)}")
    status = result.status
    return Text.assemble((status.value, STYLES[status]), " ", "; ".join(parts))


def network_document(result: NetworkResult) -> Document:
    """Return the JSON document of a network; docs/network.md lists the keys."""
    energy, cycles, edp = result.energy, result.cycles, result.edp
    units = result.units_per_pj
    originals = [outcome for outcome in result.layers if outcome.origin != "identical"]
    count = Counter(outcome.layer.name for outcome in originals)
    first = {own.layer.name: own for own in originals if count[own.layer.name] == 1}
    return {
        "version": version("tilewright"),
        "network": result.network.name,
        "status": result.status.value,
        "energy_pj": None if energy is None else energy / units,
        "cycles": cycles,
        "edp_pj_cycles": None if edp is None else edp / units,
        "units": dict(UNITS),
        "proven": result.proven,
        "einsums": len(result.network.layers),
        "seconds": result.seconds,
        "layers": [_layer_document(outcome, first) for outcome in result.layers],
        "notes": list(map(str, result.network.notes)),
    }


def _layer_document(outcome: LayerResult, first: Mapping[str, LayerResult]) -> Document:
    """Return what is known of a layer; one that repeats another, names and all, refers to it."""
    head: Document = {
        "name": outcome.layer.name,
        "shape": outcome.layer.mapspace.problem.bound,
        "n_instances": outcome.layer.n_instances,
        "origin": outcome.origin,
        "same_as": outcome.same_as or None,
        "status": outcome.status.value,
    }
    if outcome.result is None:
        transfer = outcome.layer.transfer
        limited = None if transfer is None else transfer.limited_by
        return {**head, "limited_by": limited, "result": None, "transfer": _transfer_document(outcome)}
    evaluation = outcome.result.evaluation
    limited = None if evaluation is None else bottleneck(evaluation)
    if outcome.same_as in first and _names(outcome) == _names(first[outcome.same_as]):
        return {**head, "limited_by": limited, "result": None, "transfer": None}
    document = result_document(outcome.layer.mapspace, outcome.result)
    del document["version"]
    return {**head, "limited_by": limited, "result": document, "transfer": None}


def _names(outcome: LayerResult) -> tuple[str, ...]:
    problem = outcome.layer.mapspace.problem
    return (*problem.dims, *(space.name for space in problem.dataspaces))


def _transfer_document(outcome: LayerResult) -> Document | None:
    transfer = outcome.layer.transfer
    if transfer is None:
        return None
    return {
        "from": transfer.source,
        "to": list(transfer.targets),
        "energy_pj": transfer.energy / outcome.layer.mapspace.architecture.units_per_pj,
        "cycles": transfer.cycles,
        "violations": [violation_document(violation) for violation in transfer.violations],
    }
