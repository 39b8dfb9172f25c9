"""The commands ``network`` and ``sweep``, and how they and ``assign`` run many searches."""

from __future__ import annotations

import argparse
import math
import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from itertools import chain, count
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from model.mapspace import ACCELFORGE
from model.text.files import is_directory
from model.text.reader import parse_assignments
from model.text.source import Places, places_of
from model.wording import printable
from solver.cli.arguments import CHECK_TIME_LIMIT_S, SETTING
from solver.cli.certify import checked, write_certificate
from solver.cli.output import (
    NO_MAPPING,
    STDOUT,
    OutputError,
    Step,
    check_directory,
    check_outputs,
    deliver,
    document_steps,
    plot_steps,
    report_steps,
    write_output,
    write_stderr,
    write_stdout,
)
from solver.cli.progress import fusion_text, interruptible, logged, status_text
from solver.cli.running import EXIT_OF_STATUS, LONG_NAMES, exit_code, load_options, search_options
from solver.cli.sparse import PERFECT_NOTE, unasked, with_sparse_data
from solver.exit_codes import EXIT_OPTIMAL, EXIT_UNCHECKED
from solver.report.pictures import check_plot
from solver.result import Status, Termination, TooLargeError

if TYPE_CHECKING:
    from model.sweep import Variant
    from solver.fusion import FusionLimits, FusionProgress
    from solver.network.cache import ResultCache
    from solver.network.executors import Executor
    from solver.network.run import LayerResult, NetworkProgress, NetworkResult, ProgressCallback, Run
    from solver.report.document import Document
    from solver.result import Options, Result

Outcome = TypeVar("Outcome")

LONGEST_NAME = 100
"""Characters of a file's name; file systems allow some 250 bytes."""

UNCHECKED = "interrupted: certificates are not checked; `prove CERT.json` checks those already written"
FUSED_ONLY = (
    *("fuse-into", "max-fused-loops", "max-fused-loops-per-rank"),
    *("fused-mapping", "certificate"),
)
OPTION_OF_LIMIT = {"no_fuse": "--no-fuse", "memories": "--fuse-into"}
UNFUSED_ONLY = {
    "certificates": "--certificate OUT writes that of the fused mapping",
    "mappings": "--fused-mapping OUT writes the fused mapping",
    "cache": "results of fused searches are not kept",
    "resume": "results of fused searches are not kept",
    "cluster": "a fused search runs on this machine",
    "same": "fused Einsums share loops as their tree has them",
    "gap": "it is about searches of single Einsums",
}

OWN_ONLY = {
    "certificates": "--certificate OUT writes that of the common unrolling",
    "gap": "it is about searches of single Einsums",
}
"""Options of `network` on each layer's own optimum, and what to do instead."""

KEEP = "cannot keep results in"
OTHER = "--cache DIR names another directory"


def network_command(arguments: argparse.Namespace) -> int:
    """Map a network, write and print the results, and have the certificates checked if asked for."""
    if arguments.fuse:
        return _fuse(arguments)
    fused_only = (name for name in FUSED_ONLY if arguments.same is None or name != "certificate")
    _refuse_options(arguments, dict.fromkeys(fused_only, ""), "needs --fuse")
    if arguments.no_fuse:
        raise OutputError("--no-fuse with names of tensors needs --fuse")
    if arguments.same is not None:
        return _with_common_loops(arguments)
    check_outputs((arguments.json, arguments.report), arguments.specs)
    _check_directories(arguments)
    from model.formats.accelforge.canonical import OpenFusionError
    from model.formats.cascade import read_network

    values = parse_assignments(arguments.variables)
    try:
        loaded = read_network(arguments.specs, values, replace(load_options(arguments), model_sparse=True))
    except OpenFusionError:
        if any(_given(arguments, UNFUSED_ONLY)):
            raise
        return _fuse(arguments)
    certified = arguments.certificates is not None or arguments.check
    lack = PERFECT_NOTE if certified else unasked(arguments)
    loaded = replace(loaded, network=with_sparse_data(loaded.network, lack))
    from solver.network import map_network

    result, interrupted = run_searches(arguments, partial(map_network, loaded.network))
    from solver.report.network import network_document, print_network

    places = places_of(*loaded.documents) if result.status is Status.INFEASIBLE else {}
    files: dict[Path, str] = {}
    with (
        _certificate_directory(arguments) as directory,
        _documents_last(partial(network_document, result), arguments) as verdict,
    ):
        deliver(
            [
                *report_steps(lambda console: print_network(console, result, places), arguments),
                *_mapping_steps(result, arguments.mappings),
                *_certificate_steps(result, directory, files, arguments),
            ]
        )
        code = _check(files, interrupted, arguments, verdict) if arguments.check else EXIT_OPTIMAL
    return code or exit_code(result.status, _results(result))


