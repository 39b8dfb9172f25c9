"""Sparse data: what commands cannot do with them, and the commands ``map`` and ``explain``."""

from __future__ import annotations

import argparse
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from model.extents import ANY, PERFECT
from model.mapspace import Mapspace
from model.note import Note
from solver.cli.certificates import certificate_steps, checked_result
from solver.cli.options import CP_SAT
from solver.cli.output import (
    OutputError,
    deliver,
    plot_steps,
    result_steps,
)
from solver.cli.progress import interruptible, watched
from solver.cli.running import (
    check_certified,
    exit_code,
    explain_options,
    mapped_spec_text,
    mapping_steps,
    search_options,
    sensitivities,
    without_remainders,
)
from solver.result import Status

if TYPE_CHECKING:
    from model.cascade import Network
    from model.formats.timeloop import LoadedSpec
    from model.mapspace import Mapspace
    from solver.explain import CostReport
    from solver.result import Reason
    from solver.sparse_search import SparseResult

PERFECT_NOTE = Note("loops have perfect factors: for sparse data, this is searched without remainders")


UNASKED_NOTE = Note("loops have perfect factors: for sparse data, --factors any searches remainders, too")


LACK_NOTE = "loops have perfect factors: for sparse data, remainders are not searched {}"


OVERFLOWING = (
    "constraints are not priced where tiles may overflow (allow_overbooking): there the room of a level "
    "decides what accesses cost"
)


def map_sparse_data(loaded: LoadedSpec, arguments: argparse.Namespace) -> int:
    """Search the best mapping of sparse data; write and print it."""
    _refuse_options(arguments)
    from solver.report.document import costs_document
    from solver.report.sparse import sparse_result_document

    certified = arguments.certificate is not None or arguments.check
    loaded = as_searched(loaded, PERFECT_NOTE if certified else unasked(arguments))
    mapspace = loaded.mapspace
    if certified:
        check_certified(loaded)
    spec_text = mapped_spec_text(loaded, arguments)
    result = search_sparse(mapspace, arguments)
    code, check = checked_result(mapspace, result, arguments)
    reasons = _reasons(mapspace, arguments) if result.status is Status.INFEASIBLE else ()
    effects = sensitivities(mapspace, result, arguments)[1] if arguments.sensitivity else None
    costs = None
    if arguments.price_constraints and result.best is not None:
        narrower = without_remainders("constraints are priced", mapspace, result, arguments)
        costs = _constraint_costs(narrower or mapspace, arguments)
    mapping = None if result.best is None else result.best.mapping
    outputs = (arguments.mapping, arguments.mapped_spec, arguments.certificate)

    priced = None if costs is None else costs_document(costs)
    document = partial(sparse_result_document, mapspace, result, reasons, effects, check, priced)
    report = result_steps(document, arguments, *outputs, nodes=(loaded.document,), verbose=arguments.verbose)
    lack = "" if mapping is not None else "mapping"
    plot = plot_steps(arguments.plot, partial(sparse_result_document, mapspace, result, reasons), lack)
    files = (*mapping_steps(arguments, loaded, mapping, spec_text), *plot)
    deliver([*report, *files, *certificate_steps(mapspace, result, arguments)])
    return code or exit_code(result.status, (result,))


def _reasons(mapspace: Mapspace, arguments: argparse.Namespace) -> tuple[Reason, ...]:
    """Return why there is no mapping; an interrupt ends the analysis with what is known."""
    from solver.explain import explain_sparse, reasons_time_s

    with interruptible() as stop:
        return explain_sparse(mapspace, stop.is_set, reasons_time_s(arguments.time_limit))


def _constraint_costs(mapspace: Mapspace, arguments: argparse.Namespace) -> CostReport:
    """Search without each constraint."""
    from solver.explain import constraint_costs
    from solver.sensitivity import overflows
    from solver.sparse_search import map_totals

    if overflows(mapspace):
        raise OutputError(OVERFLOWING)
    with watched(mapspace, getattr(arguments, "quiet", False)) as callbacks:
        return constraint_costs(mapspace, explain_options(arguments), map_totals, *callbacks)


