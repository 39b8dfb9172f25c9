"""Syntax trees of expressions that users write, within limits; nothing is evaluated."""

from __future__ import annotations

import ast
import warnings

LONGEST = 2_000
"""Characters of an expression."""

DEEPEST = 50
"""Levels of nesting in an expression."""

NESTED = "the expression is nested too deep"


class ExpressionError(ValueError):
    """What is wrong with an expression, and where.

    Attributes
    ----------
    message, hint
        For people; there need be no hint.
    start, end
        Characters of the text, counted from 0, the end exclusive; None where the whole text is meant, or
        where the end is not known.
    is_syntax
        Whether the text is no expression at all.
    """

    def __init__(
        self,
        message: str,
        start: int | None = None,
        end: int | None = None,
        hint: str | None = None,
        is_syntax: bool = False,
    ) -> None:
        super().__init__(message)
        self.message, self.start, self.end, self.hint = message, start, end, hint
        self.is_syntax = is_syntax


def syntax_tree(text: str) -> ast.expr:
    """Return the syntax tree of one line of text; `ExpressionError` if it is no expression, or too large."""
    if not text:
        raise ExpressionError("an expression is missing here")
    if len(text) > LONGEST:
        raise ExpressionError(f"an expression has at most {LONGEST} characters")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(text, mode="eval").body
    except SyntaxError as error:
        message = f"`{shortened(text)}` is not an expression: {error.msg}"
        start = None if error.offset is None else max(0, error.offset - 1)
        end = None if error.end_offset is None else error.end_offset - 1
        raise ExpressionError(message, start, end, is_syntax=True) from None
    except ValueError as error:
        raise ExpressionError(f"`{shortened(text)}` is not an expression: {error}") from None
    except (RecursionError, MemoryError):
        raise ExpressionError(NESTED) from None


def extent_of(text: str, node: ast.expr) -> tuple[int, int]:
    """Return which characters of a text a part of its tree comes from: the first, and that after the last."""
    before = text.encode()[: node.col_offset].decode()
    upto = text.encode()[: node.end_col_offset].decode()
    return len(before), len(upto)


def shortened(text: str) -> str:
    """Return a text, cut where it is long."""
    return text if len(text) <= 60 else text[:57] + "..."
