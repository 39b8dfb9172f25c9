"""The reports of networks and sweeps: tables, why Einsums have no mapping, JSON and CSV."""

from __future__ import annotations

import csv
import io
import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from rich.console import Console
from rich.text import Text

from model.cost.report import Evaluation, Violation
from model.mapping import FanoutMapping
from model.mapspace import Mapspace
from model.note import Note
from model.objective import EDP, LATENCY, UNITS
from model.problem import Problem
from model.source_ref import SourceRef
from model.sweep import Variant
from model.text.source import Places
from model.wording import listing
from solver.network.common import CommonResult
from solver.network.run import LayerResult, NetworkResult
from solver.network.sweep import SweepPoint, SweepResult, energy_remarks
from solver.report.document import (
    Document,
    picked,
    plain,
    reason_document,
    result_document,
    si_figures,
    violation_document,
)
from solver.report.figures import (
    NOTHING,
    count_text,
    counted,
    energy_text,
    objective_text,
    percent,
    seconds_text,
    significant,
)
from solver.report.reasons import INDENT, reason_lines
from solver.report.sparse import sparse_result_document
from solver.report.tables import ReportTable, plain_grid, plain_table, seconds_rows
from solver.report.text import ENDINGS, brief_notes, print_notes, status_line, violation_text
from solver.result import Reason, Result, Status, Termination

ARITHMETIC = "arithmetic"

MOST_ROWS = 1000
"""Layers up to which each has a row; a row takes a millisecond or two."""

MOST_CONFLICTS = 10
"""Conflicts that are shown with their lines."""

MOST_LIKE_IT = 10
"""Conflicts of the same lines that are listed below each."""


def print_network(console: Console, result: NetworkResult, places: Places | None = None) -> None:
    """Print the status line, the layers, the totals, notes, and why layers have no mapping."""
    console.print(network_status(result))
    console.print(Text.assemble("\n", ("Network", "bold"), f" {result.network.name}"))
    console.print(layers_table(result))
    unlisted = len(result.layers) - len(_listed(result))
    if unlisted:
        console.print(f"{unlisted:,} Einsums identical to these are not listed; `--json` has all of them.")
    console.print(Text.assemble("\n", ("Totals", "bold")))
    console.print(totals_table(result))
    print_notes(console, brief_notes(result.network.notes))
    if result.status is Status.INFEASIBLE:
        console.print()
    for line in why_layers_fail(result, places or {}):
        console.print(line)


