"""What commands share: load specs, refuse those in conflict, search, and write the mapping that is found."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterable, Iterator
from collections.abc import Mapping as Named
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from model.counting import TIMELOOP, rule_of
from model.extents import ANY, PERFECT
from model.formats.timeloop import (
    AccelForgeOptions,
    FileOptions,
    LoadedSpec,
    LoadOptions,
    TimeloopOptions,
    load_timeloop,
)
from model.mapspace import Mapspace
from model.note import Note
from model.objective import EDP, ENERGY, LATENCY
from model.text.limits import DEFAULT_LIMITS
from model.text.reader import parse_assignments
from model.text.source import ConflictError, SpecError, spans_of
from solver.cli.arguments import EXPLAIN_TIME_LIMIT_S
from solver.cli.output import NO_MAPPING, OutputError, Step, deliver, program, write_output, write_stderr
from solver.cli.progress import interruptible, watched
from solver.exit_codes import EXIT_FEASIBLE, EXIT_INFEASIBLE, EXIT_OPTIMAL, EXIT_UNKNOWN
from solver.report.figures import objective_text
from solver.result import (
    AUTO,
    BOUNDS,
    CP_SAT,
    Options,
    Reason,
    Result,
    Status,
    Termination,
    TooLargeError,
)

if TYPE_CHECKING:
    from pathlib import Path

    from model.cost.report import Evaluation
    from model.formats.timeloop import LoadedSpec
    from model.mapping import Mapping
    from solver.network.run import NetworkResult
    from solver.sensitivity import Effect


AnyMapping = TypeVar("AnyMapping")

EXIT_OF_STATUS = {
    Status.OPTIMAL: EXIT_OPTIMAL,
    Status.FEASIBLE: EXIT_FEASIBLE,
    Status.INFEASIBLE: EXIT_INFEASIBLE,
    Status.UNKNOWN: EXIT_UNKNOWN,
}


def exit_code(status: Status, results: Iterable[Result]) -> int:
    """Return the exit code of a status, of several results the worst; a gap that was requested is success."""
    open_results = [result for result in results if result.status is Status.FEASIBLE]
    if status is Status.FEASIBLE and all(own.termination is Termination.GAP for own in open_results):
        return EXIT_OPTIMAL
    return EXIT_OF_STATUS[status]


SKIPPED = {"skip_mapping": True}

PRICED: dict[str, Any] = {"model_sparse": True, "refuse_unsearchable": False}
"""Options on specs that are not searched: what the cost model alone knows is read as well."""

MAPPING_NOTE = "the `mapping` in the specs is ignored here; `evaluate` evaluates it"
EXPLAIN = "`{} explain` with the same specs lists the changes that suffice"


def load_options(arguments: argparse.Namespace) -> LoadOptions:
    """Return the options on reading specs that the command line sets."""
    return LoadOptions(
        timeloop=TimeloopOptions(padding=arguments.timeloop_padding),
        files=FileOptions(
            limits=replace(DEFAULT_LIMITS, **dict(arguments.limits)),
            allow_include=tuple(arguments.include_roots),
        ),
        accelforge=AccelForgeOptions(
            costs=getattr(arguments, "costs", None),
            stored_outside=getattr(arguments, "no_fuse", None) in (True, []),
            any_order=_knows_orders(arguments),
        ),
        ignore_sparse=arguments.ignore_sparse,
        objectives=_objectives(arguments),
        counting=arguments.counting,
        factors=arguments.factors,
        has_places=arguments.uneven,
    )


def _knows_orders(arguments: argparse.Namespace) -> bool:
    """Return whether a command searches memories in any order: single Einsums, by bounds."""
    is_single = arguments.command in ("map", "prove") and getattr(arguments, "einsum", None) is not None
    if not is_single and arguments.command not in ("network", "sweep"):
        return False
    of_map = ("pareto", "sensitivity", "price_constraints", "export_model", "mapping", "mapped_spec")
    others = (*of_map, "same", "mappings")
    return getattr(arguments, "engine", AUTO) != CP_SAT and not any(
        getattr(arguments, own, None) for own in others
    )


def _objectives(arguments: argparse.Namespace) -> tuple[str, ...] | None:
    """Return the objectives of the command line; None where it names none."""
    if getattr(arguments, "pareto", False):
        return (ENERGY, LATENCY)
    objectives = getattr(arguments, "objective", None)
    return (objectives,) if isinstance(objectives, str) else objectives


def load_unmapped(
    arguments: argparse.Namespace,
    refuse_infeasible: bool = True,
    all_rules: bool = False,
    sparse: bool = False,
) -> LoadedSpec:
    """Load a spec for a command that ignores the spec's own mapping; a note says so.

    Rules that bounds do not know are refused unless the command searches under `all_rules`. Without `sparse`,
    what specs say about sparse data is refused.
    """
    changes = {"refuse_infeasible": refuse_infeasible, "all_rules": all_rules, "model_sparse": sparse}
    return _noted(_load(arguments, SKIPPED, **changes))


def load_checked(arguments: argparse.Namespace) -> Mapspace:
    """Load the mapspace of a spec; a mapping in it must satisfy the constraints."""
    loaded = _noted(_load(arguments, **PRICED))
    _check_rules(loaded)
    return loaded.mapspace


def check_certified(loaded: LoadedSpec) -> None:
    """Refuse to certify what the checker does not know, before a search takes its time."""
    from solver.certificate.canonical import CertificateError
    from solver.certificate.document import check_certifiable

    try:
        check_certifiable(loaded.mapspace)
    except CertificateError as error:
        raise SpecError(str(error), hint="`map` without --certificate searches it") from None


def _check_rules(loaded: LoadedSpec) -> None:
    """Check that the mapping in a spec satisfies the rules there, if it has both."""
    if loaded.mapping is None or not loaded.mapspace.rules:
        return
    from model.sparse import evaluate_totals
    from solver.report.document import broken_rule_document
    from solver.report.einsum_page import broken_rule_text
    from solver.report.reading import as_value

    evaluation = evaluate_totals(loaded.mapspace, loaded.mapping)
    for broken in () if evaluation is None else evaluation.broken_rules:
        source = broken.rule.source
        place = spans_of(loaded.document).get(source) if source else None
        text = broken_rule_text(as_value(broken_rule_document(broken)))
        raise SpecError(f"the mapping violates a user-defined constraint: {text}", place)


def load_mapped(arguments: argparse.Namespace) -> LoadedSpec:
    """Load a spec with the mapping of ``--mapping``, or else its own, which must satisfy the constraints."""
    return _load(arguments, {"mapping_file": arguments.mapping, "require_mapping": True}, **PRICED)


def load_empty(arguments: argparse.Namespace, is_searched: bool = True) -> Mapspace:
    """Load the mapspace of a spec that was refused for its constraints."""
    options = {} if is_searched else PRICED
    return _noted(_load(arguments, SKIPPED, refuse_infeasible=False, **options)).mapspace


def _load(
    arguments: argparse.Namespace, of_mapping: Named[str, Any] | None = None, **changes: Any
) -> LoadedSpec:
    """Load a spec with other options than those of the command line; `of_mapping` are `TimeloopOptions`."""
    options = load_options(arguments)
    options = replace(options, timeloop=replace(options.timeloop, **(of_mapping or {})), **changes)
    if getattr(arguments, "einsum", None) is not None:
        from model.formats.cascade.loader import load_einsum

        return load_einsum(arguments.specs, arguments.einsum, parse_assignments(arguments.variables), options)
    return load_timeloop(arguments.specs, parse_assignments(arguments.variables), options)


def _noted(loaded: LoadedSpec) -> LoadedSpec:
    return loaded.noted([Note(MAPPING_NOTE)]) if loaded.has_mapping else loaded


def say_conflict(conflict: ConflictError) -> None:
    """Report on stderr which constraints conflict."""
    write_stderr(f"{conflict.render()}\nhelp: {EXPLAIN.format(program())}\n")


def refuse(conflict: ConflictError, steps: Iterable[Step]) -> int:
    """Report which constraints conflict, take the steps that write so, and return the exit code."""
    say_conflict(conflict)
    deliver(steps)
    return EXIT_INFEASIBLE


def refused_result(arguments: argparse.Namespace, sparse: bool = False) -> tuple[Mapspace, Result]:
    """Return the empty mapspace of refused specs, and a result with the reasons.

    What specs say about `sparse` data has no part in them.
    """
    loaded = _load(arguments, SKIPPED, refuse_infeasible=False, model_sparse=sparse)
    mapspace = replace(_noted(loaded).mapspace, sparsity=None)
    objectives = arguments.objective or mapspace.objectives
    units = mapspace.architecture.units_per_pj
    reasons = refused_reasons(mapspace, arguments.time_limit)
    return mapspace, Result(Status.INFEASIBLE, Termination.PROVEN, objectives, units, reasons=reasons)


def refused_reasons(mapspace: Mapspace, time_limit_s: float | None = None) -> tuple[Reason, ...]:
    """Return why a mapspace is empty; an interrupt ends the analysis with what is known."""
    from solver.explain import explain_infeasible, reasons_time_s

    with interruptible() as stop:
        return explain_infeasible(mapspace, stop.is_set, reasons_time_s(time_limit_s))


def search_options(arguments: argparse.Namespace, engine: str = BOUNDS) -> Options:
    """Return the options of `add_search_options`; `map` searches what it certifies to the proof."""
    limit_s = arguments.time_limit
    if limit_s is None and arguments.command == "map" and (arguments.certificate or arguments.check):
        limit_s = math.inf
    return Options(
        objectives=arguments.objective,
        time_limit_s=limit_s,
        jobs=arguments.jobs,
        seed=arguments.seed,
        memory_limit_mib=arguments.memory_limit,
        gap=getattr(arguments, "gap", 0.0),
        engine=engine,
    )


def search(mapspace: Mapspace, arguments: argparse.Namespace, engine: str = BOUNDS) -> Result:
    """Map an Einsum with live progress; an interrupt ends the search early."""
    from solver.stages import map_einsum

    if engine == CP_SAT:
        _check_formulated(mapspace, f"--engine {CP_SAT}")
    elif engine == AUTO and not mapspace.has_simple_rules and mapspace.sparsity is None:
        _check_formulated(mapspace, "rules that bounds do not support")
    with watched(mapspace, arguments.quiet) as callbacks:
        return map_einsum(mapspace, search_options(arguments, engine), *callbacks)


def _check_formulated(mapspace: Mapspace, asker: str) -> None:
    """Refuse what CP-SAT's formulation does not state."""
    from solver.formulation.model import check_formulated

    try:
        check_formulated(mapspace)
    except ValueError as error:
        raise OutputError(f"{asker}: CP-SAT does not support this: {error}") from error


