"""Certificates: written by ``map``, ``prove`` and ``network``, and checked by a separate program."""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from model.mapspace import Mapspace
from model.text.files import is_file
from model.text.source import places_of
from model.wording import printable
from solver.cli.options import DEFAULTS
from solver.cli.output import STDOUT, OutputError, check_outputs, write_output, write_stderr, write_stdout
from solver.cli.progress import interruptible
from solver.cli.running import EXIT_OF_STATUS, check_certified, load_unmapped, search
from solver.exit_codes import EXIT_OPTIMAL, EXIT_UNCHECKED
from solver.result import AUTO, BOUNDS, CP_SAT, Result, Status, Termination

if TYPE_CHECKING:
    from model.formats.timeloop import LoadedSpec
    from solver.certificate.document import Claims
    from solver.cli.output import Step

POLL_S = 0.1
"""Seconds between two looks of the checker's parent at whether to stop."""

LEASHED = """
import os, runpy, sys, threading
threading.Thread(target=lambda: os.read(0, 1) or os._exit(1), daemon=True).start()
del sys.argv[0]
runpy.run_path(sys.argv[0], run_name="__main__")
"""
"""Runs a script that ends once the other end of its stdin is closed, as when its parent is killed."""

MOST_BYTES = 1 << 26
"""The checker reads no more of a file."""

CERTIFICATE_MARK = b'"tilewright certificate '
"""In every certificate, whatever the order of its keys."""

HEAD_BYTES = 4096
RESULT_KEYS = (
    re.compile(rb'^\s*"version": "', re.MULTILINE),
    re.compile(rb'^\s*"(status|valid)": ', re.MULTILINE),
)
"""Among the first keys of every result that ``--json`` writes."""


def prove_command(arguments: argparse.Namespace) -> int:
    """Map, certify and check; or only check certificates that are named."""
    check_outputs((arguments.certificate,), arguments.specs)
    path = arguments.certificate
    if path is not None and (path == STDOUT or (path.exists() and not path.is_file())):
        raise OutputError("--certificate must name a file, which the checker reads")
    if any(map(is_certificate, arguments.specs)):
        return _check_again(arguments)
    loaded = load_unmapped(arguments, refuse_infeasible=False, sparse=True, all_rules=True)
    mapspace, result = _searched(loaded, arguments)
    by_bounds = mapspace.has_simple_rules
    from solver.report.figures import seconds_text
    from solver.report.reasons import reason_lines

    for line in reason_lines(result.reasons, places_of(loaded.document)):
        write_stdout(f"{line}\n")
    seconds = seconds_text(result.statistics.seconds)
    solver = "the optimizer" if by_bounds else "CP-SAT alone"
    write_stdout(f"{result.status.value} by {solver} in {seconds}: {_outcome(mapspace, result)}\n")
    if arguments.engine == CP_SAT and by_bounds:
        _compare_with_formulation(mapspace, result, arguments)
    with tempfile.TemporaryDirectory() as folder:
        path = arguments.certificate or Path(folder) / "certificate.json"
        if not write_certificate(path, mapspace, result, arguments):
            return EXIT_OF_STATUS[result.status]
        if result.termination is Termination.INTERRUPTED:
            write_stderr("note: interrupted: the certificate is not checked\n")
            return EXIT_UNCHECKED
        code, verdict = checked([path], arguments.check_time_limit)
    # A temporary file is gone by now.
    named = f"{printable(str(path))}: " if arguments.certificate else ""
    write_stdout(verdict.replace(f"{path}: ", named))
    return code or EXIT_OF_STATUS[result.status]


def _outcome(mapspace: Mapspace, result: Result) -> str:
    """Return value, bound and gap."""
    from solver.report.sparse import sparse_outcome_text
    from solver.report.text import outcome_text

    return outcome_text(result) if mapspace.sparsity is None else sparse_outcome_text(result)