def layers_table(result: NetworkResult) -> ReportTable:
    """Return a row per layer, with figures of all its instances; the bound only where it is not the value."""
    rows = [(outcome, _layer_figures(outcome)) for outcome in _listed(result)]
    bounded = any(bound for _, (_, bound, *_) in rows)
    bound_heading = (">Bound",) if bounded else ()
    table = plain_table(
        *("Einsum", "Shape", ">Runs", "Status", ">Value", *bound_heading, ">Energy", ">Cycles"),
        *("Limited by", ">Utilization", ">Time", "From"),
        optional=("Energy", "Cycles", "Limited by", "Shape", "Utilization", "From", "Time"),
    )
    for outcome, (value, bound, *others) in rows:
        table.add_row(
            outcome.layer.name,
            shape_text(outcome.layer.mapspace.problem),
            count_text(outcome.layer.n_instances),
            _status(outcome),
            value,
            *((bound,) if bounded else ()),
            *others,
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


def _layer_figures(outcome: LayerResult) -> tuple[str, ...]:
    """Return value, bound if it differs, energy, cycles, bottleneck, utilization and time."""
    result = outcome.result
    if result is None:
        return _copy_figures(outcome)
    units = result.units_per_pj
    bound = "" if result.bound == result.value else objective_text(result.objective, result.bound, units)
    seconds = seconds_text(result.statistics.seconds) if outcome.origin == "searched" else NOTHING
    evaluation = result.evaluation
    if evaluation is None or outcome.energy is None or outcome.cycles is None:
        return (NOTHING, bound, NOTHING, NOTHING, NOTHING, NOTHING, seconds)
    return (
        objective_text(result.objective, result.value, units),
        bound,
        energy_text(outcome.energy / units),
        count_text(outcome.cycles),
        bottleneck(evaluation),
        percent(evaluation.utilization),
        seconds,
    )


def _copy_figures(outcome: LayerResult) -> tuple[str, ...]:
    transfer, units = outcome.layer.transfer, outcome.layer.mapspace.architecture.units_per_pj
    if transfer is None:
        return ("0", "", "0 pJ", "0", "nothing moves", NOTHING, NOTHING)
    if outcome.energy is None or outcome.cycles is None:
        return (NOTHING, "", *(NOTHING,) * 5)
    spent = energy_text(outcome.energy / units), count_text(outcome.cycles)
    return (NOTHING, "", *spent, transfer.limited_by or NOTHING, NOTHING, NOTHING)


def _origin(outcome: LayerResult) -> str:
    return f"= {outcome.same_as}" if outcome.origin == "identical" else outcome.origin


def bottleneck(evaluation: Evaluation) -> str:
    """Return what decides the latency: the level with the slowest transfers, or the arithmetic."""
    slowest = max(evaluation.levels, key=lambda level: level.cycles)
    return slowest.name if slowest.cycles > evaluation.compute_cycles else ARITHMETIC


def totals_table(result: NetworkResult) -> ReportTable:
    """Return energy, cycles and EDP of the network, and how much of it is proven."""
    table = plain_grid()
    for row in _totals(result):
        table.add_row(*row)
    return table


def _totals(result: NetworkResult) -> Iterator[tuple[str, str, str]]:
    energy, cycles, edp = result.energy, result.cycles, result.edp
    units = result.units_per_pj
    yield "Energy", NOTHING if energy is None else energy_text(energy / units), ""
    yield "Cycles", NOTHING if cycles is None else count_text(cycles), ""
    yield "EDP", NOTHING if edp is None else significant(edp / units), f"{UNITS[EDP]}, of the totals"
    if result.energy_j is not None:
        yield from seconds_rows(result.energy_j, result.latency_s)
    layers = len(result.network.layers)
    searched = sum(outcome.origin == "searched" for outcome in result.layers)
    share = percent(result.proven / layers) if layers else NOTHING
    yield "Proven", f"{result.proven}/{layers}", share
    yield "Searched", f"{searched}/{layers}", seconds_text(result.seconds)


def why_layers_fail(result: NetworkResult, places: Places) -> Iterator[str]:
    """Yield why layers have no mapping; of several with the same lines the first is shown in full."""
    kinds: dict[Hashable, list[Failure]] = {}
    for failure in failures(result):
        kinds.setdefault(lines_of(failure), []).append(failure)
    for first, *others in list(kinds.values())[:MOST_CONFLICTS]:
        yield f"No mapping of {listing(first.names)}"
        yield from failure_lines(first, places)
        yield from likewise_lines([(failure, "") for failure in others])
    yield from more_line(len(kinds))


def print_common(console: Console, result: CommonResult, places: Places | None = None) -> None:
    """Print the best common spatial unrolling, and what it costs each layer against its own optimum."""
    console.print(_common_status(result))
    if result.common is None:
        print_network(console, result.own, places)
        return
    loops = plain_table("Fanout", "Axis", "Dimension", ">Width")
    for own in result.loops:
        loops.add_row(own.fanout, own.axis, own.dim, count_text(own.width))
    console.print(Text("\nCommon spatial loops", "bold"))
    console.print(loops if result.loops else "none: nothing is unrolled")
    console.print(Text.assemble("\n", ("Network", "bold"), f" {result.own.network.name}"))
    console.print(_prices_table(result, result.common))
    console.print(Text.assemble("\n", ("Totals", "bold"), " with the common loops"))
    console.print(totals_table(result.common))
    print_notes(console, brief_notes(result.own.network.notes))


def _common_status(result: CommonResult) -> Text:
    """Return the price of a common unrolling in one line."""
    units, name = result.own.units_per_pj, result.objective
    if result.value is None or result.own_value is None:
        none = "no spatial unrolling is possible for all Einsums"
        text = none if result.status is Status.INFEASIBLE else "no common spatial unrolling was found"
        return status_line(result.status, [text])
    common, own = (objective_text(name, value, units) for value in (result.value, result.own_value))
    price = "as much as" if not result.price else f"{percent(result.price)} more than"
    parts = [f"{name} {common} with one spatial unrolling, {price} the Einsums' own optima ({own})"]
    if result.status is Status.FEASIBLE:
        bound = objective_text(name, result.bound, units)
        parts.append(f"another unrolling may take {bound} (gap {percent(result.gap or 0)})")
    return status_line(result.status, parts)


def _prices_table(result: CommonResult, common: NetworkResult) -> ReportTable:
    """Return a row per layer with its value alone and under the common unrolling."""
    table = plain_table(
        *(
            "Einsum",
            "Shape",
            ">Runs",
            ">Own optimum",
            "Own spatial loops",
            ">Common",
            ">Price",
            ">Utilization",
        ),
        optional=("Own spatial loops", "Shape", "Utilization"),
    )
    for own, other in zip(result.own.layers, common.layers, strict=True):
        if own.result is None or other.result is None or other.result.evaluation is None:
            continue
        units = own.result.units_per_pj
        table.add_row(
            own.layer.name,
            shape_text(own.layer.mapspace.problem),
            count_text(own.layer.n_instances),
            objective_text(result.objective, own.result.value, units),
            _spatial_text(own),
            objective_text(result.objective, other.result.value, units),
            percent(_price(own.result, other.result)),
            percent(other.result.evaluation.utilization),
        )
    return table


def _price(own: Result, common: Result) -> float:
    """What a layer costs more under the common unrolling, as a share."""
    return ((common.value or 0) - own.value) / own.value if own.value else 0.0


def _spatial_text(outcome: LayerResult) -> str:
    """Return a layer's spatial loops, outermost fanout first."""
    if outcome.result is None or outcome.result.mapping is None:
        return NOTHING
    nodes = (node for node in outcome.result.mapping.nodes if isinstance(node, FanoutMapping))
    loops = (f"{loop.dim} {loop.bound}" for node in nodes for loop in node.spatial if loop.bound > 1)
    return ", ".join(loops) or NOTHING


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


def network_status(result: NetworkResult) -> Text:
    """Return the status of the network in one line."""
    parts = [f"{result.proven} of {len(result.network.layers)} Einsums proven"]
    if len(result.layers) < len(result.network.layers):
        parts.append(f"stopped after {len(result.layers)}; --resume continues")
    infeasible = [outcome.layer.name for outcome in result.layers if outcome.status is Status.INFEASIBLE]
    if infeasible:
        parts.append(f"no mapping of {listing(infeasible)} satisfies the constraints")
    parts += _stopped(result.layers)
    if result.too_large:
        parts.append(f"too large for a search: {listing(result.too_large)}")
    return status_line(result.status, parts)


def _stopped(layers: Iterable[LayerResult]) -> Iterator[str]:
    """Yield how many searches ended early, by what ended them."""
    stopped = Counter(outcome.result.termination for outcome in layers if outcome.result is not None)
    for ending in (Termination.TIME_LIMIT, Termination.MEMORY_LIMIT):
        if stopped[ending]:
            yield f"{stopped[ending]} {ENDINGS[ending]} (`--{ending.value.lower().replace('_', '-')}`)"
    for ending in (Termination.CHOICES, Termination.GAP, Termination.REMAINDER_LIMIT):
        if stopped[ending]:
            yield f"{stopped[ending]} {ENDINGS[ending]}"
    if stopped[Termination.LOOP_LIMIT]:
        yield f"of {stopped[Termination.LOOP_LIMIT]} {ENDINGS[Termination.LOOP_LIMIT]}"


def network_document(result: NetworkResult, check: str | None = None) -> Document:
    """Return the JSON document of a network; docs/network.md lists the keys.

    `check` says how many certificates are valid, if the checker was asked.
    """
    energy, edp, units = result.energy, result.edp, result.units_per_pj
    originals = [outcome for outcome in result.layers if outcome.origin != "identical"]
    named = Counter(outcome.layer.name for outcome in originals)
    first = {outcome.layer.name: outcome for outcome in originals if named[outcome.layer.name] == 1}
    return {
        "kind": "network",
        "network": result.network.name,
        "status": result.status.value,
        "energy_pj": None if energy is None else energy / units,
        "cycles": result.cycles,
        "edp_pj_cycles": None if edp is None else edp / units,
        **si_figures(result.energy_j, result.latency_s),
        "units": dict(UNITS),
        "proven": result.proven,
        "einsums": len(result.network.layers),
        "seconds": result.seconds,
        "check": check,
        "layers": [_layer_document(outcome, first) for outcome in result.layers],
        "notes": plain(result.network.notes),
    }


def _result_document(mapspace: Mapspace, result: Result) -> Document:
    """Return the document of a search, as `map` writes it."""
    return (result_document if mapspace.sparsity is None else sparse_result_document)(mapspace, result)


def _layer_document(outcome: LayerResult, first: Mapping[str, LayerResult]) -> Document:
    """Return what is known of a layer; one that repeats another, names included, refers to it."""
    result, transfer = outcome.result, outcome.layer.transfer
    if result is None:
        limited = None if transfer is None else transfer.limited_by
    else:
        limited = None if result.evaluation is None else bottleneck(result.evaluation)
    units = outcome.units_per_pj
    repeats = outcome.same_as in first and _names(outcome) == _names(first[outcome.same_as])
    return {
        "name": outcome.layer.name,
        "shape": outcome.layer.mapspace.problem.bound,
        "n_instances": outcome.layer.n_instances,
        "origin": outcome.origin,
        "same_as": outcome.same_as or None,
        "status": outcome.status.value,
        "energy_pj": None if outcome.energy is None else outcome.energy / units,
        "cycles": outcome.cycles,
        "limited_by": limited,
        "result": None if result is None or repeats else _result_document(outcome.layer.mapspace, result),
        "transfer": None if result is not None else _transfer_document(outcome),
    }


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
        "violations": list(map(violation_document, transfer.violations)),
    }