def export_formulation(mapspace: Mapspace, arguments: argparse.Namespace) -> None:
    """Write the formulation for other solvers, if requested."""
    if arguments.export_model is None:
        return
    from solver.formulation.export import export_model
    from solver.formulation.model import Formulation
    from solver.formulation.program import EmptyProgramError

    objective = (arguments.objective or mapspace.objectives)[0]
    if objective == EDP:
        raise OutputError(
            "--export-model supports energy or latency, not their product: add --objective energy"
        )
    try:
        formulation = Formulation(mapspace, timed=objective == LATENCY)
        scale = formulation.minimise(objective)
        export_model(formulation, scale, arguments.export_model)
    except EmptyProgramError as error:
        write_stderr(f"note: no model is written: no mapping is allowed ({error})\n")
    except TooLargeError as error:
        hint = " with remainders; --factors perfect leaves them out" if mapspace.factors == ANY else ""
        raise OutputError(f"--export-model: {error}{hint}") from error
    except ValueError as error:
        raise OutputError(f"--export-model: {error}") from error
    except OSError as error:
        raise OutputError(f"cannot write {arguments.export_model}: {error.strerror}") from error


def explain_options(arguments: argparse.Namespace) -> Options:
    """Return options of searches without constraints, which have a time limit."""
    options = search_options(arguments)
    has_limit = options.time_limit_s is not None
    return options if has_limit else replace(options, time_limit_s=EXPLAIN_TIME_LIMIT_S)