def _results(result: NetworkResult) -> list[Result]:
    """The results of the searches of a network."""
    return [own.result for own in result.layers if own.result is not None]


def _with_common_loops(arguments: argparse.Namespace) -> int:
    """Find the best spatial unrolling for all layers of a network; write and print it."""
    _refuse_options(arguments, OWN_ONLY, f"does not go with --same {arguments.same}")
    check_outputs((arguments.json, arguments.report, arguments.certificate), arguments.specs)
    _check_directories(arguments)
    from model.formats.cascade import read_network
    from solver.network.common import NoCommonError, map_with_common_unrolling
    from solver.network.common_certificate import common_certificate
    from solver.report.network import common_document, print_common

    loaded = read_network(arguments.specs, parse_assignments(arguments.variables), load_options(arguments))
    try:
        result, _ = run_searches(arguments, partial(map_with_common_unrolling, loaded.network))
    except NoCommonError as error:
        raise OutputError(f"--same {arguments.same}: {error}") from None
    places = places_of(*loaded.documents) if result.own.status is Status.INFEASIBLE else {}
    mapped = result.own if result.common is None else result.common
    steps = [
        *report_steps(lambda console: print_common(console, result, places), arguments),
        *_mapping_steps(mapped, None if result.common is None else arguments.mappings),
    ]
    with _certificate_file(arguments) as certificate:
        if certificate is not None:
            steps.append(partial(_certify_whole, partial(common_certificate, result), certificate, arguments))
        with _documents_last(partial(common_document, result), arguments) as verdict:
            deliver(steps)
            code = _check_file(result.termination, certificate, arguments, verdict)
    return code or EXIT_OF_STATUS[result.status]


def _refuse_options(arguments: argparse.Namespace, options: Mapping[str, str], why: str) -> None:
    """Refuse options that go with others only; each with what to do instead, or why, if anything."""
    for name in _given(arguments, options):
        instead = options[name]
        raise OutputError(f"--{name} {why}{': ' if instead else ''}{instead}")


def _given(arguments: argparse.Namespace, options: Iterable[str]) -> Iterator[str]:
    """Yield those options that the command line has."""
    return (name for name in options if getattr(arguments, name.replace("-", "_")) not in (None, False))


