"""The command ``sweep``: networks on variants of an architecture, or one layer at several densities."""

from __future__ import annotations

import argparse
from fractions import Fraction
from functools import partial
from itertools import chain

from model.text.reader import parse_assignments
from solver.cli.arguments import SETTING
from solver.cli.output import (
    OutputError,
    check_outputs,
    deliver,
    plot_steps,
    result_steps,
    write_output,
)
from solver.cli.progress import watched
from solver.cli.running import (
    exit_code,
    load_options,
    load_unmapped,
    results_of,
    search_options,
)
from solver.cli.searches import run_searches
from solver.cli.sparse import as_searched
from solver.report.pictures import check_plot
from solver.result import Status


def sweep_command(arguments: argparse.Namespace) -> int:
    """Map every point of a sweep, write and print the results."""
    if arguments.densities:
        return _sweep_densities(arguments)
    inputs = (*arguments.specs, *arguments.workloads, *arguments.architectures)
    check_outputs((arguments.json, arguments.csv, arguments.plot, arguments.report), inputs)
    check_plot(arguments.plot)
    from model.formats.cascade.loader import load_variants
    from model.formats.timeloop.overrides import parse_setting

    variants = load_variants(
        arguments.specs,
        arguments.workloads,
        arguments.architectures,
        [parse_setting(text, SETTING) for text in arguments.settings],
        parse_assignments(arguments.variables),
        load_options(arguments),
    )
    from solver.network.sweep import sweep

    result, _ = run_searches(arguments, partial(sweep, variants))
    from solver.report.network import sweep_csv, sweep_document

    document = partial(sweep_document, result)
    nodes = [node for variant in variants for node in variant.documents]
    steps = [*result_steps(document, arguments, arguments.csv, nodes=nodes)]
    if arguments.csv is not None:
        steps.append(lambda: write_output(arguments.csv, sweep_csv(result)))
    lack = "" if any(point.costs is not None for point in result.points) else "point"
    plot = plot_steps(arguments.plot, document, lack)
    deliver([*steps, *plot])
    return exit_code(result.status, chain.from_iterable(results_of(point.result) for point in result.points))


def _sweep_densities(arguments: argparse.Namespace) -> int:
    """Search the best mapping for every combination of densities; print, write and draw the results."""
    for name in ("workloads", "architectures", "settings", "csv", "report", "cluster"):
        if getattr(arguments, name):
            raise OutputError(f"--density sweeps one layer and cannot be combined with {name}")
    check_outputs((arguments.json, arguments.plot), arguments.specs)
    check_plot(arguments.plot)
    loaded = as_searched(load_unmapped(arguments, sparse=True))
    mapspace = loaded.mapspace
    if mapspace.sparsity is None:
        raise OutputError(
            "--density needs sparse optimizations in the specs; without them, densities have no effect"
        )
    from solver.densities import density_sweep
    from solver.report.sparse import density_sweep_document

    densities = dict(map(_shares, arguments.densities))
    try:
        with watched(mapspace, arguments.quiet) as callbacks:
            points = list(density_sweep(mapspace, densities, search_options(arguments), *callbacks))
    except KeyError as error:
        raise OutputError(f"--density: the problem has no dataspace {error}") from error
    document = partial(density_sweep_document, mapspace, points)
    lack = "" if all(point.result.mapping is not None for point in points) else "mapping of every point"
    deliver([*result_steps(document, arguments), *plot_steps(arguments.plot, document, lack)])
    statuses = {point.result.status for point in points}
    order = (Status.INFEASIBLE, Status.UNKNOWN, Status.FEASIBLE)
    worst = next((status for status in order if status in statuses), Status.OPTIMAL)
    return exit_code(worst, (point.result for point in points))


def _shares(text: str) -> tuple[str, list[Fraction]]:
    """Return the dataspace and the shares of an option such as ``Weights=0.1,0.5``."""
    name, _, values = text.partition("=")
    try:
        shares = [Fraction(value) for value in values.split(",")]
    except (ValueError, ZeroDivisionError) as error:
        raise OutputError(f"--density {text}: NAME=SHARE,... is expected, such as Weights=0.1,0.5") from error
    if not name or not all(0 <= share <= 1 for share in shares):
        raise OutputError(f"--density {text}: shares of nonzeros are between 0 and 1")
    return name, shares