def sensitivities(
    mapspace: Mapspace, result: Result, arguments: argparse.Namespace
) -> tuple[Mapspace, tuple[Effect, ...]]:
    """Map again with other limits of the architecture; an interrupt ends that with what is known.

    Return also the mappings among which, see `without_remainders`.
    """
    from solver.sensitivity import sensitivity
    from solver.stages import map_einsum

    if result.mapping is None:
        return mapspace, ()
    search, options = partial(map_einsum, reasons=False), search_options(arguments)
    narrower = without_remainders("limits are varied", mapspace, result, arguments)
    with watched(mapspace, arguments.quiet) as callbacks:
        if narrower is not None:
            mapspace, result = narrower, search(narrower, options, *callbacks)
        return mapspace, sensitivity(mapspace, result, options, search, *callbacks)


def without_remainders(
    what: str, mapspace: Mapspace, result: Result, arguments: argparse.Namespace
) -> Mapspace | None:
    """Return the mappings without remainders for a series of searches, with a note that says `what`; or None.

    That is where the best of them is proven, that with remainders is not, and the user did not request these.
    """
    first = result.perfect_factors
    is_open = result.status is Status.FEASIBLE and first is not None and first.status is Status.OPTIMAL
    if not is_open or arguments.factors is not None:
        return None
    return replace(mapspace, factors=PERFECT, notes=(*mapspace.notes, Note(ONLY_PERFECT, (what,))))


