"""The command ``assign``: choose a method for every layer, and print, write and draw it."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from model.spec.reader import parse_assignments
from model.spec.source import SpecError
from solver.cli.assign_arguments import PICTURES
from solver.cli.interrupt import interruptible
from solver.cli.options import EXIT_OF_STATUS
from solver.cli.output import STDOUT, OutputError, check_outputs, write_output

if TYPE_CHECKING:
    from model.network import Network
    from model.spec.assignment import LoadedNetwork
    from solver.assignment.array_search import ArrayChoice
    from solver.assignment.result import AssignResult


def assign_command(arguments: argparse.Namespace) -> int:
    """Assign methods to layers; write, draw and print the assignment."""
    outputs = (arguments.json, arguments.plot, arguments.show_graph)
    check_outputs(outputs, arguments.specs)
    pictures = [path for path in (arguments.plot, arguments.show_graph) if path and _is_picture(path)]
    _check_matplotlib(pictures)
    from model.spec.assignment import load_network  # noqa: PLC0415 (wrong arguments answer without numpy)

    loaded = load_network(arguments.specs, parse_assignments(arguments.variables), arguments.include_roots)
    _check_sizes(loaded, pictures)
    result, array = _solve(loaded, arguments)
    if not arguments.quiet and STDOUT not in outputs:
        from solver.cli.console import report_console  # noqa: PLC0415
        from solver.report.assignment import print_assignment  # noqa: PLC0415

        with report_console() as console:
            print_assignment(console, result, array, arguments.decomposition)
    if arguments.json is not None:
        from solver.report.assignment_document import assignment_document  # noqa: PLC0415
        from solver.report.document import json_text  # noqa: PLC0415

        write_output(arguments.json, json_text(assignment_document(result, array)))
    choice = None if result.best is None else result.best.choice
    if arguments.show_graph is not None:
        _write_graph(result.network, None, arguments.show_graph)
    if arguments.plot is not None and choice is not None:
        _write_graph(result.network, choice, arguments.plot)
    return EXIT_OF_STATUS[result.status]


def _solve(loaded: LoadedNetwork, arguments: argparse.Namespace) -> tuple[AssignResult, ArrayChoice | None]:
    """Assign methods, on the array that was given or on the best one within the budget."""
    from model.network import price  # noqa: PLC0415 (spec errors answer without the solvers)
    from model.spec.assignment.shapes import LARGEST_BUDGET  # noqa: PLC0415
    from solver.assignment import AssignOptions, assign  # noqa: PLC0415
    from solver.assignment.array_search import choose_array  # noqa: PLC0415

    options = AssignOptions(arguments.time_limit, arguments.jobs, arguments.seed)
    with interruptible() as stop:
        if loaded.network is not None:
            if arguments.dsp_budget is not None:
                raise SpecError(
                    "--dsp-budget needs a network with a `cost_model`; this one has explicit costs"
                )
            return assign(loaded.network, options, stop.is_set), None
        assert (
            loaded.shaped is not None and loaded.hardware is not None
        )  # the loader returns one or the other
        model, size = loaded.hardware.model, loaded.hardware.array
        budget = arguments.dsp_budget or loaded.hardware.dsp_budget
        if budget is not None and budget > LARGEST_BUDGET:
            raise SpecError(f"--dsp-budget must be at most {LARGEST_BUDGET:,}, but is {budget:,}")
        if budget is None and size is not None:
            return assign(price(loaded.shaped, model, *size), options, stop.is_set), None
        assert budget is not None  # the loader requires a size or a budget
        criterion = arguments.array_criterion
        array = choose_array(loaded.shaped, model, budget, criterion, options, stop.is_set)
        return array.result, array


def _check_matplotlib(pictures: Sequence[Path]) -> None:
    """Raise `OutputError` before the work where a picture is asked for and nothing can draw it."""
    if pictures and find_spec("matplotlib") is None:
        raise OutputError(
            f"cannot draw {pictures[0]}: matplotlib is missing (pip install 'tilewright[plot]')"
        )


def _check_sizes(loaded: LoadedNetwork, pictures: Sequence[Path]) -> None:
    """Raise `OutputError` before the work where a picture would show nothing."""
    from solver.report.layered_graph import most_arcs  # noqa: PLC0415
    from solver.report.layered_plot import LARGEST_PICTURE  # noqa: PLC0415

    network = loaded.network or loaded.shaped
    assert network is not None  # the loader returns one or the other
    if pictures and most_arcs(network) > LARGEST_PICTURE:
        raise OutputError(
            f"cannot draw {pictures[0]}: more than {LARGEST_PICTURE:,} arcs; a .dot file has no limit"
        )


def _is_picture(path: Path) -> bool:
    return path.suffix.lower() in PICTURES


def _write_graph(network: Network, choice: Sequence[int] | None, path: Path) -> None:
    from solver.report.layered_graph import LayeredGraph, dot_text  # noqa: PLC0415 (only when asked for)

    graph = LayeredGraph(network, choice)
    if not _is_picture(path):
        write_output(path, dot_text(graph))
        return
    from solver.report.layered_plot import draw  # noqa: PLC0415

    try:
        draw(graph, path)
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror}") from error