def _fuse(arguments: argparse.Namespace) -> int:
    """Find the best fused mapping of a workload; write and print it."""
    _refuse_options(arguments, UNFUSED_ONLY, "does not go with --fuse")
    if arguments.no_fuse == []:
        raise OutputError("--no-fuse names no tensors, and keeps all of them from --fuse")
    outputs = (arguments.json, arguments.report, arguments.fused_mapping, arguments.certificate)
    check_outputs(outputs, arguments.specs)
    _check_checked(arguments)
    from model.formats.fused import fused_yaml, load_cascade
    from model.formats.fused.loader import CONSTRAINTS_NOTE
    from solver.fusion import LimitError, NotSearchedError, fuse_cascade
    from solver.fusion.certificate import fused_certificate
    from solver.report.fused import fused_result_document, print_fused_result

    values = parse_assignments(arguments.variables)
    cascade, read = load_cascade(arguments.specs, values, load_options(arguments))
    notes = [note for note in read if note.sentence != CONSTRAINTS_NOTE]  # searches keep to them
    limits = _limits(arguments)
    search = search_options(arguments)
    objectives = search.objectives or cascade.einsums[0].mapspace.objectives
    if len(objectives) > 1:
        raise OutputError("--fuse minimises one objective")
    if arguments.uneven is False and cascade.einsums[0].mapspace.counting == ACCELFORGE:
        why = "by AccelForge's rule memories have several places in fused mappings"
        raise OutputError(f"--no-uneven does not go with --fuse: {why}")
    units = cascade.einsums[0].mapspace.architecture.units_per_pj
    try:
        with interruptible() as stop, _fusion_bar(arguments.quiet, units) as on_progress:
            result = fuse_cascade(cascade, objectives[0], search, limits, on_progress, stop.is_set)
    except LimitError as error:
        raise OutputError(f"{OPTION_OF_LIMIT[error.field]}: {error}") from None
    except (NotSearchedError, TooLargeError) as error:
        alone = "`network` without --fuse" if arguments.fuse else "--no-fuse"
        raise OutputError(f"{error}; {alone} maps each Einsum alone") from None
    text = None if result.mapping is None else fused_yaml(cascade, result.mapping)
    steps = [*report_steps(lambda console: print_fused_result(console, result, notes), arguments)]
    if arguments.fused_mapping is not None:
        write = partial(write_stderr, NO_MAPPING)
        steps.append(write if text is None else partial(write_output, arguments.fused_mapping, text))
    with _certificate_file(arguments) as certificate:
        if certificate is not None:
            steps.append(partial(_certify_whole, partial(fused_certificate, result), certificate, arguments))
        with _documents_last(partial(fused_result_document, result, notes, text), arguments) as verdict:
            deliver(steps)
            code = _check_file(result.termination, certificate, arguments, verdict)
    return code or EXIT_OF_STATUS[result.status]


def _limits(arguments: argparse.Namespace) -> FusionLimits:
    """Return what the options leave of fused mappings."""
    from solver.fusion import FusionLimits

    return FusionLimits(
        arguments.max_fused_loops,
        arguments.max_fused_loops_per_rank,
        frozenset(chain.from_iterable(arguments.no_fuse or ())),
        None if arguments.fuse_into is None else frozenset(chain.from_iterable(arguments.fuse_into)),
        # Certificates do not know unlike visits of nests with remainders.
        equal_parts=arguments.certificate is not None or arguments.check,
    )


@contextmanager
def _certificate_file(arguments: argparse.Namespace) -> Iterator[Path | None]:
    """Yield where the certificate goes, a temporary file if it is only checked; None if nowhere."""
    temporary = arguments.check and arguments.certificate is None
    with tempfile.TemporaryDirectory() if temporary else nullcontext() as folder:
        yield Path(folder) / "certificate.json" if folder else arguments.certificate


def _certify_whole(
    make: Callable[[list[str], int], dict[str, object]], path: Path, arguments: argparse.Namespace
) -> None:
    """Write what `make` makes of a command and a seed, or say why there is no certificate."""
    from solver.certificate import CertificateError, certificate_text

    try:
        document = make(["python", "-m", "solver", *arguments.words], arguments.seed)
    except CertificateError as error:
        write_stderr(f"note: no certificate is written: {error}\n")
        return
    write_output(path, certificate_text(document))


@contextmanager
def _documents_last(
    document: Callable[[str | None], Document], arguments: argparse.Namespace
) -> Iterator[list[str]]:
    """Write the document and its page in the end, also after an interrupt, with the verdict that is added."""
    verdict: list[str] = []
    try:
        yield verdict
    finally:
        deliver([*document_steps(lambda: document(verdict[0] if verdict else None), arguments)])


