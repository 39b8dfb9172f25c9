"""The command ``compare``: mappers against the proven optimum."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from model.text.source import ConflictError
from solver.cli.options import EXIT_OF_STATUS
from solver.cli.output import (
    STDOUT,
    OutputError,
    Step,
    check_outputs,
    deliver,
    report_steps,
    say_undrawn,
    write_output,
    write_stderr,
)
from solver.cli.progress import watched
from solver.cli.running import load_unmapped, refuse, refused_reasons, refused_result, search_options
from solver.report.pictures import check_plot
from solver.result import Status

if TYPE_CHECKING:
    from model.mapspace import Mapspace
    from solver.comparison import Comparison
    from solver.heuristics.interface import Budget
    from solver.heuristics.registry import Mapper, OptionValue


def compare_command(arguments: argparse.Namespace) -> int:
    """Prove the optimum, run the mappers, print and write how they did."""
    outputs = (arguments.json, arguments.csv, arguments.plot)
    check_outputs(outputs, arguments.specs)
    check_plot(arguments.plot)
    try:
        mapspace = load_unmapped(arguments).mapspace
    except ConflictError as conflict:
        wanted = outputs != (None, None, None)
        return refuse(conflict, _steps(_refused(arguments), arguments, silent=True) if wanted else ())
    from solver.heuristics.interface import MapperError

    try:
        mappers = chosen_mappers(arguments)
    except MapperError as error:
        raise OutputError(str(error)) from error
    comparison = _compare(mapspace, mappers, arguments)
    if comparison.result.status is Status.INFEASIBLE and arguments.json is not None:
        reasons = refused_reasons(mapspace, arguments.time_limit)
        comparison = replace(comparison, result=replace(comparison.result, reasons=reasons))
    for outcome in comparison.outcomes:
        write_stderr(outcome.failure)
    deliver(_steps(comparison, arguments, silent=STDOUT in (arguments.json, arguments.csv)))
    return EXIT_OF_STATUS[comparison.result.status]


def chosen_mappers(arguments: argparse.Namespace) -> list[tuple[str, Mapper]]:
    """Return the mappers that the arguments name, by name; `MapperError` if one fails or none is named."""
    from solver.heuristics.interface import MapperError
    from solver.heuristics.registry import imported_mapper, known_mappers, make_mapper, named_mapper

    named = known_mappers() if arguments.mappers is None else arguments.mappers
    classes = {name: named_mapper(name) for name in named}
    classes |= {reference: imported_mapper(reference) for reference in arguments.own_mappers}
    if not classes:
        raise MapperError(f"no mapper is given; known mappers are {', '.join(known_mappers())}")
    options = _options_by_mapper(arguments.mapper_options, classes)
    return [(name, make_mapper(name, create, options[name])) for name, create in classes.items()]


def _options_by_mapper(
    options: Sequence[tuple[str, str, OptionValue]], mappers: Mapping[str, object]
) -> dict[str, dict[str, OptionValue]]:
    from solver.heuristics.interface import MapperError

    by_mapper: dict[str, dict[str, OptionValue]] = {name: {} for name in mappers}
    for mapper, name, value in options:
        if mapper not in by_mapper:
            raise MapperError(f"option {mapper}.{name}: no mapper {mapper!r} runs")
        by_mapper[mapper][name] = value
    return by_mapper


def _compare(
    mapspace: Mapspace, mappers: Sequence[tuple[str, Mapper]], arguments: argparse.Namespace
) -> Comparison:
    """Compare with live progress; an interrupt ends it early."""
    from solver.comparison import compare

    options, budget = search_options(arguments), _budget(arguments)
    with watched(mapspace, arguments.quiet) as callbacks:
        return compare(mapspace, mappers, options, budget, *callbacks, _case(arguments))


def _refused(arguments: argparse.Namespace) -> Comparison:
    """Return the comparison of specs that were refused for their constraints; no mapper runs."""
    from solver.comparison import Comparison

    mapspace, result = refused_result(arguments)
    return Comparison(_case(arguments), mapspace, result, (), (), _budget(arguments), arguments.seed)


def _case(arguments: argparse.Namespace) -> str:
    return " ".join(path.stem for path in arguments.specs)


def _budget(arguments: argparse.Namespace) -> Budget:
    from solver.heuristics.interface import Budget

    return Budget(arguments.budget, arguments.evaluations)


def _steps(comparison: Comparison, arguments: argparse.Namespace, silent: bool) -> Iterator[Step]:
    """Yield the steps that print a comparison, unless `silent`, and write it."""
    from solver.report.comparison import comparison_document, comparisons_csv, print_comparison
    from solver.report.pictures import draw_convergence

    yield from report_steps(
        lambda console: print_comparison(console, comparison),
        lambda: comparison_document(comparison),
        arguments.json,
        silent,
    )
    if arguments.csv is not None:
        yield lambda: write_output(arguments.csv, comparisons_csv([comparison]))
    if arguments.plot is None:
        return
    if comparison.trace or any(outcome.trace for outcome in comparison.outcomes):
        yield lambda: draw_convergence(comparison, arguments.plot)
    else:
        yield lambda: say_undrawn(arguments.plot, "mapping")
