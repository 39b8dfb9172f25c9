"""Phrases that the messages of several modules share."""

from __future__ import annotations

from collections.abc import Iterable

MAX_LISTED = 24
"""Names that a message lists at most."""

_TAB_WIDTH = 4
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


def listing(names: Iterable[str]) -> str:
    """Return names for people: ```a`, `b` and `c```, or ``none``; those past `MAX_LISTED` are counted."""
    quoted = [f"`{name}`" for name in names]
    if not quoted:
        return "none"
    if len(quoted) > MAX_LISTED:
        return f"{', '.join(quoted[:MAX_LISTED])} and {len(quoted) - MAX_LISTED} more"
    return quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])} and {quoted[-1]}"


def printable(text: str) -> str:
    """Return one line of text that is safe on a terminal.

    Tabs become blanks; what is not printable, such as control characters and line breaks, becomes U+FFFD.
    """
    widened = text.replace("\t", " " * _TAB_WIDTH)
    return "".join(character if character.isprintable() else _REPLACEMENT for character in widened)