def _check_file(
    termination: Termination, path: Path | None, arguments: argparse.Namespace, verdicts: list[str]
) -> int:
    """With ``--check``, have the certificate checked, add and print the verdict; return the exit code."""
    if not arguments.check:
        return EXIT_OPTIMAL
    if termination is Termination.INTERRUPTED:
        write_stderr(f"note: {UNCHECKED}\n")
        return EXIT_UNCHECKED
    if path is None or not path.exists():
        return EXIT_UNCHECKED
    limit_s = CHECK_TIME_LIMIT_S if arguments.check_time_limit is None else arguments.check_time_limit
    if not arguments.quiet:
        most = "" if limit_s == math.inf else f", for {limit_s:g} s at most (--check-time-limit changes that)"
        write_stderr(f"note: the certificate is being checked{most}\n")
    code, verdict = checked([path], limit_s)
    verdicts.append(" ".join(verdict.replace(f"{path}: ", "", 1).split()))
    named = f"{printable(str(path))}: " if arguments.certificate else ""
    if not arguments.quiet and STDOUT not in (arguments.json, arguments.report):
        write_stdout(verdict.replace(f"{path}: ", named, 1))
    return code


@contextmanager
def _fusion_bar(quiet: bool, units: int) -> Iterator[Callable[[FusionProgress], None] | None]:
    """Yield what feeds a line on stderr, or lines from time to time if it is no terminal; None if `quiet`."""
    if quiet:
        yield None
        return
    line = "starting"

    def hear(progress: FusionProgress) -> None:
        nonlocal line
        line = fusion_text(progress, units)

    if not sys.stderr.isatty():
        with logged(lambda: line):
            yield hear
        return
    from rich.console import Console

    with Console(stderr=True, markup=False).status(line) as status:

        def show(progress: FusionProgress) -> None:
            status.update(fusion_text(progress, units))

        yield show


def _check_checked(arguments: argparse.Namespace) -> None:
    """Check that what limits a check goes with one, and that a certificate that is checked is a file."""
    if arguments.check_time_limit is not None and not arguments.check:
        raise OutputError("--check-time-limit limits what --check does: it needs --check")
    if arguments.check and arguments.certificate == STDOUT:
        raise OutputError("--certificate must name a file, which the checker reads")


def _check_directories(arguments: argparse.Namespace) -> None:
    """Make the directories of the files per Einsum before the search, and check that they hold no inputs."""
    _check_checked(arguments)
    folders = (path if is_directory(path) else path.parent for path in arguments.specs)
    inputs = set(map(os.path.realpath, folders))
    for directory in filter(None, (arguments.certificates, arguments.mappings)):
        if os.path.realpath(directory) in inputs:
            raise OutputError(f"cannot write to {directory}: it holds inputs; name another directory")
        check_directory(directory, "cannot write to")


def _mapping_steps(result: NetworkResult, directory: Path | None) -> Iterator[Step]:
    """Yield the steps that write the mappings of all Einsums that have one into a directory, if any."""
    if directory is None:
        return
    from solver.report.timeloop_mapping import mapping_targets, mapping_yaml

    long: list[str] = []
    for file_name, outcome in _named_files(result):
        mapspace, found = outcome.layer.mapspace, outcome.result
        if found is not None and found.mapping is not None:
            targets = mapping_targets(mapspace.problem, mapspace.architecture, found.mapping)
            yield partial(write_output, directory / f"{file_name}.yaml", mapping_yaml(targets))
            long += [dim for dim in mapspace.problem.dims if len(dim) > 1]
        elif not outcome.layer.is_copy:
            name = printable(outcome.layer.name)
            yield partial(write_stderr, f"note: no mapping of {name} is written: none was found\n")
    if long:
        yield partial(write_stderr, LONG_NAMES.format(dim=long[0]))


def _named_files(result: NetworkResult) -> Iterator[tuple[str, LayerResult]]:
    """Yield the outcome of each Einsum with the name of its files."""
    return zip(file_names(outcome.layer.name for outcome in result.layers), result.layers, strict=True)


