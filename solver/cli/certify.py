"""Certificates on the command line: written by `map` and `prove`, checked by a program of its own."""

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

from model.mapspace import Mapspace
from model.text.files import is_file
from model.text.source import places_of
from model.wording import printable
from solver.cli.options import DEFAULTS, EXIT_OF_STATUS
from solver.cli.output import STDOUT, OutputError, check_outputs, write_output, write_stderr, write_stdout
from solver.cli.progress import interruptible
from solver.cli.running import load_unmapped, search
from solver.exit_codes import EXIT_UNCHECKED
from solver.result import Result, Status, Termination

POLL_S = 0.1
"""How often the checker's parent looks whether it is to stop."""

LEASHED = """
import os, runpy, sys, threading
threading.Thread(target=lambda: os.read(0, 1) or os._exit(1), daemon=True).start()
del sys.argv[0]
runpy.run_path(sys.argv[0], run_name="__main__")
"""
"""Runs a script that ends once nobody holds the other end of stdin, as where its parent was killed."""


MOST_BYTES = 1 << 26
"""The checker reads no more of a file."""

MARK = b'"tilewright certificate '
"""What a certificate says of itself, in whichever order its keys stand."""


def prove_command(arguments: argparse.Namespace) -> int:
    """Map, certify and check; or check certificates that there are.

    Raises
    ------
    OutputError, SpecError, TooLargeError
        What `solver.cli.main.main` says to users.
    KeyboardInterrupt
        It was interrupted while the certificate was checked.
    """
    check_outputs((arguments.certificate,), arguments.specs)
    _check_certificate(arguments.certificate)
    if any(map(_is_certificate, arguments.specs)):
        return _check_again(arguments)
    loaded = load_unmapped(arguments, refuse_infeasible=False)
    mapspace = loaded.mapspace
    result = search(mapspace, arguments)
    from solver.report.figures import seconds_text
    from solver.report.reasons import reason_lines
    from solver.report.text import outcome_text

    for line in reason_lines(result.reasons, places_of(loaded.document)):
        write_stdout(f"{line}\n")
    seconds = seconds_text(result.statistics.seconds)
    write_stdout(f"{result.status.value} by the optimizer in {seconds}: {outcome_text(result)}\n")
    with tempfile.TemporaryDirectory() as folder:
        path = arguments.certificate or Path(folder) / "certificate.json"
        if not write_certificate(path, mapspace, result, arguments):
            return EXIT_OF_STATUS[result.status]
        if result.termination is Termination.INTERRUPTED:
            write_stderr("note: interrupted: the certificate is not checked\n")
            return EXIT_UNCHECKED
        code, verdict = checked([path], arguments.check_time_limit)
    # Nobody can look at a file that is gone.
    named = f"{printable(str(path))}: " if arguments.certificate else ""
    write_stdout(verdict.replace(f"{path}: ", named))
    return code or EXIT_OF_STATUS[result.status]


def _is_certificate(path: Path) -> bool:
    """Whether a file says of itself that it is a certificate."""
    if not is_file(path):
        return False
    try:
        with path.open("rb") as file:
            content = file.read(MOST_BYTES)
    except OSError:  # the reader of specs says so
        return False
    return content.lstrip().startswith(b"{") and MARK in content


def _check_again(arguments: argparse.Namespace) -> int:
    """Have certificates checked that were written before."""
    others = [path for path in arguments.specs if not _is_certificate(path)]
    if others:
        message = f"{printable(str(others[0]))} is no certificate: certificates are checked without specs"
        raise OutputError(message)
    if arguments.certificate is not None:
        raise OutputError("--certificate is of a search: certificates that are named are only checked")
    code, verdicts = checked(arguments.specs, arguments.check_time_limit)
    write_stdout(verdicts)
    return code


def _check_certificate(path: Path | None) -> None:
    """Raise `OutputError` for a certificate that could not be read again, such as a pipe."""
    if path is not None and (path == STDOUT or (path.exists() and not path.is_file())):
        raise OutputError("the checker needs a file: --certificate must name one")


def checked(paths: Sequence[Path], time_limit_s: float | None) -> tuple[int, str]:
    """Have certificates checked, one after the other, by the program that knows nothing of the search.

    Raises
    ------
    KeyboardInterrupt
        A signal asked to stop; the checker has ended, and leaves the signals of the terminal to us.
    """
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
    """Yield the end of a pipe whose other end this process alone holds."""
    held, holding = os.pipe()
    try:
        yield held
    finally:
        os.close(held)
        os.close(holding)


def _printed(process: subprocess.Popen[str], stop: threading.Event) -> str:
    """Return what a process prints until it ends; KeyboardInterrupt once it is told to stop."""
    while not stop.is_set():
        with suppress(subprocess.TimeoutExpired):
            return process.communicate(timeout=POLL_S)[0]
    raise KeyboardInterrupt


def write_certificate(
    path: Path, mapspace: Mapspace, result: Result, arguments: argparse.Namespace, command: str = "map"
) -> bool:
    """Write the certificate of a result; if it claims nothing, say so and return False.

    Raises
    ------
    OutputError
        It cannot be written, or would be too large.
    """
    if result.status is Status.UNKNOWN:
        write_stderr("note: no certificate is written: nothing was found, and nothing is proven\n")
        return False
    from solver.certificate import CertificateError, certificate, certificate_text

    try:
        document = certificate(
            mapspace, result, reproducing_command(result, arguments, command), arguments.seed
        )
    except CertificateError as error:
        raise OutputError(f"no certificate is written: {error}") from None
    write_output(path, certificate_text(document))
    return True


def reproducing_command(result: Result, arguments: argparse.Namespace, command: str = "map") -> list[str]:
    """Return the words of a command line that leads to the same result."""
    words = ["python", "-m", "solver", command, *map(str, arguments.specs)]
    for variable in arguments.variables:
        words += ["--set", variable]
    for root in arguments.include_roots:
        words += ["--allow-include", str(root)]
    for name, value in arguments.limits:
        words += ["--limit", f"{name}={value}"]
    words += ["--ignore-sparse"] if arguments.ignore_sparse else []
    words += ["--timeloop-padding"] if arguments.timeloop_padding else []
    if arguments.memory_limit != DEFAULTS.memory_limit_mib:  # it decides whether anything is proven
        words += ["--memory-limit", str(arguments.memory_limit)]
    return [*words, "--objective", ",".join(result.objectives)]


def checker_path() -> Path:
    """Where the checker lies: beside the package that writes certificates, in a checkout and installed."""
    from solver import certificate

    return Path(certificate.__file__).parent / "checker" / "prove.py"
