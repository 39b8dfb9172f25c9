"""The command ``tile``: tile one operator, or the problem of a spec."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from model.text.source import ConflictError
from solver.cli.arguments import OPERATORS
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
from solver.cli.running import load_empty, load_unmapped, refuse
from solver.exit_codes import EXIT_INFEASIBLE, EXIT_OPTIMAL

if TYPE_CHECKING:
    from model.mapspace import Mapspace
    from model.tiling.operators import Operator, Padding
    from model.tiling.tilings import Backend
    from solver.report.tiling import TilingReport

OPTIONAL = {"convolution": ("stride", "padding"), "pooling": ("stride", "padding")}
SHAPES = ("kernel", "ofmaps", "stride", "padding")
READING = {
    "--set": "variables",
    "--ignore-sparse": "ignore_sparse",
    "--timeloop-padding": "timeloop_padding",
    "--allow-include": "include_roots",
    "--limit": "limits",
}


def tile_command(arguments: argparse.Namespace) -> int:
    """Tile an operator, or a spec's problem; write and print the tiling."""
    _check_arguments(arguments)
    outputs = (arguments.json, arguments.mapping, arguments.mapped_spec)
    check_outputs(outputs, (*(arguments.specs or ()), Path(arguments.backend)))
    try:
        report, writing = (_tiled(arguments), []) if arguments.specs is None else _tiled_onto(arguments)
    except ConflictError as conflict:
        return refuse(conflict, _refused(arguments, conflict))
    from solver.report.tiling import print_tiling, tiling_document

    steps = report_steps(
        lambda console: print_tiling(console, report),
        lambda: tiling_document(report),
        arguments.json,
        silent=STDOUT in outputs,
    )
    deliver([*steps, *writing])
    return EXIT_INFEASIBLE if report.tiling is None else EXIT_OPTIMAL


def _refused(arguments: argparse.Namespace, conflict: ConflictError) -> Iterator[Step]:
    """Yield the steps that write the outputs for constraints in plain conflict."""
    if arguments.json is not None:
        from solver.report.tiling import TilingReport, tiling_document

        mapspace = load_empty(arguments)
        names = mapspace.problem.name, mapspace.architecture.name
        report = TilingReport(*names, reason=str(conflict))
        yield lambda: write_document(arguments.json, lambda: tiling_document(report))
    if (arguments.mapping, arguments.mapped_spec) != (None, None):
        yield lambda: write_stderr(NO_MAPPING)


def _tiled(arguments: argparse.Namespace) -> TilingReport:
    operator = _described_operator(arguments)
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


def _check_arguments(arguments: argparse.Namespace) -> None:
    """End the program with a message if options are missing or do not go together."""
    name, refuse = arguments.operator, arguments.refuse
    given = [option for option in (*SHAPES, "operator", "input") if getattr(arguments, option) is not None]
    if arguments.specs is not None:
        if given:
            refuse(f"--{given[0]} does not apply with --onto")
        return
    if name is None or arguments.input is None:
        refuse("give either --operator and --input, or --onto")
    for option in ("mapping", "mapped-spec"):
        if getattr(arguments, option.replace("-", "_")) is not None:
            refuse(f"--{option} needs --onto: an operator alone has no architecture to map onto")
    for option, target in READING.items():
        if getattr(arguments, target):
            refuse(f"{option} needs --onto: an operator alone reads no specs")
    for option in OPERATORS[name]:
        if option not in given:
            refuse(f"{name} needs --{option}")
    for option in SHAPES:
        if option in given and option not in (*OPERATORS[name], *OPTIONAL.get(name, ())):
            refuse(f"--{option} does not apply to {name}")
    if name == "pooling" and arguments.padding == "same":
        refuse("pooling has no padding: its windows lie within the inputs")


def _described_operator(arguments: argparse.Namespace) -> Operator:
    """Return the operator that the arguments describe, or end the program with a message."""
    from model.tiling import operators

    shape: tuple[int, ...] = arguments.input
    stride: tuple[int, int] | None = arguments.stride
    padding: Padding = arguments.padding or "valid"
    kernel, ofmaps = arguments.kernel, arguments.ofmaps
    makers: dict[str, Callable[[], Operator]] = {
        "convolution": lambda: operators.Convolution(shape, kernel, ofmaps, stride or (1, 1), padding),
        "inner_product": lambda: operators.InnerProduct(shape, ofmaps),
        "pooling": lambda: operators.Pooling(shape, kernel, stride or kernel),
        "batch_norm": lambda: operators.BatchNorm(shape),
        "eltwise": lambda: operators.Eltwise(shape),
        "unary": lambda: operators.Unary(shape),
        "softmax": lambda: operators.Softmax(shape),
    }
    try:
        return makers[arguments.operator]()
    except operators.OperatorError as error:
        arguments.refuse(str(error))
        raise AssertionError("the parser's error ends the program") from error
