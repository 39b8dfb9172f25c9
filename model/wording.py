"""Phrases that the messages of several modules share."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import SequenceMatcher, get_close_matches
from itertools import islice

MAX_LISTED = 24
"""Names that a message lists at most."""

_LONGEST_WORD = 200
_MOST_CANDIDATES = 2_000
_ALIKE = 0.75
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


def suggestion(word: str, known: Iterable[str], otherwise: str) -> str:
    """Return which of the known words was meant, if one is similar; else all of them, after `otherwise`."""
    words = tuple(known)
    return did_you_mean(word, words) or f"{otherwise} {listing(words)}"


def did_you_mean(word: str, candidates: Iterable[str]) -> str | None:
    """Return a hint with the candidate that a word may be a slip of, or None."""
    meant = nearest(word, candidates)
    return None if meant is None else f"did you mean `{meant}`?"


def nearest(word: str, candidates: Iterable[str]) -> str | None:
    """Return the candidate that a word may be a slip of, or None.

    A candidate that differs only in case, dashes or underscores is preferred; with another first letter, it
    must be closer. Words of over 200 characters and candidates after the first 2000 would take too long.
    """
    if len(word) > _LONGEST_WORD:
        return None
    known = dict.fromkeys(islice(candidates, _MOST_CANDIDATES))
    names = [name for name in known if len(name) <= _LONGEST_WORD]
    folded = [name for name in names if fold_name(name) == fold_name(word) and name != word]
    close = folded or [
        name for name in get_close_matches(word, names, n=3, cutoff=0.6) if _may_be_slip(name, word)
    ]
    return close[0] if close else None


def _may_be_slip(name: str, word: str) -> bool:
    """Whether a word may be a slip of a name close to it: few slips change the first letter."""
    same_start = name[:1].casefold() == word[:1].casefold()
    return name != word and (same_start or SequenceMatcher(None, name, word).ratio() >= _ALIKE)


def fold_name(name: str) -> str:
    """Return `name` without what people vary: case, dashes and underscores."""
    return name.casefold().replace("-", "").replace("_", "")
