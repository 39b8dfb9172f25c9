"""Where results are written: files, or stdout for ``-``."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from pathlib import Path

STDOUT = Path("-")


class OutputError(Exception):
    """An output file cannot be written."""


def check_outputs(paths: Iterable[Path | None], inputs: Iterable[Path]) -> None:
    """Raise `OutputError` for a path that must not or cannot be written, before a search takes its time."""
    named = [path for path in paths if path is not None]
    if len(named) != len(set(named)):
        raise OutputError("two outputs are to be written to the same place")
    read = set(map(os.path.realpath, inputs))
    for path in named:
        if path == STDOUT:
            continue
        if os.path.realpath(path) in read:
            raise OutputError(f"cannot write {path}: it is one of the inputs")
        _check_writable(path)


def write_output(path: Path, text: str) -> None:
    """Write `text` to `path`, or to stdout for ``-``; `OutputError` where that fails."""
    if path == STDOUT:
        sys.stdout.write(text)
        return
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror}") from error


def _check_writable(path: Path) -> None:
    if path.is_dir():
        raise OutputError(f"cannot write {path}: it is a directory")
    if not path.parent.is_dir():
        raise OutputError(f"cannot write {path}: there is no directory {path.parent}")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise OutputError(f"cannot write {path}: permission denied")