@contextmanager
def _certificate_directory(arguments: argparse.Namespace) -> Iterator[Path | None]:
    """Yield where certificates go, a temporary directory if they are only checked; None if nowhere."""
    temporary = arguments.check and arguments.certificates is None
    with tempfile.TemporaryDirectory() if temporary else nullcontext() as name:
        yield Path(name) if name else arguments.certificates


def _certificate_steps(
    result: NetworkResult, directory: Path | None, files: dict[Path, str], arguments: argparse.Namespace
) -> Iterator[Step]:
    """Yield the steps that write the certificates, and put their paths, with the Einsums, into `files`."""
    if directory is None:
        return
    for file_name, outcome in _named_files(result):
        name = outcome.layer.name
        lack = _uncertifiable(outcome)
        if lack:
            message = f"note: no certificate of {printable(name)} is written: {lack}\n"
            yield partial(write_stderr, message)
        elif outcome.result is not None and outcome.origin != "identical":
            path = directory / f"{file_name}.json"
            yield partial(_certify, outcome, path, files, arguments)


def _certify(outcome: LayerResult, path: Path, files: dict[Path, str], arguments: argparse.Namespace) -> None:
    assert outcome.result is not None
    write_certificate(path, outcome.layer.mapspace, outcome.result, arguments, "network")
    files[path] = outcome.layer.name


def _uncertifiable(outcome: LayerResult) -> str:
    """Say why there can be no certificate of an Einsum that needs a mapping; nothing if there can be."""
    if outcome.origin == "no room":
        return "the space that other tensors take is not part of its mapspace"
    found = outcome.result
    proves = found is None or found.bound is not None or found.status is Status.INFEASIBLE
    return "" if proves else "nothing is proven"


def _check(
    files: dict[Path, str], interrupted: bool, arguments: argparse.Namespace, summary: list[str]
) -> int:
    """Have certificates checked, print the verdicts, add how many are valid, and return the exit code."""
    if interrupted:
        write_stderr(f"note: {UNCHECKED}\n")
        return EXIT_UNCHECKED
    code, verdicts = EXIT_OPTIMAL, "No certificate to check\n"
    if files:
        code, printed = checked(list(files), arguments.check_time_limit)
        for path, name in files.items():
            printed = printed.replace(f": {path}: ", f": {printable(name)}: ", 1)
        valid = sum(line.startswith("VALID: ") for line in printed.splitlines())
        summary.append(f"{valid} of {len(files)} certificates are VALID")
        verdicts = f"{printed}{summary[0]}\n"
    if not arguments.quiet and arguments.json != STDOUT:
        write_stdout(verdicts)
    return code


def file_names(names: Iterable[str]) -> Iterator[str]:
    """Yield a file name for each name: all differ, ignoring case, and none has special characters."""
    taken: set[str] = set()
    for name in names:
        plain = re.sub(r"[^\w.+=-]+", "_", name)[:LONGEST_NAME].strip("._-") or "einsum"
        candidates = chain([plain], (f"{plain}_{number}" for number in count(2)))
        file_name = next(candidate for candidate in candidates if candidate.casefold() not in taken)
        taken.add(file_name.casefold())
        yield file_name


def sweep_command(arguments: argparse.Namespace) -> int:
    """Map every point of a sweep, write and print the results."""
    if arguments.densities:
        from solver.cli.sparse import sweep_densities

        return sweep_densities(arguments)
    inputs = (*arguments.specs, *arguments.workloads, *arguments.architectures)
    check_outputs((arguments.json, arguments.csv, arguments.plot, arguments.report), inputs)
    check_plot(arguments.plot)
    from model.formats.cascade.loader import load_variants
    from model.formats.timeloop.overrides import parse_setting

    variants = load_variants(
        arguments.specs,
        arguments.workloads,
        arguments.architectures,
        [parse_setting(text, SETTING) for text in arguments.settings],
        parse_assignments(arguments.variables),
        load_options(arguments),
    )
    from solver.network.sweep import sweep

    result, _ = run_searches(arguments, partial(sweep, variants))
    from solver.report.network import print_sweep, sweep_csv, sweep_document

    documents = {variant.point: variant.documents for variant in variants}

    def places(variant: Variant) -> Places:
        return places_of(*documents[variant.point])

    steps = [
        *report_steps(lambda console: print_sweep(console, result, places), arguments, arguments.csv),
        *document_steps(lambda: sweep_document(result), arguments),
    ]
    if arguments.csv is not None:
        steps.append(lambda: write_output(arguments.csv, sweep_csv(result)))
    lack = "" if any(point.costs is not None for point in result.points) else "point"
    plot = plot_steps(arguments.plot, lambda: sweep_document(result), lack)
    deliver([*steps, *plot])
    return exit_code(result.status, chain.from_iterable(_results(point.result) for point in result.points))


