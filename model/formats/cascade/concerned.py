"""Errors of Einsums or layers on one architecture, with the names of those that meet them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from model.text.source import Span, SpecError
from model.wording import listing

MOST_COMPARED = 20
"""Others that are read to see whether they meet an error as well, each of which takes milliseconds."""

Read = TypeVar("Read")


@dataclass(frozen=True)
class Reader(Generic[Read]):
    """What reads one of several, and what it is called.

    Parameters
    ----------
    name
        Of the Einsum or layer.
    read
        Reads it; raises SpecError.
    place
        Stands for it in errors that have no better place, so that these differ in it.
    file
        Is its own: errors in it need no name.
    """

    name: str
    read: Callable[[], Read]
    place: Span | None = None
    file: str | None = None


def read_each(readers: Iterable[Reader[Read]], what: str) -> tuple[Read, ...]:
    """Read all of them.

    Parameters
    ----------
    readers
        In order.
    what
        They are, in the singular, for messages.

    Raises
    ------
    SpecError
        The first that is met, with the names of those that meet it; without any, and without a place that
        stands for one, where all do: then it is one of what they share.
    """
    in_order, values = tuple(readers), list[Read]()
    for place, reader in enumerate(in_order):
        try:
            values.append(reader.read())
        except SpecError as error:
            raise _named(error, in_order, place, what) from None
    return tuple(values)


def _named(error: SpecError, readers: Sequence[Reader[Read]], place: int, what: str) -> SpecError:
    failed, later = readers[place], readers[place + 1 : place + 1 + MOST_COMPARED]
    if len(readers) == 1 or (error.span is not None and error.span.file == failed.file):
        return error
    concerned = [failed.name, *(other.name for other in later if _met(other) == _key(error, failed))]
    some_pass = place > 0 or len(concerned) <= len(later)
    says_so = what in error.message and f"`{failed.name}`" in error.message
    if not some_pass:
        return type(error)(error.message, _key(error, failed)[1], error.related, error.hint)
    if says_so:
        return error
    number = what if len(concerned) == 1 else f"{what}s"
    message = f"{number} {listing(concerned)}: {error.message}"
    return type(error)(message, error.span, error.related, error.hint)


def _met(reader: Reader[Read]) -> tuple[str, Span | None] | None:
    """Return the key of the error that a reader meets, None without one."""
    try:
        reader.read()
    except SpecError as error:
        return _key(error, reader)
    return None


def _key(error: SpecError, reader: Reader[Read]) -> tuple[str, Span | None]:
    """Return what is the same in errors of one cause."""
    return error.message, None if error.span == reader.place else error.span
