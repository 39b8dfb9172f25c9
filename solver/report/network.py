"""Networks and sweeps as JSON documents and CSV; docs/network.md and docs/sweep.md list the keys."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterator, Mapping

from model.cost.report import Evaluation
from model.mapspace import Mapspace
from model.objective import LATENCY, UNITS
from solver.network.common import CommonResult
from solver.network.run import LayerResult, NetworkResult
from solver.network.sweep import SweepPoint, SweepResult, energy_remarks
from solver.report.document import (
    Document,
    Run,
    picked,
    plain,
    reason_document,
    result_document,
    si_figures,
    slow_unit_notes,
    violation_document,
)
from solver.report.sparse import sparse_result_document
from solver.result import Result

COMPUTE = "compute"


def bottleneck(evaluation: Evaluation) -> str:
    """Return the latency bottleneck: the level with the slowest transfers, or compute."""
    slowest = max(evaluation.levels, key=lambda level: level.cycles)
    return slowest.name if slowest.cycles > evaluation.compute_cycles else COMPUTE


def common_document(result: CommonResult, check: str | None = None) -> Document:
    """Return the JSON document of a common unrolling; docs/network.md lists the keys.

    `check` is what the checker says of the certificate.
    """
    units = result.own.units_per_pj if result.objective != LATENCY else 1
    values = {"value": result.value, "bound": result.bound, "own_value": result.own_value}
    return {
        "kind": "network-same",
        "network": result.own.network.name,
        "same": "spatial",
        "objective": result.objective,
        "status": result.status.value,
        "termination": result.termination.value,
        **{key: None if value is None else value / units for key, value in values.items()},
        "gap": result.gap,
        "price": result.price,
        "units": dict(UNITS),
        "spatial": [
            {"fanout": own.fanout, "dimension": own.dim, "width": own.width, "axis": own.axis}
            for own in result.loops
        ],
        "regions": result.regions,
        "searches": result.searches,
        "seconds": result.seconds,
        "check": check,
        "common": None if result.common is None else network_document(result.common),
        "own": network_document(result.own),
    }


def network_document(result: NetworkResult, check: str | None = None) -> Document:
    """Return the JSON document of a network; docs/network.md lists the keys.

    `check` says how many certificates are valid, if the checker was asked.
    """
    originals = [outcome for outcome in result.layers if outcome.origin != "identical"]
    named = Counter(outcome.layer.name for outcome in originals)
    first = {outcome.layer.name: outcome for outcome in originals if named[outcome.layer.name] == 1}
    return {
        "kind": "network",
        "network": result.network.name,
        "status": result.status.value,
        **picked(result, "energy_pj", "cycles", "edp_pj_cycles"),
        **si_figures(result.energy_j, result.latency_s, _computes(result)),
        "units": dict(UNITS),
        "proven": result.proven,
        "einsums": len(result.network.layers),
        "seconds": result.seconds,
        "check": check,
        "layers": [_layer_document(outcome, first) for outcome in result.layers],
        "infeasible": list(_failures(result)),
        "notes": plain([*result.network.notes, *slow_unit_notes(list(_runs(result)))]),
    }


def _runs(result: NetworkResult) -> Iterator[Run]:
    """Yield the layers that compute, with their time: in seconds, or in cycles without a clock."""
    has_one_clock = result.cycles is not None
    for outcome in result.layers:
        evaluation = None if outcome.result is None else outcome.result.evaluation
        time = outcome.cycles if has_one_clock else outcome.latency_s
        if evaluation is None or time is None:
            continue
        mapspace, waits = outcome.layer.mapspace, bottleneck(evaluation) != COMPUTE
        units = -(-mapspace.problem.computes // evaluation.compute_cycles)
        yield Run(outcome.layer.name, mapspace.architecture.compute.name, time, units, waits)


def _result_document(mapspace: Mapspace, result: Result) -> Document:
    """Return the document of a search, as `map` writes it."""
    return (result_document if mapspace.sparsity is None else sparse_result_document)(mapspace, result)


def _layer_document(outcome: LayerResult, first: Mapping[str, LayerResult]) -> Document:
    """Return the document of a layer; a layer that repeats another, names included, refers to it."""
    result, transfer = outcome.result, outcome.layer.transfer
    if result is None:
        limited = None if transfer is None else transfer.limited_by
    else:
        limited = None if result.evaluation is None else bottleneck(result.evaluation)
    problem, other = outcome.layer.mapspace.problem, first.get(outcome.same_as)
    repeats = other is not None and problem.names == other.layer.mapspace.problem.names
    return {
        "name": outcome.layer.name,
        "shape": problem.bound,
        "n_instances": outcome.layer.n_instances,
        "origin": outcome.origin,
        "same_as": outcome.same_as or None,
        "status": outcome.status.value,
        **picked(outcome, "energy_pj", "cycles"),
        "limited_by": limited,
        "result": None
        if result is None or repeats
        else _result_document(result.mapspace or outcome.layer.mapspace, result),
        "transfer": None if result is not None else _transfer_document(outcome),
    }


def _computes(result: NetworkResult) -> int:
    """Return the computes of all instances of a network's Einsums; copies have none."""
    layers = (layer for layer in result.network.layers if not layer.is_copy)
    return sum(layer.mapspace.problem.computes * layer.n_instances for layer in layers)


