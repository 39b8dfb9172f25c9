"""Nodes that know where they were written, and the errors and notes that show these places."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from model.note import Note, Value
from model.source_ref import Origin, SourceRef
from model.wording import printable

Scalar = None | bool | int | float | str

_LINE_END = re.compile("\r\n|[\n\r\x85\u2028\u2029]")
_EXCERPT_WIDTH = 100
_CLIPPED = "..."
_LONGEST_LINE = 2_000


@dataclass(frozen=True, slots=True)
class SourceText:
    """The text of a file, of a rendered template, or of a setting on the command line."""

    name: str  # as messages show it
    lines: tuple[str, ...]  # without line ends
    origin: Origin = "file"

    @classmethod
    def of(cls, name: str, text: str, origin: Origin = "file") -> SourceText:
        """Split `text` at its line ends, as the YAML scanner counts them; an empty one is one line."""
        return cls(name, tuple(_LINE_END.split(text)), origin)

    def line(self, number: int) -> str | None:
        """Return line `number` (1-based), or None beyond the text."""
        if not 1 <= number <= len(self.lines):
            return None
        return self.lines[number - 1]


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of a source file; lines and columns are 1-based, the end is exclusive."""

    file: str
    line: int
    column: int
    end_line: int
    end_column: int
    # Without it a message shows the position only
    source: SourceText | None = field(default=None, compare=False, repr=False)
    # The same stretch in the rendered text, if rendering a template changed the line
    rendered: Span | None = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


@dataclass(frozen=True, slots=True)
class ScalarNode:
    """A scalar: its value by the YAML 1.2 core schema, and the text it was written as."""

    value: Scalar
    text: str  # energies are read from it exactly, as decimals
    quoted: bool  # in quotes or a block scalar, so that its value is text
    span: Span = field(compare=False)
    tag: str | None = None  # explicit, such as `!Component`


@dataclass(frozen=True, slots=True)
class SequenceNode:
    """A list of nodes; comparisons ignore its place."""

    items: tuple[Node, ...]
    span: Span = field(compare=False)
    tag: str | None = None