def _searched(loaded: LoadedSpec, arguments: argparse.Namespace) -> tuple[Mapspace, Result]:
    """Search for the best mapping, by bounds alone where they know all rules; return the mapspace, too."""
    sparsity = loaded.mapspace.sparsity
    if sparsity is None or not sparsity.optimized:
        mapspace = replace(loaded.mapspace, sparsity=None)  # densities change no count
        check_certified(replace(loaded, mapspace=mapspace))
        return mapspace, search(mapspace, arguments, BOUNDS if mapspace.has_simple_rules else AUTO)
    from solver.cli.sparse import as_searched

    if arguments.engine == CP_SAT:
        raise OutputError(f"--engine {CP_SAT} knows dense data only; --ignore-sparse takes the data as dense")
    loaded = as_searched(loaded)
    check_certified(loaded)
    return loaded.mapspace, search(loaded.mapspace, arguments)


def _compare_with_formulation(mapspace: Mapspace, result: Result, arguments: argparse.Namespace) -> None:
    """Solve the problem by CP-SAT alone; print whether it comes out the same.

    Raises
    ------
    ContradictionError
        If one of the two proves what the other one refutes.
    """
    from solver.report.figures import seconds_text
    from solver.report.text import outcome_text
    from solver.result import ContradictionError

    other = search(mapspace, arguments, CP_SAT)
    below = [
        (one.bound, two.value)
        for one, two in ((result, other), (other, result))
        if one.bound is not None and two.value is not None and one.bound > two.value
    ]
    proven = (Status.OPTIMAL, Status.INFEASIBLE)
    statuses = {one.status for one in (result, other) if one.status in proven}
    has_mapping = any(one.mapping is not None for one in (result, other))
    if below or len(statuses) > 1 or (Status.INFEASIBLE in statuses and has_mapping):
        raise ContradictionError("bounds and CP-SAT disagree on what is optimal")
    seconds = seconds_text(other.statistics.seconds)
    write_stdout(f"{other.status.value} by CP-SAT alone in {seconds}: {outcome_text(other)}\n")


def is_certificate(path: Path) -> bool:
    """Whether a file is a certificate, going by its content."""
    content = _beginning(path, MOST_BYTES)
    return content.startswith(b"{") and CERTIFICATE_MARK in content


def _beginning(path: Path, most_bytes: int) -> bytes:
    """Return how a file begins, without blanks; nothing if it cannot be read: the reader of specs says so."""
    if not is_file(path):
        return b""
    try:
        with path.open("rb") as file:
            return file.read(most_bytes).lstrip()
    except OSError:
        return b""


def known_output(path: Path) -> str:
    """Return a message on a file that is an output of Tilewright and no spec; nothing for other files."""
    head = _beginning(path, HEAD_BYTES)
    name = printable(str(path))
    if head.startswith(b"{") and is_certificate(path):
        return (
            f"error: {name} is a certificate, not a spec\nhelp: `python -m solver prove {name}` checks it\n"
        )
    if head.startswith(b"{") and all(pattern.search(head) for pattern in RESULT_KEYS):
        return (
            f"error: {name} is a result that --json wrote, not a spec\n"
            "help: --mapping and --mapped-spec write files that can be read again\n"
        )
    return ""


def _check_again(arguments: argparse.Namespace) -> int:
    """Have certificates checked that exist."""
    others = [path for path in arguments.specs if not is_certificate(path)]
    if others:
        raise OutputError(f"{others[0]} is not a certificate; certificates are checked without specs")
    if arguments.certificate is not None:
        raise OutputError("--certificate needs specs: certificates given as arguments are only checked")
    code, verdicts = checked(arguments.specs, arguments.check_time_limit)
    write_stdout(verdicts)
    return code


def checked(paths: Sequence[Path], time_limit_s: float | None) -> tuple[int, str]:
    """Have certificates checked; return exit code and verdicts. A signal raises `KeyboardInterrupt`."""
    limit = [] if time_limit_s is None else ["--time-limit", str(time_limit_s)]
    with (
        interruptible() as stop,
        _leash() as leash,
        subprocess.Popen(
            [sys.executable, "-P", "-c", LEASHED, str(checker_path()), *limit, "--", *map(str, paths)],
            stdin=leash,
            stdout=subprocess.PIPE,
            encoding="utf-8",
            errors="surrogateescape",
            env={**os.environ, "PYTHONIOENCODING": "utf-8:surrogateescape"},
            start_new_session=True,
        ) as checker,
    ):
        try:
            printed = _printed(checker, stop)
        finally:
            checker.kill()
    if printed and checker.returncode >= 0:
        return checker.returncode, printed
    killed = checker.returncode < 0
    ended = f"was ended by signal {-checker.returncode}" if killed else "ended without a verdict"
    left = paths[min(printed.count("\n"), len(paths) - 1)]
    return EXIT_UNCHECKED, f"{printed}CANNOT CHECK: {left}: the checker {ended}\n"