@dataclass(frozen=True)
class Failure:
    """Einsums of one network that are the same problem and have no mapping."""

    names: tuple[str, ...]
    reasons: tuple[Reason, ...] = ()
    violations: tuple[Violation, ...] = ()  # of a copy: the levels that do not hold its tensors

    @property
    def texts(self) -> tuple[str, ...]:
        """Why, without the lines."""
        return (*(reason.text for reason in self.reasons), *map(violation_text, self.violations))


def failures(result: NetworkResult) -> Iterator[Failure]:
    """Yield why layers of a network have no mapping, in their order."""
    for answer in result.layers:
        transfer = answer.layer.transfer if answer.result is None else None
        reasons = () if answer.result is None else answer.result.reasons
        violations = () if transfer is None else transfer.violations
        if reasons or violations:
            names = (other.layer.name for other in result.layers if other.searched_as == answer.searched_as)
            yield Failure(tuple(names), reasons, violations)


def failure_lines(failure: Failure, places: Places) -> Iterator[str]:
    """Yield why Einsums have no mapping, with the lines of the user's files."""
    yield from reason_lines(failure.reasons, places)
    yield from (f"{INDENT}{violation_text(found)}\n" for found in failure.violations)


def lines_of(failure: Failure) -> Hashable:
    """Return the causes of a failure: places in files, attributes that are set, levels that are too small."""
    places = {_without_value(source) for reason in failure.reasons for source in reason.sources}
    return frozenset(places), frozenset((found.node, found.kind) for found in failure.violations)


