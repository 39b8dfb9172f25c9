"""What the commands about one Einsum do: load, work, print."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from model.mapspace import Mapspace
from model.text.source import ConflictError, places_of
from solver.cli.mapped import mapped_spec_text, mapping_steps
from solver.cli.options import EXIT_OF_STATUS
from solver.cli.output import (
    NO_MAPPING,
    STDOUT,
    OutputError,
    Step,
    check_outputs,
    deliver,
    report_steps,
    write_document,
    write_stderr,
)
from solver.cli.refusal import refuse, refused_reasons, refused_result
from solver.cli.running import (
    link_transfer_notes,
    load_checked,
    load_empty,
    load_mapped,
    load_unmapped,
    search,
    sensitivities,
)
from solver.exit_codes import EXIT_INFEASIBLE, EXIT_OPTIMAL
from solver.result import Reason, Result

if TYPE_CHECKING:
    from model.cost import Evaluation
    from model.formats.timeloop import LoadedSpec
    from model.mapping import Mapping
    from solver.report.document import Document
    from solver.sensitivity import Effect


def map_command(arguments: argparse.Namespace) -> int:
    """Search the best mapping, or all that are best in energy and latency, write and print it.

    Raises
    ------
    OutputError, PlotError, SpecError, TooLargeError
        What `solver.cli.main.main` says to users.
    """
    if arguments.pareto:
        from solver.cli.pareto import pareto_command

        return pareto_command(arguments)
    if arguments.plot is not None:
        raise OutputError("--plot draws what --pareto finds: it needs --pareto")
    outputs = (arguments.json, arguments.mapping, arguments.mapped_spec, arguments.certificate)
    check_outputs(outputs, arguments.specs)
    try:  # a certificate needs the search's evidence
        loaded = load_unmapped(arguments, refuse_infeasible=arguments.certificate is None)
    except ConflictError as conflict:
        return refuse(conflict, _refusal(arguments))
    spec_text = mapped_spec_text(loaded, arguments)
    mapspace = loaded.mapspace
    result = search(mapspace, arguments)
    loaded = loaded.noted(link_transfer_notes(mapspace, result))
    mapspace = loaded.mapspace
    effects = sensitivities(mapspace, result, arguments) if arguments.sensitivity else None
    report = partial(_print_result, loaded, result, effects or ())
    document = partial(_document, mapspace, result, effects)
    silent = arguments.quiet or STDOUT in outputs
    steps = [
        *report_steps(report, document, arguments.json, silent),
        *mapping_steps(loaded, result.mapping, spec_text, arguments),
    ]
    if arguments.certificate is not None:
        steps.append(partial(_write_certificate, mapspace, result, arguments))
    deliver(steps)
    return EXIT_OF_STATUS[result.status]


def _refusal(arguments: argparse.Namespace) -> Iterator[Step]:
    """Yield what is written where constraints conflict plainly."""
    if arguments.json is not None:
        effects = () if arguments.sensitivity else None
        document = partial(_document, *refused_result(arguments), effects)
        yield partial(write_document, arguments.json, document)
    if (arguments.mapping, arguments.mapped_spec) != (None, None):
        yield partial(write_stderr, NO_MAPPING)


def _print_result(loaded: LoadedSpec, result: Result, effects: Sequence[Effect]) -> None:
    from solver.cli.console import report_console
    from solver.report.text import print_result

    places = places_of(loaded.document) if result.reasons else {}
    with report_console() as console:
        print_result(console, loaded.mapspace, result, places, effects)


def _document(mapspace: Mapspace, result: Result, effects: Sequence[Effect] | None) -> Document:
    from solver.report.document import result_document

    return result_document(mapspace, result, effects)


def _write_certificate(mapspace: Mapspace, result: Result, arguments: argparse.Namespace) -> None:
    from solver.cli.certify import write_certificate

    write_certificate(arguments.certificate, mapspace, result, arguments)


def evaluate_command(arguments: argparse.Namespace) -> int:
    """Price the mapping of a file, or that of the specs.

    Raises
    ------
    OutputError, SpecError
        What `solver.cli.main.main` says to users.
    """
    read = [path for path in (*arguments.specs, arguments.mapping) if path is not None]
    check_outputs((arguments.json,), read)
    try:
        loaded = load_mapped(arguments)
    except ConflictError as conflict:
        return refuse(conflict, _refused_evaluation(arguments))
    mapspace, mapping = loaded.mapspace, loaded.mapping
    assert mapping is not None  # the loader was told to require it
    from model.cost import evaluate

    evaluation = evaluate(mapspace.problem, mapspace.architecture, mapping, arguments.link_transfers)
    report = partial(_print_evaluation, mapspace, mapping, evaluation)
    document = partial(_evaluation_document, mapspace, mapping, evaluation)
    silent = arguments.quiet or arguments.json == STDOUT
    deliver(report_steps(report, document, arguments.json, silent))
    return EXIT_OPTIMAL if evaluation.valid else EXIT_INFEASIBLE


def _refused_evaluation(arguments: argparse.Namespace) -> Iterator[Step]:
    """Yield what is written where constraints conflict so plainly that no mapping is looked at."""
    if arguments.json is not None:
        mapspace = load_empty(arguments)
        document = partial(_refused_document, mapspace, refused_reasons(mapspace))
        yield partial(write_document, arguments.json, document)


def _print_evaluation(mapspace: Mapspace, mapping: Mapping, evaluation: Evaluation) -> None:
    from solver.cli.console import report_console
    from solver.report.text import print_evaluation

    with report_console() as console:
        print_evaluation(console, mapspace, mapping, evaluation)


def _evaluation_document(mapspace: Mapspace, mapping: Mapping, evaluation: Evaluation) -> Document:
    from solver.report.document import evaluation_document

    return evaluation_document(mapspace, mapping, evaluation)


def _refused_document(mapspace: Mapspace, reasons: Sequence[Reason]) -> Document:
    from solver.report.document import refused_document

    return refused_document(mapspace, reasons)


def check_command(arguments: argparse.Namespace) -> int:
    """Validate a spec and print what it says.

    Raises
    ------
    OutputError, SpecError
        What `solver.cli.main.main` says to users.
    """
    mapspace = load_checked(arguments)
    from solver.cli.console import report_console
    from solver.report.text import print_check

    with report_console() as console:
        print_check(console, mapspace)
    return EXIT_OPTIMAL