@contextmanager
def _leash() -> Iterator[int]:
    """Yield one end of a pipe whose other end only this process holds."""
    held, holding = os.pipe()
    try:
        yield held
    finally:
        os.close(held)
        os.close(holding)


def _printed(process: subprocess.Popen[str], stop: threading.Event) -> str:
    """Return what a process prints until it ends; raise KeyboardInterrupt once `stop` is set."""
    while not stop.is_set():
        with suppress(subprocess.TimeoutExpired):
            return process.communicate(timeout=POLL_S)[0]
    raise KeyboardInterrupt


def checked_result(
    mapspace: Mapspace, result: Result, arguments: argparse.Namespace
) -> tuple[int, str | None]:
    """With ``--check``, write the certificate and have it checked; return exit code and verdict."""
    if not arguments.check:
        return EXIT_OPTIMAL, None
    with tempfile.TemporaryDirectory() as folder:
        path = arguments.certificate or Path(folder) / "certificate.json"
        if not write_certificate(path, mapspace, result, arguments):
            return EXIT_UNCHECKED, None
        if result.termination is Termination.INTERRUPTED:
            write_stderr("note: interrupted: the certificate is not checked\n")
            return EXIT_UNCHECKED, None
        code, verdict = checked([path], None)
    return code, " ".join(verdict.replace(f"{path}: ", "").split())


def certificate_steps(mapspace: Mapspace, result: Result, arguments: argparse.Namespace) -> Iterator[Step]:
    """Yield the step that writes a certificate, unless it was written to be checked, or none is asked for."""
    if arguments.certificate is not None and not arguments.check:
        yield lambda: write_certificate(arguments.certificate, mapspace, result, arguments)


def write_certificate(
    path: Path,
    mapspace: Mapspace,
    result: Result,
    arguments: argparse.Namespace,
    command: str = "map",
) -> bool:
    """Write the certificate of a result; return False, with a note, if there is nothing to certify."""
    if result.status is Status.UNKNOWN:
        write_stderr("note: no certificate is written: nothing was found or proven\n")
        return False
    from solver.certificate.canonical import CertificateError
    from solver.certificate.document import certificate, certificate_text

    try:
        document = certificate(
            mapspace, result, reproducing_command(result, arguments, command), arguments.seed
        )
    except CertificateError as error:
        raise OutputError(f"no certificate is written: {error}") from None
    write_output(path, certificate_text(document))
    return True


def reproducing_command(result: Claims, arguments: argparse.Namespace, command: str = "map") -> list[str]:
    """Return the words of a command line that gives the same result."""
    words = ["python", "-m", "solver", command, *map(str, arguments.specs)]
    for variable in arguments.variables:
        words += ["--set", variable]
    for root in arguments.include_roots:
        words += ["--allow-include", str(root)]
    if getattr(arguments, "einsum", None) is not None:
        words += ["--einsum", arguments.einsum]
    if getattr(arguments, "costs", None) is not None:
        words += ["--costs", str(arguments.costs)]
    words += ["--no-fuse"] if getattr(arguments, "no_fuse", False) else []
    for name, value in arguments.limits:
        words += ["--limit", f"{name}={value}"]
    words += ["--ignore-sparse"] if arguments.ignore_sparse else []
    words += ["--timeloop-padding"] if arguments.timeloop_padding else []
    words += ["--counting", arguments.counting] if arguments.counting else []
    words += ["--factors", arguments.factors] if arguments.factors else []
    if arguments.uneven is not None:
        words += ["--uneven" if arguments.uneven else "--no-uneven"]
    if arguments.memory_limit != DEFAULTS.memory_limit_mib:  # it affects what is proven
        words += ["--memory-limit", str(arguments.memory_limit)]
    return [*words, "--objective", ",".join(result.objectives)]


def checker_path() -> Path:
    """Return the path of the checker, in a checkout and installed."""
    from solver.certificate import checker

    return Path(checker.__file__).parent / "__main__.py"