def _without_value(source: SourceRef) -> SourceRef:
    return replace(source, column=0) if source.origin == "setting" else source


def likewise_lines(others: Sequence[tuple[Failure, str]]) -> Iterator[str]:
    """Yield failures with the same lines as one that is shown, each with where it occurs."""
    for failure, where in others[:MOST_LIKE_IT]:
        yield f"Likewise {listing(failure.names)}{where}"
        yield from (f"{INDENT}{text}" for text in failure.texts)
    if len(others) > MOST_LIKE_IT:
        yield f"Likewise {len(others) - MOST_LIKE_IT} more; --json has them all"
    if others:
        yield ""


def more_line(conflicts: int) -> Iterator[str]:
    """Yield a line that says how many conflicts are left out, if any are."""
    if conflicts > MOST_CONFLICTS:
        more = counted(conflicts - MOST_CONFLICTS, "more conflict")
        yield f"{more} with other lines; --json has them all\n"


def failure_document(failure: Failure) -> dict[str, object]:
    """Return a failure as JSON; docs/sweep.md lists the keys."""
    return {
        "einsums": list(failure.names),
        "reasons": list(map(reason_document, failure.reasons)),
        "violations": list(map(violation_document, failure.violations)),
    }


FRONT = "*"
"""Marks the points of the front."""

