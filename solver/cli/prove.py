"""The command ``prove``: map, certify and check; or only check certificates."""

from __future__ import annotations

import argparse
import re
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from model.text.files import is_file
from model.text.source import spans_of
from model.wording import printable
from solver.cli.certificates import checked, write_certificate
from solver.cli.output import (
    STDOUT,
    OutputError,
    check_outputs,
    program,
    write_stderr,
    write_stdout,
)
from solver.cli.running import (
    EXIT_OF_STATUS,
    check_certified,
    load_unmapped,
    search,
)
from solver.cli.sparse import as_searched
from solver.exit_codes import EXIT_UNCHECKED
from solver.result import AUTO, BOUNDS, CP_SAT, Status, Termination

if TYPE_CHECKING:
    from model.formats.timeloop import LoadedSpec
    from model.mapspace import Mapspace
    from solver.report.reading import Value
    from solver.result import Result

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
        raise OutputError("--certificate must name a file, so that the checker can read it")
    if any(map(is_certificate, arguments.specs)):
        return _check_again(arguments)
    loaded = load_unmapped(arguments, refuse_infeasible=False, sparse=True, all_rules=True)
    mapspace, result = _search_result(loaded, arguments)
    by_bounds = mapspace.has_simple_rules
    from solver.report.figures import seconds_text
    from solver.report.reasons import reason_lines

    document, places = _result_document(result.mapspace or mapspace, result), spans_of(loaded.document)
    spans = {str(place): span for place, span in places.items()}
    for line in reason_lines(document["reasons"].entries(), spans):
        write_stdout(f"{line}\n")
    seconds = seconds_text(result.statistics.seconds)
    solver = "the optimizer" if by_bounds else "CP-SAT alone"
    write_stdout(f"{result.status.value} by {solver} in {seconds}: {_outcome_text(document)}\n")
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


def _result_document(mapspace: Mapspace, result: Result) -> Value:
    from solver.report.document import result_document
    from solver.report.reading import as_value
    from solver.report.sparse import sparse_result_document

    documented = result_document if mapspace.sparsity is None else sparse_result_document
    return as_value(documented(mapspace, result))


def _outcome_text(document: Value) -> str:
    """Return value, bound and gap."""
    from solver.report.einsum_page import outcome_text

    return outcome_text(document)


def _search_result(loaded: LoadedSpec, arguments: argparse.Namespace) -> tuple[Mapspace, Result]:
    """Search for the best mapping, by bounds alone where they know all rules; return the mapspace, too."""
    sparsity = loaded.mapspace.sparsity
    if sparsity is None or not sparsity.optimized:
        mapspace = replace(loaded.mapspace, sparsity=None)  # densities have no effect
        check_certified(replace(loaded, mapspace=mapspace))
        return mapspace, search(mapspace, arguments, BOUNDS if mapspace.has_simple_rules else AUTO)
    if arguments.engine == CP_SAT:
        raise OutputError(
            f"--engine {CP_SAT} supports dense data only; --ignore-sparse treats the data as dense"
        )
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
        raise ContradictionError("bounds and CP-SAT disagree on the optimum")
    seconds, outcome = (
        seconds_text(other.statistics.seconds),
        _outcome_text(_result_document(mapspace, other)),
    )
    write_stdout(f"{other.status.value} by CP-SAT alone in {seconds}: {outcome}\n")


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
        return f"error: {name} is a certificate, not a spec\nhelp: `{program()} prove {name}` checks it\n"
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