ONLY_PERFECT = (
    "{} over mappings without remainders, because the best mapping with remainders was not proven in time; "
    "--factors any includes remainders"
)


def counting_notes(
    mapspace: Mapspace, mapping: Mapping | None, evaluation: Evaluation | None
) -> tuple[Note, ...]:
    """Note the energy and cycles of a priced mapping by the other counting rule, where the rules differ."""
    if mapping is None or evaluation is None or mapspace.sparsity is not None:
        return ()
    from model.cost import evaluate
    from model.cost.nest import build_nest

    other = rule_of(mapspace.counting_rule.compared_with)
    if mapspace.architecture.is_accelforge and not other.is_executed:
        return ()  # nobody asks Timeloop about an architecture of AccelForge
    if build_nest(mapspace.problem, mapspace.architecture, mapping).remainder_dims:
        return (Note(NO_RULE),)
    there = evaluate(mapspace.problem, mapspace.architecture, mapping, other.name)
    figures = [
        f"{objective_text(objective, there.value(objective), there.units_per_pj)} "
        f"({_change(there.value(objective), evaluation.value(objective))})"
        for objective in (ENERGY, LATENCY)
        if evaluation.value(objective) != there.value(objective)
    ]
    if not figures:
        return ()
    return (Note(other.finding, (" and ".join(figures),)),)


def _change(value: int, known: int) -> str:
    share = f"{100 * abs(value - known) / known:.2g} % " if known else ""
    return f"{share}{'more' if value > known else 'less'}"


NO_RULE = "the mapping has remainders; Timeloop miscounts their accesses and cycles (docs/model.md)"


def link_transfer_notes(mapspace: Mapspace, result: Result) -> tuple[Note, ...]:
    """Note what link transfers between neighbours would save, which Timeloop counts by default."""
    is_timeloop = not mapspace.architecture.is_accelforge
    is_dense = mapspace.sparsity is None
    if result.mapping is None or result.evaluation is None or not is_timeloop or not is_dense:
        return ()
    from model.cost import evaluate
    from model.cost.nest import build_nest

    if build_nest(mapspace.problem, mapspace.architecture, result.mapping).remainder_dims:
        return ()
    plain, linked = (
        evaluate(mapspace.problem, mapspace.architecture, result.mapping, TIMELOOP, links)
        for links in (False, True)
    )
    saved = plain.energy - linked.energy
    if not saved:
        return ()
    sentence = (
        "Timeloop counts link transfers by default: with them this mapping takes {} % less "
        "energy, and another may be better; `evaluate --link-transfers` counts them"
    )
    return (Note(sentence, (f"{100 * saved / plain.energy:.2g}",)),)


