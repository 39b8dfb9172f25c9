"""Files per Einsum of a network: mappings and certificates, and how these are checked."""

from __future__ import annotations

import argparse
import os
import re
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from itertools import chain, count
from pathlib import Path
from typing import TYPE_CHECKING

from model.text.files import is_directory
from model.wording import printable
from solver.cli.certificates import UNCHECKED, check_checked, checked, write_certificate
from solver.cli.output import (
    STDOUT,
    OutputError,
    Step,
    check_directory,
    write_output,
    write_stderr,
    write_stdout,
)
from solver.cli.running import (
    LONG_NAMES,
)
from solver.exit_codes import EXIT_OPTIMAL, EXIT_UNCHECKED
from solver.result import Status

if TYPE_CHECKING:
    from solver.cli.output import Step
    from solver.network.run import LayerResult, NetworkResult

LONGEST_NAME = 100
"""Characters of a file's name; file systems allow some 250 bytes."""


def check_directories(arguments: argparse.Namespace) -> None:
    """Make the directories of the files per Einsum before the search, and check that they hold no inputs."""
    check_checked(arguments)
    folders = (path if is_directory(path) else path.parent for path in arguments.specs)
    inputs = set(map(os.path.realpath, folders))
    for directory in filter(None, (arguments.certificates, arguments.mappings)):
        if os.path.realpath(directory) in inputs:
            raise OutputError(f"cannot write to {directory}: it contains inputs; choose another directory")
        check_directory(directory, "cannot write to")


def layer_mapping_steps(result: NetworkResult, directory: Path | None) -> Iterator[Step]:
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
def certificate_directory(arguments: argparse.Namespace) -> Iterator[Path | None]:
    """Yield where certificates go, a temporary directory if they are only checked; None if nowhere."""
    temporary = arguments.check and arguments.certificates is None
    with tempfile.TemporaryDirectory() if temporary else nullcontext() as name:
        yield Path(name) if name else arguments.certificates


def layer_certificate_steps(
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
    """Return the reason why an Einsum can have no certificate; an empty text if it can have one."""
    if outcome.origin == "no room":
        return "its mapspace does not model the space taken by other tensors"
    found = outcome.result
    proves = found is None or found.bound is not None or found.status is Status.INFEASIBLE
    return "" if proves else "nothing is proven"


def check_layers(
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
