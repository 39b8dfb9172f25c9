"""The commands about one Einsum: ``map``, ``evaluate``, ``check``, ``explain``, ``compare`` and ``tile``."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from model.counting import TIMELOOP, Counting, rule_of
from model.mapspace import Mapspace
from model.text.reader import parse_assignments
from model.text.source import (
    ConflictError,
    MappingNode,
    ScalarNode,
    Span,
    SpecError,
    values_in,
)
from solver.cli.arguments import OPERATORS
from solver.cli.orders import order_notes
from solver.cli.output import (
    STDOUT,
    OutputError,
    Step,
    check_outputs,
    deliver,
    document_steps,
    plot_steps,
    print_steps,
    report_console,
    result_steps,
    write_output,
    write_stderr,
)
from solver.cli.progress import watched
from solver.cli.running import (
    EXIT_OF_STATUS,
    accelforge_step,
    check_accelforge,
    check_certified,
    counting_notes,
    exit_code,
    explain_options,
    export_formulation,
    link_transfer_notes,
    load_checked,
    load_empty,
    load_mapped,
    load_options,
    load_unmapped,
    mapped_spec_text,
    mapping_steps,
    refuse,
    refuse_options,
    refused_reasons,
    refused_result,
    search,
    search_options,
    sensitivities,
    without_remainders,
)
from solver.exit_codes import EXIT_INFEASIBLE, EXIT_OPTIMAL, EXIT_UNKNOWN
from solver.report.pictures import check_plot
from solver.result import AUTO, BOUNDS, CP_SAT, Phase, Progress, Reason, Result, Status

if TYPE_CHECKING:
    from model.formats.timeloop import LoadedSpec
    from model.mapping import Mapping
    from model.tiling.operators import Operator, Padding
    from model.tiling.tilings import Backend
    from solver.comparison import Comparison
    from solver.explain import CostReport
    from solver.heuristics.interface import Budget
    from solver.heuristics.registry import Mapper, OptionValue
    from solver.report.document import Document
    from solver.report.reading import Value
    from solver.report.tiling import TilingReport
    from solver.result import ProgressCallback, StopCallback
    from solver.sensitivity import Effect

SINGLE = (
    "objective",
    "mapping",
    "mapped-spec",
    "accelforge-mapping",
    "certificate",
    "check",
    "sensitivity",
    "price-constraints",
    "export-model",
    "gap",
)
"""Options about one best mapping, which `map --pareto` refuses."""

BY_BOUNDS = ("sensitivity", "price_constraints")
"""Options of `map` that need the search by bounds."""

UNFUSED = ("link-transfers", "timeloop-defects", "factors", "uneven", "einsum", "no-fuse")
"""Options of `evaluate` that a fused mapping refuses."""


def map_command(arguments: argparse.Namespace) -> int:
    """Search the best mapping, or the energy-latency front; write and print it."""
    if arguments.pareto:
        return _pareto(arguments)
    outputs = (arguments.json, arguments.mapping, arguments.mapped_spec, arguments.certificate)
    others = (arguments.accelforge_mapping, arguments.plot, arguments.report, arguments.export_model)
    check_outputs((*outputs, *others), arguments.specs)
    check_plot(arguments.plot)
    if arguments.check and arguments.certificate == STDOUT:
        raise OutputError("--check needs a certificate in a file, so that the checker can read it")
    formulated = arguments.engine == CP_SAT
    for name in BY_BOUNDS if formulated else ():
        if getattr(arguments, name):
            option = name.replace("_", "-")
            raise OutputError(
                f"--{option} needs many searches by bounds and cannot be combined with --engine {CP_SAT}"
            )
    by_bounds = arguments.engine == BOUNDS or any(getattr(arguments, name) for name in BY_BOUNDS)
    try:
        loaded = load_unmapped(
            arguments,
            refuse_infeasible=not (arguments.certificate or arguments.check),
            all_rules=not by_bounds,
            sparse=True,
        )
    except ConflictError as conflict:
        document = document_steps(lambda: _refused_map(arguments), arguments)
        plot = plot_steps(arguments.plot, dict, "mapping")
        return refuse(conflict, [*document, *mapping_steps(arguments), *plot])
    from solver.cli.sparse import PERFECT_NOTE, as_searched, refuse_dense_only_options, unasked

    is_certified = arguments.certificate is not None or arguments.check
    loaded = as_searched(loaded, PERFECT_NOTE if is_certified else unasked(arguments))
    if loaded.mapspace.sparsity is not None:
        refuse_dense_only_options(arguments)
    if is_certified:
        check_certified(loaded)
    spec_text = mapped_spec_text(loaded, arguments)
    check_accelforge(loaded.mapspace, arguments)
    export_formulation(loaded.mapspace, arguments)
    searched, result = loaded.mapspace, _found(loaded.mapspace, arguments)
    if result.mapspace is not None:
        loaded = replace(loaded, mapspace=replace(result.mapspace, notes=searched.notes))
    loaded = loaded.noted(
        (
            *counting_notes(loaded.mapspace, result.mapping, result.evaluation),
            *link_transfer_notes(loaded.mapspace, result),
            *order_notes(searched, result, arguments),
        )
    )
    mapspace = loaded.mapspace
    varied, effects = (
        sensitivities(mapspace, result, arguments) if arguments.sensitivity else (mapspace, None)
    )
    from solver.cli.certificates import certificate_steps, checked_result

    code, check = checked_result(searched, result, arguments)
    is_priced = arguments.price_constraints and result.mapping is not None
    priced, costs = _constraint_costs(mapspace, arguments) if is_priced else (mapspace, None)
    loaded = loaded.noted(note for own in (varied, priced) for note in own.notes if note not in loaded.notes)
    steps = _map_steps(loaded, result, _Further(effects, check, costs), spec_text, arguments)
    deliver(chain(steps, certificate_steps(searched, result, arguments)))
    return code or exit_code(result.status, (result,))


def _found(mapspace: Mapspace, arguments: argparse.Namespace) -> Result:
    """Search with the engine that is requested; what needs bounds, or their evidence, by them alone."""
    is_certified = arguments.certificate is not None or arguments.check
    by_bounds = is_certified or any(getattr(arguments, name) for name in BY_BOUNDS)
    is_narrowed = arguments.engine == AUTO and by_bounds and mapspace.has_simple_rules
    return search(mapspace, arguments, BOUNDS if is_narrowed else arguments.engine)


@dataclass(frozen=True)
class _Further:
    """Additional results that options requested; None if not requested."""

    effects: Sequence[Effect] | None
    check: str | None
    costs: CostReport | None


def _constraint_costs(mapspace: Mapspace, arguments: argparse.Namespace) -> tuple[Mapspace, CostReport]:
    """Search without each constraint; an interrupt ends that with what is known."""
    with watched(mapspace, arguments.quiet) as callbacks:
        return _cost_report(mapspace, arguments, *callbacks)


OVERFLOWING = (
    "constraint costs are not available with overbooking (allow_overbooking), where capacities affect the "
    "cost of accesses"
)


def _cost_report(
    mapspace: Mapspace,
    arguments: argparse.Namespace,
    on_progress: ProgressCallback | None,
    should_stop: StopCallback,
) -> tuple[Mapspace, CostReport]:
    """Return the cost of each constraint, and the mapspace in which it was determined.

    These have no remainders where the best one with them is not proven in time, and the user requested none.
    """
    from solver.explain import constraint_costs
    from solver.sensitivity import overflows
    from solver.stages import map_einsum

    if overflows(mapspace):
        raise OutputError(OVERFLOWING)
    options, find = explain_options(arguments), partial(map_einsum, reasons=False)
    baseline = find(mapspace, options, on_progress, should_stop, None)
    narrower = without_remainders("constraint costs are computed", mapspace, baseline, arguments)
    if narrower is not None and not should_stop():
        return narrower, constraint_costs(narrower, options, find, on_progress, should_stop)
    return mapspace, constraint_costs(mapspace, options, find, on_progress, should_stop, baseline)


def _map_steps(
    loaded: LoadedSpec,
    result: Result,
    further: _Further,
    spec_text: str,
    arguments: argparse.Namespace,
) -> Iterator[Step]:
    """Yield the steps that print, write and draw a result."""
    from solver.report.document import costs_document, result_document
    from solver.report.sparse import sparse_result_document

    mapspace, costs = loaded.mapspace, further.costs
    priced = None if costs is None else costs_document(costs)
    documented = result_document if mapspace.sparsity is None else sparse_result_document
    document = partial(documented, mapspace, result, further.effects, further.check, priced)
    outputs = (arguments.mapping, arguments.mapped_spec, arguments.accelforge_mapping, arguments.certificate)
    yield from result_steps(
        document, arguments, *outputs, nodes=(loaded.document,), verbose=arguments.verbose
    )
    yield from mapping_steps(arguments, loaded, result.mapping, spec_text)
    if arguments.accelforge_mapping is not None:
        from model.formats.fused import einsum_mapping

        text = partial(einsum_mapping, mapspace, arguments.einsum)
        yield accelforge_step(arguments.accelforge_mapping, result.mapping, text)
    lack = "" if result.mapping is not None else "mapping"
    yield from plot_steps(arguments.plot, partial(documented, mapspace, result), lack)


def _refused_map(arguments: argparse.Namespace) -> Document:
    from solver.report.document import result_document

    return result_document(*refused_result(arguments, sparse=True), () if arguments.sensitivity else None)


def _pareto(arguments: argparse.Namespace) -> int:
    """Find the energy-latency front; write and print it."""
    if arguments.engine == CP_SAT:
        raise OutputError(f"--pareto uses bounds and cannot be combined with --engine {CP_SAT}")
    for name in SINGLE:
        if getattr(arguments, name.replace("-", "_")):
            raise OutputError(f"--{name} needs a single best mapping; --pareto finds a front of mappings")
    check_outputs((arguments.json, arguments.plot, arguments.report), arguments.specs)
    check_plot(arguments.plot)
    from solver.cli.sparse import as_searched

    try:
        loaded = as_searched(load_unmapped(arguments, sparse=True))
    except ConflictError as conflict:
        document = document_steps(lambda: _refused_front(arguments), arguments)
        return refuse(conflict, [*document, *plot_steps(arguments.plot, dict, "point")])
    mapspace = loaded.mapspace
    from solver.pareto import pareto_front

    with watched(mapspace, arguments.quiet) as callbacks:
        front = pareto_front(mapspace, search_options(arguments), *callbacks)
    from solver.report.document import front_document

    made = partial(front_document, mapspace, front)
    report = result_steps(made, arguments, nodes=(loaded.document,))
    deliver([*report, *plot_steps(arguments.plot, made, "" if front.points else "point")])
    return EXIT_OF_STATUS[front.status]


def _refused_front(arguments: argparse.Namespace) -> Document:
    from solver.pareto import Front
    from solver.report.document import front_document

    mapspace, result = refused_result(arguments)
    front = Front(result.status, result.termination, result.units_per_pj, reasons=result.reasons)
    return front_document(mapspace, front)


def evaluate_command(arguments: argparse.Namespace) -> int:
    """Price the mapping of a file, or that of the specs."""
    if arguments.link_transfers:
        arguments.counting = _links_counting(arguments)
    if arguments.mapping is None:
        _find_tree(arguments)
    read = [path for path in (*arguments.specs, arguments.mapping) if path is not None]
    check_outputs((arguments.json, arguments.report), read)
    if arguments.mapping is not None and _is_fused(arguments):
        return _evaluate_fused(arguments)
    try:
        loaded = load_mapped(arguments)
    except ConflictError as conflict:
        return refuse(conflict, document_steps(lambda: _refused_evaluation(arguments), arguments))
    mapspace, mapping = loaded.mapspace, loaded.mapping
    assert mapping is not None  # `load_mapped` requires it
    if mapspace.sparsity is not None:
        return _evaluate_sparse(loaded, mapping, arguments)
    if arguments.timeloop_defects:
        raise OutputError("--timeloop-defects applies to sparse data, and the specs have none")
    from model.cost import evaluate_in
    from solver.report.document import evaluation_document

    evaluation = evaluate_in(mapspace, mapping, arguments.link_transfers)
    mapspace = loaded.noted(counting_notes(mapspace, mapping, evaluation)).mapspace
    document = partial(evaluation_document, mapspace, mapping, evaluation)
    deliver(result_steps(document, arguments, verbose=arguments.verbose))
    return EXIT_OPTIMAL if evaluation.valid else EXIT_INFEASIBLE


def _find_tree(arguments: argparse.Namespace) -> None:
    """Take a mapping in AccelForge's form from among the specs, where AccelForge's own programs have it."""
    from model.formats.fused import without_tree

    variables = parse_assignments(arguments.variables)
    arguments.specs, arguments.mapping = without_tree(arguments.specs, variables, load_options(arguments))


def _is_fused(arguments: argparse.Namespace) -> bool:
    from model.formats.fused import is_fused

    variables, of_einsum = parse_assignments(arguments.variables), arguments.einsum is not None
    return is_fused(arguments.mapping, variables, load_options(arguments), of_einsum)


def _evaluate_fused(arguments: argparse.Namespace) -> int:
    """Price a fused mapping of a workload."""
    for name in UNFUSED:
        if getattr(arguments, name.replace("-", "_")):
            arguments.refuse(f"--{name} cannot be combined with a fused mapping")
    from model.formats.fused import load_fused
    from model.fused.cost import evaluate_fused
    from solver.report.fused import fused_document

    loaded = load_fused(
        arguments.specs,
        arguments.mapping,
        parse_assignments(arguments.variables),
        load_options(arguments),
    )
    with loaded.located():
        evaluation = evaluate_fused(loaded.cascade, loaded.mapping)
    document = partial(fused_document, loaded.cascade, loaded.mapping, evaluation, loaded.notes)
    deliver(result_steps(document, arguments))
    return EXIT_OPTIMAL if evaluation.valid else EXIT_INFEASIBLE


def _evaluate_sparse(loaded: LoadedSpec, mapping: Mapping, arguments: argparse.Namespace) -> int:
    """Price a mapping of sparse data."""
    if arguments.link_transfers:
        raise OutputError("--link-transfers applies to dense data: Timeloop counts none for sparse data")
    if not loaded.mapspace.counting_rule.sparse:
        raise OutputError(f"--counting {loaded.mapspace.counting} supports dense data only")
    from model.sparse import MappingError, evaluate_sparse_in
    from solver.report.document import evaluation_document
    from solver.report.sparse import sparse_document

    mapspace = loaded.mapspace
    try:
        evaluation = evaluate_sparse_in(mapspace, mapping, arguments.timeloop_defects)
    except MappingError as error:
        reasons = (Reason(str(error)),)
        refused = document_steps(lambda: evaluation_document(mapspace, None, None, reasons), arguments)
        message = f"the mapping does not fit the formats: {error}"
        write_stderr(f"{SpecError(message, _place_of_level(loaded, error.level)).render()}\n")
        deliver(refused)
        return EXIT_INFEASIBLE
    document = partial(sparse_document, mapspace, mapping, evaluation)
    deliver(result_steps(document, arguments, verbose=arguments.verbose))
    return EXIT_OPTIMAL if evaluation.valid else EXIT_INFEASIBLE


def _place_of_level(loaded: LoadedSpec, level: str) -> Span | None:
    """Return where the mapping names a level, else where the architecture does."""
    found = {
        key.text: value.span
        for node in values_in(loaded.document)
        if isinstance(node, MappingNode)
        for key, value in node.entries
        if key.text in {"target", "name"} and isinstance(value, ScalarNode) and value.text == level
    }
    return found.get("target", found.get("name"))


def _links_counting(arguments: argparse.Namespace) -> Counting:
    """Return the only rule that counts link transfers."""
    rule = arguments.counting
    if rule is not None and not rule_of(rule).links:
        arguments.refuse(
            f"--link-transfers uses Timeloop's rule and cannot be combined with --counting {rule}"
        )
    return TIMELOOP


def _refused_evaluation(arguments: argparse.Namespace) -> Document:
    from solver.report.document import evaluation_document

    mapspace = load_empty(arguments, is_searched=False)
    return evaluation_document(mapspace, None, None, refused_reasons(mapspace))


def check_command(arguments: argparse.Namespace) -> int:
    """Validate a spec; print its problem, hierarchy and size of the mapspace."""
    mapspace = load_checked(arguments)
    from solver.report.check import print_check

    with report_console(arguments.wide) as console:
        print_check(console, mapspace)
    return EXIT_OPTIMAL


def explain_command(arguments: argparse.Namespace) -> int:
    """Diagnose a spec; price its constraints if it allows mappings."""
    check_outputs((arguments.json, arguments.report), arguments.specs)
    from solver.cli.sparse import as_searched

    loaded = as_searched(load_unmapped(arguments, refuse_infeasible=False, all_rules=True, sparse=True))
    mapspace, reasons, costs = _explain(loaded.mapspace, arguments)
    from solver.report.document import explanation_document

    document = partial(explanation_document, mapspace, reasons, costs)
    deliver(result_steps(document, arguments, nodes=(loaded.document,)))
    if costs is None:
        return EXIT_INFEASIBLE
    return EXIT_OPTIMAL if costs.baseline.mapping is not None else EXIT_UNKNOWN


def _explain(
    mapspace: Mapspace, arguments: argparse.Namespace
) -> tuple[Mapspace, tuple[Reason, ...], CostReport | None]:
    """Return the reasons of an infeasible mapspace, or the costs of a feasible one, see `_cost_report`."""
    from solver.explain import explain_infeasible, explain_sparse, reasons_time_s

    time_s = reasons_time_s(arguments.time_limit)
    with watched(mapspace) as (on_progress, should_stop):
        if on_progress is not None:
            on_progress(Progress(Phase.EXPLANATION, 0.0, mapspace.objectives[0]))
        reasons = _reasons_in_time(mapspace, should_stop, time_s)
        if reasons is not None:
            return mapspace, reasons, None
        priced, report = _cost_report(mapspace, arguments, on_progress, should_stop)
        if report.baseline.status is not Status.INFEASIBLE:
            return priced, (), report
        # The search proved what could not be decided in that time.
        explain = explain_infeasible if mapspace.sparsity is None else explain_sparse
        return mapspace, explain(mapspace, should_stop, time_s), None


def _reasons_in_time(
    mapspace: Mapspace, should_stop: StopCallback, time_s: float
) -> tuple[Reason, ...] | None:
    """Return why nothing fits; None if something does, or that is not decided in time."""
    from solver.explain import Verdict, diagnose, explain_sparse
    from solver.result import Clock
    from solver.sparse_search import first_mapping

    if mapspace.sparsity is None:
        diagnosis = diagnose(mapspace, should_stop, time_s)
        return diagnosis.reasons if diagnosis.verdict is Verdict.INFEASIBLE else None
    is_empty = first_mapping(mapspace, Clock(time_s, should_stop)) is Status.INFEASIBLE
    return explain_sparse(mapspace, should_stop, time_s) if is_empty else None


def report_command(arguments: argparse.Namespace) -> int:
    """Turn a result that ``--json`` wrote into a page, or print and write how two differ."""
    path: Path = arguments.results[0]
    if len(arguments.results) > 1:
        return _print_difference(arguments)
    refuse_options(arguments, {"json": "", "wide": ""}, "needs two results")
    output = arguments.output or path.with_suffix(".html")
    check_outputs((output,), (path,))
    from solver.report.pages import report_html
    from solver.report.reading import DocumentError, read_document

    try:
        page = report_html(read_document(path))
    except DocumentError as error:
        raise OutputError(f"{path}: {error}") from error
    write_output(output, page)
    return EXIT_OPTIMAL


def _print_difference(arguments: argparse.Namespace) -> int:
    paths: list[Path] = arguments.results
    if len(paths) > 2:
        raise OutputError(f"`report` compares two results, not {len(paths)}")
    check_outputs((arguments.output, arguments.json), paths)
    from solver.report.difference import difference_document
    from solver.report.reading import DocumentError, read_document

    arguments.report = arguments.output
    read: list[Value] = []
    for path in paths:
        try:
            read.append(read_document(path))
        except DocumentError as error:
            raise OutputError(f"{path}: {error}") from error
    try:
        document = difference_document(read[0], read[1], _distinct_names(*paths))
    except DocumentError as error:
        raise OutputError(f"{paths[0]}, {paths[1]}: {error}") from error
    deliver(result_steps(lambda: document, arguments))
    return EXIT_OPTIMAL


def _distinct_names(first: Path, second: Path) -> tuple[str, str]:
    """Return the names of two files, with folders where needed, to tell them apart."""
    if first.name != second.name:
        return first.name, second.name
    return str(first), str(second) if first != second else f"{second} (again)"


def compare_command(arguments: argparse.Namespace) -> int:
    """Prove the optimum, run the mappers, print and write how they did."""
    outputs = (arguments.json, arguments.csv, arguments.plot, arguments.report)
    check_outputs(outputs, arguments.specs)
    check_plot(arguments.plot)
    from solver.cli.sparse import as_searched

    try:
        mapspace = as_searched(load_unmapped(arguments, sparse=True)).mapspace
    except ConflictError as conflict:
        if not any(outputs):
            return refuse(conflict, ())
        refused = _refused_comparison(arguments)
        arguments.quiet = True  # the conflict has been printed
        return refuse(conflict, _comparison_steps(refused, arguments))
    if not mapspace.counting_rule.is_general:
        message = f"mappers do not support the counting rule {mapspace.counting}; use --counting exact"
        raise OutputError(message)
    from solver.heuristics.interface import MapperError

    try:
        mappers = chosen_mappers(arguments)
    except MapperError as error:
        raise OutputError(str(error)) from error
    from solver.comparison import compare

    options, budget = search_options(arguments), _budget(arguments)
    with watched(mapspace) as callbacks:
        comparison = compare(mapspace, mappers, options, budget, *callbacks, _case(arguments))
    explained = mapspace.sparsity is None and (arguments.json or arguments.report)
    if comparison.result.status is Status.INFEASIBLE and explained:
        reasons = refused_reasons(mapspace, arguments.time_limit)
        comparison = replace(comparison, result=replace(comparison.result, reasons=reasons))
    for outcome in comparison.outcomes:
        write_stderr(outcome.failure)
    deliver(_comparison_steps(comparison, arguments))
    return EXIT_OF_STATUS[comparison.result.status]


def _comparison_steps(comparison: Comparison, arguments: argparse.Namespace) -> Iterator[Step]:
    """Yield the steps that write and draw a comparison."""
    from solver.report.comparison import comparison_document, comparisons_csv

    document = partial(comparison_document, comparison)
    yield from result_steps(document, arguments, arguments.csv)
    if arguments.csv is not None:
        yield lambda: write_output(arguments.csv, comparisons_csv([comparison]))
    is_traced = comparison.trace or any(outcome.trace for outcome in comparison.outcomes)
    yield from plot_steps(arguments.plot, document, "" if is_traced else "mapping")


def chosen_mappers(arguments: argparse.Namespace) -> list[tuple[str, Mapper]]:
    """Return the mappers that the arguments name, by name; `MapperError` if one fails or none is named."""
    from solver.heuristics.interface import MapperError
    from solver.heuristics.registry import imported_mapper, known_mappers, make_mapper, named_mapper

    named = known_mappers() if arguments.mappers is None else arguments.mappers
    classes = {name: named_mapper(name) for name in named}
    classes |= {reference: imported_mapper(reference) for reference in arguments.own_mappers}
    if not classes:
        raise MapperError(f"no mapper is given; known mappers are {', '.join(known_mappers())}")
    options: dict[str, dict[str, OptionValue]] = {name: {} for name in classes}
    for mapper, name, value in arguments.mapper_options:
        if mapper not in options:
            raise MapperError(f"option {mapper}.{name}: no mapper {mapper!r} runs")
        options[mapper][name] = value
    return [(name, make_mapper(name, create, options[name])) for name, create in classes.items()]


def _refused_comparison(arguments: argparse.Namespace) -> Comparison:
    """Return the comparison of specs that were refused for their constraints; no mapper runs."""
    from solver.comparison import Comparison

    mapspace, result = refused_result(arguments)
    return Comparison(_case(arguments), mapspace, result, (), (), _budget(arguments), arguments.seed)


def _case(arguments: argparse.Namespace) -> str:
    return " ".join(path.stem for path in arguments.specs)


def _budget(arguments: argparse.Namespace) -> Budget:
    from solver.heuristics.interface import Budget

    return Budget(arguments.budget, arguments.evaluations)


OPTIONAL = {"convolution": ("stride", "padding"), "pooling": ("stride", "padding")}
SHAPES = ("kernel", "ofmaps", "stride", "padding")
READING = {
    "--set": "variables",
    "--ignore-sparse": "ignore_sparse",
    "--timeloop-padding": "timeloop_padding",
    "--counting": "counting",
    "--factors": "factors",
    "--uneven": "uneven",
    "--allow-include": "include_roots",
    "--limit": "limits",
}


def tile_command(arguments: argparse.Namespace) -> int:
    """Tile an operator, or a spec's problem; write and print the tiling."""
    _check_arguments(arguments)
    outputs = (arguments.json, arguments.mapping, arguments.mapped_spec)
    check_outputs(outputs, (*(arguments.specs or ()), Path(arguments.backend)))
    try:
        tiling, writing = (_tiled(arguments), []) if arguments.specs is None else _tiled_onto(arguments)
    except ConflictError as conflict:
        document = document_steps(partial(_refused_tiling, arguments, str(conflict)), arguments)
        return refuse(conflict, [*document, *mapping_steps(arguments)])
    from solver.report.tiling import print_tiling, tiling_document

    report = print_steps(lambda console: print_tiling(console, tiling), arguments, *outputs)
    document = document_steps(lambda: tiling_document(tiling), arguments)
    deliver([*report, *document, *writing])
    return EXIT_INFEASIBLE if tiling.tiling is None else EXIT_OPTIMAL


def _refused_tiling(arguments: argparse.Namespace, reason: str) -> Document:
    from solver.report.tiling import TilingReport, tiling_document

    mapspace = load_empty(arguments)
    return tiling_document(TilingReport(mapspace.problem.name, mapspace.architecture.name, reason=reason))


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
    """Return the tiling of a spec's problem, and the steps that write the mapping."""
    from model.formats.backends import load_backend

    loaded = load_unmapped(arguments)
    spec_text = mapped_spec_text(loaded, arguments)
    report = _tiled_problem(loaded.mapspace, load_backend(arguments.backend))
    mapping = None if report.mapped is None else report.mapped.mapping
    return report, mapping_steps(arguments, loaded, mapping, spec_text)


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
            refuse(f"--{option} needs --onto: without it, there is no architecture to map onto")
    for option, target in READING.items():
        if getattr(arguments, target):
            refuse(f"{option} needs --onto: without it, no specs are read")
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
