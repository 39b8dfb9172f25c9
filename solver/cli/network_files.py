"""The files that a mapped network leaves, one per Einsum: mappings, and certificates and their check."""

from __future__ import annotations

import argparse
import os
import re
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

from model.text.files import is_directory
from model.wording import printable
from solver.cli.certify import checked, write_certificate
from solver.cli.mapped import LONG_NAMES
from solver.cli.output import OutputError, Step, check_directory, write_output, write_stderr
from solver.result import Status

if TYPE_CHECKING:
    from solver.network.run import LayerResult, NetworkResult

LONGEST_NAME = 100
"""Characters of a file's name; file systems take some 250 bytes."""


def check_directories(arguments: argparse.Namespace) -> None:
    """Make the directories of the files before a search takes its time.

    Raises
    ------
    OutputError
        One cannot be made or written, or holds inputs, which files named after Einsums could replace; or
        options contradict each other.
    """
    if arguments.check_time_limit is not None and not arguments.check:
        raise OutputError("--check-time-limit limits what --check does: it needs --check")
    folders = (path if is_directory(path) else path.parent for path in arguments.specs)
    inputs = set(map(os.path.realpath, folders))
    for directory in filter(None, (arguments.certificates, arguments.mappings)):
        if os.path.realpath(directory) in inputs:
            raise OutputError(f"cannot write to {directory}: inputs lie there; name another directory")
        check_directory(directory)


def mapping_file_steps(result: NetworkResult, directory: Path | None) -> Iterator[Step]:
    """Yield the steps that write the mappings of all Einsums that have one into a directory, if any."""
    if directory is None:
        return
    from solver.report.timeloop_mapping import mapping_targets, mapping_yaml

    long: list[str] = []
    for file_name, own in _named_files(result):
        mapspace, answer = own.layer.mapspace, own.result
        if answer is not None and answer.mapping is not None:
            targets = mapping_targets(mapspace.problem, mapspace.architecture, answer.mapping)
            yield partial(write_output, directory / f"{file_name}.yaml", mapping_yaml(targets))
            long += [dim for dim in mapspace.problem.dims if len(dim) > 1]
        elif not own.layer.is_copy:
            said = f"note: no mapping of {printable(own.layer.name)} is written: none was found\n"
            yield partial(write_stderr, said)
    if long:
        yield partial(write_stderr, LONG_NAMES.format(dim=long[0]))


def _named_files(result: NetworkResult) -> Iterator[tuple[str, LayerResult]]:
    """Yield what is known of each Einsum with the name of its files."""
    return zip(file_names(own.layer.name for own in result.layers), result.layers, strict=True)


@contextmanager
def certificates_of(result: NetworkResult, arguments: argparse.Namespace) -> Iterator[dict[Path, str]]:
    """Write certificates, and yield the Einsums that they speak of by file, as long as the files are there.

    Raises
    ------
    OutputError
        One cannot be written.
    """
    if arguments.certificates is None and not arguments.check:
        yield {}
        return
    with tempfile.TemporaryDirectory() as passing:
        yield dict(_certified(result, arguments.certificates or Path(passing), arguments))


def _certified(
    result: NetworkResult, directory: Path, arguments: argparse.Namespace
) -> Iterator[tuple[Path, str]]:
    """Write the certificates that there can be, and yield their files with the names of the Einsums."""
    for file_name, own in _named_files(result):
        name, path, answer = own.layer.name, directory / f"{file_name}.json", own.result
        lack = _uncertifiable(own)
        if lack:
            write_stderr(f"note: no certificate of {printable(name)} is written: {lack}\n")
        elif answer is not None and own.origin != "identical":
            write_certificate(path, own.layer.mapspace, answer, arguments, "network")
            yield path, name


def _uncertifiable(own: LayerResult) -> str:
    """Say why nothing can be certified of an Einsum that needs a mapping; nothing where it can."""
    if own.origin == "no room":
        return "what other tensors take is no part of its mapspace"
    answer = own.result
    proves = answer is None or answer.bound is not None or answer.status is Status.INFEASIBLE
    return "" if proves else "nothing is proven"


def check_files(files: dict[Path, str], time_limit_s: float | None) -> tuple[int, str]:
    """Have certificates checked.

    Raises
    ------
    KeyboardInterrupt
        A signal asked to stop.
    """
    if not files:
        return 0, "No certificate to check\n"
    code, printed = checked(list(files), time_limit_s)
    for path, name in files.items():
        printed = printed.replace(f": {path}: ", f": {printable(name)}: ", 1)
    valid = sum(line.startswith("VALID: ") for line in printed.splitlines())
    return code, f"{printed}{valid} of {len(files)} certificates are VALID\n"


def file_names(names: Iterable[str]) -> Iterator[str]:
    """Yield names of files for what has these names.

    They differ, also where case does not count, and have no characters that shells or file systems act upon.
    """
    taken: set[str] = set()
    for name in names:
        plain = re.sub(r"[^\w.+=-]+", "_", name)[:LONGEST_NAME].strip("._-") or "einsum"
        file_name = next(own for own in _numbered(plain) if own.casefold() not in taken)
        taken.add(file_name.casefold())
        yield file_name


def _numbered(name: str) -> Iterator[str]:
    yield name
    yield from (f"{name}_{number}" for number in count(2))
