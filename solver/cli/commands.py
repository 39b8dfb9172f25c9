"""What each command does: load, work, print."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from model.mapspace import Mapspace
from model.spec.reader import parse_assignments
from model.spec.timeloop import LoadedSpec, LoadOptions, load_timeloop
from solver.cli.arguments import EXIT_FEASIBLE, EXIT_INFEASIBLE, EXIT_OPTIMAL, EXIT_UNKNOWN
from solver.cli.interrupt import interruptible
from solver.cli.output import STDOUT, check_outputs, write_output
from solver.cli.progress import live_progress
from solver.result import Options, Result, Status

EXIT_OF_STATUS = {
    Status.OPTIMAL: EXIT_OPTIMAL,
    Status.FEASIBLE: EXIT_FEASIBLE,
    Status.INFEASIBLE: EXIT_INFEASIBLE,
    Status.UNKNOWN: EXIT_UNKNOWN,
}

MAPPING_NOTE = "the `mapping` in the specs is no constraint here; `evaluate` prices it"


def map_command(arguments: argparse.Namespace) -> int:
    """Search the best mapping, write and print it."""
    outputs = (arguments.json, arguments.mapping)
    check_outputs(outputs, arguments.specs)
    mapspace = _load_mapspace(arguments)
    result = _search(mapspace, arguments)
    if not arguments.quiet and STDOUT not in outputs:
        from solver.cli.console import report_console  # noqa: PLC0415
        from solver.report.text import print_result  # noqa: PLC0415

        with report_console() as console:
            print_result(console, mapspace, result)
    if arguments.json is not None:
        from solver.report.document import json_text, result_document  # noqa: PLC0415 (only when asked for)

        write_output(arguments.json, json_text(result_document(mapspace, result)))
    if arguments.mapping is not None and result.mapping is not None:
        from solver.report.timeloop_mapping import mapping_targets, mapping_yaml  # noqa: PLC0415

        targets = mapping_targets(mapspace.problem, mapspace.architecture, result.mapping)
        write_output(arguments.mapping, mapping_yaml(targets))
    return EXIT_OF_STATUS[result.status]


def evaluate_command(arguments: argparse.Namespace) -> int:
    """Price the mapping of a file."""
    inputs = [*arguments.specs, arguments.mapping]
    check_outputs((arguments.json,), inputs)
    loaded = _load(arguments, inputs, require_mapping=True)
    mapspace, mapping = loaded.mapspace, loaded.mapping
    assert mapping is not None  # the loader was told to require it
    from model.cost import evaluate  # noqa: PLC0415 (spec errors answer without it)

    evaluation = evaluate(mapspace.problem, mapspace.architecture, mapping, arguments.link_transfers)
    if arguments.json != STDOUT:
        from solver.cli.console import report_console  # noqa: PLC0415
        from solver.report.text import print_evaluation  # noqa: PLC0415

        with report_console() as console:
            print_evaluation(console, mapspace, mapping, evaluation)
    if arguments.json is not None:
        from solver.report.document import evaluation_document, json_text  # noqa: PLC0415

        write_output(arguments.json, json_text(evaluation_document(mapspace, mapping, evaluation)))
    return EXIT_OPTIMAL if evaluation.valid else EXIT_INFEASIBLE


def check_command(arguments: argparse.Namespace) -> int:
    """Validate a spec and print what it says."""
    mapspace = _load_mapspace(arguments)
    from solver.cli.console import report_console  # noqa: PLC0415 (spec errors answer without it)
    from solver.report.text import print_check  # noqa: PLC0415

    with report_console() as console:
        print_check(console, mapspace)
    return EXIT_OPTIMAL


COMMANDS: dict[str, Callable[[argparse.Namespace], int]] = {
    "map": map_command,
    "evaluate": evaluate_command,
    "check": check_command,
}


def _load(arguments: argparse.Namespace, paths: Sequence[Path], require_mapping: bool) -> LoadedSpec:
    options = LoadOptions(
        ignore_sparse=arguments.ignore_sparse,
        timeloop_padding=arguments.timeloop_padding,
        require_mapping=require_mapping,
        allow_include=tuple(arguments.include_roots),
    )
    return load_timeloop(paths, parse_assignments(arguments.variables), options)


def _load_mapspace(arguments: argparse.Namespace) -> Mapspace:
    """Load a spec for a command that does not price the spec's own mapping, and say so."""
    loaded = _load(arguments, arguments.specs, require_mapping=False)
    if loaded.mapping is None:
        return loaded.mapspace
    return replace(loaded.mapspace, notes=(*loaded.notes, MAPPING_NOTE))


def _search(mapspace: Mapspace, arguments: argparse.Namespace) -> Result:
    from solver.search import map_einsum  # noqa: PLC0415 (spec errors answer without numpy and ortools)

    options = Options(
        objectives=arguments.objective,
        time_limit_s=arguments.time_limit,
        jobs=arguments.jobs,
        seed=arguments.seed,
        memory_limit_mib=arguments.memory_limit,
    )
    units = mapspace.architecture.units_per_pj
    with interruptible() as stop, live_progress(units, arguments.quiet) as on_progress:
        return map_einsum(mapspace, options, on_progress=on_progress, should_stop=stop.is_set)
