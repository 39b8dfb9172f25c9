"""Notes of networks for the terminal: what one line of the specs says of every Einsum is told once."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

PLACE = re.compile(r".+?:\d+:\d+: ")
"""What a note about one place begins with."""

_NAMES = re.compile(r"`[^`]*`(?:(?:, | and )`[^`]*`)*")
_FIGURES = re.compile(r"\w+=\d+(?:, \w+=\d+)*|\d[\d,.]*")


def brief_notes(notes: Iterable[str]) -> Iterator[str]:
    """Yield notes; of those about one place that differ in names and figures only, the first with a count."""
    kinds: dict[str, list[str]] = {}
    for note in notes:
        kinds.setdefault(_kind(note), []).append(note)
    for first, *others in kinds.values():
        more = f" (and {len(others)} more like it)" if others else ""
        yield f"{first}{more}"


def _kind(note: str) -> str:
    """Return a note without its names and figures, if it is about one place; else as it is."""
    place = PLACE.match(note)
    if place is None:
        return note
    rest = _NAMES.sub("`_`", note[place.end() :])
    return place.group() + _FIGURES.sub("_", rest)
