"""Places inside of a scalar: where a part of its text stands in the file."""

from __future__ import annotations

from dataclasses import replace

from model.spec.source import Span


def part_of(span: Span | None, text: str, start: int | None, end: int | None) -> Span | None:
    """Return the place of ``text[start:end]``, where `span` is the place of all of `text`.

    Where the file does not hold the text as it is in one line (escapes, folded lines), or `start` is
    None, the answer is `span`. An empty part is widened to one character.

    Parameters
    ----------
    span
        Place of the scalar.
    text
        The scalar's text.
    start, end
        0-based, the end is exclusive; None for the end means one character.
    """
    if span is None or start is None:
        return span
    if span.rendered is not None:
        return replace(span, rendered=part_of(span.rendered, text, start, end))
    line = None if span.source is None else span.source.line(span.line)
    offset = -1 if line is None else line.find(text, span.column - 1, span.end_column - 1)
    if span.end_line != span.line or offset < 0:
        return span
    start = min(start, max(len(text) - 1, 0))
    end = max(start + 1, min(start + 1 if end is None else end, len(text)))
    return Span(span.file, span.line, offset + start + 1, span.line, offset + end + 1, span.source)
