"""Where results are written: files, or stdout for ``-``; and messages on stderr."""

from __future__ import annotations

import hashlib
import io
import os
import shlex
import sys
from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from model.text.files import SPEC_SUFFIXES
from model.text.source import Node, spans_of
from model.wording import printable
from solver.report.pictures import PlotError
from solver.saving import save

if TYPE_CHECKING:
    from rich.console import Console

    from solver.report.document import Document

Step = Callable[[], object]
"""Prints or writes one part of a result."""

STDOUT = Path("-")

INSTALLED = "tilewright"
"""The command that `pip install` puts on the path."""

NO_MAPPING = "note: no mapping is written: none was found\n"
"""An older file could otherwise be taken for it."""

RULE = "─"
"""The line below the head of a table; a dash where the encoding of stdout lacks it."""

DOTS = [chr(number) for number in range(0x2800, 0x2900)]
"""Braille of charts; stars and blanks where the encoding of stdout lacks it."""


class OutputError(Exception):
    """An output cannot be written."""


def program() -> str:
    """Return the command by which the user started this program, for help and messages."""
    return INSTALLED if Path(sys.argv[0]).stem == INSTALLED else "python -m solver"


def check_outputs(paths: Iterable[Path | None], inputs: Iterable[Path]) -> None:
    """Check before a long search whether outputs can be written; `OutputError` if one cannot.

    Outputs that are not requested are None; a directory among the inputs stands for the spec files in it.
    """
    named = [path for path in paths if path is not None]
    places = [path if path == STDOUT else os.path.realpath(path) for path in named]
    lasting = [place for place in places if not _is_device(place)]
    if len(lasting) != len(set(lasting)):
        raise OutputError("two outputs have the same path")
    read = set(map(os.path.realpath, inputs))
    failures: list[Exception] = []
    for path, place in zip(named, places, strict=True):
        if path == STDOUT:
            continue
        if place in read or (str(Path(place).parent) in read and path.name.endswith(SPEC_SUFFIXES)):
            failures.append(OutputError(f"cannot write {path}: it is one of the inputs"))
        elif problem := _unwritable(path):
            failures.append(OutputError(f"cannot write {path}: {problem}"))
    _raise_last(failures)


def _unwritable(path: Path) -> str:
    """Return the reason why a file cannot be written; an empty text if it can."""
    try:
        is_directory = path.is_dir()
    except OSError as error:  # such as a name that is too long
        return str(error.strerror)
    if is_directory:
        return "it is a directory"
    if not path.parent.is_dir():
        return f"there is no directory {path.parent}"
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        return "permission denied"
    return ""


def _is_device(place: Path | str) -> bool:
    """Whether a place is a device such as /dev/null, which takes several outputs."""
    try:
        return place != STDOUT and Path(place).is_char_device()
    except OSError:  # such as a name that is too long
        return False


def _raise_last(failures: Sequence[Exception]) -> None:
    """Raise the last failure, if there is one; report the others on stderr."""
    for other in failures[:-1]:
        write_error(other)
    if failures:
        raise failures[-1]


