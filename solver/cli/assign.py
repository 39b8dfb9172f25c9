"""The command ``assign``: choose a method for every layer, and print, write and draw it."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from model.cascade import Network
from model.objective import ADDITIVE
from model.text.reader import parse_assignments
from model.text.source import SpecError
from solver.cli.arguments import PICTURES
from solver.cli.network_running import run_searches
from solver.cli.options import EXIT_OF_STATUS
from solver.cli.output import (
    STDOUT,
    OutputError,
    check_outputs,
    deliver,
    report_steps,
    say_undrawn,
    write_output,
)
from solver.cli.progress import interruptible
from solver.cli.running import load_options
from solver.criteria import TOTAL

if TYPE_CHECKING:
    from model.assignment import CostedNetwork, Hardware, ShapedNetwork
    from model.formats.assignment import LoadedAssignment
    from solver.assignment.array_search import ArrayChoice
    from solver.assignment.mapped import MappedAssignment
    from solver.assignment.result import AssignOptions, AssignResult
    from solver.report.document import Document


def assign_command(arguments: argparse.Namespace) -> int:
    """Assign methods to layers; write, draw and print the assignment.

    Raises
    ------
    OutputError, PlotError, SpecError
        What `solver.cli.main.main` says to users.
    """
    outputs = (arguments.json, arguments.plot, arguments.show_graph)
    check_outputs(outputs, [*arguments.specs, *([arguments.methods] if arguments.methods else [])])
    pictures = [path for path in (arguments.plot, arguments.show_graph) if path and _is_picture(path)]
    _check_matplotlib(pictures)
    solved = _by_costs(arguments, pictures) if arguments.methods is None else _by_mapper(arguments, pictures)
    result = solved.result
    silent = arguments.quiet or STDOUT in outputs
    report, document = partial(_print, solved, arguments.decomposition), partial(_document, solved)
    steps = [*report_steps(report, document, arguments.json, silent)]
    choice = None if result.best is None else result.best.choice
    if arguments.show_graph is not None:
        steps.append(partial(_write_graph, result.network, None, arguments.show_graph))
    if arguments.plot is not None and choice is None:
        steps.append(partial(say_undrawn, arguments.plot, "assignment"))
    elif arguments.plot is not None:
        steps.append(partial(_write_graph, result.network, choice, arguments.plot))
    deliver(steps)
    return EXIT_OF_STATUS[result.status]


@dataclass(frozen=True)
class _Solved:
    """An assignment, with the array that was chosen for it, or with the costs that the mapper found."""

    result: AssignResult
    array: ArrayChoice | None = None
    mapped: MappedAssignment | None = None


def _by_costs(arguments: argparse.Namespace, pictures: Sequence[Path]) -> _Solved:
    """Assign by the costs of the specs, or of their cost model on the array that is given or chosen."""
    _refuse_mapper_options(arguments)
    from model.formats.assignment import load_assignment

    limits = load_options(arguments).limits
    variables = parse_assignments(arguments.variables)
    loaded = load_assignment(arguments.specs, variables, arguments.include_roots, limits)
    network = loaded.network or loaded.shaped
    assert network is not None  # the loader returns one or the other
    _check_sizes(network, pictures)
    hardware, criterion = _hardware(loaded, arguments), arguments.array_criterion
    if criterion != TOTAL and (hardware is None or hardware.dsp_budget is None):
        raise SpecError("--array-criterion needs a budget of multipliers: without, no array is chosen")
    from solver.assignment.array_search import assign_costed

    with interruptible() as stop:
        return _Solved(*assign_costed(network, hardware, criterion, _options(arguments), stop.is_set))


def _by_mapper(arguments: argparse.Namespace, pictures: Sequence[Path]) -> _Solved:
    """Assign by the optima that the mapper finds."""
    if arguments.dsp_budget is not None:
        raise SpecError("--dsp-budget and --methods exclude each other: an architecture has its array")
    if arguments.array_criterion != TOTAL:
        raise SpecError("--array-criterion and --methods exclude each other: an architecture has its array")
    from model.formats.assignment.methods import load_method_network

    variables, options = parse_assignments(arguments.variables), load_options(arguments)
    problem = load_method_network(arguments.specs, arguments.methods, variables, options)
    _check_sizes(problem.shaped, pictures)
    (objective,) = arguments.objective or ADDITIVE[:1]
    from solver.assignment.mapped import (
        assign_mapped,
        searches_of,
    )
    from solver.network import map_network

    searches = searches_of(problem)
    network = Network(problem.shaped.name, tuple(searches.values()))
    answers, _ = run_searches(
        arguments,
        lambda options, how: map_network(network, replace(options, objectives=(objective,)), how),
    )
    # By identity: names are for people, and an interrupted run answers only some.
    found = {id(answer.layer): answer.result for answer in answers.layers if answer.result is not None}
    results = {pair: found[id(layer)] for pair, layer in searches.items() if id(layer) in found}
    with interruptible() as stop:
        mapped = assign_mapped(problem, results, objective, _options(arguments), stop.is_set)
    return _Solved(mapped.result, mapped=mapped)


def _options(arguments: argparse.Namespace) -> AssignOptions:
    from solver.assignment import AssignOptions

    return AssignOptions(arguments.time_limit, arguments.jobs, arguments.seed)


def _refuse_mapper_options(arguments: argparse.Namespace) -> None:
    for name in ("objective", "cache", "no-cache", "resume", "cluster"):
        if getattr(arguments, name.replace("-", "_")):
            raise SpecError(f"--{name} needs --methods: without, nothing is mapped")


def _hardware(loaded: LoadedAssignment, arguments: argparse.Namespace) -> Hardware | None:
    """Return what prices a network with shapes: that of the specs, or with the budget of the arguments."""
    from model.formats.assignment.networks import LARGEST_BUDGET

    budget = arguments.dsp_budget
    if budget is None:
        return loaded.hardware
    if loaded.hardware is None:
        raise SpecError("--dsp-budget needs a network with a `cost_model`; this one has explicit costs")
    if budget > LARGEST_BUDGET:
        raise SpecError(f"--dsp-budget must be at most {LARGEST_BUDGET:,}, but is {budget:,}")
    return replace(loaded.hardware, array=None, dsp_budget=budget)


def _print(solved: _Solved, all_steps: bool) -> None:
    from solver.cli.console import report_console
    from solver.report.assignment import print_assignment
    from solver.report.mapped_assignment import gain_lines, print_costs

    with report_console() as console:
        remarks = []
        if solved.mapped is not None:
            print_costs(console, solved.mapped)
            remarks = list(gain_lines(solved.mapped))
        print_assignment(console, solved.result, solved.array, all_steps, remarks)


def _document(solved: _Solved) -> Document:
    from solver.report.assignment_document import assignment_document
    from solver.report.mapped_assignment import mapped_document

    document = assignment_document(solved.result, solved.array)
    further = {} if solved.mapped is None else mapped_document(solved.mapped)
    return {**document, **further}


def _check_matplotlib(pictures: Sequence[Path]) -> None:
    """Raise `OutputError` before the work where a picture is asked for and nothing can draw it."""
    if pictures and find_spec("matplotlib") is None:
        raise OutputError(
            f"cannot draw {pictures[0]}: matplotlib is missing (pip install 'tilewright[plot]')"
        )


def _check_sizes(network: CostedNetwork | ShapedNetwork, pictures: Sequence[Path]) -> None:
    """Raise `OutputError` before the work where a picture would show nothing."""
    from solver.report.layered_graph import most_arcs
    from solver.report.layered_plot import LARGEST_PICTURE

    if pictures and most_arcs(network) > LARGEST_PICTURE:
        raise OutputError(
            f"cannot draw {pictures[0]}: more than {LARGEST_PICTURE:,} arcs; a .dot file has no limit"
        )


def _is_picture(path: Path) -> bool:
    return path.suffix.lower() in PICTURES


def _write_graph(network: CostedNetwork, choice: Sequence[int] | None, path: Path) -> None:
    from solver.report.layered_graph import LayeredGraph, dot_text

    graph = LayeredGraph(network, choice)
    if not _is_picture(path):
        write_output(path, dot_text(graph))
        return
    from solver.report.layered_plot import draw

    draw(graph, path)
