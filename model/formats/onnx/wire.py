"""ONNX files without their weights: the messages of Protobuf, copied but for the contents of large tensors.

Weights are neither read from the disk nor kept: a model of gigabytes takes as much as its graph.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

MOST_BYTES = 1 << 16
"""Of a tensor whose contents are kept: shapes, axes, conditions. Larger ones are weights."""

_DEEPEST = 50
_MOST_FIELDS = 5_000_000
_LONGEST_VARINT = 10
_VARINT, _WIDE, _BYTES, _NARROW = 0, 1, 2, 5
_WIDTHS = {_WIDE: 8, _NARROW: 4}
_MODEL, _GRAPH, _NODE, _ATTRIBUTE, _TENSOR, _SPARSE = range(6)
_INNER: dict[int, dict[int, int]] = {
    _MODEL: {7: _GRAPH},
    _GRAPH: {1: _NODE, 5: _TENSOR, 15: _SPARSE},
    _NODE: {5: _ATTRIBUTE},
    _ATTRIBUTE: {5: _TENSOR, 6: _GRAPH, 10: _TENSOR, 11: _GRAPH, 22: _SPARSE, 23: _SPARSE},
    _TENSOR: {},
    _SPARSE: {1: _TENSOR, 2: _TENSOR},
}
"""Numbers of the fields that hold messages in which tensors may be, by the kind of message around them."""
_CONTENTS = frozenset((4, 5, 6, 7, 9, 10, 11))
"""Fields of a tensor that hold its values."""


class DamagedError(Exception):
    """A file that is no sequence of Protobuf's fields."""


def without_weights(path: Path, most: int) -> bytes:
    """Return a model's bytes without the contents of large tensors.

    Raises
    ------
    DamagedError
        The file is no message of Protobuf.
    OverflowError
        What is left has more than `most` bytes, or millions of fields.
    OSError
        The file cannot be read.
    """
    if not path.stat().st_size:
        return b""
    with (
        path.open("rb") as stream,
        mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data,
        memoryview(data) as view,
    ):
        return _Copy(most).slim(view, _MODEL, 0)


@dataclass
class _Copy:
    """Copies messages, up to a number of bytes and of fields."""

    bytes_left: int
    fields_left: int = _MOST_FIELDS

    def slim(self, view: memoryview, kind: int, depth: int) -> bytes:
        """Return a message without large contents of tensors."""
        if depth > _DEEPEST:
            raise DamagedError(f"messages lie more than {_DEEPEST} deep in each other")
        copy = bytearray()
        drops = kind == _TENSOR and len(view) > MOST_BYTES
        for number, start, content, end in _message_fields(view):
            self.fields_left -= 1
            inner = _INNER[kind].get(number)
            if drops and number in _CONTENTS:
                continue
            if inner is None or content is None:
                self._count_bytes(end - start)
                copy += view[start:end]
                continue
            with view[content:end] as part:
                message = self.slim(part, inner, depth + 1)
            copy += _varint(number << 3 | _BYTES) + _varint(len(message)) + message
        return bytes(copy)

    def _count_bytes(self, count: int) -> None:
        self.bytes_left -= count
        if self.bytes_left < 0 or self.fields_left < 0:
            raise OverflowError


def _message_fields(view: memoryview) -> Iterator[tuple[int, int, int | None, int]]:
    """Yield the number of each field, where it starts, where its bytes start if it has some, and its end."""
    place = 0
    while place < len(view):
        start = place
        key, place = _read_varint(view, place)
        content: int | None = None
        wire = key & 7
        if wire == _VARINT:
            _, place = _read_varint(view, place)
        elif wire == _BYTES:
            length, content = _read_varint(view, place)
            place = content + length
        elif wire in _WIDTHS:
            place += _WIDTHS[wire]
        else:
            raise DamagedError(f"a field of the unknown kind {wire}")
        if place > len(view) or not key >> 3:
            raise DamagedError("a field reaches beyond its message")
        yield key >> 3, start, content, place


def _read_varint(view: memoryview, place: int) -> tuple[int, int]:
    """Return the number that starts at a place, and the place behind it."""
    value = 0
    for position in range(_LONGEST_VARINT):
        if place + position >= len(view):
            raise DamagedError("a number is cut off")
        byte = view[place + position]
        value |= (byte & 0x7F) << 7 * position
        if byte < 0x80:
            return value, place + position + 1
    raise DamagedError("a number is too long")


def _varint(value: int) -> bytes:
    """Return a number as Protobuf writes it."""
    parts = bytearray()
    while value > 0x7F:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    parts.append(value)
    return bytes(parts)
