"""The command ``assign``: choose a method for every layer, and print, write and draw the choice."""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from model.cascade import Network
from model.objective import ADDITIVE, TOTAL
from model.text.reader import parse_assignments
from model.text.source import SpecError
from solver.cli.output import (
    OutputError,
    Step,
    check_outputs,
    deliver,
    result_steps,
    say_undrawn,
    write_output,
)
from solver.cli.progress import interruptible
from solver.cli.running import EXIT_OF_STATUS, load_options
from solver.cli.searches import run_searches
from solver.report.pictures import FORMATS

if TYPE_CHECKING:
    from model.assignment import CostedNetwork, Hardware, ShapedNetwork
    from model.formats.assignment import LoadedAssignment
    from solver.assignment.array_search import ArrayChoice
    from solver.assignment.mapped import MappedAssignment
    from solver.assignment.result import AssignOptions, AssignResult

    Solved = tuple[AssignResult, ArrayChoice | None, MappedAssignment | None]  # the array if it was chosen


def assign_command(arguments: argparse.Namespace) -> int:
    """Assign methods to layers; write, draw and print the assignment."""
    outputs = (arguments.json, arguments.plot, arguments.show_graph, arguments.report)
    check_outputs(outputs, [*arguments.specs, *([arguments.methods] if arguments.methods else [])])
    pictures = [path for path in (arguments.plot, arguments.show_graph) if path and _is_picture(path)]
    if pictures:
        from solver.report.layered_graph import check_drawing

        check_drawing(pictures[0])
    if arguments.uneven:
        raise SpecError("`assign` does not support --uneven")
    solved = _by_costs(arguments, pictures) if arguments.methods is None else _by_mapper(arguments, pictures)
    deliver(_steps(solved, arguments, outputs))
    return EXIT_OF_STATUS[solved[0].status]


def _by_costs(arguments: argparse.Namespace, pictures: Sequence[Path]) -> Solved:
    """Assign by the costs of the specs, or of their cost model on the array that is given or chosen."""
    for name in ("objective", "factors", "cache", "no-cache", "resume", "cluster"):
        if getattr(arguments, name.replace("-", "_")):
            raise SpecError(f"--{name} needs --methods: without it, no layer is mapped")
    from model.formats.assignment import load_assignment

    limits = load_options(arguments).files.limits
    variables = parse_assignments(arguments.variables)
    loaded = load_assignment(arguments.specs, variables, arguments.include_roots, limits)
    network = loaded.network or loaded.shaped
    assert network is not None  # the loader returns one or the other
    _check_sizes(network, pictures)
    hardware, criterion = _hardware(loaded, arguments), arguments.array_criterion
    if criterion != TOTAL and (hardware is None or hardware.dsp_budget is None):
        raise SpecError("--array-criterion needs a budget of multipliers: without it, no array is chosen")
    from solver.assignment.array_search import assign_costed

    with interruptible() as stop:
        return *assign_costed(network, hardware, criterion, _options(arguments), stop.is_set), None


def _by_mapper(arguments: argparse.Namespace, pictures: Sequence[Path]) -> Solved:
    """Assign by the optima that the mapper finds."""
    for option, given in (
        ("dsp-budget", arguments.dsp_budget is not None),
        ("array-criterion", arguments.array_criterion != TOTAL),
    ):
        if given:
            raise SpecError(
                f"--{option} and --methods exclude each other: the architecture defines the array"
            )
    from model.formats.assignment.methods import load_method_network

    variables, options = parse_assignments(arguments.variables), load_options(arguments)
    problem = load_method_network(arguments.specs, arguments.methods, variables, options)
    _check_sizes(problem.shaped, pictures)
    (objective,) = arguments.objective or ADDITIVE[:1]
    from solver.assignment.mapped import assign_mapped, searches_of
    from solver.network import map_network

    searches = searches_of(problem)
    network = Network(problem.shaped.name, tuple(searches.values()))
    answers, _ = run_searches(
        arguments, lambda options, run: map_network(network, replace(options, objectives=(objective,)), run)
    )
    # By identity: names are for people, and an interrupted run answers only some.
    found = {id(answer.layer): answer.result for answer in answers.layers if answer.result is not None}
    results = {pair: found[id(layer)] for pair, layer in searches.items() if id(layer) in found}
    with interruptible() as stop:
        mapped = assign_mapped(problem, results, objective, _options(arguments), stop.is_set)
    return mapped.result, None, mapped


def _options(arguments: argparse.Namespace) -> AssignOptions:
    from solver.assignment import AssignOptions

    limit_s = None if arguments.time_limit == math.inf else arguments.time_limit
    return AssignOptions(limit_s, arguments.jobs, arguments.seed)


def _hardware(loaded: LoadedAssignment, arguments: argparse.Namespace) -> Hardware | None:
    """Return the cost model of a network with shapes: that of the specs, or one with the given budget."""
    from model.formats.assignment.networks import LARGEST_BUDGET

    budget = arguments.dsp_budget
    if budget is None:
        return loaded.hardware
    if loaded.hardware is None:
        raise SpecError("--dsp-budget needs a network with a `cost_model`; this one has explicit costs")
    if budget > LARGEST_BUDGET:
        raise SpecError(f"--dsp-budget must be at most {LARGEST_BUDGET:,}, but is {budget:,}")
    return replace(loaded.hardware, array=None, dsp_budget=budget)


def _check_sizes(network: CostedNetwork | ShapedNetwork, pictures: Sequence[Path]) -> None:
    """Refuse before the work to draw a picture that would show nothing."""
    from solver.report.layered_graph import LARGEST_PICTURE, most_arcs

    if pictures and most_arcs(network) > LARGEST_PICTURE:
        raise OutputError(
            f"cannot draw {pictures[0]}: more than {LARGEST_PICTURE:,} arcs; a .dot file has no limit"
        )


def _is_picture(path: Path) -> bool:
    return path.suffix.lower() in FORMATS


def _steps(solved: Solved, arguments: argparse.Namespace, outputs: Sequence[Path | None]) -> Iterator[Step]:
    """Yield the steps that print, write and draw an assignment."""
    from solver.report.assignment import assignment_document

    result = solved[0]
    document = partial(assignment_document, *solved)
    yield from result_steps(document, arguments, *outputs, verbose=arguments.decomposition)
    if arguments.show_graph is not None:
        yield partial(_write_graph, result.network, None, arguments.show_graph)
    if arguments.plot is not None and result.best is not None:
        yield partial(_write_graph, result.network, result.best.choice, arguments.plot)
    elif arguments.plot is not None:
        yield partial(say_undrawn, arguments.plot, "assignment")


def _write_graph(network: CostedNetwork, choice: Sequence[int] | None, path: Path) -> None:
    from solver.report.layered_graph import LayeredGraph, dot_text, draw

    graph = LayeredGraph(network, choice)
    if not _is_picture(path):
        write_output(path, dot_text(graph))
        return
    draw(graph, path)
