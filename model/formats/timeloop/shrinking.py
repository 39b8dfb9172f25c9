"""From demands that conflict to an irreducible conflict among them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

Part = TypeVar("Part")


def irreducible(parts: Sequence[Part], conflict: Callable[[Sequence[Part]], bool]) -> list[Part]:
    """Return parts that still conflict, of which none can be left out.

    Halves are tried before single parts (Junker's QuickXplain), so that few of many parts are found
    with few trials.
    """
    all_parts = list(parts)
    needed = _needed([], False, all_parts, conflict)
    return [part for part in all_parts if any(part is other for other in needed)]


def _needed(
    background: list[Part], grown: bool, parts: list[Part], conflict: Callable[[Sequence[Part]], bool]
) -> list[Part]:
    """Return the `parts` that conflict with `background`; `grown` says that it has parts it lacked before."""
    if (grown and conflict(background)) or not parts:
        return []
    if len(parts) == 1:
        return parts
    middle = len(parts) // 2
    first, second = parts[:middle], parts[middle:]
    from_second = _needed([*background, *first], True, second, conflict)
    from_first = _needed([*background, *from_second], bool(from_second), first, conflict)
    return [*from_first, *from_second]