FRONT_NOTE = f"{FRONT} not dominated in energy and cycles by any other point of the same workload"

MOST_POINTS = 3
"""Points that are named where they have no values in common."""

MOST_VALUES = 8
"""Values of an attribute that are named."""

PlacesOf = Callable[[Variant], Places]
"""Finds the text that a variant was read from."""

FIGURE_COLUMNS = ("status", "energy_pj", "cycles", "edp_pj_cycles", "area_mm2", "proven", "einsums", "front")


def print_sweep(console: Console, result: SweepResult, places: PlacesOf) -> None:
    """Print the status line, the points, remarks on energies, notes of the specs, and why points fail."""
    console.print(sweep_status(result))
    console.print()
    console.print(points_table(result))
    if result.front:
        console.print(FRONT_NOTE)
    print_notes(console, energy_remarks([point.variant for point in result.points]))
    print_notes(console, brief_notes(spec_notes(result)))
    lines = list(why_points_fail(result, places))
    for line in ["", *lines] if lines else []:
        console.print(line)


def points_table(result: SweepResult) -> ReportTable:
    """Return a row per point: workload, architecture, attributes, and the totals of its network."""
    attributes = (f">{name}" for name in result.attributes)
    timed = any(point.result.latency_s is not None for point in result.points)
    seconds = (">Seconds",) if timed else ()
    figures = ("Status", ">Energy", ">Cycles", *seconds, ">EDP (pJ*cycles)", ">Area", ">Proven", "Front")
    optional = ("Status", "Proven", "Area", "EDP (pJ*cycles)")
    table = plain_table("Workload", "Architecture", *attributes, *figures, optional=optional)
    front = result.front
    for place, point in enumerate(result.points):
        variant, network = point.variant, point.result
        table.add_row(
            variant.workload,
            variant.architecture,
            *(value for _, value in variant.settings),
            network.status.value,
            *_point_figures(point, timed),
            f"{network.proven}/{len(network.network.layers)}",
            FRONT if place in front else "",
        )
    return table


def _point_figures(point: SweepPoint, timed: bool) -> tuple[str, ...]:
    """Return energy, cycles, seconds where points have them, EDP and area."""
    energy_j, latency_s = point.result.energy_j, point.result.latency_s
    area = NOTHING if point.area_mm2 is None else f"{significant(point.area_mm2)} mm2"
    seconds = (NOTHING if latency_s is None else f"{float(latency_s):.6g}",) if timed else ()
    if point.costs is None or point.edp_pj_cycles is None:
        energy = NOTHING if energy_j is None else energy_text(energy_j * 1e12)
        return energy, NOTHING, *seconds, NOTHING, area
    energy_pj, cycles = point.costs
    return energy_text(energy_pj), count_text(cycles), *seconds, significant(point.edp_pj_cycles), area


def spec_notes(result: SweepResult) -> list[Note]:
    """Return what the user should know about the reading of the specs, each note once."""
    return list(dict.fromkeys(note for point in result.points for note in point.variant.network.notes))


def sweep_status(result: SweepResult) -> Text:
    """Return the status of the sweep in one line."""
    proven = sum(point.result.proven for point in result.points)
    einsums = sum(len(point.result.network.layers) for point in result.points)
    parts = [counted(len(result.points), "point"), f"{proven} of {einsums} Einsums proven"]
    if any(len(point.result.layers) < len(point.result.network.layers) for point in result.points):
        parts.append("stopped; --resume continues")
    parts += _stopped(outcome for point in result.points for outcome in point.result.layers)
    too_large = dict.fromkeys(name for point in result.points for name in point.result.too_large)
    if too_large:
        parts.append(f"too large for a search: {listing(tuple(too_large))}")
    parts.append(f"{counted(result.searched, 'search', 'searches')}, {seconds_text(result.seconds)}")
    return status_line(result.status, parts)


