"""Notes on what stands in a spec."""

from __future__ import annotations

from collections.abc import Callable

from model.note import Note, Value
from model.text.fields import source_ref
from model.text.source import Span
from model.wording import printable

TakeNote = Callable[[Note], None]
"""Where those who read a spec leave their notes."""


def note_at(span: Span | None, sentence: str, *values: Value) -> Note:
    """Return a note on what stands at `span`, with the values made printable; see `Note`."""
    shown = tuple(printable(value) if isinstance(value, str) else value for value in values)
    return Note(sentence, shown, None if span is None else source_ref(span))
