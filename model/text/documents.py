"""The text of one YAML document, and the way from its positions to what the user wrote."""

from __future__ import annotations

from dataclasses import dataclass

from model.source_ref import Origin
from model.text.source import SourceText, Span


@dataclass(frozen=True, slots=True)
class LineOrigin:
    """The line of a source file that a rendered line comes from (1-based)."""

    source: SourceText
    line: int


@dataclass(frozen=True, slots=True)
class Document:
    """A YAML document.

    Parameters
    ----------
    text : str
        What the YAML parser reads.
    source : SourceText
        The same text in lines.
    origins : tuple of LineOrigin, optional
        For a rendered template, where each line of `source` was written.
    """

    text: str
    source: SourceText
    origins: tuple[LineOrigin, ...] | None = None

    @classmethod
    def of(cls, name: str, text: str, origin: Origin = "file") -> Document:
        """Wrap the text of a file that is no template, or of a setting.

        Parameters
        ----------
        name
            The file as messages name it, or the setting.
        text
            All of it.
        origin
            Which of the two it is.
        """
        return cls(text, SourceText.of(name, text, origin))

    def span(self, line: int, column: int, end_line: int, end_column: int) -> Span:
        """Return the span of a stretch of the text, in terms of the user's files.

        A line that rendering left as it stood in the template keeps its columns. Otherwise the span
        covers the template's line, and carries the stretch of the rendered text with it.

        Parameters
        ----------
        line, column
            Its first character, from 1.
        end_line, end_column
            The character after its last one, from 1.
        """
        written = Span(self.source.name, line, column, end_line, end_column, self.source)
        if self.origins is None:
            return written
        origin = self._origin(line)
        original = origin.source.line(origin.line) or ""
        if original != self.source.line(line):
            return Span(*_whole_line(origin, original), origin.source, rendered=written)
        last = self._origin(end_line)
        if last.source is not origin.source or last.line < origin.line:
            last, end_column = origin, len(original) + 1
        return Span(origin.source.name, origin.line, column, last.line, end_column, origin.source)

    def _origin(self, line: int) -> LineOrigin:
        assert self.origins is not None
        return self.origins[min(line, len(self.origins)) - 1]


def whole_line_span(source: SourceText, line: int) -> Span:
    """Return the span of the visible part of a line."""
    return Span(*_whole_line(LineOrigin(source, line), source.line(line) or ""), source)


def _whole_line(origin: LineOrigin, text: str) -> tuple[str, int, int, int, int]:
    indent = len(text) - len(text.lstrip())
    return origin.source.name, origin.line, indent + 1, origin.line, max(indent + 1, len(text.rstrip())) + 1
