"""``network --fuse`` and ``--same``: one search for all Einsums of a network."""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from model.extents import ANY
from model.text.reader import parse_assignments
from model.wording import printable
from solver.cli.arguments import CHECK_TIME_LIMIT_S
from solver.cli.certificates import UNCHECKED, check_checked, checked
from solver.cli.layer_files import check_directories, layer_mapping_steps
from solver.cli.output import (
    NO_MAPPING,
    STDOUT,
    OutputError,
    Step,
    check_outputs,
    deliver,
    documents_last,
    report_steps,
    write_output,
    write_stderr,
    write_stdout,
)
from solver.cli.progress import fusion_text, interruptible, logged
from solver.cli.running import (
    EXIT_OF_STATUS,
    accelforge_step,
    check_accelforge,
    load_options,
    refuse_options,
    search_options,
)
from solver.cli.searches import run_searches
from solver.exit_codes import EXIT_OPTIMAL, EXIT_UNCHECKED
from solver.result import Termination, TooLargeError

if TYPE_CHECKING:
    from model.fused.cascade import Cascade
    from solver.fusion import FusedResult, FusionLimits, FusionProgress

FUSED_ONLY = (
    *("fuse-into", "max-fused-loops", "max-fused-loops-per-rank", "shared-factors"),
    *("fused-mapping", "accelforge-mapping", "certificate"),
)


OPTION_OF_LIMIT = {
    "no_fuse": "--no-fuse",
    "memories": "--fuse-into",
    "equal_parts": "--shared-factors any",
}


UNFUSED_ONLY = {
    "certificates": "--certificate OUT writes that of the fused mapping",
    "mappings": "--fused-mapping OUT writes the fused mapping",
    "cache": "results of fused searches are not cached",
    "resume": "results of fused searches are not cached",
    "cluster": "a fused search runs on one machine",
    "same": "fused Einsums share loops in a tree instead",
    "gap": "it is about searches of single Einsums",
}


def fuse(arguments: argparse.Namespace) -> int:
    """Find the best fused mapping of a workload; write and print it."""
    refuse_options(arguments, UNFUSED_ONLY, "cannot be combined with --fuse")
    if arguments.no_fuse == []:
        raise OutputError("--no-fuse without tensor names excludes all tensors, so --fuse has no effect")
    outputs = (arguments.json, arguments.report, arguments.fused_mapping, arguments.certificate)
    check_outputs((*outputs, arguments.accelforge_mapping), arguments.specs)
    check_checked(arguments)
    if arguments.shared_factors == ANY and (arguments.certificate is not None or arguments.check):
        raise OutputError("--shared-factors any: the checker does not support remainders of shared loops")
    from model.formats.fused import fused_yaml, load_cascade
    from model.formats.fused.loader import CONSTRAINTS_NOTE
    from solver.fusion import LimitError, NotSearchedError, fuse_cascade
    from solver.fusion.certificate import fused_certificate
    from solver.report.fused import fused_result_document

    values = parse_assignments(arguments.variables)
    cascade, read = load_cascade(arguments.specs, values, load_options(arguments))
    check_accelforge(cascade.einsums[0].mapspace, arguments)
    notes = [note for note in read if note.sentence != CONSTRAINTS_NOTE]  # searches keep to them
    limits = _fusion_limits(arguments)
    search = search_options(arguments)
    objectives = search.objectives or cascade.einsums[0].mapspace.objectives
    if len(objectives) > 1:
        raise OutputError("--fuse minimises one objective")
    rule = cascade.einsums[0].mapspace.counting_rule
    if arguments.uneven is False and rule.has_places:
        why = f"with {rule.title}, memories have several places in fused mappings"
        raise OutputError(f"--no-uneven cannot be combined with --fuse: {why}")
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
    document = partial(fused_result_document, result, notes, text)
    steps = [*report_steps(document, arguments), *_mapping_steps(cascade, result, text, arguments)]
    certify = partial(fused_certificate, result)
    return (
        _delivered(steps, document, certify, result.termination, arguments) or EXIT_OF_STATUS[result.status]
    )