def sweep_document(result: SweepResult) -> Document:
    """Return the JSON document of a sweep; docs/sweep.md lists the keys."""
    return {
        "kind": "sweep",
        "status": result.status.value,
        "units": dict(UNITS),
        "seconds": result.seconds,
        "searches": result.searched,
        "points": _rows(result),
        "remarks": list(energy_remarks([point.variant for point in result.points])),
        "notes": plain(spec_notes(result)),
    }


def sweep_csv(result: SweepResult) -> str:
    """Return a CSV table with a row per point and a column per attribute."""
    names = result.attributes
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["workload", "architecture", *names, *FIGURE_COLUMNS])
    for point, row in zip(result.points, _rows(result), strict=True):
        values = [value for _, value in point.variant.settings]
        writer.writerow(
            [row["workload"], row["architecture"], *values, *(row[column] for column in FIGURE_COLUMNS)]
        )
    return text.getvalue()


def _rows(result: SweepResult) -> list[Document]:
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
        **si_figures(point.result.energy_j, point.result.latency_s),
        "proven": point.result.proven,
        "einsums": len(point.result.network.layers),
        "front": is_on_front,
        "infeasible": [failure_document(failure) for failure in failures(point.result)],
    }


@dataclass(frozen=True)
class _Shared:
    """A failure and the points that have it."""

    failure: Failure
    points: tuple[SweepPoint, ...]


def why_points_fail(result: SweepResult, places: PlacesOf) -> Iterator[str]:
    """Yield why points have no mapping, equal failures once.

    Of those with the same lines, at other values or in other Einsums, only the first is shown with the lines.
    """
    kinds = _kinds(result)
    labels = _Labels(result)
    for first, *others in kinds[:MOST_CONFLICTS]:
        yield f"No mapping of {listing(first.failure.names)}{labels.at(first.points)}"
        yield from failure_lines(first.failure, places(first.points[0].variant))
        yield from likewise_lines([(shared.failure, labels.at(shared.points)) for shared in others])
    yield from more_line(len(kinds))


def _kinds(result: SweepResult) -> list[list[_Shared]]:
    """Return the failures of all points: equal ones once, those that the same lines lead to together."""
    points: dict[Failure, list[SweepPoint]] = {}
    for point in result.points:
        for failure in failures(point.result):
            points.setdefault(failure, []).append(point)
    kinds: dict[Hashable, list[_Shared]] = {}
    for failure, places in points.items():
        kinds.setdefault(lines_of(failure), []).append(_Shared(failure, tuple(places)))
    return list(kinds.values())


class _Labels:
    """Names points of a sweep by what distinguishes them from all others."""

    def __init__(self, result: SweepResult) -> None:
        self._prefixes = ("", "", *(f"{name}=" for name in result.attributes))
        self._values = _values(result.points)

    def at(self, points: Sequence[SweepPoint]) -> str:
        """Return where `points` are; nothing if they are all of the sweep."""
        values = _values(points)
        if math.prod(map(len, values)) == len(points):
            named = self._range(values)
            return f" at {named}" if named else ""
        named = "; ".join(self._range(_values([point])) for point in points[:MOST_POINTS])
        more = len(points) - MOST_POINTS
        return f" at {named} and {more} more" if more > 0 else f" at {named}"

    def _range(self, point_values: Sequence[Sequence[str]]) -> str:
        """Name all points with these values of workload, architecture and attributes."""
        return ", ".join(
            f"{prefix}{','.join(values[:MOST_VALUES])}{',...' if len(values) > MOST_VALUES else ''}"
            for prefix, values, every in zip(self._prefixes, point_values, self._values, strict=True)
            if len(values) < len(every)
        )


def _values(points: Sequence[SweepPoint]) -> list[tuple[str, ...]]:
    """Return the workloads, the architectures, and the values of each attribute that `points` have."""
    variants = [point.variant for point in points]
    rows = (
        (variant.workload, variant.architecture, *(value for _, value in variant.settings))
        for variant in variants
    )
    return [tuple(dict.fromkeys(column)) for column in zip(*rows, strict=True)]
