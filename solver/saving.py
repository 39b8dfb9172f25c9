"""Writing files whole or not at all: if the process is killed or the disk is full, the older file stays."""

from __future__ import annotations

import errno
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
"""Writing in place would fail as well, after the older file is cut off."""

SUFFIX = ".tmp"
"""Ends the hidden names that files have until they are whole."""


def save(path: Path, content: bytes) -> None:
    """Write a file, and replace an older one once all of it is on disk; symbolic links stay.

    What cannot be replaced is written in place: pipes and devices, files with several hard links, of other
    owners or open in this process, and files in directories without write permission.
    """
    place = Path(os.path.realpath(path))
    if not _can_be_replaced(place):
        path.write_bytes(content)
        return
    try:
        with replacing(place, ".") as stream:
            _take_after(place, stream)
            stream.write(content)
    except OSError as error:
        if error.errno in NO_ROOM:
            raise
        path.write_bytes(content)


@contextmanager
def replacing(place: Path, prefix: str) -> Iterator[BinaryIO]:
    """Yield a new file beside `place`, which replaces it at the end; if that fails, the older one stays."""
    name = place.parent / f"{prefix}{os.urandom(8).hex()}{SUFFIX}"
    handle = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)  # less what the umask takes
    try:
        with os.fdopen(handle, "wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        name.replace(place)
    except BaseException:
        with suppress(OSError):
            name.unlink()
        raise


def _take_after(place: Path, stream: BinaryIO) -> None:
    """Give a new file the owner, mode and attributes of the one that it is to replace, if any."""
    with suppress(FileNotFoundError):
        there = place.stat()
        if hasattr(os, "fchown"):
            os.fchown(stream.fileno(), there.st_uid, there.st_gid)
        shutil.copystat(place, stream.name)


def _can_be_replaced(place: Path) -> bool:
    """Whether a new file may replace what is at `place`: nothing, or a file with this name only."""
    try:
        there = place.stat()
    except FileNotFoundError:
        return True
    except OSError:  # that writing says as well
        return False
    is_plain = stat.S_ISREG(there.st_mode) and there.st_nlink == 1
    return is_plain and os.access(place, os.W_OK) and not _is_open_here(there)


def _is_open_here(there: os.stat_result) -> bool:
    """Whether this process has the file open, for example as stdout."""
    return any(_is_at(number, there) for number in _open_numbers())


def _is_at(number: int, there: os.stat_result) -> bool:
    try:
        return os.path.samestat(os.fstat(number), there)
    except OSError:  # closed by now, as what listed it
        return False


def _open_numbers() -> list[int]:
    try:
        return [int(name) for name in os.listdir("/dev/fd")]  # noqa: PTH208 (names are enough)
    except OSError:  # systems that do not list them
        return [0, 1, 2]