def _mapping_steps(
    cascade: Cascade, result: FusedResult, text: str | None, arguments: argparse.Namespace
) -> Iterator[Step]:
    """Yield the steps that write the mapping, in our own form its `text`, where that is requested."""
    from model.formats.fused import accelforge_mapping

    if arguments.fused_mapping is not None:
        write = partial(write_stderr, NO_MAPPING)
        yield write if text is None else partial(write_output, arguments.fused_mapping, text)
    if arguments.accelforge_mapping is not None:
        tree = partial(accelforge_mapping, cascade)
        yield accelforge_step(arguments.accelforge_mapping, result.mapping, tree)


def _fusion_limits(arguments: argparse.Namespace) -> FusionLimits:
    """Return the limits on fused mappings that the options set."""
    from solver.fusion import FusionLimits

    return FusionLimits(
        arguments.max_fused_loops,
        arguments.max_fused_loops_per_rank,
        frozenset(chain.from_iterable(arguments.no_fuse or ())),
        None if arguments.fuse_into is None else frozenset(chain.from_iterable(arguments.fuse_into)),
        equal_parts=arguments.shared_factors != ANY,
    )


@contextmanager
def _fusion_bar(quiet: bool, units: int) -> Iterator[Callable[[FusionProgress], None] | None]:
    """Yield the callback of a status line on stderr, or of lines off a terminal; None if `quiet`."""
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


OWN_ONLY = {
    "certificates": "--certificate OUT writes that of the common unrolling",
    "gap": "it is about searches of single Einsums",
}
"""Options of `network` on each layer's own optimum, and what to do instead."""


def with_common_loops(arguments: argparse.Namespace) -> int:
    """Find the best spatial unrolling for all layers of a network; write and print it."""
    refuse_options(arguments, OWN_ONLY, f"cannot be combined with --same {arguments.same}")
    check_outputs((arguments.json, arguments.report, arguments.certificate), arguments.specs)
    check_directories(arguments)
    from model.formats.cascade import read_network
    from solver.network.common import NoCommonError, map_with_common_unrolling
    from solver.network.common_certificate import common_certificate
    from solver.report.network import common_document

    loaded = read_network(arguments.specs, parse_assignments(arguments.variables), load_options(arguments))
    try:
        result, _ = run_searches(arguments, partial(map_with_common_unrolling, loaded.network))
    except NoCommonError as error:
        raise OutputError(f"--same {arguments.same}: {error}") from None
    document = partial(common_document, result)
    mapped = result.own if result.common is None else result.common
    steps = [
        *report_steps(document, arguments, nodes=loaded.documents),
        *layer_mapping_steps(mapped, None if result.common is None else arguments.mappings),
    ]
    certify = partial(common_certificate, result)
    return (
        _delivered(steps, document, certify, result.termination, arguments) or EXIT_OF_STATUS[result.status]
    )


def _delivered(
    steps: Sequence[Callable[[], object]],
    document: Callable[[str | None], dict[str, object]],
    certify: Callable[[list[str], int], dict[str, object]],
    termination: Termination,
    arguments: argparse.Namespace,
) -> int:
    """Take the steps, write the certificate and have it checked as asked; return the code of the check."""
    with _certificate_file(arguments) as certificate:
        if certificate is not None:
            steps = [*steps, partial(_certify_whole, certify, certificate, arguments)]
        with documents_last(document, arguments) as verdict:
            deliver(steps)
            return _check_file(termination, certificate, arguments, verdict)


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
    from solver.certificate.canonical import CertificateError
    from solver.certificate.document import certificate_text

    try:
        document = make(["python", "-m", "solver", *arguments.words], arguments.seed)
    except CertificateError as error:
        write_stderr(f"note: no certificate is written: {error}\n")
        return
    write_output(path, certificate_text(document))


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
        most = "" if limit_s == math.inf else f", for at most {limit_s:g} s (--check-time-limit changes that)"
        write_stderr(f"note: the certificate is being checked{most}\n")
    code, verdict = checked([path], limit_s)
    verdicts.append(" ".join(verdict.replace(f"{path}: ", "", 1).split()))
    named = f"{printable(str(path))}: " if arguments.certificate else ""
    if not arguments.quiet and STDOUT not in (arguments.json, arguments.report):
        write_stdout(verdict.replace(f"{path}: ", named, 1))
    return code