def explain_sparse_data(
    mapspace: Mapspace, arguments: argparse.Namespace
) -> tuple[Mapspace, tuple[Reason, ...], CostReport | None]:
    """Return the mapspace, and why sparse data have no mapping or what constraints cost."""
    from solver.explain import reasons_time_s
    from solver.result import Clock
    from solver.sparse_search import first_mapping

    with interruptible() as stop:
        status = first_mapping(mapspace, Clock(reasons_time_s(arguments.time_limit), stop.is_set))
    if status is Status.INFEASIBLE:
        return mapspace, _reasons(mapspace, arguments), None
    return mapspace, (), _constraint_costs(mapspace, arguments)


def search_sparse(mapspace: Mapspace, arguments: argparse.Namespace) -> SparseResult:
    """Map an Einsum on sparse data with live progress; an interrupt ends the search early."""
    from solver.sparse_search import map_sparse

    with watched(mapspace, arguments.quiet) as callbacks:
        return map_sparse(mapspace, search_options(arguments), *callbacks)


def unasked(arguments: argparse.Namespace) -> Note | None:
    """Return a note that says how to ask for remainders; None if they were requested."""
    return None if arguments.factors == ANY else UNASKED_NOTE


def as_searched(loaded: LoadedSpec, lack: Note | None = PERFECT_NOTE) -> LoadedSpec:
    """Return a spec as searches take it, without densities that change no count.

    Parameters
    ----------
    lack
        Says why loops over sparse data have no remainders; with None they have where the search knows these.
    """
    sparsity = loaded.mapspace.sparsity
    if sparsity is None:
        return loaded
    if not sparsity.optimized:
        return replace(loaded, mapspace=replace(loaded.mapspace, sparsity=None))
    _refuse_unsearched(loaded.mapspace)
    note = _lack_of_remainders(loaded.mapspace, lack)
    if note is None:
        return loaded
    noted = loaded.noted([note])
    return replace(noted, mapspace=replace(noted.mapspace, factors=PERFECT))


def with_sparse_data(network: Network, lack: Note | None = None) -> Network:
    """Return a network as searches take it, see `as_searched`."""
    layers, notes = [], []
    for layer in network.layers:
        mapspace = layer.mapspace
        if mapspace.sparsity is None or not mapspace.sparsity.optimized:
            layers.append(replace(layer, mapspace=replace(mapspace, sparsity=None)))
            continue
        _refuse_unsearched(mapspace)
        note = _lack_of_remainders(mapspace, lack)
        notes += [] if note is None else [note]
        layers.append(layer if note is None else replace(layer, mapspace=replace(mapspace, factors=PERFECT)))
    return replace(network, layers=tuple(layers)).noted(dict.fromkeys(notes))


def _lack_of_remainders(mapspace: Mapspace, known: Note | None) -> Note | None:
    """Return a note that says why loops have no remainders though they might; None if they may have some."""
    from solver.sparse_search import lack_of_remainders

    if mapspace.factors == PERFECT:
        return None
    if known is not None:
        return known
    lack = lack_of_remainders(mapspace)
    return None if lack is None else Note(LACK_NOTE, (lack,))


def _refuse_unsearched(mapspace: Mapspace) -> None:
    """Refuse what the search for sparse data does not know."""
    if mapspace.joint:
        raise OutputError(
            "memories with several places (--uneven) are searched for dense data only; "
            "--ignore-sparse takes the data as dense"
        )


def _refuse_options(arguments: argparse.Namespace) -> None:
    hint = "; --ignore-sparse takes the data as dense"
    if arguments.export_model:
        raise OutputError(f"--export-model: the formulation knows dense data only{hint}")
    if arguments.engine == CP_SAT:
        raise OutputError(f"--engine {CP_SAT} knows dense data only{hint}")
