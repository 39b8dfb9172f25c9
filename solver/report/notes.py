"""Notes for the terminal: of networks, what one line of the specs says of every Einsum is told once."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator

from rich.console import Console

from model.note import Note


def print_notes(console: Console, notes: Iterable[Note | str]) -> None:
    """Print notes, one a line."""
    for note in notes:
        console.print(f"note: {note}")


def brief_notes(notes: Iterable[Note]) -> Iterator[str]:
    """Yield notes; of those on one place that differ in their values only, the first with a count."""
    kinds: dict[Hashable, list[Note]] = {}
    for note in notes:
        kinds.setdefault(_kind(note), []).append(note)
    for first, *others in kinds.values():
        more = f" (and {len(others)} more like it)" if others else ""
        yield f"{first}{more}"


def _kind(note: Note) -> Hashable:
    """Return a note's sentence and place without names and figures; the note itself if it has no place."""
    return note if note.place is None else (note.place, note.sentence)
