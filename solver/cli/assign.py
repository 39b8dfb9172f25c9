"""The command ``assign``: choose a method for every layer, and print, write and draw the choice."""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
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
from solver.cli.progress import interruptible, logged
from solver.cli.running import EXIT_OF_STATUS, load_options
from solver.cli.searches import run_searches
from solver.report.figures import percent, seconds_text
from solver.report.pictures import FORMATS
from solver.result import relative_gap

if TYPE_CHECKING:
    from model.assignment import CostedNetwork, Hardware, ShapedNetwork
    from model.formats.assignment import LoadedAssignment
    from solver.assignment.array_search import ArrayChoice
    from solver.assignment.mapped import MappedAssignment
    from solver.assignment.result import AssignOptions, AssignResult

    Solved = tuple[AssignResult, ArrayChoice | None, MappedAssignment | None]  # the array if it was chosen


def assign_command(arguments: argparse.Namespace) -> int:
    """Assign methods to layers; write, draw and print the assignment."""
    outputs = (arguments.json, arguments.plot, arguments.show_graph, arguments.report, arguments.answer)
    check_outputs(outputs, [*arguments.specs, *([arguments.methods] if arguments.methods else [])])
    pictures = [path for path in (arguments.plot, arguments.show_graph) if path and _is_picture(path)]
    if pictures:
        from solver.report.layered_graph import check_drawing

        check_drawing(pictures[0])
    if arguments.uneven:
        raise SpecError("`assign` does not support --uneven")
    solved = _by_costs(arguments, pictures) if arguments.methods is None else _by_mapper(arguments, pictures)
    deliver(_output_steps(solved, arguments, outputs))
    return EXIT_OF_STATUS[solved[0].status]


def _by_costs(arguments: argparse.Namespace, pictures: Sequence[Path]) -> Solved:
    """Assign by the costs of the specs, or of their cost model on the array that is given or chosen."""
    for name in ("objective", "factors", "cache", "no-cache", "resume", "cluster"):
        if getattr(arguments, name.replace("-", "_")):
            raise SpecError(f"--{name} needs --methods: without it, no layer is mapped")
    loaded = _load_network(arguments)
    network = loaded.network or loaded.shaped
    assert network is not None  # the loader returns one or the other
    _check_drawable(network, pictures)
    hardware, criterion = _hardware(loaded, arguments), arguments.array_criterion
    if criterion != TOTAL and (hardware is None or hardware.dsp_budget is None):
        raise SpecError("--array-criterion needs a budget of multipliers: without it, no array is chosen")
    from solver.assignment.array_search import assign_costed

    with interruptible() as stop, _shown_progress(arguments) as on_progress:
        solved = assign_costed(network, hardware, criterion, _options(arguments), stop.is_set, on_progress)
        return *solved, None


def _load_network(arguments: argparse.Namespace) -> LoadedAssignment:
    """Read a network, or an instance of the contest on intra-operator parallelism."""
    from model.formats.assignment import LoadedAssignment, load_assignment
    from model.formats.assignment.contest import is_contest_file, load_contest

    contests = [path for path in arguments.specs if is_contest_file(path)]
    if not contests:
        if arguments.answer is not None:
            raise SpecError("--answer needs an instance in JSON, which this network is not")
        limits, variables = load_options(arguments).files.limits, parse_assignments(arguments.variables)
        return load_assignment(arguments.specs, variables, arguments.include_roots, limits)
    if len(arguments.specs) > 1:
        raise SpecError(f"{contests[0]} is a complete instance: give no other files")
    if arguments.variables:
        raise SpecError(f"{contests[0]} has no variables to set")
    return LoadedAssignment(network=load_contest(contests[0]))


@contextmanager
def _shown_progress(arguments: argparse.Namespace) -> Iterator[Callable[[int | None, int], None] | None]:
    """Yield what is told of totals and bounds, and shows them while a search runs; None if quiet."""
    if arguments.quiet:
        yield None
        return
    line, started = "starting", time.monotonic()

    def hear(total: int | None, bound: int) -> None:
        nonlocal line
        line = progress_text(total, bound, time.monotonic() - started)

    if not sys.stderr.isatty():
        with logged(lambda: line):
            yield hear
        return
    from rich.console import Console

    with Console(stderr=True, markup=False).status(line) as status:

        def show(total: int | None, bound: int) -> None:
            status.update(progress_text(total, bound, time.monotonic() - started))

        yield show


def progress_text(total: int | None, bound: int, seconds: float) -> str:
    """Return incumbent, bound, gap and seconds in one line; costs in steps."""
    gap = relative_gap(total, bound)
    incumbent = "-" if total is None else f"{total:,}"
    parts = [f"incumbent {incumbent}", f"bound {bound:,}", f"gap {'-' if gap is None else percent(gap)}"]
    return "  ".join([*parts, seconds_text(seconds)])


def _by_mapper(arguments: argparse.Namespace, pictures: Sequence[Path]) -> Solved:
    """Assign by the optima that the mapper finds."""
    if arguments.answer is not None:
        raise SpecError("--answer writes the answer to an instance in JSON, which needs no --methods")
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
    _check_drawable(problem.shaped, pictures)
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


def _check_drawable(network: CostedNetwork | ShapedNetwork, pictures: Sequence[Path]) -> None:
    """Refuse before the work to draw a picture that would show nothing."""
    from solver.report.layered_graph import LARGEST_PICTURE, most_arcs

    if pictures and most_arcs(network) > LARGEST_PICTURE:
        raise OutputError(
            f"cannot draw {pictures[0]}: more than {LARGEST_PICTURE:,} arcs; a .dot file has no limit"
        )


def _is_picture(path: Path) -> bool:
    return path.suffix.lower() in FORMATS


def _output_steps(
    solved: Solved, arguments: argparse.Namespace, outputs: Sequence[Path | None]
) -> Iterator[Step]:
    """Yield the steps that print, write and draw an assignment."""
    from solver.report.assignment import assignment_document

    result = solved[0]
    document = partial(assignment_document, *solved)
    yield from result_steps(document, arguments, *outputs, verbose=arguments.decomposition)
    if arguments.answer is not None:
        choice = () if result.best is None else result.best.choice
        yield partial(write_output, arguments.answer, f"[{', '.join(map(str, choice))}]\n")
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
