"""Results read back from JSON: every value is checked where it is used, and errors say where it stands."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from model.text.files import path_hint
from solver.report.figures import NOTHING, count_text, energy_text, significant

LARGEST = 10**300
"""Numbers of results are below it; their quotients and products with shares stay finite."""

MOST_BYTES = 1 << 28
"""Size of a document up to which it is read."""


MOST_CHARACTERS = 220
"""Of a name: 200 as in specs, and a number that tells it from others."""
_LIMIT = f"at most {MOST_CHARACTERS} are read"


class DocumentError(Exception):
    """A file is no result of this program; the message says what is wrong, and where."""


@dataclass(frozen=True)
class Value:
    """A value of a document, and its place in it, such as ``levels[1].cycles``."""

    raw: object
    place: str = ""

    def __getitem__(self, key: str) -> Value:
        """Return a member of an object; `DocumentError` if it is missing."""
        members = self._members()
        if key not in members:
            self._fail(f"the key {key!r} is missing")
        return Value(members[key], f"{self.place}.{key}" if self.place else key)

    def get(self, key: str) -> Value:
        """Return a member of an object, null if it is missing."""
        members = self._members()
        return self[key] if key in members else Value(None, self.place)

    def __bool__(self) -> bool:
        """Whether the value is neither null nor empty."""
        return self.raw is not None and self.raw not in ([], {}, "")

    def items(self) -> Iterator[tuple[str, Value]]:
        """Yield the members of an object in their order."""
        for key in self._members():
            yield key, self[key]

    def entries(self) -> list[Value]:
        """Return the entries of a list; none for null."""
        if self.raw is None:
            return []
        if not isinstance(self.raw, list | tuple):
            self._fail("a list is expected")
        return [Value(raw, f"{self.place}[{number}]") for number, raw in enumerate(self.raw)]

    def text(self) -> str:
        """Return a text; an empty one for null."""
        if self.raw is None:
            return ""
        if not isinstance(self.raw, str):
            self._fail("a text is expected")
        return self.raw

    def texts(self) -> list[str]:
        """Return a list of texts."""
        return [entry.text() for entry in self.entries()]

    def number(self) -> float:
        """Return a finite number, not below 0."""
        raw = self.raw
        if isinstance(raw, bool) or not isinstance(raw, int | float) or not 0 <= raw < LARGEST:
            self._fail("a number that is not negative is expected")
        return raw

    def signed(self) -> float:
        """Return a finite number."""
        raw = self.raw
        if isinstance(raw, bool) or not isinstance(raw, int | float) or not -LARGEST < raw < LARGEST:
            self._fail("a number is expected")
        return raw

    def count(self) -> int:
        """Return a whole number, not below 0."""
        raw = self.raw
        if isinstance(raw, bool) or not isinstance(raw, int) or not 0 <= raw < LARGEST:
            self._fail("a whole number that is not negative is expected")
        return raw

    def flag(self) -> bool:
        """Return a truth value; false for null."""
        if self.raw is not None and not isinstance(self.raw, bool):
            self._fail("true or false is expected")
        return bool(self.raw)

    def _members(self) -> Mapping[str, object]:
        if not isinstance(self.raw, dict):
            self._fail("an object is expected")
        return self.raw

    def _fail(self, problem: str) -> NoReturn:
        raise DocumentError(f"{self.place or 'the document'}: {problem}")


def read_document(path: Path) -> Value:
    """Read what ``--json`` wrote; `DocumentError` if the file is no JSON object, or too large."""
    try:
        if path.exists() and not path.is_file():
            raise DocumentError("not a regular file")
        with path.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
    except OSError as error:
        meant = path_hint(path) if isinstance(error, FileNotFoundError) else None
        raise DocumentError(f"cannot be read: {error.strerror}{f'; {meant}' if meant else ''}") from error
    if len(content) > MOST_BYTES:
        raise DocumentError(f"larger than {MOST_BYTES >> 20} MiB")
    try:
        raw = json.loads(content, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise DocumentError(f"not valid JSON: {error}; a result is a file that --json wrote") from error
    if not isinstance(raw, dict):
        raise DocumentError("a JSON object is expected")
    _check_names(raw)
    return Value(raw)


def _check_names(raw: object, place: str = "") -> None:
    """Check that names are as short as specs have them: under `name` inside of the document, and as keys."""
    if isinstance(raw, list):
        for number, entry in enumerate(raw):
            _check_names(entry, f"{place}[{number}]")
        return
    if not isinstance(raw, dict):
        return
    for key, value in raw.items():
        where = f"{place}.{key}" if place else key
        is_name = key == "name" and bool(place)
        named = key if len(key) > MOST_CHARACTERS else value if is_name and isinstance(value, str) else ""
        if len(named) > MOST_CHARACTERS:
            raise DocumentError(f"{where[:MOST_CHARACTERS]}: a name has {len(named):,} characters; {_LIMIT}")
        _check_names(value, where)


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


def as_value(document: Mapping[str, object]) -> Value:
    """Return a document of this program as it would be read back."""
    return Value(json.loads(json.dumps(document, allow_nan=False)))


def value_text(value: Value, units: str) -> str:
    """Return a value of an objective in its unit."""
    if value.raw is None:
        return NOTHING
    if units == "pJ":
        return energy_text(value.number())
    number = count_text(value.count()) if units == "cycles" else significant(value.number())
    return f"{number} {units}"


def optional(value: Value) -> float | None:
    """Return a number, None for null."""
    return None if value.raw is None else value.number()
