"""Where results are written: files, or stdout for ``-``."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from model.text.files import SPEC_SUFFIXES
from model.wording import printable
from solver.report.picture import PlotError
from solver.saving import save

if TYPE_CHECKING:
    from solver.report.document import Document

Step = Callable[[], None]
"""Prints or writes something of a result."""

STDOUT = Path("-")

NO_MAPPING = "note: no mapping is written: none was found\n"
"""Said instead of writing one: an older file could be taken for it."""

RULE = "─"
"""The line below a table's head; a dash where the encoding of stdout has none."""


class OutputError(Exception):
    """An output file cannot be written."""


def check_outputs(paths: Iterable[Path | None], inputs: Iterable[Path]) -> None:
    """Check before a long search whether outputs can be written.

    Parameters
    ----------
    paths
        Of outputs, None for those that are not asked for.
    inputs
        What is read; a directory among them stands for the spec files in it.

    Raises
    ------
    OutputError
        A path must not or cannot be written: another output or an input is there.
    """
    named = [path for path in paths if path is not None]
    places = [path if path == STDOUT else os.path.realpath(path) for path in named]
    lasting = [place for place in places if not _is_device(place)]
    if len(lasting) != len(set(lasting)):
        raise OutputError("two outputs are to be written to the same place")
    read = set(map(os.path.realpath, inputs))
    for path, place in zip(named, places, strict=True):
        if path == STDOUT:
            continue
        if place in read or (str(Path(place).parent) in read and path.name.endswith(SPEC_SUFFIXES)):
            raise OutputError(f"cannot write {path}: it is one of the inputs")
        _check_writable(path)


def check_directory(path: Path) -> None:
    """Make a directory for outputs, unless there is one.

    Raises
    ------
    OutputError
        It cannot be made, or not be written.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"cannot write to {path}: {error.strerror}") from error
    if not os.access(path, os.W_OK | os.X_OK):
        raise OutputError(f"cannot write to {path}: permission denied")


def write_output(path: Path, text: str) -> None:
    """Write `text` to `path`, or to stdout for ``-``.

    Raises
    ------
    OutputError
        It cannot be written.
    BrokenPipeError
        Nobody reads stdout.
    """
    if path == STDOUT:
        write_stdout(text)
        return
    try:
        save(path, text.encode("utf-8", "backslashreplace"))
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror}") from error


def report_steps(
    report: Step, document: Callable[[], Document], json: Path | None, silent: bool
) -> Iterator[Step]:
    """Yield the steps that print a report, unless `silent`, and write its document, if it has a place."""
    if not silent:
        yield report
    if json is not None:
        yield partial(write_document, json, document)


def write_document(path: Path, document: Callable[[], Document]) -> None:
    """Write what `document` makes as JSON.

    Raises
    ------
    OutputError, BrokenPipeError
        As of `write_output`.
    """
    from solver.report.document import json_text

    write_output(path, json_text(document()))


def deliver(steps: Iterable[Step]) -> None:
    """Print and write a result: each step has its chance, so that one that fails does not take others along.

    Raises
    ------
    OutputError, PlotError or BrokenPipeError
        The first failure, those of a stdout that nobody reads last; the others are said on stderr.
    """
    failures: list[OutputError | PlotError | BrokenPipeError] = []
    for step in steps:
        try:
            step()
        except (OutputError, PlotError, BrokenPipeError) as error:
            failures.append(error)
    failures.sort(key=lambda error: isinstance(error, BrokenPipeError))
    for other in failures[1:]:
        if not isinstance(other, BrokenPipeError):
            write_error(other)
    if failures:
        raise failures[0]


def write_stdout(text: str) -> None:
    """Write `text` to stdout, and make sure that it arrives.

    Raises
    ------
    OutputError
        It cannot be written, as on a full disk.
    BrokenPipeError
        Nobody reads it.
    """
    if sys.stdout is None:  # as the interpreter leaves it where the caller has closed it
        raise OutputError("cannot write to stdout: it is closed")
    try:
        sys.stdout.write(_encodable(text, sys.stdout.encoding))
        sys.stdout.flush()
    except OSError as error:
        _give_up(sys.stdout)
        if isinstance(error, BrokenPipeError):
            raise
        raise OutputError(f"cannot write to stdout: {error.strerror}") from error


def _encodable(text: str, encoding: str | None) -> str:
    """Return `text` with escapes for what `encoding` lacks; file names hold anything."""
    encoding = encoding or "utf-8"
    if not RULE.encode(encoding, "ignore"):
        text = text.replace(RULE, "-")
    return text.encode(encoding, "backslashreplace").decode(encoding)


def write_stderr(text: str) -> None:
    """Write messages to stderr; where that fails, as on a full disk, the exit code alone has to tell."""
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except OSError:
        _give_up(sys.stderr)


def say_undrawn(path: Path, lack: str) -> None:
    """Say that a picture is not written, as there is no `lack`: an older one could be taken for it."""
    write_stderr(f"note: {printable(str(path))} is not written: there is no {lack} to draw\n")


def write_error(error: Exception) -> None:
    """Write the message of an error to stderr; the names of files in it may hold anything."""
    write_stderr(f"error: {printable(str(error))}\n")


def _give_up(stream: TextIO) -> None:
    """Discard what is still to be written: the interpreter would try again when it ends."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def _is_device(place: Path | str) -> bool:
    """Whether a place is a device such as /dev/null, which takes one output after the other."""
    try:
        return place != STDOUT and Path(place).is_char_device()
    except OSError:  # such as a name that is too long
        return False


def _check_writable(path: Path) -> None:
    try:
        is_directory = path.is_dir()
    except OSError as error:  # such as a name that is too long
        raise OutputError(f"cannot write {path}: {error.strerror}") from error
    if is_directory:
        raise OutputError(f"cannot write {path}: it is a directory")
    if not path.parent.is_dir():
        raise OutputError(f"cannot write {path}: there is no directory {path.parent}")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise OutputError(f"cannot write {path}: permission denied")
