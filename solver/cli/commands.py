"""The commands about one Einsum: ``map``, with ``--pareto``; ``evaluate``; ``check``; ``explain``."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from model.mapspace import EXACT, TIMELOOP, Counting, Mapspace
from model.text.source import ConflictError, places_of
from solver.cli.arguments import EXPLAIN_TIME_LIMIT_S
from solver.cli.mapped import mapped_spec_text, mapping_steps
from solver.cli.options import EXIT_OF_STATUS
from solver.cli.output import (
    NO_MAPPING,
    STDOUT,
    OutputError,
    Step,
    check_outputs,
    deliver,
    report_console,
    report_steps,
    say_undrawn,
    write_document,
    write_stderr,
)
from solver.cli.progress import watched
from solver.cli.running import (
    link_transfer_notes,
    load_checked,
    load_empty,
    load_mapped,
    load_unmapped,
    refuse,
    refused_reasons,
    refused_result,
    search,
    search_options,
    sensitivities,
)
from solver.exit_codes import EXIT_INFEASIBLE, EXIT_OPTIMAL, EXIT_UNKNOWN
from solver.report.pictures import check_plot
from solver.result import Phase, Progress, Reason, Status, Termination

if TYPE_CHECKING:
    from solver.explain import CostReport
    from solver.pareto import Front

SINGLE = ("objective", "mapping", "mapped-spec", "certificate", "sensitivity")
"""Options about one best mapping, which `map --pareto` refuses."""


def map_command(arguments: argparse.Namespace) -> int:
    """Search the best mapping, or the energy-latency front; write and print it."""
    if arguments.pareto:
        return _pareto(arguments)
    if arguments.plot is not None:
        raise OutputError("--plot draws what --pareto finds: it needs --pareto")
    outputs = (arguments.json, arguments.mapping, arguments.mapped_spec, arguments.certificate)
    check_outputs(outputs, arguments.specs)
    try:  # a certificate needs the search's evidence
        loaded = load_unmapped(arguments, refuse_infeasible=arguments.certificate is None)
    except ConflictError as conflict:
        return refuse(conflict, _refused_map(arguments))
    spec_text = mapped_spec_text(loaded, arguments)
    mapspace = loaded.mapspace
    result = search(mapspace, arguments)
    loaded = loaded.noted(link_transfer_notes(mapspace, result))
    mapspace = loaded.mapspace
    effects = sensitivities(mapspace, result, arguments) if arguments.sensitivity else None
    from solver.report.document import result_document
    from solver.report.text import print_result

    places = places_of(loaded.document) if result.reasons else {}
    steps: list[Step] = [
        *report_steps(
            lambda console: print_result(console, mapspace, result, places, effects or ()),
            lambda: result_document(mapspace, result, effects),
            arguments.json,
            silent=arguments.quiet or STDOUT in outputs,
        ),
        *mapping_steps(loaded, result.mapping, spec_text, arguments),
    ]
    if arguments.certificate is not None:
        from solver.cli.certify import write_certificate

        steps.append(lambda: write_certificate(arguments.certificate, mapspace, result, arguments))
    deliver(steps)
    return EXIT_OF_STATUS[result.status]


def _refused_map(arguments: argparse.Namespace) -> Iterator[Step]:
    """Yield the steps that write the outputs of `map` for constraints in plain conflict."""
    if arguments.json is not None:
        from solver.report.document import result_document

        mapspace, result = refused_result(arguments)
        effects = () if arguments.sensitivity else None
        yield lambda: write_document(arguments.json, lambda: result_document(mapspace, result, effects))
    if (arguments.mapping, arguments.mapped_spec) != (None, None):
        yield lambda: write_stderr(NO_MAPPING)


def _pareto(arguments: argparse.Namespace) -> int:
    """Find the energy-latency front; write and print it."""
    for name in SINGLE:
        if getattr(arguments, name.replace("-", "_")):
            raise OutputError(f"--{name} is about one best mapping; --pareto finds a front of mappings")
    check_outputs((arguments.json, arguments.plot), arguments.specs)
    check_plot(arguments.plot)
    try:
        loaded = load_unmapped(arguments)
    except ConflictError as conflict:
        return refuse(conflict, _refused_front(arguments))
    mapspace = loaded.mapspace
    front = search_front(mapspace, arguments)
    from solver.report.front import front_document, print_front

    places = places_of(loaded.document) if front.reasons else {}
    steps = [
        *report_steps(
            lambda console: print_front(console, mapspace, front, places),
            lambda: front_document(mapspace, front),
            arguments.json,
            silent=arguments.quiet or arguments.json == STDOUT,
        )
    ]
    if arguments.plot is not None:
        steps.append(lambda: _draw(front, mapspace, arguments))
    deliver(steps)
    return EXIT_OF_STATUS[front.status]


def _refused_front(arguments: argparse.Namespace) -> Iterator[Step]:
    """Yield the steps that write the outputs of `map --pareto` for constraints in plain conflict."""
    if arguments.json is not None:
        from solver.pareto import Front
        from solver.report.front import front_document

        mapspace = load_empty(arguments)
        reasons = refused_reasons(mapspace, arguments.time_limit)
        units = mapspace.architecture.units_per_pj
        front = Front(Status.INFEASIBLE, Termination.PROVEN, units, reasons=reasons)
        yield lambda: write_document(arguments.json, lambda: front_document(mapspace, front))
    if arguments.plot is not None:
        yield lambda: say_undrawn(arguments.plot, "point")


def search_front(mapspace: Mapspace, arguments: argparse.Namespace) -> Front:
    """Find the energy-latency front with live progress; an interrupt ends the search early."""
    from solver.fallback import front_or_explain

    with watched(mapspace, arguments.quiet) as callbacks:
        return front_or_explain(mapspace, search_options(arguments), *callbacks)


def _draw(front: Front, mapspace: Mapspace, arguments: argparse.Namespace) -> None:
    """Draw the points of a front, if it has any."""
    if not front.points:
        say_undrawn(arguments.plot, "point")
        return
    from solver.report.pictures import draw_front

    title = mapspace.problem.name or " ".join(path.stem for path in arguments.specs)
    draw_front(front, title, arguments.plot)


def evaluate_command(arguments: argparse.Namespace) -> int:
    """Price the mapping of a file, or that of the specs."""
    if arguments.link_transfers:
        arguments.counting = _links_counting(arguments)
    read = [path for path in (*arguments.specs, arguments.mapping) if path is not None]
    check_outputs((arguments.json,), read)
    try:
        loaded = load_mapped(arguments)
    except ConflictError as conflict:
        return refuse(conflict, _refused_evaluation(arguments))
    mapspace, mapping = loaded.mapspace, loaded.mapping
    assert mapping is not None  # `load_mapped` requires it
    from model.cost import evaluate
    from solver.report.document import evaluation_document
    from solver.report.text import print_evaluation

    evaluation = evaluate(
        mapspace.problem, mapspace.architecture, mapping, mapspace.counting, arguments.link_transfers
    )
    deliver(
        report_steps(
            lambda console: print_evaluation(console, mapspace, mapping, evaluation),
            lambda: evaluation_document(mapspace, mapping, evaluation),
            arguments.json,
            silent=arguments.quiet or arguments.json == STDOUT,
        )
    )
    return EXIT_OPTIMAL if evaluation.valid else EXIT_INFEASIBLE


def _links_counting(arguments: argparse.Namespace) -> Counting:
    """Return the only rule that counts link transfers."""
    if arguments.counting == EXACT:
        arguments.refuse("--link-transfers counts as Timeloop does, and does not go with --counting exact")
    return TIMELOOP


def _refused_evaluation(arguments: argparse.Namespace) -> Iterator[Step]:
    """Yield the step that writes the document of `evaluate` for constraints in plain conflict."""
    if arguments.json is not None:
        from solver.report.document import evaluation_document

        mapspace = load_empty(arguments)
        reasons = refused_reasons(mapspace)
        yield lambda: write_document(
            arguments.json, lambda: evaluation_document(mapspace, None, None, reasons)
        )


def check_command(arguments: argparse.Namespace) -> int:
    """Validate a spec; print its problem, hierarchy and size of the mapspace."""
    mapspace = load_checked(arguments)
    from solver.report.text import print_check

    with report_console() as console:
        print_check(console, mapspace)
    return EXIT_OPTIMAL


def explain_command(arguments: argparse.Namespace) -> int:
    """Diagnose a spec; price its constraints if it allows mappings."""
    check_outputs((arguments.json,), arguments.specs)
    loaded = load_unmapped(arguments, refuse_infeasible=False)
    mapspace = loaded.mapspace
    reasons, costs = _explain(mapspace, arguments)
    from solver.report.reasons import explanation_document, print_explanation

    deliver(
        report_steps(
            lambda console: print_explanation(
                console, loaded.notes, reasons, costs, places_of(loaded.document)
            ),
            lambda: explanation_document(mapspace, reasons, costs),
            arguments.json,
            silent=arguments.json == STDOUT,
        )
    )
    if costs is None:
        return EXIT_INFEASIBLE
    return EXIT_OPTIMAL if costs.baseline.mapping is not None else EXIT_UNKNOWN


def _explain(
    mapspace: Mapspace, arguments: argparse.Namespace
) -> tuple[tuple[Reason, ...], CostReport | None]:
    """Return the reasons of an infeasible mapspace, or the costs of a feasible one."""
    from solver.explain import Verdict, constraint_costs, diagnose, explain_infeasible, reasons_time_s
    from solver.fallback import map_from

    with watched(mapspace) as (on_progress, should_stop):
        if on_progress is not None:
            on_progress(Progress(Phase.EXPLANATION, 0.0, mapspace.objectives[0]))
        time_s = reasons_time_s(arguments.time_limit)
        diagnosis = diagnose(mapspace, should_stop, time_s)
        if diagnosis.verdict is Verdict.INFEASIBLE:
            return diagnosis.reasons, None
        options = search_options(arguments)
        if options.time_limit_s is None:
            options = replace(options, time_limit_s=EXPLAIN_TIME_LIMIT_S)
        report = constraint_costs(mapspace, options, map_from, on_progress, should_stop)
        if report.baseline.status is not Status.INFEASIBLE:
            return (), report
        # The search proved what the diagnosis could not decide in its time.
        return explain_infeasible(mapspace, should_stop, time_s), None
