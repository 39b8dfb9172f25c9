"""Certificates: how commands write them, and have them checked by a separate program."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from solver.cli.options import DEFAULTS
from solver.cli.output import (
    STDOUT,
    OutputError,
    write_output,
    write_stderr,
)
from solver.cli.progress import interruptible
from solver.exit_codes import EXIT_OPTIMAL, EXIT_UNCHECKED
from solver.processes import POLL_S
from solver.result import Status, Termination

if TYPE_CHECKING:
    from model.mapspace import Mapspace
    from solver.certificate.document import Claims
    from solver.cli.output import Step
    from solver.processes import POLL_S
from solver.result import Result

LEASHED = """
import os, runpy, sys, threading
threading.Thread(target=lambda: os.read(0, 1) or os._exit(1), daemon=True).start()
del sys.argv[0]
runpy.run_path(sys.argv[0], run_name="__main__")
"""
"""Runs a script that ends once the other end of its stdin is closed, as when its parent is killed."""


UNCHECKED = "interrupted: certificates are not checked; `prove CERT.json` checks those already written"


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
    """Return the output of a process; raise KeyboardInterrupt once `stop` is set."""
    while not stop.is_set():
        with suppress(subprocess.TimeoutExpired):
            return process.communicate(timeout=POLL_S)[0]
    raise KeyboardInterrupt


def checker_path() -> Path:
    """Return the path of the checker, in a checkout and installed."""
    from solver.certificate import checker

    return Path(checker.__file__).parent / "__main__.py"


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
    """Yield the step that writes a certificate, unless it was written to be checked, or none is requested."""
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
        write_stderr("note: no certificate is written: the search found and proved nothing\n")
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


def check_checked(arguments: argparse.Namespace) -> None:
    """Check that what limits a check goes with one, and that a certificate that is checked is a file."""
    if arguments.check_time_limit is not None and not arguments.check:
        raise OutputError("--check-time-limit needs --check")
    if arguments.check and arguments.certificate == STDOUT:
        raise OutputError("--certificate must name a file, so that the checker can read it")