def run_searches(
    arguments: argparse.Namespace, mapped: Callable[[Options, Run], Outcome]
) -> tuple[Outcome, bool]:
    """Run `mapped` with options, cache, progress and executor; return also whether an interrupt ended it."""
    from solver.network import Run
    from solver.network.executors import ExecutorError

    cache, options = _opened_cache(arguments), search_options(arguments)
    try:
        executor = _executor(arguments)
        with interruptible() as stop, _progress_bar(arguments.quiet) as on_progress:
            outcome = mapped(options, Run(cache, arguments.resume, on_progress, stop.is_set, executor))
    except ExecutorError as error:
        raise OutputError(str(error)) from error
    if cache is not None and cache.failure is not None:
        _warn(OutputError(f"{KEEP} {cache.directory}: {cache.failure.strerror}; {OTHER}"))
    return outcome, stop.is_set()


def _opened_cache(arguments: argparse.Namespace) -> ResultCache | None:
    """Return where results are kept, if anywhere; a default directory that cannot be used is a warning."""
    from solver.network import ResultCache

    directory = arguments.cache
    if arguments.no_cache and arguments.resume:
        raise OutputError("--resume uses the results that are kept: it conflicts with --no-cache")
    if arguments.no_cache:
        return None
    try:
        place = directory or _default_cache()
        check_directory(place, KEEP, f"; {OTHER}")
    except OutputError as error:
        if directory is not None:
            raise
        _warn(error)
        return None
    cache = ResultCache(place)
    cache.remove_leftovers()
    return cache


def _default_cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    try:
        return Path(base).expanduser() / "tilewright"
    except RuntimeError:
        message = f"there is no home directory to keep results in; {OTHER}"
        raise OutputError(message) from None


def _warn(error: OutputError) -> None:
    write_stderr(f"warning: {printable(str(error))}\n")


def _executor(arguments: argparse.Namespace) -> Executor:
    from solver.network import Processes, Serial
    from solver.network.executors import Cluster, silence_logs

    if arguments.cluster is not None:
        silence_logs()
        return Cluster(arguments.cluster)
    return Processes(arguments.jobs) if arguments.jobs > 1 else Serial()


def _layer_text(progress: NetworkProgress) -> str:
    text, search = printable(progress.layer.name), progress.search
    if search is None:
        return text
    units = progress.layer.mapspace.architecture.units_per_pj
    return f"{text}  {status_text(search, search.seconds, units)}"


@contextmanager
def _progress_bar(quiet: bool) -> Iterator[ProgressCallback | None]:
    """Yield what feeds a bar over the searches on stderr, or lines if it is no terminal; None if `quiet`."""
    if quiet:
        yield None
        return
    if not sys.stderr.isatty():
        line = "starting"

        def hear(progress: NetworkProgress) -> None:
            nonlocal line
            line = f"{progress.done}/{progress.searches}  {_layer_text(progress)}"

        with logged(lambda: line):
            yield hear
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = (MofNCompleteColumn(), BarColumn(), TextColumn("{task.description}", markup=False))
    with Progress(*columns, console=Console(stderr=True, markup=False), transient=True) as bar:
        task = bar.add_task("", total=None)

        def show(progress: NetworkProgress) -> None:
            text = _layer_text(progress)
            bar.update(task, completed=progress.done, total=progress.searches, description=text)

        yield show
