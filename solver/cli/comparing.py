"""What ``compare`` does once the specs are loaded."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from model.mapspace import Mapspace
from solver.cli.console import report_console
from solver.cli.options import EXIT_OF_STATUS
from solver.cli.output import (
    STDOUT,
    OutputError,
    Step,
    deliver,
    report_steps,
    say_undrawn,
    write_output,
    write_stderr,
)
from solver.cli.progress import interruptible, live_progress
from solver.cli.refusal import refused_reasons, refused_result
from solver.cli.running import search_options
from solver.comparison import Comparison, compare
from solver.heuristics.interface import Budget, MapperError
from solver.heuristics.registry import (
    Mapper,
    OptionValue,
    imported_mapper,
    known_mappers,
    make_mapper,
    named_mapper,
)
from solver.report.comparison import print_comparison
from solver.report.comparison_document import comparison_document, comparisons_csv
from solver.report.convergence import draw_convergence
from solver.result import Status


def run_comparison(mapspace: Mapspace, arguments: argparse.Namespace) -> int:
    """Prove the optimum, run the mappers, print and write how they did; return the exit code.

    Raises
    ------
    OutputError
        A mapper cannot be made, or an output not be written; `PlotError` for a picture.
    TooLargeError
        As of `solver.map_einsum`.
    """
    try:
        mappers = chosen_mappers(arguments)
    except MapperError as error:
        raise OutputError(str(error)) from error
    comparison = compare_as_told(mapspace, mappers, arguments)
    if comparison.result.status is Status.INFEASIBLE and arguments.json is not None:
        reasons = refused_reasons(mapspace, arguments.time_limit)
        result = replace(comparison.result, reasons=reasons)
        comparison = replace(comparison, result=result)
    for outcome in comparison.outcomes:
        write_stderr(outcome.failure)
    silent = STDOUT in (arguments.json, arguments.csv)
    deliver(writing_steps(comparison, arguments, silent))
    return EXIT_OF_STATUS[comparison.result.status]


def writing_steps(comparison: Comparison, arguments: argparse.Namespace, silent: bool) -> Iterator[Step]:
    """Yield the steps that print a comparison, unless `silent`, and write it where it is asked for."""
    report, document = partial(_print, comparison), partial(comparison_document, comparison)
    yield from report_steps(report, document, arguments.json, silent)
    if arguments.csv is not None:
        yield lambda: write_output(arguments.csv, comparisons_csv([comparison]))
    if arguments.plot is None:
        return
    if comparison.trace or any(outcome.trace for outcome in comparison.outcomes):
        yield lambda: draw_convergence(comparison, arguments.plot)
    else:
        yield lambda: say_undrawn(arguments.plot, "mapping")


def _print(comparison: Comparison) -> None:
    with report_console() as console:
        print_comparison(console, comparison)


def chosen_mappers(arguments: argparse.Namespace) -> list[tuple[str, Mapper]]:
    """Create the mappers that the arguments name.

    Returns
    -------
    list
        Pairs of a name, or the reference ``module:Class``, and a mapper.

    Raises
    ------
    MapperError
        That fails, or none is named.
    """
    named = known_mappers() if arguments.mappers is None else arguments.mappers
    classes = {name: named_mapper(name) for name in named}
    classes |= {reference: imported_mapper(reference) for reference in arguments.own_mappers}
    if not classes:
        raise MapperError(f"no mapper is named; known are {', '.join(known_mappers())}")
    options = _options_by_mapper(arguments.mapper_options, classes)
    return [(name, make_mapper(name, create, options[name])) for name, create in classes.items()]


def compare_as_told(
    mapspace: Mapspace, mappers: Sequence[tuple[str, Mapper]], arguments: argparse.Namespace
) -> Comparison:
    """Compare as the arguments say, with live progress; an interrupt ends it early.

    Raises
    ------
    ContradictionError, TooLargeError
        As of `solver.comparison.compare`.
    """
    case, budget = _case(arguments), _budget(arguments)
    units = mapspace.architecture.units_per_pj
    with interruptible() as stop, live_progress(units, arguments.quiet) as on_progress:
        return compare(mapspace, mappers, search_options(arguments), budget, on_progress, stop.is_set, case)


def refused_comparison(arguments: argparse.Namespace) -> Comparison:
    """Return the comparison of specs that were refused for their constraints."""
    mapspace, result = refused_result(arguments)
    return Comparison(_case(arguments), mapspace, result, (), (), _budget(arguments), arguments.seed)


def _case(arguments: argparse.Namespace) -> str:
    return " ".join(path.stem for path in arguments.specs)


def _budget(arguments: argparse.Namespace) -> Budget:
    return Budget(arguments.budget, arguments.evaluations)


def _options_by_mapper(
    options: Sequence[tuple[str, str, OptionValue]], mappers: Mapping[str, object]
) -> dict[str, dict[str, OptionValue]]:
    by_mapper: dict[str, dict[str, OptionValue]] = {name: {} for name in mappers}
    for mapper, name, value in options:
        if mapper not in by_mapper:
            raise MapperError(f"option {mapper}.{name}: no mapper {mapper!r} runs")
        by_mapper[mapper][name] = value
    return by_mapper
