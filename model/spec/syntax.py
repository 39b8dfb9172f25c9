"""Expressions as Python's own syntax trees, never evaluated by Python, with their places in the file."""

from __future__ import annotations

import ast
import warnings
from dataclasses import replace

from model.spec.source import Span, SpecError

LONGEST = 2_000
"""Characters of an expression."""


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
        """Return the syntax tree; SpecError for what is no expression, at the part that is wrong."""
        if not self.text:
            raise SpecError("an expression is missing here", self.span)
        if len(self.text) > LONGEST:
            raise SpecError(f"an expression has at most {LONGEST} characters", self.span)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return ast.parse(self.text, mode="eval").body
        except SyntaxError as error:
            message = f"`{_shortened(self.text)}` is not an expression: {error.msg}"
            raise SpecError(message, self._columns(error.offset, error.end_offset)) from None
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

    def _columns(self, start: int | None, end: int | None) -> Span | None:
        """Return the place of a part given by 1-based columns, as ``SyntaxError`` has them."""
        if start is None:
            return self.span
        return part_of(self.span, self.text, start - 1, None if end is None else end - 1)


def part_of(span: Span | None, text: str, start: int, end: int | None = None) -> Span | None:
    """Return the place of ``text[start:end]``, where `span` is the place of all of `text`.

    Where the file does not hold the text as it is in one line (escapes, folded lines), the answer is
    `span`. An empty part is widened to one character.

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
        return span
    start = min(start, max(len(text) - 1, 0))
    end = max(start + 1, min(start + 1 if end is None else end, len(text)))
    return Span(span.file, span.line, offset + start + 1, span.line, offset + end + 1, span.source)


def _shortened(text: str) -> str:
    return text if len(text) <= 60 else text[:57] + "..."
