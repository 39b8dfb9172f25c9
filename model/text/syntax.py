"""Expressions as Python's own syntax trees, never evaluated by Python, with their places in the file."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

from model.text.source import SourceText, Span, SpecError

LONGEST = 2_000
"""Characters of an expression."""

_FLOW_HINT = "a comma ends a value in `{...}` and `[...]`; write the mapping in lines of its own"
_WITH_UNIT = re.compile(r"[-+]?\d[\d.]*(?:[eE][-+]?\d+)? ?([A-Za-zµ%][\w/%]*)")
_MESH = re.compile(r"\d+ ?[xX] ?\d+")
UNITS_HINT = (
    "a number has the unit of its attribute (depth: rows; bandwidths: words per cycle and instance; "
    "times: seconds): convert it, and write it alone"
)
_IN_GROUPS = re.compile(r"\d{1,3}(?:[ ,']\d{3})+")
_QUOTES = ("'", '"')
_BLOCKS = ("|", ">")


class ExpressionText:
    """The text of one expression and where it stands.

    Parameters
    ----------
    text
        The expression; line ends count as blanks.
    span
        Its place, None where it does not stand in a file.
    """

    def __init__(self, text: str, span: Span | None) -> None:
        self.text = " ".join(text.split("\n")).strip()
        self.span = span

    def parse(self) -> ast.expr:
        """Return the syntax tree.

        Raises
        ------
        SpecError
            For what is no expression, at the part that is wrong; for an empty one, and one that is too long
            or nested too deep.
        """
        if not self.text:
            raise SpecError("an expression is missing here", self.span)
        if len(self.text) > LONGEST:
            raise SpecError(f"an expression has at most {LONGEST} characters", self.span)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return ast.parse(self.text, mode="eval").body
        except SyntaxError as error:
            raise self._slip() or self._syntax_error(error) from None
        except ValueError as error:
            message = f"`{_shortened(self.text)}` is not an expression: {error}"
            raise SpecError(message, self.span) from None
        except (RecursionError, MemoryError):
            raise SpecError("the expression is nested too deep", self.span) from None

    def at(self, node: ast.expr) -> Span | None:
        """Return the place of a part of the tree."""
        before = self.text.encode()[: node.col_offset].decode()
        upto = self.text.encode()[: node.end_col_offset].decode()
        return part_of(self.span, self.text, len(before), len(upto))

    def of(self, node: ast.expr) -> str:
        """Return the text of a part of the tree."""
        return self.text.encode()[node.col_offset : node.end_col_offset].decode()

    def _slip(self) -> SpecError | None:
        """Return the error for a number with something to it; Python speaks of something else there."""
        followed = _WITH_UNIT.fullmatch(self.text)
        if _MESH.fullmatch(self.text):
            problem, hint = "it is two numbers", "sides of a mesh are apart: `{meshX: ..., meshY: ...}`"
        elif followed:
            problem, hint = f"a number is followed by `{followed[1]}`", UNITS_HINT
        elif _IN_GROUPS.fullmatch(self.text):
            problem, hint = "digits are not grouped", f"write {re.sub('[^0-9]', '', self.text)}"
        else:
            return None
        return SpecError(f"`{_shortened(self.text)}` is not an expression: {problem}", self.span, hint=hint)

    def _syntax_error(self, error: SyntaxError) -> SpecError:
        message = f"`{_shortened(self.text)}` is not an expression: {error.msg}"
        hint = _FLOW_HINT if "never closed" in error.msg else None
        return SpecError(message, self._columns(error.offset, error.end_offset), hint=hint)

    def _columns(self, start: int | None, end: int | None) -> Span | None:
        """Return the place of a part given by 1-based columns, as ``SyntaxError`` has them."""
        if start is None:
            return self.span
        return part_of(self.span, self.text, start - 1, None if end is None else end - 1)


def part_of(span: Span | None, text: str, start: int, end: int | None = None) -> Span | None:
    """Return the place of ``text[start:end]``, where `span` is the place of all of `text`.

    Where the file does not hold the text as it is (escapes), the answer is `span`. An empty part is
    widened to one character.

    Parameters
    ----------
    span
        Place of the scalar.
    text
        The scalar's text.
    start, end
        0-based, the end is exclusive; None for the end means one character.
    """
    if span is None:
        return None
    if span.rendered is not None:
        return replace(span, rendered=part_of(span.rendered, text, start, end))
    line = None if span.source is None else span.source.line(span.line)
    offset = -1 if line is None else line.find(text, span.column - 1, span.end_column - 1)
    if span.end_line != span.line or offset < 0:
        return _part_of_lines(span, text, start, end)
    start = min(start, max(len(text) - 1, 0))
    end = max(start + 1, min(start + 1 if end is None else end, len(text)))
    return Span(span.file, span.line, offset + start + 1, span.line, offset + end + 1, span.source)


def _part_of_lines(span: Span, text: str, start: int, end: int | None) -> Span:
    """Return the place of a part of a text that stands in several lines, as blocks and folded texts do.

    The file must have the same characters in the same order, blanks aside.
    """
    if span.source is None or len(text) > LONGEST:
        return span
    wanted = [(place, character) for place, character in enumerate(text) if not character.isspace()]
    written = list(islice(_characters(span, span.source), len(wanted)))
    if [character for _, character in wanted] != [character for _, _, character in written]:
        return span
    last = start + 1 if end is None else max(start + 1, end)
    inside = [at for at, (place, _) in zip(written, wanted, strict=True) if start <= place < last]
    if not inside:
        return span
    (line, column, _), (end_line, end_column, _) = inside[0], inside[-1]
    return Span(span.file, line, column, end_line, end_column + 1, span.source)


def _characters(span: Span, source: SourceText) -> Iterator[tuple[int, int, str]]:
    """Yield the characters of a scalar with their lines and columns, without blanks and its first mark."""
    for number in range(span.line, span.end_line + 1):
        line = source.line(number) or ""
        first = span.column - 1 if number == span.line else 0
        if number == span.line and line[first : first + 1] in _QUOTES:
            first += 1
        elif number == span.line and line[first : first + 1] in _BLOCKS:
            continue
        characters = enumerate(line[first:], first + 1)
        yield from ((number, column, c) for column, c in characters if not c.isspace())


def _shortened(text: str) -> str:
    return text if len(text) <= 60 else text[:57] + "..."
