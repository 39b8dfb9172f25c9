"""Marks in rendered text that tell from which line of which template each line comes.

A mark is one private-use character, put behind every line end of a template before it is rendered
and taken out afterwards; so it survives loops, conditions, and text that is spliced in.
"""

from __future__ import annotations

import re
from pathlib import Path

from model.text.documents import Document, LineOrigin, whole_line_span
from model.text.source import SourceText, SpecError

_FIRST = 0xF0000
_LAST = 0x10FFFD
_MARK = re.compile(f"[{chr(_FIRST)}-{chr(_LAST)}]")
_LINE_START = re.compile(rf"(?:\s|{_MARK.pattern})*")


def without_marks(text: str) -> str:
    """Return `text` without the marks that it may hold."""
    return _MARK.sub("", text)


class LineMarks:
    """The lines of the templates that make up one document, numbered."""

    def __init__(self) -> None:
        self._origins: list[LineOrigin] = []
        self._first: dict[Path, int] = {}

    def register(self, path: Path, source: SourceText) -> int:
        """Give the lines of a template their numbers and return the first.

        Raises
        ------
        SpecError
            If the template itself holds characters that serve as marks, or the lines are too many.
        """
        for number, line in enumerate(source.lines, start=1):
            if _MARK.search(line):
                message = "a private-use character cannot stand in a template"
                raise SpecError(message, whole_line_span(source, number))
        if path not in self._first:
            self._first[path] = len(self._origins)
            self._origins += [LineOrigin(source, number) for number in range(1, len(source.lines) + 1)]
        if len(self._origins) > _LAST - _FIRST:
            raise SpecError("the templates have too many lines", whole_line_span(source, 1))
        return self._first[path]

    @staticmethod
    def mark(number: int) -> str:
        """Return the mark of a line."""
        return chr(_FIRST + number)

    @classmethod
    def marked(cls, text: str, number: int) -> str:
        """Return a text with a mark at the start of each line but the first."""
        first, *others = text.split("\n")
        return "\n".join([first, *(cls.mark(number + i) + line for i, line in enumerate(others, start=1))])

    def document(self, name: str, marked: str) -> Document:
        """Return a rendered text without its marks, and with the origins of its lines."""
        origins = []
        current = 0
        for line in SourceText.of(name, marked).lines:
            start = _LINE_START.match(line)
            current = self._last_number(start.group() if start else "", current)
            origins.append(self._origins[current])
            current = self._last_number(line, current)
        text = without_marks(marked)
        return Document(text, SourceText.of(name, text), tuple(origins))

    def _last_number(self, text: str, otherwise: int) -> int:
        """Return the number of the last mark; a template can print false ones, which do not count."""
        marks = _MARK.findall(text)
        number = ord(marks[-1]) - _FIRST if marks else otherwise
        return number if number < len(self._origins) else otherwise