def check_directory(path: Path, failing: str, hint: str = "") -> None:
    """Make a directory unless it exists; `OutputError`, with what is `failing`, if that fails."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"{failing} {path}: {error.strerror}{hint}") from error
    if not os.access(path, os.W_OK | os.X_OK):
        raise OutputError(f"{failing} {path}: permission denied{hint}")


def write_output(path: Path, text: str) -> None:
    """Write `text` to `path`, or to stdout for ``-``; errors as of `write_stdout`."""
    if path == STDOUT:
        write_stdout(text)
        return
    try:
        save(path, text.encode("utf-8", "backslashreplace"))
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror}") from error


def result_steps(
    document: Callable[[], Document],
    arguments: Namespace,
    *others: Path | None,
    nodes: Iterable[Node] = (),
    verbose: bool = False,
) -> Iterator[Step]:
    """Yield the steps that print a document, and write it as JSON and as a page, see `report_steps`."""
    once = cache(document)
    yield from report_steps(once, arguments, *others, nodes=nodes, verbose=verbose)
    yield from document_steps(once, arguments)


def report_steps(
    document: Callable[[], Document],
    arguments: Namespace,
    *others: Path | None,
    nodes: Iterable[Node] = (),
    verbose: bool = False,
) -> Iterator[Step]:
    """Yield the step that prints a document, unless quiet or stdout is ``--json`` or one of other outputs.

    The conflicts that it names are shown with their lines in `nodes`; `verbose` prints all tables.
    """
    taken = (arguments.json, getattr(arguments, "report", None), *others)
    if not (getattr(arguments, "quiet", False) or STDOUT in taken):
        yield partial(_print_report, document, arguments.wide, nodes, verbose)


def document_steps(document: Callable[[], Document], arguments: Namespace) -> Iterator[Step]:
    """Yield the steps that write a document as JSON and as a page, where that is requested."""
    report = getattr(arguments, "report", None)
    if arguments.json is None and report is None:
        return
    once = cache(lambda: _with_run(document(), arguments))
    if arguments.json is not None:
        yield lambda: _write_document(arguments.json, once())
    if report is not None:
        yield lambda: write_page(report, once())


def plot_steps(path: Path | None, document: Callable[[], Document], lack: str = "") -> Iterator[Step]:
    """Yield the step that draws a document, if requested; if there is no `lack` to draw, that says so."""
    if path is not None:
        yield partial(say_undrawn, path, lack) if lack else partial(_draw_document, path, document)


def _draw_document(path: Path, document: Callable[[], Document]) -> None:
    from solver.report.pictures import draw_plot
    from solver.report.reading import as_value

    draw_plot(as_value(document()), path)


def say_undrawn(path: Path, lack: str) -> None:
    """Report that a picture is not written, as there is no `lack` to draw."""
    write_stderr(f"note: {printable(str(path))} is not written: there is no {lack} to draw\n")


def _print_report(document: Callable[[], Document], wide: bool, nodes: Iterable[Node], verbose: bool) -> None:
    from solver.report.console import print_page
    from solver.report.pages import page_of
    from solver.report.reading import as_value

    page = page_of(as_value(document()))
    places = {str(ref): span for ref, span in spans_of(*nodes).items()} if page.conflicts else {}
    with report_console(wide) as console:
        print_page(console, page, verbose, places)


def print_steps(
    show: Callable[[Console], None], arguments: Namespace, *others: Path | None
) -> Iterator[Step]:
    """Yield the step that prints something that has no page, unless stdout is taken."""
    if STDOUT not in (arguments.json, *others):
        yield partial(_print, show, arguments.wide)


def _print(show: Callable[[Console], None], wide: bool) -> None:
    with report_console(wide) as console:
        show(console)


@contextmanager
def report_console(wide: bool = False) -> Iterator[Console]:
    """Yield a console whose text goes to stdout in the end, without trailing blanks; plain when piped.

    Tables fit the terminal unless they are to be `wide`.
    """
    from solver.report.console import ReportConsole

    text = io.StringIO()
    yield ReportConsole(text, sys.stdout is not None and sys.stdout.isatty(), wide)
    write_stdout("".join(f"{line.rstrip()}\n" for line in text.getvalue().splitlines()))


def _write_document(path: Path, document: Document) -> None:
    from solver.report.document import json_text

    write_output(path, json_text(document))


def write_page(path: Path, document: Document) -> None:
    """Write the report of a document as an HTML page."""
    from solver.report.document import headed
    from solver.report.pages import report_html
    from solver.report.reading import as_value

    write_output(path, report_html(as_value(headed(document))))


def _with_run(document: Document, arguments: Namespace) -> Document:
    """Add how a document of a kind that reports know was made: command line, inputs with their SHA-256."""
    if "kind" not in document:
        return document
    groups = (
        getattr(arguments, name, None) or () for name in ("specs", "workloads", "architectures", "results")
    )
    paths = [path for group in groups for path in group]
    options = ("methods", "mapping") if arguments.command == "evaluate" else ("methods",)
    paths += [path for name in options if (path := getattr(arguments, name, None)) is not None]
    run = {
        "command": shlex.join(["python", "-m", "solver", *arguments.words]),
        "inputs": [{"path": str(path), "sha256": _sha256(path)} for path in paths],
    }
    return {**document, "run": run}


def _sha256(path: Path) -> str | None:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return None


@contextmanager
def documents_last(document: Callable[[str | None], Document], arguments: Namespace) -> Iterator[list[str]]:
    """Write the document and its page in the end, also after an interrupt, with the verdict that is added."""
    verdict: list[str] = []
    try:
        yield verdict
    finally:
        deliver([*document_steps(lambda: document(verdict[0] if verdict else None), arguments)])


def deliver(steps: Iterable[Step]) -> None:
    """Take all steps, also after one that fails; raise the last failure, report the others on stderr."""
    failures: list[Exception] = []
    unread: list[Exception] = []
    for step in steps:
        try:
            step()
        except BrokenPipeError as error:
            unread.append(error)
        except (OutputError, PlotError) as error:
            failures.append(error)
    _raise_last(failures or unread[:1])


def write_stdout(text: str) -> None:
    """Write `text` to stdout at once; `OutputError` if that fails, `BrokenPipeError` if nobody reads it."""
    if sys.stdout is None:  # the interpreter's sign that the caller closed it
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
    """Return `text` with escapes for what `encoding` lacks."""
    encoding = encoding or "utf-8"
    if not RULE.encode(encoding, "ignore"):
        text = text.replace(RULE, "-")
    if not DOTS[-1].encode(encoding, "ignore"):
        text = text.translate({ord(cell): " " if cell == DOTS[0] else "*" for cell in DOTS})
    return text.encode(encoding, "backslashreplace").decode(encoding)


def write_stderr(text: str) -> None:
    """Write messages to stderr; where that fails, as on a full disk, the exit code alone has to do."""
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except OSError:
        _give_up(sys.stderr)


def write_error(error: Exception) -> None:
    """Write the message of an error to stderr."""
    write_stderr(f"error: {printable(str(error))}\n")


def _give_up(stream: TextIO) -> None:
    """Discard what is still to be written: the interpreter would try again when it ends."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)