LONG_NAMES = "note: the mapping names dimension `{dim}`; Timeloop's programs read one-letter names only\n"
"""Said beside a mapping that this product reads and Timeloop does not."""

PLACES = (
    "note: each place of a memory is a separate component in the mapped spec; Timeloop does not check that "
    "they share its capacity and ports\n"
)
"""Said beside a spec for Timeloop in which memories have several places."""

REMAINDERS = (
    "note: the mapping has remainders, such as `P=4,3`; Timeloop's C++ programs read them, its front end of "
    "version 4 does not\n"
)
"""Said beside a mapping with remainders."""


def mapped_spec_text(loaded: LoadedSpec, arguments: argparse.Namespace) -> str:
    """Return the part of ``--mapped-spec`` before the mapping; raise `SpecError` before the search begins."""
    if arguments.mapped_spec is None:
        return ""
    if getattr(arguments, "einsum", None) is not None:
        raise OutputError("--mapped-spec writes Timeloop specs and cannot be combined with --einsum")
    from model.formats.timeloop.mapped import mapped_spec
    from model.text.writing import spec_text

    return spec_text(mapped_spec(loaded))


def mapping_steps(
    arguments: argparse.Namespace,
    loaded: LoadedSpec | None = None,
    mapping: Mapping | None = None,
    spec: str = "",
) -> list[Step]:
    """Return the steps that write a mapping where it is requested; without one, that say so."""
    prefixes = ((arguments.mapping, ""), (arguments.mapped_spec, spec))
    asked = [(path, prefix) for path, prefix in prefixes if path is not None]
    if not asked:
        return []
    if loaded is None or mapping is None:
        return [partial(write_stderr, NO_MAPPING)]
    from solver.report.timeloop_mapping import has_remainders, mapping_targets, mapping_yaml

    mapspace = loaded.mapspace
    targets = mapping_targets(mapspace.problem, mapspace.architecture, mapping)
    text = mapping_yaml(targets)
    steps: list[Step] = [partial(write_output, path, prefix + text) for path, prefix in asked]
    if mapspace.joint and arguments.mapped_spec is not None:
        steps.append(partial(write_stderr, PLACES))
    if has_remainders(targets):
        steps.append(partial(write_stderr, REMAINDERS))
    long = [dim for dim in mapspace.problem.dims if len(dim) > 1]
    return [*steps, partial(write_stderr, LONG_NAMES.format(dim=long[0]))] if long else steps


def check_accelforge(mapspace: Mapspace, arguments: argparse.Namespace) -> None:
    """Refuse ``--accelforge-mapping`` on architectures of other forms, before the search begins."""
    if arguments.accelforge_mapping is not None and not mapspace.architecture.is_accelforge:
        raise OutputError("--accelforge-mapping needs an `arch` of AccelForge")


def accelforge_step(path: Path, mapping: AnyMapping | None, write: Callable[[AnyMapping], str]) -> Step:
    """Return the step that writes a mapping in AccelForge's form, which fails if that form has none."""

    def step() -> None:
        from model.formats.fused import NotWrittenError

        if mapping is None:
            write_stderr(NO_MAPPING)
            return
        try:
            text = write(mapping)
        except NotWrittenError as error:
            raise OutputError(f"no mapping for AccelForge is written: {error}") from None
        write_output(path, text)

    return step


def results_of(result: NetworkResult) -> list[Result]:
    """Return the results of the searches of a network."""
    return [own.result for own in result.layers if own.result is not None]


def refuse_options(arguments: argparse.Namespace, options: Named[str, str], why: str) -> None:
    """Refuse options that go with others only; each with what to do instead, or why, if anything."""
    for name in given_options(arguments, options):
        instead = options[name]
        raise OutputError(f"--{name} {why}{': ' if instead else ''}{instead}")


def given_options(arguments: argparse.Namespace, options: Iterable[str]) -> Iterator[str]:
    """Yield those options that the command line has."""
    return (name for name in options if getattr(arguments, name.replace("-", "_")) not in (None, False))
