"""The command ``tile``: tile one operator and print how."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from model.text.source import ConflictError
from solver.cli.mapped import mapped_spec_text, mapping_steps
from solver.cli.output import (
    NO_MAPPING,
    STDOUT,
    Step,
    check_outputs,
    deliver,
    report_steps,
    write_document,
    write_stderr,
)
from solver.cli.refusal import refuse
from solver.cli.running import load_mapspace, load_unmapped
from solver.cli.tile_arguments import check_tile_arguments, described_operator
from solver.exit_codes import EXIT_INFEASIBLE, EXIT_OPTIMAL

if TYPE_CHECKING:
    from model.mapspace import Mapspace
    from model.tiling.tilings import Backend
    from solver.report.document import Document
    from solver.report.tiling import TilingReport


def tile_command(arguments: argparse.Namespace) -> int:
    """Tile an operator, or a spec's problem, as the arguments say; write and print the tiling.

    Raises
    ------
    OutputError, SpecError
        What `solver.cli.main.main` says to users.
    SystemExit
        With 2, if options do not go together.
    """
    check_tile_arguments(arguments)
    outputs = (arguments.json, arguments.mapping, arguments.mapped_spec)
    check_outputs(outputs, (*(arguments.specs or ()), Path(arguments.backend)))
    try:
        report, writing = (_tiled(arguments), []) if arguments.specs is None else _tiled_onto(arguments)
    except ConflictError as conflict:
        return refuse(conflict, _refusal(arguments, conflict))
    printed, document = partial(_print, report), partial(_document, report)
    steps = report_steps(printed, document, arguments.json, silent=STDOUT in outputs)
    deliver([*steps, *writing])
    return EXIT_INFEASIBLE if report.tiling is None else EXIT_OPTIMAL


def _refusal(arguments: argparse.Namespace, conflict: ConflictError) -> Iterator[Step]:
    """Yield what is written where constraints conflict plainly."""
    if arguments.json is not None:
        from solver.report.tiling import TilingReport

        mapspace = load_mapspace(arguments, refuse_infeasible=False)
        names = mapspace.problem.name, mapspace.architecture.name
        document = partial(_document, TilingReport(*names, reason=str(conflict)))
        yield partial(write_document, arguments.json, document)
    if (arguments.mapping, arguments.mapped_spec) != (None, None):
        yield partial(write_stderr, NO_MAPPING)


def _print(report: TilingReport) -> None:
    from solver.cli.console import report_console
    from solver.report.tiling import print_tiling

    with report_console() as console:
        print_tiling(console, report)


def _document(report: TilingReport) -> Document:
    from solver.report.tiling import tiling_document

    return tiling_document(report)


def _tiled(arguments: argparse.Namespace) -> TilingReport:
    operator = described_operator(arguments)
    from model.formats.backends import load_backend

    backend = load_backend(arguments.backend)
    from solver.heuristics.smaug import CannotTile, tile
    from solver.report.tiling import TilingReport

    try:
        return TilingReport(operator.name, backend.name, tile(operator, backend))
    except CannotTile as error:
        return TilingReport(operator.name, backend.name, reason=str(error))


def _tiled_onto(arguments: argparse.Namespace) -> tuple[TilingReport, list[Step]]:
    """Return how a spec's problem is tiled, and the steps that write the mapping."""
    from model.formats.backends import load_backend

    loaded = load_unmapped(arguments)
    spec_text = mapped_spec_text(loaded, arguments)
    report = _tiled_problem(loaded.mapspace, load_backend(arguments.backend))
    mapping = None if report.mapped is None else report.mapped.mapping
    return report, mapping_steps(loaded, mapping, spec_text, arguments)


def _tiled_problem(mapspace: Mapspace, backend: Backend) -> TilingReport:
    from solver.heuristics.interface import MapperError
    from solver.heuristics.pricing import Pricing
    from solver.heuristics.smaug.mapper import SmaugTiling
    from solver.report.tiling import MappedReport, TilingReport

    name = mapspace.problem.name
    try:
        tiled = SmaugTiling(backend.num_pes, backend.num_maccs_per_pe).tile(mapspace)
        broken = Pricing(mapspace, mapspace.objectives).offer(tiled.mapping)
    except MapperError as error:
        return TilingReport(name, mapspace.architecture.name, reason=str(error))
    remarks = tuple(map(str, tiled.roundings))
    mapped = MappedReport(mapspace, tiled.mapping, remarks, broken)
    return TilingReport(name, mapspace.architecture.name, tiled.tiling, mapped=mapped)