@dataclass(frozen=True, slots=True)
class MappingNode:
    """A mapping with scalar keys in their order, compared by their text; comparisons ignore its place."""

    entries: tuple[tuple[ScalarNode, Node], ...]  # no key twice
    span: Span = field(compare=False)
    tag: str | None = None
    _positions: dict[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Index the entries by key."""
        positions = {key.text: position for position, (key, _) in enumerate(self.entries)}
        object.__setattr__(self, "_positions", positions)

    def __contains__(self, key: object) -> bool:
        return key in self._positions

    def get(self, key: str) -> Node | None:
        """Return the value under `key`, or None."""
        position = self._positions.get(key)
        return None if position is None else self.entries[position][1]

    def key(self, name: str) -> ScalarNode:
        """Return the node of the key itself; KeyError if it is missing."""
        return self.entries[self._positions[name]][0]

    def require(self, key: str, what: str = "this mapping") -> Node:
        """Return the value under a key, possibly empty; SpecError if it is missing from `what`."""
        value = self.get(key)
        if value is None:
            raise SpecError(f"{what} is missing the key `{key}`", self.span)
        return value

    def keys(self) -> tuple[str, ...]:
        """Return the keys' texts in order."""
        return tuple(self._positions)


Node = ScalarNode | SequenceNode | MappingNode


def values_in(*roots: Node) -> Iterator[Node]:
    """Yield all values but no keys, each once however many aliases refer to it."""
    waiting = list(roots)
    seen: set[int] = set()
    while waiting:
        node = waiting.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        yield node
        if isinstance(node, SequenceNode):
            waiting.extend(node.items)
        elif isinstance(node, MappingNode):
            waiting.extend(value for _, value in node.entries)


def to_plain(node: Node) -> object:
    """Return the node's content as plain Python values: None, bool, int, float, str, list, dict."""
    if isinstance(node, ScalarNode):
        return node.value
    if isinstance(node, SequenceNode):
        return [to_plain(item) for item in node.items]
    return {key.text: to_plain(value) for key, value in node.entries}


class SpecError(Exception):
    """A spec that cannot be used, and where it is wrong; all texts of it are printable.

    Parameters
    ----------
    message : str
        What is wrong, in one line.
    related : tuple of (Span, str)
        Other relevant places, each with its role ("first defined here").
    hint : str, optional
        What would help.
    """

    def __init__(
        self,
        message: str,
        span: Span | None = None,
        related: tuple[tuple[Span, str], ...] = (),
        hint: str | None = None,
    ) -> None:
        super().__init__(message, span, related, hint)
        self.message = printable(message)
        self.span = span
        self.related = tuple((place, printable(text)) for place, text in related)
        self.hint = None if hint is None else printable(hint)

    def __str__(self) -> str:
        text = self.message if self.span is None else f"{self.span}: {self.message}"
        return text if self.hint is None else f"{text}\nhelp: {self.hint}"

    def included_at(self, span: Span) -> SpecError:
        """Return the error with the place of the include that led to it added."""
        if self.span is None:
            return type(self)(self.message, span, self.related, self.hint)
        return type(self)(self.message, self.span, (*self.related, (span, "included here")), self.hint)

    def render(self) -> str:
        """Return the message with places, source lines, carets and hint, as a terminal shows it."""
        spans = [span for span in (self.span, *(place for place, _ in self.related)) if span]
        gutter = max((_gutter_width(span) for span in spans), default=1)
        lines = [f"error: {self.message}"]
        if self.span is not None:
            lines += _excerpt(self.span, gutter)
        for span, text in self.related:
            lines.append(f"note: {text}")
            lines += _excerpt(span, gutter)
        if self.hint is not None:
            lines.append(f"help: {self.hint}")
        return "\n".join(_clipped_line(printable(line)) for line in lines)


class ConflictError(SpecError):
    """Constraints of a spec that no mapping satisfies together."""


def source_ref(span: Span) -> SourceRef:
    """Return the start of `span`, as the canonical types refer to places."""
    origin = "file" if span.source is None else span.source.origin
    return SourceRef(span.file, span.line, span.column, origin)


def excerpts(spans: Iterable[Span]) -> list[list[str]]:
    """Return the lines that show each place: position, source line (if known) and carets, aligned."""
    places = list(spans)
    gutter = max((_gutter_width(span) for span in places), default=1)
    return [_excerpt(span, gutter) for span in places]


def _gutter_width(span: Span) -> int:
    rendered = 0 if span.rendered is None else span.rendered.line
    return len(str(max(span.line, rendered)))


def _excerpt(span: Span, gutter: int) -> list[str]:
    """Return the lines that show one place: position, source line, caret run."""
    lines = [f"{' ' * gutter}--> {span}", *_marked_line(span, gutter)]
    if span.rendered is not None:
        written = span.rendered
        lines.append(f"{' ' * gutter} = in the rendered text of {written.file}, line {written.line}:")
        lines += _marked_line(written, gutter)
    return lines


def _marked_line(span: Span, gutter: int) -> list[str]:
    text = None if span.source is None else span.source.line(span.line)
    if text is None:
        return []
    start = min(span.column - 1, len(text))
    end = len(text) if span.end_line > span.line else min(span.end_column - 1, len(text))
    before, marked, after = (printable(part) for part in (text[:start], text[start:end], text[end:]))
    before, marked, after = _clip(before, marked, after)
    blank = " " * gutter
    return [
        f"{blank} |",
        f"{span.line:>{gutter}} | {before}{marked}{after}".rstrip(),
        f"{blank} | {' ' * len(before)}{'^' * max(1, len(marked.rstrip()))}",
    ]


def _clipped_line(line: str) -> str:
    return line if len(line) <= _LONGEST_LINE else line[: _LONGEST_LINE - len(_CLIPPED)] + _CLIPPED


def _clip(before: str, marked: str, after: str) -> tuple[str, str, str]:
    """Shorten a long line around its marked part."""
    if len(before) + len(marked) + len(after) <= _EXCERPT_WIDTH:
        return before, marked, after
    if len(marked) > _EXCERPT_WIDTH // 2:
        marked, after = marked[: _EXCERPT_WIDTH // 2], _CLIPPED
    room = (_EXCERPT_WIDTH - len(marked)) // 2
    if len(before) > room:
        before = _CLIPPED + before[len(before) - room + len(_CLIPPED) :]
    if len(after) > room:
        after = after[: room - len(_CLIPPED)] + _CLIPPED
    return before, marked, after


@dataclass(frozen=True, slots=True)
class LineOrigin:
    """The line of a source file that a rendered line comes from (1-based)."""

    source: SourceText
    line: int


@dataclass(frozen=True, slots=True)
class Document:
    """The text of one YAML document, and where the user wrote it."""

    text: str
    source: SourceText  # the same text in lines
    origins: tuple[LineOrigin, ...] | None = None  # of each line, for a rendered template

    @classmethod
    def of(cls, name: str, text: str, origin: Origin = "file") -> Document:
        """Return the document of a file that is no template, or of a setting."""
        return cls(text, SourceText.of(name, text, origin))

    def span(self, line: int, column: int, end_line: int, end_column: int) -> Span:
        """Return the span of a stretch of the text in the user's files; lines, columns and end as in `Span`.

        A line that rendering did not change keeps its columns. Otherwise the span covers the template's line,
        with the stretch of the rendered text beside it.
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


def spans_of(*documents: Node) -> dict[SourceRef, Span]:
    """Return the span of each place at which a node starts: that of the shortest, as constraints point at."""
    spans: dict[SourceRef, Span] = {}
    for span in (span for node in values_in(*documents) for span in _spans_of(node)):
        place = source_ref(span)
        known = spans.get(place)
        if known is None or _end_of(span) < _end_of(known):
            spans[place] = span
    return spans


def _spans_of(node: Node) -> list[Span]:
    """Return the places of a node and of its keys."""
    keys = [key.span for key, _ in node.entries] if isinstance(node, MappingNode) else []
    return [node.span, *keys]


def _end_of(span: Span) -> tuple[int, int]:
    return span.end_line, span.end_column


TakeNote = Callable[[Note], None]
"""Takes the notes of those who read a spec."""


def note_at(span: Span | None, sentence: str, *values: Value) -> Note:
    """Return a note about the text at `span`, with printable values; see `Note`."""
    shown = tuple(printable(value) if isinstance(value, str) else value for value in values)
    return Note(sentence, shown, None if span is None else source_ref(span))