def _transfer_document(outcome: LayerResult) -> Document | None:
    transfer = outcome.layer.transfer
    if transfer is None:
        return None
    return {
        "from": transfer.source,
        "to": list(transfer.targets),
        "energy_pj": transfer.energy / outcome.layer.mapspace.architecture.units_per_pj,
        "cycles": transfer.cycles,
        "violations": list(map(violation_document, transfer.violations)),
    }


def _failures(result: NetworkResult) -> Iterator[Document]:
    """Yield why layers of a network have no mapping, in their order."""
    for answer in result.layers:
        transfer = answer.layer.transfer if answer.result is None else None
        reasons = () if answer.result is None else answer.result.reasons
        violations = () if transfer is None else transfer.violations
        if reasons or violations:
            names = [other.layer.name for other in result.layers if other.searched_as == answer.searched_as]
            yield {
                "einsums": names,
                "reasons": list(map(reason_document, reasons)),
                "violations": list(map(violation_document, violations)),
            }


FIGURE_COLUMNS = ("status", "energy_pj", "cycles", "edp_pj_cycles", "area_mm2", "proven", "einsums", "front")


def sweep_document(result: SweepResult) -> Document:
    """Return the JSON document of a sweep; docs/sweep.md lists the keys."""
    points = [point.result for point in result.points]
    searched = (layer.result for point in points for layer in point.layers if layer.result is not None)
    notes = [note for point in result.points for note in point.variant.network.notes]
    return {
        "kind": "sweep",
        "status": result.status.value,
        "units": dict(UNITS),
        "seconds": result.seconds,
        "searches": result.searched,
        "points": _point_documents(result),
        "remarks": list(energy_remarks([point.variant for point in result.points])),
        "is_stopped": any(len(point.layers) < len(point.network.layers) for point in points),
        "terminations": dict(Counter(own.termination.value for own in searched)),
        "too_large": list(dict.fromkeys(name for point in points for name in point.too_large)),
        "notes": plain(list(dict.fromkeys(notes))),
    }


def sweep_csv(result: SweepResult) -> str:
    """Return a CSV table with a row per point and a column per attribute."""
    names = result.attributes
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["workload", "architecture", *names, *FIGURE_COLUMNS])
    for point, row in zip(result.points, _point_documents(result), strict=True):
        values = [value for _, value in point.variant.settings]
        writer.writerow(
            [row["workload"], row["architecture"], *values, *(row[column] for column in FIGURE_COLUMNS)]
        )
    return text.getvalue()


def _point_documents(result: SweepResult) -> list[Document]:
    front = result.front
    return [_row(point, place in front) for place, point in enumerate(result.points)]


def _row(point: SweepPoint, is_on_front: bool) -> Document:
    energy_pj, cycles = point.costs or (None, None)
    return {
        **picked(point.variant, "workload", "architecture"),
        "attributes": dict(point.variant.settings),
        "status": point.result.status.value,
        "energy_pj": energy_pj,
        "cycles": cycles,
        **picked(point, "edp_pj_cycles", "area_mm2"),
        **si_figures(point.result.energy_j, point.result.latency_s, _computes(point.result)),
        "proven": point.result.proven,
        "einsums": len(point.result.network.layers),
        "front": is_on_front,
        "infeasible": list(_failures(point.result)),
    }
