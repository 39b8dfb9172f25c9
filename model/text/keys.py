"""The keys of a mapping: those that it may have, where others belong, and synonyms."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

from model.text.source import MappingNode, Node, ScalarNode, SpecError, did_you_mean
from model.wording import listing

NOWHERE: Mapping[str, str] = MappingProxyType({})


def check_keys(
    node: MappingNode,
    known: Iterable[str],
    what: str,
    required: Iterable[str] = (),
    elsewhere: Mapping[str, str] = NOWHERE,
) -> None:
    """Check that a mapping has none but known keys.

    Parameters
    ----------
    node
        The mapping.
    known
        The keys that it may have.
    what
        Names it in messages.
    required
        Where an unknown key resembles no known one, the message names those of these that are missing as
        well: one of them may be what it was to be. That they are missing is no error here.
    elsewhere
        Keys that belong under another one, and that one.

    Raises
    ------
    SpecError
        At the first key that is unknown.
    """
    names = tuple(known)
    for key, _ in node.entries:
        if key.text in names:
            continue
        if key.text in elsewhere:
            raise SpecError(
                f"unknown key `{key.text}` in {what}", key.span, hint=belongs(key.text, elsewhere)
            )
        raise _unknown_key(key, names, what, [name for name in required if name not in node])


def belongs(key: str, elsewhere: Mapping[str, str]) -> str:
    """Return the hint for a key that belongs under another one.

    Parameters
    ----------
    key
        One of the keys of `elsewhere`.
    elsewhere
        As for `check_keys`.
    """
    return f"`{key}` belongs under `{elsewhere[key]}`"


def _unknown_key(key: ScalarNode, known: Sequence[str], what: str, missing: Sequence[str]) -> SpecError:
    message = f"unknown key `{key.text}` in {what}"
    similar = did_you_mean(key.text, known)
    if missing and similar is None:
        message = f"{message}, which lacks {listing(missing)}"
    return SpecError(message, key.span, hint=similar or f"known keys are {listing(known)}")


def one_of(node: MappingNode, keys: Iterable[str], what: str) -> tuple[ScalarNode, Node] | None:
    """Return the entry whose key is one of several synonyms.

    Parameters
    ----------
    node
        The mapping.
    keys
        The synonyms.
    what
        Names the mapping in messages.

    Returns
    -------
    tuple or None
        The node of the key, and the value, which may be empty; None if there is none.

    Raises
    ------
    SpecError
        Two of the synonyms are given.
    """
    present = [(node.key(key), value) for key in keys if (value := node.get(key)) is not None]
    if len(present) > 1:
        first, second = present[0][0], present[1][0]
        message = f"`{first.text}` and `{second.text}` are two names of one thing in {what}"
        raise SpecError(message, second.span, ((first.span, "first given here"),))
    return present[0] if present else None
