"""Errors that say which Einsum they are about: templates make many Einsums of one line."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from model.text.source import SpecError


@contextmanager
def within(einsum: str | None) -> Iterator[None]:
    """Name the Einsum in errors that are met inside, but for those that name it themselves.

    Raises
    ------
    SpecError
        The error that was met; as it is if nobody knows the Einsum's name.
    """
    try:
        yield
    except SpecError as error:
        if einsum is None or ("Einsum" in error.message and f"`{einsum}`" in error.message):
            raise
        message = f"Einsum `{einsum}`: {error.message}"
        raise type(error)(message, error.span, error.related, error.hint) from None
