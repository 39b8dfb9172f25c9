"""What commands do before they print: load the specs, and search."""

from __future__ import annotations

import argparse
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from model.formats.timeloop import LoadedSpec, LoadOptions, load_timeloop
from model.mapspace import Mapspace
from model.note import Note
from model.objective import ENERGY, LATENCY
from model.text.limits import DEFAULT_LIMITS
from model.text.reader import parse_assignments
from solver.cli.progress import interruptible, live_progress
from solver.result import Options, Result

if TYPE_CHECKING:
    from solver.sensitivity import Effect

MAPPING_NOTE = "the `mapping` in the specs is no constraint here; `evaluate` prices it"


def load_options(arguments: argparse.Namespace) -> LoadOptions:
    """Return how the command line wants specs to be read."""
    return LoadOptions(
        ignore_sparse=arguments.ignore_sparse,
        timeloop_padding=arguments.timeloop_padding,
        limits=replace(DEFAULT_LIMITS, **dict(arguments.limits)),
        allow_include=tuple(arguments.include_roots),
        objectives=_objectives(arguments),
    )


def _objectives(arguments: argparse.Namespace) -> tuple[str, ...] | None:
    """Return the objectives of the command line; None where it names none."""
    if getattr(arguments, "pareto", False):
        return (ENERGY, LATENCY)
    objectives = getattr(arguments, "objective", None)
    return (objectives,) if isinstance(objectives, str) else objectives


def load_unmapped(arguments: argparse.Namespace, refuse_infeasible: bool = True) -> LoadedSpec:
    """Load a spec for a command that does not look at the spec's own mapping, and say so.

    Raises
    ------
    SpecError
        The specs are wrong; `ConflictError` where their constraints conflict plainly.
    """
    options = replace(load_options(arguments), skip_mapping=True, refuse_infeasible=refuse_infeasible)
    return _noted(_load(arguments, options))


def load_checked(arguments: argparse.Namespace) -> Mapspace:
    """Load the mapspace of a spec; a mapping in it has to keep to the constraints.

    Raises
    ------
    SpecError
        As of `load_unmapped`.
    """
    return _noted(_load(arguments, load_options(arguments))).mapspace


def _noted(loaded: LoadedSpec) -> LoadedSpec:
    """Note that a mapping is not followed; one that says nothing needs no note."""
    return loaded.noted([Note(MAPPING_NOTE)]) if loaded.has_mapping else loaded


def load_empty(arguments: argparse.Namespace) -> Mapspace:
    """Load the mapspace of a spec that `load_mapped` refused for its constraints."""
    return _load(
        arguments, replace(load_options(arguments), skip_mapping=True, refuse_infeasible=False)
    ).mapspace


def load_mapped(arguments: argparse.Namespace) -> LoadedSpec:
    """Load a spec with the mapping of ``--mapping``, or else its own.

    Raises
    ------
    SpecError
        As of `load_unmapped`, or there is no mapping, or one that does not keep to the constraints.
    """
    options = replace(load_options(arguments), require_mapping=True, mapping_file=arguments.mapping)
    return _load(arguments, options)


def _load(arguments: argparse.Namespace, options: LoadOptions) -> LoadedSpec:
    return load_timeloop(arguments.specs, parse_assignments(arguments.variables), options)


def load_mapspace(arguments: argparse.Namespace, refuse_infeasible: bool = True) -> Mapspace:
    """Load the mapspace of a spec; see `load_unmapped`."""
    return load_unmapped(arguments, refuse_infeasible).mapspace


def search_options(arguments: argparse.Namespace) -> Options:
    """Return the options that `add_search_options` reads."""
    return Options(
        objectives=arguments.objective,
        time_limit_s=arguments.time_limit,
        jobs=arguments.jobs,
        seed=arguments.seed,
        memory_limit_mib=arguments.memory_limit,
    )


def search(mapspace: Mapspace, arguments: argparse.Namespace) -> Result:
    """Map an Einsum as the command line says, with live progress; an interrupt ends it early.

    Raises
    ------
    TooLargeError
        As of `solver.map_einsum`.
    """
    from solver.fallback import map_or_explain

    options = search_options(arguments)
    units = mapspace.architecture.units_per_pj
    with interruptible() as stop, live_progress(units, arguments.quiet) as on_progress:
        return map_or_explain(mapspace, options, on_progress, stop.is_set)


def sensitivities(mapspace: Mapspace, result: Result, arguments: argparse.Namespace) -> tuple[Effect, ...]:
    """Map again with other limits of the architecture; an interrupt ends it with what is known by then."""
    from solver.fallback import map_or_explain
    from solver.sensitivity import sensitivity

    if result.mapping is None:
        return ()
    units = mapspace.architecture.units_per_pj
    options = search_options(arguments)
    with interruptible() as stop, live_progress(units, arguments.quiet) as on_progress:
        search = partial(map_or_explain, reasons=False)
        return sensitivity(mapspace, result, options, search, on_progress, stop.is_set)


def link_transfer_notes(mapspace: Mapspace, result: Result) -> tuple[Note, ...]:
    """Note what link transfers between neighbours would save, which Timeloop counts by default."""
    if result.mapping is None or result.evaluation is None:
        return ()
    from model.cost import evaluate

    architecture = mapspace.architecture
    linked = evaluate(mapspace.problem, architecture, result.mapping, link_transfers=True)
    saved = result.evaluation.energy - linked.energy
    if not saved:
        return ()
    sentence = (
        "Timeloop counts link transfers unless it is told not to: with them this mapping takes {} % less "
        "energy, and another may be better; `evaluate --link-transfers` counts them"
    )
    return (Note(sentence, (f"{100 * saved / result.evaluation.energy:.2g}",)),)
