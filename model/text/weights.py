"""How much the values of a template hold, counted without building a text of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from model.text.arithmetic import bounded

SIZED = (str, list, tuple, Mapping)
_BITS_OF_A_CHARACTER = 32


def parts(value: object, limit: int) -> Iterator[object]:
    """Yield a value and all that it holds.

    Raises
    ------
    OverflowError
        It is more, or holds an integer of more than 4096 bits.
    """
    weight = 0
    pending = [value]
    while pending:
        part = pending.pop()
        weight += 1
        if isinstance(part, int):
            weight += bounded(part).bit_length() // _BITS_OF_A_CHARACTER
        if isinstance(part, SIZED):
            weight += len(part)
        if weight > limit:
            raise too_large(limit)
        yield part
        if isinstance(part, (list, tuple)):
            pending += part
        elif isinstance(part, Mapping):
            pending += [*part.keys(), *part.values()]


def too_large(limit: int) -> OverflowError:
    """Return the error for a value of more than `limit` characters."""
    return OverflowError(f"a value of more than {limit} characters")
