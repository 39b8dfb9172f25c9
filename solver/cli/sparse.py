"""Sparse data on the command line: what is not searched, and sweeps over densities."""

from __future__ import annotations

import argparse
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

from model.extents import ANY, PERFECT
from model.note import Note
from solver.cli.output import OutputError, check_outputs, deliver, document_steps, plot_steps, report_steps
from solver.cli.progress import watched
from solver.cli.running import (
    exit_code,
    load_unmapped,
    search_options,
)
from solver.report.pictures import check_plot
from solver.result import CP_SAT, Status

if TYPE_CHECKING:
    from model.cascade import Network
    from model.formats.timeloop import LoadedSpec
    from model.mapspace import Mapspace

PERFECT_NOTE = Note("loops have perfect factors: for sparse data, this is searched without remainders")

UNASKED_NOTE = Note("loops have perfect factors: for sparse data, --factors any searches remainders, too")

LACK_NOTE = "loops have perfect factors: for sparse data, remainders are not searched {}"


def unasked(arguments: argparse.Namespace) -> Note | None:
    """Return a note that says how to ask for remainders; None if they were asked for."""
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


def refuse_options(arguments: argparse.Namespace) -> None:
    """Refuse options of `map` that are about dense data."""
    hint = "; --ignore-sparse takes the data as dense"
    if arguments.export_model:
        raise OutputError(f"--export-model: the formulation knows dense data only{hint}")
    if arguments.engine == CP_SAT:
        raise OutputError(f"--engine {CP_SAT} knows dense data only{hint}")


def sweep_densities(arguments: argparse.Namespace) -> int:
    """Search the best mapping for every combination of densities; print, write and draw the results."""
    for name in ("workloads", "architectures", "settings", "csv", "report", "cluster"):
        if getattr(arguments, name):
            raise OutputError(f"--density sweeps one layer: it does not go with {name}")
    check_outputs((arguments.json, arguments.plot), arguments.specs)
    check_plot(arguments.plot)
    loaded = as_searched(load_unmapped(arguments, sparse=True))
    mapspace = loaded.mapspace
    if mapspace.sparsity is None:
        raise OutputError(
            "--density: the specs have no sparse optimizations, without which densities do nothing"
        )
    from solver.densities import density_sweep
    from solver.report.sparse import density_sweep_document, draw_density_sweep, print_density_sweep

    densities = dict(map(_densities, arguments.densities))
    try:
        with watched(mapspace, arguments.quiet) as callbacks:
            points = list(density_sweep(mapspace, densities, search_options(arguments), *callbacks))
    except KeyError as error:
        raise OutputError(f"--density: the problem has no dataspace {error}") from error
    report = report_steps(lambda console: print_density_sweep(console, mapspace, points), arguments)
    document = document_steps(lambda: density_sweep_document(mapspace, points), arguments)
    lack = "" if all(point.result.mapping is not None for point in points) else "mapping of every point"
    plot = plot_steps(arguments.plot, lambda: draw_density_sweep(points, arguments.plot), lack)
    deliver([*report, *document, *plot])
    statuses = {point.result.status for point in points}
    order = (Status.INFEASIBLE, Status.UNKNOWN, Status.FEASIBLE)
    worst = next((status for status in order if status in statuses), Status.OPTIMAL)
    return exit_code(worst, (point.result for point in points))


def _densities(text: str) -> tuple[str, list[Fraction]]:
    """Return the dataspace and the shares of an option such as ``Weights=0.1,0.5``."""
    name, _, values = text.partition("=")
    try:
        shares = [Fraction(value) for value in values.split(",")]
    except (ValueError, ZeroDivisionError) as error:
        raise OutputError(f"--density {text}: NAME=SHARE,... is expected, such as Weights=0.1,0.5") from error
    if not name or not all(0 <= share <= 1 for share in shares):
        raise OutputError(f"--density {text}: shares of nonzeros are between 0 and 1")
    return name, shares
